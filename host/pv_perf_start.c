// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, host side: which events have a counter.
 *
 * A backing event is pinned: it has a counter whenever its thread runs, or is in error.
 * A host event with precedence may take the counter of a running event.  That event has
 * then lost its counter, until an ENABLE or a READ restarts it.
 */

#include "compat.h"
#include "pv_perf_core.h"
#include "pv_perf_seam.h"
#include "x86.h"
#include "pmu.h"

/*
 * The request comes first, because VM entry does not look at an event that is marked.
 * The request's handler waits for the home's lock.
 */
static noinline void pv_perf_mark_lost(struct pv_perf_event *event)
{
	kvm_make_request(KVM_REQ_PV_PERF, event->home->vcpu);
	pv_perf_set_why(event, PV_PERF_LOST);
}

/**
 * pv_perf_note_lost - see whether an event has lost its counter
 * @event: the event, its home locked
 */
void pv_perf_note_lost(struct pv_perf_event *event)
{
	if (pv_perf_is_newly_lost(event))
		pv_perf_mark_lost(event);
}

static bool pv_perf_any_newly_lost(struct pv_perf_vcpu *home)
{
	struct pv_perf_event *event;

	list_for_each_entry(event, &home->events, node) {
		if (pv_perf_is_newly_lost(event))
			return true;
	}

	return false;
}

static void pv_perf_restart_newly_lost(struct pv_perf_vcpu *home)
{
	struct pv_perf_event *event;

	list_for_each_entry(event, &home->events, node) {
		if (pv_perf_is_newly_lost(event))
			perf_event_enable(event->backing);
	}
}

/**
 * pv_perf_is_allowed - does the VM's event filter allow an event?
 * @kvm: the VM; kvm->srcu is held for reading
 * @select: the event's event select
 *
 * Like KVM's virtual PMU: an event of a general-purpose counter is looked up in the
 * list, the others in the bitmap of fixed counters.
 */
bool pv_perf_is_allowed(struct kvm *kvm, u64 select)
{
	return kvm_pmu_event_allowed(kvm, select, pv_perf_backing_only_fixed(select));
}

/**
 * pv_perf_apply_filter - disable events that the VM's event filter denies now
 * @vcpu: the vCPU, by its own thread, with kvm->srcu held for reading
 *
 * May sleep.
 */
void pv_perf_apply_filter(struct kvm_vcpu *vcpu)
{
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;
	struct pv_perf_event *event;

	mutex_lock(&here->lock);
	list_for_each_entry(event, &here->events, node) {
		if (!event->enabled || pv_perf_is_allowed(vcpu->kvm, event->select))
			continue;
		perf_event_disable(event->backing);
		pv_perf_clear_why(event, PV_PERF_LIMITED);
		pv_perf_set_why(event, PV_PERF_LOST);
	}
	mutex_unlock(&here->lock);
}

/* A parked or limited event has no counter; pv_perf_start() finds one when it goes on. */
static bool pv_perf_has_counter(const struct pv_perf_event *event)
{
	return event->enabled &&
	       !(pv_perf_why(event) & (PV_PERF_LOST | PV_PERF_LIMITED | PV_PERF_PARKED));
}

/* General-purpose counters that an event has. */
static unsigned int pv_perf_counters_of(const struct pv_perf_event *event)
{
	if (!pv_perf_has_counter(event) || pv_perf_backing_is_fixed(event->backing))
		return 0;

	return pv_perf_backing_counters(event->backing);
}

/* General-purpose counters of the vCPU's events except @but. */
static unsigned int pv_perf_counters_used(struct pv_perf_vcpu *home,
					  const struct pv_perf_event *but)
{
	struct pv_perf_event *event;
	unsigned int n = 0;

	list_for_each_entry(event, &home->events, node) {
		if (event != but)
			n += pv_perf_counters_of(event);
	}

	return n;
}

/*
 * General-purpose counters that it needs beside @fixed; adds its fixed one to @fixed.
 */
static unsigned int pv_perf_counters_beside(const struct perf_event *backing,
					    unsigned long *fixed)
{
	unsigned long own = pv_perf_backing_fixed(backing) & ~*fixed;

	*fixed |= own;
	return own ? 0 : pv_perf_backing_counters(backing);
}

/*
 * Would the vCPU's events, with @starting, take at most @most general-purpose counters
 * if each fixed counter had an event?  perf ensures that only when it places all events
 * anew.
 */
