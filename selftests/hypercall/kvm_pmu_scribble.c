// SPDX-License-Identifier: GPL-2.0
/*
 * Writes anything into the memory that the guest's driver shares with the host, as long
 * as it is loaded: what the host writes there, as the driver reads it.  A thread on each
 * CPU does so with the memory of its own CPU and of the others.
 *
 * What the driver has the host read, as addresses of its own, is left alone: the host
 * would write there.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cpu.h>
#include <linux/delay.h>
#include <linux/kprobes.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/random.h>

#include <asm/nmi.h>

#include "kvm_pmu.h"

/* Of the driver. */
static struct kvm_pmu_cpu * __percpu *scribble_cpus;

static DEFINE_PER_CPU(struct task_struct *, scribble_thread);

static atomic_long_t scribble_n;

static u32 below(u32 n)
{
	return get_random_u32() % n;
}

/* Some that are more likely to matter than any other. */
static u64 scribble_value(u64 old)
{
	switch (below(10)) {
	case 0:
		return 0;
	case 1:
		return below(64);
	case 2:
		return ~0ULL;
	case 3:
		return 1ULL << below(64);
	case 4:
		return old ^ 1ULL << below(64);
	case 5:
		return -(u64)get_random_u32();
	case 6:
		return S64_MIN + below(2);
	case 7:
		/* At the end of a page of text. */
		return ((unsigned long)scribble_value | ~PAGE_MASK) - below(16);
	case 8:
		return get_random_u32();
	default:
		return get_random_u64();
	}
}

#define scribble(field)							\
	WRITE_ONCE(field, (typeof(field))scribble_value(READ_ONCE(field)))

static void scribble_record(struct guest_perf_event *record)
{
	switch (below(9)) {
	case 0:
		scribble(record->count);
		break;
	case 1:
		scribble(record->overflows);
		break;
	case 2:
		scribble(record->sequence);
		break;
	case 3:
		scribble(record->time_enabled);
		break;
	case 4:
		scribble(record->last_period);
		break;
	case 5:
		scribble(record->period_left);
		break;
	case 6:
		scribble(record->flags);
		break;
	case 7:
		scribble(record->pmc);
		break;
	case 8:
		scribble(record->offset);
		break;
	}
}

static void scribble_slot(struct guest_perf_slot *slot)
{
	switch (below(5)) {
	case 0:
		scribble(slot->counts);
		break;
	case 1:
		scribble(slot->left);
		break;
	case 2:
		scribble(slot->ip);
		break;
	case 3:
		scribble(slot->exclude);
		break;
	case 4:
		scribble(slot->user);
		break;
	}
}

static void scribble_area(struct guest_perf_area *area)
{
	struct guest_perf_branch *branch;

	switch (below(6)) {
	case 0:
		/* With it, all is opened anew: not each time. */
		if (!below(16))
			scribble(area->epoch);
		break;
	case 1:
		scribble(area->slots);
		break;
	case 2:
		scribble(area->count[below(KVM_PERF_MAX_COUNTS)][below(2)]);
		break;
	case 3:
		scribble_slot(&area->slot[below(KVM_PERF_NR_SLOTS)]);
		break;
	case 4:
		scribble(area->nr_branches);
		break;
	case 5:
		branch = &area->branch[below(KVM_PERF_MAX_BRANCHES)];
		scribble(branch->from);
		scribble(branch->to);
		scribble(branch->info);
		break;
	}
}

/* The operation is one of an event, which takes no address, once it has been run. */
static void scribble_op(struct guest_perf_op *op)
{
	static const u8 ops[] = {
		KVM_PERF_OP_CLOSE, KVM_PERF_OP_ENABLE, KVM_PERF_OP_DISABLE,
		KVM_PERF_OP_READ, KVM_PERF_OP_SET_PERIOD, KVM_PERF_OP_SET_LEFT,
	};

	switch (below(3)) {
	case 0:
		WRITE_ONCE(op->op, ops[below(ARRAY_SIZE(ops))]);
		break;
	case 1:
		WRITE_ONCE(op->result, -(s32)below(40));
		break;
	case 2:
		if (READ_ONCE(op->op) != KVM_PERF_OP_OPEN)
			scribble(op->arg);
		break;
	}
}

static void scribble_cpu(struct kvm_pmu_cpu *cpu)
{
	switch (below(4)) {
	case 0:
		scribble_record(&cpu->counters[below(KVM_PMU_NR_COUNTERS)].record);
		break;
	case 1:
		scribble_op(&cpu->ops[below(8)]);
		break;
	default:
		scribble_area(cpu->area);
		break;
	}
	atomic_long_inc(&scribble_n);
}

static int scribble_run(void *unused)
{
	unsigned int i;
	int cpu;

	while (!kthread_should_stop()) {
		for_each_online_cpu(cpu) {
			for (i = below(8); i; i--)
				scribble_cpu(*per_cpu_ptr(scribble_cpus, cpu));
		}
		usleep_range(100, 300);
	}

	return 0;
}

/* What an NMI was to tell may have been written over. */
static int scribble_nmi(unsigned int type, struct pt_regs *regs)
{
	return NMI_HANDLED;
}

static void scribble_stop(void)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		if (per_cpu(scribble_thread, cpu))
			kthread_stop(per_cpu(scribble_thread, cpu));
		per_cpu(scribble_thread, cpu) = NULL;
	}
	unregister_nmi_handler(NMI_LOCAL, KBUILD_MODNAME);
}

/* The address of the driver's variable, which no module can link against. */
static void *scribble_find(const char *name)
{
	struct kprobe kp = {
		.symbol_name	= "kallsyms_lookup_name",
		.flags		= KPROBE_FLAG_DISABLED,
	};
	unsigned long (*lookup)(const char *name);

	if (register_kprobe(&kp))
		return NULL;

	lookup = (void *)kp.addr;
	unregister_kprobe(&kp);
	return (void *)lookup(name);
}

static int __init scribble_init(void)
{
	struct task_struct *thread;
	int cpu, ret;

	scribble_cpus = (void __percpu *)scribble_find("kvm_pmu_cpu");
	if (!scribble_cpus)
		return -ENOENT;

	ret = register_nmi_handler(NMI_LOCAL, scribble_nmi, 0, KBUILD_MODNAME);
	if (ret)
		return ret;

	for_each_online_cpu(cpu) {
		thread = kthread_create_on_cpu(scribble_run, NULL, cpu,
					       "scribble/%u");
		if (IS_ERR(thread)) {
			scribble_stop();
			return PTR_ERR(thread);
		}
		per_cpu(scribble_thread, cpu) = thread;
		wake_up_process(thread);
	}

	return 0;
}
module_init(scribble_init);

static void __exit scribble_exit(void)
{
	scribble_stop();
	pr_info("%ld numbers written\n", atomic_long_read(&scribble_n));
}
module_exit(scribble_exit);

MODULE_DESCRIPTION("Writes anything into what kvm_pmu shares with the host");
MODULE_LICENSE("GPL");
