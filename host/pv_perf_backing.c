// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, host side: an event of perf behind each of
 * the guest's.
 *
 * For most there are perf's functions for events of the kernel.  Here is what
 * those cannot do, or only at ten times the cost, and so this and
 * pv_perf_pmc.c are the files that know perf from the inside.
 */
#define pr_fmt(fmt) "kvm: pv_perf: " fmt

#include <linux/export.h>
#include <linux/kernel.h>
#include <linux/kvm_host.h>
#include <linux/sched/clock.h>

#include <asm/perf_event.h>

#include "compat.h"
#include "pv_perf_backing.h"
#include "pv_perf_event.h"

/*
 * Of what is asked of it here, perf supports all, unless a VM has the mediated
 * virtual PMU, which takes the whole PMU.
 */
static int pv_perf_not_now(struct kvm *kvm)
{
	if (!test_and_set_bit(PV_PERF_LOGGED_REFUSED, &kvm->arch.pv_perf->logged))
		pr_info_ratelimited("VM of pid %d gets no events as long as another VM has the mediated virtual PMU\n",
				    kvm->userspace_pid);
	return -EBUSY;
}

/**
 * pv_perf_backing_create - create a backing event on this thread, disabled
 * @event: the event; its attr says what to count
 * @overflow: to be called in NMI context, with @event as the context
 *
 * May sleep.
 *
 * Return: the backing event, or -ENOSPC, -EBUSY, -EINVAL, -EOPNOTSUPP.
 */
struct perf_event *pv_perf_backing_create(struct pv_perf_event *event,
					  perf_overflow_handler_t overflow)
{
	struct perf_event_attr attr = event->attr;
	struct perf_event *backing;

	backing = perf_event_create_kernel_counter(&attr, -1, current,
						   overflow, event);
	if (!IS_ERR(backing))
		return backing;

	if (IS_ENABLED(CONFIG_PERF_GUEST_MEDIATED_PMU) &&
	    PTR_ERR(backing) == -EOPNOTSUPP)
		return ERR_PTR(pv_perf_not_now(event->home->vcpu->kvm));

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
 * pv_perf_backing_counters - how many general-purpose counters does it take?
 * @backing: the backing event
 *
 * From Zen on perf has what may count more than 15 in a cycle, floating-point
 * operations, merge two (amd_is_pair_event_code(); PPR of family 17h, Large
 * Increment per Cycle Events).
 */
unsigned int pv_perf_backing_counters(const struct perf_event *backing)
{
	u64 config = backing->hw.config;
	unsigned int event = ((config >> 24) & 0xf00) | (config & 0xff);

	if (boot_cpu_data.x86_vendor == X86_VENDOR_INTEL ||
	    boot_cpu_data.x86 < 0x17)
		return 1;

	return event == 0x003 ? 2 : 1;
}

/**
 * pv_perf_backing_is_fixed - does it have a counter that can count nothing else?
 * @backing: the backing event, which counts, or did last, with that counter
 */
bool pv_perf_backing_is_fixed(const struct perf_event *backing)
{
	return READ_ONCE(backing->hw.idx) >= INTEL_PMC_IDX_FIXED;
}

/**
 * pv_perf_backing_may_be_fixed - might perf give it such a counter?
 * @backing: the backing event
 *
 * Those of the three that every CPU with fixed counters has: whether there is
 * one now, perf knows.
 */
bool pv_perf_backing_may_be_fixed(const struct perf_event *backing)
{
	if (boot_cpu_data.x86_vendor != X86_VENDOR_INTEL)
		return false;

	switch (backing->hw.config & X86_RAW_EVENT_MASK) {
	case 0x00c0:	/* instructions */
	case 0x003c:	/* cycles */
	case 0x0300:	/* reference cycles */
		return true;
	default:
		return false;
	}
}

/**
 * pv_perf_backing_is_here - does it count on this CPU?
 * @backing: the backing event
 *
 * Interrupts are off, so perf cannot take it from this CPU meanwhile: whoever
 * wants to sends an IPI.
 */
bool pv_perf_backing_is_here(struct perf_event *backing)
{
	return READ_ONCE(backing->state) == PERF_EVENT_STATE_ACTIVE &&
	       READ_ONCE(backing->oncpu) == smp_processor_id();
}

/*
 * One whose count is up to date may have another counter since, with what that
 * has counted for somebody else.
 */
static u64 read_counter(struct perf_event *backing)
{
	if (!(READ_ONCE(backing->hw.state) & PERF_HES_UPTODATE))
		backing->pmu->read(backing);
	return local64_read(&backing->count);
}

/*
 * The time of a context that is running: perf_event_time_now(), for an event
 * without exclude_guest.
 */
static u64 context_time(struct perf_event_context *ctx)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 0, 0)
	return local_clock() + READ_ONCE(ctx->timeoffset);
