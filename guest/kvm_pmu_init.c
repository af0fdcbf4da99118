// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, guest side: a PMU whose events are events of the KVM
 * host, by the hypercall KVM_PERF_OP.
 *
 * This file probes for the host side, and sets everything up.  guest/layers lists the
 * files.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cc_platform.h>
#include <linux/debugfs.h>
#include <linux/fs.h>
#include <linux/kvm_para.h>
#include <linux/percpu.h>
#include <linux/slab.h>

#include <asm/nmi.h>

#include "compat.h"
#include "kvm_perf.h"
#include "kvm_pmu.h"
#include "kvm_pmu_hypervisor.h"

static bool kvm_pmu_is_offered(void)
{
	if (!kvm_para_available() || !kvm_para_has_feature(KVM_FEATURE_PV_PERF))
		return false;

	if (cc_platform_has(CC_ATTR_GUEST_MEM_ENCRYPT)) {
		pr_info("not loaded: the host cannot write records into encrypted memory\n");
		return false;
	}

	return true;
}

static int kvm_pmu_query_first(void)
{
	struct guest_perf_query *query = kzalloc_obj(*query, GFP_KERNEL);
	long ret;

	if (!query)
		return -ENOMEM;

	ret = kvm_pmu_query_host(query);
	kfree(query);
	if (!ret && (kvm_pmu_host.features & KVM_PERF_FEATURE_BATCH))
		return 0;

	if (ret)
		pr_info("not loaded: the host answers KVM_PERF_OP_QUERY with %ld\n",
			ret);
	else
		pr_info("not loaded: the host does not have KVM_PERF_OP_BATCH: update the host\n");
	return -ENODEV;
}

static void kvm_pmu_tell_branches(void)
{
	unsigned int nr = kvm_pmu_branches_possible();

	if (nr)
		pr_info("samples have up to %u branches\n", nr);
}

static void kvm_pmu_tell_rdpmc(void)
{
	const char *why_not = kvm_pmu_why_no_rdpmc();

	if (why_not)
		pr_info("counters are read by the host: %s\n", why_not);
	else
		pr_info("counters are read by RDPMC%s\n",
			kvm_pmu_user_possible() ? ", also in user mode" : "");
}

static int kvm_pmu_overflows_get(void *data, u64 *val)
{
	int cpu;

	*val = 0;
	for_each_possible_cpu(cpu)
		*val += READ_ONCE(per_cpu(kvm_pmu_cpu, cpu)->nmi.overflows);

	return 0;
}

DEFINE_DEBUGFS_ATTRIBUTE(kvm_pmu_overflows_fops, kvm_pmu_overflows_get, NULL,
			 "%llu\n");

/*
 * The area of the CPU that reads, raw: pv-perf qualify looks for the host's addresses among
 * the branches, which kvm_pmu_branch() would drop.  Nothing keeps the host from changing the
 * area meanwhile.
 */
static ssize_t kvm_pmu_read_area(struct file *file, char __user *to, size_t size, loff_t *at)
{
	const struct kvm_pmu_cpu *cpu = per_cpu(kvm_pmu_cpu, raw_smp_processor_id());

	return simple_read_from_buffer(to, size, at, cpu->host.area,
				       sizeof(*cpu->host.area));
}

static const struct file_operations kvm_pmu_area_fops = {
	.owner	= THIS_MODULE,
	.open	= simple_open,
	.read	= kvm_pmu_read_area,
	.llseek	= default_llseek,
};

static void __init kvm_pmu_create_files(void)
{
	struct dentry *dir = debugfs_create_dir(KBUILD_MODNAME, NULL);

	debugfs_create_file_unsafe("overflows", 0400, dir, NULL,
				   &kvm_pmu_overflows_fops);
	debugfs_create_file("area", 0400, dir, NULL, &kvm_pmu_area_fops);
}

static int __init kvm_pmu_init(void)
{
	int ret;

	if (!kvm_pmu_is_offered())
		return -ENODEV;

	ret = kvm_pmu_query_first();
	if (ret)
		return ret;

	/* A kernel that ran here before may have left events. */
	kvm_perf_op(KVM_PERF_OP_RESET, 0, 0);

	kvm_pmu_new_area = kvm_pmu_hypervisor_new_area;

	ret = kvm_pmu_cpus_create();
	if (ret)
		return ret;

	ret = register_nmi_handler(NMI_LOCAL, kvm_pmu_handle_nmi, 0,
				   KBUILD_MODNAME);
	if (ret)
		goto destroy_cpus;

	ret = kvm_pmu_areas_create();
	if (ret)
		goto unregister_nmi;

	ret = kvm_pmu_register();
	if (ret)
		goto destroy_areas;

	if (kvm_pmu_user_create(kvm_pmu_take_owed))
		pr_warn("user mode reads no counters: the driver cannot see context switches\n");
	kvm_pmu_hypervisor_register();
	kvm_pmu_tell_rdpmc();
	kvm_pmu_tell_branches();
	kvm_pmu_reset_at_end();
	kvm_pmu_create_files();
	return 0;

destroy_areas:
	kvm_pmu_areas_destroy();
unregister_nmi:
	unregister_nmi_handler(NMI_LOCAL, KBUILD_MODNAME);
destroy_cpus:
	kvm_pmu_cpus_destroy();
	return ret;
}
device_initcall(kvm_pmu_init);
