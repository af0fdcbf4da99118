/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Paravirtual performance events, host side: the records, in guest memory.
 */
#ifndef __KVM_X86_PV_PERF_RECORD_H
#define __KVM_X86_PV_PERF_RECORD_H

#include "pv_perf_event.h"

int pv_perf_init_record(struct kvm *kvm, struct pv_perf_event *event,
			gpa_t gpa);
int pv_perf_write_pmc(struct kvm *kvm, struct pv_perf_event *event,
		      const struct pv_perf_pmc *pmc);
bool pv_perf_record_is_stale(struct kvm *kvm, struct pv_perf_event *event);
int pv_perf_write_record(struct kvm *kvm, struct pv_perf_event *event,
			 const struct pv_perf_reading *reading,
			 unsigned int overflows);

#endif /* __KVM_X86_PV_PERF_RECORD_H */
