// SPDX-License-Identifier: GPL-2.0
/*
 * Unit tests of the host side: hosts with several kinds of cores.
 */
#include "unit.h"

#define PERFORMANCE_CPU	0
#define EFFICIENCY_CPU	2

/* KVM is loaded on a host whose CPUs from EFFICIENCY_CPU on are efficiency cores. */
static void set_hybrid(bool hybrid)
{
	int cpu;

	for (cpu = EFFICIENCY_CPU; cpu < NR_CPUS; cpu++)
		cpu_kinds[cpu] = 1;
	cpu_has_hybrid = hybrid;
	boot_cpu_data.x86_vendor = hybrid ? X86_VENDOR_INTEL : X86_VENDOR_AMD;
	if (!hybrid)
		pv_perf_hybrid = false;
	tasks[0] = task_create(0);
	on(0);
	pv_perf_init();
	task_put(tasks[0]);
}

/* The host's scheduler moves the vCPU's thread. */
static void to_cpu(int cpu)
{
	task_sched_out(current);
	current->cpu = cpu;
	task_sched_in(current);
}

static long nr_backings(void)
{
	return atomic_read(&nr_backing_events);
}

static u64 counted_now(u32 id)
{
	CHECK(!call(KVM_PERF_OP_READ, id));
	return mem->record[id].count;
}

UNIT_TEST(hybrid_offer)
{
	u64 start;
	u32 named;
	int i;

	set_hybrid(true);
	setup();
	is("a hybrid host offers as many counters as each of its kinds has",
	   told_counters(), NR_COUNTERS - 1);
	is("its model says that it is hybrid",
	   !!(mem->query.model & KVM_PERF_MODEL_HYBRID), true);
	named = mem->query.model & ~KVM_PERF_MODEL_KIND;
	param(1, 1);
	mem->attr.model = mem->query.model;
	is("a raw event that is architectural opens", do_open(), 0);
	param(2, 2);
	mem->attr.config = 0x1b1;
	is("another raw event has no meaning there: EINVAL", do_open(), -KVM_EINVAL);
	mem->attr.model = named | KVM_PERF_MODEL_HYBRID;
	is("nor has one that names no kind: EINVAL", do_open(), -KVM_EINVAL);
	mem->attr.model = named;
	is("one of a host that is not hybrid: EOPNOTSUPP", do_open(), -KVM_EOPNOTSUPP);
	mem->attr.model = named | 0x33u << KVM_PERF_MODEL_KIND_SHIFT;
	is("one of a kind that there is not: EOPNOTSUPP", do_open(), -KVM_EOPNOTSUPP);
	mem->attr.model = (named ^ 1) | (u32)kind_cores[1] << KVM_PERF_MODEL_KIND_SHIFT;
	is("one of a kind of another model: EOPNOTSUPP", do_open(), -KVM_EOPNOTSUPP);
	mem->attr.model = named | (u32)kind_cores[1] << KVM_PERF_MODEL_KIND_SHIFT;
	create_error = -ENOMEM;
	is("without memory for the kind that a raw event names: ENOSPC", do_open(),
	   -KVM_ENOSPC);
	is("one that names a kind opens", do_open(), 0);
	is("on the other kind it has no counter: EBUSY", call(3, 2), -KVM_EBUSY);
	start = clock_ns;
	for (i = 0; i < 2200; i++) {
		CHECK(call(3, 2) == -KVM_EBUSY);
		enter_guest();
	}
	is("a guest that keeps asking for it there does not have to wait", clock_ns - start, 0);
	to_cpu(EFFICIENCY_CPU);
	enter_counting();
	is("on its own kind it has one", call(3, 2), 0);
	run_guest(7);
	is("it counts there", counted_now(2), 7);
	to_cpu(PERFORMANCE_CPU);
	enter_counting();
	is("where it does not exist, it loses its counter",
	   !!(mem->record[2].flags & KVM_PERF_EVENT_LOST), true);
	run_guest(10);
	is("it counts nothing there: EBUSY", call(5, 2), -KVM_EBUSY);
	is("its count stays", mem->record[2].count, 7);
	to_cpu(EFFICIENCY_CPU);
	enter_counting();
	run_guest(3);
	is("back on its kind it counts nothing", mem->record[2].count, 7);
	is("until READ restarts it", call(5, 2), -KVM_EBUSY);
	run_guest(3);
	is("it counts on", counted_now(2), 10);
	teardown();

	setup();
	to_cpu(EFFICIENCY_CPU);
	param(1, 1);
	mem->attr.type = KVM_PERF_TYPE_HW_CACHE;
	mem->attr.config = PERF_COUNT_HW_CACHE_DTLB;
	is("an event that another kind has opens", do_open(), 0);
	is("with a backing event for that kind only", nr_backings(), 1);
	is("it has no counter here: EBUSY", call(3, 1), -KVM_EBUSY);
	to_cpu(PERFORMANCE_CPU);
	enter_counting();
	CHECK(!call(3, 1));
	run_guest(20);
	is("it counts where it exists", counted_now(1), 20);
	is("with the same backing event", nr_backings(), 1);
	teardown();
	set_hybrid(false);
}

