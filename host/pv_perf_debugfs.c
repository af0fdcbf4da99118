// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, host side: a VM's events in debugfs.
 */
#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/seq_file.h>

#include "pv_perf.h"
#include "pv_perf_core.h"
#include "pv_perf_seam.h"

static const char *pv_perf_state_name(struct pv_perf_event *event)
{
	u32 why = pv_perf_why(event);

	if (why & PV_PERF_LOST)
		return "no-counter";
	if (why & PV_PERF_LIMITED)
		return "limited";

	switch (pv_perf_backing_state(event->backing)) {
	case PERF_EVENT_STATE_ACTIVE:
		return pv_perf_backing_is_throttled(event->backing) ? "throttled" : "active";
	case PERF_EVENT_STATE_INACTIVE:
		return "inactive";
	case PERF_EVENT_STATE_OFF:
		return why & PV_PERF_PARKED ? "inactive" : "off";
	case PERF_EVENT_STATE_ERROR:
		return "no-counter";
	default:
		return "no-thread";
	}
}

static void pv_perf_show_event(struct seq_file *m, struct pv_perf_event *event)
{
	struct pv_perf_reading reading;

	pv_perf_read(event, &reading);
	seq_printf(m, "%10u %4u %#18llx %s%s %4d %-10s %20llu %16llu %16llu\n",
		   event->id, event->attr.type, event->attr.config,
		   event->attr.exclude_user ? "-" : "u",
		   event->attr.exclude_kernel ? "-" : "k",
		   event->home->vcpu->vcpu_id, pv_perf_state_name(event),
		   reading.count, reading.enabled, reading.running);
}

/* Sums over all vCPUs, which may run on meanwhile. */
static void pv_perf_show_overflows(struct seq_file *m, struct kvm *kvm)
{
	u64 delivered = 0, limited = 0;
	struct pv_perf_vcpu *pv;
	struct kvm_vcpu *vcpu;
	unsigned long i;

	kvm_for_each_vcpu(i, vcpu, kvm) {
		pv = READ_ONCE(vcpu->arch.pv_perf);
		if (!pv)
			continue;
		delivered += READ_ONCE(pv->delivered);
		limited += READ_ONCE(pv->limited);
	}
	seq_printf(m, "overflows %llu of %u per second and vCPU, limited %llu\n",
		   delivered, pv_perf_rate_allowed(kvm), limited);
}

static int pv_perf_debugfs_show(struct seq_file *m, void *v)
{
	struct kvm *kvm = m->private;
	struct pv_perf_vm *vm = kvm->arch.pv_perf;
	int left = atomic_read(&vm->nr_events);
	struct pv_perf_event *event;
	unsigned long id;

	seq_printf(m, "events %d of %u\n", left, pv_perf_events_allowed(kvm));
	pv_perf_show_overflows(m, kvm);
	seq_printf(m, "%10s %4s %18s %2s %4s %-10s %20s %16s %16s\n", "id",
		   "type", "config", "uk", "vcpu", "state", "count",
		   "enabled_ns", "running_ns");

	/* At most @left: the guest may open new events as fast as they are shown. */
	xa_for_each(&vm->events, id, event) {
		if (left-- <= 0)
			break;
		event = pv_perf_event_get_locked_killable(kvm, id);
		if (IS_ERR(event))
			return PTR_ERR(event);
		if (!event)
			continue;
		pv_perf_show_event(m, event);
		pv_perf_event_put_locked(event);
	}

	return 0;
}

static int pv_perf_debugfs_open(struct inode *inode, struct file *file)
{
	struct kvm *kvm = inode->i_private;
	int ret;

	if (!kvm_get_kvm_safe(kvm))
		return -ENOENT;

	ret = single_open(file, pv_perf_debugfs_show, kvm);
	if (ret)
		kvm_put_kvm(kvm);

	return ret;
}

static int pv_perf_debugfs_release(struct inode *inode, struct file *file)
{
	struct kvm *kvm = inode->i_private;

	kvm_put_kvm(kvm);
	return single_release(inode, file);
}

static const struct file_operations pv_perf_debugfs_fops = {
	.owner		= THIS_MODULE,
	.open		= pv_perf_debugfs_open,
	.read		= seq_read,
	.llseek		= seq_lseek,
	.release	= pv_perf_debugfs_release,
};

/**
 * pv_perf_create_vm_debugfs - show the VM's events in debugfs
 * @kvm: the VM, its debugfs directory created
 */
void pv_perf_create_vm_debugfs(struct kvm *kvm)
{
	debugfs_create_file("pv_perf", 0444, kvm->debugfs_dentry, kvm,
			    &pv_perf_debugfs_fops);
}
