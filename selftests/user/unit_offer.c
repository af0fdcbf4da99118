// SPDX-License-Identifier: GPL-2.0
/*
 * Unit tests of the host side: what the host offers a guest (the counters, the model), and
 * when it offers nothing.
 */
#include "unit.h"

static bool now_for_all(void)
{
	pv_perf_init();
	return pv_perf_is_for_all();
}

/*
 * The host is a guest on AMD, whose hypervisor may drop GuestOnly from event
 * selects.
 */
UNIT_TEST(guest_only)
{
	u64 used = ARCH_PERFMON_EVENTSEL_ENABLE | 0x76;
	int i, cpu;

	tasks[0] = task_create(0);
	on(0);
	cpu_has_hypervisor = true;
	select_drops = AMD64_EVENTSEL_GUESTONLY;
	selects[0][0] = used;
	selects[0][1] = 0xc0;
	is("unavailable if the hypervisor drops GuestOnly",
	   now_available(), false);
	is("the event selects are unchanged",
	   selects[0][0] == used && selects[0][1] == 0xc0, true);
	select_drops = 0;
	for (cpu = 0; cpu < NR_CPUS; cpu++)
		for (i = 0; i < NR_COUNTERS; i++)
			selects[cpu][i] = used;
	is("unavailable if no CPU has a free counter to try",
	   now_available(), false);
	selects[NR_CPUS - 1][0] = 0;
	is("available if another CPU's free counter keeps GuestOnly",
	   now_available(), true);
	select_drops = AMD64_EVENTSEL_GUESTONLY;
	is("unavailable if another CPU's free counter drops GuestOnly",
	   now_available(), false);
	select_drops = 0;
	selects[0][2] = 0xc2;
	is("available if this CPU's free counter keeps GuestOnly",
	   now_available(), true);
	is("the free counter's event select is unchanged", selects[0][2], 0xc2);
	selects[0][2] = used;
	is("the counters are tried only once", pv_perf_available(), true);
	memset(selects, 0, sizeof(selects));
	cpu_has_hypervisor = false;
	task_put(tasks[0]);
}

UNIT_TEST(available)
{
	is("available on AMD", now_available(), true);
	cpu_has_perfctr_core = false;
	is("unavailable on AMD without PERFCTR_CORE", now_available(), false);
	boot_cpu_data.x86_vendor = X86_VENDOR_HYGON;
	is("unavailable on Hygon without PERFCTR_CORE", now_available(), false);
	boot_cpu_data.x86_vendor = X86_VENDOR_INTEL;
	is("available on Intel", now_available(), true);
	pmu_capability.version = 1;
	is("unavailable with version 1", now_available(), false);
	pmu_capability.version = 2;
	pmu_capability.num_counters_gp = 0;
	is("unavailable without general counters", now_available(), false);
	pmu_capability.num_counters_gp = NR_COUNTERS;
	boot_cpu_data.x86_vendor = X86_VENDOR_ZHAOXIN;
	is("unavailable on Zhaoxin, which has VMX", now_available(), false);
	boot_cpu_data.x86_vendor = X86_VENDOR_INTEL;
	*param_pv_perf = false;
	is("with pv_perf=0, CPUID does not offer the feature",
	   now_for_all(), false);
	setup();
	is("a VM with pv_perf=0: ENOSYS",
	   call(KVM_PERF_OP_RESET, 0), -KVM_ENOSYS);
	is("with pv_perf=0, a VM has a limit of 0 events",
	   pv_perf_check_extension(kvm, KVM_CAP_PV_PERF_EVENTS), 0);
	is("with pv_perf=0, the host offers VMMs 64 events",
	   host_extension(KVM_CAP_PV_PERF_EVENTS), 64);
	teardown();
	tasks[0] = task_create(0);
	on(0);
	kvm = vm_create();
	is("with pv_perf=0, a VMM can ask for 8 events",
	   enable_cap(kvm, KVM_CAP_PV_PERF_EVENTS, 8), 0);
	vcpus[0] = vcpu_create(kvm, 0);
	is("that VMM's VM has the feature", call(KVM_PERF_OP_RESET, 0), 0);
	is("that VMM's VM has a limit of 8 events",
	   pv_perf_check_extension(kvm, KVM_CAP_PV_PERF_EVENTS), 8);
	vcpu_destroy(vcpus[0]);
	vm_destroy(kvm);

	enable_pmu = false;
	kvm = vm_create();
	is("with enable_pmu=0, a VMM cannot ask for events",
	   enable_cap(kvm, KVM_CAP_PV_PERF_EVENTS, 8), -EINVAL);
	is("with enable_pmu=0, the host offers no events",
	   host_extension(KVM_CAP_PV_PERF_EVENTS), 0);
	vm_destroy(kvm);
	task_put(tasks[0]);
	*param_pv_perf = true;
	is("with pv_perf=1 and enable_pmu=0, CPUID offers the feature",
	   now_for_all(), true);
	enable_pmu = true;

	setup();
	param(1, 1);
	mem->attr.config = 1ull << 32;
	is("OPEN with event bits 35:32 on Intel: EINVAL",
	   do_open(), -KVM_EINVAL);
	teardown();
	boot_cpu_data.x86_vendor = X86_VENDOR_AMD;
	cpu_has_perfctr_core = true;
	setup();
	param(1, 1);
	mem->attr.config = 1ull << 32;
	is("OPEN with event bits 35:32 on AMD", do_open(), 0);
	teardown();
}

