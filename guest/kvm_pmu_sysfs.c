// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, guest side: format/, events/, caps/ and rdpmc in
 * /sys/bus/event_source/devices/, named as x86's own PMU names them; and "clock", by which
 * the host's administrator puts what perf recorded in guests on the clock of the host's
 * perf.
 *
 * A hypercall that the host traces comes between two readings of the clock of the guest's
 * perf.  The host finds the hypercall in its trace by an id that no event has and by its
 * second argument, the first reading.
 */
#include <linux/cpu.h>
#include <linux/device.h>
#include <linux/kernel.h>
#include <linux/perf_event.h>
#include <linux/sched/clock.h>
#include <linux/smp.h>
#include <linux/sysfs.h>

#include <asm/perf_event.h>

#include "kvm_pmu.h"

/* AMD's event numbers have 12 bits, Intel's 8. */
static ssize_t event_show(struct device *dev, struct device_attribute *attr,
			  char *buf)
{
	struct guest_perf_query host;

	kvm_pmu_get_host(&host);
	if (host.raw_event_mask & GENMASK_ULL(35, 32))
		return sysfs_emit(buf, "config:0-7,32-35\n");

	return sysfs_emit(buf, "config:0-7\n");
}
static DEVICE_ATTR_RO(event);

PMU_FORMAT_ATTR(umask,	"config:8-15");
PMU_FORMAT_ATTR(edge,	"config:18");
PMU_FORMAT_ATTR(inv,	"config:23");
PMU_FORMAT_ATTR(cmask,	"config:24-31");

static struct attribute *kvm_pmu_format_attrs[] = {
	&dev_attr_event.attr,
	&format_attr_umask.attr,
	&format_attr_edge.attr,
	&format_attr_inv.attr,
	&format_attr_cmask.attr,
	NULL
};

static const struct attribute_group kvm_pmu_format_group = {
	.name	= "format",
	.attrs	= kvm_pmu_format_attrs,
};

/* As x86_event_sysfs_show(). */
static ssize_t hw_event_show(struct device *dev, struct device_attribute *attr,
			     char *buf)
{
	struct perf_pmu_events_attr *event_attr =
		container_of(attr, struct perf_pmu_events_attr, attr);
	u64 config = kvm_pmu_hw_select(event_attr->id);
	u64 umask = (config & ARCH_PERFMON_EVENTSEL_UMASK) >> 8;
	u64 cmask = (config & ARCH_PERFMON_EVENTSEL_CMASK) >> 24;
	int len;

	/* An earlier host had the event. */
	if (!config)
		return -EOPNOTSUPP;

	len = sysfs_emit(buf, "event=0x%02llx",
			 (config & 0xff) | (config >> 24 & 0xf00));
	if (umask)
		len += sysfs_emit_at(buf, len, ",umask=0x%02llx", umask);
	if (config & ARCH_PERFMON_EVENTSEL_EDGE)
		len += sysfs_emit_at(buf, len, ",edge");
	if (config & ARCH_PERFMON_EVENTSEL_INV)
		len += sysfs_emit_at(buf, len, ",inv");
	if (cmask)
		len += sysfs_emit_at(buf, len, ",cmask=0x%02llx", cmask);

	return len + sysfs_emit_at(buf, len, "\n");
}

PMU_EVENT_ATTR(cpu-cycles, hw_cpu_cycles, PERF_COUNT_HW_CPU_CYCLES,
	       hw_event_show);
PMU_EVENT_ATTR(instructions, hw_instructions, PERF_COUNT_HW_INSTRUCTIONS,
	       hw_event_show);
PMU_EVENT_ATTR(cache-references, hw_cache_references,
	       PERF_COUNT_HW_CACHE_REFERENCES, hw_event_show);
PMU_EVENT_ATTR(cache-misses, hw_cache_misses, PERF_COUNT_HW_CACHE_MISSES,
	       hw_event_show);
PMU_EVENT_ATTR(branch-instructions, hw_branch_instructions,
	       PERF_COUNT_HW_BRANCH_INSTRUCTIONS, hw_event_show);
