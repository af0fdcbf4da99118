// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, guest side: the NMI handler.
 *
 * An event overflows:
 *
 *	kvm_pmu_handle_nmi()
 *	    kvm_pmu_slots_handle()		events of the hypervisor
 *	    kvm_pmu_look_at_all()		kvm_pmu_look_at() each that may have news:
 *	        kvm_pmu_handle_overflows()
 *	            STOP_UNWANTED		no event has it: irq_work stops it; or
 *	            kvm_pmu_owe()		perf is at work: kvm_pmu_take_owed(); or
 *	            kvm_pmu_samples()		perf_event_overflow(), which may stop it
 *	        kvm_pmu_look_at_flags()		LOST: irq_work; THROTTLED: perf throttles it
 *	        kvm_pmu_look_at_pmc()		irq_work writes the page for user mode
 *	    kvm_pmu_area_is_stale()		another host: irq_work
 */
#include <linux/bitops.h>
#include <linux/kernel.h>
#include <linux/math64.h>
#include <linux/perf_event.h>
#include <linux/sched.h>
#include <linux/sched/cputime.h>
#include <linux/sched/task_stack.h>

#include <asm/nmi.h>
#include <asm/tsc.h>

#include "compat.h"
#include "kvm_pmu.h"
#include "kvm_pmu_hypervisor.h"
#include "kvm_pmu_record.h"

/* Of several overflows at once, only the @last one's branches are known. */
static void kvm_pmu_sample(struct kvm_pmu_cpu *cpu, struct perf_event *event,
			   struct pt_regs *regs, bool last)
{
	/* perf_sample_data_init() sets what matters; the rest is 200 bytes. */
	struct perf_sample_data data __uninitialized;

	cpu->nmi.samples++;
	perf_sample_data_init(&data, 0, event->hw.last_period);
	if (last && has_branch_stack(event))
		kvm_pmu_branches_save(cpu, event, &data);
	if (perf_event_overflow(event, &data, regs))
		kvm_pmu_backing_stop(cpu, event);
}

/*
 * Is a native PMU, or are its interrupts, off now?  Then perf may be changing the
 * event that has overflowed, or others of its group.
 */
static bool kvm_pmu_is_off(const struct kvm_pmu_cpu *cpu)
{
	return READ_ONCE(cpu->perf.disabled) || READ_ONCE(cpu->busy);
}

/* Note overflows, for which the event gets its samples once it counts and perf is done. */
static void kvm_pmu_owe(struct kvm_pmu_cpu *cpu, struct perf_event *event,
			const struct guest_perf_event *record, u32 n)
{
	event->hw.last_period = kvm_pmu_record_last_period(record);
	*kvm_pmu_owed(event) += n;
	WRITE_ONCE(cpu->nmi.owing, true);
}

/*
 * Have perf take a sample for each of @n overflows, at most KVM_PMU_MAX_SAMPLES, until
 * perf throttles the event.  @branches: the last sample has the branches.
 */
static void kvm_pmu_samples(struct kvm_pmu_cpu *cpu,
			    struct kvm_pmu_backing *backing,
			    struct pt_regs *regs, unsigned long n, bool branches)
{
	unsigned long samples = min_t(unsigned long, n, KVM_PMU_MAX_SAMPLES);
	struct perf_event *event = backing->event;
	unsigned long i;

	for (i = 1; i <= samples; i++) {
		if (READ_ONCE(backing->state) != KVM_PMU_COUNTING)
			return;
		if (i == samples)
			event->hw.last_period *= n - samples + 1;
		kvm_pmu_sample(cpu, event, regs, branches && i == samples);
	}
}

/* Until the flush has ended, overflows are those of the leaving event. */
static u32 kvm_pmu_handle_overflows(struct kvm_pmu_cpu *cpu,
				    struct kvm_pmu_backing *backing,
				    struct pt_regs *regs)
{
	struct guest_perf_event *record = &backing->record;
	struct perf_event *leaving = READ_ONCE(backing->leaving);
	struct perf_event *event;
	u32 n;

	if (!READ_ONCE(record->overflows))
		return 0;

	n = xchg(&record->overflows, 0);
	if (READ_ONCE(backing->state) == KVM_PMU_FREE && !leaving) {
		kvm_pmu_pend(cpu, KVM_PMU_STOP_UNWANTED);
		return n;
	}

	event = leaving ? : backing->event;
	if (leaving || READ_ONCE(backing->state) != KVM_PMU_COUNTING ||
	    kvm_pmu_is_off(cpu)) {
		kvm_pmu_owe(cpu, event, record, n);
		return n;
	}

	kvm_pmu_backing_update(backing, event);
	event->hw.last_period = kvm_pmu_record_last_period(record);
	kvm_pmu_samples(cpu, backing, regs,
			n + xchg(kvm_pmu_owed(event), 0), true);

	return n;
}

/*
 * An event that excludes the kernel overflowed just before the kernel was entered: it
 * does not get the kernel's registers.  Returns NULL if there is no user mode.
 */
static struct pt_regs *kvm_pmu_owed_regs(const struct perf_event *event,
					 struct pt_regs *kernel)
{
	if (!event->attr.exclude_kernel)
		return kernel;

	return current->flags & PF_KTHREAD ? NULL : task_pt_regs(current);
}

static void kvm_pmu_take_owed_of(struct kvm_pmu_cpu *cpu,
				 struct kvm_pmu_backing *backing,
				 struct pt_regs *kernel)
{
	struct perf_event *event = backing->event;
	struct pt_regs *regs = kvm_pmu_owed_regs(event, kernel);
	unsigned long n = xchg(kvm_pmu_owed(event), 0);

	if (!regs) {
		kvm_pmu_lose_samples(event, n);
		return;
	}