/* This host is itself a guest, and has no PMU of its own. */
UNIT_TEST(nested_host)
{
	pmu_capability.num_counters_gp = 0;
	have_kvm_pmu_query = true;
	have_hypervisor_slot = true;
	hypervisor.nr_counters = 3;
	hypervisor.raw_event_mask = 0xffff;
	hypervisor.hw_config[1] = 0xc0;
	is("unavailable if the hypervisor does not offer nested events",
	   now_available(), false);
	hypervisor.features = KVM_PERF_FEATURE_NESTED | KVM_PERF_FEATURE_BRANCHES;
	hypervisor.branches = 16;
	hypervisor.model = 0x21901;
	have_hypervisor_slot = false;
	is("unavailable if perf's slot has another PMU",
	   now_available(), false);
	have_hypervisor_slot = true;
	is("available by the hypervisor's PMU", now_available(), true);
	setup();
	mem->query.size = sizeof(mem->query);
	is("QUERY", call(KVM_PERF_OP_QUERY, GPA(query)), 0);
	is("QUERY: the hypervisor's number of counters",
	   mem->query.nr_counters, 3);
	is("QUERY: no branch records", mem->query.branches, 0);
	is("QUERY: not the feature of branches",
	   mem->query.features & KVM_PERF_FEATURE_BRANCHES, 0);
	*param_pv_perf_max_counters = 0;
	is("by default, this host keeps one of the counters",
	   told_counters(), 2);
	is("QUERY: the hypervisor's raw event mask",
	   mem->query.raw_event_mask, 0xffff);
	is("QUERY: the hypervisor's generic events",
	   mem->query.hw_config[1], 0xc0);
	is("QUERY: the hypervisor's CPU model", mem->query.model, 0x21901);
	param(1, 1);
	mem->attr.model = 0x21901;
	is("OPEN of a raw event of this model", do_open(), 0);
	CHECK(!call(KVM_PERF_OP_CLOSE, 1));
	hypervisor.model = 0x21731;
	is("after this host moved to another CPU, a raw event of the first: EOPNOTSUPP",
	   do_open(), -KVM_EOPNOTSUPP);
	told_counters();
	is("QUERY: the new CPU's model", mem->query.model, 0x21731);
	mem->attr.model = 0x21731;
	is("OPEN of a raw event of the new model", do_open(), 0);
	CHECK(!call(KVM_PERF_OP_CLOSE, 1));
	is("QUERY: this host's limit of events", mem->query.max_events, 128);
	param(1, 1);
	mem->attr.config = 0x1c000000;
	is("a raw event with bits outside of the mask: EINVAL",
	   do_open(), -KVM_EINVAL);
	mem->attr.config = 0xc0;
	mem->attr.sample_period = 1000;
	mem->attr.flags = KVM_PERF_ATTR_FREQ;
	is("OPEN with a frequency", do_open(), 0);
	is("the hypervisor's perf adapts the frequency",
	   event(1)->backing->attr.freq &&
	   event(1)->backing->attr.sample_freq == 1000,
	   true);
	is("SET_PERIOD above this host's maximum sample rate",
	   call3(7, 1, max_sample_rate + 1, 0), -KVM_EINVAL);
	*param_pv_perf_max_rate = 5000;
	is("SET_PERIOD above the vCPU's rate, of a frequency that perf adapts",
	   call3(7, 1, 5001, 0), -KVM_EINVAL);
	is("SET_PERIOD to the vCPU's rate", call3(7, 1, 5000, 0), 0);
	*param_pv_perf_max_rate = 100000;
	is("SET_PERIOD to this host's maximum sample rate",
	   call3(7, 1, max_sample_rate, 0), 0);
	is("SET_PERIOD changes the backing event's frequency",
	   event(1)->backing->attr.sample_freq, max_sample_rate);
	teardown();
	have_kvm_pmu_query = false;
	pmu_capability.num_counters_gp = NR_COUNTERS;
}

