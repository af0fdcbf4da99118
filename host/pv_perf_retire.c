// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, host side: instructions that KVM completes for the
 * guest.
 *
 * An instruction that exits does not retire: the hardware does not count it.  If KVM
 * executes it for the guest and moves the instruction pointer on, events of
 * instructions or branches have to count it as if it had retired.
 *
 * The vCPU is in the host, so the counter of an event that counts the guest alone
 * stands still.  KVM adds one to the counter's value.  So perf has it in its count and
 * in the rest of the period, and a guest that reads the counter by RDPMC reads it, too,
 * with the index and the offset that it was told.
 *
 * An event counts the instruction if it counted the guest up to the exit.  IRQs off,
 * enter_lock held: perf moves no event meanwhile, and no other vCPU stops one.
 */
#include <linux/export.h>

#include "compat.h"
#include "pv_perf.h"
#include "pv_perf_core.h"
#include "pv_perf_seam.h"
#include "x86.h"

/* A stopped event has not counted the instructions that the vCPU ran up to the exit. */
static bool pv_perf_is_counting(const struct pv_perf_event *event)
{
	return pv_perf_backing_is_here(event->backing) && !pv_perf_is_stopped(event) &&
	       !pv_perf_backing_is_stopped(event->backing);
}

/* The hardware's kernel mode is CPL 0. */
static bool pv_perf_counts_cpl(const struct pv_perf_event *event,
			       unsigned int cpl)
{
	return cpl ? !event->attr.exclude_user : !event->attr.exclude_kernel;
}

/* Returns whether a period of the event has ended. */
static bool pv_perf_add_retired(struct pv_perf_event *event)
{
	if (pv_perf_is_counting(event))
		return pv_perf_counter_add_one(event->backing,
					       pv_perf_has_rdpmc(event),
					       pv_perf_host.writable);

	/* The vCPU has come to a CPU of another kind: no counter has to be right. */
	return pv_perf_backing_is_away(event) &&
	       !(pv_perf_why(event) & ~PV_PERF_UNUSED) &&
	       pv_perf_counter_add_away(event->backing);
}

/**
 * pv_perf_count_retired - KVM has completed an instruction for the guest
 * @vcpu: the vCPU, on its own thread
 * @what: bits of enum pv_perf_retired
 * @cpl: the CPL of the guest at the instruction
 *
 * In task context, also with interrupts off.  If a period ends with the instruction,
 * the guest is told of the overflow before its next instruction.
 */
void pv_perf_count_retired(struct kvm_vcpu *vcpu, unsigned int what,
			   unsigned int cpl)
{
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;
	struct pv_perf_event *event;
	unsigned long flags;
	u64 period;

	if (here->skip_retired) {
		here->skip_retired = false;
		return;
	}

	raw_spin_lock_irqsave(&here->enter_lock, flags);
	list_for_each_entry(event, &here->events, node) {
		if (!(event->retired & what) || !pv_perf_counts_cpl(event, cpl))
			continue;
		period = pv_perf_backing_this_period(event->backing);
		if (pv_perf_add_retired(event))
			pv_perf_overflow_in_host(event, period);
	}
	raw_spin_unlock_irqrestore(&here->enter_lock, flags);
}
EXPORT_SYMBOL_FOR_KVM_INTERNAL(pv_perf_count_retired);

/**
 * pv_perf_count_instruction - the same for an instruction that keeps the CPL
 * @vcpu: as above
 */
void pv_perf_count_instruction(struct kvm_vcpu *vcpu)
{
	pv_perf_count_retired(vcpu, PV_PERF_INSTRUCTION,
			      kvm_x86_call(get_cpl)(vcpu));
}

/**
 * pv_perf_note_cpl - KVM's emulator is going to execute an instruction
 * @vcpu: as above
 */
void pv_perf_note_cpl(struct kvm_vcpu *vcpu)
{
	vcpu->arch.pv_perf->emulated_cpl = kvm_x86_call(get_cpl)(vcpu);
}

/**
 * pv_perf_count_emulated - KVM's emulator has executed an instruction, or a part of it
 * @vcpu: as above; its instruction pointer is the instruction's
 * @branch: the instruction is a branch
 * @next_ip: the guest's next instruction pointer
 *
 * Not counted: a string instruction that is only partly done, and another vendor's
 * hypercall that the emulator has patched.  The guest executes these again.
 */
void pv_perf_count_emulated(struct kvm_vcpu *vcpu, bool branch,
			    unsigned long next_ip)
{
	unsigned int what = PV_PERF_INSTRUCTION | (branch ? PV_PERF_BRANCH : 0);

	if (!branch && next_ip == kvm_rip_read(vcpu))
		return;

	pv_perf_count_retired(vcpu, what, vcpu->arch.pv_perf->emulated_cpl);
}
