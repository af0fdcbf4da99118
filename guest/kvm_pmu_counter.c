// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, guest side: the counters of a CPU, and which
 * event has which.
 *
 * A counter is an event that the host keeps open for this CPU, with an id and
 * a record.  It stays open when the perf_event that used it is gone, for the
 * next one that counts the same, and even runs on for a while as long as no
 * other needs the hardware: a perf_event takes the difference of two readings.
 * So tasks switch, fork and exit, and events are opened and closed, without
 * the host's enabling or disabling anything.
 *
 * Everything here runs on the counters' CPU with interrupts off, but for
 * stopping and reading, which the NMI handler does too, for events that count.
 *
 * The host may be another one than before (migration, a restored snapshot), or
 * have had its vCPU reset (suspend to memory).  What it has told is still in the
 * records then.  The CPU's area shows it, and any operation may find that the host
 * knows no counter any more.  Where there is neither, the watch, a timer, finds it.
 */
#include <linux/jiffies.h>
#include <linux/perf_event.h>

#include "kvm_pmu.h"
#include "kvm_pmu_rdpmc.h"

static struct kvm_pmu_counter *kvm_pmu_counter(struct kvm_pmu_cpu *cpu,
					       struct perf_event *event)
{
	return &cpu->counters[event->hw.idx];
}

/**
 * kvm_pmu_close - have the host close a counter
 * @counter: the counter, open
 */
void kvm_pmu_close(struct kvm_pmu_counter *counter)
{
	kvm_perf_op(KVM_PERF_OP_CLOSE, counter->param.id, 0);
	counter->host = KVM_PMU_CLOSED;
	counter->flags = 0;
	counter->lost = false;
	/* As OPEN will have it. */
	WRITE_ONCE(counter->record.pmc, 0);
	kvm_pmu_note_pmc(counter);
}

/**
 * kvm_pmu_disable_host - have the host stop a counter
 * @counter: the counter
 *
 * May be called in NMI context.
 */
void kvm_pmu_disable_host(struct kvm_pmu_counter *counter)
{
	long ret = kvm_perf_op(KVM_PERF_OP_DISABLE, counter->param.id, 0);

	switch (kvm_pmu_result(KVM_PERF_OP_DISABLE, ret)) {
	case KVM_PMU_DONE:
	case KVM_PMU_NOT_WRITTEN:
		counter->host = KVM_PMU_STOPPED;
		counter->flags = 0;
		counter->lost = false;
		/* An NMI may be due for what came before it. */
		if (!in_nmi())
			kvm_pmu_note_pmc(counter);
		break;
	default:
		/* The watch, or whatever comes next, finds it out. */
		break;
	}
}

/* To HELD, which an NMI may do at any instruction here.  Returns the old state. */
static enum kvm_pmu_event_state kvm_pmu_hold(struct kvm_pmu_counter *counter)
{
	enum kvm_pmu_event_state old = xchg(&counter->state, KVM_PMU_HELD);

	kvm_pmu_set_stopped(counter->event);
	return old;
}

/**
 * kvm_pmu_settle_leaving - give the event that leaves a counter what its record has
 * @counter: the counter, which the host has stopped if there is one
 *
 * May be called in NMI context.
 */
void kvm_pmu_settle_leaving(struct kvm_pmu_counter *counter)
{
	if (counter->leaving)
		kvm_pmu_counter_update(counter, counter->leaving);
	WRITE_ONCE(counter->leaving, NULL);
}

/**
 * kvm_pmu_settle_count - give the events of a counter what its record has
 * @counter: the counter, which the host has stopped, and which is in no flush
 *
 * May be called in NMI context.
 */
void kvm_pmu_settle_count(struct kvm_pmu_counter *counter)
{
	kvm_pmu_settle_leaving(counter);
	if (counter->state == KVM_PMU_COUNTING)
		kvm_pmu_counter_update(counter, counter->event);
}

/*
 * The last that the host has told is in the records.  What was opened since the
 * host lost the others it knows, and tells once more: left open, it would refuse
 * to be opened.
 */
static void kvm_pmu_forget(struct kvm_pmu_cpu *cpu,
			   struct kvm_pmu_counter *counter)
{
	kvm_perf_op(KVM_PERF_OP_DISABLE, counter->param.id, 0);
	kvm_pmu_close(counter);
	kvm_pmu_settle_count(counter);
	if (counter->state != KVM_PMU_COUNTING)
		return;

