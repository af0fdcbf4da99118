// SPDX-License-Identifier: GPL-2.0
/*
 * Unit tests of the host side: other vCPUs that change an event while an operation sleeps.
 */
#include "unit.h"

/* While an operation sleeps, another vCPU runs @hook_action. */
static const char *hook_where;
static int hook_skip;
static void (*hook_action)(void);

static void hook(const char *where)
{
	void (*action)(void) = hook_action;
	struct task_struct *task = current;

	if (!action || strcmp(where, hook_where) || hook_skip--)
		return;

	hook_action = NULL;
	on(1);
	action();
	current = task;
}

static void at(const char *where, int skip, void (*action)(void))
{
	hook_where = where;
	hook_skip = skip;
	hook_action = action;
	sleep_hook = hook;
}

/* Checks that the operation has slept at that point. */
static void done(void)
{
	CHECK(!hook_action);
	sleep_hook = NULL;
}

static void close_1(void)
{
	CHECK(!call(KVM_PERF_OP_CLOSE, 1));
}

static void move_1(void)
{
	CHECK(!call(KVM_PERF_OP_ENABLE, 1));
}

static void reset(void)
{
	CHECK(!call(KVM_PERF_OP_RESET, 0));
}

static void open_1_exists(void)
{
	struct guest_perf_event_param saved = mem->param;

	CHECK(call(KVM_PERF_OP_READ, 1) == -KVM_ENOENT);
	CHECK(open_id(1) == -KVM_EEXIST);
	mem->param = saved;
}

static void open_9(void)
{
	CHECK(!open_id(9));
}

static char debugfs_text[8192];

static void debugfs_read(void)
{
	struct inode inode = { .i_private = kvm };
	struct dentry *dentry = kvm->debugfs_dentry;
	struct file file;

	CHECK(!dentry->fops->open(&inode, &file));
	dentry->fops->read(&file, debugfs_text, sizeof(debugfs_text), NULL);
	dentry->fops->release(&inode, &file);
}

UNIT_TEST(races)
{
	setup();
	open_id(1);
	open_id(2);
	at("mutex_lock", 0, close_1);
	debugfs_read();
	done();
	is("debugfs with an event that is being closed",
	   !strstr(debugfs_text, "\n         1 ") &&
	   strstr(debugfs_text, "\n         2 "), true);
	call(KVM_PERF_OP_RESET, 0);

	open_id(1);
	at("mutex_lock", 0, close_1);
	is("READ of an event that is being closed", call(5, 1), -KVM_ENOENT);
	done();

	open_id(1);
	at("mutex_lock", 0, move_1);
	is("READ of an event that moves", call(5, 1), 0);
	done();
	is("the event is on the vCPU to which it has moved",
	   event(1)->home == vcpus[1]->arch.pv_perf, true);
	is("ENABLE moves the event back", call(3, 1), 0);

	/* While ENABLE moves an event, another vCPU closes or moves the event. */
	call(KVM_PERF_OP_RESET, 0);
	on(1);
	open_id(1);
	on(0);
	/* Skip the lock that finds the event. */
	at("mutex_lock", 1, close_1);
	is("ENABLE of an event that is being closed", call(3, 1), -KVM_ENOENT);
	done();
	is("ENABLE of a closed event leaves no backing event",
	   atomic_read(&nr_backing_events), 0);

	open_id(1);
	on(1);
	is("ENABLE by another vCPU", call(3, 1), 0);
	on(0);
	at("mutex_lock", 1, reset);
	is("ENABLE during RESET", call(3, 1), -KVM_ENOENT);
	done();

	/* While OPEN runs, its id is in use, but its event does not exist yet. */
	param(1, 1);
	at("create", 0, open_1_exists);
	is("OPEN while another vCPU opens the same id", do_open(), 0);
	done();
	call(KVM_PERF_OP_CLOSE, 1);
	param(1, 1);
	at("create", 0, reset);
	is("OPEN during RESET", do_open(), 0);
	done();
	is("the event that was opened during RESET stays", call(5, 1), 0);
	open_id(2);
	at("mutex_lock", 0, open_9);
	call(KVM_PERF_OP_RESET, 0);
	done();
	is("RESET keeps an event that is opened meanwhile",
	   event(9) != NULL, true);
	is("RESET closes the events before it", !event(1) && !event(2), true);
	teardown();
}

