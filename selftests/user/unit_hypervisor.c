// SPDX-License-Identifier: GPL-2.0
/*
 * Unit tests of the host side: hypervisor events (exits, halts and steal time), and the
 * slots that count them.
 */
#include "unit.h"

#define ALL_COUNTS	(BIT(KVM_PERF_NR_COUNTS) - 1)

static long set_counts(u64 wanted)
{
	return call3(KVM_PERF_OP_SET_COUNTS, (u32)wanted, wanted >> 32, 0);
}

static void leave_for(u32 reason)
{
	unsigned long flags;

	here()->arch.exit.reason = reason;
	local_irq_save(flags);
	pv_perf_exit(here());
	local_irq_restore(flags);
}

/* The vCPU exits and enters again. Returns the number of NMIs. */
static int exit_for(u32 reason)
{
	leave_for(reason);
	return enter_counting();
}

UNIT_TEST(set_counts)
{
	struct kvm_enable_cap cap = { .cap = KVM_CAP_PV_PERF_COUNTS };

	setup();
	is("SET_COUNTS without an area: EINVAL", set_counts(1), -KVM_EINVAL);
	mem->area.size = sizeof(mem->area);
	CHECK(!set_area(GPA(area)));
	is("a count that is not defined: EINVAL",
	   set_counts(BIT(KVM_PERF_NR_COUNTS)), -KVM_EINVAL);
	is("a count in the upper half that is not defined: EINVAL",
	   set_counts(1ull << 32), -KVM_EINVAL);
	is("SET_COUNTS", set_counts(ALL_COUNTS), 0);
	is("VM entry looks at the counts",
	   here()->arch.pv_perf->at_entry, PV_PERF_AT_ENTRY_COUNTS);
	CHECK(!call(KVM_PERF_OP_RESET, 0));
	enter_counting();
	is("SET_COUNTS after RESET: EINVAL", set_counts(1), -KVM_EINVAL);
	teardown();

	setup();
	mem->area.size = sizeof(mem->area);
	CHECK(!set_area(GPA(area)));
	here()->arch.pv_cpuid.features &= ~(1u << KVM_FEATURE_STEAL_TIME);
	is("without the VMM's steal time, steal time: EOPNOTSUPP",
	   set_counts(BIT(KVM_PERF_COUNT_STEAL_NS)), -KVM_EOPNOTSUPP);
	is("without the VMM's steal time, preemptions: EOPNOTSUPP",
	   set_counts(BIT(KVM_PERF_COUNT_PREEMPTIONS)), -KVM_EOPNOTSUPP);
	is("without the VMM's steal time, the host's time: EOPNOTSUPP",
	   set_counts(BIT(KVM_PERF_COUNT_HOST_NS)), -KVM_EOPNOTSUPP);
	mem->query.size = sizeof(mem->query);
	CHECK(!call(KVM_PERF_OP_QUERY, GPA(query)));
	is("without the VMM's steal time, QUERY does not offer these",
	   mem->query.counts,
	   ALL_COUNTS &
	   ~(BIT(KVM_PERF_COUNT_STEAL_NS) | BIT(KVM_PERF_COUNT_PREEMPTIONS) |
	     BIT(KVM_PERF_COUNT_HOST_NS)));
	is("SET_COUNTS of all counts that QUERY offers",
	   set_counts(mem->query.counts), 0);
	teardown();

	*param_pv_perf_counts = 0x6;
	setup();
	mem->area.size = sizeof(mem->area);
	CHECK(!set_area(GPA(area)));
	is("a count that the host does not allow: EOPNOTSUPP",
	   set_counts(0x8), -KVM_EOPNOTSUPP);
	is("a count that the host allows", set_counts(0x2), 0);
	mem->query.size = sizeof(mem->query);
	CHECK(!call(KVM_PERF_OP_QUERY, GPA(query)));
	is("QUERY has the counts that the host allows", mem->query.counts, 0x6);
	is("KVM_CHECK_EXTENSION has the counts that the host allows",
	   host_extension(KVM_CAP_PV_PERF_COUNTS), 0x6);
	teardown();

	tasks[0] = task_create(0);
	kvm = vm_create();
	cap.args[0] = 0x8;
	is("the VMM cannot allow a count that the host does not allow",
	   pv_perf_enable_cap(kvm, &cap), -EINVAL);
	cap.args[0] = 0x4;
	is("the VMM can allow fewer counts", pv_perf_enable_cap(kvm, &cap), 0);
	is("KVM_CHECK_EXTENSION of the VM has the VMM's counts",
	   pv_perf_check_extension(kvm, KVM_CAP_PV_PERF_COUNTS), 0x4);
	vm_destroy(kvm);
	task_put(tasks[0]);
	*param_pv_perf_counts = ALL_COUNTS;
}

