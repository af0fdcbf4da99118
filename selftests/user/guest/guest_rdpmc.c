// SPDX-License-Identifier: GPL-2.0
/*
 * The guest's driver in user space: the kernel and programs read counters by RDPMC.
 */
#include "guest.h"

#include <pthread.h>
#include <semaphore.h>

#include "kvm_pmu.h"

static void load_rdpmc(bool user)
{
	host.query.rdpmc = KVM_PERF_RDPMC_ALLOWED;
	host.query.features |= KVM_PERF_FEATURE_RDPMC;
	if (user)
		host.query.features |= KVM_PERF_FEATURE_RDPMC_USER;
	load();
}

GUEST_TEST_UNLOADED(reads_and_switches_take_no_exit)
{
	struct perf_event *a, *b;
	u64 calls;
	int i;

	load_rdpmc(false);
	a = open_task(raw_user(0xc1), 0);
	b = open_task(raw_user(0xc1), 1);
	run(0);
	run(1);
	calls = host.calls;
	for (i = 0; i < 10; i++) {
		run(0);
		user_work(0, 10);
		EXPECT_EQ((i + 1) * 20, perf_read(a));
		run(1);
		user_work(0, 1);
		EXPECT_EQ((i + 1) * 2, perf_read(b));
	}
	EXPECT_EQ(calls, host.calls);
	perf_close(a);
	perf_close(b);
	unload();
}

GUEST_TEST_UNLOADED(a_program_reads_its_page)
{
	struct perf_event *event;
	u64 count, calls;

	load_rdpmc(true);
	event = open_task(raw_user(0xc1), 0);
	run(0);
	perf_mmap(event, &mms[0]);
	user_work(0, 10);
	calls = host.calls;
	EXPECT_TRUE(page_count(event, 0, &count));
	EXPECT_EQ(20, count);
	user_work(0, 100);
	EXPECT_TRUE(page_count(event, 0, &count));
	EXPECT_EQ(220, count);
	EXPECT_EQ(calls, host.calls);
	/* The task is not on a CPU: the page has perf's count. */
	run(-1);
	EXPECT_TRUE(page_count(event, 0, &count));
	EXPECT_EQ(220, count);
	EXPECT_EQ(0, event->rb->index);
	run(0);
	user_work(0, 1);
	EXPECT_TRUE(page_count(event, 0, &count));
	EXPECT_EQ(222, count);
	EXPECT_EQ(222, perf_read(event));
	perf_close(event);
	unload();
}

GUEST_TEST_UNLOADED(the_page_follows_the_counter)
{
	struct perf_event *event, *others[3];
	u64 count, i;

	load_rdpmc(true);
	event = open_task(raw_user(0xc1), 0);
	for (i = 0; i < 3; i++)
		others[i] = open_task(raw_user(0xc4 + 4 * i), 0);
	run(0);
	perf_mmap(event, &mms[0]);
	user_work(0, 10);
	/* The host takes all counters but one, and gives them back. */
	host_set_counters(0, 0);
	run_interrupts(0);
	user_work(0, 5);
	if (page_count(event, 0, &count))
		EXPECT_EQ(20, count);
	host_set_counters(0, 4);
	wait_ns(NSEC_PER_SEC / 2);
	user_work(0, 7);
	count = 0;
	page_count(event, 0, &count);
	EXPECT_EQ(34, perf_read(event));
	EXPECT_TRUE(page_count(event, 0, &count));
	EXPECT_EQ(34, count);
	for (i = 0; i < 3; i++)
		perf_close(others[i]);
	perf_close(event);
	unload();
}

/* A program could read a counter that is left running. */
GUEST_TEST_UNLOADED(no_counter_of_others_runs_while_a_program_reads)
{
	struct perf_event *mine, *others;

	load_rdpmc(true);
	mine = open_task(raw_user(0xc1), 0);
	others = open_task(raw(0xc2), 1);
	run(1);
	user_work(0, 10);
	run(0);
	EXPECT_EQ(2, host_enabled(0));
	perf_mmap(mine, &mms[0]);
	EXPECT_EQ(1, host_enabled(0));
	user_work(0, 10);
	run(1);
	/* The program's counter does not run for the others, either. */
	EXPECT_EQ(1, host_enabled(0));
	run(2);
	run(0);
	EXPECT_EQ(1, host_enabled(0));
	EXPECT_EQ(20, perf_read(mine));
	perf_munmap(mine);
	run(1);
	run(0);
	EXPECT_EQ(2, host_enabled(0));
	perf_close(mine);
	perf_close(others);
	unload();
}

/*
 * A thread comes to CPU 1, after a task whose counter runs there.  Another thread of its
 * program maps an event on CPU 0 meanwhile, which may wait for CPU 1.
 */
