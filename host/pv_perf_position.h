/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Paravirtual performance events, host side, seam: where a backing event is in its
 * period, and its counter stopped and started.
 */
#ifndef __KVM_X86_PV_PERF_POSITION_H
#define __KVM_X86_PV_PERF_POSITION_H

#include "pv_perf_event.h"

void pv_perf_backing_set_period(struct perf_event *backing, u64 period);
void pv_perf_backing_begin_period(struct perf_event *backing);
void pv_perf_backing_set_left(struct perf_event *backing, u64 left);
void pv_perf_backing_copy_position(const struct perf_event *from,
				   struct perf_event *to);

void pv_perf_backing_stop(struct perf_event *backing,
			  struct pv_perf_position *at);
void pv_perf_backing_restore(struct perf_event *backing,
			     const struct pv_perf_position *at);
bool pv_perf_backing_is_stopped(const struct perf_event *backing);
void pv_perf_backing_restart(struct perf_event *backing,
			     const struct pv_perf_position *at);
bool pv_perf_backing_add_one(struct perf_event *backing, bool readable,
			     bool writable);
struct pmu *pv_perf_backing_pmu_disable(const struct perf_event *backing);
void pv_perf_backing_pmu_enable(struct pmu *pmu);
struct pv_perf_position
pv_perf_backing_position(const struct perf_event *backing);

#endif /* __KVM_X86_PV_PERF_POSITION_H */
