// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, host side: right before a vCPU enters the
 * guest.
 *
 * Interrupts are off, so perf schedules nothing any more on this CPU until the
 * vCPU leaves the guest.
 */
#include <linux/export.h>
#include <linux/kvm_host.h>
#include <linux/list.h>
#include <linux/lockdep.h>
#include <linux/spinlock.h>

#include "compat.h"
#include "pv_perf.h"
#include "pv_perf_backing.h"
#include "pv_perf_counts.h"
#include "pv_perf_event.h"
#include "pv_perf_freq.h"
#include "pv_perf_home.h"
#include "pv_perf_mode.h"
#include "pv_perf_rdpmc.h"
#include "pv_perf_start.h"
#include "x86.h"

/* After all that may change what counts; false if there is something to tell. */
static bool pv_perf_enter_last(struct kvm_vcpu *vcpu)
{
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;

	if (here->at_entry & (PV_PERF_AT_ENTRY_MODES | PV_PERF_AT_ENTRY_NMI))
		pv_perf_switch_modes(vcpu);

	return !(here->at_entry & PV_PERF_AT_ENTRY_RDPMC) ||
	       pv_perf_rdpmc_enter(vcpu);
}

/**
 * pv_perf_enter_with_events - what every entry does for a vCPU's events
 * @vcpu: the vCPU, as for pv_perf_enter()
 *
 * An event may have lost its counter since the guest ran: it must not run on
 * before it has been told, so this entry is given up for the request.
 */
void pv_perf_enter_with_events(struct kvm_vcpu *vcpu)
{
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;
	struct pv_perf_event *event;
	bool lost = false;

	lockdep_assert_irqs_disabled();

	if (here->at_entry & PV_PERF_AT_ENTRY_COUNTS)
		pv_perf_counts_enter(vcpu);

	raw_spin_lock(&here->enter_lock);
	list_for_each_entry(event, &here->events, node) {
		if (pv_perf_backing_has_no_counter(event->backing))
			lost |= pv_perf_was_robbed(event);
		if (pv_perf_has_freq(event))
			pv_perf_freq_tick(event);
	}
	lost |= !pv_perf_enter_last(vcpu);
	/* A nested guest's RDPMC is intercepted apart from this guest's. */
	if (list_empty(&here->events) && !is_guest_mode(vcpu))
		here->at_entry &= PV_PERF_AT_ENTRY_COUNTS;
	raw_spin_unlock(&here->enter_lock);

	if (lost)
		kvm_make_request(KVM_REQ_PV_PERF, vcpu);
}

/**
 * pv_perf_reenter_with_events - as that, right after an exit that is handled
 * @vcpu: the vCPU, with interrupts off, before KVM looks whether anything is requested
 *
 * The host has run nothing meanwhile, so all have the counters that they had.
 */
void pv_perf_reenter_with_events(struct kvm_vcpu *vcpu)
{
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;
	bool told;

	lockdep_assert_irqs_disabled();

	raw_spin_lock(&here->enter_lock);
	told = pv_perf_enter_last(vcpu);
	raw_spin_unlock(&here->enter_lock);

	if (!told)
		kvm_make_request(KVM_REQ_PV_PERF, vcpu);
}
EXPORT_SYMBOL_FOR_KVM_INTERNAL(pv_perf_reenter_with_events);
