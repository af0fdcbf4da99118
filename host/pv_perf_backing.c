// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, host side: backing events, the perf_events behind the
 * guest's events.
 *
 * perf's functions for kernel counters do most of the work, and pv_perf_counter.c what
 * they do not offer, or only at ten times the cost.  This file creates the events, and
 * reads perf's private fields.
 */
#include <linux/sched/clock.h>

#include <asm/perf_event.h>

#include "compat.h"
#include "compat_context.h"
#include "pv_perf_seam.h"

/*
 * On a hybrid host, the upper half of the config of a named event chooses the PMU, and so
 * does the type of a raw event.
 */
static void pv_perf_choose_pmu(struct perf_event_attr *attr, const struct pmu *pmu)
{
	if (attr->type == PERF_TYPE_RAW)
		attr->type = pmu->type;
	else
		attr->config |= (u64)pmu->type << PERF_PMU_TYPE_SHIFT;
}

/**
 * pv_perf_backing_create - create a backing event on this thread, disabled
 * @event: the event; its attr describes the backing event
 * @kind: the CPUs on which it is to count
 * @overflow: to be called in NMI context, with @event as the context
 *
 * May sleep.
 *
 * Return: the backing event, or -ENOSPC, -EBUSY, -EINVAL, -EOPNOTSUPP.
 */
struct perf_event *pv_perf_backing_create(struct pv_perf_event *event,
					  const struct pv_perf_kind *kind,
					  perf_overflow_handler_t overflow)
{
	struct perf_event_attr attr = event->attr;
	struct perf_event *backing;

	if (kind->pmu)
		pv_perf_choose_pmu(&attr, kind->pmu);
	backing = perf_event_create_kernel_counter(&attr, -1, current,
						   overflow, event);
	if (!IS_ERR(backing))
		return backing;

	switch (PTR_ERR(backing)) {
	case -ENOMEM:
		return ERR_PTR(-ENOSPC);
	case -EBUSY:
	case -EINVAL:
		return backing;
	default:
		return ERR_PTR(-EOPNOTSUPP);
	}
}

/**
 * pv_perf_backing_create_held - create a hardware event of a CPU, which never counts
 * @cpu: the CPU
 *
 * May sleep.
 *
 * Return: the event, or perf's error.
 */
struct perf_event *pv_perf_backing_create_held(unsigned int cpu)
{
	/* exclude_guest, so that it does not keep VMs from the mediated virtual PMU. */
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_HARDWARE,
		.size		= sizeof(attr),
		.config		= PERF_COUNT_HW_CPU_CYCLES,
		.disabled	= 1,
		.exclude_guest	= 1,
	};

	/* Of a CPU, so that perf has no work at a thread's switch. */
	return perf_event_create_kernel_counter(&attr, cpu, NULL, NULL, NULL);
}

/**
 * pv_perf_backing_fixed - which fixed counter might perf give a backing event?
 * @backing: the backing event
 *
 * Knows the three fixed counters that every CPU with such counters has.  Only perf
 * knows whether the counter is free.
 *
 * Return: a bit for it, or 0 for none.
 */
unsigned long pv_perf_backing_fixed(const struct perf_event *backing)
{
	if (boot_cpu_data.x86_vendor != X86_VENDOR_INTEL)
		return 0;

	switch (backing->hw.config & X86_RAW_EVENT_MASK) {
	case 0x00c0:	/* instructions */
		return BIT(0);
	case 0x003c:	/* cycles */
		return BIT(1);
	case 0x0300:	/* reference cycles */
		return BIT(2);
	default:
		return 0;
	}
}

/* Number of a fixed counter that the metrics of topdown need: slots. */
#define PV_PERF_FIXED_SLOTS	3

/**
 * pv_perf_backing_only_fixed - which fixed counter alone counts an event?
 * @select: the event's event select
 *
 * Intel's event select 0 is not for general-purpose counters.  perf uses it for fixed
 * counters, with a unit mask of the counter's number plus 1 (0x0300: reference cycles;
 * 0x0400: slots), and from 0x80 on for the metrics, which need slots.
 *
 * Return: the counter's number, or -1.
 */
