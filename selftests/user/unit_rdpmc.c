// SPDX-License-Identifier: GPL-2.0
/*
 * Unit tests of the host side: reading by RDPMC.
 */
#include "unit.h"

static u32 told_rdpmc(void)
{
	mem->query.size = sizeof(mem->query);
	CHECK(!call(KVM_PERF_OP_QUERY, GPA(query)));
	return mem->query.rdpmc;
}

/* QUERY's answer to a VM whose VMM has not allowed RDPMC. */
static u32 host_rdpmc(void)
{
	u32 told;

	setup();
	told = told_rdpmc();
	teardown();
	return told;
}

UNIT_TEST(rdpmc_allowed)
{
	struct kvm_lapic lapic = { 0 };

	setup();
	is("no RDPMC if the host does not allow it",
	   told_rdpmc(), KVM_PERF_RDPMC_HOST);
	is("if the host does not allow RDPMC, VMMs cannot ask for it",
	   host_extension(KVM_CAP_PV_PERF_RDPMC), 0);
	teardown();
	*param_pv_perf_rdpmc = 1;
	setup();
	is("no RDPMC if the VMM does not allow it",
	   told_rdpmc(), KVM_PERF_RDPMC_VMM);
	is("the host offers RDPMC to VMMs",
	   host_extension(KVM_CAP_PV_PERF_RDPMC), 1);
	is("KVM_CHECK_EXTENSION of a VM without RDPMC",
	   pv_perf_check_extension(kvm, KVM_CAP_PV_PERF_RDPMC), 0);
	teardown();

	setup_rdpmc();
	is("RDPMC is allowed by host and VMM",
	   told_rdpmc(), KVM_PERF_RDPMC_ALLOWED);
	is("no RDPMC of user mode with the VMM's local APIC",
	   !!(mem->query.features & KVM_PERF_FEATURE_RDPMC_USER), false);
	here()->arch.apic = &lapic;
	told_rdpmc();
	is("RDPMC of user mode with KVM's local APIC",
	   !!(mem->query.features & KVM_PERF_FEATURE_RDPMC_USER), true);
	is("KVM_CHECK_EXTENSION of a VM with RDPMC",
	   pv_perf_check_extension(kvm, KVM_CAP_PV_PERF_RDPMC), 1);
	is("the VMM cannot set RDPMC to 2",
	   enable_cap(kvm, KVM_CAP_PV_PERF_RDPMC, 2), -EINVAL);
	kvm->arch.enable_pmu = true;
	vcpus[0]->arch.pmu.version = 2;
	is("no RDPMC with a virtual PMU", told_rdpmc(), KVM_PERF_RDPMC_PMU);
	teardown();

	*param_pv_perf_rdpmc_default = true;
	setup();
	is("RDPMC is allowed if the host's default says so",
	   told_rdpmc(), KVM_PERF_RDPMC_ALLOWED);
	is("KVM_CHECK_EXTENSION of a VM with RDPMC by default",
	   pv_perf_check_extension(kvm, KVM_CAP_PV_PERF_RDPMC), 1);
	is("by default, the VM may not see the NMI watchdog",
	   pv_perf_kinds[0].pmcs.watchdog, false);
	teardown();
	tasks[0] = task_create(0);
	on(0);
	kvm = vm_create();
	CHECK(!enable_cap(kvm, KVM_CAP_PV_PERF_RDPMC, 0));
	is("a VMM can refuse RDPMC",
	   pv_perf_check_extension(kvm, KVM_CAP_PV_PERF_RDPMC), 0);
	vm_destroy(kvm);
	task_put(tasks[0]);
	*param_pv_perf_rdpmc = 0;
	setup();
	is("the default is ignored if the host does not allow RDPMC",
	   told_rdpmc(), KVM_PERF_RDPMC_HOST);
	teardown();
	*param_pv_perf_rdpmc_default = false;
	*param_pv_perf_rdpmc = 5;
	setup();
	is("with the parameter 5, the VM may see the NMI watchdog",
	   pv_perf_kinds[0].pmcs.watchdog, true);
	teardown();

	cpu_has_perfctr_nb = true;
	is("no RDPMC if it shows other CPUs' counters",
	   host_rdpmc(), KVM_PERF_RDPMC_SHARED);
	*param_pv_perf_rdpmc = 2;
	is("RDPMC that shows other CPUs' counters, with the parameter 2",
	   host_rdpmc(), KVM_PERF_RDPMC_VMM);
	cpu_has_perfctr_nb = false;
	enable_vmware_backdoor = true;
	is("no RDPMC with VMware's backdoor",
	   host_rdpmc(), KVM_PERF_RDPMC_HOST);
	enable_vmware_backdoor = false;
	pmu_capability.bit_width_gp = 40;
	is("no RDPMC with counters of another width",
	   host_rdpmc(), KVM_PERF_RDPMC_HOST);
	pmu_capability.bit_width_gp = 48;
	boot_cpu_data.x86_vendor = X86_VENDOR_INTEL;
	pmu_capability.version = 5;
	cpuid_fixed = 0xf;
	is("no RDPMC on Intel without full-width writes",
	   host_rdpmc(), KVM_PERF_RDPMC_HOST);
	cpu_has_pdcm = true;
	is("no RDPMC on Intel with other capabilities only",
	   host_rdpmc(), KVM_PERF_RDPMC_HOST);
	perf_capabilities = FULL_WIDTH_WRITES;
	is("RDPMC on Intel with version 5", host_rdpmc(), KVM_PERF_RDPMC_VMM);
	cpuid_fixed = 0x77;
	is("no RDPMC on Intel with gaps in the fixed counters",
	   host_rdpmc(), KVM_PERF_RDPMC_HOST);
	cpuid_fixed = 0xf;
	pmu_capability.version = 6;
	is("no RDPMC on Intel with version 6",
	   host_rdpmc(), KVM_PERF_RDPMC_HOST);
	pmu_capability.version = 4;
	cpu_has_tsx_force_abort = true;
	is("no RDPMC on Intel if TSX may be forced to abort",
	   host_rdpmc(), KVM_PERF_RDPMC_HOST);
	cpu_has_tsx_force_abort = false;
	pmu_capability.num_counters_gp = 9;
	is("no RDPMC on Intel with more general counters than known",
	   host_rdpmc(), KVM_PERF_RDPMC_HOST);
	pmu_capability.num_counters_gp = NR_COUNTERS;
	cpu_has_pdcm = false;
	perf_capabilities = 0;
	boot_cpu_data.x86_vendor = X86_VENDOR_AMD;
	pmu_capability.version = 2;
	pmu_capability.num_counters_gp = 0;
	have_kvm_pmu_query = have_hypervisor_slot = true;
	hypervisor.features = KVM_PERF_FEATURE_NESTED;
	hypervisor.nr_counters = 3;
	is("no RDPMC on a host that is a guest",
	   host_rdpmc(), KVM_PERF_RDPMC_NESTED);
	have_kvm_pmu_query = have_hypervisor_slot = false;
	hypervisor = (struct guest_perf_query) { };
	pmu_capability.num_counters_gp = NR_COUNTERS;
	*param_pv_perf_rdpmc = 0;
}

