// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, guest side: which backing event of its CPU a
 * perf_event has, if there is room for it.
 *
 * Only an ENABLE shows that the host has no counter for an event, and perf then believes
 * that the event counts.  So the driver remembers for a while how much can count, and
 * refuses more at pmu->add().
 *
 * All runs on the CPU that the events are for, with interrupts off.
 */
#include <linux/bitops.h>
#include <linux/jiffies.h>
#include <linux/perf_event.h>

#include "kvm_pmu.h"
#include "kvm_pmu_rdpmc.h"

/* How long a limit holds: an attempt to count more fails at most ten times a second. */
#define KVM_PMU_LIMIT		(HZ / 10)

/*
 * General-purpose counters that @use needs: one more for each fixed counter in
 * @no_fixed.
 */
static unsigned int kvm_pmu_general(const struct kvm_pmu_use *use,
				    unsigned long no_fixed)
{
	unsigned int n = use->general;
	unsigned int i;

	for_each_set_bit(i, &no_fixed, KVM_PMU_GENERAL)
		n += use->fixed[i] != 0;

	return n;
}

/**
 * kvm_pmu_use_is_within - are there enough counters for some events?
 * @use: the counters that the events take
 * @no_fixed: a bit for each fixed counter that is not available
 * @general: number of general-purpose counters that are available
 */
bool kvm_pmu_use_is_within(const struct kvm_pmu_use *use, unsigned long no_fixed,
			   unsigned int general)
{
	/* No general-purpose counter counts reference cycles. */
	return use->fixed[KVM_PMU_FIXED_REF_CYCLES] <= 1 &&
	       kvm_pmu_general(use, no_fixed) <= general;
}

static void kvm_pmu_end_old_limit(struct kvm_pmu_cpu *cpu)
{
	if (time_after64(get_jiffies_64(), cpu->limit.until)) {
		cpu->limit.general = READ_ONCE(kvm_pmu_host.nr_counters);
		cpu->limit.no_fixed = 0;
	}
}

/**
 * kvm_pmu_use_fits - can some events count at the same time?
 * @cpu: this CPU's
 * @use: the counters that would be needed
 */
bool kvm_pmu_use_fits(struct kvm_pmu_cpu *cpu, const struct kvm_pmu_use *use)
{
	kvm_pmu_end_old_limit(cpu);
	return kvm_pmu_use_is_within(use, cpu->limit.no_fixed, cpu->limit.general);
}

/**
 * kvm_pmu_set_limit - let no more events count for 0.1 seconds than run now
 * @cpu: this CPU's
 * @failed: a bit for each enum kvm_pmu_class of backing events that did not start, or have
 *	lost their counters.  Events that could have a fixed counter need a general one
 *	now
 */
void kvm_pmu_set_limit(struct kvm_pmu_cpu *cpu, unsigned long failed)
{
	struct kvm_pmu_use running = kvm_pmu_running(cpu);

	kvm_pmu_end_old_limit(cpu);
	cpu->limit.no_fixed |= failed & ~BIT(KVM_PMU_GENERAL);
	cpu->limit.general = kvm_pmu_general(&running, cpu->limit.no_fixed);
	cpu->limit.until = get_jiffies_64() + KVM_PMU_LIMIT;
}

/**
 * kvm_pmu_refuse - note that the host does not count an event; it may count others
 * @event: the event.  The driver asks for no event of its configuration for a second
 */
void kvm_pmu_refuse(struct perf_event *event)
{
	struct kvm_pmu_config *config = to_kvm_pmu_config(event);

	WRITE_ONCE(config->retry, jiffies + HZ);
	WRITE_ONCE(config->refused, true);
}

/**
 * kvm_pmu_note_absent - note that this CPU is on a kind of cores that lacks an event
 * @event: the event, which is not tried again before the next tick: the vCPU may come
 *	back to its kind.  Other CPUs count others of this configuration meanwhile
 */
void kvm_pmu_note_absent(struct perf_event *event)
{
	*kvm_pmu_absent_at(event) = get_jiffies_64();
}

/* Has the host just refused to count the event? */
static bool kvm_pmu_is_refused(struct perf_event *event)
{
	struct kvm_pmu_config *config = to_kvm_pmu_config(event);
	u64 now = get_jiffies_64();

	if (*kvm_pmu_absent_at(event) == now)
		return true;

	if (!READ_ONCE(config->refused))
		return false;

	if (time_before(jiffies, READ_ONCE(config->retry)))
		return true;

	WRITE_ONCE(config->refused, false);
	return false;
}

static void kvm_pmu_set_event(struct kvm_pmu_cpu *cpu,
			      struct kvm_pmu_backing *backing,
			      struct perf_event *event)
{
	WRITE_ONCE(backing->event, event);
	/* An NMI that throttles the group finds the event's backing event by hw.idx. */
	barrier();
	event->hw.idx = backing - cpu->backing;
	/* NMI-safe: an NMI looks at @event unless @state is FREE. */
	barrier();
	WRITE_ONCE(backing->state, KVM_PMU_HELD);
}

