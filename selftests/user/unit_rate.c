// SPDX-License-Identifier: GPL-2.0
/*
 * Unit tests of the host side: the limit of overflows, and throttled events.
 */
#include "unit.h"

/* Runs until the clock has moved on by @ns. Returns the number of overflows. */
static long overflows_in(u64 ns, int cpu, u32 id)
{
	struct guest_perf_event *r = &mem->record[id];
	u64 end = clock_ns + ns;
	long before = r->overflows;

	on(cpu);
	while (clock_ns < end) {
		run_guest(100);
		enter_guest();
	}
	return r->overflows - before;
}

/* The clock is not read at each overflow: see pv_perf_charge_overflows(). */
UNIT_TEST(rate_after_rest)
{
	int n = 0;

	setup();
	*param_pv_perf_max_rate = 20000;
	open_sampling(1, 100);
	call(3, 1);
	overflows_in(100, 0, 1);
	clock_ns += NSEC_PER_SEC;
	while (n < 1000 && !is_limited(1)) {
		run_guest(100);
		enter_guest();
		n++;
	}
	is("after a rest, a burst has at least the overflows of 10 ms",
	   n >= 200, true);
	is("after a rest, a burst has at most the overflows of 20 ms",
	   n <= 2 * 200 + 10, true);
	*param_pv_perf_max_rate = 100000;
	teardown();
}

UNIT_TEST(rate)
{
	const u64 second = 1000000000;
	struct pv_perf_vcpu *pv;
	long n;

	setup();
	*param_pv_perf_max_rate = 20000;
	is("the allowed rate is the parameter",
	   pv_perf_rate_allowed(kvm), 20000);
	open_sampling(1, 100000);
	call(3, 1);
	pv = vcpus[0]->arch.pv_perf;
	is("below the rate, all overflows are delivered",
	   overflows_in(second / 10, 0, 1), 1000);
	is("below the rate, the event is not limited", pv->limited, 0);

	open_sampling(2, 100);
	call(3, 2);
	n = overflows_in(second / 10, 0, 2);
	is("above the rate, as many overflows as the rate and a burst",
	   n > 1900 - 1000 && n < 2000 + 200 + 20, true);
	is("above the rate, events were limited", pv->limited > 0, true);
	n = mem->record[1].overflows - 1000;
	is("the vCPU's events share the rate", n < 1000, true);

	/* The guest tries to get round the limit. */
	run_until_limited(2);
	is("perf has stopped the limited event",
	   event(2)->backing->state, PERF_EVENT_STATE_OFF);
	is("ENABLE of the limited event", call(3, 2), 0);
	is("ENABLE does not restart the limited event",
	   event(2)->backing->state, PERF_EVENT_STATE_OFF);
	is("SET_LEFT does not restart the limited event",
	   (call3(10, 2, 1, 0), event(2)->backing->state),
	   PERF_EVENT_STATE_OFF);
	is("READ does not restart the limited event",
	   (call(5, 2), event(2)->backing->state), PERF_EVENT_STATE_OFF);
	is("DISABLE of the limited event", call(4, 2), 0);
	is("the disabled event is not limited", is_limited(2), false);
	pv->overflow_rate.time = clock_ns + 20 * NSEC_PER_MSEC;
	is("ENABLE while the rate is exceeded", call(3, 2), -KVM_EAGAIN);
	is("ENABLE of an event that counts, while the rate is exceeded",
	   call(3, 1), 0);
	on(1);
	vcpus[1]->arch.pv_perf->overflow_rate.time = pv->overflow_rate.time;
	is("ENABLE on another vCPU that has exceeded the rate",
	   call(3, 2), -KVM_EAGAIN);
	is("ENABLE of a new event on that vCPU",
	   (open_sampling(3, 100), call(3, 3)), -KVM_EAGAIN);
	open_id(4);
	is("ENABLE of an event without a period on that vCPU", call(3, 4), 0);
	call(2, 3);
	on(0);

	/* The limited event is closed, or its record cannot be written. */
	overflows_in(20 * NSEC_PER_MSEC, 0, 1);
	is("ENABLE after the rate was exceeded", call(3, 2), 0);
	run_until_limited(2);
	call(2, 2);
	overflows_in(20 * NSEC_PER_MSEC, 0, 1);
	is("the timer finds the limited event closed",
	   atomic_read(&kvm->arch.pv_perf->nr_events), 2);
	open_sampling(2, 100);
	call(3, 2);
	n = pv->limited;
	kvm->memslots.slot[0].absent[RECORD(2) >> PAGE_SHIFT] = true;
	overflows_in(second / 50, 0, 2);
	is("overflows are charged even if the record cannot be written",
	   pv->limited > n, true);
	kvm->memslots.slot[0].absent[RECORD(2) >> PAGE_SHIFT] = false;

	/* The host takes the counters while the event is stopped. */
	overflows_in(second / 10, 0, 2);
	run_until_limited(2);
	take_counters(tasks[0], NR_COUNTERS);
	overflows_in(20 * NSEC_PER_MSEC, 0, 1);
	is("the event is lost if it has no counter when it may restart",
	   is_lost(2), true);
	take_counters(tasks[0], 0);
	is("READ of the lost event restarts it: EBUSY", call(5, 2), -KVM_EBUSY);
	is("the restarted event is not lost", is_lost(2), false);

	*param_pv_perf_max_rate = 0;
	n = overflows_in(second / 10, 0, 2);
	is("after the rate becomes 0, there are no overflows", n < 2, true);
	*param_pv_perf_max_rate = 100000;
	teardown();
}

