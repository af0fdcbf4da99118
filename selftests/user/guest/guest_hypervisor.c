// SPDX-License-Identifier: GPL-2.0
/*
 * The guest's driver in user space: the events of the hypervisor.
 */
#include "guest.h"

#define IO	KVM_PERF_COUNT_EXITS_IO
#define NS	KVM_PERF_COUNT_HOST_NS
#define EXITS	KVM_PERF_MAX_COUNTS

static struct perf_event_attr user(u64 count, u64 period)
{
	struct perf_event_attr attr = hypervisor(count, period);

	attr.exclude_kernel = 1;
	return attr;
}

GUEST_TEST(counts_exits)
{
	struct perf_event *all = open_cpu(hypervisor(EXITS, 0), 0);
	struct perf_event *io = open_cpu(hypervisor(IO, 0), 0);
	struct perf_event *of_user = open_task(user(IO, 0), 0);
	struct perf_event_attr attr = hypervisor(IO, 0);
	struct perf_event *of_kernel;

	attr.exclude_user = 1;
	of_kernel = open_cpu(attr, 0);
	run(0);
	host_exit(0, IO, 1, true, 0x400000);
	host_exit(0, IO, 2, false, 0xffffffff81000000);
	host_exit(0, KVM_PERF_COUNT_EXITS_MSR, 4, false, 0xffffffff81000000);
	run(-1);
	host_exit(0, IO, 8, true, 0x400000);
	EXPECT_EQ(15, perf_read(all));
	EXPECT_EQ(11, perf_read(io));
	EXPECT_EQ(1, perf_read(of_user));
	EXPECT_EQ(2, perf_read(of_kernel));
	perf_close(all);
	perf_close(io);
	perf_close(of_user);
	perf_close(of_kernel);
	unload();
}

GUEST_TEST(samples_exits_where_they_were)
{
	struct perf_event *event = open_task(user(IO, 10), 0);
	int i;

	run(0);
	for (i = 0; i < 100; i++)
		host_exit(0, IO, 1, true, 0x4001fe);
	EXPECT_EQ(10, event->samples);
	EXPECT_EQ(100, event->sum_of_periods);
	EXPECT_EQ(0x4001fe, event->last_ip);
	EXPECT_EQ(100, perf_read(event));
	perf_close(event);
	unload();
}

GUEST_TEST(a_late_nmi_shows_no_registers_of_the_kernel)
{
	struct perf_event *event = open_task(user(IO, 1), 0);

	run(0);
	host_exit(0, IO, 1, true, 0x500000);
	EXPECT_EQ(1, event->samples);
	EXPECT_EQ(0x500000, event->last_ip);
	EXPECT_EQ(__USER_CS, event->last_cs);
	perf_close(event);
	unload();
}

GUEST_TEST(an_nmi_takes_16_samples_and_the_last_stands_for_the_rest)
{
	struct perf_event *event = open_task(user(NS, 10), 0);
	u64 nmis;

	run(0);
	nmis = host.vcpus[0].nmis;
	host_exit(0, NS, 1234, true, 0x400200);
	EXPECT_EQ(1, host.vcpus[0].nmis - nmis);
	EXPECT_EQ(16, event->samples);
	/* 123 periods have ended. */
	EXPECT_EQ((123 - 15) * 10, event->last_sample_period);
	EXPECT_EQ(1230, event->sum_of_periods);
	host_exit(0, NS, 6, true, 0x400200);
	EXPECT_EQ(17, event->samples);
	EXPECT_EQ(10, event->last_sample_period);
	EXPECT_EQ(1240, perf_read(event));
	perf_close(event);
	unload();
}

/* The driver tells perf a sample's part of the NMI's time. */
GUEST_TEST(many_samples_in_an_nmi_do_not_lower_the_rate)
{
	struct perf_event *event = open_task(user(NS, 1), 0);

	run(0);
	sample_took_ns = 0;
	host_exit(0, NS, 5000, true, 0x400200);
	EXPECT_EQ(16, event->samples);
	EXPECT_LT(sample_took_ns, 1000);
	perf_close(event);
	unload();
}