UNIT_TEST(hybrid_count)
{
	struct guest_perf_event *r;
	struct task_struct *old;
	int i;

	set_hybrid(true);
	setup();
	r = &mem->record[1];
	open_sampling(1, 1000);
	open_id(2);
	open_id(3);
	CHECK(!call(3, 1) && !call(3, 2));
	enter_counting();
	run_guest(300);
	is("where a VM stays on one kind, it has one backing event each", nr_backings(), 3);
	to_cpu(EFFICIENCY_CPU);
	is("on a CPU of another kind, the entry is given up", entry_goes_on(), false);
	enter_counting();
	is("enabled events have another backing event there", nr_backings(), 5);
	run_guest(300);
	is("the count goes on", counted_now(1), 600);
	is("the times go on", r->time_enabled == 600 && r->time_running == 600, true);
	is("the period goes on", r->period_left, 400);
	to_cpu(PERFORMANCE_CPU);
	enter_counting();
	is("back on the first kind, the first backing events go on", nr_backings(), 5);
	run_guest(399);
	is("before its end, the period has not ended", enter_counting(), 0);
	to_cpu(EFFICIENCY_CPU);
	enter_counting();
	run_guest(1);
	is("a period that began on one kind ends on the other, exactly", enter_counting(), 1);
	is("the overflow is told", r->overflows, 1);
	for (i = 0; i < 1000; i++) {
		to_cpu(i & 1 ? EFFICIENCY_CPU : PERFORMANCE_CPU);
		enter_counting();
		run_guest(7);
	}
	enter_counting();
	is("after 1,000 moves the count is exact", counted_now(1), 8000);
	is("the other's, too", counted_now(2), 8000);
	is("so are the overflows", r->overflows, 8);
	is("a disabled event is enabled there", call(3, 3), 0);
	run_guest(5);
	is("it counts", counted_now(3), 5);

	create_error = -ENOMEM;
	old = tasks[0];
	tasks[0] = task_create(PERFORMANCE_CPU);
	on(0);
	task_exit(old);
	pv_perf_vcpu_run(vcpus[0]);
	enter_counting();
	is("on another thread one event finds no memory",
	   is_lost(1) + is_lost(2) + is_lost(3), 1);
	CHECK(!call(3, 1) && !call(3, 2) && !call(3, 3));
	run_guest(10);
	is("the others go on there", counted_now(2), 8015);
	is("and keep none of the old thread", nr_backings() <= 6, true);
	to_cpu(EFFICIENCY_CPU);
	create_error = -ENOMEM;
	enter_counting();
	is("without memory for another kind, an event is lost",
	   is_lost(1) + is_lost(2) + is_lost(3), 1);
	CHECK(!call(3, 1) && !call(3, 2) && !call(3, 3));
	run_guest(10);
	is("until it is enabled again", counted_now(1) + counted_now(2) + counted_now(3),
	   8025 + 8025 + 25);
	CHECK(!call(2, 1) && !call(2, 2) && !call(2, 3));
	is("CLOSE releases all backing events", nr_backings(), 0);
	teardown();
	set_hybrid(false);
}

/* One thread runs both vCPUs in turn, and an event moves between them. */
UNIT_TEST(hybrid_turns)
{
	int i;

	set_hybrid(true);
	setup();
	CHECK(!open_id(1) && !call(3, 1));
	for (i = 0; i < 20; i++) {
		int vcpu = i & 1;

		to_cpu(i & 2 ? EFFICIENCY_CPU : PERFORMANCE_CPU);
		pv_perf_vcpu_run(vcpus[vcpu]);
		CHECK(!pv_perf_hypercall(vcpus[vcpu], KVM_PERF_OP_ENABLE, 1, 0, 0));
	}
	is("an event that moves between vCPUs and kinds has a backing event for each kind",
	   nr_backings(), 2);
	teardown();
	set_hybrid(false);
}

