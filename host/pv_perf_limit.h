/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Paravirtual performance events, host side, event: what a VM may have.
 */
#ifndef __KVM_X86_PV_PERF_LIMIT_H
#define __KVM_X86_PV_PERF_LIMIT_H

#include "pv_perf_event.h"

bool pv_perf_is_offered(struct kvm_vcpu *vcpu);
unsigned int pv_perf_max_events_per_vcpu(struct kvm *kvm);
unsigned int pv_perf_events_allowed(struct kvm *kvm);
unsigned int pv_perf_rate_allowed(struct kvm *kvm);
unsigned int pv_perf_counters_allowed(struct kvm *kvm);
void pv_perf_charge_open(struct kvm_vcpu *vcpu);
bool pv_perf_wait_to_open(struct kvm_vcpu *vcpu);
int pv_perf_charge_event(struct kvm_vcpu *vcpu);
void pv_perf_uncharge_event(struct kvm *kvm);
int pv_perf_check_room(struct kvm_vcpu *vcpu);
bool pv_perf_charge_overflows(struct kvm_vcpu *vcpu, u64 n);
bool pv_perf_rate_exceeded(struct kvm_vcpu *vcpu);
s64 pv_perf_rate_time(struct kvm_vcpu *vcpu);

#endif /* __KVM_X86_PV_PERF_LIMIT_H */
