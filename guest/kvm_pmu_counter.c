// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, guest side: the counters of a CPU.
 *
 * A counter is an event that the host keeps open for this CPU, with an id and
 * a record.  It stays open when the perf_event that used it is gone, for the
 * next one that counts the same, and even runs on for a while as long as no
 * other needs the hardware: a perf_event takes the difference of two readings.
 * So tasks switch, fork and exit, and events are opened and closed, without
 * the host's enabling or disabling anything.
 *
 * What perf changes between pmu_disable and pmu_enable is noted first and goes
 * to the host as one hypercall, the flush: a context switch takes two, one as
 * the old task's events leave and one as the new task's start, however many
 * they are.  That the host has no counter for an event is known only then, when
 * perf believes that it counts.  So the limit that was found is remembered, and
 * perf made to schedule its events again, within that limit.
 *
 * Everything here runs on the counters' CPU with interrupts off, but for
 * stopping and reading, which the NMI handler does too, for events that count.
 *
 * The host may be another one than before (migration, a restored snapshot), or
 * have had its vCPU reset (suspend to memory).  What it has told is still in the
 * records then, and any operation may find that it knows no counter any more.
 * Where there is none, the watch, a timer, finds it.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cpuhotplug.h>
#include <linux/jiffies.h>
#include <linux/percpu.h>
#include <linux/slab.h>
#include <linux/timer.h>

#include "kvm_pmu.h"

/* So far away that it is never reached. */
#define KVM_PMU_NO_OVERFLOW	S64_MAX

/*
 * How often a CPU looks after its counters that run.  One that nobody uses runs
 * on for one to two times this.
 */
#define KVM_PMU_WATCH		(HZ / 10)

/* How long one that nobody uses is kept open. */
#define KVM_PMU_KEEP		HZ

DEFINE_PER_CPU(struct kvm_pmu_cpu *, kvm_pmu_cpu);

/* The host has not the feature any more; when to ask it again, in jiffies. */
static bool kvm_pmu_gone;
static unsigned long kvm_pmu_gone_until;

static struct kmem_cache *kvm_pmu_cache;
static int kvm_pmu_cpuhp_state;

enum kvm_pmu_warning {
	KVM_PMU_WARN_GONE,
	KVM_PMU_WARN_ROBBED,
	KVM_PMU_WARN_NO_SPACE,
};

static const char * const kvm_pmu_warnings[] = {
	[KVM_PMU_WARN_GONE] =
		"the host has no paravirtual perf events any more: nothing counts",
	[KVM_PMU_WARN_ROBBED] =
		"the host needed the counter of a running event: its count is too low",
	[KVM_PMU_WARN_NO_SPACE] = "the host allows no more events",
};

/* Each is printed once. */
static unsigned long kvm_pmu_warned;

/*
 * A task switch holds the lock of the runqueue, which printk() may want, to wake
 * up who waits for the console: leave it to the work.
 */
static void kvm_pmu_warn(enum kvm_pmu_warning warning)
{
	struct kvm_pmu_cpu *cpu = this_cpu_read(kvm_pmu_cpu);

	if (test_and_set_bit(warning, &kvm_pmu_warned))
		return;

	set_bit(warning, &cpu->warnings);
	irq_work_queue(&cpu->work);
}

static void kvm_pmu_print_warnings(struct kvm_pmu_cpu *cpu)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(kvm_pmu_warnings); i++) {
		if (test_and_clear_bit(i, &cpu->warnings))
			pr_warn("%s\n", kvm_pmu_warnings[i]);
	}
}

static struct kvm_pmu_counter *kvm_pmu_counter(struct kvm_pmu_cpu *cpu,
					       struct perf_event *event)
{
	return &cpu->counters[event->hw.idx];
}

static bool kvm_pmu_is_sampling(const struct kvm_pmu_counter *counter)
{
	return counter->attr.sample_period;
}

