// SPDX-License-Identifier: GPL-2.0
/*
 * Unit tests of the host side: counts, nested guests, and what tells the guest that an
 * event does not count.
 */
#include "unit.h"

UNIT_TEST(counting)
{
	struct guest_perf_event *r;

	setup();
	r = &mem->record[1];
	open_id(1);
	run_guest(100);
	is("READ of a disabled event", call(KVM_PERF_OP_READ, 1), 0);
	is("a disabled event has counted nothing", r->count, 0);
	is("ENABLE", call(KVM_PERF_OP_ENABLE, 1), 0);
	run_guest(100);
	is("ENABLE again", call(KVM_PERF_OP_ENABLE, 1), 0);
	run_guest(11);
	kvm->memslots.slot[0].dirty[RECORD(1) >> PAGE_SHIFT] = false;
	is("READ", call(KVM_PERF_OP_READ, 1), 0);
	is("count", r->count, 111);
	is("time enabled", r->time_enabled, 111);
	is("time running", r->time_running, 111);
	is("period_left", r->period_left, 0);
	is("sequence", r->sequence, 4);
	is("dirty", kvm->memslots.slot[0].dirty[RECORD(1) >> PAGE_SHIFT], 1);
	r->sequence = 77;
	is("READ from the other vCPU", (on(1), call(KVM_PERF_OP_READ, 1)), 0);
	is("the host keeps its own sequence number", r->sequence, 6);
	is("READ all on a vCPU without events",
	   call(5, KVM_PERF_ID_ALL), -KVM_ENOENT);
	on(0);
	is("DISABLE of an open event succeeds", call(KVM_PERF_OP_DISABLE, 1), 0);
	run_guest(1000);
	call(KVM_PERF_OP_READ, 1);
	is("a disabled event does not count", r->count, 111);
	is("ENABLE once more", call(KVM_PERF_OP_ENABLE, 1), 0);
	run_guest(9);
	task_sched_out(tasks[0]);
	run_guest(1000);
	on(1);
	is("READ while the vCPU's thread does not run",
	   call(KVM_PERF_OP_READ, 1), 0);
	is("an event does not count while its thread does not run",
	   r->count, 120);
	is("an event's time stands still while its thread does not run",
	   r->time_enabled, 120);
	task_sched_in(tasks[0]);
	on(0);
	run_guest(1);
	is("READ all", call(5, KVM_PERF_ID_ALL), 0);
	is("count of READ all", r->count, 121);
	is("time of READ all", r->time_running, 121);
	is("CLOSE", call(KVM_PERF_OP_CLOSE, 1), 0);
	is("READ of a closed event", call(KVM_PERF_OP_READ, 1), -KVM_ENOENT);
	is("RESET", (open_id(2), open_id(3), call(9, 0)), 0);
	is("RESET closes all events", atomic_read(&nr_backing_events), 0);
	teardown();
}

/* An event that has lost its counter does not take another event's counter. */
UNIT_TEST(lost)
{
	u32 id;

	setup();
	for (id = 1; id <= NR_COUNTERS + 1; id++)
		open_id(id);
	for (id = 1; id <= NR_COUNTERS; id++)
		CHECK(!call(KVM_PERF_OP_ENABLE, id));
	take_counters(tasks[0], 2);
	call(KVM_PERF_OP_DISABLE, 1);
	CHECK(!call(KVM_PERF_OP_ENABLE, NR_COUNTERS + 1));
	/*
	 * Events 2 and 5 count. Events 3 and 4 have lost their counters, and
	 * are older than 5.
	 */
	is("ENABLE of a lost event: EBUSY", call(3, 3), -KVM_EBUSY);
	is("the youngest event counts on", call(5, NR_COUNTERS + 1), 0);
	is("ENABLE of another event: EBUSY", call(3, 1), -KVM_EBUSY);
	is("the youngest event still counts", call(5, NR_COUNTERS + 1), 0);
	is("READ of the lost event: EBUSY", call(5, 3), -KVM_EBUSY);
	run_guest(10);
	is("the youngest event counts after the READ",
	   call(5, NR_COUNTERS + 1), 0);
	is("the youngest event has missed nothing",
	   mem->record[NR_COUNTERS + 1].count, 10);
	is("READ of the lost event without a free counter: EBUSY",
	   call(5, 3), -KVM_EBUSY);
	take_counters(tasks[0], 1);
	is("ENABLE of another event, with a free counter", call(3, 1), 0);
	is("READ of a lost event after that ENABLE: EBUSY",
	   call(5, 4), -KVM_EBUSY);
	take_counters(tasks[0], 0);
	is("READ of a lost event with a free counter restarts it: EBUSY",
	   call(5, 3), -KVM_EBUSY);
	is("READ of the restarted event", call(5, 3), 0);
	is("DISABLE of a lost event", call(4, 4), 0);
	is("READ of the disabled event", call(5, 4), 0);
	teardown();
}

