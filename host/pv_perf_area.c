// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, host side: the area of a vCPU, which tells the
 * guest in its memory what the guest would have to ask for.
 *
 * Memory is saved and restored.  If another host then serves the vCPU, the area must not
 * say that this one does.  So the area has this host's epoch only from the entry to
 * KVM_RUN until KVM_RUN returns so that the VMM may save the vCPU.
 *
 * If a VMM restores a VM in place, this host has events of a time that the guest does
 * not know any more.  With KVM's local APIC the VMM sets that (KVM_SET_LAPIC).  Without
 * it, KVM sees only the guest's memory: the area has another number each time that the
 * VMM may save it, and an older number shows that it was restored.
 */
#include <linux/align.h>
#include <linux/random.h>
#include <linux/stddef.h>

#include "kvm_perf.h"
#include "pv_perf_memory.h"

static int pv_perf_area_write(struct kvm *kvm, struct pv_perf_area *area,
			      unsigned int offset, u32 value)
{
	return kvm_write_guest_offset_cached(kvm, &area->where, &value, offset,
					     sizeof(value));
}

static int pv_perf_area_write_epoch(struct kvm *kvm, struct pv_perf_area *area,
				    u32 epoch)
{
	return pv_perf_area_write(kvm, area,
				  offsetof(struct guest_perf_area, epoch),
				  epoch);
}

/* A hidden number is even, unlike an epoch, and not 0. */
#define PV_PERF_FIRST_HIDDEN	0x80000000u

static u32 pv_perf_next_hidden(u32 hidden)
{
	return (hidden + 2) | PV_PERF_FIRST_HIDDEN;
}

/* If the guest or the VMM has taken the memory away, the guest cannot be told. */
static void pv_perf_area_show(struct kvm *kvm, struct pv_perf_area *area)
{
	if (area->epoch && !area->shown &&
	    !pv_perf_area_write_epoch(kvm, area, area->epoch))
		area->shown = true;
}

static void pv_perf_area_hide(struct kvm *kvm, struct pv_perf_area *area)
{
	u32 hidden = pv_perf_next_hidden(area->hidden);

	if (!area->epoch || !area->shown ||
	    pv_perf_area_write_epoch(kvm, area, hidden))
		return;

	area->shown = false;
	area->hidden = hidden;
}

/* Has the number in memory changed since the area was hidden? */
static bool pv_perf_area_is_restored(struct kvm *kvm, struct pv_perf_area *area)
{
	u32 epoch;

	if (!area->epoch || area->shown ||
	    kvm_read_guest_offset_cached(kvm, &area->where, &epoch,
					 offsetof(struct guest_perf_area, epoch),
					 sizeof(epoch)))
		return false;

	return epoch != area->hidden;
}

/* Random, so that it differs from other hosts' epochs; odd by the contract. */
static u32 pv_perf_new_epoch(void)
{
	return get_random_u32() | 1;
}

static int pv_perf_area_find(struct kvm *kvm, gpa_t gpa,
			     struct pv_perf_area *area)
{
	u32 size;

	if (!IS_ALIGNED(gpa, GUEST_PERF_AREA_ALIGN))
		return -EINVAL;

	if (kvm_read_guest(kvm, gpa, &size, sizeof(size)))
		return -EFAULT;

	if (size < GUEST_PERF_AREA_SIZE_VER0 || size > GUEST_PERF_AREA_ALIGN)
		return -EINVAL;

	size = min_t(u32, size, sizeof(struct guest_perf_area));
	if (kvm_gfn_to_hva_cache_init(kvm, &area->where, gpa, size))
		return -EFAULT;

	if (pv_perf_area_write(kvm, area, offsetof(struct guest_perf_area, size),
			       size))
		return -EFAULT;

	area->epoch = pv_perf_new_epoch();
	area->shown = true;
	return pv_perf_area_write_epoch(kvm, area, area->epoch);
}

/**
 * pv_perf_area_set - KVM_PERF_OP_SET_AREA
 * @vcpu: the vCPU, by its own thread, with kvm->srcu held for reading
 * @gpa: address of the area, 0 for none
 *
 * May sleep.
 *
 * Return: 0, -EINVAL or -EFAULT.
 */
int pv_perf_area_set(struct kvm_vcpu *vcpu, gpa_t gpa)
{
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;
	struct pv_perf_area area = { };
	int ret;

	/* Another vCPU's RESET comes before the whole change, or after it. */
	mutex_lock(&here->lock);
	ret = gpa ? pv_perf_area_find(vcpu->kvm, gpa, &area) : 0;
	if (!ret) {
		area.hidden = here->area.hidden;
		here->area = area;
		here->restored = false;
	}
	mutex_unlock(&here->lock);

	return ret;
}

/**
 * pv_perf_area_end - the VMM has set the state of a vCPU, or it is reset
 * @vcpu: the vCPU
 *
 * The area is not written: the memory may be another kernel's already, and a kernel
 * that goes on has given its area up.  May sleep.
 */
void pv_perf_area_end(struct kvm_vcpu *vcpu)
{
	struct pv_perf_vcpu *pv = vcpu->arch.pv_perf;

	mutex_lock(&pv->lock);
	WRITE_ONCE(pv->area.epoch, 0);
	pv->restored = true;
	mutex_unlock(&pv->lock);
}

/**
 * pv_perf_area_end_all - KVM_PERF_OP_RESET
 * @kvm: the VM, with kvm->srcu held for reading
 *
 * May sleep.
 */
void pv_perf_area_end_all(struct kvm *kvm)
{
	struct pv_perf_vcpu *pv;
	struct kvm_vcpu *vcpu;
	unsigned long i;

	kvm_for_each_vcpu(i, vcpu, kvm) {
		pv = READ_ONCE(vcpu->arch.pv_perf);
		if (!pv)
			continue;
		/* With the lock, the area's vCPU does not write the epoch once more. */
		mutex_lock(&pv->lock);
		if (pv->area.epoch && pv->area.shown)
			pv_perf_area_write_epoch(kvm, &pv->area, 0);
		WRITE_ONCE(pv->area.epoch, 0);
		mutex_unlock(&pv->lock);
	}
}

/**
 * pv_perf_area_show_again - the VMM runs a vCPU that has an area
 * @vcpu: the vCPU, on its own thread, with kvm->srcu held for reading
 *
 * No other function shows the area again. Only the vCPU's thread hides the area without
 * ending it.  May sleep.
 *
 * Return: true if the VMM has restored the guest's memory: the vCPU is to be reset.
 */
bool pv_perf_area_show_again(struct kvm_vcpu *vcpu)
{
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;
	bool restored;

	mutex_lock(&here->lock);
	restored = pv_perf_area_is_restored(vcpu->kvm, &here->area);
	if (!restored)
		pv_perf_area_show(vcpu->kvm, &here->area);
	mutex_unlock(&here->lock);
	return restored;
}

/**
 * pv_perf_area_leave - the VMM may save the guest's memory now
 * @vcpu: the vCPU, on its own thread, with kvm->srcu held for reading
 *
 * May sleep.
 */
void pv_perf_area_leave(struct kvm_vcpu *vcpu)
{
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;

	if (!READ_ONCE(here->area.epoch))
		return;

	mutex_lock(&here->lock);
	pv_perf_area_hide(vcpu->kvm, &here->area);
	mutex_unlock(&here->lock);
}
