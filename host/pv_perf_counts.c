// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, host side: events of the hypervisor, which are added
 * up in the area of the vCPU.
 *
 * pv_perf_exit.c notes the reason right after an exit, and makes a request.  The
 * request, before the next entry, finds the final reason and the numbers that KVM and
 * the scheduler have counted themselves, and adds all of them to the guest's memory.
 * The counts migrate with the guest, because its memory holds them.
 *
 * All runs on the vCPU's own thread.  pv_perf_event.h names fields that are set
 * elsewhere.
 */
#include <linux/bitops.h>
#include <linux/moduleparam.h>
#include <linux/sched/clock.h>
#include <linux/uaccess.h>

#include "compat.h"
#include "irq.h"
#include "kvm_perf.h"
#include "pv_perf.h"
#include "pv_perf_core.h"
#include "pv_perf_features.h"
#include "pv_perf_memory.h"
#include "x86.h"

#define PV_PERF_ALL_COUNTS	(BIT(KVM_PERF_NR_COUNTS) - 1)

static unsigned int pv_perf_counts = PV_PERF_ALL_COUNTS;
module_param(pv_perf_counts, uint, 0444);
MODULE_PARM_DESC(pv_perf_counts,
		 "events of the hypervisor that guests may count, a bit for each (KVM_PERF_COUNT_* of kvm_perf.h; default all)");

/**
 * pv_perf_counts_allowed - which events of the hypervisor may a VM count?
 * @kvm: the VM, or NULL for any
 *
 * Return: a bit for each KVM_PERF_COUNT_*.
 */
u32 pv_perf_counts_allowed(struct kvm *kvm)
{
	u32 allowed = pv_perf_counts & PV_PERF_ALL_COUNTS;

	return kvm ? allowed & kvm->arch.pv_perf->counts : allowed;
}

/* Events that tell how busy the host is, as the steal time does. */
#define PV_PERF_STEAL_COUNTS						\
	(BIT(KVM_PERF_COUNT_PREEMPTIONS) | BIT(KVM_PERF_COUNT_STEAL_NS) |	\
	 BIT(KVM_PERF_COUNT_HOST_NS))

/**
 * pv_perf_counts_vcpu - which events of the hypervisor may a vCPU count?
 * @vcpu: the vCPU
 *
 * If the VMM withholds the steal time, events that tell as much are withheld, too.
 *
 * Return: a bit for each KVM_PERF_COUNT_*.
 */
u32 pv_perf_counts_vcpu(struct kvm_vcpu *vcpu)
{
	u32 allowed = pv_perf_counts_allowed(vcpu->kvm);

	if (!(vcpu->arch.pv_cpuid.features & BIT(KVM_FEATURE_STEAL_TIME)))
		allowed &= ~PV_PERF_STEAL_COUNTS;

	return allowed;
}

static struct pv_perf_host_counts pv_perf_host_counts(struct kvm_vcpu *vcpu)
{
	struct kvm_vcpu_stat *stat = &vcpu->stat;

	return (struct pv_perf_host_counts) {
		.halt_ns	= stat->generic.halt_wait_ns +
				  stat->generic.halt_poll_success_ns +
				  stat->generic.halt_poll_fail_ns,
		.thread		= current->start_time,
		.preemptions	= current->nivcsw,
		.steal_ns	= current->sched_info.run_delay,
	};
}

static void pv_perf_counts_clear(struct kvm_vcpu *vcpu, u32 wanted)
{
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;

	here->counts = (struct pv_perf_counts) {
		.wanted	= wanted,
		.since	= local_clock(),
		.host	= pv_perf_host_counts(vcpu),
	};
	if (wanted)
		here->at_entry |= PV_PERF_AT_ENTRY_COUNTS;
	else
		here->at_entry &= ~PV_PERF_AT_ENTRY_COUNTS;
}

/**
 * pv_perf_counts_end - stop counting events of the hypervisor
 * @vcpu: the vCPU, by its own thread
 */
