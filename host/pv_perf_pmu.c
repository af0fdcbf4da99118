// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, host side: the host's offer.
 */
#include <linux/module.h>
#include <linux/moduleparam.h>

#include <asm/perf_event.h>

#include "compat.h"
#include "kvm_pmu_query.h"
#include "pv_perf.h"
#include "pv_perf_core.h"
#include "pv_perf_seam.h"
#include "x86.h"
#include "pmu.h"

static bool __read_mostly pv_perf;
module_param(pv_perf, bool, 0444);
MODULE_PARM_DESC(pv_perf,
		 "offer paravirtual perf events to all guests; without, only to those whose VMM asks for them, and to none with enable_pmu=0 (default N)");

static bool pv_perf_is_amd(void)
{
	return boot_cpu_data.x86_vendor == X86_VENDOR_AMD ||
	       boot_cpu_data.x86_vendor == X86_VENDOR_HYGON;
}

/* The GuestOnly bit of the event selects: AMD APM volume 2, 13.2.1. */
static bool pv_perf_has_guest_only(const struct x86_pmu_capability *cap)
{
	if (!boot_cpu_has(X86_FEATURE_PERFCTR_CORE))
		return false;

	/* A CPU with these counters has the bit; a hypervisor may drop it. */
	return !boot_cpu_has(X86_FEATURE_HYPERVISOR) ||
	       pv_perf_pmc_has_guest_only(cap->num_counters_gp);
}

/* Can the PMU count guest execution alone? */
static bool pv_perf_pmu_splits_guest(const struct x86_pmu_capability *cap)
{
	if (pv_perf_is_amd())
		return pv_perf_has_guest_only(cap);

	/*
	 * VM entry and exit switch IA32_PERF_GLOBAL_CTRL, which needs version 2.  perf
	 * tells KVM the values for Intel's CPUs alone.  On other CPUs with VMX perf
	 * takes exclude_host, and counts the host all the same.
	 */
	return boot_cpu_data.x86_vendor == X86_VENDOR_INTEL && cap->version >= 2;
}

static u32 pv_perf_vendor(void)
{
	switch (boot_cpu_data.x86_vendor) {
	case X86_VENDOR_INTEL:
		return KVM_PERF_MODEL_INTEL;
	case X86_VENDOR_HYGON:
		return KVM_PERF_MODEL_HYGON;
	default:
		return KVM_PERF_MODEL_AMD;
	}
}

static u32 pv_perf_cpu_model(void)
{
	return pv_perf_vendor() |
	       boot_cpu_data.x86 << KVM_PERF_MODEL_FAMILY_SHIFT |
	       boot_cpu_data.x86_model |
	       (boot_cpu_has(X86_FEATURE_HYBRID_CPU) ? KVM_PERF_MODEL_HYBRID : 0);
}

/*
 * On a hybrid host, a guest may have as many counters as each kind of core has: where its
 * vCPUs run changes all the time, and an event that had a counter would lose it.
 */
static void pv_perf_query_counters(struct guest_perf_query *pmu)
{
	const struct pv_perf_kind *kind = pv_perf_kinds;
	unsigned int general = kind->pmcs.general, fixed = kind->pmcs.fixed;

	for (; kind < pv_perf_kinds + pv_perf_nr_kinds; kind++) {
		general = min(general, kind->pmcs.general);
		fixed = min(fixed, kind->pmcs.fixed);
	}

	pmu->nr_counters = general;
	pmu->fixed_counters = BIT(min_t(unsigned int, fixed,
					KVM_PERF_NR_FIXED_COUNTERS)) - 1;
}

/* The PMU of the CPUs.  raw_event_mask: as x86_pmu_hw_config() masks it. */
static bool pv_perf_query_cpu(struct guest_perf_query *pmu)
{
	int i;

	pv_perf_query_counters(pmu);
	if (!pmu->nr_counters)
		return false;

	pmu->raw_event_mask = pv_perf_is_amd() ? AMD64_RAW_EVENT_MASK :
						 X86_RAW_EVENT_MASK;
	for (i = 0; i < KVM_PERF_NR_HW_EVENTS; i++)
		pmu->hw_config[i] = perf_get_hw_event_config(i);
	pmu->model = pv_perf_cpu_model();

	return true;
}

/* The PMU that this host's own hypervisor offers it, if the module is there. */
static bool pv_perf_query_hypervisor(struct guest_perf_query *pmu)
{
	typeof(&kvm_pmu_query) query = symbol_get(kvm_pmu_query);
	bool has;

	if (!query)
		return false;

	has = query(pmu);
	symbol_put(kvm_pmu_query);
	if (!has)
		return false;

	/* Only the hypervisor knows which events have fixed counters. */
	pmu->fixed_counters = 0;
	/* This host cannot read branch records, so its guests cannot have them. */
	pmu->branches = 0;
	return pmu->features & KVM_PERF_FEATURE_NESTED;
}

