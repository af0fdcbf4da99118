// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, host side: the operations on an open event.
 *
 * All may sleep, except for pv_perf_event_read_irqoff().  Operations that take a vCPU
 * run on its thread with kvm->srcu held for reading.  Errors are -E*, which are the
 * contract's -KVM_E* by value.
 */
#include <linux/rcupdate.h>
#include <linux/uaccess.h>

#include "compat.h"
#include "pv_perf_core.h"
#include "pv_perf_memory.h"
#include "pv_perf_seam.h"

/* A sampling event may not start while the overflows of this vCPU exceed the rate. */
static int pv_perf_check_rate(struct kvm_vcpu *vcpu,
			      struct pv_perf_event *event)
{
	if (is_sampling_event(event->backing) && pv_perf_rate_exceeded(vcpu))
		return -EAGAIN;

	return 0;
}

static int pv_perf_enable_here(struct kvm_vcpu *vcpu,
			       struct pv_perf_event *event)
{
	int ret;

	/* The rate timer restarts the event. */
	if (pv_perf_why(event) & PV_PERF_LIMITED)
		return 0;

	/* No restart: perf could then report another event's lost counter. */
	if (event->enabled && !(pv_perf_why(event) & PV_PERF_LOST) &&
	    !pv_perf_backing_has_no_counter(event->backing))
		return 0;

	ret = event->enabled ? 0 : pv_perf_check_rate(vcpu, event);
	ret = ret ? : pv_perf_start(event->home, event, event->backing);
	if (ret)
		return ret;

	WRITE_ONCE(event->enabled, true);
	pv_perf_clear_why(event, PV_PERF_LOST);
	/* The event counts again.  If that cannot be told, nor can its count. */
	if (pv_perf_has_news(event))
		pv_perf_update_record(event, 0, true, NULL);
	return 0;
}

/**
 * pv_perf_event_enable - let an event count on this vCPU
 * @vcpu: the vCPU that asks
 * @id: the event's id
 *
 * Return: 0, -ENOENT, -EBUSY if no counter is free, -EAGAIN if the vCPU's events
 * overflow too often, or the error of moving the event here: -ENOSPC, -EINVAL,
 * -EOPNOTSUPP.
 */
int pv_perf_event_enable(struct kvm_vcpu *vcpu, u32 id)
{
	struct pv_perf_event *event;
	int ret;

	event = pv_perf_event_get_locked(vcpu->kvm, id);
	if (!event)
		return -ENOENT;

	if (event->home == vcpu->arch.pv_perf && pv_perf_is_here(event)) {
		ret = pv_perf_enable_here(vcpu, event);
		pv_perf_event_put_locked(event);
		return ret;
	}

	ret = pv_perf_check_rate(vcpu, event);
	if (!ret && event->home != vcpu->arch.pv_perf)
		ret = pv_perf_check_room(vcpu);
	/* Before it is charged: a guest may ask at each tick, for each task. */
	if (!ret && pv_perf_kind_lacks(event, vcpu->arch.pv_perf->kind))
		ret = -EBUSY;
	if (ret) {
		pv_perf_event_put_locked(event);
		return ret;
	}

	mutex_unlock(&event->home->lock);
	ret = pv_perf_move_and_enable(vcpu, event);
	pv_perf_event_put(event);
	return ret;
}

/*
 * To change an event of another thread, perf interrupts the CPU that ran the thread last,
 * also if it runs another VM now.  So the rate of moves limits such changes.  The thread
 * is another vCPU's, or the vCPU's own from before the VMM changed its thread.
 */
static struct pv_perf_event *pv_perf_get_to_change(struct kvm_vcpu *vcpu, u32 id)
{
	struct pv_perf_event *event = pv_perf_event_get_locked(vcpu->kvm, id);

	if (event && !pv_perf_backing_is_mine(event->backing))
		pv_perf_charge_open(vcpu);

	return event;
}

/**
 * pv_perf_event_disable - disable an event and bring its record up to date
 * @vcpu: the vCPU that asks
 * @id: the event's id
 * @count: set to its count if the record was written
 *
 * Return: 0, -ENOENT, or -EFAULT if the event was disabled but the record could not be
 * written.
 */
int pv_perf_event_disable(struct kvm_vcpu *vcpu, u32 id, u64 *count)
{
	struct pv_perf_event *event = pv_perf_get_to_change(vcpu, id);
	int ret;

	if (!event)
		return -ENOENT;

	perf_event_disable(event->backing);
	pv_perf_forget_stopped(event);
	WRITE_ONCE(event->enabled, false);
	pv_perf_clear_why(event, PV_PERF_LOST | PV_PERF_LIMITED | PV_PERF_PARKED);
	ret = pv_perf_update_record(event, 0, true, count);
	/* Another vCPU's guest may be reading the counter: VM entry tells it. */
	if (event->home == vcpu->arch.pv_perf && pv_perf_has_rdpmc(event))
		pv_perf_features.end_rdpmc(event, false);
	pv_perf_event_put_locked(event);
	return ret;
}

