// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, host side: VMs and vCPUs come and go, run and
 * stop.  If a thread runs another vCPU, or another thread runs a vCPU:
 *
 *	pv_perf_vcpu_run()
 *	  pv_perf_run_area()		has the VMM restored the vCPU?  pv_perf_vcpu_reset()
 *	  pv_perf_clear_thread()
 *	    pv_perf_park()		each event of the vCPU that it ran before
 *	  pv_perf_follow_kind()		another kind of core: pv_perf_go_on(), too
 *	  pv_perf_follow_thread()
 *	    pv_perf_go_on()		each enabled event: as in pv_perf_thread.c
 *	    pv_perf_enter_thread()
 */
#include <linux/slab.h>

#include "compat.h"
#include "pv_perf.h"
#include "pv_perf_core.h"
#include "pv_perf_features.h"
#include "pv_perf_memory.h"
#include "pv_perf_top.h"
#include "lapic.h"
#include "x86.h"

static void pv_perf_open_features(struct pv_perf_event *event, u64 flags)
{
	struct kvm_vcpu *vcpu = event->home->vcpu;

	if (pv_perf_rdpmc_vcpu(vcpu) == KVM_PERF_RDPMC_ALLOWED)
		event->flags |= flags & KVM_PERF_ATTR_RDPMC;
	if (vcpu->kvm->arch.pv_perf->pmu.branches && event->attr.sample_period)
		event->flags |= flags & KVM_PERF_ATTR_BRANCHES;
	pv_perf_freq_init(event);
}

/**
 * pv_perf_init - called when KVM is loaded and knows whether guests have its own PMU
 */
void pv_perf_init(void)
{
	pv_perf_pmu_init();
	if (pv_perf_host.own)
		pv_perf_host.pmu.branches = pv_perf_branches_probe();
	pv_perf_host.rdpmc = pv_perf_rdpmc_host(&pv_perf_host);

	pv_perf_features = (struct pv_perf_features) {
		.open		= pv_perf_open_features,
		.end_rdpmc	= pv_perf_rdpmc_end,
		.set_freq	= pv_perf_freq_set,
		.set_left	= pv_perf_freq_set_left,
		.overflow	= pv_perf_freq_overflow,
	};
}

/**
 * pv_perf_init_vm - prepare a VM for events
 * @kvm: the VM
 *
 * Return: 0 or -ENOMEM.
 */
int pv_perf_init_vm(struct kvm *kvm)
{
	struct pv_perf_vm *vm = kzalloc_obj(*vm, GFP_KERNEL_ACCOUNT);

	if (!vm)
		return -ENOMEM;

	xa_init_flags(&vm->events, XA_FLAGS_ACCOUNT);
	vm->available = pv_perf_query_pmu(&vm->pmu);
	pv_perf_init_limits(vm);
	kvm->arch.pv_perf = vm;
	return 0;
}

/**
 * pv_perf_destroy_vm - undo pv_perf_init_vm()
 * @kvm: the VM, whose vCPUs are destroyed and have closed their events
 */
void pv_perf_destroy_vm(struct kvm *kvm)
{
	struct pv_perf_vm *vm = kvm->arch.pv_perf;

	WARN_ON_ONCE(!xa_empty(&vm->events));
	xa_destroy(&vm->events);
	pv_perf_release_pmu(vm);
	kfree(vm);
}

/**
 * pv_perf_vcpu_prepare - allocate the state of a vCPU
 * @vcpu: the vCPU, by its own thread
 *
 * On first use: few of a host's vCPUs may ever have an event.  May sleep.
 *
 * Return: 0 or -ENOSPC.
 */
