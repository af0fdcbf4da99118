/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The host side's unit tests share these functions: unit_test.c defines them.
 */
#ifndef UNIT_H
#define UNIT_H

#include "stand_in.h"

#include <asm/svm.h>
#include <asm/vmx.h>

#include "pv_perf.h"
#include "pv_perf_event.h"
#include "pv_perf_core.h"
#include "pv_perf_seam.h"
#include "pv_perf_top.h"

/* A test: it starts by setup() and ends by teardown(), so each can run alone. */
struct unit_test {
	const char *name;
	void (*run)(void);
	struct unit_test *next;
};

void unit_add(struct unit_test *test);

#define UNIT_TEST(test_name)							\
	static void test_##test_name(void);					\
	static struct unit_test unit_##test_name = {				\
		.name = #test_name, .run = test_##test_name,			\
	};									\
	__attribute__((constructor)) static void add_##test_name(void)		\
	{									\
		unit_add(&unit_##test_name);					\
	}									\
	static void test_##test_name(void)

#define RO_MEMORY	0x10000
#define NO_MEMORY	0x18000

/* The guest's memory, from guest physical address 0. */
extern struct layout {
	struct guest_perf_event_param param;
	struct guest_perf_attr attr;
	u8 after_attr[GUEST_PERF_ATTR_SIZE_MAX];
	struct guest_perf_query query;
	u64 after_query[8];
	struct guest_perf_op ops[KVM_PERF_BATCH_MAX + 1];
	struct guest_perf_event record[200] __aligned(64);
	struct guest_perf_area area __aligned(GUEST_PERF_AREA_ALIGN);
} *mem;

#define GPA(field)	offsetof(struct layout, field)
#define RECORD(i)	(GPA(record) + (i) * sizeof(struct guest_perf_event))

extern struct kvm *kvm;
extern struct kvm_vcpu *vcpus[2];
extern struct task_struct *tasks[2];

/* setup() creates a VM with two vCPUs.  The test goes on as the first vCPU's thread. */
void setup(void);
/* setup_rdpmc() creates the same, and the VMM allows RDPMC. */
void setup_rdpmc(void);
void teardown(void);

/* A result: ok if @got is @want. */
void is(const char *what, long got, long want);
bool near(u64 got, u64 want);

/* Threads, and the vCPUs that they run. */
void on(int cpu);
struct kvm_vcpu *here(void);
void replace_thread(void);

/* Hypercalls. */
long call(u64 op, u64 a1);
long call3(u64 op, u64 a1, u64 a2, u64 a3);
long call_on(int vcpu, u64 op, u64 a1);
struct guest_perf_op *op(int i, u32 nr, u32 id, u64 arg);
long set_area(gpa_t gpa);
void have_area(void);
u32 told_counters(void);

/* Events. */
void param(u32 id, int record);
long do_open(void);
void open_fails(const char *what, long want);
long open_id(u32 id);
long open_raw(u32 id, u64 config);
long open_sampling(u32 id, u64 period);
long open_notify(u32 id, u64 period);
long open_mode(u32 id, u64 flags, u64 period);
void start_on(int vcpu, u32 id, u64 period);
void start_rdpmc(u32 id, u64 period);
u64 open_takes(int n);
struct pv_perf_event *event(u32 id);
bool is_lost(u32 id);
bool is_limited(u32 id);
u64 count_on(int vcpu, u32 id);
bool debugfs_has(const char *words);

/* The host: KVM's parameters, and what a VMM does. */
bool now_available(void);
int host_extension(unsigned int cap);
int enable_cap(struct kvm *vm, u32 cap, u64 limit);
void deny(u64 eventsel);

/* VM entries, and what the guest does. */
long enter_guest(void);
int enter_counting(void);
bool entry_goes_on(void);
bool nmi_exit(void);
extern int nmis;
bool reads(void);
void run_on(int vcpu, u64 n);
void run_mode(bool nested, u64 n);
void run_until_limited(u32 id);
void run_throttled(u64 n);
void throttle_late(void);
void run_nmi(u64 n, bool injected);
void end_nmi(void);

#endif
