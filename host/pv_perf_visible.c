// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, host side: which events have the counters of a CPU.
 * A guest that may execute RDPMC sees all of them.
 *
 * Reads perf's private fields, and clears counters that no event has.  IRQs are off, so
 * that perf gives no counter to another event meanwhile.  In an NMI perf may read counters.
 */
#include <linux/bitops.h>
#include <linux/percpu.h>

#include <asm/msr.h>
#include <asm/perf_event.h>

#include "compat.h"
#include "compat_context.h"
#include "kvm_perf.h"
#include "pv_perf_seam.h"

/**
 * pv_perf_pmc_exists - does the CPU have a counter?
 * @layout: the counters that there are
 * @ecx: the counter, as for RDPMC
 *
 * Return: whether it has.
 */
bool pv_perf_pmc_exists(const struct pv_perf_pmc_layout *layout, u32 ecx)
{
	if (ecx & INTEL_PMC_FIXED_RDPMC_BASE)
		return (ecx & ~INTEL_PMC_FIXED_RDPMC_BASE) < layout->fixed;

	return ecx < layout->general;
}

/**
 * pv_perf_pmc_add - note which counter an event has
 * @backing: an event on this CPU
 * @pmcs: where to note it
 *
 * Return: false if RDPMC may not read it: it is one of two merged counters, or holds
 * another event's count, or the event has no counter.
 */
bool pv_perf_pmc_add(const struct perf_event *backing,
		     struct pv_perf_pmcs *pmcs)
{
	int idx = READ_ONCE(backing->hw.idx);

	if (idx < 0 || idx >= INTEL_PMC_IDX_FIXED_BTS ||
	    pv_perf_backing_counters(backing) > 1 ||
	    pv_perf_backing_is_moved(backing))
		return false;

	pmcs->used |= BIT_ULL(idx);
	pmcs->nr_events++;
	return true;
}

/* TASK_TOMBSTONE of kernel/events/core.c: an event of the kernel's own. */
#define PV_PERF_KERNEL_OWNER	((void *)-1L)

/* As created by hardlockup_detector_event_create(). */
static bool pv_perf_is_watchdog(const struct perf_event *event)
{
	return event->owner == PV_PERF_KERNEL_OWNER &&
	       event->attr.type == PERF_TYPE_HARDWARE &&
	       event->attr.config == PERF_COUNT_HW_CPU_CYCLES &&
	       !event->attr.exclude_user && !event->attr.exclude_kernel;
}

/* noinline, like pv_perf_clear_general(): most VM entries skip it. */
static noinline bool pv_perf_pmc_add_others(unsigned int others,
					    struct pv_perf_pmcs *pmcs)
{
	struct perf_event *event;

	event = list_first_entry_or_null(&pv_perf_cpu_events(pmcs->pmu)->pinned_active,
					 struct perf_event, active_list);
	return others == 1 && event && event->pmu == pmcs->pmu &&
	       pv_perf_is_watchdog(event) && pv_perf_pmc_add(event, pmcs);
}

/**
 * pv_perf_pmc_add_watchdog - are all other events of this CPU the NMI watchdog?
 * @layout: the counters that there are
 * @pmcs: from pv_perf_pmc_add(), for all events of the vCPU; gets the watchdog's
 *	counter, too
 *
 * Return: true if they are, and guests may see its counter, or if there are none.
 */
bool pv_perf_pmc_add_watchdog(const struct pv_perf_pmc_layout *layout,
			      struct pv_perf_pmcs *pmcs)
{
	/* Events on this CPU, of threads and of the CPU. */
	unsigned int active = pv_perf_cpu_context(pmcs->pmu)->active_oncpu;
	unsigned int others = active - pmcs->nr_events;

	return !others || (layout->watchdog && pv_perf_pmc_add_others(others, pmcs));
}

static u32 pv_perf_general_msr(unsigned int i)
{
	return boot_cpu_data.x86_vendor == X86_VENDOR_INTEL ?
	       MSR_ARCH_PERFMON_PERFCTR0 + i : MSR_F15H_PERF_CTR + 2 * i;
}

static noinline void pv_perf_clear_general(unsigned int i)
{
	wrmsr(pv_perf_general_msr(i), 0, 0);
}

static noinline void pv_perf_clear_fixed(unsigned int i)
{
	wrmsr(MSR_CORE_PERF_FIXED_CTR0 + i, 0, 0);
}

/**
 * pv_perf_pmc_clear_others - clear the counters that no event has
 * @layout: the counters that there are
 * @pmcs: the counters that events have
 *
 * perf has read the values, as perf_clear_dirty_counters() assumes.  Reads first,
 * because writing takes ten times as long.
 */
void pv_perf_pmc_clear_others(const struct pv_perf_pmc_layout *layout,
			      const struct pv_perf_pmcs *pmcs)
{
	unsigned long others = (BIT(layout->general) - 1) & ~pmcs->used;
	unsigned int i;

	for (; others; others &= others - 1) {
		i = __ffs(others);
		if (native_read_pmc(i))
			pv_perf_clear_general(i);
	}

	others = (BIT(layout->fixed) - 1) & ~(pmcs->used >> INTEL_PMC_IDX_FIXED);
	for (; others; others &= others - 1) {
		i = __ffs(others);
		if (native_read_pmc(INTEL_PMC_FIXED_RDPMC_BASE | i))
			pv_perf_clear_fixed(i);
	}

	if (layout->metrics && native_read_pmc(INTEL_PMC_FIXED_RDPMC_METRICS))
		wrmsr(MSR_PERF_METRICS, 0, 0);
}

