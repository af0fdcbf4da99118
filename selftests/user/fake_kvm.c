// SPDX-License-Identifier: GPL-2.0
/* KVM: guest memory as in virt/kvm/kvm_main.c, requests and NMIs. */
#include "stand_in.h"

#include "kvm_pmu_query.h"
#include "pv_perf.h"

u32 last_random;
bool have_kvm_pmu_query, have_hypervisor_slot;
struct guest_perf_query hypervisor;

bool kvm_pmu_query(struct guest_perf_query *query)
{
	if (have_hypervisor_slot)
		*query = hypervisor;
	return have_hypervisor_slot;
}

void (*read_hook)(struct kvm *kvm);

struct kvm_memory_slot *gfn_to_memslot(struct kvm *kvm, gfn_t gfn)
{
	struct kvm_memory_slot *slot;

	for (slot = kvm->memslots.slot; slot < kvm->memslots.slot + NR_SLOTS;
	     slot++)
		if (slot->present && gfn - slot->base_gfn < SLOT_PAGES)
			return slot;

	return NULL;
}

/* The address in user space, or NULL if the access fails. */
static u8 *gpa_to_user(struct kvm *kvm, gpa_t gpa, bool write)
{
	struct kvm_memory_slot *slot = gfn_to_memslot(kvm, gpa_to_gfn(gpa));

	if (fault(&guest_faults) || !slot || (write && slot->readonly))
		return NULL;
	if (slot->absent[gpa_to_gfn(gpa) - slot->base_gfn])
		return NULL;

	return slot->memory + (gpa - (slot->base_gfn << PAGE_SHIFT));
}

static unsigned long in_page(gpa_t gpa, unsigned long len)
{
	return min_t(unsigned long, len, (PAGE_SIZE - gpa % PAGE_SIZE));
}

int kvm_read_guest(struct kvm *kvm, gpa_t gpa, void *data, unsigned long len)
{
	unsigned long n;
	u8 *p;

	might_sleep_at("read");
	if (read_hook)
		read_hook(kvm);
	for (; len; len -= n, gpa += n, data += n) {
		n = in_page(gpa, len);
		p = gpa_to_user(kvm, gpa, false);
		if (!p)
			return -EFAULT;
		memcpy(data, p, n);
	}
	return 0;
}

/* Atomic, because another thread of the guest may read. */
static void copy_to_guest(u8 *to, const u8 *from, unsigned long n)
{
	while (n--)
		__atomic_store_n(to++, *from++, __ATOMIC_RELEASE);
}

int kvm_write_guest(struct kvm *kvm, gpa_t gpa, const void *data,
		    unsigned long len)
{
	unsigned long n;
	u8 *p;

	user_access("write");
	for (; len; len -= n, gpa += n, data += n) {
		n = in_page(gpa, len);
		p = gpa_to_user(kvm, gpa, true);
		if (!p)
			return -EFAULT;
		copy_to_guest(p, data, n);
		mark_page_dirty_in_slot(kvm, gfn_to_memslot(kvm, gpa_to_gfn(gpa)),
					gpa_to_gfn(gpa));
	}
	return 0;
}

int kvm_gfn_to_hva_cache_init(struct kvm *kvm, struct gfn_to_hva_cache *ghc,
			      gpa_t gpa, unsigned long len)
{
	struct kvm_memory_slot *slot = gfn_to_memslot(kvm, gpa_to_gfn(gpa));

	CHECK(in_page(gpa, len) == len);
	ghc->generation = kvm->memslots.generation;
	ghc->memslot = slot;
	ghc->hva = 0;
	if (fault(&guest_faults) || !slot || slot->readonly)
		return -EFAULT;

	ghc->hva = (unsigned long)slot->memory +
		   (gpa - (slot->base_gfn << PAGE_SHIFT));
	ghc->gpa = gpa;
	ghc->len = len;
	return 0;
}

int kvm_write_guest_offset_cached(struct kvm *kvm, struct gfn_to_hva_cache *ghc,
				  void *data, unsigned int offset,
				  unsigned long len)
{
	CHECK(offset + len <= ghc->len);
	if (ghc->generation != kvm->memslots.generation) {
		might_sleep_at("write");
		if (kvm_gfn_to_hva_cache_init(kvm, ghc, ghc->gpa, ghc->len))
			return -EFAULT;
	}
	return kvm_write_guest(kvm, ghc->gpa + offset, data, len);
}

