// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, guest side: the seam to perf.
 *
 * Each struct pmu keeps event->hw for perf, and sets event->pmu_private and event->destroy.
 * It reads event->attr, event->pmu, and the event's parent and group.  All files do that.
 *
 * The other fields of an event are perf's own: its count, state and CPU, its buffer, its
 * lost samples, and hw.interrupts, by which perf throttles.  Only this file uses them, the
 * inline functions in kvm_pmu.h beside the prototypes of this file, and compat.c.
 */
#include <linux/perf_event.h>
#include <linux/slab.h>

#include "compat.h"
#include "kvm_pmu.h"

struct pmu *kvm_pmu;

/**
 * kvm_pmu_is_ours - does an event belong to this PMU?
 * @event: the event
 */
bool kvm_pmu_is_ours(const struct perf_event *event)
{
	return event->pmu == kvm_pmu;
}

/**
 * kvm_pmu_register_copy - let perf use a PMU, in memory of its own
 * @pmu: set to it before perf knows it; NULL on failure
 * @template: to be copied
 * @samples: whether its events can have samples
 * @name: its name
 * @type: PERF_TYPE_* or -1
 *
 * Return: 0 or -E*.
 */
int kvm_pmu_register_copy(struct pmu **pmu, const struct pmu *template,
			  bool samples, const char *name, int type)
{
	int ret;

	*pmu = kmemdup(template, sizeof(*template), GFP_KERNEL);
	if (!*pmu)
		return -ENOMEM;

	if (!samples)
		(*pmu)->capabilities |= PERF_PMU_CAP_NO_INTERRUPT;

	ret = perf_pmu_register(*pmu, name, type);
	if (ret) {
		kfree(*pmu);
		*pmu = NULL;
	}

	return ret;
}

/**
 * kvm_pmu_count - bring the count of an event up to that of its backing event
 * @event: the event
 * @count: the backing event's
 *
 * NMI-safe: an NMI may bring it up in between, to a higher count.
 */
void kvm_pmu_count(struct perf_event *event, u64 count)
{
	u64 prev;

	do {
		prev = local64_read(&event->hw.prev_count);
		if ((s64)(count - prev) <= 0)
			return;
	} while (local64_cmpxchg(&event->hw.prev_count, prev, count) != prev);

	local64_add(count - prev, &event->count);
}

/*
 * The host adapts the period to the frequency.  For the guest's perf core the event has a
 * fixed period, which perf leaves alone.
 */
void kvm_pmu_hide_freq(struct perf_event *event)
{
	event->attr.freq = 0;
	event->hw.sample_period = event->attr.sample_period;
	/* The event starts with the period that the host is at. */
	local64_set(&event->hw.period_left, 0);
}

/**
 * kvm_pmu_throttle_event - have perf throttle an event, as natively
 * @event: the event, which the host does not let overflow that often
 *
 * perf counts the overflows in a tick, writes a record, and starts the event again at a
 * tick.  NMI-safe.
 */
void kvm_pmu_throttle_event(struct perf_event *event)
{
	if (perf_event_account_interrupt(event))
		return;

	event->hw.interrupts = INT_MAX;
	perf_event_account_interrupt(event);
}
