// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, guest side: a PMU whose counters are the
 * host's, by the hypercall KVM_PERF_OP.
 *
 * Each perf_event of this PMU is an event of the host with an id.  The host
 * writes the event's count into its record, in this kernel's memory, when it
 * is asked to read or disable it.
 *
 * event_init and destroy may sleep.  add, del, start, stop and read run with
 * interrupts off, on the CPU that the event is for.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cc_platform.h>
#include <linux/idr.h>
#include <linux/io.h>
#include <linux/kvm_para.h>
#include <linux/module.h>
#include <linux/perf_event.h>
#include <linux/slab.h>
#include <linux/sysfs.h>

#include "compat.h"
#include "kvm_perf.h"
#include "kvm_pmu.h"

/**
 * struct kvm_pmu_event - what the host knows of a perf_event
 * @record: the host writes it from OPEN to CLOSE
 * @attr: what OPEN asked for; kept to open the event again
 * @param: argument of OPEN
 */
struct kvm_pmu_event {
	struct guest_perf_event record __aligned(sizeof(struct guest_perf_event));
	struct guest_perf_attr attr;
	struct guest_perf_event_param param;
};

static struct kmem_cache *kvm_pmu_cache;
static DEFINE_IDA(kvm_pmu_ids);
static struct guest_perf_query *kvm_pmu_host;
static struct pmu *kvm_pmu;

static long kvm_perf_op(unsigned int op, unsigned long a1, unsigned long a2)
{
	return kvm_hypercall3(KVM_PERF_OP, op, a1, a2);
}

/* @p: in the linear mapping, not on the stack. */
static long kvm_perf_op_addr(unsigned int op, void *p)
{
	u64 addr = virt_to_phys(p);

	return kvm_perf_op(op, lower_32_bits(addr), upper_32_bits(addr));
}

static struct kvm_pmu_event *to_kvm_pmu_event(struct perf_event *event)
{
	return event->pmu_private;
}

/* The id that the host knows the event by. */
static u32 kvm_pmu_id(struct perf_event *event)
{
	return to_kvm_pmu_event(event)->param.id;
}

static u64 kvm_pmu_record_count(const struct guest_perf_event *record)
{
	u32 sequence;
	u64 count;

	/* Only matters where 64 bits are two loads. */
	do {
		sequence = READ_ONCE(record->sequence);
		/* The count is read between the two sequence numbers. */
		virt_rmb();
		count = record->count;
		/* As above. */
		virt_rmb();
	} while ((sequence & 1) || sequence != READ_ONCE(record->sequence));

	return count;
}

/* Bring the event's count up to its record. */
static void kvm_pmu_update(struct perf_event *event)
{
	u64 count = kvm_pmu_record_count(&to_kvm_pmu_event(event)->record);
	u64 prev = local64_xchg(&event->hw.prev_count, count);

	local64_add(count - prev, &event->count);
}

static long kvm_pmu_open(struct perf_event *event)
{
	local64_set(&event->hw.prev_count, 0);
	return kvm_perf_op_addr(KVM_PERF_OP_OPEN,
				&to_kvm_pmu_event(event)->param);
}

/* A host that has lost its state (migration, a restored snapshot) starts anew. */
static long kvm_pmu_enable(struct perf_event *event)
{
	long ret = kvm_perf_op(KVM_PERF_OP_ENABLE, kvm_pmu_id(event), 0);

	if (ret != -KVM_ENOENT)
		return ret;

	ret = kvm_pmu_open(event);
	if (ret)
		return ret;

	return kvm_perf_op(KVM_PERF_OP_ENABLE, kvm_pmu_id(event), 0);
}

static void kvm_pmu_read(struct perf_event *event)
{
	long ret;

	if (event->hw.state & PERF_HES_STOPPED)
		return;

	ret = kvm_perf_op(KVM_PERF_OP_READ, kvm_pmu_id(event), 0);
	if (ret == -KVM_EBUSY)
		pr_warn_once("the host needed the counter of a running event: its count is too low\n");
	if (ret == -KVM_ENOENT)
		ret = kvm_pmu_enable(event);
	if (!ret || ret == -KVM_EBUSY)
		kvm_pmu_update(event);
}

static int kvm_pmu_try_start(struct perf_event *event)
{
	if (kvm_pmu_enable(event))
		return -EAGAIN;

	event->hw.state = 0;
	return 0;
}

static void kvm_pmu_start(struct perf_event *event, int flags)
{
	if (event->hw.state & PERF_HES_STOPPED)
		kvm_pmu_try_start(event);
}

static void kvm_pmu_stop(struct perf_event *event, int flags)
{
	if (event->hw.state & PERF_HES_STOPPED)
		return;

	if (!kvm_perf_op(KVM_PERF_OP_DISABLE, kvm_pmu_id(event), 0))
		kvm_pmu_update(event);
	event->hw.state = PERF_HES_STOPPED | PERF_HES_UPTODATE;
}

