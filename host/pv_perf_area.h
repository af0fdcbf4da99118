/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Paravirtual performance events, host side, memory: the area of a vCPU.
 */
#ifndef __KVM_X86_PV_PERF_AREA_H
#define __KVM_X86_PV_PERF_AREA_H

#include <linux/kvm_host.h>

#include "pv_perf_event.h"

int pv_perf_area_set(struct kvm_vcpu *vcpu, gpa_t gpa);
int pv_perf_area_refresh(struct kvm *kvm, struct pv_perf_area *area);
void pv_perf_area_end(struct kvm_vcpu *vcpu);
void pv_perf_area_end_all(struct kvm *kvm);
bool pv_perf_area_show_again(struct kvm_vcpu *vcpu);
void pv_perf_area_leave(struct kvm_vcpu *vcpu);

#endif /* __KVM_X86_PV_PERF_AREA_H */
