// SPDX-License-Identifier: GPL-2.0
/*
 * Reading, stopping and starting the counter of an event of KVM, a backing event, and its
 * position in its period.
 *
 * perf schedules such an event like any kernel counter.  Only perf and the functions
 * here write its fields, and call its PMU.  KVM itself reads the fields.
 */
#include <linux/export.h>
#include <linux/kvm_types.h>
#include <linux/lockdep.h>

#include <asm/msr.h>
#include <asm/perf_event.h>

#include "compat.h"
#include "pv_perf_counter.h"

/**
 * pv_perf_counter_read - read the counter of a backing event
 * @backing: counts on this CPU, with interrupts off.  Not in NMI context
 *
 * If the count is up to date, does not read: the event may have another counter by now,
 * which still has another event's count.
 *
 * Return: the count.
 */
u64 pv_perf_counter_read(struct perf_event *backing)
{
	lockdep_assert_irqs_disabled();

	if (!(READ_ONCE(backing->hw.state) & PERF_HES_UPTODATE))
		backing->pmu->read(backing);
	return local64_read(&backing->count);
}
EXPORT_SYMBOL_FOR_KVM(pv_perf_counter_read);

/**
 * pv_perf_counter_forget - have perf place all events anew
 * @backing: the backing event
 *
 * If the counter that an event had is free, perf gives it to the event again, and moves
 * no event (x86_schedule_events()).  Does nothing if @backing has a counter now.
 *
 * Task context.  The caller keeps others from enabling @backing meanwhile.
 */
void pv_perf_counter_forget(struct perf_event *backing)
{
	if (READ_ONCE(backing->state) < PERF_EVENT_STATE_INACTIVE)
		WRITE_ONCE(backing->hw.idx, -1);
}
EXPORT_SYMBOL_FOR_KVM(pv_perf_counter_forget);

/**
 * pv_perf_counters_disable - let the counters of this CPU stop and start without effect
 * @backing: an event of the counters' PMU
 *
 * IRQs off, until pv_perf_counters_enable().  Not in NMI context.
 *
 * Return: the PMU.
 */
struct pmu *pv_perf_counters_disable(const struct perf_event *backing)
{
	lockdep_assert_irqs_disabled();
	perf_pmu_disable(backing->pmu);
	return backing->pmu;
}
EXPORT_SYMBOL_FOR_KVM(pv_perf_counters_disable);

/**
 * pv_perf_counters_enable - let what was stopped and started since take effect
 * @pmu: from pv_perf_counters_disable()
 */
void pv_perf_counters_enable(struct pmu *pmu)
{
	perf_pmu_enable(pmu);
}
EXPORT_SYMBOL_FOR_KVM(pv_perf_counters_enable);

/**
 * pv_perf_counter_stop - stop a counter, without scheduling
 * @backing: counts on this CPU
 * @at: set to its position
 *
 * Between pv_perf_counters_disable() and pv_perf_counters_enable().
 */
void pv_perf_counter_stop(struct perf_event *backing,
			  struct pv_perf_position *at)
{
	lockdep_assert_irqs_disabled();

	backing->pmu->stop(backing, PERF_EF_UPDATE);
	*at = pv_perf_counter_position(backing);
}
EXPORT_SYMBOL_FOR_KVM(pv_perf_counter_stop);

/**
 * pv_perf_counter_restore - set a backing event back to the position where it stopped
 * @backing: the backing event, whose counter is stopped
 * @at: from pv_perf_counter_stop()
 *
 * IRQs off if the event is on a CPU.  Not in NMI context.
 */
void pv_perf_counter_restore(struct perf_event *backing,
			     const struct pv_perf_position *at)
{
	local64_set(&backing->count, at->count);
	local64_set(&backing->hw.period_left, at->left);
	backing->hw.last_period = at->last_period;
}
EXPORT_SYMBOL_FOR_KVM(pv_perf_counter_restore);

/*
 * Is the counter's value right, and below 0, to which it counts?  If so, it is not
 * written: perf would write at least 2, or more, as the rest of the period, and begin a
 * new period if nothing is left.
 */
static bool counter_is_at(const struct perf_event *backing,
			  const struct pv_perf_position *at)
{
	return !pv_perf_backing_is_moved(backing) && !at->set &&
	       local64_read(&backing->hw.period_left) == at->left &&
	       pv_perf_pmc_extend(local64_read(&backing->hw.prev_count)) < 0;
}

/**
 * pv_perf_counter_restart - let a counter go on from the position where it stopped
 * @backing: as for pv_perf_counter_stop(); perf may have started it
 * @at: from pv_perf_counter_stop()
 */
void pv_perf_counter_restart(struct perf_event *backing,
			     const struct pv_perf_position *at)
{
	bool keep;

	lockdep_assert_irqs_disabled();

	backing->pmu->stop(backing, PERF_EF_UPDATE);
	keep = counter_is_at(backing, at);
	pv_perf_counter_restore(backing, at);
	backing->pmu->start(backing, keep ? 0 : PERF_EF_RELOAD);
}
EXPORT_SYMBOL_FOR_KVM(pv_perf_counter_restart);

