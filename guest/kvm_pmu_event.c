// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, guest side: the struct pmu.
 *
 * Except for kvm_pmu_register() and kvm_pmu_query(), all runs on the CPU of the event, with
 * interrupts off; stop and read also in the NMI handler.
 *
 * An event is added:
 *
 *	kvm_pmu_add()
 *	    kvm_pmu_backing_get()		is there room, and which backing event?
 *	        kvm_pmu_host_is_gone()		READ, if the host did not have the feature
 *	        kvm_pmu_reopen()		CLOSE of another, if no record is free
 *	    kvm_pmu_flush_leaving()		if the free ones are of events that leave
 *	    kvm_pmu_branches_add()		perf shall call kvm_pmu_sched_task()
 *	    kvm_pmu_start()
 *	        kvm_pmu_backing_start()		STARTING; or COUNTING, back where it was
 *
 * perf ends the transaction, and then its work on all events:
 *
 *	kvm_pmu_commit_txn()
 *	    kvm_pmu_flush_added()		unless success is taken for granted
 *	kvm_pmu_enable()
 *	    kvm_pmu_flush()			COUNTING
 *	    kvm_pmu_take_owed()			samples of overflows during all that
 *
 * An event is deleted:
 *
 *	kvm_pmu_del()
 *	    kvm_pmu_backing_put()		FREE; by RDPMC its final count is known now,
 *						else the event is leaving
 *	    kvm_pmu_branches_del()
 *	    kvm_pmu_flush()			if perf deletes this event alone
 *	kvm_pmu_enable()
 *	    kvm_pmu_flush()			the final count; the backing event is spare
 *
 * A context switch, in the order of perf's calls for the events of tasks:
 *
 *	kvm_pmu_user_switch()			the tracepoint: see kvm_pmu_user.c
 *	kvm_pmu_del() ... kvm_pmu_enable()	the old task's events: a flush
 *	kvm_pmu_add() ... kvm_pmu_commit_txn()	the new task's events
 *	kvm_pmu_sched_task()			if events with branches count here:
 *	    kvm_pmu_branches_forget()		    a hypercall more
 *	kvm_pmu_enable()			a flush, unless kvm_pmu_commit_txn() has flushed
 *
 * Each flush is a hypercall.  With RDPMC, events that only count need no flush, unless one
 * of the two tasks may execute RDPMC in user mode.  Events that sample always need both.
 *
 * An event is read:
 *
 *	kvm_pmu_read()
 *	    kvm_pmu_backing_read()
 *	        kvm_pmu_rdpmc()			without an exit, or
 *	        kvm_pmu_read_by_host()		READ; of a group, READ of all
 *	        kvm_pmu_count()			adds the difference to the event's count
 *	    kvm_pmu_open_anew()			if the host does not know the event
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/export.h>
#include <linux/perf_event.h>

#include "compat.h"
#include "kvm_pmu.h"
#include "kvm_pmu_query.h"

static void kvm_pmu_disable(struct pmu *pmu)
{
	this_kvm_pmu_cpu()->perf.disabled = true;
}

/* Flush changes that perf makes to one event outside of pmu_disable and pmu_enable. */
static void kvm_pmu_flush_if_enabled(struct kvm_pmu_cpu *cpu)
{
	if (cpu->perf.disabled || cpu->busy || !cpu->flush.due)
		return;

	kvm_pmu_flush(cpu);
	if (cpu->nmi.owing)
		kvm_pmu_take_owed(cpu);
}

static void kvm_pmu_enable(struct pmu *pmu)
{
	struct kvm_pmu_cpu *cpu = this_kvm_pmu_cpu();

	cpu->perf.disabled = false;
	kvm_pmu_flush_if_enabled(cpu);
	/* Once more: events may have overflowed while the samples were taken. */
	if (cpu->nmi.owing)
		kvm_pmu_take_owed(cpu);
}

static void kvm_pmu_start_txn(struct pmu *pmu, unsigned int txn_flags)
{
	struct kvm_pmu_cpu *cpu = this_kvm_pmu_cpu();

	cpu->perf.added = 0;
	cpu->perf.adding = txn_flags & PERF_PMU_TXN_ADD;
	/* For a single event, READ of all costs more: it also reads spare ones. */
	cpu->perf.reading = (txn_flags & PERF_PMU_TXN_READ) && cpu->used > 1;
}

static void kvm_pmu_cancel_txn(struct pmu *pmu)
{
	struct kvm_pmu_cpu *cpu = this_kvm_pmu_cpu();

	cpu->perf.adding = false;
	cpu->perf.reading = false;
	cpu->perf.fresh = false;
}

/* On failure perf takes all that it has added in the transaction off again. */
static int kvm_pmu_commit_txn(struct pmu *pmu)
{
	struct kvm_pmu_cpu *cpu = this_kvm_pmu_cpu();

	cpu->perf.adding = false;
	cpu->perf.reading = false;
	cpu->perf.fresh = false;
	return cpu->perf.added && !kvm_pmu_flush_added(cpu) ? -EAGAIN : 0;
}

static void kvm_pmu_read(struct perf_event *event)
{
	struct kvm_pmu_cpu *cpu = this_kvm_pmu_cpu();

	if (event->hw.state || kvm_pmu_backing_read(cpu, event))
		return;

	/* In an NMI or a flush, leave this to the watch. */
	if (!in_nmi() && !cpu->busy)
		kvm_pmu_open_anew(cpu);
}