GUEST_TEST(the_position_goes_with_the_task)
{
	struct perf_event *event = open_task(user(IO, 10), 0);
	int i;

	for (i = 0; i < 60; i++) {
		perf_task_switch(i % 3, &tasks[0]);
		host_exit(i % 3, IO, 1, true, 0x400200);
		perf_task_switch(i % 3, &idle_tasks[i % 3]);
		host_exit(i % 3, IO, 1, true, 0x400200);
	}
	EXPECT_EQ(60, perf_read(event));
	EXPECT_EQ(6, event->samples);
	perf_close(event);
	unload();
}

GUEST_TEST(perf_adapts_a_frequency)
{
	struct perf_event_attr attr = user(NS, 0);
	struct perf_event *event;
	int i;

	attr.freq = 1;
	attr.sample_freq = 1000;
	event = open_task(attr, 0);
	run(0);
	for (i = 0; i < 2000; i++) {
		clock_ns += 10000;
		host_exit(0, NS, 1000, true, 0x400200);
		if (i % 400 == 399)
			perf_tick(0);
	}
	/* 20 ms at 1000 Hz, and the samples until the period has adapted. */
	EXPECT_LT(event->samples, 200);
	EXPECT_LT(10, event->samples);
	EXPECT_LT(50000, event->hw.sample_period);
	EXPECT_EQ(2000000, perf_read(event));
	perf_close(event);
	unload();
}

GUEST_TEST(perf_throttles)
{
	struct perf_event *event = open_task(user(IO, 1), 0);
	int i;

	max_samples_per_tick = 20;
	run(0);
	for (i = 0; i < 100; i++)
		host_exit(0, IO, 1, true, 0x400200);
	EXPECT_EQ(21, event->samples);
	wait_ns(TICK_NSEC);
	for (i = 0; i < 5; i++)
		host_exit(0, IO, 1, true, 0x400200);
	EXPECT_EQ(26, event->samples);
	EXPECT_EQ(26, perf_read(event));
	perf_close(event);
	unload();
}

GUEST_TEST(another_period)
{
	struct perf_event *event = open_task(user(IO, 5), 0);

	run(0);
	host_exit(0, IO, 4, true, 0x400200);
	EXPECT_EQ(0, perf_period(event, 3));
	host_exit(0, IO, 2, true, 0x400200);
	EXPECT_EQ(0, event->samples);
	host_exit(0, IO, 1, true, 0x400200);
	EXPECT_EQ(1, event->samples);
	EXPECT_EQ(7, perf_read(event));
	perf_close(event);
	unload();
}

GUEST_TEST(a_slot_is_waited_for)
{
	struct perf_event *events[KVM_PERF_NR_SLOTS + 1];
	int i, n = KVM_PERF_NR_SLOTS;

	run(0);
	for (i = 0; i <= n; i++)
		events[i] = open_task(user(IO, 2), 0);
	EXPECT_EQ(PERF_EVENT_STATE_INACTIVE, events[n]->state);
	host_exit(0, IO, 2, true, 0x400200);
	perf_close(events[0]);
	/* At once, because perf on 6.1 would not try again. */
	EXPECT_EQ(PERF_EVENT_STATE_ACTIVE, events[n]->state);
	host_exit(0, IO, 2, true, 0x400200);
	EXPECT_EQ(1, events[n]->samples);
	EXPECT_EQ(2, events[1]->samples);
	for (i = 1; i <= n; i++)
		perf_close(events[i]);
	unload();
}

