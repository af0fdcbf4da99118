/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Paravirtual performance events, host side, event: what of a guest an event does not
 * count, though its counter would.
 */
#ifndef __KVM_X86_PV_PERF_MODE_H
#define __KVM_X86_PV_PERF_MODE_H

#include "pv_perf_event.h"

void pv_perf_switch_modes(struct kvm_vcpu *vcpu);

/* Most entries find nothing to be stopped or started, without looking at an event. */
static inline bool pv_perf_may_switch_modes(struct kvm_vcpu *vcpu)
{
	const struct pv_perf_vcpu *here = vcpu->arch.pv_perf;

	if (here->any_stopped || here->at_entry & PV_PERF_AT_ENTRY_MODES)
		return true;

	return here->at_entry & PV_PERF_AT_ENTRY_NMI &&
	       (vcpu->arch.nmi_injected || here->in_nmi);
}

void pv_perf_note_throttled(struct pv_perf_event *event,
			    const struct perf_event *backing);
void pv_perf_forget_stopped(struct pv_perf_event *event);
void pv_perf_set_left(struct pv_perf_event *event, u64 left);
int pv_perf_set_period(struct pv_perf_event *event, u64 period);

#endif /* __KVM_X86_PV_PERF_MODE_H */