static u64 kernel_count(int nr)
{
	return mem->area.count[nr][0];
}

static void count_all(void)
{
	setup();
	mem->area.size = sizeof(mem->area);
	CHECK(!set_area(GPA(area)) && !set_counts(ALL_COUNTS));
}

UNIT_TEST(exits)
{
	static const struct {
		u32 svm, vmx, count;
	} exits[] = {
		{ SVM_EXIT_IOIO, EXIT_REASON_IO_INSTRUCTION,
		  KVM_PERF_COUNT_EXITS_IO },
		{ SVM_EXIT_MSR, EXIT_REASON_MSR_READ, KVM_PERF_COUNT_EXITS_MSR },
		{ SVM_EXIT_CPUID, EXIT_REASON_CPUID,
		  KVM_PERF_COUNT_EXITS_CPUID },
		{ SVM_EXIT_HLT, EXIT_REASON_HLT, KVM_PERF_COUNT_EXITS_HLT },
		{ SVM_EXIT_NPF, EXIT_REASON_EPT_VIOLATION,
		  KVM_PERF_COUNT_EXITS_NPF },
		{ SVM_EXIT_INTR, EXIT_REASON_EXTERNAL_INTERRUPT,
		  KVM_PERF_COUNT_EXITS_INTERRUPT },
		{ SVM_EXIT_VINTR, EXIT_REASON_PREEMPTION_TIMER,
		  KVM_PERF_COUNT_EXITS_INTERRUPT },
		{ SVM_EXIT_NMI, EXIT_REASON_NMI_WINDOW,
		  KVM_PERF_COUNT_EXITS_NMI },
		{ SVM_EXIT_IRET, EXIT_REASON_NMI_WINDOW,
		  KVM_PERF_COUNT_EXITS_NMI },
		{ SVM_EXIT_VMMCALL, EXIT_REASON_VMCALL,
		  KVM_PERF_COUNT_EXITS_HYPERCALL },
		{ SVM_EXIT_PAUSE, EXIT_REASON_EXCEPTION_NMI,
		  KVM_PERF_COUNT_EXITS_OTHER },
		{ SVM_EXIT_READ_CR0, EXIT_REASON_CR_ACCESS,
		  KVM_PERF_COUNT_EXITS_OTHER },
	};
	int vendor = boot_cpu_data.x86_vendor;
	u64 before;
	size_t i;

	count_all();
	for (i = 0; i < ARRAY_SIZE(exits); i++) {
		before = kernel_count(exits[i].count);
		exit_for(exits[i].svm);
		is("an exit of SVM adds 1 to its count",
		   kernel_count(exits[i].count) - before, 1);
		before = kernel_count(exits[i].count);
		boot_cpu_data.x86_vendor = X86_VENDOR_INTEL;
		exit_for(exits[i].vmx);
		boot_cpu_data.x86_vendor = vendor;
		is("an exit of VMX adds 1 to its count",
		   kernel_count(exits[i].count) - before, 1);
	}
	boot_cpu_data.x86_vendor = X86_VENDOR_INTEL;
	here()->arch.exit.intr_info = INTR_TYPE_NMI_INTR;
	before = kernel_count(KVM_PERF_COUNT_EXITS_NMI);
	exit_for(EXIT_REASON_EXCEPTION_NMI);
	is("an NMI exit of VMX counts as NMI",
	   kernel_count(KVM_PERF_COUNT_EXITS_NMI) - before, 1);
	exit_for(EXIT_REASON_EPT_MISCONFIG);
	boot_cpu_data.x86_vendor = vendor;
	kvm->memslots.slot[0].internal = true;
	exit_for(SVM_EXIT_NPF);
	kvm->memslots.slot[0].internal = false;
	is("a fault in KVM's own memory counts as MMIO",
	   kernel_count(KVM_PERF_COUNT_EXITS_MMIO), 2);
	here()->arch.exit.gpa = NO_MEMORY;
	exit_for(SVM_EXIT_NPF);
	is("a fault without memory counts as MMIO",
	   kernel_count(KVM_PERF_COUNT_EXITS_MMIO), 3);
	exit_for(SVM_EXIT_AVIC_UNACCELERATED_ACCESS);
	is("an APIC access counts as MMIO",
	   kernel_count(KVM_PERF_COUNT_EXITS_MMIO), 4);

	here()->arch.cpl = 3;
	exit_for(SVM_EXIT_CPUID);
	is("an exit of user mode adds to the count of user mode",
	   mem->area.count[KVM_PERF_COUNT_EXITS_CPUID][1], 1);
	here()->arch.exit.rax = KVM_PERF_OP;
	exit_for(SVM_EXIT_VMMCALL);
	is("a hypercall of user mode is not the pair's own",
	   mem->area.count[KVM_PERF_COUNT_EXITS_HYPERCALL][1], 1);
	here()->arch.cpl = 0;
	exit_for(SVM_EXIT_VMMCALL);
	is("a hypercall of the kernel for the pair is the pair's own",
	   kernel_count(KVM_PERF_COUNT_EXITS_PV_PERF), 1);

	CHECK(!set_counts(BIT(KVM_PERF_COUNT_EXITS_IO)));
	before = kernel_count(KVM_PERF_COUNT_EXITS_CPUID);
	exit_for(SVM_EXIT_CPUID);
	is("an exit that is not selected is not counted",
	   kernel_count(KVM_PERF_COUNT_EXITS_CPUID), before);
	CHECK(!set_counts(0));
	is("if no count is selected, VM entry looks at nothing",
	   here()->arch.pv_perf->at_entry, 0);
	teardown();
}

