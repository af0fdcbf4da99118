// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, guest side: hypercalls, and what their results
 * mean.
 */
#include <linux/jiffies.h>

#include "kvm_pmu.h"

/* The host has not the feature any more; when to ask it again, in jiffies. */
static bool kvm_pmu_gone;
static unsigned long kvm_pmu_gone_until;

static void kvm_pmu_set_gone(void)
{
	kvm_pmu_warn(KVM_PMU_WARN_GONE);
	WRITE_ONCE(kvm_pmu_gone_until, jiffies + HZ);
	WRITE_ONCE(kvm_pmu_gone, true);
}

/**
 * kvm_pmu_host_is_gone - has the host the feature no more?
 *
 * To be asked before perf believes that an event counts.  Interrupts are off.
 */
bool kvm_pmu_host_is_gone(void)
{
	if (!READ_ONCE(kvm_pmu_gone))
		return false;

	if (time_before(jiffies, READ_ONCE(kvm_pmu_gone_until)))
		return true;

	if (kvm_perf_op(KVM_PERF_OP_READ, KVM_PERF_ID_ALL, 0) == -KVM_ENOSYS)
		kvm_pmu_set_gone();
	else
		WRITE_ONCE(kvm_pmu_gone, false);

	return READ_ONCE(kvm_pmu_gone);
}

/**
 * kvm_pmu_has_lost - does the host know no counter of this CPU any more?
 * @ret: the result of an operation on one that it should know
 */
bool kvm_pmu_has_lost(long ret)
{
	if (ret == -KVM_ENOSYS)
		kvm_pmu_set_gone();

	return ret == -KVM_ENOENT || ret == -KVM_ENOSYS;
}
