// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, guest side: a second PMU, for events that only the
 * hypervisor knows.
 *
 * The host adds the events up in the area of each CPU.  The guest only asks it to
 * begin, and no counter can be missing: to perf these are software events, also in
 * groups with hardware events.  perf expects that software events can always be added.
 * If an event cannot, because no slot is free or the host does not count it, this file
 * has perf try again.
 *
 * Except for opening, closing and registering, all runs on the CPU of the event, with
 * interrupts off; start, stop and read also in NMI context.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/bitops.h>
#include <linux/capability.h>
#include <linux/device.h>
#include <linux/perf_event.h>
#include <linux/sysfs.h>

#include "compat.h"
#include "kvm_pmu.h"
#include "kvm_pmu_hypervisor.h"

/* hw.idx of an event that has been added and needs no slot. */
#define KVM_PMU_NO_SLOT		KVM_PERF_NR_SLOTS

/* Besides KVM_PERF_COUNT_*: the event that is the sum of several. */
#define KVM_PMU_EXITS		KVM_PERF_MAX_COUNTS

static struct pmu *kvm_pmu_hypervisor;

/*
 * The counts that an event adds up, by perf_event_attr.config: a bit for each
 * KVM_PERF_COUNT_*, 0 if there is no such event.
 */
static u32 kvm_pmu_hypervisor_counts(u64 config)
{
	if (config == KVM_PMU_EXITS)
		return GENMASK(KVM_PERF_COUNT_EXITS_HYPERCALL,
			       KVM_PERF_COUNT_EXITS_OTHER);

	return config < KVM_PERF_NR_COUNTS ? BIT(config) : 0;
}

static void kvm_pmu_hypervisor_read(struct perf_event *event)
{
	if (!event->hw.state)
		kvm_pmu_hypervisor_update(event);
}

static bool kvm_pmu_hypervisor_is_foreign(struct perf_event *event)
{
	return !is_software_event(event) && !kvm_pmu_is_ours(event);
}

/*
 * An NMI for a sample comes at an exit.  Accesses to a virtual PMU are exits, so the
 * NMI may interrupt its driver.  There the counters of the virtual PMU cannot be read,
 * nor stopped if perf throttles the group.
 */
static bool kvm_pmu_hypervisor_may_sample(struct perf_event *event)
{
	struct perf_event *leader = event->group_leader;
	struct perf_event *sibling;

	if (kvm_pmu_hypervisor_is_foreign(leader))
		return false;

	for_each_sibling_event(sibling, leader) {
		if (kvm_pmu_hypervisor_is_foreign(sibling))
			return false;
	}

	return true;
}

/* Returns whether the host counts the event and a sampling event has a slot. */
static bool kvm_pmu_hypervisor_find_room(struct kvm_pmu_cpu *cpu,
					 struct perf_event *event)
{
	if (!kvm_pmu_counts_need(cpu, event->hw.config))
		return false;

	event->hw.idx = KVM_PMU_NO_SLOT;
	return !is_sampling_event(event) || !kvm_pmu_slot_get(cpu, event);
}

/**
 * kvm_pmu_hypervisor_resched - have perf schedule these events of this CPU anew
 * @cpu: this CPU's
 *
 * Interrupts are off, and perf is not at work on them.
 */
void kvm_pmu_hypervisor_resched(struct kvm_pmu_cpu *cpu)
{
	/* Or events that perf takes off now would ask to try again. */
	cpu->hypervisor.waiting = false;
	/* The events of all PMUs: a group with such an event may be another PMU's. */
	perf_pmu_resched(NULL);
}

static int kvm_pmu_hypervisor_add(struct perf_event *event, int flags)
{
	struct kvm_pmu_cpu *cpu = this_kvm_pmu_cpu();

	if (is_sampling_event(event) && !kvm_pmu_hypervisor_may_sample(event))
		return -EOPNOTSUPP;

	kvm_pmu_set_stopped(event);
	if (!kvm_pmu_hypervisor_find_room(cpu, event)) {
		event->hw.idx = -1;
		cpu->hypervisor.waiting = true;
		cpu->hypervisor.room = kvm_pmu_slots_for(cpu, event->group_leader);
		return -EAGAIN;
	}

	if (flags & PERF_EF_START)
		kvm_pmu_hypervisor_start(event, flags);
	perf_event_update_userpage(event);
	return 0;
}

