/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Paravirtual performance events, host side, top: tells the guest of overflows and lost
 * counters.
 */
#ifndef __KVM_X86_PV_PERF_DELIVER_H
#define __KVM_X86_PV_PERF_DELIVER_H

#include "pv_perf_event.h"

enum hrtimer_restart pv_perf_rate_timer(struct hrtimer *timer);
void pv_perf_tell(struct kvm_vcpu *vcpu);
void pv_perf_update_records(struct kvm_vcpu *vcpu);

#endif /* __KVM_X86_PV_PERF_DELIVER_H */
