// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, host side: RDPMC in the guest, without exits.
 *
 * The record of a counting event has the index of its counter, and the offset to add.
 * Both change only while the vCPU is in the host.  So if they are right at VM entry,
 * they are right until the exit.
 *
 * A guest that may execute RDPMC reads any counter of its CPU.  So it may only while
 * all events of the CPU are its vCPU's, and the other counters hold 0.  The
 * administrator may allow one exception: the host's NMI watchdog, which counts the
 * cycles of every CPU, also in the host.
 */
#include <linux/moduleparam.h>
#include <linux/srcu.h>
#include <linux/uaccess.h>

#include "compat.h"
#include "kvm_perf.h"
#include "pv_perf.h"
#include "pv_perf_core.h"
#include "pv_perf_features.h"
#include "pv_perf_memory.h"
#include "pv_perf_seam.h"
#include "x86.h"
#include "pmu.h"

/* Bits of the parameter, beside bit 0. */
#define PV_PERF_RDPMC_SHARED	BIT(1)
#define PV_PERF_RDPMC_WATCHDOG	BIT(2)

static unsigned int pv_perf_rdpmc_param;
module_param_named(pv_perf_rdpmc, pv_perf_rdpmc_param, uint, 0444);
MODULE_PARM_DESC(pv_perf_rdpmc,
		 "let guests whose VMM asks for it read counters by RDPMC: 0 no, 1 where that shows no counters but those that the guest has, +2 also where it shows those of the L3 cache and the data fabric (AMD), +4 also where it shows the one of the host's NMI watchdog (default 0)");

static bool pv_perf_rdpmc_default;
module_param(pv_perf_rdpmc_default, bool, 0444);
MODULE_PARM_DESC(pv_perf_rdpmc_default,
		 "pv_perf_rdpmc holds also for guests whose VMM says nothing of it, as it does not know that it can (default N)");

/* AMD APM volume 3, RDPMC: ECX from 6 on. */
static bool pv_perf_rdpmc_shows_shared(void)
{
	return boot_cpu_has(X86_FEATURE_PERFCTR_NB) ||
	       boot_cpu_has(X86_FEATURE_PERFCTR_LLC);
}

/* Returns false if some counter cannot be read and cleared. */
static bool pv_perf_rdpmc_prepare_kinds(void)
{
	struct pv_perf_pmc_layout *pmcs;
	unsigned int i;

	for (i = 0; i < pv_perf_nr_kinds; i++) {
		pmcs = &pv_perf_kinds[i].pmcs;
		if (!pmcs->known)
			return false;
		pmcs->watchdog = pv_perf_rdpmc_param & PV_PERF_RDPMC_WATCHDOG;
	}

	return true;
}

/**
 * pv_perf_rdpmc_host - may guests of this host read counters, if the VMM wants it?
 * @host: the host, complete but for RDPMC
 *
 * Return: KVM_PERF_RDPMC_*.
 */
u32 pv_perf_rdpmc_host(const struct pv_perf_host *host)
{
	/* VM entry writes the record with interrupts off, by mutex_trylock(). */
	if (!pv_perf_rdpmc_param || IS_ENABLED(CONFIG_PREEMPT_RT))
		return KVM_PERF_RDPMC_HOST;

	if (!host->own)
		return KVM_PERF_RDPMC_NESTED;

	/* With the backdoor, RDPMC reads clocks. */
	if (!pv_perf_rdpmc_prepare_kinds() || !host->writable || enable_vmware_backdoor)
		return KVM_PERF_RDPMC_HOST;

	if (!(pv_perf_rdpmc_param & PV_PERF_RDPMC_SHARED) &&
	    pv_perf_rdpmc_shows_shared())
		return KVM_PERF_RDPMC_SHARED;

	return KVM_PERF_RDPMC_ALLOWED;
}

/**
 * pv_perf_rdpmc_unasked - may a guest read counters if its VMM does not ask for it?
 *
 * Return: 0 or 1.
 */