UNIT_TEST(counters)
{
	u32 id;

	setup();
	for (id = 1; id <= NR_COUNTERS + 1; id++)
		open_id(id);
	for (id = 1; id <= NR_COUNTERS; id++)
		CHECK(!call(KVM_PERF_OP_ENABLE, id));
	is("ENABLE without a counter", call(3, NR_COUNTERS + 1), -KVM_EBUSY);
	run_guest(10);
	is("READ all of the events that count", call(5, KVM_PERF_ID_ALL), 0);
	is("the oldest event counts", mem->record[1].count, 10);
	is("the youngest event counts", mem->record[NR_COUNTERS].count, 10);

	/* The oldest event is enabled last: perf would stop the youngest. */
	call(KVM_PERF_OP_DISABLE, 1);
	CHECK(!call(KVM_PERF_OP_ENABLE, NR_COUNTERS + 1));
	is("ENABLE of the oldest event: EBUSY",
	   call(KVM_PERF_OP_ENABLE, 1), -KVM_EBUSY);
	run_guest(10);
	is("the other events count on", call(5, KVM_PERF_ID_ALL), 0);
	is("the youngest event has missed nothing",
	   mem->record[NR_COUNTERS + 1].count, 10);

	/* The host takes one counter. */
	take_counters(tasks[0], 1);
	run_guest(10);
	is("READ all with a lost event: EBUSY",
	   call(5, KVM_PERF_ID_ALL), -KVM_EBUSY);
	is("READ all reads the other events", mem->record[2].count, 30);
	is("READ of the lost event: EBUSY",
	   call(5, NR_COUNTERS + 1), -KVM_EBUSY);
	is("ENABLE of another event meanwhile: EBUSY", call(3, 1), -KVM_EBUSY);
	is("ENABLE of an event that counts", call(3, 2), 0);
	take_counters(tasks[0], 0);
	is("READ of the lost event restarts it: EBUSY",
	   call(5, NR_COUNTERS + 1), -KVM_EBUSY);
	is("READ of the restarted event", call(5, NR_COUNTERS + 1), 0);
	run_guest(10);
	call(5, NR_COUNTERS + 1);
	is("the event has counted while it had a counter",
	   mem->record[NR_COUNTERS + 1].count, 20);
	take_counters(tasks[0], NR_COUNTERS);
	is("DISABLE of a lost event", call(4, NR_COUNTERS + 1), 0);
	is("READ of the disabled event", call(5, NR_COUNTERS + 1), 0);
	teardown();
}

static int enabled_by_perf;

static void count_enables(const char *where)
{
	enabled_by_perf += !strcmp(where, "enable");
}

