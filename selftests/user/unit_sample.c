// SPDX-License-Identifier: GPL-2.0
/*
 * Unit tests of the host side: overflows, periods, frequencies, and the fast path of an
 * exit.
 */
#include "unit.h"

static void overflow_now(void)
{
	run_guest(1000);
}

static void overflow_then(void)
{
	nmi_to_come = overflow_now;
}

UNIT_TEST(sampling)
{
	struct guest_perf_event *r;
	u32 n;
	int i;

	setup();
	r = &mem->record[1];
	is("OPEN", open_sampling(1, 1000), 0);
	call(KVM_PERF_OP_ENABLE, 1);
	run_guest(999);
	is("no NMI before the period ends", enter_guest(), 0);
	run_guest(1);
	is("an overflow is not delivered in the host's NMI handler",
	   r->overflows, 0);
	is("an overflow at the end of the period: one NMI", enter_guest(), 1);
	is("the record has the overflow", r->overflows, 1);
	is("the record has the last period", r->last_period, 1000);
	is("the record has the rest of the period", r->period_left, 1000);
	is("the record has the count", r->count, 1000);
	is("the vCPU is not kicked", atomic_read(&vcpus[0]->kicks), 0);
	run_guest(2500);
	is("two overflows: one NMI", enter_guest(), 1);
	is("the record has both overflows", r->overflows, 3);
	is("debugfs counts all delivered overflows",
	   vcpus[0]->arch.pv_perf->delivered, 3);
	run_guest(500);
	vcpus[0]->arch.nmi_pending = 1;
	is("no NMI while another NMI is pending", enter_guest(), 0);
	vcpus[0]->arch.nmi_pending = 0;
	is("the record has the overflow without another NMI", r->overflows, 4);
	run_guest(1000);
	vcpus[0]->arch.nmi_queued.counter = 1;
	is("no second NMI while another NMI is queued", enter_guest(), 1);

	/*
	 * The host's NMI does not come from guest mode: the vCPU may be about
	 * to halt.
	 */
	vcpus[0]->arch.nmi_from_guest = false;
	run_guest(2000);
	is("the vCPU is kicked once", atomic_read(&vcpus[0]->kicks), 1);
	is("NMI by the irq_work", enter_guest(), 1);
	enter_guest();
	irq_work_late = true;
	run_guest(1000);
	is("NMI before the irq_work", enter_guest(), 1);
	irq_work_late = false;
	irq_work_run();
	is("the late irq_work causes no NMI", enter_guest(), 0);
	is("the late irq_work causes no kick",
	   atomic_read(&vcpus[0]->kicks), 1);
	vcpus[0]->arch.nmi_from_guest = true;

	/* Another overflow comes before the last period is read, and after that. */
	n = r->overflows;
	for (i = 0; i < 2; i++) {
		run_guest(1000);
		nmi_to_come = i ? overflow_then : overflow_now;
		enter_guest();
		is("an overflow during a delivery: its last period",
		   r->last_period, 1000);
		enter_guest();
		is("the next delivery: its last period", r->last_period, 1000);
	}
	is("both overflows are delivered each time", r->overflows - n, 4);

	/* The record's page is absent. */
	r->overflows = 0;
	kvm->memslots.slot[0].absent[RECORD(1) >> PAGE_SHIFT] = true;
	run_guest(1000);
	is("no NMI without a record", enter_guest(), 0);
	kvm->memslots.slot[0].absent[RECORD(1) >> PAGE_SHIFT] = false;
	is("the overflow without a record is lost",
	   (enter_guest(), r->overflows), 0);

	/* Overflows that were not delivered move with the event. */
	run_guest(1000);
	on(1);
	CHECK(!enter_guest());
	is("ENABLE by another vCPU, with an overflow to deliver",
	   call(KVM_PERF_OP_ENABLE, 1), 0);
	is("the other vCPU gets the NMI", enter_guest(), 1);
	is("the record has the overflow", r->overflows, 1);

	/* DISABLE delivers none; CLOSE drops them. */
	run_guest(1000);
	is("DISABLE of an event with an overflow succeeds", call(4, 1), 0);
	is("DISABLE delivers no overflow", r->overflows, 1);
	is("after DISABLE, the vCPU gets the NMI", enter_guest(), 1);
	call(3, 1);
	run_guest(1000);
	is("CLOSE", call(2, 1), 0);
	is("after CLOSE, the vCPU gets no NMI", enter_guest(), 0);
	teardown();
}