/* Exits that the pair causes have a count of their own. */
UNIT_TEST(own_exits)
{
	count_all();
	CHECK(!open_sampling(1, 100) && !call(KVM_PERF_OP_ENABLE, 1));
	run_guest(100);
	is("an overflow of an event: one NMI", exit_for(SVM_EXIT_NMI), 1);
	is("the exit for the overflow does not count as NMI",
	   kernel_count(KVM_PERF_COUNT_EXITS_NMI), 0);
	exit_for(SVM_EXIT_IRET);
	is("the exits of the overflow and of its handler's IRET are the pair's own",
	   kernel_count(KVM_PERF_COUNT_EXITS_PV_PERF), 2);
	exit_for(SVM_EXIT_IRET);
	is("the next exit for an IRET counts as NMI",
	   kernel_count(KVM_PERF_COUNT_EXITS_NMI), 1);

	run_guest(100);
	exit_for(SVM_EXIT_NMI);
	here()->arch.nmi_pending = 1;
	exit_for(SVM_EXIT_IRET);
	exit_for(SVM_EXIT_EXCP_BASE + DB_VECTOR);
	is("with an NMI pending, the exits for IRET and #DB are the pair's own",
	   kernel_count(KVM_PERF_COUNT_EXITS_PV_PERF), 5);
	here()->arch.nmi_pending = 0;
	exit_for(SVM_EXIT_IRET);
	is("the exit for the other NMI's IRET is the pair's own",
	   kernel_count(KVM_PERF_COUNT_EXITS_PV_PERF), 6);
	exit_for(SVM_EXIT_EXCP_BASE + DB_VECTOR);
	is("an exit for a later #DB counts as other",
	   kernel_count(KVM_PERF_COUNT_EXITS_OTHER), 1);
	teardown();
}

static void use_slot(int i, u64 counts, u64 left, u32 exclude)
{
	mem->area.slot[i] = (struct guest_perf_slot) {
		.counts = counts, .left = left, .exclude = exclude,
	};
	mem->area.slots |= BIT(i);
}

/*
 * An interrupt waits behind the NMI of a sample, so the vCPU exits for its
 * window.
 */
