/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Paravirtual performance events, host side: functions that KVM calls.
 *
 * A guest opens, enables and reads events by the hypercall KVM_PERF_OP.  A perf_event
 * of the vCPU's thread, which counts in guest mode only, backs each event. kvm_perf.h
 * is the contract.
 */
#ifndef __KVM_X86_PV_PERF_H
#define __KVM_X86_PV_PERF_H

#include <linux/kvm_host.h>

#include "kvm_perf.h"
#include "pv_perf_event.h"
#include "x86.h"

bool pv_perf_available(void);
bool pv_perf_is_for_all(void);

unsigned long pv_perf_hypercall(struct kvm_vcpu *vcpu, unsigned long op,
				unsigned long a1, unsigned long a2,
				unsigned long a3);
void pv_perf_enter_with_events(struct kvm_vcpu *vcpu, bool again);
void pv_perf_note_exit(struct kvm_vcpu *vcpu);
bool pv_perf_handle_request(struct kvm_vcpu *vcpu);
void pv_perf_filter_changed(struct kvm *kvm);
bool pv_perf_deliver_at_exit(struct kvm_vcpu *vcpu);
bool __pv_perf_read_at_exit(struct kvm_vcpu *vcpu);
bool pv_perf_rdpmc(struct kvm_vcpu *vcpu, u32 ecx, u64 *value);
void pv_perf_read_branches(struct kvm_vcpu *vcpu);
void pv_perf_count_retired(struct kvm_vcpu *vcpu, unsigned int what,
			   unsigned int cpl);
void pv_perf_count_instruction(struct kvm_vcpu *vcpu);
void pv_perf_note_cpl(struct kvm_vcpu *vcpu);
void pv_perf_count_emulated(struct kvm_vcpu *vcpu, bool branch,
			    unsigned long next_ip);

/**
 * pv_perf_instruction_retired - KVM has completed an instruction for the guest
 * @vcpu: the vCPU; the instruction has not changed its CPL
 *
 * Here and below, a vCPU without an event of instructions or branches pays one load.
 */
static inline void pv_perf_instruction_retired(struct kvm_vcpu *vcpu)
{
	if (unlikely(vcpu->arch.pv_perf_retires))
		pv_perf_count_instruction(vcpu);
}

/**
 * pv_perf_vmentry_retired - the same for the VM entry of a nested guest, at CPL 0
 * @vcpu: the vCPU
 * @what: bits of enum pv_perf_retired
 */
static inline void pv_perf_vmentry_retired(struct kvm_vcpu *vcpu,
					   unsigned int what)
{
	if (unlikely(vcpu->arch.pv_perf_retires))
		pv_perf_count_retired(vcpu, what, 0);
}

/**
 * pv_perf_emulates - KVM's emulator has taken an instruction of the guest
 * @vcpu: the vCPU, before the instruction changes it
 */
static inline void pv_perf_emulates(struct kvm_vcpu *vcpu)
{
	if (unlikely(vcpu->arch.pv_perf_retires))
		pv_perf_note_cpl(vcpu);
}

/**
 * pv_perf_emulated - KVM's emulator has executed an instruction of the guest
 * @vcpu: the vCPU, whose instruction pointer is still the instruction's
 * @branch: the instruction is a branch
 * @next_ip: the guest's next instruction pointer
 */
static inline void pv_perf_emulated(struct kvm_vcpu *vcpu, bool branch,
				    unsigned long next_ip)
{
	if (unlikely(vcpu->arch.pv_perf_retires))
		pv_perf_count_emulated(vcpu, branch, next_ip);
}

#ifndef PV_PERF_WITHOUT_COUNTS
/**
 * pv_perf_exit - note why a vCPU has left the guest, if the guest counts exits
 * @vcpu: the vCPU, right after the exit, with interrupts off
 *
 * Then the vCPU enters again only after KVM_REQ_PV_PERF.
 */
static inline void pv_perf_exit(struct kvm_vcpu *vcpu)
{
	const struct pv_perf_vcpu *pv = vcpu->arch.pv_perf;

	if (pv && pv->at_entry & PV_PERF_AT_ENTRY_COUNTS)
		pv_perf_note_exit(vcpu);
}
#endif

