// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, guest side: what perf sees, a struct pmu.
 *
 * event_init and destroy may sleep.  All else runs with interrupts off on the
 * CPU that the event is for; stop and read also from the NMI handler.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/export.h>
#include <linux/perf_event.h>
#include <linux/slab.h>

#include "compat.h"
#include "kvm_pmu.h"
#include "kvm_pmu_query.h"

/* Cache, operation and result: a byte each. */
#define KVM_PMU_CACHE_MASK	0xffffff

static struct pmu *kvm_pmu;

/**
 * kvm_pmu_resched - have perf schedule the events of this CPU anew
 *
 * Interrupts are off, and perf is not at work on them.
 */
void kvm_pmu_resched(void)
{
	perf_pmu_resched(kvm_pmu);
}

/**
 * kvm_pmu_is_ours - is it an event of this PMU?
 * @event: the event
 */
bool kvm_pmu_is_ours(const struct perf_event *event)
{
	return event->pmu == kvm_pmu;
}

static void kvm_pmu_disable(struct pmu *pmu)
{
	this_kvm_pmu_cpu()->disabled = true;
}

static void kvm_pmu_enable(struct pmu *pmu)
{
	struct kvm_pmu_cpu *cpu = this_kvm_pmu_cpu();

	cpu->disabled = false;
	if (cpu->changed)
		kvm_pmu_flush(cpu);
}

/* Changes to one event, outside of pmu_disable and pmu_enable. */
static void kvm_pmu_flush_if_enabled(struct kvm_pmu_cpu *cpu)
{
	if (!cpu->disabled && cpu->changed)
		kvm_pmu_flush(cpu);
}

static void kvm_pmu_start_txn(struct pmu *pmu, unsigned int txn_flags)
{
	struct kvm_pmu_cpu *cpu = this_kvm_pmu_cpu();

	cpu->added = 0;
	/* Of one event, reading it is cheaper: others may run unused. */
	cpu->reading = (txn_flags & PERF_PMU_TXN_READ) && cpu->used > 1;
}

static void kvm_pmu_cancel_txn(struct pmu *pmu)
{
	struct kvm_pmu_cpu *cpu = this_kvm_pmu_cpu();

	cpu->reading = false;
	cpu->fresh = false;
}

/* On failure perf takes all that it has added in the transaction off again. */
static int kvm_pmu_commit_txn(struct pmu *pmu)
{
	struct kvm_pmu_cpu *cpu = this_kvm_pmu_cpu();

	cpu->reading = false;
	cpu->fresh = false;
	return cpu->added && !kvm_pmu_flush_added(cpu) ? -EAGAIN : 0;
}

static void kvm_pmu_read(struct perf_event *event)
{
	if (!event->hw.state)
		kvm_pmu_counter_read(this_kvm_pmu_cpu(), event);
}

static void kvm_pmu_start(struct perf_event *event, int flags)
{
	struct kvm_pmu_cpu *cpu = this_kvm_pmu_cpu();

	/* From Linux 6.16 on, perf unthrottles a whole group, wherever it is. */
	if (event->hw.idx < 0)
		return;

	kvm_pmu_counter_start(cpu, event);
	kvm_pmu_flush_if_enabled(cpu);
}

static void kvm_pmu_stop(struct perf_event *event, int flags)
{
	kvm_pmu_counter_stop(this_kvm_pmu_cpu(), event);
}

/* -EAGAIN, for want of a counter, makes perf multiplex the events. */
static int kvm_pmu_add(struct perf_event *event, int flags)
{
	struct kvm_pmu_cpu *cpu = this_kvm_pmu_cpu();
	int ret = kvm_pmu_counter_get(cpu, event);

	if (ret)
		return ret;

	if (flags & PERF_EF_START)
		kvm_pmu_start(event, 0);
	return 0;
}

static void kvm_pmu_del(struct perf_event *event, int flags)
{
	struct kvm_pmu_cpu *cpu = this_kvm_pmu_cpu();

	kvm_pmu_counter_put(cpu, event);
	kvm_pmu_flush_if_enabled(cpu);
}

static void kvm_pmu_destroy(struct perf_event *event)
{
	kvm_pmu_config_put(to_kvm_pmu_config(event));
}

/* An inherited event has its parent's attr, which has lost its freq below. */
static bool kvm_pmu_has_freq(struct perf_event *event)
{
	if (event->parent)
		return to_kvm_pmu_config(event->parent)->attr.flags &
		       KVM_PERF_ATTR_FREQ;

	/* A frequency of 0 is no frequency. */
	return event->attr.freq && event->attr.sample_freq;
}

/*
 * The host adjusts the period to the frequency.  For the perf core here it is
 * an event with a fixed period, which it leaves alone.
 */
static void kvm_pmu_hide_freq(struct perf_event *event)
{
	event->attr.freq = 0;
	event->hw.sample_period = event->attr.sample_period;
	/* It starts with whatever period the host is at. */
	local64_set(&event->hw.period_left, 0);
}

