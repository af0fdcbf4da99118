/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What differs between the kernels that the guest module is built for.
 */
#ifndef _KVM_PMU_COMPAT_H
#define _KVM_PMU_COMPAT_H

#include <linux/percpu.h>
#include <linux/perf_event.h>
#include <linux/slab.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 16, 0)
#include <asm/processor.h>
#define cpuid_base_hypervisor	hypervisor_cpuid_base
#else
#include <asm/cpuid/api.h>
#endif

/* Before 6.2 only PMUs with this may share the context of hardware events. */
#ifndef PERF_PMU_CAP_HETEROGENEOUS_CPUS
#define PERF_PMU_CAP_HETEROGENEOUS_CPUS	0
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0)

/*
 * Before 6.2 the perf context of a task points to the pmu that it was made
 * for until the task ends, and is used by the next pmu too.  So the pmu must
 * outlive the module, with a pmu_disable_count, which unregistering frees.
 */
static int __percpu *kvm_pmu_spare_count;

static inline int kvm_pmu_compat_init(void)
{
	kvm_pmu_spare_count = alloc_percpu(int);
	return kvm_pmu_spare_count ? 0 : -ENOMEM;
}

static inline void kvm_pmu_compat_exit(void)
{
	free_percpu(kvm_pmu_spare_count);
}

static inline void kvm_pmu_unregister(struct pmu *pmu)
{
	perf_pmu_unregister(pmu);
	pmu->pmu_disable_count = kvm_pmu_spare_count;
	kvm_pmu_spare_count = NULL;
}

#else

static inline int kvm_pmu_compat_init(void)
{
	return 0;
}

static inline void kvm_pmu_compat_exit(void)
{
}

static inline void kvm_pmu_unregister(struct pmu *pmu)
{
	perf_pmu_unregister(pmu);
	kfree(pmu);
}

#endif

#endif /* _KVM_PMU_COMPAT_H */