/* perf changes the event select of a backing event, which is then not kept. */
UNIT_TEST(hybrid_select)
{
	u64 misses = hw_event_config[PERF_COUNT_HW_CACHE_MISSES];
	int cpu;

	set_hybrid(true);
	setup();
	hw_event_config[PERF_COUNT_HW_CACHE_MISSES] = 0xb7;
	param(1, 1);
	mem->attr.type = KVM_PERF_TYPE_HARDWARE;
	mem->attr.config = PERF_COUNT_HW_CACHE_MISSES;
	CHECK(!do_open());
	register_taken = true;
	CHECK(!call(KVM_PERF_OP_ENABLE, 1));
	for (cpu = 0; cpu < 4; cpu++) {
		to_cpu(cpu % 2 ? EFFICIENCY_CPU : PERFORMANCE_CPU);
		enter_counting();
		run_guest(10);
	}
	CHECK((event(1)->backing->hw.config & 0xff) == 0xbb);
	deny(0xbb);
	to_cpu(PERFORMANCE_CPU);
	enter_counting();
	run_guest(10);
	is("the filter does not apply to perf's config on another kind of core",
	   is_lost(1), false);
	register_taken = false;
	hw_event_config[PERF_COUNT_HW_CACHE_MISSES] = misses;
	teardown();
	set_hybrid(false);
}

UNIT_TEST(hybrid_lost)
{
	struct guest_perf_event *r;
	struct task_struct *other;

	set_hybrid(true);
	setup();
	r = &mem->record[1];
	open_notify(1, 1000);
	CHECK(!call(3, 1));
	enter_counting();
	run_guest(300);
	other = task_create(EFFICIENCY_CPU);
	take_counters(other, NR_COUNTERS - 1);
	to_cpu(EFFICIENCY_CPU);
	is("a kind without a free counter: the guest gets an NMI", enter_counting(), 1);
	is("its event is lost", !!(r->flags & KVM_PERF_EVENT_LOST), true);
	run_guest(50);
	to_cpu(PERFORMANCE_CPU);
	enter_counting();
	run_guest(50);
	is("it stays lost on the other kind", r->count, 300);
	is("until READ restarts it", call(5, 1), -KVM_EBUSY);
	run_guest(50);
	is("it counts on", counted_now(1), 350);
	take_counters(other, 0);
	task_put(other);
	teardown();

	setup();
	r = &mem->record[1];
	open_sampling(1, 100);
	CHECK(!call(3, 1));
	enter_counting();
	run_guest(100);
	throttle(event(1)->backing);
	to_cpu(EFFICIENCY_CPU);
	enter_counting();
	is("an event that perf throttled goes on on another kind", event(1)->backing->hw.state,
	   0);
	run_guest(99);
	is("where its period was", (call(5, 1), r->count == 199 && r->period_left == 1), true);
	teardown();
	set_hybrid(false);
}

UNIT_TEST(hybrid_retired)
{
	struct guest_perf_event *r;

	set_hybrid(true);
	setup();
	r = &mem->record[1];
	open_sampling(1, 100);
	CHECK(!call(3, 1));
	enter_counting();
	run_guest(97);
	to_cpu(EFFICIENCY_CPU);
	pv_perf_instruction_retired(here());
	enter_counting();
	is("an instruction that KVM completes after a move counts", counted_now(1), 98);
	is("and is taken from the period", r->period_left, 2);
	run_guest(1);
	to_cpu(PERFORMANCE_CPU);
	pv_perf_instruction_retired(here());
	run_guest(0);
	is("it can end a period", enter_counting(), 1);
	is("which is told", r->overflows == 1 && r->last_period == 100, true);
	is("a whole period follows", (call(5, 1), r->period_left), 100);
	to_cpu(EFFICIENCY_CPU);
	pv_perf_instruction_retired(here());
	enter_counting();
	is("from it, too, is taken", (call(5, 1), r->period_left), 99);
	teardown();
	set_hybrid(false);
}

UNIT_TEST(hybrid_freq)
{
	set_hybrid(true);
	setup();
	param(1, 1);
	mem->attr.sample_period = 1000;
	mem->attr.flags = KVM_PERF_ATTR_FREQ;
	CHECK(!do_open() && !call(3, 1));
	enter_counting();
	pv_perf_counter_set_period(event(1)->backing, 5000);
	to_cpu(EFFICIENCY_CPU);
	enter_counting();
	is("a period that follows a frequency goes over to another kind",
	   pv_perf_backing_period(event(1)->backing), 5000);
	is("SET_PERIOD there", call3(7, 1, 2000, 0), 0);
	to_cpu(PERFORMANCE_CPU);
	enter_counting();
	is("holds back on the first", pv_perf_backing_period(event(1)->backing), 2500);
	teardown();
	set_hybrid(false);
}

