// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, guest side: backing events, which the host keeps
 * open for a CPU, each with an id and a record.
 *
 * A backing event stays open when the perf_event that used it is gone, for the next one
 * that counts the same.  As a spare backing event it even runs on for a while, if nobody
 * else needs the hardware: a perf_event takes the difference of two readings.  So tasks
 * switch, fork and exit, and events are opened and closed, and the host enables and
 * disables nothing.
 *
 * All runs on the CPU that the events are for, with interrupts off, except for
 * kvm_pmu_keeps_unused(), and for kvm_pmu_close() when that CPU is dead.  The NMI handler
 * stops and reads events that count.
 *
 * The host may change (migration, a restored snapshot), or reset its vCPU (suspend to
 * memory).  The records still have what the last host told.  The CPU's area shows the
 * change, and any operation may find that the host knows no backing event any more.
 * Without an area and without operations, the watch, a timer, finds it.
 */
#include <linux/jiffies.h>
#include <linux/perf_event.h>

#include "kvm_pmu.h"
#include "kvm_pmu_rdpmc.h"
#include "kvm_pmu_record.h"

/**
 * kvm_pmu_page_changed - an event's page has to be written anew
 * @cpu: this CPU's
 * @event: the event
 *
 * NMI-safe: in an NMI the work writes the page before user mode goes on.
 */
void kvm_pmu_page_changed(struct kvm_pmu_cpu *cpu, struct perf_event *event)
{
	if (!kvm_pmu_has_page(event))
		return;

	if (in_nmi())
		kvm_pmu_pend(cpu, KVM_PMU_WRITE_PAGES);
	else
		perf_event_update_userpage(event);
}

/**
 * kvm_pmu_take_left - take the rest of an event's period from the record
 * @backing: its backing event
 * @event: the event
 *
 * If the host wrote the record after SET_LEFT had made the backing event overflow for
 * nobody, the rest of the period is not known: take a whole period.
 */
void kvm_pmu_take_left(const struct kvm_pmu_backing *backing,
		       struct perf_event *event)
{
	u64 left = kvm_pmu_record_left(&backing->record);

	local64_set(&event->hw.period_left,
		    left > KVM_PMU_NO_OVERFLOW / 2 ? 0 : left);
}

/**
 * kvm_pmu_backing_update - bring an event's count up to its record
 * @backing: the backing event
 * @event: its event, which counts
 *
 * NMI-safe.
 */
void kvm_pmu_backing_update(struct kvm_pmu_backing *backing,
			    struct perf_event *event)
{
	kvm_pmu_count(event, kvm_pmu_record_count(&backing->record));
	/* A KVM in this guest passes the rest of the period on to its own guest. */
	kvm_pmu_take_left(backing, event);
}

/**
 * kvm_pmu_close - have the host close a backing event
 * @backing: the backing event, open
 */
void kvm_pmu_close(struct kvm_pmu_backing *backing)
{
	kvm_perf_op(KVM_PERF_OP_CLOSE, backing->param.id, 0);
	kvm_pmu_set_host_state(backing, KVM_PMU_CLOSED);
	/* OPEN will set it to 0, too. */
	WRITE_ONCE(backing->record.pmc, 0);
	kvm_pmu_note_pmc(backing);
}

/**
 * kvm_pmu_disable_host - have the host stop a backing event
 * @backing: the backing event
 *
 * NMI-safe.
 */
void kvm_pmu_disable_host(struct kvm_pmu_backing *backing)
{
	long ret = kvm_perf_op(KVM_PERF_OP_DISABLE, backing->param.id, 0);

	switch (kvm_pmu_result(KVM_PERF_OP_DISABLE, ret)) {
	case KVM_PMU_DONE:
	case KVM_PMU_NOT_WRITTEN:
		kvm_pmu_set_host_state(backing, KVM_PMU_STOPPED);
		/* Not in an NMI, which may be for an earlier change of pmc. */
		if (!in_nmi())
			kvm_pmu_note_pmc(backing);
		break;
	default:
		/* The watch, or the next operation, finds out. */
		break;
	}
}

/**
 * kvm_pmu_hold - an event does not count from now on, and keeps its backing event
 * @backing: the backing event
 *
 * NMI-safe; an NMI may do the same at any instruction of the driver.
 *
 * Return: the old state.
 */
enum kvm_pmu_event_state kvm_pmu_hold(struct kvm_pmu_backing *backing)
{
	enum kvm_pmu_event_state old = xchg(&backing->state, KVM_PMU_HELD);

	kvm_pmu_set_stopped(backing->event);
	return old;
}

