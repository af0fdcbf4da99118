// SPDX-License-Identifier: GPL-2.0
/*
 * The guest's driver in user space: overflows, periods, frequencies, throttling, branches.
 */
#include "guest.h"

GUEST_TEST(a_sample_for_each_period)
{
	struct perf_event *event = open_task(sampling(0xc0, 100), 0);

	run(0);
	user_work(0, 1234);
	EXPECT_EQ(12, event->samples);
	EXPECT_EQ(1200, event->sum_of_periods);
	EXPECT_EQ(0x400200, event->last_ip);
	EXPECT_EQ(1234, perf_read(event));
	perf_close(event);
	unload();
}

GUEST_TEST(the_position_goes_with_the_task)
{
	struct perf_event *a = open_task(sampling(0xc0, 1000), 0);
	struct perf_event *b = open_task(sampling(0xc0, 1000), 1);
	int i;

	/* No task gets a sample for the other task's work. */
	for (i = 0; i < 100; i++) {
		perf_task_switch(i % 2, &tasks[0]);
		user_work(i % 2, 70);
		perf_task_switch(i % 2, &tasks[1]);
		user_work(i % 2, 30);
		perf_task_switch(i % 2, &idle_tasks[i % 2]);
	}
	EXPECT_EQ(7000, perf_read(a));
	EXPECT_EQ(3000, perf_read(b));
	EXPECT_EQ(7, a->samples);
	EXPECT_EQ(3, b->samples);
	perf_close(a);
	perf_close(b);
	unload();
}

GUEST_TEST(a_spare_backing_event_does_not_overflow)
{
	struct perf_event *event = open_task(sampling(0xc0, 100), 0);
	u64 nmis;

	run(0);
	user_work(0, 50);
	run(-1);
	nmis = host.vcpus[0].nmis;
	user_work(0, 10000);
	EXPECT_EQ(nmis, host.vcpus[0].nmis);
	run(0);
	user_work(0, 50);
	EXPECT_EQ(1, event->samples);
	perf_close(event);
	unload();
}

GUEST_TEST(another_period)
{
	struct perf_event *event = open_task(sampling(0xc0, 100), 0);

	run(0);
	user_work(0, 150);
	EXPECT_EQ(0, perf_period(event, 1000));
	user_work(0, 999);
	EXPECT_EQ(1, event->samples);
	user_work(0, 1);
	EXPECT_EQ(2, event->samples);
	EXPECT_EQ(1000, event->last_sample_period);
	run(-1);
	EXPECT_EQ(0, perf_period(event, 10000));
	run(0);
	user_work(0, 9999);
	EXPECT_EQ(2, event->samples);
	user_work(0, 1);
	EXPECT_EQ(3, event->samples);
	EXPECT_EQ(-EINVAL, perf_period(event, 0));
	perf_close(event);
	unload();
}

GUEST_TEST(a_short_period_is_the_hosts_to_allow)
{
	struct perf_event *event;

	host.min_period = 32;
	EXPECT_EQ(-EINVAL, open_error(sampling(0xc0, 31)));
	event = open_task(sampling(0xc0, 32), 0);
	EXPECT_EQ(-EINVAL, perf_period(event, 8));
	EXPECT_EQ(0, perf_period(event, 33));
	perf_close(event);
	unload();
}

GUEST_TEST(a_frequency_is_the_hosts)
{
	struct perf_event_attr attr = raw_user(0xc0);
	struct perf_event *event, *child;

	attr.freq = 1;
	attr.sample_freq = 1000;
	event = open_task(attr, 0);
	run(0);
	/* The model of the host uses a period of 1000 for each frequency. */
	user_work(0, 5000);
	EXPECT_EQ(5, event->samples);
	EXPECT_EQ(5000, event->sum_of_periods);
	/* perf's limit on frequencies. */
	EXPECT_EQ(-EINVAL, perf_period(event, sample_rate + 1));
	EXPECT_EQ(0, perf_period(event, sample_rate));
	child = perf_inherit(event, &tasks[1]);
	ASSERT_FALSE(IS_ERR(child));
	run(1);
	user_work(0, 3000);
	EXPECT_EQ(3, child->samples);
	run(0);
	user_work(0, 1000);
	EXPECT_EQ(6, event->samples);
	perf_close(child);
	perf_close(event);
	unload();
}