	kvm_pmu_count(event, kvm_pmu_record_count(&backing->record));
	kvm_pmu_samples(cpu, backing, regs, n, false);
}

/**
 * kvm_pmu_take_owed - have perf take the samples of overflows while it was at work
 * @cpu: this CPU's, which perf has enabled
 *
 * Natively the counters stand still while perf is at work, and overflow afterwards.  An
 * event that does not count here now gets its samples when it does.
 *
 * An NMI that sampled an event while perf samples it here would change what perf is
 * about to write, so overflows meanwhile are owed, too.  Do not repeat this until none
 * is owed: an event with a short period overflows again each time.  These samples come
 * with the event's next NMI, or when perf has been at work again.
 */
noinline void kvm_pmu_take_owed(struct kvm_pmu_cpu *cpu)
{
	struct kvm_pmu_backing *backing;
	struct pt_regs regs = { };

	perf_fetch_caller_regs(&regs);
	cpu->busy = true;
	WRITE_ONCE(cpu->nmi.owing, false);
	for_each_backing(cpu, backing) {
		if (READ_ONCE(backing->state) == KVM_PMU_COUNTING &&
		    READ_ONCE(*kvm_pmu_owed(backing->event)))
			kvm_pmu_take_owed_of(cpu, backing, &regs);
	}
	cpu->busy = false;
}

/*
 * For perf_cpu_time_max_percent.  By the TSC, because sched_clock() would take 60 more
 * instructions for each reading.  The CPU may come to another host meanwhile, and its
 * TSC go back.
 *
 * Time that the host has stolen is not the handler's.  The steal time is read around
 * the TSC.  So time that is stolen between the two readings is subtracted without
 * having been counted, rather than counted.
 *
 * perf limits the number of samples, so divide the time by the samples of this NMI.
 */
static void kvm_pmu_took(u64 steal, u64 tsc, u32 samples)
{
	u64 cycles = clamp_t(s64, rdtsc_ordered() - tsc, 0, U32_MAX);
	s64 ns = div_u64(cycles * NSEC_PER_MSEC, max(tsc_khz, 1u));

	ns -= paravirt_steal_clock(smp_processor_id()) - steal;
	perf_sample_event_took(div_u64(max(ns, 0LL), max(samples, 1u)));
}

/*
 * No event has the backing event, and all news was in its record when DISABLE was done.
 */
static bool kvm_pmu_is_silent(const struct kvm_pmu_backing *backing)
{
	return READ_ONCE(backing->state) == KVM_PMU_FREE &&
	       !READ_ONCE(backing->leaving) &&
	       READ_ONCE(backing->host) != KVM_PMU_RUNNING;
}

/* Number of news from the host: @overflows, and @others */
struct kvm_pmu_told {
	u64 overflows;
	u32 others;
};

static void kvm_pmu_look_at(struct kvm_pmu_cpu *cpu, unsigned int index,
			    struct pt_regs *regs, struct kvm_pmu_told *told)
{
	struct kvm_pmu_backing *backing = &cpu->backing[index];

	told->overflows += kvm_pmu_handle_overflows(cpu, backing, regs);
	/* Most of the time there is nothing new. */
	if (READ_ONCE(backing->record.flags) != backing->flags)
		told->others += kvm_pmu_look_at_flags(cpu, backing);
	if (backing->attr.flags & KVM_PERF_ATTR_RDPMC_USER)
		told->others += kvm_pmu_look_at_pmc(cpu, backing);
	if (kvm_pmu_is_silent(backing))
		clear_bit(index, &cpu->telling);
}

/*
 * Look only at backing events that may have news: many may be kept for later.  If there
 * are none, one of the rest may have overflowed before an NMI stopped it.
 */
static void kvm_pmu_look_at_all(struct kvm_pmu_cpu *cpu, struct pt_regs *regs,
				struct kvm_pmu_told *told)
{
	unsigned long which = READ_ONCE(cpu->telling);
	unsigned long rest = GENMASK(KVM_PMU_NR_BACKING - 1, 0);
	unsigned int i;

	do {
		rest &= ~which;
		for_each_set_bit(i, &which, KVM_PMU_NR_BACKING)
			kvm_pmu_look_at(cpu, i, regs, told);
		which = rest;
	} while (which && !told->overflows && !told->others);
}

/**
 * kvm_pmu_handle_nmi - have perf take samples, and look for events that have stopped
 * @cmd: NMI_LOCAL
 * @regs: what was interrupted
 *
 * Claims an NMI only if the host has told of something.
 *
 * Return: the number of news.  If there are several, the kernel expects a second NMI
 * that finds none.
 */
int kvm_pmu_handle_nmi(unsigned int cmd, struct pt_regs *regs)
{
	struct kvm_pmu_cpu *cpu = this_kvm_pmu_cpu();
	u64 steal = paravirt_steal_clock(smp_processor_id());
	u64 tsc = rdtsc_ordered();
	struct kvm_pmu_told told = {};
	u32 slots = 0;

	cpu->nmi.samples = 0;
	if (READ_ONCE(cpu->host.area->slots))
		slots = kvm_pmu_slots_handle(cpu, regs);

	kvm_pmu_look_at_all(cpu, regs, &told);
	WRITE_ONCE(cpu->host.area->nr_branches, 0);
	if (kvm_pmu_area_is_stale(cpu))
		told.others += kvm_pmu_pend(cpu, KVM_PMU_OPEN_ANEW);
	/* An old note is for this NMI; a new one, for an NMI that follows at once. */
	told.others += xchg(&cpu->nmi.due, false);

	if (told.overflows + slots)
		kvm_pmu_took(steal, tsc, cpu->nmi.samples);

	cpu->nmi.overflows += told.overflows;
	return min_t(u64, told.overflows + slots + told.others, INT_MAX);
}