UNIT_TEST(hybrid_rdpmc)
{
	u32 index;

	cpu_has_pdcm = true;
	perf_capabilities = FULL_WIDTH_WRITES;
	pmu_capability.version = 5;
	*param_pv_perf_rdpmc = 1;
	set_hybrid(true);
	setup_rdpmc();
	start_rdpmc(1, 0);
	start_rdpmc(2, 1000);
	is("RDPMC on a performance core", reads(), true);
	index = mem->record[1].pmc;
	run_guest(300);
	cpus[EFFICIENCY_CPU].pmc[2] = 0x1234;
	to_cpu(EFFICIENCY_CPU);
	is("RDPMC on an efficiency core", reads(), true);
	is("with another index, or anew", mem->record[1].pmc != index, true);
	is("what was in another counter there is gone", cpus[EFFICIENCY_CPU].pmc[2], 0);
	run_guest(300);
	is("the count goes on", counted_now(1), 600);
	is("a counter that only the other kind has is none of its",
	   pv_perf_rdpmc(here(), NR_COUNTERS - 1, &(u64){ 0 }), false);
	teardown();
	*param_pv_perf_rdpmc = 0;
	cpu_has_pdcm = false;
	perf_capabilities = 0;
	pmu_capability.version = 2;
	set_hybrid(false);
}

/* CPUs that were offline when KVM was loaded. */
UNIT_TEST(hybrid_late_cpu)
{
	const struct pv_perf_kind *unknown = &pv_perf_kinds[PV_PERF_MAX_KINDS];

	cpus_offline = BIT(EFFICIENCY_CPU + 1);
	set_hybrid(true);
	setup();
	is("the kind of a CPU that is offline is not known",
	   pv_perf_kind_of_cpu(EFFICIENCY_CPU + 1) == unknown, true);
	open_id(1);
	CHECK(!call(3, 1));
	enter_counting();
	run_guest(10);
	cpus_offline = 0;
	alloc_faults = (struct faults) { .fail_at = 1 };
	is("without memory, the kind of a CPU that has come online is not known",
	   pv_perf_kind_of_cpu(EFFICIENCY_CPU + 1) == unknown, true);
	alloc_faults = (struct faults) { };
	to_cpu(EFFICIENCY_CPU + 1);
	enter_counting();
	run_guest(10);
	is("on a CPU that comes online after KVM is loaded, an event goes on",
	   counted_now(1), 20);
	is("KVM asks again", pv_perf_kind_of_cpu(EFFICIENCY_CPU + 1) == &pv_perf_kinds[1],
	   true);
	to_cpu(PERFORMANCE_CPU);
	enter_counting();
	teardown();
	set_hybrid(false);
}

/* All CPUs of a kind were offline when KVM was loaded. */
UNIT_TEST(hybrid_unknown_kind)
{
	struct guest_perf_event *r;
	unsigned int asked;
	int cpu, i;

	for (cpu = EFFICIENCY_CPU; cpu < NR_CPUS; cpu++)
		cpus_offline |= BIT(cpu);
	set_hybrid(true);
	setup();
	cpus_offline = 0;
	r = &mem->record[1];
	open_id(1);
	CHECK(!call(3, 1));
	enter_counting();
	run_guest(10);
	to_cpu(EFFICIENCY_CPU);
	enter_counting();
	run_guest(10);
	is("on a CPU of a kind that KVM does not know, an event has no counter",
	   !!(r->flags & KVM_PERF_EVENT_LOST), true);
	is("and does not count: EBUSY", call(5, 1), -KVM_EBUSY);
	is("an event opens there", open_id(2), 0);
	is("and has no counter: EBUSY", call(3, 2), -KVM_EBUSY);
	asked = nr_asked;
	for (i = 0; i < 1000; i++)
		CHECK(call(5, 77) == -KVM_ENOENT);
	is("a guest that makes hypercalls there has KVM ask perf no more", nr_asked, asked);
	to_cpu(PERFORMANCE_CPU);
	enter_counting();
	CHECK(!call(3, 1) && !call(3, 2));
	run_guest(10);
	is("back on a known kind, the event counts on", counted_now(1), 20);
	is("the event that was opened elsewhere counts, too", counted_now(2), 10);
	teardown();

	for (cpu = 0; cpu < NR_CPUS; cpu++)
		cpu_kinds[cpu] = 0;
	tasks[0] = task_create(0);
	on(0);
	alloc_faults = (struct faults) { .fail_at = 1 };
	is("a host whose PMUs perf does not tell offers nothing", now_available(), false);
	alloc_faults = (struct faults) { };
	pmu_capability.version = 1;
	is("a hybrid host without version 2 offers nothing", now_available(), false);
	pmu_capability.version = 2;
	pmu_capability.num_counters_gp = 0;
	is("a hybrid host without counters offers nothing", now_available(), false);
	pmu_capability.num_counters_gp = NR_COUNTERS;
	task_put(tasks[0]);
	set_hybrid(false);
}
