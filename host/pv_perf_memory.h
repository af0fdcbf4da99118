/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Paravirtual performance events, host side: the memory that the guest reads.
 */
#ifndef __KVM_X86_PV_PERF_MEMORY_H
#define __KVM_X86_PV_PERF_MEMORY_H

#include "pv_perf_event.h"

/* pv_perf_record.c */

int pv_perf_init_record(struct kvm *kvm, struct pv_perf_event *event,
			gpa_t gpa);
int pv_perf_write_pmc(struct kvm *kvm, struct pv_perf_event *event,
		      const struct pv_perf_pmc *pmc);
/**
 * pv_perf_record_is_stale - have the memslots changed since the record's look-up?
 * @kvm: the VM; kvm->srcu is held for reading
 * @event: the event
 *
 * Another look-up may sleep.
 */
static inline bool pv_perf_record_is_stale(struct kvm *kvm,
					   const struct pv_perf_event *event)
{
	return kvm_memslots(kvm)->generation != event->record.generation;
}

int pv_perf_write_record(struct kvm *kvm, struct pv_perf_event *event,
			 const struct pv_perf_reading *reading,
			 unsigned int overflows);

/* pv_perf_area.c */

int pv_perf_area_set(struct kvm_vcpu *vcpu, gpa_t gpa);
int pv_perf_area_refresh(struct kvm *kvm, struct pv_perf_area *area);
void pv_perf_area_end(struct kvm_vcpu *vcpu);
void pv_perf_area_end_all(struct kvm *kvm);
bool pv_perf_area_show_again(struct kvm_vcpu *vcpu);
void pv_perf_area_leave(struct kvm_vcpu *vcpu);

#endif /* __KVM_X86_PV_PERF_MEMORY_H */