UNIT_TEST(rdpmc_intercepted)
{
	u64 value = 1;

	setup();
	is("RDPMC of a VM without RDPMC faults",
	   pv_perf_rdpmc(vcpus[0], 0, &value), false);
	teardown();
	*param_pv_perf_rdpmc = 1;
	setup_rdpmc();
	is("an intercepted RDPMC of a VM with RDPMC",
	   pv_perf_rdpmc(vcpus[0], 0, &value), true);
	is("an intercepted RDPMC reads 0", value, 0);
	is("an intercepted RDPMC of the last counter",
	   pv_perf_rdpmc(vcpus[0], NR_COUNTERS - 1, &value), true);
	is("RDPMC beyond the last counter faults",
	   pv_perf_rdpmc(vcpus[0], NR_COUNTERS, &value), false);
	is("RDPMC of a fixed counter faults on AMD",
	   pv_perf_rdpmc(vcpus[0], 1 << 30, &value), false);
	vcpus[0]->arch.cpl = 3;
	is("RDPMC of user mode without CR4.PCE faults",
	   pv_perf_rdpmc(vcpus[0], 0, &value), false);
	vcpus[0]->arch.cr4 = X86_CR4_PCE;
	is("RDPMC of user mode without an area faults",
	   pv_perf_rdpmc(vcpus[0], 0, &value), false);
	have_area();
	is("an intercepted RDPMC of user mode with CR4.PCE and an area",
	   pv_perf_rdpmc(vcpus[0], 0, &value), true);
	is("an intercepted RDPMC of a counter that only another host has",
	   pv_perf_rdpmc(vcpus[0], NR_COUNTERS, &value), true);
	vcpu_to_pmu(vcpus[0])->version = 1;
	kvm->arch.enable_pmu = true;
	is("RDPMC with a virtual PMU is left to the PMU",
	   pv_perf_rdpmc(vcpus[0], 0, &value), false);
	vcpu_to_pmu(vcpus[0])->version = 0;
	kvm->arch.enable_pmu = false;
	teardown();
	*param_pv_perf_rdpmc = 0;

	setup();
	have_area();
	vcpus[0]->arch.cpl = 3;
	vcpus[0]->arch.cr4 = X86_CR4_PCE;
	value = 1;
	is("RDPMC of user mode with an area, on a host without RDPMC",
	   pv_perf_rdpmc(vcpus[0], 0, &value), true);
	is("this RDPMC reads 0", value, 0);
	vcpus[0]->arch.pv_cpuid.features = 0;
	is("RDPMC of user mode without the feature faults",
	   pv_perf_rdpmc(vcpus[0], 0, &value), false);
	teardown();
}

