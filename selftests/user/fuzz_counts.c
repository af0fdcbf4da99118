// SPDX-License-Identifier: GPL-2.0
/*
 * The fuzzer's model of the hypervisor's events, after Documentation/abi.rst,
 * "Events of the hypervisor": a vCPU's exit reasons, the counts of KVM and of the
 * scheduler, and the content of the vCPU's area, with slots that overflow.
 */
#include <asm/svm.h>
#include <asm/vmx.h>

#include "fuzz_host.h"
#include "pv_perf.h"
#include "pv_perf_features.h"
#include "pv_perf_event.h"

#define ALL_COUNTS	(BIT(KVM_PERF_NR_COUNTS) - 1)
#define BURST_NS	(10 * NSEC_PER_MSEC)

/* Numbers that KVM and the scheduler count. */
struct numbers {
	const struct task_struct *thread;
	u64 halt_ns;
	u64 preemptions;
	u64 steal_ns;
};

static struct model_counts {
	u32 wanted;
	u64 pending[KVM_PERF_NR_COUNTS][2];
	int exit;		/* since the last update; -1: none */
	bool ours;		/* the last exit was for the pair, as far as is known */
	bool irq;		/* the vCPU has entered with an interrupt */
	bool nested;
	bool user;
	u64 ip[2];
	bool overflowed;	/* an event has, since the last exit */
	bool nmi_is_ours;
	bool nmi_owed;
	bool irq_waits;		/* until after the NMI of a sample */
	u64 since;
	struct numbers was;
} model[NR_VCPUS];

static bool *written[NR_VCPUS];
static u32 allowed;
bool counts_unsure;

/* Other threads that may run a vCPU, with numbers that task_create() does not use. */
static struct task_struct strangers[NR_VCPUS];

/* The vCPU's rate of overflows at its entry. */
static enum rate {
	ANY_RATE,
	LAST_AT_RATE,
	RATE_EXCEEDED,
	NO_RATE,
} rate;

static struct pv_perf_rate old_rate, want_rate;
static u64 nr_exits;

/* Numbers that the host reads before the vCPU enters */

static struct numbers numbers_now(int vcpu)
{
	const struct kvm_vcpu_stat *stat = &vcpus[vcpu]->stat;

	return (struct numbers){
		.thread = current,
		.halt_ns = stat->generic.halt_wait_ns +
			   stat->generic.halt_poll_success_ns +
			   stat->generic.halt_poll_fail_ns,
		.preemptions = current->nivcsw,
		.steal_ns = current->sched_info.run_delay,
	};
}

static void clear(int vcpu, u32 wanted)
{
	model[vcpu] = (struct model_counts){
		.wanted = wanted, .exit = -1, .since = clock_ns,
		.was = numbers_now(vcpu),
	};
}

static void add(struct model_counts *c, int nr, u64 n)
{
	if (c->wanted >> nr & 1)
		c->pending[nr][c->user] += n;
}

static void add_exit(struct model_counts *c)
{
	if (c->exit < 0)
		return;

	if (c->exit == KVM_PERF_COUNT_EXITS_NMI && c->overflowed)
		c->exit = KVM_PERF_COUNT_EXITS_PV_PERF;
	else if (c->nested)
		c->exit = KVM_PERF_COUNT_EXITS_NESTED;
	add(c, c->exit, 1);
	c->ours = c->exit == KVM_PERF_COUNT_EXITS_PV_PERF;
	c->exit = -1;
	c->overflowed = false;
}