unsigned int pv_perf_rdpmc_unasked(void)
{
	return pv_perf_rdpmc_default;
}

/**
 * pv_perf_rdpmc_vcpu - may a vCPU read counters?
 * @vcpu: the vCPU, by its own thread
 *
 * Return: KVM_PERF_RDPMC_*.
 */
u32 pv_perf_rdpmc_vcpu(struct kvm_vcpu *vcpu)
{
	struct pv_perf_vm *vm = vcpu->kvm->arch.pv_perf;

	if (pv_perf_host.rdpmc != KVM_PERF_RDPMC_ALLOWED)
		return pv_perf_host.rdpmc;

	if (!vm->rdpmc)
		return KVM_PERF_RDPMC_VMM;

	return pv_perf_has_vpmu(vcpu) ? KVM_PERF_RDPMC_PMU :
					KVM_PERF_RDPMC_ALLOWED;
}

/*
 * A program that was let read counters, perhaps on another host, cannot know from which
 * instruction on it may not.  Its kernel has an area here, so it knows of this host.
 */
static bool pv_perf_rdpmc_may_user(struct kvm_vcpu *vcpu)
{
	/* The CPU may check CR4.PCE before the intercept, or not. */
	return kvm_is_cr4_bit_set(vcpu, X86_CR4_PCE) &&
	       READ_ONCE(vcpu->arch.pv_perf->area.epoch) &&
	       pv_perf_is_offered(vcpu) && !pv_perf_has_vpmu(vcpu);
}

static bool pv_perf_rdpmc_may_kernel(struct kvm_vcpu *vcpu, u32 ecx)
{
	return pv_perf_rdpmc_vcpu(vcpu) == KVM_PERF_RDPMC_ALLOWED &&
	       pv_perf_pmc_exists(&vcpu->arch.pv_perf->kind->pmcs, ecx);
}

/**
 * pv_perf_rdpmc - a guest executes RDPMC, intercepted
 * @vcpu: the vCPU
 * @ecx: index of the counter
 * @value: set to 0 for a guest that may read counters, but not now
 *
 * Between its look at the record and RDPMC, the guest was told that it cannot read the
 * counter, and it looks again: no exception is needed.  If it could not be told
 * (pmc_stuck), it would take 0 for a count.
 *
 * Return: false if KVM is to handle it.
 */
bool pv_perf_rdpmc(struct kvm_vcpu *vcpu, u32 ecx, u64 *value)
{
	bool user = kvm_x86_call(get_cpl)(vcpu) &&
		    kvm_is_cr0_bit_set(vcpu, X86_CR0_PE);

	if (!vcpu->arch.pv_perf || vcpu->arch.pv_perf->pmc_stuck)
		return false;
	if (user ? !pv_perf_rdpmc_may_user(vcpu) :
		   !pv_perf_rdpmc_may_kernel(vcpu, ecx))
		return false;

	*value = 0;
	return true;
}

/* Is each event of this CPU the vCPU's, or one that guests may see? */
static bool pv_perf_rdpmc_is_ours(struct pv_perf_vcpu *here)
{
	struct pv_perf_pmcs *pmcs = &here->pmcs;
	struct pv_perf_event *event;
	bool wanted = false;

	*pmcs = (struct pv_perf_pmcs) { };
	list_for_each_entry(event, &here->events, node) {
		if (!pv_perf_backing_is_here(event->backing))
			continue;
		if (!pv_perf_pmc_add(event->backing, pmcs))
			return false;
		pmcs->pmu = pv_perf_backing_pmu(event->backing);
		wanted |= pv_perf_has_rdpmc(event);
	}

	/* If the CPU's kind is unknown, KVM cannot clear the counters of others. */
	if (pv_perf_is_hybrid() && !here->kind->pmcs.known)
		return false;

	return wanted && pv_perf_pmc_add_watchdog(&here->kind->pmcs, pmcs);
}

/*
 * User mode of the guest gets the index from its kernel, which needs an NMI for a
 * change before user mode runs on.
 */