/* Of PERF_EVENT_IOC_PERIOD; perf checks those frequencies that it knows of. */
static int kvm_pmu_check_period(struct perf_event *event, u64 period)
{
	const struct kvm_pmu_config *config = to_kvm_pmu_config(event);

	if (config->attr.flags & KVM_PERF_ATTR_FREQ)
		return period > sysctl_perf_event_sample_rate ? -EINVAL : 0;

	return kvm_pmu_config_check_period(config, period);
}

/* Can the host tell a nested guest from this one? */
static bool kvm_pmu_splits_nested(void)
{
	return kvm_pmu_host->features & KVM_PERF_FEATURE_NESTED;
}

/* Where there can be none, more events share a counter. */
static bool kvm_pmu_excludes_nested(const struct perf_event_attr *attr)
{
	return attr->exclude_guest && kvm_pmu_splits_nested() &&
	       (boot_cpu_has(X86_FEATURE_SVM) || boot_cpu_has(X86_FEATURE_VMX));
}

static bool kvm_pmu_is_intel(void)
{
	return boot_cpu_data.x86_vendor == X86_VENDOR_INTEL;
}

/*
 * Of which config1 and config2 are part, as in the tables of extra_regs of x86's own
 * PMU: the responses to what a core asks for, latencies, and the front end.
 */
static bool kvm_pmu_has_extra_regs(const struct perf_event *event)
{
	if (!kvm_pmu_is_intel() || event->attr.type != event->pmu->type)
		return false;

	switch (event->attr.config & ARCH_PERFMON_EVENTSEL_EVENT) {
	case 0x0b:
	case 0x2a:
	case 0x2b:
	case 0xb7:
	case 0xbb:
	case 0xc6:
	case 0xcd:
	case 0xd0:
		return true;
	default:
		return false;
	}
}

static void kvm_pmu_guest_attr(struct perf_event *event,
			       struct guest_perf_attr *guest)
{
	const struct perf_event_attr *attr = &event->attr;

	*guest = (struct guest_perf_attr) {
		.size		= sizeof(*guest),
		.type		= attr->type,
		.config		= attr->config,
	};

	/* x86's own PMU ignores all else, and tools set some of it. */
	if (kvm_pmu_has_extra_regs(event)) {
		guest->config1 = attr->config1;
		guest->config2 = attr->config2;
	}
	if (attr->type == PERF_TYPE_HW_CACHE)
		guest->config &= KVM_PMU_CACHE_MASK;
	if (attr->type == event->pmu->type) {
		guest->type = KVM_PERF_TYPE_RAW;
		guest->config &= kvm_pmu_host->raw_event_mask;
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
	if (kvm_pmu_host->features & KVM_PERF_FEATURE_NOTIFY)
		guest->flags |= KVM_PERF_ATTR_NOTIFY;
	/* What overflows is read when it does. */
	if (kvm_pmu_host->rdpmc == KVM_PERF_RDPMC_ALLOWED &&
	    !is_sampling_event(event))
		guest->flags |= KVM_PERF_ATTR_RDPMC | kvm_pmu_user_attr();
}

/* An event type of its own holds raw events. */
static bool kvm_pmu_serves(const struct perf_event_attr *attr)
{
	switch (attr->type) {
	case PERF_TYPE_HARDWARE:
	case PERF_TYPE_HW_CACHE:
		return kvm_pmu->type == PERF_TYPE_RAW;
	default:
		return attr->type == kvm_pmu->type;
	}
}

/*
 * precise_ip and branch stacks: not by this PMU, nor AUX, which perf knows.
 * exclude_host asks for nested guests alone, which an older host cannot tell
 * from this one.
 */
static bool kvm_pmu_supports(struct perf_event *event)
{
	return !has_branch_stack(event) && !event->attr.precise_ip &&
	       (!event->attr.exclude_host || kvm_pmu_splits_nested());
}

/* Of precise_ip only: registers, and on Intel where the samples go. */
static bool kvm_pmu_has_precise_only(const struct perf_event_attr *attr)
{
	return (attr->sample_regs_user | attr->sample_regs_intr) &
	       PERF_REG_EXTENDED_MASK ||
	       (attr->aux_output && kvm_pmu_is_intel());
}

/*
 * A group counts as a whole, or not at all.  As for x86's own PMU, siblings that
 * are disabled do not count.
 */
static bool kvm_pmu_group_fits(struct perf_event *event,
			       const struct kvm_pmu_config *config)
{
	struct perf_event *leader = event->group_leader, *sibling;
	struct kvm_pmu_use use = { };

	if (leader == event)
		return true;

	kvm_pmu_add_use(&use, config->kind);
	if (leader->pmu == event->pmu)
		kvm_pmu_add_use(&use, to_kvm_pmu_config(leader)->kind);
	for_each_sibling_event(sibling, leader) {
		if (sibling->pmu == event->pmu &&
		    sibling->state > PERF_EVENT_STATE_OFF)
			kvm_pmu_add_use(&use, to_kvm_pmu_config(sibling)->kind);
	}

	return use.general <= kvm_pmu_host->nr_counters;
}

static int kvm_pmu_event_init(struct perf_event *event)
{
	struct guest_perf_attr attr;
	struct kvm_pmu_config *config;
	int ret;

	if (!kvm_pmu_serves(&event->attr))
		return -ENOENT;

	if (!kvm_pmu_supports(event))
		return -EOPNOTSUPP;

	/* perf would find it unsupported, x86's own PMU finds it wrong. */
	if (kvm_pmu_has_precise_only(&event->attr))
		return -EINVAL;

	kvm_pmu_guest_attr(event, &attr);
	config = kvm_pmu_config_get(&attr);
	if (IS_ERR(config))
		return PTR_ERR(config);

	ret = event->parent ? 0 :
	      kvm_pmu_config_check_period(config, event->attr.sample_period);
	if (!ret && !kvm_pmu_group_fits(event, config))
		ret = -EINVAL;
	if (ret) {
		kvm_pmu_config_put(config);
		return ret;
	}

	event->pmu_private = config;
	event->destroy = kvm_pmu_destroy;
	/* For the event filter of a KVM on top. */
	event->hw.config = kvm_pmu_event_select(&attr);
	event->hw.idx = -1;
	event->hw.state = PERF_HES_STOPPED | PERF_HES_UPTODATE;
	kvm_pmu_user_init_event(event);
	if (attr.flags & KVM_PERF_ATTR_FREQ)
		kvm_pmu_hide_freq(event);
	return 0;
}

static const struct pmu kvm_pmu_template = {
	.module		= THIS_MODULE,
	.attr_groups	= kvm_pmu_attr_groups,
#ifdef PERF_PMU_CAP_HETEROGENEOUS_CPUS
	/* Before 6.2 for PMUs that share the context of hardware events. */
	.capabilities	= PERF_PMU_CAP_HETEROGENEOUS_CPUS,
#endif
	.task_ctx_nr	= perf_hw_context,
	.pmu_enable	= kvm_pmu_enable,
	.pmu_disable	= kvm_pmu_disable,
	.event_init	= kvm_pmu_event_init,
	.add		= kvm_pmu_add,
	.del		= kvm_pmu_del,
	.start		= kvm_pmu_start,
	.stop		= kvm_pmu_stop,
	.read		= kvm_pmu_read,
	.event_mapped	= kvm_pmu_event_mapped,
	.event_unmapped	= kvm_pmu_event_unmapped,
	.check_period	= kvm_pmu_check_period,
	.start_txn	= kvm_pmu_start_txn,
	.commit_txn	= kvm_pmu_commit_txn,
	.cancel_txn	= kvm_pmu_cancel_txn,
};

/*
 * perf sends PERF_TYPE_HARDWARE to whoever has PERF_TYPE_RAW.  Registering it
 * a second time warns, so see first whether anybody takes a raw event.
 */
static bool kvm_pmu_slot_is_free(void)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_RAW,
		.size		= sizeof(attr),
		.disabled	= 1,
	};
	struct perf_event *event;

	event = perf_event_create_kernel_counter(&attr, -1, current, NULL,
						 NULL);
	if (IS_ERR(event))
		return PTR_ERR(event) == -ENOENT;

	perf_event_release_kernel(event);
	return false;
}

