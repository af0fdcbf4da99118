// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, host side: the hypercall.
 *
 * The hypercall fetches the guest's arguments once and checks them before other files
 * see them.  An operation, on the vCPU's thread, which may sleep:
 *
 *	pv_perf_hypercall()
 *	  pv_perf_op()			pv_perf_follow_kind(): see pv_perf_thread.c
 *	    pv_perf_run()		for each of a batch
 *	      pv_perf_event_open()	pv_perf_backing_get(), pv_perf_init_record()
 *	      pv_perf_event_enable()	pv_perf_start(): perf_event_enable(); or first
 *					pv_perf_move_and_enable()
 *	      pv_perf_event_read()	pv_perf_start() if lost; pv_perf_update_record():
 *					pv_perf_read(), pv_perf_write_record()
 *	      pv_perf_event_disable()	perf_event_disable(), pv_perf_update_record()
 *	      pv_perf_event_close()	perf_event_release_kernel()
 *
 * Most READs of one event do not have to sleep, and are complete at the exit:
 *
 *	pv_perf_read_at_exit()
 *	  pv_perf_event_read_irqoff()	pv_perf_backing_read_here(), pv_perf_write_record()
 */
#include <linux/export.h>
#include <linux/srcu.h>
#include <linux/string.h>

#include "compat.h"
#include "kvm_perf.h"
#include "pv_perf.h"
#include "pv_perf_core.h"
#include "pv_perf_features.h"
#include "pv_perf_memory.h"
#include "pv_perf_seam.h"
#include "pv_perf_top.h"
#include "pv_perf_trace.h"
#include "hyperv.h"
#include "lapic.h"
#include "trace.h"
#include "x86.h"
#include "xen.h"

static int pv_perf_read_attr(struct kvm *kvm, gpa_t gpa,
			     struct guest_perf_attr *attr)
{
	u8 buf[GUEST_PERF_ATTR_SIZE_MAX];
	u32 size;

	if (!IS_ALIGNED(gpa, sizeof(u64)))
		return -EINVAL;

	if (kvm_read_guest(kvm, gpa, &size, sizeof(size)))
		return -EFAULT;

	if (size < sizeof(*attr) || size > sizeof(buf))
		return -EINVAL;

	if (kvm_read_guest(kvm, gpa, buf, size))
		return -EFAULT;

	/* Refuse fields of a later version unless they are 0. */
	if (memchr_inv(buf + sizeof(*attr), 0, size - sizeof(*attr)))
		return -EINVAL;

	memcpy(attr, buf, sizeof(*attr));
	return 0;
}

/* The core type of the kind that a raw event names, or 0. */
static u8 pv_perf_named_core(const struct guest_perf_attr *attr)
{
	u32 kind = attr->model & KVM_PERF_MODEL_KIND;

	if (attr->type != KVM_PERF_TYPE_RAW || kind == KVM_PERF_MODEL_HYBRID)
		return 0;

	return kind >> KVM_PERF_MODEL_KIND_SHIFT;
}

/*
 * May the guest's raw event be for this host?  0: the guest does not say for which host.
 * On a hybrid host, it may be for one kind of core.
 */
static bool pv_perf_is_model(u32 model)
{
	u32 own = pv_perf_model();

	if (!model || model == own)
		return true;

	return own & KVM_PERF_MODEL_HYBRID &&
	       !((model ^ own) & ~KVM_PERF_MODEL_KIND) &&
	       pv_perf_has_core(model >> KVM_PERF_MODEL_KIND_SHIFT);
}

/* Intel's architectural events (SDM volume 3B, 20.2.1.2), and perf's reference cycles. */
static bool pv_perf_is_architectural(u64 config)
{
	switch (config & (ARCH_PERFMON_EVENTSEL_EVENT | ARCH_PERFMON_EVENTSEL_UMASK)) {
	case 0x003c:	/* cycles */
	case 0x013c:	/* reference cycles */
	case 0x00c0:	/* instructions */
	case 0x4f2e:	/* references of the last-level cache */
	case 0x412e:	/* misses of the last-level cache */
	case 0x00c4:	/* branches */
	case 0x00c5:	/* mispredicted branches */
	case 0x0300:	/* the fixed counter of reference cycles */
		return true;
	default:
		return false;
	}
}