/**
 * kvm_pmu_settle_leaving - give the leaving event its count from the record
 * @backing: the backing event, which the host has stopped
 *
 * NMI-safe.
 */
void kvm_pmu_settle_leaving(struct kvm_pmu_backing *backing)
{
	if (backing->leaving)
		kvm_pmu_backing_update(backing, backing->leaving);
	WRITE_ONCE(backing->leaving, NULL);
}

/**
 * kvm_pmu_settle_count - give the events of a backing event their counts from the record
 * @backing: the backing event, which the host has stopped, and which is in no flush
 *
 * NMI-safe.
 */
void kvm_pmu_settle_count(struct kvm_pmu_backing *backing)
{
	kvm_pmu_settle_leaving(backing);
	if (backing->state == KVM_PMU_COUNTING)
		kvm_pmu_backing_update(backing, backing->event);
}

/*
 * The records have what the host told last.  The host knows the backing events that were
 * opened since it forgot the others: DISABLE brings their records up to date, and without
 * CLOSE their OPEN would fail.
 */
static void kvm_pmu_forget(struct kvm_pmu_cpu *cpu,
			   struct kvm_pmu_backing *backing)
{
	kvm_perf_op(KVM_PERF_OP_DISABLE, backing->param.id, 0);
	kvm_pmu_close(backing);
	kvm_pmu_settle_count(backing);
	if (backing->state != KVM_PMU_COUNTING)
		return;

	kvm_pmu_set_stopped(backing->event);
	/* If an NMI has stopped it since, it stays HELD. */
	cmpxchg(&backing->state, KVM_PMU_COUNTING, KVM_PMU_STARTING);
	kvm_pmu_page_changed(cpu, backing->event);
}

/* The new host may have other hardware.  NMI handlers do not read these fields. */
static void kvm_pmu_use_anew(struct kvm_pmu_cpu *cpu)
{
	struct kvm_pmu_backing *backing;

	cpu->use = (struct kvm_pmu_use) { };
	for_each_backing(cpu, backing) {
		backing->class = kvm_pmu_class(&backing->attr);
		if (backing->event)
			kvm_pmu_add_use(&cpu->use, backing->class);
	}
	cpu->limit.proven = (struct kvm_pmu_use) { };
	/* The limit of the new host is not known. */
	cpu->limit.until = 0;
}

void (*kvm_pmu_new_area)(struct kvm_pmu_cpu *cpu);

/**
 * kvm_pmu_area_renew - set this CPU's area, and have features use it
 * @cpu: this CPU's
 */
void kvm_pmu_area_renew(struct kvm_pmu_cpu *cpu)
{
	kvm_pmu_area_set(cpu);
	kvm_pmu_new_area(cpu);
}

/**
 * kvm_pmu_forget_all - close all backing events: the host has forgotten them
 * @cpu: this CPU's; the next flush opens them anew
 */
void kvm_pmu_forget_all(struct kvm_pmu_cpu *cpu)
{
	struct kvm_pmu_backing *backing;

	for_each_backing(cpu, backing) {
		if (backing->host != KVM_PMU_CLOSED)
			kvm_pmu_forget(cpu, backing);
	}

	/* From the new area on, the host has what this CPU opens, and nothing else. */
	kvm_pmu_area_renew(cpu);
	kvm_pmu_use_anew(cpu);
	cpu->flush.due = true;
	/* The new host may count other configurations. */
	WRITE_ONCE(kvm_pmu_answers_old, true);
}

/**
 * kvm_pmu_running - counters of the backing events that run and have a counter
 * @cpu: this CPU's
 */
struct kvm_pmu_use kvm_pmu_running(struct kvm_pmu_cpu *cpu)
{
	const struct kvm_pmu_backing *backing;
	struct kvm_pmu_use use = { };

	for_each_backing(cpu, backing) {
		if (kvm_pmu_runs(backing) && !backing->lost)
			kvm_pmu_add_use(&use, backing->class);
	}

	return use;
}

/* Other CPUs ask, too: see kvm_pmu_keeps_unused(). */
static bool kvm_pmu_is_unused(const struct kvm_pmu_backing *backing)
{
	return !READ_ONCE(backing->event) &&
	       READ_ONCE(backing->host) != KVM_PMU_CLOSED;
}

/**
 * kvm_pmu_any_to_watch - is there anything to look after ten times a second?
 * @cpu: this CPU's
 *
 * There is if a backing event runs or is kept open, or the hypervisor's events count.
 */