	kvm_pmu_set_stopped(counter->event);
	/* Unless an NMI has stopped it since. */
	cmpxchg(&counter->state, KVM_PMU_COUNTING, KVM_PMU_STARTING);
	kvm_pmu_page_changed(cpu, counter->event);
}

/* Another host may have other hardware.  No NMI handler reads these fields. */
static void kvm_pmu_use_anew(struct kvm_pmu_cpu *cpu)
{
	struct kvm_pmu_counter *counter;
	unsigned int i;

	cpu->use = (struct kvm_pmu_use) { };
	for (i = 0; i < cpu->nr_open; i++) {
		counter = &cpu->counters[i];
		counter->kind = kvm_pmu_kind(&counter->attr);
		if (counter->event)
			kvm_pmu_add_use(&cpu->use, counter->kind);
	}
	cpu->proven = (struct kvm_pmu_use) { };
	/* No limit is known there. */
	cpu->limit_until = 0;
}

/**
 * kvm_pmu_forget_all - the host knows no counter any more: open all anew
 * @cpu: this CPU's; the next flush does it
 */
void kvm_pmu_forget_all(struct kvm_pmu_cpu *cpu)
{
	unsigned int i;

	for (i = 0; i < cpu->nr_open; i++) {
		if (cpu->counters[i].host != KVM_PMU_CLOSED)
			kvm_pmu_forget(cpu, &cpu->counters[i]);
	}

	/* After that the CPU has what it opens, and nothing else. */
	kvm_pmu_area_set(cpu);
	kvm_pmu_use_anew(cpu);
	cpu->changed = true;
	/* What the new host can count may be something else. */
	kvm_pmu_config_forget();
}

/**
 * kvm_pmu_is_unused - does the host count for nobody?
 * @counter: the counter; its event may have left since the last flush
 */
bool kvm_pmu_is_unused(const struct kvm_pmu_counter *counter)
{
	return counter->host == KVM_PMU_RUNNING &&
	       counter->state < KVM_PMU_STARTING;
}

static void kvm_pmu_set_counter(struct kvm_pmu_cpu *cpu,
				struct kvm_pmu_counter *counter,
				struct perf_event *event,
				enum kvm_pmu_event_state state)
{
	WRITE_ONCE(counter->event, event);
	/* An NMI that throttles its group stops it by the counter that it has. */
	barrier();
	event->hw.idx = counter - cpu->counters;
	/* An NMI looks at the event of a counter that is not FREE. */
	barrier();
	WRITE_ONCE(counter->state, state);
}

static void kvm_pmu_clear_counter(struct kvm_pmu_counter *counter)
{
	/* From here on an NMI that stops the event leaves the counter alone. */
	counter->event->hw.idx = -1;
	barrier();
	WRITE_ONCE(counter->state, KVM_PMU_FREE);
	/* As above. */
	barrier();
	WRITE_ONCE(counter->event, NULL);
}

/* The counter that an event has left since the last flush, to another event. */
static struct kvm_pmu_counter *kvm_pmu_find_left(struct kvm_pmu_cpu *cpu,
						 struct perf_event *event)
{
	struct kvm_pmu_counter *counter;
	unsigned int i;

	for (i = 0; i < cpu->nr_open; i++) {
		counter = &cpu->counters[i];
		if (counter->leaving == event && counter->event)
			return counter;
	}

	return NULL;
}

/*
 * Before the flush it is all the same to the event that has taken @from.  An NMI may
 * stop it at any instruction here: it finds one of the two counters, and what it does
 * to @from is done to @to.
 */
static void kvm_pmu_move(struct kvm_pmu_cpu *cpu, struct kvm_pmu_counter *from,
			 struct kvm_pmu_counter *to)
{
	struct perf_event *event = from->event;

	/* @from may have run already.  The host has to start @to. */
	cpu->added |= BIT(to - cpu->counters);

	WRITE_ONCE(to->event, event);
	/* An NMI looks at the event of a counter that is not FREE. */
	barrier();
	WRITE_ONCE(to->state, READ_ONCE(from->state));
	/* From here on it is @to that is stopped. */
	barrier();
	event->hw.idx = to - cpu->counters;
	/* It may have been @from until now. */
	barrier();
	if (xchg(&from->state, KVM_PMU_FREE) == KVM_PMU_HELD)
		WRITE_ONCE(to->state, KVM_PMU_HELD);
	/* An NMI looks at the event of a counter that is not FREE. */
	barrier();
	WRITE_ONCE(from->event, NULL);
}