/*
 * On a hybrid host, another raw event than an architectural one means something else on
 * each kind of core, and the guest has to name the kind.
 */
static bool pv_perf_is_on_all_kinds(const struct pv_perf_vm *vm,
				    const struct guest_perf_attr *attr)
{
	return !(vm->pmu.model & KVM_PERF_MODEL_HYBRID) ||
	       pv_perf_named_core(attr) || pv_perf_is_architectural(attr->config);
}

static int pv_perf_check_config(const struct pv_perf_vm *vm,
				const struct guest_perf_attr *attr)
{
	if (attr->type != KVM_PERF_TYPE_RAW && attr->model)
		return -EINVAL;

	switch (attr->type) {
	case KVM_PERF_TYPE_HARDWARE:
		/* The upper half would choose a PMU of the host. */
		if (attr->config >= KVM_PERF_NR_HW_EVENTS)
			return -EINVAL;
		return 0;
	case KVM_PERF_TYPE_HW_CACHE:
		/* Cache, operation and result: a byte each. */
		if (attr->config > 0xffffff)
			return -EINVAL;
		return 0;
	case KVM_PERF_TYPE_RAW:
		/* First: raw_event_mask may be another model's. */
		if (!pv_perf_is_model(attr->model))
			return -EOPNOTSUPP;
		if (attr->config & ~vm->pmu.raw_event_mask ||
		    !pv_perf_is_on_all_kinds(vm, attr))
			return -EINVAL;
		/* Not an event: with it perf reserves the branch records for KVM. */
		if (boot_cpu_data.x86_vendor == X86_VENDOR_INTEL &&
		    (attr->config & X86_RAW_EVENT_MASK) ==
		    INTEL_FIXED_VLBR_EVENT)
			return -EOPNOTSUPP;
		return 0;
	default:
		return -EINVAL;
	}
}

static int pv_perf_check_attr(const struct pv_perf_vm *vm,
			      const struct guest_perf_attr *attr)
{
	const u64 known_flags = KVM_PERF_ATTR_EXCLUDE_USER |
				KVM_PERF_ATTR_EXCLUDE_KERNEL |
				KVM_PERF_ATTR_FREQ |
				KVM_PERF_ATTR_EXCLUDE_GUEST |
				KVM_PERF_ATTR_EXCLUDE_HOST |
				KVM_PERF_ATTR_OPTIONAL;

	if (attr->flags & ~known_flags || attr->reserved)
		return -EINVAL;

	if ((attr->flags & KVM_PERF_ATTR_FREQ) && !attr->sample_period)
		return -EINVAL;

	/* perf's own limits: a period has 63 bits, a frequency an int. */
	if (attr->sample_period > S64_MAX ||
	    ((attr->flags & KVM_PERF_ATTR_FREQ) &&
	     attr->sample_period > INT_MAX))
		return -EINVAL;

	if (attr->config1 || attr->config2)
		return -EOPNOTSUPP;

	return pv_perf_check_config(vm, attr);
}

/*
 * pinned: an event counts, or ENABLE fails; perf does not multiplex it behind the
 * guest's back. exclude_host: whatever the guest asks for, the event never counts the
 * host.
 */
static void pv_perf_backing_attr(const struct guest_perf_attr *guest,
				 struct perf_event_attr *attr)
{
	*attr = (struct perf_event_attr) {
		.size		= sizeof(*attr),
		.type		= guest->type,
		.config		= guest->config,
		.sample_period	= guest->sample_period,
		.freq		= !!(guest->flags & KVM_PERF_ATTR_FREQ),
		.disabled	= 1,
		.pinned		= 1,
		.exclude_host	= 1,
		.exclude_user	= !!(guest->flags &
				     KVM_PERF_ATTR_EXCLUDE_USER),
		.exclude_kernel	= !!(guest->flags &
				     KVM_PERF_ATTR_EXCLUDE_KERNEL),
	};
}

