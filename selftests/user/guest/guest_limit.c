// SPDX-License-Identifier: GPL-2.0
/*
 * The guest's driver in user space: too few counters, counters that the host takes away,
 * too many events, pinned events, and the driver's memory of these shortages.
 */
#include "guest.h"

static struct perf_event *events[8];

static void open_some(int n)
{
	int i;

	for (i = 0; i < n; i++)
		events[i] = open_task(raw_user(0xc0 + 4 * i), 0);
	run(0);
}

static void close_some(int n)
{
	int i;

	for (i = 0; i < n; i++)
		perf_close(events[i]);
}

static int counting(int n)
{
	int i, active = 0;

	for (i = 0; i < n; i++)
		active += events[i]->state == PERF_EVENT_STATE_ACTIVE;
	return active;
}

/* Does each event count for the time that perf shows? */
static void check_scaled(struct __test_metadata *_metadata, int n)
{
	u64 count;
	int i;

	for (i = 0; i < n; i++) {
		count = perf_read(events[i]);
		/* The clock moves 1 ns per unit of work, and also between. */
		EXPECT_LE(count, events[i]->time_running);
	}
}

GUEST_TEST(perf_multiplexes_what_there_is_no_counter_for)
{
	u64 total = 0;
	int i;

	open_some(6);
	EXPECT_EQ(4, counting(6));
	for (i = 0; i < 60; i++) {
		user_work(0, 1000);
		wait_ns(TICK_NSEC);
		EXPECT_EQ(4, counting(6));
	}
	for (i = 0; i < 6; i++) {
		EXPECT_LT(20000, perf_read(events[i]));
		total += perf_read(events[i]);
	}
	EXPECT_EQ(4 * 60000, total);
	check_scaled(_metadata, 6);
	close_some(6);
	unload();
}

GUEST_TEST(the_host_has_fewer_counters_than_it_said)
{
	u64 total = 0;
	int i;

	host_set_counters(0, 2);
	open_some(4);
	EXPECT_EQ(2, counting(4));
	for (i = 0; i < 40; i++) {
		user_work(0, 1000);
		wait_ns(TICK_NSEC);
	}
	for (i = 0; i < 4; i++)
		total += perf_read(events[i]);
	EXPECT_EQ(2 * 40000, total);
	/* The driver remembers the shortage for 0.1 s. */
	host_set_counters(0, 4);
	wait_ns(NSEC_PER_SEC / 5);
	wait_ns(TICK_NSEC);
	EXPECT_EQ(4, counting(4));
	close_some(4);
	unload();
}

GUEST_TEST(a_shortage_is_asked_about_ten_times_a_second)
{
	u64 calls;
	int i;

	host_set_counters(0, 2);
	open_some(4);
	calls = host.ops[KVM_PERF_OP_ENABLE];
	for (i = 0; i < HZ; i++)
		wait_ns(TICK_NSEC);
	/* A rotation starts two events, and tries two more. */
	EXPECT_LT(host.ops[KVM_PERF_OP_ENABLE] - calls, 2 * HZ + 50);
	close_some(4);
	unload();
}

GUEST_TEST(a_lost_counter_is_known_at_once)
{
	u64 time;
	int i;

	open_some(4);
	user_work(0, 1000);
	host_set_counters(0, 3);
	/* perf learns of the loss as soon as interrupts are on. */
	EXPECT_EQ(3, counting(4));
	EXPECT_NE(NULL, strstr(log_line, "needed the counter"));
	user_work(0, 1000);
	for (i = 0; i < 4; i++) {
		time = perf_read(events[i]);
		EXPECT_LE(time, events[i]->time_running);
	}
	host_set_counters(0, 4);
	wait_ns(NSEC_PER_SEC / 2);
	EXPECT_EQ(4, counting(4));
	close_some(4);
	unload();
}

/* Without KVM_PERF_FEATURE_NOTIFY, the driver's timer asks the host. */
GUEST_TEST_UNLOADED(a_lost_counter_is_known_by_asking)
{
	host.query.features &= ~KVM_PERF_FEATURE_NOTIFY;
	load();
	open_some(4);
	user_work(0, 1000);
	host_set_counters(0, 3);
	EXPECT_EQ(4, counting(4));
	wait_ns(NSEC_PER_SEC / 4);
	EXPECT_EQ(3, counting(4));
	close_some(4);
	unload();
}

