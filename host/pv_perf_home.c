// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, host side: finding an event, and locking it.
 *
 * An event is protected by the lock of its home, the vCPU that it was opened
 * or last enabled on.  A guest that keeps its events per CPU only ever takes its
 * own vCPU's lock.
 */
#include <linux/err.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>

#include "pv_perf_core.h"

struct pv_perf_features pv_perf_features __read_mostly;

/**
 * pv_perf_event_put - give a reference to an event back
 * @event: the event
 */
void pv_perf_event_put(struct pv_perf_event *event)
{
	if (refcount_dec_and_test(&event->refs))
		kfree_rcu(event, rcu);
}

/* Returns the event, for pv_perf_event_put(), which may be closed meanwhile; or NULL. */
static struct pv_perf_event *pv_perf_event_get(struct kvm *kvm, u32 id)
{
	struct pv_perf_vm *vm = kvm->arch.pv_perf;
	struct pv_perf_event *event;

	rcu_read_lock();
	event = xa_load(&vm->events, id);
	if (event && !refcount_inc_not_zero(&event->refs))
		event = NULL;
	rcu_read_unlock();

	return event;
}

/* The home may change until its lock is held. */
static int pv_perf_lock_home(struct pv_perf_event *event, bool killable)
{
	struct pv_perf_vcpu *home;

	for (;;) {
		home = READ_ONCE(event->home);
		if (!killable)
			mutex_lock(&home->lock);
		else if (mutex_lock_killable(&home->lock))
			return -EINTR;
		if (home == READ_ONCE(event->home))
			return 0;
		mutex_unlock(&home->lock);
	}
}

/**
 * pv_perf_event_put_locked - unlock an event and give it back
 * @event: from pv_perf_event_get_locked()
 */
void pv_perf_event_put_locked(struct pv_perf_event *event)
{
	mutex_unlock(&event->home->lock);
	pv_perf_event_put(event);
}

static struct pv_perf_event *pv_perf_find_locked(struct kvm *kvm, u32 id,
						 bool killable)
{
	struct pv_perf_event *event = pv_perf_event_get(kvm, id);

	if (!event)
		return NULL;

	if (pv_perf_lock_home(event, killable)) {
		pv_perf_event_put(event);
		return ERR_PTR(-EINTR);
	}

	if (event->backing)
		return event;

	/* Closed since it was found. */
	pv_perf_event_put_locked(event);
	return NULL;
}

/**
 * pv_perf_event_get_locked_killable - find an open event and lock it
 * @kvm: the VM
 * @id: the event's id
 *
 * For callers outside of the VM: a vCPU may hold the lock for as long as the VMM lets
 * it wait for a page (userfaultfd).
 *
 * Return: as pv_perf_event_get_locked(), or -EINTR if the caller is being killed.
 */
struct pv_perf_event *pv_perf_event_get_locked_killable(struct kvm *kvm, u32 id)
{
	return pv_perf_find_locked(kvm, id, true);
}

/**
 * pv_perf_event_get_locked - find an open event and lock it
 * @kvm: the VM
 * @id: the event's id
 *
 * Return: the event, for pv_perf_event_put_locked(), or NULL.
 */
struct pv_perf_event *pv_perf_event_get_locked(struct kvm *kvm, u32 id)
{
	return pv_perf_find_locked(kvm, id, false);
}

static unsigned int pv_perf_at_entry(const struct pv_perf_event *event)
{
	return PV_PERF_AT_ENTRY_EVENTS |
	       (pv_perf_counts_one_mode(event) ? PV_PERF_AT_ENTRY_MODES : 0) |
	       (pv_perf_counts_kernel(event) ? PV_PERF_AT_ENTRY_NMI : 0) |
	       (pv_perf_is_hybrid() ? PV_PERF_AT_ENTRY_KIND : 0) |
	       (pv_perf_has_freq(event) ? PV_PERF_AT_ENTRY_FREQ : 0) |
	       (pv_perf_has_rdpmc(event) ? PV_PERF_AT_ENTRY_RDPMC : 0) |
	       (pv_perf_has_branches(event) ? PV_PERF_AT_ENTRY_BRANCHES : 0);
}

/**
 * pv_perf_link - add an event to a vCPU's list: VM entry looks at it
 * @home: the vCPU, locked, by its own thread
 * @event: the event
 */
void pv_perf_link(struct pv_perf_vcpu *home, struct pv_perf_event *event)
{
	unsigned long flags;

	lockdep_assert_held(&home->lock);

	raw_spin_lock_irqsave(&home->enter_lock, flags);
	list_add_tail(&event->node, &home->events);
	home->at_entry |= pv_perf_at_entry(event);
	home->vcpu->arch.pv_perf_retires |= event->retired;
	home->pmc_open = false;
	event->pmc_seen.idx = PV_PERF_PMC_NONE;
	raw_spin_unlock_irqrestore(&home->enter_lock, flags);
	WRITE_ONCE(home->nr_events, home->nr_events + 1);
}

/**
 * pv_perf_unlink - take an event from its home's list
 * @event: the event, its home locked
 */
void pv_perf_unlink(struct pv_perf_event *event)
{
	struct pv_perf_vcpu *home = event->home;
	unsigned long flags;

	lockdep_assert_held(&home->lock);

	raw_spin_lock_irqsave(&home->enter_lock, flags);
	list_del(&event->node);
	home->pmc_open = false;
	raw_spin_unlock_irqrestore(&home->enter_lock, flags);
	WRITE_ONCE(home->nr_events, home->nr_events - 1);
}
