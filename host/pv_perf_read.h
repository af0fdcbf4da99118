/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Paravirtual performance events, host side, event: what an event has counted, and how
 * the guest is told.
 */
#ifndef __KVM_X86_PV_PERF_READ_H
#define __KVM_X86_PV_PERF_READ_H

#include "pv_perf_event.h"

bool pv_perf_read_here(struct pv_perf_event *event,
		       struct pv_perf_reading *reading);
void pv_perf_read(struct pv_perf_event *event, struct pv_perf_reading *reading);
u64 pv_perf_event_count(struct pv_perf_event *event, u64 *enabled,
			u64 *running);
int pv_perf_update_record(struct pv_perf_event *event, unsigned int overflows,
			  bool may_sleep, u64 *count);
bool pv_perf_has_news(const struct pv_perf_event *event);

#endif /* __KVM_X86_PV_PERF_READ_H */
