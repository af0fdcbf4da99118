// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, guest side: the flush.
 *
 * What perf changes between pmu_disable and pmu_enable is noted first and goes
 * to the host as one hypercall, the flush: a context switch takes two, one as
 * the old task's events leave and one as the new task's start, however many
 * they are.
 *
 * Whether the host has a counter for an event is known only then.  Where as many
 * have counted before it is taken for granted; else the flush comes while perf can
 * still take its word back, at the end of its transaction.  Where it was wrong to
 * take it for granted, perf is made to schedule its events again.
 */
#include <linux/bitops.h>
#include <linux/irq_work.h>
#include <linux/perf_event.h>

#include "kvm_pmu.h"

/* How many were to start, and do not run? */
static unsigned int kvm_pmu_settle(struct kvm_pmu_cpu *cpu)
{
	struct kvm_pmu_counter *counter;
	unsigned int failed = 0;
	unsigned int i;

	for (i = 0; i < cpu->nr_open; i++) {
		counter = &cpu->counters[i];
		/* Of one that an NMI has stopped before there was anything to ask for. */
		kvm_pmu_settle_leaving(counter);
		if (READ_ONCE(counter->state) != KVM_PMU_STARTING)
			continue;
		if (counter->host != KVM_PMU_RUNNING) {
			failed++;
			continue;
		}
		kvm_pmu_set_counting(cpu, counter);
		kvm_pmu_look_again(cpu, counter);
	}
	cpu->leaving = false;

	return failed;
}

/**
 * kvm_pmu_running - what the counters take that run at the host, lost ones apart
 * @cpu: this CPU's
 */
struct kvm_pmu_use kvm_pmu_running(struct kvm_pmu_cpu *cpu)
{
	const struct kvm_pmu_counter *counter;
	struct kvm_pmu_use use = { };
	unsigned int i;

	for (i = 0; i < cpu->nr_open; i++) {
		counter = &cpu->counters[i];
		if (counter->host == KVM_PMU_RUNNING && !counter->lost)
			kvm_pmu_add_use(&use, counter->kind);
	}

	return use;
}

/**
 * kvm_pmu_any_unused - does the host count anything here for no event?
 * @cpu: this CPU's
 */
bool kvm_pmu_any_unused(const struct kvm_pmu_cpu *cpu)
{
	unsigned int i;

	for (i = 0; i < cpu->nr_open; i++) {
		if (kvm_pmu_is_unused(&cpu->counters[i]))
			return true;
	}

	return false;
}

/* Close what is kept open in case; true if there was any. */
static bool kvm_pmu_close_stopped(struct kvm_pmu_cpu *cpu)
{
	struct kvm_pmu_counter *counter;
	bool any = false;
	unsigned int i;

	for (i = 0; i < cpu->nr_open; i++) {
		counter = &cpu->counters[i];
		if (counter->event || counter->host != KVM_PMU_STOPPED)
			continue;
		kvm_pmu_close(counter);
		any = true;
	}

	return any;
}

/* The host has counters for no more than what runs now. */
static void kvm_pmu_limit_to_running(struct kvm_pmu_cpu *cpu)
{
	struct kvm_pmu_use running = kvm_pmu_running(cpu);
	const struct kvm_pmu_counter *counter;
	unsigned int i;

	for (i = 0; i < cpu->nr_open; i++) {
		counter = &cpu->counters[i];
		if (READ_ONCE(counter->state) == KVM_PMU_STARTING &&
		    counter->host != KVM_PMU_RUNNING)
			kvm_pmu_note_no_counter(cpu, counter);
	}
	kvm_pmu_set_limit(cpu, &running);
}

/*
 * True if what has failed may succeed when it is tried again: with fewer that are kept
 * open, or with fewer that run unused, which are stopped for the limit.
 */
static bool kvm_pmu_make_room(struct kvm_pmu_cpu *cpu)
{
	bool no_counter = xchg(&cpu->no_counter, false);
	bool no_space = xchg(&cpu->no_space, false);
	bool closed = no_space && kvm_pmu_close_stopped(cpu);

	if (no_counter || (no_space && !closed))
		kvm_pmu_limit_to_running(cpu);

	return closed || ((no_counter || no_space) && kvm_pmu_any_unused(cpu));
}

