/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Paravirtual performance events, host side, event: what there is to offer.
 */
#ifndef __KVM_X86_PV_PERF_PMU_H
#define __KVM_X86_PV_PERF_PMU_H

#include "kvm_perf.h"
#include "pv_perf_event.h"

extern struct pv_perf_host pv_perf_host;

void pv_perf_pmu_init(void);
bool pv_perf_query_pmu(struct guest_perf_query *pmu);
u32 pv_perf_model(void);
unsigned int pv_perf_default_counters(const struct guest_perf_query *pmu);
u8 pv_perf_retired_by(const struct guest_perf_query *pmu, u64 select);

#endif /* __KVM_X86_PV_PERF_PMU_H */