GUEST_TEST_UNLOADED(a_read_finds_a_lost_counter)
{
	host.query.features &= ~KVM_PERF_FEATURE_NOTIFY;
	load();
	open_some(4);
	user_work(0, 1000);
	host_set_counters(0, 0);
	EXPECT_EQ(1000, perf_read(events[0]));
	EXPECT_NE(PERF_EVENT_STATE_ACTIVE, events[0]->state);
	close_some(4);
	unload();
}

GUEST_TEST_UNLOADED(a_read_of_a_group_finds_a_lost_counter)
{
	struct perf_event *leader, *sibling;

	host.query.features &= ~KVM_PERF_FEATURE_NOTIFY;
	load();
	leader = open_task(raw_user(0xc0), 0);
	sibling = open_group(raw_user(0xc4), leader);
	run(0);
	user_work(0, 100);
	host_set_counters(0, 1);
	perf_read_group(leader);
	EXPECT_EQ(100, local64_read(&sibling->count));
	user_work(0, 100);
	wait_ns(NSEC_PER_SEC / 4);
	/* A group counts as a whole. */
	EXPECT_NE(PERF_EVENT_STATE_ACTIVE, leader->state);
	perf_close(sibling);
	perf_close(leader);
	unload();
}

GUEST_TEST(what_nobody_has_may_lose_its_counter)
{
	log_lines = 0;
	open_some(2);
	user_work(0, 1000);
	run(-1);
	host_set_counters(0, 0);
	EXPECT_EQ(0, log_lines);
	host_set_counters(0, 4);
	run(0);
	user_work(0, 10);
	wait_ns(NSEC_PER_SEC / 4);
	user_work(0, 10);
	EXPECT_LE(1010, perf_read(events[0]));
	close_some(2);
	unload();
}

GUEST_TEST(a_pinned_event_asks_the_host_each_time)
{
	struct perf_event_attr attr = raw_user(0xd0);
	struct perf_event *pinned;

	attr.pinned = 1;
	open_some(1);
	/* The driver knows the shortage, which then ends. */
	host_set_counters(0, 0);
	wait_ns(TICK_NSEC);
	EXPECT_EQ(0, counting(1));
	host_set_counters(0, 4);
	pinned = open_task(attr, 0);
	EXPECT_EQ(PERF_EVENT_STATE_ACTIVE, pinned->state);
	user_work(0, 100);
	EXPECT_EQ(100, perf_read(pinned));
	run(-1);
	/* A pinned event ends if there is no counter at its start. */
	host_set_counters(0, 0);
	wait_ns(NSEC_PER_SEC * 2);
	run(0);
	EXPECT_EQ(PERF_EVENT_STATE_ERROR, pinned->state);
	perf_close(pinned);
	close_some(1);
	unload();
}

/* A KVM of this guest adds an event so, beside others. */
GUEST_TEST(without_a_transaction_add_asks_the_host)
{
	struct perf_event_attr attr = raw_user(0xd0);
	struct perf_event *pinned;
	struct pmu *pmu;

	attr.pinned = 1;
	attr.disabled = 1;
	open_some(2);
	pinned = open_task(attr, 0);
	pmu = pinned->pmu;
	host_set_counters(0, 2);
	pmu->pmu_disable(pmu);
	EXPECT_EQ(-EAGAIN, pmu->add(pinned, PERF_EF_START));
	pmu->pmu_enable(pmu);
	EXPECT_EQ(2, counting(2));
	user_work(0, 100);
	EXPECT_EQ(100, perf_read(events[0]));
	host_set_counters(0, 3);
	wait_ns(NSEC_PER_SEC);
	pmu->pmu_disable(pmu);
	EXPECT_EQ(0, pmu->add(pinned, PERF_EF_START));
	EXPECT_LE(0, pinned->hw.idx);
	pmu->del(pinned, 0);
	pmu->pmu_enable(pmu);
	user_work(0, 100);
	EXPECT_EQ(200, perf_read(events[0]));
	perf_close(pinned);
	close_some(2);
	unload();
}

