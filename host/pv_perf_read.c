// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, host side: the count of an event, with all its
 * backing events, and how the guest is told.
 */

#include "pv_perf_core.h"
#include "pv_perf_memory.h"
#include "pv_perf_seam.h"

/* Why the event does not count, though it is enabled. */
static __always_inline u32 pv_perf_flags(const struct pv_perf_event *event)
{
	u32 flags = pv_perf_why(event) & (PV_PERF_LOST | PV_PERF_LIMITED);

	if (!event->enabled)
		return 0;

	if (pv_perf_backing_has_no_counter(event->backing))
		flags |= KVM_PERF_EVENT_LOST;
	if (pv_perf_backing_is_throttled(event->backing))
		flags |= KVM_PERF_EVENT_THROTTLED;

	return flags;
}

/* Add the counts of earlier backing events. */
static __always_inline void pv_perf_add_past(struct pv_perf_event *event,
					     struct pv_perf_reading *reading)
{
	reading->count += event->past_count;
	reading->enabled += event->past_enabled;
	reading->running += event->past_running;
	reading->flags = pv_perf_flags(event);
}

static bool __pv_perf_stopped_at(struct pv_perf_event *event,
				 struct pv_perf_position *at)
{
	struct pv_perf_vcpu *home = event->home;
	unsigned long flags;
	bool stopped;

	lockdep_assert_held(&home->lock);

	raw_spin_lock_irqsave(&home->enter_lock, flags);
	/* Pairs with the release of pv_perf_note_throttled(). */
	stopped = atomic_read_acquire(&event->why) & PV_PERF_STOPPED;
	*at = event->stopped_at;
	raw_spin_unlock_irqrestore(&home->enter_lock, flags);

	return stopped;
}

/*
 * Where the event is stopped, if it is.  Its vCPU may start or stop it meanwhile.  A
 * disabled event is not stopped: DISABLE has forgotten that, see pv_perf_forget_stopped().
 */
static __always_inline bool pv_perf_stopped_at(struct pv_perf_event *event,
					       struct pv_perf_position *at)
{
	return event->enabled && pv_perf_may_be_stopped(event) &&
	       __pv_perf_stopped_at(event, at);
}

static __always_inline bool __pv_perf_read_here(struct pv_perf_event *event,
						struct pv_perf_reading *reading)
{
	if (!pv_perf_backing_read_here(event, false, reading))
		return false;

	pv_perf_add_past(event, reading);
	return true;
}

/**
 * pv_perf_read_here - read an event, if it counts on this CPU
 * @event: an open event
 * @reading: set to its count and times
 *
 * Not in NMI context.
 *
 * Return: false, and nothing is read, if it does not count here.
 */
bool pv_perf_read_here(struct pv_perf_event *event,
		       struct pv_perf_reading *reading)
{
	return __pv_perf_read_here(event, reading);
}

/* It did not count on this CPU just now. */
static void pv_perf_read_there(struct pv_perf_event *event,
			       struct pv_perf_reading *reading)
{
	struct pv_perf_position at;
	bool stopped;

	/* Before and after: a stopped event may start meanwhile, and the reverse. */
	stopped = pv_perf_stopped_at(event, &at);
	pv_perf_backing_read(event->backing, reading);
	if (stopped || pv_perf_stopped_at(event, &at)) {
		reading->count = at.count;
		reading->period_left = pv_perf_backing_left_at(event->backing,
							       &at);
	}
	pv_perf_add_past(event, reading);
}

static __always_inline void __pv_perf_read(struct pv_perf_event *event,
					   struct pv_perf_reading *reading)
{
	lockdep_assert_held(&event->home->lock);

	if (!__pv_perf_read_here(event, reading))
		pv_perf_read_there(event, reading);
}

/**
 * pv_perf_read - read an event
 * @event: an open event, its home locked
 * @reading: set to its count and times
 *
 * May sleep.
 */
void pv_perf_read(struct pv_perf_event *event, struct pv_perf_reading *reading)
{
	__pv_perf_read(event, reading);
}

/**
 * pv_perf_update_record - bring an event's record up to date
 * @event: the event, its home locked; kvm->srcu is held for reading
 * @overflows: to be added to those that the guest has not seen
 * @may_sleep: if false, page faults and interrupts are off, and @overflows are all
 *	overflows since the vCPU left the guest, or 0
 * @count: set to the event's count if the record was written, or NULL
 *
 * Return: 0, -EFAULT, or -EAGAIN if it would have to wait; then nothing has changed.
 */
int pv_perf_update_record(struct pv_perf_event *event, unsigned int overflows,
			  bool may_sleep, u64 *count)
{
	struct kvm *kvm = event->home->vcpu->kvm;
	struct pv_perf_reading reading;
	int ret;

	if (may_sleep) {
		__pv_perf_read(event, &reading);
	} else {
		if (pv_perf_is_stale(kvm, &event->record) ||
		    !pv_perf_backing_read_here(event, overflows, &reading))
			return -EAGAIN;
		pv_perf_add_past(event, &reading);
	}

	ret = pv_perf_write_record(kvm, event, &reading, overflows);
	if (!ret && count)
		*count = reading.count;

	return ret;
}

/**
 * pv_perf_has_news - are the record's flags to be written?
 * @event: the event, its home locked
 *
 * They say why the event does not count, or, after that, that it counts again.
 */
bool pv_perf_has_news(const struct pv_perf_event *event)
{
	return event->owed || pv_perf_flags(event) != event->told;
}
