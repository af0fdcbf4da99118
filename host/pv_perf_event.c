// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, host side: the events of a VM.
 *
 * Every function here may sleep, but for the overflow callback, and those
 * that take a vCPU run on its thread with kvm->srcu held for reading.  Errors
 * are -E*, which are the contract's -KVM_E* by value.
 *
 * Locking: an event is protected by the lock of its home, the vCPU that it
 * was opened or last enabled on.  A guest that keeps its events per CPU only
 * ever takes its own vCPU's lock.
 */
#define pr_fmt(fmt) "kvm: pv_perf: " fmt

#include <linux/export.h>
#include <linux/hashtable.h>
#include <linux/kernel.h>
#include <linux/kvm_host.h>
#include <linux/sched/clock.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/uaccess.h>

#include <asm/futex.h>

#include "compat.h"
#include "kvm_perf.h"
#include "pv_perf.h"
#include "pv_perf_event.h"
#include "pv_perf_trace.h"
#include "x86.h"
#include "pmu.h"

static void pv_perf_event_put(struct pv_perf_event *event)
{
	if (refcount_dec_and_test(&event->refs))
		kfree_rcu(event, rcu);
}

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
static struct pv_perf_vcpu *pv_perf_lock_home(struct pv_perf_event *event)
{
	struct pv_perf_vcpu *home;

	for (;;) {
		home = READ_ONCE(event->home);
		mutex_lock(&home->lock);
		if (home == READ_ONCE(event->home))
			return home;
		mutex_unlock(&home->lock);
	}
}

/* Lock an event from pv_perf_event_get(), or give it back and return NULL. */
static struct pv_perf_event *pv_perf_event_lock(struct pv_perf_event *event)
{
	struct pv_perf_vcpu *home = pv_perf_lock_home(event);

	if (event->backing)
		return event;

	/* Closed since it was found. */
	mutex_unlock(&home->lock);
	pv_perf_event_put(event);
	return NULL;
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
	struct pv_perf_event *event = pv_perf_event_get(kvm, id);

	return event ? pv_perf_event_lock(event) : NULL;
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

/* Does it count in one of the guest's two modes only? */
static bool pv_perf_excludes_mode(const struct pv_perf_event *event)
{
	return event->exclude_guest || event->exclude_host;
}

/* What the guest is told of an event. */
struct pv_perf_reading {
	u64 count;
	u64 enabled;
	u64 running;
	u64 last_period;
	u64 period_left;
};

/* What this backing event has counted, and those before it. */
static void pv_perf_add_past(struct pv_perf_event *event,
			     struct pv_perf_reading *reading)
{
	reading->count += event->past_count;
	reading->enabled += event->past_enabled;
	reading->running += event->past_running;
}

static u64 pv_perf_read_counter(struct perf_event *backing)
{
	backing->pmu->read(backing);
	return local64_read(&backing->count);
}

/*
 * The time of a context that is running: perf_event_time_now(), for an event
 * without exclude_guest.
 */
static u64 pv_perf_context_time(struct perf_event_context *ctx)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 0, 0)
	return local_clock() + READ_ONCE(ctx->timeoffset);
#else
	return local_clock() + READ_ONCE(ctx->time.offset);
#endif
}

/*
 * An event that counts on this CPU, which is that of most, read at a
 * tenth of the cost of perf_event_read_value().  With interrupts off perf
 * cannot take it from this CPU meanwhile: whoever wants to sends an IPI.
 */
static bool pv_perf_read_here(struct pv_perf_event *event,
			      struct pv_perf_reading *reading)
{
	struct perf_event *backing = event->backing;
	unsigned long flags;
	bool here;
	u64 delta;

	local_irq_save(flags);
	here = READ_ONCE(backing->state) == PERF_EVENT_STATE_ACTIVE &&
	       READ_ONCE(backing->oncpu) == smp_processor_id();
	if (here) {
		reading->count = event->stopped ? event->stopped_count :
						  pv_perf_read_counter(backing);
		delta = pv_perf_context_time(backing->ctx) - backing->tstamp;
		reading->enabled = backing->total_time_enabled + delta;
		reading->running = backing->total_time_running + delta;
	}
	local_irq_restore(flags);

	if (here)
		pv_perf_add_past(event, reading);
	return here;
}

/* One that has not counted since VM entry: see pv_perf_switch_mode(). */
static bool pv_perf_is_stopped(struct pv_perf_event *event, u64 *count)
{
	struct pv_perf_vcpu *home = event->home;
	unsigned long flags;
	bool stopped;

	lockdep_assert_held(&home->lock);

	if (!pv_perf_excludes_mode(event))
		return false;

	/* Its vCPU may be on the way from one mode to the other. */
	raw_spin_lock_irqsave(&home->mode_lock, flags);
	stopped = event->stopped;
	*count = event->stopped_count;
	raw_spin_unlock_irqrestore(&home->mode_lock, flags);

	return stopped;
}

static void pv_perf_read(struct pv_perf_event *event,
			 struct pv_perf_reading *reading)
{
	u64 stopped_count;
	bool stopped;

	lockdep_assert_held(&event->home->lock);

	if (pv_perf_read_here(event, reading))
		return;

	stopped = pv_perf_is_stopped(event, &stopped_count);
	reading->count = perf_event_read_value(event->backing,
					       &reading->enabled,
					       &reading->running);
	if (stopped)
		reading->count = stopped_count;
	pv_perf_add_past(event, reading);
}

/**
 * pv_perf_event_count - what an event has counted so far
 * @event: an open event, its home locked
 * @enabled: set to its time enabled
 * @running: set to its time running
 */
u64 pv_perf_event_count(struct pv_perf_event *event, u64 *enabled,
			u64 *running)
{
	struct pv_perf_reading reading;

	pv_perf_read(event, &reading);
	*enabled = reading.enabled;
	*running = reading.running;
	return reading.count;
}

/*
 * Guest memory is reached by its user-space mapping, as the steal time is:
 * nothing is pinned, the page may be anywhere or nowhere, and a write may
 * fault and sleep.
 */