int pv_perf_vcpu_prepare(struct kvm_vcpu *vcpu)
{
	struct pv_perf_vcpu *pv;

	if (vcpu->arch.pv_perf)
		return 0;

	pv = kzalloc_obj(*pv, GFP_KERNEL_ACCOUNT);
	if (!pv)
		return -ENOSPC;

	refcount_set(&pv->refs, 1);
	mutex_init(&pv->lock);
	INIT_LIST_HEAD(&pv->events);
	raw_spin_lock_init(&pv->enter_lock);
	pv->vcpu = vcpu;
	pv->kind = &pv_perf_kinds[0];
	pv->restored = true;
	/* Hard: at once on PREEMPT_RT, too. */
	pv->irq_work = IRQ_WORK_INIT_HARD(pv_perf_wake_vcpu);
	hrtimer_setup(&pv->rate_timer, pv_perf_rate_timer, CLOCK_MONOTONIC,
		      HRTIMER_MODE_ABS);
	/* Pairs with READ_ONCE() of other vCPUs' threads and debugfs. */
	smp_store_release(&vcpu->arch.pv_perf, pv);
	return 0;
}

static bool pv_perf_vcpu_has_events(struct kvm_vcpu *vcpu)
{
	return vcpu->arch.pv_perf && !list_empty(&vcpu->arch.pv_perf->events);
}

/* A guest that had an area on another host has left this entry in its local APIC. */
static bool pv_perf_has_lvtpc(struct kvm_vcpu *vcpu)
{
	return lapic_in_kernel(vcpu) &&
	       kvm_lapic_get_reg(vcpu->arch.apic, APIC_LVTPC) == KVM_PERF_LVTPC;
}

/*
 * If the vCPU has no area, the VMM may have restored the registers of a guest that had an
 * area on another host.
 *
 * Returns true if the VMM has restored the guest's memory: the vCPU is to be reset.
 */
static bool pv_perf_run_area(struct kvm_vcpu *vcpu)
{
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;

	if (here && READ_ONCE(here->area.epoch))
		return pv_perf_area_show_again(vcpu);

	if ((!here || here->restored) && pv_perf_has_lvtpc(vcpu)) {
		/* If there is no memory, the VMM's next KVM_RUN tries again. */
		if (pv_perf_vcpu_prepare(vcpu))
			return false;
		here = vcpu->arch.pv_perf;
		here->restored = false;
		pv_perf_inject_nmi(vcpu);
	}

	return false;
}

/**
 * pv_perf_vcpu_run - the VMM runs a vCPU
 * @vcpu: the vCPU, on the thread that is going to run it, with kvm->srcu held
 *	for reading
 *
 * A vCPU that has made no call here may have had an area on another host, and may have to
 * stop the events of another vCPU, which the thread ran before.  May sleep.
 */
void pv_perf_vcpu_run(struct kvm_vcpu *vcpu)
{
	if (pv_perf_run_area(vcpu))
		pv_perf_vcpu_reset(vcpu);
	pv_perf_clear_thread(vcpu);
	if (pv_perf_vcpu_has_events(vcpu)) {
		pv_perf_follow_kind(vcpu);
		pv_perf_follow_thread(vcpu);
	}
}

/**
 * pv_perf_filter_changed - KVM_SET_PMU_EVENT_FILTER
 * @kvm: the VM; the old filter is not in use any more
 *
 * An OPEN or ENABLE that used the old filter is over: it held kvm->srcu, and the caller
 * has waited for its readers.  So its event is found here.
 */
void pv_perf_filter_changed(struct kvm *kvm)
{
	struct pv_perf_vcpu *pv;
	struct kvm_vcpu *vcpu;
	unsigned long i;

	/* Before the request, whose handler may run at once. */
	kvm_for_each_vcpu(i, vcpu, kvm) {
		pv = READ_ONCE(vcpu->arch.pv_perf);
		if (pv)
			WRITE_ONCE(pv->filter_changed, true);
	}

	/* Running vCPUs leave the guest; the others see the request at entry. */
	kvm_make_all_cpus_request(kvm, KVM_REQ_PV_PERF);
}

/**
 * pv_perf_handle_request - KVM_REQ_PV_PERF
 * @vcpu: the vCPU, about to enter the guest, with kvm->srcu held for reading
 *
 * May sleep.
 *
 * Return: true if kvm->srcu was given back meanwhile.  Then the caller's work for this
 * entry may not hold any more.
 */
