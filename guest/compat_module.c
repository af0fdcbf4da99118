// SPDX-License-Identifier: GPL-2.0
/*
 * Loads and unloads the guest module.  If the driver is built in, the kernel calls
 * kvm_pmu_init() itself, and never unloads the driver.
 */
#include <linux/debugfs.h>
#include <linux/kvm_para.h>
#include <linux/module.h>
#include <linux/perf_event.h>

#include <asm/nmi.h>

#include "compat.h"
#include "kvm_perf.h"
#include "kvm_pmu.h"

static int __init kvm_pmu_module_init(void)
{
	int ret;

	/* These say why, if not. */
	if (!kvm_para_available() || !kvm_para_has_feature(KVM_FEATURE_PV_PERF))
		return -ENODEV;

	ret = kvm_pmu_compat_init();
	return ret ? : kvm_pmu_initcall();
}
module_init(kvm_pmu_module_init);

/* Each event holds a reference to the module, so none is open. */
static void __exit kvm_pmu_module_exit(void)
{
	debugfs_lookup_and_remove(KBUILD_MODNAME, NULL);
	kvm_pmu_no_reset_at_end();
	kvm_pmu_user_destroy();
	kvm_pmu_compat_exit_user();
	kvm_pmu_compat_unregister();
	/* Spare backing events may overflow until RESET. */
	kvm_perf_op(KVM_PERF_OP_RESET, 0, 0);
	kvm_pmu_areas_destroy();
	unregister_nmi_handler(NMI_LOCAL, KBUILD_MODNAME);
	kvm_pmu_cpus_destroy();
	kvm_pmu_config_destroy();
}
module_exit(kvm_pmu_module_exit);

MODULE_DESCRIPTION("Paravirtual performance events of KVM");
MODULE_LICENSE("GPL");
