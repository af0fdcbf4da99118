/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Paravirtual performance events, host side: features.
 */
#ifndef __KVM_X86_PV_PERF_FEATURES_H
#define __KVM_X86_PV_PERF_FEATURES_H

#include "pv_perf_event.h"

/* pv_perf_branches.c */

unsigned int pv_perf_branches_probe(void);
void pv_perf_branches_enter(struct kvm_vcpu *vcpu);
int pv_perf_branches_tell(struct kvm_vcpu *vcpu, bool may_sleep);

/* pv_perf_counts.c */

void pv_perf_counts_add(struct pv_perf_counts *counts, unsigned int nr, u64 n);
u32 pv_perf_counts_allowed(struct kvm *kvm);
u32 pv_perf_counts_vcpu(struct kvm_vcpu *vcpu);
int pv_perf_counts_set(struct kvm_vcpu *vcpu, u64 wanted);
void pv_perf_counts_end(struct kvm_vcpu *vcpu);
void pv_perf_counts_enter(struct kvm_vcpu *vcpu);
void pv_perf_counts_tell(struct kvm_vcpu *vcpu);
void pv_perf_counts_flush(struct kvm_vcpu *vcpu);

/* pv_perf_freq.c */

void pv_perf_freq_init(struct pv_perf_event *event);
int pv_perf_freq_set(struct pv_perf_event *event, u64 hz);
void pv_perf_freq_set_left(struct pv_perf_event *event,
			   const struct pv_perf_reading *reading, u64 left);
void pv_perf_freq_overflow(struct pv_perf_event *event,
			   struct perf_event *backing);
void pv_perf_freq_tick(struct pv_perf_event *event);

/* pv_perf_rdpmc.c */

unsigned int pv_perf_rdpmc_unasked(void);
u32 pv_perf_rdpmc_host(struct pv_perf_host *host);
u32 pv_perf_rdpmc_vcpu(struct kvm_vcpu *vcpu);
bool pv_perf_rdpmc_goes_on(struct kvm_vcpu *vcpu);
bool pv_perf_rdpmc_enter(struct kvm_vcpu *vcpu);
void pv_perf_rdpmc_end(struct pv_perf_event *event, bool nmi);
bool pv_perf_rdpmc_tell_rest(struct kvm_vcpu *vcpu);

#endif /* __KVM_X86_PV_PERF_FEATURES_H */
