// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, host side: who has a counter.
 *
 * A backing event is pinned: it has a counter whenever its thread runs, or is
 * in error.  An event of the host with precedence may take the counter of one
 * that counts; that event has lost it, until the guest has been told.
 */

#include "pv_perf_core.h"
#include "pv_perf_seam.h"
#include "x86.h"
#include "pmu.h"

/**
 * pv_perf_note_lost - see whether an event has lost its counter
 * @event: the event, its home locked
 */
void pv_perf_note_lost(struct pv_perf_event *event)
{
	if (!pv_perf_is_newly_lost(event))
		return;

	/*
	 * The guest is to be told.  First, as VM entry does not find it any more once it
	 * is marked; who sees the request waits for the home's lock.
	 */
	kvm_make_request(KVM_REQ_PV_PERF, event->home->vcpu);
	pv_perf_set_why(event, PV_PERF_LOST);
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
 * @event: the event, its select set
 *
 * As the filter lets KVM's virtual PMU count it: what a general-purpose counter can
 * count is looked up in the list, the rest in the bitmap of fixed counters.
 */
bool pv_perf_is_allowed(struct kvm *kvm, const struct pv_perf_event *event)
{
	return kvm_pmu_event_allowed(kvm, event->select,
				     pv_perf_backing_only_fixed(event->select));
}

/**
 * pv_perf_apply_filter - stop what the VM's event filter does not allow any more
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
		if (!event->enabled || pv_perf_is_allowed(vcpu->kvm, event))
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

/* The general-purpose counters that the vCPU's events have without @but. */
static unsigned int pv_perf_counters_used(struct pv_perf_vcpu *home,
					  const struct pv_perf_event *but)
{
	struct pv_perf_event *event;
	unsigned int n = 0;

	list_for_each_entry(event, &home->events, node) {
		if (event != but && pv_perf_has_counter(event) &&
		    !pv_perf_backing_is_fixed(event->backing))
			n += pv_perf_backing_counters(event->backing);
	}

	return n;
}

/* The general-purpose counters that it takes where @fixed are taken; takes its own. */
static unsigned int pv_perf_counters_beside(const struct perf_event *backing,
					    unsigned long *fixed)
{
	unsigned long own = pv_perf_backing_fixed(backing) & ~*fixed;

	*fixed |= own;
	return own ? 0 : pv_perf_backing_counters(backing);
}

/*
 * With this event, would the vCPU's take no more than @most general-purpose counters if
 * each fixed counter had one that it can count?  perf sees to that only as it places all
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
 * perf has moved an event out of a fixed counter for an older one, which has been refused,
 * and leaves it where it is.
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
		pv_perf_backing_forget_counter(event->backing);
		perf_event_enable(event->backing);
	}
}

static bool pv_perf_has_started(struct pv_perf_vcpu *home,
				const struct pv_perf_event *starting,
				const struct perf_event *backing,
				unsigned int most)
{
	unsigned int n = pv_perf_counters_used(home, starting);

	if (!pv_perf_backing_is_fixed(backing))
		n += pv_perf_backing_counters(backing);

	return !pv_perf_backing_has_no_counter(backing) &&
	       !pv_perf_any_newly_lost(home) && n <= most;
}

/**
 * pv_perf_start - let a backing event count, if perf has a counter for it
 * @home: where its event is, or will be; locked
 * @event: the event
 * @backing: its backing event, or the one that it will have, on @home's thread
 *
 * On the backing event's thread the answer is there at once.  perf schedules
 * all pinned events of a thread anew: the one that finds no counter is the
 * youngest of them, not always the one that is being enabled.  It gets its
 * counter back; the vCPU is in the host, so it has missed nothing.  Those that
 * had lost theirs before stay so until the guest is told.
 *
 * Beyond the limit on counters perf is not even asked: to find out, it would
 * take one from an event of the host, which is not given it back before perf
 * next rotates those.  Only where a fixed counter might do it is: whether that is
 * free, perf knows.
 *
 * May sleep, with kvm->srcu held for reading.
 *
 * Return: 0, -EBUSY, or -EOPNOTSUPP if the VM's event filter does not allow it.
 */
int pv_perf_start(struct pv_perf_vcpu *home, struct pv_perf_event *event,
		  struct perf_event *backing)
{
	struct pv_perf_event *other;
	unsigned int used, most;
	bool only_fixed;

	lockdep_assert_held(&home->lock);

	/* The filter may have changed since the event was opened. */
	if (!pv_perf_is_allowed(home->vcpu->kvm, event))
		return -EOPNOTSUPP;

	list_for_each_entry(other, &home->events, node)
		pv_perf_note_lost(other);

	used = pv_perf_counters_used(home, event);
	/* The limit may have fallen, or the host taken a fixed one from them. */
	most = max(used, pv_perf_counters_allowed(home->vcpu->kvm));
	only_fixed = used + pv_perf_backing_counters(backing) > most;
	if (only_fixed && !pv_perf_may_fit(home, event, backing, most))
		return -EBUSY;

	if (only_fixed)
		pv_perf_backing_forget_counter(backing);
	perf_event_enable(backing);
	if (pv_perf_has_started(home, event, backing,
				only_fixed ? most : UINT_MAX))
		return 0;

	perf_event_disable(backing);
	pv_perf_restart_newly_lost(home);
	/* Not each time: a guest may ask in a loop. */
	if (pv_perf_counters_used(home, event) > used)
		pv_perf_return_moved(home, event);
	return -EBUSY;
}