/*
 * A group that cannot be added as a whole gives its slots back.  Then there are no more
 * slots than when the event began to wait, and trying again would never end.
 */
static void kvm_pmu_hypervisor_leave_slot(struct kvm_pmu_cpu *cpu,
					  struct perf_event *event)
{
	kvm_pmu_slot_put(cpu, event);
	if (kvm_pmu_slots_for(cpu, NULL) > cpu->hypervisor.room)
		kvm_pmu_hypervisor_try_again(cpu);
}

static void kvm_pmu_hypervisor_del(struct perf_event *event, int flags)
{
	kvm_pmu_hypervisor_stop(event, PERF_EF_UPDATE);
	if (is_sampling_event(event))
		kvm_pmu_hypervisor_leave_slot(this_kvm_pmu_cpu(), event);
	event->hw.idx = -1;
	perf_event_update_userpage(event);
}

static void kvm_pmu_hypervisor_destroy(struct perf_event *event)
{
	kvm_pmu_counts_add_users(event->hw.config, -1);
}

/*
 * The address of a sample is exact, as precise_ip 2 asks for. exclude_host asks for
 * nested guests alone, and only their hypervisor knows the reasons of their exits.
 * sigtrap wants progress of user mode between two samples (perf warns), and the exit
 * for an interrupt window is one without progress.
 */
static bool kvm_pmu_hypervisor_supports(const struct perf_event_attr *attr)
{
	return !(attr->sample_type & PERF_SAMPLE_BRANCH_STACK) &&
	       attr->precise_ip < 3 && !attr->exclude_host && !attr->sigtrap;
}

/*
 * Every user whom perf_event_paranoid allows may count the events that the guest's own
 * instructions and devices cause, and how long the idle task has waited.  The other events
 * tell of the host, or of its other guests: when the host has an interrupt, how long it
 * works on an exit, when it runs something else, which memory it has taken away.
 */
#define KVM_PMU_OWN_COUNTS						  \
	(BIT(KVM_PERF_COUNT_EXITS_IO) | BIT(KVM_PERF_COUNT_EXITS_MMIO) |  \
	 BIT(KVM_PERF_COUNT_EXITS_MSR) | BIT(KVM_PERF_COUNT_EXITS_CPUID) | \
	 BIT(KVM_PERF_COUNT_EXITS_HLT) |				  \
	 BIT(KVM_PERF_COUNT_EXITS_HYPERCALL) |				  \
	 BIT(KVM_PERF_COUNT_EXITS_PV_PERF) |				  \
	 BIT(KVM_PERF_COUNT_INJECTED_IRQS) | BIT(KVM_PERF_COUNT_HALT_NS))

/* An inherited event needs no permission: its parent's opener had it. */
static bool kvm_pmu_hypervisor_allowed(const struct perf_event *event,
				       u32 counts)
{
	return !(counts & ~KVM_PMU_OWN_COUNTS) || event->parent ||
	       perfmon_capable();
}

static int kvm_pmu_hypervisor_event_init(struct perf_event *event)
{
	u32 counts;

	if (event->attr.type != event->pmu->type)
		return -ENOENT;

	counts = kvm_pmu_hypervisor_counts(event->attr.config);
	if (!counts || event->attr.config1 || event->attr.config2)
		return -EINVAL;

	/* If a child is on another host than its parent was, fork() must not fail. */
	if (!event->parent &&
	    ((counts & ~READ_ONCE(kvm_pmu_host.counts)) ||
	     !kvm_pmu_hypervisor_supports(&event->attr)))
		return -EOPNOTSUPP;

	if (!kvm_pmu_hypervisor_allowed(event, counts))
		return -EACCES;

	kvm_pmu_counts_add_users(counts, 1);
	event->destroy = kvm_pmu_hypervisor_destroy;
	event->hw.config = counts;
	event->hw.idx = -1;
	kvm_pmu_set_stopped(event);
	return 0;
}

