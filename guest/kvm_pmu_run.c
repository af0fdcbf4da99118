// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, guest side: a flush's operations, run by the host,
 * and what comes of each.
 */
#include <linux/perf_event.h>

#include "kvm_pmu.h"

static bool kvm_pmu_only_reads(struct kvm_pmu_cpu *cpu)
{
	unsigned int i;

	for (i = 0; i < cpu->nr_ops; i++) {
		if (cpu->op_codes[i] != KVM_PERF_OP_READ)
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

/*
 * After SET_LEFT the record may change before it has been read, and OPEN as a hypercall
 * has its address where others have an id.
 */
static bool kvm_pmu_is_plain(u32 op)
{
	return op != KVM_PERF_OP_SET_LEFT && op != KVM_PERF_OP_OPEN;
}

static void kvm_pmu_run_ops(struct kvm_pmu_cpu *cpu)
{
	const struct guest_perf_op *op = &cpu->ops[0];

	if (cpu->nr_ops == 1 && kvm_pmu_is_plain(cpu->op_codes[0]))
		kvm_pmu_run_plain(cpu, cpu->op_codes[0], op->id, op->arg);
	else if (kvm_pmu_only_reads(cpu))
		kvm_pmu_run_plain(cpu, KVM_PERF_OP_READ, KVM_PERF_ID_ALL, 0);
	else
		kvm_pmu_run_batch(cpu);
}

/*
 * The operation has told the final count of the one that leaves.  What is left of
 * its period is in the record, unless an overflow, of the next one perhaps, has
 * changed that since.
 */
static void kvm_pmu_leave(struct kvm_pmu_counter *counter, u64 count)
{
	struct perf_event *leaving = counter->leaving;

	if (!leaving)
		return;

	kvm_pmu_count(leaving, count);
	kvm_pmu_take_left(counter, leaving);
	/* The value above was read before this. */
	virt_rmb();
	if (READ_ONCE(counter->record.sequence) != counter->sequence + 2)
		local64_set(&leaving->hw.period_left, 0);
	perf_event_update_userpage(leaving);
	WRITE_ONCE(counter->leaving, NULL);
}

/**
 * kvm_pmu_take_count - what the counter has now is for who leaves it, and begins
 * @counter: the counter
 * @count: its count
 */
void kvm_pmu_take_count(struct kvm_pmu_counter *counter, u64 count)
{
	kvm_pmu_leave(counter, count);
	if (counter->event)
		local64_set(&counter->event->hw.prev_count, count);
}

/* Not of one that has been closed since the batch was run: see kvm_pmu_failed(). */
static void kvm_pmu_disabled(struct kvm_pmu_counter *counter)
{
	if (counter->host != KVM_PMU_CLOSED)
		counter->host = KVM_PMU_STOPPED;
	counter->flags = 0;
	counter->lost = false;
	kvm_pmu_note_pmc(counter);
}

/*
 * An NMI may have stopped the event since it was to start.  Whether that came
 * before the ENABLE or after: the host does not run it once more.
 */
static void kvm_pmu_enabled(struct kvm_pmu_counter *counter)
{
	if (counter->host == KVM_PMU_CLOSED)
		return;

	counter->flags = 0;
	counter->lost = false;
	WRITE_ONCE(counter->host, KVM_PMU_RUNNING);
	/* From here on, the NMI does that itself. */
	barrier();
	if (READ_ONCE(counter->state) != KVM_PMU_STARTING)
		kvm_pmu_disable_host(counter);
}

static void kvm_pmu_done(struct kvm_pmu_counter *counter,
			 const struct guest_perf_op *op)
{
	switch (op->op) {
	case KVM_PERF_OP_OPEN:
		counter->host = KVM_PMU_STOPPED;
		break;
	case KVM_PERF_OP_SET_PERIOD:
		counter->attr.sample_period = counter->event->hw.sample_period;
		break;
	case KVM_PERF_OP_DISABLE:
		kvm_pmu_disabled(counter);
		fallthrough;
	case KVM_PERF_OP_READ:
	case KVM_PERF_OP_SET_LEFT:
		kvm_pmu_take_count(counter, op->arg);
		break;
	case KVM_PERF_OP_ENABLE:
		kvm_pmu_enabled(counter);
		break;
	}
}

/*
 * READ has found that a counter was lost.  All may have been read: the record says
 * of which, by a host that tells.  What that has found and mended at once has cost
 * the guest nothing, as each VM entry looks.
 */
static bool kvm_pmu_may_be_lost(const struct kvm_pmu_counter *counter)
{
	return !(READ_ONCE(kvm_pmu_host.features) & KVM_PERF_FEATURE_NOTIFY) ||
	       READ_ONCE(counter->record.flags) & KVM_PERF_EVENT_LOST;
}

static void kvm_pmu_failed(struct kvm_pmu_cpu *cpu,
			   struct kvm_pmu_counter *counter,
			   const struct guest_perf_op *op)
{
	switch (kvm_pmu_result(op->op, op->result)) {
	case KVM_PMU_HOST_LOST:
		/* Not where OPEN has failed, or where that is known. */
		if (counter->host != KVM_PMU_CLOSED)
			kvm_pmu_forget_all(cpu);
		break;
	case KVM_PMU_EXISTS:
		/* By another kernel here: this one closes what it has lost. */
		kvm_pmu_close(counter);
		cpu->changed = true;
		break;
	case KVM_PMU_NO_SPACE:
		kvm_pmu_warn(KVM_PMU_WARN_NO_SPACE);
		cpu->no_space = true;
		break;
	case KVM_PMU_NO_COUNTER:
		if (op->op == KVM_PERF_OP_READ) {
			if (kvm_pmu_may_be_lost(counter))
				kvm_pmu_note_lost(cpu, counter);
			kvm_pmu_done(counter, op);
		} else {
			cpu->no_counter = true;
		}
		break;
	case KVM_PMU_TOO_OFTEN:
		/* perf starts it again at a tick. */
		if (counter->state == KVM_PMU_STARTING)
			kvm_pmu_throttle(cpu, counter);
		break;
	case KVM_PMU_NOT_WRITTEN:
		kvm_pmu_disabled(counter);
		break;
	default:
		if (op->op == KVM_PERF_OP_OPEN || op->op == KVM_PERF_OP_ENABLE)
			kvm_pmu_refuse(counter->event);
		break;
	}
}

static void kvm_pmu_finish(struct kvm_pmu_cpu *cpu)
{
	struct guest_perf_op op;
	unsigned int i;

	for (i = 0; i < cpu->nr_ops; i++) {
		/* What was asked is known here; the host answers that, and no more. */
		op = (struct guest_perf_op) {
			.op	= cpu->op_codes[i],
			.result	= READ_ONCE(cpu->ops[i].result),
			.arg	= kvm_pmu_area_read(&cpu->ops[i].arg),
		};
		if (op.result)
			kvm_pmu_failed(cpu, cpu->op_counters[i], &op);
		else
			kvm_pmu_done(cpu->op_counters[i], &op);
	}
}

/**
 * kvm_pmu_run - have the host run what was noted, and take what comes of it
 * @cpu: this CPU's, with an operation at least
 */
void kvm_pmu_run(struct kvm_pmu_cpu *cpu)
{
	kvm_pmu_run_ops(cpu);
	kvm_pmu_finish(cpu);
}
