// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, guest side: what a CPU does later, or now and
 * then, for its counters.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/irq_work.h>
#include <linux/jiffies.h>
#include <linux/percpu.h>
#include <linux/timer.h>

#include "kvm_pmu.h"
#include "kvm_pmu_hypervisor.h"

/*
 * How often a CPU looks after its counters that run.  One that nobody uses runs
 * on for one to two times this.
 */
#define KVM_PMU_WATCH		(HZ / 10)

/* How long one that nobody uses is kept open. */
#define KVM_PMU_KEEP		HZ

static const char * const kvm_pmu_warnings[KVM_PMU_NR_WARNINGS] = {
	[KVM_PMU_WARN_GONE] =
		"the host has no paravirtual perf events any more: nothing counts",
	[KVM_PMU_WARN_LOST] =
		"the host needed the counter of a running event, which is scaled now",
	[KVM_PMU_WARN_NO_SPACE] = "the host allows no more events",
	[KVM_PMU_WARN_COUNTS] =
		"the host does not count some events of the hypervisor any more",
	[KVM_PMU_WARN_MODEL] =
		"the host's CPU is another model: raw events are not counted until they are opened again, for this one",
};

/* Each is printed once, KVM_PMU_WARN_MODEL for each model. */
static unsigned long kvm_pmu_warned;

/**
 * kvm_pmu_warn - put a warning in the log, once
 * @warning: which
 *
 * A task switch holds the lock of the runqueue, which printk() may want, to wake
 * up who waits for the console: leave it to the work.
 */
void kvm_pmu_warn(enum kvm_pmu_pending warning)
{
	if (!test_and_set_bit(warning, &kvm_pmu_warned))
		kvm_pmu_pend(this_kvm_pmu_cpu(), warning);
}

/**
 * kvm_pmu_warn_again - let a warning be printed once more
 * @warning: which
 */
void kvm_pmu_warn_again(enum kvm_pmu_pending warning)
{
	clear_bit(warning, &kvm_pmu_warned);
}

/**
 * kvm_pmu_note_lost - the host has taken a counter away that was to count
 * @cpu: this CPU's
 * @counter: the counter
 *
 * The work has perf schedule without it, as soon as interrupts are on, so that
 * the time that it does not count is known.  May be called in NMI context.
 */
void kvm_pmu_note_lost(struct kvm_pmu_cpu *cpu, struct kvm_pmu_counter *counter)
{
	/* Nobody misses what an unused counter does not count. */
	if (READ_ONCE(counter->state) != KVM_PMU_FREE ||
	    READ_ONCE(counter->leaving))
		kvm_pmu_warn(KVM_PMU_WARN_LOST);
	WRITE_ONCE(counter->lost, true);
	kvm_pmu_pend(cpu, KVM_PMU_GIVE_UP_LOST);
}

/* A counter runs, or is kept open for nobody; or the hypervisor's events count. */
static bool kvm_pmu_any_to_watch(struct kvm_pmu_cpu *cpu)
{
	const struct kvm_pmu_counter *counter;
	unsigned int i;

	if (cpu->counts)
		return true;

	for (i = 0; i < cpu->nr_open; i++) {
		counter = &cpu->counters[i];
		if (counter->host == KVM_PMU_RUNNING ||
		    (counter->host == KVM_PMU_STOPPED && !counter->event))
			return true;
	}

	return false;
}

/**
 * kvm_pmu_start_watch - watch the counters as long as there are any
 * @cpu: this CPU's
 */
void kvm_pmu_start_watch(struct kvm_pmu_cpu *cpu)
{
	if (cpu->watching || !kvm_pmu_any_to_watch(cpu))
		return;

	cpu->watching = true;
	kvm_pmu_pend(cpu, KVM_PMU_START_WATCH);
}

/**
 * kvm_pmu_open_anew - the host has nothing of what was opened
 * @cpu: this CPU's; what counts is open again then, or once perf is done
 */
void kvm_pmu_open_anew(struct kvm_pmu_cpu *cpu)
{
	kvm_pmu_forget_all(cpu);
	if (!cpu->disabled)
		kvm_pmu_flush(cpu);
}