GUEST_TEST(perf_throttles)
{
	struct perf_event *event = open_task(sampling(0xc0, 10), 0);

	max_samples_per_tick = 20;
	run(0);
	user_work(0, 1000);
	EXPECT_EQ(21, event->samples);
	EXPECT_EQ(1, event->throttled);
	EXPECT_EQ(210, perf_read(event));
	EXPECT_EQ(0, host_enabled(0));
	wait_ns(TICK_NSEC);
	EXPECT_EQ(1, event->unthrottled);
	user_work(0, 55);
	EXPECT_EQ(26, event->samples);
	EXPECT_EQ(265, perf_read(event));
	perf_close(event);
	unload();
}

GUEST_TEST(the_host_throttles)
{
	struct perf_event *event = open_task(sampling(0xc0, 100), 0);
	struct perf_event *quiet = open_task(raw_user(0xc1), 0);
	u32 id;

	run(0);
	user_work(0, 150);
	id = backing(event)->id;
	host_throttle(0, id);
	EXPECT_EQ(1, event->throttled);
	user_work(0, 1000);
	host_unthrottle(0, id);
	wait_ns(TICK_NSEC);
	EXPECT_EQ(1, event->unthrottled);
	user_work(0, 50);
	EXPECT_EQ(2, event->samples);
	EXPECT_EQ(200, perf_read(event));
	EXPECT_EQ(2400, perf_read(quiet));
	perf_close(event);
	perf_close(quiet);
	unload();
}

static u32 too_often;

static long refuse_too_often(u32 op, u32 id, u64 arg)
{
	return op == KVM_PERF_OP_ENABLE && too_often && too_often-- ? -KVM_EAGAIN : 0;
}

GUEST_TEST(too_often_to_start)
{
	struct perf_event *event = open_task(sampling(0xc0, 100), 0);

	host.refuse = refuse_too_often;
	too_often = 1;
	run(0);
	EXPECT_EQ(1, event->throttled);
	user_work(0, 500);
	wait_ns(TICK_NSEC);
	user_work(0, 100);
	EXPECT_EQ(100, perf_read(event));
	EXPECT_EQ(1, event->samples);
	perf_close(event);
	unload();
}

GUEST_TEST(a_limit_of_events)
{
	struct perf_event_attr attr = sampling(0xc0, 100);
	struct perf_event *event;

	attr.disabled = 1;
	event = open_task(attr, 0);
	run(0);
	perf_refresh(event, 3);
	user_work(0, 1000);
	EXPECT_EQ(3, event->samples);
	EXPECT_EQ(300, perf_read(event));
	perf_refresh(event, 2);
	user_work(0, 1000);
	EXPECT_EQ(5, event->samples);
	perf_close(event);
	unload();
}

/* perf is running, so that the overflow is sampled when perf is done. */
static void overflow_at_exit(void)
{
	host.exit_hook = NULL;
	kernel_work(this_cpu, 100);
}

GUEST_TEST(what_overflows_as_perf_works_is_sampled_later)
{
	struct perf_event_attr attr = raw(0xc0);
	struct perf_event *event, *other;

	attr.sample_period = 100;
	attr.exclude_user = 1;
	event = open_cpu(attr, 0);
	other = open_task(raw_user(0xc1), 0);
	host.exit_hook = overflow_at_exit;
	run(0);
	EXPECT_EQ(1, event->samples);
	EXPECT_EQ(__KERNEL_CS, event->last_cs);
	host.exit_hook = overflow_at_exit;
	run(-1);
	EXPECT_EQ(2, event->samples);
	EXPECT_EQ(200, perf_read(event));
	perf_close(other);
	perf_close(event);
	unload();
}

/* A sample that is due comes wherever the event counts next. */
static void overflow_in_user(void)
{
	host.call_hook = NULL;
	user_work(this_cpu, 100);
}

GUEST_TEST(what_overflows_as_its_task_leaves_is_sampled_as_it_is_back)
{
	struct perf_event *event = open_task(sampling(0xc0, 100), 0);
	struct perf_event *other = open_cpu(raw_user(0xc1), 0);

	run(0);
	user_work(0, 50);
	host.call_hook = overflow_in_user;
	run(-1);
	EXPECT_EQ(0, event->samples);
	run(0);
	EXPECT_EQ(1, event->samples);
	/* The event excludes the kernel. */
	EXPECT_EQ(0x401000, event->last_ip);
	perf_close(other);
	perf_close(event);
	unload();
}

