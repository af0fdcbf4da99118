/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Paravirtual performance events, host side, core: which vCPU's events may count on a
 * thread, and how they get from one to another.
 */
#ifndef __KVM_X86_PV_PERF_THREAD_H
#define __KVM_X86_PV_PERF_THREAD_H

#include "pv_perf_event.h"

void pv_perf_vcpu_put(struct pv_perf_vcpu *pv);

void pv_perf_enter_thread(struct pv_perf_vcpu *here);
void pv_perf_leave_thread(struct pv_perf_vcpu *home);

void pv_perf_clear_thread(struct kvm_vcpu *vcpu);
void pv_perf_follow_thread(struct kvm_vcpu *vcpu);
int pv_perf_move_and_enable(struct kvm_vcpu *vcpu, struct pv_perf_event *event);

/* The backing event is fit to count guest execution on this thread. */
static inline bool pv_perf_is_here(struct kvm_vcpu *vcpu,
				   struct pv_perf_event *event)
{
	/* hw.target holds a reference: no other task can have this address. */
	return event->home == vcpu->arch.pv_perf &&
	       event->backing->hw.target == current;
}

#endif /* __KVM_X86_PV_PERF_THREAD_H */