static u32 pmc(u32 id)
{
	return mem->record[id].pmc & ~KVM_PERF_PMC_CHANGE;
}

UNIT_TEST(rdpmc)
{
	u32 before;

	*param_pv_perf_rdpmc = 1;
	setup_rdpmc();
	open_id(5);
	call(KVM_PERF_OP_ENABLE, 5);
	is("no RDPMC without an event that asks for it", reads(), false);
	call(KVM_PERF_OP_CLOSE, 5);
	start_rdpmc(1, 0);
	start_rdpmc(2, 1000);
	cpus[0].pmc[3] = 0x1234;
	is("RDPMC for two events", reads(), true);
	is("the two events have different counters",
	   pmc(1) && pmc(2) && pmc(1) != pmc(2), true);
	is("the other counters are cleared", cpus[0].pmc[3], 0);
	run_guest(300);
	before = mem->record[1].pmc;
	is("RDPMC at the next entry", reads(), true);
	is("the next entry does not change pmc", mem->record[1].pmc, before);
	before = mem->record[2].pmc;
	run_guest(1800);
	is("RDPMC after two overflows", reads(), true);
	is("the overflows change pmc", mem->record[2].pmc != before, true);

	run_guest(900);
	is("an overflow is delivered at an NMI exit", nmi_exit(), true);
	before = mem->record[2].pmc;
	is("the NMI exit has updated pmc",
	   (reads(), mem->record[2].pmc), before);

	take_counters(tasks[0], 1);
	is("no RDPMC beside an event of the host", reads(), false);
	is("pmc of both events is 0", pmc(1) | pmc(2), 0);
	take_counters(tasks[0], 0);
	is("RDPMC after the host's event has ended", reads(), true);
	set_watchdog(tasks[0], true);
	is("no RDPMC beside the NMI watchdog", reads(), false);
	is("pmc is 0 beside the NMI watchdog", pmc(1), 0);
	pv_perf_kinds[0].pmcs.watchdog = true;
	is("RDPMC beside the NMI watchdog if the host allows it",
	   reads(), true);
	watchdog.owner = NULL;
	is("no RDPMC beside an event with another owner", reads(), false);
	watchdog.owner = (void *)-1l;
	watchdog.attr.config = PERF_COUNT_HW_INSTRUCTIONS;
	is("no RDPMC beside a watchdog event that counts instructions",
	   reads(), false);
	watchdog.attr.config = PERF_COUNT_HW_CPU_CYCLES;
	watchdog.attr.type = PERF_TYPE_RAW;
	is("no RDPMC beside a watchdog event of another type", reads(), false);
	watchdog.attr.type = PERF_TYPE_HARDWARE;
	watchdog.attr.exclude_user = 1;
	is("no RDPMC beside a watchdog event that excludes user mode",
	   reads(), false);
	watchdog.attr.exclude_user = 0;
	watchdog.attr.exclude_kernel = 1;
	is("no RDPMC beside a watchdog event that excludes the kernel",
	   reads(), false);
	watchdog.attr.exclude_kernel = 0;
	watchdog.hw.idx = -1;
	is("no RDPMC beside a watchdog event without a counter",
	   reads(), false);
	watchdog.hw.idx = NR_COUNTERS - 1;
	take_counters(tasks[0], 2);
	is("no RDPMC beside the watchdog and another event", reads(), false);
	set_watchdog(tasks[0], false);

	throttle(event(2)->backing);
	reads();
	is("pmc of a throttled event is 0", pmc(2), 0);
	tick(event(2)->backing);
	is("pmc is not 0 after perf has restarted the event",
	   (reads(), pmc(2) != 0), true);
	call(KVM_PERF_OP_SET_LEFT, 2);
	is("RDPMC after SET_LEFT", reads(), true);

	/* The event moves to the other vCPU, which has its own thread. */
	on(1);
	is("ENABLE elsewhere", call(KVM_PERF_OP_ENABLE, 1), 0);
	is("pmc is 0 after ENABLE elsewhere", pmc(1), 0);
	is("pmc is not 0 after the other vCPU enters",
	   (reads(), pmc(1) != 0), true);
	run_guest(70);
	reads();
	is("READ by the event's new vCPU",
	   (call(5, 1), mem->record[1].count), 3070);
	on(0);
	is("pmc of the other event stays", (reads(), pmc(2) != 0), true);

	on(1);
	call(KVM_PERF_OP_RESET, 0);
	on(0);
	is("no RDPMC after RESET by the other vCPU", reads(), false);
	is("after RESET, VM entry looks at nothing",
	   vcpus[0]->arch.pv_perf->at_entry, 0);
	teardown();
	*param_pv_perf_rdpmc = 0;
}

