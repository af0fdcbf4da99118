// SPDX-License-Identifier: GPL-2.0
/*
 * Functions of the kernel that modules lack to let user mode read counters.  If the
 * driver is built in, the kernel calls kvm_pmu_user_page() and kvm_pmu_user_fixup()
 * itself.
 */
#include <linux/jump_label.h>
#include <linux/kprobes.h>
#include <linux/perf_event.h>
#include <linux/static_call.h>
#include <linux/string.h>
#include <linux/tracepoint.h>

#include <asm/ptrace.h>
#include <asm/trapnr.h>

#include "compat.h"
#include "kvm_pmu.h"

void kvm_pmu_no_cr4_update(void *unused)
{
}

DEFINE_STATIC_CALL(kvm_pmu_cr4_update, kvm_pmu_no_cr4_update);

static bool kvm_pmu_has_user;
struct static_key_false *kvm_pmu_rdpmc_never;
struct tracepoint *kvm_pmu_sched_switch;

static void kvm_pmu_look_at_tracepoint(struct tracepoint *tp, void *unused)
{
	if (!strcmp(tp->name, "sched_switch"))
		kvm_pmu_sched_switch = tp;
}

/* The kretprobes call these.  The kernel calls a built-in driver's functions itself. */
DEFINE_STATIC_CALL_NULL(kvm_pmu_page, kvm_pmu_user_page);
DEFINE_STATIC_CALL_RET0(kvm_pmu_fixup, kvm_pmu_user_fixup);

struct kvm_pmu_page_args {
	struct perf_event *event;
	struct perf_event_mmap_page *page;
};

static int kvm_pmu_page_entry(struct kretprobe_instance *ri,
			      struct pt_regs *regs)
{
	struct kvm_pmu_page_args *args = (void *)ri->data;

	args->event = (void *)regs_get_kernel_argument(regs, 0);
	args->page = (void *)regs_get_kernel_argument(regs, 1);
	/* Return nonzero for other PMUs' events: the return is not probed. */
	return !kvm_pmu_is_ours(args->event);
}
NOKPROBE_SYMBOL(kvm_pmu_page_entry);

static int kvm_pmu_page_return(struct kretprobe_instance *ri,
			       struct pt_regs *regs)
{
	struct kvm_pmu_page_args *args = (void *)ri->data;

	static_call_cond(kvm_pmu_page)(args->event, args->page);
	return 0;
}
NOKPROBE_SYMBOL(kvm_pmu_page_return);

/* If a probe is missed, the page says that user mode cannot read the counter. */
static struct kretprobe kvm_pmu_page_probe = {
	.kp.symbol_name	= "arch_perf_update_userpage",
	.entry_handler	= kvm_pmu_page_entry,
	.handler	= kvm_pmu_page_return,
	.data_size	= sizeof(struct kvm_pmu_page_args),
};

/* Returns 0, to probe the return, for a #GP, which RDPMC may have caused. */
static int kvm_pmu_fixup_entry(struct kretprobe_instance *ri,
			       struct pt_regs *regs)
{
	struct pt_regs **user = (void *)ri->data;

	*user = (void *)regs_get_kernel_argument(regs, 0);
	return regs_get_kernel_argument(regs, 1) != X86_TRAP_GP;
}
NOKPROBE_SYMBOL(kvm_pmu_fixup_entry);

static int kvm_pmu_fixup_return(struct kretprobe_instance *ri,
				struct pt_regs *regs)
{
	struct pt_regs **user = (void *)ri->data;

	if (!(regs_return_value(regs) & 0xff) && static_call(kvm_pmu_fixup)(*user))
		regs_set_return_value(regs, true);
	return 0;
}
NOKPROBE_SYMBOL(kvm_pmu_fixup_return);

/* The last function that the kernel asks before the program gets a signal. */
static struct kretprobe kvm_pmu_fixup_probe = {
	.kp.symbol_name	= "fixup_vdso_exception",
	.entry_handler	= kvm_pmu_fixup_entry,
	.handler	= kvm_pmu_fixup_return,
	.data_size	= sizeof(struct pt_regs *),
};

/**
 * kvm_pmu_compat_init_user - find the kernel's parts that let user mode read counters
 * @page: writes an event's page; called when the kernel has written it
 * @fixup: handles a #GP of user mode
 * @probe: of the tracepoint sched_switch
 *
 * Return: 0, or -E* if a part is not found.  Then user mode reads no counters.
 */
int kvm_pmu_compat_init_user(kvm_pmu_page_fn *page, kvm_pmu_fixup_fn *fixup,
			     void *probe)
{
	void *cr4_update = kvm_pmu_find_function("cr4_update_pce");
	int ret;

	kvm_pmu_rdpmc_never = kvm_pmu_find_variable("rdpmc_never_available_key");
	static_call_update(kvm_pmu_page, page);
	static_call_update(kvm_pmu_fixup, fixup);
	for_each_kernel_tracepoint(kvm_pmu_look_at_tracepoint, NULL);
	if (!cr4_update || !kvm_pmu_rdpmc_never || !kvm_pmu_sched_switch)
		return -ENOENT;

	ret = register_kretprobe(&kvm_pmu_page_probe);
	if (ret)
		return ret;

	ret = register_kretprobe(&kvm_pmu_fixup_probe);
	if (ret)
		goto no_fixup;

	/* The first switch may already need it. */
	static_call_update(kvm_pmu_cr4_update, cr4_update);
	ret = tracepoint_probe_register(kvm_pmu_sched_switch, probe, NULL);
	if (ret)
		goto no_switch;

	kvm_pmu_has_user = true;
	return 0;

no_switch:
	unregister_kretprobe(&kvm_pmu_fixup_probe);
no_fixup:
	unregister_kretprobe(&kvm_pmu_page_probe);
	return ret;
}

/**
 * kvm_pmu_compat_exit_user - as if kvm_pmu_compat_init_user() had not been called
 */
void kvm_pmu_compat_exit_user(void)
{
	if (!kvm_pmu_has_user)
		return;

	unregister_kretprobe(&kvm_pmu_fixup_probe);
	unregister_kretprobe(&kvm_pmu_page_probe);
	kvm_pmu_has_user = false;
}
