/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Paravirtual performance events, host side, features: events of the hypervisor.
 */
#ifndef __KVM_X86_PV_PERF_COUNTS_H
#define __KVM_X86_PV_PERF_COUNTS_H

#include <linux/kvm_host.h>

#include "pv_perf_event.h"

void pv_perf_counts_add(struct pv_perf_counts *counts, unsigned int nr, u64 n);
u32 pv_perf_counts_allowed(struct kvm *kvm);
u32 pv_perf_counts_vcpu(struct kvm_vcpu *vcpu);
int pv_perf_counts_set(struct kvm_vcpu *vcpu, u64 wanted);
void pv_perf_counts_end(struct kvm_vcpu *vcpu);
void pv_perf_counts_enter(struct kvm_vcpu *vcpu);
void pv_perf_counts_tell(struct kvm_vcpu *vcpu);
void pv_perf_counts_flush(struct kvm_vcpu *vcpu);

#endif /* __KVM_X86_PV_PERF_COUNTS_H */
