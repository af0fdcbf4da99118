/* SPDX-License-Identifier: GPL-2.0 */
#if !defined(_TRACE_KVM_PV_PERF_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_KVM_PV_PERF_H

#include <linux/tracepoint.h>

#undef TRACE_SYSTEM
#define TRACE_SYSTEM kvm

/* An operation and its result. */
TRACE_EVENT(kvm_pv_perf_op,
	TP_PROTO(int vcpu_id, unsigned long op, unsigned long a1,
		 unsigned long a2, long ret),
	TP_ARGS(vcpu_id, op, a1, a2, ret),

	TP_STRUCT__entry(
		__field(int,		vcpu_id)
		__field(unsigned long,	op)
		__field(unsigned long,	a1)
		__field(unsigned long,	a2)
		__field(long,		ret)
	),

	TP_fast_assign(
		__entry->vcpu_id	= vcpu_id;
		__entry->op		= op;
		__entry->a1		= a1;
		__entry->a2		= a2;
		__entry->ret		= ret;
	),

	TP_printk("vcpu %d %s 0x%lx 0x%lx ret %ld", __entry->vcpu_id,
		  __print_symbolic(__entry->op,
				   { KVM_PERF_OP_OPEN,		"OPEN" },
				   { KVM_PERF_OP_CLOSE,		"CLOSE" },
				   { KVM_PERF_OP_ENABLE,	"ENABLE" },
				   { KVM_PERF_OP_DISABLE,	"DISABLE" },
				   { KVM_PERF_OP_READ,		"READ" },
				   { KVM_PERF_OP_QUERY,		"QUERY" },
				   { KVM_PERF_OP_SET_PERIOD,	"SET_PERIOD" },
				   { KVM_PERF_OP_BATCH,		"BATCH" },
				   { KVM_PERF_OP_RESET,		"RESET" },
				   { KVM_PERF_OP_SET_LEFT,	"SET_LEFT" },
				   { KVM_PERF_OP_SET_AREA,	"SET_AREA" },
				   { KVM_PERF_OP_SET_COUNTS,	"SET_COUNTS" }),
		  __entry->a1, __entry->a2, __entry->ret)
);

/* An event that OPEN has created. */
TRACE_EVENT(kvm_pv_perf_open,
	TP_PROTO(int vcpu_id, u32 id, const struct guest_perf_attr *attr),
	TP_ARGS(vcpu_id, id, attr),

	TP_STRUCT__entry(
		__field(int,		vcpu_id)
		__field(u32,		id)
		__field(u32,		type)
		__field(u64,		config)
		__field(u64,		flags)
	),

	TP_fast_assign(
		__entry->vcpu_id	= vcpu_id;
		__entry->id		= id;
		__entry->type		= attr->type;
		__entry->config		= attr->config;
		__entry->flags		= attr->flags;
	),

	TP_printk("vcpu %d id %u type %u config 0x%llx flags 0x%llx",
		  __entry->vcpu_id, __entry->id, __entry->type,
		  __entry->config, __entry->flags)
);

/* Overflows that the guest has been told of. */
TRACE_EVENT(kvm_pv_perf_overflow,
	TP_PROTO(int vcpu_id, u32 id, u32 overflows, u64 period),
	TP_ARGS(vcpu_id, id, overflows, period),

	TP_STRUCT__entry(
		__field(int,		vcpu_id)
		__field(u32,		id)
		__field(u32,		overflows)
		__field(u64,		period)
	),

	TP_fast_assign(
		__entry->vcpu_id	= vcpu_id;
		__entry->id		= id;
		__entry->overflows	= overflows;
		__entry->period		= period;
	),

	TP_printk("vcpu %d id %u overflows %u period %llu", __entry->vcpu_id,
		  __entry->id, __entry->overflows, __entry->period)
);

#endif /* _TRACE_KVM_PV_PERF_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH ../../arch/x86/kvm
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE pv_perf_trace

/* This part must be outside protection */
#include <trace/define_trace.h>