/* The host keeps some counters for itself. */
UNIT_TEST(max_counters)
{
	u32 id;

	setup();
	*param_pv_perf_max_counters = 0;
	is("without fixed counters the host keeps two", told_counters(),
	   NR_COUNTERS - 2);
	*param_pv_perf_max_counters = NR_COUNTERS + 1;
	is("QUERY has no more counters than the CPU",
	   told_counters(), NR_COUNTERS);
	*param_pv_perf_max_counters = 2;
	is("QUERY has the limit", told_counters(), 2);
	for (id = 1; id <= 4; id++)
		CHECK(!open_id(id));
	is("ENABLE of the first event", call(3, 1), 0);
	is("ENABLE of the second event, which reaches the limit",
	   call(3, 2), 0);
	sleep_hook = count_enables;
	is("ENABLE beyond the limit: EBUSY", call(3, 3), -KVM_EBUSY);
	is("ENABLE beyond the limit takes no counter meanwhile",
	   enabled_by_perf, 0);
	sleep_hook = NULL;
	is("ENABLE again of an event that counts", call(3, 2), 0);
	on(1);
	is("another vCPU has its own limit", call(3, 3), 0);
	is("ENABLE moves an event to the other vCPU", call(3, 2), 0);
	is("ENABLE beyond the other vCPU's limit: EBUSY",
	   call(3, 1), -KVM_EBUSY);
	on(0);
	is("after the move, the first vCPU has a free counter", call(3, 4), 0);
	run_guest(10);
	is("the other event counts on", (call(5, 1), mem->record[1].count), 10);

	/* A lower limit concerns only events that start later, as in perf. */
	*param_pv_perf_max_counters = 1;
	run_guest(10);
	is("a lower limit stops nothing", call(5, 4), 0);
	replace_thread();
	pv_perf_vcpu_run(vcpus[0]);
	run_guest(10);
	is("after a move to another thread, one event is beyond the limit",
	   (call(5, 1), call(5, 4)) || call(5, 1), true);
	*param_pv_perf_max_counters = 2;
	call(5, 1);
	call(5, 4);
	is("after the limit is raised, READ restarts the event",
	   call(5, 1) ? : call(5, 4), 0);
	take_counters(tasks[0], NR_COUNTERS - 1);
	is("READ of an event that has lost its counter: EBUSY",
	   call(5, 4), -KVM_EBUSY);
	teardown();

	/* Other events count while this event does not. */
	setup();
	*param_pv_perf_max_counters = 1;
	start_on(0, 1, 0);
	run_on(0, 10);
	run_on(1, 5);
	start_on(1, 2, 0);
	run_on(1, 20);
	is("vCPUs that run on a thread in turn have a counter each",
	   count_on(1, 2), 20);
	run_on(0, 10);
	is("the other vCPU's event has a counter, too", count_on(0, 1), 20);
	teardown();
}

/* Some events of Zen use two counters. */
UNIT_TEST(pairs)
{
	setup();
	*param_pv_perf_max_counters = 3;
	CHECK(!open_raw(1, 0x3) && !open_raw(2, 0xff03));
	CHECK(!open_raw(3, 0x100000003));
	is("a pair of counters", call(3, 1), 0);
	is("another pair is beyond the limit of 3 counters",
	   call(3, 2), -KVM_EBUSY);
	is("an event with a longer number uses one counter", call(3, 3), 0);
	*param_pv_perf_max_counters = 4;
	is("with a limit of 4, a pair and a counter leave no pair",
	   call(3, 2), -KVM_EBUSY);
	call(4, 3);
	is("with a limit of 4, two pairs have room", call(3, 2), 0);
	boot_cpu_data.x86 = 0x15;
	is("before Zen, each event uses one counter", call(3, 3), 0);
	boot_cpu_data.x86 = 0x17;
	teardown();
}

