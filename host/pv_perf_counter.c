// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, host side: reading, stopping and starting the counter
 * of a backing event, and its position in its period.
 *
 * Calls perf's PMUs, and changes perf's private fields; other files only read these.
 */
#include <linux/export.h>
#include <linux/kvm_types.h>

#include <asm/msr.h>
#include <asm/perf_event.h>

#include "compat.h"
#include "pv_perf_counter.h"

/**
 * pv_perf_backing_reset - begin the count and the times of a backing event at 0
 * @backing: the backing event, disabled
 */
void pv_perf_backing_reset(struct perf_event *backing)
{
	local64_set(&backing->count, 0);
	backing->total_time_enabled = 0;
	backing->total_time_running = 0;
}
EXPORT_SYMBOL_FOR_KVM(pv_perf_backing_reset);

/**
 * pv_perf_backing_read_count - read the counter of a backing event
 * @backing: counts on this CPU, with interrupts off.  Not in NMI context
 *
 * If the count is up to date, does not read: the event may have another counter by now,
 * which still has another event's count.
 *
 * Return: the count.
 */
u64 pv_perf_backing_read_count(struct perf_event *backing)
{
	if (!(READ_ONCE(backing->hw.state) & PERF_HES_UPTODATE))
		backing->pmu->read(backing);
	return local64_read(&backing->count);
}
EXPORT_SYMBOL_FOR_KVM(pv_perf_backing_read_count);

/**
 * pv_perf_backing_forget_counter - have perf place all events anew
 * @backing: the backing event
 *
 * If the counter that an event had is free, perf gives it to the event again, and moves
 * no event (x86_schedule_events()).  Does nothing if @backing has a counter now.
 */
void pv_perf_backing_forget_counter(struct perf_event *backing)
{
	if (READ_ONCE(backing->state) < PERF_EVENT_STATE_INACTIVE)
		WRITE_ONCE(backing->hw.idx, -1);
}
EXPORT_SYMBOL_FOR_KVM(pv_perf_backing_forget_counter);

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
		pmu->pmu_disable(pmu);
		if (pv_perf_backing_is_stopped(backing))
			set_left_stopped(backing, left);
		else
			set_left_counting(backing, left);
		pmu->pmu_enable(pmu);
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
EXPORT_SYMBOL_FOR_KVM(pv_perf_backing_set_left);

/**
 * pv_perf_backing_begin_period - begin a whole period
 * @backing: the backing event, which has a period
 *
 * Does nothing unless the event counts on this CPU.
 */
void pv_perf_backing_begin_period(struct perf_event *backing)
{
	set_left_here(backing, 0);
}
EXPORT_SYMBOL_FOR_KVM(pv_perf_backing_begin_period);

/**
 * pv_perf_backing_copy_position - go on in the period of another backing event
 * @from: the old backing event, which does not count any more
 * @to: the new backing event of the same event
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
EXPORT_SYMBOL_FOR_KVM(pv_perf_backing_copy_position);

/**
 * pv_perf_backing_position - count and position of a backing event
 * @backing: the backing event, whose counter perf has read and stopped
 *
 * NMI-safe.
 */
struct pv_perf_position pv_perf_backing_position(const struct perf_event *backing)
{
	return (struct pv_perf_position) {
		.count		= local64_read(&backing->count),
		.left		= local64_read(&backing->hw.period_left),
		.last_period	= backing->hw.last_period,
	};
}
EXPORT_SYMBOL_FOR_KVM(pv_perf_backing_position);

/**
 * pv_perf_backing_stop - stop a counter behind perf's back
 * @backing: counts on this CPU; its PMU is disabled
 * @at: set to its position
 */
void pv_perf_backing_stop(struct perf_event *backing,
			  struct pv_perf_position *at)
{
	backing->pmu->stop(backing, PERF_EF_UPDATE);
	*at = pv_perf_backing_position(backing);
}
EXPORT_SYMBOL_FOR_KVM(pv_perf_backing_stop);

/**
 * pv_perf_backing_restore - set a backing event back to the position where it stopped
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
EXPORT_SYMBOL_FOR_KVM(pv_perf_backing_restore);

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
 * pv_perf_backing_restart - let a counter go on from the position where it stopped
 * @backing: as for pv_perf_backing_stop(); perf may have started it
 * @at: from pv_perf_backing_stop()
 */
void pv_perf_backing_restart(struct perf_event *backing,
			     const struct pv_perf_position *at)
{
	bool keep;

	backing->pmu->stop(backing, PERF_EF_UPDATE);
	keep = counter_is_at(backing, at);
	pv_perf_backing_restore(backing, at);
	backing->pmu->start(backing, keep ? 0 : PERF_EF_RELOAD);
}
EXPORT_SYMBOL_FOR_KVM(pv_perf_backing_restart);

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

	pmu->pmu_disable(pmu);
	/* Only now: until here perf may throttle it, see set_left_here(). */
	counts = !pv_perf_backing_is_stopped(backing);
	if (counts)
		pmu->stop(backing, PERF_EF_UPDATE);
	left = add_to_count(backing);
	if (counts)
		pmu->start(backing, PERF_EF_RELOAD);
	pmu->pmu_enable(pmu);

	return counts && left <= 0 && is_sampling_event(backing);
}

/* Not negative if the counter has overflowed, and perf has not seen it yet. */
static s64 pv_perf_pmc_read(const struct perf_event *backing)
{
	return pv_perf_pmc_extend(native_read_pmc(backing->hw.event_base_rdpmc));
}

/* The counter does not count now, and perf does not know of it. */
static void pv_perf_pmc_write(const struct perf_event *backing, s64 value)
{
	value &= GENMASK_ULL(PV_PERF_PMC_WIDTH - 1, 0);
	wrmsr(backing->hw.event_base, lower_32_bits(value),
	      upper_32_bits(value));
}

/**
 * pv_perf_backing_add_one - add one to the count of a backing event
 * @backing: counts on this CPU, with interrupts off, but not the host
 * @readable: the guest may read its counter
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
bool pv_perf_backing_add_one(struct perf_event *backing, bool readable,
			     bool writable)
{
	s64 value;

	if (!readable && !is_sampling_event(backing)) {
		local64_inc(&backing->count);
		return false;
	}

	if (!writable)
		return add_by_restart(backing);

	value = pv_perf_pmc_read(backing);
	if (value == -1)
		return add_by_restart(backing);

	if (value < 0)
		pv_perf_pmc_write(backing, value + 1);
	else
		add_to_count(backing);
	return false;
}
EXPORT_SYMBOL_FOR_KVM(pv_perf_backing_add_one);

/**
 * pv_perf_backing_add_away - add one to the count of a backing event of another kind
 * @backing: of this thread, which perf has scheduled out; IRQs off
 *
 * Return: whether a period has ended; then the rest of it is 0: the next one begins when
 * the event counts.
 */
bool pv_perf_backing_add_away(struct perf_event *backing)
{
	return !add_to_count(backing) && is_sampling_event(backing);
}
EXPORT_SYMBOL_FOR_KVM(pv_perf_backing_add_away);
