/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The host side reads fields of perf's contexts.  These fields differ between kernels.
 */
#ifndef __KVM_X86_PV_PERF_CONTEXT_H
#define __KVM_X86_PV_PERF_CONTEXT_H

#include <linux/percpu.h>
#include <linux/perf_event.h>
#include <linux/sched/clock.h>
#include <linux/version.h>

/*
 * The time of a context that is running: perf_event_time_now(), for an event
 * without exclude_guest.
 */
static inline u64 pv_perf_context_time(const struct perf_event_context *ctx)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 0, 0)
	return local_clock() + READ_ONCE(ctx->timeoffset);
#else
	return local_clock() + READ_ONCE(ctx->time.offset);
#endif
}

/*
 * A PMU's context on this CPU, and the part of it that has the CPU's own events.  Interrupts
 * are off.
 */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0)
static inline struct perf_cpu_context *pv_perf_cpu_context(struct pmu *pmu)
{
	return this_cpu_ptr(pmu->pmu_cpu_context);
}

static inline struct perf_event_context *pv_perf_cpu_events(struct pmu *pmu)
{
	return &pv_perf_cpu_context(pmu)->ctx;
}
#else
static inline struct perf_cpu_pmu_context *pv_perf_cpu_context(struct pmu *pmu)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 15, 0)
	return this_cpu_ptr(pmu->cpu_pmu_context);
#else
	return *this_cpu_ptr(pmu->cpu_pmu_context);
#endif
}

static inline struct perf_event_pmu_context *pv_perf_cpu_events(struct pmu *pmu)
{
	return &pv_perf_cpu_context(pmu)->epc;
}
#endif

#endif /* __KVM_X86_PV_PERF_CONTEXT_H */