/* When an event stops counting, the guest gets the reason at once. */
UNIT_TEST(told)
{
	struct guest_perf_event *r;
	u32 sequence;

	setup();
	r = mem->record;
	CHECK(!open_notify(1, 0) && !open_id(2));
	CHECK(!call(3, 1) && !call(3, 2));
	is("all events count: VM entry goes on", entry_goes_on(), true);
	take_counters(tasks[0], NR_COUNTERS);
	is("events have lost their counters: VM entry does not go on",
	   entry_goes_on(), false);
	is("an NMI, because one of the events has the flag NOTIFY",
	   enter_guest(), 1);
	is("the event with the flag NOTIFY has the flag LOST",
	   r[1].flags, KVM_PERF_EVENT_LOST);
	is("the other event has the flag LOST",
	   r[2].flags, KVM_PERF_EVENT_LOST);
	is("after the request, VM entry goes on", entry_goes_on(), true);
	is("READ of the lost event: EBUSY", call(5, 1), -KVM_EBUSY);
	is("READ of the lost event causes no NMI", enter_guest(), 0);
	is("the flag LOST stays", r[1].flags, KVM_PERF_EVENT_LOST);
	take_counters(tasks[0], 0);
	sequence = r[1].sequence;
	is("ENABLE with a free counter", call(3, 1), 0);
	is("ENABLE clears the flag LOST", r[1].flags, 0);
	is("ENABLE writes the record once", r[1].sequence, sequence + 2);
	is("ENABLE of an event that counts", call(3, 1), 0);
	is("ENABLE of an event that counts writes no record",
	   r[1].sequence, sequence + 2);
	is("READ of the other lost event restarts it: EBUSY",
	   call(5, 2), -KVM_EBUSY);
	is("READ clears the flag LOST", r[2].flags, 0);

	/* The thread of the event's vCPU runs the guest, and is not scheduled. */
	take_counters(tasks[0], NR_COUNTERS);
	take_counters(tasks[0], 0);
	on(1);
	is("READ of the lost event by another vCPU: EBUSY",
	   call(5, 1), -KVM_EBUSY);
	is("READ by another vCPU does not restart the event",
	   event(1)->backing->state, PERF_EVENT_STATE_ERROR);
	on(0);
	is("VM entry of the event's own vCPU does not go on",
	   entry_goes_on(), false);
	is("the event's own vCPU gets the NMI", enter_guest(), 1);
	is("the event's own vCPU gets the NMI once", enter_guest(), 0);
	is("ENABLE by another vCPU restarts the event", (on(1), call(3, 1)), 0);
	is("ENABLE by another vCPU clears the flag LOST", r[1].flags, 0);
	on(0);

	/*
	 * The event's vCPU has not entered the guest since the loss, so its NMI
	 * is still to come.
	 */
	CHECK(!call(3, 1));
	enter_guest();
	take_counters(tasks[0], NR_COUNTERS);
	take_counters(tasks[0], 0);
	on(1);
	is("READ by another vCPU before the event's own vCPU enters: EBUSY",
	   call(5, 1), -KVM_EBUSY);
	is("READ by another vCPU sets the flag LOST",
	   r[1].flags, KVM_PERF_EVENT_LOST);
	is("ENABLE by another vCPU before the event's own vCPU enters",
	   call(3, 1), 0);
	is("this ENABLE clears the flag LOST", r[1].flags, 0);
	on(0);
	CHECK(!call(2, 1) && !open_notify(1, 1000) && !call(3, 1));
	enter_guest();
	take_counters(tasks[0], NR_COUNTERS);
	take_counters(tasks[0], 0);
	on(1);
	is("READ of a lost sampling event by another vCPU: EBUSY",
	   call(5, 1), -KVM_EBUSY);
	on(0);
	is("SET_LEFT by the event's own vCPU before it enters",
	   call3(10, 1, 7, 0), 0);
	is("the event's own vCPU gets the NMI nevertheless", enter_guest(), 1);
	is("the event's own vCPU gets this NMI once", enter_guest(), 0);
	CHECK(!call(3, 1));

	/* KVM is to inject a nested guest's NMI again. */
	take_counters(tasks[0], 0);
	CHECK(!call(3, 1));
	take_counters(tasks[0], NR_COUNTERS);
	here()->arch.guest_mode = true;
	here()->arch.nmi_injected = true;
	is("lost before the nested guest is entered: VM entry does not go on",
	   entry_goes_on(), false);
	is("the guest gets an NMI beside the nested guest's NMI",
	   enter_guest(), 1);
	here()->arch.nmi_injected = false;
	here()->arch.guest_mode = false;
	take_counters(tasks[0], 0);
	CHECK(!call(3, 1));
	take_counters(tasks[0], NR_COUNTERS);
	here()->arch.nmi_injected = true;
	is("lost before the guest is entered: VM entry does not go on",
	   entry_goes_on(), false);
	is("the guest gets no NMI beside its injected NMI", enter_guest(), 0);
	here()->arch.nmi_injected = false;

	/* A record that cannot be written must not keep the vCPU from running. */
	take_counters(tasks[0], NR_COUNTERS);
	kvm->memslots.slot[0].absent[RECORD(2) >> PAGE_SHIFT] = true;
	enter_guest();
	is("VM entry goes on without the record", entry_goes_on(), true);
	kvm->memslots.slot[0].absent[RECORD(2) >> PAGE_SHIFT] = false;
	teardown();

	/* The VMM stops the vCPU before VM entry. */
	setup();
	CHECK(!open_notify(1, 0) && !call(3, 1));
	take_counters(tasks[0], NR_COUNTERS);
	pv_perf_vcpu_leave(vcpus[0], -EINTR);
	is("the record of a stopped vCPU's event has the flag LOST",
	   mem->record[1].flags, KVM_PERF_EVENT_LOST);
	is("the stopped vCPU's NMI is queued",
	   atomic_read(&vcpus[0]->arch.nmi_queued), 1);
	atomic_set(&vcpus[0]->arch.nmi_queued, 0);
	take_counters(tasks[0], 0);
	teardown();
}