UNIT_TEST(waiting_interrupt)
{
	count_all();
	here()->arch.has_interrupt = true;
	exit_for(SVM_EXIT_INTR);
	is("without a sample, an exit for an interrupt counts as interrupt",
	   kernel_count(KVM_PERF_COUNT_EXITS_INTERRUPT), 1);
	use_slot(0, BIT(KVM_PERF_COUNT_EXITS_INTERRUPT), 1, 0);
	is("a slot's overflow: one NMI", exit_for(SVM_EXIT_VINTR), 1);
	mem->area.slot[0].left = 1;
	is("no NMI for the interrupt that waits behind the NMI",
	   exit_for(SVM_EXIT_INTR), 0);
	is("no NMI for the interrupt's window", exit_for(SVM_EXIT_VINTR), 0);
	is("both exits are the pair's own",
	   kernel_count(KVM_PERF_COUNT_EXITS_PV_PERF), 2);
	is("both exits do not count as interrupts",
	   kernel_count(KVM_PERF_COUNT_EXITS_INTERRUPT), 2);
	here()->arch.interrupt.injected = true;
	enter_counting();
	here()->arch.interrupt.injected = false;
	is("after the guest got the interrupt, the next exit counts",
	   exit_for(SVM_EXIT_INTR), 1);
	teardown();
}

UNIT_TEST(nested_exits)
{
	count_all();
	CHECK(!open_sampling(1, 100) && !call(KVM_PERF_OP_ENABLE, 1));
	use_slot(0, BIT(KVM_PERF_COUNT_EXITS_NESTED), 1, 0);
	here()->arch.exit.rip = 0x1000;
	exit_for(SVM_EXIT_VMRUN);
	here()->arch.guest_mode = true;
	here()->arch.cpl = 3;
	here()->arch.exit.rip = 0x2000;
	here()->arch.exit.rax = KVM_PERF_OP;
	is("no NMI while a nested guest runs", exit_for(SVM_EXIT_VMMCALL), 0);
	is("a nested guest's hypercall counts as nested exit",
	   kernel_count(KVM_PERF_COUNT_EXITS_NESTED), 1);
	exit_for(SVM_EXIT_IRET);
	run_guest(100);
	exit_for(SVM_EXIT_NMI);
	is("the exit for an overflow is not a nested exit",
	   kernel_count(KVM_PERF_COUNT_EXITS_NESTED), 2);
	is("the exit for an overflow is the pair's own",
	   kernel_count(KVM_PERF_COUNT_EXITS_PV_PERF), 1);
	here()->arch.guest_mode = false;
	here()->arch.cpl = 0;
	is("an NMI when the guest runs again", enter_counting(), 1);
	is("the slot has the address of the guest's VMRUN",
	   mem->area.slot[0].ip, 0x1000);
	is("the slot says kernel mode", mem->area.slot[0].user, 0);
	teardown();
}

static u64 injected_irqs(void)
{
	return kernel_count(KVM_PERF_COUNT_INJECTED_IRQS);
}

UNIT_TEST(injected_irqs)
{
	bool *injected;

	count_all();
	injected = &here()->arch.interrupt.injected;
	*injected = true;
	enter_counting();
	enter_counting();
	exit_for(SVM_EXIT_NPF);
	is("an interrupt that the guest has not taken does not count",
	   injected_irqs(), 0);
	*injected = false;
	exit_for(SVM_EXIT_CPUID);
	is("an interrupt that the guest has taken counts", injected_irqs(), 1);
	exit_for(SVM_EXIT_CPUID);
	is("the interrupt counts once", injected_irqs(), 1);
	*injected = true;
	here()->arch.interrupt.soft = true;
	enter_counting();
	*injected = false;
	exit_for(SVM_EXIT_CPUID);
	is("a software interrupt does not count", injected_irqs(), 1);
	here()->arch.interrupt.soft = false;
	here()->arch.guest_mode = true;
	*injected = true;
	enter_counting();
	*injected = false;
	exit_for(SVM_EXIT_CPUID);
	is("a nested guest's interrupt does not count", injected_irqs(), 1);
	teardown();
}