static void pv_perf_rdpmc_notify(struct pv_perf_event *event, u32 old_index)
{
	if (event->flags & KVM_PERF_ATTR_RDPMC_USER && old_index)
		event->home->pmc_changed = true;
}

/* IRQs off.  Returns whether the record was written. */
static bool pv_perf_rdpmc_tell(struct kvm *kvm, struct pv_perf_event *event,
			       const struct pv_perf_pmc *pmc)
{
	struct pv_perf_vcpu *home = event->home;
	u32 old_index;
	int ret = -EAGAIN;
	int idx;

	/* Another vCPU may be looking the record up. */
	if (!mutex_trylock(&home->lock))
		return false;

	old_index = event->pmc.index;
	idx = srcu_read_lock(&kvm->srcu);
	pagefault_disable();
	if (!pv_perf_is_stale(kvm, &event->record))
		ret = pv_perf_write_pmc(kvm, event, pmc);
	pagefault_enable();
	srcu_read_unlock(&kvm->srcu, idx);
	if (!ret)
		pv_perf_rdpmc_notify(event, old_index);
	mutex_unlock(&home->lock);

	return !ret;
}

static bool pv_perf_pmc_is_told(const struct pv_perf_event *event,
				const struct pv_perf_pmc *pmc)
{
	u32 index = READ_ONCE(event->pmc.index);

	return pmc->index == index &&
	       (!index || pmc->offset == READ_ONCE(event->pmc.offset));
}

/*
 * Returns false if the guest would read a wrong count.  A counter that becomes readable
 * need not be told now: the guest asks, and then the next entry finds the memory.
 */
static bool pv_perf_rdpmc_update(struct kvm *kvm, struct pv_perf_event *event,
				 bool open)
{
	struct pv_perf_pmc pmc = { };

	if (!pv_perf_has_rdpmc(event))
		return true;

	if (open)
		pv_perf_pmc_of(event, &pmc);

	if (!READ_ONCE(event->pmc_stuck) && pv_perf_pmc_is_told(event, &pmc))
		return true;

	return pv_perf_rdpmc_tell(kvm, event, &pmc) ||
	       !READ_ONCE(event->pmc.index) || READ_ONCE(event->pmc_stuck);
}

/* Each entry tries to write stuck records again. */
static bool pv_perf_rdpmc_any_stuck(struct pv_perf_vcpu *here)
{
	struct pv_perf_event *event;

	list_for_each_entry(event, &here->events, node) {
		if (READ_ONCE(event->pmc_stuck))
			return true;
	}

	return false;
}

static bool pv_perf_rdpmc_update_all(struct kvm_vcpu *vcpu, bool open)
{
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;
	struct pv_perf_event *event;
	bool told = true;

	list_for_each_entry(event, &here->events, node)
		told &= pv_perf_rdpmc_update(vcpu->kvm, event, open);
	here->pmc_stuck = pv_perf_rdpmc_any_stuck(here);

	return told;
}

/* Look at all events.  Returns false if a record cannot be written at once. */
static bool pv_perf_rdpmc_look(struct kvm_vcpu *vcpu, bool *open)
{
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;
	struct pv_perf_event *event;
	bool told;

	list_for_each_entry(event, &here->events, node)
		pv_perf_pmc_see(event);
	*open = !pv_perf_has_vpmu(vcpu) && !pv_perf_rdpmc_any_stuck(here) &&
		pv_perf_rdpmc_is_ours(here);
	here->pmc_open = false;
	if (is_guest_mode(vcpu))
		return true;

	told = pv_perf_rdpmc_update_all(vcpu, *open);
	/* Another vCPU may have made a record stuck meanwhile. */
	*open &= !here->pmc_stuck;
	if (told)
		here->pmc_open = *open;
	else
		here->hide_pmc = true;

	return told;
}

