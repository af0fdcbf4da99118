// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, guest side: hypercalls, the meaning of their results,
 * and the host's offer.
 *
 * Another host may offer something else.  So each CPU calls QUERY when it sets an area,
 * which it also does when it finds that its host has changed.
 */
#include <linux/bitops.h>
#include <linux/jiffies.h>
#include <linux/minmax.h>
#include <linux/perf_event.h>
#include <linux/seqlock.h>
#include <linux/spinlock.h>

#include "kvm_pmu.h"

DEFINE_PER_CPU(struct kvm_pmu_cpu *, kvm_pmu_cpu);

bool kvm_pmu_ended;

/* Warnings that have been printed; KVM_PMU_WARN_MODEL may be printed once per model. */
static unsigned long kvm_pmu_warned;

/**
 * kvm_pmu_warn - put a warning in the log, once
 * @warning: which
 *
 * The irq_work prints it: a task switch holds the lock of the runqueue, which printk()
 * may need to wake up a reader of the console.
 */
void kvm_pmu_warn(enum kvm_pmu_pending warning)
{
	if (!test_and_set_bit(warning, &kvm_pmu_warned))
		kvm_pmu_pend(this_kvm_pmu_cpu(), warning);
}

static void kvm_pmu_warn_again(enum kvm_pmu_pending warning)
{
	clear_bit(warning, &kvm_pmu_warned);
}

/* The host does not have the feature any more; when to ask it again, in jiffies. */
static bool kvm_pmu_gone;
static unsigned long kvm_pmu_gone_until;

static void kvm_pmu_set_gone(void)
{
	if (!READ_ONCE(kvm_pmu_ended))
		kvm_pmu_warn(KVM_PMU_WARN_GONE);
	WRITE_ONCE(kvm_pmu_gone_until, jiffies + HZ);
	WRITE_ONCE(kvm_pmu_gone, true);
}

/**
 * kvm_pmu_host_is_gone - does the host not have the feature any more?
 * @ask: ask the host again, also if less than a second has passed
 *
 * Called before perf believes that an event counts.  IRQs off.
 */
bool kvm_pmu_host_is_gone(bool ask)
{
	if (!READ_ONCE(kvm_pmu_gone))
		return false;

	if (!ask && time_before(jiffies, READ_ONCE(kvm_pmu_gone_until)))
		return true;

	if (kvm_perf_op(KVM_PERF_OP_READ, KVM_PERF_ID_ALL, 0) == -KVM_ENOSYS)
		kvm_pmu_set_gone();
	else
		WRITE_ONCE(kvm_pmu_gone, false);

	return READ_ONCE(kvm_pmu_gone);
}

/**
 * kvm_pmu_result - the outcome of an operation on a backing event
 * @op: KVM_PERF_OP_*
 * @ret: its result
 *
 * Return:
 *
 * %KVM_PMU_DONE: the host has done it.
 *
 * %KVM_PMU_UNKNOWN: the host knows no backing event of this CPU any more: it is
 * another host, has reset the vCPU, or does not have the feature.
 *
 * %KVM_PMU_NO_COUNTER: the hardware has no counter for the event now.  For READ: the
 * event has lost its counter, and the record is up to date.
 *
 * %KVM_PMU_TOO_OFTEN: events that overflow may not start just now.
 *
 * %KVM_PMU_NO_SPACE: this VM may open no more events.
 *
 * %KVM_PMU_EXISTS: the host knows this id already.
 *
 * %KVM_PMU_NOT_WRITTEN: the host has done it, but the record is out of date.
 *
 * %KVM_PMU_REFUSED: the host does not count the event.
 */
