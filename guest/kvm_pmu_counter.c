// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, guest side: the counters of a CPU, and which
 * event has which.
 *
 * A counter is an event that the host keeps open for this CPU, with an id and
 * a record.  It stays open when the perf_event that used it is gone, for the
 * next one that counts the same, and even runs on for a while as long as no
 * other needs the hardware: a perf_event takes the difference of two readings.
 * So tasks switch, fork and exit, and events are opened and closed, without
 * the host's enabling or disabling anything.
 *
 * Everything here runs on the counters' CPU with interrupts off, but for
 * stopping and reading, which the NMI handler does too, for events that count.
 *
 * The host may be another one than before (migration, a restored snapshot), or
 * have had its vCPU reset (suspend to memory).  What it has told is still in the
 * records then, and any operation may find that it knows no counter any more.
 * Where there is none, the watch, a timer, finds it.
 */
#include <linux/jiffies.h>
#include <linux/perf_event.h>

#include "kvm_pmu.h"

static struct kvm_pmu_counter *kvm_pmu_counter(struct kvm_pmu_cpu *cpu,
					       struct perf_event *event)
{
	return &cpu->counters[event->hw.idx];
}

/**
 * kvm_pmu_close - have the host close a counter
 * @counter: the counter, open
 */
void kvm_pmu_close(struct kvm_pmu_counter *counter)
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

/**
 * kvm_pmu_lost - the host knows no counter any more: open all anew
 * @cpu: this CPU's; the next flush does it
 */
void kvm_pmu_lost(struct kvm_pmu_cpu *cpu)
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

/**
 * kvm_pmu_is_unused - does the host count for nobody?
 * @counter: the counter; its event may have left since the last flush
 */
bool kvm_pmu_is_unused(const struct kvm_pmu_counter *counter)
{
	return counter->state == KVM_PMU_RUNNING && !counter->starting &&
	       (!counter->event || counter->event->hw.state);
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