/* The guest gets the reason when perf or the VM's limit stops its event. */
UNIT_TEST(told_throttled)
{
	struct guest_perf_event *r;

	setup();
	r = mem->record;
	CHECK(!open_notify(1, 100) && !call(3, 1));
	run_guest(100);
	throttle(event(1)->backing);
	is("an event that perf throttles: an NMI", enter_guest(), 1);
	is("an event that perf throttles has the flag THROTTLED",
	   r[1].flags, KVM_PERF_EVENT_THROTTLED);
	tick(event(1)->backing);
	is("READ after perf has restarted the event", call(5, 1), 0);
	is("READ clears the flag THROTTLED", r[1].flags, 0);

	*param_pv_perf_max_rate = 10000;
	/* The event is limited, and has also lost its counter. */
	run_until_limited(1);
	is("a limited event has the flag THROTTLED",
	   r[1].flags, KVM_PERF_EVENT_THROTTLED);
	pv_perf_set_why(event(1), PV_PERF_LOST);
	call(5, 1);
	is("a limited event that has lost its counter has both flags",
	   r[1].flags, KVM_PERF_EVENT_THROTTLED | KVM_PERF_EVENT_LOST);
	overflows_in(20 * NSEC_PER_MSEC, 0, 1);
	is("at the end of the limit, the flag LOST stays",
	   r[1].flags, KVM_PERF_EVENT_LOST);
	is("the lost event does not count",
	   event(1)->backing->state, PERF_EVENT_STATE_OFF);
	is("ENABLE restarts the lost event", call(3, 1), 0);
	is("ENABLE clears the flag LOST", r[1].flags, 0);
	*param_pv_perf_max_rate = 100000;
	teardown();
}