/* @field: of @record, one that the host writes with it */
static u64 kvm_pmu_read_field(const struct guest_perf_event *record,
			      const u64 *field)
{
	u32 sequence;
	u64 value;

	/* Only matters where 64 bits are two loads. */
	do {
		sequence = READ_ONCE(record->sequence);
		/* The value is read between the two sequence numbers. */
		virt_rmb();
		value = *field;
		/* As above. */
		virt_rmb();
	} while ((sequence & 1) || sequence != READ_ONCE(record->sequence));

	return value;
}

static u64 kvm_pmu_record_count(const struct guest_perf_event *record)
{
	return kvm_pmu_read_field(record, &record->count);
}

static u64 kvm_pmu_record_left(const struct guest_perf_event *record)
{
	return kvm_pmu_read_field(record, &record->period_left);
}

/*
 * What is left of the event's period is in the record; but where the host wrote
 * that after it was told that the counter overflows for nobody, it is no more
 * known: a whole period.
 */
static void kvm_pmu_take_left(const struct kvm_pmu_counter *counter,
			      struct perf_event *event)
{
	u64 left = kvm_pmu_record_left(&counter->record);

	local64_set(&event->hw.period_left,
		    left > KVM_PMU_NO_OVERFLOW / 2 ? 0 : left);
}

/*
 * Bring the count of an event up to that of its counter.  An NMI may do so in
 * between, with a higher count.
 */
static void kvm_pmu_count(struct perf_event *event, u64 count)
{
	u64 prev;

	do {
		prev = local64_read(&event->hw.prev_count);
		if ((s64)(count - prev) <= 0)
			return;
	} while (local64_cmpxchg(&event->hw.prev_count, prev, count) != prev);

	local64_add(count - prev, &event->count);
}

/**
 * kvm_pmu_counter_update - bring an event's count up to its counter's record
 * @counter: the counter
 * @event: its event, which counts
 *
 * May be called in NMI context.
 */
void kvm_pmu_counter_update(struct kvm_pmu_counter *counter,
			    struct perf_event *event)
{
	kvm_pmu_count(event, kvm_pmu_record_count(&counter->record));
	/* A KVM on top tells its guest. */
	kvm_pmu_take_left(counter, event);
}

static void kvm_pmu_set_stopped(struct perf_event *event)
{
	event->hw.state = PERF_HES_STOPPED | PERF_HES_UPTODATE;
}

static void kvm_pmu_close(struct kvm_pmu_counter *counter)
{
	kvm_perf_op(KVM_PERF_OP_CLOSE, counter->param.id, 0);
	counter->state = KVM_PMU_CLOSED;
}

/*
 * The last that the host has told is in the records.  What was opened since the
 * host lost the others it knows, and tells once more: left open, it would refuse
 * to be opened.
 */
static void kvm_pmu_forget(struct kvm_pmu_counter *counter)
{
	struct perf_event *event = counter->event;

	kvm_perf_op(KVM_PERF_OP_DISABLE, counter->param.id, 0);
	kvm_pmu_close(counter);
	if (counter->leaving)
		kvm_pmu_counter_update(counter, counter->leaving);
	if (!event || event->hw.state)
		return;

	kvm_pmu_counter_update(counter, event);
	kvm_pmu_set_stopped(event);
	counter->starting = true;
}

static void kvm_pmu_set_gone(void)
{
	kvm_pmu_warn(KVM_PMU_WARN_GONE);
	WRITE_ONCE(kvm_pmu_gone_until, jiffies + HZ);
	WRITE_ONCE(kvm_pmu_gone, true);
}

/* Ask before perf believes that an event counts. */
static bool kvm_pmu_host_is_gone(void)
{
	if (!READ_ONCE(kvm_pmu_gone))
		return false;

	if (time_before(jiffies, READ_ONCE(kvm_pmu_gone_until)))
		return true;

	if (kvm_perf_op(KVM_PERF_OP_READ, KVM_PERF_ID_ALL, 0) == -KVM_ENOSYS)
		kvm_pmu_set_gone();
	else
		WRITE_ONCE(kvm_pmu_gone, false);

	return READ_ONCE(kvm_pmu_gone);
}

