// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, guest side: the flush.
 *
 * The driver notes perf's changes between pmu_disable and pmu_enable.  The flush brings
 * them to the host in one hypercall, however many events there are.
 *
 * Only the flush finds out whether the host has a counter for an event.  If as many events
 * have counted before, the driver takes success for granted.  Else it flushes while perf
 * can still take the events back, at the end of perf's transaction.  If the driver was
 * wrong, it has perf schedule its events again.
 *
 *	kvm_pmu_flush()
 *	    kvm_pmu_flush_all()
 *	        kvm_pmu_forget_all()		if the area shows another host
 *	        kvm_pmu_plan()			notes operations: first those that free counters
 *	        kvm_pmu_run()			the hypercall, and what comes of each operation
 *	        kvm_pmu_count_started()		STARTING to COUNTING
 *	        kvm_pmu_make_room()		closes what is kept open, or sets a limit: again
 *	    kvm_pmu_give_up()			has perf schedule its events again
 */
#include <linux/bitops.h>
#include <linux/io.h>
#include <linux/perf_event.h>

#include "kvm_pmu.h"
#include "kvm_pmu_rdpmc.h"
#include "kvm_pmu_record.h"

/*
 * Like kvm_pmu_settle_leaving(), while the backing event may run on.  An operation of the
 * flush has returned @count, the final count of the leaving event.  The rest of its period
 * is in the record, unless an overflow, perhaps of the next event, has changed the record
 * since.
 */
static void kvm_pmu_settle_by_result(struct kvm_pmu_backing *backing, u64 count)
{
	struct perf_event *leaving = backing->leaving;

	if (!leaving)
		return;

	kvm_pmu_count(leaving, count);
	kvm_pmu_take_left(backing, leaving);
	/* The rest of the period is read before the sequence. */
	virt_rmb();
	if (READ_ONCE(backing->record.sequence) != backing->sequence + 2)
		local64_set(&leaving->hw.period_left, 0);
	perf_event_update_userpage(leaving);
	WRITE_ONCE(backing->leaving, NULL);
}

/* Give a count to the event that leaves and to the one that starts. */
static void kvm_pmu_take_count(struct kvm_pmu_backing *backing, u64 count)
{
	kvm_pmu_settle_by_result(backing, count);
	if (backing->event)
		local64_set(&backing->event->hw.prev_count, count);
}

/* Note an operation for the next hypercall. */
static void kvm_pmu_add_op(struct kvm_pmu_cpu *cpu, struct kvm_pmu_backing *backing,
			   u32 op, u64 arg)
{
	if (WARN_ON_ONCE(cpu->flush.nr == KVM_PERF_BATCH_MAX))
		return;

	cpu->flush.backing[cpu->flush.nr] = backing;
	cpu->flush.codes[cpu->flush.nr] = op;
	cpu->flush.ops[cpu->flush.nr++] = (struct guest_perf_op) {
		.op	= op,
		/* OPEN has the id in its argument. */
		.id	= op == KVM_PERF_OP_OPEN ? 0 : backing->param.id,
		.arg	= arg,
	};
}

/* Would the host's event go on with @left of its period? */
static bool kvm_pmu_has_position(const struct kvm_pmu_backing *backing,
				 u64 left)
{
	switch (backing->host) {
	case KVM_PMU_CLOSED:
		return !left || left == backing->attr.sample_period;
	case KVM_PMU_STOPPED:
		return !backing->moved &&
		       left == kvm_pmu_record_left(&backing->record);
	default:
		return false;
	}
}

/* Note a READ, or read the counter by RDPMC at once. */
static void kvm_pmu_plan_read(struct kvm_pmu_cpu *cpu,
			      struct kvm_pmu_backing *backing)
{
	u64 count;

	if (!kvm_pmu_is_sampling(backing) &&
	    kvm_pmu_rdpmc(cpu, backing, &count))
		kvm_pmu_take_count(backing, count);
	else
		kvm_pmu_add_op(cpu, backing, KVM_PERF_OP_READ, 0);
}

