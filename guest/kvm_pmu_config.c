// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, guest side: what the host can count.
 *
 * The host is asked about a configuration once, by opening an event and
 * closing it again, and its answer remembered.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/smp.h>

#include "kvm_pmu.h"

/* How many to remember, if no more are in use. */
#define KVM_PMU_MAX_CONFIGS	128

struct kvm_pmu_known {
	struct kvm_pmu_config config;
	struct list_head node;
};

/* What the host reads and writes when it is asked. */
struct kvm_pmu_probe {
	struct guest_perf_event record __aligned(sizeof(struct guest_perf_event));
	struct guest_perf_attr attr;
	struct guest_perf_event_param param;
	struct guest_perf_op ops[2];
};

/* The list is in the order of use, the last first; the mutex protects it. */
static DEFINE_MUTEX(kvm_pmu_config_mutex);
static LIST_HEAD(kvm_pmu_configs);
static unsigned int kvm_pmu_nr_configs;
static bool kvm_pmu_configs_stale;

/*
 * What event_init returns; perf takes -ENOENT for <not supported>, and
 * -EOPNOTSUPP, which is not remembered.
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

/* Open and close it. */
static long kvm_pmu_try(struct kvm_pmu_probe *probe)
{
	long ret = kvm_perf_op_addr(KVM_PERF_OP_BATCH, probe->ops, 2);

	return ret ? : probe->ops[0].result;
}

/* How often they may be, for who may not disturb other CPUs. */
#define KVM_PMU_CLOSE_UNUSED	(HZ / 10)

/*
 * Events that are kept open for later take room, too.  Each CPU that keeps anything gets an
 * interrupt, also one that does not work for who opens an event here.
 */
static bool kvm_pmu_close_all_unused(void)
{
	static unsigned long next = INITIAL_JIFFIES;

	lockdep_assert_held(&kvm_pmu_config_mutex);

	if (time_before(jiffies, next) && !perfmon_capable())
		return false;

	on_each_cpu_cond(kvm_pmu_keeps_unused, kvm_pmu_close_unused, NULL, true);
	next = jiffies + KVM_PMU_CLOSE_UNUSED;
	return true;
}

static int kvm_pmu_ask_host(const struct guest_perf_attr *attr)
{
	struct kvm_pmu_probe *probe;
	long ret;

	/* A power of two is aligned to its size. */
	probe = kzalloc(roundup_pow_of_two(sizeof(*probe)), GFP_KERNEL);
	if (!probe)
		return -ENOMEM;

	probe->attr = *attr;
	if (attr->flags & KVM_PERF_ATTR_FREQ)
		probe->attr.sample_period = 1;
	probe->param.attr_addr = virt_to_phys(&probe->attr);
	probe->param.event_addr = virt_to_phys(&probe->record);
	/* After those of the CPUs' counters. */
	probe->param.id = nr_cpu_ids * KVM_PMU_NR_COUNTERS;
	probe->ops[0].op = KVM_PERF_OP_OPEN;
	probe->ops[0].arg = virt_to_phys(&probe->param);
	probe->ops[1].op = KVM_PERF_OP_CLOSE;
	probe->ops[1].id = probe->param.id;

	ret = kvm_pmu_try(probe);
	if (ret == -KVM_ENOSPC && kvm_pmu_close_all_unused())
		ret = kvm_pmu_try(probe);

	kfree(probe);
	return kvm_pmu_errno(ret);
}

static struct kvm_pmu_known *kvm_pmu_find(const struct guest_perf_attr *attr)
{
	struct kvm_pmu_known *known;

	list_for_each_entry(known, &kvm_pmu_configs, node) {
		if (!memcmp(&known->config.attr, attr, sizeof(*attr)))
			return known;
	}

	return NULL;
}

/* Down to @max, those first that were not used for longest. */
static void kvm_pmu_shrink(unsigned int max)
{
	struct kvm_pmu_known *known, *next;

	list_for_each_entry_safe_reverse(known, next, &kvm_pmu_configs, node) {
		if (kvm_pmu_nr_configs <= max)
			return;
		if (atomic_read(&known->config.users))
			continue;
		list_del(&known->node);
		kfree(known);
		kvm_pmu_nr_configs--;
	}
}

static struct kvm_pmu_known *kvm_pmu_learn(const struct guest_perf_attr *attr)
{
	struct kvm_pmu_known *known;
	int error = kvm_pmu_ask_host(attr);

	/* Another time it may be different. */
	if (error && error != -ENOENT && error != -EINVAL)
		return ERR_PTR(error);

	known = kzalloc_obj(*known, GFP_KERNEL);
	if (!known)
		return ERR_PTR(-ENOMEM);

	known->config.attr = *attr;
	known->config.error = error;
	list_add(&known->node, &kvm_pmu_configs);
	kvm_pmu_nr_configs++;
	return known;
}

static struct kvm_pmu_config *
kvm_pmu_config_get_locked(const struct guest_perf_attr *attr)
{
	struct kvm_pmu_known *known;
	int error;

	lockdep_assert_held(&kvm_pmu_config_mutex);

	if (xchg(&kvm_pmu_configs_stale, false))
		kvm_pmu_shrink(0);

	known = kvm_pmu_find(attr);
	if (!known)
		known = kvm_pmu_learn(attr);
	if (IS_ERR(known))
		return ERR_CAST(known);

	list_move(&known->node, &kvm_pmu_configs);
	error = known->config.error;
	if (!error)
		atomic_inc(&known->config.users);
	/* Frees what is not in use, maybe this. */
	kvm_pmu_shrink(KVM_PMU_MAX_CONFIGS);

	return error ? ERR_PTR(error) : &known->config;
}

/**
 * kvm_pmu_config_get - can the host count it?
 * @attr: what to count; its sample_period is 0
 *
 * May sleep.
 *
 * Return: the configuration, for kvm_pmu_config_put(), or what event_init is
 * to return.
 */
struct kvm_pmu_config *kvm_pmu_config_get(const struct guest_perf_attr *attr)
{
	struct kvm_pmu_config *config;

	mutex_lock(&kvm_pmu_config_mutex);
	config = kvm_pmu_config_get_locked(attr);
	mutex_unlock(&kvm_pmu_config_mutex);

	return config;
}

/**
 * kvm_pmu_config_share - one more perf_event counts this
 * @config: the configuration, of another perf_event
 */
void kvm_pmu_config_share(struct kvm_pmu_config *config)
{
	atomic_inc(&config->users);
}

/* On Intel some events have a least period, 128 at most: *_limit_period(). */
#define KVM_PMU_SHORT_PERIOD	256

/**
 * kvm_pmu_config_check_period - can the host have it overflow that often?
 * @config: what to count
 * @period: after how many events, 0 for never
 *
 * Asks the host, where it might not, each time.  May sleep.
 *
 * Return: 0, or -EINVAL.
 */
int kvm_pmu_config_check_period(const struct kvm_pmu_config *config, u64 period)
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

/**
 * kvm_pmu_config_put - one perf_event less counts this
 * @config: the configuration
 */
void kvm_pmu_config_put(struct kvm_pmu_config *config)
{
	atomic_dec(&config->users);
}

/**
 * kvm_pmu_config_forget - the host may be another one than that which was asked
 *
 * May be called with interrupts off.
 */
void kvm_pmu_config_forget(void)
{
	WRITE_ONCE(kvm_pmu_configs_stale, true);
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
