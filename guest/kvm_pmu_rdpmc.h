/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Paravirtual performance events, guest side: reading counters without the host.
 *
 * Where the host lets it, this CPU executes RDPMC.  The record says of which counter,
 * and what to add.  The host changes that only while this CPU does not run, so that
 * there is no order of loads to keep but the program's.
 */
#ifndef _KVM_PMU_RDPMC_H
#define _KVM_PMU_RDPMC_H

#include <linux/bitops.h>
#include <linux/compiler.h>

#include <asm/asm.h>

#include "kvm_pmu.h"

#define KVM_PMU_PMC_WIDTH	48

/* Faults on a host that does not allow it: this one has come there just now. */
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
 * kvm_pmu_rdpmc - read what a backing event has counted, without asking the host
 * @cpu: this CPU's, with interrupts off
 * @backing: the backing event
 * @count: set to its count, as the record would have it
 *
 * May be called in NMI context.
 *
 * Return: false if the count cannot be read so now.
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
	 * Afterwards: this CPU may have come to another host, where what it has
	 * read is something else.
	 */
	if (kvm_pmu_area_is_stale(cpu) || !READ_ONCE(cpu->host.epoch))
		return false;

	*count = offset + sign_extend64(value, KVM_PMU_PMC_WIDTH - 1);
	return true;
}

#endif /* _KVM_PMU_RDPMC_H */