static void add_numbers(struct model_counts *c, int vcpu)
{
	struct numbers now = numbers_now(vcpu);
	bool same = now.thread == c->was.thread;
	u64 steal = same ? now.steal_ns - c->was.steal_ns : 0;
	/* The vCPU halted, and then waited for a CPU. */
	u64 halted = now.halt_ns - c->was.halt_ns;
	u64 halt = halted > steal ? halted - steal : 0;
	u64 out = clock_ns - c->since;

	if (same)
		add(c, KVM_PERF_COUNT_PREEMPTIONS,
		    now.preemptions - c->was.preemptions);
	add(c, KVM_PERF_COUNT_STEAL_NS, steal);
	add(c, KVM_PERF_COUNT_HALT_NS, halt);
	if (out > steal + halt && !c->ours)
		add(c, KVM_PERF_COUNT_HOST_NS, out - steal - halt);
	c->was = now;
	c->since = clock_ns;
}

static bool any_pending(const struct model_counts *c)
{
	u64 any = 0;
	int i;

	for (i = 0; i < KVM_PERF_NR_COUNTS; i++)
		any |= c->pending[i][0] | c->pending[i][1];
	return any;
}

/* The guest's memory */

static u64 passed(const struct model_counts *c, const struct guest_perf_slot *slot)
{
	u64 n = 0;
	int i;

	for (i = 0; i < KVM_PERF_NR_COUNTS; i++) {
		if (!(slot->counts >> i & 1))
			continue;
		if (!(slot->exclude & KVM_PERF_ATTR_EXCLUDE_KERNEL))
			n += c->pending[i][0];
		if (!(slot->exclude & KVM_PERF_ATTR_EXCLUDE_USER))
			n += c->pending[i][1];
	}
	return n;
}

/* Returns true if the host must tell the guest of it. */
static bool count_down(const struct model_counts *c, bool owed,
		       struct guest_perf_slot *slot)
{
	bool overflown = (s64)slot->left <= 0;

	slot->left -= passed(c, slot);
	if ((s64)slot->left > 0)
		return false;
	if (overflown)
		return owed;

	slot->user = c->user;
	if (slot->exclude & KVM_PERF_ATTR_EXCLUDE_KERNEL)
		slot->user = 1;
	else if (slot->exclude & KVM_PERF_ATTR_EXCLUDE_USER)
		slot->user = 0;
	slot->ip = c->ip[slot->user];
	return true;
}

static bool count_down_all(const struct model_counts *c,
			   struct guest_perf_area *memory)
{
	bool owed = false;
	int i;

	for (i = 0; i < KVM_PERF_NR_SLOTS; i++)
		if (memory->slots >> i & 1)
			owed |= count_down(c, c->nmi_owed, &memory->slot[i]);
	return owed;
}

static void put_counts(struct model_counts *c, struct guest_perf_area *memory)
{
	int i;

	memory->reserved = 0;
	if (rate != NO_RATE)
		c->nmi_owed = count_down_all(c, memory);
	for (i = 0; i < KVM_PERF_NR_COUNTS; i++) {
		memory->count[i][0] += c->pending[i][0];
		memory->count[i][1] += c->pending[i][1];
	}
	memset(c->pending, 0, sizeof(c->pending));
}

/* Has the host told KVM that it has written the page? */
static bool *dirty_flag(gpa_t gpa)
{
	struct kvm_memory_slot *slot = gfn_to_memslot(kvm, gpa_to_gfn(gpa));

	return slot ? &slot->dirty[gpa_to_gfn(gpa) - slot->base_gfn] : NULL;
}

static bool write_counts(int vcpu)
{
	const struct model_area *a = &area[vcpu];

	if (!a->epoch || !model_page(a->gpa, true))
		return false;

	put_counts(&model[vcpu], (void *)(model_memory + a->gpa));
	written[vcpu] = dirty_flag(a->gpa);
	return true;
}

/* Only if NMIs are still wanted after the slots were read. */
static void send_nmi(int vcpu)
{
	s64 ns = NSEC_PER_SEC / (*param_pv_perf_max_rate ? : 1);
	struct model_counts *c = &model[vcpu];

	if (!c->nmi_owed || vcpus[vcpu]->arch.guest_mode ||
	    rate == RATE_EXCEEDED || rate == NO_RATE)
		return;

	c->nmi_owed = false;
	c->irq_waits = vcpus[vcpu]->arch.has_interrupt;
	if (want_rate.time + ns - want_rate.clock > BURST_NS) {
		want_rate.clock = clock_ns;
		want_rate.time = max_t(s64, want_rate.time, clock_ns);
	}
	want_rate.time += ns;
	model_nmi(vcpu, false);
}

