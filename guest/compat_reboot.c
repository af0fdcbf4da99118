// SPDX-License-Identifier: GPL-2.0
/*
 * Resets the host when the kernel ends.  If the driver is built in, it does so by
 * machine_ops, which are not for modules.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/kprobes.h>
#include <linux/kvm_para.h>
#include <linux/perf_event.h>
#include <linux/reboot.h>
#include <linux/smp.h>

#include "compat.h"
#include "kvm_perf.h"
#include "kvm_pmu.h"

/* Not kvm_perf_op(), which makes no hypercall any more when the kernel ends. */
static long kvm_pmu_reset_host(void)
{
	return kvm_hypercall4(KVM_PERF_OP, KVM_PERF_OP_RESET, 0, 0, 0);
}

static void kvm_pmu_see_end(void *unused)
{
}

/*
 * This kernel ends, maybe because another follows by kexec.  Tasks still run and other
 * CPUs still count.  From now on the driver makes no operation for them.
 */
static int kvm_pmu_reboot(struct notifier_block *block, unsigned long action,
			  void *data)
{
	WRITE_ONCE(kvm_pmu_ended, true);
	/*
	 * A CPU that is in the middle of its operations has interrupts off.  When it takes
	 * this interrupt, the operations are done, and it sees kvm_pmu_ended.
	 */
	on_each_cpu(kvm_pmu_see_end, NULL, 1);
	kvm_pmu_reset_host();
	return NOTIFY_DONE;
}

static struct notifier_block kvm_pmu_reboot_notifier = {
	.notifier_call	= kvm_pmu_reboot,
};

/*
 * Called last in a kernel that has crashed, before the kernel that dumps it.  Every other
 * CPU has stopped.  A crash calls nothing else of this module.
 */
static int kvm_pmu_kexec(struct kprobe *probe, struct pt_regs *regs)
{
	kvm_pmu_reset_host();
	return 0;
}

static struct kprobe kvm_pmu_kexec_probe = {
	.symbol_name	= "machine_kexec",
	.pre_handler	= kvm_pmu_kexec,
};

/* Covers ENDBR, the call of ftrace, and the instruction that follows. */
#define KVM_PMU_MAX_PROBE	32

/*
 * Probe the first instruction that is not for ftrace: kernel.ftrace_enabled=0 silently
 * disarms kprobes at ftrace's.
 */
static int kvm_pmu_probe_kexec(void)
{
	struct kprobe *probe = &kvm_pmu_kexec_probe;
	int ret = -ENOENT;

	for (probe->offset = 1; probe->offset < KVM_PMU_MAX_PROBE; probe->offset++) {
		probe->addr = NULL;
		ret = register_kprobe(probe);
		if (ret)
			continue;
		if (!kprobe_ftrace(probe))
			return 0;
		unregister_kprobe(probe);
	}

	probe->addr = NULL;
	return ret ? : -ENOENT;
}

/**
 * kvm_pmu_reset_at_end - from now on, reset the host when this kernel ends
 */
void kvm_pmu_reset_at_end(void)
{
	if (register_reboot_notifier(&kvm_pmu_reboot_notifier))
		pr_warn("no reboot notifier: unload the module before kexec\n");
	if (kvm_pmu_probe_kexec())
		pr_warn("machine_kexec cannot be probed: the host may reset the VM instead of kdump\n");
}

/**
 * kvm_pmu_no_reset_at_end - undo kvm_pmu_reset_at_end()
 *
 * Unregistering a probe or notifier that is not registered does nothing.
 */
void kvm_pmu_no_reset_at_end(void)
{
	unregister_kprobe(&kvm_pmu_kexec_probe);
	unregister_reboot_notifier(&kvm_pmu_reboot_notifier);
}
