// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, guest side: which of the hypervisor's events the
 * host counts for a CPU.
 *
 * To count costs each exit something, and to be asked to costs one.  So a CPU asks
 * for all that is in use anywhere as soon as it needs one of them, and the watch
 * takes back what is not in use any more.
 *
 * Everything here that has a CPU runs on it with interrupts off.
 */
#include <linux/atomic.h>
#include <linux/bitops.h>

#include "kvm_pmu.h"
#include "kvm_pmu_hypervisor.h"

/* How many open events want it, of each. */
static atomic_t kvm_pmu_count_users[KVM_PERF_NR_COUNTS];

/**
 * kvm_pmu_counts_get - one open event more wants these
 * @counts: a bit for each KVM_PERF_COUNT_*
 */
void kvm_pmu_counts_get(unsigned long counts)
{
	unsigned int i;

	for_each_set_bit(i, &counts, KVM_PERF_NR_COUNTS)
		atomic_inc(&kvm_pmu_count_users[i]);
}

/**
 * kvm_pmu_counts_put - one less wants them
 * @counts: as above
 */
void kvm_pmu_counts_put(unsigned long counts)
{
	unsigned int i;

	for_each_set_bit(i, &counts, KVM_PERF_NR_COUNTS)
		atomic_dec(&kvm_pmu_count_users[i]);
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

/* The argument's low half is where other operations have an id. */
static long kvm_pmu_set_counts(u32 counts)
{
	return kvm_perf_op(KVM_PERF_OP_SET_COUNTS, counts, 0);
}

/* Another host than the one that was queried may not have all. */
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
 * kvm_pmu_counts_set - the host counts these for this CPU, and no others
 * @cpu: this CPU's
 * @counting: a bit for each KVM_PERF_COUNT_*
 *
 * What is not counted any more must not go on as an event that counts.
 */
void kvm_pmu_counts_set(struct kvm_pmu_cpu *cpu, u32 counting)
{
	u32 was = cpu->counting;

	cpu->counting = counting;
	if (was & cpu->counts & ~counting)
		cpu->counts_wait = true;
	if (was != counting)
		kvm_pmu_hypervisor_try_again(cpu);
}

/**
 * kvm_pmu_counts_ask - have the host count what this CPU needs
 * @cpu: this CPU's
 *
 * Without an area it cannot: setting one asks again.
 */
void kvm_pmu_counts_ask(struct kvm_pmu_cpu *cpu)
{
	u32 counting = 0;
	long ret;

	if (cpu->epoch) {
		ret = kvm_pmu_set_counts(cpu->counts);
		if (!ret)
			counting = cpu->counts;
		if (ret == -KVM_EOPNOTSUPP)
			counting = kvm_pmu_ask_for_each(cpu->counts);
		if (counting != cpu->counts && !kvm_pmu_area_is_stale(cpu))
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
	bool asked = !(counts & ~cpu->counts);

	if (!asked)
		cpu->counts = kvm_pmu_counts_in_use();

	/* Which asks as well. */
	if (kvm_pmu_area_is_stale(cpu))
		kvm_pmu_open_anew(cpu);
	else if (!asked)
		kvm_pmu_counts_ask(cpu);

	return !(counts & ~cpu->counting);
}

/**
 * kvm_pmu_counts_reap - have the host count what is not in use no more
 * @cpu: this CPU's
 */
void kvm_pmu_counts_reap(struct kvm_pmu_cpu *cpu)
{
	u32 unused = cpu->counts & ~kvm_pmu_counts_in_use();

	if (!unused)
		return;

	cpu->counts &= ~unused;
	/* Another host counts nothing anyway. */
	if (!kvm_pmu_area_is_stale(cpu))
		kvm_pmu_counts_ask(cpu);
}