/* Natively the second pinned event ends, too, if there is one counter. */
GUEST_TEST(a_pinned_event_ends_and_does_not_start_for_ever)
{
	struct perf_event_attr attr = raw_user(0xd0);
	struct perf_event *pinned[2];
	int i;

	attr.pinned = 1;
	host_set_counters(0, 1);
	for (i = 0; i < 2; i++) {
		attr.config += 4;
		pinned[i] = open_task(attr, 0);
	}
	perf_disable(pinned[0]);
	run(0);
	user_work(0, 10);
	/* The second event's counter is unused when the first event starts. */
	EXPECT_EQ(PERF_EVENT_STATE_ACTIVE, pinned[1]->state);
	perf_enable(pinned[0]);
	EXPECT_EQ(PERF_EVENT_STATE_ACTIVE, pinned[0]->state);
	EXPECT_EQ(PERF_EVENT_STATE_ERROR, pinned[1]->state);
	user_work(0, 100);
	EXPECT_EQ(100, perf_read(pinned[0]));
	EXPECT_EQ(10, perf_read(pinned[1]));
	for (i = 0; i < 2; i++)
		perf_close(pinned[i]);
	unload();
}

/* The CPU's event comes first, and takes the counter that the task's event has just left. */
GUEST_TEST(a_pinned_event_that_is_moved_to_another_counter)
{
	struct perf_event_attr attr = raw_user(0xd0);
	struct perf_event *of_task, *of_cpu;

	attr.pinned = 1;
	host_set_counters(0, 1);
	of_task = open_task(attr, 0);
	run(0);
	user_work(0, 10);
	of_cpu = open_cpu(attr, 0);
	EXPECT_EQ(PERF_EVENT_STATE_ACTIVE, of_cpu->state);
	EXPECT_EQ(PERF_EVENT_STATE_ERROR, of_task->state);
	user_work(0, 100);
	EXPECT_EQ(100, perf_read(of_cpu));
	EXPECT_EQ(10, perf_read(of_task));
	perf_close(of_cpu);
	perf_close(of_task);
	unload();
}

static long refuse_open(u32 op, u32 id, u64 arg)
{
	return op == KVM_PERF_OP_OPEN ? -KVM_EOPNOTSUPP : 0;
}

GUEST_TEST(a_pinned_event_that_the_host_refuses_ends)
{
	struct perf_event_attr attr = raw_user(0xd0);
	struct perf_event *pinned;

	/* As many events as there are counters have counted. */
	open_some(4);
	user_work(0, 10);
	attr.pinned = 1;
	pinned = open_task(attr, 1);
	host.refuse = refuse_open;
	run(1);
	EXPECT_EQ(PERF_EVENT_STATE_ERROR, pinned->state);
	host.refuse = NULL;
	perf_close(pinned);
	close_some(4);
	unload();
}

GUEST_TEST(the_siblings_of_a_pinned_event_ask_too)
{
	struct perf_event_attr attr = raw_user(0xd0);
	struct perf_event *pinned, *sibling;

	open_some(2);
	/* The driver knows the shortage, which then ends. */
	host_set_counters(0, 0);
	wait_ns(TICK_NSEC);
	host_set_counters(0, 4);
	attr.pinned = 1;
	pinned = open_task(attr, 1);
	sibling = open_group(raw_user(0xd4), pinned);
	run(1);
	EXPECT_EQ(PERF_EVENT_STATE_ACTIVE, pinned->state);
	EXPECT_EQ(PERF_EVENT_STATE_ACTIVE, sibling->state);
	perf_close(sibling);
	perf_close(pinned);
	close_some(2);
	unload();
}

GUEST_TEST(a_group_counts_as_a_whole_or_not_at_all)
{
	struct perf_event *leader = open_task(raw_user(0xc0), 0), *sibling;
	int i;

	sibling = open_group(raw_user(0xc4), leader);
	host_set_counters(0, 1);
	run(0);
	for (i = 0; i < 100; i++) {
		user_work(0, 100);
		EXPECT_EQ(leader->state, sibling->state);
		wait_ns(TICK_NSEC);
	}
	EXPECT_EQ(0, perf_read(leader));
	EXPECT_EQ(0, perf_read(sibling));
	host_set_counters(0, 2);
	wait_ns(NSEC_PER_SEC / 2);
	user_work(0, 100);
	perf_read_group(leader);
	EXPECT_EQ(100, local64_read(&leader->count));
	EXPECT_EQ(100, local64_read(&sibling->count));
	perf_close(sibling);
	perf_close(leader);
	unload();
}

