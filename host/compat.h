/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What differs between the kernels that the host side is built for.
 */
#ifndef __KVM_X86_PV_PERF_COMPAT_H
#define __KVM_X86_PV_PERF_COMPAT_H

#include <linux/hrtimer.h>
#include <linux/kvm_host.h>
#include <linux/perf_event.h>
#include <linux/sched/clock.h>
#include <linux/version.h>

/*
 * The time of a context that is running: perf_event_time_now(), for an event
 * without exclude_guest.
 */
static inline u64 pv_perf_context_time(struct perf_event_context *ctx)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 0, 0)
	return local_clock() + READ_ONCE(ctx->timeoffset);
#else
	return local_clock() + READ_ONCE(ctx->time.offset);
#endif
}

/* The VM has a virtual PMU that takes the whole PMU of the host. */
static inline bool pv_perf_has_mediated_pmu(struct kvm *kvm)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 0, 0)
	return false;
#else
	return kvm->arch.created_mediated_pmu;
#endif
}

/* A timer at a time of CLOCK_MONOTONIC. */
static inline void
pv_perf_timer_setup(struct hrtimer *timer,
		    enum hrtimer_restart (*function)(struct hrtimer *))
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
	hrtimer_init(timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
	timer->function = function;
#else
	hrtimer_setup(timer, function, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
#endif
}

#endif /* __KVM_X86_PV_PERF_COMPAT_H */