static bool pv_perf_record_is_stale(struct kvm *kvm,
				    struct pv_perf_event *event)
{
	return kvm_memslots(kvm)->generation != event->record.generation;
}

static struct guest_perf_event __user *
pv_perf_record(struct kvm *kvm, struct pv_perf_event *event)
{
	struct gfn_to_hva_cache *ghc = &event->record;

	if (pv_perf_record_is_stale(kvm, event) &&
	    kvm_gfn_to_hva_cache_init(kvm, ghc, ghc->gpa,
				      sizeof(struct guest_perf_event)))
		return NULL;

	/* No memory there any more, or read-only. */
	if (kvm_is_error_hva(ghc->hva))
		return NULL;

	return (struct guest_perf_event __user *)ghc->hva;
}

/* As of the last reading of its count. */
static u64 pv_perf_period_left(struct perf_event *backing)
{
	s64 left = local64_read(&backing->hw.period_left);

	if (!is_sampling_event(backing))
		return 0;

	/* Its period was set: that begins when it counts. */
	if (!left && READ_ONCE(backing->state) != PERF_EVENT_STATE_ACTIVE)
		left = READ_ONCE(backing->hw.sample_period);

	/* Not positive: it overflows now. */
	return max_t(s64, left, 1);
}

/*
 * The sequence number is kept here because the guest may have written anything
 * into its copy.
 */
static int pv_perf_put_record(struct pv_perf_event *event,
			      struct guest_perf_event __user *record,
			      const struct pv_perf_reading *reading)
{
	if (!user_access_begin(record, sizeof(*record)))
		return -EFAULT;

	/*
	 * Odd before the first field changes and even after the last, so that
	 * a reader on another vCPU never takes a mixture for a reading.
	 */
	unsafe_put_user(event->sequence + 1, &record->sequence, fault);
	/* Pairs with the reader's barriers between sequence and fields. */
	smp_wmb();
	unsafe_put_user(reading->count, &record->count, fault);
	unsafe_put_user(reading->enabled, &record->time_enabled, fault);
	unsafe_put_user(reading->running, &record->time_running, fault);
	unsafe_put_user(reading->last_period, &record->last_period, fault);
	unsafe_put_user(reading->period_left, &record->period_left, fault);
	/* As above. */
	smp_wmb();
	unsafe_put_user(event->sequence + 2, &record->sequence, fault);
	user_access_end();

	event->sequence += 2;
	return 0;

fault:
	user_access_end();
	return -EFAULT;
}

/*
 * Tell the guest of a reading, and of @overflows more.  They come last: a guest
 * that sees them finds the rest there.
 */
static int pv_perf_write_record(struct kvm *kvm, struct pv_perf_event *event,
				struct pv_perf_reading *reading,
				unsigned int overflows)
{
	struct guest_perf_event __user *record = pv_perf_record(kvm, event);
	int ret, old;

	if (!record)
		return -EFAULT;

	reading->last_period = event->last_period;
	reading->period_left = pv_perf_period_left(event->backing);
	ret = pv_perf_put_record(event, record, reading);
	if (!ret && overflows)
		ret = arch_futex_atomic_op_inuser(FUTEX_OP_ADD, overflows, &old,
						  &record->overflows);
	if (!ret)
		mark_page_dirty_in_slot(kvm, event->record.memslot,
					gpa_to_gfn(event->record.gpa));
	return ret;
}

/* Bring the record up to date. */
static int pv_perf_update_record(struct kvm *kvm, struct pv_perf_event *event,
				 unsigned int overflows, u64 *count)
{
	struct pv_perf_reading reading;
	int ret;

	pv_perf_read(event, &reading);
	ret = pv_perf_write_record(kvm, event, &reading, overflows);
	if (!ret)
		*count = reading.count;

	return ret;
}

/* The same with interrupts off; -EAGAIN where that would have to wait. */
static int pv_perf_update_record_irqoff(struct kvm *kvm,
					struct pv_perf_event *event,
					unsigned int overflows)
{
	struct pv_perf_reading reading;
	int ret = -EAGAIN;
	int idx;

	if (!pv_perf_read_here(event, &reading))
		return -EAGAIN;

	idx = srcu_read_lock(&kvm->srcu);
	pagefault_disable();
	if (!pv_perf_record_is_stale(kvm, event))
		ret = pv_perf_write_record(kvm, event, &reading, overflows);
	pagefault_enable();
	srcu_read_unlock(&kvm->srcu, idx);

	return ret ? -EAGAIN : 0;
}

/* A record starts with every field 0. */
static int pv_perf_init_record(struct kvm *kvm, struct pv_perf_event *event,
			       gpa_t gpa)
{
	static const struct guest_perf_event zero;

	if (kvm_gfn_to_hva_cache_init(kvm, &event->record, gpa, sizeof(zero)))
		return -EFAULT;

	return kvm_write_guest(kvm, gpa, &zero, sizeof(zero)) ? -EFAULT : 0;
}

/*
 * The backing event has overflowed.  In NMI context, on the backing event's
 * thread: note it, and have the vCPU see it before it enters the guest.
 */
static void pv_perf_overflow(struct perf_event *backing,
			     struct perf_sample_data *data,
			     struct pt_regs *regs)
{
	struct pv_perf_event *event = backing->overflow_handler_context;
	struct pv_perf_vcpu *home = READ_ONCE(event->home);

	atomic64_add(data->period, &event->passed);
	atomic_inc(&event->overflows);
	kvm_make_request(KVM_REQ_PV_PERF, home->vcpu);

	/*
	 * An NMI that ended guest mode leads back to a check for requests.
	 * One that came later may find the vCPU on its way to halt, from which
	 * an NMI cannot wake it.
	 */
	if (!kvm_handling_nmi_from_guest(home->vcpu))
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

	/* It may have delivered them since, on its way into the guest. */
	if (!kvm_test_request(KVM_REQ_PV_PERF, pv->vcpu))
		return;

	kvm_inject_nmi(pv->vcpu);
	kvm_vcpu_kick(pv->vcpu);
}