/* Intel's fixed counters are additional counters. */
GUEST_TEST_UNLOADED(fixed_counters)
{
	static const u64 configs[] = { 0xc0, 0x3c, 0x300, 0x400, 0x500, 0x600, 0x700 };
	unsigned int i;

	host.query.fixed_counters = 7;
	load();
	for (i = 0; i < 7; i++)
		events[i] = open_task(raw_user(configs[i]), 0);
	run(0);
	EXPECT_EQ(7, counting(7));
	user_work(0, 100);
	host_set_no_fixed(0, 1);
	EXPECT_EQ(6, counting(7));
	user_work(0, 100);
	host_set_no_fixed(0, 0);
	wait_ns(NSEC_PER_SEC / 2);
	EXPECT_EQ(7, counting(7));
	close_some(7);
	unload();
}

/* A pinned event that fails sets a limit, in which a limit of long ago has no part. */
GUEST_TEST_UNLOADED(a_fixed_counter_that_is_back_is_used_at_once)
{
	struct perf_event_attr attr = raw_user(0);
	struct perf_event *cycles;
	int i;

	host.query.fixed_counters = 7;
	load();
	host_set_no_fixed(0, 2);
	host_set_counters(0, 0);
	cycles = open_task(raw_user(0x3c), 0);
	run(0);
	EXPECT_EQ(PERF_EVENT_STATE_INACTIVE, cycles->state);
	run(-1);
	host_set_no_fixed(0, 0);
	host_set_counters(0, 2);
	wait_ns(NSEC_PER_SEC);
	attr.pinned = 1;
	for (i = 0; i < 3; i++) {
		attr.config = 0xc4 + 4 * i;
		events[i] = open_task(attr, 0);
	}
	run(0);
	EXPECT_EQ(2, counting(3));
	EXPECT_EQ(PERF_EVENT_STATE_ACTIVE, cycles->state);
	close_some(3);
	perf_close(cycles);
	unload();
}

GUEST_TEST_UNLOADED(one_event_of_reference_cycles_at_a_time)
{
	struct perf_event *leader;
	struct perf_event_attr attr = raw_user(0x300);

	host.query.fixed_counters = 7;
	load();
	leader = open_task(attr, 0);
	EXPECT_EQ(-EINVAL, PTR_ERR(perf_open(&attr, &tasks[0], -1, leader)));
	events[0] = open_task(attr, 0);
	run(0);
	EXPECT_EQ(PERF_EVENT_STATE_INACTIVE, events[0]->state);
	perf_close(leader);
	wait_ns(TICK_NSEC);
	EXPECT_EQ(PERF_EVENT_STATE_ACTIVE, events[0]->state);
	close_some(1);
	unload();
}

GUEST_TEST_UNLOADED(no_space_makes_room_by_closing)
{
	int i;

	host.query.max_events = 3;
	load();
	for (i = 0; i < 8; i++) {
		events[i] = open_task(raw_user(0xc0 + 4 * i), 0);
		run(0);
		user_work(0, 10);
		EXPECT_EQ(10, perf_read(events[i]));
		perf_disable(events[i]);
	}
	log_lines = 0;
	for (i = 0; i < 8; i++)
		perf_enable(events[i]);
	for (i = 0; i < 8; i++)
		wait_ns(TICK_NSEC);
	EXPECT_LE(counting(8), 3);
	EXPECT_EQ(1, log_lines);
	close_some(8);
	unload();
}

/* The number of OPENs in three seconds of a task whose host refuses them. */
static u64 opens_while_refused(void)
{
	u64 opens;
	int i;

	host.refuse = refuse_open;
	run(0);
	opens = host.ops[KVM_PERF_OP_OPEN];
	for (i = 0; i < 3 * HZ; i++)
		wait_ns(TICK_NSEC);
	host.refuse = NULL;
	return host.ops[KVM_PERF_OP_OPEN] - opens;
}

