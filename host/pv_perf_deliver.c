// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, host side: tells the guest of overflows and lost
 * counters, and stops events that overflow too often.
 */
#include <linux/export.h>
#include <linux/hrtimer.h>
#include <linux/kernel.h>
#include <linux/kvm_host.h>
#include <linux/math64.h>
#include <linux/mutex.h>

#include "compat.h"
#include "pv_perf.h"
#include "pv_perf_backing.h"
#include "pv_perf_branches.h"
#include "pv_perf_deliver.h"
#include "pv_perf_event.h"
#include "pv_perf_limit.h"
#include "pv_perf_mode.h"
#include "pv_perf_overflow.h"
#include "pv_perf_rdpmc.h"
#include "pv_perf_read.h"
#include "pv_perf_start.h"
#include "pv_perf_trace.h"
#include "x86.h"

/* The vCPU has had too many overflows, and this event is what has the last. */
static void pv_perf_throttle(struct pv_perf_event *event)
{
	struct pv_perf_vcpu *home = event->home;

	if (!event->enabled || event->throttled)
		return;

	event->throttled = true;
	WRITE_ONCE(home->throttled, home->throttled + 1);
}

/* It may overflow again, if it finds a counter, and had not lost it before. */
static void pv_perf_unthrottle(struct pv_perf_event *event)
{
	event->throttled = false;
	if (!event->lost && pv_perf_start(event->home, event, event->backing))
		WRITE_ONCE(event->lost, true);
}

/* Stop it until the vCPU's overflows are back at the rate it may have. */
static void pv_perf_wait_for_rate(struct pv_perf_event *event)
{
	s64 time = pv_perf_rate_time(event->home->vcpu);

	/* It is looked at again when it goes on. */
	if (event->parked)
		return;

	if (!time) {
		pv_perf_unthrottle(event);
		return;
	}

	/* Not just the counter: perf would start that again when it likes. */
	perf_event_disable(event->backing);
	hrtimer_start(&event->home->rate_timer, ns_to_ktime(time),
		      HRTIMER_MODE_ABS);
}

/**
 * pv_perf_rate_timer - have a vCPU look at its throttled events
 * @timer: of its struct pv_perf_vcpu
 */
enum hrtimer_restart pv_perf_rate_timer(struct hrtimer *timer)
{
	struct pv_perf_vcpu *pv = container_of(timer, struct pv_perf_vcpu,
					       rate_timer);

	kvm_make_request(KVM_REQ_PV_PERF, pv->vcpu);
	kvm_vcpu_kick(pv->vcpu);
	return HRTIMER_NORESTART;
}

static __always_inline void pv_perf_delivered(struct kvm_vcpu *vcpu,
					      struct pv_perf_event *event,
					      unsigned int n)
{
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;

	trace_kvm_pv_perf_overflow(vcpu->vcpu_id, event->id, n,
				   event->last_period);
	WRITE_ONCE(here->delivered, here->delivered + n);
}

/* Bring an event's record up to date; true if its flags are to come with an NMI. */
static bool pv_perf_tell_anew(struct kvm_vcpu *vcpu, struct pv_perf_event *event)
{
	u32 told = event->told & ~event->owed;
	u64 count;

	if (pv_perf_update_record(vcpu->kvm, event, 0, &count))
		return false;

	event->owed = 0;
	return event->notify && event->told & ~told;
}

/* Tell the guest that an event does not count, or does again; true for an NMI. */
static bool pv_perf_tell_flags(struct kvm_vcpu *vcpu,
			       struct pv_perf_event *event)
{
	return (event->owed || pv_perf_has_news(event)) &&
	       pv_perf_tell_anew(vcpu, event);
}

/*
 * Take the overflows that the guest has not been told of, and the sum of their periods.
 * An NMI adds one of both at any instruction here.
 */
static unsigned int pv_perf_take_overflows(struct pv_perf_event *event,
					   u64 *passed)
{
	int n = atomic_read(&event->overflows);

	do {
		*passed = atomic64_read(&event->passed);
	} while (!atomic_try_cmpxchg(&event->overflows, &n, 0));
	atomic64_sub(*passed, &event->passed);

	return n;
}

/* Tell the guest of an event's overflows; true if there were any. */
static bool pv_perf_deliver(struct kvm_vcpu *vcpu, struct pv_perf_event *event)
{
	unsigned int n;
	u64 passed, count;

	n = pv_perf_take_overflows(event, &passed);
	event->last_period = div_u64(passed, n);

	/* Whether or not the guest can be told: the host has had the work. */
	if (pv_perf_charge_overflows(vcpu, n))
		pv_perf_throttle(event);

	/* Before the overflow; of no use where that cannot be told. */
	if (event->branches)
		pv_perf_branches_tell(vcpu);

	/* A guest that took the record's memory away gets no NMI for it. */
	if (pv_perf_update_record(vcpu->kvm, event, n, &count))
		return false;

	event->owed = 0;
	pv_perf_delivered(vcpu, event, n);
	return true;
}

/* The guest is told before it runs on; true if it is to get an NMI. */
static bool pv_perf_tell_event(struct kvm_vcpu *vcpu,
			       struct pv_perf_event *event)
{
	bool nmi = false;

	/* Not by pv_perf_note_lost(): the request for that is this one. */
	if (pv_perf_was_robbed(event))
		WRITE_ONCE(event->lost, true);
	if (event->lost)
		pv_perf_forget_stopped(event);
	if (atomic_read(&event->overflows))
		nmi = pv_perf_deliver(vcpu, event);
	if (event->throttled)
		pv_perf_wait_for_rate(event);

