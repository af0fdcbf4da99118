// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, guest side: the area of a CPU.
 *
 * The area's epoch tells whether the host has what was opened.  If the host does not, as
 * after a migration, the guest finds out by looking at the epoch: when perf wants
 * something, in an NMI, and ten times a second.  A new host finds KVM_PERF_LVTPC in the
 * local APIC, and sends an NMI at once.
 *
 * All runs on the area's CPU with interrupts off.
 */
#include <linux/gfp.h>
#include <linux/irq_work.h>

#include <asm/apic.h>

#include "compat.h"
#include "kvm_pmu.h"

/* No host has that: each has an odd one. */
#define KVM_PMU_NO_EPOCH	2

/**
 * kvm_pmu_area_alloc - get memory for the area of a CPU
 * @cpu: the CPU's
 *
 * Return: 0 or -ENOMEM.
 */
int kvm_pmu_area_alloc(struct kvm_pmu_cpu *cpu)
{
	BUILD_BUG_ON(PAGE_SIZE % GUEST_PERF_AREA_ALIGN);

	cpu->host.area = (void *)get_zeroed_page(GFP_KERNEL);
	return cpu->host.area ? 0 : -ENOMEM;
}

/**
 * kvm_pmu_area_free - free it
 * @cpu: the CPU's; the host does not write it any more
 */
void kvm_pmu_area_free(struct kvm_pmu_cpu *cpu)
{
	free_page((unsigned long)cpu->host.area);
}

/* Where x86's own PMU uses it, it is not masked. */
static void kvm_pmu_take_lvtpc(struct kvm_pmu_cpu *cpu)
{
	if (!boot_cpu_has(X86_FEATURE_APIC) ||
	    !(apic_read(APIC_LVTPC) & APIC_LVT_MASKED))
		return;

	apic_write(APIC_LVTPC, KVM_PERF_LVTPC);
	cpu->host.has_lvtpc = true;
}

/* Unless x86's own PMU has it now. */
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
 * An older host, or one without the feature, has none, which is no error.
 */
void kvm_pmu_area_set(struct kvm_pmu_cpu *cpu)
{
	/* An NMI may tell at any time that it is another host by now. */
	WRITE_ONCE(cpu->host.epoch, KVM_PMU_NO_EPOCH);
	cpu->host.area->size = sizeof(*cpu->host.area);
	WRITE_ONCE(cpu->host.area->epoch, 0);
	if (kvm_perf_op_addr(KVM_PERF_OP_SET_AREA, cpu->host.area, 0)) {
		/* A later host would tell what shows nowhere. */
		kvm_pmu_release_lvtpc(cpu);
		WRITE_ONCE(cpu->host.epoch, 0);
		return;
	}

	/* With 0, it is not: stale. */
	WRITE_ONCE(cpu->host.epoch, READ_ONCE(cpu->host.area->epoch) ? : KVM_PMU_NO_EPOCH);
	if (!cpu->host.has_lvtpc)
		kvm_pmu_take_lvtpc(cpu);
	/* Last: if the CPU comes to another host meanwhile, QUERY asks the new host. */
	kvm_pmu_query_host(&cpu->host.query);
}

/**
 * kvm_pmu_area_end - have it no more
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
 * kvm_pmu_area_tells - would an NMI tell that this CPU has come to another host?
 * @cpu: this CPU's
 *
 * Before it executes anything there.
 */
bool kvm_pmu_area_tells(const struct kvm_pmu_cpu *cpu)
{
	return cpu->host.has_lvtpc && READ_ONCE(cpu->host.epoch) &&
	       !kvm_pmu_area_is_stale(cpu);
}

/**
 * kvm_pmu_area_note_stale - as that, and have the work open anew what is open
 * @cpu: this CPU's
 *
 * May be called in NMI context.
 *
 * Return: true the first time.
 */
bool kvm_pmu_area_note_stale(struct kvm_pmu_cpu *cpu)
{
	return kvm_pmu_area_is_stale(cpu) && kvm_pmu_pend(cpu, KVM_PMU_OPEN_ANEW);
}