UNIT_TEST(rdpmc_told)
{
	struct kvm_memory_slot *slot;
	unsigned long flags;
	u64 value;

	*param_pv_perf_rdpmc = 1;
	setup_rdpmc();
	slot = &kvm->memslots.slot[0];
	start_rdpmc(1, 0);
	slot->absent[RECORD(1) >> PAGE_SHIFT] = true;
	is("RDPMC although the record's page is absent", reads(), true);
	slot->absent[RECORD(1) >> PAGE_SHIFT] = false;
	is("pmc is not written while the page is absent", pmc(1), 0);
	is("pmc is written when the page is present",
	   (reads(), pmc(1) != 0), true);

	take_counters(tasks[0], 1);
	kvm->memslots.generation++;
	local_irq_save(flags);
	pv_perf_enter(here(), PV_PERF_ENTRY_ANEW);
	local_irq_restore(flags);
	is("VM entry does not go on until pmc is cleared",
	   kvm_test_request(KVM_REQ_PV_PERF, here()), true);
	is("the request clears pmc", (handle_requests(here()), pmc(1)), 0);
	take_counters(tasks[0], 0);
	CHECK(reads() && pmc(1));

	mutex_lock(&here()->arch.pv_perf->lock);
	take_counters(tasks[0], 1);
	local_irq_save(flags);
	pv_perf_enter(here(), PV_PERF_ENTRY_ANEW);
	local_irq_restore(flags);
	mutex_unlock(&here()->arch.pv_perf->lock);
	is("VM entry does not go on while another vCPU has the lock",
	   kvm_test_request(KVM_REQ_PV_PERF, here()), true);
	is("no RDPMC after the lock is released", reads(), false);
	take_counters(tasks[0], 0);
	CHECK(reads() && pmc(1));

	slot->absent[RECORD(1) >> PAGE_SHIFT] = true;
	take_counters(tasks[0], 1);
	is("no RDPMC if pmc cannot be cleared", reads(), false);
	is("RDPMC faults if pmc cannot be cleared",
	   pv_perf_rdpmc(here(), 0, &value), false);
	have_area();
	here()->arch.cpl = 3;
	here()->arch.cr4 = X86_CR4_PCE;
	is("RDPMC of user mode faults if pmc cannot be cleared",
	   pv_perf_rdpmc(here(), 0, &value), false);
	here()->arch.cpl = 0;
	here()->arch.cr4 = 0;
	take_counters(tasks[0], 0);
	is("no RDPMC after the host's event has ended, either", reads(), false);
	slot->absent[RECORD(1) >> PAGE_SHIFT] = false;
	is("when the page is present, pmc is cleared", (reads(), pmc(1)), 0);
	is("after that, RDPMC and pmc are back", reads() && pmc(1), true);

	/*
	 * The host takes the other event's counter before the guest has run
	 * with that event.
	 */
	open_id(2);
	CHECK(reads() && pmc(1) && !call(KVM_PERF_OP_ENABLE, 2));
	take_counters(tasks[0], NR_COUNTERS - 1);
	take_counters(tasks[0], 0);
	CHECK(pv_perf_is_newly_lost(event(2)) && !pv_perf_is_newly_lost(event(1)));
	is("RDPMC beside an event that has lost its counter",
	   reads() && pmc(1), true);
	is("the lost event has the flag LOST",
	   mem->record[2].flags, KVM_PERF_EVENT_LOST);
	call(KVM_PERF_OP_CLOSE, 2);

	/* The counter is about to wrap. */
	local64_set(&event(1)->backing->hw.prev_count, -100);
	is("pmc of a counter that is about to wrap is 0", (reads(), pmc(1)), 0);
	teardown();
	*param_pv_perf_rdpmc = 0;
}