static int scheduled_by_perf;

static void count_scheduling(const char *where)
{
	scheduled_by_perf += !strcmp(where, "enable") || !strcmp(where, "disable");
}

/* perf would schedule all events of the thread. */
UNIT_TEST(beside)
{
	u32 id;

	setup();
	for (id = 1; id <= NR_COUNTERS + 1; id++)
		open_id(id);
	scheduled_by_perf = 0;
	sleep_hook = count_scheduling;
	call(KVM_PERF_OP_ENABLE, 1);
	is("perf schedules the first event", scheduled_by_perf, 1);
	run_guest(10);
	for (id = 2; id <= NR_COUNTERS; id++)
		CHECK(!call(KVM_PERF_OP_ENABLE, id));
	run_guest(10);
	is("an event starts beside others without perf", scheduled_by_perf, 1);
	call(KVM_PERF_OP_DISABLE, 2);
	run_guest(10);
	is("an event stops beside others without perf", scheduled_by_perf, 1);
	take_counters(tasks[0], 1);
	is("ENABLE without a free counter", call(3, NR_COUNTERS + 1), -KVM_EBUSY);
	is("perf schedules all events, and then all except for the new one",
	   scheduled_by_perf, 3);
	take_counters(tasks[0], 0);
	is("ENABLE with a free counter", call(3, NR_COUNTERS + 1), 0);
	is("it starts without perf", scheduled_by_perf, 3);
	run_guest(10);
	sleep_hook = NULL;

	call(5, KVM_PERF_ID_ALL);
	call(5, 2);
	is("the first event has counted all the time", mem->record[1].count, 40);
	is("the first event's time", mem->record[1].time_running, 40);
	is("the second event has counted until it was stopped",
	   mem->record[2].count, 10);
	is("the second event's time", mem->record[2].time_running, 10);
	is("the last event has counted since it was started",
	   mem->record[NR_COUNTERS + 1].count, 10);
	is("the last event's time", mem->record[NR_COUNTERS + 1].time_enabled, 10);
	for (id = 1; id <= NR_COUNTERS + 1; id++)
		call(KVM_PERF_OP_DISABLE, id);
	run_guest(10);
	call(5, 3);
	is("a disabled event counts no more", mem->record[3].count, 30);
	is("its time stands still", mem->record[3].time_running, 30);

	CHECK(!open_notify(20, 100) && !call(KVM_PERF_OP_ENABLE, 20));
	throttle(event(20)->backing);
	scheduled_by_perf = 0;
	sleep_hook = count_scheduling;
	is("ENABLE beside a throttled event", call(KVM_PERF_OP_ENABLE, 1), 0);
	is("perf schedules both", scheduled_by_perf, 1);
	sleep_hook = NULL;
	teardown();
}

