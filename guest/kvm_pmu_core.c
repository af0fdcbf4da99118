// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, guest side: a PMU whose counters are the
 * host's, by the hypercall KVM_PERF_OP.
 *
 * Each perf_event of this PMU is an event of the host with an id.  The host
 * writes the event's count into its record, in this kernel's memory, when it
 * is asked to read or disable it, and before it injects an NMI because events
 * have overflowed.
 *
 * event_init and destroy may sleep.  add, del, start, stop and read run with
 * interrupts off, on the CPU that the event is for; start, stop and read also
 * from the NMI handler.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cc_platform.h>
#include <linux/debugfs.h>
#include <linux/idr.h>
#include <linux/io.h>
#include <linux/kprobes.h>
#include <linux/kvm_para.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/perf_event.h>
#include <linux/slab.h>
#include <linux/static_call.h>
#include <linux/sysfs.h>

#include <asm/nmi.h>

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

/* More than a CPU has counters. */
#define KVM_PMU_MAX_SAMPLING	32

/**
 * struct kvm_pmu_cpu - what the NMI handler of a CPU looks at
 * @events: the sampling events that are on this CPU
 * @nmi_due: an event has left whose overflow's NMI is still to come
 * @overflows: number of overflows handled
 */
struct kvm_pmu_cpu {
	struct perf_event *events[KVM_PMU_MAX_SAMPLING];
	bool nmi_due;
	u64 overflows;
};

static DEFINE_PER_CPU(struct kvm_pmu_cpu, kvm_pmu_cpu);

/* perf_event_overflow(), which is not for modules. */
DEFINE_STATIC_CALL_RET0(kvm_pmu_perf_overflow, perf_event_overflow);

static struct kmem_cache *kvm_pmu_cache;
static DEFINE_IDA(kvm_pmu_ids);
static struct guest_perf_query *kvm_pmu_host;
static struct pmu *kvm_pmu;
static struct dentry *kvm_pmu_debugfs;

static long kvm_perf_op(unsigned int op, unsigned long a1, u64 a2)
{
	return kvm_hypercall4(KVM_PERF_OP, op, a1, lower_32_bits(a2),
			      upper_32_bits(a2));
}