/* The host knows no counter of this CPU any more. */
static bool kvm_pmu_has_lost(long ret)
{
	if (ret == -KVM_ENOSYS)
		kvm_pmu_set_gone();

	return ret == -KVM_ENOENT || ret == -KVM_ENOSYS;
}

/* Open all anew. */
static void kvm_pmu_lost(struct kvm_pmu_cpu *cpu)
{
	unsigned int i;

	for (i = 0; i < cpu->nr_open; i++) {
		if (cpu->counters[i].state != KVM_PMU_CLOSED)
			kvm_pmu_forget(&cpu->counters[i]);
	}

	cpu->changed = true;
	/* What the new host can count may be something else. */
	kvm_pmu_config_forget();
}

static unsigned int kvm_pmu_limit(struct kvm_pmu_cpu *cpu)
{
	if (kvm_pmu_host_is_gone())
		return 0;

	if (time_after64(get_jiffies_64(), cpu->limit_until))
		cpu->limit = kvm_pmu_nr_counters();

	return cpu->limit;
}

static void kvm_pmu_set_limit(struct kvm_pmu_cpu *cpu, unsigned int limit)
{
	cpu->limit = limit;
	cpu->limit_until = get_jiffies_64() + HZ;
}

static void kvm_pmu_add_op(struct kvm_pmu_cpu *cpu,
			   struct kvm_pmu_counter *counter, u32 op, u64 arg)
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

