// SPDX-License-Identifier: GPL-2.0
/*
 * The guest's driver in user space: another host, CPUs that go offline and online, suspend,
 * kexec, and a host without the feature.
 */
#include "guest.h"

#include "kvm_pmu.h"

static struct perf_event *events[4];

static void open_some(void)
{
	events[0] = open_task(raw_user(0xc0), 0);
	events[1] = open_task(sampling(0xc1, 100), 0);
	events[2] = open_cpu(raw_user(0xc2), 1);
	run(0);
}

static void close_some(void)
{
	int i;

	for (i = 0; i < 3; i++)
		perf_close(events[i]);
	unload();
}

static void work(u64 n)
{
	user_work(0, n);
	user_work(1, n);
}

GUEST_TEST(after_a_migration_all_counts_go_on)
{
	open_some();
	work(30);
	perf_read(events[0]);
	perf_read(events[2]);
	host_migrate();
	/* The new host sends an NMI, so that no event is missed. */
	EXPECT_EQ(2, host_enabled(0));
	EXPECT_EQ(1, host_enabled(1));
	work(1000);
	EXPECT_EQ(1030, perf_read(events[0]));
	EXPECT_EQ(3 * 1030, perf_read(events[2]));
	EXPECT_LE(19, events[1]->samples);
	close_some();
}

GUEST_TEST_UNLOADED(without_an_apic_the_watch_finds_another_host)
{
	cpu_has_apic = false;
	load();
	open_some();
	work(30);
	perf_read(events[0]);
	host_migrate();
	EXPECT_EQ(0, host_enabled(0));
	wait_ns(NSEC_PER_SEC / 4);
	EXPECT_EQ(2, host_enabled(0));
	work(100);
	EXPECT_EQ(130, perf_read(events[0]));
	close_some();
}

GUEST_TEST_UNLOADED(another_pmu_may_have_the_apic)
{
	int i;

	for (i = 0; i < NR_CPUS; i++)
		lvtpc[i] = 0x400;
	load();
	open_some();
	work(30);
	close_some();
	EXPECT_EQ(0x400, lvtpc[0]);
}

static void migrate_without_area(void)
{
	host.query.features &= ~(KVM_PERF_FEATURE_AREA | KVM_PERF_FEATURE_COUNTS);
	load();
	open_some();
	work(30);
	perf_read(events[0]);
	host_migrate();
}

GUEST_TEST_UNLOADED(without_an_area_the_watch_asks)
{
	migrate_without_area();
	wait_ns(NSEC_PER_SEC / 4);
	EXPECT_EQ(2, host_enabled(0));
	work(100);
	EXPECT_EQ(130, perf_read(events[0]));
	run(-1);
	host_migrate();
	run(0);
	work(100);
	EXPECT_EQ(230, perf_read(events[0]));
	close_some();
}

GUEST_TEST_UNLOADED(a_read_finds_another_host)
{
	migrate_without_area();
	perf_read(events[0]);
	EXPECT_EQ(2, host_enabled(0));
	close_some();
}

/* The driver's memory of configurations belongs to the old host. */
GUEST_TEST(another_host_is_asked_again)
{
	u64 opens;

	EXPECT_EQ(0, open_error(raw_user(0xc0)));
	opens = host.ops[KVM_PERF_OP_OPEN];
	EXPECT_EQ(0, open_error(raw_user(0xc0)));
	EXPECT_EQ(opens, host.ops[KVM_PERF_OP_OPEN]);
	host_migrate();
	EXPECT_EQ(0, open_error(raw_user(0xc0)));
	EXPECT_EQ(opens + 1, host.ops[KVM_PERF_OP_OPEN]);
	unload();
}

/* The driver still asks the host for a pinned event. */
GUEST_TEST_UNLOADED(a_raw_event_of_another_model_is_named_in_the_log)
{
	struct perf_event_attr attr = raw_user(0xc0);
	u64 opens;
	int pinned;

	for (pinned = 0; pinned < 2; pinned++) {
		struct perf_event *event;

		attr.pinned = pinned;
		host.query.model = 1;
		load();
		event = open_task(attr, 0);
		run(0);
		work(100);
		EXPECT_EQ(100, perf_read(event));
		host.query.model = 2;
		log_lines = 0;
		host_migrate();
		opens = host.ops[KVM_PERF_OP_OPEN];
		run(-1);
		run(0);
		wait_ns(NSEC_PER_SEC);
		work(100);
		EXPECT_EQ(pinned ? PERF_EVENT_STATE_ERROR : PERF_EVENT_STATE_INACTIVE,
			  event->state);
		EXPECT_EQ(1, log_lines);
		if (!pinned)
			EXPECT_EQ(opens, host.ops[KVM_PERF_OP_OPEN]);
		perf_close(event);
		unload();
	}
}