bool kvm_pmu_any_to_watch(const struct kvm_pmu_cpu *cpu)
{
	return cpu->hypervisor.wanted || kvm_pmu_any(cpu, kvm_pmu_runs) ||
	       kvm_pmu_any(cpu, kvm_pmu_is_unused);
}

/**
 * kvm_pmu_start_watch - start the timer that looks after this CPU's events
 * @cpu: this CPU's
 */
void kvm_pmu_start_watch(struct kvm_pmu_cpu *cpu)
{
	if (!timer_pending(&cpu->later.watch) && kvm_pmu_any_to_watch(cpu))
		kvm_pmu_pend(cpu, KVM_PMU_START_WATCH);
}

/**
 * kvm_pmu_keeps_unused - does a CPU keep any backing event open that has no event?
 * @nr: the CPU, any
 * @info: not used
 *
 * The answer may be out of date: the CPU runs on.
 */
bool kvm_pmu_keeps_unused(int nr, void *info)
{
	return kvm_pmu_any(per_cpu(kvm_pmu_cpu, nr), kvm_pmu_is_unused);
}

/**
 * kvm_pmu_close_unused - close this CPU's backing events that have no event
 * @info: not used
 *
 * Interrupts are off, and perf is not at work on its events.
 */
void kvm_pmu_close_unused(void *info)
{
	struct kvm_pmu_cpu *cpu = this_kvm_pmu_cpu();
	struct kvm_pmu_backing *backing;

	for_each_backing(cpu, backing) {
		if (kvm_pmu_is_unused(backing))
			kvm_pmu_close(backing);
	}
}

/**
 * kvm_pmu_backing_stop - let an event count no more, from now on
 * @cpu: this CPU's
 * @event: the event, which keeps its backing event
 *
 * NMI-safe: an NMI may find the event outside of add and del, and in the middle of a
 * flush.
 */
void kvm_pmu_backing_stop(struct kvm_pmu_cpu *cpu, struct perf_event *event)
{
	struct kvm_pmu_backing *backing;
	enum kvm_pmu_event_state old;

	if (event->hw.idx < 0)
		return;

	backing = kvm_pmu_backing_of(cpu, event);
	old = kvm_pmu_hold(backing);
	if (old < KVM_PMU_STARTING)
		return;

	if (backing->host == KVM_PMU_RUNNING)
		kvm_pmu_disable_host(backing);
	else if (old == KVM_PMU_STARTING)
		/* A flush that is about to set RUNNING sees the new state. */
		return;

	if (old == KVM_PMU_COUNTING)
		kvm_pmu_backing_update(backing, event);
	/* In a flush, the operation's result has the final count of the leaving event. */
	if (!cpu->busy)
		kvm_pmu_settle_count(backing);
	kvm_pmu_page_changed(cpu, event);
}

/**
 * kvm_pmu_throttle - the host has stopped an event that overflows too often
 * @cpu: this CPU's
 * @backing: its backing event
 *
 * Has perf throttle it, as natively: perf writes a record, and starts the event again at
 * a tick.
 *
 * NMI-safe.
 */
void kvm_pmu_throttle(struct kvm_pmu_cpu *cpu, struct kvm_pmu_backing *backing)
{
	kvm_pmu_throttle_event(backing->event);
	kvm_pmu_backing_stop(cpu, backing->event);
}

/**
 * kvm_pmu_note_lost - the host has taken the counter of a running backing event
 * @cpu: this CPU's
 * @backing: the backing event
 *
 * As soon as interrupts are on, the work has perf schedule without the event, so that
 * perf knows how long it did not count.  NMI-safe.
 */
void kvm_pmu_note_lost(struct kvm_pmu_cpu *cpu, struct kvm_pmu_backing *backing)
{
	/*
	 * Do not warn of a spare backing event, whose count nobody misses, or of a kind
	 * of core that does not have the event.
	 */
	if ((READ_ONCE(backing->state) != KVM_PMU_FREE ||
	     READ_ONCE(backing->leaving)) && !kvm_pmu_is_for_kind(&backing->attr))
		kvm_pmu_warn(KVM_PMU_WARN_LOST);
	WRITE_ONCE(backing->lost, true);
	kvm_pmu_pend(cpu, KVM_PMU_GIVE_UP_LOST);
}

/* The driver ignores the other bits of record.flags. */
#define KVM_PMU_EVENT_FLAGS	(KVM_PERF_EVENT_LOST | KVM_PERF_EVENT_THROTTLED)

/**
 * kvm_pmu_look_at_flags - handle new flags of a backing event that does not count
 * @cpu: this CPU's
 * @backing: the backing event
 *
 * The flush looks at an event that is starting, once it counts.  NMI-safe.
 *
 * Return: whether any flag is new.
 */