/*
 * The hardware counts a nested guest as it does the guest, so an event that is
 * to count only one of them is stopped while the other runs.
 *
 * perf does not know of that.  Until the next VM entry it may schedule the
 * event out and in, give it another counter, which leaves what is in there and
 * what perf knows of it apart, and at a tick start it (to adapt the period to a
 * frequency), none of which counts anything, as the host is not counted.  So the
 * count that it had when it was stopped is the one that holds, and whatever
 * perf takes for it meanwhile does not.
 */
static void pv_perf_stop_event(struct pv_perf_event *event)
{
	struct perf_event *backing = event->backing;

	backing->pmu->stop(backing, PERF_EF_UPDATE);
	if (!event->stopped)
		event->stopped_count = local64_read(&backing->count);
	event->stopped = true;
}

static void pv_perf_restart_event(struct pv_perf_event *event)
{
	struct perf_event *backing = event->backing;

	if (!(backing->hw.state & PERF_HES_STOPPED))
		backing->pmu->stop(backing, PERF_EF_UPDATE);
	local64_set(&backing->count, event->stopped_count);
	event->stopped = false;
	backing->pmu->start(backing, PERF_EF_RELOAD);
}

static bool pv_perf_must_switch(struct pv_perf_event *event, bool stop)
{
	struct perf_event *backing = event->backing;

	if (backing->state != PERF_EVENT_STATE_ACTIVE ||
	    backing->oncpu != smp_processor_id())
		return false;

	/*
	 * It may be stopped already, by us at an earlier entry or by perf, which
	 * has throttled it.  If by perf alone, it is perf's to start it.
	 */
	return stop ? !(backing->hw.state & PERF_HES_STOPPED) : event->stopped;
}

/**
 * pv_perf_switch_events - stop and start the events that exclude a mode
 * @vcpu: the vCPU, as for pv_perf_switch_mode()
 */
void pv_perf_switch_events(struct kvm_vcpu *vcpu)
{
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;
	bool nested = is_guest_mode(vcpu), stop;
	struct pv_perf_event *event;
	struct pmu *pmu = NULL;

	lockdep_assert_irqs_disabled();

	raw_spin_lock(&here->mode_lock);
	list_for_each_entry(event, &here->mode_events, mode_node) {
		stop = nested ? event->exclude_guest : event->exclude_host;
		if (!pv_perf_must_switch(event, stop))
			continue;
		/*
		 * Some PMUs put into force what start and stop change when they
		 * are enabled again.  All events here are of the core's one PMU.
		 */
		if (!pmu) {
			pmu = event->backing->pmu;
			pmu->pmu_disable(pmu);
		}
		if (stop)
			pv_perf_stop_event(event);
		else
			pv_perf_restart_event(event);
	}
	if (pmu)
		pmu->pmu_enable(pmu);
	raw_spin_unlock(&here->mode_lock);
}

/*
 * A backing event counts whatever guest its thread runs, so only one vCPU at a
 * time may have events that count on a thread.  Here is which, by thread: those
 * of the vCPUs that have events and run, or ran last, there.  Only the thread
 * itself makes an entry for itself; others may take one away.
 */
static DEFINE_HASHTABLE(pv_perf_threads, 10);
static DEFINE_SPINLOCK(pv_perf_threads_lock);

static void pv_perf_leave_thread_locked(struct pv_perf_vcpu *pv)
{
	if (!pv->thread)
		return;

	hash_del(&pv->thread_node);
	WRITE_ONCE(pv->thread, NULL);
}

/* An event has gone, and counts no more. */
static void pv_perf_leave_thread(struct pv_perf_vcpu *home)
{
	lockdep_assert_held(&home->lock);

	if (!list_empty(&home->events))
		return;

	spin_lock(&pv_perf_threads_lock);
	pv_perf_leave_thread_locked(home);
	spin_unlock(&pv_perf_threads_lock);
}

/*
 * The vCPU runs on this thread and has events, none of which counts on another
 * any more: whoever has the other may run something else there.
 */
static void pv_perf_enter_thread(struct pv_perf_vcpu *here)
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

/* Without the lock: see above. */
static bool pv_perf_thread_is_clear(void)
{
	unsigned int i = hash_min((unsigned long)current,
				  HASH_BITS(pv_perf_threads));

	return hlist_empty(&pv_perf_threads[i]);
}

/* Have the vCPU that has this thread leave it; a reference to it, or NULL. */
static struct pv_perf_vcpu *pv_perf_evict_other(void)
{
	struct pv_perf_vcpu *pv, *other = NULL;

	spin_lock(&pv_perf_threads_lock);
	hash_for_each_possible(pv_perf_threads, pv, thread_node,
			       (unsigned long)current) {
		if (pv->thread != current)
			continue;
		pv_perf_leave_thread_locked(pv);
		/* Whoever destroys it has it leave first. */
		refcount_inc(&pv->refs);
		other = pv;
		break;
	}
	spin_unlock(&pv_perf_threads_lock);

	return other;
}

/**
 * pv_perf_vcpu_put - give a reference to a vCPU's events back
 * @pv: the struct pv_perf_vcpu, to be freed with the last
 */
void pv_perf_vcpu_put(struct pv_perf_vcpu *pv)
{
	if (refcount_dec_and_test(&pv->refs))
		kfree(pv);
}

/* From here on VM entry looks at the event's backing. */
static void pv_perf_link(struct pv_perf_vcpu *home, struct pv_perf_event *event)
{
	unsigned long flags;

	lockdep_assert_held(&home->lock);

	list_add_tail(&event->node, &home->events);
	WRITE_ONCE(home->nr_events, home->nr_events + 1);
	if (!pv_perf_excludes_mode(event))
		return;

	raw_spin_lock_irqsave(&home->mode_lock, flags);
	list_add_tail(&event->mode_node, &home->mode_events);
	raw_spin_unlock_irqrestore(&home->mode_lock, flags);
}

/* From here on nobody does. */
static void pv_perf_unlink(struct pv_perf_event *event)
{
	struct pv_perf_vcpu *home = event->home;
	unsigned long flags;

	lockdep_assert_held(&home->lock);

	list_del(&event->node);
	WRITE_ONCE(home->nr_events, home->nr_events - 1);
	if (!pv_perf_excludes_mode(event))
		return;

	raw_spin_lock_irqsave(&home->mode_lock, flags);
	list_del(&event->mode_node);
	raw_spin_unlock_irqrestore(&home->mode_lock, flags);
}

