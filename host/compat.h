/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Definitions of the newest kernel for the older kernels that the host side is built
 * for.
 */
#ifndef __KVM_X86_PV_PERF_COMPAT_H
#define __KVM_X86_PV_PERF_COMPAT_H

#include <linux/export.h>
#include <linux/hrtimer.h>
#include <linux/kvm_host.h>
#include <linux/perf_event.h>
#include <linux/slab.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
static inline void
hrtimer_setup(struct hrtimer *timer,
	      enum hrtimer_restart (*function)(struct hrtimer *),
	      clockid_t clock, enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock, mode);
	timer->function = function;
}
#endif

#ifndef kzalloc_obj
#define kzalloc_obj(obj, gfp)		kzalloc(sizeof(obj), gfp)
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 16, 0)
#define rdmsrq				rdmsrl
#define wrmsrq				wrmsrl
#define rdmsrq_safe			rdmsrl_safe
#define wrmsrq_safe			wrmsrl_safe
#endif

#ifndef kvm_x86_call
#define kvm_x86_call(op)		static_call(kvm_x86_##op)
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 4, 0)
#define kvm_is_cr0_bit_set(vcpu, bit)	(!!kvm_read_cr0_bits(vcpu, bit))
#define kvm_is_cr4_bit_set(vcpu, bit)	(!!kvm_read_cr4_bits(vcpu, bit))
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 0, 0)
#define enable_mediated_pmu		false
#endif

/* In modules, perf's functions for KVM are KVM's own, and cannot call all of perf's. */
#undef EXPORT_SYMBOL_FOR_KVM
#define EXPORT_SYMBOL_FOR_KVM(symbol)

/*
 * perf's own are not exported, and count how often they are called.  The pair does not
 * nest its calls.
 */
static inline void pv_perf_pmu_disable(struct pmu *pmu)
{
	pmu->pmu_disable(pmu);
}

static inline void pv_perf_pmu_enable(struct pmu *pmu)
{
	pmu->pmu_enable(pmu);
}

#define perf_pmu_disable		pv_perf_pmu_disable
#define perf_pmu_enable			pv_perf_pmu_enable

/* perf's own schedule the thread's events, or take the way to another CPU. */
void pv_perf_compat_enable(struct perf_event *event);
void pv_perf_compat_disable(struct perf_event *event);
#define perf_event_enable		pv_perf_compat_enable
#define perf_event_disable		pv_perf_compat_disable

#ifndef EXPORT_SYMBOL_FOR_KVM_INTERNAL
#define EXPORT_SYMBOL_FOR_KVM_INTERNAL	EXPORT_SYMBOL_GPL
#endif

#endif /* __KVM_X86_PV_PERF_COMPAT_H */
