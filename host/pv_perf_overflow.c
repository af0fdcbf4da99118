// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, host side: perf's callback for an overflow, and the
 * NMI for the guest.
 *
 *	pv_perf_overflow()		NMI context, no lock
 *	  pv_perf_note_overflow()	adds to two numbers; pv_perf_features.overflow()
 *	  pv_perf_note_throttled()	if perf has throttled the event
 *	  kvm_make_request()		the rest of the way is in pv_perf_deliver.c
 *	  irq_work_queue()		if the vCPU may be about to halt:
 *	    pv_perf_wake_vcpu()		injects an NMI, and kicks the vCPU
 *
 * pv_perf_overflow_in_host() does the same for an instruction that KVM completes:
 * pv_perf_retire.c.
 */

#include "pv_perf_core.h"
#include "pv_perf_seam.h"
#include "x86.h"

static void pv_perf_note_overflow(struct pv_perf_event *event,
				  struct perf_event *backing, u64 period)
{
	atomic64_add(period, &event->passed);
	atomic_inc(&event->overflows);
	if (pv_perf_has_freq(event))
		pv_perf_features.overflow(event, backing);
}

/**
 * pv_perf_overflow - a backing event has overflowed
 * @backing: the backing event
 * @data: its period
 * @regs: what was interrupted
 *
 * In NMI context, on the backing event's thread: note it, and have the vCPU see
 * it before it enters the guest.
 */
void pv_perf_overflow(struct perf_event *backing, struct perf_sample_data *data,
		      struct pt_regs *regs)
{
	struct pv_perf_event *event = backing->overflow_handler_context;
	struct pv_perf_vcpu *home = READ_ONCE(event->home);

	pv_perf_note_overflow(event, backing, data->period);
	if (pv_perf_backing_is_throttled(backing))
		pv_perf_note_throttled(event, backing);
	WRITE_ONCE(home->counts.overflowed, true);
	kvm_make_request(KVM_REQ_PV_PERF, home->vcpu);

	/*
	 * If the NMI ended guest mode, a check for requests follows.  If it came later,
	 * the vCPU may be about to halt, and the request alone would not wake it.
	 */
	if (!kvm_handling_nmi_from_guest(home->vcpu))
		irq_work_queue(&home->irq_work);
}

/**
 * pv_perf_overflow_in_host - an instruction that KVM completed has ended a period
 * @event: the event, whose next period has begun
 * @period: the period that has ended
 *
 * On the vCPU's thread, in the host, before it enters the guest.  The irq_work is for
 * an instruction that is a HLT: the vCPU would halt.
 */
void pv_perf_overflow_in_host(struct pv_perf_event *event, u64 period)
{
	struct pv_perf_vcpu *home = event->home;

	pv_perf_note_overflow(event, event->backing, period);
	kvm_make_request(KVM_REQ_PV_PERF, home->vcpu);
	irq_work_queue(&home->irq_work);
}

/**
 * pv_perf_wake_vcpu - have a vCPU that may be halted deliver its overflows
 * @irq_work: of its struct pv_perf_vcpu
 */
void pv_perf_wake_vcpu(struct irq_work *irq_work)
{
	struct pv_perf_vcpu *pv = container_of(irq_work, struct pv_perf_vcpu,
					       irq_work);

	/* The vCPU may have delivered them since, on its way into the guest. */
	if (!kvm_test_request(KVM_REQ_PV_PERF, pv->vcpu))
		return;

	WRITE_ONCE(pv->counts.nmi_is_ours, true);
	kvm_inject_nmi(pv->vcpu);
	kvm_vcpu_kick(pv->vcpu);
}

/**
 * pv_perf_inject_nmi - have the guest look at its events
 * @vcpu: the vCPU, on its own thread
 *
 * An NMI that is pending already is enough: the guest looks at all its events on any
 * NMI.  While a nested guest runs, an NMI that is to be injected again is the nested
 * guest's.
 */
void pv_perf_inject_nmi(struct kvm_vcpu *vcpu)
{
	bool injected = vcpu->arch.nmi_injected && !is_guest_mode(vcpu);

	WRITE_ONCE(vcpu->arch.pv_perf->counts.nmi_is_ours, true);
	if (!injected && !vcpu->arch.nmi_pending &&
	    !atomic_read(&vcpu->arch.nmi_queued))
		kvm_inject_nmi(vcpu);
}