/*
 * Of what is asked of it here, perf supports all, unless a VM has the mediated
 * virtual PMU, which takes the whole PMU.
 */
static int pv_perf_not_now(struct kvm *kvm)
{
	if (!test_and_set_bit(PV_PERF_LOGGED_REFUSED, &kvm->arch.pv_perf->logged))
		pr_info_ratelimited("VM of pid %d gets no events as long as another VM has the mediated virtual PMU\n",
				    kvm->userspace_pid);
	return -EBUSY;
}

/* A disabled backing event on this thread. */
static struct perf_event *pv_perf_create_backing(struct pv_perf_event *event)
{
	struct perf_event_attr attr = event->attr;
	struct perf_event *backing;

	backing = perf_event_create_kernel_counter(&attr, -1, current,
						   pv_perf_overflow, event);
	if (!IS_ERR(backing))
		return backing;

	if (IS_ENABLED(CONFIG_PERF_GUEST_MEDIATED_PMU) &&
	    PTR_ERR(backing) == -EOPNOTSUPP)
		return ERR_PTR(pv_perf_not_now(event->home->vcpu->kvm));

	switch (PTR_ERR(backing)) {
	case -ENOMEM:
		return ERR_PTR(-ENOSPC);
	case -EBUSY:
		return backing;
	default:
		return ERR_PTR(-EOPNOTSUPP);
	}
}

/* A pinned event that finds no counter goes to the error state. */
static bool pv_perf_has_no_counter(struct perf_event *backing)
{
	return READ_ONCE(backing->state) == PERF_EVENT_STATE_ERROR;
}

/* It counted, and another event has taken its counter since. */
static bool pv_perf_was_robbed(struct pv_perf_event *event)
{
	return event->enabled && !event->lost &&
	       pv_perf_has_no_counter(event->backing);
}

static void pv_perf_note_lost(struct pv_perf_event *event)
{
	if (pv_perf_was_robbed(event))
		event->lost = true;
}

static bool pv_perf_any_robbed(struct pv_perf_vcpu *home)
{
	struct pv_perf_event *event;

	list_for_each_entry(event, &home->events, node) {
		if (pv_perf_was_robbed(event))
			return true;
	}

	return false;
}

static void pv_perf_restart_robbed(struct pv_perf_vcpu *home)
{
	struct pv_perf_event *event;

	list_for_each_entry(event, &home->events, node) {
		if (pv_perf_was_robbed(event))
			perf_event_enable(event->backing);
	}
}

/*
 * On the backing event's thread the answer is there at once.  perf schedules
 * all pinned events of a thread anew: the one that finds no counter is the
 * youngest of them, not always the one that is being enabled.  It gets its
 * counter back; the vCPU is in the host, so it has missed nothing.  Those that
 * had lost theirs before stay so until the guest is told.
 */
static int pv_perf_start(struct pv_perf_vcpu *home, struct perf_event *backing)
{
	struct pv_perf_event *event;

	lockdep_assert_held(&home->lock);

	list_for_each_entry(event, &home->events, node)
		pv_perf_note_lost(event);

	perf_event_enable(backing);
	if (!pv_perf_has_no_counter(backing) && !pv_perf_any_robbed(home))
		return 0;

	perf_event_disable(backing);
	pv_perf_restart_robbed(home);
	return -EBUSY;
}

/* The backing event is fit to count guest execution on this thread. */
static bool pv_perf_is_here(struct kvm_vcpu *vcpu, struct pv_perf_event *event)
{
	/* hw.target holds a reference: no other task can have this address. */
	return event->home == vcpu->arch.pv_perf &&
	       event->backing->hw.target == current;
}

/**
 * pv_perf_event_open - create an event, disabled
 * @vcpu: the vCPU that asks
 * @id: the event's id
 * @attr: of the backing event
 * @flags: the guest's KVM_PERF_ATTR_*
 * @gpa: address of the record, aligned to its size
 *
 * Return: 0, -EEXIST, -ENOSPC, -EBUSY, -EOPNOTSUPP, -EFAULT.
 */
int pv_perf_event_open(struct kvm_vcpu *vcpu, u32 id,
		       const struct perf_event_attr *attr, u64 flags, gpa_t gpa)
{
	struct pv_perf_vm *vm = vcpu->kvm->arch.pv_perf;
	struct pv_perf_vcpu *home = vcpu->arch.pv_perf;
	struct pv_perf_event *event;
	int ret;

	/* Reserve the id, which keeps others out while this one sleeps. */
	ret = xa_insert(&vm->events, id, NULL, GFP_KERNEL);
	if (ret)
		return ret == -EBUSY ? -EEXIST : -ENOSPC;

	ret = pv_perf_charge_event(vcpu->kvm);
	if (ret)
		goto release_id;

	ret = pv_perf_check_room(vcpu);
	if (ret)
		goto uncharge;

	ret = -ENOSPC;
	event = kzalloc_obj(*event, GFP_KERNEL_ACCOUNT);
	if (!event)
		goto uncharge;

	event->id = id;
	event->attr = *attr;
	event->exclude_guest = flags & KVM_PERF_ATTR_EXCLUDE_GUEST;
	event->exclude_host = flags & KVM_PERF_ATTR_EXCLUDE_HOST;
	event->home = home;
	refcount_set(&event->refs, 1);

	event->backing = pv_perf_create_backing(event);
	if (IS_ERR(event->backing)) {
		ret = PTR_ERR(event->backing);
		goto free_event;
	}

	/* The host's perf knows which event select a generic event is. */
	ret = -EOPNOTSUPP;
	if (!kvm_pmu_event_allowed(vcpu->kvm, event->backing->hw.config))
		goto release_backing;

	ret = pv_perf_init_record(vcpu->kvm, event, gpa);
	if (ret)
		goto release_backing;

	mutex_lock(&home->lock);
	pv_perf_link(home, event);
	pv_perf_enter_thread(home);
	/* Cannot fail: the entry is reserved. */
	xa_store(&vm->events, id, event, GFP_KERNEL);
	mutex_unlock(&home->lock);
	return 0;

release_backing:
	perf_event_release_kernel(event->backing);
free_event:
	kfree(event);
uncharge:
	pv_perf_uncharge_event(vcpu->kvm);
release_id:
	xa_release(&vm->events, id);
	return ret;
}

