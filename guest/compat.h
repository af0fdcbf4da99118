/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions of the kernel that modules lack, and differences between the kernels that
 * the guest module is built for.
 */
#ifndef _KVM_PMU_COMPAT_H
#define _KVM_PMU_COMPAT_H

#include <linux/kernel.h>
#include <linux/kvm_para.h>
#include <linux/lockdep.h>
#include <linux/mmap_lock.h>
#include <linux/module.h>
#include <linux/perf_event.h>
#include <linux/slab.h>
#include <linux/static_call.h>
#include <linux/syscore_ops.h>
#include <linux/version.h>

#include <asm/apic.h>

/* compat_module.c calls the driver's initcall when it has found the kernel's functions. */
int kvm_pmu_compat_init(void);
int kvm_pmu_initcall(void);
#undef device_initcall
#define device_initcall(function)	\
	int __init kvm_pmu_initcall(void) { return function(); }

/* A module is also unloaded.  Each function undoes its file's preparations. */
void kvm_pmu_user_destroy(void);
void kvm_pmu_config_destroy(void);

/* A module resets the host by probes, not by machine_ops. */
void kvm_pmu_no_reset_at_end(void);

/* Unregisters, and frees, all PMUs that perf_pmu_register() has registered here. */
void kvm_pmu_compat_unregister(void);
int kvm_pmu_compat_register(struct pmu *pmu, const char *name, int type);
#define perf_pmu_register	kvm_pmu_compat_register

#ifndef kzalloc_obj
/* Of newer kernels. */
#define kzalloc_obj(obj, gfp)	kzalloc(sizeof(obj), gfp)
#endif

/* These say in the log why the module does not load. */
bool kvm_pmu_para_available(void);
bool kvm_pmu_para_has_feature(unsigned int feature);

#define kvm_para_available	kvm_pmu_para_available
#define kvm_para_has_feature	kvm_pmu_para_has_feature

/* The address of a function or a variable of the kernel; NULL if it is not found. */
void *kvm_pmu_find_function(const char *name);
void *kvm_pmu_find_variable(const char *name);

/* For user mode to read counters. */
void kvm_pmu_user_page(struct perf_event *event,
		       struct perf_event_mmap_page *page);
bool kvm_pmu_user_fixup(struct pt_regs *regs);
void kvm_pmu_no_cr4_update(void *unused);
typedef void kvm_pmu_page_fn(struct perf_event *event,
			     struct perf_event_mmap_page *page);
typedef bool kvm_pmu_fixup_fn(struct pt_regs *regs);
int kvm_pmu_compat_init_user(kvm_pmu_page_fn *page, kvm_pmu_fixup_fn *fixup,
			     void *probe);
void kvm_pmu_compat_exit_user(void);
DECLARE_STATIC_CALL(kvm_pmu_cr4_update, kvm_pmu_no_cr4_update);

#define cr4_update_pce		static_call(kvm_pmu_cr4_update)

/* Keeps RDPMC from user mode, also from programs that have mapped an event. */
extern struct static_key_false *kvm_pmu_rdpmc_never;
#define rdpmc_never_available_key	(*kvm_pmu_rdpmc_never)

extern struct tracepoint *kvm_pmu_sched_switch;
#define register_trace_sched_switch(probe, data) \
	kvm_pmu_compat_init_user(kvm_pmu_user_page, kvm_pmu_user_fixup, probe)
#define unregister_trace_sched_switch(probe, data) \
	tracepoint_probe_unregister(kvm_pmu_sched_switch, probe, data)

/* The kernel's own uses dump_mm() with CONFIG_DEBUG_VM, which is not exported. */
#define mmap_assert_write_locked(mm)	lockdep_assert_held_write(&(mm)->mmap_lock)

/* Not exported, but found. */
u64 kvm_pmu_steal_clock(int cpu);
DECLARE_STATIC_CALL(kvm_pmu_perf_overflow, perf_event_overflow);
DECLARE_STATIC_CALL(kvm_pmu_perf_account, perf_event_account_interrupt);
DECLARE_STATIC_CALL(kvm_pmu_steal, kvm_pmu_steal_clock);
DECLARE_STATIC_CALL(kvm_pmu_perf_resched, perf_pmu_resched);
DECLARE_STATIC_CALL(kvm_pmu_perf_took, perf_sample_event_took);

#define perf_event_overflow	static_call(kvm_pmu_perf_overflow)
#define perf_event_account_interrupt	static_call(kvm_pmu_perf_account)
#define paravirt_steal_clock	static_call(kvm_pmu_steal)

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0)
struct kvm_pmu_cpu;
void kvm_pmu_compat_resched(struct pmu *pmu, struct kvm_pmu_cpu *cpu);
#define perf_pmu_resched(pmu)	kvm_pmu_compat_resched(pmu, this_kvm_pmu_cpu())
#else
#define perf_pmu_resched	static_call_cond(kvm_pmu_perf_resched)
#endif
#define perf_sample_event_took	static_call_cond(kvm_pmu_perf_took)

int kvm_pmu_no_branch_type(unsigned long from, unsigned long to, int abort,
			   int *offset);
int kvm_pmu_no_common_type(int type);
DECLARE_STATIC_CALL(kvm_pmu_text_address, kernel_text_address);
DECLARE_STATIC_CALL(kvm_pmu_branch_type, kvm_pmu_no_branch_type);
DECLARE_STATIC_CALL(kvm_pmu_branch_common, kvm_pmu_no_common_type);
DECLARE_STATIC_CALL(kvm_pmu_perf_cb_inc, perf_sched_cb_inc);
DECLARE_STATIC_CALL(kvm_pmu_perf_cb_dec, perf_sched_cb_dec);

#define kernel_text_address	static_call(kvm_pmu_text_address)
#define branch_type_fused	static_call(kvm_pmu_branch_type)
#define common_branch_type	static_call(kvm_pmu_branch_common)
#define perf_sched_cb_inc	static_call_cond(kvm_pmu_perf_cb_inc)
#define perf_sched_cb_dec	static_call_cond(kvm_pmu_perf_cb_dec)

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 10, 0)
#define KVM_PMU_BRANCHES_NEED_PERIOD
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0)
#define KVM_PMU_SCHED_TASK_OF_CONTEXT

static inline void perf_sample_save_brstack(struct perf_sample_data *data,
					    struct perf_event *event,
					    struct perf_branch_stack *stack,
					    u64 *counters)
{
	data->br_stack = stack;
	data->sample_flags |= PERF_SAMPLE_BRANCH_STACK;
}
#endif

/* The kernel's inline functions call functions that some kernels do not export. */
#define apic_read(reg)		apic->read(reg)
#define apic_write(reg, value)	apic->write(reg, value)

#ifndef KVM_PMU_HAS_STRUCT_SYSCORE
/* The callbacks of older kernels take no argument. */
struct kvm_pmu_syscore_ops {
	int (*suspend)(void *data);
	void (*resume)(void *data);
};

#define syscore_ops		kvm_pmu_syscore_ops

struct syscore {
	const struct syscore_ops *ops;
};

void kvm_pmu_compat_register_syscore(struct syscore *syscore);
void kvm_pmu_compat_unregister_syscore(struct syscore *syscore);
#define register_syscore	kvm_pmu_compat_register_syscore
#define unregister_syscore	kvm_pmu_compat_unregister_syscore
#endif

int kvm_pmu_max_sample_rate(void);
#define sysctl_perf_event_sample_rate	kvm_pmu_max_sample_rate()

#endif /* _KVM_PMU_COMPAT_H */