/*
 * An event moves away while ENABLE, which is to move it here, waits for the
 * locks.
 */
UNIT_TEST(move_races)
{
	setup();
	/*
	 * The event is on vCPU 0, whose thread changes: ENABLE moves it from
	 * vCPU 0 to vCPU 0.
	 */
	open_id(1);
	tasks[0]->running = true;
	current = task_create(0);
	at("mutex_lock", 1, move_1);
	is("ENABLE of an event that moves away", pv_perf_hypercall(vcpus[0],
		3, 1, 0, 0), 0);
	done();
	is("the event is on the vCPU of the ENABLE",
	   event(1)->home == vcpus[0]->arch.pv_perf, true);
	is("the event counts the vCPU's new thread",
	   event(1)->backing->hw.target == current, true);
	run_guest(5);
	pv_perf_hypercall(vcpus[0], 5, 1, 0, 0);
	is("the moved event counts", mem->record[1].count, 5);
	task_put(current);
	on(0);
	teardown();
}

/* The other vCPU changes its event, which is about to move. */
static void period_500(void)
{
	CHECK(!call3(KVM_PERF_OP_SET_PERIOD, 1, 500, 0));
}

static void frequency_500(void)
{
	CHECK(!call3(KVM_PERF_OP_SET_PERIOD, 2, 500, 0));
}

static bool home_waits;

/* Sees whether a request keeps vCPU 0 from entering the guest. */
static void see_home_wait(void)
{
	home_waits = kvm_test_request(KVM_REQ_PV_PERF, vcpus[0]);
}

static void left_200(void)
{
	CHECK(!call3(KVM_PERF_OP_SET_LEFT, 1, 200, 0));
}

static void run_800(void)
{
	run_guest(800);
}

static void run_nested(void)
{
	run_mode(true, 100);
}

/* Move event @id, 300 after a period of 1,000 began, to vCPU 0. */
static void move_during(u32 id, void (*action)(void))
{
	on(1);
	CHECK(!call(KVM_PERF_OP_ENABLE, id));
	CHECK(!call3(KVM_PERF_OP_SET_LEFT, id, 1000, 0));
	run_guest(300);
	on(0);
	at("mutex_lock", 1, action);
	CHECK(!call(KVM_PERF_OP_ENABLE, id));
	done();
}

UNIT_TEST(move_during)
{
	struct guest_perf_event *r;

	setup();
	r = mem->record;
	on(1);
	open_sampling(1, 1000);
	move_during(1, run_800);
	is("NMI for an overflow before it moves", enter_guest(), 1);
	run_guest(899);
	is("the overflow is not delivered twice", enter_guest(), 0);
	run_guest(1);
	is("an NMI at the end of the next period", enter_guest(), 1);
	is("the record has both overflows", r[1].overflows, 2);
	is("the record has the count", r[1].count, 2000);

	/* perf has stopped the event. */
	at("enable", 0, see_home_wait);
	on(1);
	CHECK(!call3(KVM_PERF_OP_SET_LEFT, 1, 500, 0));
	on(0);
	done();
	is("SET_LEFT elsewhere keeps the event's vCPU from VM entry",
	   home_waits, true);
	enter_guest();

	move_during(1, left_200);
	run_guest(199);
	is("SET_LEFT 200 before the move: no overflow at 199",
	   enter_guest(), 0);
	run_guest(1);
	is("SET_LEFT 200 before the move: an overflow at 200",
	   enter_guest(), 1);
	move_during(1, period_500);
	run_guest(500);
	is("SET_PERIOD 500 before the move: an overflow at 500",
	   enter_guest(), 1);
	run_guest(500);
	is("SET_PERIOD 500 before the move: the next overflow at 500",
	   enter_guest(), 1);
	is("SET_PERIOD 500 before the move: the last period is 500",
	   r[1].last_period, 500);

	on(1);
	param(2, 2);
	mem->attr.flags = KVM_PERF_ATTR_FREQ;
	mem->attr.sample_period = 1000;
	do_open();
	move_during(2, frequency_500);
	is("SET_PERIOD before the move sets the frequency",
	   event(2)->freq.hz, 500);
	teardown();
}