/* One vCPU's overflows and OPENs do not limit another vCPU. */
UNIT_TEST(own_rate)
{
	const u64 second = 1000000000;
	long n;

	setup();
	*param_pv_perf_max_rate = 20000;
	on(1);
	open_sampling(2, 100000);
	call(3, 2);
	on(0);
	open_sampling(1, 100);
	call(3, 1);
	n = overflows_in(second / 10, 0, 1);
	is("one vCPU has as many overflows as the rate and a burst",
	   n > 1900 && n < 2000 + 200 + 20, true);
	run_until_limited(1);
	is("the other vCPU's event is not stopped",
	   overflows_in(second / 10, 1, 2), 1000);
	is("the limited event restarts on the other vCPU", call(3, 1), 0);
	is("the limit is counted for the first vCPU only",
	   vcpus[0]->arch.pv_perf->limited && !vcpus[1]->arch.pv_perf->limited,
	   true);
	call(4, 1);
	on(0);
	call(2, 1);
	is("a vCPU that opens too many events waits",
	   open_takes(1000) > 0, true);
	on(1);
	is("the other vCPU does not wait", open_takes(100), 0);
	*param_pv_perf_max_rate = 100000;
	teardown();
}

/*
 * perf throttles an event, and restarts it on another counter without writing
 * that counter.
 */
UNIT_TEST(moved_throttled)
{
	struct guest_perf_event *r;

	setup();
	r = mem->record;
	param(1, 1);
	mem->attr.flags = KVM_PERF_ATTR_EXCLUDE_KERNEL;
	mem->attr.sample_period = 100;
	CHECK(!do_open() && !call(KVM_PERF_OP_ENABLE, 1));
	run_throttled(100);
	is("debugfs: an event that perf has throttled", debugfs_has(" throttled  "), true);
	reassign(event(1)->backing, 1000);
	on(1);
	call(KVM_PERF_OP_READ, 1);
	is("READ by another vCPU before the delivery", r[1].count, 100);
	on(0);
	enter_guest();
	is("after the delivery, the event has the flag THROTTLED",
	   r[1].flags, KVM_PERF_EVENT_THROTTLED);
	run_mode(false, 10);
	is("the throttled event does not count",
	   (call(KVM_PERF_OP_READ, 1), r[1].count), 100);
	tick(event(1)->backing);
	is("READ after perf has restarted the event on another counter",
	   (call(KVM_PERF_OP_READ, 1), r[1].count), 100);
	is("the rest of the period of the restarted event",
	   r[1].period_left, 100);
	run_mode(false, 30);
	is("READ after the restarted event has counted",
	   (call(KVM_PERF_OP_READ, 1), r[1].count), 130);
	is("the rest of the period after the event has counted",
	   r[1].period_left, 70);
	enter_guest();

	/*
	 * While the event is throttled, the guest sets its position or its
	 * period.
	 */
	run_throttled(70);
	enter_guest();
	reassign(event(1)->backing, 1000);
	is("SET_LEFT of the throttled event",
	   call3(KVM_PERF_OP_SET_LEFT, 1, 7, 0), 0);
	tick(event(1)->backing);
	run_mode(false, 6);
	is("after SET_LEFT 7, no overflow at 6",
	   (enter_guest(), r[1].overflows), 2);
	run_mode(false, 1);
	is("after SET_LEFT 7, an overflow at 7",
	   (enter_guest(), r[1].overflows), 3);
	is("the count after SET_LEFT", r[1].count, 207);
	run_throttled(100);
	reassign(event(1)->backing, 1000);
	is("SET_PERIOD of the throttled event",
	   call3(KVM_PERF_OP_SET_PERIOD, 1, 50, 0), 0);
	enter_guest();
	run_mode(false, 49);
	is("after SET_PERIOD 50, no overflow at 49",
	   (enter_guest(), r[1].overflows), 4);
	run_mode(false, 1);
	is("after SET_PERIOD 50, an overflow at 50",
	   (enter_guest(), r[1].overflows), 5);
	is("the count after SET_PERIOD", r[1].count, 357);

	/* The event moves to another vCPU. */
	run_throttled(50);
	reassign(event(1)->backing, 1000);
	on(1);
	is("ENABLE of the throttled event elsewhere",
	   call(KVM_PERF_OP_ENABLE, 1), 0);
	enter_guest();
	run_mode(false, 20);
	is("READ on the other vCPU",
	   (call(KVM_PERF_OP_READ, 1), r[1].count), 427);
	is("the rest of the period on the other vCPU", r[1].period_left, 30);
	on(0);
	teardown();
}

