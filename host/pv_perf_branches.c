// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, host side: the branches that led to an overflow, from
 * the CPU's last branch record stack (AMD APM volume 2, 13.1.8; LBR v2 of CPUID leaf
 * 8000_0022H).
 *
 * Nothing in that stack tells the host's branches from the guest's, and a guest must
 * not see an address of the host.  So the stack records only while the guest runs: this
 * file empties it, the last instructions before VMRUN enable it, and the first after
 * #VMEXIT disable it, with no branch in between (vmenter.S).  At an exit for an NMI it
 * is saved with NMIs held off, because the host's handler may have perf use it.
 *
 * perf does not know of this use.  If perf records the host, this file finds the stack
 * enabled, and leaves it alone.  When perf begins, it sets all of it up.
 */
#include <linux/export.h>
#include <linux/moduleparam.h>

#include <asm/msr.h>
#include <asm/perf_event.h>

#include "compat.h"
#include "compat_cpuid.h"
#include "kvm_perf.h"
#include "pv_perf.h"
#include "pv_perf_features.h"
#include "pv_perf_memory.h"
#include "pv_perf_seam.h"
#include "x86.h"

/*
 * Off by default: the manual does not say that VMRUN and #VMEXIT are not recorded.  If
 * they were, each stack would have an address of the host's kernel.  Records cannot be
 * filtered by address: the guest may have code there, too, and would learn the host's
 * addresses from missing records.
 */
static bool pv_perf_branches_param;
module_param_named(pv_perf_branches, pv_perf_branches_param, bool, 0444);
MODULE_PARM_DESC(pv_perf_branches,
		 "give guests' samples the branches that led to them, on AMD CPUs that record these and not VMRUN (default N)");

/*
 * A CPU model for which pv-perf qualify has shown that this is safe.  The administrator's file
 * of module options may come to a host with another CPU, or the microcode may change: the
 * report then says nothing of the CPU.
 */
static unsigned int pv_perf_branches_cpu;
module_param(pv_perf_branches_cpu, uint, 0444);
MODULE_PARM_DESC(pv_perf_branches_cpu,
		 "CPUID signature (leaf 1, EAX) of a CPU model for which pv-perf qualify has shown that branch records have no address of the host: as pv_perf_branches=1, but only on this model with the microcode pv_perf_branches_microcode (default 0: no model)");

static unsigned int pv_perf_branches_microcode;
module_param(pv_perf_branches_microcode, uint, 0444);
MODULE_PARM_DESC(pv_perf_branches_microcode,
		 "revision of the microcode for pv_perf_branches_cpu");

/* LastBranchStackSelect: branches that are not recorded. */
#define PV_PERF_LBR_SELECT_MASK		0x1ffU
#define PV_PERF_LBR_SELECT_KERNEL	0x001U

/* Flags of the To and From MSRs; the other bits are the address, with its sign. */
#define PV_PERF_LBR_TO_VALID		BIT_ULL(63)
#define PV_PERF_LBR_TO_SPEC		BIT_ULL(62)
/* Erratum 1452 of family 19h: not a branch. */
#define PV_PERF_LBR_TO_RESERVED		BIT_ULL(61)
#define PV_PERF_LBR_FROM_MISPREDICT	BIT_ULL(63)

static bool pv_perf_branches_are_shown(void)
{
	return pv_perf_branches_cpu && pv_perf_branches_cpu == cpuid_eax(1) &&
	       pv_perf_branches_microcode == boot_cpu_data.microcode;
}

/**
 * pv_perf_branches_probe - how many branches does the CPU record?
 *
 * Has the parameter pv_perf_branches show whether guests may have branches.
 *
 * Return: at most KVM_PERF_MAX_BRANCHES; 0 if it records none, or guests may have none.
 */
unsigned int pv_perf_branches_probe(void)
{
	union cpuid_0x80000022_ebx ebx;

	if (!boot_cpu_has(X86_FEATURE_AMD_LBR_V2))
		return 0;

	pv_perf_branches_param |= pv_perf_branches_are_shown();
	if (!pv_perf_branches_param)
		return 0;

	ebx.full = cpuid_ebx(EXT_PERFMON_DEBUG_FEATURES);
	return min_t(unsigned int, ebx.split.lbr_v2_stack_sz,
		     KVM_PERF_MAX_BRANCHES);
}

/* The branches that counting events want, as bits of LastBranchStackSelect. */
static u32 pv_perf_branches_wanted(struct pv_perf_vcpu *here)
{
	struct pv_perf_event *event;
	u64 wanted = 0;

	list_for_each_entry(event, &here->events, node) {
		if (!pv_perf_is_stopped(event) &&
		    pv_perf_backing_is_here(event->backing))
			wanted |= event->flags >> KVM_PERF_ATTR_BRANCHES_SHIFT;
	}

	wanted &= KVM_PERF_ATTR_BRANCHES >> KVM_PERF_ATTR_BRANCHES_SHIFT;
	/* On bare metal the handler that takes a sample is not recorded, either. */
	return here->in_nmi ? wanted & ~PV_PERF_LBR_SELECT_KERNEL : wanted;
}

static void pv_perf_branches_empty(unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < 2 * nr; i++)
		wrmsrq(MSR_AMD_SAMP_BR_FROM + i, 0);
}

/**
 * pv_perf_branches_enter - have the CPU record the guest's branches, if it wants them
 * @vcpu: the vCPU, about to enter the guest, with interrupts off and its enter_lock held
 *
 * After some exits KVM enters the guest again without calling this.  The stack then
 * still has the guest's earlier branches, and nothing else: perf can only begin to use
 * it by an interrupt.
 */
