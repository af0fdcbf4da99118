/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Paravirtual performance events, host side: features.
 *
 * The series for mainline brings each in patches of its own: until then, it is built
 * without.
 */
#ifndef __KVM_X86_PV_PERF_FEATURES_H
#define __KVM_X86_PV_PERF_FEATURES_H

#include "pv_perf_event.h"

/* pv_perf_branches.c */

#ifndef PV_PERF_WITHOUT_BRANCHES
unsigned int pv_perf_branches_probe(void);
void pv_perf_branches_enter(struct kvm_vcpu *vcpu);
int pv_perf_branches_tell(struct kvm_vcpu *vcpu, bool may_sleep);
#else
static inline unsigned int pv_perf_branches_probe(void)
{
	return 0;
}

static inline void pv_perf_branches_enter(struct kvm_vcpu *vcpu)
{
}

static inline int pv_perf_branches_tell(struct kvm_vcpu *vcpu, bool may_sleep)
{
	return 0;
}
#endif

/* pv_perf_counts.c */

#ifndef PV_PERF_WITHOUT_COUNTS
void pv_perf_counts_add(struct pv_perf_counts *counts, unsigned int nr, u64 n);
u32 pv_perf_counts_allowed(struct kvm *kvm);
u32 pv_perf_counts_vcpu(struct kvm_vcpu *vcpu);
int pv_perf_counts_set(struct kvm_vcpu *vcpu, u64 wanted);
void pv_perf_counts_end(struct kvm_vcpu *vcpu);
void pv_perf_counts_enter(struct kvm_vcpu *vcpu);
void pv_perf_counts_tell(struct kvm_vcpu *vcpu);
void pv_perf_counts_flush(struct kvm_vcpu *vcpu);
#else
static inline u32 pv_perf_counts_allowed(struct kvm *kvm)
{
	return 0;
}

static inline u32 pv_perf_counts_vcpu(struct kvm_vcpu *vcpu)
{
	return 0;
}

static inline int pv_perf_counts_set(struct kvm_vcpu *vcpu, u64 wanted)
{
	if (wanted >> KVM_PERF_NR_COUNTS)
		return -EINVAL;

	return wanted ? -EOPNOTSUPP : 0;
}

static inline void pv_perf_counts_end(struct kvm_vcpu *vcpu)
{
}

static inline void pv_perf_counts_enter(struct kvm_vcpu *vcpu)
{
}

static inline void pv_perf_counts_tell(struct kvm_vcpu *vcpu)
{
}

static inline void pv_perf_counts_flush(struct kvm_vcpu *vcpu)
{
}
#endif

/* pv_perf_freq.c: without it perf adapts the periods, at timer ticks. */

#ifndef PV_PERF_WITHOUT_FREQ
void pv_perf_freq_init(struct pv_perf_event *event);
int pv_perf_freq_set(struct pv_perf_event *event, u64 hz);
void pv_perf_freq_set_left(struct pv_perf_event *event,
			   const struct pv_perf_reading *reading, u64 left);
void pv_perf_freq_overflow(struct pv_perf_event *event,
			   struct perf_event *backing);
void pv_perf_freq_tick(struct pv_perf_event *event);
#else
#define pv_perf_freq_set	NULL
#define pv_perf_freq_set_left	NULL
#define pv_perf_freq_overflow	NULL

static inline void pv_perf_freq_init(struct pv_perf_event *event)
{
}

static inline void pv_perf_freq_tick(struct pv_perf_event *event)
{
}
#endif

/* pv_perf_rdpmc.c */

#ifndef PV_PERF_WITHOUT_RDPMC
unsigned int pv_perf_rdpmc_unasked(void);
u32 pv_perf_rdpmc_host(const struct pv_perf_host *host);
u32 pv_perf_rdpmc_vcpu(struct kvm_vcpu *vcpu);
bool pv_perf_rdpmc_goes_on(struct kvm_vcpu *vcpu);
bool pv_perf_rdpmc_enter(struct kvm_vcpu *vcpu);
void pv_perf_rdpmc_end(struct pv_perf_event *event, bool nmi);
bool pv_perf_rdpmc_tell_rest(struct kvm_vcpu *vcpu);
#else
#define pv_perf_rdpmc_end	NULL

static inline unsigned int pv_perf_rdpmc_unasked(void)
{
	return 0;
}

static inline u32 pv_perf_rdpmc_host(const struct pv_perf_host *host)
{
	return KVM_PERF_RDPMC_HOST;
}

static inline u32 pv_perf_rdpmc_vcpu(struct kvm_vcpu *vcpu)
{
	return KVM_PERF_RDPMC_HOST;
}

static inline bool pv_perf_rdpmc_goes_on(struct kvm_vcpu *vcpu)
{
	return false;
}

static inline bool pv_perf_rdpmc_enter(struct kvm_vcpu *vcpu)
{
	return true;
}

static inline bool pv_perf_rdpmc_tell_rest(struct kvm_vcpu *vcpu)
{
	return false;
}
#endif

#endif /* __KVM_X86_PV_PERF_FEATURES_H */