static struct {
	const char *where;
	bool moved;
} throttle_at;

/*
 * perf throttles vCPU 0's event while another vCPU's operation waits for its
 * CPU.
 */
static void throttle_there(const char *where)
{
	if (strcmp(where, throttle_at.where))
		return;

	sleep_hook = NULL;
	on(0);
	run_throttled(100);
	if (throttle_at.moved)
		reassign(event(1)->backing, 1000);
	on(1);
}

static void throttle_while(const char *where, bool moved)
{
	throttle_at.where = where;
	throttle_at.moved = moved;
	sleep_hook = throttle_there;
	on(1);
}

/* perf throttles an event while an operation waits for its CPU or its counter. */
UNIT_TEST(throttled_meanwhile)
{
	struct guest_perf_event *r;

	setup();
	r = mem->record;
	CHECK(!open_mode(1, KVM_PERF_ATTR_EXCLUDE_KERNEL, 100));
	throttle_while("disable", false);
	is("SET_LEFT from elsewhere", call3(KVM_PERF_OP_SET_LEFT, 1, 7, 0), 0);
	on(0);
	enter_guest();
	run_mode(false, 6);
	is("after SET_LEFT 7 from elsewhere, no overflow at 6",
	   (enter_guest(), r[1].overflows), 1);
	run_mode(false, 1);
	is("after SET_LEFT 7 from elsewhere, an overflow at 7",
	   (enter_guest(), r[1].overflows), 2);
	is("the count after SET_LEFT from elsewhere", r[1].count, 107);
	throttle_while("period", false);
	is("SET_PERIOD from elsewhere", call3(KVM_PERF_OP_SET_PERIOD, 1, 50, 0),
	   0);
	on(0);
	enter_guest();
	run_mode(false, 49);
	is("after SET_PERIOD 50 from elsewhere, no overflow at 49",
	   (enter_guest(), r[1].overflows), 3);
	run_mode(false, 51);
	is("after SET_PERIOD 50 from elsewhere, two overflows at 100",
	   (enter_guest(), r[1].overflows), 5);
	CHECK(!call3(KVM_PERF_OP_SET_PERIOD, 1, 100, 0));
	run_mode(false, 1);
	is("the count after SET_PERIOD from elsewhere",
	   (call(KVM_PERF_OP_READ, 1), r[1].count), 308);
	CHECK(!call3(KVM_PERF_OP_SET_LEFT, 1, 100, 0));

	throttle_while("value", true);
	is("READ from elsewhere", (call(KVM_PERF_OP_READ, 1), r[1].count), 408);
	on(0);
	enter_guest();
	tick(event(1)->backing);
	run_mode(false, 0);

	disable_hook = throttle_late;
	is("SET_LEFT while the event overflows",
	   call3(KVM_PERF_OP_SET_LEFT, 1, 7, 0), 0);
	is("the event is throttled meanwhile",
	   event(1)->backing->hw.state & PERF_HES_STOPPED, PERF_HES_STOPPED);
	enter_guest();
	tick(event(1)->backing);
	run_mode(false, 6);
	is("after this SET_LEFT 7, no overflow at 6",
	   (enter_guest(), r[1].overflows), 7);
	run_mode(false, 1);
	is("after this SET_LEFT 7, an overflow at 7",
	   (enter_guest(), r[1].overflows), 8);
	is("the count after this SET_LEFT", r[1].count, 515);

	/*
	 * perf restarts the event on another counter, and VM entry has not
	 * started it yet.
	 */
	run_throttled(100);
	enter_guest();
	reassign(event(1)->backing, 0);
	tick(event(1)->backing);
	run_throttled(100);
	is("READ before VM entry has started the event",
	   (call(KVM_PERF_OP_READ, 1), r[1].count), 615);
	enter_guest();
	is("the count after the delivery", r[1].count, 615);
	teardown();
}
