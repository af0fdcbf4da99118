// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, guest side: the counts of the hypervisor's events in a
 * CPU's area, and slots, in which the host counts down to their samples.
 *
 * Each event that the host counts costs every exit something, and SET_COUNTS costs an
 * exit.  So if a CPU needs an event, it asks for all that are in use anywhere, and the
 * watch takes back those that are not in use any more.
 *
 * At every exit the host may write a slot that is in use.  So the guest takes the slot
 * out of use before it writes there.  An NMI may do so, too, to stop the slot's event
 * or to begin a new period.
 *
 * Functions with a CPU run on that CPU with interrupts off.
 */
#include <linux/atomic.h>
#include <linux/bitops.h>
#include <linux/math64.h>
#include <linux/perf_event.h>

#include <asm/insn.h>
#include <asm/perf_event.h>
#include <asm/processor-flags.h>
#include <asm/ptrace.h>
#include <asm/segment.h>

#include "compat.h"
#include "kvm_pmu.h"
#include "kvm_pmu_hypervisor.h"

/*
 * Atomic, because an NMI changes other bits.  Also a compiler barrier; the host looks
 * only when this CPU has exited, so no other barrier is needed.
 */
static void kvm_pmu_slot_use(struct kvm_pmu_cpu *cpu, unsigned int i, bool use)
{
	/* With @reserved, which is unused, the field has the length of a long. */
	unsigned long *slots = (unsigned long *)&cpu->host.area->slots;

	BUILD_BUG_ON(offsetof(struct guest_perf_area, slots) % sizeof(*slots));

	if (use)
		set_bit(i, slots);
	else
		clear_bit(i, slots);
}

static s64 kvm_pmu_slot_left(const struct kvm_pmu_cpu *cpu, unsigned int i)
{
	return kvm_pmu_area_read(&cpu->host.area->slot[i].left);
}

/* If an exit changes counts in between, the sum is between the old and the new sum. */
static u64 kvm_pmu_hypervisor_now(const struct perf_event *event)
{
	const struct guest_perf_area *area = this_kvm_pmu_cpu()->host.area;
	unsigned long counts = event->hw.config;
	unsigned int i;
	u64 now = 0;

	for_each_set_bit(i, &counts, KVM_PERF_NR_COUNTS) {
		if (!event->attr.exclude_kernel)
			now += kvm_pmu_area_read(&area->count[i][0]);
		if (!event->attr.exclude_user)
			now += kvm_pmu_area_read(&area->count[i][1]);
	}

	return now;
}

/**
 * kvm_pmu_hypervisor_update - bring the count of an event up to date
 * @event: the event, which is started
 *
 * NMI-safe.
 */
void kvm_pmu_hypervisor_update(struct perf_event *event)
{
	kvm_pmu_count(event, kvm_pmu_hypervisor_now(event));
}

/**
 * kvm_pmu_slots_for - how many slots could a group have?
 * @cpu: this CPU's
 * @leader: the group's leader, or NULL for a group that has no slot yet
 */
unsigned int kvm_pmu_slots_for(const struct kvm_pmu_cpu *cpu,
			       const struct perf_event *leader)
{
	const struct perf_event *event;
	unsigned int i, n = 0;

	for (i = 0; i < KVM_PERF_NR_SLOTS; i++) {
		event = cpu->hypervisor.slots[i].event;
		n += !event || event->group_leader == leader;
	}

	return n;
}

/**
 * kvm_pmu_slot_get - find a slot for an event
 * @cpu: this CPU's
 * @event: the event, which samples
 *
 * Return: 0 or -EAGAIN.
 */
int kvm_pmu_slot_get(struct kvm_pmu_cpu *cpu, struct perf_event *event)
{
	unsigned int i;

	for (i = 0; i < KVM_PERF_NR_SLOTS; i++) {
		if (cpu->hypervisor.slots[i].event)
			continue;
		cpu->hypervisor.slots[i].event = event;
		event->hw.idx = i;
		return 0;
	}

	return -EAGAIN;
}

/**
 * kvm_pmu_slot_put - an event leaves its slot
 * @cpu: this CPU's
 * @event: the event, which is stopped
 */
void kvm_pmu_slot_put(struct kvm_pmu_cpu *cpu, struct perf_event *event)
{
	cpu->hypervisor.slots[event->hw.idx].event = NULL;
}

static u32 kvm_pmu_slot_exclude(const struct perf_event_attr *attr)
{
	return (attr->exclude_user ? KVM_PERF_ATTR_EXCLUDE_USER : 0) |
	       (attr->exclude_kernel ? KVM_PERF_ATTR_EXCLUDE_KERNEL : 0);
}

/*
 * Write the slot of an event, which is not in use, for the period that is under way.  A
 * period that has ended without a sample is given up.
 */