/* Unpublish an open event; the caller holds a reference and the home's lock. */
static void pv_perf_close_locked(struct kvm *kvm, struct pv_perf_event *event)
{
	struct pv_perf_vm *vm = kvm->arch.pv_perf;

	xa_erase(&vm->events, event->id);
	pv_perf_unlink(event);
	perf_event_release_kernel(event->backing);
	event->backing = NULL;
	pv_perf_leave_thread(event->home);
	pv_perf_uncharge_event(kvm);
	/* The table's reference; the caller's keeps the event. */
	pv_perf_event_put(event);
}

/**
 * pv_perf_event_close - delete an event
 * @kvm: the VM
 * @id: the event's id
 *
 * Nothing writes its record once this has returned.
 *
 * Return: 0 or -ENOENT.
 */
int pv_perf_event_close(struct kvm *kvm, u32 id)
{
	struct pv_perf_event *event = pv_perf_event_get_locked(kvm, id);

	if (!event)
		return -ENOENT;

	pv_perf_close_locked(kvm, event);
	pv_perf_event_put_locked(event);
	return 0;
}

/* Order by address: two vCPUs may move events to each other. */
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

/*
 * perf lets the period be changed, but not what is left of it: that is between
 * a stop and a start of the counter, as when perf itself adjusts a period.
 * One that perf has throttled stays stopped.
 */
static bool pv_perf_set_left_here(struct perf_event *backing, u64 left)
{
	struct pmu *pmu = backing->pmu;
	unsigned long flags;
	bool here;

	local_irq_save(flags);
	here = READ_ONCE(backing->state) == PERF_EVENT_STATE_ACTIVE &&
	       READ_ONCE(backing->oncpu) == smp_processor_id();
	if (here && (backing->hw.state & PERF_HES_STOPPED)) {
		local64_set(&backing->hw.period_left, left);
	} else if (here) {
		pmu->pmu_disable(pmu);
		pmu->stop(backing, PERF_EF_UPDATE);
		local64_set(&backing->hw.period_left, left);
		pmu->start(backing, PERF_EF_RELOAD);
		pmu->pmu_enable(pmu);
	}
	local_irq_restore(flags);

	return here;
}

/* One that counts elsewhere, or not at all. */
static void pv_perf_set_left_there(struct perf_event *backing, u64 left)
{
	bool enabled = READ_ONCE(backing->state) >= PERF_EVENT_STATE_INACTIVE;

	perf_event_disable(backing);
	local64_set(&backing->hw.period_left, left);
	if (enabled)
		perf_event_enable(backing);
}

static void pv_perf_set_left(struct perf_event *backing, u64 left)
{
	if (!pv_perf_set_left_here(backing, left))
		pv_perf_set_left_there(backing, left);
}

/* Where an event is in its period; with a frequency, perf has chosen that. */
static void pv_perf_copy_position(const struct perf_event *from,
				  struct perf_event *to)
{
	if (!is_sampling_event(to))
		return;

	to->hw.sample_period = from->hw.sample_period;
	to->hw.last_period = from->hw.last_period;
	pv_perf_set_left(to, local64_read(&from->hw.period_left));
}

/*
 * Put @backing, of this vCPU's thread, in the place of the event's.
 *
 * The old one is stopped before it is looked at: what it counted after that
 * would be lost, and an overflow would come twice.  While it counts, entries of
 * its vCPU have to find it.
 */
static void pv_perf_replace_backing(struct pv_perf_event *event,
				    struct pv_perf_vcpu *here,
				    struct perf_event *backing)
{
	struct pv_perf_vcpu *home = event->home;
	u64 count, enabled, running;

	perf_event_disable(event->backing);
	count = pv_perf_event_count(event, &enabled, &running);
	pv_perf_copy_position(event->backing, backing);
	pv_perf_unlink(event);
	perf_event_release_kernel(event->backing);

	event->past_count = count;
	event->past_enabled = enabled;
	event->past_running = running;
	event->backing = backing;
	event->stopped = false;
	event->enabled = true;
	event->lost = false;
	event->throttled = false;
	event->parked = false;
	WRITE_ONCE(event->home, here);
	pv_perf_link(here, event);
	pv_perf_leave_thread(home);

	/* The old home may have noted overflows and not delivered them. */
	if (atomic_read(&event->overflows))
		kvm_make_request(KVM_REQ_PV_PERF, here->vcpu);
}

/*
 * The new backing event counts before the old one is given up, so that a failure
 * changes nothing; this thread is in the host meanwhile, so none counts twice.
 */
static int pv_perf_move_locked(struct pv_perf_event *event,
			       struct pv_perf_vcpu *here)
{
	struct perf_event *backing;
	int ret;

	/* Closed since it was found. */
	if (!event->backing)
		return -ENOENT;

	backing = pv_perf_create_backing(event);
	if (IS_ERR(backing))
		return PTR_ERR(backing);

	ret = pv_perf_start(here, backing);
	if (ret)
		perf_event_release_kernel(backing);
	else
		pv_perf_replace_backing(event, here, backing);

	return ret;
}

/* Enable an event on this vCPU's thread that has its backing on another. */
static int pv_perf_move_and_enable(struct kvm_vcpu *vcpu,
				   struct pv_perf_event *event)
{
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;
	struct pv_perf_vcpu *home;
	int ret;

