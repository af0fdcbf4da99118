/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Paravirtual performance events, host side: finding an event, and locking it.
 */
#ifndef __KVM_X86_PV_PERF_HOME_H
#define __KVM_X86_PV_PERF_HOME_H

#include "pv_perf_event.h"

struct pv_perf_event *pv_perf_event_get(struct kvm *kvm, u32 id);
void pv_perf_event_put(struct pv_perf_event *event);
struct pv_perf_event *pv_perf_event_lock(struct pv_perf_event *event);
struct pv_perf_event *pv_perf_event_get_locked(struct kvm *kvm, u32 id);
void pv_perf_event_put_locked(struct pv_perf_event *event);

void pv_perf_lock_both(struct pv_perf_vcpu *a, struct pv_perf_vcpu *b);
void pv_perf_unlock_both(struct pv_perf_vcpu *a, struct pv_perf_vcpu *b);

void pv_perf_link(struct pv_perf_vcpu *home, struct pv_perf_event *event);
void pv_perf_unlink(struct pv_perf_event *event);

/* Does it count in one of the guest's two modes only? */
static inline bool pv_perf_excludes_mode(const struct pv_perf_event *event)
{
	return event->not_nested || event->only_nested;
}

#endif /* __KVM_X86_PV_PERF_HOME_H */