GUEST_TEST(a_kernel_thread_has_no_user_mode_to_sample)
{
	struct perf_event *event = open_task(sampling(0xc0, 100), 0);
	struct perf_event *other = open_cpu(raw_user(0xc1), 0);

	tasks[0].flags = PF_KTHREAD;
	run(0);
	user_work(0, 50);
	host.call_hook = overflow_in_user;
	run(-1);
	run(0);
	EXPECT_EQ(0, event->samples);
	EXPECT_EQ(1, atomic64_read(&event->lost_samples));
	perf_close(other);
	perf_close(event);
	unload();
}

GUEST_TEST(an_nmi_takes_16_samples_and_the_last_stands_for_the_rest)
{
	struct perf_event *event = open_task(sampling(0xc0, 100), 0);
	u64 nmis;

	run(0);
	/* All overflows come before the guest can take an NMI. */
	nmi_depth[0]++;
	user_work(0, 10000);
	nmi_depth[0]--;
	nmis = host.vcpus[0].nmis;
	host_deliver(0);
	EXPECT_EQ(1, host.vcpus[0].nmis - nmis);
	EXPECT_EQ(16, event->samples);
	EXPECT_EQ(85 * 100, event->last_sample_period);
	EXPECT_EQ(10000, event->sum_of_periods);
	perf_close(event);
	unload();
}

static void host_with_branches(void)
{
	host.query.features |= KVM_PERF_FEATURE_BRANCHES;
	host.query.branches = 16;
	load();
}

static struct perf_event_attr with_branches(u64 config, u64 period, u64 which)
{
	struct perf_event_attr attr = sampling(config, period);

	attr.sample_type = PERF_SAMPLE_BRANCH_STACK;
	attr.branch_sample_type = which;
	return attr;
}

static void set_branch(int i, u64 from, u64 info)
{
	host.vcpus[0].area->branch[i] = (struct guest_perf_branch) {
		.from = from, .to = from + 64, .info = info,
	};
}

GUEST_TEST_UNLOADED(samples_have_the_branches_that_they_want)
{
	struct perf_event *event;
	/*
	 * The stand-in of branch_type_fused() takes the type from bits 12 to 16 of the
	 * address.
	 */
	const u64 user = 0x3000, jcc = 0x8000;

	host_with_branches();
	event = open_task(with_branches(0xc0, 100, PERF_SAMPLE_BRANCH_USER |
					PERF_SAMPLE_BRANCH_COND |
					PERF_SAMPLE_BRANCH_TYPE_SAVE), 0);
	run(0);
	EXPECT_TRUE(backing(event)->attr.flags & KVM_PERF_ATTR_BRANCH_COND);
	set_branch(0, jcc, KVM_PERF_BRANCH_MISPREDICTED);
	set_branch(1, user, 0);
	/*
	 * An event that excludes the kernel has no kernel branches.  Text beyond its end is
	 * not read.
	 */
	set_branch(2, 0xffffffff81008000, 0);
	user_work(0, 100);
	EXPECT_EQ(1, event->samples);
	EXPECT_EQ(1, event->last_branches);
	EXPECT_EQ(jcc, event->first_branch);
	EXPECT_EQ(0, host.vcpus[0].area->nr_branches);
	run(-1);
	run(0);
	perf_close(event);
	unload();
}

GUEST_TEST_UNLOADED(kernel_branches_of_text_that_can_be_read)
{
	struct perf_event_attr attr;
	struct perf_event *event;

	host_with_branches();
	attr = with_branches(0xc0, 100, PERF_SAMPLE_BRANCH_KERNEL |
				   PERF_SAMPLE_BRANCH_COND);
	attr.exclude_kernel = 0;
	event = open_task(attr, 0);
	run(0);
	set_branch(0, 0xffffffff81008000, 0);
	set_branch(1, 0xffffffff81008ffe, 0);
	set_branch(2, 0xffffffff82008ffe, 0);
	user_work(0, 100);
	EXPECT_EQ(2, event->last_branches);
	perf_close(event);
	unload();
}