static void kvm_pmu_slot_load(struct kvm_pmu_cpu *cpu, struct perf_event *event)
{
	struct hw_perf_event *hwc = &event->hw;
	s64 left = local64_read(&hwc->period_left);

	if (left <= 0) {
		left = hwc->sample_period;
		local64_set(&hwc->period_left, left);
		hwc->last_period = left;
	}

	cpu->hypervisor.slots[hwc->idx].period = hwc->last_period;
	cpu->host.area->slot[hwc->idx] = (struct guest_perf_slot) {
		.counts		= hwc->config,
		.left		= left,
		.exclude	= kvm_pmu_slot_exclude(&event->attr),
	};
}

/* Let the host count down an event's slot, which has been written. */
static void kvm_pmu_slot_on(struct kvm_pmu_cpu *cpu, struct perf_event *event)
{
	kvm_pmu_slot_use(cpu, event->hw.idx, true);
	/* An NMI may have stopped the event before. */
	if (READ_ONCE(event->hw.state))
		kvm_pmu_slot_use(cpu, event->hw.idx, false);
}

/*
 * Take an event's slot out of use, and note the rest of the period.  NMI-safe: an NMI may
 * call it while it runs already.
 */
static void kvm_pmu_slot_off(struct kvm_pmu_cpu *cpu, struct perf_event *event)
{
	unsigned int i = event->hw.idx;
	s64 left;

	kvm_pmu_slot_use(cpu, i, false);
	/* The host only counts down. */
	left = min_t(s64, kvm_pmu_slot_left(cpu, i), cpu->hypervisor.slots[i].period);
	local64_set(&event->hw.period_left, left);
	event->hw.last_period = cpu->hypervisor.slots[i].period;
	/* An exit in this handler may have brought an NMI, which finds nothing. */
	if (left <= 0 && in_nmi())
		WRITE_ONCE(cpu->nmi.due, true);
}

/**
 * kvm_pmu_hypervisor_start - pmu->start
 * @event: the event
 * @flags: PERF_EF_RELOAD makes no difference: the rest of the period is always written
 */
void kvm_pmu_hypervisor_start(struct perf_event *event, int flags)
{
	struct kvm_pmu_cpu *cpu = this_kvm_pmu_cpu();
	bool sampling = is_sampling_event(event);

	/* perf unthrottles whole groups: see kvm_pmu_start(). */
	if (event->hw.idx < 0 || !event->hw.state)
		return;

	if (sampling)
		kvm_pmu_slot_load(cpu, event);
	local64_set(&event->hw.prev_count, kvm_pmu_hypervisor_now(event));
	/* From here on, an NMI may stop the event. */
	barrier();
	WRITE_ONCE(event->hw.state, 0);
	if (sampling)
		kvm_pmu_slot_on(cpu, event);
}

/**
 * kvm_pmu_hypervisor_stop - pmu->stop
 * @event: the event
 * @flags: PERF_EF_UPDATE makes no difference: it costs nothing
 *
 * NMI-safe: an NMI may call it while it runs already.
 */
void kvm_pmu_hypervisor_stop(struct perf_event *event, int flags)
{
	if (event->hw.idx < 0 || event->hw.state)
		return;

	if (is_sampling_event(event))
		kvm_pmu_slot_off(this_kvm_pmu_cpu(), event);
	kvm_pmu_hypervisor_update(event);
	/* Until here, an NMI would update the event as well. */
	barrier();
	kvm_pmu_set_stopped(event);
}

/* Is the CPU at the instruction that has exited, or at the next one? */
static bool kvm_pmu_slot_is_at(u64 ip, bool user, struct pt_regs *regs)
{
	return user_mode(regs) == user && regs->ip - ip <= MAX_INSN_SIZE;
}

/*
 * The NMI comes with the registers of the exit.  If it is late, there are no registers
 * to show.  An event of user mode never gets the kernel's registers.
 */
static void kvm_pmu_slot_regs(const struct guest_perf_slot *slot,
			      const struct perf_event *event,
			      struct pt_regs *regs, struct pt_regs *exited)
{
	bool user = READ_ONCE(slot->user) || event->attr.exclude_kernel;
	u64 ip = kvm_pmu_area_read(&slot->ip);

	if (kvm_pmu_slot_is_at(ip, user, regs))
		*exited = *regs;
	else
		*exited = (struct pt_regs) {
			.cs	= user ? __USER_CS : __KERNEL_CS,
			.ss	= user ? __USER_DS : __KERNEL_DS,
			.flags	= X86_EFLAGS_FIXED,
		};

	exited->ip = ip;
	exited->flags |= PERF_EFLAGS_EXACT;
}

/*
 * The host subtracts all counts of an exit from the slot at once, perhaps more than was
 * left, as with ns.  Then there is a sample for each period, as for perf's software
 * events, but at most KVM_PMU_MAX_SAMPLES; or with a frequency one sample, and perf
 * adapts the period.  Returns the number of periods that have ended.
 */