/*
 * KVM's mediated virtual PMU takes the whole PMU: perf lets no VM have it while any
 * event of a guest is open, and the reverse.  A guest's event would keep it from all
 * VMs, so a host with the mediated PMU does not offer the pair.
 */
static bool pv_perf_is_displaced(void)
{
	return enable_mediated_pmu;
}

/*
 * Find out which counters there are.  Returns whether they can count guest execution
 * alone.  perf warns if a module asks it for the capabilities of a hybrid CPU; all of
 * those are Intel's, and their PMUs can.
 */
static bool pv_perf_find_counters(void)
{
	struct x86_pmu_capability cap;

	memset(pv_perf_kinds, 0, sizeof(pv_perf_kinds));
	pv_perf_nr_kinds = 1;
	if (boot_cpu_has(X86_FEATURE_HYBRID_CPU)) {
		pv_perf_kinds_init();
		return true;
	}

	perf_get_x86_pmu_capability(&cap);
	pv_perf_pmc_probe(&cap, &pv_perf_kinds[0].pmcs);
	return pv_perf_pmu_splits_guest(&cap);
}

static bool pv_perf_counters_are_writable(void)
{
	unsigned int i;

	for (i = 0; i < pv_perf_nr_kinds; i++) {
		if (!pv_perf_kinds[i].pmcs.writable)
			return false;
	}

	return true;
}

struct pv_perf_host pv_perf_host __read_mostly;

/**
 * pv_perf_pmu_init - find out what the host can offer
 *
 * Runs when KVM is loaded and knows whether guests have a PMU of its own.
 */
void pv_perf_pmu_init(void)
{
	struct pv_perf_host host = { };

	/* With enable_pmu=0 no guest may have events, unless pv_perf is set. */
	host.wanted = (pv_perf || enable_pmu) && !pv_perf_is_displaced();
	if (host.wanted) {
		host.own = pv_perf_find_counters() && pv_perf_query_cpu(&host.pmu);
		host.writable = pv_perf_counters_are_writable();
	}
	pv_perf_host = host;
}

/**
 * pv_perf_query_pmu - what may guests count?
 * @pmu: set to the answer
 *
 * May sleep.
 *
 * Return: false if guests may count nothing.
 */
bool pv_perf_query_pmu(struct guest_perf_query *pmu)
{
	*pmu = pv_perf_host.pmu;
	return pv_perf_host.own ||
	       (pv_perf_host.wanted && pv_perf_query_hypervisor(pmu));
}

/**
 * pv_perf_model - of which CPU model are raw events now?
 *
 * If this host is a guest itself, it may have come to another CPU.  May sleep.
 *
 * Return: KVM_PERF_MODEL_*, or 0 if there is none.
 */
u32 pv_perf_model(void)
{
	struct guest_perf_query pmu;

	return pv_perf_query_pmu(&pmu) ? pmu.model : 0;
}

/**
 * pv_perf_available - can this host offer paravirtual perf events?
 *
 * The answer is for a VMM that asks for them.
 */
bool pv_perf_available(void)
{
	struct guest_perf_query pmu;

	return pv_perf_query_pmu(&pmu);
}

/**
 * pv_perf_is_for_all - does this host offer events to VMs whose VMM does not ask?
 *
 * Decides whether KVM_GET_SUPPORTED_CPUID has KVM_FEATURE_PV_PERF, which VMMs pass on.
 */
bool pv_perf_is_for_all(void)
{
	return pv_perf && pv_perf_available();
}

/**
 * pv_perf_retired_by - does an event count instructions, or branches?
 * @pmu: what guests may count
 * @select: the event select of the event
 *
 * Decides like KVM's virtual PMU: by the encoding of perf's generic event.  A threshold,
 * an edge or an inversion makes another event.
 *
 * Return: bits of enum pv_perf_retired.
 */
u8 pv_perf_retired_by(const struct guest_perf_query *pmu, u64 select)
{
	select &= pmu->raw_event_mask;

	if (select == pmu->hw_config[PERF_COUNT_HW_INSTRUCTIONS])
		return PV_PERF_INSTRUCTION;
	if (select == pmu->hw_config[PERF_COUNT_HW_BRANCH_INSTRUCTIONS])
		return PV_PERF_BRANCH;

	return 0;
}