UNIT_TEST(nmi_exit)
{
	struct guest_perf_event *r1, *r2;

	setup();
	r1 = &mem->record[1];
	r2 = &mem->record[2];
	open_sampling(1, 1000);
	open_sampling(2, 500);
	call(KVM_PERF_OP_ENABLE, 1);
	is("without an overflow, no NMI", nmi_exit(), false);
	run_guest(1000);
	call(KVM_PERF_OP_ENABLE, 2);
	is("with an overflow, an NMI at once", nmi_exit(), true);
	is("the record has the overflow", r1->overflows, 1);
	is("the record has the last period", r1->last_period, 1000);
	is("the record has the count", r1->count, 1000);
	is("no request is left", vcpus[0]->requests, 0);
	is("debugfs counts the delivered overflow",
	   vcpus[0]->arch.pv_perf->delivered, 1);
	is("no second NMI for the overflow", nmi_exit(), false);

	run_guest(1000);
	is("one NMI for two events", nmi_exit(), true);
	is("overflow of the first", r1->overflows, 2);
	is("overflows of the second", r2->overflows, 2);

	/* If a delivery has to wait, the request makes all of it. */
	run_guest(1000);
	vcpus[0]->arch.nmi_pending = 1;
	is("no delivery at the exit while an NMI is pending",
	   nmi_exit(), false);
	vcpus[0]->arch.nmi_pending = 0;
	vcpus[0]->guest_debug = 1;
	is("no delivery at the exit for a debugged guest", nmi_exit(), false);
	vcpus[0]->guest_debug = 0;
	kvm_make_request(KVM_REQ_NMI, vcpus[0]);
	is("no delivery at the exit if more is requested", nmi_exit(), false);
	kvm_check_request(KVM_REQ_NMI, vcpus[0]);
	mutex_lock(&vcpus[0]->arch.pv_perf->lock);
	is("no delivery at the exit while the lock is taken",
	   nmi_exit(), false);
	mutex_unlock(&vcpus[0]->arch.pv_perf->lock);
	kvm->memslots.slot[0].absent[RECORD(1) >> PAGE_SHIFT] = true;
	is("no delivery at the exit while the record's page is absent",
	   nmi_exit(), false);
	kvm->memslots.slot[0].absent[RECORD(1) >> PAGE_SHIFT] = false;
	kvm->memslots.generation++;
	is("no delivery at the exit after a change of memory slots",
	   nmi_exit(), false);
	is("none of these exits has delivered an overflow", r1->overflows, 2);
	is("the request delivers the overflows: one NMI", enter_guest(), 1);
	is("the request delivers the first event's overflow", r1->overflows, 3);
	is("the request delivers the second event's overflows",
	   r2->overflows, 4);
	is("the record has the second event's last period",
	   r2->last_period, 500);

	/* One of two events with overflows is disabled. */
	kvm_check_request(KVM_REQ_NMI, vcpus[0]);
	run_guest(1000);
	call(KVM_PERF_OP_DISABLE, 2);
	is("an NMI at the exit for the enabled event", nmi_exit(), true);
	is("the exit delivers the enabled event's overflow", r1->overflows, 4);
	is("the exit does not deliver the disabled event's overflows",
	   r2->overflows, 4);
	is("the request delivers the disabled event's overflows: one NMI",
	   enter_guest(), 1);
	is("the record has the disabled event's overflows", r2->overflows, 6);

	/* A limited event waits for its request. */
	*param_pv_perf_max_rate = 100;
	run_until_limited(1);
	kvm_check_request(KVM_REQ_NMI, vcpus[0]);
	kvm_make_request(KVM_REQ_PV_PERF, vcpus[0]);
	is("no NMI at the exit for a limited event", nmi_exit(), false);
	is("the exit keeps the limited event's request",
	   kvm_test_request(KVM_REQ_PV_PERF, vcpus[0]), true);
	*param_pv_perf_max_rate = 100000;
	teardown();
}

