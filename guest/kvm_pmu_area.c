// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, guest side: the area of a CPU.
 *
 * The area's epoch tells whether the host still has the open events.  If it does not,
 * for example after a migration, the guest finds out by the epoch: at each flush, in an
 * NMI, and ten times a second.  A new host finds KVM_PERF_LVTPC in the local APIC, and
 * sends an NMI at once.
 *
 * All runs on the area's CPU with interrupts off.
 */
#include <linux/irq_work.h>

#include <asm/apic.h>

#include "compat.h"
#include "kvm_pmu.h"

/* No host has this epoch: a host's epoch is odd. */
#define KVM_PMU_NO_EPOCH	2

/* If x86's own PMU uses LVTPC, it is not masked: leave it alone. */
static void kvm_pmu_take_lvtpc(struct kvm_pmu_cpu *cpu)
{
	if (!boot_cpu_has(X86_FEATURE_APIC) ||
	    !(apic_read(APIC_LVTPC) & APIC_LVT_MASKED))
		return;

	apic_write(APIC_LVTPC, KVM_PERF_LVTPC);
	cpu->host.has_lvtpc = true;
}

/* If x86's own PMU has LVTPC now, leave it alone. */
static void kvm_pmu_release_lvtpc(struct kvm_pmu_cpu *cpu)
{
	if (cpu->host.has_lvtpc && apic_read(APIC_LVTPC) == KVM_PERF_LVTPC)
		apic_write(APIC_LVTPC, APIC_LVT_MASKED);
	cpu->host.has_lvtpc = false;
}

/**
 * kvm_pmu_area_set - have the host keep this CPU's area up to date
 * @cpu: this CPU's
 *
 * A host without areas, or without the feature, is no error.
 */
void kvm_pmu_area_set(struct kvm_pmu_cpu *cpu)
{
	BUILD_BUG_ON(PAGE_SIZE % GUEST_PERF_AREA_ALIGN);

	/* Stale: from here on, an NMI may find another host at any time. */
	WRITE_ONCE(cpu->host.epoch, KVM_PMU_NO_EPOCH);
	cpu->host.area->size = sizeof(*cpu->host.area);
	WRITE_ONCE(cpu->host.area->epoch, 0);
	if (kvm_perf_op_addr(KVM_PERF_OP_SET_AREA, cpu->host.area, 0)) {
		/* Without an area, a later host's NMI would find nothing. */
		kvm_pmu_release_lvtpc(cpu);
		WRITE_ONCE(cpu->host.epoch, 0);
		return;
	}

	/* If the epoch is 0, the host does not keep the area any more: stale. */
	WRITE_ONCE(cpu->host.epoch, READ_ONCE(cpu->host.area->epoch) ? : KVM_PMU_NO_EPOCH);
	if (!cpu->host.has_lvtpc)
		kvm_pmu_take_lvtpc(cpu);
	/* Last: if the CPU comes to another host meanwhile, QUERY asks the new host. */
	kvm_pmu_query_host(&cpu->host.query);
}

/**
 * kvm_pmu_area_end - have the host keep this CPU's area no more
 * @cpu: this CPU's
 */
void kvm_pmu_area_end(struct kvm_pmu_cpu *cpu)
{
	kvm_pmu_release_lvtpc(cpu);
	kvm_perf_op(KVM_PERF_OP_SET_AREA, 0, 0);
	WRITE_ONCE(cpu->host.area->epoch, 0);
	WRITE_ONCE(cpu->host.epoch, 0);
	cpu->hypervisor.counted = 0;
}

/**
 * kvm_pmu_area_tells - does an NMI tell this CPU of another host before it runs on?
 * @cpu: this CPU's
 */
bool kvm_pmu_area_tells(const struct kvm_pmu_cpu *cpu)
{
	return cpu->host.has_lvtpc && READ_ONCE(cpu->host.epoch) &&
	       !kvm_pmu_area_is_stale(cpu);
}