/* The administrator names the kind, and events that are open go on. */
GUEST_TEST_UNLOADED(on_a_hybrid_host_a_raw_event_is_for_one_kind_of_cores)
{
	struct perf_event *event;
	char text[8] = { };

	host.query.model = KVM_PERF_MODEL_HYBRID | 1;
	load();
	sysfs_file("hybrid")->show(NULL, NULL, text);
	EXPECT_STREQ("1\n", text);
	event = open_task(raw_user(0xc0), 0);
	EXPECT_EQ(-EINVAL, open_error(raw_user(0x1b1)));
	EXPECT_EQ(5, sysfs_file("core_type")->store(NULL, NULL, "0x40\n", 5));
	EXPECT_EQ(0, open_error(raw_user(0x1b1)));
	EXPECT_EQ(5, sysfs_file("core_type")->store(NULL, NULL, "0x20\n", 5));
	EXPECT_EQ(-ENOENT, open_error(raw_user(0x1b1)));
	EXPECT_EQ(-EINVAL, sysfs_file("core_type")->store(NULL, NULL, "0x100\n", 6));
	EXPECT_EQ(2, sysfs_file("core_type")->store(NULL, NULL, "0\n", 2));
	EXPECT_EQ(-EINVAL, open_error(raw_user(0x1b1)));
	run(0);
	work(100);
	EXPECT_EQ(100, perf_read(event));
	perf_close(event);
	unload();
}

/* An event of one kind of cores has no counter on another, but others still have theirs. */
GUEST_TEST_UNLOADED(an_event_of_another_kind_of_core_takes_no_counter_from_others)
{
	struct perf_event *of_kind, *others[4];
	int i, round, lines;

	host.query.model = KVM_PERF_MODEL_HYBRID | 1;
	load();
	lines = log_lines;
	EXPECT_EQ(5, sysfs_file("core_type")->store(NULL, NULL, "0x40\n", 5));
	of_kind = open_task(raw_user(0x1b1), 0);
	EXPECT_EQ(2, sysfs_file("core_type")->store(NULL, NULL, "0\n", 2));
	for (i = 0; i < 4; i++)
		others[i] = open_task(raw_user(0xc0), 1);
	run(0);
	work(100);
	host_set_kind(0, true);
	EXPECT_EQ(PERF_EVENT_STATE_INACTIVE, of_kind->state);
	/* In the first round the counter is lost, in the second there is none. */
	for (round = 1; round <= 2; round++) {
		work(100);
		run(1);
		work(1000);
		for (i = 0; i < 4; i++) {
			EXPECT_EQ(1000 * round, perf_read(others[i]));
			EXPECT_EQ(others[i]->time_enabled, others[i]->time_running);
		}
		wait_ns(NSEC_PER_SEC / 5);
		run(0);
	}
	EXPECT_EQ(100 * host_weight(&(struct guest_perf_attr) {
		.type = KVM_PERF_TYPE_RAW, .config = 0x1b1 }), perf_read(of_kind));
	EXPECT_LT(of_kind->time_running, of_kind->time_enabled);
	EXPECT_EQ(lines, log_lines);
	/* It is asked for again at each tick, so a vCPU that moves often counts on its kind. */
	host_set_kind(0, false);
	wait_ns(2 * TICK_NSEC);
	run(-1);
	run(0);
	EXPECT_EQ(PERF_EVENT_STATE_ACTIVE, of_kind->state);
	perf_close(of_kind);
	for (i = 0; i < 4; i++)
		perf_close(others[i]);
	unload();
}

/* Two CPUs have events of one configuration, and one of them is on the wrong kind. */
GUEST_TEST_UNLOADED(an_event_that_one_cpu_lacks_counts_on_another)
{
	struct perf_event *lacking, *event;
	int i;

	load_for_kind();
	lacking = open_cpu(raw_user(0x1b1), 1);
	event = open_task(raw_user(0x1b1), 0);
	host_set_kind(1, true);
	for (i = 0; i < 10; i++) {
		wait_ns(TICK_NSEC);
		run(0);
		EXPECT_EQ(PERF_EVENT_STATE_ACTIVE, event->state);
		EXPECT_EQ(PERF_EVENT_STATE_INACTIVE, lacking->state);
		run(-1);
	}
	EXPECT_EQ(event->time_enabled, event->time_running);
	perf_close(event);
	perf_close(lacking);
	unload();
}