static u64 kvm_pmu_slot_next(struct kvm_pmu_cpu *cpu, unsigned int i,
			     struct perf_event *event)
{
	u64 beyond = -(u64)kvm_pmu_slot_left(cpu, i), rest;
	struct hw_perf_event *hwc = &event->hw;
	u64 n = 1;

	if (event->attr.freq) {
		/* Limit the period to numbers that perf can calculate with. */
		hwc->last_period = cpu->hypervisor.slots[i].period +
				   min_t(u64, beyond, U32_MAX);
		local64_set(&hwc->period_left, 0);
		return n;
	}

	n += div64_u64_rem(beyond, hwc->sample_period, &rest);
	hwc->last_period = hwc->sample_period;
	local64_set(&hwc->period_left, hwc->sample_period - rest);
	return n;
}

static void kvm_pmu_slot_overflow(struct kvm_pmu_cpu *cpu, unsigned int i,
				  struct pt_regs *regs)
{
	struct perf_event *event = READ_ONCE(cpu->hypervisor.slots[i].event);
	struct perf_sample_data data;
	struct pt_regs exited;
	unsigned int samples;
	u64 period, n;

	kvm_pmu_slot_use(cpu, i, false);
	/* An NMI has stopped the event as it was to start, or the bit is stray. */
	if (!event || event->hw.state)
		return;

	n = kvm_pmu_slot_next(cpu, i, event);
	period = event->hw.last_period;
	kvm_pmu_slot_regs(&cpu->host.area->slot[i], event, regs, &exited);
	kvm_pmu_hypervisor_update(event);
	kvm_pmu_slot_load(cpu, event);
	kvm_pmu_slot_use(cpu, i, true);

	samples = min_t(u64, n, KVM_PMU_MAX_SAMPLES);
	n -= samples;
	for (; samples && !event->hw.state; samples--) {
		if (samples == 1)
			period += n * period;
		/* By last_period perf adapts the period to a frequency. */
		event->hw.last_period = period;
		perf_sample_data_init(&data, 0, period);
		cpu->nmi.samples++;
		if (perf_event_overflow(event, &data, &exited))
			kvm_pmu_hypervisor_stop(event, 0);
	}
}

/**
 * kvm_pmu_slots_handle - have perf take a sample for each slot that has overflowed
 * @cpu: this CPU's
 * @regs: what the NMI has interrupted
 *
 * The host sends one NMI for all slots that overflow at an exit, at once or late; a
 * late one only if a slot is still overflowed.  So an NMI finds no slot only if an exit
 * in the handler of an earlier NMI caused it and that handler has looked at the slot
 * since.  The earlier NMI had a reason of its own, and returns one more for the slot,
 * so the kernel expects a second NMI.
 *
 * Return: the number of these slots.
 */
u32 kvm_pmu_slots_handle(struct kvm_pmu_cpu *cpu, struct pt_regs *regs)
{
	unsigned long slots = READ_ONCE(cpu->host.area->slots);
	unsigned int i;
	u32 n = 0;

	for_each_set_bit(i, &slots, KVM_PERF_NR_SLOTS) {
		/* perf may have throttled the group and stopped the slot meanwhile. */
		if (!(READ_ONCE(cpu->host.area->slots) & BIT(i)) ||
		    kvm_pmu_slot_left(cpu, i) > 0)
			continue;
		kvm_pmu_slot_overflow(cpu, i, regs);
		n++;
	}

	return n;
}

/* Begin new periods where old ones have ended: the host may not have told of them. */
static void kvm_pmu_slots_restart(struct kvm_pmu_cpu *cpu)
{
	unsigned long slots = READ_ONCE(cpu->host.area->slots);
	struct perf_event *event;
	unsigned int i;

	for_each_set_bit(i, &slots, KVM_PERF_NR_SLOTS) {
		event = cpu->hypervisor.slots[i].event;
		/* The bit is stray, or an NMI has throttled the event. */
		if (!event || event->hw.state || kvm_pmu_slot_left(cpu, i) > 0)
			continue;
		kvm_pmu_hypervisor_stop(event, 0);
		kvm_pmu_hypervisor_start(event, 0);
	}
}

/* For each KVM_PERF_COUNT_*, how many open events want it. */
static atomic_t kvm_pmu_count_users[KVM_PERF_NR_COUNTS];

/**
 * kvm_pmu_counts_add_users - more or fewer open events want these counts
 * @counts: a bit for each KVM_PERF_COUNT_*
 * @n: how many more events, negative for fewer
 */
void kvm_pmu_counts_add_users(unsigned long counts, int n)
{
	unsigned int i;

	for_each_set_bit(i, &counts, KVM_PERF_NR_COUNTS)
		atomic_add(n, &kvm_pmu_count_users[i]);
}

