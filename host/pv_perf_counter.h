/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What perf does for KVM with the counter of a backing event, an event that KVM has
 * created on the thread of a vCPU.
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
 * @set: @left was set since the stop, and the counter does not have it yet
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

/* Has perf given the event another counter while it was stopped? */
static inline bool pv_perf_backing_is_moved(const struct perf_event *backing)
{
	return READ_ONCE(backing->hw.state) & PERF_HES_ARCH;
}

/* Is the counter of an event on this CPU stopped, by pv_perf_counter_stop() or by perf? */
static inline bool pv_perf_backing_is_stopped(const struct perf_event *backing)
{
	return READ_ONCE(backing->hw.state) & PERF_HES_STOPPED;
}

/* The next period of a backing event.  NMI-safe on 64 bits. */
static inline u64 pv_perf_backing_period(const struct perf_event *backing)
{
	return READ_ONCE(backing->hw.sample_period);
}

/* Width of the counters that are written here, or read by RDPMC. */
#define PV_PERF_PMC_WIDTH	48

/* A prev_count is as wide as the counter, or has a sign that extends it. */
static inline s64 pv_perf_pmc_extend(s64 prev)
{
	return sign_extend64(prev, PV_PERF_PMC_WIDTH - 1);
}

u64 pv_perf_counter_read(struct perf_event *backing);
void pv_perf_counter_forget(struct perf_event *backing);

struct pmu *pv_perf_counters_disable(const struct perf_event *backing);
void pv_perf_counters_enable(struct pmu *pmu);
void pv_perf_counter_stop(struct perf_event *backing,
			  struct pv_perf_position *at);
void pv_perf_counter_restart(struct perf_event *backing,
			     const struct pv_perf_position *at);
void pv_perf_counter_set_moved(struct perf_event *backing);

struct pv_perf_position
pv_perf_counter_position(const struct perf_event *backing);
void pv_perf_counter_restore(struct perf_event *backing,
			     const struct pv_perf_position *at);
void pv_perf_counter_set_left(struct perf_event *backing, u64 left);
int pv_perf_counter_change_period(struct perf_event *backing, u64 period);
void pv_perf_counter_copy_position(const struct perf_event *from,
				   struct perf_event *to);
bool pv_perf_counter_add_one(struct perf_event *backing, bool readable,
			     bool writable);

#ifndef PV_PERF_WITHOUT_FREQ
void pv_perf_counter_set_period(struct perf_event *backing, u64 period);
void pv_perf_counter_begin_period(struct perf_event *backing);
#endif

#ifndef PV_PERF_WITHOUT_HYBRID
void pv_perf_counter_reset(struct perf_event *backing);
bool pv_perf_counter_add_away(struct perf_event *backing);
#else
static inline bool pv_perf_counter_add_away(struct perf_event *backing)
{
	return false;
}
#endif

#endif /* __KVM_X86_PV_PERF_COUNTER_H */