int pv_perf_backing_only_fixed(u64 select)
{
	unsigned int umask = (select & ARCH_PERFMON_EVENTSEL_UMASK) >> 8;

	if (boot_cpu_data.x86_vendor != X86_VENDOR_INTEL ||
	    select & ARCH_PERFMON_EVENTSEL_EVENT)
		return -1;

	if (umask >= 0x80)
		return PV_PERF_FIXED_SLOTS;

	/* The filter has a bit for 32. */
	return umask <= 32 ? (int)umask - 1 : -1;
}

/* As of the last reading of the count. */
static u64 period_left(struct perf_event *backing)
{
	s64 left = local64_read(&backing->hw.period_left);

	if (!is_sampling_event(backing))
		return 0;

	/* A whole period, which begins when the event counts. */
	if (!left && READ_ONCE(backing->state) != PERF_EVENT_STATE_ACTIVE)
		left = READ_ONCE(backing->hw.sample_period);

	/* Not positive: the event overflows now. */
	return max_t(s64, left, 1);
}

/**
 * pv_perf_backing_left_at - rest of the period at the position where it was stopped
 * @backing: the backing event
 * @at: from pv_perf_counter_stop()
 *
 * Return: at least 1, or 0 if it has no period.
 */
u64 pv_perf_backing_left_at(struct perf_event *backing,
			    const struct pv_perf_position *at)
{
	if (!is_sampling_event(backing))
		return 0;

	return at->left > 0 ? at->left : pv_perf_backing_period(backing);
}

static void read_position(struct pv_perf_event *event, bool overflowed,
			  struct pv_perf_reading *reading)
{
	struct perf_event *backing = event->backing;

	if (pv_perf_is_stopped(event)) {
		reading->count = event->stopped_at.count;
		reading->period_left = pv_perf_backing_left_at(backing,
							       &event->stopped_at);
	} else {
		reading->count = overflowed ? local64_read(&backing->count) :
					      pv_perf_counter_read(backing);
		reading->period_left = period_left(backing);
	}
}

/**
 * pv_perf_backing_read_here - read an event that counts on this CPU
 * @event: the event
 * @overflowed: it has overflowed since the vCPU left the guest.  perf read the counter
 *	then, and the counter does not count the host
 * @reading: set to the count and times of the backing event
 *
 * Costs a tenth of pv_perf_backing_read().  Not in NMI context.
 *
 * Return: false, and nothing is read, if the event does not count on this CPU.
 */
bool pv_perf_backing_read_here(struct pv_perf_event *event, bool overflowed,
			       struct pv_perf_reading *reading)
{
	struct perf_event *backing = event->backing;
	unsigned long flags;
	bool here;
	u64 delta;

	local_irq_save(flags);
	here = pv_perf_backing_is_here(backing);
	if (here) {
		read_position(event, overflowed, reading);
		delta = pv_perf_context_time(backing->ctx) - backing->tstamp;
		reading->enabled = backing->total_time_enabled + delta;
		reading->running = backing->total_time_running + delta;
	}
	local_irq_restore(flags);

	return here;
}

/**
 * pv_perf_backing_read - read a backing event, wherever it counts
 * @backing: the backing event
 * @reading: set to its count and times
 *
 * May sleep.
 */
void pv_perf_backing_read(struct perf_event *backing,
			  struct pv_perf_reading *reading)
{
	/*
	 * perf changes its count and times only after KVM, with the home locked, has
	 * enabled it.
	 */
	if (READ_ONCE(backing->state) == PERF_EVENT_STATE_OFF) {
		reading->count = local64_read(&backing->count);
		reading->enabled = backing->total_time_enabled;
		reading->running = backing->total_time_running;
	} else {
		reading->count = perf_event_read_value(backing, &reading->enabled,
						       &reading->running);
	}
	reading->period_left = period_left(backing);
}
