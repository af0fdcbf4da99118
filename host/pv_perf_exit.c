// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, host side: why a vCPU has left the guest.
 *
 * KVM calls, from the exit on.  This file has to look before the exit's handler moves the
 * instruction pointer on.
 *
 *	pv_perf_save_branches()		an exit for an NMI, with NMIs held off
 *	pv_perf_exit()			IRQs off
 *	  pv_perf_note_exit()		if the guest counts hypervisor events
 *	pv_perf_deliver_at_exit()	an exit for an NMI, IRQs off: pv_perf_deliver.c
 *	pv_perf_read_at_exit()		an exit for a READ, IRQs off: pv_perf.c
 *	pv_perf_rdpmc()			an exit for RDPMC, as its handler: pv_perf_rdpmc.c
 *	pv_perf_instruction_retired()	and the like, as the exit is handled: pv_perf_retire.c
 *	pv_perf_handle_request()	before the next entry
 *	  pv_perf_counts_tell()
 */
#include <linux/export.h>
#include <linux/sched/clock.h>
#include <linux/srcu.h>

#include <asm/svm.h>
#include <asm/vmx.h>

#include "compat.h"
#include "kvm_perf.h"
#include "pv_perf.h"
#include "pv_perf_features.h"
#include "x86.h"

/* A fault on memory of the VM, or else on a device or a hole. */
static u8 pv_perf_fault(struct kvm_vcpu *vcpu)
{
	gpa_t gpa = kvm_x86_call(get_fault_gpa)(vcpu);
	struct kvm_memory_slot *slot;
	bool memory;
	int idx;

	idx = srcu_read_lock(&vcpu->kvm->srcu);
	slot = kvm_vcpu_gfn_to_memslot(vcpu, gpa_to_gfn(gpa));
	memory = kvm_is_visible_memslot(slot);
	srcu_read_unlock(&vcpu->kvm->srcu, idx);

	return memory ? KVM_PERF_COUNT_EXITS_NPF : KVM_PERF_COUNT_EXITS_MMIO;
}

/* The host refuses KVM_PERF_OP of user mode. */
static u8 pv_perf_hypercall_exit(struct kvm_vcpu *vcpu)
{
	return kvm_rax_read(vcpu) == KVM_PERF_OP &&
	       !vcpu->arch.pv_perf->counts.user ?
	       KVM_PERF_COUNT_EXITS_PV_PERF : KVM_PERF_COUNT_EXITS_HYPERCALL;
}

/*
 * The guest's handler of an NMI is done.  If the NMI was ours, one that is pending may be
 * ours, too.  The handler of a nested guest says nothing about the NMIs of this guest.
 */
static u8 pv_perf_nmi_end(struct kvm_vcpu *vcpu)
{
	struct pv_perf_counts *counts = &vcpu->arch.pv_perf->counts;

	if (counts->nested || !READ_ONCE(counts->nmi_is_ours))
		return KVM_PERF_COUNT_EXITS_NMI;

	if (!vcpu->arch.nmi_pending)
		WRITE_ONCE(counts->nmi_is_ours, false);
	return KVM_PERF_COUNT_EXITS_PV_PERF;
}

/* KVM steps over an IRET to inject the NMI that is pending. */
static u8 pv_perf_step(struct kvm_vcpu *vcpu)
{
	return vcpu->arch.nmi_pending &&
	       READ_ONCE(vcpu->arch.pv_perf->counts.nmi_is_ours) ?
	       KVM_PERF_COUNT_EXITS_PV_PERF : KVM_PERF_COUNT_EXITS_OTHER;
}

/*
 * With an NMI and an interrupt at once, KVM injects the NMI, and has the vCPU exit at
 * once, and again when it can take the interrupt.  If these exits were samples, the NMI
 * of each would come before the interrupt, which would never come.
 */
static u8 pv_perf_interrupt_exit(const struct pv_perf_counts *counts)
{
	return counts->irq_waits ? KVM_PERF_COUNT_EXITS_PV_PERF :
				   KVM_PERF_COUNT_EXITS_INTERRUPT;
}

/* AMD APM volume 2, appendix C. */
static u8 pv_perf_svm_exit(struct kvm_vcpu *vcpu, u32 code)
{
	switch (code) {
	case SVM_EXIT_IOIO:
		return KVM_PERF_COUNT_EXITS_IO;
	case SVM_EXIT_NPF:
		return pv_perf_fault(vcpu);
	case SVM_EXIT_AVIC_INCOMPLETE_IPI:
	case SVM_EXIT_AVIC_UNACCELERATED_ACCESS:
		return KVM_PERF_COUNT_EXITS_MMIO;
	case SVM_EXIT_MSR:
		return KVM_PERF_COUNT_EXITS_MSR;
	case SVM_EXIT_CPUID:
		return KVM_PERF_COUNT_EXITS_CPUID;
	case SVM_EXIT_HLT:
		return KVM_PERF_COUNT_EXITS_HLT;
	case SVM_EXIT_INTR:
	case SVM_EXIT_VINTR:
		return pv_perf_interrupt_exit(&vcpu->arch.pv_perf->counts);
	case SVM_EXIT_NMI:
		return KVM_PERF_COUNT_EXITS_NMI;
	case SVM_EXIT_IRET:
		return pv_perf_nmi_end(vcpu);
	case SVM_EXIT_EXCP_BASE + DB_VECTOR:
		return pv_perf_step(vcpu);
	case SVM_EXIT_VMMCALL:
		return pv_perf_hypercall_exit(vcpu);
	default:
		return KVM_PERF_COUNT_EXITS_OTHER;
	}
}

