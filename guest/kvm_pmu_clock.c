// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, guest side: "clock" in sysfs, by which the
 * host's administrator puts what perf recorded in guests on the clock of the
 * host's perf.
 *
 * A hypercall that the host traces comes between two readings of the clock of
 * the guest's perf.  That it is this one is seen by an id that no event has, and
 * by the first of the readings, which it passes.
 */
#include <linux/cpu.h>
#include <linux/device.h>
#include <linux/sched/clock.h>
#include <linux/smp.h>
#include <linux/sysfs.h>

#include "kvm_pmu.h"

/* What a line of "clock" has at most. */
#define KVM_PMU_CLOCK_LINE	64

struct kvm_pmu_clock {
	u64 before;
	u64 after;
};

/* Interrupts are off.  The host knows no such event, and does nothing. */
static void kvm_pmu_clock_measure(void *info)
{
	struct kvm_pmu_clock *clock = info;

	clock->before = local_clock();
	kvm_perf_op(KVM_PERF_OP_READ, KVM_PMU_NO_EVENT,
		    lower_32_bits(clock->before));
	clock->after = local_clock();
}

/* A line for each CPU, as many as a page has. */
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
DEVICE_ATTR_ADMIN_RO(clock);