	pv_perf_wait_to_open(vcpu->kvm);
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

/* An event that overflows has to wait while the VM has had too many. */
static int pv_perf_check_rate(struct pv_perf_event *event)
{
	if (is_sampling_event(event->backing) &&
	    pv_perf_rate_exceeded(event->home->vcpu->kvm))
		return -EBUSY;

	return 0;
}

static int pv_perf_enable_here(struct pv_perf_event *event)
{
	int ret;

	/* It goes on by itself. */
	if (event->throttled)
		return 0;

	/* Not started anew: what that finds amiss may be another event's. */
	if (event->enabled && !event->lost &&
	    !pv_perf_has_no_counter(event->backing))
		return 0;

	ret = event->enabled ? 0 : pv_perf_check_rate(event);
	ret = ret ? : pv_perf_start(event->home, event->backing);
	if (ret)
		return ret;

	event->enabled = true;
	event->lost = false;
	return 0;
}

/* Stop an event until its vCPU runs on the backing event's thread again. */
static void pv_perf_park(struct pv_perf_event *event)
{
	perf_event_disable(event->backing);
	/* From now on it cannot. */
	pv_perf_note_lost(event);
	event->parked = true;
}

static void pv_perf_unpark(struct pv_perf_vcpu *here,
			   struct pv_perf_event *event)
{
	event->parked = false;
	if (event->throttled)
		kvm_make_request(KVM_REQ_PV_PERF, here->vcpu);
	else if (!event->lost)
		event->lost = pv_perf_start(here, event->backing) != 0;
}

/* Those of its events that count elsewhere are its next thread's already. */
static void pv_perf_park_here(struct pv_perf_vcpu *other)
{
	struct pv_perf_event *event;

	mutex_lock(&other->lock);
	list_for_each_entry(event, &other->events, node) {
		if (event->enabled && event->backing->hw.target == current)
			pv_perf_park(event);
	}
	mutex_unlock(&other->lock);
}

/**
 * pv_perf_clear_thread - no other vCPU's events are to count on this thread
 * @vcpu: the vCPU that it is going to run
 *
 * The other may be another VM's, and be run by another thread or be destroyed
 * meanwhile.
 */
void pv_perf_clear_thread(struct kvm_vcpu *vcpu)
{
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;
	struct pv_perf_vcpu *other;

	if (READ_ONCE(here->thread) == current || pv_perf_thread_is_clear())
		return;

	other = pv_perf_evict_other();
	if (!other)
		return;

	pv_perf_park_here(other);
	pv_perf_vcpu_put(other);
}

/* Let an event of this vCPU count on this thread, where it left off. */
static void pv_perf_follow(struct pv_perf_vcpu *here,
			   struct pv_perf_event *event)
{
	struct perf_event *backing;
	bool lost, throttled = event->throttled;

	backing = pv_perf_create_backing(event);
	if (IS_ERR(backing)) {
		/* Tried again when the vCPU is run the next time. */
		pv_perf_park(event);
		return;
	}

	pv_perf_note_lost(event);
	lost = pv_perf_start(here, backing) || event->lost;
	pv_perf_replace_backing(event, here, backing);
	/* READ tells the guest. */
	event->lost = lost;

	event->throttled = throttled;
	if (throttled)
		kvm_make_request(KVM_REQ_PV_PERF, here->vcpu);
}

/**
 * pv_perf_follow_thread - this thread is going to run the vCPU
 * @vcpu: the vCPU
 *
 * A VMM may run it by another thread than before; what counts there comes here.
 * What had to stop for another vCPU that this thread has run goes on.
 */
void pv_perf_follow_thread(struct kvm_vcpu *vcpu)
{
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;
	struct pv_perf_event *event, *next;

	mutex_lock(&here->lock);
	list_for_each_entry_safe(event, next, &here->events, node) {
		if (event->enabled && !pv_perf_is_here(vcpu, event))
			pv_perf_follow(here, event);
		else if (event->parked)
			pv_perf_unpark(here, event);
	}
	if (!list_empty(&here->events))
		pv_perf_enter_thread(here);
	mutex_unlock(&here->lock);
}

/**
 * pv_perf_update_records - tell the guest whatever there is to tell
 * @vcpu: the vCPU, which the VMM is stopping
 *
 * The VMM may save the guest's memory now, and restore it elsewhere.
 */
void pv_perf_update_records(struct kvm_vcpu *vcpu)
{
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;
	struct pv_perf_event *event;
	u64 count;

	if (kvm_check_request(KVM_REQ_PV_PERF, vcpu))
		pv_perf_deliver_overflows(vcpu);

	mutex_lock(&here->lock);
	list_for_each_entry(event, &here->events, node) {
		if (event->enabled)
			pv_perf_update_record(vcpu->kvm, event, 0, &count);
	}
	mutex_unlock(&here->lock);
}

/**
 * pv_perf_event_enable - let an event count on this vCPU
 * @vcpu: the vCPU that asks
 * @id: the event's id
 *
 * Return: 0, -ENOENT, -EBUSY if no counter is free, or what moving the event
 * here failed with: -ENOSPC, -EOPNOTSUPP.
 */
int pv_perf_event_enable(struct kvm_vcpu *vcpu, u32 id)
{
	struct pv_perf_event *event;
	int ret;

	event = pv_perf_event_get_locked(vcpu->kvm, id);
	if (!event)
		return -ENOENT;

	if (pv_perf_is_here(vcpu, event)) {
		ret = pv_perf_enable_here(event);
		pv_perf_event_put_locked(event);
		return ret;
	}

	ret = pv_perf_check_rate(event);
	if (!ret && event->home != vcpu->arch.pv_perf)
		ret = pv_perf_check_room(vcpu);
	if (ret) {
		pv_perf_event_put_locked(event);
		return ret;
	}

	mutex_unlock(&event->home->lock);
	ret = pv_perf_move_and_enable(vcpu, event);
	pv_perf_event_put(event);
	return ret;
}

/**
 * pv_perf_event_disable - stop an event and bring its record up to date
 * @kvm: the VM
 * @id: the event's id
 * @count: set to its count where the record was written
 *
 * Return: 0, -ENOENT, or -EFAULT if the record could not be written, though
 * the event has been stopped.
 */
int pv_perf_event_disable(struct kvm *kvm, u32 id, u64 *count)
{
	struct pv_perf_event *event = pv_perf_event_get_locked(kvm, id);
	int ret;

	if (!event)
		return -ENOENT;

	perf_event_disable(event->backing);
	event->enabled = false;
	event->lost = false;
	event->throttled = false;
	event->parked = false;
	ret = pv_perf_update_record(kvm, event, 0, count);
	pv_perf_event_put_locked(event);
	return ret;
}

/*
 * A host event with precedence can take the counter of a running one.  Tell
 * the guest that it has missed some, and try to go on.
 */
static int pv_perf_read_locked(struct kvm *kvm, struct pv_perf_event *event,
			       u64 *count)
{
	bool lost;
	int ret;

	pv_perf_note_lost(event);
	lost = event->lost;
	if (lost && !event->parked &&
	    !pv_perf_start(event->home, event->backing))
		event->lost = false;

	ret = pv_perf_update_record(kvm, event, 0, count);
	return ret ? : lost ? -EBUSY : 0;
}

/**
 * pv_perf_event_read - bring an event's record up to date
 * @kvm: the VM
 * @id: the event's id
 * @count: set to its count where the record was written
 *
 * Return: 0, -ENOENT, -EFAULT if the record could not be written, or -EBUSY
 * if it was written but the event had lost its counter.
 */
int pv_perf_event_read(struct kvm *kvm, u32 id, u64 *count)
{
	struct pv_perf_event *event = pv_perf_event_get_locked(kvm, id);
	int ret;

	if (!event)
		return -ENOENT;

	ret = pv_perf_read_locked(kvm, event, count);
	pv_perf_event_put_locked(event);
	return ret;
}

/**
 * pv_perf_event_read_all - bring the records of a vCPU's events up to date
 * @vcpu: the vCPU
 *
 * Only those that are enabled: the others' are up to date.
 *
 * Return: 0, what the first that failed has failed with, or -ENOENT if none is
 * enabled.
 */
int pv_perf_event_read_all(struct kvm_vcpu *vcpu)
{
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;
	struct pv_perf_event *event;
	int ret = 0, err;
	bool any = false;
	u64 count;

	mutex_lock(&here->lock);
	list_for_each_entry(event, &here->events, node) {
		if (!event->enabled)
			continue;
		any = true;
		err = pv_perf_read_locked(vcpu->kvm, event, &count);
		ret = ret ? : err;
	}
	mutex_unlock(&here->lock);

	return any ? ret : -ENOENT;
}

/*
 * To change what another vCPU's thread counts, perf interrupts the CPU that has
 * run that last, whoever runs there now: no more often than events are moved.
 */
static struct pv_perf_event *pv_perf_get_to_change(struct kvm_vcpu *vcpu, u32 id)
{
	struct pv_perf_event *event = pv_perf_event_get(vcpu->kvm, id);

