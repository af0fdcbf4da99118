// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, guest side: how many events can count, and
 * which cannot.
 *
 * That the host has no counter for an event is known only when it is asked to
 * count, and perf believes that it does.  So what was found out is remembered for
 * a while, and perf told before.
 */
#include <linux/bitops.h>
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
	if (kvm_pmu_host_is_gone(false))
		return 0;

	if (time_after64(get_jiffies_64(), cpu->limit_until)) {
		cpu->limit = READ_ONCE(kvm_pmu_host.nr_counters);
		cpu->no_fixed = 0;
	}

	return cpu->limit;
}

/* How many general-purpose ones: one more for each fixed one that somebody else has. */
static unsigned int kvm_pmu_general(const struct kvm_pmu_cpu *cpu,
				    const struct kvm_pmu_use *use)
{
	unsigned int n = use->general;
	unsigned int i;

	for_each_set_bit(i, &cpu->no_fixed, KVM_PMU_GENERAL)
		n += use->fixed[i] != 0;

	return n;
}

/**
 * kvm_pmu_use_fits - can all of that count at the same time?
 * @cpu: this CPU's, after kvm_pmu_limit()
 * @use: what would count
 * @limit: on general-purpose counters, none of which counts reference cycles
 */
bool kvm_pmu_use_fits(const struct kvm_pmu_cpu *cpu,
		      const struct kvm_pmu_use *use, unsigned int limit)
{
	return use->fixed[KVM_PMU_FIXED_REF_CYCLES] <= 1 &&
	       kvm_pmu_general(cpu, use) <= limit;
}

/**
 * kvm_pmu_note_no_counter - the host has not started a counter, or has taken one away
 * @cpu: this CPU's; a kvm_pmu_set_limit() follows
 * @counter: the counter
 *
 * One that could have a fixed counter needs a general one now.
 */
void kvm_pmu_note_no_counter(struct kvm_pmu_cpu *cpu,
			     const struct kvm_pmu_counter *counter)
{
	if (counter->kind != KVM_PMU_GENERAL)
		cpu->no_fixed |= BIT(counter->kind);
}

/**
 * kvm_pmu_set_limit - for 0.1 seconds no more can count at the same time
 * @cpu: this CPU's
 * @use: what does count
 */
void kvm_pmu_set_limit(struct kvm_pmu_cpu *cpu, const struct kvm_pmu_use *use)
{
	cpu->limit = kvm_pmu_general(cpu, use);
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
 *
 * Or would it, whenever it is asked?
 */
bool kvm_pmu_is_refused(struct perf_event *event)
{
	struct kvm_pmu_config *config = to_kvm_pmu_config(event);

	if (kvm_pmu_is_foreign(&config->attr)) {
		kvm_pmu_warn(KVM_PMU_WARN_MODEL);
		return true;
	}

	if (!READ_ONCE(config->refused))
		return false;

	if (time_before(jiffies, READ_ONCE(config->retry)))
		return true;

	WRITE_ONCE(config->refused, false);
	return false;
}