static struct perf_event *mine, *others;
static pthread_t mapper;
static sem_t paused, go;

static void prepare_threads(void)
{
	guest_init();
	load_rdpmc(true);
	tasks[3].mm = &mms[0];
	mine = open_task(raw_user(0xc1), 0);
	others = open_task(raw(0xc2), 1);
	run(0);
	perf_task_switch(1, &tasks[1]);
	user_work(1, 10);
}

static void wait_for_cpu_1(void)
{
	sem_post(&paused);
	sem_wait(&go);
	this_cpu = 0;
}

static void *map_on_cpu_0(void *unused)
{
	this_cpu = 0;
	rcu_wait = wait_for_cpu_1;
	perf_mmap(mine, &mms[0]);
	rcu_wait = NULL;
	sem_post(&paused);
	return NULL;
}

/* One thread runs at a time. */
static void begin_to_map(void)
{
	int was = this_cpu;

	CHECK(!pthread_create(&mapper, NULL, map_on_cpu_0, NULL));
	sem_wait(&paused);
	this_cpu = was;
}

static void switch_to_thread(void)
{
	perf_task_switch(1, &tasks[3]);
}

static bool may_execute_rdpmc(const struct task_struct *task)
{
	return task->mm && atomic_read(&task->mm->context.perf_rdpmc_allowed);
}

static void check_threads(void)
{
	if (may_execute_rdpmc(&tasks[3]))
		CHECK(!host_enabled(1));
	sem_post(&go);
	if (mine->rb) {
		CHECK(!pthread_join(mapper, NULL));
		CHECK(may_execute_rdpmc(&tasks[3]));
		CHECK(!host_enabled(1));
	}
	this_cpu = 0;
	perf_close(mine);
	perf_close(others);
	unload();
	sem_init(&paused, 0, 0);
	sem_init(&go, 0, 0);
}

GUEST_TEST_UNLOADED(a_thread_comes_while_another_maps_an_event)
{
	at_point = begin_to_map;
	sem_init(&paused, 0, 0);
	sem_init(&go, 0, 0);
	EXPECT_LT(5, with_nmi_at_each_point(prepare_threads, switch_to_thread,
					    check_threads));
}

static int set_rdpmc(const char *text)
{
	return sysfs_file("rdpmc")->store(NULL, sysfs_file("rdpmc"), text, strlen(text));
}

/* While root writes to the file, other tasks run, and then a program that has executed RDPMC. */
static unsigned long revoked;

static void prepare_to_revoke(void)
{
	guest_init();
	load_rdpmc(true);
	mine = open_task(raw_user(0xc1), 0);
	others = open_task(raw(0xc2), 1);
	run(0);
	perf_mmap(mine, &mms[0]);
	revoked = cr4_updates;
}

static void write_0(void)
{
	set_rdpmc("0");
}

static void switch_and_come_back(void)
{
	if (this_cpu || irqs_off())
		return;

	run(1);
	run(0);
	/* The switch has set CR4.PCE. */
	if (!rdpmc_never.enabled && cr4_updates == revoked)
		CHECK(host_enabled(0) == 1);
}

static void check_revoked(void)
{
	CHECK(rdpmc_never.enabled == 1);
	perf_close(mine);
	perf_close(others);
	unload();
}

GUEST_TEST_UNLOADED(a_program_comes_back_while_the_file_is_written)
{
	at_point = switch_and_come_back;
	EXPECT_LT(5, with_nmi_at_each_point(prepare_to_revoke, write_0,
					     check_revoked));
}

static const char *show(const char *name)
{
	static char page[PAGE_SIZE];

	sysfs_file(name)->show(NULL, sysfs_file(name), page);
	return page;
}

GUEST_TEST_UNLOADED(the_file_rdpmc)
{
	struct perf_event *event, *second;
	unsigned long updates;
	u64 count;

	load_rdpmc(true);
	EXPECT_STREQ("kernel user\n", show("reads"));
	event = open_task(raw_user(0xc1), 0);
	run(0);
	perf_mmap(event, &mms[0]);
	user_work(0, 10);
	EXPECT_STREQ("1\n", show("rdpmc"));
	updates = cr4_updates;
	EXPECT_EQ(1, set_rdpmc("0"));
	EXPECT_EQ(NR_CPUS, cr4_updates - updates);
	EXPECT_EQ(1, rdpmc_never.enabled);
	EXPECT_STREQ("0\n", show("rdpmc"));
	EXPECT_FALSE(page_count(event, 0, &count));
	second = open_task(raw_user(0xc2), 0);
	EXPECT_EQ(2, set_rdpmc("0\n"));
	EXPECT_EQ(1, rdpmc_never.enabled);
	EXPECT_EQ(1, set_rdpmc("1"));
	EXPECT_EQ(0, rdpmc_never.enabled);
	EXPECT_TRUE(page_count(event, 0, &count));
	EXPECT_EQ(20, count);
	EXPECT_EQ(-EOPNOTSUPP, set_rdpmc("2"));
	EXPECT_EQ(-EINVAL, set_rdpmc("3"));
	EXPECT_EQ(-EINVAL, set_rdpmc("x"));
	/* The event was opened while no program was allowed to read. */
	perf_mmap(second, &mms[0]);
	EXPECT_FALSE(page_count(second, 0, &count));
	perf_close(event);
	perf_close(second);
	set_rdpmc("0");
	unload();
	EXPECT_EQ(0, rdpmc_never.enabled);
}

