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
#include <linux/uaccess.h>

#include "kvm_perf_hypercall.h"

static long hypercall_call(void __user *arg)
{
	struct kvm_perf_hypercall call;

	if (copy_from_user(&call, arg, sizeof(call)))
		return -EFAULT;

	call.ret = kvm_hypercall4(call.nr, call.a[0], call.a[1], call.a[2],
				  call.a[3]);

	return copy_to_user(arg, &call, sizeof(call)) ? -EFAULT : 0;
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

static int hypercall_open(struct inode *inode, struct file *file)
{
	file->private_data = alloc_pages_exact(KVM_PERF_HYPERCALL_MEM,
					       GFP_KERNEL | __GFP_ZERO);
	return file->private_data ? 0 : -ENOMEM;
}

static int hypercall_release(struct inode *inode, struct file *file)
{
	free_pages_exact(file->private_data, KVM_PERF_HYPERCALL_MEM);
	return 0;
}

static const struct file_operations hypercall_fops = {
	.owner		= THIS_MODULE,
	.open		= hypercall_open,
	.release	= hypercall_release,
	.mmap		= hypercall_mmap,
	.unlocked_ioctl	= hypercall_ioctl,
};

static struct miscdevice hypercall_dev = {
	.minor	= MISC_DYNAMIC_MINOR,
	.name	= "kvm_perf_hypercall",
	.fops	= &hypercall_fops,
	.mode	= 0600,
};
module_misc_device(hypercall_dev);

MODULE_DESCRIPTION("Raw hypercalls for the tests of paravirtual perf events");
MODULE_LICENSE("GPL");