	return pv_perf_tell_flags(vcpu, event) || nmi;
}

/**
 * pv_perf_tell - tell the guest whatever there is to tell
 * @vcpu: the vCPU, about to enter the guest, or being stopped
 *
 * Brings the records of the events that have overflowed, or do not count any
 * more, up to date, and injects an NMI.  Stops or starts events that overflow too
 * often.
 */
void pv_perf_tell(struct kvm_vcpu *vcpu)
{
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;
	struct pv_perf_event *event;
	bool nmi = false;

	mutex_lock(&here->lock);
	list_for_each_entry(event, &here->events, node)
		nmi |= pv_perf_tell_event(vcpu, event);
	nmi |= pv_perf_rdpmc_tell_rest(vcpu);
	mutex_unlock(&here->lock);

	if (nmi)
		pv_perf_inject_nmi(vcpu);
}

/* The same with interrupts off; -EAGAIN, and no change, if it has to wait. */
static int pv_perf_deliver_irqoff(struct kvm_vcpu *vcpu,
				  struct pv_perf_event *event)
{
	unsigned int n;
	u64 passed;

	if (!atomic_read(&event->overflows))
		return 0;

	n = pv_perf_take_overflows(event, &passed);
	/* After that: what throttles it from now on is told of by another request. */
	pv_perf_note_throttled(event);
	event->last_period = div_u64(passed, n);

	if ((event->branches && pv_perf_branches_tell_irqoff(vcpu)) ||
	    pv_perf_update_record_irqoff(vcpu->kvm, event, n)) {
		atomic64_add(passed, &event->passed);
		atomic_add(n, &event->overflows);
		return -EAGAIN;
	}

	event->owed = 0;
	pv_perf_delivered(vcpu, event, n);
	if (pv_perf_charge_overflows(vcpu, n))
		pv_perf_throttle(event);
	return 1;
}

static bool pv_perf_deliver_all_irqoff(struct kvm_vcpu *vcpu)
{
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;
	struct pv_perf_event *event;
	bool nmi = false;
	int ret;

	list_for_each_entry(event, &here->events, node) {
		/* Of those that the guest keeps for later there may be many. */
		if (!(event->enabled | event->told |
		      atomic_read(&event->overflows)))
			continue;

		ret = pv_perf_deliver_irqoff(vcpu, event);
		nmi |= ret > 0;
		/* These may sleep, and the request was for them, too. */
		if (ret < 0 || event->throttled ||
		    (!ret && (event->owed || pv_perf_has_news(event))))
			kvm_make_request(KVM_REQ_PV_PERF, vcpu);
	}

	return nmi;
}

/**
 * pv_perf_handle_nmi_exit - deliver overflows right at the exit they caused
 * @vcpu: the vCPU, which has left the guest for an NMI that the host has
 *	handled; with interrupts off, kvm->srcu not held
 *
 * Spares the vCPU the way out of the run loop and in again.  What would have to
 * wait for a lock or a page, or is more than overflows, is left to the request.
 *
 * Return: true if the caller is to inject an NMI, call pv_perf_reenter() and enter.
 */
bool pv_perf_handle_nmi_exit(struct kvm_vcpu *vcpu)
{
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;
	bool nmi;

	lockdep_assert_irqs_disabled();

	/*
	 * Whatever else is pending comes first, and has requests.  That this
	 * one is not for a vCPU that has to wait, see pv_perf_wait_to_open(),
	 * is sure: such a vCPU has not entered the guest.
	 */
	if (READ_ONCE(vcpu->requests) !=
	    BIT_ULL(KVM_REQ_PV_PERF & KVM_REQUEST_MASK) || !here ||
	    vcpu->arch.nmi_pending || vcpu->guest_debug ||
	    here->counts.wanted || IS_ENABLED(CONFIG_PREEMPT_RT))
		return false;

	if (!mutex_trylock(&here->lock))
		return false;

	nmi = kvm_check_request(KVM_REQ_PV_PERF, vcpu) &&
	      pv_perf_deliver_all_irqoff(vcpu);
	mutex_unlock(&here->lock);

	/*
	 * Set before the request was made, so that this sees it where it has
	 * just taken that request away.
	 */
	if (READ_ONCE(here->filter_changed))
		kvm_make_request(KVM_REQ_PV_PERF, vcpu);

	if (nmi)
		WRITE_ONCE(here->counts.nmi_is_ours, true);
	return nmi;
}
EXPORT_SYMBOL_FOR_KVM_INTERNAL(pv_perf_handle_nmi_exit);

/**
 * pv_perf_update_records - tell the guest whatever there is to tell
 * @vcpu: the vCPU, which leaves KVM_RUN
 *
 * The VMM may save the guest's memory now, and restore it elsewhere.  What comes
 * with an NMI is told first; and again what comes while the records are written.
 */
void pv_perf_update_records(struct kvm_vcpu *vcpu)
{
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;
	struct pv_perf_event *event;
	bool nmi = false;

	/* The request stays: it may be for more than this. */
	pv_perf_tell(vcpu);

	mutex_lock(&here->lock);
	list_for_each_entry(event, &here->events, node) {
		if (event->enabled)
			nmi |= pv_perf_tell_anew(vcpu, event);
	}
	mutex_unlock(&here->lock);

	if (nmi)
		pv_perf_inject_nmi(vcpu);
}
