// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, guest side: which events of perf the driver takes, and
 * how it asks the host for each.
 *
 * The driver asks the host about a configuration once, by opening an event and closing it
 * again, and remembers the answer.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/bitops.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/perf_event.h>
#include <linux/slab.h>
#include <linux/smp.h>

#include "compat.h"
#include "kvm_pmu.h"

/* How many configurations to remember, if no more are in use. */
#define KVM_PMU_MAX_CONFIGS	128

/* Memory that the host reads and writes for a try. */
struct kvm_pmu_probe {
	struct guest_perf_event record __aligned(sizeof(struct guest_perf_event));
	struct guest_perf_attr attr;
	struct guest_perf_event_param param;
	struct guest_perf_op ops[2];
};

/* The list is in the order of use, the last used first; the mutex protects it. */
static DEFINE_MUTEX(kvm_pmu_config_mutex);
static LIST_HEAD(kvm_pmu_configs);
static unsigned int kvm_pmu_nr_configs;

/*
 * Returns the error for event_init.  perf prints <not supported> for -ENOENT, which is
 * remembered, and for -EOPNOTSUPP, which is not.
 */
static int kvm_pmu_errno(long ret)
{
	switch (ret) {
	case 0:
		return 0;
	case -KVM_EOPNOTSUPP:
		return -ENOENT;
	case -KVM_ENOSYS:
		return -EOPNOTSUPP;
	case -KVM_EINVAL:
		return -EINVAL;
	case -KVM_ENOSPC:
		return -ENOSPC;
	case -KVM_EBUSY:
		return -EBUSY;
	default:
		pr_warn_once("the host refused an event with error %ld\n", ret);
		return -EIO;
	}
}

/* Open an event and close it.  A host may have changed the operations of an earlier try. */
static long kvm_pmu_try(struct kvm_pmu_probe *probe)
{
	long ret;

	probe->ops[0] = (struct guest_perf_op) {
		.op = KVM_PERF_OP_OPEN, .arg = virt_to_phys(&probe->param),
	};
	probe->ops[1] = (struct guest_perf_op) {
		.op = KVM_PERF_OP_CLOSE, .id = probe->param.id,
	};
	ret = kvm_perf_op_addr(KVM_PERF_OP_BATCH, probe->ops, 2);

	return ret ? : probe->ops[0].result;
}

/* How often users without CAP_PERFMON may have unused events closed. */
#define KVM_PMU_CLOSE_UNUSED	(HZ / 10)

/*
 * Events that are kept open for later take room, too.  Interrupts each CPU that keeps
 * any, also if it has nothing to do with the program that opens an event.
 */
static bool kvm_pmu_close_all_unused(void)
{
	static unsigned long last = INITIAL_JIFFIES - KVM_PMU_CLOSE_UNUSED;

	lockdep_assert_held(&kvm_pmu_config_mutex);

	/* Not time_before(): the last time may be more than half a wrap ago. */
	if (jiffies - last < KVM_PMU_CLOSE_UNUSED && !perfmon_capable())
		return false;

	on_each_cpu_cond(kvm_pmu_keeps_unused, kvm_pmu_close_unused, NULL, true);
	last = jiffies;
	return true;
}

static int kvm_pmu_ask_host(const struct guest_perf_attr *attr)
{
	struct kvm_pmu_probe *probe;
	long ret;

	/* kzalloc() aligns a power of two to its size. */
	probe = kzalloc(roundup_pow_of_two(sizeof(*probe)), GFP_KERNEL);
	if (!probe)
		return -ENOMEM;

	probe->attr = *attr;
	if (attr->flags & KVM_PERF_ATTR_FREQ)
		probe->attr.sample_period = 1;
	probe->param.attr_addr = virt_to_phys(&probe->attr);
	probe->param.event_addr = virt_to_phys(&probe->record);
	/* The id after those of the CPUs' backing events. */
	probe->param.id = nr_cpu_ids * KVM_PMU_NR_BACKING;

	ret = kvm_pmu_try(probe);
	if (ret == -KVM_ENOSPC && kvm_pmu_close_all_unused())
		ret = kvm_pmu_try(probe);

	kfree(probe);
	return kvm_pmu_errno(ret);
}

