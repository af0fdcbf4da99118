// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, host side: opening and closing.
 *
 * All may sleep.
 */
#include <linux/err.h>
#include <linux/slab.h>

#include "compat.h"
#include "kvm_perf.h"
#include "pv_perf_core.h"
#include "pv_perf_memory.h"
#include "pv_perf_seam.h"
#include "x86.h"

/* The lock protects all of these, and each VM's holds_pmu. */
static DEFINE_MUTEX(pv_perf_hold_lock);
static struct perf_event *pv_perf_held;
static unsigned int pv_perf_holders;

/*
 * On Intel, perf allocates the debug store of every CPU with the first hardware event,
 * and frees it with the last, with interrupts to each CPU (reserve_ds_buffers()).  A
 * guest could cause this all the time by OPEN and CLOSE, or by an OPEN that fails.  A
 * disabled event of the host keeps the debug store as long as there is a VM that has
 * tried an OPEN.
 */
static void pv_perf_hold_pmu(struct pv_perf_vm *vm)
{
	struct perf_event *held;

	if (READ_ONCE(vm->holds_pmu) || !pv_perf_host.own ||
	    boot_cpu_data.x86_vendor != X86_VENDOR_INTEL)
		return;

	mutex_lock(&pv_perf_hold_lock);
	if (!pv_perf_held) {
		held = pv_perf_backing_create_held(raw_smp_processor_id());
		if (!IS_ERR(held))
			pv_perf_held = held;
	}
	/* Another vCPU may have been faster. */
	if (pv_perf_held && !vm->holds_pmu) {
		pv_perf_holders++;
		WRITE_ONCE(vm->holds_pmu, true);
	}
	mutex_unlock(&pv_perf_hold_lock);
}

/**
 * pv_perf_release_pmu - the last of a VM's events is closed
 * @vm: the VM, which opens none any more
 *
 * May sleep.
 */
void pv_perf_release_pmu(struct pv_perf_vm *vm)
{
	if (!vm->holds_pmu)
		return;

	mutex_lock(&pv_perf_hold_lock);
	if (!--pv_perf_holders) {
		perf_event_release_kernel(pv_perf_held);
		pv_perf_held = NULL;
	}
	mutex_unlock(&pv_perf_hold_lock);
}

/* An event without a backing event; NULL if there is no memory. */
static struct pv_perf_event *
pv_perf_event_alloc(struct pv_perf_vcpu *home, u32 id,
		    const struct perf_event_attr *attr, u64 flags, u8 core)
{
	struct pv_perf_event *event;

	/* Charged, also for its backing event: see its struct. */
	event = kzalloc(struct_size(event, charge,
				    pv_perf_nr_kinds * sizeof(struct perf_event)),
			GFP_KERNEL_ACCOUNT);
	if (!event)
		return NULL;

	event->id = id;
	event->attr = *attr;
	/* Features set the other flags if the event may have them. */
	event->flags = flags & ~(KVM_PERF_ATTR_RDPMC | KVM_PERF_ATTR_BRANCHES);
	event->home = home;
	event->absent = pv_perf_kinds_except(core);
	refcount_set(&event->refs, 1);
	if (pv_perf_features.open)
		pv_perf_features.open(event, flags);
	return event;
}

/* Give an event its first backing event, if the VM may have such an event. */
static int pv_perf_event_create_backing(struct kvm_vcpu *vcpu,
					struct pv_perf_event *event)
{
	struct pv_perf_vm *vm = vcpu->kvm->arch.pv_perf;
	struct perf_event *backing;

	pv_perf_hold_pmu(vm);
	backing = pv_perf_backing_get(event, event->home, pv_perf_overflow);
	if (IS_ERR(backing))
		return PTR_ERR(backing);

	event->backing = backing;
	event->select = pv_perf_backing_select(backing);
	event->retired = pv_perf_retired_by(&vm->pmu, event->select);
	/* ENABLE will ask again, but do not open an event that may not count. */
	if (pv_perf_is_allowed(vcpu->kvm, event->select))
		return 0;

	perf_event_release_kernel(backing);
	return -EOPNOTSUPP;
}

/**
 * pv_perf_event_open - create an event, disabled
 * @vcpu: the vCPU that asks
 * @id: the event's id
 * @attr: of the backing event
 * @flags: the guest's KVM_PERF_ATTR_*
 * @core: the core type of the kind of cores for which the event is, or 0 for all
 * @gpa: address of the record, aligned to its size
 *
 * Return: 0, -EEXIST, -ENOSPC, -EBUSY, -EFAULT, -EINVAL if perf knows no such event,
 * -EOPNOTSUPP if this CPU does not have the event or the VM may not have it.
 */