/* A group that does not fit returns its slots.  This does not make others try again. */
GUEST_TEST(a_group_without_slots_does_not_try_for_ever)
{
	struct perf_event *events[2][10];
	int i, j;

	run(0);
	for (i = 0; i < 2; i++) {
		events[i][0] = open_task(user(IO, 2), 0);
		for (j = 1; j < 10; j++)
			events[i][j] = open_group(user(IO, 2), events[i][0]);
	}
	EXPECT_EQ(PERF_EVENT_STATE_ACTIVE, events[0][0]->state);
	EXPECT_EQ(PERF_EVENT_STATE_INACTIVE, events[1][0]->state);
	host_exit(0, IO, 2, true, 0x400200);
	EXPECT_EQ(1, events[0][9]->samples);
	/* Each event that leaves makes room. */
	for (j = 9; j >= 6; j--)
		perf_close(events[0][j]);
	EXPECT_EQ(PERF_EVENT_STATE_ACTIVE, events[1][0]->state);
	host_exit(0, IO, 2, true, 0x400200);
	EXPECT_EQ(1, events[1][9]->samples);
	for (j = 5; j >= 0; j--)
		perf_close(events[0][j]);
	for (j = 9; j >= 0; j--)
		perf_close(events[1][j]);
	unload();
}

/* A group also returns its slot if it fails because of a counter. */
GUEST_TEST(a_group_without_counters_gives_back_its_slot)
{
	struct perf_event *events[15], *two[2], *mixed[3];
	int i;

	host_set_counters(0, 1);
	run(0);
	for (i = 0; i < 15; i++)
		events[i] = open_task(user(IO, 2), 0);
	two[0] = open_task(user(IO, 2), 0);
	two[1] = open_group(user(IO, 2), two[0]);
	mixed[0] = open_task(raw_user(0xc0), 0);
	mixed[1] = open_group(user(IO, 2), mixed[0]);
	mixed[2] = open_group(raw_user(0xc4), mixed[0]);
	EXPECT_EQ(PERF_EVENT_STATE_INACTIVE, two[0]->state);
	EXPECT_EQ(PERF_EVENT_STATE_INACTIVE, mixed[0]->state);
	perf_close(events[0]);
	EXPECT_EQ(PERF_EVENT_STATE_ACTIVE, two[0]->state);
	for (i = 2; i >= 0; i--)
		perf_close(mixed[i]);
	perf_close(two[1]);
	perf_close(two[0]);
	for (i = 1; i < 15; i++)
		perf_close(events[i]);
	unload();
}

GUEST_TEST(in_a_group_of_hardware_events)
{
	struct perf_event *leader = open_task(raw_user(0xc0), 0), *io;

	io = open_group(user(IO, 2), leader);
	run(0);
	user_work(0, 100);
	host_exit(0, IO, 4, true, 0x400200);
	perf_read_group(leader);
	EXPECT_EQ(100, local64_read(&leader->count));
	EXPECT_EQ(4, local64_read(&io->count));
	EXPECT_EQ(2, io->samples);
	perf_close(io);
	perf_close(leader);
	unload();
}

/* An exit within another PMU's driver must not be sampled while its counters change. */
static int foreign_init(struct perf_event *event)
{
	return event->attr.type == event->pmu->type ? 0 : -ENOENT;
}

static int foreign_add(struct perf_event *event, int flags)
{
	return 0;
}

static void foreign_nothing(struct perf_event *event, int flags)
{
}

static void foreign_read(struct perf_event *event)
{
}

static void foreign_destroy(struct perf_event *event)
{
}

static struct pmu foreign = {
	.task_ctx_nr	= perf_hw_context,
	.event_init	= foreign_init,
	.add		= foreign_add,
	.del		= foreign_nothing,
	.start		= foreign_nothing,
	.stop		= foreign_nothing,
	.read		= foreign_read,
};

GUEST_TEST(not_sampled_in_a_group_of_another_pmu)
{
	struct perf_event *leader, *io, *of_ours, *sibling;
	struct perf_event_attr attr;

	perf_pmu_register(&foreign, "foreign", -1);
	attr = raw(0);
	attr.type = foreign.type;
	leader = open_task(attr, 0);
	leader->destroy = foreign_destroy;
	io = open_group(user(IO, 2), leader);
	of_ours = open_task(user(IO, 2), 0);
	sibling = open_group(attr, of_ours);
	sibling->destroy = foreign_destroy;
	run(0);
	EXPECT_EQ(PERF_EVENT_STATE_INACTIVE, io->state);
	EXPECT_EQ(PERF_EVENT_STATE_INACTIVE, of_ours->state);
	perf_close(io);
	io = open_group(user(IO, 0), leader);
	EXPECT_EQ(PERF_EVENT_STATE_ACTIVE, io->state);
	perf_close(io);
	perf_close(sibling);
	perf_close(of_ours);
	perf_close(leader);
	perf_pmu_unregister(&foreign);
	unload();
}