/* Returns false if the host has not written all to the guest's memory. */
static bool update(int vcpu)
{
	struct model_counts *c = &model[vcpu];

	add_exit(c);
	add_numbers(c, vcpu);
	if (!any_pending(c) && !c->nmi_owed)
		return true;

	if (!area[vcpu].epoch) {
		clear(vcpu, 0);
		return false;
	}
	area[vcpu].generation = kvm->memslots.generation;
	return write_counts(vcpu);
}

/* The host tells of the entry's numbers after the next exit. */
void model_counts_enter(int vcpu)
{
	struct model_counts *c = &model[vcpu];

	if (!c->wanted)
		return;

	add_numbers(c, vcpu);
	c->irq = vcpus[vcpu]->arch.interrupt.injected &&
		 !vcpus[vcpu]->arch.guest_mode;
	if (c->irq)
		c->irq_waits = false;
	if (c->nested && c->nmi_owed && !vcpus[vcpu]->arch.guest_mode) {
		c->nested = false;
		request[vcpu] = true;
	}
}

bool model_counts_wanted(int vcpu)
{
	return model[vcpu].wanted;
}

void model_counts_tell(int vcpu)
{
	if (model[vcpu].wanted && update(vcpu))
		send_nmi(vcpu);
}

/* An operation of a batch, or the end of KVM_RUN, may have changed the memory. */
void model_counts_flush(int vcpu)
{
	struct model_counts *c = &model[vcpu];

	if (!c->wanted)
		return;

	counts_unsure |= area[vcpu].epoch &&
			 model_reads_pmc(area[vcpu].gpa, sizeof(struct guest_perf_area));
	update(vcpu);
}

/* Other changes */

u32 model_counts_allowed(void)
{
	return allowed;
}

int model_counts_set(int vcpu, u64 wanted)
{
	if (wanted & ~(u64)ALL_COUNTS)
		return -KVM_EINVAL;
	if (wanted & ~(u64)allowed)
		return -KVM_EOPNOTSUPP;
	if (!area[vcpu].epoch)
		return -KVM_EINVAL;

	model_counts_flush(vcpu);
	if (model[vcpu].wanted && wanted)
		model[vcpu].wanted = wanted;
	else
		clear(vcpu, wanted);
	return 0;
}

void model_counts_end(int vcpu)
{
	if (model[vcpu].wanted)
		clear(vcpu, 0);
}

void model_counts_overflow(int vcpu)
{
	model[vcpu].overflowed = true;
}

void model_counts_nmi(int vcpu)
{
	model[vcpu].nmi_is_ours = true;
}

/* Exit reasons */

/* The counts of these exits depend on more than the reason. */
enum {
	FAULT = KVM_PERF_MAX_COUNTS,
	CALL,
	NMI_END,
};

