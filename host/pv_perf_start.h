/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Paravirtual performance events, host side, core: who has a counter.
 */
#ifndef __KVM_X86_PV_PERF_START_H
#define __KVM_X86_PV_PERF_START_H

#include "pv_perf_backing.h"
#include "pv_perf_event.h"

bool pv_perf_is_allowed(struct kvm *kvm, const struct pv_perf_event *event);
void pv_perf_apply_filter(struct kvm_vcpu *vcpu);
int pv_perf_start(struct pv_perf_vcpu *home, struct pv_perf_event *event,
		  struct perf_event *backing);
void pv_perf_note_lost(struct pv_perf_event *event);

#endif /* __KVM_X86_PV_PERF_START_H */