static void kvm_pmu_clear_event(struct kvm_pmu_backing *backing)
{
	/* From here on, an NMI that stops the event leaves its backing event alone. */
	backing->event->hw.idx = -1;
	barrier();
	WRITE_ONCE(backing->state, KVM_PMU_FREE);
	/* NMI-safe: an NMI looks at @event unless @state is FREE. */
	barrier();
	WRITE_ONCE(backing->event, NULL);
}

/*
 * Find the backing event that @event left after the last flush, if another event has taken
 * that backing event.
 */
static struct kvm_pmu_backing *kvm_pmu_find_left(struct kvm_pmu_cpu *cpu,
						 struct perf_event *event)
{
	struct kvm_pmu_backing *backing;

	for_each_backing(cpu, backing) {
		if (backing->leaving == event && backing->event)
			return backing;
	}

	return NULL;
}

/*
 * Before the flush, the event that has taken @from can use any other backing event.
 * NMI-safe: an NMI may stop the event at any instruction here.  It finds @from or @to,
 * and a stop of @from is repeated for @to.
 */
static void kvm_pmu_move(struct kvm_pmu_cpu *cpu, struct kvm_pmu_backing *from,
			 struct kvm_pmu_backing *to)
{
	struct perf_event *event = from->event;

	/* @from may have run already.  The host has to start @to. */
	cpu->perf.added |= BIT(to - cpu->backing);

	WRITE_ONCE(to->event, event);
	/* NMI-safe: an NMI looks at @event unless @state is FREE. */
	barrier();
	WRITE_ONCE(to->state, READ_ONCE(from->state));
	/* From here on, an NMI stops @to. */
	barrier();
	event->hw.idx = to - cpu->backing;
	/* Until now, an NMI may have stopped @from. */
	barrier();
	if (xchg(&from->state, KVM_PMU_FREE) == KVM_PMU_HELD)
		WRITE_ONCE(to->state, KVM_PMU_HELD);
	/* NMI-safe: an NMI looks at @event unless @state is FREE. */
	barrier();
	WRITE_ONCE(from->event, NULL);
}

/* Is the backing event open for the same configuration and period? */
static bool kvm_pmu_fits(const struct kvm_pmu_backing *backing,
			 const struct guest_perf_attr *attr, u64 period)
{
	return backing->attr.config == attr->config &&
	       backing->attr.sample_period == period &&
	       backing->attr.type == attr->type &&
	       backing->attr.flags == attr->flags &&
	       backing->attr.model == attr->model &&
	       backing->attr.config1 == attr->config1 &&
	       backing->attr.config2 == attr->config2;
}

/* Find a backing event that no event has, and that is open for what @event counts. */
static struct kvm_pmu_backing *
kvm_pmu_find(struct kvm_pmu_cpu *cpu, struct perf_event *event)
{
	const struct guest_perf_attr *attr = &to_kvm_pmu_config(event)->attr;
	struct kvm_pmu_backing *backing, *found = NULL;

	for_each_backing(cpu, backing) {
		if (backing->event || backing->host == KVM_PMU_CLOSED)
			continue;
		/*
		 * An event that comes back to its backing event need not even stop.  If
		 * the host has refused a new period, the event finds its own count.
		 */
		if (backing->leaving == event)
			return backing;
		if (!kvm_pmu_fits(backing, attr, event->hw.sample_period))
			continue;
		if (!found || backing->host > found->host)
			found = backing;
	}

	return found;
}

/* Handle overflows that no event wants any more; their NMI will find nothing. */
static void kvm_pmu_drop_overflows(struct kvm_pmu_cpu *cpu,
				   struct kvm_pmu_backing *backing)
{
	u32 n = xchg(&backing->record.overflows, 0);

	if (!n)
		return;

	cpu->nmi.overflows += n;
	WRITE_ONCE(cpu->nmi.due, true);
}

/*
 * Find a closed backing event, or else close the one that was not used for longest.
 * Returns NULL if each has an event, or one that is leaving.
 */
static struct kvm_pmu_backing *
kvm_pmu_reopen(struct kvm_pmu_cpu *cpu, struct perf_event *event)
{
	const struct kvm_pmu_config *config = to_kvm_pmu_config(event);
	struct kvm_pmu_backing *backing, *oldest = NULL;
	unsigned int i;

	for (i = 0; i < KVM_PMU_NR_BACKING; i++) {
		backing = &cpu->backing[i];
		if (backing->event || backing->leaving)
			continue;
		if (backing->host == KVM_PMU_CLOSED) {
			oldest = backing;
			break;
		}
		if (!oldest ||
		    time_before(backing->last_used, oldest->last_used))
			oldest = backing;
	}

	if (!oldest)
		return NULL;

	if (oldest->host != KVM_PMU_CLOSED)
		kvm_pmu_close(oldest);
	/* Before OPEN, which zeroes the record. */
	kvm_pmu_drop_overflows(cpu, oldest);

	oldest->attr = config->attr;
	oldest->attr.sample_period = event->hw.sample_period;
	oldest->class = kvm_pmu_class(&config->attr);
	cpu->nr_open = max_t(unsigned int, cpu->nr_open,
			     oldest - cpu->backing + 1);
	return oldest;
}