UNIT_TEST(host_counts)
{
	struct kvm_vcpu_stat *stat;

	count_all();
	stat = &here()->stat;
	stat->generic.halt_wait_ns = 150;
	stat->generic.halt_poll_success_ns = 20;
	stat->generic.halt_poll_fail_ns = 3;
	current->nivcsw = 2;
	current->sched_info.run_delay = 50;
	leave_for(SVM_EXIT_HLT);
	clock_ns += 200;
	enter_counting();
	is("the thread's involuntary switches are preemptions",
	   kernel_count(KVM_PERF_COUNT_PREEMPTIONS), 2);
	is("the thread's run delay is steal time",
	   kernel_count(KVM_PERF_COUNT_STEAL_NS), 50);
	is("time halted is without the wait for a CPU after it",
	   kernel_count(KVM_PERF_COUNT_HALT_NS), 123);
	is("the rest of the time is the host's",
	   kernel_count(KVM_PERF_COUNT_HOST_NS), 27);
	current->sched_info.run_delay = 1000;
	exit_for(SVM_EXIT_HLT);
	is("with more steal time than time, the host's time stays",
	   kernel_count(KVM_PERF_COUNT_HOST_NS), 27);
	is("all of that time is steal time",
	   kernel_count(KVM_PERF_COUNT_STEAL_NS), 1000);
	current->start_time++;
	current->nivcsw = 10;
	exit_for(SVM_EXIT_HLT);
	is("a new thread's numbers add no preemptions",
	   kernel_count(KVM_PERF_COUNT_PREEMPTIONS), 2);
	stat->generic.halt_wait_ns = 0;
	current->nivcsw = 1;
	current->sched_info.run_delay = 0;
	exit_for(SVM_EXIT_HLT);
	is("numbers that fell add nothing",
	   kernel_count(KVM_PERF_COUNT_PREEMPTIONS) +
	   kernel_count(KVM_PERF_COUNT_STEAL_NS) +
	   kernel_count(KVM_PERF_COUNT_HALT_NS),
	   2 + 1000 + 123);

	leave_for(SVM_EXIT_HLT);
	clock_ns += 10;
	pv_perf_vcpu_leave(here(), -EINTR);
	is("when the vCPU stops, the host's time is up to date",
	   kernel_count(KVM_PERF_COUNT_HOST_NS), 37);
	is("when the vCPU stops, the exits are up to date",
	   kernel_count(KVM_PERF_COUNT_EXITS_HLT), 5);
	here()->arch.exit.rax = KVM_PERF_OP;
	leave_for(SVM_EXIT_VMMCALL);
	clock_ns += 10;
	enter_counting();
	is("the pair's own exits add no time of the host",
	   kernel_count(KVM_PERF_COUNT_HOST_NS), 37);
	teardown();
}

/* Overflows @slot until the rate limit delays the NMI. */
static bool overflow_late(struct guest_perf_slot *slot)
{
	int i;

	for (i = 0; i < 4; i++) {
		slot->left = 1;
		if (!exit_for(SVM_EXIT_IOIO))
			return true;
	}
	return false;
}

UNIT_TEST(slots)
{
	const u64 io = BIT(KVM_PERF_COUNT_EXITS_IO);
	struct guest_perf_slot *slot;

	count_all();
	slot = mem->area.slot;
	use_slot(0, io, 2, 0);
	use_slot(1, io | BIT(KVM_PERF_COUNT_EXITS_CPUID), 4, 0);
	use_slot(2, io, 1, KVM_PERF_ATTR_EXCLUDE_KERNEL);
	use_slot(15, io, 100, KVM_PERF_ATTR_EXCLUDE_USER);
	here()->arch.exit.rip = 0x1000;
	is("the first of two exits: no NMI", exit_for(SVM_EXIT_IOIO), 0);
	is("the first exit decrements left", slot[0].left, 1);
	here()->arch.exit.rip = 0x2000;
	is("the second of two exits: one NMI", exit_for(SVM_EXIT_IOIO), 1);
	is("the slot has the address of the exit", slot[0].ip, 0x2000);
	is("the slot has the mode of the exit", slot[0].user, 0);
	is("the next exit: no NMI", exit_for(SVM_EXIT_IOIO), 0);
	is("the next exit decrements left, too", slot[0].left, -1);
	here()->arch.cpl = 3;
	is("an exit of user mode: one NMI for two slots",
	   exit_for(SVM_EXIT_IOIO), 1);
	is("the slot for user mode says user mode", slot[2].user, 1);
	is("the slot for both modes says user mode", slot[1].user, 1);
	is("a slot for the kernel counts exits of the kernel only",
	   slot[15].left, 97);
	here()->arch.cpl = 0;

	mem->area.slots = BIT(31) | BIT(3);
	slot[3].counts = ~0ull;
	slot[3].left = 1;
	*param_pv_perf_max_rate = 0;
	is("with a maximum rate of 0: no NMI", exit_for(SVM_EXIT_IOIO), 0);
	is("with a maximum rate of 0, left is not decremented",
	   slot[3].left, 1);
	*param_pv_perf_max_rate = 100;
	is("with a maximum rate, an NMI is delayed at last",
	   overflow_late(&slot[3]), true);
	is("the slot has overflowed before its NMI",
	   (s64)slot[3].left <= 0, true);
	here()->arch.pv_perf->overflow_rate = (struct pv_perf_rate){};
	is("the delayed NMI comes later", exit_for(SVM_EXIT_CPUID), 1);
	CHECK(overflow_late(&slot[3]));
	mem->area.slots = 0;
	here()->arch.pv_perf->overflow_rate = (struct pv_perf_rate){};
	is("no delayed NMI if the guest has removed the slot",
	   exit_for(SVM_EXIT_CPUID), 0);
	mem->area.slots = BIT(3);
	CHECK(overflow_late(&slot[3]) && !set_counts(io));
	here()->arch.pv_perf->overflow_rate = (struct pv_perf_rate){};
	is("SET_COUNTS keeps the delayed NMI", exit_for(SVM_EXIT_CPUID), 1);
	*param_pv_perf_max_rate = 100000;
	teardown();
}

