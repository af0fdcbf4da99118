/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Paravirtual performance events, host side: the memory that the guest reads.
 */
#ifndef __KVM_X86_PV_PERF_MEMORY_H
#define __KVM_X86_PV_PERF_MEMORY_H

#include "pv_perf_event.h"

/**
 * pv_perf_is_stale - have the memslots changed since memory was looked up?
 * @kvm: the VM; kvm->srcu is held for reading
 * @where: of a record or an area
 *
 * Another look-up may sleep.
 */
static inline bool pv_perf_is_stale(struct kvm *kvm,
				    const struct gfn_to_hva_cache *where)
{
	return kvm_memslots(kvm)->generation != where->generation;
}

/* pv_perf_record.c */

/**
 * pv_perf_memory - where the VMM has a record or an area
 * @kvm: the VM; kvm->srcu is held for reading
 * @where: of the record or the area, its vCPU locked
 *
 * May sleep if pv_perf_is_stale().
 *
 * Return: its address, or NULL if the memory is gone or read-only.
 */
static inline void __user *pv_perf_memory(struct kvm *kvm,
					  struct gfn_to_hva_cache *where)
{
	if (pv_perf_is_stale(kvm, where) &&
	    kvm_gfn_to_hva_cache_init(kvm, where, where->gpa, where->len))
		return NULL;

	return kvm_is_error_hva(where->hva) ? NULL : (void __user *)where->hva;
}

int pv_perf_init_record(struct kvm *kvm, struct pv_perf_event *event,
			gpa_t gpa);
int pv_perf_write_pmc(struct kvm *kvm, struct pv_perf_event *event,
		      const struct pv_perf_pmc *pmc);
int pv_perf_write_record(struct kvm *kvm, struct pv_perf_event *event,
			 const struct pv_perf_reading *reading,
			 unsigned int overflows);

/* pv_perf_area.c */

int pv_perf_area_set(struct kvm_vcpu *vcpu, gpa_t gpa);
void pv_perf_area_end(struct kvm_vcpu *vcpu);
void pv_perf_area_end_all(struct kvm *kvm);
bool pv_perf_area_show_again(struct kvm_vcpu *vcpu);
void pv_perf_area_leave(struct kvm_vcpu *vcpu);

#endif /* __KVM_X86_PV_PERF_MEMORY_H */
