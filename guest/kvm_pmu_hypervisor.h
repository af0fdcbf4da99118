/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Paravirtual performance events, guest side: a second PMU, for events that only the
 * hypervisor knows.
 */
#ifndef _KVM_PMU_HYPERVISOR_H
#define _KVM_PMU_HYPERVISOR_H

#include "kvm_pmu.h"

/* kvm_pmu_slot.c */
#ifndef KVM_PMU_WITHOUT_SLOTS
void kvm_pmu_hypervisor_update(struct perf_event *event);
void kvm_pmu_hypervisor_start(struct perf_event *event, int flags);
void kvm_pmu_hypervisor_stop(struct perf_event *event, int flags);
void kvm_pmu_hypervisor_try_again(struct kvm_pmu_cpu *cpu);
void kvm_pmu_hypervisor_new_area(struct kvm_pmu_cpu *cpu);
unsigned int kvm_pmu_slots_for(const struct kvm_pmu_cpu *cpu,
			       const struct perf_event *leader);
int kvm_pmu_slot_get(struct kvm_pmu_cpu *cpu, struct perf_event *event);
void kvm_pmu_slot_put(struct kvm_pmu_cpu *cpu, struct perf_event *event);
u32 kvm_pmu_slots_handle(struct kvm_pmu_cpu *cpu, struct pt_regs *regs);
void kvm_pmu_counts_add_users(unsigned long counts, int n);
bool kvm_pmu_counts_need(struct kvm_pmu_cpu *cpu, u32 counts);
void kvm_pmu_counts_reap(struct kvm_pmu_cpu *cpu);
#else
static inline void kvm_pmu_hypervisor_new_area(struct kvm_pmu_cpu *cpu)
{
}

static inline u32 kvm_pmu_slots_handle(struct kvm_pmu_cpu *cpu,
				       struct pt_regs *regs)
{
	return 0;
}

static inline void kvm_pmu_counts_reap(struct kvm_pmu_cpu *cpu)
{
}
#endif

/* kvm_pmu_hypervisor.c */
#ifndef KVM_PMU_WITHOUT_HYPERVISOR
void kvm_pmu_hypervisor_resched(struct kvm_pmu_cpu *cpu);
void kvm_pmu_hypervisor_register(void);
#else
static inline void kvm_pmu_hypervisor_resched(struct kvm_pmu_cpu *cpu)
{
}

static inline void kvm_pmu_hypervisor_register(void)
{
}
#endif

#endif /* _KVM_PMU_HYPERVISOR_H */
