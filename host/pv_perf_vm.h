/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Paravirtual performance events, host side, top: a vCPU's first operation.
 */
#ifndef __KVM_X86_PV_PERF_VM_H
#define __KVM_X86_PV_PERF_VM_H

#include <linux/kvm_host.h>

int pv_perf_vcpu_prepare(struct kvm_vcpu *vcpu);

#endif /* __KVM_X86_PV_PERF_VM_H */