static void kvm_pmu_plan_start(struct kvm_pmu_cpu *cpu,
			       struct kvm_pmu_backing *backing)
{
	struct hw_perf_event *hwc = &backing->event->hw;
	bool sampling = kvm_pmu_is_sampling(backing);
	u64 count = kvm_pmu_record_count(&backing->record);

	if (backing->host == KVM_PMU_CLOSED) {
		kvm_pmu_add_op(cpu, backing, KVM_PERF_OP_OPEN,
			       virt_to_phys(&backing->param));
		count = 0;
	}

	/* If the backing event runs, an operation tells the count. */
	local64_set(&hwc->prev_count, count);

	/* PERF_EVENT_IOC_PERIOD has changed the period. */
	if (sampling && hwc->sample_period != backing->attr.sample_period)
		kvm_pmu_add_op(cpu, backing, KVM_PERF_OP_SET_PERIOD,
			       hwc->sample_period);

	if (sampling &&
	    !kvm_pmu_has_position(backing, local64_read(&hwc->period_left)))
		kvm_pmu_add_op(cpu, backing, KVM_PERF_OP_SET_LEFT,
			       local64_read(&hwc->period_left));
	else if (backing->host == KVM_PMU_RUNNING)
		kvm_pmu_plan_read(cpu, backing);

	if (backing->host != KVM_PMU_RUNNING) {
		/* From ENABLE on, an NMI may have news of this backing event. */
		set_bit(backing - cpu->backing, &cpu->telling);
		kvm_pmu_add_op(cpu, backing, KVM_PERF_OP_ENABLE, 0);
	}
}

/*
 * Let a spare backing event run on if there is @room for it, or else stop it.  In both
 * cases the event that leaves it gets its final count.
 */
static void kvm_pmu_plan_spare(struct kvm_pmu_cpu *cpu,
			       struct kvm_pmu_backing *backing, bool room)
{
	if (!room)
		kvm_pmu_add_op(cpu, backing, KVM_PERF_OP_DISABLE, 0);
	else if (!backing->leaving)
		return;
	else if (kvm_pmu_is_sampling(backing))
		kvm_pmu_add_op(cpu, backing, KVM_PERF_OP_SET_LEFT,
			       KVM_PMU_NO_OVERFLOW);
	else
		kvm_pmu_plan_read(cpu, backing);
}

/*
 * May a spare backing event run on beside the backing events that take @use?  Not with
 * branches, because recording them costs the host time at each entry.  Not beside a
 * program that executes RDPMC, which would read the counter.  Not if an event has found
 * no counter: a spare one may have the only counter that this event can use.
 */
static bool kvm_pmu_may_run_on(struct kvm_pmu_cpu *cpu,
			       const struct kvm_pmu_backing *backing,
			       struct kvm_pmu_use *use)
{
	struct kvm_pmu_use with = *use;

	if (backing->attr.flags & KVM_PERF_ATTR_BRANCHES ||
	    ((cpu->user.reads || cpu->flush.scarce) && !backing->event))
		return false;

	if (!backing->event)
		kvm_pmu_add_use(&with, backing->class);
	if (!kvm_pmu_use_fits(cpu, &with))
		return false;

	*use = with;
	return true;
}

/*
 * Note the operations of a flush.  Operations that free counters come before those that
 * need counters.
 */
static void kvm_pmu_plan(struct kvm_pmu_cpu *cpu)
{
	struct kvm_pmu_use use = cpu->use;
	struct kvm_pmu_backing *backing;

	/* OPEN, SET_PERIOD, SET_LEFT or READ, ENABLE; or one for a spare one. */
	BUILD_BUG_ON(4 * KVM_PMU_NR_BACKING > KVM_PERF_BATCH_MAX);

	cpu->flush.nr = 0;

	for_each_backing(cpu, backing) {
		backing->sequence = READ_ONCE(backing->record.sequence);
		if (kvm_pmu_is_spare(backing))
			kvm_pmu_plan_spare(cpu, backing,
					   kvm_pmu_may_run_on(cpu, backing, &use));
	}

	for_each_backing(cpu, backing) {
		if (backing->state == KVM_PMU_STARTING)
			kvm_pmu_plan_start(cpu, backing);
	}
}