bool pv_perf_handle_request(struct kvm_vcpu *vcpu)
{
	bool waited;

	/* The request may be for all vCPUs of the VM. */
	if (!vcpu->arch.pv_perf)
		return false;

	pv_perf_follow_kind(vcpu);
	waited = pv_perf_wait_to_open(vcpu);
	waited |= pv_perf_close_rest(vcpu);
	/* Cleared first: the filter may change again meanwhile. */
	if (xchg(&vcpu->arch.pv_perf->filter_changed, false))
		pv_perf_apply_filter(vcpu);
	pv_perf_counts_tell(vcpu);
	pv_perf_deliver(vcpu, PV_PERF_AT_REQUEST);
	return waited;
}

/*
 * Does the VMM have to call KVM_RUN again, to complete an operation, before it may save
 * the vCPU (api.rst, KVM_RUN)?  Then KVM_RUN comes back here with -EINTR, and the
 * frequent exits for I/O need no work.
 */
static bool pv_perf_must_complete(u32 exit_reason)
{
	switch (exit_reason) {
	case KVM_EXIT_IO:
	case KVM_EXIT_MMIO:
	case KVM_EXIT_HYPERCALL:
	case KVM_EXIT_XEN:
	case KVM_EXIT_X86_RDMSR:
	case KVM_EXIT_X86_WRMSR:
		return true;
	default:
		return false;
	}
}

void __pv_perf_vcpu_leave(struct kvm_vcpu *vcpu, int ret)
{
	if (!ret && pv_perf_must_complete(READ_ONCE(vcpu->run->exit_reason)))
		return;

	if (pv_perf_vcpu_has_events(vcpu))
		pv_perf_deliver(vcpu, PV_PERF_AT_LEAVE);
	pv_perf_counts_flush(vcpu);
	pv_perf_area_leave(vcpu);
}

/**
 * pv_perf_vcpu_reset - the kernel that opened this vCPU's events is gone
 * @vcpu: the vCPU.  It gets an INIT; or the VMM resets it, sets its local APIC
 *	(KVM_SET_LAPIC) for a reset or to restore what was saved, perhaps in the same VM,
 *	or has restored its memory
 *
 * Closes the vCPU's events.  May sleep.
 */
void pv_perf_vcpu_reset(struct kvm_vcpu *vcpu)
{
	if (!vcpu->arch.pv_perf)
		return;

	pv_perf_close_vcpu_events(vcpu);
	/* The next kernel must not get an NMI for the old one's counters. */
	vcpu->arch.pv_perf->pmc_changed = false;
	pv_perf_area_end(vcpu);
	pv_perf_counts_end(vcpu);
}

/* The segment of the first instruction after a reset. */
#define PV_PERF_RESET_CS_BASE	0xffff0000u

/**
 * pv_perf_vcpu_set_sregs - KVM_SET_SREGS: is it a reset?
 * @vcpu: the vCPU
 * @sregs: its new registers
 *
 * Only a reset puts a vCPU that has events back into real mode.  But system management
 * mode begins in real mode, too, and a VMM may get and set the registers of a vCPU
 * there.  KVM learns only later that a reset has ended SMM (KVM_SET_VCPU_EVENTS), so
 * only the reset's segment counts as a reset: no SMM handler is in the last 64 KB below
 * 4 GB, because ROM is there.
 */
void pv_perf_vcpu_set_sregs(struct kvm_vcpu *vcpu,
			    const struct kvm_sregs *sregs)
{
	if (sregs->cr0 & X86_CR0_PE)
		return;

	if (is_smm(vcpu) && sregs->cs.base != PV_PERF_RESET_CS_BASE)
		return;

	pv_perf_vcpu_reset(vcpu);
}

/**
 * pv_perf_vcpu_destroy - close the events of a vCPU that goes away
 * @vcpu: the vCPU
 */
void pv_perf_vcpu_destroy(struct kvm_vcpu *vcpu)
{
	if (!vcpu->arch.pv_perf)
		return;

	pv_perf_close_vcpu_events(vcpu);
	/* No event is left to queue or start them. */
	irq_work_sync(&vcpu->arch.pv_perf->irq_work);
	hrtimer_cancel(&vcpu->arch.pv_perf->rate_timer);
	pv_perf_vcpu_put(vcpu->arch.pv_perf);
}