void pv_perf_counts_end(struct kvm_vcpu *vcpu)
{
	if (vcpu->arch.pv_perf->counts.wanted)
		pv_perf_counts_clear(vcpu, 0);
}

/**
 * pv_perf_counts_add - add to a count, in the mode of the guest's last exit
 * @counts: of a vCPU, by its own thread
 * @nr: KVM_PERF_COUNT_*
 * @n: number of events, or ns
 */
void pv_perf_counts_add(struct pv_perf_counts *counts, unsigned int nr, u64 n)
{
	if (!n || !(counts->wanted & BIT(nr)))
		return;

	counts->pending[nr][counts->user] += n;
	counts->any |= BIT(nr);
}

/* The host has handled the NMI of an exit by now: was it for an overflow? */
static void pv_perf_counts_add_exit(struct pv_perf_counts *counts)
{
	if (counts->exit == KVM_PERF_COUNT_EXITS_NMI &&
	    READ_ONCE(counts->overflowed))
		counts->exit = KVM_PERF_COUNT_EXITS_PV_PERF;
	else if (counts->nested)
		counts->exit = KVM_PERF_COUNT_EXITS_NESTED;

	WRITE_ONCE(counts->overflowed, false);
	counts->exited = false;
	pv_perf_counts_add(counts, counts->exit, 1);
}

/* KVM's own statistics can be cleared in debugfs. */
static u64 pv_perf_since(u64 now, u64 was)
{
	return now > was ? now - was : 0;
}

/* Add counts of KVM and the scheduler, and the vCPU's time in the host. */
static void pv_perf_counts_add_host(struct kvm_vcpu *vcpu)
{
	struct pv_perf_counts *counts = &vcpu->arch.pv_perf->counts;
	struct pv_perf_host_counts now = pv_perf_host_counts(vcpu);
	const struct pv_perf_host_counts *was = &counts->host;
	u64 halt = pv_perf_since(now.halt_ns, was->halt_ns), steal = 0;
	u64 clock = local_clock();

	/* If another thread runs the vCPU now, its numbers cannot be compared. */
	if (now.thread == was->thread) {
		steal = pv_perf_since(now.steal_ns, was->steal_ns);
		pv_perf_counts_add(counts, KVM_PERF_COUNT_PREEMPTIONS,
				   pv_perf_since(now.preemptions,
						 was->preemptions));
	}
	/* KVM's halt time lasts until the thread has a CPU again. */
	halt = pv_perf_since(halt, steal);

	pv_perf_counts_add(counts, KVM_PERF_COUNT_STEAL_NS, steal);
	pv_perf_counts_add(counts, KVM_PERF_COUNT_HALT_NS, halt);
	/* Without exits for samples, which would soon be most of what is sampled. */
	if (counts->exit != KVM_PERF_COUNT_EXITS_PV_PERF)
		pv_perf_counts_add(counts, KVM_PERF_COUNT_HOST_NS,
				   pv_perf_since(clock, counts->since + halt +
						 steal));
	counts->host = now;
	counts->since = clock;
}

static int pv_perf_put_count(u64 n, u64 __user *count)
{
	u64 old;

	if (__get_user(old, count))
		return -EFAULT;

	return __put_user(old + n, count);
}

static int pv_perf_put_counts(struct pv_perf_counts *counts,
			      struct guest_perf_area __user *area)
{
	unsigned long any = counts->any;
	unsigned int nr, user;
	u64 *pending;

	for_each_set_bit(nr, &any, KVM_PERF_NR_COUNTS) {
		for (user = 0; user < 2; user++) {
			pending = &counts->pending[nr][user];
			if (*pending && pv_perf_put_count(*pending,
							  &area->count[nr][user]))
				return -EFAULT;
			*pending = 0;
		}
	}

	counts->any = 0;
	return 0;
}

