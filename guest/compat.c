// SPDX-License-Identifier: GPL-2.0
/*
 * Functions of the kernel that modules lack, and differences between the kernels that
 * the guest module is built for.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/kallsyms.h>
#include <linux/kmemleak.h>
#include <linux/kprobes.h>
#include <linux/kvm_para.h>
#include <linux/percpu.h>
#include <linux/slab.h>
#include <linux/stop_machine.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 16, 0)
#include <asm/processor.h>
#define cpuid_base_hypervisor	hypervisor_cpuid_base
#else
#include <asm/cpuid/api.h>
#endif

#include <linux/perf_event.h>
#include <linux/static_call.h>
#include <linux/syscore_ops.h>

/* Before compat.h defines these names as macros. */
DEFINE_STATIC_CALL_RET0(kvm_pmu_perf_overflow, perf_event_overflow);
DEFINE_STATIC_CALL_RET0(kvm_pmu_perf_account, perf_event_account_interrupt);
DEFINE_STATIC_CALL_NULL(kvm_pmu_perf_resched, perf_pmu_resched);
DEFINE_STATIC_CALL_NULL(kvm_pmu_perf_took, perf_sample_event_took);
DEFINE_STATIC_CALL_RET0(kvm_pmu_text_address, kernel_text_address);
DEFINE_STATIC_CALL_NULL(kvm_pmu_perf_cb_inc, perf_sched_cb_inc);
DEFINE_STATIC_CALL_NULL(kvm_pmu_perf_cb_dec, perf_sched_cb_dec);

#ifndef KVM_PMU_HAS_STRUCT_SYSCORE
static int kvm_pmu_compat_suspend(void);
static void kvm_pmu_compat_resume(void);

static struct syscore_ops kvm_pmu_compat_ops = {
	.suspend	= kvm_pmu_compat_suspend,
	.resume		= kvm_pmu_compat_resume,
};
#endif

#include "compat.h"
#include "compat_branches.h"
#include "kvm_pmu.h"

#ifndef KVM_PMU_HAS_STRUCT_SYSCORE
static struct syscore *kvm_pmu_compat_syscore;

static int kvm_pmu_compat_suspend(void)
{
	return kvm_pmu_compat_syscore->ops->suspend(NULL);
}

static void kvm_pmu_compat_resume(void)
{
	kvm_pmu_compat_syscore->ops->resume(NULL);
}

void kvm_pmu_compat_register_syscore(struct syscore *syscore)
{
	kvm_pmu_compat_syscore = syscore;
	register_syscore_ops(&kvm_pmu_compat_ops);
}

void kvm_pmu_compat_unregister_syscore(struct syscore *syscore)
{
	unregister_syscore_ops(&kvm_pmu_compat_ops);
}
#endif

#undef kvm_para_available
#undef kvm_para_has_feature
#undef perf_pmu_register

bool kvm_pmu_para_available(void)
{
	if (kvm_para_available())
		return true;

	pr_info("not loaded: this is no guest of KVM\n");
	return false;
}

bool kvm_pmu_para_has_feature(unsigned int feature)
{
	u32 base = cpuid_base_hypervisor("KVMKVMKVM\0\0\0", 0);

	if (cpuid_eax(base | KVM_CPUID_FEATURES) & (1U << feature))
		return true;

	pr_info("not loaded: the host does not offer paravirtual perf events to this VM\n");
	return false;
}

/* The kprobe's address is the function's address.  Nothing is put there. */
void *kvm_pmu_find_function(const char *name)
{
	struct kprobe kp = {
		.symbol_name	= name,
		.flags		= KPROBE_FLAG_DISABLED,
	};

	if (register_kprobe(&kp))
		return NULL;

	unregister_kprobe(&kp);
	return kp.addr;
}

/* A kprobe finds functions only: kallsyms_lookup_name() finds variables. */
DEFINE_STATIC_CALL_NULL(kvm_pmu_lookup, kallsyms_lookup_name);

void *kvm_pmu_find_variable(const char *name)
{
	void *lookup = kvm_pmu_find_function("kallsyms_lookup_name");

	if (!lookup)
		return NULL;

	static_call_update(kvm_pmu_lookup, lookup);
	return (void *)static_call(kvm_pmu_lookup)(name);
}

static const int *kvm_pmu_perf_sample_rate;

