// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, guest side: the counter for an event.
 */
#include <linux/jiffies.h>
#include <linux/perf_event.h>

#include "kvm_pmu.h"

/* Open for exactly this already? */
static bool kvm_pmu_fits(const struct kvm_pmu_counter *counter,
			 const struct guest_perf_attr *attr, u64 period)
{
	return counter->attr.config == attr->config &&
	       counter->attr.sample_period == period &&
	       counter->attr.type == attr->type &&
	       counter->attr.flags == attr->flags &&
	       counter->attr.model == attr->model &&
	       counter->attr.config1 == attr->config1 &&
	       counter->attr.config2 == attr->config2;
}

static struct kvm_pmu_counter *
kvm_pmu_find(struct kvm_pmu_cpu *cpu, struct perf_event *event)
{
	const struct guest_perf_attr *attr = &to_kvm_pmu_config(event)->attr;
	struct kvm_pmu_counter *counter, *found = NULL;
	unsigned int i;

	for (i = 0; i < cpu->nr_open; i++) {
		counter = &cpu->counters[i];
		if (counter->event || counter->host == KVM_PMU_CLOSED)
			continue;
		/*
		 * Back where it was, it need not even stop; nor, where the host
		 * has refused a new period, take another's count for its own.
		 */
		if (counter->leaving == event)
			return counter;
		if (!kvm_pmu_fits(counter, attr, event->hw.sample_period))
			continue;
		if (!found || counter->host > found->host)
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
kvm_pmu_reopen(struct kvm_pmu_cpu *cpu, struct perf_event *event)
{
	const struct kvm_pmu_config *config = to_kvm_pmu_config(event);
	struct kvm_pmu_counter *counter, *oldest = NULL;
	unsigned int i;

	for (i = 0; i < KVM_PMU_NR_COUNTERS; i++) {
		counter = &cpu->counters[i];
		if (counter->event || counter->leaving)
			continue;
		if (counter->host == KVM_PMU_CLOSED) {
			oldest = counter;
			break;
		}
		if (!oldest ||
		    time_before(counter->last_used, oldest->last_used))
			oldest = counter;
	}

	if (!oldest)
		return NULL;

	if (oldest->host != KVM_PMU_CLOSED)
		kvm_pmu_close(oldest);
	/* OPEN would zero them. */
	kvm_pmu_drop_overflows(cpu, oldest);

	oldest->attr = config->attr;
	oldest->attr.sample_period = event->hw.sample_period;
	oldest->kind = kvm_pmu_kind(&config->attr);
	cpu->nr_open = max_t(unsigned int, cpu->nr_open,
			     oldest - cpu->counters + 1);
	return oldest;
}

/**
 * kvm_pmu_find_or_reopen - find a counter that no event has
 * @cpu: this CPU's
 * @event: the event that it is for
 *
 * Return: one that is open for the same, or one to be opened; NULL where events
 * have all.
 */
struct kvm_pmu_counter *
kvm_pmu_find_or_reopen(struct kvm_pmu_cpu *cpu, struct perf_event *event)
{
	return kvm_pmu_find(cpu, event) ? : kvm_pmu_reopen(cpu, event);
}
