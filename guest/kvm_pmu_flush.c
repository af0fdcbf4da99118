// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, guest side: the flush.
 *
 * What perf changes between pmu_disable and pmu_enable is noted first and goes
 * to the host as one hypercall, the flush: a context switch takes two, one as
 * the old task's events leave and one as the new task's start, however many
 * they are.  That the host has no counter for an event is known only then, when
 * perf believes that it counts.  So the limit that was found is remembered, and
 * perf made to schedule its events again, within that limit.
 */
#include <linux/irq_work.h>
#include <linux/perf_event.h>

#include "kvm_pmu.h"

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
	cpu->op_counters[cpu->nr_ops] = counter;
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
	switch (counter->state) {
	case KVM_PMU_CLOSED:
		return !left || left == counter->attr.sample_period;
	case KVM_PMU_STOPPED:
		return left == kvm_pmu_record_left(&counter->record);
	default:
		return false;
	}
}

static void kvm_pmu_plan_start(struct kvm_pmu_cpu *cpu,
			       struct kvm_pmu_counter *counter)
{
	struct hw_perf_event *hwc = &counter->event->hw;
	bool sampling = kvm_pmu_is_sampling(counter);
	u64 count = kvm_pmu_record_count(&counter->record);

	if (counter->state == KVM_PMU_CLOSED) {
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
	else if (counter->state == KVM_PMU_RUNNING)
		kvm_pmu_add_op(cpu, counter, KVM_PERF_OP_READ, 0);

	if (counter->state != KVM_PMU_RUNNING)
		kvm_pmu_add_op(cpu, counter, KVM_PERF_OP_ENABLE, 0);
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
		kvm_pmu_add_op(cpu, counter, KVM_PERF_OP_READ, 0);
}

/* First those that give counters free, then those that need them. */
static void kvm_pmu_plan(struct kvm_pmu_cpu *cpu)
{
	int room = kvm_pmu_limit(cpu) - cpu->used;
	struct kvm_pmu_counter *counter;
	unsigned int i;

	cpu->nr_ops = 0;

	for (i = 0; i < cpu->nr_open; i++) {
		counter = &cpu->counters[i];
		if (kvm_pmu_is_unused(counter))
			kvm_pmu_plan_unused(cpu, counter, room-- > 0);
	}

	for (i = 0; i < cpu->nr_open; i++) {
		counter = &cpu->counters[i];
		if (counter->starting)
			kvm_pmu_plan_start(cpu, counter);
	}
}

static bool kvm_pmu_only_reads(struct kvm_pmu_cpu *cpu)
{
	unsigned int i;

	for (i = 0; i < cpu->nr_ops; i++) {
		if (cpu->ops[i].op != KVM_PERF_OP_READ)
			return false;
	}

	return true;
}

/* No batch, whose memory the host would have to reach: as batched. */
static void kvm_pmu_run_plain(struct kvm_pmu_cpu *cpu, u32 op, u32 id, u64 arg)
{
	long ret = kvm_perf_op(op, id, arg);
	unsigned int i;

	for (i = 0; i < cpu->nr_ops; i++) {
		cpu->ops[i].result = ret;
		if (op == KVM_PERF_OP_READ || op == KVM_PERF_OP_DISABLE)
			cpu->ops[i].arg =
				kvm_pmu_record_count(&cpu->op_counters[i]->record);
	}
}

/**
 * kvm_pmu_run_batch - make one hypercall for the operations that were noted
 * @cpu: this CPU's; each operation has its result then
 */
void kvm_pmu_run_batch(struct kvm_pmu_cpu *cpu)
{
	long ret = kvm_perf_op_addr(KVM_PERF_OP_BATCH, cpu->ops, cpu->nr_ops);
	unsigned int i;

	/* None was run. */
	for (i = 0; ret && i < cpu->nr_ops; i++)
		cpu->ops[i].result = ret;
}

/* After SET_LEFT the record may change before it has been read. */
static void kvm_pmu_run(struct kvm_pmu_cpu *cpu)
{
	const struct guest_perf_op *op = &cpu->ops[0];

	if (cpu->nr_ops == 1 && op->op != KVM_PERF_OP_SET_LEFT)
		kvm_pmu_run_plain(cpu, op->op, op->id, op->arg);
	else if (kvm_pmu_only_reads(cpu))
		kvm_pmu_run_plain(cpu, KVM_PERF_OP_READ, KVM_PERF_ID_ALL, 0);
	else
		kvm_pmu_run_batch(cpu);
}

/* Not of one that has been closed since the batch was run: see kvm_pmu_failed(). */
static void kvm_pmu_set_state(struct kvm_pmu_counter *counter,
			      enum kvm_pmu_counter_state state)
{
	if (counter->state != KVM_PMU_CLOSED)
		counter->state = state;
}

static void kvm_pmu_done(struct kvm_pmu_counter *counter,
			 const struct guest_perf_op *op)
{
	struct perf_event *leaving = counter->leaving;

	switch (op->op) {
	case KVM_PERF_OP_OPEN:
		counter->state = KVM_PMU_STOPPED;
		break;
	case KVM_PERF_OP_SET_PERIOD:
		counter->attr.sample_period = op->arg;
		break;
	case KVM_PERF_OP_DISABLE:
		kvm_pmu_set_state(counter, KVM_PMU_STOPPED);
		fallthrough;
	case KVM_PERF_OP_READ:
	case KVM_PERF_OP_SET_LEFT:
		if (leaving) {
			kvm_pmu_count(leaving, op->arg);
			kvm_pmu_take_left(counter, leaving);
			perf_event_update_userpage(leaving);
		}
		if (counter->event)
			local64_set(&counter->event->hw.prev_count, op->arg);
		break;
	case KVM_PERF_OP_ENABLE:
		kvm_pmu_set_state(counter, KVM_PMU_RUNNING);
		break;
	}
}

static void kvm_pmu_failed(struct kvm_pmu_cpu *cpu,
			   struct kvm_pmu_counter *counter,
			   const struct guest_perf_op *op)
{
	switch (op->result) {
	case -KVM_ENOENT:
	case -KVM_ENOSYS:
		/* Not where OPEN has failed, or where that is known. */
		if (kvm_pmu_has_lost(op->result) &&
		    counter->state != KVM_PMU_CLOSED)
			kvm_pmu_lost(cpu);
		break;
	case -KVM_EEXIST:
		/* By another kernel here: this one closes what it has lost. */
		kvm_pmu_close(counter);
		cpu->changed = true;
		break;
	case -KVM_ENOSPC:
		kvm_pmu_warn(KVM_PMU_WARN_NO_SPACE);
		cpu->no_space = true;
		break;
	case -KVM_EBUSY:
		/* The record is up to date. */
		if (op->op == KVM_PERF_OP_READ) {
			kvm_pmu_warn(KVM_PMU_WARN_ROBBED);
			kvm_pmu_done(counter, op);
		} else {
			cpu->no_counter = true;
		}
		break;
	default:
		if (op->op == KVM_PERF_OP_OPEN || op->op == KVM_PERF_OP_ENABLE)
			kvm_pmu_refuse(counter->event);
		else if (op->op == KVM_PERF_OP_DISABLE &&
			 op->result == -KVM_EFAULT)
			kvm_pmu_set_state(counter, KVM_PMU_STOPPED);
		break;
	}
}

static void kvm_pmu_finish(struct kvm_pmu_cpu *cpu)
{
	struct guest_perf_op *op;
	unsigned int i;

	for (i = 0; i < cpu->nr_ops; i++) {
		op = &cpu->ops[i];
		if (op->result)
			kvm_pmu_failed(cpu, cpu->op_counters[i], op);
		else
			kvm_pmu_done(cpu->op_counters[i], op);
	}
}

/* How many were to start, and do not run? */
static unsigned int kvm_pmu_settle(struct kvm_pmu_cpu *cpu)
{
	struct kvm_pmu_counter *counter;
	unsigned int failed = 0;
	unsigned int i;

	for (i = 0; i < cpu->nr_open; i++) {
		counter = &cpu->counters[i];
		WRITE_ONCE(counter->leaving, NULL);
		if (!counter->starting)
			continue;
		if (counter->state == KVM_PMU_RUNNING) {
			counter->event->hw.state = 0;
			counter->starting = false;
			perf_event_update_userpage(counter->event);
		} else {
			failed++;
		}
	}

	return failed;
}

static unsigned int kvm_pmu_nr_running(struct kvm_pmu_cpu *cpu)
{
	unsigned int n = 0;
	unsigned int i;

	for (i = 0; i < cpu->nr_open; i++)
		n += cpu->counters[i].state == KVM_PMU_RUNNING;

	return n;
}

static bool kvm_pmu_any_unused(struct kvm_pmu_cpu *cpu)
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
		if (counter->event || counter->state != KVM_PMU_STOPPED)
			continue;
		kvm_pmu_close(counter);
		any = true;
	}

	return any;
}

