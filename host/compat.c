// SPDX-License-Identifier: GPL-2.0
/*
 * Starting and stopping an event of perf without scheduling others, for modules.  In the
 * series for mainline, perf's own perf_event_enable() starts an event so.
 *
 * With interrupts off, nobody else changes which events are on this CPU: perf sends the
 * CPU an IPI.  The context's lock keeps other CPUs from reading half of the changes.
 * The NMI handler looks at the counters that the PMU has started, which begins when the
 * PMU is enabled.
 */
#include <linux/list.h>
#include <linux/sched.h>
#include <linux/smp.h>
#include <linux/spinlock.h>

#include "compat.h"
#include "compat_context.h"

#undef perf_event_enable
#undef perf_event_disable

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0)
/* The events of this PMU that are the thread's. */
static struct perf_event_context *events_of_thread(const struct perf_event *event)
{
	return event->ctx;
}

static bool counts_on_cpu(struct perf_event *event)
{
	return !event->pmu->filter_match || event->pmu->filter_match(event);
}

static void account(struct perf_event *event, int n)
{
	event->ctx->nr_active += n;
	if (event->attr.freq)
		event->ctx->nr_freq += n;
}
#else
static struct perf_event_pmu_context *
events_of_thread(const struct perf_event *event)
{
	return event->pmu_ctx;
}

static bool counts_on_cpu(struct perf_event *event)
{
	return !event->pmu->filter ||
	       !event->pmu->filter(event->pmu, smp_processor_id());
}

static void account(struct perf_event *event, int n)
{
	if (event->attr.freq) {
		event->ctx->nr_freq += n;
		event->pmu_ctx->nr_freq += n;
	}
}
#endif

/* MAX_INTERRUPTS of kernel/events/core.c. */
static bool is_throttled(const struct perf_event *event)
{
	return event->hw.interrupts == ~0ULL;
}

static bool is_group_throttled(const struct perf_event *leader)
{
	const struct perf_event *sibling;

	if (is_throttled(leader))
		return true;

	for_each_sibling_event(sibling, leader) {
		if (is_throttled(sibling))
			return true;
	}

	return false;
}

static bool any_throttled(const struct list_head *active)
{
	const struct perf_event *leader;

	list_for_each_entry(leader, active, active_list) {
		if (is_group_throttled(leader))
			return true;
	}

	return false;
}

/*
 * add() may move other events to make room.  Before 7.0 perf starts a throttled event, at
 * a tick, without writing its new counter.  Events that are not pinned do not make way:
 * one of them might have the fixed counter without which the guest is over its limit.
 */
static bool may_add_beside(const struct perf_event *event)
{
	return list_empty(&events_of_thread(event)->flexible_active) &&
	       list_empty(&pv_perf_cpu_events(event->pmu)->flexible_active) &&
	       !any_throttled(&events_of_thread(event)->pinned_active) &&
	       !any_throttled(&pv_perf_cpu_events(event->pmu)->pinned_active) &&
	       !pv_perf_cpu_context(event->pmu)->exclusive;
}

/*
 * If another pinned event counts, perf has this thread's pinned events on this CPU, and
 * keeps account of that.
 */
static bool may_start_beside(struct perf_event *event)
{
	return event->ctx->task == current &&
	       (event->state == PERF_EVENT_STATE_OFF ||
		event->state == PERF_EVENT_STATE_ERROR) &&
	       !list_empty(&events_of_thread(event)->pinned_active) &&
	       may_add_beside(event) && counts_on_cpu(event);
}

/*
 * As event_sched_in() of kernel/events/core.c, but outside of a transaction: then add()
 * finds out whether there is a counter.  The counter starts when the PMU is enabled.  In
 * a guest, add() may throttle the event, so what perf keeps of the event comes before.
 */
static bool start_beside(struct perf_event *event)
{
	enum perf_event_state before = event->state;
	int ret;

	event->tstamp = pv_perf_context_time(event->ctx);
	WRITE_ONCE(event->oncpu, smp_processor_id());
	/* Who sees ACTIVE sees the CPU. */
	smp_wmb();
	WRITE_ONCE(event->state, PERF_EVENT_STATE_ACTIVE);
	if (is_throttled(event))
		event->hw.interrupts = 0;
	perf_pmu_disable(event->pmu);
	ret = event->pmu->add(event, PERF_EF_START);
	if (!ret) {
		list_add_tail(&event->active_list,
			      &events_of_thread(event)->pinned_active);
		pv_perf_cpu_context(event->pmu)->active_oncpu++;
		account(event, 1);
	} else {
		WRITE_ONCE(event->state, before);
		WRITE_ONCE(event->oncpu, -1);
	}
	perf_pmu_enable(event->pmu);

	return !ret;
}

/**
 * pv_perf_compat_enable - perf_event_enable() for a pinned event of a thread
 * @event: the event, alone in its group
 *
 * If the event is this thread's, another pinned one counts, no event of the PMU has to
 * make way, and a counter is free, lets the event count.  Else perf schedules the thread's
 * events of this PMU out and in again.
 * May sleep.
 */
void pv_perf_compat_enable(struct perf_event *event)
{
	bool done;

	raw_spin_lock_irq(&event->ctx->lock);
	done = may_start_beside(event) && start_beside(event);
	raw_spin_unlock_irq(&event->ctx->lock);

	if (!done)
		perf_event_enable(event);
}

static bool may_stop_beside(struct perf_event *event)
{
	return event->ctx->task == current &&
	       event->state == PERF_EVENT_STATE_ACTIVE &&
	       event->oncpu == smp_processor_id() &&
	       !list_is_singular(&events_of_thread(event)->pinned_active);
}

/* As event_sched_out() of kernel/events/core.c. */
static void stop_beside(struct perf_event *event)
{
	u64 delta;

	list_del_init(&event->active_list);
	perf_pmu_disable(event->pmu);
	event->pmu->del(event, 0);
	delta = pv_perf_context_time(event->ctx) - event->tstamp;
	event->total_time_enabled += delta;
	event->total_time_running += delta;
	event->tstamp += delta;
	WRITE_ONCE(event->oncpu, -1);
	WRITE_ONCE(event->state, PERF_EVENT_STATE_OFF);
	pv_perf_cpu_context(event->pmu)->active_oncpu--;
	account(event, -1);
	perf_pmu_enable(event->pmu);
}

/**
 * pv_perf_compat_disable - perf_event_disable() for a pinned event of a thread
 * @event: the event, alone in its group
 *
 * If the event counts on this CPU, and another pinned one does, saves perf's way to the
 * event's CPU.  May sleep.
 */
void pv_perf_compat_disable(struct perf_event *event)
{
	bool may;

	raw_spin_lock_irq(&event->ctx->lock);
	may = may_stop_beside(event);
	if (may)
		stop_beside(event);
	raw_spin_unlock_irq(&event->ctx->lock);

	if (!may)
		perf_event_disable(event);
}
