// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, host side: delivers overflows and flags to the guest,
 * and disables events that overflow too often.
 *
 *	pv_perf_deliver_at_exit()	right at the exit for the NMI of an overflow, or
 *	pv_perf_handle_request()	before the next entry: pv_perf_deliver()
 *	  pv_perf_deliver_all()
 *	    pv_perf_deliver_event()
 *	      pv_perf_deliver_overflows()	pv_perf_branches_tell(),
 *						pv_perf_update_record(), pv_perf_limit()
 *	      pv_perf_wait_for_rate()	disables a limited event, or lets it go on
 *	      pv_perf_update_record()	if the guest does not know the event's flags yet
 *	  pv_perf_inject_nmi()		at the exit, VMX's or SVM's code does that
 */
#include <linux/export.h>
#include <linux/math64.h>
#include <linux/srcu.h>
#include <linux/uaccess.h>

#include "compat.h"
#include "pv_perf.h"
#include "pv_perf_core.h"
#include "pv_perf_features.h"
#include "pv_perf_seam.h"
#include "pv_perf_top.h"
#include "pv_perf_trace.h"
#include "x86.h"

/* The vCPU has had too many overflows, the last of @event: limit it. */
static void pv_perf_limit(struct pv_perf_event *event)
{
	struct pv_perf_vcpu *home = event->home;

	if (!event->enabled || pv_perf_why(event) & PV_PERF_LIMITED)
		return;

	pv_perf_set_why(event, PV_PERF_LIMITED);
	WRITE_ONCE(home->limited, home->limited + 1);
}

/* Let the event overflow again, if it finds a counter and had not lost it before. */
static void pv_perf_unlimit(struct pv_perf_event *event)
{
	pv_perf_clear_why(event, PV_PERF_LIMITED);
	if (!(pv_perf_why(event) & PV_PERF_LOST) &&
	    pv_perf_start(event->home, event, event->backing))
		pv_perf_set_why(event, PV_PERF_LOST);
}

/* Disable the event until the vCPU's overflows are back at the rate that it may have. */
static void pv_perf_wait_for_rate(struct pv_perf_event *event)
{
	s64 time = pv_perf_rate_time(event->home->vcpu);

	/* A parked event is looked at again when its vCPU runs on its thread. */
	if (pv_perf_why(event) & PV_PERF_PARKED)
		return;

	if (!time) {
		pv_perf_unlimit(event);
		return;
	}

	/* Do not stop the counter only: perf might start it again at any time. */
	perf_event_disable(event->backing);
	hrtimer_start(&event->home->rate_timer, ns_to_ktime(time),
		      HRTIMER_MODE_ABS);
}

/**
 * pv_perf_rate_timer - have a vCPU look at its limited events
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

/*
 * Take the overflows that the guest has not been told of, and the sum of their periods.
 * An NMI may add an overflow and its period at any instruction here.
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

/* The guest has been told of an event, and is to get an NMI. */
#define PV_PERF_DELIVER_NMI	BIT(0)
/* The delivery would have to wait, and is left to the request. */
#define PV_PERF_DELIVER_AGAIN	BIT(1)

/* Tell the guest of an event's overflows. */
static unsigned int pv_perf_deliver_overflows(struct kvm_vcpu *vcpu,
					      struct pv_perf_event *event,
					      bool may_sleep)
{
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;
	int ret = 0, branches = 0;
	unsigned int n;
	u64 passed;

	n = pv_perf_take_overflows(event, &passed);
	event->last_period = div_u64(passed, n);

	/* Branches before the overflow.  Useless if the record cannot be written. */
	if (pv_perf_has_branches(event))
		branches = pv_perf_branches_tell(vcpu, may_sleep);
	if (may_sleep || !branches)
		ret = pv_perf_update_record(event, n, may_sleep, NULL);

	if (!may_sleep && (ret || branches)) {
		atomic64_add(passed, &event->passed);
		atomic_add(n, &event->overflows);
		return PV_PERF_DELIVER_AGAIN;
	}

	/* Charge them also if the guest cannot be told: the host has had the work. */
	if (pv_perf_charge_overflows(vcpu, n))
		pv_perf_limit(event);

	/* A guest that took the record's memory away gets no NMI for it. */
	if (ret)
		return 0;

	event->owed = 0;
	trace_kvm_pv_perf_overflow(vcpu->vcpu_id, event->id, n,
				   event->last_period);
	WRITE_ONCE(here->delivered, here->delivered + n);
	return PV_PERF_DELIVER_NMI;
}

/*
 * Tell the guest of an event's overflows, and why the event does not count.  With
 * PV_PERF_AT_NMI_EXIT, the request tells of all but the overflows.
 */
static unsigned int pv_perf_deliver_event(struct kvm_vcpu *vcpu,
					  struct pv_perf_event *event,
					  enum pv_perf_when when)
{
	bool may_sleep = when != PV_PERF_AT_NMI_EXIT;
	unsigned int todo = 0;
	u32 told = event->told & ~event->owed;

	if (may_sleep) {
		/* pv_perf_note_lost() would make the request that is served here. */
		if (pv_perf_is_newly_lost(event))
			pv_perf_set_why(event, PV_PERF_LOST);
		if (pv_perf_why(event) & PV_PERF_LOST)
			pv_perf_forget_stopped(event);
	}