GUEST_TEST(what_is_refused)
{
	struct perf_event_attr attr = hypervisor(KVM_PERF_NR_COUNTS, 0);

	EXPECT_EQ(-EINVAL, open_error(attr));
	attr = hypervisor(IO, 0);
	attr.config1 = 1;
	EXPECT_EQ(-EINVAL, open_error(attr));
	attr = hypervisor(IO, 0);
	attr.precise_ip = 3;
	EXPECT_EQ(-EOPNOTSUPP, open_error(attr));
	attr.precise_ip = 2;
	EXPECT_EQ(0, open_error(attr));
	attr.exclude_host = 1;
	EXPECT_EQ(-EOPNOTSUPP, open_error(attr));
	attr.exclude_host = 0;
	attr.sigtrap = 1;
	EXPECT_EQ(-EOPNOTSUPP, open_error(attr));
	attr.sigtrap = 0;
	attr.sample_type = PERF_SAMPLE_BRANCH_STACK;
	EXPECT_EQ(-EOPNOTSUPP, open_error(attr));
	unload();
}

GUEST_TEST(what_tells_of_the_host_needs_a_capability)
{
	struct perf_event *event, *child;

	event = open_task(hypervisor(NS, 0), 0);
	may_perfmon = false;
	EXPECT_EQ(-EACCES, open_error(hypervisor(NS, 0)));
	EXPECT_EQ(-EACCES, open_error(hypervisor(EXITS, 0)));
	EXPECT_EQ(0, open_error(hypervisor(IO, 0)));
	child = perf_inherit(event, &tasks[1]);
	EXPECT_FALSE(IS_ERR(child));
	perf_close(child);
	perf_close(event);
	unload();
}

GUEST_TEST_UNLOADED(only_what_the_host_offers)
{
	host.query.counts = BIT(IO);
	load();
	EXPECT_EQ(0, open_error(hypervisor(IO, 0)));
	EXPECT_EQ(-EOPNOTSUPP, open_error(hypervisor(NS, 0)));
	EXPECT_EQ(-EOPNOTSUPP, open_error(hypervisor(EXITS, 0)));
	unload();
}

GUEST_TEST_UNLOADED(no_pmu_without_any)
{
	host.query.counts = 0;
	load();
	EXPECT_EQ(NULL, pmu_named("kvm"));
	unload();
}

GUEST_TEST(another_host_may_not_count_all)
{
	struct perf_event *io = open_task(hypervisor(IO, 0), 0);
	struct perf_event *ns = open_task(hypervisor(NS, 3), 0);

	run(0);
	host_exit(0, IO, 1, true, 0x400200);
	host_exit(0, NS, 1, true, 0x400200);
	perf_read(io);
	perf_read(ns);
	log_lines = 0;
	host.allowed_counts = BIT(IO);
	host_migrate();
	EXPECT_EQ(PERF_EVENT_STATE_ACTIVE, io->state);
	EXPECT_EQ(PERF_EVENT_STATE_INACTIVE, ns->state);
	host_exit(0, IO, 1, true, 0x400200);
	EXPECT_EQ(2, perf_read(io));
	EXPECT_EQ(1, log_lines);
	host.allowed_counts = ~0;
	host_migrate();
	EXPECT_EQ(PERF_EVENT_STATE_ACTIVE, ns->state);
	host_exit(0, NS, 4, true, 0x400200);
	EXPECT_EQ(5, perf_read(ns));
	perf_close(io);
	perf_close(ns);
	unload();
}

