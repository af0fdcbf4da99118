// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, host side: which vCPU's events may count on a thread,
 * and how events move to another thread.
 *
 * A backing event counts whatever guest its thread runs, so only one vCPU at a time may
 * have events that count on a thread.  A table has, by thread, the vCPUs with events
 * that run there, or ran there last.  Only the thread itself makes its entry; others
 * may remove it.
 *
 *	pv_perf_go_on()			an event is to count on this thread and kind of core
 *	  pv_perf_unpark()		it was parked: pv_perf_start()
 *	  pv_perf_follow()		its backing event is of another thread or kind
 *	    pv_perf_backing_get()	one for this thread and kind, kept or new
 *	    pv_perf_start()
 *	    pv_perf_replace_backing()	count and position go over to it
 *	      pv_perf_backing_put()	the old one is kept for its kind, or released
 */
#include <linux/hashtable.h>
#include <linux/slab.h>

#include "compat.h"
#include "pv_perf_core.h"
#include "pv_perf_seam.h"

static DEFINE_HASHTABLE(pv_perf_threads, 10);
static DEFINE_SPINLOCK(pv_perf_threads_lock);

/**
 * pv_perf_vcpu_put - give a reference to a vCPU's events back
 * @pv: the struct pv_perf_vcpu, to be freed with the last
 */
void pv_perf_vcpu_put(struct pv_perf_vcpu *pv)
{
	if (refcount_dec_and_test(&pv->refs))
		kfree(pv);
}

static void pv_perf_leave_thread_locked(struct pv_perf_vcpu *pv)
{
	if (!pv->thread)
		return;

	hash_del(&pv->thread_node);
	WRITE_ONCE(pv->thread, NULL);
}

/**
 * pv_perf_leave_thread - if a vCPU's last event is gone, the vCPU leaves its thread
 * @home: the vCPU, locked
 */
void pv_perf_leave_thread(struct pv_perf_vcpu *home)
{
	lockdep_assert_held(&home->lock);

	if (!list_empty(&home->events))
		return;

	spin_lock(&pv_perf_threads_lock);
	pv_perf_leave_thread_locked(home);
	spin_unlock(&pv_perf_threads_lock);
}

/**
 * pv_perf_enter_thread - a vCPU's events may count on this thread
 * @here: the vCPU, locked, which runs on this thread and has events.  None of them
 *	counts on its old thread, which may run something else now.
 */
void pv_perf_enter_thread(struct pv_perf_vcpu *here)
{
	lockdep_assert_held(&here->lock);

	if (READ_ONCE(here->thread) == current)
		return;

	spin_lock(&pv_perf_threads_lock);
	pv_perf_leave_thread_locked(here);
	hash_add(pv_perf_threads, &here->thread_node, (unsigned long)current);
	WRITE_ONCE(here->thread, current);
	spin_unlock(&pv_perf_threads_lock);
}

/* Needs no lock: only the thread itself makes its entry. */
static bool pv_perf_thread_is_clear(void)
{
	unsigned int i = hash_min((unsigned long)current,
				  HASH_BITS(pv_perf_threads));

	return hlist_empty(&pv_perf_threads[i]);
}

/* Remove this thread's entry.  Returns a reference to its vCPU, or NULL. */
static struct pv_perf_vcpu *pv_perf_evict_other(void)
{
	struct pv_perf_vcpu *pv, *other = NULL;

	spin_lock(&pv_perf_threads_lock);
	hash_for_each_possible(pv_perf_threads, pv, thread_node,
			       (unsigned long)current) {
		if (pv->thread != current)
			continue;
		pv_perf_leave_thread_locked(pv);
		/* Before it is destroyed, a vCPU leaves its thread, under this lock. */
		refcount_inc(&pv->refs);
		other = pv;
		break;
	}
	spin_unlock(&pv_perf_threads_lock);

	return other;
}

/* An event goes on.  If it found no counter, the guest is told. */
static void pv_perf_went_on(struct pv_perf_vcpu *here,
			    struct pv_perf_event *event, bool lost)
{
	if (lost)
		pv_perf_set_why(event, PV_PERF_LOST);
	if (pv_perf_why(event) & (PV_PERF_LOST | PV_PERF_LIMITED))
		kvm_make_request(KVM_REQ_PV_PERF, here->vcpu);
}

/* Stop an event until its vCPU runs on the backing event's thread again. */
static void pv_perf_park(struct pv_perf_event *event)
{
	perf_event_disable(event->backing);
	/* A disabled event cannot lose its counter: look now. */
	pv_perf_note_lost(event);
	pv_perf_set_why(event, PV_PERF_PARKED);
}