PMU_EVENT_ATTR(branch-misses, hw_branch_misses, PERF_COUNT_HW_BRANCH_MISSES,
	       hw_event_show);
PMU_EVENT_ATTR(bus-cycles, hw_bus_cycles, PERF_COUNT_HW_BUS_CYCLES,
	       hw_event_show);
PMU_EVENT_ATTR(stalled-cycles-frontend, hw_stalled_frontend,
	       PERF_COUNT_HW_STALLED_CYCLES_FRONTEND, hw_event_show);
PMU_EVENT_ATTR(stalled-cycles-backend, hw_stalled_backend,
	       PERF_COUNT_HW_STALLED_CYCLES_BACKEND, hw_event_show);
PMU_EVENT_ATTR(ref-cycles, hw_ref_cycles, PERF_COUNT_HW_REF_CPU_CYCLES,
	       hw_event_show);

static struct attribute *kvm_pmu_events_attrs[] = {
	&hw_cpu_cycles.attr.attr,
	&hw_instructions.attr.attr,
	&hw_cache_references.attr.attr,
	&hw_cache_misses.attr.attr,
	&hw_branch_instructions.attr.attr,
	&hw_branch_misses.attr.attr,
	&hw_bus_cycles.attr.attr,
	&hw_stalled_frontend.attr.attr,
	&hw_stalled_backend.attr.attr,
	&hw_ref_cycles.attr.attr,
	NULL
};

/* Only the events that the host has. */
static umode_t kvm_pmu_event_is_visible(struct kobject *kobj,
					struct attribute *attr, int i)
{
	struct perf_pmu_events_attr *event_attr =
		container_of(attr, struct perf_pmu_events_attr, attr.attr);

	return kvm_pmu_hw_select(event_attr->id) ? attr->mode : 0;
}

static const struct attribute_group kvm_pmu_events_group = {
	.name		= "events",
	.attrs		= kvm_pmu_events_attrs,
	.is_visible	= kvm_pmu_event_is_visible,
};

/* perf asks for this much precise_ip with the modifier P. */
static ssize_t max_precise_show(struct device *dev,
				struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "0\n");
}
static DEVICE_ATTR_RO(max_precise);

static ssize_t pmu_name_show(struct device *dev, struct device_attribute *attr,
			     char *buf)
{
	return sysfs_emit(buf, "kvm_pmu\n");
}
static DEVICE_ATTR_RO(pmu_name);

static ssize_t counters_show(struct device *dev, struct device_attribute *attr,
			     char *buf)
{
	return sysfs_emit(buf, "%u\n", READ_ONCE(kvm_pmu_host.nr_counters));
}
static DEVICE_ATTR_RO(counters);

/* Who may read counters without asking the host. */
static ssize_t reads_show(struct device *dev, struct device_attribute *attr,
			  char *buf)
{
	const char *why_not = kvm_pmu_why_no_rdpmc();

	if (why_not)
		return sysfs_emit(buf, "none: %s\n", why_not);

	return sysfs_emit(buf, kvm_pmu_user_possible() ? "kernel user\n" :
							"kernel\n");
}
static DEVICE_ATTR_RO(reads);

/* Maximum number of branches of a sample. */
static ssize_t branches_show(struct device *dev, struct device_attribute *attr,
			     char *buf)
{
	return sysfs_emit(buf, "%u\n", kvm_pmu_branches_possible());
}
static DEVICE_ATTR_RO(branches);

static ssize_t hybrid_show(struct device *dev, struct device_attribute *attr,
			   char *buf)
{
	u32 model = READ_ONCE(kvm_pmu_host.model);

	return sysfs_emit(buf, "%d\n", kvm_pmu_is_hybrid(model));
}
static DEVICE_ATTR_RO(hybrid);