/* Returns the number of pending events that a slot counts. */
static u64 pv_perf_slot_passed(const struct pv_perf_counts *counts, u64 mask,
			       u32 exclude)
{
	unsigned long any = counts->any & mask;
	unsigned int nr;
	u64 n = 0;

	for_each_set_bit(nr, &any, KVM_PERF_NR_COUNTS) {
		if (!(exclude & KVM_PERF_ATTR_EXCLUDE_KERNEL))
			n += counts->pending[nr][0];
		if (!(exclude & KVM_PERF_ATTR_EXCLUDE_USER))
			n += counts->pending[nr][1];
	}

	return n;
}

/* Write the last exit in a mode that the slot counts. */
static int pv_perf_put_exit(const struct pv_perf_counts *counts, u32 exclude,
			    struct guest_perf_slot __user *slot)
{
	u32 user = counts->user;

	if (exclude & KVM_PERF_ATTR_EXCLUDE_KERNEL)
		user = 1;
	else if (exclude & KVM_PERF_ATTR_EXCLUDE_USER)
		user = 0;

	return __put_user(counts->ip[user], &slot->ip) ||
	       __put_user(user, &slot->user) ? -EFAULT : 0;
}

/*
 * Returns 1 if the slot overflows, or has overflowed and the guest neither was told nor
 * found it by itself; 0 if not; or -EFAULT.
 */
static int pv_perf_update_slot(const struct pv_perf_counts *counts, bool owed,
			       struct guest_perf_slot __user *slot)
{
	u64 mask, left, n;
	bool overflows;
	u32 exclude;

	if (__get_user(mask, &slot->counts) ||
	    __get_user(exclude, &slot->exclude) ||
	    __get_user(left, &slot->left))
		return -EFAULT;

	n = pv_perf_slot_passed(counts, mask, exclude);
	overflows = (s64)left > 0 && (s64)(left - n) <= 0;
	/* First: after @left is written, the slot does not overflow again. */
	if (overflows && pv_perf_put_exit(counts, exclude, slot))
		return -EFAULT;

	if (n && __put_user(left - n, &slot->left))
		return -EFAULT;

	return overflows || (owed && (s64)(left - n) <= 0);
}

static int pv_perf_update_slots(struct pv_perf_counts *counts,
				struct guest_perf_area __user *area)
{
	bool owed = counts->nmi_owed;
	unsigned long used;
	unsigned int i;
	u32 slots;
	int ret;

	if (__get_user(slots, &area->slots))
		return -EFAULT;

	counts->nmi_owed = false;
	used = slots;
	for_each_set_bit(i, &used, KVM_PERF_NR_SLOTS) {
		ret = pv_perf_update_slot(counts, owed, &area->slot[i]);
		if (ret < 0) {
			/* The NMI may be owed for a slot that was not looked at. */
			counts->nmi_owed |= owed;
			return ret;
		}
		counts->nmi_owed |= ret;
	}

	return 0;
}

/*
 * The write to @reserved tests the page before anything changes.  If the VMM takes the
 * memory away right afterwards, slots count some events twice: an early sample, and an
 * NMI for nothing.
 */
static int pv_perf_counts_write(struct kvm_vcpu *vcpu)
{
	struct pv_perf_counts *counts = &vcpu->arch.pv_perf->counts;
	struct gfn_to_hva_cache *where = &vcpu->arch.pv_perf->area.where;
	struct guest_perf_area __user *area = pv_perf_memory(vcpu->kvm, where);

	if (!area || __put_user(0, &area->reserved))
		return -EFAULT;

	mark_page_dirty_in_slot(vcpu->kvm, where->memslot,
				gpa_to_gfn(where->gpa));
	if (pv_perf_rate_allowed(vcpu->kvm) &&
	    pv_perf_update_slots(counts, area))
		return -EFAULT;

	return pv_perf_put_counts(counts, area);
}

/*
 * Returns false if the guest's counts are not up to date.  Counts that cannot be
 * written stay pending: the VMM may only have moved the memory.
 */
static bool pv_perf_counts_update(struct kvm_vcpu *vcpu)
{
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;
	struct pv_perf_counts *counts = &here->counts;
	int ret = -EFAULT;

	if (counts->exited)
		pv_perf_counts_add_exit(counts);
	pv_perf_counts_add_host(vcpu);
	if (!counts->any && !counts->nmi_owed)
		return true;

	/* RESET by another vCPU ends the area. */
	mutex_lock(&here->lock);
	if (!here->area.epoch)
		pv_perf_counts_clear(vcpu, 0);
	else
		ret = pv_perf_counts_write(vcpu);
	mutex_unlock(&here->lock);

	return !ret;
}

