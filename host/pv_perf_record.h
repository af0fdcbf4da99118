/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Paravirtual performance events, host side, memory: the records, in guest memory.
 */
#ifndef __KVM_X86_PV_PERF_RECORD_H
#define __KVM_X86_PV_PERF_RECORD_H

#include <linux/kvm_host.h>

#include "pv_perf_event.h"

int pv_perf_init_record(struct kvm *kvm, struct pv_perf_event *event,
			gpa_t gpa);
int pv_perf_write_pmc(struct kvm *kvm, struct pv_perf_event *event,
		      const struct pv_perf_pmc *pmc);
/**
 * pv_perf_record_is_stale - have the memslots changed since it was looked up?
 * @kvm: the VM; kvm->srcu is held for reading
 * @event: the event
 *
 * Looking it up again may sleep.
 */
static inline bool pv_perf_record_is_stale(struct kvm *kvm,
					   const struct pv_perf_event *event)
{
	return kvm_memslots(kvm)->generation != event->record.generation;
}

int pv_perf_write_record(struct kvm *kvm, struct pv_perf_event *event,
			 const struct pv_perf_reading *reading,
			 unsigned int overflows);

#endif /* __KVM_X86_PV_PERF_RECORD_H */