/* Changes of pmc, with and without an NMI. */
UNIT_TEST(rdpmc_nmi)
{
	struct kvm_memory_slot *slot;

	*param_pv_perf_rdpmc = 1;
	setup_rdpmc();
	slot = &kvm->memslots.slot[0];
	param(1, 1);
	mem->attr.flags = KVM_PERF_ATTR_RDPMC | KVM_PERF_ATTR_RDPMC_USER;
	CHECK(!do_open() && !call(KVM_PERF_OP_ENABLE, 1));
	CHECK(reads() && pmc(1));
	is("no NMI when pmc becomes valid", nmis, 0);
	take_counters(tasks[0], 1);
	CHECK(!reads() && !pmc(1));
	is("an NMI when pmc becomes 0", nmis, 1);
	reads();
	is("the NMI comes once", nmis, 0);
	take_counters(tasks[0], 0);
	CHECK(reads() && pmc(1));
	is("no NMI when pmc becomes valid again", nmis, 0);
	local64_add(1000, &event(1)->backing->count);
	CHECK(reads() && pmc(1));
	is("an NMI when the offset changes", nmis, 1);

	CHECK(!call(KVM_PERF_OP_DISABLE, 1));
	is("DISABLE sets pmc to 0 at once", pmc(1), 0);
	reads();
	is("no NMI for a DISABLE by the event's own vCPU", nmis, 0);
	CHECK(!call(KVM_PERF_OP_ENABLE, 1) && reads() && pmc(1));
	on(1);
	CHECK(!call(KVM_PERF_OP_DISABLE, 1));
	on(0);
	is("after DISABLE by another vCPU, VM entry sets pmc to 0",
	   (reads(), pmc(1)), 0);
	is("an NMI for a DISABLE by another vCPU", nmis, 1);

	CHECK(!call(KVM_PERF_OP_ENABLE, 1) && reads() && pmc(1));
	take_counters(tasks[0], 1);
	kvm->memslots.generation++;
	CHECK(!reads() && !pmc(1));
	is("an NMI when the request sets pmc to 0", nmis, 1);
	take_counters(tasks[0], 0);
	CHECK(reads() && pmc(1));

	replace_thread();
	pv_perf_vcpu_run(here());
	is("pmc is valid after another thread runs the vCPU",
	   reads() && pmc(1), true);
	is("an NMI after another thread runs the vCPU", nmis, 1);

	slot->absent[RECORD(1) >> PAGE_SHIFT] = true;
	take_counters(tasks[0], 1);
	CHECK(!reads() && pmc(1));
	is("no NMI while pmc cannot be written", nmis, 0);
	slot->absent[RECORD(1) >> PAGE_SHIFT] = false;
	CHECK(!reads() && !pmc(1));
	is("an NMI when pmc can be written", nmis, 1);
	take_counters(tasks[0], 0);
	CHECK(reads() && pmc(1));

	slot->absent[RECORD(1) >> PAGE_SHIFT] = true;
	CHECK(!call(KVM_PERF_OP_ENABLE, 1));
	is("DISABLE while the record's page is absent",
	   call(KVM_PERF_OP_DISABLE, 1), -EFAULT);
	is("after that DISABLE, RDPMC is intercepted", reads(), false);
	slot->absent[RECORD(1) >> PAGE_SHIFT] = false;
	is("when the page is present, pmc becomes 0", (reads(), pmc(1)), 0);

	CHECK(!call(KVM_PERF_OP_ENABLE, 1) && reads() && pmc(1));
	here()->arch.pv_perf->pmc_changed = true;
	pv_perf_vcpu_reset(here());
	reads();
	is("a reset of the vCPU drops the NMI", nmis, 0);
	teardown();
	*param_pv_perf_rdpmc = 0;
}