static struct kvm_pmu_config *kvm_pmu_find(const struct guest_perf_attr *attr)
{
	struct kvm_pmu_config *config;

	list_for_each_entry(config, &kvm_pmu_configs, node) {
		if (!memcmp(&config->attr, attr, sizeof(*attr)))
			return config;
	}

	return NULL;
}

/* Forget configurations down to @max, first those that were not used for longest. */
static void kvm_pmu_shrink(unsigned int max)
{
	struct kvm_pmu_config *config, *next;

	list_for_each_entry_safe_reverse(config, next, &kvm_pmu_configs, node) {
		if (kvm_pmu_nr_configs <= max)
			return;
		if (atomic_read(&config->users))
			continue;
		list_del(&config->node);
		kfree(config);
		kvm_pmu_nr_configs--;
	}
}

static struct kvm_pmu_config *kvm_pmu_learn(const struct guest_perf_attr *attr)
{
	struct kvm_pmu_config *config;
	int error = kvm_pmu_ask_host(attr);

	/* Do not remember errors that may be different another time. */
	if (error && error != -ENOENT && error != -EINVAL)
		return ERR_PTR(error);

	config = kzalloc_obj(*config, GFP_KERNEL);
	if (!config)
		return ERR_PTR(-ENOMEM);

	config->attr = *attr;
	config->error = error;
	list_add(&config->node, &kvm_pmu_configs);
	kvm_pmu_nr_configs++;
	return config;
}

static struct kvm_pmu_config *
kvm_pmu_config_get_locked(const struct guest_perf_attr *attr)
{
	struct kvm_pmu_config *config;
	int error;

	lockdep_assert_held(&kvm_pmu_config_mutex);

	if (xchg(&kvm_pmu_answers_old, false))
		kvm_pmu_shrink(0);

	config = kvm_pmu_find(attr);
	if (!config)
		config = kvm_pmu_learn(attr);
	if (IS_ERR(config))
		return config;

	list_move(&config->node, &kvm_pmu_configs);
	error = config->error;
	if (!error)
		atomic_inc(&config->users);
	/* Forgets configurations that are not in use, perhaps this one. */
	kvm_pmu_shrink(KVM_PMU_MAX_CONFIGS);

	return error ? ERR_PTR(error) : config;
}

/*
 * Ask whether the host can count a configuration; its sample_period is 0.  May sleep.
 * Returns the configuration, with one more user, or the error for event_init.
 */
static struct kvm_pmu_config *
kvm_pmu_config_get(const struct guest_perf_attr *attr)
{
	struct kvm_pmu_config *config;

	mutex_lock(&kvm_pmu_config_mutex);
	config = kvm_pmu_config_get_locked(attr);
	mutex_unlock(&kvm_pmu_config_mutex);

	return config;
}

/* On Intel some events have a minimum period, at most 128: *_limit_period(). */
#define KVM_PMU_SHORT_PERIOD	256

/*
 * Can the host have an event overflow that often?  A period of 0 is for never.  Asks the
 * host each time if the period may be too short.  May sleep.  Returns 0, or -EINVAL.
 */
static int kvm_pmu_config_check_period(const struct kvm_pmu_config *config, u64 period)
{
	struct guest_perf_attr attr = config->attr;
	int error;

	if (!period || period >= KVM_PMU_SHORT_PERIOD ||
	    attr.flags & KVM_PERF_ATTR_FREQ)
		return 0;

	attr.sample_period = period;
	mutex_lock(&kvm_pmu_config_mutex);
	error = kvm_pmu_ask_host(&attr);
	mutex_unlock(&kvm_pmu_config_mutex);

	return error == -EINVAL ? error : 0;
}

#ifdef MODULE
/**
 * kvm_pmu_config_destroy - forget everything
 */