/* Has so much counted at the same time already? */
static bool kvm_pmu_is_proven(const struct kvm_pmu_cpu *cpu)
{
	unsigned int i;

	if (cpu->use.general > cpu->proven.general)
		return false;

	for (i = 0; i < KVM_PMU_GENERAL; i++) {
		if (cpu->use.fixed[i] && !cpu->proven.fixed[i])
			return false;
	}

	return true;
}

/* Has every event that is to start a counter that counts now? */
static bool kvm_pmu_flush_all(struct kvm_pmu_cpu *cpu)
{
	unsigned int failed = 0;
	int tries;

	cpu->flushing = true;
	/* What is only opened now would not show it. */
	if (kvm_pmu_area_is_stale(cpu))
		kvm_pmu_forget_all(cpu);

	/* Again where the host had forgotten, or where it had too few counters. */
	for (tries = 0; cpu->changed && tries < 4; tries++) {
		cpu->changed = false;
		kvm_pmu_plan(cpu);
		if (cpu->nr_ops)
			kvm_pmu_run(cpu);

		failed = kvm_pmu_settle(cpu);
		if (failed && !cpu->changed)
			cpu->changed = kvm_pmu_make_room(cpu);
	}

	cpu->changed = false;
	cpu->no_counter = false;
	cpu->no_space = false;
	cpu->flushing = false;

	if (failed || !kvm_pmu_is_proven(cpu))
		cpu->proven = kvm_pmu_running(cpu);
	kvm_pmu_start_watch(cpu);
	return !failed;
}

/* perf believes some to count that the host has no counter for: tell it. */
static void kvm_pmu_give_up(struct kvm_pmu_cpu *cpu)
{
	unsigned int i;

	for (i = 0; i < cpu->nr_open; i++)
		cmpxchg(&cpu->counters[i].state, KVM_PMU_STARTING, KVM_PMU_HELD);

	kvm_pmu_pend(cpu, KVM_PMU_RESCHED);
}

/**
 * kvm_pmu_flush - have the host do what was noted
 * @cpu: this CPU's
 */
void kvm_pmu_flush(struct kvm_pmu_cpu *cpu)
{
	/* What BPF does in a flush is left to that. */
	if (cpu->flushing)
		return;

	if (!kvm_pmu_flush_all(cpu))
		kvm_pmu_give_up(cpu);
	if (cpu->owing)
		kvm_pmu_take_owed(cpu);
}

static bool kvm_pmu_added_all(struct kvm_pmu_cpu *cpu,
			      bool (*test)(const struct kvm_pmu_counter *))
{
	unsigned int i;

	for_each_set_bit(i, &cpu->added, KVM_PMU_NR_COUNTERS) {
		if (!test(&cpu->counters[i]))
			return false;
	}

	return true;
}

static bool kvm_pmu_runs(const struct kvm_pmu_counter *counter)
{
	return counter->host == KVM_PMU_RUNNING;
}

static bool kvm_pmu_has_started(const struct kvm_pmu_counter *counter)
{
	return counter->state != KVM_PMU_STARTING;
}

static bool kvm_pmu_is_flexible(const struct kvm_pmu_counter *counter)
{
	return !kvm_pmu_is_pinned(counter->event);
}

/**
 * kvm_pmu_flush_added - can all that perf has just added count?
 * @cpu: this CPU's; perf has it disabled
 *
 * A group counts as a whole or not at all.  The host need not be asked where the
 * counters run already, or where as many events have counted.
 *
 * No limit keeps perf from adding a pinned group that has failed.  If it were taken for
 * granted once more, the work would have perf add it for ever.
 */
bool kvm_pmu_flush_added(struct kvm_pmu_cpu *cpu)
{
	if (kvm_pmu_added_all(cpu, kvm_pmu_runs) ||
	    (kvm_pmu_is_proven(cpu) &&
	     kvm_pmu_added_all(cpu, kvm_pmu_is_flexible)))
		return true;

	/* Others that perf has been told of before may have failed: see them off. */
	if (!kvm_pmu_flush_all(cpu))
		cpu->changed = true;

	return kvm_pmu_added_all(cpu, kvm_pmu_has_started);
}