static int pv_perf_op_open(struct kvm_vcpu *vcpu, gpa_t gpa)
{
	struct guest_perf_event_param param;
	struct guest_perf_attr guest_attr;
	struct perf_event_attr attr;
	int ret;

	if (!IS_ALIGNED(gpa, sizeof(u64)))
		return -EINVAL;

	if (kvm_read_guest(vcpu->kvm, gpa, &param, sizeof(param)))
		return -EFAULT;

	if (param.reserved || param.id == KVM_PERF_ID_ALL ||
	    !IS_ALIGNED(param.event_addr, sizeof(struct guest_perf_event)))
		return -EINVAL;

	ret = pv_perf_read_attr(vcpu->kvm, param.attr_addr, &guest_attr);
	if (ret)
		return ret;

	ret = pv_perf_check_attr(vcpu->kvm->arch.pv_perf, &guest_attr);
	if (ret)
		return ret;

	if (guest_attr.sample_period && !pv_perf_rate_allowed(vcpu->kvm))
		return -EOPNOTSUPP;

	pv_perf_backing_attr(&guest_attr, &attr);
	ret = pv_perf_event_open(vcpu, param.id, &attr, guest_attr.flags,
				 pv_perf_named_core(&guest_attr), param.event_addr);
	if (ret)
		return ret;

	trace_kvm_pv_perf_open(vcpu->vcpu_id, param.id, &guest_attr);
	return 0;
}

static int pv_perf_op_query(struct kvm_vcpu *vcpu, gpa_t gpa)
{
	struct guest_perf_query query = vcpu->kvm->arch.pv_perf->pmu;
	u32 size;

	if (!IS_ALIGNED(gpa, sizeof(u64)))
		return -EINVAL;

	if (kvm_read_guest(vcpu->kvm, gpa, &size, sizeof(size)))
		return -EFAULT;

	if (size < GUEST_PERF_QUERY_SIZE_VER0)
		return -EINVAL;

	query.size = min_t(u32, size, sizeof(query));
	query.version = KVM_PERF_ABI_VERSION;
	query.features = KVM_PERF_FEATURE_BATCH | KVM_PERF_FEATURE_NESTED |
			 KVM_PERF_FEATURE_NOTIFY | KVM_PERF_FEATURE_AREA |
			 KVM_PERF_FEATURE_RDPMC | KVM_PERF_FEATURE_COUNTS;
	/* Without KVM's local APIC, no NMI would tell of a change of the host. */
	if (lapic_in_kernel(vcpu))
		query.features |= KVM_PERF_FEATURE_RDPMC_USER;
	if (pv_perf_rate_allowed(vcpu->kvm))
		query.features |= KVM_PERF_FEATURE_SAMPLING;
	if (query.branches)
		query.features |= KVM_PERF_FEATURE_BRANCHES;
	query.max_events = pv_perf_events_allowed(vcpu->kvm);
	query.nr_counters = pv_perf_counters_allowed(vcpu->kvm);
	query.rdpmc = pv_perf_rdpmc_vcpu(vcpu);
	query.counts = pv_perf_counts_vcpu(vcpu);
	query.model = pv_perf_model();

	if (kvm_write_guest(vcpu->kvm, gpa, &query, query.size))
		return -EFAULT;

	return 0;
}

static int pv_perf_op_set_area(struct kvm_vcpu *vcpu, gpa_t gpa)
{
	int ret = pv_perf_area_set(vcpu, gpa);

	/* The guest asked for counts in its earlier area. */
	if (!ret)
		pv_perf_counts_end(vcpu);

	return ret;
}