/* If the rate is not known, leave the check to the host. */
int kvm_pmu_max_sample_rate(void)
{
	return kvm_pmu_perf_sample_rate ? READ_ONCE(*kvm_pmu_perf_sample_rate) :
					  INT_MAX;
}

/* Used if the host does not tell the steal time. */
u64 kvm_pmu_steal_clock(int cpu)
{
	return 0;
}

DEFINE_STATIC_CALL(kvm_pmu_steal, kvm_pmu_steal_clock);

/* Not called: the module does not load if functions are missing. */
int kvm_pmu_no_branch_type(unsigned long from, unsigned long to, int abort,
			   int *offset)
{
	return X86_BR_NONE;
}

int kvm_pmu_no_common_type(int type)
{
	return PERF_BR_UNKNOWN;
}

DEFINE_STATIC_CALL(kvm_pmu_branch_type, kvm_pmu_no_branch_type);
DEFINE_STATIC_CALL(kvm_pmu_branch_common, kvm_pmu_no_common_type);

/* Finds a function that the module needs; or sets @missing, if it is the first. */
static void *kvm_pmu_need_function(const char *name, const char **missing)
{
	void *function = kvm_pmu_find_function(name);

	if (!function && !*missing)
		*missing = name;
	return function;
}

/*
 * Without perf_pmu_resched(), perf would believe that an event counts for which the
 * host has no counter.
 */
static int kvm_pmu_find_functions(void)
{
	const char *missing = NULL;
	void *resched = kvm_pmu_need_function("perf_pmu_resched", &missing);
	void *overflow = kvm_pmu_need_function("perf_event_overflow", &missing);
	void *account = kvm_pmu_need_function("perf_event_account_interrupt", &missing);
	void *inc = kvm_pmu_need_function("perf_sched_cb_inc", &missing);
	void *dec = kvm_pmu_need_function("perf_sched_cb_dec", &missing);
	void *type = kvm_pmu_need_function("branch_type_fused", &missing);
	void *common = kvm_pmu_need_function("common_branch_type", &missing);
	void *text = kvm_pmu_need_function("kernel_text_address", &missing);
	void *took = kvm_pmu_find_function("perf_sample_event_took");
	void *steal = kvm_pmu_find_function("kvm_steal_clock");

	if (missing) {
		pr_info("not loaded: kprobes cannot be used, so %s is not found\n", missing);
		return -ENOENT;
	}

	kvm_pmu_perf_sample_rate =
		kvm_pmu_find_variable("sysctl_perf_event_sample_rate");
	static_call_update(kvm_pmu_perf_resched, resched);
	static_call_update(kvm_pmu_perf_overflow, overflow);
	static_call_update(kvm_pmu_perf_account, account);
	static_call_update(kvm_pmu_perf_cb_inc, inc);
	static_call_update(kvm_pmu_perf_cb_dec, dec);
	static_call_update(kvm_pmu_branch_type, type);
	static_call_update(kvm_pmu_branch_common, common);
	static_call_update(kvm_pmu_text_address, text);
	if (took)
		static_call_update(kvm_pmu_perf_took, took);
	if (steal)
		static_call_update(kvm_pmu_steal, steal);
	return 0;
}

static struct pmu *kvm_pmu_registered[2];
static unsigned int kvm_pmu_nr_registered;

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0)

/*
 * Before 6.2 the perf context of a task points to the pmu that it was made for until
 * the task ends, and the next pmu uses the context, too.  So the pmu must outlive the
 * module, without functions of the module: perf's functions for a pmu that has none replace
 * them.  Because pmu_enable then does nothing, the next pmu flushes for each event by itself.
 */
static int kvm_pmu_nothing_event_init(struct perf_event *event)
{
	return -ENOENT;
}

static struct pmu kvm_pmu_nothing = {
	.module		= THIS_MODULE,
	.task_ctx_nr	= perf_invalid_context,
	.event_init	= kvm_pmu_nothing_event_init,
};

int kvm_pmu_compat_init(void)
{
	int ret = kvm_pmu_find_functions();

	if (ret)
		return ret;

	/* perf_pmu_register() fills in the missing functions. */
	ret = perf_pmu_register(&kvm_pmu_nothing, "kvm_pmu_nothing", -1);
	if (ret)
		return ret;

	perf_pmu_unregister(&kvm_pmu_nothing);
	/* See kvm_pmu_leave_contexts(): it needs fixed_percpu_data. */
	if (IS_ENABLED(CONFIG_X86_32))
		__module_get(THIS_MODULE);
	return 0;
}