int kvm_read_guest_offset_cached(struct kvm *kvm, struct gfn_to_hva_cache *ghc,
				 void *data, unsigned int offset,
				 unsigned long len)
{
	CHECK(offset + len <= ghc->len);
	if (ghc->generation != kvm->memslots.generation) {
		might_sleep_at("read");
		kvm_gfn_to_hva_cache_init(kvm, ghc, ghc->gpa, ghc->len);
	}
	/* Memory that cannot be written has no address. */
	if (!ghc->hva)
		return -EFAULT;
	return kvm_read_guest(kvm, ghc->gpa + offset, data, len);
}

void mark_page_dirty_in_slot(struct kvm *kvm,
			     const struct kvm_memory_slot *memslot, gfn_t gfn)
{
	struct kvm_memory_slot *slot = (struct kvm_memory_slot *)memslot;

	CHECK(slot && slot->present && gfn - slot->base_gfn < SLOT_PAGES);
	__atomic_store_n(&slot->dirty[gfn - slot->base_gfn], true,
			 __ATOMIC_RELAXED);
}

/* Slots do not overlap in user space, so that the first slot with the address is right. */
static struct kvm *user_vm;

__thread bool pagefaults_off;

void user_access(const char *where)
{
	if (!pagefaults_off)
		might_sleep_at(where);
}

bool user_writable(const void *address)
{
	struct kvm_memory_slot *slot = user_vm->memslots.slot;
	u64 offset;
	int i;

	for (i = 0; i < NR_SLOTS; i++, slot++) {
		offset = (u8 *)address - slot->memory;
		if (offset < SLOT_PAGES * PAGE_SIZE) {
			CHECK(!slot->readonly);
			return !fault(&guest_faults) &&
			       !slot->absent[offset >> PAGE_SHIFT];
		}
	}
	CHECK(!"the host writes where no guest memory is");
	return false;
}

int arch_futex_atomic_op_inuser(int op, u32 oparg, int *oval, u32 *uaddr)
{
	user_access("futex");
	CHECK(op == FUTEX_OP_ADD);
	if (!user_writable(uaddr))
		return -EFAULT;

	*oval = __sync_fetch_and_add(uaddr, oparg);
	return 0;
}

void kvm_make_request(int request, struct kvm_vcpu *vcpu)
{
	__sync_fetch_and_or(&vcpu->requests, 1ul << request);
}

void kvm_make_all_cpus_request(struct kvm *kvm, int request)
{
	struct kvm_vcpu *vcpu;
	int i;

	kvm_for_each_vcpu(i, vcpu, kvm) {
		kvm_make_request(request, vcpu);
		kvm_vcpu_kick(vcpu);
	}
}

bool kvm_test_request(int request, struct kvm_vcpu *vcpu)
{
	return READ_ONCE(vcpu->requests) >> request & 1;
}

bool kvm_check_request(int request, struct kvm_vcpu *vcpu)
{
	return __sync_fetch_and_and(&vcpu->requests, ~(1ul << request)) >>
	       request & 1;
}

__thread bool vcpu_srcu_dropped;

void handle_requests(struct kvm_vcpu *vcpu)
{
	do {
		if (!kvm_check_request(KVM_REQ_PV_PERF, vcpu))
			return;
	} while (pv_perf_handle_request(vcpu) && !current->signalled);
}

int kvm_skip_emulated_instruction(struct kvm_vcpu *vcpu)
{
	pv_perf_instruction_retired(vcpu);
	return 1;
}

static bool run_at_exit(struct kvm_vcpu *vcpu)
{
	unsigned long flags;
	bool done;

	local_irq_save(flags);
	done = pv_perf_read_at_exit(vcpu);
	local_irq_restore(flags);

	return done;
}

long run_hypercall(struct kvm_vcpu *vcpu, u64 op, u64 a1, u64 a2, u64 a3)
{
	vcpu->arch.exit.rax = KVM_PERF_OP;
	vcpu->arch.exit.rbx = op;
	vcpu->arch.exit.rcx = a1;
	vcpu->arch.exit.rdx = a2;
	vcpu->arch.exit.rsi = a3;
	if (!run_at_exit(vcpu)) {
		vcpu->arch.exit.rax = pv_perf_hypercall(vcpu, op, a1, a2, a3);
		kvm_skip_emulated_instruction(vcpu);
	}

	return vcpu->arch.exit.rax;
}

int kvm_cpu_has_injectable_intr(struct kvm_vcpu *vcpu)
{
	return vcpu->arch.has_interrupt;
}

void kvm_inject_nmi(struct kvm_vcpu *vcpu)
{
	atomic_inc(&vcpu->arch.nmi_queued);
	kvm_make_request(KVM_REQ_NMI, vcpu);
}

void kvm_vcpu_kick(struct kvm_vcpu *vcpu)
{
	atomic_inc(&vcpu->kicks);
}