GUEST_TEST(what_is_refused_is_not_asked_for_for_a_second)
{
	u64 opens;

	open_some(1);
	run(-1);
	wait_ns(NSEC_PER_SEC * 2);
	/* The host is another one now. */
	opens = opens_while_refused();
	EXPECT_GE(opens, 2);
	EXPECT_LE(opens, 4);
	EXPECT_EQ(0, counting(1));
	wait_ns(NSEC_PER_SEC * 2);
	user_work(0, 10);
	EXPECT_EQ(10, perf_read(events[0]));
	close_some(1);
	unload();
}

/* The VM's event filter may deny it on each kind. */
GUEST_TEST_UNLOADED(what_is_refused_on_each_kind_is_not_asked_for_for_a_second)
{
	u64 opens;

	load_for_kind();
	events[0] = open_task(raw_user(0x1b1), 0);
	opens = opens_while_refused();
	EXPECT_GE(opens, 2);
	EXPECT_LE(opens, 4);
	close_some(1);
	unload();
}

static int exist;

static long refuse_exists(u32 op, u32 id, u64 arg)
{
	return op == KVM_PERF_OP_OPEN && exist && exist-- ? -KVM_EEXIST : 0;
}

GUEST_TEST(an_id_that_the_host_knows_is_closed_first)
{
	open_some(1);
	run(-1);
	wait_ns(NSEC_PER_SEC * 2);
	host.refuse = refuse_exists;
	exist = 1;
	run(0);
	EXPECT_EQ(1, counting(1));
	user_work(0, 10);
	EXPECT_EQ(10, perf_read(events[0]));
	close_some(1);
	unload();
}

static long refuse_disable(u32 op, u32 id, u64 arg)
{
	return op == KVM_PERF_OP_DISABLE ? -KVM_EFAULT : 0;
}

GUEST_TEST(a_record_that_cannot_be_written)
{
	open_some(1);
	user_work(0, 10);
	perf_read(events[0]);
	user_work(0, 10);
	host.refuse = refuse_disable;
	perf_disable(events[0]);
	wait_ns(NSEC_PER_SEC / 4);
	host.refuse = NULL;
	EXPECT_LE(10, local64_read(&events[0]->count));
	perf_enable(events[0]);
	user_work(0, 10);
	EXPECT_LE(20, perf_read(events[0]));
	close_some(1);
	unload();
}

/* Events that fail to open interrupt other CPUs at most ten times a second. */
static int open_in_vain(u64 ns)
{
	u64 end = clock_ns + ns;
	int i, ipis = nr_ipis;

	for (i = 0; clock_ns < end; i++) {
		CHECK(open_error(raw_user(0x10000 + 256 * i)) == -ENOSPC);
		wait_ns(NSEC_PER_MSEC);
	}
	return nr_ipis - ipis;
}

GUEST_TEST_UNLOADED(who_opens_too_many_disturbs_other_cpus_ten_times_a_second)
{
	struct perf_event *mine[4], *others[3];
	int i;

	host.query.max_events = 7;
	load();
	for (i = 0; i < 4; i++)
		mine[i] = open_cpu(raw_user(0xc0 + 4 * i), 0);
	for (i = 0; i < 3; i++)
		others[i] = open_cpu(raw_user(0xd0 + 4 * i), 1);
	/* An event that stays open. */
	events[0] = open_cpu(raw_user(0xd0), 1);
	may_perfmon = false;
	i = open_in_vain(NSEC_PER_SEC);
	EXPECT_LE(i, 11);
	may_perfmon = true;
	for (i = 0; i < 4; i++)
		perf_close(mine[i]);
	for (i = 0; i < 3; i++)
		perf_close(others[i]);
	close_some(1);
	unload();
}

/* A user without CAP_PERFMON opens an event while another CPU keeps all events for later. */
static int open_beside_unused(u64 config)
{
	int i, error;

	for (i = 0; i < 4; i++)
		events[i] = open_cpu(raw_user(0xc0 + 4 * i), 1);
	for (i = 0; i < 4; i++)
		perf_disable(events[i]);
	CHECK(host_open() == 4);
	may_perfmon = false;
	error = open_error(raw_user(config));
	may_perfmon = true;
	close_some(4);
	return error;
}

GUEST_TEST_UNLOADED(what_others_keep_for_later_makes_room)
{
	host.query.max_events = 4;
	load();
	EXPECT_EQ(0, open_beside_unused(0x1000));
	unload();
}