static void pv_perf_unpark(struct pv_perf_vcpu *here,
			   struct pv_perf_event *event)
{
	u32 why = pv_perf_why(event);
	bool lost = why & PV_PERF_LOST;

	pv_perf_clear_why(event, PV_PERF_PARKED);
	if (!lost && !(why & PV_PERF_LIMITED))
		lost = pv_perf_start(here, event, event->backing);
	pv_perf_went_on(here, event, lost);
}

/* Events that count on another thread belong to that thread already. */
static void pv_perf_park_here(struct pv_perf_vcpu *other)
{
	struct pv_perf_event *event;

	mutex_lock(&other->lock);
	list_for_each_entry(event, &other->events, node) {
		if (event->enabled && pv_perf_backing_is_mine(event->backing))
			pv_perf_park(event);
	}
	mutex_unlock(&other->lock);
}

/**
 * pv_perf_clear_thread - park events of another vCPU that this thread ran
 * @vcpu: the vCPU that the thread is going to run, perhaps without events
 *
 * The other vCPU may be of another VM, and another thread may run or destroy it
 * meanwhile.
 */
void pv_perf_clear_thread(struct kvm_vcpu *vcpu)
{
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;
	struct pv_perf_vcpu *other;

	if ((here && READ_ONCE(here->thread) == current) ||
	    pv_perf_thread_is_clear())
		return;

	other = pv_perf_evict_other();
	if (!other)
		return;

	pv_perf_park_here(other);
	pv_perf_vcpu_put(other);
}

/*
 * Replace the event's backing event by @backing, of this vCPU's thread.
 *
 * The old backing event is stopped before it is read: later counts would be lost, and
 * an overflow would come twice.  While it counts, VM entry of its vCPU has to find it.
 *
 * @select: the event select of @backing before it was started; perf may have changed it
 */
static void pv_perf_replace_backing(struct pv_perf_event *event,
				    struct pv_perf_vcpu *here,
				    struct perf_event *backing, u64 select)
{
	struct pv_perf_vcpu *home = event->home;
	struct pv_perf_reading reading;
	u64 old_select = event->select;

	perf_event_disable(event->backing);
	/* The old counter cannot be read any more, and the new one not yet. */
	if (pv_perf_has_rdpmc(event))
		pv_perf_features.end_rdpmc(event, false);
	if (pv_perf_is_stopped(event))
		pv_perf_counter_restore(event->backing, &event->stopped_at);
	pv_perf_read(event, &reading);
	pv_perf_counter_copy_position(event->backing, backing);
	pv_perf_unlink(event);

	event->select = select;
	event->past_count = reading.count;
	event->past_enabled = reading.enabled;
	event->past_running = reading.running;
	swap(event->backing, backing);
	pv_perf_backing_put(event, backing, old_select);
	WRITE_ONCE(event->enabled, true);
	pv_perf_clear_why(event, ~PV_PERF_UNUSED);
	WRITE_ONCE(event->home, here);
	pv_perf_link(here, event);
	pv_perf_leave_thread(home);

	/* The old home may have noted overflows and not delivered them. */
	if (atomic_read(&event->overflows))
		kvm_make_request(KVM_REQ_PV_PERF, here->vcpu);
}

/* Let an event of this vCPU go on counting on this thread. */
static void pv_perf_follow(struct pv_perf_vcpu *here,
			   struct pv_perf_event *event)
{
	struct perf_event *backing;
	u32 limited = pv_perf_why(event) & PV_PERF_LIMITED;
	u64 select;
	bool lost;

	backing = pv_perf_backing_get(event, here, pv_perf_overflow);
	if (IS_ERR(backing)) {
		/* An ENABLE tries again, as does the next KVM_RUN, for a READ. */
		pv_perf_park(event);
		pv_perf_went_on(here, event, true);
		return;
	}
	select = pv_perf_backing_select(backing);

	/* First: a lost event does not count against the limit. */
	pv_perf_note_lost(event);
	/* Another kind's.  If both were enabled, their times would add up. */
	if (pv_perf_backing_is_mine(event->backing))
		perf_event_disable(event->backing);
	lost = pv_perf_why(event) & PV_PERF_LOST;
	if (!lost && !limited)
		lost = pv_perf_start(here, event, backing);
	/* The guest does not know of the change. */
	if (pv_perf_has_rdpmc(event))
		pv_perf_features.end_rdpmc(event, true);
	pv_perf_replace_backing(event, here, backing, select);
	pv_perf_set_why(event, limited);
	pv_perf_went_on(here, event, lost);
}

/* An enabled event of this vCPU is to count on this thread and kind of core. */
static void pv_perf_go_on(struct pv_perf_vcpu *here, struct pv_perf_event *event)
{
	if (!pv_perf_is_here(event))
		pv_perf_follow(here, event);
	else if (pv_perf_why(event) & PV_PERF_PARKED)
		pv_perf_unpark(here, event);
}