/* Returns whether a READ is run right at its exit.  KVM counts other hypercalls itself. */
static bool read_at_exit(u64 id)
{
	u64 before = here()->stat.hypercalls;

	call(KVM_PERF_OP_READ, id);
	return here()->stat.hypercalls != before;
}

UNIT_TEST(read_at_exit)
{
	struct guest_perf_event *r;

	setup();
	r = &mem->record[1];
	open_id(1);
	is("READ of a disabled event is not run at the exit", read_at_exit(1), false);
	call(KVM_PERF_OP_ENABLE, 1);
	run_guest(100);
	kvm->memslots.slot[0].dirty[RECORD(1) >> PAGE_SHIFT] = false;
	is("READ is run at the exit", read_at_exit(1), true);
	is("the record has the count", r->count, 100);
	is("READ at the exit succeeds", here()->arch.exit.rax, 0);
	is("the record's page is dirty",
	   kvm->memslots.slot[0].dirty[RECORD(1) >> PAGE_SHIFT], true);
	is("the hypercall itself is not counted", (read_at_exit(1), r->count), 100);

	/* All others are run as any hypercall, with the same result. */
	here()->guest_debug = 1;
	is("not for a debugged guest", read_at_exit(1), false);
	here()->guest_debug = 0;
	here()->arch.exit.rflags = X86_EFLAGS_TF;
	is("not if a trap follows the instruction", read_at_exit(1), false);
	here()->arch.exit.rflags = 0;
	here()->arch.nmi_pending = 1;
	is("not while an NMI is pending", read_at_exit(1), false);
	here()->arch.nmi_pending = 0;
	kvm_make_request(KVM_REQ_PV_PERF, here());
	is("not if anything is requested", read_at_exit(1), false);
	kvm_check_request(KVM_REQ_PV_PERF, here());
	here()->arch.cpl = 3;
	is("not from user mode", read_at_exit(1), false);
	here()->arch.cpl = 0;
	here()->arch.guest_mode = true;
	is("not for a nested guest", read_at_exit(1), false);
	here()->arch.guest_mode = false;
	here()->arch.hv_hypercalls = true;
	is("not if hypercalls are Hyper-V's", read_at_exit(1), false);
	here()->arch.hv_hypercalls = false;
	kvm->xen_hypercalls = true;
	is("not if hypercalls are Xen's", read_at_exit(1), false);
	kvm->xen_hypercalls = false;
	kvm->arch.enable_pmu = true;
	here()->arch.pmu.version = 1;
	is("not of a vCPU with KVM's virtual PMU", read_at_exit(1), false);
	kvm->arch.enable_pmu = false;
	here()->arch.pmu.version = 0;
	is("not of an id that is not open", read_at_exit(2), false);
	is("not of all events", read_at_exit(KVM_PERF_ID_ALL), false);
	is("not of an id with more than 32 bits", read_at_exit(BIT_ULL(32) | 1), false);
	mutex_lock(&here()->arch.pv_perf->lock);
	is("not while the lock is taken", pv_perf_event_read_irqoff(here(), 1), false);
	mutex_unlock(&here()->arch.pv_perf->lock);
	kvm->memslots.generation++;
	is("not after a change of memory slots", read_at_exit(1), false);
	is("but then again", read_at_exit(1), true);
	kvm->memslots.slot[0].absent[RECORD(1) >> PAGE_SHIFT] = true;
	is("not while the record's page is absent", read_at_exit(1), false);
	kvm->memslots.slot[0].absent[RECORD(1) >> PAGE_SHIFT] = false;
	take_counters(tasks[0], NR_COUNTERS);
	is("not of an event that has lost its counter", read_at_exit(1), false);
	take_counters(tasks[0], 0);
	enter_guest();
	on(1);
	call(KVM_PERF_OP_QUERY, GPA(param));
	is("not of another vCPU's event", read_at_exit(1), false);
	on(0);
	teardown();
}