/* On 32 bits with HZ=1000, jiffies are half a wrap further after 25 days. */
GUEST_TEST_UNLOADED(what_others_keep_for_later_makes_room_weeks_later)
{
	host.query.max_events = 4;
	load();
	EXPECT_EQ(0, open_beside_unused(0x1000));
	EXPECT_EQ(-ENOSPC, open_beside_unused(0x1001));
	wait_ns(2 * NSEC_PER_SEC);
	jiffies_ahead += LONG_MAX + 1000ul;
	EXPECT_EQ(0, open_beside_unused(0x1002));
	unload();
}

static void prepare_loss(void)
{
	guest_init();
	load();
	open_some(3);
	user_work(0, 10);
}

static void lose(void)
{
	host_set_counters(this_cpu, 1);
}

static void switch_and_back(void)
{
	run(-1);
	run(0);
}

static void check_loss(void)
{
	int i;

	host_set_counters(0, 4);
	run_interrupts(0);
	wait_ns(NSEC_PER_SEC / 2);
	CHECK(counting(3) == 3);
	user_work(0, 10);
	for (i = 0; i < 3; i++)
		CHECK(perf_read(events[i]) == 20);
	close_some(3);
	unload();
}

GUEST_TEST_UNLOADED(a_counter_may_be_lost_at_any_point_of_a_switch)
{
	at_point = lose;
	EXPECT_LT(50, with_nmi_at_each_point(prepare_loss, switch_and_back, check_loss));
}

/* Events with the configs 0x1000 to 0x100f need the same counter. */
static bool needs_the_counter(const struct host_event *e)
{
	return e->open && (e->attr.config & ~0xfull) == 0x1000;
}

static long only_one_has_the_counter(u32 op, u32 id, u64 arg)
{
	const struct host_event *e = host_find(id), *other;

	if (op != KVM_PERF_OP_ENABLE || !e || !needs_the_counter(e))
		return 0;

	for (other = host.events; other < host.events + HOST_EVENTS; other++) {
		if (other != e && other->enabled && needs_the_counter(other))
			return -KVM_EBUSY;
	}

	return 0;
}

static void load_with_8_counters(void)
{
	host.query.nr_counters = 8;
	host.vcpus[0].counters = 8;
	load();
}

GUEST_TEST_UNLOADED(a_pinned_event_gets_the_counter_of_any_spare_one)
{
	struct perf_event_attr attr = raw(0x1002);
	struct perf_event *pinned;
	int i;

	attr.pinned = 1;
	load_with_8_counters();
	host.refuse = only_one_has_the_counter;
	for (i = 0; i < 6; i++)
		events[i] = open_cpu(raw(0x1001 + 0x1000 * i), 0);
	user_work(0, 10);
	pinned = open_cpu(attr, 0);
	EXPECT_EQ(PERF_EVENT_STATE_ACTIVE, pinned->state);
	perf_close(pinned);
	close_some(6);
	unload();
}

/* Eleven events count, and the group has six: one more than a CPU has backing events. */
GUEST_TEST_UNLOADED(a_pinned_group_gets_the_place_of_events_that_leave)
{
	static const u64 configs[] = {
		0xc0, 0x3c, 0x300, 0x2000, 0x2100, 0x2200, 0x2300, 0x2400, 0x2500,
		0x2600, 0x2700,
	};
	struct perf_event *others[ARRAY_SIZE(configs)];
	struct perf_event_attr attr = raw(0x5000);
	unsigned int i;

	attr.pinned = 1;
	attr.disabled = 1;
	host.query.fixed_counters = 7;
	load_with_8_counters();
	for (i = 0; i < ARRAY_SIZE(configs); i++)
		others[i] = open_cpu(raw(configs[i]), 0);
	user_work(0, 10);
	events[0] = open_cpu(attr, 0);
	for (i = 1; i < 6; i++)
		events[i] = open_group(raw(0x5000 + 0x100 * i), events[0]);
	perf_enable(events[0]);
	EXPECT_EQ(PERF_EVENT_STATE_ACTIVE, events[0]->state);
	EXPECT_EQ(6, counting(6));
	for (i = 6; i--;)
		perf_close(events[i]);
	for (i = 0; i < ARRAY_SIZE(configs); i++)
		perf_close(others[i]);
	unload();
}
