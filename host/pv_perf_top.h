/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Paravirtual performance events, host side: functions that the files at the top have
 * of each other.
 */
#ifndef __KVM_X86_PV_PERF_TOP_H
#define __KVM_X86_PV_PERF_TOP_H

#include "pv_perf_event.h"

/* pv_perf_cap.c */

void pv_perf_init_limits(struct pv_perf_vm *vm);

/* pv_perf_deliver.c */

enum hrtimer_restart pv_perf_rate_timer(struct hrtimer *timer);

/**
 * enum pv_perf_when - when the guest is told
 * @PV_PERF_AT_NMI_EXIT: right at the exit for an NMI, where nothing may sleep
 * @PV_PERF_AT_REQUEST: before the vCPU enters the guest
 * @PV_PERF_AT_LEAVE: as KVM_RUN ends.  The VMM may save the guest's memory now, so all
 *	records of enabled events have to be up to date
 */
enum pv_perf_when {
	PV_PERF_AT_NMI_EXIT,
	PV_PERF_AT_REQUEST,
	PV_PERF_AT_LEAVE,
};

void pv_perf_deliver(struct kvm_vcpu *vcpu, enum pv_perf_when when);

/**
 * pv_perf_may_reenter - may a vCPU enter again right at its exit?
 * @vcpu: the vCPU, with interrupts off
 * @requests: of @vcpu->requests, those that the caller serves
 *
 * Other pending work comes first.  Where interrupts are off, nothing may take a lock that
 * sleeps on PREEMPT_RT.
 */
static inline bool pv_perf_may_reenter(const struct kvm_vcpu *vcpu, u64 requests)
{
	const struct pv_perf_vcpu *here = vcpu->arch.pv_perf;

	return READ_ONCE(vcpu->requests) == requests && here &&
	       !vcpu->arch.nmi_pending && !vcpu->guest_debug &&
	       !here->counts.wanted && !IS_ENABLED(CONFIG_PREEMPT_RT);
}

/* pv_perf_vm.c */

int pv_perf_vcpu_prepare(struct kvm_vcpu *vcpu);

#endif /* __KVM_X86_PV_PERF_TOP_H */
