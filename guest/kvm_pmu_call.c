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
	if (!READ_ONCE(kvm_pmu_ended))
		kvm_pmu_warn(KVM_PMU_WARN_GONE);
	WRITE_ONCE(kvm_pmu_gone_until, jiffies + HZ);
	WRITE_ONCE(kvm_pmu_gone, true);
}

/**
 * kvm_pmu_host_is_gone - has the host the feature no more?
 * @ask: ask it again, however short a while ago it had none
 *
 * To be asked before perf believes that an event counts.  Interrupts are off.
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
 * kvm_pmu_result - what an operation on a counter has come to
 * @op: KVM_PERF_OP_*
 * @ret: its result
 *
 * Return:
 *
 * %KVM_PMU_DONE: it was done.
 *
 * %KVM_PMU_HOST_LOST: the host knows no counter of this CPU any more: it is
 * another one, has reset the vCPU, or has not the feature.
 *
 * %KVM_PMU_NO_COUNTER: the hardware has none for it now; of READ: its was taken
 * away, and the record is up to date.
 *
 * %KVM_PMU_TOO_OFTEN: what overflows may not start just now.
 *
 * %KVM_PMU_NO_SPACE: this VM may open no more.
 *
 * %KVM_PMU_EXISTS: the host knows this id already.
 *
 * %KVM_PMU_NOT_WRITTEN: done, but the record is out of date.
 *
 * %KVM_PMU_REFUSED: the host does not count that.
 */
enum kvm_pmu_result kvm_pmu_result(u32 op, long ret)
{
	switch (ret) {
	case 0:
		return KVM_PMU_DONE;
	case -KVM_ENOSYS:
		kvm_pmu_set_gone();
		return KVM_PMU_HOST_LOST;
	case -KVM_ENOENT:
		/* Of OPEN: the host's CPU has no such event. */
		return op == KVM_PERF_OP_OPEN ? KVM_PMU_REFUSED :
						KVM_PMU_HOST_LOST;
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
