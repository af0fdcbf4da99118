// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, guest side: the branches that led to a sample.
 *
 * The host has the CPU record branches, and writes those that led to the last overflow
 * to the area of the CPU.  It records all kinds that any event of this CPU asks for.
 * This file selects those of one event, like x86's own PMU: only a look at the
 * instruction tells a system call from the return of one.
 *
 * The branches are never older than this CPU's last exit.  So a hypercall keeps one
 * task's branches from another's samples.
 */
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/perf_event.h>
#include <linux/slab.h>

#include <asm/insn.h>

#include "compat.h"
#include "compat_branches.h"
#include "kvm_pmu.h"

/*
 * For a bit of branch_sample_type: branches that the host has to record, and kinds to
 * keep of these.
 */
static const struct kvm_pmu_branch_filter {
	u64 bit;
	u64 record;
	unsigned int keep;
} kvm_pmu_branch_filters[] = {
	{ PERF_SAMPLE_BRANCH_USER, KVM_PERF_ATTR_BRANCH_USER, X86_BR_USER },
	{ PERF_SAMPLE_BRANCH_KERNEL, KVM_PERF_ATTR_BRANCH_KERNEL,
	  X86_BR_KERNEL },
	{ PERF_SAMPLE_BRANCH_ANY,
	  KVM_PERF_ATTR_BRANCHES & ~(KVM_PERF_ATTR_BRANCH_USER |
				     KVM_PERF_ATTR_BRANCH_KERNEL),
	  X86_BR_ANY },
	{ PERF_SAMPLE_BRANCH_ANY_CALL,
	  KVM_PERF_ATTR_BRANCH_CALL | KVM_PERF_ATTR_BRANCH_IND_CALL |
	  KVM_PERF_ATTR_BRANCH_FAR, X86_BR_ANY_CALL },
	{ PERF_SAMPLE_BRANCH_ANY_RETURN,
	  KVM_PERF_ATTR_BRANCH_RETURN | KVM_PERF_ATTR_BRANCH_FAR,
	  X86_BR_RET | X86_BR_IRET | X86_BR_SYSRET },
	{ PERF_SAMPLE_BRANCH_IND_CALL, KVM_PERF_ATTR_BRANCH_IND_CALL,
	  X86_BR_IND_CALL },
	{ PERF_SAMPLE_BRANCH_COND, KVM_PERF_ATTR_BRANCH_COND, X86_BR_JCC },
	{ PERF_SAMPLE_BRANCH_IND_JUMP, KVM_PERF_ATTR_BRANCH_IND_JUMP,
	  X86_BR_IND_JMP },
	{ PERF_SAMPLE_BRANCH_CALL, KVM_PERF_ATTR_BRANCH_CALL,
	  X86_BR_CALL | X86_BR_ZERO_CALL },
};

/* Filters that AMD's own PMU refuses, too (amd_pmu_lbr_setup_filter()). */
#define KVM_PMU_BRANCH_UNSUPPORTED \
	(PERF_SAMPLE_BRANCH_ABORT_TX | PERF_SAMPLE_BRANCH_IN_TX | \
	 PERF_SAMPLE_BRANCH_NO_TX | PERF_SAMPLE_BRANCH_CALL_STACK | \
	 PERF_SAMPLE_BRANCH_NO_FLAGS | PERF_SAMPLE_BRANCH_NO_CYCLES)

/**
 * kvm_pmu_branches_possible - can samples have branches?
 *
 * Return: the maximum number for a sample, or 0.
 */
unsigned int kvm_pmu_branches_possible(void)
{
	return READ_ONCE(kvm_pmu_host.branches);
}

/**
 * kvm_pmu_wants_branches - does an event want branches with its samples?
 * @event: the event
 *
 * Nothing is recorded for an event without samples.  x86's own PMU does that for
 * bpf_get_branch_snapshot(), which reads the CPU's registers.
 */
bool kvm_pmu_wants_branches(const struct perf_event *event)
{
	return has_branch_stack((struct perf_event *)event) &&
	       event->attr.sample_period;
}

/**
 * kvm_pmu_branches_init_event - note which branches an event wants with its samples
 * @event: the event, which wants branches
 *
 * Return: 0, or the error of x86's own PMU; then nothing is to be recorded.
 */
int kvm_pmu_branches_init_event(struct perf_event *event)
{
	u64 wanted = event->attr.branch_sample_type;
	struct hw_perf_event_extra *reg = &event->hw.branch_reg;
	const struct kvm_pmu_branch_filter *filter;

	reg->config = 0;
	reg->reg = 0;

#ifdef KVM_PMU_BRANCHES_NEED_PERIOD
	if (!is_sampling_event(event))
		return -EINVAL;
#endif

	if (wanted & KVM_PMU_BRANCH_UNSUPPORTED)
		return -EOPNOTSUPP;

	for (filter = kvm_pmu_branch_filters;
	     filter < kvm_pmu_branch_filters + ARRAY_SIZE(kvm_pmu_branch_filters);
	     filter++) {
		if (wanted & filter->bit) {
			reg->config |= filter->record;
			reg->reg |= filter->keep;
		}
	}

	kvm_pmu_want_sched_task(event);
	return 0;
}