static bool kvm_pmu_only_reads(struct kvm_pmu_cpu *cpu)
{
	unsigned int i;

	for (i = 0; i < cpu->flush.nr; i++) {
		if (cpu->flush.codes[i] != KVM_PERF_OP_READ)
			return false;
	}

	return true;
}

/* A plain hypercall, which saves the host the batch's memory; results as of a batch. */
static void kvm_pmu_run_plain(struct kvm_pmu_cpu *cpu, u32 op, u32 id, u64 arg)
{
	long ret = kvm_perf_op(op, id, arg);
	unsigned int i;

	for (i = 0; i < cpu->flush.nr; i++) {
		cpu->flush.ops[i].result = ret;
		if (op == KVM_PERF_OP_READ || op == KVM_PERF_OP_DISABLE)
			cpu->flush.ops[i].arg =
				kvm_pmu_record_count(&cpu->flush.backing[i]->record);
	}
}

/* Make one hypercall for the operations that were noted; it sets their results. */
static void kvm_pmu_run_batch(struct kvm_pmu_cpu *cpu)
{
	long ret = kvm_perf_op_addr(KVM_PERF_OP_BATCH, cpu->flush.ops, cpu->flush.nr);
	unsigned int i;

	/* The host has run no operation. */
	for (i = 0; ret && i < cpu->flush.nr; i++)
		cpu->flush.ops[i].result = ret;
}

/*
 * Not SET_LEFT, because the record may change before the guest reads it.  Not OPEN,
 * because its hypercall has an address in place of the id.
 */
static bool kvm_pmu_is_plain(u32 op)
{
	return op != KVM_PERF_OP_SET_LEFT && op != KVM_PERF_OP_OPEN;
}

static void kvm_pmu_run_ops(struct kvm_pmu_cpu *cpu)
{
	const struct guest_perf_op *op = &cpu->flush.ops[0];

	if (cpu->flush.nr == 1 && kvm_pmu_is_plain(cpu->flush.codes[0]))
		kvm_pmu_run_plain(cpu, cpu->flush.codes[0], op->id, op->arg);
	else if (kvm_pmu_only_reads(cpu))
		kvm_pmu_run_plain(cpu, KVM_PERF_OP_READ, KVM_PERF_ID_ALL, 0);
	else
		kvm_pmu_run_batch(cpu);
}

/* kvm_pmu_failed() may have closed the backing event after the batch. */
static void kvm_pmu_disabled(struct kvm_pmu_backing *backing)
{
	if (backing->host == KVM_PMU_CLOSED)
		return;

	kvm_pmu_set_host_state(backing, KVM_PMU_STOPPED);
	kvm_pmu_note_pmc(backing);
}

/*
 * An NMI may have stopped the event since it was to start, before the ENABLE or after it.
 * Then stop the backing event again.
 */
static void kvm_pmu_enabled(struct kvm_pmu_backing *backing)
{
	if (backing->host == KVM_PMU_CLOSED)
		return;

	kvm_pmu_set_host_state(backing, KVM_PMU_RUNNING);
	/* From here on, an NMI that stops the event disables it at the host. */
	barrier();
	if (READ_ONCE(backing->state) != KVM_PMU_STARTING)
		kvm_pmu_disable_host(backing);
}

static void kvm_pmu_done(struct kvm_pmu_backing *backing,
			 const struct guest_perf_op *op)
{
	switch (op->op) {
	case KVM_PERF_OP_OPEN:
		backing->host = KVM_PMU_STOPPED;
		break;
	case KVM_PERF_OP_SET_PERIOD:
		backing->attr.sample_period = backing->event->hw.sample_period;
		backing->moved = true;
		break;
	case KVM_PERF_OP_DISABLE:
		kvm_pmu_disabled(backing);
		kvm_pmu_take_count(backing, op->arg);
		break;
	case KVM_PERF_OP_SET_LEFT:
		/* The record has the position of before. */
		backing->moved = true;
		fallthrough;
	case KVM_PERF_OP_READ:
		kvm_pmu_take_count(backing, op->arg);
		break;
	case KVM_PERF_OP_ENABLE:
		kvm_pmu_enabled(backing);
		break;
	}
}

