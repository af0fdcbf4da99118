/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Paravirtual performance events, host side: nested guests.
 */
#ifndef __KVM_X86_PV_PERF_MODE_H
#define __KVM_X86_PV_PERF_MODE_H

#include "pv_perf_event.h"

void pv_perf_switch_mode(struct pv_perf_event *event, bool nested,
			 struct pmu **pmu);
void pv_perf_set_left(struct pv_perf_event *event, u64 left);
int pv_perf_set_period(struct pv_perf_event *event, u64 period);

#endif /* __KVM_X86_PV_PERF_MODE_H */