/* A fixed counter counts only its own event. */
UNIT_TEST(fixed_counters)
{
	boot_cpu_data.x86_vendor = X86_VENDOR_INTEL;
	pmu_capability.num_counters_fixed = 3;
	setup();
	*param_pv_perf_max_counters = 0;
	is("with fixed counters the host keeps one", told_counters(),
	   NR_COUNTERS - 1);
	is("QUERY has the fixed counters", mem->query.fixed_counters, 7);
	*param_pv_perf_max_counters = 1;
	CHECK(!open_id(1) && !open_id(2) && !open_id(3));
	is("ENABLE of instructions uses the fixed counter", call(3, 1), 0);
	is("ENABLE of instructions again uses the general counter",
	   call(3, 2), 0);
	is("ENABLE of instructions once more: EBUSY", call(3, 3), -KVM_EBUSY);
	open_raw(5, 0x2c);
	call(4, 1);
	is("if the fixed counter becomes free, the general counter does, too",
	   call(3, 3), 0);
	call(4, 3);
	call(4, 2);
	call(3, 1);
	call(3, 2);
	call(4, 1);
	is("an event without a fixed counter has no room",
	   call(3, 5), -KVM_EBUSY);
	is("the first event of instructions has room again", call(3, 1), 0);
	call(4, 1);
	call(4, 2);

	/* The host uses the fixed counter of cycles, like the NMI watchdog. */
	cpus[0].taken_fixed = 2;
	open_raw(8, 0x3c);
	is("instructions in the fixed counter, cycles in the general counter",
	   call(3, 2) ?: call(3, 8), 0);
	is("an older event of instructions: EBUSY", call(3, 1), -KVM_EBUSY);
	call(4, 8);
	is("the older event has not moved the other event for good",
	   call(3, 5), 0);
	call(4, 5);
	call(2, 8);
	cpus[0].taken_fixed = 0;
	call(3, 1);
	call(3, 2);
	call(4, 1);
	call(3, 1);
	open_raw(4, 0x3c);
	is("cycles use their own fixed counter", call(3, 4), 0);
	is("other events have no fixed counter: EBUSY", call(3, 5), -KVM_EBUSY);
	run_guest(10);
	is("all enabled events count", call(5, KVM_PERF_ID_ALL), 0);
	call(4, 2);
	is("DISABLE makes room", call(3, 5), 0);
	open_raw(6, 0x300);
	is("perf's event for branch records: EOPNOTSUPP",
	   open_raw(7, 0x1b00), -KVM_EOPNOTSUPP);
	is("reference cycles use their own fixed counter", call(3, 6), 0);
	teardown();
	boot_cpu_data.x86_vendor = X86_VENDOR_AMD;
	pmu_capability.num_counters_fixed = 0;

	/* The CPU has two counters. */
	pmu_capability.num_counters_gp = 2;
	setup();
	*param_pv_perf_max_counters = 0;
	is("the guest has at least one counter", told_counters(), 1);
	teardown();
	pmu_capability.num_counters_gp = NR_COUNTERS;
}

/* On Intel, perf stays set up for the next event until the VM ends. */
UNIT_TEST(held_pmu)
{
	int n = 0;

	setup();
	CHECK(!open_id(1));
	is("nothing is held on AMD", atomic_read(&nr_held_events), 0);
	teardown();

	boot_cpu_data.x86_vendor = X86_VENDOR_INTEL;
	setup();
	is("nothing is held on Intel before the first OPEN",
	   atomic_read(&nr_held_events), 0);
	/* Each OPEN tries again, and fails at a later allocation. */
	do {
		alloc_faults = (struct faults){ .fail_at = ++n };
		CHECK(open_id(1));
	} while (!atomic_read(&nr_held_events));
	alloc_faults.fail_at = 0;
	is("the failed OPEN holds one event", atomic_read(&nr_held_events), 1);
	CHECK(!open_id(1) && !open_id(2));
	is("OPENs that succeed hold no more", atomic_read(&nr_held_events), 1);
	on(1);
	CHECK(!open_id(3));
	is("OPEN by another vCPU holds no more",
	   atomic_read(&nr_held_events), 1);
	call(2, 1);
	call(2, 2);
	call(2, 3);
	is("CLOSE does not release the held event",
	   atomic_read(&nr_held_events), 1);
	/* teardown() checks that the end of the VM releases the held event. */
	teardown();
	boot_cpu_data.x86_vendor = X86_VENDOR_AMD;
}

UNIT_TEST(query)
{
	struct guest_perf_query *q;
	int i;

	setup();
	q = &mem->query;
	q->size = GUEST_PERF_QUERY_SIZE_VER0 - 1;
	is("QUERY too small", call(6, GPA(query)), -KVM_EINVAL);
	is("QUERY at 4", call(6, 4), -KVM_EINVAL);
	is("QUERY of no memory", call(6, NO_MEMORY), -KVM_EFAULT);
	memset(kvm->memslots.slot[1].memory, 0x7f, 4);
	is("QUERY in read-only memory", call(6, RO_MEMORY), -KVM_EFAULT);
	memset(q, 0x5a, sizeof(*q) + sizeof(mem->after_query));
	q->size = sizeof(*q) + sizeof(mem->after_query);
	is("QUERY", call(6, GPA(query)), 0);
	is("size", q->size, sizeof(*q));
	is("version", q->version, KVM_PERF_ABI_VERSION);
	is("features", q->features, 191);
	is("max_events", q->max_events, 128);
	is("counters", q->nr_counters, NR_COUNTERS);
	is("fixed counters", q->fixed_counters, 0);
	is("mask", q->raw_event_mask == AMD64_RAW_EVENT_MASK, true);
	is("no RDPMC", q->rdpmc, KVM_PERF_RDPMC_HOST);
	for (i = 0; i < KVM_PERF_NR_HW_EVENTS; i++)
		CHECK(q->hw_config[i] == hw_event_config[i]);
	is("QUERY writes nothing behind the known fields",
	   !memchr_inv(mem->after_query, 0x5a, sizeof(mem->after_query)), true);
	*param_pv_perf_max_events = -1u;
	call(6, GPA(query));
	is("max_events at most 2^31 - 1", q->max_events, INT_MAX);
	*param_pv_perf_max_events = 64;
	teardown();
}