bool kvm_get_kvm_safe(struct kvm *kvm)
{
	return refcount_inc_not_zero(&kvm->users_count);
}

void kvm_put_kvm(struct kvm *kvm)
{
	/* vm_destroy() drops the last reference. */
	CHECK(!refcount_dec_and_test(&kvm->users_count));
}

bool kvm_pmu_event_allowed(struct kvm *kvm, u64 eventsel, int fixed)
{
	u64 denied = READ_ONCE(kvm->denied_event);

	CHECK(fixed < 32);
	if (fixed >= 0)
		return !(READ_ONCE(kvm->denied_fixed) >> fixed & 1);

	return !denied || (eventsel & AMD64_RAW_EVENT_MASK_NB) != denied;
}

static struct guest_perf_event *record_of(struct kvm *kvm, gpa_t gpa)
{
	struct kvm_memory_slot *slot = gfn_to_memslot(kvm, gpa_to_gfn(gpa));

	return slot ? (void *)(slot->memory + (gpa - (slot->base_gfn << PAGE_SHIFT)))
		    : NULL;
}

static u64 count_by_rdpmc(const struct guest_perf_event *record, u32 pmc)
{
	u32 ecx = ((pmc & KVM_PERF_PMC_INDEX) - 1) |
		  (pmc & KVM_PERF_PMC_FIXED) << 16;

	return READ_ONCE(record->offset) + sign_extend64(native_read_pmc(ecx), 47);
}

/* The counter reveals nothing of the host: 0, or the watchdog's, which only has cycles. */
static bool is_hidden(int idx, int cpu)
{
	return !cpus[cpu].pmc[idx] ||
	       (idx == NR_COUNTERS - 1 && cpus[cpu].taken == 1);
}

void check_rdpmc(struct kvm_vcpu *vcpu)
{
	struct pv_perf_vcpu *pv = vcpu->arch.pv_perf;
	u64 used = 0, used_fixed = 0, count, got = 0;
	u32 pmc;
	struct guest_perf_event *record;
	struct pv_perf_event *event;
	struct perf_event *backing;
	int i, cpu = smp_processor_id();

	/* Another vCPU may close or move an event. */
	raw_spin_lock(&pv->enter_lock);
	list_for_each_entry(event, &pv->events, node) {
		record = record_of(vcpu->kvm, event->record.gpa);
		if (!READ_ONCE(event->pmc.index) || !record)
			continue;
		if (READ_ONCE(event->pmc_stuck)) {
			u64 value;

			CHECK(!pv_perf_rdpmc(vcpu, 0, &value));
			continue;
		}
		/*
		 * While a nested guest runs, the host does not update its hypervisor's
		 * records.
		 */
		if (vcpu->arch.guest_mode)
			continue;
		CHECK(!vcpu->arch.rdpmc_intercept);
		backing = event->backing;
		count = event->past_count +
			(pv_perf_is_stopped(event) ? event->stopped_at.count :
			 local64_read(&backing->count) + backing->hw.counter);
		pmc = READ_ONCE(record->pmc);
		if (pmc & KVM_PERF_PMC_INDEX)
			got = count_by_rdpmc(record, pmc);
		/* Otherwise another event may have the record by now. */
		if (xa_load(&vcpu->kvm->arch.pv_perf->events, event->id) == event)
			CHECK(pmc & KVM_PERF_PMC_INDEX && got == count);
	}
	raw_spin_unlock(&pv->enter_lock);
	if (vcpu->arch.rdpmc_intercept)
		return;

	list_for_each_entry(backing, &current->events, node) {
		if (backing->state != PERF_EVENT_STATE_ACTIVE)
			continue;
		event = backing->overflow_handler_context;
		CHECK(event->home == pv);
		if (backing->hw.idx < INTEL_PMC_IDX_FIXED)
			used |= BIT(backing->hw.idx);
		else
			used_fixed |= BIT(backing->hw.idx - INTEL_PMC_IDX_FIXED);
	}
	for (i = 0; i < nr_counters(cpu); i++)
		CHECK(used & BIT(i) || is_hidden(i, cpu));
	for (i = 0; i < pmu_capability.num_counters_fixed; i++)
		CHECK(used_fixed & BIT(i) || !cpus[cpu].fixed[i]);
}