/**
 * kvm_pmu_branches_add - an event is scheduled in
 * @event: the event, of this PMU
 */
void kvm_pmu_branches_add(struct perf_event *event)
{
	if (kvm_pmu_wants_branches(event))
		perf_sched_cb_inc(event->pmu);
}

/**
 * kvm_pmu_branches_del - an event is scheduled out
 * @event: the event
 */
void kvm_pmu_branches_del(struct perf_event *event)
{
	if (kvm_pmu_wants_branches(event))
		perf_sched_cb_dec(event->pmu);
}

/**
 * kvm_pmu_branches_forget - keep this CPU's branches so far from later samples
 *
 * The operation only makes the CPU leave the guest.
 */
void kvm_pmu_branches_forget(void)
{
	kvm_perf_op(KVM_PERF_OP_READ, KVM_PMU_NO_EVENT, 0);
}

/* Like amd_pmu_lbr_filter(). */
static bool kvm_pmu_branch_is_wanted(const struct perf_event *event,
				     int type, u64 from)
{
	unsigned int keep = event->hw.branch_reg.reg;

	return type != X86_BR_NONE && (keep & type) == type &&
	       (keep & X86_BR_KERNEL || !kernel_ip(from));
}

/*
 * To find the type of a branch in its own text, the kernel reads as many bytes as an
 * instruction may have.  There may be no memory behind the text.
 */
static bool kvm_pmu_branch_is_readable(u64 from)
{
	return !kernel_ip(from) ||
	       offset_in_page(from) <= PAGE_SIZE - MAX_INSN_SIZE ||
	       kernel_text_address(from + MAX_INSN_SIZE - 1);
}

/* Returns false if the event does not want the branch. */
static bool kvm_pmu_branch(const struct perf_event *event,
			   const struct guest_perf_branch *branch,
			   struct perf_branch_entry *entry)
{
	u64 from = kvm_pmu_area_read(&branch->from);
	u64 to = kvm_pmu_area_read(&branch->to);
	u64 info = kvm_pmu_area_read(&branch->info);
	int type, offset;

	if (!kvm_pmu_branch_is_readable(from))
		return false;

	/* The address may be that of an instruction before the branch. */
	type = branch_type_fused(from, to, 0, &offset);
	if (!kvm_pmu_branch_is_wanted(event, type, from))
		return false;

	*entry = (struct perf_branch_entry) {
		.from		= from + offset,
		.to		= to,
		.mispred	= !!(info & KVM_PERF_BRANCH_MISPREDICTED),
		.predicted	= !(info & KVM_PERF_BRANCH_MISPREDICTED),
		.spec		= (info & KVM_PERF_BRANCH_SPEC) >>
				  KVM_PERF_BRANCH_SPEC_SHIFT,
	};
	if (event->attr.branch_sample_type & PERF_SAMPLE_BRANCH_TYPE_SAVE)
		entry->type = common_branch_type(type);
	return true;
}

/**
 * kvm_pmu_branches_save - give a sample the branches that led to it
 * @cpu: this CPU's
 * @event: the event
 * @data: the sample
 *
 * In the NMI handler.
 */
void kvm_pmu_branches_save(struct kvm_pmu_cpu *cpu, struct perf_event *event,
			   struct perf_sample_data *data)
{
	struct perf_branch_stack *stack = cpu->nmi.branches;
	u32 nr = min_t(u32, READ_ONCE(cpu->host.area->nr_branches),
		       KVM_PERF_MAX_BRANCHES);
	u32 i;

	stack->nr = 0;
	for (i = 0; i < nr; i++) {
		if (kvm_pmu_branch(event, &cpu->host.area->branch[i],
				   &stack->entries[stack->nr]))
			stack->nr++;
	}
	/* The last branch is the first of the stack. */
	stack->hw_idx = 0;
	perf_sample_save_brstack(data, event, stack, NULL);
}

/**
 * kvm_pmu_branches_alloc - get memory for the branches of a sample
 * @cpu: the CPU's
 *
 * Return: 0 or -ENOMEM.
 */
int kvm_pmu_branches_alloc(struct kvm_pmu_cpu *cpu)
{
	cpu->nmi.branches = kzalloc(struct_size(cpu->nmi.branches, entries,
						KVM_PERF_MAX_BRANCHES),
				    GFP_KERNEL);
	return cpu->nmi.branches ? 0 : -ENOMEM;
}
