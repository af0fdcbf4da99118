// SPDX-License-Identifier: GPL-2.0
/*
 * The guest's driver in user space: counting, groups, reading, and context switches.
 */
#include "guest.h"

GUEST_TEST(counts_what_the_guest_does)
{
	struct perf_event *event = open_cpu(raw(0xc0), 0);

	user_work(0, 1000);
	kernel_work(0, 10);
	EXPECT_EQ(1010, perf_read(event));
	perf_close(event);
	unload();
}

GUEST_TEST(excludes_by_privilege)
{
	struct perf_event_attr attr = raw(0xc0);
	struct perf_event *user = open_cpu(raw_user(0xc0), 0), *kernel;

	attr.exclude_user = 1;
	kernel = open_cpu(attr, 0);
	user_work(0, 1000);
	kernel_work(0, 10);
	EXPECT_EQ(1000, perf_read(user));
	EXPECT_EQ(10, perf_read(kernel));
	perf_close(user);
	perf_close(kernel);
	unload();
}

GUEST_TEST(counts_a_task_wherever_it_runs)
{
	struct perf_event *event = open_task(raw_user(0xc1), 0);
	int cpu, i;

	for (i = 0; i < 10; i++) {
		cpu = i % 3;
		perf_task_switch(cpu, &tasks[0]);
		user_work(cpu, 100);
		EXPECT_EQ((i + 1) * 200, perf_read(event));
		perf_task_switch(cpu, &idle_tasks[cpu]);
		user_work(cpu, 77);
	}
	EXPECT_EQ(2000, perf_read(event));
	perf_close(event);
	unload();
}

GUEST_TEST(tasks_share_a_counter)
{
	struct perf_event *a = open_task(raw_user(0xc0), 0);
	struct perf_event *b = open_task(raw_user(0xc0), 1);
	u64 calls = 0;
	int i;

	for (i = 0; i < 100; i++) {
		/* All events are open. */
		if (i == 10)
			calls = host.calls;
		run(0);
		user_work(0, 3);
		run(1);
		user_work(0, 5);
	}
	EXPECT_EQ(host.calls - calls, 2 * 90 * 2);
	EXPECT_EQ(1, host_open());
	EXPECT_EQ(300, perf_read(a));
	EXPECT_EQ(500, perf_read(b));
	perf_close(a);
	perf_close(b);
	unload();
}

GUEST_TEST(a_switch_takes_two_hypercalls)
{
	struct perf_event *events[8];
	u64 calls;
	int i;

	for (i = 0; i < 8; i++)
		events[i] = open_task(raw_user(0xc0 + i % 4), i / 4);
	run(0);
	run(1);
	run(0);
	calls = host.calls;
	run(1);
	EXPECT_LE(host.calls - calls, 2);
	for (i = 0; i < 8; i++)
		perf_close(events[i]);
	unload();
}

GUEST_TEST(a_group_is_read_by_one_hypercall)
{
	struct perf_event *leader = open_task(raw_user(0xc0), 0), *b, *c;
	u64 calls;

	b = open_group(raw_user(0xc1), leader);
	c = open_group(raw_user(0xc2), leader);
	run(0);
	user_work(0, 50);
	calls = host.calls;
	perf_read_group(leader);
	EXPECT_EQ(1, host.calls - calls);
	EXPECT_EQ(50, local64_read(&leader->count));
	EXPECT_EQ(100, local64_read(&b->count));
	EXPECT_EQ(150, local64_read(&c->count));
	perf_close(c);
	perf_close(b);
	perf_close(leader);
	unload();
}

GUEST_TEST(a_group_of_too_many_is_refused)
{
	struct perf_event *leader = open_task(raw_user(0xc0), 0);
	struct perf_event_attr attr = raw_user(0xd0);
	struct perf_event *siblings[4], *event;
	int i;

	for (i = 0; i < 3; i++)
		siblings[i] = open_group(raw_user(0xc1 + i), leader);
	event = perf_open(&attr, &tasks[0], -1, leader);
	EXPECT_EQ(-EINVAL, PTR_ERR(event));
	/* A disabled event does not count. */
	perf_disable(siblings[2]);
	siblings[3] = open_group(attr, leader);
	for (i = 3; i >= 0; i--)
		perf_close(siblings[i]);
	perf_close(leader);
	unload();
}

GUEST_TEST(enable_and_disable)
{
	struct perf_event_attr attr = raw_user(0xc0);
	struct perf_event *event;
	int i;

	attr.disabled = 1;
	event = open_task(attr, 0);
	run(0);
	for (i = 0; i < 5; i++) {
		user_work(0, 1000);
		perf_enable(event);
		perf_enable(event);
		user_work(0, 10);
		perf_disable(event);
		perf_disable(event);
	}
	EXPECT_EQ(50, perf_read(event));
	perf_close(event);
	unload();
}

GUEST_TEST(a_child_adds_to_its_parent)
{
	struct perf_event *event = open_task(raw_user(0xc0), 0), *child;

	run(0);
	user_work(0, 10);
	child = perf_inherit(event, &tasks[1]);
	ASSERT_FALSE(IS_ERR(child));
	run(1);
	user_work(0, 100);
	run(0);
	EXPECT_EQ(100, perf_read(child));
	perf_close(child);
	EXPECT_EQ(110, perf_read(event));
	perf_close(event);
	unload();
}