GUEST_TEST(the_file_rdpmc_where_the_host_does_not_allow_it)
{
	EXPECT_STREQ("0\n", show("rdpmc"));
	EXPECT_EQ(-EOPNOTSUPP, set_rdpmc("1"));
	EXPECT_EQ(1, set_rdpmc("0"));
	EXPECT_STREQ("none: it does not allow RDPMC\n", show("reads"));
	unload();
}

GUEST_TEST_UNLOADED(another_cpu_has_the_page_written)
{
	struct perf_event *event;
	u64 count;
	bool on;

	load_rdpmc(true);
	perf_task_switch(1, &tasks[0]);
	event = open_task(raw_user(0xc1), 0);
	perf_mmap(event, &mms[0]);
	user_work(1, 10);
	/* The update comes from CPU 0, as if a child ended there. */
	on = irq_off();
	perf_event_update_userpage(event);
	EXPECT_FALSE(page_count(event, 1, &count));
	perf_event_update_userpage(event);
	irq_on(on);
	run_interrupts(1);
	EXPECT_TRUE(page_count(event, 1, &count));
	EXPECT_EQ(20, count);
	perf_close(event);
	unload();
}

static struct perf_event *late_event;

static void write_page(void *unused)
{
	perf_event_update_userpage(late_event);
}

static void write_page_on_cpu_2(void)
{
	on_cpu(2, write_page, NULL);
}

GUEST_TEST_UNLOADED(two_cpus_have_pages_written_at_the_same_time)
{
	struct perf_event *event;
	u64 count;

	load_rdpmc(true);
	perf_task_switch(1, &tasks[0]);
	event = open_task(raw_user(0xc0), 0);
	late_event = open_task(raw_user(0xc1), 0);
	perf_mmap(event, &mms[0]);
	perf_mmap(late_event, &mms[0]);
	user_work(1, 10);
	during_call = write_page_on_cpu_2;
	perf_event_update_userpage(event);
	EXPECT_FALSE(!!during_call);
	run_interrupts(1);
	EXPECT_TRUE(page_count(event, 1, &count));
	EXPECT_EQ(10, count);
	EXPECT_TRUE(page_count(late_event, 1, &count));
	EXPECT_EQ(20, count);
	/* The next call is made, too. */
	user_work(1, 10);
	perf_event_update_userpage(event);
	EXPECT_FALSE(page_count(event, 1, &count));
	run_interrupts(1);
	EXPECT_TRUE(page_count(event, 1, &count));
	EXPECT_EQ(20, count);
	perf_close(event);
	perf_close(late_event);
	unload();
}

/* The driver frees the call's memory only when the call is done. */
GUEST_TEST_UNLOADED(unloads_while_another_cpu_is_to_write_the_page)
{
	struct perf_event *event;
	bool on;

	load_rdpmc(true);
	perf_task_switch(1, &tasks[0]);
	event = open_task(raw_user(0xc1), 0);
	perf_mmap(event, &mms[0]);
	calls_are_late = true;
	on = irq_off();
	perf_event_update_userpage(event);
	irq_on(on);
	perf_close(event);
	EXPECT_TRUE(calls_are_late);
	unload();
	/* AddressSanitizer finds a call that comes too late. */
	calls_are_late = false;
	run_interrupts(1);
}

GUEST_TEST_UNLOADED(a_host_that_does_not_allow_it)
{
	struct perf_event *event;
	u64 count;

	load_rdpmc(true);
	event = open_task(raw_user(0xc1), 0);
	run(0);
	perf_mmap(event, &mms[0]);
	user_work(0, 10);
	EXPECT_EQ(20, perf_read(event));
	host.query.rdpmc = KVM_PERF_RDPMC_HOST;
	host_migrate();
	EXPECT_FALSE(page_count(event, 0, &count));
	user_work(0, 10);
	EXPECT_EQ(40, perf_read(event));
	host.query.rdpmc = KVM_PERF_RDPMC_ALLOWED;
	host_migrate();
	user_work(0, 10);
	EXPECT_EQ(60, perf_read(event));
	EXPECT_TRUE(page_count(event, 0, &count));
	EXPECT_EQ(60, count);
	perf_close(event);
	unload();
}