/* The host counts for nobody; its event may have left since the last flush. */
static bool kvm_pmu_is_unused(const struct kvm_pmu_counter *counter)
{
	return counter->state == KVM_PMU_RUNNING && !counter->starting &&
	       (!counter->event || counter->event->hw.state);
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

static void kvm_pmu_run_batch(struct kvm_pmu_cpu *cpu)
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

/* It alone: others can count. */
static void kvm_pmu_refuse(struct perf_event *event)
{
	struct kvm_pmu_config *config = to_kvm_pmu_config(event);

	WRITE_ONCE(config->retry, jiffies + HZ);
	WRITE_ONCE(config->refused, true);
}

static bool kvm_pmu_is_refused(struct perf_event *event)
{
	struct kvm_pmu_config *config = to_kvm_pmu_config(event);

	if (!READ_ONCE(config->refused))
		return false;

	if (time_before(jiffies, READ_ONCE(config->retry)))
		return true;

	WRITE_ONCE(config->refused, false);
	return false;
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

/* A counter runs, or is kept open for nobody. */
static bool kvm_pmu_any_to_watch(struct kvm_pmu_cpu *cpu)
{
	const struct kvm_pmu_counter *counter;
	unsigned int i;

	for (i = 0; i < cpu->nr_open; i++) {
		counter = &cpu->counters[i];
		if (counter->state == KVM_PMU_RUNNING ||
		    (counter->state == KVM_PMU_STOPPED && !counter->event))
			return true;
	}

	return false;
}

/* As long as there is any. */
static void kvm_pmu_start_watch(struct kvm_pmu_cpu *cpu)
{
	if (cpu->watching || !kvm_pmu_any_to_watch(cpu))
		return;

	/* Timers are not for the scheduler's innermost. */
	cpu->watching = true;
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

/* Open for exactly this already? */
static bool kvm_pmu_fits(const struct kvm_pmu_counter *counter,
			 const struct guest_perf_attr *attr, u64 period)
{
	return counter->attr.config == attr->config &&
	       counter->attr.sample_period == period &&
	       counter->attr.type == attr->type &&
	       counter->attr.flags == attr->flags &&
	       counter->attr.config1 == attr->config1 &&
	       counter->attr.config2 == attr->config2;
}

static struct kvm_pmu_counter *
kvm_pmu_find(struct kvm_pmu_cpu *cpu, const struct guest_perf_attr *attr,
	     struct perf_event *event)
{
	struct kvm_pmu_counter *counter, *found = NULL;
	unsigned int i;

	for (i = 0; i < cpu->nr_open; i++) {
		counter = &cpu->counters[i];
		if (counter->event || counter->state == KVM_PMU_CLOSED)
			continue;
		/*
		 * Back where it was, it need not even stop; nor, where the host
		 * has refused a new period, take another's count for its own.
		 */
		if (counter->leaving == event)
			return counter;
		if (!kvm_pmu_fits(counter, attr, event->hw.sample_period))
			continue;
		if (!found || counter->state > found->state)
			found = counter;
	}

	return found;
}

/* Handled, though nobody wants them any more; the NMI finds nothing. */
static void kvm_pmu_drop_overflows(struct kvm_pmu_cpu *cpu,
				   struct kvm_pmu_counter *counter)
{
	u32 n = xchg(&counter->record.overflows, 0);

	if (!n)
		return;

	cpu->overflows += n;
	WRITE_ONCE(cpu->nmi_due, true);
}

/* One that is closed, or else the one that was not used for longest. */
static struct kvm_pmu_counter *
kvm_pmu_reopen(struct kvm_pmu_cpu *cpu, const struct guest_perf_attr *attr,
	       u64 period)
{
	struct kvm_pmu_counter *counter, *oldest = NULL;
	unsigned int i;

	for (i = 0; i < KVM_PMU_NR_COUNTERS; i++) {
		counter = &cpu->counters[i];
		if (counter->event || counter->leaving)
			continue;
		if (counter->state == KVM_PMU_CLOSED) {
			oldest = counter;
			break;
		}
		if (!oldest ||
		    time_before(counter->last_used, oldest->last_used))
			oldest = counter;
	}

	if (!oldest)
		return NULL;

	if (oldest->state != KVM_PMU_CLOSED)
		kvm_pmu_close(oldest);
	/* OPEN would zero them. */
	kvm_pmu_drop_overflows(cpu, oldest);

	oldest->attr = *attr;
	oldest->attr.sample_period = period;
	cpu->nr_open = max_t(unsigned int, cpu->nr_open,
			     oldest - cpu->counters + 1);
	return oldest;
}

/* One that is open for the same, or one to be opened. */
static struct kvm_pmu_counter *
kvm_pmu_find_or_reopen(struct kvm_pmu_cpu *cpu, struct perf_event *event)
{
	const struct guest_perf_attr *attr = &to_kvm_pmu_config(event)->attr;
	struct kvm_pmu_counter *counter = kvm_pmu_find(cpu, attr, event);

	return counter ? :
	       kvm_pmu_reopen(cpu, attr, event->hw.sample_period);
}

static void kvm_pmu_set_counter(struct kvm_pmu_cpu *cpu,
				struct kvm_pmu_counter *counter,
				struct perf_event *event)
{
	event->hw.idx = counter - cpu->counters;
	WRITE_ONCE(counter->event, event);
}

/* The counter that an event has left since the last flush, to another event. */
static struct kvm_pmu_counter *kvm_pmu_find_left(struct kvm_pmu_cpu *cpu,
						 struct perf_event *event)
{
	struct kvm_pmu_counter *counter;
	unsigned int i;

	for (i = 0; i < cpu->nr_open; i++) {
		counter = &cpu->counters[i];
		if (counter->leaving == event && counter->event)
			return counter;
	}

	return NULL;
}

/* Before the flush it is all the same to the event that has taken @from. */
static void kvm_pmu_move(struct kvm_pmu_cpu *cpu, struct kvm_pmu_counter *from,
			 struct kvm_pmu_counter *to)
{
	to->starting = from->starting;
	from->starting = false;
	kvm_pmu_set_counter(cpu, to, from->event);
}

/**
 * kvm_pmu_counter_get - find a counter for an event
 * @cpu: this CPU's
 * @event: the event
 *
 * The event does not count before kvm_pmu_counter_start().
 *
 * Return: 0 or -EAGAIN.
 */
int kvm_pmu_counter_get(struct kvm_pmu_cpu *cpu, struct perf_event *event)
{
	struct kvm_pmu_counter *counter, *left;

	if (cpu->used >= kvm_pmu_limit(cpu) || kvm_pmu_is_refused(event))
		return -EAGAIN;

	counter = kvm_pmu_find_or_reopen(cpu, event);
	if (!counter)
		return -EAGAIN;

	/*
	 * What it has counted where it was, and what is left of its period, is
	 * known only after the flush that would start it elsewhere: let it go
	 * on there.
	 */
	left = kvm_pmu_find_left(cpu, event);
	if (left) {
		kvm_pmu_move(cpu, left, counter);
		counter = left;
	}

	kvm_pmu_set_stopped(event);
	kvm_pmu_set_counter(cpu, counter, event);
	cpu->used++;
	return 0;
}

/**
 * kvm_pmu_counter_put - an event leaves its counter
 * @cpu: this CPU's
 * @event: the event, whose final count the next flush brings
 */
void kvm_pmu_counter_put(struct kvm_pmu_cpu *cpu, struct perf_event *event)
{
	struct kvm_pmu_counter *counter = kvm_pmu_counter(cpu, event);

	if (!event->hw.state) {
		WRITE_ONCE(counter->leaving, event);
		cpu->changed = true;
	}

	kvm_pmu_set_stopped(event);
	/* An NMI looks for the counter of an event that counts. */
	barrier();
	event->hw.idx = -1;
	counter->starting = false;
	WRITE_ONCE(counter->event, NULL);
	counter->last_used = jiffies;
	cpu->used--;
}

/**
 * kvm_pmu_counter_start - let an event count from the next flush on
 * @cpu: this CPU's
 * @event: the event, which has a counter
 */
void kvm_pmu_counter_start(struct kvm_pmu_cpu *cpu, struct perf_event *event)
{
	struct kvm_pmu_counter *counter = kvm_pmu_counter(cpu, event);

	if (!event->hw.state || counter->starting)
		return;

	/* An NMI may have stopped it as it was leaving. */
	if (counter->leaving == event && counter->state == KVM_PMU_RUNNING) {
		event->hw.state = 0;
		WRITE_ONCE(counter->leaving, NULL);
		return;
	}

	counter->starting = true;
	cpu->changed = true;
}

/**
 * kvm_pmu_counter_stop - let an event count no more, from now on
 * @cpu: this CPU's
 * @event: the event, which keeps its counter
 *
 * May be called in NMI context.
 */
void kvm_pmu_counter_stop(struct kvm_pmu_cpu *cpu, struct perf_event *event)
{
	struct kvm_pmu_counter *counter;
	long ret;

	/* Between add and del only; an NMI may find it outside of that. */
	if (event->hw.idx < 0)
		return;

	counter = kvm_pmu_counter(cpu, event);
	counter->starting = false;
	if (event->hw.state)
		return;

	ret = kvm_perf_op(KVM_PERF_OP_DISABLE, counter->param.id, 0);
	if (!ret || ret == -KVM_EFAULT)
		counter->state = KVM_PMU_STOPPED;
	kvm_pmu_counter_update(counter, event);
	kvm_pmu_set_stopped(event);
}

/**
 * kvm_pmu_counter_read - bring an event's count up to date
 * @cpu: this CPU's
 * @event: an event that counts
 *
 * May be called in NMI context.
 */
void kvm_pmu_counter_read(struct kvm_pmu_cpu *cpu, struct perf_event *event)
{
	struct kvm_pmu_counter *counter = kvm_pmu_counter(cpu, event);
	long ret = 0;

	if (!cpu->fresh)
		ret = kvm_perf_op(KVM_PERF_OP_READ, counter->param.id, 0);
	if (ret == -KVM_EBUSY)
		kvm_pmu_warn(KVM_PMU_WARN_ROBBED);
	kvm_pmu_counter_update(counter, event);

	if (!in_nmi() && kvm_pmu_has_lost(ret)) {
		kvm_pmu_lost(cpu);
		if (!cpu->disabled)
			kvm_pmu_flush(cpu);
	}
}

/**
 * kvm_pmu_counters_read - bring all records up to date
 * @cpu: this CPU's
 */
void kvm_pmu_counters_read(struct kvm_pmu_cpu *cpu)
{
	long ret = kvm_perf_op(KVM_PERF_OP_READ, KVM_PERF_ID_ALL, 0);

	if (ret == -KVM_EBUSY)
		kvm_pmu_warn(KVM_PMU_WARN_ROBBED);
	cpu->fresh = !ret || ret == -KVM_EBUSY;
}

static void kvm_pmu_stop_unused(struct kvm_pmu_counter *counter)
{
	kvm_perf_op(KVM_PERF_OP_DISABLE, counter->param.id, 0);
	counter->state = KVM_PMU_STOPPED;
}

/* Parked ones of an event with a frequency, whose period the host adjusts. */
static void kvm_pmu_stop_unwanted(struct kvm_pmu_cpu *cpu)
{
	struct kvm_pmu_counter *counter;
	unsigned int i;

	for (i = 0; i < cpu->nr_open; i++) {
		counter = &cpu->counters[i];
		if (kvm_pmu_is_unused(counter) && kvm_pmu_is_sampling(counter))
			kvm_pmu_stop_unused(counter);
	}
}

static void kvm_pmu_work(struct irq_work *work)
{
	struct kvm_pmu_cpu *cpu = container_of(work, struct kvm_pmu_cpu, work);

	kvm_pmu_print_warnings(cpu);

	if (xchg(&cpu->unwanted, false))
		kvm_pmu_stop_unwanted(cpu);

	if (xchg(&cpu->resched, false))
		kvm_pmu_resched();

	if (cpu->watching && !timer_pending(&cpu->watch))
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
			kvm_pmu_stop_unused(counter);
		if (!counter->event && counter->state == KVM_PMU_STOPPED &&
		    unused >= KVM_PMU_KEEP)
			kvm_pmu_close(counter);
	}
}

/*
 * Events of a CPU may count for ever without any operation: find out whether
 * they still do.  Each of them, as the host may have lost all but those that
 * were opened since.
 */
static void kvm_pmu_check(struct kvm_pmu_cpu *cpu)
{
	bool lost = false;
	unsigned int i;

	cpu->nr_ops = 0;
	for (i = 0; i < cpu->nr_open; i++) {
		if (cpu->counters[i].state == KVM_PMU_RUNNING)
			kvm_pmu_add_op(cpu, &cpu->counters[i],
				       KVM_PERF_OP_READ, 0);
	}
	if (!cpu->nr_ops)
		return;

	kvm_pmu_run_batch(cpu);
	for (i = 0; i < cpu->nr_ops; i++) {
		if (cpu->ops[i].result == -KVM_EBUSY)
			kvm_pmu_warn(KVM_PMU_WARN_ROBBED);
		lost |= kvm_pmu_has_lost(cpu->ops[i].result);
	}

	if (lost) {
		kvm_pmu_lost(cpu);
		kvm_pmu_flush(cpu);
	}
}

static void kvm_pmu_watch(struct timer_list *watch)
{
	struct kvm_pmu_cpu *cpu = container_of(watch, struct kvm_pmu_cpu,
					       watch);
	unsigned long flags;

	local_irq_save(flags);
	cpu->watching = false;
	/* Not where its CPU has gone offline. */
	if (cpu == this_cpu_read(kvm_pmu_cpu)) {
		kvm_pmu_reap(cpu);
		kvm_pmu_check(cpu);
		cpu->watching = kvm_pmu_any_to_watch(cpu);
	}
	if (cpu->watching)
		mod_timer(watch, jiffies + KVM_PMU_WATCH);
	local_irq_restore(flags);
}

/* Of a CPU that is offline; perf has removed its events. */
static int kvm_pmu_cpu_dead(unsigned int nr)
{
	struct kvm_pmu_cpu *cpu = per_cpu(kvm_pmu_cpu, nr);
	unsigned int i;

	timer_delete_sync(&cpu->watch);
	cpu->watching = false;
	for (i = 0; i < cpu->nr_open; i++) {
		if (cpu->counters[i].state != KVM_PMU_CLOSED)
			kvm_pmu_close(&cpu->counters[i]);
	}

	return 0;
}

/* Each of the two may start the other, once. */
static void kvm_pmu_cpu_quiesce(struct kvm_pmu_cpu *cpu)
{
	unsigned int i;

	for (i = 0; i < cpu->nr_open; i++)
		cpu->counters[i].state = KVM_PMU_CLOSED;

	irq_work_sync(&cpu->work);
	timer_delete_sync(&cpu->watch);
	irq_work_sync(&cpu->work);
	timer_delete_sync(&cpu->watch);
}

static struct kvm_pmu_cpu *kvm_pmu_cpu_create(int nr)
{
	struct kvm_pmu_counter *counter;
	struct kvm_pmu_cpu *cpu;
	unsigned int i;

	cpu = kmem_cache_alloc_node(kvm_pmu_cache, GFP_KERNEL | __GFP_ZERO,
				    cpu_to_node(nr));
	if (!cpu)
		return NULL;

	cpu->work = IRQ_WORK_INIT_HARD(kvm_pmu_work);
	/* Deferrable: a CPU that is idle has nothing to lose. */
	timer_setup(&cpu->watch, kvm_pmu_watch, TIMER_PINNED | TIMER_DEFERRABLE);
	cpu->limit = kvm_pmu_nr_counters();
	for (i = 0; i < KVM_PMU_NR_COUNTERS; i++) {
		counter = &cpu->counters[i];
		counter->param.id = nr * KVM_PMU_NR_COUNTERS + i;
		counter->param.attr_addr = virt_to_phys(&counter->attr);
		counter->param.event_addr = virt_to_phys(&counter->record);
	}

	return cpu;
}

static void kvm_pmu_free_cpus(void)
{
	int nr;

	for_each_possible_cpu(nr) {
		if (per_cpu(kvm_pmu_cpu, nr))
			kmem_cache_free(kvm_pmu_cache, per_cpu(kvm_pmu_cpu, nr));
		per_cpu(kvm_pmu_cpu, nr) = NULL;
	}
	kmem_cache_destroy(kvm_pmu_cache);
}

/**
 * kvm_pmu_counters_create - prepare the counters of all CPUs
 *
 * Return: 0 or -E*.
 */
int kvm_pmu_counters_create(void)
{
	int nr, ret;

	kvm_pmu_cache = KMEM_CACHE(kvm_pmu_cpu, 0);
	if (!kvm_pmu_cache)
		return -ENOMEM;

	ret = -ENOMEM;
	for_each_possible_cpu(nr) {
		per_cpu(kvm_pmu_cpu, nr) = kvm_pmu_cpu_create(nr);
		if (!per_cpu(kvm_pmu_cpu, nr))
			goto free_cpus;
	}

	ret = cpuhp_setup_state_nocalls(CPUHP_BP_PREPARE_DYN, "perf/kvm_pmu:dead",
					NULL, kvm_pmu_cpu_dead);
	if (ret < 0)
		goto free_cpus;

	kvm_pmu_cpuhp_state = ret;
	return 0;

free_cpus:
	kvm_pmu_free_cpus();
	return ret;
}

/**
 * kvm_pmu_counters_destroy - free the counters of all CPUs
 *
 * No perf_event is left, nothing is open at the host, and no NMI looks at the
 * counters.
 */
void kvm_pmu_counters_destroy(void)
{
	int nr;

	cpuhp_remove_state_nocalls(kvm_pmu_cpuhp_state);
	for_each_possible_cpu(nr)
		kvm_pmu_cpu_quiesce(per_cpu(kvm_pmu_cpu, nr));
	kvm_pmu_free_cpus();
}
