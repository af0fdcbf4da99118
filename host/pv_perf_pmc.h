/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Paravirtual performance events, host side, seam: the counters of a CPU.
 */
#ifndef __KVM_X86_PV_PERF_PMC_H
#define __KVM_X86_PV_PERF_PMC_H

#include "pv_perf_event.h"

/* How wide counters are, where guests may read them. */
#define PV_PERF_PMC_WIDTH	48

/* A prev_count is as wide as the counter, or has a sign that extends it. */
static inline s64 pv_perf_pmc_extend(s64 prev)
{
	return sign_extend64(prev, PV_PERF_PMC_WIDTH - 1);
}

bool pv_perf_pmc_has_guest_only(unsigned int general);
bool pv_perf_pmc_probe(struct pv_perf_pmc_layout *layout);
bool pv_perf_pmc_are_writable(void);
s64 pv_perf_pmc_read(const struct perf_event *backing);
void pv_perf_pmc_write(const struct perf_event *backing, s64 value);
bool pv_perf_pmc_exists(const struct pv_perf_pmc_layout *layout, u32 ecx);
bool pv_perf_pmc_add(const struct perf_event *backing,
		     struct pv_perf_pmcs *pmcs);
bool pv_perf_pmc_add_watchdog(const struct pv_perf_pmc_layout *layout,
			      struct pmu *pmu, struct pv_perf_pmcs *pmcs);
void pv_perf_pmc_clear_others(const struct pv_perf_pmc_layout *layout,
			      const struct pv_perf_pmcs *pmcs);
void pv_perf_pmc_of(struct pv_perf_event *event, struct pv_perf_pmc *pmc);
void pv_perf_pmc_see(struct pv_perf_event *event);
bool pv_perf_pmc_unchanged(const struct pv_perf_pmc_layout *layout,
			   struct pv_perf_vcpu *here);

#endif /* __KVM_X86_PV_PERF_PMC_H */
