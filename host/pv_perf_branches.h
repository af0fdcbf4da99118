/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Paravirtual performance events, host side, features: the branches that led to an
 * overflow.
 */
#ifndef __KVM_X86_PV_PERF_BRANCHES_H
#define __KVM_X86_PV_PERF_BRANCHES_H

#include "pv_perf_event.h"

unsigned int pv_perf_branches_probe(void);
void pv_perf_branches_enter(struct kvm_vcpu *vcpu);
int pv_perf_branches_tell(struct kvm_vcpu *vcpu, bool may_sleep);

#endif /* __KVM_X86_PV_PERF_BRANCHES_H */