/*
 * READ has found that an event has lost its counter.  If it was a READ of all, the
 * record says which event, on a host with NOTIFY.  If READ got a counter again, the
 * guest has missed no count, because each VM entry looks for lost counters.
 */
static bool kvm_pmu_may_be_lost(const struct kvm_pmu_backing *backing)
{
	return !(READ_ONCE(kvm_pmu_host.features) & KVM_PERF_FEATURE_NOTIFY) ||
	       READ_ONCE(backing->record.flags) & KVM_PERF_EVENT_LOST;
}

/* Returns the host's shortage, or KVM_PMU_DONE. */
static enum kvm_pmu_result kvm_pmu_failed(struct kvm_pmu_cpu *cpu,
					  struct kvm_pmu_backing *backing,
					  const struct guest_perf_op *op)
{
	enum kvm_pmu_result result = kvm_pmu_result(op->op, op->result);

	switch (result) {
	case KVM_PMU_UNKNOWN:
		/* CLOSED: OPEN has failed, or kvm_pmu_forget_all() has run already. */
		if (backing->host != KVM_PMU_CLOSED)
			kvm_pmu_forget_all(cpu);
		break;
	case KVM_PMU_EXISTS:
		/* Another kernel's event: this kernel closes events that it forgets. */
		kvm_pmu_close(backing);
		cpu->flush.due = true;
		break;
	case KVM_PMU_NO_SPACE:
		kvm_pmu_warn(KVM_PMU_WARN_NO_SPACE);
		return result;
	case KVM_PMU_NO_COUNTER:
		if (op->op == KVM_PERF_OP_READ) {
			if (kvm_pmu_may_be_lost(backing))
				kvm_pmu_note_lost(cpu, backing);
			kvm_pmu_done(backing, op);
			break;
		}
		if (op->op != KVM_PERF_OP_ENABLE || !kvm_pmu_is_for_kind(&backing->attr))
			return result;
		kvm_pmu_note_absent(backing->event);
		break;
	case KVM_PMU_TOO_OFTEN:
		/* perf starts the event again at a tick. */
		if (backing->state == KVM_PMU_STARTING)
			kvm_pmu_throttle(cpu, backing);
		break;
	case KVM_PMU_NOT_WRITTEN:
		kvm_pmu_disabled(backing);
		break;
	default:
		if (op->op == KVM_PERF_OP_OPEN || op->op == KVM_PERF_OP_ENABLE)
			kvm_pmu_refuse(backing->event);
		break;
	}

	return KVM_PMU_DONE;
}

/*
 * Have the host run the noted operations, and handle the results.  The caller has noted at
 * least one.  Returns a bit for each enum kvm_pmu_result that is a shortage of the host.
 */
static unsigned int kvm_pmu_run(struct kvm_pmu_cpu *cpu)
{
	struct guest_perf_op op;
	unsigned int shortage = 0;
	unsigned int i;

	kvm_pmu_run_ops(cpu);
	for (i = 0; i < cpu->flush.nr; i++) {
		/* The host answers with result and arg; op is the driver's own copy. */
		op = (struct guest_perf_op) {
			.op	= cpu->flush.codes[i],
			.result	= READ_ONCE(cpu->flush.ops[i].result),
			.arg	= kvm_pmu_area_read(&cpu->flush.ops[i].arg),
		};
		if (op.result)
			shortage |= BIT(kvm_pmu_failed(cpu, cpu->flush.backing[i], &op));
		else
			kvm_pmu_done(cpu->flush.backing[i], &op);
	}

	return shortage;
}

/* Returns the number of events that were to start, and do not run. */
static unsigned int kvm_pmu_count_started(struct kvm_pmu_cpu *cpu)
{
	struct kvm_pmu_backing *backing;
	unsigned int failed = 0;

	for_each_backing(cpu, backing) {
		/* An NMI may have stopped it before an operation was noted. */
		if (backing->leaving)
			kvm_pmu_settle_leaving(backing);
		if (READ_ONCE(backing->state) != KVM_PMU_STARTING)
			continue;
		if (backing->host != KVM_PMU_RUNNING) {
			failed++;
			continue;
		}
		kvm_pmu_set_counting(cpu, backing);
	}
	cpu->leaving = false;

	return failed;
}