void kvm_pmu_config_destroy(void)
{
	mutex_lock(&kvm_pmu_config_mutex);
	kvm_pmu_shrink(0);
	mutex_unlock(&kvm_pmu_config_mutex);
}
#endif

/* Cache, operation and result: a byte each. */
#define KVM_PMU_CACHE_MASK	0xffffff

static void kvm_pmu_destroy(struct perf_event *event)
{
	atomic_dec(&to_kvm_pmu_config(event)->users);
}

static bool kvm_pmu_has_freq(const struct perf_event *event)
{
	/* A frequency of 0 is no frequency. */
	return event->attr.freq && event->attr.sample_freq;
}

/**
 * kvm_pmu_check_period - pmu->check_period: may an event have this period?
 * @event: the event
 * @period: of PERF_EVENT_IOC_PERIOD, or a frequency, which perf checks if it knows of it
 *
 * Return: 0 or -EINVAL.
 */
int kvm_pmu_check_period(struct perf_event *event, u64 period)
{
	const struct kvm_pmu_config *config = to_kvm_pmu_config(event);

	if (config->attr.flags & KVM_PERF_ATTR_FREQ)
		return period > sysctl_perf_event_sample_rate ? -EINVAL : 0;

	return kvm_pmu_config_check_period(config, period);
}

/* Can the host tell a nested guest from this one? */
static bool kvm_pmu_splits_nested(void)
{
	return READ_ONCE(kvm_pmu_host.features) & KVM_PERF_FEATURE_NESTED;
}

/* Without nested guests, ignore exclude_guest: more events share a backing event. */
static bool kvm_pmu_excludes_nested(const struct perf_event_attr *attr)
{
	return attr->exclude_guest && kvm_pmu_splits_nested() &&
	       (boot_cpu_has(X86_FEATURE_SVM) || boot_cpu_has(X86_FEATURE_VMX));
}

static bool kvm_pmu_is_intel(void)
{
	return boot_cpu_data.x86_vendor == X86_VENDOR_INTEL;
}

static bool kvm_pmu_is_intel_raw(const struct perf_event *event)
{
	return kvm_pmu_is_intel() && event->attr.type == event->pmu->type;
}

/*
 * Does the event use config1 and config2?  The events are those of the tables
 * extra_regs of x86's own PMU up to Linux 7.3: the responses to requests of a core,
 * latencies, and the front end.
 */
static bool kvm_pmu_has_extra_regs(const struct perf_event *event)
{
	if (!kvm_pmu_is_intel_raw(event))
		return false;

	switch (event->attr.config & ARCH_PERFMON_EVENTSEL_EVENT) {
	case 0x0b:
	case 0x27:
	case 0x2a:
	case 0x2b:
	case 0x4f:
	case 0xad:
	case 0xb7:
	case 0xbb:
	case 0xc2:
	case 0xc6:
	case 0xcd:
	case 0xd0:
	case 0xd6:
		return true;
	default:
		return false;
	}
}

/* Bits of the event select that change what Intel's CPUs count, all or newer ones. */
#define KVM_PMU_INTEL_SELECT						\
	(ARCH_PERFMON_EVENTSEL_ANY | BIT_ULL(36) /* EQ */ |		\
	 GENMASK_ULL(47, 40) /* UMASK2 */)

/*
 * No host counts by these bits: the driver drops them, like x86's own PMU on a CPU without
 * transactions.  On a CPU with transactions the driver returns EINVAL, because rr then opens
 * its event without the bits.
 */
static bool kvm_pmu_selects_transactions(const struct perf_event *event)
{
	return kvm_pmu_is_intel_raw(event) &&
	       event->attr.config & (HSW_IN_TX | HSW_IN_TX_CHECKPOINTED) &&
	       (boot_cpu_has(X86_FEATURE_RTM) || boot_cpu_has(X86_FEATURE_HLE));
}