/* @p: in the linear mapping, not on the stack. */
static long kvm_perf_op_addr(unsigned int op, void *p)
{
	u64 addr = virt_to_phys(p);

	return kvm_hypercall3(KVM_PERF_OP, op, lower_32_bits(addr),
			      upper_32_bits(addr));
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

/* Bring the event's count up to its record.  An NMI may do so in between. */
static void kvm_pmu_update(struct perf_event *event)
{
	u64 count, prev;

	do {
		prev = local64_read(&event->hw.prev_count);
		count = kvm_pmu_record_count(&to_kvm_pmu_event(event)->record);
	} while (local64_cmpxchg(&event->hw.prev_count, prev, count) != prev);

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

/* PERF_EVENT_IOC_PERIOD has changed it: a frequency where that was opened. */
static void kvm_pmu_set_period(struct perf_event *event)
{
	struct kvm_pmu_event *kvm_event = to_kvm_pmu_event(event);
	u64 period = event->hw.sample_period;

	if (!is_sampling_event(event) ||
	    period == kvm_event->attr.sample_period)
		return;

	if (!kvm_perf_op(KVM_PERF_OP_SET_PERIOD, kvm_pmu_id(event), period))
		kvm_event->attr.sample_period = period;
}

static int kvm_pmu_try_start(struct perf_event *event)
{
	kvm_pmu_set_period(event);

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

/* Find @old among the sampling events of this CPU and put @new there. */
static bool kvm_pmu_exchange(struct perf_event *old, struct perf_event *new)
{
	struct kvm_pmu_cpu *cpu = this_cpu_ptr(&kvm_pmu_cpu);
	int i;

	for (i = 0; i < KVM_PMU_MAX_SAMPLING; i++) {
		if (cpu->events[i] != old)
			continue;
		WRITE_ONCE(cpu->events[i], new);
		return true;
	}

	return false;
}

/* An overflow that the host has told of, but whose NMI is still to come. */
static void kvm_pmu_leave_overflows(struct perf_event *event)
{
	struct kvm_pmu_cpu *cpu = this_cpu_ptr(&kvm_pmu_cpu);
	u32 n = xchg(&to_kvm_pmu_event(event)->record.overflows, 0);

	if (!n)
		return;

	cpu->overflows += n;
	WRITE_ONCE(cpu->nmi_due, true);
}

/* -EAGAIN, for want of a counter, makes perf multiplex the events. */
static int kvm_pmu_add(struct perf_event *event, int flags)
{
	bool sampling = is_sampling_event(event);

	/* Before it can overflow. */
	if (sampling && !kvm_pmu_exchange(NULL, event))
		return -EAGAIN;

	event->hw.state = PERF_HES_STOPPED | PERF_HES_UPTODATE;
	if ((flags & PERF_EF_START) && kvm_pmu_try_start(event)) {
		if (sampling)
			kvm_pmu_exchange(event, NULL);
		return -EAGAIN;
	}

	perf_event_update_userpage(event);
	return 0;
}

static void kvm_pmu_del(struct perf_event *event, int flags)
{
	kvm_pmu_stop(event, PERF_EF_UPDATE);
	if (is_sampling_event(event)) {
		kvm_pmu_exchange(event, NULL);
		kvm_pmu_leave_overflows(event);
	}
	perf_event_update_userpage(event);
}

static void kvm_pmu_sample(struct perf_event *event, struct pt_regs *regs)
{
	struct perf_sample_data data;

	perf_sample_data_init(&data, 0, event->hw.last_period);
	if (static_call(kvm_pmu_perf_overflow)(event, &data, regs))
		kvm_pmu_stop(event, 0);
}

static u32 kvm_pmu_handle_overflows(struct perf_event *event,
				    struct pt_regs *regs)
{
	struct guest_perf_event *record = &to_kvm_pmu_event(event)->record;
	u32 n = xchg(&record->overflows, 0), i;

	if (!n)
		return 0;

	kvm_pmu_update(event);
	event->hw.last_period = READ_ONCE(record->last_period);

	/* Once perf has throttled it, it wants to hear no more of it. */
	for (i = 0; i < n && !(event->hw.state & PERF_HES_STOPPED); i++)
		kvm_pmu_sample(event, regs);

	return n;
}

/*
 * Claims an NMI only where the host has told of overflows.  Returns how many:
 * with more than one the kernel expects a second NMI that finds none.
 */
static int kvm_pmu_handle_nmi(unsigned int cmd, struct pt_regs *regs)
{
	struct kvm_pmu_cpu *cpu = this_cpu_ptr(&kvm_pmu_cpu);
	int due = xchg(&cpu->nmi_due, false);
	struct perf_event *event;
	u32 n = 0;
	int i;

	for (i = 0; i < KVM_PMU_MAX_SAMPLING; i++) {
		event = READ_ONCE(cpu->events[i]);
		if (event)
			n += kvm_pmu_handle_overflows(event, regs);
	}

	cpu->overflows += n;
	return n + due;
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

/* An inherited event has its parent's attr, which has lost its freq below. */
static bool kvm_pmu_has_freq(struct perf_event *event)
{
	if (event->parent)
		return to_kvm_pmu_event(event->parent)->attr.flags &
		       KVM_PERF_ATTR_FREQ;

	return event->attr.freq;
}

/*
 * The host adjusts the period to the frequency.  For the perf core here it is
 * an event with a fixed period, which it leaves alone.
 */
static void kvm_pmu_hide_freq(struct perf_event *event)
{
	if (!event->attr.freq)
		return;

	event->attr.freq = 0;
	event->hw.sample_period = event->attr.sample_period;
	local64_set(&event->hw.period_left, event->hw.sample_period);
}

static struct kvm_pmu_event *kvm_pmu_alloc(struct perf_event *event)
{
	const struct perf_event_attr *attr = &event->attr;
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
	kvm_event->attr.sample_period = attr->sample_period;
	if (kvm_pmu_has_freq(event))
		kvm_event->attr.flags |= KVM_PERF_ATTR_FREQ;
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
 * precise_ip, branch stacks and AUX: not by this PMU.  exclude_host asks for
 * nested guests alone, which the host cannot tell from this one.
 */
static bool kvm_pmu_supports(struct perf_event *event)
{
	return !has_branch_stack(event) && !event->attr.precise_ip &&
	       !event->attr.aux_output && !event->attr.exclude_host;
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

	kvm_event = kvm_pmu_alloc(event);
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

	kvm_pmu_hide_freq(event);
	event->destroy = kvm_pmu_destroy;
	return 0;
}

static const struct pmu kvm_pmu_template = {
	.module		= THIS_MODULE,
	.attr_groups	= kvm_pmu_attr_groups,
	.capabilities	= PERF_PMU_CAP_HETEROGENEOUS_CPUS,
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

/* Where a kprobe goes is where the function is. */
static bool kvm_pmu_find_perf_overflow(void)
{
	struct kprobe kp = { .symbol_name = "perf_event_overflow" };

	if (register_kprobe(&kp))
		return false;

	static_call_update(kvm_pmu_perf_overflow, (void *)kp.addr);
	unregister_kprobe(&kp);
	return true;
}

static int kvm_pmu_overflows_get(void *data, u64 *val)
{
	int cpu;

	*val = 0;
	for_each_possible_cpu(cpu)
		*val += READ_ONCE(per_cpu(kvm_pmu_cpu, cpu).overflows);

	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(kvm_pmu_overflows_fops, kvm_pmu_overflows_get, NULL,
			 "%llu\n");

static int kvm_pmu_register(void)
{
	bool sampling = kvm_pmu_find_perf_overflow();
	bool slot = kvm_pmu_slot_is_free();
	const char *name = slot ? "cpu" : "kvm_pmu";
	int ret;

	kvm_pmu = kmemdup(&kvm_pmu_template, sizeof(*kvm_pmu), GFP_KERNEL);
	if (!kvm_pmu)
		return -ENOMEM;

	if (!sampling)
		kvm_pmu->capabilities |= PERF_PMU_CAP_NO_INTERRUPT;

	ret = perf_pmu_register(kvm_pmu, name, slot ? PERF_TYPE_RAW : -1);
	if (ret) {
		pr_err("not loaded: registering the PMU failed with %d\n", ret);
		kfree(kvm_pmu);
		return ret;
	}

	pr_info("PMU '%s'%s: %u counters of the host, at most %u events%s\n",
		name, slot ? "" : " (another PMU has 'cpu')",
		kvm_pmu_host->nr_counters, kvm_pmu_host->max_events,
		sampling ? "" : ", counting only (no perf_event_overflow)");
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

	ret = register_nmi_handler(NMI_LOCAL, kvm_pmu_handle_nmi, 0,
				   KBUILD_MODNAME);
	if (ret)
		goto compat_exit;

	ret = kvm_pmu_register();
	if (ret)
		goto unregister_nmi;

	kvm_pmu_debugfs = debugfs_create_dir(KBUILD_MODNAME, NULL);
	debugfs_create_file_unsafe("overflows", 0400, kvm_pmu_debugfs, NULL,
				   &kvm_pmu_overflows_fops);
	return 0;

unregister_nmi:
	unregister_nmi_handler(NMI_LOCAL, KBUILD_MODNAME);
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
	debugfs_remove_recursive(kvm_pmu_debugfs);
	kvm_pmu_unregister(kvm_pmu);
	unregister_nmi_handler(NMI_LOCAL, KBUILD_MODNAME);
	kvm_pmu_compat_exit();
	kmem_cache_destroy(kvm_pmu_cache);
	ida_destroy(&kvm_pmu_ids);
	kfree(kvm_pmu_host);
}
module_exit(kvm_pmu_exit);

MODULE_DESCRIPTION("Paravirtual performance events of KVM");
MODULE_LICENSE("GPL");
