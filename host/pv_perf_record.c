// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, host side: the records, in guest memory.
 *
 * The host writes guest memory by its user-space mapping, like the steal time: nothing
 * is pinned, the page may be anywhere or nowhere, and a write may fault and sleep.
 */
#include <linux/uaccess.h>

#include <asm/futex.h>

#include "kvm_perf.h"
#include "pv_perf_memory.h"

/*
 * A vCPU learns by the result of its own operation which flags that brings.  Another vCPU
 * may bring a flag meanwhile, but whatever brings a flag has made this vCPU leave the
 * guest: it sees the request before it enters again.
 */
static void pv_perf_note_told(struct pv_perf_event *event, u32 flags)
{
	u32 new = flags & ~event->told;

	event->told = flags;
	event->owed &= flags;
	if (!new || !(event->flags & KVM_PERF_ATTR_NOTIFY) ||
	    READ_ONCE(event->home->thread) == current)
		return;

	/* Tell of these flags by an NMI, as the record will not change for them again. */
	event->owed |= new;
	kvm_make_request(KVM_REQ_PV_PERF, event->home->vcpu);
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
	unsafe_put_user(event->last_period, &record->last_period, fault);
	unsafe_put_user(reading->period_left, &record->period_left, fault);
	unsafe_put_user(reading->flags, &record->flags, fault);
	/* Order the fields before the even number; pairs as above. */
	smp_wmb();
	unsafe_put_user(event->sequence + 2, &record->sequence, fault);
	user_access_end();

	event->sequence += 2;
	pv_perf_note_told(event, reading->flags);
	return 0;

fault:
	user_access_end();
	return -EFAULT;
}

/* Most records are in a slot without dirty logging. */
static void pv_perf_mark_dirty(struct kvm *kvm, const struct pv_perf_event *event)
{
	struct kvm_memory_slot *slot = event->record.memslot;

	if (kvm_slot_dirty_track_enabled(slot))
		mark_page_dirty_in_slot(kvm, slot, gpa_to_gfn(event->record.gpa));
}

/**
 * pv_perf_write_record - tell the guest of a reading, and of more overflows
 * @kvm: the VM; kvm->srcu is held for reading
 * @event: the event, its home locked
 * @reading: values for the record; last_period is the event's
 * @overflows: number to add.  Written last: a guest that sees them finds the rest
 *	there.
 *
 * May sleep if the page is not there, unless page faults are disabled.
 *
 * Return: 0 or -EFAULT.
 */
int pv_perf_write_record(struct kvm *kvm, struct pv_perf_event *event,
			 const struct pv_perf_reading *reading,
			 unsigned int overflows)
{
	struct guest_perf_event __user *record = pv_perf_memory(kvm, &event->record);
	int ret, old;

	if (!record)
		return -EFAULT;

	ret = pv_perf_put_record(event, record, reading);
	if (!ret && overflows)
		ret = arch_futex_atomic_op_inuser(FUTEX_OP_ADD, overflows, &old,
						  &record->overflows);
	if (!ret)
		pv_perf_mark_dirty(kvm, event);
	return ret;
}

/**
 * pv_perf_write_pmc - tell the guest how it can read an event's count
 * @kvm: the VM; kvm->srcu is held for reading
 * @event: the event, its home locked
 * @pmc: counter and offset; the vCPU that may read the counter is in the host
 *
 * May sleep, like pv_perf_write_record().
 *
 * Return: 0, or -EFAULT; then one of the two may have been written.
 */
int pv_perf_write_pmc(struct kvm *kvm, struct pv_perf_event *event,
		      const struct pv_perf_pmc *pmc)
{
	struct guest_perf_event __user *record = pv_perf_memory(kvm, &event->record);
	u16 changes = event->pmc_changes + 1;

	if (!record || !user_access_begin(record, sizeof(*record)))
		return -EFAULT;

	unsafe_put_user(pmc->offset, &record->offset, fault);
	unsafe_put_user(pmc->index | changes * KVM_PERF_PMC_CHANGE_ONE,
			&record->pmc, fault);
	user_access_end();

	/* VM entry compares them without the lock, and finds it taken if it matters. */
	WRITE_ONCE(event->pmc.index, pmc->index);
	WRITE_ONCE(event->pmc.offset, pmc->offset);
	WRITE_ONCE(event->pmc_stuck, false);
	event->pmc_changes = changes;
	pv_perf_mark_dirty(kvm, event);
	return 0;

fault:
	user_access_end();
	return -EFAULT;
}

/**
 * pv_perf_init_record - look a record up, and set every field to 0
 * @kvm: the VM; kvm->srcu is held for reading
 * @event: the event
 * @gpa: address of its record
 *
 * May sleep.
 *
 * Return: 0 or -EFAULT.
 */
int pv_perf_init_record(struct kvm *kvm, struct pv_perf_event *event,
			gpa_t gpa)
{
	static const struct guest_perf_event zero;

	if (kvm_gfn_to_hva_cache_init(kvm, &event->record, gpa, sizeof(zero)))
		return -EFAULT;

	return kvm_write_guest(kvm, gpa, &zero, sizeof(zero)) ? -EFAULT : 0;
}