static struct attribute *kvm_pmu_caps_attrs[] = {
	&dev_attr_max_precise.attr,
	&dev_attr_hybrid.attr,
	&dev_attr_branches.attr,
	&dev_attr_pmu_name.attr,
	&dev_attr_counters.attr,
	&dev_attr_reads.attr,
	NULL
};

/* As x86's own PMU: perf takes the file for the capability. */
static umode_t kvm_pmu_cap_is_visible(struct kobject *kobj,
				      struct attribute *attr, int i)
{
	return attr != &dev_attr_branches.attr || kvm_pmu_branches_possible() ?
	       attr->mode : 0;
}

static const struct attribute_group kvm_pmu_caps_group = {
	.name		= "caps",
	.attrs		= kvm_pmu_caps_attrs,
	.is_visible	= kvm_pmu_cap_is_visible,
};

static ssize_t core_type_show(struct device *dev, struct device_attribute *attr,
			      char *buf)
{
	return sysfs_emit(buf, "%#x\n", READ_ONCE(kvm_pmu_core_type));
}

/* For events that are opened from now on. */
static ssize_t core_type_store(struct device *dev, struct device_attribute *attr,
			       const char *buf, size_t count)
{
	unsigned int type;
	int ret = kstrtouint(buf, 0, &type);

	if (ret)
		return ret;
	if (type > 0xff)
		return -EINVAL;

	WRITE_ONCE(kvm_pmu_core_type, type);
	return count;
}
static DEVICE_ATTR_RW(core_type);

static ssize_t rdpmc_show(struct device *dev, struct device_attribute *attr,
			  char *buf)
{
	return sysfs_emit(buf, "%d\n", kvm_pmu_user_allowed());
}

/* Refuse 2, which lets all programs execute RDPMC: the host does not allow that. */
static ssize_t rdpmc_store(struct device *dev, struct device_attribute *attr,
			   const char *buf, size_t count)
{
	unsigned int allowed;
	int ret = kstrtouint(buf, 0, &allowed);

	if (ret)
		return ret;
	if (allowed > 2)
		return -EINVAL;

	ret = allowed == 2 ? -EOPNOTSUPP : kvm_pmu_user_allow(allowed);
	return ret ? : count;
}
static DEVICE_ATTR_RW(rdpmc);

/* Maximum length of a line of "clock". */
#define KVM_PMU_CLOCK_LINE	64

struct kvm_pmu_clock {
	u64 before;
	u64 after;
};

/* IRQs off.  The host knows no such event, and does nothing. */
static void kvm_pmu_clock_measure(void *info)
{
	struct kvm_pmu_clock *clock = info;

	clock->before = local_clock();
	kvm_perf_op(KVM_PERF_OP_READ, KVM_PMU_NO_EVENT,
		    lower_32_bits(clock->before));
	clock->after = local_clock();
}

/* A line for each CPU, as many as fit in a page. */
static ssize_t clock_show(struct device *dev, struct device_attribute *attr,
			  char *buf)
{
	struct kvm_pmu_clock clock;
	unsigned int cpu;
	int len = 0;

	cpus_read_lock();
	for_each_online_cpu(cpu) {
		if (len > PAGE_SIZE - KVM_PMU_CLOCK_LINE)
			break;
		if (smp_call_function_single(cpu, kvm_pmu_clock_measure, &clock,
					     1))
			continue;
		len += sysfs_emit_at(buf, len, "%u %llu %llu\n", cpu,
				     clock.before, clock.after);
	}
	cpus_read_unlock();

	return len;
}
static DEVICE_ATTR_ADMIN_RO(clock);

static struct attribute *kvm_pmu_attrs[] = {
	&dev_attr_core_type.attr,
	&dev_attr_rdpmc.attr,
	&dev_attr_clock.attr,
	NULL
};

static const struct attribute_group kvm_pmu_group = {
	.attrs	= kvm_pmu_attrs,
};

const struct attribute_group *kvm_pmu_attr_groups[] = {
	&kvm_pmu_group,
	&kvm_pmu_format_group,
	&kvm_pmu_events_group,
	&kvm_pmu_caps_group,
	NULL
};