/* -EAGAIN, for want of a counter, makes perf multiplex the events. */
static int kvm_pmu_add(struct perf_event *event, int flags)
{
	int ret = 0;

	event->hw.state = PERF_HES_STOPPED | PERF_HES_UPTODATE;
	if (flags & PERF_EF_START)
		ret = kvm_pmu_try_start(event);
	if (!ret)
		perf_event_update_userpage(event);

	return ret;
}

static void kvm_pmu_del(struct perf_event *event, int flags)
{
	kvm_pmu_stop(event, PERF_EF_UPDATE);
	perf_event_update_userpage(event);
}

static void kvm_pmu_free(struct kvm_pmu_event *kvm_event)
{
	ida_free(&kvm_pmu_ids, kvm_event->param.id);
	kmem_cache_free(kvm_pmu_cache, kvm_event);
}

static void kvm_pmu_destroy(struct perf_event *event)
{
	kvm_perf_op(KVM_PERF_OP_CLOSE, kvm_pmu_id(event), 0);
	kvm_pmu_free(to_kvm_pmu_event(event));
}

static struct kvm_pmu_event *kvm_pmu_alloc(const struct perf_event_attr *attr)
{
	struct kvm_pmu_event *kvm_event;
	int id;

	kvm_event = kmem_cache_zalloc(kvm_pmu_cache, GFP_KERNEL);
	if (!kvm_event)
		return NULL;

	id = ida_alloc(&kvm_pmu_ids, GFP_KERNEL);
	if (id < 0) {
		kmem_cache_free(kvm_pmu_cache, kvm_event);
		return NULL;
	}

	kvm_event->param.id = id;
	kvm_event->param.attr_addr = virt_to_phys(&kvm_event->attr);
	kvm_event->param.event_addr = virt_to_phys(&kvm_event->record);

	kvm_event->attr.size = sizeof(kvm_event->attr);
	kvm_event->attr.type = attr->type;
	kvm_event->attr.config = attr->config;
	kvm_event->attr.config1 = attr->config1;
	kvm_event->attr.config2 = attr->config2;
	if (attr->exclude_user)
		kvm_event->attr.flags |= KVM_PERF_ATTR_EXCLUDE_USER;
	if (attr->exclude_kernel)
		kvm_event->attr.flags |= KVM_PERF_ATTR_EXCLUDE_KERNEL;

	return kvm_event;
}

/* An event type of its own holds raw events. */
static bool kvm_pmu_serves(const struct perf_event_attr *attr)
{
	switch (attr->type) {
	case PERF_TYPE_HARDWARE:
	case PERF_TYPE_HW_CACHE:
		return kvm_pmu->type == PERF_TYPE_RAW;
	default:
		return attr->type == kvm_pmu->type;
	}
}

/*
 * Sampling, precise_ip, branch stacks and AUX: not by this PMU.  exclude_host
 * asks for nested guests alone, which the host cannot tell from this one.
 */
static bool kvm_pmu_supports(struct perf_event *event)
{
	return !is_sampling_event(event) && !has_branch_stack(event) &&
	       !event->attr.precise_ip && !event->attr.aux_output &&
	       !event->attr.exclude_host;
}

/* What event_init returns; perf takes -ENOENT for <not supported>. */
static int kvm_pmu_open_errno(long ret)
{
	switch (ret) {
	case 0:
		return 0;
	case -KVM_EOPNOTSUPP:
		return -ENOENT;
	case -KVM_EINVAL:
		return -EINVAL;
	case -KVM_ENOSPC:
		pr_warn_once("the host allows no more events: %u may be open at a time\n",
			     kvm_pmu_host->max_events);
		return -ENOSPC;
	case -KVM_EBUSY:
		return -EBUSY;
	default:
		pr_warn_once("the host refused an event with error %ld\n", ret);
		return -EIO;
	}
}

static int kvm_pmu_event_init(struct perf_event *event)
{
	struct kvm_pmu_event *kvm_event;
	int ret;

	if (!kvm_pmu_serves(&event->attr))
		return -ENOENT;

	if (!kvm_pmu_supports(event))
		return -EOPNOTSUPP;

	kvm_event = kvm_pmu_alloc(&event->attr);
	if (!kvm_event)
		return -ENOMEM;

	if (event->attr.type == event->pmu->type)
		kvm_event->attr.type = KVM_PERF_TYPE_RAW;

	event->pmu_private = kvm_event;
	ret = kvm_pmu_open_errno(kvm_pmu_open(event));
	if (ret) {
		event->pmu_private = NULL;
		kvm_pmu_free(kvm_event);
		return ret;
	}

	event->destroy = kvm_pmu_destroy;
	return 0;
}

static const struct pmu kvm_pmu_template = {
	.module		= THIS_MODULE,
	.attr_groups	= kvm_pmu_attr_groups,
	.capabilities	= PERF_PMU_CAP_NO_INTERRUPT |
			  PERF_PMU_CAP_HETEROGENEOUS_CPUS,
	.task_ctx_nr	= perf_hw_context,
	.event_init	= kvm_pmu_event_init,
	.add		= kvm_pmu_add,
	.del		= kvm_pmu_del,
	.start		= kvm_pmu_start,
	.stop		= kvm_pmu_stop,
	.read		= kvm_pmu_read,
};

