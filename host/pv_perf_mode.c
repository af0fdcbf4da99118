// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, host side: parts of a guest that an event does not
 * count, though its counter would.
 *
 * The hardware counts a nested guest like the guest.  So an event that counts only one
 * of them is stopped while the other runs.
 *
 * An event that counts the guest's kernel is stopped while the guest handles an NMI:
 * the handler may execute more than a short period has.  On bare metal the handler
 * stops all counters.
 *
 * perf does not know that the event is stopped.  Until the next VM entry it may
 * schedule the event out and in, and give it another counter.  Before Linux 7.0 that
 * counter has another event's count until the event starts: if the event is read on
 * another CPU, perf adds the stale value to the count and takes it from the period.
 * The host is not counted, so nothing is counted meanwhile.  So the count and the
 * position in the period at the stop hold, whatever perf takes for them.
 *
 * The same holds for an event that perf has throttled: it may get another counter, too,
 * and before Linux 7.0 perf starts it again without writing that counter.
 */

#include "compat.h"
#include "pv_perf.h"
#include "pv_perf_core.h"
#include "pv_perf_seam.h"
#include "x86.h"

static void pv_perf_stop_event(struct pv_perf_event *event)
{
	struct pv_perf_position at;

	pv_perf_counter_stop(event->backing, &at);
	/*
	 * If perf has started the event since, perf may not have written the counter.
	 * Then perf has added another event's count from it.
	 */
	if (!pv_perf_is_stopped(event))
		event->stopped_at = at;
	else if (at.count != event->stopped_at.count)
		pv_perf_counter_set_moved(event->backing);
	pv_perf_set_why(event, PV_PERF_STOPPED);
}

/**
 * pv_perf_note_throttled - note an event's position when perf throttles it
 * @event: the event
 * @backing: its backing event, which overflows now
 *
 * In NMI context.  If the event is stopped already, and VM entry has not started it
 * since, its position has not changed.
 */
void pv_perf_note_throttled(struct pv_perf_event *event,
			    const struct perf_event *backing)
{
	if (pv_perf_is_stopped(event))
		return;

	event->stopped_at = pv_perf_counter_position(backing);
	/* Pairs with the acquire of pv_perf_stopped_at(). */
	atomic_fetch_or_release(PV_PERF_STOPPED, &event->why);
	WRITE_ONCE(READ_ONCE(event->home)->any_stopped, true);
}

/**
 * pv_perf_forget_stopped - an event that was stopped does not count any more
 * @event: the event, whose backing event perf has disabled, or has put into error; its
 *	home locked
 *
 * Gives the backing event its position back, so that VM entry need not look for it.
 */
void pv_perf_forget_stopped(struct pv_perf_event *event)
{
	struct pv_perf_vcpu *home = event->home;
	unsigned long flags;

	if (!pv_perf_is_stopped(event))
		return;

	raw_spin_lock_irqsave(&home->enter_lock, flags);
	pv_perf_counter_restore(event->backing, &event->stopped_at);
	pv_perf_clear_why(event, PV_PERF_STOPPED);
	raw_spin_unlock_irqrestore(&home->enter_lock, flags);
}

static void pv_perf_restart_event(struct pv_perf_event *event)
{
	pv_perf_clear_why(event, PV_PERF_STOPPED);
	pv_perf_counter_restart(event->backing, &event->stopped_at);
}

static void pv_perf_set_stopped_left(struct pv_perf_event *event, u64 left)
{
	struct pv_perf_vcpu *home = event->home;
	unsigned long flags;

	if (!pv_perf_may_be_stopped(event))
		return;

	raw_spin_lock_irqsave(&home->enter_lock, flags);
	if (pv_perf_is_stopped(event)) {
		event->stopped_at.left = left;
		event->stopped_at.set = true;
	}
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
	/*
	 * If the event counts on another CPU, perf stops its counter for the change.
	 * With the request, its vCPU waits for the home's lock.  Otherwise the guest
	 * would run on uncounted, without being told.
	 */
	if (!pv_perf_backing_is_mine(event->backing))
		kvm_make_request(KVM_REQ_PV_PERF, event->home->vcpu);

	/* Before and after: meanwhile its vCPU may switch modes, or overflow. */
	pv_perf_set_stopped_left(event, left);
	pv_perf_counter_set_left(event->backing, left);
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
	int ret;

	ret = pv_perf_counter_change_period(event->backing, period);
	if (!ret)
		pv_perf_set_stopped_left(event, 0);

	return ret;
}