/*
 * A host event with precedence can take the counter of a running event.  Tell the guest
 * that the event has missed counts.  Restart it only on its own thread: elsewhere perf
 * would schedule that thread's events anew by an IPI, while its guest runs, and younger
 * events might lose their counters and miss counts.
 */
static int pv_perf_read_locked(struct pv_perf_event *event, u64 *count)
{
	u32 why;
	int ret;

	pv_perf_note_lost(event);
	why = pv_perf_why(event);
	if (why & PV_PERF_LOST && !(why & (PV_PERF_PARKED | PV_PERF_LIMITED)) &&
	    pv_perf_is_here(event) &&
	    !pv_perf_start(event->home, event, event->backing))
		pv_perf_clear_why(event, PV_PERF_LOST);

	ret = pv_perf_update_record(event, 0, true, count);
	return ret ? : why & PV_PERF_LOST ? -EBUSY : 0;
}

/**
 * pv_perf_event_read - bring an event's record up to date
 * @kvm: the VM
 * @id: the event's id
 * @count: set to its count if the record was written
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

	ret = pv_perf_read_locked(event, count);
	pv_perf_event_put_locked(event);
	return ret;
}

/* The event's home is this vCPU's, and locked. */
static bool pv_perf_read_irqoff(struct pv_perf_event *event)
{
	bool done;

	if (pv_perf_why(event) & PV_PERF_LOST)
		return false;

	pagefault_disable();
	done = !pv_perf_update_record(event, 0, false, NULL);
	pagefault_enable();

	return done;
}

/**
 * pv_perf_event_read_irqoff - pv_perf_event_read() where nothing may sleep
 * @vcpu: the vCPU, on its own thread, with interrupts off and kvm->srcu held for reading
 * @id: the event's id
 *
 * Return: whether the event was read.  If not, it is another vCPU's, it does not count
 * here, or its lock or the page of its record would have to be waited for.
 */
bool pv_perf_event_read_irqoff(struct kvm_vcpu *vcpu, u32 id)
{
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;
	struct pv_perf_event *event;
	bool done;

	if (!mutex_trylock(&here->lock))
		return false;

	/* An event of this home stays open while the lock is held, another may not. */
	rcu_read_lock();
	event = xa_load(&vcpu->kvm->arch.pv_perf->events, id);
	done = event && event->home == here && event->backing && pv_perf_read_irqoff(event);
	rcu_read_unlock();
	mutex_unlock(&here->lock);

	return done;
}

/**
 * pv_perf_event_read_all - bring the records of a vCPU's events up to date
 * @vcpu: the vCPU
 *
 * Reads only enabled events: the records of the others are up to date.
 *
 * Return: 0, the error of the first event that failed, or -ENOENT if none is
 * enabled.
 */
int pv_perf_event_read_all(struct kvm_vcpu *vcpu)
{
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;
	struct pv_perf_event *event;
	int ret = 0, err;
	bool any = false;

	mutex_lock(&here->lock);
	list_for_each_entry(event, &here->events, node) {
		if (!event->enabled)
			continue;
		any = true;
		err = pv_perf_read_locked(event, NULL);
		ret = ret ? : err;
	}
	mutex_unlock(&here->lock);

	return any ? ret : -ENOENT;
}

static int pv_perf_set_period_locked(struct pv_perf_event *event, u64 period)
{
	int ret;

	if (!is_sampling_event(event->backing))
		return -EINVAL;

	if ((event->flags & KVM_PERF_ATTR_FREQ) &&
	    period > pv_perf_rate_allowed(event->home->vcpu->kvm))
		return -EINVAL;

	if (pv_perf_has_freq(event))
		return pv_perf_features.set_freq(event, period);

	ret = pv_perf_set_period(event, period);
	if (!ret)
		event->attr.sample_period = period;

	return ret;
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
	int ret;

	if (!event)
		return -ENOENT;

	ret = pv_perf_set_period_locked(event, period);
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
	struct pv_perf_reading reading;
	u64 next = *left;
	int ret = -EINVAL;

	if (!event)
		return -ENOENT;

	if (!is_sampling_event(event->backing) || next > S64_MAX)
		goto out;

	pv_perf_read(event, &reading);
	ret = pv_perf_write_record(vcpu->kvm, event, &reading, 0);
	if (ret)
		goto out;

	*left = reading.count;
	if (pv_perf_has_freq(event))
		pv_perf_features.set_left(event, &reading, next);
	pv_perf_set_left(event, next);

out:
	pv_perf_event_put_locked(event);
	return ret;
}