int pv_perf_event_open(struct kvm_vcpu *vcpu, u32 id,
		       const struct perf_event_attr *attr, u64 flags, u8 core,
		       gpa_t gpa)
{
	struct pv_perf_vm *vm = vcpu->kvm->arch.pv_perf;
	struct pv_perf_vcpu *home = vcpu->arch.pv_perf;
	struct pv_perf_event *event;
	int ret;

	/* Reserve the id: no other OPEN gets it while this one sleeps. */
	ret = xa_insert(&vm->events, id, NULL, GFP_KERNEL);
	if (ret)
		return ret == -EBUSY ? -EEXIST : -ENOSPC;

	ret = pv_perf_charge_event(vcpu);
	if (ret)
		goto release_id;

	ret = pv_perf_check_room(vcpu);
	if (ret)
		goto uncharge;

	ret = -ENOSPC;
	event = pv_perf_event_alloc(home, id, attr, flags, core);
	if (!event)
		goto uncharge;

	ret = pv_perf_event_create_backing(vcpu, event);
	if (ret)
		goto free_event;

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
	atomic_dec(&vm->nr_events);
release_id:
	xa_release(&vm->events, id);
	return ret;
}

/*
 * Unpublish an open event, its home locked.  The event may be freed here, unless the caller
 * has a reference.
 */
static void pv_perf_close_locked(struct kvm *kvm, struct pv_perf_event *event)
{
	struct pv_perf_vm *vm = kvm->arch.pv_perf;

	xa_erase(&vm->events, event->id);
	pv_perf_unlink(event);
	pv_perf_backing_put_all(event);
	pv_perf_leave_thread(event->home);
	atomic_dec(&vm->nr_events);
	/* The table's reference. */
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

/* Events that a vCPU closes before it gives kvm->srcu back: those of one vCPU. */
#define PV_PERF_CLOSE_AT_ONCE	64

static void pv_perf_close_some(struct kvm_vcpu *vcpu)
{
	struct pv_perf_vm *vm = vcpu->kvm->arch.pv_perf;
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;
	unsigned int n = 0;
	struct pv_perf_event *event;
	unsigned long id;

	xa_for_each(&vm->events, id, event) {
		if (!here->to_close || n++ == PV_PERF_CLOSE_AT_ONCE)
			break;
		here->to_close--;
		pv_perf_event_close(vcpu->kvm, id);
		cond_resched();
	}
	if (!event)
		here->to_close = 0;

	/* Close the rest before the vCPU enters the guest. */
	if (here->to_close)
		kvm_make_request(KVM_REQ_PV_PERF, vcpu);
}

/**
 * pv_perf_close_vm_events - KVM_PERF_OP_RESET: delete every event of a VM
 * @vcpu: the vCPU that asks, by its own thread, with kvm->srcu held for reading
 *
 * Closes no more events than there are now: other vCPUs might open new ones as fast as
 * this closes them, and then some stay.  pv_perf_close_rest() closes the rest before
 * the guest gets the result.
 */
void pv_perf_close_vm_events(struct kvm_vcpu *vcpu)
{
	struct pv_perf_vm *vm = vcpu->kvm->arch.pv_perf;

	vcpu->arch.pv_perf->to_close = atomic_read(&vm->nr_events);
	pv_perf_close_some(vcpu);
}

/**
 * pv_perf_close_rest - go on with a RESET
 * @vcpu: the vCPU, about to enter the guest, with kvm->srcu held for reading
 *
 * A change of the memory slots waits for no more than some of the events, and a signal
 * ends KVM_RUN between them: the rest follows when the VMM runs the vCPU again.
 *
 * Return: true if kvm->srcu was given back meanwhile.
 */
bool pv_perf_close_rest(struct kvm_vcpu *vcpu)
{
	if (!vcpu->arch.pv_perf->to_close)
		return false;

	kvm_vcpu_srcu_read_unlock(vcpu);
	cond_resched();
	kvm_vcpu_srcu_read_lock(vcpu);
	pv_perf_close_some(vcpu);
	return true;
}

/**
 * pv_perf_close_vcpu_events - delete every event whose home is this vCPU
 * @vcpu: the vCPU, which does not go on with a RESET, either
 */
void pv_perf_close_vcpu_events(struct kvm_vcpu *vcpu)
{
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;
	struct pv_perf_event *event, *next;

	here->to_close = 0;
	mutex_lock(&here->lock);
	list_for_each_entry_safe(event, next, &here->events, node) {
		pv_perf_close_locked(vcpu->kvm, event);
		cond_resched();
	}
	mutex_unlock(&here->lock);
}
