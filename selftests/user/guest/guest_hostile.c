// SPDX-License-Identifier: GPL-2.0
/*
 * The guest's driver in user space: any content of the memory that it shares with the host.
 */
#include "guest.h"

/* The most points of a piece of work: each loop over shared memory has a bound. */
#define BOUND	100000

static struct guest_perf_event *record_of(struct perf_event *event)
{
	return backing(event)->record;
}

static struct guest_perf_event *shared;

static void change_sequence(void)
{
	shared->sequence += 2;
}

static void change_pmc(void)
{
	shared->pmc += KVM_PERF_PMC_CHANGE_ONE;
}

static void change_count(void)
{
	shared->count++;
}

/* On a 32-bit CPU, the driver reads 64 bits between two reads of the sequence number. */
GUEST_TEST(a_sequence_number_that_stays_odd)
{
	struct perf_event *event = open_task(sampling(0xc0, 1000), 0);
	unsigned long before;

	is_64bit = false;
	run(0);
	user_work(0, 100);
	EXPECT_EQ(100, perf_read(event));
	/* The model of the host adds 2 at each write, so that the number stays odd. */
	record_of(event)->sequence |= 1;
	before = points;
	user_work(0, 1000);
	EXPECT_EQ(1100, perf_read(event));
	run(-1);
	EXPECT_GT(BOUND, points - before);
	EXPECT_EQ(1, event->samples);
	perf_close(event);
	unload();
}

GUEST_TEST(a_sequence_number_that_changes_for_ever)
{
	struct perf_event *event = open_task(sampling(0xc0, 1000), 0);
	unsigned long before;

	is_64bit = false;
	run(0);
	shared = record_of(event);
	before = points;
	point_hook = change_sequence;
	user_work(0, 1100);
	perf_read(event);
	run(-1);
	point_hook = NULL;
	EXPECT_GT(BOUND, points - before);
	perf_close(event);
	unload();
}

GUEST_TEST_UNLOADED(a_place_to_read_that_changes_for_ever)
{
	struct perf_event *event;
	unsigned long before;

	host.query.rdpmc = KVM_PERF_RDPMC_ALLOWED;
	host.query.features |= KVM_PERF_FEATURE_RDPMC | KVM_PERF_FEATURE_RDPMC_USER;
	load();
	event = open_task(raw_user(0xc0), 0);
	run(0);
	perf_mmap(event, &mms[0]);
	user_work(0, 100);
	shared = record_of(event);
	before = points;
	point_hook = change_pmc;
	perf_read(event);
	point_hook = NULL;
	EXPECT_GT(BOUND, points - before);
	EXPECT_EQ(100, local64_read(&event->count));
	/* Both the counter and its index may be anything. */
	shared->pmc = ~0;
	host_nmi(0);
	perf_read(event);
	perf_close(event);
	unload();
}

GUEST_TEST(a_count_that_goes_back)
{
	struct perf_event *event = open_task(sampling(0xc0, 1000), 0);

	run(0);
	user_work(0, 100);
	EXPECT_EQ(100, perf_read(event));
	backing(event)->count = 0;
	EXPECT_EQ(100, perf_read(event));
	shared = record_of(event);
	point_hook = change_count;
	perf_read(event);
	point_hook = NULL;
	EXPECT_LE(100, perf_read(event));
	perf_close(event);
	unload();
}

GUEST_TEST(more_overflows_than_there_is_time_for)
{
	struct perf_event *event = open_task(sampling(0xc0, 1000), 0);

	run(0);
	record_of(event)->overflows = ~0;
	record_of(event)->last_period = ~0ull;
	host_nmi(0);
	EXPECT_EQ(16, event->samples);
	user_work(0, 1000);
	EXPECT_EQ(17, event->samples);
	perf_close(event);
	unload();
}

GUEST_TEST(flags_that_mean_nothing)
{
	struct perf_event *event = open_task(sampling(0xc0, 1000), 0);

	run(0);
	shared = record_of(event);
	shared->flags = ~(KVM_PERF_EVENT_LOST | KVM_PERF_EVENT_THROTTLED);
	host_nmi(0);
	EXPECT_EQ(0, event->throttled);
	EXPECT_EQ(PERF_EVENT_STATE_ACTIVE, event->state);
	/* All flags, of an event that counts. */
	shared->flags = ~0;
	host_nmi(0);
	shared->flags = 0;
	wait_ns(NSEC_PER_SEC / 2);
	EXPECT_EQ(PERF_EVENT_STATE_ACTIVE, event->state);
	user_work(0, 10);
	EXPECT_EQ(10, perf_read(event));
	perf_close(event);
	unload();
}