#else
	return local_clock() + READ_ONCE(ctx->time.offset);
#endif
}

/**
 * pv_perf_backing_is_stopped - is its counter stopped, by us or by perf?
 * @backing: is on this CPU
 */
bool pv_perf_backing_is_stopped(const struct perf_event *backing)
{
	return READ_ONCE(backing->hw.state) & PERF_HES_STOPPED;
}

/**
 * pv_perf_backing_assigned - which counter perf has assigned to it
 * @backing: is on this CPU
 *
 * Return: what differs if that has been assigned anew, even if it is the same.
 */
struct pv_perf_assigned
pv_perf_backing_assigned(const struct perf_event *backing)
{
	return (struct pv_perf_assigned) {
		.tag = backing->hw.last_tag,
		.idx = backing->hw.idx,
		.cpu = backing->hw.last_cpu,
	};
}

/**
 * pv_perf_backing_left_at - what is left of its period where it was stopped
 * @backing: the backing event
 * @at: from pv_perf_backing_stop()
 *
 * Return: at least 1; 0 if it has no period.
 */
u64 pv_perf_backing_left_at(struct perf_event *backing,
			    const struct pv_perf_position *at)
{
	if (!is_sampling_event(backing))
		return 0;

	return at->left > 0 ? at->left : pv_perf_backing_period(backing);
}

/* As of the last reading of its count. */
static u64 period_left(struct perf_event *backing)
{
	s64 left = local64_read(&backing->hw.period_left);

	if (!is_sampling_event(backing))
		return 0;

	/* A whole period, which begins when it counts. */
	if (!left && READ_ONCE(backing->state) != PERF_EVENT_STATE_ACTIVE)
		left = READ_ONCE(backing->hw.sample_period);

	/* Not positive: it overflows now. */
	return max_t(s64, left, 1);
}

static void read_position(struct pv_perf_event *event,
			  struct pv_perf_reading *reading)
{
	struct perf_event *backing = event->backing;

	if (event->stopped) {
		reading->count = event->stopped_at.count;
		reading->period_left = pv_perf_backing_left_at(backing,
							       &event->stopped_at);
	} else {
		reading->count = read_counter(backing);
		reading->period_left = period_left(backing);
	}
}

/**
 * pv_perf_backing_read_here - read what counts on this CPU
 * @event: the event
 * @reading: set to what its backing event has counted
 *
 * At a tenth of the cost of pv_perf_backing_read(), for that of most.  In any
 * context but NMI.
 *
 * Return: false, and nothing is read, where it does not count on this CPU.
 */
bool pv_perf_backing_read_here(struct pv_perf_event *event,
			       struct pv_perf_reading *reading)
{
	struct perf_event *backing = event->backing;
	unsigned long flags;
	bool here;
	u64 delta;

	local_irq_save(flags);
	here = pv_perf_backing_is_here(backing);
	if (here) {
		read_position(event, reading);
		delta = context_time(backing->ctx) - backing->tstamp;
		reading->enabled = backing->total_time_enabled + delta;
		reading->running = backing->total_time_running + delta;
	}
	local_irq_restore(flags);

	return here;
}

/**
 * pv_perf_backing_read - read it, wherever it counts
 * @backing: the backing event
 * @reading: set to what it has counted
 *
 * May sleep.
 */
void pv_perf_backing_read(struct perf_event *backing,
			  struct pv_perf_reading *reading)
{
	reading->count = perf_event_read_value(backing, &reading->enabled,
					       &reading->running);
	reading->period_left = period_left(backing);
}

/**
 * pv_perf_backing_period - the period of a backing event
 * @backing: the backing event
 *
 * In any context.
 */
u64 pv_perf_backing_period(const struct perf_event *backing)
{
	return READ_ONCE(backing->hw.sample_period);
}

/**
 * pv_perf_backing_set_period - set it, from the next overflow on
 * @backing: the backing event
 * @period: the period
 *
 * In any context, and without asking perf: of one that has a period by itself.
 */
void pv_perf_backing_set_period(struct perf_event *backing, u64 period)
{
	WRITE_ONCE(backing->hw.sample_period, period);
}

/* perf starts it where its counter is: what begins a period then is done here. */
static void set_left_stopped(struct perf_event *backing, u64 left)
{
	if (!left) {
		left = pv_perf_backing_period(backing);
		backing->hw.last_period = left;
	}
	local64_set(&backing->hw.period_left, left);
}

