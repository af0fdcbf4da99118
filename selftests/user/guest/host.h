/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A model of the host for the guest's driver in user space: the contract of kvm_perf.h,
 * counters that other users of the host's perf take away, other hosts, and work of the
 * guest, whose units are events.
 */
#ifndef HOST_H
#define HOST_H

#include "stand_in.h"
#include "kvm_perf.h"

#define HOST_EVENTS	128
#define HOST_HW		8	/* general-purpose counters, and then the fixed ones */

struct host_event {
	bool open, enabled, throttled;
	u32 id;
	struct guest_perf_attr attr;
	struct guest_perf_event *record;
	int cpu;		/* on which it was enabled last */
	int hw;			/* its counter, or -1 */
	u64 count;
	u64 left;
	u64 overflows;		/* all delivered overflows */
	/* The values that were written last. */
	u32 pmc;
	u64 offset;
};

struct host_vcpu {
	struct guest_perf_area *area;
	u32 epoch;
	u32 counts;
	struct host_event *hw[HOST_HW + KVM_PERF_NR_FIXED_COUNTERS];
	u64 pmc[HOST_HW + KVM_PERF_NR_FIXED_COUNTERS];
	int counters;		/* general counters that others have not taken */
	u32 no_fixed;		/* fixed counters that others have taken */
	bool other_kind;	/* it runs on a core that is not of HOST_CORE_TYPE */
	bool nmi;		/* pending */
	u64 nmis;
};

struct host {
	bool offers;		/* the CPUID bit */
	bool gone;		/* every operation answers -KVM_ENOSYS */
	struct guest_perf_query query;
	u32 allowed_counts;
	u64 min_period;
	struct host_event events[HOST_EVENTS];
	struct host_vcpu vcpus[NR_CPUS];
	u32 last_epoch;
	/* host_migrate() keeps these, unlike the events. */
	u64 calls;		/* hypercalls, ever */
	u64 ops[KVM_PERF_OP_SET_COUNTS + 1];
	u32 largest_batch;
	/* The batch of the current hypercall. */
	struct guest_perf_op *last_batch;
	unsigned long last_batch_n;
	/* Called before an operation: returns an error instead of it, or 0. */
	long (*refuse)(u32 op, u32 id, u64 arg);
	/* Called right before and right after a hypercall. */
	void (*call_hook)(void);
	void (*exit_hook)(void);
	/* Work in kernel mode that each hypercall adds. */
	u64 kernel_work;
};

extern struct host host;

#define USER_RDPMC	0x400100ul

/* The core type that a raw event may name if host.query.model is of a hybrid host. */
#define HOST_CORE_TYPE	0x40u

void host_init(void);
/* Does @n units of work at CPL 3 or 0, and takes its samples. */
void host_work(int cpu, u64 n, bool user);
#define user_work(cpu, n)	host_work(cpu, n, true)
#define kernel_work(cpu, n)	host_work(cpu, n, false)
/* An exit of the guest that adds @n to KVM_PERF_COUNT_* @count. */
void host_exit(int cpu, unsigned int count, u64 n, bool user, u64 ip);
/* From now on, others leave the guest @n general counters. */
void host_set_counters(int cpu, int n);
void host_set_no_fixed(int cpu, u32 fixed);
/* From now on, a vCPU runs on a core that is of HOST_CORE_TYPE, or not. */
void host_set_kind(int cpu, bool other);
/* The host or its perf throttles an event that overflows too often. */
void host_throttle(int cpu, u32 id);
void host_unthrottle(int cpu, u32 id);
/* The VM moves to another host, which sends NMIs if the APIC's LVT entry allows it. */
void host_migrate(void);
/* An NMI without a reason in the contract. */
void host_nmi(int cpu);
void host_deliver(int cpu);
bool host_rdpmc(int cpu, u32 ecx, u64 *value);
struct host_event *host_find(u32 id);
/* The number of events that count on a CPU, and of open events. */
int host_enabled(int cpu);
int host_open(void);
u64 host_weight(const struct guest_perf_attr *attr);

/* kernel.c */
void cpu_init(void);
void cpu_down(int cpu);
void cpu_up(int cpu);
void run_interrupts(int cpu);
void kexec_probe_target(void);
extern unsigned long cr4_updates;

#endif
