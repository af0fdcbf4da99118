// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, guest side: format/ and events/ of the PMU of the
 * hypervisor's events in /sys/bus/event_source/devices/.
 *
 * It has no cpumask: each CPU counts its own, and so does a task.
 */
#include <linux/device.h>
#include <linux/perf_event.h>
#include <linux/sysfs.h>

#include "kvm_pmu.h"
#include "kvm_pmu_hypervisor.h"

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

PMU_EVENT_ATTR(exits, exits, KVM_PMU_EXITS, count_show);
PMU_EVENT_ATTR(exits-other, exits_other, KVM_PERF_COUNT_EXITS_OTHER,
	       count_show);
PMU_EVENT_ATTR(exits-io, exits_io, KVM_PERF_COUNT_EXITS_IO, count_show);
PMU_EVENT_ATTR(exits-mmio, exits_mmio, KVM_PERF_COUNT_EXITS_MMIO, count_show);
PMU_EVENT_ATTR(exits-msr, exits_msr, KVM_PERF_COUNT_EXITS_MSR, count_show);
PMU_EVENT_ATTR(exits-cpuid, exits_cpuid, KVM_PERF_COUNT_EXITS_CPUID,
	       count_show);
PMU_EVENT_ATTR(exits-hlt, exits_hlt, KVM_PERF_COUNT_EXITS_HLT, count_show);
PMU_EVENT_ATTR(exits-npf, exits_npf, KVM_PERF_COUNT_EXITS_NPF, count_show);
PMU_EVENT_ATTR(exits-interrupt, exits_interrupt,
	       KVM_PERF_COUNT_EXITS_INTERRUPT, count_show);
PMU_EVENT_ATTR(exits-nmi, exits_nmi, KVM_PERF_COUNT_EXITS_NMI, count_show);
PMU_EVENT_ATTR(exits-hypercall, exits_hypercall,
	       KVM_PERF_COUNT_EXITS_HYPERCALL, count_show);
PMU_EVENT_ATTR(exits-nested, exits_nested, KVM_PERF_COUNT_EXITS_NESTED,
	       count_show);
PMU_EVENT_ATTR(exits-pv-perf, exits_pv_perf, KVM_PERF_COUNT_EXITS_PV_PERF,
	       count_show);
PMU_EVENT_ATTR(injected-irqs, injected_irqs, KVM_PERF_COUNT_INJECTED_IRQS,
	       count_show);
PMU_EVENT_ATTR(preemptions, preemptions, KVM_PERF_COUNT_PREEMPTIONS,
	       count_show);
PMU_EVENT_ATTR(steal-ns, steal_ns, KVM_PERF_COUNT_STEAL_NS, count_show);
PMU_EVENT_ATTR(steal-ns.unit, steal_ns_unit, KVM_PERF_COUNT_STEAL_NS,
	       ns_unit_show);
PMU_EVENT_ATTR(steal-ns.scale, steal_ns_scale, KVM_PERF_COUNT_STEAL_NS,
	       ns_scale_show);
PMU_EVENT_ATTR(halt-ns, halt_ns, KVM_PERF_COUNT_HALT_NS, count_show);
PMU_EVENT_ATTR(halt-ns.unit, halt_ns_unit, KVM_PERF_COUNT_HALT_NS,
	       ns_unit_show);
PMU_EVENT_ATTR(halt-ns.scale, halt_ns_scale, KVM_PERF_COUNT_HALT_NS,
	       ns_scale_show);
PMU_EVENT_ATTR(host-ns, host_ns, KVM_PERF_COUNT_HOST_NS, count_show);
PMU_EVENT_ATTR(host-ns.unit, host_ns_unit, KVM_PERF_COUNT_HOST_NS,
	       ns_unit_show);
PMU_EVENT_ATTR(host-ns.scale, host_ns_scale, KVM_PERF_COUNT_HOST_NS,
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

/* Only what the host offers. */
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

const struct attribute_group *kvm_pmu_hypervisor_attr_groups[] = {
	&kvm_pmu_hypervisor_format_group,
	&kvm_pmu_hypervisor_events_group,
	NULL
};
