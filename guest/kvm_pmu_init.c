// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, guest side: which events of perf's it takes, and
 * what each is to the host.
 */
#include <linux/bitops.h>
#include <linux/perf_event.h>

#include "compat.h"
#include "kvm_pmu.h"

/* Cache, operation and result: a byte each. */
#define KVM_PMU_CACHE_MASK	0xffffff

static void kvm_pmu_destroy(struct perf_event *event)
{
	kvm_pmu_config_put(to_kvm_pmu_config(event));
}

static bool kvm_pmu_has_freq(const struct perf_event *event)
{
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

/**
 * kvm_pmu_check_period - pmu->check_period: may an event have this period?
 * @event: the event
 * @period: of PERF_EVENT_IOC_PERIOD, or a frequency: perf checks those that it knows of
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
 * PMU up to Linux 7.3: the responses to what a core asks for, latencies, and the front
 * end.
 */
static bool kvm_pmu_has_extra_regs(const struct perf_event *event)
{
	if (!kvm_pmu_is_intel() || event->attr.type != event->pmu->type)
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
	(ARCH_PERFMON_EVENTSEL_ANY | HSW_IN_TX | HSW_IN_TX_CHECKPOINTED | \
	 BIT_ULL(36) /* EQ */ | GENMASK_ULL(47, 40) /* UMASK2 */)

/* x86's own PMU ignores other bits that it does not know, as those of AMD's. */
static bool kvm_pmu_select_is_known(const struct perf_event *event,
				    const struct guest_perf_query *host)
{
	return !kvm_pmu_is_intel() || event->attr.type != event->pmu->type ||
	       !(event->attr.config & KVM_PMU_INTEL_SELECT &
		 ~host->raw_event_mask);
}

/* The optional flags are the same for every host, which ignores what it cannot do. */
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

	/* x86's own PMU ignores all else, and tools set some of it. */
	if (kvm_pmu_has_extra_regs(event)) {
		guest->config1 = attr->config1;
		guest->config2 = attr->config2;
	}
	if (attr->type == PERF_TYPE_HW_CACHE)
		guest->config &= KVM_PMU_CACHE_MASK;
	if (attr->type == event->pmu->type) {
		guest->type = KVM_PERF_TYPE_RAW;
		guest->config &= host->raw_event_mask;
		guest->model = host->model;
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
	/* What overflows is read when it does. */
	if (!is_sampling_event(event))
		guest->flags |= KVM_PERF_ATTR_RDPMC | kvm_pmu_user_attr();
}

/* An event type of its own holds raw events. */
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
 * precise_ip: not by this PMU, nor AUX, which perf knows.
 * exclude_host asks for nested guests alone, which an older host cannot tell
 * from this one.
 */
static bool kvm_pmu_supports(struct perf_event *event,
			     const struct guest_perf_query *host)
{
	return !event->attr.precise_ip && kvm_pmu_select_is_known(event, host) &&
	       (!has_branch_stack(event) || kvm_pmu_branches_possible()) &&
	       (!event->attr.exclude_host || kvm_pmu_splits_nested());
}

/* Of precise_ip only: registers, and on Intel where the samples go. */
static bool kvm_pmu_has_precise_only(const struct perf_event_attr *attr)
{
	return (attr->sample_regs_user | attr->sample_regs_intr) &
	       PERF_REG_EXTENDED_MASK ||
	       (attr->aux_output && kvm_pmu_is_intel());
}

static enum kvm_pmu_kind kvm_pmu_kind_of(struct perf_event *event)
{
	return kvm_pmu_kind(&to_kvm_pmu_config(event)->attr);
}

/*
 * A group counts as a whole, or not at all.  As for x86's own PMU, siblings that
 * are disabled do not count.
 */
static bool kvm_pmu_group_fits(struct perf_event *event,
			       const struct guest_perf_attr *attr)
{
	struct perf_event *leader = event->group_leader, *sibling;
	struct kvm_pmu_use use = { };

	if (leader == event)
		return true;

	kvm_pmu_add_use(&use, kvm_pmu_kind(attr));
	if (leader->pmu == event->pmu)
		kvm_pmu_add_use(&use, kvm_pmu_kind_of(leader));
	for_each_sibling_event(sibling, leader) {
		if (sibling->pmu == event->pmu &&
		    sibling->state > PERF_EVENT_STATE_OFF)
			kvm_pmu_add_use(&use, kvm_pmu_kind_of(sibling));
	}

	return use.fixed[KVM_PMU_FIXED_REF_CYCLES] <= 1 &&
	       use.general <= READ_ONCE(kvm_pmu_host.nr_counters);
}

/* Ask the host if it may be another one by now, which nothing has shown yet. */
static void kvm_pmu_see_host(struct guest_perf_query *host)
{
	struct kvm_pmu_cpu *cpu;
	unsigned long flags;

	local_irq_save(flags);
	cpu = this_kvm_pmu_cpu();
	if (kvm_pmu_area_is_stale(cpu))
		kvm_pmu_open_anew(cpu);
	else if (!cpu->epoch)
		/* Without an area nothing would tell that the host is another one. */
		kvm_pmu_query_host(&cpu->query);
	local_irq_restore(flags);
	kvm_pmu_get_host(host);
}

static void kvm_pmu_init_hw(struct perf_event *event,
			    struct kvm_pmu_config *config)
{
	event->pmu_private = config;
	event->destroy = kvm_pmu_destroy;
	/* For the event filter of a KVM on top. */
	event->hw.config = kvm_pmu_event_select(&config->attr);
	event->hw.idx = -1;
	event->hw.state = PERF_HES_STOPPED | PERF_HES_UPTODATE;
	kvm_pmu_user_init_event(event);
	if (config->attr.flags & KVM_PERF_ATTR_FREQ)
		kvm_pmu_hide_freq(event);
}

/*
 * A child counts what its parent counts.  The host is not asked: if it is another one by
 * now, and does not count that, the task must fork all the same.
 */
static int kvm_pmu_init_child(struct perf_event *event)
{
	struct kvm_pmu_config *config = to_kvm_pmu_config(event->parent);

	if (has_branch_stack(event))
		kvm_pmu_branches_init_event(event);
	kvm_pmu_config_share(config);
	kvm_pmu_init_hw(event, config);
	return 0;
}

/**
 * kvm_pmu_event_init - pmu->event_init: take an event, if it is one of this PMU
 * @event: the event
 *
 * Whether the host has it is found out by trying.  May sleep.
 *
 * Return: 0, -ENOENT for one of another PMU, or what x86's own PMU answers.
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

	/* perf would find it unsupported, x86's own PMU finds it wrong. */
	if (kvm_pmu_has_precise_only(&event->attr))
		return -EINVAL;

	branches = has_branch_stack(event) ? kvm_pmu_branches_init_event(event) :
					     0;
	kvm_pmu_guest_attr(event, &host, &attr);
	config = kvm_pmu_config_get(&attr);
	if (IS_ERR(config))
		return PTR_ERR(config);

	ret = kvm_pmu_config_check_period(config, event->attr.sample_period);
	/* x86's own PMU sees these last. */
	if (!ret)
		ret = branches;
	if (!ret && !kvm_pmu_group_fits(event, &attr))
		ret = -EINVAL;
	if (ret) {
		kvm_pmu_config_put(config);
		return ret;
	}

	kvm_pmu_init_hw(event, config);
	return 0;
}