static void pv_perf_rdpmc_open(struct kvm_vcpu *vcpu)
{
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;

	pv_perf_pmc_clear_others(&here->kind->pmcs, &here->pmcs);
	kvm_x86_call(set_rdpmc_intercept)(vcpu, false);
}

/**
 * pv_perf_rdpmc_goes_on - let a vCPU read its counters if nothing has changed
 * @vcpu: as for pv_perf_rdpmc_enter(), which is to be called if not
 *
 * At most entries, nothing has changed.
 *
 * Return: whether nothing has changed.  Then no event has lost its counter, either.
 */
bool pv_perf_rdpmc_goes_on(struct kvm_vcpu *vcpu)
{
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;

	lockdep_assert_held(&here->enter_lock);

	if (!here->pmc_open || here->pmc_changed || is_guest_mode(vcpu) ||
	    pv_perf_has_vpmu(vcpu) || !pv_perf_pmc_unchanged(&here->kind->pmcs, here))
		return false;

	pv_perf_rdpmc_open(vcpu);
	return true;
}

/**
 * pv_perf_rdpmc_enter - let a vCPU read its counters, or not, before it enters
 * @vcpu: the vCPU, which has or had events with RDPMC; IRQs off, its enter_lock held
 *
 * Does not write records while a nested guest runs: its hypervisor reads nothing then,
 * and an NMI for an event that does not count the nested guest would end each of its
 * runs.
 *
 * Return: false if pv_perf_rdpmc_tell_rest() has to run before the guest.
 */
bool pv_perf_rdpmc_enter(struct kvm_vcpu *vcpu)
{
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;
	bool open, told;

	lockdep_assert_held(&here->enter_lock);

	told = pv_perf_rdpmc_look(vcpu, &open);
	if (open)
		pv_perf_rdpmc_open(vcpu);
	else
		kvm_x86_call(set_rdpmc_intercept)(vcpu, true);

	return told && !here->pmc_changed;
}

/* Returns false if the memory is gone, at least for now.  May sleep. */
static bool pv_perf_rdpmc_write_none(struct kvm *kvm,
				     struct pv_perf_event *event)
{
	static const struct pv_perf_pmc none;

	if (!pv_perf_write_pmc(kvm, event, &none))
		return true;

	WRITE_ONCE(event->pmc_stuck, true);
	/*
	 * If its home is another vCPU, VM entry there may set this again.  Then VM entry sees
	 * that the event is disabled.
	 */
	event->home->pmc_open = false;
	return false;
}

/**
 * pv_perf_rdpmc_end - the guest can read an event's counter nowhere, at least for now
 * @event: the event, its home locked; kvm->srcu is held for reading
 * @nmi: the guest does not know, and gets an NMI now, or later if it cannot be told now;
 *	the caller is the home's own thread then
 *
 * May sleep.
 */
void pv_perf_rdpmc_end(struct pv_perf_event *event, bool nmi)
{
	u32 old_index = event->pmc.index;

	if (old_index && pv_perf_rdpmc_write_none(event->home->vcpu->kvm, event) && nmi)
		pv_perf_rdpmc_notify(event, old_index);
}

/* After pv_perf_rdpmc_enter() could not write all records. */
static void pv_perf_rdpmc_hide_all(struct kvm_vcpu *vcpu)
{
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;
	struct pv_perf_event *event;

	list_for_each_entry(event, &here->events, node)
		pv_perf_rdpmc_end(event, true);
}

/**
 * pv_perf_rdpmc_tell_rest - finish the work of pv_perf_rdpmc_enter()
 * @vcpu: the vCPU, locked, by its own thread, with kvm->srcu held for reading
 *
 * May sleep.
 *
 * Return: true if the guest is to get an NMI.
 */
bool pv_perf_rdpmc_tell_rest(struct kvm_vcpu *vcpu)
{
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;
	bool nmi;

	if (here->hide_pmc)
		pv_perf_rdpmc_hide_all(vcpu);
	here->hide_pmc = false;

	nmi = here->pmc_changed;
	here->pmc_changed = false;
	return nmi;
}