/* Run one operation, alone or of a batch. */
static int pv_perf_run(struct kvm_vcpu *vcpu, struct guest_perf_op *op)
{
	struct kvm *kvm = vcpu->kvm;

	switch (op->op) {
	case KVM_PERF_OP_OPEN:
		return pv_perf_op_open(vcpu, op->arg);
	case KVM_PERF_OP_CLOSE:
		return pv_perf_event_close(kvm, op->id);
	case KVM_PERF_OP_ENABLE:
		return pv_perf_event_enable(vcpu, op->id);
	case KVM_PERF_OP_DISABLE:
		return pv_perf_event_disable(vcpu, op->id, &op->arg);
	case KVM_PERF_OP_READ:
		if (op->id == KVM_PERF_ID_ALL)
			return pv_perf_event_read_all(vcpu);
		return pv_perf_event_read(kvm, op->id, &op->arg);
	case KVM_PERF_OP_QUERY:
		return pv_perf_op_query(vcpu, op->arg);
	case KVM_PERF_OP_SET_PERIOD:
		return pv_perf_event_set_period(vcpu, op->id, op->arg);
	case KVM_PERF_OP_RESET:
		pv_perf_close_vm_events(vcpu);
		pv_perf_area_end_all(kvm);
		return 0;
	case KVM_PERF_OP_SET_LEFT:
		return pv_perf_event_set_left(vcpu, op->id, &op->arg);
	case KVM_PERF_OP_SET_AREA:
		return pv_perf_op_set_area(vcpu, op->arg);
	case KVM_PERF_OP_SET_COUNTS:
		return pv_perf_counts_set(vcpu, op->arg);
	default:
		return -KVM_ENOSYS;
	}
}

static int pv_perf_run_batched(struct kvm_vcpu *vcpu, struct guest_perf_op *op)
{
	/* RESET might not have closed all events before the next operation. */
	if (op->reserved || op->op == KVM_PERF_OP_BATCH ||
	    op->op == KVM_PERF_OP_RESET)
		return -EINVAL;

	return pv_perf_run(vcpu, op);
}

static int pv_perf_op_batch(struct kvm_vcpu *vcpu, gpa_t gpa, unsigned long nr)
{
	struct guest_perf_op *ops = vcpu->arch.pv_perf->batch;
	struct guest_perf_op op;
	unsigned long i;

	if (!IS_ALIGNED(gpa, sizeof(u64)) || !nr || nr > KVM_PERF_BATCH_MAX)
		return -EINVAL;

	/* Run nothing if the guest cannot be told the results. */
	if (kvm_read_guest(vcpu->kvm, gpa, ops, nr * sizeof(*ops)) ||
	    kvm_write_guest(vcpu->kvm, gpa, ops, nr * sizeof(*ops)))
		return -EFAULT;

	for (i = 0; i < nr; i++) {
		op = ops[i];
		ops[i].result = pv_perf_run_batched(vcpu, &ops[i]);
		trace_kvm_pv_perf_op(vcpu->vcpu_id, op.op, op.id, op.arg,
				     ops[i].result);
		cond_resched();
	}

	if (kvm_write_guest(vcpu->kvm, gpa, ops, nr * sizeof(*ops)))
		return -EFAULT;

	return 0;
}

/* Decode the arguments of a hypercall into an operation. */
static int pv_perf_op_decode(struct guest_perf_op *op, unsigned long nr,
			     unsigned long a1, unsigned long a2,
			     unsigned long a3)
{
	if (upper_32_bits(a1) || upper_32_bits(a2))
		return -EINVAL;

	*op = (struct guest_perf_op) { .op = nr, .id = a1 };

	switch (nr) {
	case KVM_PERF_OP_OPEN:
	case KVM_PERF_OP_QUERY:
	case KVM_PERF_OP_BATCH:
	case KVM_PERF_OP_SET_AREA:
	case KVM_PERF_OP_SET_COUNTS:
		op->arg = (u64)a2 << 32 | a1;
		return 0;
	case KVM_PERF_OP_SET_PERIOD:
	case KVM_PERF_OP_SET_LEFT:
		op->arg = (u64)a3 << 32 | a2;
		return upper_32_bits(a3) ? -EINVAL : 0;
	default:
		return upper_32_bits(nr) ? -KVM_ENOSYS : 0;
	}
}

