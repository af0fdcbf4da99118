// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, host side: nested guests.
 *
 * The hardware counts a nested guest as it does the guest, so an event that is
 * to count only one of them is stopped while the other runs.
 *
 * perf does not know of that.  Until the next VM entry it may schedule the
 * event out and in, give it another counter, which leaves what is in there and
 * what perf knows of it apart, and at a tick start it (to adapt the period to a
 * frequency), none of which counts anything, as the host is not counted.  So the
 * count that it had when it was stopped is the one that holds, and whatever
 * perf takes for it meanwhile does not.
 */
#include <linux/kvm_host.h>
#include <linux/lockdep.h>

#include "pv_perf_backing.h"
#include "pv_perf_event.h"
#include "pv_perf_mode.h"

static void pv_perf_stop_event(struct pv_perf_event *event)
{
	u64 count = pv_perf_backing_stop(event->backing);

	if (!event->stopped)
		event->stopped_count = count;
	event->stopped = true;
}

static void pv_perf_restart_event(struct pv_perf_event *event)
{
	event->stopped = false;
	pv_perf_backing_restart(event->backing, event->stopped_count);
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