/*
 * The host has counters for no more than what runs now, if that is why something
 * has failed.  True if it may succeed when it is tried again: with fewer that run
 * unused, or with fewer that are kept open.
 */
static bool kvm_pmu_make_room(struct kvm_pmu_cpu *cpu)
{
	if (!xchg(&cpu->no_counter, false) && !cpu->no_space)
		return false;

	kvm_pmu_set_limit(cpu, kvm_pmu_nr_running(cpu));

	return kvm_pmu_any_unused(cpu) ||
	       (xchg(&cpu->no_space, false) && kvm_pmu_close_stopped(cpu));
}

/* perf believes some to count that the host has no counter for: tell it. */
static void kvm_pmu_give_up(struct kvm_pmu_cpu *cpu)
{
	unsigned int i;

	for (i = 0; i < cpu->nr_open; i++)
		cpu->counters[i].starting = false;

	cpu->resched = true;
	irq_work_queue(&cpu->work);
}

/**
 * kvm_pmu_flush - have the host do what was noted
 * @cpu: this CPU's
 */
void kvm_pmu_flush(struct kvm_pmu_cpu *cpu)
{
	unsigned int failed = 0;
	int tries;

	/* Again where the host had forgotten, or where it had too few counters. */
	for (tries = 0; cpu->changed && tries < 4; tries++) {
		cpu->changed = false;
		kvm_pmu_plan(cpu);
		if (cpu->nr_ops) {
			kvm_pmu_run(cpu);
			kvm_pmu_finish(cpu);
		}

		failed = kvm_pmu_settle(cpu);
		if (failed && !cpu->changed)
			cpu->changed = kvm_pmu_make_room(cpu);
	}

	if (failed)
		kvm_pmu_give_up(cpu);
	cpu->changed = false;
	cpu->no_space = false;

	kvm_pmu_start_watch(cpu);
}