static const struct exit {
	u8 vendor;
	u8 count;
	u32 reason;
	u32 intr_info;
} exits[] = {
#define SVM(reason, count) { X86_VENDOR_AMD, count, SVM_EXIT_##reason }
#define VMX(reason, count) { X86_VENDOR_INTEL, count, EXIT_REASON_##reason }
	SVM(IOIO, KVM_PERF_COUNT_EXITS_IO),
	SVM(NPF, FAULT),
	SVM(MSR, KVM_PERF_COUNT_EXITS_MSR),
	SVM(CPUID, KVM_PERF_COUNT_EXITS_CPUID),
	SVM(HLT, KVM_PERF_COUNT_EXITS_HLT),
	SVM(INTR, KVM_PERF_COUNT_EXITS_INTERRUPT),
	SVM(VINTR, KVM_PERF_COUNT_EXITS_INTERRUPT),
	SVM(NMI, KVM_PERF_COUNT_EXITS_NMI),
	SVM(IRET, NMI_END),
	SVM(VMMCALL, CALL),
	SVM(PAUSE, KVM_PERF_COUNT_EXITS_OTHER),
	SVM(ERR, KVM_PERF_COUNT_EXITS_OTHER),
	VMX(IO_INSTRUCTION, KVM_PERF_COUNT_EXITS_IO),
	VMX(EPT_VIOLATION, FAULT),
	VMX(EPT_MISCONFIG, KVM_PERF_COUNT_EXITS_MMIO),
	VMX(APIC_ACCESS, KVM_PERF_COUNT_EXITS_MMIO),
	VMX(APIC_WRITE, KVM_PERF_COUNT_EXITS_MMIO),
	VMX(MSR_READ, KVM_PERF_COUNT_EXITS_MSR),
	VMX(MSR_WRITE, KVM_PERF_COUNT_EXITS_MSR),
	VMX(CPUID, KVM_PERF_COUNT_EXITS_CPUID),
	VMX(HLT, KVM_PERF_COUNT_EXITS_HLT),
	VMX(EXTERNAL_INTERRUPT, KVM_PERF_COUNT_EXITS_INTERRUPT),
	VMX(INTERRUPT_WINDOW, KVM_PERF_COUNT_EXITS_INTERRUPT),
	VMX(PREEMPTION_TIMER, KVM_PERF_COUNT_EXITS_INTERRUPT),
	VMX(NMI_WINDOW, NMI_END),
	VMX(VMCALL, CALL),
	VMX(CR_ACCESS, KVM_PERF_COUNT_EXITS_OTHER),
	{ X86_VENDOR_INTEL, KVM_PERF_COUNT_EXITS_NMI,
	  EXIT_REASON_EXCEPTION_NMI, 0x80000202 },
	{ X86_VENDOR_INTEL, KVM_PERF_COUNT_EXITS_OTHER,
	  EXIT_REASON_EXCEPTION_NMI, 0x80000306 },
	/* An exit of an enclave, and a failed entry. */
	{ X86_VENDOR_INTEL, KVM_PERF_COUNT_EXITS_CPUID,
	  EXIT_REASON_CPUID | 1u << 27 },
	{ X86_VENDOR_INTEL, KVM_PERF_COUNT_EXITS_OTHER, 33 | 1u << 31 },
};

static int nmi_end(struct model_counts *c, bool pending)
{
	if (c->nested || !c->nmi_is_ours)
		return KVM_PERF_COUNT_EXITS_NMI;

	c->nmi_is_ours = pending;
	return KVM_PERF_COUNT_EXITS_PV_PERF;
}

static int count_of(int vcpu, const struct exit *exit, gpa_t gpa, u64 rax)
{
	struct model_counts *c = &model[vcpu];

	switch (exit->count) {
	case FAULT:
		return gfn_to_memslot(kvm, gpa_to_gfn(gpa)) ?
		       KVM_PERF_COUNT_EXITS_NPF : KVM_PERF_COUNT_EXITS_MMIO;
	case CALL:
		return rax == KVM_PERF_OP && !c->user ?
		       KVM_PERF_COUNT_EXITS_PV_PERF :
		       KVM_PERF_COUNT_EXITS_HYPERCALL;
	case NMI_END:
		return nmi_end(c, vcpus[vcpu]->arch.nmi_pending);
	case KVM_PERF_COUNT_EXITS_INTERRUPT:
		return c->irq_waits ? KVM_PERF_COUNT_EXITS_PV_PERF :
				      KVM_PERF_COUNT_EXITS_INTERRUPT;
	default:
		return exit->count;
	}
}

