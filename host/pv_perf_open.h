/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Paravirtual performance events, host side, core: opening and closing.
 */
#ifndef __KVM_X86_PV_PERF_OPEN_H
#define __KVM_X86_PV_PERF_OPEN_H

#include "pv_perf_event.h"

int pv_perf_event_open(struct kvm_vcpu *vcpu, u32 id,
		       const struct perf_event_attr *attr, u64 flags,
		       gpa_t record);
int pv_perf_event_close(struct kvm *kvm, u32 id);
void pv_perf_close_vm_events(struct kvm_vcpu *vcpu);
bool pv_perf_close_rest(struct kvm_vcpu *vcpu);
void pv_perf_close_vcpu_events(struct kvm_vcpu *vcpu);
void pv_perf_release_pmu(struct pv_perf_vm *vm);

#endif /* __KVM_X86_PV_PERF_OPEN_H */