/* Close backing events that no event uses.  Returns whether there were any. */
static bool kvm_pmu_close_stopped(struct kvm_pmu_cpu *cpu)
{
	struct kvm_pmu_backing *backing;
	bool any = false;

	for_each_backing(cpu, backing) {
		if (backing->event || backing->host != KVM_PMU_STOPPED)
			continue;
		kvm_pmu_close(backing);
		any = true;
	}

	return any;
}

/* The host has no more counters than run now. */
static void kvm_pmu_limit_to_running(struct kvm_pmu_cpu *cpu)
{
	const struct kvm_pmu_backing *backing;
	unsigned long failed = 0;

	for_each_backing(cpu, backing) {
		if (READ_ONCE(backing->state) == KVM_PMU_STARTING &&
		    backing->host != KVM_PMU_RUNNING)
			failed |= BIT(backing->class);
	}
	kvm_pmu_set_limit(cpu, failed);
}

/*
 * Returns whether failed operations may succeed if they are tried again: fewer backing
 * events are open now, or spare ones will be stopped for the limit.
 */
static bool kvm_pmu_make_room(struct kvm_pmu_cpu *cpu, unsigned int shortage)
{
	bool no_counter = shortage & BIT(KVM_PMU_NO_COUNTER);
	bool no_space = shortage & BIT(KVM_PMU_NO_SPACE);
	bool closed = no_space && kvm_pmu_close_stopped(cpu);

	if (no_counter || (no_space && !closed))
		kvm_pmu_limit_to_running(cpu);

	return closed || ((no_counter || no_space) && kvm_pmu_any(cpu, kvm_pmu_is_spare));
}

/* Have as many events counted at the same time already? */
static bool kvm_pmu_is_proven(const struct kvm_pmu_cpu *cpu)
{
	unsigned int i;

	if (cpu->use.general > cpu->limit.proven.general)
		return false;

	for (i = 0; i < KVM_PMU_GENERAL; i++) {
		if (cpu->use.fixed[i] && !cpu->limit.proven.fixed[i])
			return false;
	}

	return true;
}

/* Returns whether each event that is to start has a counter, and counts now. */
static bool kvm_pmu_flush_all(struct kvm_pmu_cpu *cpu)
{
	unsigned int failed = 0, shortage = 0;
	int tries;

	cpu->busy = true;
	/* A flush that only opens events would not show that the host has changed. */
	if (kvm_pmu_area_is_stale(cpu))
		kvm_pmu_forget_all(cpu);

	cpu->flush.scarce = false;
	/* Try again if the host had forgotten the events, or had too few counters. */
	for (tries = 0; cpu->flush.due && tries < 4; tries++) {
		cpu->flush.due = false;
		kvm_pmu_plan(cpu);
		if (cpu->flush.nr)
			shortage |= kvm_pmu_run(cpu);

		failed = kvm_pmu_count_started(cpu);
		if (failed && !cpu->flush.due) {
			cpu->flush.due = kvm_pmu_make_room(cpu, shortage);
			cpu->flush.scarce |= shortage & BIT(KVM_PMU_NO_COUNTER);
			shortage = 0;
		}
	}

	cpu->flush.due = false;
	cpu->busy = false;

	if (failed || !kvm_pmu_is_proven(cpu))
		cpu->limit.proven = kvm_pmu_running(cpu);
	kvm_pmu_start_watch(cpu);
	return !failed;
}

/* perf believes that some events count for which the host has no counter: tell perf. */
static void kvm_pmu_give_up(struct kvm_pmu_cpu *cpu)
{
	struct kvm_pmu_backing *backing;

	for_each_backing(cpu, backing)
		cmpxchg(&backing->state, KVM_PMU_STARTING, KVM_PMU_HELD);

	kvm_pmu_pend(cpu, KVM_PMU_RESCHED);
}

/**
 * kvm_pmu_flush - have the host run the noted operations
 * @cpu: this CPU's
 */