enum kvm_pmu_result kvm_pmu_result(u32 op, long ret)
{
	switch (ret) {
	case 0:
		return KVM_PMU_DONE;
	case -KVM_ENOSYS:
		kvm_pmu_set_gone();
		return KVM_PMU_UNKNOWN;
	case -KVM_ENOENT:
		/* Of OPEN: the host's CPU has no such event. */
		return op == KVM_PERF_OP_OPEN ? KVM_PMU_REFUSED :
						KVM_PMU_UNKNOWN;
	case -KVM_EBUSY:
		return KVM_PMU_NO_COUNTER;
	case -KVM_EAGAIN:
		return KVM_PMU_TOO_OFTEN;
	case -KVM_ENOSPC:
		return KVM_PMU_NO_SPACE;
	case -KVM_EEXIST:
		return KVM_PMU_EXISTS;
	case -KVM_EFAULT:
		return op == KVM_PERF_OP_DISABLE ? KVM_PMU_NOT_WRITTEN :
						   KVM_PMU_REFUSED;
	default:
		return KVM_PMU_REFUSED;
	}
}

struct guest_perf_query kvm_pmu_host;
bool kvm_pmu_answers_old;

/* Raw: the caller that sets an area may hold the lock of the runqueue. */
static DEFINE_RAW_SPINLOCK(kvm_pmu_host_lock);

static seqcount_raw_spinlock_t kvm_pmu_host_sequence =
	SEQCNT_RAW_SPINLOCK_ZERO(kvm_pmu_host_sequence, &kvm_pmu_host_lock);

