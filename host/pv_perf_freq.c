// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, host side: events with a frequency.
 *
 * For perf, each has a fixed period.  This file adapts the period by perf's formula: at
 * an overflow, and once in a tick at VM entry, for events that overflow too seldom.
 *
 * perf would also adapt the period of an event that the guest keeps for later, and
 * cause overflows that nobody uses.  The first event with a frequency would make perf
 * interrupt every CPU of the host, and keep the ticks on.
 */
#include <linux/jiffies.h>
#include <linux/math64.h>
#include <linux/sched/clock.h>

#include "pv_perf_core.h"
#include "pv_perf_features.h"
#include "pv_perf_seam.h"

/*
 * First period of an event.  perf starts with 1, but some Intel events have a minimum
 * period of more than 100.
 */
#define PV_PERF_START_PERIOD	128

/* perf's minimum period on x86. */
#define PV_PERF_MIN_PERIOD	2

/**
 * pv_perf_freq_init - take an event's frequency from perf
 * @event: the event, which is to be opened
 *
 * If this host's own hypervisor backs the event, that hypervisor adapts the period.
 */
void pv_perf_freq_init(struct pv_perf_event *event)
{
	struct perf_event_attr *attr = &event->attr;

	if (!attr->freq || !pv_perf_host.own)
		return;

	event->freq.hz = attr->sample_freq;
	attr->freq = 0;
	attr->sample_period = PV_PERF_START_PERIOD;
}

/* The period for @hz overflows per second, if there were @count events in @ns. */
static u64 pv_perf_period_for(u32 hz, u64 ns, u64 count)
{
	/* Shift @count so that @count * NSEC_PER_SEC has 64 bits. */
	int excess = max(fls64(count) - 34, 0);
	u64 per_second;

	ns = max(ns >> excess, 1ull);
	per_second = div64_u64((count >> excess) * NSEC_PER_SEC, ns);
	return min_t(u64, div_u64(per_second, hz), S64_MAX / 2);
}

/* Like perf_adjust_period().  An NMI may do the same at this moment. */
static u64 pv_perf_adapt(struct pv_perf_event *event,
			 struct perf_event *backing, u64 ns, u64 count)
{
	u64 period = pv_perf_backing_period(backing);
	s64 delta = pv_perf_period_for(READ_ONCE(event->freq.hz), ns, count) -
		    period;

	delta += delta >= 0 ? 7 : -7;
	period = max_t(s64, period + delta / 8, PV_PERF_MIN_PERIOD);
	pv_perf_counter_set_period(backing, period);
	return period;
}

/**
 * pv_perf_freq_overflow - adapt the period of an event that has overflowed
 * @event: the event, which has a frequency
 * @backing: its backing event
 *
 * Uses the count since the last overflow, unless that was long ago: the event may have
 * had no counter meanwhile.  In NMI context.
 */
void pv_perf_freq_overflow(struct pv_perf_event *event,
			   struct perf_event *backing)
{
	struct pv_perf_freq *freq = &event->freq;
	u64 now = local_clock();
	u64 count, ns;

	count = event->past_count + pv_perf_backing_sum(backing);
	ns = now - READ_ONCE(freq->overflow_time);
	if (ns && ns < 2 * TICK_NSEC)
		pv_perf_adapt(event, backing, ns, count - freq->overflow_count);

	WRITE_ONCE(freq->overflow_time, now);
	freq->overflow_count = count;
}

/* Count and time since the last look.  Returns false if they are too small. */
static bool pv_perf_freq_look(struct pv_perf_freq *freq,
			      const struct pv_perf_reading *reading,
			      u64 *ns, u64 *count)
{
	*ns = reading->running - freq->time;
	*count = reading->count - freq->count;
	if (*ns < TICK_NSEC / 2)
		return false;

	freq->time = reading->running;
	freq->count = reading->count;
	return *count;
}

/**
 * pv_perf_freq_tick - adapt an event's period, once in a tick
 * @event: an event with a frequency, of a vCPU that is about to enter the guest, with
 *	interrupts off, the vCPU's @enter_lock held, and the PMU not disabled
 *
 * If much more than the new period is left, a new period begins now.
 */
void pv_perf_freq_tick(struct pv_perf_event *event)
{
	struct pv_perf_freq *freq = &event->freq;
	struct pv_perf_reading reading;
	unsigned long now = jiffies;
	u64 ns, count, period;

	if (freq->tick == now)
		return;

	freq->tick = now;
	if (pv_perf_why(event) & (PV_PERF_UNUSED | PV_PERF_STOPPED) ||
	    !pv_perf_read_here(event, &reading) ||
	    !pv_perf_freq_look(freq, &reading, &ns, &count))
		return;

	period = pv_perf_adapt(event, event->backing, ns, count);
	if (reading.period_left > 8 * period)
		pv_perf_counter_begin_period(event->backing);
}

/**
 * pv_perf_freq_set_left - the guest sets the rest of an event's period
 * @event: the event, which has a frequency, its home locked
 * @reading: its count and times
 * @left: to be set
 *
 * Do not touch an event that is kept for later: its counts until then tell nothing of
 * the event that uses it next.
 */
void pv_perf_freq_set_left(struct pv_perf_event *event,
			   const struct pv_perf_reading *reading, u64 left)
{
	struct pv_perf_vcpu *home = event->home;
	struct pv_perf_freq *freq = &event->freq;
	unsigned long flags;
	/* The rest is more than the event will ever count. */
	bool unused = left > S64_MAX / 2;

	if (unused == !!(pv_perf_why(event) & PV_PERF_UNUSED))
		return;

	raw_spin_lock_irqsave(&home->enter_lock, flags);
	if (unused)
		pv_perf_set_why(event, PV_PERF_UNUSED);
	else
		pv_perf_clear_why(event, PV_PERF_UNUSED);
	/* From a start to a difference, or back. */
	freq->time = reading->running - freq->time;
	freq->count = reading->count - freq->count;
	raw_spin_unlock_irqrestore(&home->enter_lock, flags);

	WRITE_ONCE(freq->overflow_time, 0);
}

/**
 * pv_perf_freq_set - let an event overflow at another frequency
 * @event: the event, its home locked
 * @hz: overflows per second, at most the rate of the vCPU
 *
 * Scales the current period to the new frequency.  May sleep.
 *
 * Return: 0, or -EINVAL if @hz is 0.
 */
int pv_perf_freq_set(struct pv_perf_event *event, u64 hz)
{
	struct perf_event *backing = event->backing;
	u64 period = min_t(u64, pv_perf_backing_period(backing), U32_MAX);

	if (!hz)
		return -EINVAL;

	period = div_u64(period * event->freq.hz, hz);
	WRITE_ONCE(event->freq.hz, hz);
	pv_perf_counter_set_period(backing,
				   max_t(u64, period, PV_PERF_MIN_PERIOD));
	if (!(pv_perf_why(event) & PV_PERF_UNUSED))
		pv_perf_set_left(event, 0);
	return 0;
}