UNIT_TEST(rdpmc_counters)
{
	u32 told;

	*param_pv_perf_rdpmc = 1;
	setup_rdpmc();
	start_rdpmc(1, 0);
	CHECK(!open_raw(2, 0x3) && !call(3, 2));
	is("no RDPMC beside a pair of counters", reads(), false);
	call(KVM_PERF_OP_CLOSE, 2);
	is("RDPMC after the pair is closed", reads(), true);
	/* A nested guest runs. */
	param(3, 3);
	mem->attr.flags = KVM_PERF_ATTR_RDPMC | KVM_PERF_ATTR_RDPMC_USER |
			  KVM_PERF_ATTR_EXCLUDE_GUEST;
	CHECK(!do_open() && !call(3, 3));
	CHECK(reads() && pmc(3));
	told = mem->record[3].pmc;
	here()->arch.guest_mode = true;
	is("RDPMC while a nested guest runs", reads(), true);
	is("pmc of an event that excludes the nested guest stays",
	   mem->record[3].pmc, told);
	is("no NMI while the nested guest runs", nmis, 0);
	take_counters(tasks[0], 1);
	is("no RDPMC of the nested guest beside an event of the host",
	   reads(), false);
	is("pmc stays while the nested guest runs", mem->record[3].pmc, told);
	here()->arch.guest_mode = false;
	is("pmc becomes 0 before the guest runs", (reads(), pmc(3)), 0);
	is("an NMI when pmc becomes 0", nmis, 1);
	take_counters(tasks[0], 0);
	is("pmc is valid after the host's event has ended",
	   (reads(), pmc(3) != 0), true);
	mem->attr.flags = KVM_PERF_ATTR_RDPMC | KVM_PERF_ATTR_RDPMC_USER |
			  KVM_PERF_ATTR_EXCLUDE_HOST;
	CHECK(!call(KVM_PERF_OP_CLOSE, 3) && !do_open() && !call(3, 3));
	is("pmc of an event for nested guests only is valid",
	   (reads(), pmc(3) != 0), true);
	told = mem->record[3].pmc;
	here()->arch.guest_mode = true;
	CHECK(reads());
	run_guest(10);
	here()->arch.guest_mode = false;
	is("pmc of that event stays after the nested guest ran",
	   (reads(), mem->record[3].pmc), told);
	is("no NMI after the nested guest ran", nmis, 0);
	teardown();

	boot_cpu_data.x86_vendor = X86_VENDOR_INTEL;
	pmu_capability.num_counters_fixed = NR_FIXED;
	cpu_has_pdcm = true;
	/* Not every CPU with metrics has the capability for them. */
	perf_capabilities = FULL_WIDTH_WRITES;
	cpu_has_metrics = true;
	perf_metrics = 0x20;
	setup_rdpmc();
	cpus[0].fixed[1] = 77;
	start_rdpmc(1, 0);
	start_rdpmc(2, 0);
	is("RDPMC with fixed counters", reads(), true);
	is("pmc has the fixed counter", pmc(1), KVM_PERF_PMC_FIXED | 1);
	is("pmc of the other event has a general counter", pmc(2), 1);
	is("the other fixed counters are cleared", cpus[0].fixed[1], 0);
	is("the metrics are cleared", perf_metrics, 0);
	is("an intercepted RDPMC of the last fixed counter",
	   pv_perf_rdpmc(vcpus[0], 1 << 30 | (NR_FIXED - 1), &perf_metrics),
	   true);
	is("RDPMC beyond the last fixed counter faults",
	   pv_perf_rdpmc(vcpus[0], 1 << 30 | NR_FIXED, &perf_metrics), false);
	cpu_has_metrics = false;
	teardown();
	setup_rdpmc();
	start_rdpmc(1, 0);
	is("RDPMC on a CPU without metrics", reads(), true);
	teardown();
	cpu_has_pdcm = false;
	perf_capabilities = 0;
	boot_cpu_data.x86_vendor = X86_VENDOR_AMD;
	pmu_capability.num_counters_fixed = 0;
	*param_pv_perf_rdpmc = 0;
}