void check_branches(struct kvm_vcpu *vcpu)
{
	const struct cpu *cpu = &cpus[smp_processor_id()];
	const u32 config = vcpu->arch.pv_perf_branches;

	CHECK(irqs_are_off());
	if (!config)
		return;

	CHECK(!vcpu->arch.guest_mode);
	/* The host's perf does not use the stack, and only the stack is enabled. */
	CHECK(!(cpu->lbr_config & DBG_EXTN_CFG_LBRV2EN));
	CHECK(config == (cpu->lbr_config | DBG_EXTN_CFG_LBRV2EN));
	CHECK(!(cpu->lbr_select & ~0x1ffull));
	CHECK(!memchr_inv(cpu->lbr, 0, cpu_branches * sizeof(cpu->lbr[0])));
}

/* ENABLE_GUEST_BRANCHES, the guest, DISABLE_GUEST_BRANCHES. */
void run_branches(struct kvm_vcpu *vcpu, const u64 (*branches)[2], int n)
{
	struct cpu *cpu = &cpus[smp_processor_id()];
	const u32 config = vcpu->arch.pv_perf_branches;

	if (!config)
		return;

	cpu->lbr_config = config;
	/* The last branch is at the top. */
	for (; n--; branches++) {
		memmove(cpu->lbr[1], cpu->lbr[0],
			(cpu_branches - 1) * sizeof(cpu->lbr[0]));
		memcpy(cpu->lbr[0], *branches, sizeof(cpu->lbr[0]));
	}
	cpu->lbr_config = config & ~DBG_EXTN_CFG_LBRV2EN;
}

static void add_slot(struct kvm *kvm, int i, gpa_t gpa, bool readonly)
{
	struct kvm_memory_slot *slot = &kvm->memslots.slot[i];

	slot->base_gfn = gpa_to_gfn(gpa);
	slot->memory = aligned_alloc(PAGE_SIZE, SLOT_PAGES * PAGE_SIZE);
	memset(slot->memory, 0, SLOT_PAGES * PAGE_SIZE);
	slot->present = true;
	slot->readonly = readonly;
}

void vm_use(struct kvm *kvm)
{
	user_vm = kvm;
}

/* Most tests offer the feature to all VMs, unlike the host by default. */
static __attribute__((constructor)) void offer_to_all(void)
{
	*param_pv_perf = true;
}

static int nr_vms;

struct kvm *vm_create(void)
{
	struct kvm *kvm = calloc(1, sizeof(*kvm));

	refcount_set(&kvm->users_count, 1);
	kvm->userspace_pid = 1234;
	kvm->memslots.generation = 2;
	mutex_init(&kvm->lock);
	add_slot(kvm, 0, 0, false);
	add_slot(kvm, 1, 0x10000, true);
	add_slot(kvm, 2, 0x20000, false);
	add_slot(kvm, 3, 0x20000 + SLOT_PAGES * PAGE_SIZE, false);
	/* KVM is loaded with the first VM. */
	if (!__sync_fetch_and_add(&nr_vms, 1))
		pv_perf_init();
	vm_use(kvm);
	if (pv_perf_init_vm(kvm)) {
		kvm->arch.pv_perf = NULL;
		vm_destroy(kvm);
		return NULL;
	}
	kvm->debugfs_dentry = calloc(1, sizeof(*kvm->debugfs_dentry));
	pv_perf_create_vm_debugfs(kvm);
	return kvm;
}

void vm_destroy(struct kvm *kvm)
{
	int i;

	__sync_fetch_and_sub(&nr_vms, 1);
	if (kvm->arch.pv_perf)
		pv_perf_destroy_vm(kvm);
	for (i = 0; i < NR_SLOTS; i++)
		free(kvm->memslots.slot[i].memory);
	free(kvm->debugfs_dentry);
	free(kvm);
}

struct kvm_vcpu *vcpu_create(struct kvm *kvm, int id)
{
	struct kvm_vcpu *vcpu = calloc(1, sizeof(*vcpu));

	vcpu->kvm = kvm;
	vcpu->run = calloc(1, sizeof(*vcpu->run));
	vcpu->vcpu_id = id;
	vcpu->arch.pv_cpuid.features = 1u << KVM_FEATURE_PV_PERF |
				       1u << KVM_FEATURE_STEAL_TIME;
	vcpu->arch.nmi_from_guest = true;
	vcpu->arch.rdpmc_intercept = true;
	kvm->created_vcpus++;
	atomic_inc(&kvm->online_vcpus);
	CHECK(!kvm->vcpus[id]);
	WRITE_ONCE(kvm->vcpus[id], vcpu);
	return vcpu;
}

void vcpu_destroy(struct kvm_vcpu *vcpu)
{
	vcpu->kvm->vcpus[vcpu->vcpu_id] = NULL;
	pv_perf_vcpu_destroy(vcpu);
	free(vcpu->run);
	free(vcpu);
}