	if (atomic_read(&event->overflows))
		todo = pv_perf_deliver_overflows(vcpu, event, may_sleep);

	if (!may_sleep) {
		if (pv_perf_why(event) & PV_PERF_LIMITED ||
		    (!todo && pv_perf_has_news(event)))
			todo |= PV_PERF_DELIVER_AGAIN;
		return todo;
	}

	if (pv_perf_why(event) & PV_PERF_LIMITED)
		pv_perf_wait_for_rate(event);

	if (!pv_perf_has_news(event) &&
	    !(when == PV_PERF_AT_LEAVE && event->enabled && !todo))
		return todo;

	if (pv_perf_update_record(event, 0, true, NULL))
		return todo;

	event->owed = 0;
	if (event->flags & KVM_PERF_ATTR_NOTIFY && event->told & ~told)
		todo |= PV_PERF_DELIVER_NMI;
	return todo;
}

/* The guest may keep many events for later.  The host has nothing to tell of these. */
static __always_inline bool pv_perf_is_silent(const struct pv_perf_event *event)
{
	return !(event->enabled | event->told | atomic_read(&event->overflows));
}

/* The vCPU is locked.  Returns whether the guest is to get an NMI. */
static bool pv_perf_deliver_all(struct kvm_vcpu *vcpu, enum pv_perf_when when)
{
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;
	struct pv_perf_event *event;
	unsigned int todo = 0;

	list_for_each_entry(event, &here->events, node) {
		if (!pv_perf_is_silent(event))
			todo |= pv_perf_deliver_event(vcpu, event, when);
	}

	/* An event that started again may have taken an earlier event's counter. */
	if (when == PV_PERF_AT_LEAVE) {
		list_for_each_entry(event, &here->events, node) {
			if (!pv_perf_is_silent(event))
				todo |= pv_perf_deliver_event(vcpu, event,
							      PV_PERF_AT_REQUEST);
		}
	}

	if (todo & PV_PERF_DELIVER_AGAIN)
		kvm_make_request(KVM_REQ_PV_PERF, vcpu);
	if (when != PV_PERF_AT_NMI_EXIT && pv_perf_rdpmc_tell_rest(vcpu))
		todo |= PV_PERF_DELIVER_NMI;

	return todo & PV_PERF_DELIVER_NMI;
}

/**
 * pv_perf_deliver - deliver overflows and flags of events that do not count
 * @vcpu: the vCPU, on its own thread, with kvm->srcu held for reading
 * @when: PV_PERF_AT_REQUEST or PV_PERF_AT_LEAVE
 *
 * Brings the records of the events that have overflowed, or do not count any more, up
 * to date, and injects an NMI.  Disables events that overflow too often, or lets them go
 * on.  May sleep.
 */
void pv_perf_deliver(struct kvm_vcpu *vcpu, enum pv_perf_when when)
{
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;
	bool nmi;

	mutex_lock(&here->lock);
	nmi = pv_perf_deliver_all(vcpu, when);
	mutex_unlock(&here->lock);

	if (nmi)
		pv_perf_inject_nmi(vcpu);
}

/* Returns false, and changes nothing, if the vCPU's lock is taken. */
static bool pv_perf_deliver_irqoff(struct kvm_vcpu *vcpu)
{
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;
	bool nmi = false;
	int idx;

	if (!mutex_trylock(&here->lock))
		return false;

	if (kvm_check_request(KVM_REQ_PV_PERF, vcpu)) {
		idx = srcu_read_lock(&vcpu->kvm->srcu);
		pagefault_disable();
		nmi = pv_perf_deliver_all(vcpu, PV_PERF_AT_NMI_EXIT);
		pagefault_enable();
		srcu_read_unlock(&vcpu->kvm->srcu, idx);
	}
	mutex_unlock(&here->lock);

	return nmi;
}

/**
 * pv_perf_deliver_at_exit - deliver overflows right at the exit they caused
 * @vcpu: the vCPU, which has left the guest for an NMI that the host has
 *	handled; with interrupts off, kvm->srcu not held
 *
 * Spares the vCPU the way out of the run loop and in again.  The request does the rest:
 * deliveries that have to wait for a lock or a page, or tell of more than overflows.
 *
 * Return: true if the caller is to inject an NMI, call pv_perf_enter() and enter.
 */
bool pv_perf_deliver_at_exit(struct kvm_vcpu *vcpu)
{
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;
	bool nmi;

	lockdep_assert_irqs_disabled();

	/*
	 * This request cannot be for a vCPU that has to wait (pv_perf_wait_to_open()),
	 * which would not have entered the guest.
	 */
	if (!pv_perf_may_reenter(vcpu, BIT_ULL(KVM_REQ_PV_PERF & KVM_REQUEST_MASK)))
		return false;

	nmi = pv_perf_deliver_irqoff(vcpu);

	/*
	 * filter_changed is set before its request is made.  So if that request has just
	 * been taken away here, the flag is seen, and the request made again.
	 */
	if (READ_ONCE(here->filter_changed))
		kvm_make_request(KVM_REQ_PV_PERF, vcpu);

	if (nmi)
		WRITE_ONCE(here->counts.nmi_is_ours, true);
	return nmi;
}
EXPORT_SYMBOL_FOR_KVM_INTERNAL(pv_perf_deliver_at_exit);