	if (!event)
		return NULL;

	if (READ_ONCE(event->home) != vcpu->arch.pv_perf)
		pv_perf_wait_to_open(vcpu->kvm);

	return pv_perf_event_lock(event);
}

/**
 * pv_perf_event_set_period - let an event overflow at another period
 * @vcpu: the vCPU that asks for it
 * @id: the event's id
 * @period: number of events, or of overflows per second for an event with a
 *	frequency
 *
 * Return: 0, -ENOENT, or -EINVAL if the event has no period or the host does
 * not allow this one.
 */
int pv_perf_event_set_period(struct kvm_vcpu *vcpu, u32 id, u64 period)
{
	struct pv_perf_event *event = pv_perf_get_to_change(vcpu, id);
	int ret = -EINVAL;

	if (!event)
		return -ENOENT;

	if (is_sampling_event(event->backing))
		ret = perf_event_period(event->backing, period);
	if (!ret)
		event->attr.sample_period = period;

	pv_perf_event_put_locked(event);
	return ret ? -EINVAL : 0;
}

/**
 * pv_perf_event_set_left - bring an event's record up to date, and set when it
 * overflows next
 * @vcpu: the vCPU that asks for it
 * @id: the event's id
 * @left: after how many events, 0 for a whole period; set to the event's count
 *
 * Return: 0, -ENOENT, -EINVAL if the event has no period, or -EFAULT if the
 * record could not be written.
 */
int pv_perf_event_set_left(struct kvm_vcpu *vcpu, u32 id, u64 *left)
{
	struct pv_perf_event *event = pv_perf_get_to_change(vcpu, id);
	struct perf_event *backing;
	u64 next = *left;
	int ret = -EINVAL;

	if (!event)
		return -ENOENT;

	backing = event->backing;
	if (!is_sampling_event(backing) || next > S64_MAX)
		goto out;

	ret = pv_perf_update_record(vcpu->kvm, event, 0, left);
	if (ret)
		goto out;

	next = next ? : READ_ONCE(backing->hw.sample_period);
	pv_perf_set_left(backing, next);

out:
	pv_perf_event_put_locked(event);
	return ret;
}

/* The VM has had too many overflows, and this event is what has the last. */
static void pv_perf_throttle(struct pv_perf_event *event)
{
	struct pv_perf_vm *vm = event->home->vcpu->kvm->arch.pv_perf;

	if (!event->enabled || event->throttled)
		return;

	event->throttled = true;
	atomic64_inc(&vm->throttled);
}

/* It may overflow again, with the counter that it may find. */
static void pv_perf_unthrottle(struct pv_perf_event *event)
{
	event->throttled = false;
	event->lost = pv_perf_start(event->home, event->backing) != 0;
}

/* Stop it until the VM's overflows are back at the rate it may have. */
static void pv_perf_wait_for_rate(struct pv_perf_event *event)
{
	s64 time = pv_perf_rate_time(event->home->vcpu->kvm);

	/* It is looked at again when it goes on. */
	if (event->parked)
		return;

	if (!time) {
		pv_perf_unthrottle(event);
		return;
	}

	/* Not just the counter: perf would start that again when it likes. */
	perf_event_disable(event->backing);
	hrtimer_start(&event->home->rate_timer, ns_to_ktime(time),
		      HRTIMER_MODE_ABS);
}

/**
 * pv_perf_rate_timer - have a vCPU look at its throttled events
 * @timer: of its struct pv_perf_vcpu
 */
enum hrtimer_restart pv_perf_rate_timer(struct hrtimer *timer)
{
	struct pv_perf_vcpu *pv = container_of(timer, struct pv_perf_vcpu,
					       rate_timer);