GUEST_TEST(a_host_without_areas_counts_none)
{
	struct perf_event *io = open_task(hypervisor(IO, 0), 0);

	run(0);
	host_exit(0, IO, 1, true, 0x400200);
	perf_read(io);
	host.query.features &= ~KVM_PERF_FEATURE_AREA;
	host_migrate();
	EXPECT_EQ(PERF_EVENT_STATE_INACTIVE, io->state);
	host.query.features |= KVM_PERF_FEATURE_AREA;
	wait_ns(NSEC_PER_SEC / 4);
	EXPECT_EQ(PERF_EVENT_STATE_ACTIVE, io->state);
	host_exit(0, IO, 1, true, 0x400200);
	EXPECT_EQ(2, perf_read(io));
	perf_close(io);
	unload();
}

GUEST_TEST(the_host_counts_no_longer_than_somebody_wants)
{
	struct perf_event *io = open_task(hypervisor(IO, 0), 0);

	run(0);
	EXPECT_EQ(BIT(IO), host.vcpus[0].counts);
	perf_close(io);
	wait_ns(NSEC_PER_SEC / 4);
	EXPECT_EQ(0, host.vcpus[0].counts);
	unload();
}

/* The group of a software PMU's event belongs to its leader's PMU. */
GUEST_TEST(in_another_pmus_group_it_stops_if_the_host_does_not_count_it)
{
	struct perf_event *leader = open_cpu(raw(0xc0), 0);
	struct perf_event *ns = open_group(hypervisor(NS, 0), leader);

	host_exit(0, NS, 1, true, 0x400200);
	EXPECT_EQ(1, perf_read(ns));
	host.allowed_counts = BIT(IO);
	host_migrate();
	host_exit(0, NS, 1000, true, 0x400200);
	EXPECT_EQ(PERF_EVENT_STATE_INACTIVE, ns->state);
	EXPECT_EQ(PERF_EVENT_STATE_INACTIVE, leader->state);
	user_work(0, 1000);
	perf_read(ns);
	EXPECT_LT(ns->time_running, ns->time_enabled);
	perf_close(ns);
	perf_close(leader);
	unload();
}

GUEST_TEST(periods_that_ended_before_a_migration_begin_anew)
{
	struct perf_event *event = open_task(user(IO, 10), 0);

	run(0);
	/* The old host has counted the slot down without telling the guest. */
	host_exit(0, IO, 3, true, 0x400200);
	host.vcpus[0].area->slot[0].left = 0;
	host_migrate();
	host_exit(0, IO, 10, true, 0x400200);
	EXPECT_LE(1, event->samples);
	perf_close(event);
	unload();
}

static struct perf_event *sampled;

static void prepare(void)
{
	guest_init();
	load();
	sampled = open_task(user(IO, 3), 0);
	run(0);
	host_exit(0, IO, 2, true, 0x400200);
}

static void switch_and_back(void)
{
	run(-1);
	run(0);
	perf_read(sampled);
}

static void exit_here(void)
{
	host_exit(this_cpu, IO, 3, true, 0x400200);
}

static void check(void)
{
	u64 samples = sampled->samples, n = perf_read(sampled);

	CHECK(n == 2 || n == 5);
	CHECK(sampled->sum_of_periods <= n);
	/* The event still samples. */
	host_exit(0, IO, 3, true, 0x400200);
	CHECK(sampled->samples == samples + 1);
	CHECK(perf_read(sampled) == n + 3);
	perf_close(sampled);
	unload();
}

GUEST_TEST_UNLOADED(an_exit_at_any_point_of_a_switch)
{
	at_point = exit_here;
	EXPECT_LT(20, with_nmi_at_each_point(prepare, switch_and_back, check));
}

GUEST_TEST(a_throttled_group_stops_as_a_whole)
{
	struct perf_event *leader = open_task(user(IO, 1), 0), *sibling;
	int i;

	sibling = open_group(user(IO, 1), leader);
	max_samples_per_tick = 5;
	run(0);
	for (i = 0; i < 20; i++)
		host_exit(0, IO, 1, true, 0x400200);
	EXPECT_EQ(6, leader->samples);
	EXPECT_EQ(6, sibling->samples);
	perf_close(sibling);
	perf_close(leader);
	unload();
}
