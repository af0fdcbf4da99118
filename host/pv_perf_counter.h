/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Paravirtual performance events, host side, core: the operations on an open event.
 */
#ifndef __KVM_X86_PV_PERF_COUNTER_H
#define __KVM_X86_PV_PERF_COUNTER_H

#include "pv_perf_event.h"

int pv_perf_event_enable(struct kvm_vcpu *vcpu, u32 id);
int pv_perf_event_disable(struct kvm_vcpu *vcpu, u32 id, u64 *count);
int pv_perf_event_read(struct kvm *kvm, u32 id, u64 *count);
int pv_perf_event_read_all(struct kvm_vcpu *vcpu);
int pv_perf_event_set_period(struct kvm_vcpu *vcpu, u32 id, u64 period);
int pv_perf_event_set_left(struct kvm_vcpu *vcpu, u32 id, u64 *left);

#endif /* __KVM_X86_PV_PERF_COUNTER_H */