bool kvm_pmu_look_at_flags(struct kvm_pmu_cpu *cpu,
			   struct kvm_pmu_backing *backing)
{
	u32 flags = READ_ONCE(backing->record.flags) & KVM_PMU_EVENT_FLAGS;
	u32 new = flags & ~backing->flags;

	if (READ_ONCE(backing->state) == KVM_PMU_STARTING)
		return new;

	backing->flags = flags;
	if (!new)
		return false;

	if (new & KVM_PERF_EVENT_LOST)
		kvm_pmu_note_lost(cpu, backing);
	else if (new & KVM_PERF_EVENT_THROTTLED &&
		 READ_ONCE(backing->state) == KVM_PMU_COUNTING)
		kvm_pmu_throttle(cpu, backing);

	return true;
}

/**
 * kvm_pmu_set_counting - from STARTING to COUNTING, unless an NMI has stopped the event
 * @cpu: this CPU's
 * @backing: the backing event, which the host runs
 */
void kvm_pmu_set_counting(struct kvm_pmu_cpu *cpu,
			  struct kvm_pmu_backing *backing)
{
	backing->event->hw.state = 0;
	if (cmpxchg(&backing->state, KVM_PMU_STARTING, KVM_PMU_COUNTING) !=
	    KVM_PMU_STARTING)
		kvm_pmu_set_stopped(backing->event);
	perf_event_update_userpage(backing->event);
	/* The event may owe samples from when it last counted, perhaps on another CPU. */
	if (*kvm_pmu_owed(backing->event))
		cpu->nmi.owing = true;
	/*
	 * The backing event may have run before: its flags then were not for this event,
	 * or came while the event could not be stopped.
	 */
	backing->flags = 0;
	if (READ_ONCE(backing->record.flags))
		kvm_pmu_look_at_flags(cpu, backing);
}

/* Bring all records up to date.  If that fails, returns false and nothing has changed. */
static bool kvm_pmu_read_all(struct kvm_pmu_cpu *cpu)
{
	long ret = kvm_perf_op(KVM_PERF_OP_READ, KVM_PERF_ID_ALL, 0);
	struct kvm_pmu_backing *backing;

	switch (kvm_pmu_result(KVM_PERF_OP_READ, ret)) {
	case KVM_PMU_NO_COUNTER:
		/* Each record's flags say whether its event is lost. */
		for_each_backing(cpu, backing)
			kvm_pmu_look_at_flags(cpu, backing);
		fallthrough;
	case KVM_PMU_DONE:
		return true;
	default:
		return false;
	}
}

/* Bring the record up to date. */
static enum kvm_pmu_result kvm_pmu_read_record(struct kvm_pmu_cpu *cpu,
					       struct kvm_pmu_backing *backing)
{
	enum kvm_pmu_result result;

	if (cpu->perf.reading && !cpu->perf.fresh)
		cpu->perf.fresh = kvm_pmu_read_all(cpu);
	if (cpu->perf.fresh)
		return KVM_PMU_DONE;

	result = kvm_pmu_result(KVM_PERF_OP_READ,
				kvm_perf_op(KVM_PERF_OP_READ,
					    backing->param.id, 0));
	if (result == KVM_PMU_NO_COUNTER)
		kvm_pmu_note_lost(cpu, backing);

	return result;
}

static noinline bool kvm_pmu_read_by_host(struct kvm_pmu_cpu *cpu,
					  struct kvm_pmu_backing *backing,
					  struct perf_event *event)
{
	enum kvm_pmu_result result = kvm_pmu_read_record(cpu, backing);

	kvm_pmu_backing_update(backing, event);
	return result != KVM_PMU_UNKNOWN;
}

/**
 * kvm_pmu_backing_read - bring an event's count up to date
 * @cpu: this CPU's
 * @event: an event that counts
 *
 * NMI-safe.
 *
 * Return: false if the host does not know the event any more.
 */
bool kvm_pmu_backing_read(struct kvm_pmu_cpu *cpu, struct perf_event *event)
{
	struct kvm_pmu_backing *backing = kvm_pmu_backing_of(cpu, event);
	bool known = true;
	u64 count;

	if (!kvm_pmu_is_sampling(backing) &&
	    kvm_pmu_rdpmc(cpu, backing, &count))
		kvm_pmu_count(event, count);
	else
		known = kvm_pmu_read_by_host(cpu, backing, event);

	/* READ may have made the counter readable again. */
	if (!in_nmi())
		kvm_pmu_page_changed(cpu, event);
	return known;
}