static int pv_perf_op(struct kvm_vcpu *vcpu, unsigned long nr,
		      unsigned long a1, unsigned long a2, unsigned long a3)
{
	struct guest_perf_op op;
	int ret;

	if (!pv_perf_is_offered(vcpu))
		return -KVM_ENOSYS;

	/* A nested guest's events belong to its own hypervisor. */
	if (is_guest_mode(vcpu))
		return -EPERM;

	ret = pv_perf_op_decode(&op, nr, a1, a2, a3);
	ret = ret ? : pv_perf_vcpu_prepare(vcpu);
	if (ret)
		return ret;

	pv_perf_follow_kind(vcpu);
	if (nr == KVM_PERF_OP_BATCH)
		return pv_perf_op_batch(vcpu, op.arg, a3);

	return pv_perf_run(vcpu, &op);
}

/* Do not count KVM_PERF_OP, which does not exist natively. */
static void pv_perf_skip_retired(struct kvm_vcpu *vcpu)
{
	if (vcpu->arch.pv_perf_retires)
		vcpu->arch.pv_perf->skip_retired = true;
}

/**
 * pv_perf_hypercall - KVM_PERF_OP
 * @vcpu: the vCPU that made it, at CPL 0
 * @op: KVM_PERF_OP_*
 * @a1: first argument of the operation
 * @a2: second argument
 * @a3: third argument
 *
 * Runs on the vCPU's thread, may sleep, with kvm->srcu held for reading.
 *
 * Return: the result for the guest: 0 or -KVM_E*.
 */
unsigned long pv_perf_hypercall(struct kvm_vcpu *vcpu, unsigned long op,
				unsigned long a1, unsigned long a2,
				unsigned long a3)
{
	int ret = pv_perf_op(vcpu, op, a1, a2, a3);

	pv_perf_skip_retired(vcpu);
	trace_kvm_pv_perf_op(vcpu->vcpu_id, op, a1, a2, ret);
	return ret;
}

/*
 * Would KVM have pv_perf_hypercall() run it, and complete the instruction as usual?  As
 * KVM's virtual PMU counts the instruction, it may sleep on Linux 6.1.
 */
static bool pv_perf_may_run_irqoff(struct kvm_vcpu *vcpu)
{
	return !is_guest_mode(vcpu) && !kvm_x86_call(get_cpl)(vcpu) &&
	       !(kvm_get_rflags(vcpu) & X86_EFLAGS_TF) &&
	       !kvm_xen_hypercall_enabled(vcpu->kvm) &&
	       !kvm_hv_hypercall_enabled(vcpu) &&
	       !pv_perf_has_vpmu(vcpu) && pv_perf_is_offered(vcpu);
}

static void pv_perf_complete_read(struct kvm_vcpu *vcpu, u32 id)
{
	unsigned long a2 = kvm_rdx_read(vcpu), a3 = kvm_rsi_read(vcpu);

	trace_kvm_hypercall(KVM_PERF_OP, KVM_PERF_OP_READ, id, a2, a3);
	trace_kvm_pv_perf_op(vcpu->vcpu_id, KVM_PERF_OP_READ, id, a2, 0);
	vcpu->stat.hypercalls++;
	kvm_register_write_raw(vcpu, VCPU_REGS_RAX, 0);
	pv_perf_skip_retired(vcpu);
	kvm_skip_emulated_instruction(vcpu);
}

/* pv_perf_read_at_exit(), for a READ. */
bool __pv_perf_read_at_exit(struct kvm_vcpu *vcpu)
{
	unsigned long id = kvm_rcx_read(vcpu);
	bool done;
	int idx;

	lockdep_assert_irqs_disabled();

	if (id >= KVM_PERF_ID_ALL || upper_32_bits(kvm_rdx_read(vcpu)) ||
	    !pv_perf_may_reenter(vcpu, 0) || !pv_perf_may_run_irqoff(vcpu))
		return false;

	idx = srcu_read_lock(&vcpu->kvm->srcu);
	done = pv_perf_event_read_irqoff(vcpu, id);
	if (done)
		pv_perf_complete_read(vcpu, id);
	srcu_read_unlock(&vcpu->kvm->srcu, idx);

	lockdep_assert_irqs_disabled();
	return done;
}
EXPORT_SYMBOL_FOR_KVM_INTERNAL(__pv_perf_read_at_exit);