/*
 * perf throttles, moves and restarts an event, and its vCPU stops it before it
 * counts.
 */
UNIT_TEST(stopped_moved)
{
	setup();
	CHECK(!open_mode(1, KVM_PERF_ATTR_EXCLUDE_GUEST, 100));
	run_throttled(100);
	enter_guest();
	reassign(event(1)->backing, 1000);
	tick(event(1)->backing);
	run_mode(true, 10);
	is("the counter's value does not belong to the event",
	   !!(event(1)->backing->hw.state & PERF_HES_ARCH), true);
	run_mode(false, 30);
	is("READ after the event has counted",
	   (call(KVM_PERF_OP_READ, 1), mem->record[1].count), 130);
	teardown();
}

/* A stopped event keeps its position in the period. */
UNIT_TEST(stopped_period)
{
	struct guest_perf_event *r;

	setup();
	r = mem->record;
	CHECK(!open_mode(1, KVM_PERF_ATTR_EXCLUDE_HOST, 100));
	run_mode(true, 40);
	run_mode(false, 10);
	reassign(event(1)->backing, 1000);
	on(1);
	call(KVM_PERF_OP_READ, 1);
	is("READ by another vCPU", r[1].count, 40);
	is("READ by another vCPU has the rest of the period",
	   r[1].period_left, 60);
	on(0);
	call(KVM_PERF_OP_READ, 1);
	is("READ by its own vCPU has the rest of the period",
	   r[1].period_left, 60);
	run_mode(true, 59);
	is("the event continues: no overflow before the end of the period",
	   enter_guest(), 0);
	run_mode(true, 1);
	is("the event continues: an overflow at the end of the period",
	   enter_guest(), 1);
	is("the record has the last period", r[1].last_period, 100);

	/* The event moves while it is stopped. */
	run_mode(true, 30);
	run_mode(false, 10);
	reassign(event(1)->backing, 1000);
	on(1);
	call(KVM_PERF_OP_READ, 1);
	is("ENABLE elsewhere", call(KVM_PERF_OP_ENABLE, 1), 0);
	run_mode(true, 69);
	is("after the move, no overflow before the end of the period",
	   enter_guest(), 0);
	run_mode(true, 1);
	is("after the move, an overflow at the end of the period",
	   enter_guest(), 1);
	is("the count after the move", r[1].count, 200);
	run_mode(true, 30);
	run_mode(false, 10);
	is("SET_LEFT of the stopped event",
	   call3(KVM_PERF_OP_SET_LEFT, 1, 7, 0), 0);
	is("SET_LEFT writes the rest of the period before it",
	   r[1].period_left, 70);
	run_mode(false, 10);
	run_mode(true, 6);
	is("after SET_LEFT 7, no overflow at 6", enter_guest(), 0);
	run_mode(true, 1);
	is("after SET_LEFT 7, an overflow at 7", enter_guest(), 1);
	run_mode(false, 10);
	on(0);
	is("SET_LEFT from elsewhere", call3(KVM_PERF_OP_SET_LEFT, 1, 9, 0), 0);
	on(1);
	run_mode(false, 10);
	run_mode(true, 8);
	is("after SET_LEFT 9 from elsewhere, no overflow at 8",
	   enter_guest(), 0);
	run_mode(true, 1);
	is("after SET_LEFT 9 from elsewhere, an overflow at 9",
	   enter_guest(), 1);
	run_mode(true, 30);
	run_mode(false, 10);
	is("SET_PERIOD of the stopped event",
	   call3(KVM_PERF_OP_SET_PERIOD, 1, 50, 0), 0);
	run_mode(false, 10);
	call(KVM_PERF_OP_READ, 1);
	is("after SET_PERIOD 50, the rest of the period is 50",
	   r[1].period_left, 50);
	run_mode(true, 49);
	is("after SET_PERIOD 50, no overflow at 49", enter_guest(), 0);
	run_mode(true, 1);
	is("after SET_PERIOD 50, an overflow at 50", enter_guest(), 1);
	is("after SET_PERIOD 50, the last period is 50", r[1].last_period, 50);

	/* perf has counted a throttled event, but has not updated it since. */
	run_mode(true, 10);
	throttle(event(1)->backing);
	run_mode(false, 10);
	reassign(event(1)->backing, 1000);
	call(KVM_PERF_OP_READ, 1);
	is("READ of a throttled event has the rest of the period",
	   r[1].period_left, 40);
	teardown();
}