/* Starts and stops event 2.  Returns whether perf has scheduled other events for that. */
static bool perf_schedules(void)
{
	scheduled_by_perf = 0;
	sleep_hook = count_scheduling;
	CHECK(!call(KVM_PERF_OP_ENABLE, 2));
	sleep_hook = NULL;
	CHECK(!call(KVM_PERF_OP_DISABLE, 2));
	return scheduled_by_perf;
}

/* Only events that need not make way stay where they are. */
UNIT_TEST(beside_host)
{
	struct perf_event sibling = { 0 };
	struct perf_event leader = { .attr.pinned = 1, .group_leader = &leader };

	INIT_LIST_HEAD(&leader.sibling_list);
	list_add_tail(&sibling.sibling_list, &leader.sibling_list);
	sibling.group_leader = &leader;

	setup();
	CHECK(!open_id(1) && !open_id(2) && !call(KVM_PERF_OP_ENABLE, 1));
	set_host_event(tasks[0], &leader);
	is("an event starts beside a pinned one of the host without perf",
	   perf_schedules(), 0);
	leader.hw.interrupts = -1;
	is("perf schedules all events beside a throttled one of the host",
	   perf_schedules(), 1);
	leader.hw.interrupts = 0;
	sibling.hw.interrupts = -1;
	is("perf schedules all events beside a group with a throttled one",
	   perf_schedules(), 1);
	sibling.hw.interrupts = 0;
	leader.attr.pinned = 0;
	set_host_event(tasks[0], &leader);
	is("an event of the host that is not pinned makes way",
	   perf_schedules(), 1);
	set_host_event(tasks[0], NULL);
	is("an event starts without perf when the host has none",
	   perf_schedules(), 0);
	list_add_tail(&leader.active_list, &tasks[0]->ctx.flexible_active);
	is("an event of the thread that is not pinned makes way",
	   perf_schedules(), 1);
	list_del_init(&leader.active_list);
	teardown();
}

/* VM entry does not look for stopped events that do not count. */
UNIT_TEST(stopped_forgotten)
{
	struct guest_perf_event *r;

	setup();
	r = mem->record;
	CHECK(!open_mode(1, KVM_PERF_ATTR_EXCLUDE_GUEST, 1000));
	run_mode(false, 300);
	run_mode(true, 50);
	is("VM entry of a nested guest stops an event",
	   here()->arch.pv_perf->any_stopped, true);
	CHECK(!call(KVM_PERF_OP_DISABLE, 1));
	run_mode(true, 50);
	is("VM entry does not look for a disabled event",
	   here()->arch.pv_perf->any_stopped, false);
	CHECK(!call(KVM_PERF_OP_ENABLE, 1));
	run_mode(false, 20);
	is("the event continues after ENABLE", (call(5, 1), r[1].count), 320);
	is("the event's period continues after ENABLE", r[1].period_left, 680);
	run_mode(true, 50);
	take_counters(tasks[0], NR_COUNTERS);
	enter_guest();
	run_mode(true, 50);
	enter_guest();
	run_mode(true, 50);
	is("VM entry does not look for an event that has lost its counter",
	   here()->arch.pv_perf->any_stopped, false);
	take_counters(tasks[0], 0);
	CHECK(!call(KVM_PERF_OP_ENABLE, 1));
	run_mode(false, 20);
	is("the lost event continues after ENABLE",
	   (call(5, 1), r[1].count), 340);
	is("the lost event's period continues after ENABLE",
	   r[1].period_left, 660);
	teardown();
}

