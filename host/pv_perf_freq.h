/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Paravirtual performance events, host side, features: events with a frequency.
 */
#ifndef __KVM_X86_PV_PERF_FREQ_H
#define __KVM_X86_PV_PERF_FREQ_H

#include "pv_perf_event.h"

void pv_perf_freq_init(struct pv_perf_event *event);
int pv_perf_freq_set(struct pv_perf_event *event, u64 hz);
void pv_perf_freq_set_left(struct pv_perf_event *event,
			   const struct pv_perf_reading *reading, u64 left);
void pv_perf_freq_overflow(struct pv_perf_event *event,
			   struct perf_event *backing);
void pv_perf_freq_tick(struct pv_perf_event *event);

#endif /* __KVM_X86_PV_PERF_FREQ_H */