/**
 * kvm_pmu_raw_event_mask - the bits of config that a raw event may have
 */
u64 kvm_pmu_raw_event_mask(void)
{
	return kvm_pmu_host->raw_event_mask;
}

/**
 * kvm_pmu_hw_config - the raw config of a generic event
 * @hw_event: PERF_COUNT_HW_*
 *
 * Return: 0 if the host has not this event.
 */
u64 kvm_pmu_hw_config(unsigned int hw_event)
{
	return kvm_pmu_host->hw_config[hw_event];
}

/**
 * kvm_pmu_nr_counters - number of counters of a host CPU
 */
unsigned int kvm_pmu_nr_counters(void)
{
	return kvm_pmu_host->nr_counters;
}

/* kvm_para_has_feature() is not for modules. */
static bool kvm_pmu_in_cpuid(void)
{
	u32 base = hypervisor_cpuid_base("KVMKVMKVM\0\0\0", 0);

	if (!base) {
		pr_info("not loaded: this is no guest of KVM\n");
		return false;
	}

	if (!(cpuid_eax(base | KVM_CPUID_FEATURES) &
	      (1U << KVM_FEATURE_PV_PERF))) {
		pr_info("not loaded: the host does not offer paravirtual perf events to this VM\n");
		return false;
	}

	if (cc_platform_has(CC_ATTR_GUEST_MEM_ENCRYPT)) {
		pr_info("not loaded: the host cannot write records into encrypted memory\n");
		return false;
	}

	return true;
}

static int kvm_pmu_query_host(void)
{
	long ret;

	kvm_pmu_host = kzalloc(sizeof(*kvm_pmu_host), GFP_KERNEL);
	if (!kvm_pmu_host)
		return -ENOMEM;

	kvm_pmu_host->size = sizeof(*kvm_pmu_host);
	ret = kvm_perf_op_addr(KVM_PERF_OP_QUERY, kvm_pmu_host);
	if (!ret)
		return 0;

	pr_info("not loaded: the host answers KVM_PERF_OP_QUERY with %ld\n",
		ret);
	kfree(kvm_pmu_host);
	return -ENODEV;
}

/*
 * perf sends PERF_TYPE_HARDWARE to whoever has PERF_TYPE_RAW.  Registering it
 * a second time warns, so see first whether anybody takes a raw event.
 */
static bool kvm_pmu_slot_is_free(void)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_RAW,
		.size		= sizeof(attr),
		.disabled	= 1,
	};
	struct perf_event *event;

	event = perf_event_create_kernel_counter(&attr, -1, current, NULL,
						 NULL);
	if (IS_ERR(event))
		return PTR_ERR(event) == -ENOENT;

	perf_event_release_kernel(event);
	return false;
}

static int kvm_pmu_register(void)
{
	bool slot = kvm_pmu_slot_is_free();
	const char *name = slot ? "cpu" : "kvm_pmu";
	int ret;

	kvm_pmu = kmemdup(&kvm_pmu_template, sizeof(*kvm_pmu), GFP_KERNEL);
	if (!kvm_pmu)
		return -ENOMEM;

	ret = perf_pmu_register(kvm_pmu, name, slot ? PERF_TYPE_RAW : -1);
	if (ret) {
		pr_err("not loaded: registering the PMU failed with %d\n", ret);
		kfree(kvm_pmu);
		return ret;
	}

	pr_info("PMU '%s'%s: %u counters of the host, at most %u events, counting only\n",
		name, slot ? "" : " (another PMU has 'cpu')",
		kvm_pmu_host->nr_counters, kvm_pmu_host->max_events);
	return 0;
}

static int __init kvm_pmu_init(void)
{
	int ret;

	if (!kvm_pmu_in_cpuid())
		return -ENODEV;

	ret = kvm_pmu_query_host();
	if (ret)
		return ret;

	/* A kernel that ran here before may have left events. */
	kvm_perf_op(KVM_PERF_OP_RESET, 0, 0);

	ret = -ENOMEM;
	kvm_pmu_cache = KMEM_CACHE(kvm_pmu_event, SLAB_ACCOUNT);
	if (!kvm_pmu_cache)
		goto free_host;

	ret = kvm_pmu_compat_init();
	if (ret)
		goto destroy_cache;

	ret = kvm_pmu_register();
	if (ret)
		goto compat_exit;

	return 0;

compat_exit:
	kvm_pmu_compat_exit();
destroy_cache:
	kmem_cache_destroy(kvm_pmu_cache);
free_host:
	kfree(kvm_pmu_host);
	return ret;
}
module_init(kvm_pmu_init);

/* Each event holds a reference to the module, so none is open. */
static void __exit kvm_pmu_exit(void)
{
	kvm_pmu_unregister(kvm_pmu);
	kvm_pmu_compat_exit();
	kmem_cache_destroy(kvm_pmu_cache);
	ida_destroy(&kvm_pmu_ids);
	kfree(kvm_pmu_host);
}
module_exit(kvm_pmu_exit);

MODULE_DESCRIPTION("Paravirtual performance events of KVM");
MODULE_LICENSE("GPL");
