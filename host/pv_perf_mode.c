// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, host side: nested guests.
 *
 * The hardware counts a nested guest as it does the guest, so an event that is
 * to count only one of them is stopped while the other runs.
 *
 * perf does not know of that.  Until the next VM entry it may schedule the
 * event out and in, and give it another counter, which before Linux 7.0 has what
 * it counted for somebody else until the event starts.  Who reads the event on
 * another CPU then has perf add that to the count and take it from what is left of
 * the period.  None of which counts anything, as the host is not counted.  So the
 * count that it had when it was stopped, and its place in its period, are those
 * that hold, and whatever perf takes for them meanwhile does not.
 */
#include <linux/kvm_host.h>
#include <linux/lockdep.h>
#include <linux/perf_event.h>
#include <linux/spinlock.h>

#include "pv_perf_backing.h"
#include "pv_perf_event.h"
#include "pv_perf_home.h"
#include "pv_perf_mode.h"

static void pv_perf_stop_event(struct pv_perf_event *event)
{
	struct pv_perf_position at;

	pv_perf_backing_stop(event->backing, &at);
	/* Or perf has started it since. */
	if (!event->stopped)
		event->stopped_at = at;
	event->stopped = true;
}

static void pv_perf_restart_event(struct pv_perf_event *event)
{
	event->stopped = false;
	pv_perf_backing_restart(event->backing, &event->stopped_at);
}

static void pv_perf_set_stopped_left(struct pv_perf_event *event, u64 left)
{
	struct pv_perf_vcpu *home = event->home;
	unsigned long flags;

	if (!pv_perf_excludes_mode(event))
		return;

	raw_spin_lock_irqsave(&home->enter_lock, flags);
	if (event->stopped)
		event->stopped_at.left = left;
	raw_spin_unlock_irqrestore(&home->enter_lock, flags);
}

/**
 * pv_perf_set_left - set when an event overflows next
 * @event: the event, which has a period, its home locked
 * @left: after how many events, 0 for a whole period
 *
 * May sleep.
 */
void pv_perf_set_left(struct pv_perf_event *event, u64 left)
{
	/* Before and after: its vCPU may go from one mode to the other. */
	pv_perf_set_stopped_left(event, left);
	pv_perf_backing_set_left(event->backing, left);
	pv_perf_set_stopped_left(event, left);
}

/**
 * pv_perf_set_period - set an event's period, and begin one
 * @event: the event, whose period is not adapted here, its home locked
 * @period: the period
 *
 * May sleep.
 *
 * Return: 0, or -EINVAL if perf does not allow it.
 */
int pv_perf_set_period(struct pv_perf_event *event, u64 period)
{
	int ret = perf_event_period(event->backing, period);

	if (!ret)
		pv_perf_set_stopped_left(event, 0);

	return ret;
}

static bool pv_perf_must_switch(struct pv_perf_event *event, bool stop)
{
	if (!pv_perf_backing_is_here(event->backing))
		return false;

	/*
	 * It may be stopped already, by us at an earlier entry or by perf, which
	 * has throttled it.  If by perf alone, it is perf's to start it.
	 */
	return stop ? !pv_perf_backing_is_stopped(event->backing) :
		      event->stopped;
}

/**
 * pv_perf_switch_mode - have an event count what runs next, or not
 * @event: the event, which excludes one of the two; its home is this vCPU, and
 *	its enter_lock is held
 * @nested: a nested guest runs next
 * @pmu: the PMU that has been disabled for it, or NULL; to be enabled
 *
 * All events are of the core's one PMU.
 */
void pv_perf_switch_mode(struct pv_perf_event *event, bool nested,
			 struct pmu **pmu)
{
	bool stop = nested ? event->not_nested : event->only_nested;

	lockdep_assert_held(&event->home->enter_lock);

	if (!pv_perf_must_switch(event, stop))
		return;

	if (!*pmu)
		*pmu = pv_perf_backing_pmu_disable(event->backing);

	if (stop)
		pv_perf_stop_event(event);
	else
		pv_perf_restart_event(event);
}