/**
 * pv_perf_follow_thread - this thread is going to run the vCPU
 * @vcpu: the vCPU
 *
 * If the VMM runs the vCPU by another thread, events that count on the old thread
 * follow.  Events that were parked while this thread ran another vCPU go on.
 */
void pv_perf_follow_thread(struct kvm_vcpu *vcpu)
{
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;
	struct pv_perf_event *event, *next;

	mutex_lock(&here->lock);
	list_for_each_entry_safe(event, next, &here->events, node) {
		if (event->enabled)
			pv_perf_go_on(here, event);
	}
	if (!list_empty(&here->events))
		pv_perf_enter_thread(here);
	mutex_unlock(&here->lock);
}

/* If the thread comes to another CPU after this, VM entry looks again. */
static void pv_perf_set_kind(struct pv_perf_vcpu *here,
			     const struct pv_perf_kind *kind)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&here->enter_lock, flags);
	here->kind = kind;
	/* The counters of this kind have not been looked at. */
	here->pmc_open = false;
	raw_spin_unlock_irqrestore(&here->enter_lock, flags);
}

/**
 * __pv_perf_follow_kind - this CPU is going to run the vCPU
 * @vcpu: the vCPU, by its own thread, with kvm->srcu held for reading
 *
 * Enabled events go on with backing events for this kind of core.  Others get theirs
 * when they are enabled.  If this kind does not have an event, the event loses its
 * counter.  May sleep, and come to another CPU: VM entry looks again.
 */
void __pv_perf_follow_kind(struct kvm_vcpu *vcpu)
{
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;
	struct pv_perf_event *event, *next;
	const struct pv_perf_kind *kind;

	kind = pv_perf_kind_of_cpu(raw_smp_processor_id());
	if (kind == here->kind)
		return;

	mutex_lock(&here->lock);
	pv_perf_set_kind(here, kind);
	list_for_each_entry_safe(event, next, &here->events, node) {
		/* An event of another thread follows at the next KVM_RUN. */
		if (event->enabled && pv_perf_backing_is_mine(event->backing))
			pv_perf_go_on(here, event);
	}
	mutex_unlock(&here->lock);
}

/*
 * The new backing event counts before the old one is given up, so a failure changes
 * nothing.  This thread is in the host meanwhile, so no count is doubled.
 */
static int pv_perf_move_locked(struct pv_perf_event *event,
			       struct pv_perf_vcpu *here)
{
	struct perf_event *backing;
	u64 select;
	int ret;

	/* Closed since it was found. */
	if (!event->backing)
		return -ENOENT;

	backing = pv_perf_backing_get(event, here, pv_perf_overflow);
	if (IS_ERR(backing))
		return PTR_ERR(backing);
	select = pv_perf_backing_select(backing);

	ret = pv_perf_start(here, event, backing);
	if (ret) {
		pv_perf_backing_put(event, backing, select);
		return ret;
	}

	pv_perf_replace_backing(event, here, backing, select);
	if (pv_perf_has_news(event))
		pv_perf_update_record(event, 0, true, NULL);
	return 0;
}

/* In the order of their addresses: two vCPUs may move events to each other. */
static void pv_perf_lock_both(struct pv_perf_vcpu *a, struct pv_perf_vcpu *b)
{
	if (a > b)
		swap(a, b);
	mutex_lock(&a->lock);
	if (a != b)
		mutex_lock_nested(&b->lock, SINGLE_DEPTH_NESTING);
}

static void pv_perf_unlock_both(struct pv_perf_vcpu *a, struct pv_perf_vcpu *b)
{
	mutex_unlock(&a->lock);
	if (a != b)
		mutex_unlock(&b->lock);
}

/**
 * pv_perf_move_and_enable - enable an event whose backing event is on another thread
 * @vcpu: the new home, by its own thread
 * @event: the event, not locked; the caller has a reference
 *
 * May sleep.
 *
 * Return: 0, -ENOENT, -EBUSY, -ENOSPC, -EINVAL, -EOPNOTSUPP.
 */
int pv_perf_move_and_enable(struct kvm_vcpu *vcpu, struct pv_perf_event *event)
{
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;
	struct pv_perf_vcpu *home;
	int ret;

	pv_perf_charge_open(vcpu);
	for (;;) {
		home = READ_ONCE(event->home);
		pv_perf_lock_both(home, here);
		if (home == READ_ONCE(event->home))
			break;
		pv_perf_unlock_both(home, here);
	}

	ret = pv_perf_move_locked(event, here);
	if (!ret)
		pv_perf_enter_thread(here);
	pv_perf_unlock_both(home, here);
	return ret;
}