/* Parked ones of an event with a frequency, whose period the host adjusts. */
static void kvm_pmu_stop_unwanted(struct kvm_pmu_cpu *cpu)
{
	struct kvm_pmu_counter *counter;
	unsigned int i;

	for (i = 0; i < cpu->nr_open; i++) {
		counter = &cpu->counters[i];
		if (kvm_pmu_is_unused(counter) && kvm_pmu_is_sampling(counter))
			kvm_pmu_disable_host(counter);
	}
}

/*
 * Stop those that the host has taken away, and limit this CPU to those that count.
 * Returns whether perf has to schedule its events again.
 */
static bool kvm_pmu_give_up_lost(struct kvm_pmu_cpu *cpu)
{
	struct kvm_pmu_counter *counter;
	bool resched = false;
	unsigned int i;

	for (i = 0; i < cpu->nr_open; i++) {
		counter = &cpu->counters[i];
		if (!counter->lost)
			continue;
		/* Of one that does not run, the host has nothing to tell. */
		if (counter->host != KVM_PMU_RUNNING) {
			counter->lost = false;
			continue;
		}
		kvm_pmu_note_no_counter(cpu, counter);
		kvm_pmu_disable_host(counter);
		kvm_pmu_settle_count(counter);
		if (counter->state != KVM_PMU_COUNTING)
			continue;
		kvm_pmu_set_stopped(counter->event);
		WRITE_ONCE(counter->state, KVM_PMU_HELD);
		kvm_pmu_page_changed(cpu, counter->event);
		resched = true;
	}

	cpu->proven = kvm_pmu_running(cpu);
	kvm_pmu_set_limit(cpu, &cpu->proven);
	return resched;
}

/**
 * kvm_pmu_work - what cannot be done where it is noticed
 * @work: of its struct kvm_pmu_cpu
 */
void kvm_pmu_work(struct irq_work *work)
{
	struct kvm_pmu_cpu *cpu = container_of(work, struct kvm_pmu_cpu, work);

	unsigned int i;

	for (i = 0; i < KVM_PMU_NR_WARNINGS; i++) {
		if (test_and_clear_bit(i, &cpu->pending))
			pr_warn("%s\n", kvm_pmu_warnings[i]);
	}

	/* The flush may have found it as well. */
	if (test_and_clear_bit(KVM_PMU_OPEN_ANEW, &cpu->pending) &&
	    kvm_pmu_area_is_stale(cpu))
		kvm_pmu_open_anew(cpu);

	if (test_and_clear_bit(KVM_PMU_STOP_UNWANTED, &cpu->pending))
		kvm_pmu_stop_unwanted(cpu);

	if (test_and_clear_bit(KVM_PMU_GIVE_UP_LOST, &cpu->pending) &&
	    kvm_pmu_give_up_lost(cpu))
		set_bit(KVM_PMU_RESCHED, &cpu->pending);

	if (test_and_clear_bit(KVM_PMU_RESCHED, &cpu->pending))
		kvm_pmu_resched();

	if (test_and_clear_bit(KVM_PMU_RESCHED_HYPERVISOR, &cpu->pending))
		kvm_pmu_hypervisor_resched(cpu);

	if (test_and_clear_bit(KVM_PMU_TAKE_OWED, &cpu->pending))
		kvm_pmu_take_owed(cpu);

	if (test_and_clear_bit(KVM_PMU_WRITE_PAGES, &cpu->pending))
		kvm_pmu_update_pages(cpu);

	if (test_and_clear_bit(KVM_PMU_START_WATCH, &cpu->pending) &&
	    cpu->watching && !timer_pending(&cpu->watch))
		mod_timer(&cpu->watch, jiffies + KVM_PMU_WATCH);
}

/*
 * Stop the counters that have run unused for long enough, and close those that
 * will hardly be used again: an open event of the host's is a claim on its PMU.
 */
static void kvm_pmu_reap(struct kvm_pmu_cpu *cpu)
{
	struct kvm_pmu_counter *counter;
	unsigned long unused;
	unsigned int i;

	for (i = 0; i < cpu->nr_open; i++) {
		counter = &cpu->counters[i];
		unused = jiffies - counter->last_used;
		if (kvm_pmu_is_unused(counter) && unused >= KVM_PMU_WATCH)
			kvm_pmu_disable_host(counter);
		if (!counter->event && counter->host == KVM_PMU_STOPPED &&
		    unused >= KVM_PMU_KEEP)
			kvm_pmu_close(counter);
	}
}