UNIT_TEST(counts_memory)
{
	bool *absent;
	u64 before;

	count_all();
	absent = &kvm->memslots.slot[0].absent[gpa_to_gfn(GPA(area))];
	kvm->memslots.generation += 2;
	exit_for(SVM_EXIT_CPUID);
	is("an exit counts after the memory slots have changed",
	   kernel_count(KVM_PERF_COUNT_EXITS_CPUID), 1);
	kvm->memslots.slot[0].dirty[gpa_to_gfn(GPA(area))] = false;
	exit_for(SVM_EXIT_CPUID);
	is("the area's page is dirty",
	   kvm->memslots.slot[0].dirty[gpa_to_gfn(GPA(area))], true);
	*absent = true;
	before = kernel_count(KVM_PERF_COUNT_EXITS_CPUID);
	use_slot(0, BIT(KVM_PERF_COUNT_EXITS_CPUID), 1, 0);
	is("while the area's page is absent: no NMI",
	   exit_for(SVM_EXIT_CPUID), 0);
	*absent = false;
	is("when the page is present again: the NMI",
	   exit_for(SVM_EXIT_CPUID), 1);
	is("no exit is lost while the page is absent",
	   kernel_count(KVM_PERF_COUNT_EXITS_CPUID), before + 2);
	teardown();
}

/* Each access to the area fails once. */
UNIT_TEST(counts_faults)
{
	const u64 io = BIT(KVM_PERF_COUNT_EXITS_IO);
	int i, n = 0;

	count_all();
	use_slot(0, io, 1, 0);
	use_slot(1, io, 1000, KVM_PERF_ATTR_EXCLUDE_USER);
	for (i = 1; i < 16; i++) {
		mem->area.slot[0].left = 1;
		guest_faults = (struct faults) { .fail_at = i };
		n += exit_for(SVM_EXIT_IOIO);
		guest_faults = (struct faults) { };
		n += exit_for(SVM_EXIT_CPUID);
	}
	is("one NMI per overflow, also if an access fails", n, 15);
	is("no exit is lost if an access fails",
	   kernel_count(KVM_PERF_COUNT_EXITS_IO), 15);

	leave_for(SVM_EXIT_IOIO);
	here()->arch.guest_mode = true;
	pv_perf_vcpu_leave(here(), -EINTR);
	is("an exit counts if the vCPU stops while a nested guest runs",
	   kernel_count(KVM_PERF_COUNT_EXITS_IO), 16);
	here()->arch.guest_mode = false;
	here()->arch.exit.gpa = 0;
	boot_cpu_data.x86_vendor = X86_VENDOR_INTEL;
	exit_for(EXIT_REASON_MSR_WRITE);
	exit_for(EXIT_REASON_APIC_ACCESS);
	exit_for(EXIT_REASON_APIC_WRITE);
	exit_for(EXIT_REASON_INTERRUPT_WINDOW);
	boot_cpu_data.x86_vendor = X86_VENDOR_AMD;
	is("other exit reasons of VMX count, too",
	   kernel_count(KVM_PERF_COUNT_EXITS_MSR) +
	   kernel_count(KVM_PERF_COUNT_EXITS_MMIO) +
	   kernel_count(KVM_PERF_COUNT_EXITS_INTERRUPT),
	   4);
	CHECK(!call(KVM_PERF_OP_RESET, 0));
	exit_for(SVM_EXIT_CPUID);
	is("after RESET, VM entry looks at nothing",
	   here()->arch.pv_perf->at_entry, 0);
	teardown();
}