/*
 * perf lets the period be changed, but not what is left of it: that is between
 * a stop and a start of the counter, as when perf itself adjusts a period.
 * One that perf has throttled stays stopped.
 */
static bool set_left_here(struct perf_event *backing, u64 left)
{
	struct pmu *pmu = backing->pmu;
	unsigned long flags;
	bool here;

	local_irq_save(flags);
	here = pv_perf_backing_is_here(backing);
	if (here && (backing->hw.state & PERF_HES_STOPPED)) {
		set_left_stopped(backing, left);
	} else if (here) {
		pmu->pmu_disable(pmu);
		pmu->stop(backing, PERF_EF_UPDATE);
		local64_set(&backing->hw.period_left, left);
		pmu->start(backing, PERF_EF_RELOAD);
		pmu->pmu_enable(pmu);
	}
	local_irq_restore(flags);

	return here;
}

/* One that counts elsewhere, or not at all. */
static void set_left_there(struct perf_event *backing, u64 left)
{
	bool enabled = READ_ONCE(backing->state) >= PERF_EVENT_STATE_INACTIVE;

	perf_event_disable(backing);
	local64_set(&backing->hw.period_left, left);
	if (enabled)
		perf_event_enable(backing);
}

/**
 * pv_perf_backing_set_left - set when a backing event overflows next
 * @backing: the backing event, which has a period
 * @left: after how many events, 0 for a whole period
 *
 * May sleep.
 */
void pv_perf_backing_set_left(struct perf_event *backing, u64 left)
{
	if (!set_left_here(backing, left))
		set_left_there(backing, left);
}

/**
 * pv_perf_backing_begin_period - begin a whole period
 * @backing: the backing event, which has a period
 *
 * At once where it counts on this CPU, or else nothing is done.
 */
void pv_perf_backing_begin_period(struct perf_event *backing)
{
	set_left_here(backing, 0);
}

/**
 * pv_perf_backing_copy_position - go on in the period of another backing event
 * @from: which counts no more
 * @to: of the same event
 *
 * With a frequency, the period has been adapted.  May sleep.
 */
void pv_perf_backing_copy_position(const struct perf_event *from,
				   struct perf_event *to)
{
	if (!is_sampling_event(to))
		return;

	to->hw.sample_period = from->hw.sample_period;
	to->hw.last_period = from->hw.last_period;
	pv_perf_backing_set_left(to, local64_read(&from->hw.period_left));
}

/**
 * pv_perf_backing_stop - stop its counter, behind perf's back
 * @backing: counts on this CPU; its PMU is disabled
 * @at: set to where it is
 */
void pv_perf_backing_stop(struct perf_event *backing,
			  struct pv_perf_position *at)
{
	backing->pmu->stop(backing, PERF_EF_UPDATE);
	*at = (struct pv_perf_position) {
		.count		= local64_read(&backing->count),
		.left		= local64_read(&backing->hw.period_left),
		.last_period	= backing->hw.last_period,
	};
}

/**
 * pv_perf_backing_restore - let it be where it was stopped
 * @backing: the backing event, whose counter is stopped
 * @at: from pv_perf_backing_stop()
 */
void pv_perf_backing_restore(struct perf_event *backing,
			     const struct pv_perf_position *at)
{
	local64_set(&backing->count, at->count);
	local64_set(&backing->hw.period_left, at->left);
	backing->hw.last_period = at->last_period;
}

/**
 * pv_perf_backing_restart - let its counter go on from there
 * @backing: as for pv_perf_backing_stop(); perf may have started it
 * @at: from pv_perf_backing_stop()
 */
void pv_perf_backing_restart(struct perf_event *backing,
			     const struct pv_perf_position *at)
{
	backing->pmu->stop(backing, PERF_EF_UPDATE);
	pv_perf_backing_restore(backing, at);
	backing->pmu->start(backing, PERF_EF_RELOAD);
}

/**
 * pv_perf_backing_pmu_disable - stop all counters of this CPU for a moment
 * @backing: a backing event on this CPU
 *
 * Some PMUs put into force what stop and start change when they are enabled
 * again.
 *
 * Return: for pv_perf_backing_pmu_enable().
 */
struct pmu *pv_perf_backing_pmu_disable(const struct perf_event *backing)
{
	struct pmu *pmu = backing->pmu;

	pmu->pmu_disable(pmu);
	return pmu;
}

/**
 * pv_perf_backing_pmu_enable - let them go on
 * @pmu: the PMU
 */
void pv_perf_backing_pmu_enable(struct pmu *pmu)
{
	pmu->pmu_enable(pmu);
}
