/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Paravirtual performance events, host side, event: finding an event, and locking it.
 */
#ifndef __KVM_X86_PV_PERF_HOME_H
#define __KVM_X86_PV_PERF_HOME_H

#include "pv_perf_event.h"

struct pv_perf_event *pv_perf_event_get(struct kvm *kvm, u32 id);
void pv_perf_event_put(struct pv_perf_event *event);
struct pv_perf_event *pv_perf_event_lock(struct pv_perf_event *event);
int pv_perf_event_get_locked_killable(struct kvm *kvm, u32 id,
				      struct pv_perf_event **event);
struct pv_perf_event *pv_perf_event_get_locked(struct kvm *kvm, u32 id);
void pv_perf_event_put_locked(struct pv_perf_event *event);

void pv_perf_lock_both(struct pv_perf_vcpu *a, struct pv_perf_vcpu *b);
void pv_perf_unlock_both(struct pv_perf_vcpu *a, struct pv_perf_vcpu *b);

void pv_perf_link(struct pv_perf_vcpu *home, struct pv_perf_event *event);
void pv_perf_unlink(struct pv_perf_event *event);

/* Does it count either the guest or its nested guests? */
static inline bool pv_perf_counts_one_mode(const struct pv_perf_event *event)
{
	return event->flags & (KVM_PERF_ATTR_EXCLUDE_GUEST |
			       KVM_PERF_ATTR_EXCLUDE_HOST);
}

static inline bool pv_perf_counts_kernel(const struct pv_perf_event *event)
{
	return !event->attr.exclude_kernel;
}

/* Does pv_perf_freq.c adapt the period of the event? */
static inline bool pv_perf_has_freq(const struct pv_perf_event *event)
{
	return READ_ONCE(event->freq.hz);
}

/* Is there anything that it does not count, but its counter would, or was it throttled? */
static inline bool pv_perf_may_be_stopped(const struct pv_perf_event *event)
{
	return pv_perf_counts_one_mode(event) || pv_perf_counts_kernel(event) ||
	       pv_perf_is_stopped(event);
}

#endif /* __KVM_X86_PV_PERF_HOME_H */