PMU_FORMAT_ATTR(event, "config:0-7");

static struct attribute *kvm_pmu_hypervisor_format_attrs[] = {
	&format_attr_event.attr,
	NULL
};

static const struct attribute_group kvm_pmu_hypervisor_format_group = {
	.name	= "format",
	.attrs	= kvm_pmu_hypervisor_format_attrs,
};

static ssize_t count_show(struct device *dev, struct device_attribute *attr,
			  char *buf)
{
	struct perf_pmu_events_attr *event_attr =
		container_of(attr, struct perf_pmu_events_attr, attr);

	return sysfs_emit(buf, "event=0x%02llx\n", event_attr->id);
}

static ssize_t ns_unit_show(struct device *dev, struct device_attribute *attr,
			    char *buf)
{
	return sysfs_emit(buf, "ns\n");
}

static ssize_t ns_scale_show(struct device *dev, struct device_attribute *attr,
			     char *buf)
{
	return sysfs_emit(buf, "1\n");
}

/*
 * No dashes: perf of Linux 6.1 takes the two parts of a name with a dash for parts of events
 * wherever it reads them.  With "exits-msr", perf does not accept the name of the PMU msr.
 */
PMU_EVENT_ATTR(exits, exits, KVM_PMU_EXITS, count_show);
PMU_EVENT_ATTR(exits_other, exits_other, KVM_PERF_COUNT_EXITS_OTHER,
	       count_show);
PMU_EVENT_ATTR(exits_io, exits_io, KVM_PERF_COUNT_EXITS_IO, count_show);
PMU_EVENT_ATTR(exits_mmio, exits_mmio, KVM_PERF_COUNT_EXITS_MMIO, count_show);
PMU_EVENT_ATTR(exits_msr, exits_msr, KVM_PERF_COUNT_EXITS_MSR, count_show);
PMU_EVENT_ATTR(exits_cpuid, exits_cpuid, KVM_PERF_COUNT_EXITS_CPUID,
	       count_show);
PMU_EVENT_ATTR(exits_hlt, exits_hlt, KVM_PERF_COUNT_EXITS_HLT, count_show);
PMU_EVENT_ATTR(exits_npf, exits_npf, KVM_PERF_COUNT_EXITS_NPF, count_show);
PMU_EVENT_ATTR(exits_interrupt, exits_interrupt,
	       KVM_PERF_COUNT_EXITS_INTERRUPT, count_show);
PMU_EVENT_ATTR(exits_nmi, exits_nmi, KVM_PERF_COUNT_EXITS_NMI, count_show);
PMU_EVENT_ATTR(exits_hypercall, exits_hypercall,
	       KVM_PERF_COUNT_EXITS_HYPERCALL, count_show);
PMU_EVENT_ATTR(exits_nested, exits_nested, KVM_PERF_COUNT_EXITS_NESTED,
	       count_show);
PMU_EVENT_ATTR(exits_pv_perf, exits_pv_perf, KVM_PERF_COUNT_EXITS_PV_PERF,
	       count_show);
PMU_EVENT_ATTR(injected_irqs, injected_irqs, KVM_PERF_COUNT_INJECTED_IRQS,
	       count_show);
PMU_EVENT_ATTR(preemptions, preemptions, KVM_PERF_COUNT_PREEMPTIONS,
	       count_show);
PMU_EVENT_ATTR(steal_ns, steal_ns, KVM_PERF_COUNT_STEAL_NS, count_show);
PMU_EVENT_ATTR(steal_ns.unit, steal_ns_unit, KVM_PERF_COUNT_STEAL_NS,
	       ns_unit_show);
PMU_EVENT_ATTR(steal_ns.scale, steal_ns_scale, KVM_PERF_COUNT_STEAL_NS,
	       ns_scale_show);
PMU_EVENT_ATTR(halt_ns, halt_ns, KVM_PERF_COUNT_HALT_NS, count_show);
PMU_EVENT_ATTR(halt_ns.unit, halt_ns_unit, KVM_PERF_COUNT_HALT_NS,
	       ns_unit_show);
PMU_EVENT_ATTR(halt_ns.scale, halt_ns_scale, KVM_PERF_COUNT_HALT_NS,
	       ns_scale_show);