/**
 * kvm_pmu_register - let perf use it
 * @no_sampling: why there can be no samples, or NULL
 *
 * Return: 0 or -E*.
 */
int kvm_pmu_register(const char *no_sampling)
{
	bool slot = kvm_pmu_slot_is_free();
	const char *name = slot ? "cpu" : "kvm_pmu";
	int ret;

	kvm_pmu = kmemdup(&kvm_pmu_template, sizeof(*kvm_pmu), GFP_KERNEL);
	if (!kvm_pmu)
		return -ENOMEM;

	if (no_sampling)
		kvm_pmu->capabilities |= PERF_PMU_CAP_NO_INTERRUPT;

	ret = perf_pmu_register(kvm_pmu, name, slot ? PERF_TYPE_RAW : -1);
	if (ret) {
		pr_err("not loaded: registering the PMU failed with %d\n", ret);
		kfree(kvm_pmu);
		kvm_pmu = NULL;
		return ret;
	}

	pr_info("PMU '%s'%s: %u counters of the host and %u fixed ones, at most %u events%s%s%s\n",
		name, slot ? "" : " (another PMU has 'cpu')",
		kvm_pmu_host->nr_counters,
		hweight32(kvm_pmu_host->fixed_counters),
		kvm_pmu_host->max_events,
		no_sampling ? ", counting only (" : "", no_sampling ? : "",
		no_sampling ? ")" : "");
	return 0;
}

#ifdef MODULE
/**
 * kvm_pmu_unregister - let perf use it no more
 *
 * No event is open.
 */
void kvm_pmu_unregister(void)
{
	kvm_pmu_compat_unregister(kvm_pmu);
}
#endif

/**
 * kvm_pmu_query - what the host can count, for a KVM on top of it
 *
 * Return: NULL where there is no PMU by this driver, or where another would get
 * what that KVM asks for.
 */
const struct guest_perf_query *kvm_pmu_query(void)
{
	if (!kvm_pmu || kvm_pmu->type != PERF_TYPE_RAW)
		return NULL;

	return kvm_pmu_host;
}
EXPORT_SYMBOL_GPL(kvm_pmu_query);