UNIT_TEST(period)
{
	struct guest_perf_event *r;
	struct perf_event *backing;

	setup();
	r = &mem->record[1];
	open_id(2);
	is("SET_PERIOD of a counting event", call3(7, 2, 5, 0), -KVM_EINVAL);
	is("SET_LEFT of a counting event", call3(10, 2, 5, 0), -KVM_EINVAL);
	open_sampling(1, 1000);
	is("SET_PERIOD 0", call3(7, 1, 0, 0), -KVM_EINVAL);
	is("SET_PERIOD 2^63", call3(7, 1, 0, 1u << 31), -KVM_EINVAL);
	is("SET_LEFT 2^63", call3(10, 1, 0, 1u << 31), -KVM_EINVAL);
	is("SET_PERIOD 2^32", call3(7, 1, 0, 1), 0);
	is("period 2^32", event(1)->backing->attr.sample_period == 1ul << 32,
	   true);
	is("SET_PERIOD", call3(7, 1, 100, 0), 0);
	call(5, 1);
	is("period_left of a disabled event is the period",
	   r->period_left, 100);

	is("SET_LEFT while disabled", call3(10, 1, 30, 0), 0);
	call(3, 1);
	run_guest(29);
	is("after SET_LEFT 30 while disabled, no overflow at 29",
	   enter_guest(), 0);
	run_guest(1);
	is("after SET_LEFT 30 while disabled, an overflow at 30",
	   enter_guest(), 1);
	run_guest(100);
	is("the next overflow is at the end of the period", enter_guest(), 1);
	run_guest(90);
	is("SET_LEFT while it counts", call3(10, 1, 50, 0), 0);
	is("SET_LEFT writes the rest of the period before it",
	   r->period_left, 10);
	is("SET_LEFT writes the count", r->count, 220);
	run_guest(50);
	is("after SET_LEFT 50, an overflow at 50", enter_guest(), 1);
	run_guest(60);
	is("SET_LEFT 0", call3(10, 1, 0, 0), 0);
	run_guest(99);
	is("after SET_LEFT 0, no overflow at 99", enter_guest(), 0);
	run_guest(1);
	is("after SET_LEFT 0, an overflow at 100", enter_guest(), 1);
	on(1);
	is("SET_LEFT from another vCPU", call3(10, 1, 7, 0), 0);
	on(0);
	run_guest(7);
	is("after SET_LEFT 7 from another vCPU, an overflow at 7",
	   enter_guest(), 1);
	backing = event(1)->backing;
	throttle(backing);
	is("SET_LEFT of a throttled event", call3(10, 1, 5, 0), 0);
	is("the throttled event stays stopped",
	   backing->hw.state & PERF_HES_STOPPED, 1);
	is("the rest of the throttled event's period is 5",
	   local64_read(&backing->hw.period_left), 5);
	is("SET_LEFT 0 of a throttled event", call3(10, 1, 0, 0), 0);
	is("the rest of the throttled event's period is the period",
	   local64_read(&backing->hw.period_left), 100);
	call3(10, 1, 5, 0);
	kvm->memslots.slot[0].absent[RECORD(1) >> PAGE_SHIFT] = true;
	is("SET_LEFT without a record", call3(10, 1, 9, 0), -KVM_EFAULT);
	is("SET_LEFT without a record changes nothing",
	   local64_read(&backing->hw.period_left), 5);
	kvm->memslots.slot[0].absent[RECORD(1) >> PAGE_SHIFT] = false;

	/* The period has ended, but the event has not overflowed yet. */
	local64_set(&backing->hw.period_left, -3);
	call(5, 1);
	is("period_left is at least 1", r->period_left, 1);

	param(3, 3);
	mem->attr.flags = KVM_PERF_ATTR_FREQ;
	mem->attr.sample_period = 1000;
	is("OPEN with a frequency", do_open(), 0);
	is("SET_PERIOD above the vCPU's rate", call3(7, 3, 100001, 0),
	   -KVM_EINVAL);
	is("SET_PERIOD 0 of a frequency", call3(7, 3, 0, 0), -KVM_EINVAL);
	is("SET_PERIOD to the vCPU's rate", call3(7, 3, 100000, 0), 0);
	is("SET_PERIOD sets the frequency", event(3)->freq.hz, 100000);
	is("a higher frequency starts with a shorter period",
	   event(3)->backing->hw.sample_period, 2);
	is("SET_PERIOD to a lower frequency", call3(7, 3, 1000, 0), 0);
	call(3, 3);
	is("a lower frequency starts with a longer period",
	   event(3)->backing->hw.sample_period, 200);
	call(5, 3);
	is("the longer period begins at once", mem->record[3].period_left, 200);
	teardown();
}