/* Raw events belong to a CPU model, named events do not. */
UNIT_TEST(model)
{
	struct guest_perf_query *q;
	u32 model;

	setup();
	q = &mem->query;
	q->size = sizeof(*q);
	CHECK(!call(6, GPA(query)));
	model = q->model;
	is("QUERY has the CPU's model",
	   model,
	   KVM_PERF_MODEL_AMD | 0x17 << KVM_PERF_MODEL_FAMILY_SHIFT | 0x31);
	param(1, 1);
	mem->attr.model = model;
	is("a raw event of this model", do_open(), 0);
	CHECK(!call(KVM_PERF_OP_CLOSE, 1));
	mem->attr.model = 0;
	is("a raw event of any model", do_open(), 0);
	CHECK(!call(KVM_PERF_OP_CLOSE, 1));
	mem->attr.model = model + 1;
	open_fails("a raw event of another model: EOPNOTSUPP", -KVM_EOPNOTSUPP);
	param(1, 1);
	mem->attr.model = model + 1;
	mem->attr.config = -1ull;
	open_fails("a raw event of another model with bits outside of the mask: EOPNOTSUPP",
		   -KVM_EOPNOTSUPP);
	param(1, 1);
	mem->attr.type = KVM_PERF_TYPE_HARDWARE;
	mem->attr.config = PERF_COUNT_HW_INSTRUCTIONS;
	mem->attr.model = model;
	open_fails("a named event of a model: EINVAL", -KVM_EINVAL);
	param(1, 1);
	mem->attr.type = KVM_PERF_TYPE_HARDWARE;
	mem->attr.config = PERF_COUNT_HW_INSTRUCTIONS;
	is("a named event", do_open(), 0);
	CHECK(!call(KVM_PERF_OP_CLOSE, 1));
	param(1, 1);
	mem->attr.reserved = 1;
	open_fails("a reserved field: EINVAL", -KVM_EINVAL);
	teardown();

	/*
	 * The guest moves from an AMD host to an Intel host, and learns that
	 * only by QUERY.
	 */
	boot_cpu_data.x86_vendor = X86_VENDOR_INTEL;
	boot_cpu_data.x86 = 6;
	boot_cpu_data.x86_model = 0x31;
	setup();
	q = &mem->query;
	q->size = sizeof(*q);
	CHECK(!call(6, GPA(query)));
	is("on Intel, QUERY has the Intel CPU's model",
	   q->model,
	   KVM_PERF_MODEL_INTEL | 6 << KVM_PERF_MODEL_FAMILY_SHIFT | 0x31);
	is("on Intel, QUERY has Intel's raw event mask",
	   q->raw_event_mask == X86_RAW_EVENT_MASK, true);
	param(1, 1);
	mem->attr.model = model;
	open_fails("on Intel, a raw event of AMD: EOPNOTSUPP", -KVM_EOPNOTSUPP);
	param(1, 1);
	mem->attr.type = KVM_PERF_TYPE_HARDWARE;
	mem->attr.config = PERF_COUNT_HW_INSTRUCTIONS;
	mem->attr.flags = KVM_PERF_ATTR_OPTIONAL;
	is("on Intel, a named event with all optional flags", do_open(), 0);
	teardown();
	boot_cpu_data.x86_vendor = X86_VENDOR_HYGON;
	setup();
	mem->query.size = sizeof(mem->query);
	CHECK(!call(6, GPA(query)));
	is("on Hygon, QUERY has another vendor",
	   mem->query.model & KVM_PERF_MODEL_VENDOR, KVM_PERF_MODEL_HYGON);
	teardown();
	boot_cpu_data.x86_vendor = X86_VENDOR_AMD;
	boot_cpu_data.x86 = 0x17;
}
