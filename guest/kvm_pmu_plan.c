// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, guest side: what a flush asks the host for.
 */
#include <linux/bitops.h>
#include <linux/io.h>
#include <linux/perf_event.h>

#include "kvm_pmu.h"
#include "kvm_pmu_rdpmc.h"

/**
 * kvm_pmu_add_op - note an operation for the next hypercall
 * @cpu: this CPU's; its nr_ops is 0 before the first
 * @counter: the counter that it is for
 * @op: KVM_PERF_OP_*
 * @arg: as in struct guest_perf_op
 */
void kvm_pmu_add_op(struct kvm_pmu_cpu *cpu, struct kvm_pmu_counter *counter,
		    u32 op, u64 arg)
{
	if (WARN_ON_ONCE(cpu->nr_ops == KVM_PERF_BATCH_MAX))
		return;

	cpu->op_counters[cpu->nr_ops] = counter;
	cpu->op_codes[cpu->nr_ops] = op;
	cpu->ops[cpu->nr_ops++] = (struct guest_perf_op) {
		.op	= op,
		/* OPEN finds the id in its argument. */
		.id	= op == KVM_PERF_OP_OPEN ? 0 : counter->param.id,
		.arg	= arg,
	};
}

/* Where the period that the event was in when it stopped goes on. */
static bool kvm_pmu_has_position(const struct kvm_pmu_counter *counter,
				 u64 left)
{
	switch (counter->host) {
	case KVM_PMU_CLOSED:
		return !left || left == counter->attr.sample_period;
	case KVM_PMU_STOPPED:
		return left == kvm_pmu_record_left(&counter->record);
	default:
		return false;
	}
}

/* Or do it at once. */
static void kvm_pmu_plan_read(struct kvm_pmu_cpu *cpu,
			      struct kvm_pmu_counter *counter)
{
	u64 count;

	if (!kvm_pmu_is_sampling(counter) &&
	    kvm_pmu_rdpmc(cpu, counter, &count))
		kvm_pmu_take_count(counter, count);
	else
		kvm_pmu_add_op(cpu, counter, KVM_PERF_OP_READ, 0);
}

static void kvm_pmu_plan_start(struct kvm_pmu_cpu *cpu,
			       struct kvm_pmu_counter *counter)
{
	struct hw_perf_event *hwc = &counter->event->hw;
	bool sampling = kvm_pmu_is_sampling(counter);
	u64 count = kvm_pmu_record_count(&counter->record);

	if (counter->host == KVM_PMU_CLOSED) {
		kvm_pmu_add_op(cpu, counter, KVM_PERF_OP_OPEN,
			       virt_to_phys(&counter->param));
		count = 0;
	}

	/* Of a counter that runs, an operation will tell. */
	local64_set(&hwc->prev_count, count);

	/* PERF_EVENT_IOC_PERIOD has changed it. */
	if (sampling && hwc->sample_period != counter->attr.sample_period)
		kvm_pmu_add_op(cpu, counter, KVM_PERF_OP_SET_PERIOD,
			       hwc->sample_period);

	if (sampling &&
	    !kvm_pmu_has_position(counter, local64_read(&hwc->period_left)))
		kvm_pmu_add_op(cpu, counter, KVM_PERF_OP_SET_LEFT,
			       local64_read(&hwc->period_left));
	else if (counter->host == KVM_PMU_RUNNING)
		kvm_pmu_plan_read(cpu, counter);

	if (counter->host != KVM_PMU_RUNNING) {
		/* An NMI may tell of it as soon as it is. */
		set_bit(counter - cpu->counters, &cpu->telling);
		kvm_pmu_add_op(cpu, counter, KVM_PERF_OP_ENABLE, 0);
	}
}

/* Leave a counter that nobody uses running, or stop it. */
static void kvm_pmu_plan_unused(struct kvm_pmu_cpu *cpu,
				struct kvm_pmu_counter *counter, bool room)
{
	if (!room)
		kvm_pmu_add_op(cpu, counter, KVM_PERF_OP_DISABLE, 0);
	else if (!counter->leaving)
		return;
	else if (kvm_pmu_is_sampling(counter))
		kvm_pmu_add_op(cpu, counter, KVM_PERF_OP_SET_LEFT,
			       KVM_PMU_NO_OVERFLOW);
	else
		kvm_pmu_plan_read(cpu, counter);
}

/*
 * May the counter run on, for no event, beside what takes @use already?  Branches would
 * be recorded for it, which costs the host at each entry.  A program that executes RDPMC
 * would read what it counts.
 */
static bool kvm_pmu_may_run(const struct kvm_pmu_cpu *cpu,
			    const struct kvm_pmu_counter *counter,
			    struct kvm_pmu_use *use, unsigned int limit)
{
	struct kvm_pmu_use with = *use;

	if (counter->attr.flags & KVM_PERF_ATTR_BRANCHES ||
	    (cpu->user_reads && !counter->event))
		return false;

	if (!counter->event)
		kvm_pmu_add_use(&with, counter->kind);
	if (!kvm_pmu_use_fits(cpu, &with, limit))
		return false;

	*use = with;
	return true;
}

/**
 * kvm_pmu_plan - note the operations of a flush
 * @cpu: this CPU's
 *
 * First those that give counters free, then those that need them.
 */
void kvm_pmu_plan(struct kvm_pmu_cpu *cpu)
{
	struct kvm_pmu_use use = cpu->use;
	unsigned int limit = kvm_pmu_limit(cpu);
	struct kvm_pmu_counter *counter;
	unsigned int i;

	/* OPEN, SET_PERIOD, SET_LEFT or READ, ENABLE; or one for who uses it no more. */
	BUILD_BUG_ON(4 * KVM_PMU_NR_COUNTERS > KVM_PERF_BATCH_MAX);

	cpu->nr_ops = 0;

	for (i = 0; i < cpu->nr_open; i++) {
		counter = &cpu->counters[i];
		counter->sequence = READ_ONCE(counter->record.sequence);
		if (kvm_pmu_is_unused(counter))
			kvm_pmu_plan_unused(cpu, counter,
					    kvm_pmu_may_run(cpu, counter, &use,
							    limit));
	}

	for (i = 0; i < cpu->nr_open; i++) {
		counter = &cpu->counters[i];
		if (counter->state == KVM_PMU_STARTING)
			kvm_pmu_plan_start(cpu, counter);
	}
}