	kvm_make_request(KVM_REQ_PV_PERF, pv->vcpu);
	kvm_vcpu_kick(pv->vcpu);
	return HRTIMER_NORESTART;
}

static void pv_perf_delivered(struct kvm_vcpu *vcpu,
			      struct pv_perf_event *event, unsigned int n)
{
	struct pv_perf_vm *vm = vcpu->kvm->arch.pv_perf;

	trace_kvm_pv_perf_overflow(vcpu->vcpu_id, event->id, n,
				   event->last_period);
	atomic64_add(n, &vm->delivered);
}

/* Tell the guest of an event's overflows; true if there were any. */
static bool pv_perf_deliver(struct kvm_vcpu *vcpu, struct pv_perf_event *event)
{
	unsigned int n;
	u64 count;

	if (!atomic_read(&event->overflows))
		return false;

	n = atomic_xchg(&event->overflows, 0);
	event->last_period = div_u64(atomic64_xchg(&event->passed, 0), n);

	/* Whether or not the guest can be told: the host has had the work. */
	if (pv_perf_charge_overflows(vcpu->kvm, n))
		pv_perf_throttle(event);

	/* A guest that took the record's memory away gets no NMI for it. */
	if (pv_perf_update_record(vcpu->kvm, event, n, &count))
		return false;

	pv_perf_delivered(vcpu, event, n);
	return true;
}

/* The same with interrupts off; -EAGAIN, and no change, if it has to wait. */
static int pv_perf_deliver_irqoff(struct kvm_vcpu *vcpu,
				  struct pv_perf_event *event)
{
	unsigned int n;
	u64 passed;

	if (!atomic_read(&event->overflows))
		return 0;

	n = atomic_xchg(&event->overflows, 0);
	passed = atomic64_xchg(&event->passed, 0);
	event->last_period = div_u64(passed, n);

	if (pv_perf_update_record_irqoff(vcpu->kvm, event, n)) {
		atomic64_add(passed, &event->passed);
		atomic_add(n, &event->overflows);
		return -EAGAIN;
	}

	pv_perf_delivered(vcpu, event, n);
	if (pv_perf_charge_overflows(vcpu->kvm, n))
		pv_perf_throttle(event);
	return 1;
}

static bool pv_perf_deliver_all_irqoff(struct kvm_vcpu *vcpu)
{
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;
	struct pv_perf_event *event;
	bool nmi = false;
	int ret;

	list_for_each_entry(event, &here->events, node) {
		ret = pv_perf_deliver_irqoff(vcpu, event);
		nmi |= ret > 0;
		/* Stopping one may sleep, and the request was its timer's, too. */
		if (ret < 0 || event->throttled)
			kvm_make_request(KVM_REQ_PV_PERF, vcpu);
	}

	return nmi;
}

/**
 * pv_perf_handle_nmi_exit - deliver overflows right at the exit they caused
 * @vcpu: the vCPU, which has left the guest for an NMI that the host has
 *	handled; with interrupts off, kvm->srcu not held
 *
 * Spares the vCPU the way out of the run loop and in again.  What would have to
 * wait for a lock or a page, or is more than overflows, is left to the request.
 *
 * Return: true if the caller is to inject an NMI now.
 */
bool pv_perf_handle_nmi_exit(struct kvm_vcpu *vcpu)
{
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;
	bool nmi;

	lockdep_assert_irqs_disabled();

	/* Whatever else is pending comes first, and has requests. */
	if (READ_ONCE(vcpu->requests) !=
	    BIT_ULL(KVM_REQ_PV_PERF & KVM_REQUEST_MASK) ||
	    vcpu->arch.nmi_pending || vcpu->guest_debug ||
	    IS_ENABLED(CONFIG_PREEMPT_RT))
		return false;

	if (!mutex_trylock(&here->lock))
		return false;

	nmi = kvm_check_request(KVM_REQ_PV_PERF, vcpu) &&
	      pv_perf_deliver_all_irqoff(vcpu);
	mutex_unlock(&here->lock);

	return nmi;
}
EXPORT_SYMBOL_FOR_KVM_INTERNAL(pv_perf_handle_nmi_exit);

/**
 * pv_perf_deliver_overflows - KVM_REQ_PV_PERF
 * @vcpu: the vCPU, about to enter the guest
 *
 * Brings the records of the events that have overflowed up to date, and injects
 * an NMI.  One that is pending already does: the guest looks at all its events
 * on any NMI.  Stops or starts events that overflow too often.
 */
void pv_perf_deliver_overflows(struct kvm_vcpu *vcpu)
{
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;
	struct pv_perf_event *event;
	bool nmi = false;

	mutex_lock(&here->lock);
	list_for_each_entry(event, &here->events, node) {
		nmi |= pv_perf_deliver(vcpu, event);
		if (event->throttled)
			pv_perf_wait_for_rate(event);
	}
	mutex_unlock(&here->lock);

	if (nmi && !vcpu->arch.nmi_pending &&
	    !atomic_read(&vcpu->arch.nmi_queued))
		kvm_inject_nmi(vcpu);
}

/**
 * pv_perf_close_vm_events - delete every event of a VM
 * @kvm: the VM
 *
 * Those that are being opened meanwhile may stay.
 */
void pv_perf_close_vm_events(struct kvm *kvm)
{
	struct pv_perf_vm *vm = kvm->arch.pv_perf;
	struct pv_perf_event *event;
	unsigned long id;

	xa_for_each(&vm->events, id, event) {
		pv_perf_event_close(kvm, id);
		cond_resched();
	}
}

/**
 * pv_perf_close_vcpu_events - delete every event whose home is this vCPU
 * @vcpu: the vCPU
 */
void pv_perf_close_vcpu_events(struct kvm_vcpu *vcpu)
{
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;
	struct pv_perf_event *event, *next;

	mutex_lock(&here->lock);
	list_for_each_entry_safe(event, next, &here->events, node) {
		pv_perf_close_locked(vcpu->kvm, event);
		cond_resched();
	}
	mutex_unlock(&here->lock);
}