/* The rest of the driver relies on these bounds. */
static void kvm_pmu_check_query(struct guest_perf_query *host)
{
	host->nr_counters = min_t(u32, host->nr_counters, KVM_PMU_NR_BACKING);
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
 * kvm_pmu_query_host - ask the host for its offer
 * @query: memory that the host can write
 *
 * Return: 0, or -KVM_E* and kvm_pmu_host is unchanged.
 */
long kvm_pmu_query_host(struct guest_perf_query *query)
{
	struct guest_perf_query host;
	long ret;

	query->size = sizeof(*query);
	ret = kvm_perf_op_addr(KVM_PERF_OP_QUERY, query, 0);
	if (ret)
		return ret;

	/* A copy, because the host may still write @query. */
	host = *query;
	barrier();
	kvm_pmu_check_query(&host);
	kvm_pmu_set_host(&host);
	return 0;
}

/**
 * kvm_pmu_get_host - get the host's offer
 * @host: set to the offer of a single host
 *
 * For callers that use more than one field, or a field of 64 bits.  Not in NMI context.
 */
void kvm_pmu_get_host(struct guest_perf_query *host)
{
	unsigned int sequence;

	do {
		sequence = read_seqcount_begin(&kvm_pmu_host_sequence);
		*host = kvm_pmu_host;
	} while (read_seqcount_retry(&kvm_pmu_host_sequence, sequence));
}

/**
 * kvm_pmu_hw_select - the event select of the host for PERF_COUNT_HW_*
 * @event: the event
 *
 * Return: 0 if the host does not have the event.
 */
u64 kvm_pmu_hw_select(u64 event)
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
 * kvm_pmu_event_select - the event select of the host, if the guest knows it
 * @attr: what to count
 *
 * Return: 0 if only the host knows it.
 */
u64 kvm_pmu_event_select(const struct guest_perf_attr *attr)
{
	switch (attr->type) {
	case KVM_PERF_TYPE_RAW:
		return attr->config;
	case KVM_PERF_TYPE_HARDWARE:
		return kvm_pmu_hw_select(attr->config);
	default:
		return 0;
	}
}

/**
 * kvm_pmu_class - which counters of this host's hardware can an event have?
 * @attr: what it counts
 */
enum kvm_pmu_class kvm_pmu_class(const struct guest_perf_attr *attr)
{
	static const u64 selects[] = {
		[KVM_PMU_FIXED_INSTRUCTIONS]	= 0x00c0,
		[KVM_PMU_FIXED_CYCLES]		= 0x003c,
		[KVM_PMU_FIXED_REF_CYCLES]	= 0x0300,
	};
	u32 fixed = READ_ONCE(kvm_pmu_host.fixed_counters);
	enum kvm_pmu_class class;
	u64 select;

	/* No fixed counters, as on AMD's CPUs. */
	if (!fixed)
		return KVM_PMU_GENERAL;

	select = kvm_pmu_event_select(attr);
	for (class = 0; class < KVM_PMU_GENERAL; class++) {
		if (select == selects[class] && fixed & BIT(class))
			return class;
	}

	return KVM_PMU_GENERAL;
}

/*
 * The core type of the kind of cores that raw events are for, if the host is hybrid; 0:
 * of all kinds.  The administrator sets it.
 */
u8 kvm_pmu_core_type;

/**
 * kvm_pmu_is_hybrid - has a host several kinds of cores?
 * @model: the host's guest_perf_query.model
 */
bool kvm_pmu_is_hybrid(u32 model)
{
	return (model & KVM_PERF_MODEL_KIND) == KVM_PERF_MODEL_HYBRID;
}

/**
 * kvm_pmu_is_for_kind - is it a raw event for one kind of cores of a hybrid host?
 * @attr: what to count
 *
 * If its vCPU runs on another kind, it has no counter, whatever others have.
 */
bool kvm_pmu_is_for_kind(const struct guest_perf_attr *attr)
{
	return attr->model & KVM_PERF_MODEL_KIND && !kvm_pmu_is_hybrid(attr->model);
}

/**
 * kvm_pmu_raw_model - the CPU model for a new raw event
 * @host: the host's offer
 *
 * Return: guest_perf_attr.model: the host's model, or one kind of its cores.
 */
u32 kvm_pmu_raw_model(const struct guest_perf_query *host)
{
	u32 type = READ_ONCE(kvm_pmu_core_type);

	if (!type || !kvm_pmu_is_hybrid(host->model))
		return host->model;

	return (host->model & ~KVM_PERF_MODEL_KIND) |
	       type << KVM_PERF_MODEL_KIND_SHIFT;
}

/**
 * kvm_pmu_is_foreign - is it a raw event of another CPU model than the host's?
 * @attr: what to count
 *
 * On the host's CPU its number may be another event, or none.  A hybrid host knows
 * whether it has the kind of cores that the event is for.
 */
bool kvm_pmu_is_foreign(const struct guest_perf_attr *attr)
{
	u32 host = READ_ONCE(kvm_pmu_host.model);

	if (!attr->model || attr->model == host)
		return false;

	return !kvm_pmu_is_hybrid(host) || !(attr->model & KVM_PERF_MODEL_KIND) ||
	       (attr->model ^ host) & ~KVM_PERF_MODEL_KIND;
}

static const char * const kvm_pmu_no_rdpmc[] = {
	[KVM_PERF_RDPMC_UNKNOWN] = "it knows no RDPMC",
	[KVM_PERF_RDPMC_HOST] = "it does not allow RDPMC",
	[KVM_PERF_RDPMC_SHARED] =
		"it does not allow RDPMC, which shows other CPUs' counters",
	[KVM_PERF_RDPMC_NESTED] = "it counts by a host of its own",
	[KVM_PERF_RDPMC_VMM] = "the VMM has not asked for RDPMC",
	[KVM_PERF_RDPMC_PMU] = "RDPMC is for the virtual PMU",
};

/**
 * kvm_pmu_why_no_rdpmc - why does the host not let this VM read counters by RDPMC?
 *
 * Return: the reason, or NULL if the host lets it.
 */
const char *kvm_pmu_why_no_rdpmc(void)
{
	u32 rdpmc = READ_ONCE(kvm_pmu_host.rdpmc);

	if (rdpmc == KVM_PERF_RDPMC_ALLOWED)
		return NULL;

	return rdpmc < ARRAY_SIZE(kvm_pmu_no_rdpmc) ? kvm_pmu_no_rdpmc[rdpmc] :
						      "it gives no reason";
}
