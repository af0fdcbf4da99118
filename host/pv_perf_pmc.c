// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, host side: the counters that the host's CPUs have.
 */
#include <linux/bits.h>
#include <linux/smp.h>

#include <asm/msr.h>
#include <asm/perf_event.h>

#include "compat.h"
#include "compat_cpuid.h"
#include "pv_perf_seam.h"

/* A host that is not hybrid has one kind. */
struct pv_perf_kind pv_perf_kinds[PV_PERF_MAX_KINDS + 1] __read_mostly;
unsigned int pv_perf_nr_kinds __read_mostly;

/* From version 5 on there may be gaps (SDM volume 2A, CPUID, leaf 0AH, ECX). */
static bool pv_perf_fixed_have_gaps(const struct x86_pmu_capability *cap)
{
	u32 mask = cap->version < 5 ? 0 : cpuid_ecx(0xa);

	return mask & (mask + 1);
}

/*
 * All counters are read and cleared, so each must be there and be perf's alone.  On
 * Intel, version 6 has other MSRs for them, and the workaround for TSX_FORCE_ABORT uses
 * a counter.
 */
static bool pv_perf_pmc_are_known(const struct x86_pmu_capability *cap)
{
	/* AMD or Hygon: see pv_perf_pmu_splits_guest(). */
	if (boot_cpu_data.x86_vendor != X86_VENDOR_INTEL)
		return true;

	return cap->version < 6 && cap->num_counters_gp <= 8 &&
	       !pv_perf_fixed_have_gaps(cap) &&
	       !boot_cpu_has(X86_FEATURE_TSX_FORCE_ABORT);
}

/* IA32_PERF_CAPABILITIES.FW_WRITE: SDM volume 3B, Full-Width Writes. */
#define PV_PERF_CAP_FW_WRITE	BIT(13)

/* Without full-width writes, perf's counters are always near their end. */
static bool pv_perf_pmc_have_full_writes(void)
{
	u64 capabilities;

	if (boot_cpu_data.x86_vendor != X86_VENDOR_INTEL)
		return true;

	return boot_cpu_has(X86_FEATURE_PDCM) &&
	       !rdmsrq_safe(MSR_IA32_PERF_CAPABILITIES, &capabilities) &&
	       capabilities & PV_PERF_CAP_FW_WRITE;
}

/*
 * perf leaves counts in PERF_METRICS.  IA32_PERF_CAPABILITIES does not tell of it on
 * all CPUs that have it (erratum RPL018).  CPUs without fixed counter 3, slots, do not
 * have it.
 */
static bool pv_perf_has_metrics(const struct x86_pmu_capability *cap)
{
	u64 metrics;

	return boot_cpu_data.x86_vendor == X86_VENDOR_INTEL &&
	       cap->num_counters_fixed > 3 &&
	       !rdmsrq_safe(MSR_PERF_METRICS, &metrics);
}

/*
 * The event select is not in use: with interrupts off perf gives no counter to an
 * event, and an NMI enables only counters that had events.
 */
static bool pv_perf_keeps_guest_only(u32 msr, u64 select)
{
	u64 kept = 0;

	if (wrmsrq_safe(msr, select | AMD64_EVENTSEL_GUESTONLY) ||
	    rdmsrq_safe(msr, &kept))
		kept = 0;
	wrmsrq_safe(msr, select);

	return kept & AMD64_EVENTSEL_GUESTONLY;
}

struct pv_perf_guest_only {
	unsigned int	general;
	bool		tried;
	bool		kept;
};

/* IRQs off, on the CPU whose counters are tried. */
static void pv_perf_try_guest_only(void *info)
{
	struct pv_perf_guest_only *try = info;
	unsigned int i;
	u64 select;

	for (i = 0; i < try->general && !try->tried; i++) {
		u32 msr = MSR_F15H_PERF_CTL + 2 * i;

		if (rdmsrq_safe(msr, &select) ||
		    select & ARCH_PERFMON_EVENTSEL_ENABLE)
			continue;
		try->kept = pv_perf_keeps_guest_only(msr, select);
		try->tried = true;
	}
}

/**
 * pv_perf_pmc_has_guest_only - do event selects keep GuestOnly?
 * @general: number of general-purpose counters, with PERFCTR_CORE
 *
 * A hypervisor's PMU may drop the bit silently, like KVM's, and then counts this host
 * with its guests.  The first counter that is free on any CPU tells.
 *
 * Context: IRQs on. Waits for other CPUs.
 *
 * Return: false also if no CPU has a free counter.
 */
bool pv_perf_pmc_has_guest_only(unsigned int general)
{
	struct pv_perf_guest_only try = { .general = general };
	int cpu;

	for_each_online_cpu(cpu) {
		smp_call_function_single(cpu, pv_perf_try_guest_only, &try, 1);
		if (try.tried)
			break;
	}

	return try.kept;
}

/**
 * pv_perf_pmc_probe - find out which counters this CPU has, and all of its kind
 * @cap: its capabilities
 * @layout: set to the counters
 */
void pv_perf_pmc_probe(const struct x86_pmu_capability *cap,
		       struct pv_perf_pmc_layout *layout)
{
	*layout = (struct pv_perf_pmc_layout) {
		.general	= cap->num_counters_gp,
		.fixed		= cap->num_counters_fixed,
		.metrics	= pv_perf_has_metrics(cap),
		.known		= pv_perf_pmc_are_known(cap),
		.writable	= cap->bit_width_gp == PV_PERF_PMC_WIDTH &&
				  pv_perf_pmc_have_full_writes(),
	};
}

/* More than any CPU has whose counters are known. */
#define PV_PERF_PMC_MOST	16

/* How many MSRs from @msr on does this CPU have? */
static int pv_perf_count_msrs(u32 msr)
{
	u64 value;
	int n = 0;

	while (n < PV_PERF_PMC_MOST && !rdmsrq_safe(msr + n, &value))
		n++;

	return n;
}

/**
 * pv_perf_pmc_ask_cpu - the capabilities of this CPU of a hybrid host
 * @cap: set to them
 *
 * perf tells modules nothing of hybrid CPUs, and CPUID tells of the counters that cores
 * of all kinds have.  perf uses more on some kinds (intel_pmu_init()).  So this asks for
 * the MSRs.
 */
void pv_perf_pmc_ask_cpu(struct x86_pmu_capability *cap)
{
	union cpuid10_eax eax = { .full = cpuid_eax(0xa) };

	*cap = (struct x86_pmu_capability) {
		.version		= eax.split.version_id,
		.num_counters_gp	= pv_perf_count_msrs(MSR_ARCH_PERFMON_PERFCTR0),
		.num_counters_fixed	= pv_perf_count_msrs(MSR_CORE_PERF_FIXED_CTR0),
		.bit_width_gp		= eax.split.bit_width,
	};
}
