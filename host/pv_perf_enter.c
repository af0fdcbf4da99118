// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, host side: right before a vCPU enters the
 * guest.
 *
 * IRQs off: perf schedules nothing any more on this CPU until the vCPU leaves the
 * guest.
 *
 *	pv_perf_enter()
 *	  pv_perf_enter_with_events()
 *	    pv_perf_counts_enter()	hypervisor events
 *	    pv_perf_enter_first()	no entry if the kind of core has changed
 *	      pv_perf_freq_tick()	for each event with a frequency
 *	    pv_perf_enter_goes_on()	pv_perf_switch_modes(), pv_perf_branches_enter();
 *					true if pv_perf_rdpmc_goes_on(): that is all
 *	    pv_perf_enter_rdpmc()	after pv_perf_deliver_at_exit(); or
 *	    pv_perf_enter_anew()	looks for lost counters, pv_perf_enter_rdpmc()
 *	    kvm_make_request()		if there is something to deliver: no entry
 */
#include <linux/export.h>

#include "compat.h"
#include "pv_perf.h"
#include "pv_perf_core.h"
#include "pv_perf_features.h"
#include "pv_perf_seam.h"
#include "x86.h"

/* Returns false if there is something to tell. */
static bool pv_perf_enter_rdpmc(struct kvm_vcpu *vcpu)
{
	return !(vcpu->arch.pv_perf->at_entry & PV_PERF_AT_ENTRY_RDPMC) ||
	       pv_perf_rdpmc_enter(vcpu);
}

/*
 * Stop and restart events as the mode needs, and then: does each event still have the
 * counter that the guest was told?  True only for a guest that reads its counters.
 */
static __always_inline bool pv_perf_enter_goes_on(struct kvm_vcpu *vcpu)
{
	if (pv_perf_may_switch_modes(vcpu))
		pv_perf_switch_modes(vcpu);

	if (vcpu->arch.pv_perf->at_entry & PV_PERF_AT_ENTRY_BRANCHES)
		pv_perf_branches_enter(vcpu);

	return vcpu->arch.pv_perf->at_entry & PV_PERF_AT_ENTRY_RDPMC &&
	       pv_perf_rdpmc_goes_on(vcpu);
}

static void pv_perf_adapt_periods(struct pv_perf_vcpu *here)
{
	struct pv_perf_event *event;

	list_for_each_entry(event, &here->events, node) {
		if (pv_perf_has_freq(event))
			pv_perf_freq_tick(event);
	}
}

/*
 * Before other work on events.  Returns false if the events have to go on with the
 * backing events of another kind of core.
 */
static bool pv_perf_enter_first(struct pv_perf_vcpu *here)
{
	if (pv_perf_is_hybrid()) {
		if (here->kind != this_cpu_read(pv_perf_cpu_kind))
			return false;
		if (!(here->at_entry & PV_PERF_AT_ENTRY_FREQ))
			return true;
	}

	pv_perf_adapt_periods(here);
	return true;
}

/* Look at all events.  Returns false if there is something to tell. */
static bool pv_perf_enter_anew(struct kvm_vcpu *vcpu)
{
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;
	struct pv_perf_event *event;
	bool lost = false, told;

	list_for_each_entry(event, &here->events, node) {
		if (pv_perf_backing_has_no_counter(event->backing))
			lost |= pv_perf_is_newly_lost(event);
	}
	told = pv_perf_enter_rdpmc(vcpu);
	/* A nested guest's RDPMC is intercepted apart from this guest's. */
	if (list_empty(&here->events) && !is_guest_mode(vcpu)) {
		here->at_entry &= PV_PERF_AT_ENTRY_COUNTS;
		vcpu->arch.pv_perf_retires = 0;
	}

	return told && !lost;
}

/**
 * pv_perf_enter_with_events - the work of a VM entry for a vCPU's events
 * @vcpu: the vCPU, as for pv_perf_enter()
 * @again: the host has run nothing since the exit, so all events have the counters that
 *	they had
 *
 * An event may have lost its counter since the guest ran.  The guest must be told before
 * it runs on, so this entry is given up for the request.
 */
void pv_perf_enter_with_events(struct kvm_vcpu *vcpu, bool again)
{
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;
	bool told;

	lockdep_assert_irqs_disabled();

	if (!again && here->at_entry & PV_PERF_AT_ENTRY_COUNTS)
		pv_perf_counts_enter(vcpu);

	raw_spin_lock(&here->enter_lock);
	if (!again && here->at_entry & PV_PERF_AT_ENTRY_FIRST &&
	    !pv_perf_enter_first(here))
		told = false;
	else
		told = pv_perf_enter_goes_on(vcpu) ||
		       (again ? pv_perf_enter_rdpmc(vcpu) : pv_perf_enter_anew(vcpu));
	raw_spin_unlock(&here->enter_lock);

	if (!told)
		kvm_make_request(KVM_REQ_PV_PERF, vcpu);
}
EXPORT_SYMBOL_FOR_KVM_INTERNAL(pv_perf_enter_with_events);
