// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, guest side: what the host offers.
 *
 * Another host may offer something else.  So each CPU asks again when it sets an area,
 * which it does when it has found that its host is another one.
 */
#include <linux/bitops.h>
#include <linux/export.h>
#include <linux/minmax.h>
#include <linux/perf_event.h>
#include <linux/seqlock.h>
#include <linux/spinlock.h>

#include "kvm_pmu.h"
#include "kvm_pmu_query.h"

struct guest_perf_query kvm_pmu_host;

/* Raw, as who sets an area may hold the lock of the runqueue. */
static DEFINE_RAW_SPINLOCK(kvm_pmu_host_lock);
static seqcount_raw_spinlock_t kvm_pmu_host_sequence =
	SEQCNT_RAW_SPINLOCK_ZERO(kvm_pmu_host_sequence, &kvm_pmu_host_lock);

/* The rest of the driver believes what is there. */
static void kvm_pmu_check_query(struct guest_perf_query *host)
{
	host->nr_counters = min_t(u32, host->nr_counters, KVM_PMU_NR_COUNTERS);
	host->fixed_counters &= GENMASK(KVM_PERF_NR_FIXED_COUNTERS - 1, 0);
	host->counts &= GENMASK(KVM_PERF_NR_COUNTS - 1, 0);
	host->branches = min_t(u32, host->branches, KVM_PERF_MAX_BRANCHES);
}

static void kvm_pmu_set_host(const struct guest_perf_query *host)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&kvm_pmu_host_lock, flags);
	if (host->model != kvm_pmu_host.model)
		kvm_pmu_warn_again(KVM_PMU_WARN_MODEL);
	write_seqcount_begin(&kvm_pmu_host_sequence);
	kvm_pmu_host = *host;
	write_seqcount_end(&kvm_pmu_host_sequence);
	raw_spin_unlock_irqrestore(&kvm_pmu_host_lock, flags);
}

/**
 * kvm_pmu_query_host - ask the host what it offers
 * @query: memory that the host can write
 *
 * Return: 0, or -KVM_E*: then all is as it was.
 */
long kvm_pmu_query_host(struct guest_perf_query *query)
{
	struct guest_perf_query host;
	long ret;

	query->size = sizeof(*query);
	ret = kvm_perf_op_addr(KVM_PERF_OP_QUERY, query, 0);
	if (ret)
		return ret;

	/* The host may still write what is there. */
	host = *query;
	barrier();
	kvm_pmu_check_query(&host);
	kvm_pmu_set_host(&host);
	return 0;
}

/**
 * kvm_pmu_get_host - what does the host offer?
 * @host: set to it, as one host has told it
 *
 * For who looks at more than one field, or at one of 64 bits.  Not in NMI context.
 */
void kvm_pmu_get_host(struct guest_perf_query *host)
{
	unsigned int sequence;

	do {
		sequence = read_seqcount_begin(&kvm_pmu_host_sequence);
		*host = kvm_pmu_host;
	} while (read_seqcount_retry(&kvm_pmu_host_sequence, sequence));
}

static u64 kvm_pmu_hw_config(u64 event)
{
	unsigned int sequence;
	u64 config;

	if (event >= KVM_PERF_NR_HW_EVENTS)
		return 0;

	do {
		sequence = read_seqcount_begin(&kvm_pmu_host_sequence);
		config = kvm_pmu_host.hw_config[event];
	} while (read_seqcount_retry(&kvm_pmu_host_sequence, sequence));

	return config;
}

/**
 * kvm_pmu_event_select - which event select the host uses, as far as it has told
 * @attr: what to count
 *
 * Return: 0 where only the host knows it.
 */
u64 kvm_pmu_event_select(const struct guest_perf_attr *attr)
{
	switch (attr->type) {
	case KVM_PERF_TYPE_RAW:
		return attr->config;
	case KVM_PERF_TYPE_HARDWARE:
		return kvm_pmu_hw_config(attr->config);
	default:
		return 0;
	}
}

/**
 * kvm_pmu_kind - which counters of this host's hardware can an event have?
 * @attr: what it counts
 */
enum kvm_pmu_kind kvm_pmu_kind(const struct guest_perf_attr *attr)
{
	static const u64 selects[] = {
		[KVM_PMU_FIXED_INSTRUCTIONS]	= 0x00c0,
		[KVM_PMU_FIXED_CYCLES]		= 0x003c,
		[KVM_PMU_FIXED_REF_CYCLES]	= 0x0300,
	};
	u32 fixed = READ_ONCE(kvm_pmu_host.fixed_counters);
	enum kvm_pmu_kind kind;
	u64 select;

	/* As on AMD's CPUs. */
	if (!fixed)
		return KVM_PMU_GENERAL;

	select = kvm_pmu_event_select(attr);
	for (kind = 0; kind < KVM_PMU_GENERAL; kind++) {
		if (select == selects[kind] && fixed & BIT(kind))
			return kind;
	}

	return KVM_PMU_GENERAL;
}

/**
 * kvm_pmu_is_foreign - is it a raw event of another CPU model than the host's?
 * @attr: what to count
 *
 * There its number may be another event, or none.
 */
bool kvm_pmu_is_foreign(const struct guest_perf_attr *attr)
{
	return attr->model && attr->model != READ_ONCE(kvm_pmu_host.model);
}

/**
 * kvm_pmu_query - what the host can count, for a KVM on top of it
 * @query: set to it
 *
 * Return: false where there is no PMU by this driver, or where another would get
 * what that KVM asks for.
 */
bool kvm_pmu_query(struct guest_perf_query *query)
{
	if (!kvm_pmu_has_raw())
		return false;

	kvm_pmu_get_host(query);
	return true;
}
EXPORT_SYMBOL_GPL(kvm_pmu_query);
