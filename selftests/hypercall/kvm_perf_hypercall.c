// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/kvm_perf_hypercall: raw hypercalls for test programs.
 */
#include <linux/fs.h>
#include <linux/gfp.h>
#include <linux/io.h>
#include <linux/kvm_para.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/perf_event.h>
#include <linux/sched/signal.h>
#include <linux/smp.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include <asm/asm.h>
#include <asm/nmi.h>

#include "kvm_perf_hypercall.h"

static bool swallow_nmis;
module_param(swallow_nmis, bool, 0444);
MODULE_PARM_DESC(swallow_nmis,
		 "let no NMI be unknown: hypercalls opened its event (default N)");

static long hypercall_call(void __user *arg)
{
	struct kvm_perf_hypercall call;

	if (copy_from_user(&call, arg, sizeof(call)))
		return -EFAULT;

	call.ret = kvm_hypercall4(call.nr, call.a[0], call.a[1], call.a[2],
				  call.a[3]);

	return copy_to_user(arg, &call, sizeof(call)) ? -EFAULT : 0;
}

static long hypercall_calls(void __user *arg)
{
	struct kvm_perf_hypercalls calls;
	u64 i;

	if (copy_from_user(&calls, arg, sizeof(calls)))
		return -EFAULT;

	for (i = 0; i < calls.nr; i++) {
		struct kvm_perf_hypercall __user *call =
			u64_to_user_ptr(calls.calls);

		if (fatal_signal_pending(current))
			return -EINTR;
		if (hypercall_call(call + i))
			return -EFAULT;
		cond_resched();
	}

	return 0;
}

static void hypercall_start_stray(void *arg)
{
	struct perf_event *event = arg;

	event->pmu->start(event, 0);
	event->pmu->stop(event, 0);
}

static long hypercall_stray(void)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_HARDWARE,
		.config		= PERF_COUNT_HW_INSTRUCTIONS,
		.size		= sizeof(attr),
		.disabled	= 1,
	};
	unsigned int cpu = raw_smp_processor_id();
	struct perf_event *event;
	struct hw_perf_event before;
	bool changed;

	event = perf_event_create_kernel_counter(&attr, cpu, NULL, NULL, NULL);
	if (IS_ERR(event))
		return PTR_ERR(event);

	before = event->hw;
	smp_call_function_single(cpu, hypercall_start_stray, event, 1);
	changed = memcmp(&before, &event->hw, sizeof(before));
	perf_event_release_kernel(event);

	return changed ? -ESTALE : 0;
}

static long hypercall_rdpmc(void __user *arg)
{
	struct kvm_perf_rdpmc rdpmc;
	u32 low, high;

	if (copy_from_user(&rdpmc, arg, sizeof(rdpmc)))
		return -EFAULT;

	rdpmc.failed = 1;
	asm volatile("1: rdpmc\n"
		     "   xor %[failed], %[failed]\n"
		     "2:\n"
		     _ASM_EXTABLE(1b, 2b)
		     : "=a" (low), "=d" (high), [failed] "+r" (rdpmc.failed)
		     : "c" (rdpmc.ecx));
	rdpmc.value = rdpmc.failed ? 0 : (u64)high << 32 | low;

	return copy_to_user(arg, &rdpmc, sizeof(rdpmc)) ? -EFAULT : 0;
}

static long hypercall_ioctl(struct file *file, unsigned int cmd,
			    unsigned long arg)
{
	u64 phys = virt_to_phys(file->private_data);

	switch (cmd) {
	case KVM_PERF_HYPERCALL_CALL:
		return hypercall_call((void __user *)arg);
	case KVM_PERF_HYPERCALL_PHYS:
		return put_user(phys, (u64 __user *)arg);
	case KVM_PERF_HYPERCALL_CALLS:
		return hypercall_calls((void __user *)arg);
	case KVM_PERF_HYPERCALL_STRAY:
		return hypercall_stray();
	case KVM_PERF_HYPERCALL_RDPMC:
		return hypercall_rdpmc((void __user *)arg);
	default:
		return -ENOTTY;
	}
}

static int hypercall_mmap(struct file *file, struct vm_area_struct *vma)
{
	unsigned long size = vma->vm_end - vma->vm_start;

	if (vma->vm_pgoff || size > KVM_PERF_HYPERCALL_MEM)
		return -EINVAL;

	return remap_pfn_range(vma, vma->vm_start,
			       virt_to_phys(file->private_data) >> PAGE_SHIFT,
			       size, vma->vm_page_prot);
}

/*
 * The memory is never freed: while an event is open, the host may write to its record
 * in this memory.
 */
static int hypercall_open(struct inode *inode, struct file *file)
{
	file->private_data = alloc_pages_exact(KVM_PERF_HYPERCALL_MEM,
					       GFP_KERNEL | __GFP_ZERO);
	return file->private_data ? 0 : -ENOMEM;
}

static const struct file_operations hypercall_fops = {
	.owner		= THIS_MODULE,
	.open		= hypercall_open,
	.mmap		= hypercall_mmap,
	.unlocked_ioctl	= hypercall_ioctl,
};

static struct miscdevice hypercall_dev = {
	.minor	= MISC_DYNAMIC_MINOR,
	.name	= "kvm_perf_hypercall",
	.fops	= &hypercall_fops,
	.mode	= 0600,
};

static int hypercall_nmi(unsigned int type, struct pt_regs *regs)
{
	return NMI_HANDLED;
}

static int __init hypercall_init(void)
{
	int ret;

	if (swallow_nmis) {
		ret = register_nmi_handler(NMI_LOCAL, hypercall_nmi, 0,
					   "kvm_perf_hypercall");
		if (ret)
			return ret;
	}

	ret = misc_register(&hypercall_dev);
	if (ret && swallow_nmis)
		unregister_nmi_handler(NMI_LOCAL, "kvm_perf_hypercall");

	return ret;
}
module_init(hypercall_init);

static void __exit hypercall_exit(void)
{
	misc_deregister(&hypercall_dev);
	if (swallow_nmis)
		unregister_nmi_handler(NMI_LOCAL, "kvm_perf_hypercall");
}
module_exit(hypercall_exit);

MODULE_DESCRIPTION("Raw hypercalls for the tests of paravirtual perf events");
MODULE_LICENSE("GPL");