GUEST_TEST(branches_need_a_host_that_has_them)
{
	EXPECT_EQ(-EOPNOTSUPP,
		  open_error(with_branches(0xc0, 100, PERF_SAMPLE_BRANCH_ANY)));
	unload();
}

GUEST_TEST_UNLOADED(which_branches_there_are)
{
	host_with_branches();
	EXPECT_EQ(0, open_error(with_branches(0xc0, 100, PERF_SAMPLE_BRANCH_ANY)));
	EXPECT_EQ(-EOPNOTSUPP,
		  open_error(with_branches(0xc0, 100, PERF_SAMPLE_BRANCH_CALL_STACK)));
	/* As in x86's own PMU from 6.10 on, such an event records no branches. */
	EXPECT_EQ(0, open_error(with_branches(0xc0, 0, PERF_SAMPLE_BRANCH_ANY)));
	unload();
}

GUEST_TEST_UNLOADED(an_event_with_branches_stops_as_its_task_leaves)
{
	struct perf_event *event;

	host_with_branches();
	event = open_task(with_branches(0xc0, 100, PERF_SAMPLE_BRANCH_ANY), 0);
	run(0);
	user_work(0, 10);
	run(-1);
	EXPECT_EQ(0, host_enabled(0));
	run(0);
	user_work(0, 90);
	EXPECT_EQ(1, event->samples);
	perf_close(event);
	unload();
}

GUEST_TEST_UNLOADED(without_samples)
{
	host.query.features &= ~KVM_PERF_FEATURE_SAMPLING;
	load();
	EXPECT_EQ(-EOPNOTSUPP, open_error(sampling(0xc0, 100)));
	EXPECT_EQ(0, open_error(raw_user(0xc0)));
	unload();
}

static struct perf_event *sampled[2];

static void prepare_sampling(void)
{
	guest_init();
	load();
	sampled[0] = open_task(sampling(0xc0, 100), 0);
	sampled[1] = open_task(sampling(0xc0, 100), 1);
	run(0);
	user_work(0, 80);
}

static void switch_and_back(void)
{
	run(1);
	user_work(0, 130);
	run(0);
	user_work(0, 30);
}

/* The work at the point. */
static u64 extra;

static void check_sampling(void)
{
	u64 a, b;

	host_deliver(0);
	run(1);
	run(0);
	a = perf_read(sampled[0]);
	b = perf_read(sampled[1]);
	CHECK(a + b >= 240 && a + b <= 240 + extra);
	CHECK(a >= 110 && b >= 130);
	CHECK(sampled[0]->sum_of_periods <= a);
	CHECK(sampled[1]->sum_of_periods <= b);
	/* If an event leaves when it overflows, its period starts again. */
	CHECK(sampled[0]->samples >= 1 && sampled[1]->samples >= 1);
	perf_close(sampled[0]);
	perf_close(sampled[1]);
	unload();
}

GUEST_TEST_UNLOADED(an_nmi_at_any_point_of_a_switch)
{
	EXPECT_LT(100, with_nmi_at_each_point(prepare_sampling, switch_and_back,
					      check_sampling));
}

static void overflow_here(void)
{
	user_work(this_cpu, 100);
	extra = 100;
}

GUEST_TEST_UNLOADED(an_overflow_at_any_point_of_a_switch)
{
	at_point = overflow_here;
	EXPECT_LT(100, with_nmi_at_each_point(prepare_sampling, switch_and_back,
					      check_sampling));
}

static long refuse_enable(u32 op, u32 id, u64 arg)
{
	return op == KVM_PERF_OP_ENABLE ? -KVM_EAGAIN : 0;
}

/* The host has the position of the task that did not run. */
GUEST_TEST(goes_on_at_its_own_position_after_the_host_has_refused_another)
{
	struct perf_event *a = open_task(sampling(0xc0, 1000), 0);
	struct perf_event *b = open_task(sampling(0xc0, 1000), 1);

	run(1);
	user_work(0, 900);
	run(-1);
	run(0);
	user_work(0, 100);
	host_throttle(0, backing(a)->id);
	host.refuse = refuse_enable;
	run(1);
	host.refuse = NULL;
	run(0);
	user_work(0, 899);
	EXPECT_EQ(0, a->samples);
	user_work(0, 1);
	EXPECT_EQ(1, a->samples);
	EXPECT_EQ(1000, perf_read(a));
	perf_close(a);
	perf_close(b);
	unload();
}
