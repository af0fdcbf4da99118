/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Paravirtual performance events, guest side: reading counters without the host.
 *
 * If the host allows it, this CPU executes RDPMC.  The record has the counter's index,
 * and the offset to add.  The host changes these only while this CPU does not run, so
 * the loads need no barriers.
 */
#ifndef _KVM_PMU_RDPMC_H
#define _KVM_PMU_RDPMC_H

#include <linux/bitops.h>
#include <linux/compiler.h>

#include <asm/asm.h>

#include "kvm_pmu.h"

#define KVM_PMU_PMC_WIDTH	48

/* RDPMC faults if this CPU has just come to a host that does not allow it. */
static __always_inline bool kvm_pmu_rdpmc_safe(u32 ecx, u64 *value)
{
	u32 low, high, failed = 1;

	asm volatile("1: rdpmc\n"
		     "   xor %[failed], %[failed]\n"
		     "2:\n"
		     _ASM_EXTABLE(1b, 2b)
		     : "=a" (low), "=d" (high), [failed] "+r" (failed)
		     : "c" (ecx)
		     : "memory");

	*value = (u64)high << 32 | low;
	return !failed;
}

static __always_inline u32 kvm_pmu_ecx(u32 pmc)
{
	/* KVM_PERF_PMC_FIXED, bit 14, is bit 30 there. */
	return ((pmc & KVM_PERF_PMC_INDEX) - 1) |
	       (pmc & KVM_PERF_PMC_FIXED) << 16;
}

/**
 * kvm_pmu_rdpmc - read the count of a backing event without asking the host
 * @cpu: this CPU's, with interrupts off
 * @backing: the backing event
 * @count: set to its count, as the record would have it
 *
 * NMI-safe.
 *
 * Return: false if the count cannot be read by RDPMC now.
 */
static __always_inline bool
kvm_pmu_rdpmc(const struct kvm_pmu_cpu *cpu,
	      const struct kvm_pmu_backing *backing, u64 *count)
{
	const struct guest_perf_event *record = &backing->record;
	unsigned int tries = KVM_PMU_MAX_TRIES;
	u64 value, offset;
	u32 pmc;

	do {
		pmc = READ_ONCE(record->pmc);
		if (!(pmc & KVM_PERF_PMC_INDEX) || !tries--)
			return false;

		offset = READ_ONCE(record->offset);
		if (!kvm_pmu_rdpmc_safe(kvm_pmu_ecx(pmc), &value))
			return false;
	} while (pmc != READ_ONCE(record->pmc));

	/*
	 * Check afterwards: this CPU may have come to another host, and have read some
	 * other counter there.
	 */
	if (kvm_pmu_area_is_stale(cpu) || !READ_ONCE(cpu->host.epoch))
		return false;

	*count = offset + sign_extend64(value, KVM_PMU_PMC_WIDTH - 1);
	return true;
}

#endif /* _KVM_PMU_RDPMC_H */