/* A program has read a counter's index in its page before a host on which RDPMC faults. */
static bool fixup(struct pt_regs *regs, unsigned long trap)
{
	struct kretprobe_instance ri;
	struct pt_regs call = { .di = (unsigned long)regs, .si = trap };
	struct pt_regs ret = { };

	if (fixup_probe->entry_handler(&ri, &call))
		return false;
	fixup_probe->handler(&ri, &ret);
	return regs_return_value(&ret);
}

GUEST_TEST_UNLOADED(an_rdpmc_that_faults_reads_nothing)
{
	struct pt_regs regs = { .ip = USER_RDPMC, .cs = __USER_CS, .ax = 5, .dx = 6 };
	struct perf_event *event;

	load_rdpmc(true);
	event = open_task(raw_user(0xc1), 0);
	run(0);
	EXPECT_FALSE(fixup(&regs, X86_TRAP_GP));
	perf_mmap(event, &mms[0]);
	EXPECT_FALSE(fixup(&regs, 6));
	EXPECT_TRUE(fixup(&regs, X86_TRAP_GP));
	EXPECT_EQ(USER_RDPMC + 2, regs.ip);
	EXPECT_EQ(0, regs.ax);
	EXPECT_EQ(0, regs.dx);
	/* The instruction is not RDPMC. */
	EXPECT_FALSE(fixup(&regs, X86_TRAP_GP));
	regs.ip = USER_RDPMC;
	regs.cs = __KERNEL_CS;
	EXPECT_FALSE(fixup(&regs, X86_TRAP_GP));
	perf_close(event);
	unload();
}

GUEST_TEST_UNLOADED(without_the_tracepoint_the_kernel_reads_alone)
{
	tracepoint_fails = true;
	load_rdpmc(true);
	EXPECT_STREQ("kernel\n", show("reads"));
	EXPECT_STREQ("0\n", show("rdpmc"));
	unload();
}

GUEST_TEST_UNLOADED(without_a_function_the_kernel_reads_alone)
{
	missing_function = "fixup_vdso_exception";
	load_rdpmc(true);
	EXPECT_STREQ("kernel\n", show("reads"));
	unload();
}

GUEST_TEST_UNLOADED(fixed_counters)
{
	struct perf_event *event;
	u64 count;

	host.query.fixed_counters = 7;
	load_rdpmc(true);
	event = open_task(raw_user(0xc0), 0);
	run(0);
	perf_mmap(event, &mms[0]);
	user_work(0, 10);
	EXPECT_EQ(BIT(30) + 1, event->rb->index);
	EXPECT_TRUE(page_count(event, 0, &count));
	EXPECT_EQ(10, count);
	EXPECT_EQ(10, perf_read(event));
	perf_close(event);
	unload();
}

static struct perf_event *read_events[2];

static void prepare(void)
{
	guest_init();
	load_rdpmc(true);
	read_events[0] = open_task(raw_user(0xc1), 0);
	read_events[1] = open_task(raw_user(0xc1), 1);
	run(0);
	perf_mmap(read_events[0], &mms[0]);
	user_work(0, 10);
	/* Another host does not know the counts after the last update. */
	perf_read(read_events[0]);
}

static void switch_and_back(void)
{
	run(1);
	user_work(0, 1);
	run(0);
	perf_read(read_events[0]);
}

static void check(void)
{
	u64 count;

	run_interrupts(0);
	wait_ns(NSEC_PER_SEC / 2);
	user_work(0, 10);
	if (page_count(read_events[0], 0, &count))
		CHECK(count == 40);
	CHECK(perf_read(read_events[0]) == 40);
	CHECK(page_count(read_events[0], 0, &count) && count == 40);
	/* The count is 0 if the host has taken the counter. */
	CHECK(perf_read(read_events[1]) == 2 || !perf_read(read_events[1]));
	perf_close(read_events[0]);
	perf_close(read_events[1]);
	unload();
}

/* The host gives an event another counter. */
static void move_counters(void)
{
	host_set_counters(this_cpu, 0);
	host_set_counters(this_cpu, 4);
}

GUEST_TEST_UNLOADED(another_counter_at_any_point_of_a_switch)
{
	at_point = move_counters;
	EXPECT_LT(50, with_nmi_at_each_point(prepare, switch_and_back, check));
}

GUEST_TEST_UNLOADED(another_host_at_any_point_of_a_switch)
{
	at_point = host_migrate;
	EXPECT_LT(50, with_nmi_at_each_point(prepare, switch_and_back, check));
}