/*
 * Do not ask again at once if the host has refused, except for a pinned group: if such
 * a group finds no counter, perf gives it up for good.
 */
static bool kvm_pmu_has_room(struct kvm_pmu_cpu *cpu, struct perf_event *event)
{
	const struct guest_perf_attr *attr = &to_kvm_pmu_config(event)->attr;
	bool foreign = kvm_pmu_is_foreign(attr);
	struct kvm_pmu_use use = cpu->use;

	if (foreign)
		kvm_pmu_warn(KVM_PMU_WARN_MODEL);

	/* After a migration the known model may be the last host's. */
	if (kvm_pmu_is_pinned(event))
		return !kvm_pmu_host_is_gone(true);

	kvm_pmu_add_use(&use, kvm_pmu_class(attr));
	return !foreign && !kvm_pmu_host_is_gone(false) &&
	       !kvm_pmu_is_refused(event) && kvm_pmu_use_fits(cpu, &use);
}

/**
 * kvm_pmu_backing_get - find a backing event for an event
 * @cpu: this CPU's
 * @event: the event
 *
 * The event does not count before kvm_pmu_backing_start().
 *
 * Return: 0, -EAGAIN if there is no counter, or -ENOSPC if each backing event has an event,
 * or one that is leaving.
 */
int kvm_pmu_backing_get(struct kvm_pmu_cpu *cpu, struct perf_event *event)
{
	struct kvm_pmu_backing *backing, *left;

	if (!kvm_pmu_has_room(cpu, event))
		return -EAGAIN;

	backing = kvm_pmu_find(cpu, event) ? : kvm_pmu_reopen(cpu, event);
	if (!backing)
		return -ENOSPC;

	/*
	 * Only the flush tells the final count on @left and the rest of the period.
	 * The same flush would start the event on @backing, so let the event go on
	 * at @left.
	 */
	left = cpu->leaving ? kvm_pmu_find_left(cpu, event) : NULL;
	if (left) {
		kvm_pmu_move(cpu, left, backing);
		backing = left;
	}

	kvm_pmu_set_stopped(event);
	kvm_pmu_set_event(cpu, backing, event);
	cpu->perf.added |= BIT(event->hw.idx);
	cpu->used++;
	kvm_pmu_add_use(&cpu->use, backing->class);
	return 0;
}

/* Without a hypercall.  Not a sampling event: the host has to stop its overflows. */
static bool kvm_pmu_leave_now(struct kvm_pmu_cpu *cpu,
			      struct kvm_pmu_backing *backing)
{
	u64 count;

	if (kvm_pmu_is_sampling(backing) || !kvm_pmu_rdpmc(cpu, backing, &count))
		return false;

	kvm_pmu_count(backing->event, count);
	kvm_pmu_page_changed(cpu, backing->event);
	return true;
}

/**
 * kvm_pmu_backing_put - an event leaves its backing event
 * @cpu: this CPU's
 * @event: the event, whose final count is known now or after the next flush
 */
void kvm_pmu_backing_put(struct kvm_pmu_cpu *cpu, struct perf_event *event)
{
	struct kvm_pmu_backing *backing = kvm_pmu_backing_of(cpu, event);

	if (kvm_pmu_hold(backing) == KVM_PMU_COUNTING &&
	    !kvm_pmu_leave_now(cpu, backing)) {
		WRITE_ONCE(backing->leaving, event);
		cpu->leaving = true;
		cpu->flush.due = true;
		kvm_pmu_page_changed(cpu, event);
	}

	kvm_pmu_clear_event(backing);
	/* No backing event may be spare, so the flush stops this one. */
	if (cpu->user.reads)
		cpu->flush.due = true;
	backing->last_used = jiffies;
	cpu->used--;
	kvm_pmu_sub_use(&cpu->use, backing->class);
}

/**
 * kvm_pmu_backing_start - let an event count from the next flush on
 * @cpu: this CPU's
 * @event: the event, which has a backing event
 */
void kvm_pmu_backing_start(struct kvm_pmu_cpu *cpu, struct perf_event *event)
{
	struct kvm_pmu_backing *backing = kvm_pmu_backing_of(cpu, event);

	if (backing->state != KVM_PMU_HELD)
		return;

	WRITE_ONCE(backing->state, KVM_PMU_STARTING);
	/* The event comes back to its backing event, unless an NMI has stopped that. */
	if (backing->leaving == event && backing->host == KVM_PMU_RUNNING) {
		kvm_pmu_set_counting(cpu, backing);
		/* An NMI that stopped the backing event has settled the count. */
		WRITE_ONCE(backing->leaving, NULL);
		return;
	}

	cpu->flush.due = true;
}