/* The other vCPU enters its nested guest before its event is stopped. */
UNIT_TEST(move_mode)
{
	setup();
	on(1);
	CHECK(!open_mode(1, KVM_PERF_ATTR_EXCLUDE_GUEST, 0));
	run_mode(false, 10);
	on(0);
	at("disable", 0, run_nested);
	is("ENABLE of an event that excludes a mode", call(3, 1), 0);
	done();
	run_mode(false, 7);
	call(KVM_PERF_OP_READ, 1);
	is("the moved event has not counted that mode",
	   mem->record[1].count, 17);
	teardown();
}

static void take_one_counter(void)
{
	take_counters(tasks[0], 1);
}

/* The host takes a counter during an ENABLE of an event that counts. */
UNIT_TEST(enable_again)
{
	u32 id;

	setup();
	for (id = 1; id <= NR_COUNTERS; id++)
		CHECK(!open_id(id) && !call(3, id));
	at("enable", 0, take_one_counter);
	is("ENABLE again while another loses its counter", call(3, 1), 0);
	sleep_hook = NULL;
	take_one_counter();
	run_guest(10);
	is("READ of the event", call(5, 1), 0);
	is("the event counts on", mem->record[1].count, 10);
	is("READ of the event that has lost its counter",
	   call(5, NR_COUNTERS), -KVM_EBUSY);
	teardown();
}

static void run_0_on_1(void)
{
	on(1);
	pv_perf_vcpu_run(vcpus[0]);
	on(0);
}

static void destroy_0(void)
{
	vcpu_destroy(vcpus[0]);
	vcpus[0] = vcpu_create(kvm, 0);
}

/*
 * A vCPU changes while a thread that runs another vCPU is about to stop its
 * events.
 */
UNIT_TEST(turn_races)
{
	setup();
	start_on(0, 1, 0);
	run_on(0, 10);
	at("mutex_lock", 0, run_0_on_1);
	run_on(1, 100);
	done();
	on(1);
	run_guest(5);
	is("the event of a vCPU that another thread runs meanwhile counts there",
	   count_on(0, 1), 15);

	at("mutex_lock", 0, destroy_0);
	run_on(1, 100);
	done();
	is("the event of a vCPU that is destroyed meanwhile is gone",
	   call_on(1, 5, 1), -KVM_ENOENT);

	on(0);
	start_on(0, 1, 0);
	at("mutex_lock", 0, close_1);
	run_on(0, 1);
	done();
	run_on(1, 1);
	is("the event that is closed before it follows is gone",
	   call_on(1, 5, 1), -KVM_ENOENT);
	teardown();
}

static void read_found_free(void)
{
	close_1();
	rcu_barrier();
}

/* The operation has the last reference. */
UNIT_TEST(last_reference)
{
	setup();
	open_id(1);
	at("mutex_lock", 0, read_found_free);
	is("READ that has the last reference", call(5, 1), -KVM_ENOENT);
	done();
	/* As if the last reference were dropped between look-up and increment. */
	open_id(1);
	refcount_set(&event(1)->refs, 0);
	is("READ of an event without references", call(5, 1), -KVM_ENOENT);
	refcount_set(&event(1)->refs, 1);
	teardown();
}
