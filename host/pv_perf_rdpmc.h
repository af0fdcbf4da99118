/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Paravirtual performance events, host side, features: RDPMC in the guest, without exits.
 */
#ifndef __KVM_X86_PV_PERF_RDPMC_H
#define __KVM_X86_PV_PERF_RDPMC_H

#include "pv_perf_event.h"

unsigned int pv_perf_rdpmc_unasked(void);
u32 pv_perf_rdpmc_host(struct pv_perf_host *host);
u32 pv_perf_rdpmc_vcpu(struct kvm_vcpu *vcpu);
bool pv_perf_rdpmc_goes_on(struct kvm_vcpu *vcpu);
bool pv_perf_rdpmc_enter(struct kvm_vcpu *vcpu);
void pv_perf_rdpmc_end(struct pv_perf_event *event, bool nmi);
bool pv_perf_rdpmc_tell_rest(struct kvm_vcpu *vcpu);

#endif /* __KVM_X86_PV_PERF_RDPMC_H */