/* The sum of the periods of an event with a frequency. */
static u64 periods;

/*
 * Runs the guest for @n ticks of the timer of the CPU of event @id. Returns the
 * number of overflows.
 */
static u64 run_ticks(u32 id, u64 n)
{
	struct guest_perf_event *r = &mem->record[id];
	u64 before, overflows = 0;

	for (; n; n--) {
		run_mode(false, TICK_NSEC);
		tick(event(id)->backing);
		enter_guest();
		before = r->overflows;
		r->overflows = 0;
		overflows += before;
		periods += before * r->last_period;
	}
	return overflows;
}

/*
 * The guest causes one event per ns, so 50,000 Hz are a period of 20,000, or 5
 * ticks.
 */
UNIT_TEST(frequency)
{
	struct guest_perf_event *r;
	struct perf_event *backing;
	u64 period, count;
	int i;

	setup();
	r = &mem->record[1];
	periods = 0;
	param(1, 1);
	mem->attr.flags = KVM_PERF_ATTR_FREQ;
	mem->attr.sample_period = 50000;
	CHECK(!do_open() && !call(KVM_PERF_OP_ENABLE, 1));
	backing = event(1)->backing;
	run_ticks(1, 100);
	is("the period is adapted to the frequency",
	   near(backing->hw.sample_period, 20000), true);
	is("overflows come at the frequency",
	   near(run_ticks(1, 1000), 200), true);
	call(KVM_PERF_OP_READ, 1);
	is("the sum of the periods is the count",
	   periods + r->last_period - r->period_left <= r->count &&
	   r->count < periods + 20001 * 9 / 8, true);

	is("SET_LEFT parks the event",
	   call3(KVM_PERF_OP_SET_LEFT, 1, -1u, -1u >> 1), 0);
	period = backing->hw.sample_period;
	is("a parked event does not overflow", run_ticks(1, 1000), 0);
	is("a parked event keeps its period",
	   backing->hw.sample_period, period);
	call(KVM_PERF_OP_READ, 1);
	is("period_left of a parked event is large",
	   r->period_left > S64_MAX / 2, true);
	is("SET_LEFT 5 of the parked event",
	   call3(KVM_PERF_OP_SET_LEFT, 1, 5, 0), 0);
	run_guest(4);
	is("after SET_LEFT 5, no overflow at 4", enter_guest(), 0);
	run_guest(1);
	is("after SET_LEFT 5, an overflow at 5", enter_guest(), 1);
	r->overflows = 0;

	/* The event is in use for a fifth of a tick, and parked for longer. */
	for (i = 0; i < 300; i++) {
		call3(KVM_PERF_OP_SET_LEFT, 1, 0, 0);
		run_mode(false, TICK_NSEC / 5);
		call3(KVM_PERF_OP_SET_LEFT, 1, -1u, -1u >> 1);
		clock_ns += 20 * NSEC_PER_USEC;
		run_mode(false, 1);
	}
	is("the period is adapted only to the time in use",
	   near(backing->hw.sample_period, 20000), true);
	is("a period longer than each use does not end", enter_guest(), 0);

	call3(KVM_PERF_OP_SET_LEFT, 1, 1 << 30, 0);
	is("after SET_LEFT beyond the period, overflows come at the frequency",
	   near(run_ticks(1, 200), 40), true);
	is("SET_PERIOD", call3(KVM_PERF_OP_SET_PERIOD, 1, 25000, 0), 0);
	is("after SET_PERIOD, overflows come at half the frequency",
	   near(run_ticks(1, 1000), 100), true);
	call3(KVM_PERF_OP_SET_LEFT, 1, -1u, -1u >> 1);
	is("SET_PERIOD of a parked event",
	   call3(KVM_PERF_OP_SET_PERIOD, 1, 50000, 0), 0);
	is("SET_PERIOD does not make a parked event overflow",
	   run_ticks(1, 1000), 0);
	call3(KVM_PERF_OP_SET_LEFT, 1, 0, 0);
	is("in use again, overflows come at the new frequency",
	   near(run_ticks(1, 1000), 200), true);

	/* The event's frequency is above the VM's rate. */
	*param_pv_perf_max_rate = 10000;
	count = run_ticks(1, 5000);
	is("a limited event has as many overflows as the rate and a burst",
	   count <= 5000 * TICK_NSEC * 20000 / NSEC_PER_SEC + 200, true);
	*param_pv_perf_max_rate = 100000;
	is("perf had no event with a frequency",
	   atomic_read(&nr_freq_events), 0);
	teardown();
}

/*
 * The event counts half of the time. The ticks of the other half do not adapt
 * the period.
 */
UNIT_TEST(frequency_mode)
{
	struct guest_perf_event *r;
	int i;

	setup();
	r = &mem->record[1];
	CHECK(!open_mode(1, KVM_PERF_ATTR_EXCLUDE_HOST | KVM_PERF_ATTR_FREQ,
			 50000));
	for (i = 0; i < 400; i++) {
		run_mode(true, TICK_NSEC);
		run_mode(false, TICK_NSEC);
		enter_guest();
	}
	is("the period is adapted to half of the time",
	   near(event(1)->backing->hw.sample_period, 10000), true);
	call(KVM_PERF_OP_READ, 1);
	is("the event has counted half of the time", r->count, 400 * TICK_NSEC);
	run_mode(true, 10);
	is("SET_LEFT while the event counts",
	   call3(KVM_PERF_OP_SET_LEFT, 1, 50, 0), 0);
	enter_guest();
	run_mode(true, 49);
	is("after SET_LEFT 50, no overflow at 49", enter_guest(), 0);
	run_mode(true, 1);
	is("after SET_LEFT 50, an overflow at 50", enter_guest(), 1);
	teardown();
}