/* Like x86's own PMU, ignore other unknown bits, also those of AMD's. */
static bool kvm_pmu_select_is_known(const struct perf_event *event,
				    const struct guest_perf_query *host)
{
	return !kvm_pmu_is_intel_raw(event) ||
	       !(event->attr.config & KVM_PMU_INTEL_SELECT &
		 ~host->raw_event_mask);
}

/* The optional flags are the same for every host: a host ignores unknown ones. */
static void kvm_pmu_guest_attr(struct perf_event *event,
			       const struct guest_perf_query *host,
			       struct guest_perf_attr *guest)
{
	const struct perf_event_attr *attr = &event->attr;

	*guest = (struct guest_perf_attr) {
		.size		= sizeof(*guest),
		.type		= attr->type,
		.config		= attr->config,
	};

	/* Like x86's own PMU, ignore them for other events: some tools set them. */
	if (kvm_pmu_has_extra_regs(event)) {
		guest->config1 = attr->config1;
		guest->config2 = attr->config2;
	}
	if (attr->type == PERF_TYPE_HW_CACHE)
		guest->config &= KVM_PMU_CACHE_MASK;
	if (attr->type == event->pmu->type) {
		guest->type = KVM_PERF_TYPE_RAW;
		guest->config &= host->raw_event_mask;
		guest->model = kvm_pmu_raw_model(host);
	}
	if (kvm_pmu_has_freq(event))
		guest->flags |= KVM_PERF_ATTR_FREQ;
	if (attr->exclude_user)
		guest->flags |= KVM_PERF_ATTR_EXCLUDE_USER;
	if (attr->exclude_kernel)
		guest->flags |= KVM_PERF_ATTR_EXCLUDE_KERNEL;
	if (kvm_pmu_excludes_nested(attr))
		guest->flags |= KVM_PERF_ATTR_EXCLUDE_GUEST;
	if (attr->exclude_host)
		guest->flags |= KVM_PERF_ATTR_EXCLUDE_HOST;
	if (kvm_pmu_wants_branches(event))
		guest->flags |= event->hw.branch_reg.config;
	guest->flags |= KVM_PERF_ATTR_NOTIFY;
	/* A sampling event is read when it overflows, not by RDPMC. */
	if (!is_sampling_event(event))
		guest->flags |= KVM_PERF_ATTR_RDPMC | kvm_pmu_user_attr();
}

/* A PMU with a type of its own has raw events only. */
static bool kvm_pmu_serves(const struct perf_event *event)
{
	switch (event->attr.type) {
	case PERF_TYPE_HARDWARE:
	case PERF_TYPE_HW_CACHE:
		return event->pmu->type == PERF_TYPE_RAW;
	default:
		return event->attr.type == event->pmu->type;
	}
}

/*
 * This PMU has no precise_ip.  perf itself refuses AUX. exclude_host asks for nested
 * guests alone: a host without NESTED cannot tell them from this guest.
 */
static bool kvm_pmu_supports(struct perf_event *event,
			     const struct guest_perf_query *host)
{
	return !event->attr.precise_ip && kvm_pmu_select_is_known(event, host) &&
	       (!has_branch_stack(event) || kvm_pmu_branches_possible()) &&
	       (!event->attr.exclude_host || kvm_pmu_splits_nested());
}

/* Extended registers and, on Intel, aux_output need precise_ip. */
static bool kvm_pmu_has_precise_only(const struct perf_event_attr *attr)
{
	return (attr->sample_regs_user | attr->sample_regs_intr) &
	       PERF_REG_EXTENDED_MASK ||
	       (attr->aux_output && kvm_pmu_is_intel());
}

static enum kvm_pmu_class kvm_pmu_class_of(struct perf_event *event)
{
	return kvm_pmu_class(&to_kvm_pmu_config(event)->attr);
}

/*
 * A group counts as a whole, or not at all.  As for x86's own PMU, ignore siblings that
 * are disabled.
 */
