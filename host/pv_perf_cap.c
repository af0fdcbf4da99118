// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, host side: the capabilities, by which a VMM learns
 * the limits of a VM, and sets lower ones.
 */

#include "kvm_perf.h"
#include "pv_perf.h"
#include "pv_perf_core.h"
#include "pv_perf_features.h"
#include "pv_perf_top.h"

/**
 * pv_perf_init_limits - set a VM's limits to the host's
 * @vm: of the VM; its @pmu is set
 *
 * If the VMM has to ask for events, the VM may have none yet.
 */
void pv_perf_init_limits(struct pv_perf_vm *vm)
{
	vm->max_events = pv_perf_is_for_all() ? UINT_MAX : 0;
	vm->max_rate = UINT_MAX;
	vm->max_counters = UINT_MAX;
	vm->counts = UINT_MAX;
	vm->rdpmc = pv_perf_rdpmc_unasked();
}

/* 1 if guests (@kvm is NULL), or the guests of @kvm, may read counters by RDPMC, or 0. */
static unsigned int pv_perf_rdpmc_allowed(struct kvm *kvm)
{
	return pv_perf_host.rdpmc == KVM_PERF_RDPMC_ALLOWED &&
	       (!kvm || kvm->arch.pv_perf->rdpmc);
}

/**
 * pv_perf_check_extension - KVM_CHECK_EXTENSION
 * @kvm: the VM, or NULL if /dev/kvm is asked
 * @cap: KVM_CAP_PV_PERF_*
 *
 * Return: the limit, for each vCPU; for KVM_CAP_PV_PERF_RDPMC 0 or 1, for
 * KVM_CAP_PV_PERF_COUNTS a bit for each KVM_PERF_COUNT_*.
 */
int pv_perf_check_extension(struct kvm *kvm, unsigned int cap)
{
	unsigned int max;

	if (!pv_perf_available())
		return 0;

	switch (cap) {
	case KVM_CAP_PV_PERF_RATE:
		max = pv_perf_rate_allowed(kvm);
		break;
	case KVM_CAP_PV_PERF_COUNTERS:
		max = pv_perf_counters_allowed(kvm);
		break;
	case KVM_CAP_PV_PERF_RDPMC:
		max = pv_perf_rdpmc_allowed(kvm);
		break;
	case KVM_CAP_PV_PERF_COUNTS:
		max = pv_perf_counts_allowed(kvm);
		break;
	default:
		max = pv_perf_max_events_per_vcpu(kvm);
	}

	return min_t(unsigned int, max, INT_MAX);
}

static unsigned int *pv_perf_vm_limit(struct pv_perf_vm *vm, unsigned int cap)
{
	switch (cap) {
	case KVM_CAP_PV_PERF_RATE:
		return &vm->max_rate;
	case KVM_CAP_PV_PERF_COUNTERS:
		return &vm->max_counters;
	case KVM_CAP_PV_PERF_RDPMC:
		return &vm->rdpmc;
	case KVM_CAP_PV_PERF_COUNTS:
		return &vm->counts;
	default:
		return &vm->max_events;
	}
}

static bool pv_perf_may_have(unsigned int cap, u64 limit)
{
	u64 host = pv_perf_check_extension(NULL, cap);

	return cap == KVM_CAP_PV_PERF_COUNTS ? !(limit & ~host) : limit <= host;
}

/**
 * pv_perf_enable_cap - KVM_ENABLE_CAP
 * @kvm: the VM
 * @cap: KVM_CAP_PV_PERF_*, and the limit
 *
 * Return: 0, or -EINVAL for more than the host allows, for anything but 0 in
 * the other arguments, or if the VM has a vCPU already.
 */
int pv_perf_enable_cap(struct kvm *kvm, const struct kvm_enable_cap *cap)
{
	int ret = -EINVAL;

	if (cap->args[1] || cap->args[2] || cap->args[3] ||
	    !pv_perf_may_have(cap->cap, cap->args[0]))
		return -EINVAL;

	/* No vCPU may have been told another limit. */
	mutex_lock(&kvm->lock);
	if (!kvm->created_vcpus) {
		*pv_perf_vm_limit(kvm->arch.pv_perf, cap->cap) = cap->args[0];
		ret = 0;
	}
	mutex_unlock(&kvm->lock);
	return ret;
}