/*
 * The NMI waits if the rate is exceeded, and while a nested guest runs: if each exit of
 * that brought an NMI, its hypervisor would never get to run it.
 */
static void pv_perf_counts_nmi(struct kvm_vcpu *vcpu)
{
	struct pv_perf_counts *counts = &vcpu->arch.pv_perf->counts;

	/* At a rate of 0 no slot is looked at, so nmi_owed may be old. */
	if (!counts->nmi_owed || is_guest_mode(vcpu) ||
	    !pv_perf_rate_allowed(vcpu->kvm) || pv_perf_rate_exceeded(vcpu))
		return;

	counts->nmi_owed = false;
	counts->irq_waits = kvm_cpu_has_injectable_intr(vcpu);
	pv_perf_charge_overflows(vcpu, 1);
	pv_perf_inject_nmi(vcpu);
}

/**
 * pv_perf_counts_tell - tell the guest of counts since it ran
 * @vcpu: the vCPU, about to enter, with kvm->srcu held for reading
 *
 * Before KVM injects interrupts: an NMI that is found to be due later would make the
 * guest exit once more, and come while the interrupt is being handled.  May sleep.
 */
void pv_perf_counts_tell(struct kvm_vcpu *vcpu)
{
	if (!vcpu->arch.pv_perf->counts.wanted)
		return;

	if (pv_perf_counts_update(vcpu))
		pv_perf_counts_nmi(vcpu);
}

/**
 * pv_perf_counts_enter - note counts and the time right before an entry
 * @vcpu: the vCPU, which counts, about to enter, with interrupts off
 *
 * The guest is told after its next exit.  If its nested guest has just ended, it is
 * told at once of counts that were held back for that.
 */
void pv_perf_counts_enter(struct kvm_vcpu *vcpu)
{
	struct pv_perf_counts *counts = &vcpu->arch.pv_perf->counts;

	pv_perf_counts_add_host(vcpu);
	counts->irq = vcpu->arch.interrupt.injected &&
		      !vcpu->arch.interrupt.soft && !is_guest_mode(vcpu);
	if (counts->irq)
		counts->irq_waits = false;
	if (counts->nested && counts->nmi_owed && !is_guest_mode(vcpu)) {
		counts->nested = false;
		kvm_make_request(KVM_REQ_PV_PERF, vcpu);
	}
}

/**
 * pv_perf_counts_flush - tell the guest of all counts so far
 * @vcpu: the vCPU, by its own thread, with kvm->srcu held for reading
 *
 * The VMM may save the guest's memory afterwards.  May sleep.
 */
void pv_perf_counts_flush(struct kvm_vcpu *vcpu)
{
	if (vcpu->arch.pv_perf->counts.wanted)
		pv_perf_counts_update(vcpu);
}

/**
 * pv_perf_counts_set - KVM_PERF_OP_SET_COUNTS
 * @vcpu: the vCPU, by its own thread
 * @wanted: a bit for each KVM_PERF_COUNT_*
 *
 * Return: 0, -EINVAL or -EOPNOTSUPP.
 */
int pv_perf_counts_set(struct kvm_vcpu *vcpu, u64 wanted)
{
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;

	if (wanted & ~(u64)PV_PERF_ALL_COUNTS)
		return -EINVAL;

	if (wanted & ~(u64)pv_perf_counts_vcpu(vcpu))
		return -EOPNOTSUPP;

	if (!READ_ONCE(here->area.epoch))
		return -EINVAL;

	pv_perf_counts_flush(vcpu);
	/* If counting goes on, nothing is lost. */
	if (here->counts.wanted && wanted)
		here->counts.wanted = wanted;
	else
		pv_perf_counts_clear(vcpu, wanted);
	return 0;
}
