/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What modules lack of the kernel, and what differs between the kernels that
 * the guest module is built for.
 */
#ifndef _KVM_PMU_COMPAT_H
#define _KVM_PMU_COMPAT_H

#include <linux/kvm_para.h>
#include <linux/limits.h>
#include <linux/perf_event.h>
#include <linux/static_call.h>
#include <linux/syscore_ops.h>

#include <asm/apic.h>

int kvm_pmu_compat_init(void);
void kvm_pmu_compat_exit(void);
void kvm_pmu_compat_unregister(struct pmu *pmu);

/* Who loads a module wants to know why it was not. */
bool kvm_pmu_para_available(void);
bool kvm_pmu_para_has_feature(unsigned int feature);

#define kvm_para_available	kvm_pmu_para_available
#define kvm_para_has_feature	kvm_pmu_para_has_feature

/* The address of a function of the kernel's, NULL where it cannot be probed. */
void *kvm_pmu_find_function(const char *name);

/* For user mode to read counters. */
extern bool kvm_pmu_has_user;
void kvm_pmu_no_cr4_update(void *unused);
void kvm_pmu_compat_init_user(void);
void kvm_pmu_compat_exit_user(void);
DECLARE_STATIC_CALL(kvm_pmu_cr4_update, kvm_pmu_no_cr4_update);

#define cr4_update_pce		static_call(kvm_pmu_cr4_update)

/* Not exported, but found. */
extern bool kvm_pmu_has_overflow;
u64 kvm_pmu_steal_clock(int cpu);
DECLARE_STATIC_CALL(kvm_pmu_perf_overflow, perf_event_overflow);
DECLARE_STATIC_CALL(kvm_pmu_perf_account, perf_event_account_interrupt);
DECLARE_STATIC_CALL(kvm_pmu_steal, kvm_pmu_steal_clock);
DECLARE_STATIC_CALL(kvm_pmu_perf_resched, perf_pmu_resched);
DECLARE_STATIC_CALL(kvm_pmu_perf_took, perf_sample_event_took);

#define perf_event_overflow	static_call(kvm_pmu_perf_overflow)
#define perf_event_account_interrupt	static_call(kvm_pmu_perf_account)
#define paravirt_steal_clock	static_call(kvm_pmu_steal)
#define perf_pmu_resched	static_call_cond(kvm_pmu_perf_resched)
#define perf_sample_event_took	static_call_cond(kvm_pmu_perf_took)

/* What these inline functions call is not exported everywhere. */
#define apic_read(reg)		apic->read(reg)
#define apic_write(reg, value)	apic->write(reg, value)

#ifndef KVM_PMU_HAS_STRUCT_SYSCORE
/* What older kernels call takes no argument. */
struct kvm_pmu_syscore_ops {
	int (*suspend)(void *data);
	void (*resume)(void *data);
};

#define syscore_ops		kvm_pmu_syscore_ops

struct syscore {
	const struct syscore_ops *ops;
};

void kvm_pmu_compat_register_syscore(struct syscore *syscore);
void kvm_pmu_compat_unregister_syscore(struct syscore *syscore);
#define register_syscore	kvm_pmu_compat_register_syscore
#define unregister_syscore	kvm_pmu_compat_unregister_syscore
#endif

/* Not exported: as much as the host takes. */
#define sysctl_perf_event_sample_rate	INT_MAX

#endif /* _KVM_PMU_COMPAT_H */