GUEST_TEST(configurations_are_remembered_but_not_for_ever)
{
	u64 opens;
	int i;

	for (i = 0; i < 200; i++)
		EXPECT_EQ(0, open_error(raw_user(0x1000 + i)));
	opens = host.ops[KVM_PERF_OP_OPEN];
	EXPECT_EQ(0, open_error(raw_user(0x1000)));
	EXPECT_EQ(opens + 1, host.ops[KVM_PERF_OP_OPEN]);
	EXPECT_EQ(0, open_error(raw_user(0x1000 + 199)));
	EXPECT_EQ(opens + 1, host.ops[KVM_PERF_OP_OPEN]);
	unload();
}

GUEST_TEST(a_host_without_the_feature)
{
	u64 calls;

	open_some();
	work(30);
	perf_read(events[0]);
	log_lines = 0;
	host.gone = true;
	host_migrate();
	run(-1);
	run(0);
	EXPECT_EQ(PERF_EVENT_STATE_INACTIVE, events[0]->state);
	/* Each of two CPUs may ask the host once a second. */
	wait_ns(NSEC_PER_SEC);
	calls = host.calls;
	wait_ns(NSEC_PER_SEC * 10);
	EXPECT_LT(host.calls - calls, 400);
	EXPECT_LE(log_lines, 2);
	host.gone = false;
	wait_ns(NSEC_PER_SEC * 3);
	work(100);
	EXPECT_EQ(130, perf_read(events[0]));
	close_some();
}

GUEST_TEST(cpus_come_and_go)
{
	open_some();
	work(30);
	/* perf first removes the events of a CPU that goes offline. */
	perf_close(events[2]);
	cpu_down(1);
	EXPECT_EQ(0, host_enabled(1));
	EXPECT_EQ(NULL, host.vcpus[1].area);
	wait_ns(NSEC_PER_SEC);
	cpu_up(1);
	EXPECT_NE(NULL, host.vcpus[1].area);
	events[2] = open_cpu(raw_user(0xc2), 1);
	work(30);
	EXPECT_EQ(90, perf_read(events[2]));
	close_some();
}

GUEST_TEST(suspend_and_resume)
{
	bool on;

	open_some();
	work(30);
	perf_read(events[0]);
	perf_read(events[2]);
	cpu_down(1);
	on = irq_off();
	system_ops->suspend();
	EXPECT_EQ(0, host_open());
	/* The guest resumes in another VM, which has no events of the guest. */
	system_ops->resume();
	irq_on(on);
	cpu_up(1);
	EXPECT_EQ(2, host_enabled(0));
	work(100);
	EXPECT_EQ(130, perf_read(events[0]));
	close_some();
}

GUEST_TEST(a_kernel_that_ends_asks_for_nothing_more)
{
	u64 calls;

	open_some();
	work(30);
	reboot_notifier->notifier_call(reboot_notifier, 0, NULL);
	EXPECT_EQ(0, host_open());
	calls = host.calls;
	run(-1);
	run(0);
	perf_read(events[0]);
	EXPECT_EQ(calls, host.calls);
}

GUEST_TEST(a_kernel_that_has_crashed_resets)
{
	open_some();
	kexec_probe->pre_handler(kexec_probe, NULL);
	EXPECT_EQ(0, host_open());
}

GUEST_TEST(the_clock_is_told_for_each_cpu)
{
	char *page = calloc(1, PAGE_SIZE);
	int cpu;
	u64 a, b, i = 0;
	char *line;

	cpu_down(2);
	sysfs_file("clock")->show(NULL, NULL, page);
	for (line = strtok(page, "\n"); line; line = strtok(NULL, "\n"), i++) {
		EXPECT_EQ(3, sscanf(line, "%d %llu %llu", &cpu, &a, &b));
		EXPECT_LE(a, b);
	}
	EXPECT_EQ(3, i);
	free(page);
	unload();
}

static void prepare(void)
{
	guest_init();
	load();
	open_some();
	work(30);
	perf_read(events[0]);
	run(-1);
	run(0);
}

static void switch_and_back(void)
{
	run(-1);
	run(0);
}

static void check(void)
{
	run_interrupts(0);
	work(100);
	CHECK(perf_read(events[0]) == 130);
	CHECK(perf_read(events[2]) % 3 == 0);
	CHECK(events[1]->samples >= 1);
	close_some();
}

GUEST_TEST_UNLOADED(another_host_at_any_point_of_a_switch)
{
	at_point = host_migrate;
	EXPECT_LT(50, with_nmi_at_each_point(prepare, switch_and_back, check));
}

static void open_one(void)
{
	events[3] = open_task(raw_user(0xc3), 0);
	perf_close(events[3]);
}

GUEST_TEST_UNLOADED(another_host_at_any_point_of_an_open)
{
	at_point = host_migrate;
	EXPECT_LT(50, with_nmi_at_each_point(prepare, open_one, check));
}