GUEST_TEST(same_events_are_kept_apart)
{
	struct perf_event *events[4];
	int i;

	run(0);
	for (i = 0; i < 4; i++) {
		events[i] = open_task(raw_user(0xc0), 0);
		user_work(0, 100);
	}
	/* One event leaves, and another returns to its counter. */
	perf_disable(events[1]);
	user_work(0, 1000);
	perf_enable(events[1]);
	user_work(0, 1);
	EXPECT_EQ(1401, perf_read(events[0]));
	EXPECT_EQ(301, perf_read(events[1]));
	EXPECT_EQ(1201, perf_read(events[2]));
	EXPECT_EQ(1101, perf_read(events[3]));
	for (i = 0; i < 4; i++)
		perf_close(events[i]);
	unload();
}

GUEST_TEST(unused_counters_stop_and_close)
{
	struct perf_event *event = open_task(raw_user(0xc0), 0);

	run(0);
	run(-1);
	EXPECT_EQ(1, host_enabled(0));
	wait_ns(NSEC_PER_SEC / 4);
	EXPECT_EQ(0, host_enabled(0));
	EXPECT_EQ(1, host_open());
	wait_ns(NSEC_PER_SEC * 3 / 2);
	EXPECT_EQ(0, host_open());
	run(0);
	user_work(0, 5);
	EXPECT_EQ(5, perf_read(event));
	perf_close(event);
	unload();
}

/* The last CPU is a nohz_full one. */
GUEST_TEST(unused_counters_stop_and_close_on_a_cpu_without_a_tick)
{
	struct perf_event *event = open_cpu(raw_user(0xc0), nr_cpu_ids - 1);

	perf_disable(event);
	EXPECT_EQ(1, host_enabled(nr_cpu_ids - 1));
	wait_ns(NSEC_PER_SEC / 4);
	EXPECT_EQ(0, host_enabled(nr_cpu_ids - 1));
	wait_ns(NSEC_PER_SEC * 3 / 2);
	EXPECT_EQ(0, host_open());
	perf_close(event);
	unload();
}

/* More configurations than records: the driver closes events and opens them again. */
GUEST_TEST(many_configurations)
{
	struct perf_event *events[40];
	int i, round;

	for (i = 0; i < 40; i++)
		events[i] = open_task(raw_user(0x1000 + i * 4), i % 4);
	for (i = 0; i < 40; i++)
		perf_disable(events[i]);
	for (round = 0; round < 2; round++) {
		for (i = 0; i < 40; i++) {
			run(i % 4);
			perf_enable(events[i]);
			user_work(0, 1 + i);
			perf_disable(events[i]);
		}
	}
	for (i = 0; i < 40; i++) {
		EXPECT_EQ(2 * (1 + i), perf_read(events[i]));
		perf_close(events[i]);
	}
	EXPECT_LE(host.largest_batch, KVM_PERF_BATCH_MAX);
	unload();
}

/* All of a CPU's counters leave and others start in one flush. */
GUEST_TEST_UNLOADED(the_largest_plan_fits_a_batch)
{
	struct perf_event *events[32];
	int i, round;

	/* Enough counters for all events, so that perf does not multiplex. */
	host.query.nr_counters = 16;
	host.vcpus[0].counters = 8;
	load();
	for (i = 0; i < 32; i++)
		events[i] = open_task(sampling(0x1000 + i, 1000 + i), i / 8);
	for (round = 0; round < 8; round++) {
		run(round % 4);
		for (i = round % 4 * 8; i < round % 4 * 8 + 8; i++)
			perf_period(events[i], 2000 + 16 * round + i);
		user_work(0, 100);
	}
	EXPECT_LE(16, host.largest_batch);
	EXPECT_LE(host.largest_batch, KVM_PERF_BATCH_MAX);
	for (i = 0; i < 32; i++) {
		EXPECT_EQ(200 * (1 + (i & 3)), perf_read(events[i]));
		perf_close(events[i]);
	}
	unload();
}

static struct perf_event *both[2];

static void prepare_two(void)
{
	guest_init();
	load();
	both[0] = open_task(raw_user(0xc0), 0);
	both[1] = open_task(raw_user(0xc1), 1);
	run(0);
	user_work(0, 10);
}

static void switch_and_back(void)
{
	run(1);
	user_work(0, 20);
	run(0);
	user_work(0, 5);
}

static void check_two(void)
{
	CHECK(perf_read(both[0]) == 15);
	CHECK(perf_read(both[1]) == 40);
	perf_close(both[0]);
	perf_close(both[1]);
	unload();
}

GUEST_TEST_UNLOADED(an_nmi_may_come_at_any_point_of_a_switch)
{
	EXPECT_LT(50, with_nmi_at_each_point(prepare_two, switch_and_back, check_two));
}

static struct perf_event *read_by_bpf;

static void bpf_reads(struct perf_event *event, struct perf_sample_data *data)
{
	read_by_bpf->pmu->read(read_by_bpf);
}

GUEST_TEST(bpf_reads_in_a_sample)
{
	struct perf_event *event = open_task(sampling(0xc0, 100), 0);

	read_by_bpf = open_task(raw_user(0xc1), 0);
	event->handler = bpf_reads;
	run(0);
	user_work(0, 1000);
	EXPECT_EQ(10, event->samples);
	EXPECT_EQ(2000, local64_read(&read_by_bpf->count));
	perf_close(event);
	perf_close(read_by_bpf);
	unload();
}