#ifndef PV_PERF_WITHOUT_BRANCHES
/**
 * pv_perf_save_branches - save the branches that led to an exit for an NMI
 * @vcpu: the vCPU, right after the exit, before pv_perf_exit(), with NMIs held off,
 *	because their handler may have perf use the CPU's stack of branches
 */
static inline void pv_perf_save_branches(struct kvm_vcpu *vcpu)
{
	if (vcpu->arch.pv_perf_branches)
		pv_perf_read_branches(vcpu);
}
#endif

/* Where a vCPU enters the guest from. */
enum pv_perf_entry {
	/* KVM's run loop. */
	PV_PERF_ENTRY_ANEW,
	/* The exit for an NMI, without leaving the run loop: the host has run nothing. */
	PV_PERF_ENTRY_AFTER_NMI,
	/* Likewise, the exit at the IRET of the guest's NMI handler. */
	PV_PERF_ENTRY_AFTER_IRET,
};

/**
 * pv_perf_enter - look at a vCPU's events before it enters the guest
 * @vcpu: the vCPU, with interrupts off, before KVM's last look at requests
 * @after: where the vCPU comes from
 *
 * Without events a vCPU pays only this check.
 */
static __always_inline void pv_perf_enter(struct kvm_vcpu *vcpu,
					  enum pv_perf_entry after)
{
	const struct pv_perf_vcpu *pv = vcpu->arch.pv_perf;
	bool any;

	if (!pv)
		return;

	if (after == PV_PERF_ENTRY_ANEW)
		any = pv->at_entry;
	else if (after == PV_PERF_ENTRY_AFTER_NMI)
		any = pv->at_entry & PV_PERF_AT_REENTRY;
	else
		any = pv->any_stopped;

	if (any)
		pv_perf_enter_with_events(vcpu, after != PV_PERF_ENTRY_ANEW);
}

/**
 * pv_perf_read_at_exit - run a READ of one event right at the exit of its hypercall
 * @vcpu: the vCPU, which has left the guest for a hypercall, and whose next instruction is
 *	known; with interrupts off, kvm->srcu not held
 *
 * Spares the vCPU the way out of the run loop and in again.  The host runs nothing
 * else, so all events have the counters that they had, and no pv_perf_enter() is needed.
 * pv_perf_hypercall() runs a READ that fails, or would have to wait.
 *
 * Other hypercalls pay only the comparison.
 *
 * Return: true if the hypercall is complete, and the caller is to enter.
 */
static inline bool pv_perf_read_at_exit(struct kvm_vcpu *vcpu)
{
	return kvm_rax_read(vcpu) == KVM_PERF_OP &&
	       kvm_rbx_read(vcpu) == KVM_PERF_OP_READ &&
	       __pv_perf_read_at_exit(vcpu);
}

void pv_perf_init(void);
int pv_perf_init_vm(struct kvm *kvm);
void pv_perf_destroy_vm(struct kvm *kvm);
void pv_perf_create_vm_debugfs(struct kvm *kvm);
int pv_perf_check_extension(struct kvm *kvm, unsigned int cap);
int pv_perf_enable_cap(struct kvm *kvm, const struct kvm_enable_cap *cap);

void pv_perf_vcpu_run(struct kvm_vcpu *vcpu);
void __pv_perf_vcpu_leave(struct kvm_vcpu *vcpu, int ret);

/**
 * pv_perf_vcpu_leave - KVM_RUN ends
 * @vcpu: the vCPU
 * @ret: what KVM_RUN returns; with 0, run->exit_reason says why
 *
 * If the VMM may save the guest's memory now, the records have to be up to date: it has
 * interrupted the vCPU, or handles a halt, a debug event or a shutdown itself.  May
 * sleep, with kvm->srcu held for reading.
 */
static inline void pv_perf_vcpu_leave(struct kvm_vcpu *vcpu, int ret)
{
	if (unlikely(vcpu->arch.pv_perf))
		__pv_perf_vcpu_leave(vcpu, ret);
}

void pv_perf_vcpu_reset(struct kvm_vcpu *vcpu);
void pv_perf_vcpu_set_sregs(struct kvm_vcpu *vcpu,
			    const struct kvm_sregs *sregs);
void pv_perf_vcpu_destroy(struct kvm_vcpu *vcpu);

#endif /* __KVM_X86_PV_PERF_H */