static bool kvm_pmu_group_fits(struct perf_event *event,
			       const struct guest_perf_attr *attr)
{
	struct perf_event *leader = event->group_leader, *sibling;
	struct kvm_pmu_use use = { };

	if (leader == event)
		return true;

	kvm_pmu_add_use(&use, kvm_pmu_class(attr));
	if (leader->pmu == event->pmu)
		kvm_pmu_add_use(&use, kvm_pmu_class_of(leader));
	for_each_sibling_event(sibling, leader) {
		if (sibling->pmu == event->pmu && kvm_pmu_is_enabled(sibling))
			kvm_pmu_add_use(&use, kvm_pmu_class_of(sibling));
	}

	return kvm_pmu_use_is_within(&use, 0, READ_ONCE(kvm_pmu_host.nr_counters));
}

/* Ask the host for its offer, if the host may have changed and no area would tell. */
static void kvm_pmu_see_host(struct guest_perf_query *host)
{
	struct kvm_pmu_cpu *cpu;
	unsigned long flags;

	local_irq_save(flags);
	cpu = this_kvm_pmu_cpu();
	if (kvm_pmu_area_is_stale(cpu))
		kvm_pmu_open_anew(cpu);
	else if (!cpu->host.epoch)
		kvm_pmu_query_host(&cpu->host.query);
	local_irq_restore(flags);
	kvm_pmu_get_host(host);
}

static void kvm_pmu_init_hw(struct perf_event *event,
			    struct kvm_pmu_config *config)
{
	event->pmu_private = config;
	event->destroy = kvm_pmu_destroy;
	/* For the event filter of a KVM in this guest. */
	event->hw.config = kvm_pmu_event_select(&config->attr);
	event->hw.idx = -1;
	kvm_pmu_set_stopped(event);
	kvm_pmu_user_init_event(event);
	if (config->attr.flags & KVM_PERF_ATTR_FREQ)
		kvm_pmu_hide_freq(event);
}

/*
 * A child counts what its parent counts.  Do not ask the host: if it is another host
 * now and does not count that, fork() must not fail.
 */
static int kvm_pmu_init_child(struct perf_event *event)
{
	struct kvm_pmu_config *config = to_kvm_pmu_config(event->parent);

	if (has_branch_stack(event))
		kvm_pmu_branches_init_event(event);
	atomic_inc(&config->users);
	kvm_pmu_init_hw(event, config);
	return 0;
}

/**
 * kvm_pmu_event_init - pmu->event_init: take an event, if it is one of this PMU
 * @event: the event
 *
 * Finds out by trying whether the host has the event.  May sleep.
 *
 * Return: 0, -ENOENT for an event of another PMU, or the error of x86's own PMU.
 */
int kvm_pmu_event_init(struct perf_event *event)
{
	struct guest_perf_query host;
	struct guest_perf_attr attr;
	struct kvm_pmu_config *config;
	int branches, ret;

	if (!kvm_pmu_serves(event))
		return -ENOENT;

	if (event->parent)
		return kvm_pmu_is_ours(event->parent) ?
		       kvm_pmu_init_child(event) : -ENOENT;

	kvm_pmu_see_host(&host);
	if (!kvm_pmu_supports(event, &host))
		return -EOPNOTSUPP;

	/* perf would return EOPNOTSUPP, but x86's own PMU returns EINVAL. */
	if (kvm_pmu_has_precise_only(&event->attr) ||
	    kvm_pmu_selects_transactions(event))
		return -EINVAL;

	branches = has_branch_stack(event) ? kvm_pmu_branches_init_event(event) :
					     0;
	kvm_pmu_guest_attr(event, &host, &attr);
	config = kvm_pmu_config_get(&attr);
	if (IS_ERR(config))
		return PTR_ERR(config);

	ret = kvm_pmu_config_check_period(config, event->attr.sample_period);
	/* x86's own PMU checks branches last. */
	if (!ret)
		ret = branches;
	if (!ret && !kvm_pmu_group_fits(event, &attr))
		ret = -EINVAL;
	if (ret) {
		atomic_dec(&config->users);
		return ret;
	}

	kvm_pmu_init_hw(event, config);
	return 0;
}
