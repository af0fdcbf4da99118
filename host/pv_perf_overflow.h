/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Paravirtual performance events, host side, core: overflows.
 */
#ifndef __KVM_X86_PV_PERF_OVERFLOW_H
#define __KVM_X86_PV_PERF_OVERFLOW_H

#include "pv_perf_event.h"

void pv_perf_overflow(struct perf_event *backing, struct perf_sample_data *data,
		      struct pt_regs *regs);
void pv_perf_overflow_in_host(struct pv_perf_event *event, u64 period);
void pv_perf_wake_vcpu(struct irq_work *irq_work);
void pv_perf_inject_nmi(struct kvm_vcpu *vcpu);

#endif /* __KVM_X86_PV_PERF_OVERFLOW_H */