void pv_perf_branches_enter(struct kvm_vcpu *vcpu)
{
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;
	u32 wanted = pv_perf_branches_wanted(here);
	u64 config;

	lockdep_assert_held(&here->enter_lock);

	/* If this entry will be given up, keep the branches to be told. */
	if (!wanted || !kvm_test_request(KVM_REQ_PV_PERF, vcpu))
		here->branches.nr = 0;
	vcpu->arch.pv_perf_branches = 0;
	/* A nested guest's branches are not the guest's. */
	if (!wanted || is_guest_mode(vcpu))
		return;

	rdmsrq(MSR_AMD_DBG_EXTN_CFG, config);
	if (config & DBG_EXTN_CFG_LBRV2EN)
		return;

	wrmsrq(MSR_AMD64_LBR_SELECT, ~wanted & PV_PERF_LBR_SELECT_MASK);
	pv_perf_branches_empty(vcpu->kvm->arch.pv_perf->pmu.branches);
	vcpu->arch.pv_perf_branches = config | DBG_EXTN_CFG_LBRV2EN;
}

/**
 * pv_perf_read_branches - save the guest's branches before an NMI
 * @vcpu: the vCPU, which has left the guest for the NMI, with NMIs held off
 */
void pv_perf_read_branches(struct kvm_vcpu *vcpu)
{
	struct pv_perf_branches *branches = &vcpu->arch.pv_perf->branches;
	unsigned int i;

	branches->nr = vcpu->kvm->arch.pv_perf->pmu.branches;
	for (i = 0; i < branches->nr; i++) {
		rdmsrq(MSR_AMD_SAMP_BR_FROM + 2 * i, branches->raw[i].from);
		rdmsrq(MSR_AMD_SAMP_BR_FROM + 2 * i + 1, branches->raw[i].to);
	}
}
EXPORT_SYMBOL_FOR_KVM_INTERNAL(pv_perf_read_branches);

static u64 pv_perf_branch_address(u64 raw)
{
	unsigned int shift = 64 - boot_cpu_data.x86_virt_bits;

	return (s64)(raw << shift) >> shift;
}

/* Both bits together are a PERF_BR_SPEC_*; 0 is no branch. */
static u64 pv_perf_branch_info(const struct pv_perf_branch_raw *raw)
{
	u64 info = raw->from & PV_PERF_LBR_FROM_MISPREDICT ?
		   KVM_PERF_BRANCH_MISPREDICTED : 0;

	if (!(raw->to & PV_PERF_LBR_TO_VALID))
		return info | PERF_BR_SPEC_WRONG_PATH << KVM_PERF_BRANCH_SPEC_SHIFT;

	return info | (raw->to & PV_PERF_LBR_TO_SPEC ?
		       PERF_BR_SPEC_CORRECT_PATH :
		       PERF_BR_NON_SPEC_CORRECT_PATH) <<
		      KVM_PERF_BRANCH_SPEC_SHIFT;
}

/* No branch was recorded here, or the record is invalid. */
static bool pv_perf_branch_is_none(const struct pv_perf_branch_raw *raw)
{
	return !(raw->to & (PV_PERF_LBR_TO_VALID | PV_PERF_LBR_TO_SPEC)) ||
	       raw->to & PV_PERF_LBR_TO_RESERVED;
}

/* Returns the number of branches. */
static u32 pv_perf_branches_decode(const struct pv_perf_branches *branches,
				   struct guest_perf_branch *branch)
{
	const struct pv_perf_branch_raw *raw;
	unsigned int i;
	u32 nr = 0;

	for (i = 0; i < branches->nr; i++) {
		raw = &branches->raw[i];
		if (pv_perf_branch_is_none(raw))
			continue;

		branch[nr++] = (struct guest_perf_branch) {
			.from	= pv_perf_branch_address(raw->from),
			.to	= pv_perf_branch_address(raw->to),
			.info	= pv_perf_branch_info(raw),
		};
	}

	return nr;
}

/**
 * pv_perf_branches_tell - tell the guest of the branches that led to an overflow
 * @vcpu: the vCPU, its lock held, before it is told of the overflow; kvm->srcu is held
 *	for reading
 * @may_sleep: false if page faults are disabled
 *
 * A guest without an area is told of no branches.
 *
 * Return: 0, -EFAULT, or -EAGAIN if it would have to wait; then the guest may have
 * been told of some.
 */
int pv_perf_branches_tell(struct kvm_vcpu *vcpu, bool may_sleep)
{
	struct pv_perf_vcpu *here = vcpu->arch.pv_perf;
	struct {
		u32 nr;
		u32 reserved;
		struct guest_perf_branch branch[KVM_PERF_MAX_BRANCHES];
	} told;

	lockdep_assert_held(&here->lock);

	if (!here->area.epoch)
		return 0;

	/* The area's address has to be looked up again, which may sleep. */
	if (!may_sleep && pv_perf_is_stale(vcpu->kvm, &here->area.where))
		return -EAGAIN;

	told.nr = pv_perf_branches_decode(&here->branches, told.branch);
	told.reserved = 0;
	return kvm_write_guest_offset_cached(vcpu->kvm, &here->area.where, &told,
					     offsetof(struct guest_perf_area,
						      nr_branches),
					     offsetof(typeof(told),
						      branch[told.nr]));
}