/*
 * perf throttles an event, and restarts it on another counter without writing
 * that counter.
 */
UNIT_TEST(rdpmc_unwritten)
{
	*param_pv_perf_rdpmc = 1;
	setup_rdpmc();
	start_rdpmc(1, 10);
	CHECK(reads());
	run_throttled(10);
	reassign(event(1)->backing, 1000);
	is("pmc of an event that perf has throttled and moved is 0",
	   (reads(), pmc(1)), 0);
	tick(event(1)->backing);
	is("RDPMC after perf has restarted the event", reads(), true);
	run_guest(5);
	is("the event does not count the counter's earlier value",
	   (call(KVM_PERF_OP_READ, 1), mem->record[1].count), 15);
	teardown();
	*param_pv_perf_rdpmc = 0;
}

/* VM entry looks only at changed events. */
UNIT_TEST(rdpmc_changed)
{
	struct perf_event *backing;
	unsigned long flags;

	*param_pv_perf_rdpmc = 1;
	setup_rdpmc();
	start_rdpmc(1, 0);
	CHECK(!open_mode(2, KVM_PERF_ATTR_EXCLUDE_HOST, 0));
	CHECK(reads() && reads());
	task_sched_out(current);
	task_sched_in(current);
	is("RDPMC beside an event of another mode, after the thread was scheduled",
	   reads(), true);
	reassign(event(2)->backing, 1000);
	is("no RDPMC if an event of another mode gets a counter with another value",
	   reads(), false);
	CHECK(!call(KVM_PERF_OP_CLOSE, 2) && reads() && pmc(1));
	CHECK(!open_mode(2, 0, 0));
	is("RDPMC beside an event without RDPMC", reads() && reads(), true);
	task_sched_out(current);
	task_sched_in(current);
	CHECK(reads() && pmc(1));
	is("RDPMC after the other event is disabled",
	   (call(KVM_PERF_OP_DISABLE, 2), reads() && reads()), true);
	throttle(event(1)->backing);
	is("pmc of a throttled event is 0", (reads(), reads(), pmc(1)), 0);
	tick(event(1)->backing);
	CHECK(reads() && pmc(1));
	CHECK(!call(KVM_PERF_OP_CLOSE, 2) && reads());
	backing = event(1)->backing;
	backing->hw.last_tag++;
	is("pmc is valid when the same counter is assigned again",
	   (reads(), pmc(1) != 0), true);
	local64_add(-5 - local64_read(&backing->hw.prev_count), &backing->count);
	local64_set(&backing->hw.prev_count, -5);
	is("pmc of a counter that is about to wrap is 0", (reads(), pmc(1)), 0);
	teardown();

	setup_rdpmc();
	start_rdpmc(1, 0);
	CHECK(reads() && pmc(1));
	take_counters(tasks[0], 1);
	kvm->memslots.slot[0].absent[RECORD(1) >> PAGE_SHIFT] = true;
	local_irq_save(flags);
	pv_perf_enter(here(), PV_PERF_ENTRY_AFTER_NMI);
	local_irq_restore(flags);
	is("VM entry does not go on if pmc cannot be cleared",
	   kvm_test_request(KVM_REQ_PV_PERF, here()), true);
	kvm->memslots.slot[0].absent[RECORD(1) >> PAGE_SHIFT] = false;
	is("pmc is cleared before VM entry goes on", (reads(), pmc(1)), 0);
	take_counters(tasks[0], 0);
	teardown();
	*param_pv_perf_rdpmc = 0;
}

