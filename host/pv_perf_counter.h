/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Paravirtual performance events, host side: what perf does with the counter of a backing
 * event, an event that KVM has created on the thread of a vCPU.
 */
#ifndef __KVM_X86_PV_PERF_COUNTER_H
#define __KVM_X86_PV_PERF_COUNTER_H

#include <linux/bitops.h>
#include <linux/perf_event.h>
#include <linux/smp.h>

/**
 * struct pv_perf_position - count and position in the period of a backing event
 * @count: its count
 * @left: the rest of its period; not positive: another period begins
 * @last_period: the length of that period
 * @set: the guest has set @left since, and the counter does not have it yet
 */
struct pv_perf_position {
	u64 count;
	s64 left;
	u64 last_period;
	bool set;
};

/**
 * pv_perf_backing_is_here - does the backing event count on this CPU?
 * @backing: the backing event
 *
 * IRQs off, so perf cannot take the event from this CPU meanwhile: another CPU has to
 * send an IPI for that.
 */
static inline bool pv_perf_backing_is_here(const struct perf_event *backing)
{
	return READ_ONCE(backing->state) == PERF_EVENT_STATE_ACTIVE &&
	       READ_ONCE(backing->oncpu) == smp_processor_id();
}

/*
 * Has perf given the event another counter while it was stopped?  Before Linux 7.0 that
 * counter has another event's count until the event is started.
 */
static inline bool pv_perf_backing_is_moved(const struct perf_event *backing)
{
	return READ_ONCE(backing->hw.state) & PERF_HES_ARCH;
}

/* The event may have got another counter, and have been started and stopped since. */
static inline void pv_perf_backing_set_moved(struct perf_event *backing)
{
	WRITE_ONCE(backing->hw.state, backing->hw.state | PERF_HES_ARCH);
}

/* Is the counter of an event on this CPU stopped, by the pair or by perf? */
static inline bool pv_perf_backing_is_stopped(const struct perf_event *backing)
{
	return READ_ONCE(backing->hw.state) & PERF_HES_STOPPED;
}

/* The next period of a backing event.  NMI-safe. */
static inline u64 pv_perf_backing_period(const struct perf_event *backing)
{
	return READ_ONCE(backing->hw.sample_period);
}

/* The new period holds from the next overflow on.  NMI-safe, because perf is not asked. */
static inline void pv_perf_backing_set_period(struct perf_event *backing, u64 period)
{
	WRITE_ONCE(backing->hw.sample_period, period);
}

/* Until pv_perf_pmu_enable(), counters of this CPU stop and start without effect. */
static inline struct pmu *pv_perf_pmu_disable(const struct perf_event *backing)
{
	backing->pmu->pmu_disable(backing->pmu);
	return backing->pmu;
}

static inline void pv_perf_pmu_enable(struct pmu *pmu)
{
	pmu->pmu_enable(pmu);
}

/* Width of counters, if guests may read them. */
#define PV_PERF_PMC_WIDTH	48

/* A prev_count is as wide as the counter, or has a sign that extends it. */
static inline s64 pv_perf_pmc_extend(s64 prev)
{
	return sign_extend64(prev, PV_PERF_PMC_WIDTH - 1);
}

void pv_perf_backing_reset(struct perf_event *backing);
u64 pv_perf_backing_read_count(struct perf_event *backing);
void pv_perf_backing_forget_counter(struct perf_event *backing);

void pv_perf_backing_begin_period(struct perf_event *backing);
void pv_perf_backing_set_left(struct perf_event *backing, u64 left);
void pv_perf_backing_copy_position(const struct perf_event *from,
				   struct perf_event *to);

void pv_perf_backing_stop(struct perf_event *backing,
			  struct pv_perf_position *at);
void pv_perf_backing_restore(struct perf_event *backing,
			     const struct pv_perf_position *at);
void pv_perf_backing_restart(struct perf_event *backing,
			     const struct pv_perf_position *at);
bool pv_perf_backing_add_one(struct perf_event *backing, bool readable,
			     bool writable);
bool pv_perf_backing_add_away(struct perf_event *backing);
struct pv_perf_position
pv_perf_backing_position(const struct perf_event *backing);

#endif /* __KVM_X86_PV_PERF_COUNTER_H */