/**
 * kvm_pmu_keeps_unused - does a CPU keep any open for nobody?
 * @nr: the CPU, any
 * @info: not used
 *
 * The CPU may just be changing that.
 */
bool kvm_pmu_keeps_unused(int nr, void *info)
{
	struct kvm_pmu_cpu *cpu = per_cpu(kvm_pmu_cpu, nr);
	struct kvm_pmu_counter *counter;
	unsigned int i;

	for (i = 0; i < KVM_PMU_NR_COUNTERS; i++) {
		counter = &cpu->counters[i];
		if (!READ_ONCE(counter->event) &&
		    READ_ONCE(counter->host) != KVM_PMU_CLOSED)
			return true;
	}

	return false;
}

/**
 * kvm_pmu_close_unused - close what this CPU keeps open for nobody
 * @info: not used
 *
 * Interrupts are off, and perf is not at work on its events.
 */
void kvm_pmu_close_unused(void *info)
{
	struct kvm_pmu_cpu *cpu = this_kvm_pmu_cpu();
	struct kvm_pmu_counter *counter;
	unsigned int i;

	for (i = 0; i < cpu->nr_open; i++) {
		counter = &cpu->counters[i];
		if (!counter->event && counter->host != KVM_PMU_CLOSED)
			kvm_pmu_close(counter);
	}
}

/* Of each, as the host may have lost all but those that were opened since. */
static bool kvm_pmu_ask_host(struct kvm_pmu_cpu *cpu)
{
	bool host_lost = false;
	unsigned int i;

	kvm_pmu_run_batch(cpu);
	for (i = 0; i < cpu->nr_ops; i++) {
		switch (kvm_pmu_result(KVM_PERF_OP_READ, cpu->ops[i].result)) {
		case KVM_PMU_NO_COUNTER:
			kvm_pmu_note_lost(cpu, cpu->op_counters[i]);
			break;
		case KVM_PMU_HOST_LOST:
			host_lost = true;
			break;
		default:
			break;
		}
	}

	return host_lost;
}

/* By an area, and an NMI where a counter is lost. */
static bool kvm_pmu_host_tells(const struct kvm_pmu_cpu *cpu)
{
	return cpu->epoch && (READ_ONCE(kvm_pmu_host.features) & KVM_PERF_FEATURE_NOTIFY);
}

/*
 * Events of a CPU may count for ever without any operation: find out whether
 * they still do.
 */
static void kvm_pmu_check(struct kvm_pmu_cpu *cpu)
{
	unsigned int i;

	cpu->nr_ops = 0;
	for (i = 0; i < cpu->nr_open; i++) {
		if (cpu->counters[i].host == KVM_PMU_RUNNING)
			kvm_pmu_add_op(cpu, &cpu->counters[i],
				       KVM_PERF_OP_READ, 0);
	}
	if (!cpu->nr_ops) {
		/* By the time that any runs again, the host may have others. */
		cpu->proven = (struct kvm_pmu_use) { };
		/* Or it is another one by now. */
		if (!cpu->epoch && !cpu->offline)
			kvm_pmu_area_set(cpu);
		else if (cpu->counts && kvm_pmu_area_is_stale(cpu))
			kvm_pmu_open_anew(cpu);
		return;
	}

	if (kvm_pmu_area_is_stale(cpu) ||
	    (!kvm_pmu_host_tells(cpu) && kvm_pmu_ask_host(cpu)))
		kvm_pmu_open_anew(cpu);
}

/**
 * kvm_pmu_watch - look after the counters of a CPU
 * @watch: of its struct kvm_pmu_cpu
 */
void kvm_pmu_watch(struct timer_list *watch)
{
	struct kvm_pmu_cpu *cpu = container_of(watch, struct kvm_pmu_cpu,
					       watch);
	unsigned long flags;

	local_irq_save(flags);
	cpu->watching = false;
	/* Not where its CPU has gone offline. */
	if (cpu == this_cpu_read(kvm_pmu_cpu)) {
		kvm_pmu_reap(cpu);
		kvm_pmu_counts_reap(cpu);
		kvm_pmu_check(cpu);
		cpu->watching = kvm_pmu_any_to_watch(cpu);
	}
	if (cpu->watching)
		mod_timer(watch, jiffies + KVM_PMU_WATCH);
	local_irq_restore(flags);
}
