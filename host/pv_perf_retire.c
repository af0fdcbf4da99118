// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, host side: instructions that KVM completes for the
 * guest.
 *
 * An instruction that exits does not retire: the hardware does not count it.  Where KVM
 * executes it for the guest and moves the instruction pointer on, events that count
 * instructions or branches have to count it as if it had retired.
 *
 * The vCPU is in the host, so the counter of an event that counts the guest alone stands
 * still.  One more is added to what the counter holds.  perf takes that for what the
 * guest has counted: it is in perf's count and in what is left of the period, and a guest
 * that reads the counter by RDPMC reads it, at the place and with the offset that it was
 * told.
 *
 * An event counts the instruction if it counted the guest up to the exit.  Interrupts are
 * off and enter_lock is held, so that perf moves no event meanwhile, and nobody else
 * stops one.
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
	       !READ_ONCE(event->backing->hw.state);
}

/* The hardware's kernel mode is CPL 0. */
static bool pv_perf_counts_cpl(const struct pv_perf_event *event,
			       unsigned int cpl)
{
	return cpl ? !event->attr.exclude_user : !event->attr.exclude_kernel;
}

static void pv_perf_add_retired(struct pv_perf_event *event)
{
	u64 period = event->backing->hw.last_period;

	if (pv_perf_backing_add_one(event->backing, pv_perf_has_rdpmc(event),
				    pv_perf_host.pmcs.writable))
		pv_perf_overflow_in_host(event, period);
}

/**
 * pv_perf_count_retired - KVM has completed an instruction for the guest
 * @vcpu: the vCPU, on its own thread
 * @what: bits of enum pv_perf_retired
 * @cpl: the CPL that the guest has executed it at
 *
 * In task context, also with interrupts off.  A period that ends with the instruction is
 * an overflow like any other, which the guest is told of before its next instruction.
 */
void pv_perf_count_retired(struct kvm_vcpu *vcpu, unsigned int what,
			   unsigned int cpl)
{
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;
	struct pv_perf_event *event;
	unsigned long flags;

	if (here->skip_retired) {
		here->skip_retired = false;
		return;
	}

	raw_spin_lock_irqsave(&here->enter_lock, flags);
	list_for_each_entry(event, &here->events, node) {
		if (event->retired & what && pv_perf_is_counting(event) &&
		    pv_perf_counts_cpl(event, cpl))
			pv_perf_add_retired(event);
	}
	raw_spin_unlock_irqrestore(&here->enter_lock, flags);
}
EXPORT_SYMBOL_FOR_KVM_INTERNAL(pv_perf_count_retired);

/**
 * pv_perf_count_instruction - as that, for an instruction that keeps the CPL
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
 * pv_perf_count_emulated - KVM's emulator is done with an instruction, or for now
 * @vcpu: as above; its instruction pointer is the instruction's
 * @branch: the instruction is a branch
 * @next_ip: where the guest is to go on
 *
 * The emulator leaves a string instruction that takes long with some of it done, and a
 * hypercall of another vendor once it has patched it: the guest executes these again.
 */
void pv_perf_count_emulated(struct kvm_vcpu *vcpu, bool branch,
			    unsigned long next_ip)
{
	unsigned int what = PV_PERF_INSTRUCTION | (branch ? PV_PERF_BRANCH : 0);

	if (!branch && next_ip == kvm_rip_read(vcpu))
		return;

	pv_perf_count_retired(vcpu, what, vcpu->arch.pv_perf->emulated_cpl);
}
