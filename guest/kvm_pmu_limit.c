// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, guest side: how many events can count, and
 * which cannot.
 *
 * That the host has no counter for an event is known only when it is asked to
 * count, and perf believes that it does.  So what was found out is remembered for
 * a while, and perf told before.
 */
#include <linux/jiffies.h>
#include <linux/perf_event.h>

#include "kvm_pmu.h"

/* For how long a limit holds: what an attempt costs, ten times a second. */
#define KVM_PMU_LIMIT		(HZ / 10)

/**
 * kvm_pmu_limit - how many general-purpose counters can count at the same time?
 * @cpu: this CPU's
 */
unsigned int kvm_pmu_limit(struct kvm_pmu_cpu *cpu)
{
	if (kvm_pmu_host_is_gone())
		return 0;

	if (time_after64(get_jiffies_64(), cpu->limit_until))
		cpu->limit = kvm_pmu_host->nr_counters;

	return cpu->limit;
}

/**
 * kvm_pmu_set_limit - for 0.1 seconds it is so many
 * @cpu: this CPU's
 * @limit: the number of those that do count
 */
void kvm_pmu_set_limit(struct kvm_pmu_cpu *cpu, unsigned int limit)
{
	cpu->limit = limit;
	cpu->limit_until = get_jiffies_64() + KVM_PMU_LIMIT;
}

/**
 * kvm_pmu_refuse - the host does not count this; others can count
 * @event: the event, not to be tried again for a second
 */
void kvm_pmu_refuse(struct perf_event *event)
{
	struct kvm_pmu_config *config = to_kvm_pmu_config(event);

	WRITE_ONCE(config->retry, jiffies + HZ);
	WRITE_ONCE(config->refused, true);
}

/**
 * kvm_pmu_is_refused - has the host refused to count it, less than a second ago?
 * @event: the event
 */
bool kvm_pmu_is_refused(struct perf_event *event)
{
	struct kvm_pmu_config *config = to_kvm_pmu_config(event);

	if (!READ_ONCE(config->refused))
		return false;

	if (time_before(jiffies, READ_ONCE(config->retry)))
		return true;

	WRITE_ONCE(config->refused, false);
	return false;
}