void kvm_pmu_flush(struct kvm_pmu_cpu *cpu)
{
	/* If BPF changes events in a flush, that flush goes on with them. */
	if (cpu->busy)
		return;

	if (!kvm_pmu_flush_all(cpu))
		kvm_pmu_give_up(cpu);
}

static bool kvm_pmu_added_all(struct kvm_pmu_cpu *cpu,
			      bool (*test)(const struct kvm_pmu_backing *))
{
	unsigned int i;

	for_each_set_bit(i, &cpu->perf.added, KVM_PMU_NR_BACKING) {
		if (!test(&cpu->backing[i]))
			return false;
	}

	return true;
}

static bool kvm_pmu_has_started(const struct kvm_pmu_backing *backing)
{
	return backing->state != KVM_PMU_STARTING;
}

static bool kvm_pmu_is_flexible(const struct kvm_pmu_backing *backing)
{
	return !kvm_pmu_is_pinned(backing->event);
}

/**
 * kvm_pmu_flush_leaving - have the host tell the final counts of events that leave
 * @cpu: this CPU's, while perf adds events
 *
 * Other events can have their backing events then.
 */
void kvm_pmu_flush_leaving(struct kvm_pmu_cpu *cpu)
{
	if (!kvm_pmu_flush_all(cpu))
		cpu->flush.due = true;
}

/**
 * kvm_pmu_flush_added - can all events that perf has just added count?
 * @cpu: this CPU's; perf has it disabled
 *
 * A group counts as a whole or not at all.  There is no need to ask the host if the
 * backing events run already, or if as many events have counted.
 *
 * A pinned group is never taken for granted: no limit keeps perf from adding it again, so
 * after a failure the work would have perf add it for ever.
 */
bool kvm_pmu_flush_added(struct kvm_pmu_cpu *cpu)
{
	if (kvm_pmu_added_all(cpu, kvm_pmu_runs) ||
	    (kvm_pmu_is_proven(cpu) &&
	     kvm_pmu_added_all(cpu, kvm_pmu_is_flexible)))
		return true;

	/* If events that were taken for granted failed, the next flush gives them up. */
	if (!kvm_pmu_flush_all(cpu))
		cpu->flush.due = true;

	return kvm_pmu_added_all(cpu, kvm_pmu_has_started);
}

/**
 * kvm_pmu_open_anew - the host has forgotten all backing events: open them again
 * @cpu: this CPU's; its flush is now, or at pmu_enable
 */
void kvm_pmu_open_anew(struct kvm_pmu_cpu *cpu)
{
	kvm_pmu_forget_all(cpu);
	if (cpu->perf.disabled)
		return;

	kvm_pmu_flush(cpu);
	/* Leave it to the work, as perf may be reading an event. */
	if (cpu->nmi.owing)
		kvm_pmu_pend(cpu, KVM_PMU_TAKE_OWED);
}

/**
 * kvm_pmu_read_running - ask the host for each event that runs
 * @cpu: this CPU's, which is in no flush
 *
 * The host may have forgotten the older events, and know those that were opened since.
 *
 * Return: false if the host has forgotten any.
 */
bool kvm_pmu_read_running(struct kvm_pmu_cpu *cpu)
{
	struct kvm_pmu_backing *backing;
	bool known = true;
	unsigned int i;

	cpu->flush.nr = 0;
	for_each_backing(cpu, backing) {
		if (kvm_pmu_runs(backing))
			kvm_pmu_add_op(cpu, backing, KVM_PERF_OP_READ, 0);
	}

	/* An NMI may have stopped the last event. */
	if (!cpu->flush.nr)
		return true;

	kvm_pmu_run_batch(cpu);
	for (i = 0; i < cpu->flush.nr; i++) {
		switch (kvm_pmu_result(KVM_PERF_OP_READ, cpu->flush.ops[i].result)) {
		case KVM_PMU_NO_COUNTER:
			kvm_pmu_note_lost(cpu, cpu->flush.backing[i]);
			break;
		case KVM_PMU_UNKNOWN:
			known = false;
			break;
		default:
			break;
		}
	}

	return known;
}