static bool pv_perf_may_fit(struct pv_perf_vcpu *home,
			    const struct pv_perf_event *starting,
			    const struct perf_event *backing,
			    unsigned int most)
{
	struct pv_perf_event *event;
	unsigned long fixed = 0;
	unsigned int n;

	if (!pv_perf_backing_fixed(backing))
		return false;

	n = pv_perf_counters_beside(backing, &fixed);
	list_for_each_entry(event, &home->events, node) {
		if (event != starting && pv_perf_has_counter(event))
			n += pv_perf_counters_beside(event->backing, &fixed);
	}

	return n <= most;
}

/*
 * perf has moved an event out of a fixed counter for @refused, and does not move it
 * back.
 */
static void pv_perf_return_moved(struct pv_perf_vcpu *home,
				 const struct pv_perf_event *refused)
{
	struct pv_perf_event *event;

	list_for_each_entry(event, &home->events, node) {
		if (event == refused || !pv_perf_has_counter(event) ||
		    !pv_perf_backing_fixed(event->backing) ||
		    pv_perf_backing_is_fixed(event->backing))
			continue;
		perf_event_disable(event->backing);
		pv_perf_counter_forget(event->backing);
		perf_event_enable(event->backing);
	}
}

/* Do all events have a counter, and at most @most?  UINT_MAX: however many. */
static bool pv_perf_has_started(struct pv_perf_vcpu *home,
				const struct pv_perf_event *starting,
				const struct perf_event *backing,
				unsigned int most)
{
	unsigned int n;

	/* The thread has come to another kind of core: KVM starts the event again there. */
	if (pv_perf_backing_waits(backing))
		return true;

	if (pv_perf_backing_has_no_counter(backing) || pv_perf_any_newly_lost(home))
		return false;

	if (most == UINT_MAX)
		return true;

	n = pv_perf_counters_used(home, starting);
	if (!pv_perf_backing_is_fixed(backing))
		n += pv_perf_backing_counters(backing);

	return n <= most;
}

/**
 * pv_perf_start - let a backing event count, if perf has a counter for it
 * @home: the old or the new home of its event; locked
 * @event: the event
 * @backing: its backing event, or the one that it will have, on @home's thread
 *
 * Runs on the backing event's thread, so the answer is there at once.  If no counter is
 * free, perf schedules all pinned events of a thread anew: the youngest finds no counter,
 * which is not always the event that is being enabled.  It gets its counter back.  The
 * vCPU is in the host, so it has missed no count.  Events that had lost their counter
 * stay so until the guest is told.
 *
 * Beyond the limit on counters perf is not asked: it would take a counter from a host
 * event, which gets it back only when perf next rotates those.  The exception is an
 * event for which a fixed counter might do: only perf knows whether that is free.
 *
 * May sleep, with kvm->srcu held for reading.
 *
 * Return: 0, -EBUSY, or -EOPNOTSUPP if the VM's event filter does not allow it.
 */
int pv_perf_start(struct pv_perf_vcpu *home, struct pv_perf_event *event,
		  struct perf_event *backing)
{
	struct pv_perf_event *other;
	unsigned int used = 0, most;
	bool only_fixed;

	lockdep_assert_held(&home->lock);

	/*
	 * The filter may have changed since the event was opened, and another kind of core
	 * may have another event select.
	 */
	if (!pv_perf_is_allowed(home->vcpu->kvm, backing == event->backing ?
				event->select : pv_perf_backing_select(backing)))
		return -EOPNOTSUPP;

	/* One walk, also past the many events that a guest may keep open. */
	list_for_each_entry(other, &home->events, node) {
		if (!other->enabled)
			continue;
		pv_perf_note_lost(other);
		if (other != event)
			used += pv_perf_counters_of(other);
	}

	/* The limit may be lower now, or the host may have taken a fixed counter. */
	most = max(used, pv_perf_counters_allowed(home->vcpu->kvm));
	only_fixed = used + pv_perf_backing_counters(backing) > most;
	if (only_fixed && !pv_perf_may_fit(home, event, backing, most))
		return -EBUSY;

	if (only_fixed)
		pv_perf_counter_forget(backing);
	perf_event_enable(backing);
	if (pv_perf_has_started(home, event, backing,
				only_fixed ? most : UINT_MAX))
		return 0;

	perf_event_disable(backing);
	pv_perf_restart_newly_lost(home);
	/* Only if an event was moved: a guest may ask in a loop. */
	if (pv_perf_counters_used(home, event) > used)
		pv_perf_return_moved(home, event);
	return -EBUSY;
}
