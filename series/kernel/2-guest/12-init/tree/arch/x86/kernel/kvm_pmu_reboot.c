// SPDX-License-Identifier: GPL-2.0
/*
 * Resets the host when the kernel ends.
 */
#include <linux/kvm_para.h>
#include <linux/perf_event.h>

#include <asm/reboot.h>

#include "kvm_pmu.h"

static struct machine_ops kvm_pmu_machine_ops;

/*
 * Every other CPU has stopped.  A reboot notifier, which is called earlier, would find
 * events opened again.
 */
static void kvm_pmu_shutdown(void)
{
	kvm_pmu_machine_ops.shutdown();
	kvm_perf_op(KVM_PERF_OP_RESET, 0, 0);
}

#ifdef CONFIG_CRASH_DUMP
static void kvm_pmu_crash_shutdown(struct pt_regs *regs)
{
	kvm_pmu_machine_ops.crash_shutdown(regs);
	kvm_perf_op(KVM_PERF_OP_RESET, 0, 0);
}
#endif

/**
 * kvm_pmu_reset_at_end - from now on, reset the host when this kernel ends
 */
void __init kvm_pmu_reset_at_end(void)
{
	kvm_pmu_machine_ops = machine_ops;
	machine_ops.shutdown = kvm_pmu_shutdown;
#ifdef CONFIG_CRASH_DUMP
	machine_ops.crash_shutdown = kvm_pmu_crash_shutdown;
#endif
}