/*
 * An event is stopped for a mode, and perf changes its counter before the next
 * entry.
 */
UNIT_TEST(stopped)
{
	struct guest_perf_event *r;

	setup();
	r = mem->record;
	is("open", open_mode(1, KVM_PERF_ATTR_EXCLUDE_HOST, 0), 0);
	run_mode(true, 100);
	run_mode(false, 10);
	reassign(event(1)->backing, 1000);
	call(KVM_PERF_OP_READ, 1);
	is("READ after perf has assigned another counter", r[1].count, 100);
	start_again(event(1)->backing);
	call(KVM_PERF_OP_READ, 1);
	is("READ after perf has started the event", r[1].count, 100);
	run_mode(false, 10);
	call(KVM_PERF_OP_READ, 1);
	is("READ after VM entry has stopped the event again", r[1].count, 100);
	reassign(event(1)->backing, 1000);
	on(1);
	call(KVM_PERF_OP_READ, 1);
	is("READ by another vCPU after perf has assigned another counter",
	   r[1].count, 100);
	on(0);
	start_again(event(1)->backing);
	run_mode(true, 7);
	call(KVM_PERF_OP_READ, 1);
	is("the event counts in its mode", r[1].count, 107);

	run_mode(false, 10);
	reassign(event(1)->backing, 1000);
	is("DISABLE after perf has assigned another counter",
	   call(KVM_PERF_OP_DISABLE, 1), 0);
	is("the count of the disabled event", r[1].count, 107);
	run_mode(true, 10);
	is("ENABLE", call(KVM_PERF_OP_ENABLE, 1), 0);
	run_mode(true, 10);
	run_mode(false, 10);
	reassign(event(1)->backing, 1000);
	start_again(event(1)->backing);
	on(1);
	is("ENABLE elsewhere", call(KVM_PERF_OP_ENABLE, 1), 0);
	run_mode(true, 1);
	call(KVM_PERF_OP_READ, 1);
	is("the event counts on the other vCPU", r[1].count, 118);
	teardown();
}

/* Events that count only the guest or only its nested guests. */
UNIT_TEST(modes)
{
	struct guest_perf_event *r;

	setup();
	r = mem->record;
	is("OPEN and ENABLE with EXCLUDE_GUEST",
	   open_mode(1, KVM_PERF_ATTR_EXCLUDE_GUEST, 0), 0);
	is("OPEN and ENABLE with EXCLUDE_HOST",
	   open_mode(2, KVM_PERF_ATTR_EXCLUDE_HOST, 100), 0);
	is("OPEN and ENABLE with both flags",
	   open_mode(3, KVM_PERF_ATTR_EXCLUDE_GUEST |
			KVM_PERF_ATTR_EXCLUDE_HOST, 0), 0);
	is("OPEN and ENABLE with neither flag", open_mode(4, 0, 0), 0);
	run_mode(false, 10);
	run_mode(true, 300);
	run_mode(true, 40);
	run_mode(false, 5000);
	call(KVM_PERF_OP_READ, KVM_PERF_ID_ALL);
	is("EXCLUDE_GUEST counts the guest only", r[1].count, 5010);
	is("EXCLUDE_HOST counts nested guests only", r[2].count, 340);
	is("both flags count nothing", r[3].count, 0);
	is("neither flag counts the guest and nested guests", r[4].count, 5350);
	is("EXCLUDE_HOST overflows in nested guests",
	   (enter_guest(), r[2].overflows), 3);
	is("EXCLUDE_HOST has the rest of the period", r[2].period_left, 60);

	/* perf schedules the event out and in, and starts it. */
	task_sched_out(current);
	task_sched_in(current);
	run_mode(false, 1000);
	call(KVM_PERF_OP_READ, 2);
	is("VM entry of the guest stops the event again", r[2].count, 340);
	task_sched_out(current);
	task_sched_in(current);
	run_mode(true, 60);
	is("the event overflows in a nested guest",
	   (enter_guest(), r[2].overflows), 4);

	/* Only perf restarts a throttled event. */
	throttle(event(2)->backing);
	run_mode(false, 10);
	run_mode(true, 10);
	call(KVM_PERF_OP_READ, 2);
	is("VM entry of a nested guest does not start a throttled event",
	   r[2].count, 400);

	/* The event moves to another vCPU. */
	on(1);
	is("ENABLE elsewhere", call(KVM_PERF_OP_ENABLE, 2), 0);
	run_mode(false, 10);
	run_mode(true, 7);
	call(KVM_PERF_OP_READ, 2);
	is("the event counts on the other vCPU", r[2].count, 407);
	is("CLOSE", call(KVM_PERF_OP_CLOSE, 2), 0);
	run_mode(true, 7);
	on(0);
	run_mode(true, 7);
	is("RESET of the other events", call(KVM_PERF_OP_RESET, 0), 0);
	run_mode(true, 7);
	teardown();
}