/**
 * pv_perf_counter_set_moved - note that perf may have given a stopped event another counter
 * @backing: the backing event, whose counter is stopped; IRQs off
 *
 * perf itself notes it only if the event is stopped as perf moves it.
 */
void pv_perf_counter_set_moved(struct perf_event *backing)
{
	WRITE_ONCE(backing->hw.state, backing->hw.state | PERF_HES_ARCH);
}
EXPORT_SYMBOL_FOR_KVM(pv_perf_counter_set_moved);

/**
 * pv_perf_counter_position - count and position of a backing event
 * @backing: the backing event.  perf has read its counter, which counts nothing meanwhile
 *
 * NMI-safe.
 *
 * Return: count and position, with @set false.
 */
struct pv_perf_position pv_perf_counter_position(const struct perf_event *backing)
{
	return (struct pv_perf_position) {
		.count		= local64_read(&backing->count),
		.left		= local64_read(&backing->hw.period_left),
		.last_period	= backing->hw.last_period,
	};
}
EXPORT_SYMBOL_FOR_KVM(pv_perf_counter_position);

/* perf starts it without a new period, so begin the period here. */
static void set_left_stopped(struct perf_event *backing, u64 left)
{
	if (!left) {
		left = pv_perf_backing_period(backing);
		backing->hw.last_period = left;
	}
	local64_set(&backing->hw.period_left, left);
}

/*
 * perf has no function to set the rest of a period.  Set it between a stop and a start
 * of the counter, as perf does when it adjusts a period.
 */
static void set_left_counting(struct perf_event *backing, u64 left)
{
	backing->pmu->stop(backing, PERF_EF_UPDATE);
	local64_set(&backing->hw.period_left, left);
	backing->pmu->start(backing, PERF_EF_RELOAD);
}

/*
 * A throttled event stays stopped.  perf may throttle it until the PMU is disabled, for
 * an overflow whose NMI comes late.
 */
static bool set_left_here(struct perf_event *backing, u64 left)
{
	struct pmu *pmu = backing->pmu;
	unsigned long flags;
	bool here;

	local_irq_save(flags);
	here = pv_perf_backing_is_here(backing);
	if (here) {
		perf_pmu_disable(pmu);
		if (pv_perf_backing_is_stopped(backing))
			set_left_stopped(backing, left);
		else
			set_left_counting(backing, left);
		perf_pmu_enable(pmu);
	}
	local_irq_restore(flags);

	return here;
}

/* For an event that counts elsewhere, or not at all. */
static void set_left_there(struct perf_event *backing, u64 left)
{
	bool enabled = READ_ONCE(backing->state) >= PERF_EVENT_STATE_INACTIVE;

	perf_event_disable(backing);
	local64_set(&backing->hw.period_left, left);
	if (enabled)
		perf_event_enable(backing);
}

/**
 * pv_perf_counter_set_left - set when a backing event overflows next
 * @backing: the backing event, which has a period
 * @left: after how many events, 0 for a whole period
 *
 * May sleep.  The caller keeps others from enabling or disabling the event meanwhile.
 */
void pv_perf_counter_set_left(struct perf_event *backing, u64 left)
{
	if (!set_left_here(backing, left))
		set_left_there(backing, left);
}
EXPORT_SYMBOL_FOR_KVM(pv_perf_counter_set_left);

/**
 * pv_perf_counter_change_period - set the period of a backing event, and begin one
 * @backing: the backing event, which has a period, and no frequency
 * @period: the period
 *
 * perf_event_period(), also if the event's thread has ended: perf does nothing then, but a
 * new backing event is to go on with the period.  May sleep.
 *
 * Return: 0, or -EINVAL if perf does not allow it.
 */
int pv_perf_counter_change_period(struct perf_event *backing, u64 period)
{
	int ret = perf_event_period(backing, period);

	if (ret || pv_perf_backing_period(backing) == period)
		return ret;

	/* The thread has ended, so nobody else writes these. */
	backing->hw.sample_period = period;
	local64_set(&backing->hw.period_left, 0);
	return 0;
}
EXPORT_SYMBOL_FOR_KVM(pv_perf_counter_change_period);

/**
 * pv_perf_counter_copy_position - go on in the period of another backing event
 * @from: the old backing event, which does not count any more
 * @to: the new backing event of the same event
 *
 * With a frequency, the period has been adapted.  May sleep.  The caller keeps others from
 * enabling or disabling @to meanwhile.
 */
void pv_perf_counter_copy_position(const struct perf_event *from,
				   struct perf_event *to)
{
	if (!is_sampling_event(to))
		return;