PMU_EVENT_ATTR(host_ns, host_ns, KVM_PERF_COUNT_HOST_NS, count_show);
PMU_EVENT_ATTR(host_ns.unit, host_ns_unit, KVM_PERF_COUNT_HOST_NS,
	       ns_unit_show);
PMU_EVENT_ATTR(host_ns.scale, host_ns_scale, KVM_PERF_COUNT_HOST_NS,
	       ns_scale_show);

static struct attribute *kvm_pmu_hypervisor_events_attrs[] = {
	&exits.attr.attr,
	&exits_other.attr.attr,
	&exits_io.attr.attr,
	&exits_mmio.attr.attr,
	&exits_msr.attr.attr,
	&exits_cpuid.attr.attr,
	&exits_hlt.attr.attr,
	&exits_npf.attr.attr,
	&exits_interrupt.attr.attr,
	&exits_nmi.attr.attr,
	&exits_hypercall.attr.attr,
	&exits_nested.attr.attr,
	&exits_pv_perf.attr.attr,
	&injected_irqs.attr.attr,
	&preemptions.attr.attr,
	&steal_ns.attr.attr,
	&steal_ns_unit.attr.attr,
	&steal_ns_scale.attr.attr,
	&halt_ns.attr.attr,
	&halt_ns_unit.attr.attr,
	&halt_ns_scale.attr.attr,
	&host_ns.attr.attr,
	&host_ns_unit.attr.attr,
	&host_ns_scale.attr.attr,
	NULL
};

/* sysfs shows only events that the host offers. */
static umode_t kvm_pmu_hypervisor_is_visible(struct kobject *kobj,
					     struct attribute *attr, int i)
{
	struct perf_pmu_events_attr *event_attr =
		container_of(attr, struct perf_pmu_events_attr, attr.attr);
	u32 counts = kvm_pmu_hypervisor_counts(event_attr->id);

	return counts & ~READ_ONCE(kvm_pmu_host.counts) ? 0 : attr->mode;
}

static const struct attribute_group kvm_pmu_hypervisor_events_group = {
	.name		= "events",
	.attrs		= kvm_pmu_hypervisor_events_attrs,
	.is_visible	= kvm_pmu_hypervisor_is_visible,
};

static const struct attribute_group *kvm_pmu_hypervisor_attr_groups[] = {
	&kvm_pmu_hypervisor_format_group,
	&kvm_pmu_hypervisor_events_group,
	NULL
};

static const struct pmu kvm_pmu_hypervisor_template = {
	.module		= THIS_MODULE,
	.attr_groups	= kvm_pmu_hypervisor_attr_groups,
	.task_ctx_nr	= perf_sw_context,
	.event_init	= kvm_pmu_hypervisor_event_init,
	.add		= kvm_pmu_hypervisor_add,
	.del		= kvm_pmu_hypervisor_del,
	.start		= kvm_pmu_hypervisor_start,
	.stop		= kvm_pmu_hypervisor_stop,
	.read		= kvm_pmu_hypervisor_read,
};

static int kvm_pmu_hypervisor_register_as(const char *name)
{
	int ret = kvm_pmu_register_copy(&kvm_pmu_hypervisor,
					&kvm_pmu_hypervisor_template,
					kvm_pmu_may_sample(), name, -1);

	if (!ret)
		pr_info("PMU '%s': %u events of the hypervisor\n", name,
			hweight32(kvm_pmu_host.counts));
	return ret;
}

/**
 * kvm_pmu_hypervisor_register - let perf use the PMU, if the host has these events
 */
void kvm_pmu_hypervisor_register(void)
{
	int ret;

	if (!(kvm_pmu_host.features & KVM_PERF_FEATURE_COUNTS) ||
	    !kvm_pmu_host.counts)
		return;

	ret = kvm_pmu_hypervisor_register_as("kvm");
	if (ret == -EEXIST)
		ret = kvm_pmu_hypervisor_register_as("kvm_hypervisor");
	if (ret)
		pr_warn("no events of the hypervisor: registering their PMU failed with %d\n",
			ret);
}