static bool pv_perf_must_switch(struct pv_perf_event *event, bool stop)
{
	if (!pv_perf_backing_is_here(event->backing))
		return false;

	/*
	 * The event may be stopped already, at an earlier entry, or by perf, which has
	 * throttled it.  Only perf may start a throttled event.
	 */
	return stop ? !pv_perf_backing_is_stopped(event->backing) :
		      pv_perf_is_stopped(event) &&
		      !pv_perf_backing_is_throttled(event->backing);
}

static bool pv_perf_must_stop(const struct pv_perf_event *event, bool nested)
{
	if (nested)
		return event->flags & KVM_PERF_ATTR_EXCLUDE_GUEST;

	return event->flags & KVM_PERF_ATTR_EXCLUDE_HOST ||
	       (event->home->in_nmi && pv_perf_counts_kernel(event));
}

static bool pv_perf_any_counts_kernel(struct pv_perf_vcpu *here)
{
	struct pv_perf_event *event;

	list_for_each_entry(event, &here->events, node) {
		if (pv_perf_counts_kernel(event) &&
		    pv_perf_backing_is_here(event->backing))
			return true;
	}

	return false;
}

/*
 * Does the guest handle an NMI after this entry, and does an event count its kernel?
 * Only for a handler whose begin an entry has seen.
 */
static bool pv_perf_handles_nmi(struct kvm_vcpu *vcpu)
{
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;

	return (vcpu->arch.nmi_injected || here->in_nmi) &&
	       !is_guest_mode(vcpu) && pv_perf_any_counts_kernel(here) &&
	       kvm_x86_call(handles_nmi)(vcpu);
}

/* All events are of the core's PMU, which is disabled only once. */
static void pv_perf_switch_mode(struct pv_perf_event *event, bool nested,
				struct pmu **pmu)
{
	bool stop = pv_perf_must_stop(event, nested);

	if (!pv_perf_must_switch(event, stop))
		return;

	if (!*pmu)
		*pmu = pv_perf_counters_disable(event->backing);

	if (stop)
		pv_perf_stop_event(event);
	else
		pv_perf_restart_event(event);
}

static void pv_perf_switch_all(struct pv_perf_vcpu *here, bool nested)
{
	struct pv_perf_event *event;
	struct pmu *pmu = NULL;

	/* perf's callback may set any_stopped at any time from here on. */
	WRITE_ONCE(here->any_stopped, false);
	list_for_each_entry(event, &here->events, node) {
		if (!pv_perf_may_be_stopped(event))
			continue;
		pv_perf_switch_mode(event, nested, &pmu);
		if (pv_perf_is_stopped(event))
			WRITE_ONCE(here->any_stopped, true);
	}
	if (pmu)
		pv_perf_counters_enable(pmu);
}

/**
 * pv_perf_switch_modes - stop and start events for the mode that runs next
 * @vcpu: the vCPU, which enters the guest, with interrupts off and its enter_lock
 *	held
 *
 * A stopped event may have been disabled since, or have lost its counter: it goes on
 * when it counts again.
 */
void pv_perf_switch_modes(struct kvm_vcpu *vcpu)
{
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;

	lockdep_assert_held(&here->enter_lock);

	here->in_nmi = pv_perf_handles_nmi(vcpu);
	if (here->in_nmi || here->any_stopped ||
	    here->at_entry & PV_PERF_AT_ENTRY_MODES)
		pv_perf_switch_all(here, is_guest_mode(vcpu));
}