static u32 kvm_pmu_counts_in_use(void)
{
	unsigned int i;
	u32 counts = 0;

	for (i = 0; i < KVM_PERF_NR_COUNTS; i++) {
		if (atomic_read(&kvm_pmu_count_users[i]))
			counts |= BIT(i);
	}

	return counts;
}

/* The low half of the argument is in the place of the id of other operations. */
static long kvm_pmu_set_counts(u32 counts)
{
	return kvm_perf_op(KVM_PERF_OP_SET_COUNTS, counts, 0);
}

/* The host may be another one than the one that QUERY asked, and lack some events. */
static u32 kvm_pmu_ask_for_each(unsigned long counts)
{
	unsigned int i;
	u32 counting = 0;

	for_each_set_bit(i, &counts, KVM_PERF_NR_COUNTS) {
		if (!kvm_pmu_set_counts(counting | BIT(i)))
			counting |= BIT(i);
	}

	return counting;
}

/**
 * kvm_pmu_hypervisor_try_again - have perf add the events that it could not add
 * @cpu: this CPU's, which has a slot or a count that it lacked
 *
 * The perf core of Linux 6.1 itself tries again only for hardware events, which it
 * multiplexes.
 */
void kvm_pmu_hypervisor_try_again(struct kvm_pmu_cpu *cpu)
{
	if (!cpu->hypervisor.waiting)
		return;

	cpu->hypervisor.waiting = false;
	kvm_pmu_pend(cpu, KVM_PMU_RESCHED_HYPERVISOR);
}

/*
 * The host counts these for this CPU, and no others.  An event that the host does not
 * count any more must not go on as if it counted.
 */
static void kvm_pmu_counts_set(struct kvm_pmu_cpu *cpu, u32 counting)
{
	u32 was = cpu->hypervisor.counted;

	cpu->hypervisor.counted = counting;
	if (was & cpu->hypervisor.wanted & ~counting)
		cpu->hypervisor.waiting = true;
	if (was != counting)
		kvm_pmu_hypervisor_try_again(cpu);
}

/*
 * Have the host count the events that this CPU needs.  Without an area the host cannot;
 * setting an area asks again.
 */
static void kvm_pmu_counts_ask(struct kvm_pmu_cpu *cpu)
{
	u32 counting = 0;
	long ret;

	if (cpu->host.epoch) {
		ret = kvm_pmu_set_counts(cpu->hypervisor.wanted);
		if (!ret)
			counting = cpu->hypervisor.wanted;
		if (ret == -KVM_EOPNOTSUPP)
			counting = kvm_pmu_ask_for_each(cpu->hypervisor.wanted);
		if (counting != cpu->hypervisor.wanted && !kvm_pmu_area_is_stale(cpu))
			kvm_pmu_warn(KVM_PMU_WARN_COUNTS);
	}

	kvm_pmu_counts_set(cpu, counting);
	kvm_pmu_start_watch(cpu);
}

/**
 * kvm_pmu_counts_need - does the host count these, from now on at least?
 * @cpu: this CPU's
 * @counts: a bit for each KVM_PERF_COUNT_*, of an open event
 */
bool kvm_pmu_counts_need(struct kvm_pmu_cpu *cpu, u32 counts)
{
	bool asked = !(counts & ~cpu->hypervisor.wanted);

	if (!asked)
		cpu->hypervisor.wanted = kvm_pmu_counts_in_use();

	/* Opening anew asks for the counts as well. */
	if (kvm_pmu_area_is_stale(cpu))
		kvm_pmu_open_anew(cpu);
	else if (!asked)
		kvm_pmu_counts_ask(cpu);

	return !(counts & ~cpu->hypervisor.counted);
}

/**
 * kvm_pmu_counts_reap - stop the host from counting events that are not in use any more
 * @cpu: this CPU's
 */
void kvm_pmu_counts_reap(struct kvm_pmu_cpu *cpu)
{
	u32 unused = cpu->hypervisor.wanted & ~kvm_pmu_counts_in_use();

	if (!unused)
		return;

	cpu->hypervisor.wanted &= ~unused;
	/* A host that has changed counts nothing anyway. */
	if (!kvm_pmu_area_is_stale(cpu))
		kvm_pmu_counts_ask(cpu);
}

/**
 * kvm_pmu_hypervisor_new_area - have the host of a new area count the events in use
 * @cpu: this CPU's, which has set its area; the host may have none
 */
void kvm_pmu_hypervisor_new_area(struct kvm_pmu_cpu *cpu)
{
	if (!cpu->host.epoch) {
		kvm_pmu_counts_set(cpu, 0);
		return;
	}

	if (cpu->hypervisor.wanted)
		kvm_pmu_counts_ask(cpu);
	kvm_pmu_slots_restart(cpu);
}