GUEST_TEST(bits_of_slots_that_nobody_has)
{
	struct guest_perf_area *area = host.vcpus[0].area;
	struct perf_event *event = open_task(hypervisor(KVM_PERF_COUNT_EXITS_IO, 10), 0);
	unsigned int i;

	run(0);
	area->slots = ~0;
	for (i = 0; i < KVM_PERF_NR_SLOTS; i++)
		area->slot[i].left = S64_MIN;
	host_nmi(0);
	EXPECT_EQ(1, area->slots & GENMASK(KVM_PERF_NR_SLOTS - 1, 0));
	EXPECT_GE(16, event->samples);
	EXPECT_LE(1, event->samples);
	area->slots = ~0;
	host_migrate();
	run(-1);
	run(0);
	area->slot[0].left = 10;
	host_exit(0, KVM_PERF_COUNT_EXITS_IO, 10, true, 0x400200);
	perf_read(event);
	perf_close(event);
	unload();
}

GUEST_TEST(a_slot_of_a_frequency)
{
	struct perf_event_attr attr = hypervisor(KVM_PERF_COUNT_HOST_NS, 0);
	struct perf_event *event;

	attr.freq = 1;
	attr.sample_freq = 1000;
	event = open_task(attr, 0);
	run(0);
	host.vcpus[0].area->slot[0].left = S64_MIN;
	host_nmi(0);
	EXPECT_EQ(1, event->samples);
	EXPECT_GE(2ull << 32, event->last_sample_period);
	perf_close(event);
	unload();
}

GUEST_TEST_UNLOADED(branches_without_end)
{
	struct perf_event_attr attr = sampling(0xc0, 100);
	struct perf_event *event;
	struct guest_perf_area *area;

	host.query.features |= KVM_PERF_FEATURE_BRANCHES;
	host.query.branches = 16;
	load();
	attr.sample_type = PERF_SAMPLE_BRANCH_STACK;
	attr.branch_sample_type = PERF_SAMPLE_BRANCH_ANY;
	event = open_task(attr, 0);
	run(0);
	area = host.vcpus[0].area;
	memset(area->branch, 0xff, sizeof(area->branch));
	user_work(0, 99);
	record_of(event)->overflows = 1;
	area->nr_branches = ~0;
	host_nmi(0);
	EXPECT_EQ(1, event->samples);
	EXPECT_GE(KVM_PERF_MAX_BRANCHES, event->last_branches);
	perf_close(event);
	unload();
}

GUEST_TEST(epochs_that_change_for_ever)
{
	struct perf_event *event = open_task(raw_user(0xc0), 0);
	unsigned long before;
	u64 calls;
	int i;

	run(0);
	calls = host.calls;
	before = points;
	for (i = 0; i < 100; i++) {
		host.vcpus[0].area->epoch += 2;
		host_nmi(0);
		run(-1);
		host.vcpus[0].area->epoch ^= 1u << i % 32;
		run(0);
	}
	EXPECT_GT(100 * 40, host.calls - calls);
	EXPECT_GT(10 * BOUND, points - before);
	user_work(0, 10);
	EXPECT_LE(10, perf_read(event));
	perf_close(event);
	unload();
}

static void any_results(void)
{
	unsigned long i;

	for (i = 0; host.last_batch && i < host.last_batch_n; i++)
		host.last_batch[i] = (struct guest_perf_op) {
			.op = 0xffffffff, .result = i % 2 ? -5 : 7, .arg = ~0ull, .id = ~0,
		};
}

GUEST_TEST(results_that_mean_nothing)
{
	struct perf_event *event = open_task(sampling(0xc0, 1000), 0);
	struct perf_event *other = open_task(raw_user(0xc1), 1);
	int i;

	host.exit_hook = any_results;
	for (i = 0; i < 20; i++) {
		run(i % 2);
		user_work(0, 10);
	}
	host.exit_hook = NULL;
	wait_ns(NSEC_PER_SEC * 3);
	host_migrate();
	run(0);
	user_work(0, 10);
	EXPECT_EQ(PERF_EVENT_STATE_ACTIVE, event->state);
	perf_close(event);
	perf_close(other);
	unload();
}

static long no_counter_to_stop(u32 op, u32 id, u64 arg)
{
	return op == KVM_PERF_OP_DISABLE || op == KVM_PERF_OP_SET_LEFT ? -KVM_EBUSY : 0;
}

/* The host says of an event that nobody has, and that is to stop, that it has no counter. */
GUEST_TEST_UNLOADED(no_counter_for_what_is_to_stop)
{
	struct perf_event *event;

	load_for_kind();
	event = open_task(sampling(0x1b1, 1000), 0);
	run(0);
	host.refuse = no_counter_to_stop;
	run(-1);
	host.refuse = NULL;
	run(0);
	EXPECT_EQ(PERF_EVENT_STATE_ACTIVE, event->state);
	perf_close(event);
	unload();
}