static void kvm_pmu_start(struct perf_event *event, int flags)
{
	struct kvm_pmu_cpu *cpu = this_kvm_pmu_cpu();

	/* From Linux 6.16 on, perf unthrottles a whole group, also events elsewhere. */
	if (event->hw.idx < 0)
		return;

	kvm_pmu_backing_start(cpu, event);
	kvm_pmu_flush_if_enabled(cpu);
}

static void kvm_pmu_stop(struct perf_event *event, int flags)
{
	kvm_pmu_backing_stop(this_kvm_pmu_cpu(), event);
}

static void kvm_pmu_del(struct perf_event *event, int flags)
{
	struct kvm_pmu_cpu *cpu = this_kvm_pmu_cpu();

	kvm_pmu_backing_put(cpu, event);
	kvm_pmu_branches_del(event);
	kvm_pmu_flush_if_enabled(cpu);
}

/*
 * -EAGAIN, for want of a counter, makes perf multiplex the events.  Outside of a
 * transaction, which would end with the same question, ask the host now.
 */
static int kvm_pmu_add(struct perf_event *event, int flags)
{
	struct kvm_pmu_cpu *cpu = this_kvm_pmu_cpu();
	int ret;

	if (!cpu->perf.adding)
		cpu->perf.added = 0;

	ret = kvm_pmu_backing_get(cpu, event);
	if (ret == -ENOSPC && cpu->leaving) {
		kvm_pmu_flush_leaving(cpu);
		ret = kvm_pmu_backing_get(cpu, event);
	}
	if (ret)
		return -EAGAIN;

	kvm_pmu_branches_add(event);
	if (flags & PERF_EF_START)
		kvm_pmu_start(event, 0);

	if (cpu->perf.adding || kvm_pmu_flush_added(cpu))
		return 0;

	kvm_pmu_del(event, 0);
	return -EAGAIN;
}

/* Called while events with branches count here: no task gets another's branches. */
#ifdef KVM_PMU_SCHED_TASK_OF_CONTEXT
static void kvm_pmu_sched_task(struct perf_event_context *ctx, bool sched_in)
#else
static void kvm_pmu_sched_task(struct perf_event_pmu_context *ctx,
			       struct task_struct *task, bool sched_in)
#endif
{
	if (sched_in)
		kvm_pmu_branches_forget();
}

static const struct pmu kvm_pmu_template = {
	.module		= THIS_MODULE,
	.attr_groups	= kvm_pmu_attr_groups,
	.task_ctx_nr	= perf_hw_context,
	.pmu_enable	= kvm_pmu_enable,
	.pmu_disable	= kvm_pmu_disable,
	.event_init	= kvm_pmu_event_init,
	.add		= kvm_pmu_add,
	.del		= kvm_pmu_del,
	.start		= kvm_pmu_start,
	.stop		= kvm_pmu_stop,
	.read		= kvm_pmu_read,
	.event_mapped	= kvm_pmu_event_mapped,
	.event_unmapped	= kvm_pmu_event_unmapped,
	.sched_task	= kvm_pmu_sched_task,
	.check_period	= kvm_pmu_check_period,
	.start_txn	= kvm_pmu_start_txn,
	.commit_txn	= kvm_pmu_commit_txn,
	.cancel_txn	= kvm_pmu_cancel_txn,
};

/*
 * perf sends PERF_TYPE_HARDWARE to the PMU that has PERF_TYPE_RAW.  A second
 * registration warns, so see first whether a PMU takes a raw event.
 */
static bool kvm_pmu_raw_is_free(void)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_RAW,
		.size		= sizeof(attr),
		.disabled	= 1,
	};
	struct perf_event *event;

	event = perf_event_create_kernel_counter(&attr, -1, current, NULL,
						 NULL);
	if (IS_ERR(event))
		return PTR_ERR(event) == -ENOENT;

	perf_event_release_kernel(event);
	return false;
}

/**
 * kvm_pmu_register - let perf use this PMU
 *
 * Return: 0 or -E*.
 */
int kvm_pmu_register(void)
{
	bool slot = kvm_pmu_raw_is_free();
	const char *name = slot ? "cpu" : "kvm_pmu";
	int ret;

	ret = kvm_pmu_register_copy(&kvm_pmu, &kvm_pmu_template, kvm_pmu_may_sample(),
				    name, slot ? PERF_TYPE_RAW : -1);
	if (ret) {
		pr_err("not loaded: registering the PMU failed with %d\n", ret);
		return ret;
	}

	pr_info("PMU '%s'%s: %u counters of the host and %u fixed ones, at most %u events%s\n",
		name, slot ? "" : " (another PMU has 'cpu')",
		kvm_pmu_host.nr_counters,
		hweight32(kvm_pmu_host.fixed_counters),
		kvm_pmu_host.max_events,
		kvm_pmu_may_sample() ? "" :
		", counting only (the host does not let this VM sample)");
	return 0;
}

/**
 * kvm_pmu_query - get the host's offer, for a KVM of this guest
 * @query: set to the offer
 *
 * Return: false if there is no PMU by this driver, or if another PMU would get that
 * KVM's raw events.
 */
bool kvm_pmu_query(struct guest_perf_query *query)
{
	if (!kvm_pmu || kvm_pmu->type != PERF_TYPE_RAW)
		return false;

	kvm_pmu_get_host(query);
	return true;
}
EXPORT_SYMBOL_GPL(kvm_pmu_query);