static bool pv_perf_is_nmi(u32 intr_info)
{
	return (intr_info & INTR_INFO_INTR_TYPE_MASK) == INTR_TYPE_NMI_INTR;
}

/* Intel SDM volume 3D, appendix C. */
static u8 pv_perf_vmx_exit(struct kvm_vcpu *vcpu, u16 reason, u32 intr_info)
{
	switch (reason) {
	case EXIT_REASON_IO_INSTRUCTION:
		return KVM_PERF_COUNT_EXITS_IO;
	case EXIT_REASON_EPT_VIOLATION:
		return pv_perf_fault(vcpu);
	case EXIT_REASON_EPT_MISCONFIG:
	case EXIT_REASON_APIC_ACCESS:
	case EXIT_REASON_APIC_WRITE:
		return KVM_PERF_COUNT_EXITS_MMIO;
	case EXIT_REASON_MSR_READ:
	case EXIT_REASON_MSR_WRITE:
#ifdef EXIT_REASON_MSR_READ_IMM
	case EXIT_REASON_MSR_READ_IMM:
	case EXIT_REASON_MSR_WRITE_IMM:
#endif
		return KVM_PERF_COUNT_EXITS_MSR;
	case EXIT_REASON_CPUID:
		return KVM_PERF_COUNT_EXITS_CPUID;
	case EXIT_REASON_HLT:
		return KVM_PERF_COUNT_EXITS_HLT;
	case EXIT_REASON_EXTERNAL_INTERRUPT:
	case EXIT_REASON_INTERRUPT_WINDOW:
	case EXIT_REASON_PREEMPTION_TIMER:
		return pv_perf_interrupt_exit(&vcpu->arch.pv_perf->counts);
	case EXIT_REASON_EXCEPTION_NMI:
		return pv_perf_is_nmi(intr_info) ? KVM_PERF_COUNT_EXITS_NMI :
						   KVM_PERF_COUNT_EXITS_OTHER;
	case EXIT_REASON_NMI_WINDOW:
		return pv_perf_nmi_end(vcpu);
	case EXIT_REASON_VMCALL:
		return pv_perf_hypercall_exit(vcpu);
	default:
		return KVM_PERF_COUNT_EXITS_OTHER;
	}
}

static u8 pv_perf_exit_of(struct kvm_vcpu *vcpu)
{
	u32 reason, intr_info, error_code;
	u64 info1, info2;

	kvm_x86_call(get_exit_info)(vcpu, &reason, &info1, &info2, &intr_info,
				    &error_code);
	return boot_cpu_has(X86_FEATURE_VMX) ?
	       pv_perf_vmx_exit(vcpu, reason, intr_info) :
	       pv_perf_svm_exit(vcpu, reason);
}

/* If KVM injects it again, the guest exited before it got the interrupt. */
static void pv_perf_note_irq(struct kvm_vcpu *vcpu)
{
	struct pv_perf_counts *counts = &vcpu->arch.pv_perf->counts;

	if (counts->irq && !vcpu->arch.interrupt.injected)
		pv_perf_counts_add(counts, KVM_PERF_COUNT_INJECTED_IRQS, 1);
	counts->irq = false;
}

/**
 * pv_perf_note_exit - note why a vCPU has left the guest
 * @vcpu: the vCPU, whose guest counts exits; right after the exit, with interrupts off
 *
 * The reason of a nested guest's exit belongs to its hypervisor, whose own last exit
 * was to run it.  But an NMI may be for an overflow.
 */
void pv_perf_note_exit(struct kvm_vcpu *vcpu)
{
	struct pv_perf_counts *counts = &vcpu->arch.pv_perf->counts;

	pv_perf_note_irq(vcpu);
	counts->nested = is_guest_mode(vcpu);
	if (!counts->nested) {
		counts->user = kvm_x86_call(get_cpl)(vcpu) == 3;
		counts->ip[counts->user] = kvm_rip_read(vcpu);
	}
	counts->exit = pv_perf_exit_of(vcpu);
	counts->since = local_clock();
	counts->exited = true;
	kvm_make_request(KVM_REQ_PV_PERF, vcpu);
}
EXPORT_SYMBOL_FOR_KVM_INTERNAL(pv_perf_note_exit);