static u32 pv_perf_pmc_index(u32 ecx)
{
	return ((ecx + 1) & KVM_PERF_PMC_INDEX) |
	       (ecx & INTEL_PMC_FIXED_RDPMC_BASE ? KVM_PERF_PMC_FIXED : 0);
}

/* A counter that is farther from its end does not wrap before the next entry. */
#define PV_PERF_PMC_MARGIN	BIT_ULL(32)

/* When a counter without a period wraps, perf sets it back, and does not notify KVM. */
static bool pv_perf_pmc_is_near_end(struct perf_event *backing, s64 prev)
{
	return pv_perf_pmc_extend(prev) > -(s64)PV_PERF_PMC_MARGIN &&
	       !is_sampling_event(backing);
}

/* Does the counter hold the event's count?  It counts, or has kept its counter. */
static bool pv_perf_pmc_holds_count(const struct pv_perf_event *event)
{
	return !READ_ONCE(event->backing->hw.state) ||
	       (pv_perf_is_stopped(event) && !pv_perf_backing_is_moved(event->backing));
}

/* perf's count less its prev_count. */
static u64 pv_perf_pmc_delta(const struct perf_event *backing, s64 *prev)
{
	s64 count;

	do {
		*prev = local64_read(&backing->hw.prev_count);
		count = local64_read(&backing->count);
		/* An NMI may have perf read the counter in between. */
	} while (*prev != local64_read(&backing->hw.prev_count));

	return count - *prev;
}

/* The event had no counter and has none now, and the guest need not be told. */
static bool pv_perf_pmc_is_still_none(const struct pv_perf_event *event)
{
	return !READ_ONCE(event->pmc.index) &&
	       !pv_perf_backing_is_here(event->backing) &&
	       !pv_perf_is_newly_lost(event);
}

static bool pv_perf_pmc_is_unchanged(const struct pv_perf_event *event)
{
	const struct pv_perf_pmc_seen *seen = &event->pmc_seen;
	struct perf_event *backing = event->backing;
	s64 prev;

	if (!pv_perf_backing_is_here(backing) ||
	    READ_ONCE(backing->hw.idx) != seen->idx ||
	    READ_ONCE(backing->hw.last_tag) != seen->tag)
		return false;

	if (!pv_perf_has_rdpmc(event))
		return !pv_perf_backing_is_moved(backing);

	return READ_ONCE(event->pmc.index) && !READ_ONCE(backing->hw.state) &&
	       pv_perf_pmc_delta(backing, &prev) == seen->delta &&
	       !pv_perf_pmc_is_near_end(backing, prev);
}

/**
 * pv_perf_pmc_unchanged - are all events of a vCPU as they were seen?
 * @layout: the counters that there are
 * @here: the vCPU, which may read counters if they are, its enter_lock held; its pmcs are
 *	of the last look, and are set to the counters of its events, and the watchdog's
 *
 * Return: whether they are, and this CPU has no other event.
 */
bool pv_perf_pmc_unchanged(const struct pv_perf_pmc_layout *layout,
			   struct pv_perf_vcpu *here)
{
	struct pv_perf_event *event;
	unsigned int nr_events = 0;
	u64 used = 0;

	list_for_each_entry(event, &here->events, node) {
		/* A stopped event has its counter, and the guest may know it. */
		if (event->pmc_seen.idx < 0) {
			if (!pv_perf_pmc_is_still_none(event))
				return false;
			continue;
		}
		if (!pv_perf_pmc_is_unchanged(event))
			return false;
		used |= BIT_ULL(event->pmc_seen.idx);
		nr_events++;
	}
	if (!nr_events)
		return false;

	here->pmcs.used = used;
	here->pmcs.nr_events = nr_events;
	return pv_perf_pmc_add_watchdog(layout, &here->pmcs);
}

/**
 * pv_perf_pmc_of - how a guest can read an event's count
 * @event: the event, its home's enter_lock held; sets its pmc_seen.delta
 * @pmc: set to counter and offset, or to 0 if the event has no counter on this CPU now
 *
 * The count is perf's count, plus the counter, less prev_count.  The difference of
 * perf's count and prev_count does not change when perf reads or moves the counter.
 */
void pv_perf_pmc_of(struct pv_perf_event *event, struct pv_perf_pmc *pmc)
{
	struct perf_event *backing = event->backing;
	u64 count;
	s64 prev;

	*pmc = (struct pv_perf_pmc) { };
	if (!pv_perf_backing_is_here(backing) || !pv_perf_pmc_holds_count(event))
		return;

	count = pv_perf_pmc_delta(backing, &prev) + prev;
	if (pv_perf_is_stopped(event))
		count = event->stopped_at.count;
	event->pmc_seen.delta = count - prev;
	if (pv_perf_pmc_is_near_end(backing, prev))
		return;

	pmc->index = pv_perf_pmc_index(backing->hw.event_base_rdpmc);
	pmc->offset = event->past_count + count - pv_perf_pmc_extend(prev);
}

/**
 * pv_perf_pmc_see - note which counter an event has
 * @event: the event
 */
void pv_perf_pmc_see(struct pv_perf_event *event)
{
	struct pv_perf_pmc_seen *seen = &event->pmc_seen;
	struct perf_event *backing = event->backing;
	int idx = PV_PERF_PMC_NONE;

	if (pv_perf_backing_is_here(backing) && !READ_ONCE(backing->hw.state))
		idx = backing->hw.idx;

	seen->idx = idx;
	seen->tag = backing->hw.last_tag;
}