UNIT_TEST(rdpmc_in_nmi)
{
	u32 told;

	*param_pv_perf_rdpmc = 1;
	setup_rdpmc();
	start_rdpmc(1, 0);
	CHECK(reads());
	run_guest(10);
	told = mem->record[1].pmc;
	here()->arch.nmi_injected = true;
	here()->arch.iret_intercept = true;
	is("RDPMC of a stopped event in an NMI handler", reads(), true);
	here()->arch.nmi_injected = false;
	is("pmc of the stopped event stays", mem->record[1].pmc, told);
	reassign(event(1)->backing, 1000);
	is("no RDPMC of a stopped event on another counter", reads(), false);
	is("pmc of that event is 0", pmc(1), 0);
	here()->arch.iret_intercept = false;
	is("RDPMC of that event after the handler",
	   (reads(), pmc(1) != 0), true);
	run_guest(5);
	is("the event counts after the handler",
	   (call(KVM_PERF_OP_READ, 1), mem->record[1].count), 15);
	teardown();

	setup_rdpmc();
	start_rdpmc(1, 0);
	CHECK(!open_mode(2, KVM_PERF_ATTR_RDPMC |
			 KVM_PERF_ATTR_EXCLUDE_KERNEL, 0));
	CHECK(reads() && pmc(1));
	here()->arch.nmi_injected = true;
	here()->arch.iret_intercept = true;
	CHECK(reads() && pmc(1));
	here()->arch.nmi_injected = false;
	on(1);
	CHECK(!call(KVM_PERF_OP_DISABLE, 1));
	on(0);
	is("pmc of a stopped event is 0 after DISABLE by another vCPU",
	   (reads(), pmc(1)), 0);
	is("pmc of the other event stays", pmc(2) != 0, true);
	teardown();
	*param_pv_perf_rdpmc = 0;
}