/*
 * Not what the host has refused before is asked for again at once, but for a pinned group:
 * where that finds no counter, perf gives it up for good.
 */
static bool kvm_pmu_has_room(struct kvm_pmu_cpu *cpu, struct perf_event *event)
{
	unsigned int limit = kvm_pmu_limit(cpu);
	struct kvm_pmu_use use = cpu->use;

	if (kvm_pmu_is_pinned(event))
		return !kvm_pmu_host_is_gone(true);

	kvm_pmu_add_use(&use, kvm_pmu_kind(&to_kvm_pmu_config(event)->attr));
	return !kvm_pmu_host_is_gone(false) && !kvm_pmu_is_refused(event) &&
	       kvm_pmu_use_fits(cpu, &use, limit);
}

/**
 * kvm_pmu_counter_get - find a counter for an event
 * @cpu: this CPU's
 * @event: the event
 *
 * The event does not count before kvm_pmu_counter_start().
 *
 * Return: 0 or -EAGAIN.
 */
int kvm_pmu_counter_get(struct kvm_pmu_cpu *cpu, struct perf_event *event)
{
	struct kvm_pmu_counter *counter, *left;

	if (!kvm_pmu_has_room(cpu, event))
		return -EAGAIN;

	counter = kvm_pmu_find_or_reopen(cpu, event);
	if (!counter)
		return -EAGAIN;

	/*
	 * What it has counted where it was, and what is left of its period, is
	 * known only after the flush that would start it elsewhere: let it go
	 * on there.
	 */
	left = cpu->leaving ? kvm_pmu_find_left(cpu, event) : NULL;
	if (left) {
		kvm_pmu_move(cpu, left, counter);
		counter = left;
	}

	kvm_pmu_set_stopped(event);
	kvm_pmu_set_counter(cpu, counter, event, KVM_PMU_HELD);
	cpu->added |= BIT(event->hw.idx);
	cpu->used++;
	kvm_pmu_add_use(&cpu->use, counter->kind);
	return 0;
}

/* Without the host, which only has to be told where it is to overflow no more. */
static bool kvm_pmu_leave_now(struct kvm_pmu_cpu *cpu,
			      struct kvm_pmu_counter *counter)
{
	u64 count;

	if (kvm_pmu_is_sampling(counter) || !kvm_pmu_rdpmc(cpu, counter, &count))
		return false;

	kvm_pmu_count(counter->event, count);
	kvm_pmu_page_changed(cpu, counter->event);
	return true;
}

/**
 * kvm_pmu_counter_put - an event leaves its counter
 * @cpu: this CPU's
 * @event: the event, whose final count is known now or after the next flush
 */
void kvm_pmu_counter_put(struct kvm_pmu_cpu *cpu, struct perf_event *event)
{
	struct kvm_pmu_counter *counter = kvm_pmu_counter(cpu, event);

	if (kvm_pmu_hold(counter) == KVM_PMU_COUNTING &&
	    !kvm_pmu_leave_now(cpu, counter)) {
		WRITE_ONCE(counter->leaving, event);
		cpu->leaving = true;
		cpu->changed = true;
		kvm_pmu_page_changed(cpu, event);
	}

	kvm_pmu_clear_counter(counter);
	/* The flush stops it. */
	if (cpu->user_reads)
		cpu->changed = true;
	counter->last_used = jiffies;
	cpu->used--;
	kvm_pmu_sub_use(&cpu->use, counter->kind);
}

/**
 * kvm_pmu_set_counting - from STARTING to COUNTING, unless an NMI is faster
 * @cpu: this CPU's
 * @counter: the counter, which the host runs
 */
void kvm_pmu_set_counting(struct kvm_pmu_cpu *cpu,
			  struct kvm_pmu_counter *counter)
{
	counter->event->hw.state = 0;
	if (cmpxchg(&counter->state, KVM_PMU_STARTING, KVM_PMU_COUNTING) !=
	    KVM_PMU_STARTING)
		kvm_pmu_set_stopped(counter->event);
	perf_event_update_userpage(counter->event);
	/* Since it has counted last, perhaps on another CPU. */
	if (*kvm_pmu_owed(counter->event))
		cpu->owing = true;
}

/**
 * kvm_pmu_counter_start - let an event count from the next flush on
 * @cpu: this CPU's
 * @event: the event, which has a counter
 */