/* The kernel's code in an NMI handler is not counted. */
UNIT_TEST(nmi)
{
	struct guest_perf_event *r;
	unsigned int before;

	setup();
	r = mem->record;
	CHECK(!open_mode(1, 0, 100));
	CHECK(!open_mode(2, KVM_PERF_ATTR_EXCLUDE_KERNEL, 0));
	CHECK(!open_mode(3, KVM_PERF_ATTR_EXCLUDE_USER, 0));
	run_mode(false, 10);
	run_nmi(1000, true);
	run_nmi(1000, false);
	call(KVM_PERF_OP_READ, KVM_PERF_ID_ALL);
	is("an event does not count an NMI handler", r[1].count, 10);
	is("an event does not overflow in an NMI handler",
	   (enter_guest(), r[1].overflows), 0);
	is("an event of the kernel does not count an NMI handler",
	   r[3].count, 10);
	is("an event of user mode is not stopped", r[2].count, 2010);
	is("SET_LEFT in an NMI handler",
	   call3(KVM_PERF_OP_SET_LEFT, 1, 30, 0), 0);
	is("SET_LEFT writes the rest of the period before it",
	   r[1].period_left, 90);
	task_sched_out(current);
	task_sched_in(current);
	run_nmi(1000, false);
	reassign(event(3)->backing, 7);
	end_nmi();
	run_guest(29);
	is("after SET_LEFT 30 and the handler, no overflow at 29",
	   enter_guest(), 0);
	run_mode(false, 1);
	is("after SET_LEFT 30 and the handler, an overflow at 30",
	   (enter_guest(), r[1].overflows), 1);
	call(KVM_PERF_OP_READ, KVM_PERF_ID_ALL);
	is("the event counts after the handler", r[1].count, 40);
	is("the event of the kernel counts on another counter", r[3].count, 40);

	/*
	 * A counter with 1 left would be written as 2, and 0 left would begin a
	 * period.
	 */
	run_nmi(1000, true);
	before = written_counters;
	end_nmi();
	is("after a handler, the counter continues without a write",
	   written_counters, before);
	run_nmi(1000, true);
	CHECK(!call3(KVM_PERF_OP_SET_LEFT, 1, 30, 0));
	end_nmi();
	is("after a handler with SET_LEFT, the counter is written",
	   written_counters > before, true);

	run_nmi(1000, true);
	is("DISABLE in an NMI handler", call(KVM_PERF_OP_DISABLE, 3), 0);
	end_nmi();
	run_guest(10);
	CHECK(!call(KVM_PERF_OP_ENABLE, 3));
	run_mode(false, 5);
	is("the event counts after DISABLE in a handler and ENABLE",
	   (call(KVM_PERF_OP_READ, 3), r[3].count), 45);

	run_nmi(1000, true);
	here()->arch.guest_mode = true;
	here()->arch.iret_intercept = false;
	run_mode(true, 3);
	is("an event counts a nested guest that the handler runs",
	   (call(KVM_PERF_OP_READ, 3), r[3].count), 48);
	/* The VMM injects an NMI, or KVM cannot intercept the IRET. */
	here()->arch.nmi_injected = true;
	run_mode(false, 4);
	here()->arch.nmi_injected = false;
	is("an event counts an NMI handler if its end would not be seen",
	   (call(KVM_PERF_OP_READ, 3), r[3].count), 52);
	teardown();
}