	to->hw.sample_period = from->hw.sample_period;
	to->hw.last_period = from->hw.last_period;
	pv_perf_counter_set_left(to, local64_read(&from->hw.period_left));
}
EXPORT_SYMBOL_FOR_KVM(pv_perf_counter_copy_position);

static s64 add_to_count(struct perf_event *backing)
{
	local64_inc(&backing->count);
	return local64_sub_return(1, &backing->hw.period_left);
}

/* As when perf adjusts a period: the start writes the counter anew. */
static bool add_by_restart(struct perf_event *backing)
{
	struct pmu *pmu = backing->pmu;
	bool counts;
	s64 left;

	perf_pmu_disable(pmu);
	/* Only now: until here perf may throttle it, see set_left_here(). */
	counts = !pv_perf_backing_is_stopped(backing);
	if (counts)
		pmu->stop(backing, PERF_EF_UPDATE);
	left = add_to_count(backing);
	if (counts)
		pmu->start(backing, PERF_EF_RELOAD);
	perf_pmu_enable(pmu);

	return counts && left <= 0 && is_sampling_event(backing);
}

/* Not negative if the counter has overflowed, and perf has not seen it yet. */
static s64 read_pmc(const struct perf_event *backing)
{
	return pv_perf_pmc_extend(native_read_pmc(backing->hw.event_base_rdpmc));
}

/* The counter does not count now, and perf does not know of it. */
static void write_pmc(const struct perf_event *backing, s64 value)
{
	value &= GENMASK_ULL(PV_PERF_PMC_WIDTH - 1, 0);
	wrmsr(backing->hw.event_base, lower_32_bits(value),
	      upper_32_bits(value));
}

/**
 * pv_perf_counter_add_one - add one to the count of a backing event
 * @backing: has exclude_host, and counts on this CPU, whose IRQs are off
 * @readable: RDPMC may read the counter, so that it must have all of the count
 * @writable: its counter can be written
 *
 * In an NMI perf may read the counter at any time, for another event's overflow.  That
 * changes neither the counter nor its sum with perf's count.
 *
 * A write does not make a counter overflow.  If the counter is at its end, perf begins
 * the next period here, and the caller handles the overflow.  If it has overflowed
 * already, perf's NMI is under way and looks at the counter: do not change it, but add
 * to perf's count, and take from the rest of the next period.
 *
 * Return: whether a period has ended.
 */
bool pv_perf_counter_add_one(struct perf_event *backing, bool readable,
			     bool writable)
{
	s64 value;

	lockdep_assert_irqs_disabled();

	if (!readable && !is_sampling_event(backing)) {
		local64_inc(&backing->count);
		return false;
	}

	if (!writable)
		return add_by_restart(backing);

	value = read_pmc(backing);
	if (value == -1)
		return add_by_restart(backing);

	if (value < 0)
		write_pmc(backing, value + 1);
	else
		add_to_count(backing);
	return false;
}
EXPORT_SYMBOL_FOR_KVM(pv_perf_counter_add_one);

#ifndef PV_PERF_WITHOUT_FREQ
/**
 * pv_perf_counter_set_period - set the length of periods
 * @backing: the backing event, which has a period
 * @period: the new length, which holds from the next overflow on
 *
 * NMI-safe on 64 bits.
 */
void pv_perf_counter_set_period(struct perf_event *backing, u64 period)
{
	WRITE_ONCE(backing->hw.sample_period, period);
}
EXPORT_SYMBOL_FOR_KVM(pv_perf_counter_set_period);

/**
 * pv_perf_counter_begin_period - begin a whole period
 * @backing: the backing event, which has a period
 *
 * Does nothing unless the event counts on this CPU.  Not in NMI context.
 */
void pv_perf_counter_begin_period(struct perf_event *backing)
{
	set_left_here(backing, 0);
}
EXPORT_SYMBOL_FOR_KVM(pv_perf_counter_begin_period);
#endif

#ifndef PV_PERF_WITHOUT_HYBRID
/**
 * pv_perf_counter_reset - begin the count and the times of a backing event at 0
 * @backing: the backing event, disabled
 *
 * Task context.  The caller keeps others from enabling or reading the event meanwhile.
 */
void pv_perf_counter_reset(struct perf_event *backing)
{
	local64_set(&backing->count, 0);
	backing->total_time_enabled = 0;
	backing->total_time_running = 0;
}
EXPORT_SYMBOL_FOR_KVM(pv_perf_counter_reset);

/**
 * pv_perf_counter_add_away - add one to the count of a backing event of another kind
 * @backing: of this thread, which perf has scheduled out; IRQs off
 *
 * Return: whether a period has ended; then the rest of it is 0: the next one begins when
 * the event counts.
 */
bool pv_perf_counter_add_away(struct perf_event *backing)
{
	lockdep_assert_irqs_disabled();

	return !add_to_count(backing) && is_sampling_event(backing);
}
EXPORT_SYMBOL_FOR_KVM(pv_perf_counter_add_away);
#endif