static void model_exit(int vcpu, const struct exit *exit, gpa_t gpa, u64 rax,
		       bool user, u64 ip)
{
	struct model_counts *c = &model[vcpu];

	if (!c->wanted)
		return;

	if (c->irq && !vcpus[vcpu]->arch.interrupt.injected)
		add(c, KVM_PERF_COUNT_INJECTED_IRQS, 1);
	c->irq = false;
	c->nested = vcpus[vcpu]->arch.guest_mode;
	if (!c->nested) {
		c->user = user;
		c->ip[user] = ip;
	}
	c->exit = count_of(vcpu, exit, gpa, rax);
	c->ours = c->exit == KVM_PERF_COUNT_EXITS_PV_PERF;
	c->since = clock_ns;
	request[vcpu] = true;
}

static void leave_guest(struct kvm_vcpu *vcpu, const struct exit *exit, gpa_t gpa,
			u64 rax, bool user, u64 ip)
{
	int vendor = boot_cpu_data.x86_vendor;
	unsigned long flags;

	vcpu->arch.exit.reason = exit->reason;
	vcpu->arch.exit.intr_info = exit->intr_info;
	vcpu->arch.exit.gpa = gpa;
	vcpu->arch.exit.rip = ip;
	vcpu->arch.exit.rax = rax;
	vcpu->arch.cpl = user ? 3 : nr_exits % 3;
	boot_cpu_data.x86_vendor = exit->vendor;
	local_irq_save(flags);
	pv_perf_exit(vcpu);
	local_irq_restore(flags);
	boot_cpu_data.x86_vendor = vendor;
	vcpu->arch.cpl = 0;
}

static void exit_guest(int vcpu, bool user)
{
	u8 n = get(1);
	const struct exit *exit = &exits[n % ARRAY_SIZE(exits)];
	u64 ip = 0x1000 + nr_exits++ * 16, rax = 0;
	gpa_t gpa = 0;

	if (exit->count == FAULT)
		gpa = get_number(64) * PAGE_SIZE;
	else if (exit->count == CALL)
		rax = KVM_PERF_OP - n / 128;
	if (trace)
		fprintf(stderr, "  exit 0x%x of %s mode\n", exit->reason,
			user ? "user" : "kernel");
	model_exit(vcpu, exit, gpa, rax, user, ip);
	leave_guest(vcpus[vcpu], exit, gpa, rax, user, ip);
}

/* Entries */

static void counts_begin_entry(int vcpu)
{
	struct pv_perf_vcpu *pv = vcpus[vcpu]->arch.pv_perf;

	old_rate = pv->overflow_rate;
	if (rate == LAST_AT_RATE)
		pv->overflow_rate.time = clock_ns + BURST_NS;
	else if (rate == RATE_EXCEEDED)
		pv->overflow_rate.time = clock_ns + BURST_NS + 1;
	*param_pv_perf_max_rate = rate == ANY_RATE ? INT_MAX :
				  rate == NO_RATE ? 0 : 1000;
	want_rate = pv->overflow_rate;
}

/* The limits of the fuzzer's other events are unchanged. */
static void counts_end_entry(int vcpu)
{
	struct pv_perf_vcpu *pv = vcpus[vcpu]->arch.pv_perf;

	CHECK(pv->overflow_rate.time == want_rate.time &&
	      pv->overflow_rate.clock == want_rate.clock);
	pv->overflow_rate = old_rate;
	*param_pv_perf_max_rate = INT_MAX;
	rate = ANY_RATE;
}

/* The request is for this entry; other entries do not have this rate. */
static void tell_at_rate(int vcpu)
{
	counts_begin_entry(vcpu);
	model_counts_tell(vcpu);
	pv_perf_counts_tell(vcpus[vcpu]);
	counts_end_entry(vcpu);
}

void counts_check(void)
{
	const struct pv_perf_vcpu *pv;
	bool *dirty;
	int i;

	for (i = 0; i < NR_VCPUS; i++) {
		pv = vcpus[i]->arch.pv_perf;
		CHECK(!!(pv->at_entry & PV_PERF_AT_ENTRY_COUNTS) == !!model[i].wanted);
		CHECK(pv->counts.nmi_is_ours == model[i].nmi_is_ours);
		CHECK(!written[i] || *written[i]);
	}
	for (i = 0; i < NR_VCPUS; i++) {
		written[i] = NULL;
		dirty = area[i].epoch ? dirty_flag(area[i].gpa) : NULL;
		if (dirty)
			*dirty = false;
	}
}

