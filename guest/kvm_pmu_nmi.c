// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, guest side: overflows.
 */
#include <linux/perf_event.h>
#include <linux/sched/clock.h>

#include <asm/nmi.h>

#include "compat.h"
#include "kvm_pmu.h"

/* What perf does about it needs an event that is on a CPU. */
static bool kvm_pmu_ends_at_overflow(struct perf_event *event)
{
	return atomic_read(&event->event_limit) || event->attr.sigtrap;
}

static void kvm_pmu_sample(struct perf_event *event, struct pt_regs *regs)
{
	struct perf_sample_data data;

	/* After del: perf would not hear of it, and let it run on. */
	if (event->hw.idx < 0 && kvm_pmu_ends_at_overflow(event))
		return;

	perf_sample_data_init(&data, 0, event->hw.last_period);
	/* One that is starting or leaving cannot be stopped. */
	if (perf_event_overflow(event, &data, regs) && !event->hw.state)
		kvm_pmu_counter_stop(this_kvm_pmu_cpu(), event);
}

static u32 kvm_pmu_handle_overflows(struct kvm_pmu_cpu *cpu,
				    struct kvm_pmu_counter *counter,
				    struct pt_regs *regs)
{
	struct guest_perf_event *record = &counter->record;
	struct perf_event *event;
	u32 n, i;

	if (!READ_ONCE(record->overflows))
		return 0;

	n = xchg(&record->overflows, 0);
	event = READ_ONCE(counter->leaving) ? : READ_ONCE(counter->event);
	if (!event) {
		WRITE_ONCE(cpu->unwanted, true);
		irq_work_queue(&cpu->work);
		return n;
	}

	/* Once perf has throttled it, it wants to hear no more of it. */
	if (event->hw.state && event == READ_ONCE(counter->event) &&
	    !counter->starting)
		return n;

	/* The count of one that is starting begins with the flush. */
	if (!event->hw.state)
		kvm_pmu_counter_update(counter, event);
	event->hw.last_period = READ_ONCE(record->last_period);
	kvm_pmu_sample(event, regs);
	for (i = 1; i < n && !event->hw.state; i++)
		kvm_pmu_sample(event, regs);

	return n;
}

/**
 * kvm_pmu_handle_nmi - have perf take samples
 * @cmd: NMI_LOCAL
 * @regs: what was interrupted
 *
 * Claims an NMI only where the host has told of overflows.
 *
 * Return: how many: with more than one the kernel expects a second NMI that
 * finds none.
 */
int kvm_pmu_handle_nmi(unsigned int cmd, struct pt_regs *regs)
{
	struct kvm_pmu_cpu *cpu = this_kvm_pmu_cpu();
	int due = xchg(&cpu->nmi_due, false);
	u64 start = sched_clock();
	unsigned int i;
	u32 n = 0;

	for (i = 0; i < READ_ONCE(cpu->nr_open); i++)
		n += kvm_pmu_handle_overflows(cpu, &cpu->counters[i], regs);

	/* For perf_cpu_time_max_percent. */
	if (n)
		perf_sample_event_took(sched_clock() - start);

	cpu->overflows += n;
	return n + due;
}