void kvm_pmu_counter_start(struct kvm_pmu_cpu *cpu, struct perf_event *event)
{
	struct kvm_pmu_counter *counter = kvm_pmu_counter(cpu, event);

	if (counter->state != KVM_PMU_HELD)
		return;

	WRITE_ONCE(counter->state, KVM_PMU_STARTING);
	/* Back where it was, unless an NMI has stopped it meanwhile. */
	if (counter->leaving == event && counter->host == KVM_PMU_RUNNING) {
		kvm_pmu_set_counting(cpu, counter);
		/* An NMI that has stopped it before has given it its count. */
		WRITE_ONCE(counter->leaving, NULL);
		kvm_pmu_look_again(cpu, counter);
		return;
	}

	cpu->changed = true;
}

/**
 * kvm_pmu_counter_stop - let an event count no more, from now on
 * @cpu: this CPU's
 * @event: the event, which keeps its counter
 *
 * May be called in NMI context, where it may find the event outside of add and
 * del, and in the middle of a flush.
 */
void kvm_pmu_counter_stop(struct kvm_pmu_cpu *cpu, struct perf_event *event)
{
	struct kvm_pmu_counter *counter;
	enum kvm_pmu_event_state old;

	if (event->hw.idx < 0)
		return;

	counter = kvm_pmu_counter(cpu, event);
	old = kvm_pmu_hold(counter);
	if (old < KVM_PMU_STARTING)
		return;

	if (counter->host == KVM_PMU_RUNNING)
		kvm_pmu_disable_host(counter);
	else if (old == KVM_PMU_STARTING)
		/* A flush may be about to set RUNNING, and sees. */
		return;

	if (old == KVM_PMU_COUNTING)
		kvm_pmu_counter_update(counter, event);
	/* Of a flush, its operation has the final count of who leaves. */
	if (!cpu->flushing)
		kvm_pmu_settle_count(counter);
	kvm_pmu_page_changed(cpu, event);
}

/* Bring all records up to date; false, and no change, where that fails. */
static bool kvm_pmu_read_all(struct kvm_pmu_cpu *cpu)
{
	long ret = kvm_perf_op(KVM_PERF_OP_READ, KVM_PERF_ID_ALL, 0);
	unsigned int i;

	switch (kvm_pmu_result(KVM_PERF_OP_READ, ret)) {
	case KVM_PMU_NO_COUNTER:
		/* The record of each says whether it is the one. */
		for (i = 0; i < cpu->nr_open; i++)
			kvm_pmu_look_at_flags(cpu, &cpu->counters[i]);
		fallthrough;
	case KVM_PMU_DONE:
		return true;
	default:
		return false;
	}
}

/* Bring its record up to date. */
static enum kvm_pmu_result kvm_pmu_read_record(struct kvm_pmu_cpu *cpu,
					       struct kvm_pmu_counter *counter)
{
	enum kvm_pmu_result result;

	if (cpu->reading && !cpu->fresh)
		cpu->fresh = kvm_pmu_read_all(cpu);
	if (cpu->fresh)
		return KVM_PMU_DONE;

	result = kvm_pmu_result(KVM_PERF_OP_READ,
				kvm_perf_op(KVM_PERF_OP_READ,
					    counter->param.id, 0));
	if (result == KVM_PMU_NO_COUNTER)
		kvm_pmu_note_lost(cpu, counter);

	return result;
}

static noinline void kvm_pmu_read_by_host(struct kvm_pmu_cpu *cpu,
					  struct kvm_pmu_counter *counter,
					  struct perf_event *event)
{
	enum kvm_pmu_result result = kvm_pmu_read_record(cpu, counter);

	kvm_pmu_counter_update(counter, event);

	/* Else the watch will find it out, too. */
	if (result == KVM_PMU_HOST_LOST && !in_nmi() && !cpu->flushing)
		kvm_pmu_open_anew(cpu);
}

/**
 * kvm_pmu_counter_read - bring an event's count up to date
 * @cpu: this CPU's
 * @event: an event that counts
 *
 * May be called in NMI context.
 */
void kvm_pmu_counter_read(struct kvm_pmu_cpu *cpu, struct perf_event *event)
{
	struct kvm_pmu_counter *counter = kvm_pmu_counter(cpu, event);
	u64 count;

	if (!kvm_pmu_is_sampling(counter) &&
	    kvm_pmu_rdpmc(cpu, counter, &count))
		kvm_pmu_count(event, count);
	else
		kvm_pmu_read_by_host(cpu, counter, event);

	/* It may be there to be read again. */
	if (!in_nmi())
		kvm_pmu_page_changed(cpu, event);
}
