// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, host side: what an event has counted, with
 * each of its backing events, and how the guest is told.
 */
#include <linux/kvm_host.h>
#include <linux/spinlock.h>
#include <linux/uaccess.h>

#include "pv_perf_backing.h"
#include "pv_perf_event.h"
#include "pv_perf_home.h"
#include "pv_perf_mode.h"
#include "pv_perf_read.h"
#include "pv_perf_record.h"

/* Why it does not count, though it is enabled. */
static __always_inline u32 pv_perf_flags(const struct pv_perf_event *event)
{
	u32 flags = 0;

	if (!event->enabled)
		return 0;

	if (event->lost || pv_perf_was_robbed(event))
		flags |= KVM_PERF_EVENT_LOST;
	if (event->throttled || pv_perf_backing_is_throttled(event->backing))
		flags |= KVM_PERF_EVENT_THROTTLED;

	return flags;
}

/* What this backing event has counted, and those before it. */
static __always_inline void pv_perf_add_past(struct pv_perf_event *event,
					     struct pv_perf_reading *reading)
{
	reading->count += event->past_count;
	reading->enabled += event->past_enabled;
	reading->running += event->past_running;
	reading->flags = pv_perf_flags(event);
}

/* One that has not counted since VM entry: see pv_perf_switch_mode(). */
static bool pv_perf_is_stopped(struct pv_perf_event *event,
			       struct pv_perf_position *at)
{
	struct pv_perf_vcpu *home = event->home;
	unsigned long flags;
	bool stopped;

	lockdep_assert_held(&home->lock);

	if (!pv_perf_may_be_stopped(event))
		return false;

	/* Its vCPU may be on the way from one mode to the other. */
	raw_spin_lock_irqsave(&home->enter_lock, flags);
	stopped = event->stopped;
	*at = event->stopped_at;
	raw_spin_unlock_irqrestore(&home->enter_lock, flags);

	return stopped;
}

/**
 * pv_perf_read_here - what an event has counted, if it counts on this CPU
 * @event: an open event
 * @reading: set to it
 *
 * In any context but NMI.
 *
 * Return: false, and nothing is read, where it does not.
 */
bool pv_perf_read_here(struct pv_perf_event *event,
		       struct pv_perf_reading *reading)
{
	if (!pv_perf_backing_read_here(event, false, reading))
		return false;

	pv_perf_add_past(event, reading);
	return true;
}

/**
 * pv_perf_read - what an event has counted
 * @event: an open event, its home locked
 * @reading: set to it
 *
 * May sleep.
 */
void pv_perf_read(struct pv_perf_event *event, struct pv_perf_reading *reading)
{
	struct pv_perf_position at;
	bool stopped;

	lockdep_assert_held(&event->home->lock);

	pv_perf_note_throttled(event);
	if (pv_perf_read_here(event, reading))
		return;

	/* Before and after: what has stopped may go on meanwhile, and the reverse. */
	stopped = pv_perf_is_stopped(event, &at);
	pv_perf_backing_read(event->backing, reading);
	pv_perf_note_throttled(event);
	if (stopped || pv_perf_is_stopped(event, &at)) {
		reading->count = at.count;
		reading->period_left = pv_perf_backing_left_at(event->backing,
							       &at);
	}
	pv_perf_add_past(event, reading);
}

/**
 * pv_perf_event_count - what an event has counted so far
 * @event: an open event, its home locked
 * @enabled: set to its time enabled
 * @running: set to its time running
 */
u64 pv_perf_event_count(struct pv_perf_event *event, u64 *enabled,
			u64 *running)
{
	struct pv_perf_reading reading;

	pv_perf_read(event, &reading);
	*enabled = reading.enabled;
	*running = reading.running;
	return reading.count;
}

/**
 * pv_perf_update_record - bring an event's record up to date
 * @kvm: the VM; kvm->srcu is held for reading
 * @event: the event, its home locked
 * @overflows: to be added to those that the guest has not seen
 * @count: set to the event's count where the record was written
 *
 * May sleep.
 *
 * Return: 0 or -EFAULT.
 */
int pv_perf_update_record(struct kvm *kvm, struct pv_perf_event *event,
			  unsigned int overflows, u64 *count)
{
	struct pv_perf_reading reading;
	int ret;

	pv_perf_read(event, &reading);
	ret = pv_perf_write_record(kvm, event, &reading, overflows);
	if (!ret)
		*count = reading.count;

	return ret;
}

/**
 * pv_perf_update_record_irqoff - the same with interrupts off
 * @kvm: the VM; kvm->srcu need not be held
 * @event: as above
 * @overflows: as above; all since the vCPU left the guest
 *
 * Return: 0, or -EAGAIN where it would have to wait; then nothing has changed.
 */
int pv_perf_update_record_irqoff(struct kvm *kvm, struct pv_perf_event *event,
				 unsigned int overflows)
{
	struct pv_perf_reading reading;
	int ret = -EAGAIN;
	int idx;

	if (!pv_perf_backing_read_here(event, overflows, &reading))
		return -EAGAIN;
	pv_perf_add_past(event, &reading);

	idx = srcu_read_lock(&kvm->srcu);
	pagefault_disable();
	if (!pv_perf_record_is_stale(kvm, event))
		ret = pv_perf_write_record(kvm, event, &reading, overflows);
	pagefault_enable();
	srcu_read_unlock(&kvm->srcu, idx);

	return ret ? -EAGAIN : 0;
}

/**
 * pv_perf_has_news - has the guest not been told of what the record should say?
 * @event: the event, its home locked
 *
 * That is, why it does not count.
 */
bool pv_perf_has_news(const struct pv_perf_event *event)
{
	return pv_perf_flags(event) != event->told;
}