/*
 * All CPUs are stopped, so none is between pmu_disable and pmu_enable.
 *
 * perf_pmu_unregister() frees pmu_disable_count while contexts still use it.  So let it be
 * the start of each CPU's area, which is NULL for free_percpu(): fixed_percpu_data.gs_base,
 * which nothing uses.  perf adds 1 to it and takes 1 off again.
 */
static int kvm_pmu_leave_contexts(void *data)
{
	struct pmu *pmu = data;

	pmu->pmu_disable_count = NULL;
	pmu->pmu_enable = kvm_pmu_nothing.pmu_enable;
	pmu->pmu_disable = kvm_pmu_nothing.pmu_disable;
	pmu->start_txn = kvm_pmu_nothing.start_txn;
	pmu->commit_txn = kvm_pmu_nothing.commit_txn;
	pmu->cancel_txn = kvm_pmu_nothing.cancel_txn;
	pmu->sched_task = NULL;
	return 0;
}

static void kvm_pmu_unregister(struct pmu *pmu)
{
	int __percpu *count = pmu->pmu_disable_count;

	stop_machine(kvm_pmu_leave_contexts, pmu, NULL);
	free_percpu(count);
	perf_pmu_unregister(pmu);
	/* The driver does not know whether such a task is left. */
	kmemleak_not_leak(pmu);
}

/* perf schedules the CPU contexts of such a context apart. */
static void kvm_pmu_resched_one(struct pmu *pmu, struct kvm_pmu_cpu *cpu)
{
	struct pmu *old, *last = pmu;
	struct kvm_pmu_backing *backing;
	struct perf_event *event;

	static_call_cond(kvm_pmu_perf_resched)(pmu);
	for_each_backing(cpu, backing) {
		event = backing->event;
		if (!event || event->pmu != pmu)
			continue;
		old = event->ctx->pmu;
		if (old == last || old->pmu_cpu_context == pmu->pmu_cpu_context)
			continue;
		static_call_cond(kvm_pmu_perf_resched)(old);
		last = old;
	}
}

/* From 6.2 on perf's own takes NULL for all PMUs. */
void kvm_pmu_compat_resched(struct pmu *pmu, struct kvm_pmu_cpu *cpu)
{
	unsigned int i;

	if (pmu) {
		kvm_pmu_resched_one(pmu, cpu);
		return;
	}

	for (i = 0; i < kvm_pmu_nr_registered; i++)
		kvm_pmu_resched_one(kvm_pmu_registered[i], cpu);
}

#else

int kvm_pmu_compat_init(void)
{
	return kvm_pmu_find_functions();
}

/*
 * From 6.15 on perf_pmu_unregister() fails while perf is about to free an event of the
 * pmu, which has dropped its reference to the module already.
 */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 15, 0)
static void kvm_pmu_unregister_when_idle(struct pmu *pmu)
{
	while (perf_pmu_unregister(pmu))
		msleep(1);
}
#else
#define kvm_pmu_unregister_when_idle	perf_pmu_unregister
#endif

static void kvm_pmu_unregister(struct pmu *pmu)
{
	kvm_pmu_unregister_when_idle(pmu);
	kfree(pmu);
}

#endif

int kvm_pmu_compat_register(struct pmu *pmu, const char *name, int type)
{
	int ret;

	if (WARN_ON_ONCE(kvm_pmu_nr_registered == ARRAY_SIZE(kvm_pmu_registered)))
		return -ENOSPC;

#ifdef PERF_PMU_CAP_HETEROGENEOUS_CPUS
	/* Before 6.2 for PMUs that share the context of hardware events. */
	if (pmu->task_ctx_nr == perf_hw_context)
		pmu->capabilities |= PERF_PMU_CAP_HETEROGENEOUS_CPUS;
#endif
	ret = perf_pmu_register(pmu, name, type);
	if (!ret)
		kvm_pmu_registered[kvm_pmu_nr_registered++] = pmu;
	return ret;
}

void kvm_pmu_compat_unregister(void)
{
	while (kvm_pmu_nr_registered)
		kvm_pmu_unregister(kvm_pmu_registered[--kvm_pmu_nr_registered]);
}