/* Steps */

/* A set of counts, or an unchanged number if it is not a set. */
u64 get_counts(void)
{
	u64 n = get_number(200);

	if (!n || n >= 200)
		return n;
	if (n >= 128)
		return ALL_COUNTS & ~BIT(n % 32);
	return BIT(n % KVM_PERF_NR_COUNTS) | BIT(n / 8 % KVM_PERF_NR_COUNTS);
}

static void limit_vm(u32 counts)
{
	struct kvm_enable_cap cap = {
		.cap = KVM_CAP_PV_PERF_COUNTS, .args = { counts },
	};

	CHECK(!pv_perf_enable_cap(kvm, &cap));
}

/* Most VMs may count all events; for others the host or the VMM sets a limit. */
void counts_setup(u8 limit)
{
	int i;

	memset(model, 0, sizeof(model));
	memset(strangers, 0, sizeof(strangers));
	memset(written, 0, sizeof(written));
	for (i = 0; i < NR_VCPUS; i++) {
		model[i].exit = -1;
		strangers[i].cpu = i;
		strangers[i].start_time = ~0ull;
	}
	rate = ANY_RATE;
	nr_exits = 0;
	counts_unsure = false;
	allowed = limit < 240 ? ALL_COUNTS : ALL_COUNTS >> (limit - 240);
	*param_pv_perf_counts = allowed;
	if (limit < 224 || limit >= 240)
		return;

	allowed &= ~(0x11111u << limit % 4);
	limit_vm(allowed);
}

static void grow(struct kvm_vcpu *vcpu)
{
	u8 kind = get(1);
	u64 n = get(1);

	switch (kind % 8) {
	case 0:
		vcpu->arch.interrupt.injected = n & 1;
		vcpu->arch.has_interrupt = n & 2;
		break;
	case 1:
		vcpu->stat.generic.halt_wait_ns += n;
		break;
	case 2:
		vcpu->stat.generic.halt_poll_success_ns += n;
		break;
	case 3:
		vcpu->stat.generic.halt_poll_fail_ns += n;
		break;
	case 4:
		current->nivcsw += n;
		break;
	case 5:
		current->sched_info.run_delay += n;
		break;
	default:
		pass_time(n);
	}
}

/* The guest begins or continues to sample. */
static void put_slot(int vcpu)
{
	const gpa_t gpa = area[vcpu].gpa;
	u8 i = get(1) % KVM_PERF_NR_SLOTS, odd = get(1);
	u32 slots = odd < 248 ? BIT(i) | odd >> 2 : get(4);
	struct guest_perf_slot slot = {
		.counts = get_counts(),
		.left = get_number(12),
		.exclude = odd & 3,
	};

	if (!area[vcpu].epoch)
		return;

	put(gpa + offsetof(struct guest_perf_area, slots), &slots, sizeof(slots));
	put(gpa + offsetof(struct guest_perf_area, slot[i]), &slot, sizeof(slot));
}

/*
 * The first byte chooses the action, the vCPU's mode, its rate of overflows, whether it
 * then enters, the thread that runs it, and whether the numbers grow.
 */
bool counts_step(int vcpu)
{
	u8 how = get(1);

	if (how & 0x40 && how & 3)
		current = &strangers[vcpu];
	if ((how & 3) < 3)
		exit_guest(vcpu, how & 4);
	else
		put_slot(vcpu);
	if (how & 0x80)
		grow(vcpus[vcpu]);

	if ((how & 3) > 1)
		return false;
	rate = how >> 3 & 3;
	tell_at_rate(vcpu);
	return how & 0x20 && current != &strangers[vcpu];
}
