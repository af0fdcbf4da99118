/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Paravirtual performance events, host side: the core.
 */
#ifndef __KVM_X86_PV_PERF_CORE_H
#define __KVM_X86_PV_PERF_CORE_H

#include "pv_perf_event.h"
#include "pv_perf_seam.h"

/* pv_perf_open.c */

int pv_perf_event_open(struct kvm_vcpu *vcpu, u32 id,
		       const struct perf_event_attr *attr, u64 flags, u8 core,
		       gpa_t record);
int pv_perf_event_close(struct kvm *kvm, u32 id);
void pv_perf_close_vm_events(struct kvm_vcpu *vcpu);
bool pv_perf_close_rest(struct kvm_vcpu *vcpu);
void pv_perf_close_vcpu_events(struct kvm_vcpu *vcpu);
void pv_perf_release_pmu(struct pv_perf_vm *vm);

/* pv_perf_ops.c */

int pv_perf_event_enable(struct kvm_vcpu *vcpu, u32 id);
int pv_perf_event_disable(struct kvm_vcpu *vcpu, u32 id, u64 *count);
int pv_perf_event_read(struct kvm *kvm, u32 id, u64 *count);
bool pv_perf_event_read_irqoff(struct kvm_vcpu *vcpu, u32 id);
int pv_perf_event_read_all(struct kvm_vcpu *vcpu);
int pv_perf_event_set_period(struct kvm_vcpu *vcpu, u32 id, u64 period);
int pv_perf_event_set_left(struct kvm_vcpu *vcpu, u32 id, u64 *left);

/* pv_perf_thread.c */

void pv_perf_vcpu_put(struct pv_perf_vcpu *pv);

void pv_perf_enter_thread(struct pv_perf_vcpu *here);
void pv_perf_leave_thread(struct pv_perf_vcpu *home);

void pv_perf_clear_thread(struct kvm_vcpu *vcpu);
void pv_perf_follow_thread(struct kvm_vcpu *vcpu);
void __pv_perf_follow_kind(struct kvm_vcpu *vcpu);

/* The vCPU's events continue on this CPU, whose kind may differ from the last CPU's. */
static inline void pv_perf_follow_kind(struct kvm_vcpu *vcpu)
{
	if (pv_perf_is_hybrid())
		__pv_perf_follow_kind(vcpu);
}

int pv_perf_move_and_enable(struct kvm_vcpu *vcpu, struct pv_perf_event *event);

/* Is the event's backing event fit to count guest execution on this thread? */
static inline bool pv_perf_is_here(const struct pv_perf_event *event)
{
	return pv_perf_backing_is_mine(event->backing) &&
	       pv_perf_fits_kind(event, event->home->kind);
}

/* pv_perf_start.c */

bool pv_perf_is_allowed(struct kvm *kvm, u64 select);
void pv_perf_apply_filter(struct kvm_vcpu *vcpu);
int pv_perf_start(struct pv_perf_vcpu *home, struct pv_perf_event *event,
		  struct perf_event *backing);
void pv_perf_note_lost(struct pv_perf_event *event);

/* pv_perf_overflow.c */

void pv_perf_overflow(struct perf_event *backing, struct perf_sample_data *data,
		      struct pt_regs *regs);
void pv_perf_overflow_in_host(struct pv_perf_event *event, u64 period);
void pv_perf_wake_vcpu(struct irq_work *irq_work);
void pv_perf_inject_nmi(struct kvm_vcpu *vcpu);

/* pv_perf_read.c */

bool pv_perf_read_here(struct pv_perf_event *event,
		       struct pv_perf_reading *reading);
void pv_perf_read(struct pv_perf_event *event, struct pv_perf_reading *reading);
int pv_perf_update_record(struct pv_perf_event *event, unsigned int overflows,
			  bool may_sleep, u64 *count);
bool pv_perf_has_news(const struct pv_perf_event *event);

/* pv_perf_mode.c */

void pv_perf_switch_modes(struct kvm_vcpu *vcpu);

/* False at most VM entries, so that they need not look at an event. */
static inline bool pv_perf_may_switch_modes(struct kvm_vcpu *vcpu)
{
	const struct pv_perf_vcpu *here = vcpu->arch.pv_perf;

	if (here->any_stopped || here->at_entry & PV_PERF_AT_ENTRY_MODES)
		return true;

	return here->at_entry & PV_PERF_AT_ENTRY_NMI &&
	       (vcpu->arch.nmi_injected || here->in_nmi);
}

void pv_perf_note_throttled(struct pv_perf_event *event,
			    const struct perf_event *backing);
void pv_perf_forget_stopped(struct pv_perf_event *event);
void pv_perf_set_left(struct pv_perf_event *event, u64 left);
int pv_perf_set_period(struct pv_perf_event *event, u64 period);

/* pv_perf_home.c */

void pv_perf_event_put(struct pv_perf_event *event);
struct pv_perf_event *pv_perf_event_get_locked_killable(struct kvm *kvm, u32 id);
struct pv_perf_event *pv_perf_event_get_locked(struct kvm *kvm, u32 id);
void pv_perf_event_put_locked(struct pv_perf_event *event);

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

/* Does its counter count more than the event counts, or was it throttled? */
static inline bool pv_perf_may_be_stopped(const struct pv_perf_event *event)
{
	return pv_perf_counts_one_mode(event) || pv_perf_counts_kernel(event) ||
	       pv_perf_is_stopped(event);
}

/* pv_perf_limit.c */

bool pv_perf_is_offered(struct kvm_vcpu *vcpu);
bool pv_perf_has_vpmu(struct kvm_vcpu *vcpu);
unsigned int pv_perf_max_events_per_vcpu(struct kvm *kvm);
unsigned int pv_perf_events_allowed(struct kvm *kvm);
unsigned int pv_perf_rate_allowed(struct kvm *kvm);
unsigned int pv_perf_counters_allowed(struct kvm *kvm);
void pv_perf_charge_open(struct kvm_vcpu *vcpu);
bool pv_perf_wait_to_open(struct kvm_vcpu *vcpu);
int pv_perf_charge_event(struct kvm_vcpu *vcpu);
int pv_perf_check_room(struct kvm_vcpu *vcpu);
bool pv_perf_charge_overflows(struct kvm_vcpu *vcpu, u64 n);
bool pv_perf_rate_exceeded(struct kvm_vcpu *vcpu);
s64 pv_perf_rate_time(struct kvm_vcpu *vcpu);

/* pv_perf_pmu.c */

extern struct pv_perf_host pv_perf_host;

void pv_perf_pmu_init(void);
bool pv_perf_query_pmu(struct guest_perf_query *pmu);
u32 pv_perf_model(void);
u8 pv_perf_retired_by(const struct guest_perf_query *pmu, u64 select);

#endif /* __KVM_X86_PV_PERF_CORE_H */
