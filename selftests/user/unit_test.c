// SPDX-License-Identifier: GPL-2.0
/*
 * build: -fsanitize=address,undefined -fno-sanitize-recover=undefined
 * build: -fprofile-instr-generate -fcoverage-mapping
 */
/*
 * The host side in user space: every operation, every error, every allocation
 * and access to guest memory failing in turn, and what can happen to an event
 * while an operation sleeps.
 */
#include "stand_in.h"

#include <linux/hash.h>

#include <asm/svm.h>
#include <asm/vmx.h>

#include "kselftest.h"
#include "pv_perf.h"
#include "pv_perf_event.h"
#include "pv_perf_core.h"
#include "pv_perf_seam.h"
#include "pv_perf_top.h"

#define RO_MEMORY	0x10000
#define NO_MEMORY	0x18000

/* Of the guest, at 0. */
static struct layout {
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

static struct kvm *kvm;
static struct kvm_vcpu *vcpus[2];
static struct task_struct *tasks[2];

static void is(const char *what, long got, long want)
{
	if (got != want)
		ksft_print_msg("%s: %ld, not %ld\n", what, got, want);
	ksft_test_result(got == want, "%s\n", what);
}

static void on(int cpu)
{
	current = tasks[cpu];
}

static void setup(void)
{
	int i;

	*param_pv_perf_max_counters = NR_COUNTERS;
	tasks[0] = task_create(0);
	on(0);
	kvm = vm_create();
	for (i = 0; i < 2; i++) {
		if (i)
			tasks[i] = task_create(i);
		vcpus[i] = vcpu_create(kvm, i);
		CHECK(!pv_perf_vcpu_prepare(vcpus[i]));
	}
	mem = (struct layout *)kvm->memslots.slot[0].memory;
}

/* Whatever the test has left open is closed with the vCPUs. */
static void teardown(void)
{
	int i;

	for (i = 0; i < 2; i++) {
		if (cpus[i].taken)
			take_counters(tasks[i], 0);
		on(i);
		vcpu_destroy(vcpus[i]);
		task_put(tasks[i]);
		tasks[i] = NULL;
	}
	CHECK(!atomic_read(&nr_backing_events));
	CHECK(!atomic_read(&kvm->arch.pv_perf->nr_events));
	vm_destroy(kvm);
	CHECK(!atomic_read(&nr_held_events));
	rcu_barrier();
}

static struct kvm_vcpu *here(void)
{
	return vcpus[current == tasks[1]];
}

static long call3(u64 op, u64 a1, u64 a2, u64 a3)
{
	long ret = pv_perf_hypercall(here(), op, a1, a2, a3);

	pv_perf_instruction_retired(here());
	return ret;
}

static long call(u64 op, u64 a1)
{
	return call3(op, a1, 0, 0);
}

static void param(u32 id, int record)
{
	memset(&mem->attr, 0, sizeof(mem->attr));
	memset(mem->after_attr, 0, sizeof(mem->after_attr));
	mem->attr.size = sizeof(mem->attr);
	mem->attr.type = KVM_PERF_TYPE_RAW;
	mem->attr.config = 0xc0;
	mem->param = (struct guest_perf_event_param){
		.attr_addr = GPA(attr), .event_addr = RECORD(record), .id = id,
	};
}

static long do_open(void)
{
	return call(KVM_PERF_OP_OPEN, GPA(param));
}

/* An event has its id's record. */
static long open_id(u32 id)
{
	param(id, id);
	return do_open();
}

static long open_sampling(u32 id, u64 period)
{
	param(id, id);
	mem->attr.sample_period = period;
	return do_open();
}

static struct pv_perf_event *event(u32 id)
{
	return xa_load(&kvm->arch.pv_perf->events, id);
}

/* KVM loaded anew, with the parameters and on the CPU of now. */

static bool now_available(void)
{
	pv_perf_init();
	return pv_perf_available();
}

static bool now_for_all(void)
{
	pv_perf_init();
	return pv_perf_is_for_all();
}

static int host_extension(unsigned int cap)
{
	pv_perf_init();
	return pv_perf_check_extension(NULL, cap);
}

static bool is_lost(u32 id)
{
	return pv_perf_why(event(id)) & PV_PERF_LOST;
}

static bool is_limited(u32 id)
{
	return pv_perf_why(event(id)) & PV_PERF_LIMITED;
}

static long enter_guest(void)
{
	struct kvm_vcpu *vcpu = here();

	handle_requests(vcpu);
	return atomic_xchg(&vcpu->arch.nmi_queued, 0);
}

static u32 told_counters(void)
{
	mem->query.size = sizeof(mem->query);
	CHECK(!call(KVM_PERF_OP_QUERY, GPA(query)));
	return mem->query.nr_counters;
}

static int enable_cap(struct kvm *vm, u32 cap, u64 limit)
{
	struct kvm_enable_cap enable = { .cap = cap, .args = { limit } };

	return pv_perf_enable_cap(vm, &enable);
}

/* On AMD, in a guest: what its hypervisor makes of GuestOnly. */
static void test_guest_only(void)
{
	u64 used = ARCH_PERFMON_EVENTSEL_ENABLE | 0x76;
	int i, cpu;

	tasks[0] = task_create(0);
	on(0);
	cpu_has_hypervisor = true;
	select_drops = AMD64_EVENTSEL_GUESTONLY;
	selects[0][0] = used;
	selects[0][1] = 0xc0;
	is("not where a hypervisor drops GuestOnly", now_available(), false);
	is("event selects are left as they were",
	   selects[0][0] == used && selects[0][1] == 0xc0, true);
	select_drops = 0;
	for (cpu = 0; cpu < NR_CPUS; cpu++)
		for (i = 0; i < NR_COUNTERS; i++)
			selects[cpu][i] = used;
	is("not where all counters of all CPUs count, so that nobody knows",
	   now_available(), false);
	selects[NR_CPUS - 1][0] = 0;
	is("where another CPU has a free counter, which keeps GuestOnly",
	   now_available(), true);
	select_drops = AMD64_EVENTSEL_GUESTONLY;
	is("not where the free counter of another CPU drops GuestOnly",
	   now_available(), false);
	select_drops = 0;
	selects[0][2] = 0xc2;
	is("where a free counter of this CPU keeps GuestOnly", now_available(), true);
	is("the free counter's event select is left as it was", selects[0][2], 0xc2);
	selects[0][2] = used;
	is("the counters are tried only once", pv_perf_available(), true);
	memset(selects, 0, sizeof(selects));
	cpu_has_hypervisor = false;
	task_put(tasks[0]);
}

static void test_available(void)
{
	is("available on AMD", now_available(), true);
	cpu_has_perfctr_core = false;
	is("not without PERFCTR_CORE", now_available(), false);
	boot_cpu_data.x86_vendor = X86_VENDOR_HYGON;
	is("not without PERFCTR_CORE on Hygon", now_available(), false);
	boot_cpu_data.x86_vendor = X86_VENDOR_INTEL;
	is("available on Intel", now_available(), true);
	pmu_capability.version = 1;
	is("not on version 1", now_available(), false);
	pmu_capability.version = 2;
	pmu_capability.num_counters_gp = 0;
	is("not without counters", now_available(), false);
	pmu_capability.num_counters_gp = NR_COUNTERS;
	cpu_has_hybrid = true;
	is("not on a hybrid CPU", now_available(), false);
	setup();
	is("a VM there: ENOSYS", call(KVM_PERF_OP_RESET, 0), -KVM_ENOSYS);
	teardown();
	cpu_has_hybrid = false;
	boot_cpu_data.x86_vendor = X86_VENDOR_ZHAOXIN;
	is("not on others that have VMX", now_available(), false);
	boot_cpu_data.x86_vendor = X86_VENDOR_INTEL;
	*param_pv_perf = false;
	is("with pv_perf=0, CPUID does not have it", now_for_all(), false);
	setup();
	is("a VM of then: ENOSYS", call(KVM_PERF_OP_RESET, 0), -KVM_ENOSYS);
	is("has no events", pv_perf_check_extension(kvm,
		KVM_CAP_PV_PERF_EVENTS), 0);
	is("though its VMM could ask for them", host_extension(KVM_CAP_PV_PERF_EVENTS), 64);
	teardown();
	tasks[0] = task_create(0);
	on(0);
	kvm = vm_create();
	is("which does so", enable_cap(kvm, KVM_CAP_PV_PERF_EVENTS, 8), 0);
	vcpus[0] = vcpu_create(kvm, 0);
	is("it has them", call(KVM_PERF_OP_RESET, 0), 0);
	is("as many as that", pv_perf_check_extension(kvm,
		KVM_CAP_PV_PERF_EVENTS), 8);
	vcpu_destroy(vcpus[0]);
	vm_destroy(kvm);

	enable_pmu = false;
	kvm = vm_create();
	is("with enable_pmu=0, too, nobody may ask", enable_cap(kvm,
		KVM_CAP_PV_PERF_EVENTS, 8), -EINVAL);
	is("as reported", host_extension(KVM_CAP_PV_PERF_EVENTS), 0);
	vm_destroy(kvm);
	task_put(tasks[0]);
	*param_pv_perf = true;
	is("pv_perf=1 says so all the same", now_for_all(), true);
	enable_pmu = true;

	setup();
	param(1, 1);
	mem->attr.config = 1ull << 32;
	is("event bits 35:32 on Intel: EINVAL", do_open(), -KVM_EINVAL);
	teardown();
	boot_cpu_data.x86_vendor = X86_VENDOR_AMD;
	cpu_has_perfctr_core = true;
	setup();
	param(1, 1);
	mem->attr.config = 1ull << 32;
	is("event bits 35:32 on AMD", do_open(), 0);
	teardown();
}

/* This host is a guest itself, without a PMU of its own. */
static void test_nested_host(void)
{
	pmu_capability.num_counters_gp = 0;
	have_kvm_pmu_query = true;
	have_hypervisor_slot = true;
	hypervisor.nr_counters = 3;
	hypervisor.raw_event_mask = 0xffff;
	hypervisor.hw_config[1] = 0xc0;
	is("not on a hypervisor that cannot tell guests apart",
	   now_available(), false);
	hypervisor.features = KVM_PERF_FEATURE_NESTED | KVM_PERF_FEATURE_BRANCHES;
	hypervisor.branches = 16;
	hypervisor.model = 0x21901;
	have_hypervisor_slot = false;
	is("not where another PMU has its place", now_available(), false);
	have_hypervisor_slot = true;
	is("available by the hypervisor's PMU", now_available(), true);
	setup();
	mem->query.size = sizeof(mem->query);
	is("QUERY", call(KVM_PERF_OP_QUERY, GPA(query)), 0);
	is("its counters", mem->query.nr_counters, 3);
	is("no branches, which are its CPU's", mem->query.branches, 0);
	is("nor the feature",
	   mem->query.features & KVM_PERF_FEATURE_BRANCHES, 0);
	*param_pv_perf_max_counters = 0;
	is("of which this host keeps one", told_counters(), 2);
	is("its raw events", mem->query.raw_event_mask, 0xffff);
	is("its generic events", mem->query.hw_config[1], 0xc0);
	is("its model", mem->query.model, 0x21901);
	param(1, 1);
	mem->attr.model = 0x21901;
	is("a raw event of that", do_open(), 0);
	CHECK(!call(KVM_PERF_OP_CLOSE, 1));
	hypervisor.model = 0x21731;
	is("if this host moves to another CPU, a raw event of the first: EOPNOTSUPP",
	   do_open(), -KVM_EOPNOTSUPP);
	told_counters();
	is("QUERY tells the other", mem->query.model, 0x21731);
	mem->attr.model = 0x21731;
	is("whose events it has now", do_open(), 0);
	CHECK(!call(KVM_PERF_OP_CLOSE, 1));
	is("this host's limit", mem->query.max_events, 128);
	param(1, 1);
	mem->attr.config = 0x1c000000;
	is("a raw event that it has not: EINVAL", do_open(), -KVM_EINVAL);
	mem->attr.config = 0xc0;
	mem->attr.sample_period = 1000;
	mem->attr.flags = KVM_PERF_ATTR_FREQ;
	is("a frequency", do_open(), 0);
	is("is that hypervisor's", event(1)->backing->attr.freq &&
	   event(1)->backing->attr.sample_freq == 1000, true);
	is("SET_PERIOD above this host's", call3(7, 1, max_sample_rate + 1, 0),
	   -KVM_EINVAL);
	*param_pv_perf_max_rate = 5000;
	is("SET_PERIOD above the vCPU's rate, of a frequency that perf adapts",
	   call3(7, 1, 5001, 0), -KVM_EINVAL);
	is("SET_PERIOD to the vCPU's rate", call3(7, 1, 5000, 0), 0);
	*param_pv_perf_max_rate = 100000;
	is("SET_PERIOD to it", call3(7, 1, max_sample_rate, 0), 0);
	is("is the new one", event(1)->backing->attr.sample_freq,
	   max_sample_rate);
	teardown();
	have_kvm_pmu_query = false;
	pmu_capability.num_counters_gp = NR_COUNTERS;
}

static void test_dispatch(void)
{
	u64 op;

	setup();
	vcpus[0]->arch.pv_cpuid.features = 0;
	for (op = 0; op < 13; op++)
		CHECK(call3(op, -1ul, -1ul, -1ul) == -KVM_ENOSYS);
	is("without the CPUID bit: ENOSYS", call(5, 1), -KVM_ENOSYS);
	vcpus[0]->arch.pv_cpuid.features = 1u << KVM_FEATURE_PV_PERF;
	kvm->dirty_ring_size = 4096;
	for (op = 0; op < 13; op++)
		CHECK(call3(op, -1ul, -1ul, -1ul) == -KVM_ENOSYS);
	is("a VM with dirty rings: ENOSYS", call(5, 1), -KVM_ENOSYS);
	kvm->dirty_ring_size = 0;
	log_lines = 0;
	kvm->arch.vm_type = KVM_X86_TDX_VM;
	for (op = 0; op < 13; op++)
		CHECK(call3(op, -1ul, -1ul, -1ul) == -KVM_ENOSYS);
	is("a VM of TDX: ENOSYS", call(5, 1), -KVM_ENOSYS);
	is("logged once", log_lines, 1);
	kvm->arch.vm_type = 0;
	vcpus[0]->arch.guest_mode = true;
	is("nested: EPERM", call(KVM_PERF_OP_RESET, 1), -KVM_EPERM);
	vcpus[0]->arch.guest_mode = false;
	is("operation 0", call(0, 0), -KVM_ENOSYS);
	is("operation 13", call(13, 0), -KVM_ENOSYS);
	is("operation 2^32 + READ", call((1ul << 32) + 5, 1), -KVM_ENOSYS);
	for (op = 1; op < 13; op++) {
		CHECK(call3(op, 1ul << 32, 0, 0) == -KVM_EINVAL);
		CHECK(call3(op, 0, 1ul << 32, 0) == -KVM_EINVAL);
	}
	is("bit 32 of SET_PERIOD's third", call3(7, 1, 1, 1ul << 32),
	   -KVM_EINVAL);
	is("bit 32 of SET_LEFT's third", call3(10, 1, 1, 1ul << 32),
	   -KVM_EINVAL);
	is("RESET ignores the third", call3(9, 0, 0, 1ul << 32), 0);
	teardown();
}

/* A failed OPEN has opened nothing and has written nothing. */
static void open_fails(const char *what, long want)
{
	long ret;

	memset(mem->record, 0x5a, sizeof(mem->record));
	ret = do_open();
	CHECK(!event(1));
	CHECK(!atomic_read(&nr_backing_events));
	CHECK(!atomic_read(&kvm->arch.pv_perf->nr_events));
	CHECK(!memchr_inv(mem->record, 0x5a, sizeof(mem->record)));
	is(what, ret, want);
	param(1, 1);
}

static void test_open_malformed(void)
{
	static const struct {
		const char *what;
		size_t offset;
		u64 value;
		long want;
	} t[] = {
#define FIELD(f, value, want) { #f " " #value, offsetof(struct layout, f), \
				value, want }
		FIELD(param.attr_addr, 4, -KVM_EINVAL),
		FIELD(param.attr_addr, NO_MEMORY, -KVM_EFAULT),
		FIELD(param.attr_addr, NO_MEMORY - 8, -KVM_EINVAL),
		FIELD(param.event_addr, 32, -KVM_EINVAL),
		FIELD(param.event_addr, NO_MEMORY, -KVM_EFAULT),
		FIELD(param.event_addr, RO_MEMORY, -KVM_EFAULT),
		FIELD(param.event_addr, 1ull << 63, -KVM_EFAULT),
		FIELD(param.id, KVM_PERF_ID_ALL, -KVM_EINVAL),
		FIELD(param.id, 1ull << 32, -KVM_EINVAL),
		FIELD(attr.size, 55, -KVM_EINVAL),
		FIELD(attr.size, 257, -KVM_EINVAL),
		FIELD(attr.size, 56 | 7ull << 32, -KVM_EINVAL),
		FIELD(attr.size, 56 | 1ull << 32, -KVM_EINVAL),
		FIELD(attr.config, 1ull << 16, -KVM_EINVAL),
		FIELD(attr.config1, 1, -KVM_EOPNOTSUPP),
		FIELD(attr.config2, 1, -KVM_EOPNOTSUPP),
		FIELD(attr.sample_period, 1ull << 63, -KVM_EINVAL),
		FIELD(attr.flags, KVM_PERF_ATTR_FREQ, -KVM_EINVAL),
		FIELD(attr.flags, 256, -KVM_EINVAL),
		FIELD(attr.flags, 1ull << 31, -KVM_EINVAL),
		FIELD(attr.model, 1ull << 32, -KVM_EINVAL),
		/* HARDWARE: one that there is not, one the host has not. */
		FIELD(attr.config, 0x10000000000, -KVM_EINVAL),
	};
	size_t i;

	setup();
	for (i = 0; i < ARRAY_SIZE(t); i++) {
		param(1, 1);
		memcpy((u8 *)mem + t[i].offset, &t[i].value, sizeof(u64));
		open_fails(t[i].what, t[i].want);
	}

	mem->attr.type = KVM_PERF_TYPE_HARDWARE;
	mem->attr.config = KVM_PERF_NR_HW_EVENTS;
	open_fails("HARDWARE 10", -KVM_EINVAL);
	mem->attr.type = KVM_PERF_TYPE_HARDWARE;
	mem->attr.config = 1ull << 32;
	open_fails("HARDWARE of another PMU", -KVM_EINVAL);
	mem->attr.type = KVM_PERF_TYPE_HARDWARE;
	mem->attr.config = PERF_COUNT_HW_CACHE_REFERENCES;
	open_fails("HARDWARE that the host has not", -KVM_EOPNOTSUPP);
	mem->attr.type = KVM_PERF_TYPE_HW_CACHE;
	mem->attr.config = 1ull << 24;
	open_fails("HW_CACHE with 25 bits", -KVM_EINVAL);
	mem->attr.type = KVM_PERF_TYPE_HW_CACHE;
	mem->attr.config = PERF_COUNT_HW_CACHE_NODE;
	open_fails("HW_CACHE that the host has not", -KVM_EOPNOTSUPP);
	mem->attr.type = KVM_PERF_TYPE_HW_CACHE;
	mem->attr.config = 0xffffff;
	open_fails("HW_CACHE that there is not", -KVM_EINVAL);
	mem->attr.flags = KVM_PERF_ATTR_FREQ;
	mem->attr.sample_period = 1ull << 31;
	open_fails("a frequency of 2^31", -KVM_EINVAL);
	mem->attr.size = GUEST_PERF_ATTR_SIZE_MAX;
	((u8 *)&mem->attr)[GUEST_PERF_ATTR_SIZE_MAX - 1] = 1;
	open_fails("a bit in what is unknown of the attr", -KVM_EINVAL);

	is("OPEN at 4", call(KVM_PERF_OP_OPEN, 4), -KVM_EINVAL);
	is("OPEN of no memory", call(KVM_PERF_OP_OPEN, NO_MEMORY),
	   -KVM_EFAULT);
	is("OPEN across the end of memory",
	   call(KVM_PERF_OP_OPEN, SLOT_PAGES * PAGE_SIZE - 8), -KVM_EFAULT);
	is("OPEN above 4 GB", call3(KVM_PERF_OP_OPEN, 0, 1, 0), -KVM_EFAULT);
	teardown();
}

static void test_open_refused(void)
{
	static const struct {
		int error;
		long want;
	} t[] = {
		{ -ENOMEM, -KVM_ENOSPC }, { -EBUSY, -KVM_EBUSY },
		{ -ENOENT, -KVM_EOPNOTSUPP }, { -EINVAL, -KVM_EINVAL },
		{ -ENODEV, -KVM_EOPNOTSUPP }, { -EACCES, -KVM_EOPNOTSUPP },
	};
	size_t i;

	setup();
	param(1, 1);
	for (i = 0; i < ARRAY_SIZE(t); i++) {
		create_error = t[i].error;
		open_fails("the host's perf refuses", t[i].want);
	}
	kvm->denied_event = 0xc0;
	open_fails("the filter refuses", -KVM_EOPNOTSUPP);
	mem->attr.type = KVM_PERF_TYPE_HARDWARE;
	mem->attr.config = PERF_COUNT_HW_INSTRUCTIONS;
	open_fails("the filter refuses HARDWARE", -KVM_EOPNOTSUPP);
	mem->attr.config = 0xc1;
	is("the filter lets others pass", do_open(), 0);
	kvm->denied_event = 0;
	is("the id again", open_id(1), -KVM_EEXIST);
	teardown();
}

static void test_attr(void)
{
	struct perf_event_attr *attr;

	setup();
	param(1, 1);
	mem->attr.size = GUEST_PERF_ATTR_SIZE_MAX;
	mem->attr.type = KVM_PERF_TYPE_HW_CACHE;
	mem->attr.config = PERF_COUNT_HW_CACHE_DTLB;
	mem->attr.flags = KVM_PERF_ATTR_EXCLUDE_USER | KVM_PERF_ATTR_FREQ;
	mem->attr.sample_period = 1000;
	memset(&mem->record[1], 0x5a, sizeof(mem->record[1]));
	is("OPEN with the largest attr", do_open(), 0);
	is("the record is 0", !memchr_inv(&mem->record[1], 0, 64), true);
	attr = &event(1)->backing->attr;
	is("frequency", event(1)->freq.hz, 1000);
	is("of which perf does not know",
	   attr->freq || atomic_read(&nr_freq_events), false);
	is("type", attr->type, PERF_TYPE_HW_CACHE);
	is("exclude_user", attr->exclude_user && !attr->exclude_kernel, true);

	param(2, 2);
	mem->attr.flags = KVM_PERF_ATTR_EXCLUDE_KERNEL;
	mem->attr.sample_period = S64_MAX;
	is("OPEN with the longest period", do_open(), 0);
	attr = &event(2)->backing->attr;
	is("period", !attr->freq && attr->sample_period == S64_MAX, true);
	is("exclude_kernel", attr->exclude_kernel && !attr->exclude_user, true);
	teardown();
}

static void test_charge(void)
{
	u64 before;

	setup();
	open_id(1);
	before = charged;
	open_id(2);
	is("an OPEN is charged with what perf allocates for it, too",
	   charged - before >= sizeof(struct perf_event) +
	   offsetof(struct pv_perf_event, charge), true);
	teardown();
}

static void test_unknown_id(void)
{
	setup();
	is("CLOSE", call(KVM_PERF_OP_CLOSE, 7), -KVM_ENOENT);
	is("ENABLE", call(KVM_PERF_OP_ENABLE, 7), -KVM_ENOENT);
	is("DISABLE", call(KVM_PERF_OP_DISABLE, 7), -KVM_ENOENT);
	is("READ", call(KVM_PERF_OP_READ, 7), -KVM_ENOENT);
	is("READ of none", call(KVM_PERF_OP_READ, KVM_PERF_ID_ALL),
	   -KVM_ENOENT);
	is("SET_PERIOD", call3(KVM_PERF_OP_SET_PERIOD, 7, 1, 0), -KVM_ENOENT);
	is("SET_LEFT", call3(KVM_PERF_OP_SET_LEFT, 7, 1, 0), -KVM_ENOENT);
	teardown();
}

static void test_counting(void)
{
	struct guest_perf_event *r;

	setup();
	r = &mem->record[1];
	open_id(1);
	run_guest(100);
	is("READ of a disabled event", call(KVM_PERF_OP_READ, 1), 0);
	is("has counted nothing", r->count, 0);
	is("ENABLE", call(KVM_PERF_OP_ENABLE, 1), 0);
	run_guest(100);
	is("ENABLE again", call(KVM_PERF_OP_ENABLE, 1), 0);
	run_guest(11);
	kvm->memslots.slot[0].dirty[RECORD(1) >> PAGE_SHIFT] = false;
	is("READ", call(KVM_PERF_OP_READ, 1), 0);
	is("count", r->count, 111);
	is("time enabled", r->time_enabled, 111);
	is("time running", r->time_running, 111);
	is("period_left", r->period_left, 0);
	is("sequence", r->sequence, 4);
	is("dirty", kvm->memslots.slot[0].dirty[RECORD(1) >> PAGE_SHIFT], 1);
	r->sequence = 77;
	is("READ from the other vCPU", (on(1), call(KVM_PERF_OP_READ, 1)), 0);
	is("the host's own sequence", r->sequence, 6);
	is("READ all of the other vCPU", call(5, KVM_PERF_ID_ALL),
	   -KVM_ENOENT);
	on(0);
	is("DISABLE", call(KVM_PERF_OP_DISABLE, 1), 0);
	run_guest(1000);
	call(KVM_PERF_OP_READ, 1);
	is("final count", r->count, 111);
	is("ENABLE once more", call(KVM_PERF_OP_ENABLE, 1), 0);
	run_guest(9);
	task_sched_out(tasks[0]);
	run_guest(1000);
	on(1);
	is("READ while the thread does not run", call(KVM_PERF_OP_READ, 1), 0);
	is("count while it does not run", r->count, 120);
	is("time while it does not run", r->time_enabled, 120);
	task_sched_in(tasks[0]);
	on(0);
	run_guest(1);
	is("READ all", call(5, KVM_PERF_ID_ALL), 0);
	is("count of READ all", r->count, 121);
	is("time of READ all", r->time_running, 121);
	is("CLOSE", call(KVM_PERF_OP_CLOSE, 1), 0);
	is("READ of a closed event", call(KVM_PERF_OP_READ, 1), -KVM_ENOENT);
	is("RESET", (open_id(2), open_id(3), call(9, 0)), 0);
	is("leaves no event", atomic_read(&nr_backing_events), 0);
	teardown();
}

static void test_move(void)
{
	struct guest_perf_event *r;
	struct task_struct *old;

	setup();
	r = &mem->record[1];
	open_sampling(1, 1000);
	call(KVM_PERF_OP_ENABLE, 1);
	run_guest(300);
	on(1);
	create_error = -ENOMEM;
	is("ENABLE elsewhere, no memory", call(3, 1), -KVM_ENOSPC);
	take_counters(tasks[1], NR_COUNTERS);
	is("ENABLE elsewhere, no counter", call(3, 1), -KVM_EBUSY);
	take_counters(tasks[1], 0);
	on(0);
	run_guest(1);
	is("the event counts on", (call(5, 1), r->count), 301);
	on(1);
	is("ENABLE elsewhere", call(KVM_PERF_OP_ENABLE, 1), 0);
	run_guest(200);
	is("READ there", call(KVM_PERF_OP_READ, 1), 0);
	is("the count carries on", r->count, 501);
	is("so do the times", r->time_enabled == 501 &&
	   r->time_running == 501, true);
	is("and the period", r->period_left, 499);
	on(0);
	run_guest(1000);
	is("it counts no more where it was", (call(5, 1), r->count), 501);
	is("a disabled event moves, too", (call(4, 1), call(3, 1)), 0);

	/* From the lower address to the higher, and back. */
	open_id(2);
	on(1);
	is("there", call(3, 2), 0);
	on(0);
	is("and back", call(3, 2), 0);

	/* The vCPU gets another thread. */
	old = tasks[0];
	tasks[0] = task_create(0);
	on(0);
	task_exit(old);
	is("READ with a new thread", call(KVM_PERF_OP_READ, 1), 0);
	is("ENABLE with a new thread", call(KVM_PERF_OP_ENABLE, 1), 0);
	run_guest(5);
	is("READ", call(KVM_PERF_OP_READ, 1), 0);
	is("counts on", r->count, 506);
	teardown();
}

/* The VMM runs vCPU 0 by another thread. */
static void replace_thread(void)
{
	struct task_struct *old = tasks[0];

	tasks[0] = task_create(0);
	on(0);
	task_exit(old);
}

static void test_follow(void)
{
	struct guest_perf_event *r;

	setup();
	pv_perf_vcpu_run(vcpus[0]);
	r = &mem->record[1];
	open_sampling(1, 1000);
	open_id(2);
	call(KVM_PERF_OP_ENABLE, 1);
	run_guest(300);
	replace_thread();
	pv_perf_vcpu_run(vcpus[0]);
	is("an event follows to another thread",
	   event(1)->backing->hw.target == current, true);
	is("one that is not enabled does not",
	   event(2)->backing->hw.target == current, false);
	run_guest(5);
	is("READ", call(KVM_PERF_OP_READ, 1), 0);
	is("the count carries on", r->count, 305);
	is("and the period", r->period_left, 695);

	replace_thread();
	create_error = -ENOMEM;
	pv_perf_vcpu_run(vcpus[0]);
	is("without memory for that the guest is told",
	   (enter_guest(), r->flags), KVM_PERF_EVENT_LOST);
	run_guest(5);
	pv_perf_vcpu_run(vcpus[0]);
	enter_guest();
	run_guest(5);
	is("what was lost stays so, with memory", r->flags,
	   KVM_PERF_EVENT_LOST);
	is("READ has it go on", call(KVM_PERF_OP_READ, 1), -KVM_EBUSY);
	run_guest(5);
	is("and is right from then on", call(KVM_PERF_OP_READ, 1), 0);
	is("the count of what came after", r->count, 310);

	replace_thread();
	take_counters(tasks[0], NR_COUNTERS);
	pv_perf_vcpu_run(vcpus[0]);
	is("the guest is told that it found no counter there",
	   (enter_guest(), r->flags), KVM_PERF_EVENT_LOST);
	run_guest(5);
	is("READ without a counter there", call(KVM_PERF_OP_READ, 1),
	   -KVM_EBUSY);
	take_counters(tasks[0], 0);
	is("READ that finds one", call(KVM_PERF_OP_READ, 1), -KVM_EBUSY);
	run_guest(5);
	is("READ of what goes on", call(KVM_PERF_OP_READ, 1), 0);
	is("the count", r->count, 315);
	teardown();
}

/* A vCPU and a thread, whichever. */
static long call_on(int vcpu, u64 op, u64 a1)
{
	long ret = pv_perf_hypercall(vcpus[vcpu], op, a1, 0, 0);

	pv_perf_instruction_retired(vcpus[vcpu]);
	return ret;
}

static void run_on(int vcpu, u64 n)
{
	pv_perf_vcpu_run(vcpus[vcpu]);
	run_guest(n);
}

static void start_on(int vcpu, u32 id, u64 period)
{
	param(id, id);
	mem->attr.sample_period = period;
	CHECK(!call_on(vcpu, KVM_PERF_OP_OPEN, GPA(param)));
	CHECK(!call_on(vcpu, KVM_PERF_OP_ENABLE, id));
}

static u64 count_on(int vcpu, u32 id)
{
	CHECK(!call_on(vcpu, KVM_PERF_OP_READ, id));
	return mem->record[id].count;
}

/* A thread runs both vCPUs in turn. */
static void test_turns(void)
{
	int i;

	setup();
	run_on(0, 1);
	start_on(0, 1, 1000);
	run_on(0, 300);
	run_on(1, 5);
	is("while its thread runs another vCPU, an event does not count",
	   count_on(1, 1), 300);
	is("and its times stand still", mem->record[1].time_enabled, 300);
	for (i = 0; i < NR_COUNTERS; i++)
		start_on(1, 10 + i, 0);
	is("that has all counters", NR_COUNTERS, 4);
	run_on(1, 2000);
	is("no overflow", atomic_read(&event(1)->overflows), 0);
	for (i = 0; i < NR_COUNTERS; i++)
		CHECK(count_on(1, 10 + i) == 2000);
	run_on(0, 600);
	is("it goes on where it was", count_on(0, 1), 900);
	is("so does its period", mem->record[1].period_left, 100);
	is("the other's do not count now", count_on(0, 10), 2000);
	run_on(0, 100);
	is("an overflow", enter_guest(), 1);
	run_on(1, 7);
	is("and theirs", count_on(1, 13), 2007);

	call_on(1, KVM_PERF_OP_DISABLE, 1);
	is("what was disabled meanwhile", count_on(1, 1), 1000);
	run_on(0, 50);
	is("does not go on", count_on(0, 1), 1000);
	is("until ENABLE", call_on(0, KVM_PERF_OP_ENABLE, 1), 0);
	run_on(0, 50);
	run_on(1, 50);
	is("ENABLE by the other moves it", call_on(1, KVM_PERF_OP_ENABLE, 1),
	   -KVM_EBUSY);
	call_on(1, KVM_PERF_OP_CLOSE, 13);
	is("where there is a counter", call_on(1, KVM_PERF_OP_ENABLE, 1), 0);
	run_on(1, 50);
	is("it has counted the one and then the other", count_on(1, 1), 1100);
	run_on(0, 50);
	call_on(0, KVM_PERF_OP_RESET, 0);
	run_on(1, 50);
	teardown();
}

/* The counter is lost before the other vCPU runs, or while it does. */
static void test_turns_lost(void)
{
	setup();
	start_on(0, 1, 0);
	run_on(0, 10);
	take_counters(current, NR_COUNTERS);
	run_on(1, 10);
	take_counters(current, 0);
	is("READ of one that was lost before", call_on(1, 5, 1), -KVM_EBUSY);
	run_on(1, 10);
	is("does not have it count another vCPU", mem->record[1].count, 10);
	run_on(0, 10);
	is("READ has it go on", call_on(0, 5, 1), -KVM_EBUSY);
	run_on(0, 10);
	is("its count", count_on(0, 1), 20);

	run_on(1, 10);
	take_counters(current, NR_COUNTERS);
	run_on(0, 10);
	is("READ of one whose counter was taken meanwhile", call_on(0, 5, 1),
	   -KVM_EBUSY);
	take_counters(current, 0);
	teardown();
}

/* Two threads, each of which runs the vCPU that the other has run. */
static void test_swap(void)
{
	int i;

	setup();
	for (i = 0; i < 2; i++) {
		on(i);
		start_on(i, i, 0);
		run_on(i, 10);
	}
	on(0);
	run_on(1, 100);
	is("the other thread's vCPU counts itself", count_on(1, 1), 110);
	is("and not what this thread ran before", count_on(1, 0), 10);
	on(1);
	run_on(0, 1000);
	is("the same there", count_on(0, 0), 1010);
	is("and for the other", count_on(0, 1), 110);

	on(0);
	create_error = -ENOMEM;
	run_on(0, 5);
	is("no memory to follow: READ says so", call_on(0, 5, 0), -KVM_EBUSY);
	is("it does not count", mem->record[0].count, 1010);
	on(1);
	run_on(1, 5);
	is("READ from elsewhere", call_on(1, 5, 0), -KVM_EBUSY);
	is("nor does it count what its thread runs", mem->record[0].count,
	   1010);
	is("but that counts", count_on(1, 1), 115);
	on(0);
	run_on(0, 5);
	is("READ where it can follow", call_on(0, 5, 0), -KVM_EBUSY);
	run_on(0, 5);
	is("has it go on", count_on(0, 0), 1015);
	teardown();
}

/* A thread runs vCPUs of two VMs in turn. */
static void test_two_vms(void)
{
	struct kvm *first;
	struct kvm_vcpu *vcpu;
	struct layout *first_mem;

	setup();
	start_on(0, 1, 0);
	run_on(0, 10);
	first = kvm;
	first_mem = mem;
	vcpu = vcpus[0];

	kvm = vm_create();
	vcpus[0] = vcpu_create(kvm, 0);
	mem = (struct layout *)kvm->memslots.slot[0].memory;
	run_on(0, 100);
	start_on(0, 1, 0);
	run_on(0, 100);
	is("another VM's vCPU counts itself", count_on(0, 1), 100);
	vcpu_destroy(vcpus[0]);
	vm_destroy(kvm);

	vm_use(first);
	kvm = first;
	mem = first_mem;
	vcpus[0] = vcpu;
	is("and not for the first", count_on(1, 1), 10);
	run_on(0, 10);
	is("which goes on", count_on(0, 1), 20);
	teardown();
}

/* One that is to wait for the rate waits for its thread, too. */
static void test_turns_throttled(void)
{
	setup();
	*param_pv_perf_max_rate = 1000;
	start_on(0, 1, 10);
	run_on(0, 1000);
	enter_guest();
	is("an event overflows too often", is_limited(1), true);
	run_on(1, 2 * NSEC_PER_SEC);
	is("the time for it to go on comes while another vCPU runs",
	   count_on(1, 1), 1000);
	pv_perf_vcpu_run(vcpus[0]);
	enter_guest();
	is("it goes on with its own", is_limited(1), false);
	run_on(0, 5);
	is("and counts", count_on(0, 1), 1005);

	/* It follows to another thread later. */
	run_on(0, 1000);
	enter_guest();
	is("too often again", is_limited(1), true);
	replace_thread();
	create_error = -ENOMEM;
	run_on(0, 2 * NSEC_PER_SEC);
	enter_guest();
	is("no memory to follow: it waits", is_limited(1), true);
	pv_perf_vcpu_run(vcpus[0]);
	enter_guest();
	is("it follows", is_limited(1), false);
	is("and has lost its counter meanwhile", mem->record[1].flags,
	   KVM_PERF_EVENT_LOST);
	*param_pv_perf_max_rate = 100000;
	teardown();
}

/* The VMM stops vCPU 0, perhaps to save the guest's memory. */
static void test_pause(void)
{
	static const u32 completed[] = {
		KVM_EXIT_IO, KVM_EXIT_MMIO, KVM_EXIT_HYPERCALL, KVM_EXIT_XEN,
		KVM_EXIT_X86_RDMSR, KVM_EXIT_X86_WRMSR,
	};
	struct guest_perf_event *r;
	unsigned int i;

	setup();
	pv_perf_vcpu_leave(vcpus[0], -EINTR);
	r = &mem->record[1];
	open_sampling(1, 1000);
	open_id(2);
	call(KVM_PERF_OP_ENABLE, 1);
	run_guest(300);
	memset(&mem->record[2], 0xa5, sizeof(*r));
	pv_perf_vcpu_leave(vcpus[0], -EINTR);
	is("the count of a vCPU that is stopped", r->count, 300);
	is("what is left of the period", r->period_left, 700);
	is("the record of one that does not count",
	   mem->record[2].count == 0xa5a5a5a5a5a5a5a5, true);
	run_guest(800);
	is("an overflow is not told of", r->overflows, 0);
	pv_perf_vcpu_leave(vcpus[0], -EINTR);
	is("before it is stopped", r->overflows, 1);
	is("and the count", r->count, 1100);

	run_guest(10);
	for (i = 0; i < ARRAY_SIZE(completed); i++) {
		vcpus[0]->run->exit_reason = completed[i];
		pv_perf_vcpu_leave(vcpus[0], 0);
		is("what has to be completed first stops nothing", r->count,
		   1100);
	}
	vcpus[0]->run->exit_reason = KVM_EXIT_HLT;
	pv_perf_vcpu_leave(vcpus[0], 0);
	is("a halt that the VMM handles does", r->count, 1110);
	run_guest(10);
	pv_perf_vcpu_leave(vcpus[0], -EFAULT);
	is("so does an error", r->count, 1120);
	teardown();
}

static long set_area(gpa_t gpa)
{
	return call(KVM_PERF_OP_SET_AREA, gpa);
}

static void test_set_area(void)
{
	u32 epoch;

	setup();
	mem->area.size = GUEST_PERF_AREA_SIZE_VER0 - 1;
	is("an area that is too small: EINVAL", set_area(GPA(area)),
	   -KVM_EINVAL);
	mem->area.size = GUEST_PERF_AREA_ALIGN + 1;
	is("one that is larger than a page: EINVAL", set_area(GPA(area)),
	   -KVM_EINVAL);
	/* The size there is a right one. */
	*(u32 *)((char *)&mem->area + 2048) = sizeof(mem->area);
	is("at half a page: EINVAL", set_area(GPA(area) + 2048), -KVM_EINVAL);
	*(u32 *)((char *)&mem->area + 2048) = 0;
	is("where no memory is: EFAULT", set_area(NO_MEMORY), -KVM_EFAULT);
	*(u32 *)kvm->memslots.slot[1].memory = sizeof(mem->area);
	is("in memory that is not to be written: EFAULT", set_area(RO_MEMORY),
	   -KVM_EFAULT);
	pv_perf_vcpu_leave(vcpus[0], -EINTR);
	is("none of these is written", mem->area.epoch, 0);

	mem->area.size = GUEST_PERF_AREA_ALIGN;
	is("SET_AREA", set_area(GPA(area)), 0);
	epoch = mem->area.epoch;
	is("there is an epoch", epoch != 0, true);
	is("and a size", mem->area.size, sizeof(mem->area));
	mem->area.size = 1;
	is("SET_AREA that fails", set_area(GPA(area)), -KVM_EINVAL);
	pv_perf_vcpu_leave(vcpus[0], -EINTR);
	is("leaves what there was", mem->area.epoch & 1, 0);
	mem->area.size = sizeof(mem->area);
	is("SET_AREA once more", set_area(GPA(area)), 0);
	is("is another epoch", mem->area.epoch != epoch, true);
	epoch = mem->area.epoch;
	is("SET_AREA to nowhere", set_area(0), 0);
	pv_perf_vcpu_leave(vcpus[0], -EINTR);
	is("nothing is written any more", mem->area.epoch, epoch);
	teardown();
}

static void test_area(void)
{
	u32 epoch;

	setup();
	mem->area.size = sizeof(mem->area);
	CHECK(!set_area(GPA(area)));
	epoch = mem->area.epoch;
	vcpus[0]->run->exit_reason = KVM_EXIT_MMIO;
	pv_perf_vcpu_leave(vcpus[0], 0);
	is("an access to be completed hides no area", mem->area.epoch, epoch);
	kvm->memslots.slot[0].dirty[gpa_to_gfn(GPA(area))] = false;
	pv_perf_vcpu_leave(vcpus[0], -EINTR);
	is("what the VMM may save has no epoch", mem->area.epoch & 1, 0);
	is("and is saved again",
	   kvm->memslots.slot[0].dirty[gpa_to_gfn(GPA(area))], true);
	pv_perf_vcpu_run(vcpus[0]);
	is("as it runs on it is the same", mem->area.epoch, epoch);
	is("without an NMI", enter_guest(), 0);

	pv_perf_vcpu_leave(vcpus[0], -EINTR);
	kvm->memslots.slot[0].absent[gpa_to_gfn(GPA(area))] = true;
	pv_perf_vcpu_run(vcpus[0]);
	is("memory that is not there gets none", mem->area.epoch & 1, 0);
	kvm->memslots.slot[0].absent[gpa_to_gfn(GPA(area))] = false;
	pv_perf_vcpu_leave(vcpus[0], -EINTR);
	pv_perf_vcpu_run(vcpus[0]);
	is("and once it is back it does", mem->area.epoch, epoch);

	on(1);
	is("RESET by another vCPU", call(KVM_PERF_OP_RESET, 0), 0);
	on(0);
	is("ends it", mem->area.epoch, 0);
	pv_perf_vcpu_run(vcpus[0]);
	is("for good", mem->area.epoch, 0);

	CHECK(!set_area(GPA(area)));
	is("another epoch", mem->area.epoch != epoch, true);
	epoch = mem->area.epoch;
	pv_perf_vcpu_reset(vcpus[0]);
	pv_perf_vcpu_leave(vcpus[0], -EINTR);
	pv_perf_vcpu_run(vcpus[0]);
	is("after a reset it is written no more", mem->area.epoch, epoch);
	teardown();
}

/* By a VMM without KVM's local APIC, which tells KVM nothing of it. */
static void test_restored_in_place(void)
{
	static u8 saved[PAGE_SIZE];
	u32 epoch, hidden;

	setup();
	mem->area.size = sizeof(mem->area);
	CHECK(!set_area(GPA(area)));
	epoch = mem->area.epoch;
	CHECK(!open_id(1) && !call(KVM_PERF_OP_ENABLE, 1));
	run_guest(100);
	pv_perf_vcpu_leave(vcpus[0], -EINTR);
	hidden = mem->area.epoch;
	memcpy(saved, &mem->area, sizeof(saved));
	pv_perf_vcpu_run(vcpus[0]);
	is("a VM that was saved, and goes on", mem->area.epoch, epoch);
	pv_perf_vcpu_leave(vcpus[0], -EINTR);
	is("is hidden by another number each time", mem->area.epoch != hidden &&
	   !(mem->area.epoch & 1), true);
	pv_perf_vcpu_run(vcpus[0]);
	run_guest(1000);
	is("its event counts on", call(KVM_PERF_OP_READ, 1), 0);
	pv_perf_vcpu_leave(vcpus[0], -EINTR);

	memcpy(&mem->area, saved, sizeof(saved));
	memset(mem->record, 0x5a, sizeof(mem->record));
	pv_perf_vcpu_run(vcpus[0]);
	is("a VM that is restored in place has no epoch", mem->area.epoch, hidden);
	is("and no event of the time that is gone", call(KVM_PERF_OP_READ, 1),
	   -KVM_ENOENT);
	is("whose record is not written", !memchr_inv(mem->record, 0x5a,
		sizeof(mem->record)), true);
	is("nor does it get an NMI that it may not know", enter_guest(), 0);
	pv_perf_vcpu_leave(vcpus[0], -EINTR);
	pv_perf_vcpu_run(vcpus[0]);
	is("nor is its area written any more", mem->area.epoch, hidden);
	CHECK(!set_area(GPA(area)));
	is("until it sets one", mem->area.epoch & 1, 1);
	is("and opens its event", open_id(1), 0);

	pv_perf_vcpu_leave(vcpus[0], -EINTR);
	kvm->memslots.slot[0].absent[gpa_to_gfn(GPA(area))] = true;
	pv_perf_vcpu_run(vcpus[0]);
	is("memory that is not there was not restored", event(1) != NULL, true);
	kvm->memslots.slot[0].absent[gpa_to_gfn(GPA(area))] = false;
	teardown();
}

#define ALL_COUNTS	(BIT(KVM_PERF_NR_COUNTS) - 1)

static long set_counts(u64 wanted)
{
	return call3(KVM_PERF_OP_SET_COUNTS, (u32)wanted, wanted >> 32, 0);
}

/* As often as there is something to be handled first.  NMIs of that. */
static int enter_counting(void)
{
	unsigned long flags;
	bool again;
	int nmis;

	do {
		handle_requests(here());
		local_irq_save(flags);
		pv_perf_enter(here(), PV_PERF_ENTRY_ANEW);
		again = kvm_test_request(KVM_REQ_PV_PERF, here());
		local_irq_restore(flags);
	} while (again);
	nmis = atomic_xchg(&here()->arch.nmi_queued, 0);
	kvm_check_request(KVM_REQ_NMI, here());
	return nmis;
}

static void leave_for(u32 reason)
{
	unsigned long flags;

	here()->arch.exit.reason = reason;
	local_irq_save(flags);
	pv_perf_exit(here());
	local_irq_restore(flags);
}

/* The vCPU exits, and enters once that is handled.  Its NMIs. */
static int exit_for(u32 reason)
{
	leave_for(reason);
	return enter_counting();
}

static void test_set_counts(void)
{
	struct kvm_enable_cap cap = { .cap = KVM_CAP_PV_PERF_COUNTS };

	setup();
	is("SET_COUNTS without an area: EINVAL", set_counts(1), -KVM_EINVAL);
	mem->area.size = sizeof(mem->area);
	CHECK(!set_area(GPA(area)));
	is("an event that there is not: EINVAL",
	   set_counts(BIT(KVM_PERF_NR_COUNTS)), -KVM_EINVAL);
	is("or not yet: EINVAL", set_counts(1ull << 32), -KVM_EINVAL);
	is("SET_COUNTS", set_counts(ALL_COUNTS), 0);
	is("is looked at", here()->arch.pv_perf->at_entry,
	   PV_PERF_AT_ENTRY_COUNTS);
	CHECK(!call(KVM_PERF_OP_RESET, 0));
	enter_counting();
	is("SET_COUNTS after RESET: EINVAL", set_counts(1), -KVM_EINVAL);
	teardown();

	setup();
	mem->area.size = sizeof(mem->area);
	CHECK(!set_area(GPA(area)));
	here()->arch.pv_cpuid.features &= ~(1u << KVM_FEATURE_STEAL_TIME);
	is("steal time that the VMM withholds: EOPNOTSUPP",
	   set_counts(BIT(KVM_PERF_COUNT_STEAL_NS)), -KVM_EOPNOTSUPP);
	is("and preemptions: EOPNOTSUPP",
	   set_counts(BIT(KVM_PERF_COUNT_PREEMPTIONS)), -KVM_EOPNOTSUPP);
	is("and the host's time: EOPNOTSUPP",
	   set_counts(BIT(KVM_PERF_COUNT_HOST_NS)), -KVM_EOPNOTSUPP);
	mem->query.size = sizeof(mem->query);
	CHECK(!call(KVM_PERF_OP_QUERY, GPA(query)));
	is("QUERY does not offer them", mem->query.counts, ALL_COUNTS &
	   ~(BIT(KVM_PERF_COUNT_STEAL_NS) | BIT(KVM_PERF_COUNT_PREEMPTIONS) |
	     BIT(KVM_PERF_COUNT_HOST_NS)));
	is("all that it offers is counted", set_counts(mem->query.counts), 0);
	teardown();

	*param_pv_perf_counts = 0x6;
	setup();
	mem->area.size = sizeof(mem->area);
	CHECK(!set_area(GPA(area)));
	is("what the host keeps to itself: EOPNOTSUPP", set_counts(0x8),
	   -KVM_EOPNOTSUPP);
	is("what it does not", set_counts(0x2), 0);
	mem->query.size = sizeof(mem->query);
	CHECK(!call(KVM_PERF_OP_QUERY, GPA(query)));
	is("QUERY tells", mem->query.counts, 0x6);
	is("so does KVM_CHECK_EXTENSION",
	   host_extension(KVM_CAP_PV_PERF_COUNTS), 0x6);
	teardown();

	tasks[0] = task_create(0);
	kvm = vm_create();
	cap.args[0] = 0x8;
	is("the VMM cannot let it have more", pv_perf_enable_cap(kvm, &cap),
	   -EINVAL);
	cap.args[0] = 0x4;
	is("but less", pv_perf_enable_cap(kvm, &cap), 0);
	is("which holds", pv_perf_check_extension(kvm, KVM_CAP_PV_PERF_COUNTS),
	   0x4);
	vm_destroy(kvm);
	task_put(tasks[0]);
	*param_pv_perf_counts = ALL_COUNTS;
}

static u64 kernel_count(int nr)
{
	return mem->area.count[nr][0];
}

static void count_all(void)
{
	setup();
	mem->area.size = sizeof(mem->area);
	CHECK(!set_area(GPA(area)) && !set_counts(ALL_COUNTS));
}

static void test_exits(void)
{
	static const struct {
		u32 svm, vmx, count;
	} exits[] = {
		{ SVM_EXIT_IOIO, EXIT_REASON_IO_INSTRUCTION,
		  KVM_PERF_COUNT_EXITS_IO },
		{ SVM_EXIT_MSR, EXIT_REASON_MSR_READ, KVM_PERF_COUNT_EXITS_MSR },
		{ SVM_EXIT_CPUID, EXIT_REASON_CPUID,
		  KVM_PERF_COUNT_EXITS_CPUID },
		{ SVM_EXIT_HLT, EXIT_REASON_HLT, KVM_PERF_COUNT_EXITS_HLT },
		{ SVM_EXIT_NPF, EXIT_REASON_EPT_VIOLATION,
		  KVM_PERF_COUNT_EXITS_NPF },
		{ SVM_EXIT_INTR, EXIT_REASON_EXTERNAL_INTERRUPT,
		  KVM_PERF_COUNT_EXITS_INTERRUPT },
		{ SVM_EXIT_VINTR, EXIT_REASON_PREEMPTION_TIMER,
		  KVM_PERF_COUNT_EXITS_INTERRUPT },
		{ SVM_EXIT_NMI, EXIT_REASON_NMI_WINDOW,
		  KVM_PERF_COUNT_EXITS_NMI },
		{ SVM_EXIT_IRET, EXIT_REASON_NMI_WINDOW,
		  KVM_PERF_COUNT_EXITS_NMI },
		{ SVM_EXIT_VMMCALL, EXIT_REASON_VMCALL,
		  KVM_PERF_COUNT_EXITS_HYPERCALL },
		{ SVM_EXIT_PAUSE, EXIT_REASON_EXCEPTION_NMI,
		  KVM_PERF_COUNT_EXITS_OTHER },
		{ SVM_EXIT_READ_CR0, EXIT_REASON_CR_ACCESS,
		  KVM_PERF_COUNT_EXITS_OTHER },
	};
	int vendor = boot_cpu_data.x86_vendor;
	u64 before;
	size_t i;

	count_all();
	for (i = 0; i < ARRAY_SIZE(exits); i++) {
		before = kernel_count(exits[i].count);
		exit_for(exits[i].svm);
		is("an exit of SVM", kernel_count(exits[i].count) - before, 1);
		before = kernel_count(exits[i].count);
		boot_cpu_data.x86_vendor = X86_VENDOR_INTEL;
		exit_for(exits[i].vmx);
		boot_cpu_data.x86_vendor = vendor;
		is("and of VMX", kernel_count(exits[i].count) - before, 1);
	}
	boot_cpu_data.x86_vendor = X86_VENDOR_INTEL;
	here()->arch.exit.intr_info = INTR_TYPE_NMI_INTR;
	before = kernel_count(KVM_PERF_COUNT_EXITS_NMI);
	exit_for(EXIT_REASON_EXCEPTION_NMI);
	is("an NMI of VMX", kernel_count(KVM_PERF_COUNT_EXITS_NMI) - before, 1);
	exit_for(EXIT_REASON_EPT_MISCONFIG);
	boot_cpu_data.x86_vendor = vendor;
	kvm->memslots.slot[0].internal = true;
	exit_for(SVM_EXIT_NPF);
	kvm->memslots.slot[0].internal = false;
	is("where KVM's own memory is", kernel_count(KVM_PERF_COUNT_EXITS_MMIO),
	   2);
	here()->arch.exit.gpa = NO_MEMORY;
	exit_for(SVM_EXIT_NPF);
	is("where no memory is", kernel_count(KVM_PERF_COUNT_EXITS_MMIO), 3);
	exit_for(SVM_EXIT_AVIC_UNACCELERATED_ACCESS);
	is("at the APIC", kernel_count(KVM_PERF_COUNT_EXITS_MMIO), 4);

	here()->arch.cpl = 3;
	exit_for(SVM_EXIT_CPUID);
	is("in user mode", mem->area.count[KVM_PERF_COUNT_EXITS_CPUID][1], 1);
	here()->arch.exit.rax = KVM_PERF_OP;
	exit_for(SVM_EXIT_VMMCALL);
	is("which may not ask for events",
	   mem->area.count[KVM_PERF_COUNT_EXITS_HYPERCALL][1], 1);
	here()->arch.cpl = 0;
	exit_for(SVM_EXIT_VMMCALL);
	is("our own", kernel_count(KVM_PERF_COUNT_EXITS_PV_PERF), 1);

	CHECK(!set_counts(BIT(KVM_PERF_COUNT_EXITS_IO)));
	before = kernel_count(KVM_PERF_COUNT_EXITS_CPUID);
	exit_for(SVM_EXIT_CPUID);
	is("one that is not wanted", kernel_count(KVM_PERF_COUNT_EXITS_CPUID),
	   before);
	CHECK(!set_counts(0));
	is("none is wanted", here()->arch.pv_perf->at_entry, 0);
	teardown();
}

/* What the pair itself causes is told apart. */
static void test_own_exits(void)
{
	count_all();
	CHECK(!open_sampling(1, 100) && !call(KVM_PERF_OP_ENABLE, 1));
	run_guest(100);
	is("an overflow", exit_for(SVM_EXIT_NMI), 1);
	is("is no exit of the guest's", kernel_count(KVM_PERF_COUNT_EXITS_NMI),
	   0);
	exit_for(SVM_EXIT_IRET);
	is("nor is the end of its handler",
	   kernel_count(KVM_PERF_COUNT_EXITS_PV_PERF), 2);
	exit_for(SVM_EXIT_IRET);
	is("but that of another",
	   kernel_count(KVM_PERF_COUNT_EXITS_NMI), 1);

	run_guest(100);
	exit_for(SVM_EXIT_NMI);
	here()->arch.nmi_pending = 1;
	exit_for(SVM_EXIT_IRET);
	exit_for(SVM_EXIT_EXCP_BASE + DB_VECTOR);
	is("another that is pending may be ours, too",
	   kernel_count(KVM_PERF_COUNT_EXITS_PV_PERF), 5);
	here()->arch.nmi_pending = 0;
	exit_for(SVM_EXIT_IRET);
	is("with its end", kernel_count(KVM_PERF_COUNT_EXITS_PV_PERF), 6);
	exit_for(SVM_EXIT_EXCP_BASE + DB_VECTOR);
	is("another exception", kernel_count(KVM_PERF_COUNT_EXITS_OTHER), 1);
	teardown();
}

static void use_slot(int i, u64 counts, u64 left, u32 exclude)
{
	mem->area.slot[i] = (struct guest_perf_slot) {
		.counts = counts, .left = left, .exclude = exclude,
	};
	mem->area.slots |= BIT(i);
}

/* Behind the NMI of a sample, which is what makes the vCPU exit for it. */
static void test_waiting_interrupt(void)
{
	count_all();
	here()->arch.has_interrupt = true;
	exit_for(SVM_EXIT_INTR);
	is("an exit for an interrupt, and no sample",
	   kernel_count(KVM_PERF_COUNT_EXITS_INTERRUPT), 1);
	use_slot(0, BIT(KVM_PERF_COUNT_EXITS_INTERRUPT), 1, 0);
	is("a sample", exit_for(SVM_EXIT_VINTR), 1);
	mem->area.slot[0].left = 1;
	is("no sample of what that has wait", exit_for(SVM_EXIT_INTR), 0);
	is("nor then", exit_for(SVM_EXIT_VINTR), 0);
	is("they are ours", kernel_count(KVM_PERF_COUNT_EXITS_PV_PERF), 2);
	is("and not the guest's", kernel_count(KVM_PERF_COUNT_EXITS_INTERRUPT),
	   2);
	here()->arch.interrupt.injected = true;
	enter_counting();
	here()->arch.interrupt.injected = false;
	is("the next is, once the guest has it", exit_for(SVM_EXIT_INTR), 1);
	teardown();
}

static void test_nested_exits(void)
{
	count_all();
	CHECK(!open_sampling(1, 100) && !call(KVM_PERF_OP_ENABLE, 1));
	use_slot(0, BIT(KVM_PERF_COUNT_EXITS_NESTED), 1, 0);
	here()->arch.exit.rip = 0x1000;
	exit_for(SVM_EXIT_VMRUN);
	here()->arch.guest_mode = true;
	here()->arch.cpl = 3;
	here()->arch.exit.rip = 0x2000;
	here()->arch.exit.rax = KVM_PERF_OP;
	is("no NMI while a nested guest runs", exit_for(SVM_EXIT_VMMCALL), 0);
	is("whatever it exits for", kernel_count(KVM_PERF_COUNT_EXITS_NESTED),
	   1);
	exit_for(SVM_EXIT_IRET);
	run_guest(100);
	exit_for(SVM_EXIT_NMI);
	is("but for our own", kernel_count(KVM_PERF_COUNT_EXITS_NESTED), 2);
	is("for the guest", kernel_count(KVM_PERF_COUNT_EXITS_PV_PERF), 1);
	here()->arch.guest_mode = false;
	here()->arch.cpl = 0;
	is("but then", enter_counting(), 1);
	is("it tells where the guest has run it", mem->area.slot[0].ip, 0x1000);
	is("in its kernel", mem->area.slot[0].user, 0);
	teardown();
}

static u64 injected_irqs(void)
{
	return kernel_count(KVM_PERF_COUNT_INJECTED_IRQS);
}

static void test_injected_irqs(void)
{
	bool *injected;

	count_all();
	injected = &here()->arch.interrupt.injected;
	*injected = true;
	enter_counting();
	enter_counting();
	exit_for(SVM_EXIT_NPF);
	is("an interrupt that the guest has not taken", injected_irqs(), 0);
	*injected = false;
	exit_for(SVM_EXIT_CPUID);
	is("and has", injected_irqs(), 1);
	exit_for(SVM_EXIT_CPUID);
	is("once", injected_irqs(), 1);
	*injected = true;
	here()->arch.interrupt.soft = true;
	enter_counting();
	*injected = false;
	exit_for(SVM_EXIT_CPUID);
	is("not one of an instruction", injected_irqs(), 1);
	here()->arch.interrupt.soft = false;
	here()->arch.guest_mode = true;
	*injected = true;
	enter_counting();
	*injected = false;
	exit_for(SVM_EXIT_CPUID);
	is("nor a nested guest's", injected_irqs(), 1);
	teardown();
}

static void test_host_counts(void)
{
	struct kvm_vcpu_stat *stat;

	count_all();
	stat = &here()->stat;
	stat->generic.halt_wait_ns = 150;
	stat->generic.halt_poll_success_ns = 20;
	stat->generic.halt_poll_fail_ns = 3;
	current->nivcsw = 2;
	current->sched_info.run_delay = 50;
	leave_for(SVM_EXIT_HLT);
	clock_ns += 200;
	enter_counting();
	is("preemptions", kernel_count(KVM_PERF_COUNT_PREEMPTIONS), 2);
	is("steal time", kernel_count(KVM_PERF_COUNT_STEAL_NS), 50);
	is("halted, but for waiting for a CPU then",
	   kernel_count(KVM_PERF_COUNT_HALT_NS), 123);
	is("and the rest", kernel_count(KVM_PERF_COUNT_HOST_NS), 27);
	current->sched_info.run_delay = 1000;
	exit_for(SVM_EXIT_HLT);
	is("more steal than time", kernel_count(KVM_PERF_COUNT_HOST_NS), 27);
	is("is steal", kernel_count(KVM_PERF_COUNT_STEAL_NS), 1000);
	current->start_time++;
	current->nivcsw = 10;
	exit_for(SVM_EXIT_HLT);
	is("another thread's numbers say nothing",
	   kernel_count(KVM_PERF_COUNT_PREEMPTIONS), 2);
	stat->generic.halt_wait_ns = 0;
	current->nivcsw = 1;
	current->sched_info.run_delay = 0;
	exit_for(SVM_EXIT_HLT);
	is("nor those that are cleared",
	   kernel_count(KVM_PERF_COUNT_PREEMPTIONS) +
	   kernel_count(KVM_PERF_COUNT_STEAL_NS) +
	   kernel_count(KVM_PERF_COUNT_HALT_NS), 2 + 1000 + 123);

	leave_for(SVM_EXIT_HLT);
	clock_ns += 10;
	pv_perf_vcpu_leave(here(), -EINTR);
	is("what the VMM may save is up to date",
	   kernel_count(KVM_PERF_COUNT_HOST_NS), 37);
	is("with its exit", kernel_count(KVM_PERF_COUNT_EXITS_HLT), 5);
	here()->arch.exit.rax = KVM_PERF_OP;
	leave_for(SVM_EXIT_VMMCALL);
	clock_ns += 10;
	enter_counting();
	is("not for our own exits", kernel_count(KVM_PERF_COUNT_HOST_NS), 37);
	teardown();
}

/* Until the guest has had as many NMIs as it may. */
static bool overflow_late(struct guest_perf_slot *slot)
{
	int i;

	for (i = 0; i < 4; i++) {
		slot->left = 1;
		if (!exit_for(SVM_EXIT_IOIO))
			return true;
	}
	return false;
}

static void test_slots(void)
{
	const u64 io = BIT(KVM_PERF_COUNT_EXITS_IO);
	struct guest_perf_slot *slot;

	count_all();
	slot = mem->area.slot;
	use_slot(0, io, 2, 0);
	use_slot(1, io | BIT(KVM_PERF_COUNT_EXITS_CPUID), 4, 0);
	use_slot(2, io, 1, KVM_PERF_ATTR_EXCLUDE_KERNEL);
	use_slot(15, io, 100, KVM_PERF_ATTR_EXCLUDE_USER);
	here()->arch.exit.rip = 0x1000;
	is("one of two", exit_for(SVM_EXIT_IOIO), 0);
	is("counts down", slot[0].left, 1);
	here()->arch.exit.rip = 0x2000;
	is("two of two", exit_for(SVM_EXIT_IOIO), 1);
	is("tells where", slot[0].ip, 0x2000);
	is("and in which mode", slot[0].user, 0);
	is("once", exit_for(SVM_EXIT_IOIO), 0);
	is("though it counts on", slot[0].left, -1);
	here()->arch.cpl = 3;
	is("user mode, and what counts several", exit_for(SVM_EXIT_IOIO), 1);
	is("one of user mode", slot[2].user, 1);
	is("one of both", slot[1].user, 1);
	is("not what counts the kernel", slot[15].left, 97);
	here()->arch.cpl = 0;

	mem->area.slots = BIT(31) | BIT(3);
	slot[3].counts = ~0ull;
	slot[3].left = 1;
	*param_pv_perf_max_rate = 0;
	is("where it may not sample", exit_for(SVM_EXIT_IOIO), 0);
	is("nothing is counted down", slot[3].left, 1);
	*param_pv_perf_max_rate = 100;
	is("at a rate", overflow_late(&slot[3]), true);
	is("it has overflowed all the same", (s64)slot[3].left <= 0, true);
	here()->arch.pv_perf->overflow_rate = (struct pv_perf_rate){};
	is("and is told later", exit_for(SVM_EXIT_CPUID), 1);
	CHECK(overflow_late(&slot[3]));
	mem->area.slots = 0;
	here()->arch.pv_perf->overflow_rate = (struct pv_perf_rate){};
	is("not where the guest has found it", exit_for(SVM_EXIT_CPUID), 0);
	mem->area.slots = BIT(3);
	CHECK(overflow_late(&slot[3]) && !set_counts(io));
	here()->arch.pv_perf->overflow_rate = (struct pv_perf_rate){};
	is("SET_COUNTS meanwhile", exit_for(SVM_EXIT_CPUID), 1);
	*param_pv_perf_max_rate = 100000;
	teardown();
}

static void test_counts_memory(void)
{
	bool *absent;
	u64 before;

	count_all();
	absent = &kvm->memslots.slot[0].absent[gpa_to_gfn(GPA(area))];
	kvm->memslots.generation += 2;
	exit_for(SVM_EXIT_CPUID);
	is("memory slots have changed", kernel_count(KVM_PERF_COUNT_EXITS_CPUID),
	   1);
	kvm->memslots.slot[0].dirty[gpa_to_gfn(GPA(area))] = false;
	exit_for(SVM_EXIT_CPUID);
	is("it is dirty", kvm->memslots.slot[0].dirty[gpa_to_gfn(GPA(area))],
	   true);
	*absent = true;
	before = kernel_count(KVM_PERF_COUNT_EXITS_CPUID);
	use_slot(0, BIT(KVM_PERF_COUNT_EXITS_CPUID), 1, 0);
	is("memory that is gone: no NMI", exit_for(SVM_EXIT_CPUID), 0);
	*absent = false;
	is("and comes back", exit_for(SVM_EXIT_CPUID), 1);
	is("has lost nothing", kernel_count(KVM_PERF_COUNT_EXITS_CPUID),
	   before + 2);
	teardown();
}

/* Each access to the area fails once. */
static void test_counts_faults(void)
{
	const u64 io = BIT(KVM_PERF_COUNT_EXITS_IO);
	int i, n = 0;

	count_all();
	use_slot(0, io, 1, 0);
	use_slot(1, io, 1000, KVM_PERF_ATTR_EXCLUDE_USER);
	for (i = 1; i < 16; i++) {
		mem->area.slot[0].left = 1;
		guest_faults = (struct faults) { .fail_at = i };
		n += exit_for(SVM_EXIT_IOIO);
		guest_faults = (struct faults) { };
		n += exit_for(SVM_EXIT_CPUID);
	}
	is("a sample each, also where an access fails", n, 15);
	is("and no count is lost", kernel_count(KVM_PERF_COUNT_EXITS_IO), 15);

	leave_for(SVM_EXIT_IOIO);
	here()->arch.guest_mode = true;
	pv_perf_vcpu_leave(here(), -EINTR);
	is("also what is saved while a nested guest runs",
	   kernel_count(KVM_PERF_COUNT_EXITS_IO), 16);
	here()->arch.guest_mode = false;
	here()->arch.exit.gpa = 0;
	boot_cpu_data.x86_vendor = X86_VENDOR_INTEL;
	exit_for(EXIT_REASON_MSR_WRITE);
	exit_for(EXIT_REASON_APIC_ACCESS);
	exit_for(EXIT_REASON_APIC_WRITE);
	exit_for(EXIT_REASON_INTERRUPT_WINDOW);
	boot_cpu_data.x86_vendor = X86_VENDOR_AMD;
	is("other reasons of VMX", kernel_count(KVM_PERF_COUNT_EXITS_MSR) +
	   kernel_count(KVM_PERF_COUNT_EXITS_MMIO) +
	   kernel_count(KVM_PERF_COUNT_EXITS_INTERRUPT), 4);
	CHECK(!call(KVM_PERF_OP_RESET, 0));
	exit_for(SVM_EXIT_CPUID);
	is("RESET ends it", here()->arch.pv_perf->at_entry, 0);
	teardown();
}

/* What a VMM restores: registers of the APIC, and memory with an area. */
static void test_restored(void)
{
	struct kvm_lapic lapic = { .lvtpc = KVM_PERF_LVTPC };
	struct kvm_vcpu *fresh;

	setup();
	fresh = vcpu_create(kvm, 2);
	fresh->arch.apic = &lapic;
	pv_perf_vcpu_run(fresh);
	is("a vCPU that has not called here, but had an area elsewhere, gets an NMI",
	   atomic_read(&fresh->arch.nmi_queued), 1);
	vcpu_destroy(fresh);
	vcpus[0]->arch.apic = &lapic;
	vcpus[1]->arch.apic = &lapic;
	pv_perf_vcpu_run(vcpus[0]);
	is("a vCPU that had an area elsewhere gets an NMI", enter_guest(), 1);
	pv_perf_vcpu_run(vcpus[0]);
	is("once", enter_guest(), 0);
	pv_perf_vcpu_reset(vcpus[0]);
	pv_perf_vcpu_run(vcpus[0]);
	is("and once more after a reset", enter_guest(), 1);
	mem->area.size = sizeof(mem->area);
	CHECK(!set_area(GPA(area)) && !set_area(0));
	pv_perf_vcpu_run(vcpus[0]);
	is("not where it has given its own up", enter_guest(), 0);

	on(1);
	lapic.lvtpc = 0x400;
	pv_perf_vcpu_run(vcpus[1]);
	is("a vCPU whose NMI is another's gets none", enter_guest(), 0);
	lapic.lvtpc = KVM_PERF_LVTPC;
	vcpus[1]->arch.nmi_pending = 1;
	pv_perf_vcpu_run(vcpus[1]);
	is("nor one that gets another anyway", enter_guest(), 0);
	vcpus[1]->arch.nmi_pending = 0;
	pv_perf_vcpu_reset(vcpus[1]);
	vcpus[1]->arch.apic = NULL;
	pv_perf_vcpu_run(vcpus[1]);
	is("nor one whose APIC is in user space", enter_guest(), 0);
	vcpus[1]->arch.apic = &lapic;
	pv_perf_vcpu_run(vcpus[1]);
	is("any other does", enter_guest(), 1);
	teardown();
}

/* From a vCPU that runs on, and that nobody has read. */
static void test_move_sampling(void)
{
	u64 period;

	setup();
	open_sampling(1, 1000);
	call(KVM_PERF_OP_ENABLE, 1);
	run_guest(300);
	on(1);
	CHECK(!call(KVM_PERF_OP_ENABLE, 1));
	run_guest(699);
	is("no overflow at 999", enter_guest(), 0);
	run_guest(1);
	is("overflow at 1000", enter_guest(), 1);

	param(2, 2);
	mem->attr.flags = KVM_PERF_ATTR_FREQ;
	mem->attr.sample_period = 1000;
	do_open();
	call(KVM_PERF_OP_ENABLE, 2);
	run_guest(128);
	run_guest(128);
	enter_guest();
	period = event(2)->backing->hw.sample_period;
	is("a frequency: its period has been adapted", period > 1000, true);
	run_guest(100);
	on(0);
	CHECK(!call(KVM_PERF_OP_ENABLE, 2));
	run_guest(27);
	is("it goes on where it moved", enter_guest(), 0);
	run_guest(1);
	enter_guest();
	is("in the period that began before", mem->record[2].last_period, 128);
	run_guest(period - 1);
	is("the next one", enter_guest(), 0);
	run_guest(1);
	enter_guest();
	is("is what it was adapted to", mem->record[2].last_period, period);
	teardown();
}

/* Who has lost its counter is told so once, and takes no other's. */
static void test_lost(void)
{
	u32 id;

	setup();
	for (id = 1; id <= NR_COUNTERS + 1; id++)
		open_id(id);
	for (id = 1; id <= NR_COUNTERS; id++)
		CHECK(!call(KVM_PERF_OP_ENABLE, id));
	take_counters(tasks[0], 2);
	call(KVM_PERF_OP_DISABLE, 1);
	CHECK(!call(KVM_PERF_OP_ENABLE, NR_COUNTERS + 1));
	/* 2 and 5 count; 3 and 4 have lost theirs, and are older than 5. */
	is("ENABLE of a lost one", call(3, 3), -KVM_EBUSY);
	is("the youngest counts on", call(5, NR_COUNTERS + 1), 0);
	is("ENABLE of another", call(3, 1), -KVM_EBUSY);
	is("the youngest counts on", call(5, NR_COUNTERS + 1), 0);
	is("READ tells", call(5, 3), -KVM_EBUSY);
	run_guest(10);
	is("the youngest counts on", call(5, NR_COUNTERS + 1), 0);
	is("and has missed none", mem->record[NR_COUNTERS + 1].count, 10);
	is("the lost one has none", call(5, 3), -KVM_EBUSY);
	take_counters(tasks[0], 1);
	is("ENABLE of another that can", call(3, 1), 0);
	is("does not make a lost one count", call(5, 4), -KVM_EBUSY);
	take_counters(tasks[0], 0);
	is("nor hides it", call(5, 3), -KVM_EBUSY);
	is("which counts again", call(5, 3), 0);
	is("DISABLE of a lost one", call(4, 4), 0);
	is("is not lost", call(5, 4), 0);
	teardown();
}

/* VM entry, up to the last look whether anything is requested. */
static bool entry_goes_on(void)
{
	unsigned long flags;

	local_irq_save(flags);
	pv_perf_enter(here(), PV_PERF_ENTRY_ANEW);
	local_irq_restore(flags);
	return !kvm_test_request(KVM_REQ_PV_PERF, here());
}

static long open_notify(u32 id, u64 period)
{
	param(id, id);
	mem->attr.sample_period = period;
	mem->attr.flags = KVM_PERF_ATTR_NOTIFY;
	return do_open();
}

/* A guest is told at once that an event counts no more, and why. */
static void test_told(void)
{
	struct guest_perf_event *r;
	u32 sequence;

	setup();
	r = mem->record;
	CHECK(!open_notify(1, 0) && !open_id(2));
	CHECK(!call(3, 1) && !call(3, 2));
	is("all count: the entry goes on", entry_goes_on(), true);
	take_counters(tasks[0], NR_COUNTERS);
	is("counters lost: it does not", entry_goes_on(), false);
	is("an NMI, as one asked for it", enter_guest(), 1);
	is("the flag of that", r[1].flags, KVM_PERF_EVENT_LOST);
	is("the flag of the other", r[2].flags, KVM_PERF_EVENT_LOST);
	is("once told, the entry goes on", entry_goes_on(), true);
	is("READ says it, too", call(5, 1), -KVM_EBUSY);
	is("without another NMI", enter_guest(), 0);
	is("the flag stays", r[1].flags, KVM_PERF_EVENT_LOST);
	take_counters(tasks[0], 0);
	sequence = r[1].sequence;
	is("ENABLE finds a counter", call(3, 1), 0);
	is("the flag has gone", r[1].flags, 0);
	is("the record was written", r[1].sequence, sequence + 2);
	is("ENABLE of one that counts", call(3, 1), 0);
	is("writes nothing", r[1].sequence, sequence + 2);
	is("the other stays lost", call(5, 2), -KVM_EBUSY);
	is("and goes on by that READ", r[2].flags, 0);

	/* Its home's thread runs the guest: nothing is scheduled there. */
	take_counters(tasks[0], NR_COUNTERS);
	take_counters(tasks[0], 0);
	on(1);
	is("READ by another vCPU tells", call(5, 1), -KVM_EBUSY);
	is("and starts nothing", event(1)->backing->state,
	   PERF_EVENT_STATE_ERROR);
	on(0);
	is("the home's entry does not go on", entry_goes_on(), false);
	is("and the home gets its NMI", enter_guest(), 1);
	is("once", enter_guest(), 0);
	is("moved, it counts", (on(1), call(3, 1)), 0);
	is("and says so", r[1].flags, 0);
	on(0);

	/* Its home has not entered since, and has the NMI still to come. */
	CHECK(!call(3, 1));
	enter_guest();
	take_counters(tasks[0], NR_COUNTERS);
	take_counters(tasks[0], 0);
	on(1);
	is("READ by another vCPU tells before the home does", call(5, 1), -KVM_EBUSY);
	is("the record says it", r[1].flags, KVM_PERF_EVENT_LOST);
	is("ENABLE there has it count", call(3, 1), 0);
	is("the record does not say any more that it is lost", r[1].flags, 0);
	on(0);
	CHECK(!call(2, 1) && !open_notify(1, 1000) && !call(3, 1));
	enter_guest();
	take_counters(tasks[0], NR_COUNTERS);
	take_counters(tasks[0], 0);
	on(1);
	is("READ by another vCPU, of one that samples", call(5, 1), -KVM_EBUSY);
	on(0);
	is("SET_LEFT by the home writes the record first", call3(10, 1, 7, 0), 0);
	is("the home gets its NMI all the same", enter_guest(), 1);
	is("once", enter_guest(), 0);
	CHECK(!call(3, 1));

	/* The NMI that is to be injected again is a nested guest's. */
	take_counters(tasks[0], 0);
	CHECK(!call(3, 1));
	take_counters(tasks[0], NR_COUNTERS);
	here()->arch.guest_mode = true;
	here()->arch.nmi_injected = true;
	is("lost before an entry to it", entry_goes_on(), false);
	is("that one is not the guest's", enter_guest(), 1);
	here()->arch.nmi_injected = false;
	here()->arch.guest_mode = false;
	take_counters(tasks[0], 0);
	CHECK(!call(3, 1));
	take_counters(tasks[0], NR_COUNTERS);
	here()->arch.nmi_injected = true;
	is("lost before an entry to the guest", entry_goes_on(), false);
	is("one that is injected is enough", enter_guest(), 0);
	here()->arch.nmi_injected = false;

	/* A record that cannot be written must not keep the vCPU from running. */
	take_counters(tasks[0], NR_COUNTERS);
	kvm->memslots.slot[0].absent[RECORD(2) >> PAGE_SHIFT] = true;
	enter_guest();
	is("told or not, the entry goes on", entry_goes_on(), true);
	kvm->memslots.slot[0].absent[RECORD(2) >> PAGE_SHIFT] = false;
	teardown();

	/* The VMM stops the vCPU before it could enter. */
	setup();
	CHECK(!open_notify(1, 0) && !call(3, 1));
	take_counters(tasks[0], NR_COUNTERS);
	pv_perf_vcpu_leave(vcpus[0], -EINTR);
	is("the record of a stopped vCPU says it", mem->record[1].flags,
	   KVM_PERF_EVENT_LOST);
	is("and the NMI is pending",
	   atomic_read(&vcpus[0]->arch.nmi_queued), 1);
	atomic_set(&vcpus[0]->arch.nmi_queued, 0);
	take_counters(tasks[0], 0);
	teardown();
}

static void test_counters(void)
{
	u32 id;

	setup();
	for (id = 1; id <= NR_COUNTERS + 1; id++)
		open_id(id);
	for (id = 1; id <= NR_COUNTERS; id++)
		CHECK(!call(KVM_PERF_OP_ENABLE, id));
	is("ENABLE without a counter", call(3, NR_COUNTERS + 1), -KVM_EBUSY);
	run_guest(10);
	is("the others count", call(5, KVM_PERF_ID_ALL), 0);
	is("the oldest", mem->record[1].count, 10);
	is("the youngest", mem->record[NR_COUNTERS].count, 10);

	/* The oldest is enabled last: perf fails the youngest. */
	call(KVM_PERF_OP_DISABLE, 1);
	CHECK(!call(KVM_PERF_OP_ENABLE, NR_COUNTERS + 1));
	is("ENABLE of the oldest", call(KVM_PERF_OP_ENABLE, 1), -KVM_EBUSY);
	run_guest(10);
	is("the others count on", call(5, KVM_PERF_ID_ALL), 0);
	is("none has missed any", mem->record[NR_COUNTERS + 1].count, 10);

	/* The host takes one away. */
	take_counters(tasks[0], 1);
	run_guest(10);
	is("READ all tells", call(5, KVM_PERF_ID_ALL), -KVM_EBUSY);
	is("and reads the others", mem->record[2].count, 30);
	is("READ of the lost one tells", call(5, NR_COUNTERS + 1), -KVM_EBUSY);
	is("an ENABLE meanwhile", call(3, 1), -KVM_EBUSY);
	is("and of one that runs", call(3, 2), 0);
	take_counters(tasks[0], 0);
	is("READ starts it", call(5, NR_COUNTERS + 1), -KVM_EBUSY);
	is("READ after that", call(5, NR_COUNTERS + 1), 0);
	run_guest(10);
	call(5, NR_COUNTERS + 1);
	is("count less what it missed", mem->record[NR_COUNTERS + 1].count, 20);
	take_counters(tasks[0], NR_COUNTERS);
	is("DISABLE of a lost one", call(4, NR_COUNTERS + 1), 0);
	is("is not lost after that", call(5, NR_COUNTERS + 1), 0);
	teardown();
}

static int enabled_by_perf;

static void count_enables(const char *where)
{
	enabled_by_perf += !strcmp(where, "enable");
}

/* The host keeps some for itself. */
static void test_max_counters(void)
{
	u32 id;

	setup();
	*param_pv_perf_max_counters = 0;
	is("without fixed counters the host keeps two", told_counters(),
	   NR_COUNTERS - 2);
	*param_pv_perf_max_counters = NR_COUNTERS + 1;
	is("there are no more than that", told_counters(), NR_COUNTERS);
	*param_pv_perf_max_counters = 2;
	is("QUERY tells the limit", told_counters(), 2);
	for (id = 1; id <= 4; id++)
		CHECK(!open_id(id));
	is("ENABLE", call(3, 1), 0);
	is("up to the limit", call(3, 2), 0);
	sleep_hook = count_enables;
	is("ENABLE beyond it", call(3, 3), -KVM_EBUSY);
	is("takes no counter from the host meanwhile", enabled_by_perf, 0);
	sleep_hook = NULL;
	is("ENABLE again of one that counts", call(3, 2), 0);
	on(1);
	is("another vCPU has its own", call(3, 3), 0);
	is("so ENABLE moves one there", call(3, 2), 0);
	is("but no more", call(3, 1), -KVM_EBUSY);
	on(0);
	is("which makes room", call(3, 4), 0);
	run_guest(10);
	is("the others count on", (call(5, 1), mem->record[1].count), 10);

	/* As perf does, a limit that falls takes from those that come next. */
	*param_pv_perf_max_counters = 1;
	run_guest(10);
	is("a lower limit stops nothing", call(5, 4), 0);
	replace_thread();
	pv_perf_vcpu_run(vcpus[0]);
	run_guest(10);
	is("until it follows a thread", (call(5, 1), call(5, 4)) ||
	   call(5, 1), true);
	*param_pv_perf_max_counters = 2;
	call(5, 1);
	call(5, 4);
	is("READ has it go on", call(5, 1) ? : call(5, 4), 0);
	take_counters(tasks[0], NR_COUNTERS - 1);
	is("one that has lost its counter has none", call(5, 4), -KVM_EBUSY);
	teardown();

	/* Others count while it does not. */
	setup();
	*param_pv_perf_max_counters = 1;
	start_on(0, 1, 0);
	run_on(0, 10);
	run_on(1, 5);
	start_on(1, 2, 0);
	run_on(1, 20);
	is("vCPUs that run on a thread in turn have a counter each",
	   count_on(1, 2), 20);
	run_on(0, 10);
	is("and the other", count_on(0, 1), 20);
	teardown();
}

static long open_raw(u32 id, u64 config)
{
	param(id, id);
	mem->attr.config = config;
	return do_open();
}

/* Some events take two counters. */
static void test_pairs(void)
{
	setup();
	*param_pv_perf_max_counters = 3;
	CHECK(!open_raw(1, 0x3) && !open_raw(2, 0xff03));
	CHECK(!open_raw(3, 0x100000003));
	is("a pair of counters", call(3, 1), 0);
	is("another is beyond the limit", call(3, 2), -KVM_EBUSY);
	is("an event whose number is longer is not", call(3, 3), 0);
	*param_pv_perf_max_counters = 4;
	is("of four, a pair and one leave no pair", call(3, 2), -KVM_EBUSY);
	call(4, 3);
	is("but two pairs are not", call(3, 2), 0);
	boot_cpu_data.x86 = 0x15;
	is("before Zen each takes one", call(3, 3), 0);
	boot_cpu_data.x86 = 0x17;
	teardown();
}

/* Fixed counters can count nothing else. */
static void test_fixed_counters(void)
{
	boot_cpu_data.x86_vendor = X86_VENDOR_INTEL;
	pmu_capability.num_counters_fixed = 3;
	setup();
	*param_pv_perf_max_counters = 0;
	is("with fixed counters the host keeps one", told_counters(),
	   NR_COUNTERS - 1);
	is("QUERY tells of the fixed ones", mem->query.fixed_counters, 7);
	*param_pv_perf_max_counters = 1;
	CHECK(!open_id(1) && !open_id(2) && !open_id(3));
	is("instructions in a fixed counter", call(3, 1), 0);
	is("and again, in another", call(3, 2), 0);
	is("which is the last", call(3, 3), -KVM_EBUSY);
	open_raw(5, 0x2c);
	call(4, 1);
	is("as one leaves the fixed one, perf moves another there", call(3, 3), 0);
	call(4, 3);
	call(4, 2);
	call(3, 1);
	call(3, 2);
	call(4, 1);
	is("but not for one that cannot be there", call(3, 5), -KVM_EBUSY);
	is("where the first that comes back is", call(3, 1), 0);
	call(4, 1);
	call(4, 2);

	/* As with the NMI watchdog, which has the one for cycles. */
	cpus[0].taken_fixed = 2;
	open_raw(8, 0x3c);
	is("instructions in a fixed counter, cycles not", call(3, 2) ?:
	   call(3, 8), 0);
	is("an older event of instructions does not fit", call(3, 1),
	   -KVM_EBUSY);
	call(4, 8);
	is("nor has it moved the other for good", call(3, 5), 0);
	call(4, 5);
	call(2, 8);
	cpus[0].taken_fixed = 0;
	call(3, 1);
	call(3, 2);
	call(4, 1);
	call(3, 1);
	open_raw(4, 0x3c);
	is("cycles have one of their own", call(3, 4), 0);
	is("others have none", call(3, 5), -KVM_EBUSY);
	run_guest(10);
	is("all that were enabled count", call(5, KVM_PERF_ID_ALL), 0);
	call(4, 2);
	is("DISABLE makes room", call(3, 5), 0);
	open_raw(6, 0x300);
	is("perf's own event for the branch records", open_raw(7, 0x1b00),
	   -KVM_EOPNOTSUPP);
	is("reference cycles", call(3, 6), 0);
	teardown();
	boot_cpu_data.x86_vendor = X86_VENDOR_AMD;
	pmu_capability.num_counters_fixed = 0;

	/* Of two that there are. */
	pmu_capability.num_counters_gp = 2;
	setup();
	*param_pv_perf_max_counters = 0;
	is("one is for the guest in any case", told_counters(), 1);
	teardown();
	pmu_capability.num_counters_gp = NR_COUNTERS;
}

/* On Intel perf stays set up for the next event, as long as the VM is there. */
static void test_held_pmu(void)
{
	int n = 0;

	setup();
	CHECK(!open_id(1));
	is("nothing is held on AMD", atomic_read(&nr_held_events), 0);
	teardown();

	boot_cpu_data.x86_vendor = X86_VENDOR_INTEL;
	setup();
	is("nor on Intel before the first OPEN", atomic_read(&nr_held_events),
	   0);
	/* Each tries again, and fails with the memory for what comes after it. */
	do {
		alloc_faults = (struct faults){ .fail_at = ++n };
		CHECK(open_id(1));
	} while (!atomic_read(&nr_held_events));
	alloc_faults.fail_at = 0;
	is("an OPEN that fails has it held", atomic_read(&nr_held_events), 1);
	CHECK(!open_id(1) && !open_id(2));
	is("no more by those that do not", atomic_read(&nr_held_events), 1);
	on(1);
	CHECK(!open_id(3));
	is("no more by another vCPU", atomic_read(&nr_held_events), 1);
	call(2, 1);
	call(2, 2);
	call(2, 3);
	is("nor is it given back by CLOSE", atomic_read(&nr_held_events), 1);
	/* Sees that it is given back with the VM. */
	teardown();
	boot_cpu_data.x86_vendor = X86_VENDOR_AMD;
}

static void test_query(void)
{
	struct guest_perf_query *q;
	int i;

	setup();
	q = &mem->query;
	q->size = GUEST_PERF_QUERY_SIZE_VER0 - 1;
	is("QUERY too small", call(6, GPA(query)), -KVM_EINVAL);
	is("QUERY at 4", call(6, 4), -KVM_EINVAL);
	is("QUERY of no memory", call(6, NO_MEMORY), -KVM_EFAULT);
	memset(kvm->memslots.slot[1].memory, 0x7f, 4);
	is("QUERY in read-only memory", call(6, RO_MEMORY), -KVM_EFAULT);
	memset(q, 0x5a, sizeof(*q) + sizeof(mem->after_query));
	q->size = sizeof(*q) + sizeof(mem->after_query);
	is("QUERY", call(6, GPA(query)), 0);
	is("size", q->size, sizeof(*q));
	is("version", q->version, KVM_PERF_ABI_VERSION);
	is("features", q->features, 191);
	is("max_events", q->max_events, 128);
	is("counters", q->nr_counters, NR_COUNTERS);
	is("fixed counters", q->fixed_counters, 0);
	is("mask", q->raw_event_mask == AMD64_RAW_EVENT_MASK, true);
	is("no RDPMC", q->rdpmc, KVM_PERF_RDPMC_HOST);
	for (i = 0; i < KVM_PERF_NR_HW_EVENTS; i++)
		CHECK(q->hw_config[i] == hw_event_config[i]);
	is("nothing behind it", !memchr_inv(mem->after_query, 0x5a,
					    sizeof(mem->after_query)), true);
	*param_pv_perf_max_events = -1u;
	call(6, GPA(query));
	is("max_events at most 2^31 - 1", q->max_events, INT_MAX);
	*param_pv_perf_max_events = 64;
	teardown();
}

/* Raw events belong to a CPU model, named ones do not. */
static void test_model(void)
{
	struct guest_perf_query *q;
	u32 model;

	setup();
	q = &mem->query;
	q->size = sizeof(*q);
	CHECK(!call(6, GPA(query)));
	model = q->model;
	is("QUERY tells the CPU's model", model,
	   KVM_PERF_MODEL_AMD | 0x17 << KVM_PERF_MODEL_FAMILY_SHIFT | 0x31);
	param(1, 1);
	mem->attr.model = model;
	is("a raw event of this model", do_open(), 0);
	CHECK(!call(KVM_PERF_OP_CLOSE, 1));
	mem->attr.model = 0;
	is("of whichever it is", do_open(), 0);
	CHECK(!call(KVM_PERF_OP_CLOSE, 1));
	mem->attr.model = model + 1;
	open_fails("of another: EOPNOTSUPP", -KVM_EOPNOTSUPP);
	param(1, 1);
	mem->attr.model = model + 1;
	mem->attr.config = -1ull;
	open_fails("also with bits that there are not here", -KVM_EOPNOTSUPP);
	param(1, 1);
	mem->attr.type = KVM_PERF_TYPE_HARDWARE;
	mem->attr.config = PERF_COUNT_HW_INSTRUCTIONS;
	mem->attr.model = model;
	open_fails("a named event of a model: EINVAL", -KVM_EINVAL);
	param(1, 1);
	mem->attr.type = KVM_PERF_TYPE_HARDWARE;
	mem->attr.config = PERF_COUNT_HW_INSTRUCTIONS;
	is("a named event", do_open(), 0);
	CHECK(!call(KVM_PERF_OP_CLOSE, 1));
	param(1, 1);
	mem->attr.reserved = 1;
	open_fails("a reserved field: EINVAL", -KVM_EINVAL);
	teardown();

	/* The guest comes from AMD's to Intel's: QUERY is all that it sees of it. */
	boot_cpu_data.x86_vendor = X86_VENDOR_INTEL;
	boot_cpu_data.x86 = 6;
	boot_cpu_data.x86_model = 0x31;
	setup();
	q = &mem->query;
	q->size = sizeof(*q);
	CHECK(!call(6, GPA(query)));
	is("on Intel's CPU QUERY tells that", q->model,
	   KVM_PERF_MODEL_INTEL | 6 << KVM_PERF_MODEL_FAMILY_SHIFT | 0x31);
	is("and another mask", q->raw_event_mask == X86_RAW_EVENT_MASK, true);
	param(1, 1);
	mem->attr.model = model;
	open_fails("a raw event of AMD's is not opened", -KVM_EOPNOTSUPP);
	param(1, 1);
	mem->attr.type = KVM_PERF_TYPE_HARDWARE;
	mem->attr.config = PERF_COUNT_HW_INSTRUCTIONS;
	mem->attr.flags = KVM_PERF_ATTR_OPTIONAL;
	is("a named one is, with all that is optional", do_open(), 0);
	teardown();
	boot_cpu_data.x86_vendor = X86_VENDOR_HYGON;
	setup();
	mem->query.size = sizeof(mem->query);
	CHECK(!call(6, GPA(query)));
	is("Hygon's is another vendor", mem->query.model & KVM_PERF_MODEL_VENDOR,
	   KVM_PERF_MODEL_HYGON);
	teardown();
	boot_cpu_data.x86_vendor = X86_VENDOR_AMD;
	boot_cpu_data.x86 = 0x17;
}

static void test_limit(void)
{
	setup();
	*param_pv_perf_max_events = 1;
	log_lines = 0;
	is("first", open_id(1), 0);
	is("second", open_id(2), 0);
	is("third", open_id(3), -KVM_ENOSPC);
	is("one more", open_id(4), -KVM_ENOSPC);
	is("logged once", log_lines, 1);
	is("with its name", strcmp(log_line, "kvm: pv_perf: VM of pid 1234 has reached its limit of 2 events (kvm.pv_perf_max_events per vCPU)\n"), 0);
	is("CLOSE makes room", (call(2, 1), open_id(3)), 0);
	*param_pv_perf_max_events = 64;
	teardown();
}

/* The VM's limit is for all of its vCPUs, not for one. */
static void test_home_limit(void)
{
	int n;

	setup();
	for (n = 1; !open_id(n); n++)
		;
	is("one vCPU has its own share", n, 65);
	is("more is refused", open_id(n), -KVM_ENOSPC);
	is("with its name", strcmp(log_line, "kvm: pv_perf: a vCPU of the VM of pid 1234 has reached its limit of 64 events (kvm.pv_perf_max_events)\n"), 0);
	on(1);
	is("the other has the rest", open_id(n), 0);
	is("ENABLE moves an event there", call(KVM_PERF_OP_ENABLE, 1), 0);
	on(0);
	is("which makes room", open_id(n + 1), 0);
	is("but not for it to come back", call(KVM_PERF_OP_ENABLE, 1),
	   -KVM_ENOSPC);
	is("what is here is enabled", call(KVM_PERF_OP_ENABLE, 2), 0);
	replace_thread();
	pv_perf_vcpu_run(vcpus[0]);
	is("and follows", event(2)->backing->hw.target == current, true);
	is("what is here moves to the thread", call(KVM_PERF_OP_ENABLE, 3), 0);
	is("CLOSE makes room", (call(KVM_PERF_OP_CLOSE, 4),
				call(KVM_PERF_OP_ENABLE, 1)), 0);
	call(KVM_PERF_OP_RESET, 0);
	enter_guest();

	log_lines = 0;
	for (n = 1; !open_id(n); n++)
		;
	is("one vCPU's share is logged only once", log_lines, 0);
	on(1);
	for (; !open_id(n); n++)
		;
	is("the VM has its limit", n, 129);
	is("which is logged", log_lines, 1);
	on(0);
	call(KVM_PERF_OP_RESET, 0);
	enter_guest();

	*param_pv_perf_max_events = 17;
	for (n = 1; !open_id(n); n++)
		;
	is("with a low limit one vCPU may have more than a share of it", n, 33);
	*param_pv_perf_max_events = 64;
	teardown();
}

/* What the VMM sets for its VM. */
static void test_caps(void)
{
	struct kvm_enable_cap bad = { .cap = KVM_CAP_PV_PERF_RATE };
	struct guest_perf_query *q;
	int i;

	tasks[0] = task_create(0);
	on(0);
	kvm = vm_create();
	mem = (struct layout *)kvm->memslots.slot[0].memory;
	q = &mem->query;

	is("the host's events", host_extension(KVM_CAP_PV_PERF_EVENTS), 64);
	is("the host's rate", host_extension(KVM_CAP_PV_PERF_RATE), 100000);
	is("the VM's events", pv_perf_check_extension(kvm,
		KVM_CAP_PV_PERF_EVENTS), 64);
	is("more events than the host allows", enable_cap(kvm,
		KVM_CAP_PV_PERF_EVENTS, 65), -EINVAL);
	is("far more", enable_cap(kvm, KVM_CAP_PV_PERF_EVENTS, -1ull), -EINVAL);
	is("a higher rate", enable_cap(kvm, KVM_CAP_PV_PERF_RATE, 100001),
	   -EINVAL);
	for (i = 1; i < 4; i++) {
		bad.args[i] = 1;
		is("another argument", pv_perf_enable_cap(kvm, &bad), -EINVAL);
		bad.args[i] = 0;
	}
	cpu_has_hybrid = true;
	is("a host without the feature", host_extension(KVM_CAP_PV_PERF_EVENTS), 0);
	cpu_has_hybrid = false;
	*param_pv_perf_max_counters = 3;
	is("the host's counters", host_extension(KVM_CAP_PV_PERF_COUNTERS), 3);
	is("more counters", enable_cap(kvm, KVM_CAP_PV_PERF_COUNTERS, 4),
	   -EINVAL);
	is("1 counter", enable_cap(kvm, KVM_CAP_PV_PERF_COUNTERS, 1), 0);
	is("as reported", pv_perf_check_extension(kvm,
		KVM_CAP_PV_PERF_COUNTERS), 1);
	is("2 events", enable_cap(kvm, KVM_CAP_PV_PERF_EVENTS, 2), 0);
	is("no overflows", enable_cap(kvm, KVM_CAP_PV_PERF_RATE, 0), 0);
	is("as reported", pv_perf_check_extension(kvm, KVM_CAP_PV_PERF_EVENTS),
	   2);
	is("both", pv_perf_check_extension(kvm, KVM_CAP_PV_PERF_RATE), 0);

	vcpus[0] = vcpu_create(kvm, 0);
	is("once there is a vCPU", enable_cap(kvm, KVM_CAP_PV_PERF_EVENTS, 1),
	   -EINVAL);
	q->size = sizeof(*q);
	call(6, GPA(query));
	is("QUERY: no sampling", q->features, KVM_PERF_FEATURE_BATCH |
	   KVM_PERF_FEATURE_NESTED | KVM_PERF_FEATURE_NOTIFY |
	   KVM_PERF_FEATURE_AREA | KVM_PERF_FEATURE_RDPMC |
	   KVM_PERF_FEATURE_COUNTS);
	is("QUERY: 2 events", q->max_events, 2);
	is("QUERY: 1 counter", q->nr_counters, 1);
	is("OPEN with a period", open_sampling(1, 1000), -KVM_EOPNOTSUPP);
	is("OPEN to count", open_id(1), 0);
	is("second", open_id(2), 0);
	is("third", open_id(3), -KVM_ENOSPC);
	*param_pv_perf_max_events = 1;
	is("the host's limit holds, too", pv_perf_check_extension(kvm,
		KVM_CAP_PV_PERF_EVENTS), 1);
	*param_pv_perf_max_events = 64;
	vcpu_destroy(vcpus[0]);
	vm_destroy(kvm);

	kvm = vm_create();
	is("refused the feature", enable_cap(kvm, KVM_CAP_PV_PERF_EVENTS, 0),
	   0);
	vcpus[0] = vcpu_create(kvm, 0);
	is("so there is none", call(9, 0), -KVM_ENOSYS);
	vcpu_destroy(vcpus[0]);
	vm_destroy(kvm);
	task_put(tasks[0]);
	rcu_barrier();
}

static struct guest_perf_op *op(int i, u32 nr, u32 id, u64 arg)
{
	mem->ops[i] = (struct guest_perf_op){
		.op = nr, .result = 0x5a, .id = id, .arg = arg,
	};
	return &mem->ops[i];
}

/* How long it takes to open and close @n events, in ns. */
static u64 open_takes(int n)
{
	u64 start = clock_ns;

	while (n--) {
		CHECK(!open_id(1) && !call(2, 1));
		enter_guest();
	}
	return clock_ns - start;
}

static bool is_100_ms(u64 ns)
{
	return ns >= 99000000 && ns < 110000000;
}

/* One that opens too often has to wait, but is not refused. */
static void test_open_rate(void)
{
	u64 start;

	setup();
	is("100 events of 10,000 per second at once", open_takes(100), 0);
	is("1,000 more take 0.1 seconds", is_100_ms(open_takes(1000)), true);
	*param_pv_perf_max_open_rate = 0;
	is("a rate that becomes 0", open_id(1), 0);
	enter_guest();
	start = clock_ns;
	is("one more", (call(2, 1), open_id(1)), 0);
	is("is open at once", clock_ns - start, 0);
	enter_guest();
	is("but the vCPU goes on after a second", clock_ns - start,
	   NSEC_PER_SEC);
	*param_pv_perf_max_open_rate = 10000;
	teardown();
}

/* An ENABLE that moves an event makes a new one of the host's. */
static void test_move_rate(void)
{
	u64 start;
	int i;

	setup();
	open_id(1);
	start = clock_ns;
	for (i = 0; i < 2200; i++) {
		on(1 - i % 2);
		CHECK(!call(KVM_PERF_OP_ENABLE, 1));
		enter_guest();
	}
	is("1,000 moves of 10,000 per second on each and 100 more take 0.1 seconds",
	   is_100_ms(clock_ns - start), true);

	/* It is on vCPU 0. */
	on(1);
	take_counters(tasks[1], NR_COUNTERS);
	start = clock_ns;
	for (i = 0; i < 1000; i++) {
		CHECK(call(KVM_PERF_OP_ENABLE, 1) == -KVM_EBUSY);
		enter_guest();
	}
	is("1,000 more that fail, too", is_100_ms(clock_ns - start), true);
	on(0);
	start = clock_ns;
	for (i = 0; i < 2000; i++)
		CHECK(!call(KVM_PERF_OP_ENABLE, 1));
	is("those where it is take none", clock_ns - start, 0);
	teardown();
}

/* One at another vCPU is changed by an interrupt of the CPU that this was on. */
static void test_change_rate(void)
{
	u64 start;
	int i;

	setup();
	open_sampling(1, 1000);
	start = clock_ns;
	for (i = 0; i < 2000; i++)
		CHECK(!call3(7, 1, 1000 + i, 0) && !call3(10, 1, 10, 0));
	is("changes where it is take no time", clock_ns - start, 0);
	on(1);
	for (i = 0; i < 550; i++) {
		CHECK(!call3(7, 1, 1000 + i, 0) && !call3(10, 1, 10, 0));
		enter_guest();
	}
	is("1,000 changes of 10,000 per second from elsewhere and 100 more take 0.1 seconds",
	   is_100_ms(clock_ns - start), true);
	start = clock_ns;
	for (i = 0; i < 1000; i++) {
		CHECK(!call(KVM_PERF_OP_DISABLE, 1));
		enter_guest();
	}
	is("so do 1,000 DISABLEs from elsewhere", is_100_ms(clock_ns - start),
	   true);
	on(0);
	teardown();
}

/* The VMM wants a vCPU back that waits. */
static void test_wait_signal(void)
{
	u64 start;
	int i;

	setup();
	open_sampling(1, 1000);
	call(KVM_PERF_OP_ENABLE, 1);
	run_guest(1000);
	for (i = 0; i < KVM_PERF_BATCH_MAX; i++)
		op(i, i % 2 ? KVM_PERF_OP_CLOSE :
						   KVM_PERF_OP_OPEN,
		   i % 2 ? 2 : 0, i % 2 ? 0 : GPA(param));
	param(2, 2);
	start = clock_ns;
	for (i = 0; i < 20; i++)
		CHECK(!call3(KVM_PERF_OP_BATCH, GPA(ops), 0,
			     KVM_PERF_BATCH_MAX));
	is("640 OPEN in batches do not wait themselves", clock_ns - start, 0);
	current->signalled = true;
	is("an overflow is told of nevertheless", enter_guest(), 1);
	is("where there is a signal", clock_ns - start, 0);
	pv_perf_vcpu_leave(vcpus[0], -EINTR);
	is("the rest is not forgotten",
	   kvm_test_request(KVM_REQ_PV_PERF, vcpus[0]), true);
	current->signalled = false;
	enter_guest();
	is("it follows when the vCPU is run again, 54 ms",
	   clock_ns - start > 53 * NSEC_PER_MSEC &&
	   clock_ns - start < 55 * NSEC_PER_MSEC, true);
	is("and once", kvm_test_request(KVM_REQ_PV_PERF, vcpus[0]), false);
	teardown();
}

/* Run until the clock has moved on by @ns; how many overflows? */
static long overflows_in(u64 ns, int cpu, u32 id)
{
	struct guest_perf_event *r = &mem->record[id];
	u64 end = clock_ns + ns;
	long before = r->overflows;

	on(cpu);
	while (clock_ns < end) {
		run_guest(100);
		enter_guest();
	}
	return r->overflows - before;
}

static void run_until_throttled(u32 id)
{
	int i;

	for (i = 0; i < 100000 && !is_limited(id); i++) {
		run_guest(100);
		enter_guest();
	}
	is("throttled", is_limited(id), true);
	enter_guest();
}

/* The clock is not read at each: see pv_perf_charge_overflows(). */
static void test_rate_after_rest(void)
{
	int n = 0;

	setup();
	*param_pv_perf_max_rate = 20000;
	open_sampling(1, 100);
	call(3, 1);
	overflows_in(100, 0, 1);
	clock_ns += NSEC_PER_SEC;
	while (n < 1000 && !is_limited(1)) {
		run_guest(100);
		enter_guest();
		n++;
	}
	is("at least what it may have in 10 ms at once", n >= 200, true);
	is("and at most twice that", n <= 2 * 200 + 10, true);
	*param_pv_perf_max_rate = 100000;
	teardown();
}

static void test_rate(void)
{
	const u64 second = 1000000000;
	struct pv_perf_vcpu *pv;
	long n;

	setup();
	*param_pv_perf_max_rate = 20000;
	is("QUERY's", pv_perf_rate_allowed(kvm), 20000);
	open_sampling(1, 100000);
	call(3, 1);
	pv = vcpus[0]->arch.pv_perf;
	is("below the rate: as often as it overflows",
	   overflows_in(second / 10, 0, 1), 1000);
	is("not throttled", pv->limited, 0);

	open_sampling(2, 100);
	call(3, 2);
	n = overflows_in(second / 10, 0, 2);
	is("above it: as often as the rate allows, and a burst",
	   n > 1900 - 1000 && n < 2000 + 200 + 20, true);
	is("throttled", pv->limited > 0, true);
	n = mem->record[1].overflows - 1000;
	is("the vCPU's events share it", n < 1000, true);

	/* Whatever the guest does to get round it. */
	run_until_throttled(2);
	is("stopped", event(2)->backing->state, PERF_EVENT_STATE_OFF);
	is("ENABLE of one that is throttled", call(3, 2), 0);
	is("leaves it so", event(2)->backing->state, PERF_EVENT_STATE_OFF);
	is("SET_LEFT, too", (call3(10, 2, 1, 0), event(2)->backing->state),
	   PERF_EVENT_STATE_OFF);
	is("READ, too", (call(5, 2), event(2)->backing->state),
	   PERF_EVENT_STATE_OFF);
	is("DISABLE", call(4, 2), 0);
	is("not throttled any more", is_limited(2), false);
	pv->overflow_rate.time = clock_ns + 20 * NSEC_PER_MSEC;
	is("ENABLE while the rate is exceeded", call(3, 2), -KVM_EAGAIN);
	is("of one that counts here", call(3, 1), 0);
	on(1);
	vcpus[1]->arch.pv_perf->overflow_rate.time = pv->overflow_rate.time;
	is("ENABLE on another vCPU that has had too many", call(3, 2),
	   -KVM_EAGAIN);
	is("of a new one", (open_sampling(3, 100), call(3, 3)),
	   -KVM_EAGAIN);
	open_id(4);
	is("one that only counts may", call(3, 4), 0);
	call(2, 3);
	on(0);

	/* Closed, or with a record that is gone. */
	overflows_in(20 * NSEC_PER_MSEC, 0, 1);
	is("ENABLE after it", call(3, 2), 0);
	run_until_throttled(2);
	call(2, 2);
	overflows_in(20 * NSEC_PER_MSEC, 0, 1);
	is("the timer of one that is closed", atomic_read(&kvm->arch.pv_perf->nr_events), 2);
	open_sampling(2, 100);
	call(3, 2);
	n = pv->limited;
	kvm->memslots.slot[0].absent[RECORD(2) >> PAGE_SHIFT] = true;
	overflows_in(second / 50, 0, 2);
	is("overflows that cannot be told are charged",
	   pv->limited > n, true);
	kvm->memslots.slot[0].absent[RECORD(2) >> PAGE_SHIFT] = false;

	/* Its counter is taken while it is stopped. */
	overflows_in(second / 10, 0, 2);
	run_until_throttled(2);
	take_counters(tasks[0], NR_COUNTERS);
	overflows_in(20 * NSEC_PER_MSEC, 0, 1);
	is("no counter when it may go on", is_lost(2), true);
	take_counters(tasks[0], 0);
	is("READ tells", call(5, 2), -KVM_EBUSY);
	is("and helps", is_lost(2), false);

	*param_pv_perf_max_rate = 0;
	n = overflows_in(second / 10, 0, 2);
	is("a rate that becomes 0", n < 2, true);
	*param_pv_perf_max_rate = 100000;
	teardown();
}

/* What overflows too often, for perf or the VM's limit, is told so. */
static void test_told_throttled(void)
{
	struct guest_perf_event *r;

	setup();
	r = mem->record;
	CHECK(!open_notify(1, 100) && !call(3, 1));
	run_guest(100);
	throttle(event(1)->backing);
	is("throttled by perf: NMI", enter_guest(), 1);
	is("its flag", r[1].flags, KVM_PERF_EVENT_THROTTLED);
	tick(event(1)->backing);
	is("READ", call(5, 1), 0);
	is("gone, as perf has started it", r[1].flags, 0);

	*param_pv_perf_max_rate = 10000;
	/* By the limit, having lost its counter, too. */
	run_until_throttled(1);
	is("throttled by the limit", r[1].flags, KVM_PERF_EVENT_THROTTLED);
	pv_perf_set_why(event(1), PV_PERF_LOST);
	call(5, 1);
	is("both", r[1].flags, KVM_PERF_EVENT_THROTTLED | KVM_PERF_EVENT_LOST);
	overflows_in(20 * NSEC_PER_MSEC, 0, 1);
	is("the end of the one does not hide the other", r[1].flags,
	   KVM_PERF_EVENT_LOST);
	is("which counts nothing", event(1)->backing->state,
	   PERF_EVENT_STATE_OFF);
	is("until an ENABLE", call(3, 1), 0);
	is("which is told", r[1].flags, 0);
	*param_pv_perf_max_rate = 100000;
	teardown();
}

/* What one vCPU does is not another's affair. */
static void test_own_rate(void)
{
	const u64 second = 1000000000;
	long n;

	setup();
	*param_pv_perf_max_rate = 20000;
	on(1);
	open_sampling(2, 100000);
	call(3, 2);
	on(0);
	open_sampling(1, 100);
	call(3, 1);
	n = overflows_in(second / 10, 0, 1);
	is("one vCPU has the rate, and a burst",
	   n > 1900 && n < 2000 + 200 + 20, true);
	run_until_throttled(1);
	is("the other is not stopped for it",
	   overflows_in(second / 10, 1, 2), 1000);
	is("nor is one that moves there", call(3, 1), 0);
	is("the first does not write the other's numbers",
	   vcpus[0]->arch.pv_perf->limited &&
	   !vcpus[1]->arch.pv_perf->limited, true);
	call(4, 1);
	on(0);
	call(2, 1);
	is("who opens too often waits", open_takes(1000) > 0, true);
	on(1);
	is("and has no other wait", open_takes(100), 0);
	*param_pv_perf_max_rate = 100000;
	teardown();
}

static void overflow_now(void)
{
	run_guest(1000);
}

static void overflow_then(void)
{
	nmi_to_come = overflow_now;
}

static void test_sampling(void)
{
	struct guest_perf_event *r;
	u32 n;
	int i;

	setup();
	r = &mem->record[1];
	is("OPEN", open_sampling(1, 1000), 0);
	call(KVM_PERF_OP_ENABLE, 1);
	run_guest(999);
	is("no NMI yet", enter_guest(), 0);
	run_guest(1);
	is("nothing delivered in NMI context", r->overflows, 0);
	is("NMI", enter_guest(), 1);
	is("overflow", r->overflows, 1);
	is("last_period", r->last_period, 1000);
	is("period_left", r->period_left, 1000);
	is("count", r->count, 1000);
	is("not kicked", atomic_read(&vcpus[0]->kicks), 0);
	run_guest(2500);
	is("one NMI", enter_guest(), 1);
	is("for two overflows", r->overflows, 3);
	is("debugfs's number", vcpus[0]->arch.pv_perf->delivered, 3);
	run_guest(500);
	vcpus[0]->arch.nmi_pending = 1;
	is("none while one is pending", enter_guest(), 0);
	vcpus[0]->arch.nmi_pending = 0;
	is("but the overflow", r->overflows, 4);
	run_guest(1000);
	vcpus[0]->arch.nmi_queued.counter = 1;
	is("none while one is queued", enter_guest(), 1);

	/* Not from the guest: it may be on its way to halt. */
	vcpus[0]->arch.nmi_from_guest = false;
	run_guest(2000);
	is("kicked once", atomic_read(&vcpus[0]->kicks), 1);
	is("NMI by the irq_work", enter_guest(), 1);
	enter_guest();
	irq_work_late = true;
	run_guest(1000);
	is("NMI before the irq_work", enter_guest(), 1);
	irq_work_late = false;
	irq_work_run();
	is("none by the irq_work then", enter_guest(), 0);
	is("nor a kick", atomic_read(&vcpus[0]->kicks), 1);
	vcpus[0]->arch.nmi_from_guest = true;

	/* Before the period of an overflow is read, and after that. */
	n = r->overflows;
	for (i = 0; i < 2; i++) {
		run_guest(1000);
		nmi_to_come = i ? overflow_then : overflow_now;
		enter_guest();
		is("an overflow while another is told of: its period", r->last_period, 1000);
		enter_guest();
		is("and later", r->last_period, 1000);
	}
	is("two each time", r->overflows - n, 4);

	/* The record's page goes. */
	r->overflows = 0;
	kvm->memslots.slot[0].absent[RECORD(1) >> PAGE_SHIFT] = true;
	run_guest(1000);
	is("no NMI without a record", enter_guest(), 0);
	kvm->memslots.slot[0].absent[RECORD(1) >> PAGE_SHIFT] = false;
	is("which is lost", (enter_guest(), r->overflows), 0);

	/* Undelivered overflows go where the event goes. */
	run_guest(1000);
	on(1);
	CHECK(!enter_guest());
	is("ENABLE elsewhere", call(KVM_PERF_OP_ENABLE, 1), 0);
	is("NMI there", enter_guest(), 1);
	is("overflow there", r->overflows, 1);

	/* DISABLE delivers none; CLOSE drops them. */
	run_guest(1000);
	is("DISABLE", call(4, 1), 0);
	is("no overflow by it", r->overflows, 1);
	is("NMI after it", enter_guest(), 1);
	call(3, 1);
	run_guest(1000);
	is("CLOSE", call(2, 1), 0);
	is("no NMI after it", enter_guest(), 0);
	teardown();
}

/* The NMI that ended guest mode has been handled; an NMI for the guest now? */
static bool nmi_exit(void)
{
	unsigned long flags;
	bool nmi;

	local_irq_save(flags);
	nmi = pv_perf_deliver_at_exit(here());
	if (nmi)
		pv_perf_enter(here(), PV_PERF_ENTRY_AFTER_NMI);
	local_irq_restore(flags);
	return nmi;
}

static void test_nmi_exit(void)
{
	struct guest_perf_event *r1, *r2;

	setup();
	r1 = &mem->record[1];
	r2 = &mem->record[2];
	open_sampling(1, 1000);
	open_sampling(2, 500);
	call(KVM_PERF_OP_ENABLE, 1);
	is("no overflow, no NMI", nmi_exit(), false);
	run_guest(1000);
	call(KVM_PERF_OP_ENABLE, 2);
	is("NMI at once", nmi_exit(), true);
	is("overflow", r1->overflows, 1);
	is("last_period", r1->last_period, 1000);
	is("count", r1->count, 1000);
	is("no request is left", vcpus[0]->requests, 0);
	is("debugfs's number", vcpus[0]->arch.pv_perf->delivered, 1);
	is("none again", nmi_exit(), false);

	run_guest(1000);
	is("one NMI for two events", nmi_exit(), true);
	is("overflow of the first", r1->overflows, 2);
	is("overflows of the second", r2->overflows, 2);

	/* What has to wait is left to the request, whole. */
	run_guest(1000);
	vcpus[0]->arch.nmi_pending = 1;
	is("not where an NMI is pending", nmi_exit(), false);
	vcpus[0]->arch.nmi_pending = 0;
	vcpus[0]->guest_debug = 1;
	is("not of a guest that is debugged", nmi_exit(), false);
	vcpus[0]->guest_debug = 0;
	kvm_make_request(KVM_REQ_NMI, vcpus[0]);
	is("not where more is requested", nmi_exit(), false);
	kvm_check_request(KVM_REQ_NMI, vcpus[0]);
	mutex_lock(&vcpus[0]->arch.pv_perf->lock);
	is("not while the lock is taken", nmi_exit(), false);
	mutex_unlock(&vcpus[0]->arch.pv_perf->lock);
	kvm->memslots.slot[0].absent[RECORD(1) >> PAGE_SHIFT] = true;
	is("not where the page is not there", nmi_exit(), false);
	kvm->memslots.slot[0].absent[RECORD(1) >> PAGE_SHIFT] = false;
	kvm->memslots.generation++;
	is("not where memory has changed", nmi_exit(), false);
	is("nothing told yet", r1->overflows, 2);
	is("NMI by the request", enter_guest(), 1);
	is("none lost of the first", r1->overflows, 3);
	is("none lost of the second", r2->overflows, 4);
	is("nor the period", r2->last_period, 500);

	/* An event that does not count here any more. */
	kvm_check_request(KVM_REQ_NMI, vcpus[0]);
	run_guest(1000);
	call(KVM_PERF_OP_DISABLE, 2);
	is("NMI for one of two", nmi_exit(), true);
	is("the first's overflow", r1->overflows, 4);
	is("not the second's", r2->overflows, 4);
	is("whose NMI comes by the request", enter_guest(), 1);
	is("with it", r2->overflows, 6);

	/* One that waits for the rate, which the request may be for. */
	*param_pv_perf_max_rate = 100;
	run_until_throttled(1);
	kvm_check_request(KVM_REQ_NMI, vcpus[0]);
	kvm_make_request(KVM_REQ_PV_PERF, vcpus[0]);
	is("no NMI for it", nmi_exit(), false);
	is("one that waits for the rate is left to the request",
	   kvm_test_request(KVM_REQ_PV_PERF, vcpus[0]), true);
	*param_pv_perf_max_rate = 100000;
	teardown();
}

/* The VMM changes the event filter. */
static void deny(u64 eventsel)
{
	WRITE_ONCE(kvm->denied_event, eventsel);
	pv_perf_filter_changed(kvm);
}

static u32 told_rdpmc(void)
{
	mem->query.size = sizeof(mem->query);
	CHECK(!call(KVM_PERF_OP_QUERY, GPA(query)));
	return mem->query.rdpmc;
}

/* The vCPUs are made when the VMM has allowed it. */
static void setup_rdpmc(void)
{
	int i;

	setup();
	for (i = 0; i < 2; i++)
		vcpu_destroy(vcpus[i]);
	kvm->created_vcpus = 0;
	atomic_set(&kvm->online_vcpus, 0);
	CHECK(!enable_cap(kvm, KVM_CAP_PV_PERF_RDPMC, 1));
	for (i = 0; i < 2; i++) {
		vcpus[i] = vcpu_create(kvm, i);
		CHECK(!pv_perf_vcpu_prepare(vcpus[i]));
	}
}

/* Of a VM whose VMM has not asked for it. */
static u32 host_rdpmc(void)
{
	u32 told;

	setup();
	told = told_rdpmc();
	teardown();
	return told;
}

static void test_rdpmc_allowed(void)
{
	struct kvm_lapic lapic = { 0 };

	setup();
	is("RDPMC: not where the host does not say so", told_rdpmc(),
	   KVM_PERF_RDPMC_HOST);
	is("nor offered", host_extension(KVM_CAP_PV_PERF_RDPMC),
	   0);
	teardown();
	*param_pv_perf_rdpmc = 1;
	setup();
	is("nor where the VMM does not", told_rdpmc(), KVM_PERF_RDPMC_VMM);
	is("though it might", host_extension(KVM_CAP_PV_PERF_RDPMC), 1);
	is("of its VM it is reported", pv_perf_check_extension(kvm,
		KVM_CAP_PV_PERF_RDPMC), 0);
	teardown();

	setup_rdpmc();
	is("it is allowed", told_rdpmc(), KVM_PERF_RDPMC_ALLOWED);
	is("user mode not with the VMM's local APIC",
	   !!(mem->query.features & KVM_PERF_FEATURE_RDPMC_USER), false);
	here()->arch.apic = &lapic;
	told_rdpmc();
	is("but with KVM's",
	   !!(mem->query.features & KVM_PERF_FEATURE_RDPMC_USER), true);
	is("as reported", pv_perf_check_extension(kvm, KVM_CAP_PV_PERF_RDPMC),
	   1);
	is("not twice", enable_cap(kvm, KVM_CAP_PV_PERF_RDPMC, 2), -EINVAL);
	kvm->arch.enable_pmu = true;
	vcpus[0]->arch.pmu.version = 2;
	is("not with a virtual PMU", told_rdpmc(), KVM_PERF_RDPMC_PMU);
	teardown();

	*param_pv_perf_rdpmc_default = true;
	setup();
	is("where the host lets those have it whose VMM says nothing",
	   told_rdpmc(), KVM_PERF_RDPMC_ALLOWED);
	is("the VM's is reported", pv_perf_check_extension(kvm,
		KVM_CAP_PV_PERF_RDPMC), 1);
	is("which may not see the NMI watchdog",
	   pv_perf_host.pmcs.watchdog, false);
	teardown();
	tasks[0] = task_create(0);
	on(0);
	kvm = vm_create();
	CHECK(!enable_cap(kvm, KVM_CAP_PV_PERF_RDPMC, 0));
	is("a VMM can refuse it", pv_perf_check_extension(kvm,
		KVM_CAP_PV_PERF_RDPMC), 0);
	vm_destroy(kvm);
	task_put(tasks[0]);
	*param_pv_perf_rdpmc = 0;
	setup();
	is("nor has anybody where the host does not allow it", told_rdpmc(),
	   KVM_PERF_RDPMC_HOST);
	teardown();
	*param_pv_perf_rdpmc_default = false;
	*param_pv_perf_rdpmc = 5;
	setup();
	is("5 shows the NMI watchdog", pv_perf_host.pmcs.watchdog, true);
	teardown();

	cpu_has_perfctr_nb = true;
	is("not where other CPUs' counters show", host_rdpmc(),
	   KVM_PERF_RDPMC_SHARED);
	*param_pv_perf_rdpmc = 2;
	is("unless the host says so", host_rdpmc(), KVM_PERF_RDPMC_VMM);
	cpu_has_perfctr_nb = false;
	enable_vmware_backdoor = true;
	is("not with VMware's RDPMC", host_rdpmc(), KVM_PERF_RDPMC_HOST);
	enable_vmware_backdoor = false;
	pmu_capability.bit_width_gp = 40;
	is("not of other counters", host_rdpmc(), KVM_PERF_RDPMC_HOST);
	pmu_capability.bit_width_gp = 48;
	boot_cpu_data.x86_vendor = X86_VENDOR_INTEL;
	pmu_capability.version = 5;
	cpuid_fixed = 0xf;
	is("not on Intel without writes of full width", host_rdpmc(),
	   KVM_PERF_RDPMC_HOST);
	cpu_has_pdcm = true;
	is("with other capabilities", host_rdpmc(), KVM_PERF_RDPMC_HOST);
	perf_capabilities = FULL_WIDTH_WRITES;
	is("Intel's version 5", host_rdpmc(), KVM_PERF_RDPMC_VMM);
	cpuid_fixed = 0x77;
	is("not with gaps", host_rdpmc(), KVM_PERF_RDPMC_HOST);
	cpuid_fixed = 0xf;
	pmu_capability.version = 6;
	is("nor version 6", host_rdpmc(), KVM_PERF_RDPMC_HOST);
	pmu_capability.version = 4;
	cpu_has_tsx_force_abort = true;
	is("nor where TSX may be forced to abort", host_rdpmc(),
	   KVM_PERF_RDPMC_HOST);
	cpu_has_tsx_force_abort = false;
	pmu_capability.num_counters_gp = 9;
	is("nor with more counters than that has", host_rdpmc(),
	   KVM_PERF_RDPMC_HOST);
	pmu_capability.num_counters_gp = NR_COUNTERS;
	cpu_has_pdcm = false;
	perf_capabilities = 0;
	boot_cpu_data.x86_vendor = X86_VENDOR_AMD;
	pmu_capability.version = 2;
	pmu_capability.num_counters_gp = 0;
	have_kvm_pmu_query = have_hypervisor_slot = true;
	hypervisor.features = KVM_PERF_FEATURE_NESTED;
	hypervisor.nr_counters = 3;
	is("not on a host that is a guest", host_rdpmc(),
	   KVM_PERF_RDPMC_NESTED);
	have_kvm_pmu_query = have_hypervisor_slot = false;
	hypervisor = (struct guest_perf_query) { };
	pmu_capability.num_counters_gp = NR_COUNTERS;
	*param_pv_perf_rdpmc = 0;
}

static void have_area(void)
{
	mem->area.size = sizeof(mem->area);
	CHECK(!set_area(GPA(area)));
}

static void test_rdpmc_intercepted(void)
{
	u64 value = 1;

	setup();
	is("RDPMC of a VM that may not", pv_perf_rdpmc(vcpus[0], 0, &value),
	   false);
	teardown();
	*param_pv_perf_rdpmc = 1;
	setup_rdpmc();
	is("of one that may, but not now", pv_perf_rdpmc(vcpus[0], 0, &value),
	   true);
	is("is 0", value, 0);
	is("the last counter", pv_perf_rdpmc(vcpus[0], NR_COUNTERS - 1, &value),
	   true);
	is("no counter", pv_perf_rdpmc(vcpus[0], NR_COUNTERS, &value), false);
	is("no fixed counter", pv_perf_rdpmc(vcpus[0], 1 << 30, &value), false);
	vcpus[0]->arch.cpl = 3;
	is("in user mode without CR4.PCE", pv_perf_rdpmc(vcpus[0], 0, &value),
	   false);
	vcpus[0]->arch.cr4 = X86_CR4_PCE;
	is("nor with it, without an area", pv_perf_rdpmc(vcpus[0], 0, &value),
	   false);
	have_area();
	is("but with both", pv_perf_rdpmc(vcpus[0], 0, &value), true);
	is("of a counter that another host had", pv_perf_rdpmc(vcpus[0],
		NR_COUNTERS, &value), true);
	vcpu_to_pmu(vcpus[0])->version = 1;
	kvm->arch.enable_pmu = true;
	is("not with a virtual PMU", pv_perf_rdpmc(vcpus[0], 0, &value), false);
	vcpu_to_pmu(vcpus[0])->version = 0;
	kvm->arch.enable_pmu = false;
	teardown();
	*param_pv_perf_rdpmc = 0;

	setup();
	have_area();
	vcpus[0]->arch.cpl = 3;
	vcpus[0]->arch.cr4 = X86_CR4_PCE;
	value = 1;
	is("user mode where the host allows none", pv_perf_rdpmc(vcpus[0], 0,
		&value), true);
	is("reads 0", value, 0);
	vcpus[0]->arch.pv_cpuid.features = 0;
	is("but not without the feature", pv_perf_rdpmc(vcpus[0], 0, &value),
	   false);
	teardown();
}

static void start_rdpmc(u32 id, u64 period)
{
	param(id, id);
	mem->attr.flags = KVM_PERF_ATTR_RDPMC;
	mem->attr.sample_period = period;
	CHECK(!do_open() && !call(KVM_PERF_OP_ENABLE, id));
}

/* NMIs in the last of these. */
static int nmis;

/* Whether the guest may execute RDPMC once it runs; that it is right is checked. */
static bool reads(void)
{
	unsigned long flags;
	bool again;

	nmis = 0;
	do {
		handle_requests(here());
		local_irq_save(flags);
		pv_perf_enter(here(), PV_PERF_ENTRY_ANEW);
		again = kvm_test_request(KVM_REQ_PV_PERF, here());
		if (!again)
			check_rdpmc(here());
		local_irq_restore(flags);
	} while (again);

	/* The guest takes the NMI. */
	kvm_check_request(KVM_REQ_NMI, here());
	nmis = atomic_xchg(&here()->arch.nmi_queued, 0);
	return !here()->arch.rdpmc_intercept;
}

static u32 pmc(u32 id)
{
	return mem->record[id].pmc & ~KVM_PERF_PMC_CHANGE;
}

static void test_rdpmc(void)
{
	u32 before;

	*param_pv_perf_rdpmc = 1;
	setup_rdpmc();
	open_id(5);
	call(KVM_PERF_OP_ENABLE, 5);
	is("not for events that do not ask for it", reads(), false);
	call(KVM_PERF_OP_CLOSE, 5);
	start_rdpmc(1, 0);
	start_rdpmc(2, 1000);
	cpus[0].pmc[3] = 0x1234;
	is("RDPMC for two events", reads(), true);
	is("in two counters", pmc(1) && pmc(2) && pmc(1) != pmc(2), true);
	is("what was in another is gone", cpus[0].pmc[3], 0);
	run_guest(300);
	before = mem->record[1].pmc;
	is("it goes on", reads(), true);
	is("with nothing new", mem->record[1].pmc, before);
	before = mem->record[2].pmc;
	run_guest(1800);
	is("after two overflows", reads(), true);
	is("there is something new", mem->record[2].pmc != before, true);

	run_guest(900);
	is("an NMI exit", nmi_exit(), true);
	before = mem->record[2].pmc;
	is("tells it at once", (reads(), mem->record[2].pmc), before);

	take_counters(tasks[0], 1);
	is("not beside an event of the host", reads(), false);
	is("and says so", pmc(1) | pmc(2), 0);
	take_counters(tasks[0], 0);
	is("once that is gone, it may", reads(), true);
	set_watchdog(tasks[0], true);
	is("not beside the NMI watchdog", reads(), false);
	is("its record says so", pmc(1), 0);
	pv_perf_host.pmcs.watchdog = true;
	is("where the host says so, it may", reads(), true);
	watchdog.owner = NULL;
	is("not if somebody's else looks like it", reads(), false);
	watchdog.owner = (void *)-1l;
	watchdog.attr.config = PERF_COUNT_HW_INSTRUCTIONS;
	is("nor if it counts something else", reads(), false);
	watchdog.attr.config = PERF_COUNT_HW_CPU_CYCLES;
	watchdog.attr.type = PERF_TYPE_RAW;
	is("of another type", reads(), false);
	watchdog.attr.type = PERF_TYPE_HARDWARE;
	watchdog.attr.exclude_user = 1;
	is("in a part of what runs", reads(), false);
	watchdog.attr.exclude_user = 0;
	watchdog.attr.exclude_kernel = 1;
	is("or in another", reads(), false);
	watchdog.attr.exclude_kernel = 0;
	watchdog.hw.idx = -1;
	is("or has no counter", reads(), false);
	watchdog.hw.idx = NR_COUNTERS - 1;
	take_counters(tasks[0], 2);
	is("not beside that and another", reads(), false);
	set_watchdog(tasks[0], false);

	throttle(event(2)->backing);
	reads();
	is("what is throttled is nowhere", pmc(2), 0);
	tick(event(2)->backing);
	is("and comes back", (reads(), pmc(2) != 0), true);
	call(KVM_PERF_OP_SET_LEFT, 2);
	is("a period begun anew", reads(), true);

	/* It moves to the other vCPU, which has a thread of its own. */
	on(1);
	is("ENABLE elsewhere", call(KVM_PERF_OP_ENABLE, 1), 0);
	is("says that it is nowhere yet", pmc(1), 0);
	is("then it is there", (reads(), pmc(1) != 0), true);
	run_guest(70);
	reads();
	is("READ by its new home", (call(5, 1), mem->record[1].count), 3070);
	on(0);
	is("the other stays", (reads(), pmc(2) != 0), true);

	on(1);
	call(KVM_PERF_OP_RESET, 0);
	on(0);
	is("after RESET by the other, not even without events", reads(), false);
	is("and that is found once", vcpus[0]->arch.pv_perf->at_entry, 0);
	teardown();
	*param_pv_perf_rdpmc = 0;
}

static void test_rdpmc_told(void)
{
	struct kvm_memory_slot *slot;
	unsigned long flags;
	u64 value;

	*param_pv_perf_rdpmc = 1;
	setup_rdpmc();
	slot = &kvm->memslots.slot[0];
	start_rdpmc(1, 0);
	slot->absent[RECORD(1) >> PAGE_SHIFT] = true;
	is("a page that is not there does not keep it from entering", reads(),
	   true);
	slot->absent[RECORD(1) >> PAGE_SHIFT] = false;
	is("nothing was told", pmc(1), 0);
	is("it is told once it is there", (reads(), pmc(1) != 0), true);

	take_counters(tasks[0], 1);
	kvm->memslots.generation++;
	local_irq_save(flags);
	pv_perf_enter(here(), PV_PERF_ENTRY_ANEW);
	local_irq_restore(flags);
	is("what it must not read it is told before it runs",
	   kvm_test_request(KVM_REQ_PV_PERF, here()), true);
	is("by the request", (handle_requests(here()), pmc(1)), 0);
	take_counters(tasks[0], 0);
	CHECK(reads() && pmc(1));

	mutex_lock(&here()->arch.pv_perf->lock);
	take_counters(tasks[0], 1);
	local_irq_save(flags);
	pv_perf_enter(here(), PV_PERF_ENTRY_ANEW);
	local_irq_restore(flags);
	mutex_unlock(&here()->arch.pv_perf->lock);
	is("nor while another vCPU looks at it",
	   kvm_test_request(KVM_REQ_PV_PERF, here()), true);
	is("so it is not allowed", reads(), false);
	take_counters(tasks[0], 0);
	CHECK(reads() && pmc(1));

	slot->absent[RECORD(1) >> PAGE_SHIFT] = true;
	take_counters(tasks[0], 1);
	is("a guest that took the memory away runs on, without", reads(), false);
	is("and its RDPMC faults", pv_perf_rdpmc(here(), 0, &value), false);
	have_area();
	here()->arch.cpl = 3;
	here()->arch.cr4 = X86_CR4_PCE;
	is("in user mode, too", pv_perf_rdpmc(here(), 0, &value), false);
	here()->arch.cpl = 0;
	here()->arch.cr4 = 0;
	take_counters(tasks[0], 0);
	is("also once it might", reads(), false);
	slot->absent[RECORD(1) >> PAGE_SHIFT] = false;
	is("until it could be told", (reads(), pmc(1)), 0);
	is("and then may", reads() && pmc(1), true);

	/* The host takes the other's before the guest has run with it. */
	open_id(2);
	CHECK(reads() && pmc(1) && !call(KVM_PERF_OP_ENABLE, 2));
	take_counters(tasks[0], NR_COUNTERS - 1);
	take_counters(tasks[0], 0);
	CHECK(pv_perf_is_newly_lost(event(2)) && !pv_perf_is_newly_lost(event(1)));
	is("beside one that has lost its counter it may", reads() && pmc(1), true);
	is("which the guest is told", mem->record[2].flags,
	   KVM_PERF_EVENT_LOST);
	call(KVM_PERF_OP_CLOSE, 2);

	/* Its counter is about to begin anew. */
	local64_set(&event(1)->backing->hw.prev_count, -100);
	is("near its end it is nowhere", (reads(), pmc(1)), 0);
	teardown();
	*param_pv_perf_rdpmc = 0;
}

/* What is told of one event, with an NMI or without. */
static void test_rdpmc_nmi(void)
{
	struct kvm_memory_slot *slot;

	*param_pv_perf_rdpmc = 1;
	setup_rdpmc();
	slot = &kvm->memslots.slot[0];
	param(1, 1);
	mem->attr.flags = KVM_PERF_ATTR_RDPMC | KVM_PERF_ATTR_RDPMC_USER;
	CHECK(!do_open() && !call(KVM_PERF_OP_ENABLE, 1));
	CHECK(reads() && pmc(1));
	is("that there is something to read comes without an NMI", nmis, 0);
	take_counters(tasks[0], 1);
	CHECK(!reads() && !pmc(1));
	is("that there is nothing any more, with one", nmis, 1);
	reads();
	is("once", nmis, 0);
	take_counters(tasks[0], 0);
	CHECK(reads() && pmc(1));
	is("and again without", nmis, 0);
	local64_add(1000, &event(1)->backing->count);
	CHECK(reads() && pmc(1));
	is("another offset comes with one", nmis, 1);

	CHECK(!call(KVM_PERF_OP_DISABLE, 1));
	is("DISABLE tells at once that there is nothing", pmc(1), 0);
	reads();
	is("without an NMI", nmis, 0);
	CHECK(!call(KVM_PERF_OP_ENABLE, 1) && reads() && pmc(1));
	on(1);
	CHECK(!call(KVM_PERF_OP_DISABLE, 1));
	on(0);
	is("by another vCPU, it is told as its own enters",
	   (reads(), pmc(1)), 0);
	is("with an NMI", nmis, 1);

	CHECK(!call(KVM_PERF_OP_ENABLE, 1) && reads() && pmc(1));
	take_counters(tasks[0], 1);
	kvm->memslots.generation++;
	CHECK(!reads() && !pmc(1));
	is("what has to wait for memory comes with one", nmis, 1);
	take_counters(tasks[0], 0);
	CHECK(reads() && pmc(1));

	replace_thread();
	pv_perf_vcpu_run(here());
	is("another thread runs the vCPU: there is something else to read",
	   reads() && pmc(1), true);
	is("with an NMI", nmis, 1);

	slot->absent[RECORD(1) >> PAGE_SHIFT] = true;
	take_counters(tasks[0], 1);
	CHECK(!reads() && pmc(1));
	is("what cannot be told comes without an NMI", nmis, 0);
	slot->absent[RECORD(1) >> PAGE_SHIFT] = false;
	CHECK(!reads() && !pmc(1));
	is("and with one when it can", nmis, 1);
	take_counters(tasks[0], 0);
	CHECK(reads() && pmc(1));

	slot->absent[RECORD(1) >> PAGE_SHIFT] = true;
	CHECK(!call(KVM_PERF_OP_ENABLE, 1));
	is("a DISABLE that cannot tell", call(KVM_PERF_OP_DISABLE, 1), -EFAULT);
	is("leaves RDPMC intercepted", reads(), false);
	slot->absent[RECORD(1) >> PAGE_SHIFT] = false;
	is("until it is told", (reads(), pmc(1)), 0);

	CHECK(!call(KVM_PERF_OP_ENABLE, 1) && reads() && pmc(1));
	here()->arch.pv_perf->pmc_changed = true;
	pv_perf_vcpu_reset(here());
	reads();
	is("after a reset there is no NMI for it", nmis, 0);
	teardown();
	*param_pv_perf_rdpmc = 0;
}

static void test_rdpmc_counters(void)
{
	u32 told;

	*param_pv_perf_rdpmc = 1;
	setup_rdpmc();
	start_rdpmc(1, 0);
	CHECK(!open_raw(2, 0x3) && !call(3, 2));
	is("not beside two counters that are merged", reads(), false);
	call(KVM_PERF_OP_CLOSE, 2);
	is("but without", reads(), true);
	/* A nested guest runs. */
	param(3, 3);
	mem->attr.flags = KVM_PERF_ATTR_RDPMC | KVM_PERF_ATTR_RDPMC_USER |
			  KVM_PERF_ATTR_EXCLUDE_GUEST;
	CHECK(!do_open() && !call(3, 3));
	CHECK(reads() && pmc(3));
	told = mem->record[3].pmc;
	here()->arch.guest_mode = true;
	is("while a nested guest runs, it may read what the guest may", reads(),
	   true);
	is("what does not count it says nothing else", mem->record[3].pmc, told);
	is("for which the nested guest would have to end", nmis, 0);
	take_counters(tasks[0], 1);
	is("not beside an event of the host", reads(), false);
	is("its guest is told nothing of that", mem->record[3].pmc, told);
	here()->arch.guest_mode = false;
	is("before it runs itself", (reads(), pmc(3)), 0);
	is("by an NMI", nmis, 1);
	take_counters(tasks[0], 0);
	is("and again", (reads(), pmc(3) != 0), true);
	mem->attr.flags = KVM_PERF_ATTR_RDPMC | KVM_PERF_ATTR_RDPMC_USER |
			  KVM_PERF_ATTR_EXCLUDE_HOST;
	CHECK(!call(KVM_PERF_OP_CLOSE, 3) && !do_open() && !call(3, 3));
	is("what counts nested guests alone holds", (reads(), pmc(3) != 0), true);
	told = mem->record[3].pmc;
	here()->arch.guest_mode = true;
	CHECK(reads());
	run_guest(10);
	here()->arch.guest_mode = false;
	is("where it was told", (reads(), mem->record[3].pmc), told);
	is("and makes no NMIs", nmis, 0);
	teardown();

	boot_cpu_data.x86_vendor = X86_VENDOR_INTEL;
	pmu_capability.num_counters_fixed = NR_FIXED;
	cpu_has_pdcm = true;
	/* That it has the metrics does not say every CPU that has them. */
	perf_capabilities = FULL_WIDTH_WRITES;
	cpu_has_metrics = true;
	perf_metrics = 0x20;
	setup_rdpmc();
	cpus[0].fixed[1] = 77;
	start_rdpmc(1, 0);
	start_rdpmc(2, 0);
	is("fixed counters, too", reads(), true);
	is("one of which is", pmc(1), KVM_PERF_PMC_FIXED | 1);
	is("the other is not", pmc(2), 1);
	is("and the others are cleared", cpus[0].fixed[1], 0);
	is("with the metrics", perf_metrics, 0);
	is("fixed counters of an intercepted RDPMC", pv_perf_rdpmc(vcpus[0],
		1 << 30 | (NR_FIXED - 1), &perf_metrics), true);
	is("and one too many", pv_perf_rdpmc(vcpus[0], 1 << 30 | NR_FIXED,
		&perf_metrics), false);
	cpu_has_metrics = false;
	teardown();
	setup_rdpmc();
	start_rdpmc(1, 0);
	is("without the metrics they are not looked at", reads(), true);
	teardown();
	cpu_has_pdcm = false;
	perf_capabilities = 0;
	boot_cpu_data.x86_vendor = X86_VENDOR_AMD;
	pmu_capability.num_counters_fixed = 0;
	*param_pv_perf_rdpmc = 0;
}

static void test_filter(void)
{
	struct guest_perf_event *r;

	setup();
	r = mem->record;
	open_sampling(1, 1000);
	param(2, 2);
	mem->attr.config = 0xc2;
	do_open();
	open_id(3);
	call(3, 1);
	call(3, 2);
	run_guest(1000);
	deny(0xc0);
	is("every vCPU is told", kvm_test_request(KVM_REQ_PV_PERF, vcpus[1]),
	   true);
	nmi_exit();
	is("what stops an event is left to the request",
	   kvm_test_request(KVM_REQ_PV_PERF, vcpus[0]), true);
	enter_guest();
	run_guest(10);
	is("READ of one that is denied", call(5, 1), -KVM_EBUSY);
	is("it does not count", r[1].count, 1000);
	is("another does", (call(5, 2), r[2].count), 1010);
	is("ENABLE of it", call(3, 1), -KVM_EOPNOTSUPP);
	is("of one that did not count", call(3, 3), -KVM_EOPNOTSUPP);
	on(1);
	is("on another vCPU", call(3, 1), -KVM_EOPNOTSUPP);
	on(0);
	call(4, 1);
	is("after DISABLE", call(3, 1), -KVM_EOPNOTSUPP);
	replace_thread();
	pv_perf_vcpu_run(vcpus[0]);
	run_guest(10);
	is("on another thread what is allowed counts", (call(5, 2), r[2].count),
	   1020);
	deny(0);
	is("ENABLE of what is allowed again", call(3, 1), 0);
	run_guest(10);
	is("counts", (call(5, 1), r[1].count), 1010);
	enter_guest();

	/* Not told yet, but another backing event is needed. */
	deny(0xc0);
	replace_thread();
	pv_perf_vcpu_run(vcpus[0]);
	run_guest(10);
	is("one that follows is asked for anew", (call(5, 1), r[1].count), 1010);
	deny(0);
	is("READ has it go on", call(5, 1), -KVM_EBUSY);
	run_guest(10);
	is("where it was", (call(5, 1), r[1].count), 1020);
	enter_guest();

	/* It takes no counter that the guest has not asked for since. */
	deny(0xc0);
	enter_guest();
	deny(0);
	replace_thread();
	pv_perf_vcpu_run(vcpus[0]);
	enter_guest();
	run_guest(10);
	is("what has lost its counter does not find one on another thread",
	   event(1)->backing->state, PERF_EVENT_STATE_OFF);
	is("where it says so still", r[1].flags, KVM_PERF_EVENT_LOST);
	is("and has no count", (call(5, 1), r[1].count), 1020);

	/* As intel_fixup_er() does. */
	event(2)->backing->hw.config = 0xbb;
	deny(0xbb);
	enter_guest();
	run_guest(10);
	is("what perf counts it by does not matter", (call(5, 2), r[2].count),
	   1070);
	is("nor for ENABLE", (call(4, 2), call(3, 2)), 0);
	teardown();
}

/* Events that only a fixed counter counts, on Intel. */
static void test_filter_fixed(void)
{
	u64 ref_cycles = hw_event_config[PERF_COUNT_HW_REF_CPU_CYCLES];
	struct guest_perf_event *r;

	boot_cpu_data.x86_vendor = X86_VENDOR_INTEL;
	pmu_capability.num_counters_fixed = NR_FIXED;
	hw_event_config[PERF_COUNT_HW_REF_CPU_CYCLES] = 0x0300;
	setup();
	r = mem->record;
	kvm->denied_fixed = BIT(2);
	param(1, 1);
	mem->attr.type = KVM_PERF_TYPE_HARDWARE;
	mem->attr.config = PERF_COUNT_HW_REF_CPU_CYCLES;
	open_fails("the filter denies fixed counter 2: ref-cycles",
		   -KVM_EOPNOTSUPP);
	mem->attr.config = 0x0300;
	open_fails("the same as a raw event", -KVM_EOPNOTSUPP);
	mem->attr.config = 0x0400;
	is("slots are another's", do_open(), 0);
	CHECK(!call(3, 1));
	run_guest(10);
	kvm->denied_fixed = BIT(3);
	pv_perf_filter_changed(kvm);
	enter_guest();
	run_guest(10);
	is("which stop when that is denied", (call(5, 1), r[1].count), 10);
	is("and do not start", call(3, 1), -KVM_EOPNOTSUPP);
	call(KVM_PERF_OP_CLOSE, 1);
	param(1, 1);
	mem->attr.config = 0x8100;
	open_fails("nor are there metrics, which need slots", -KVM_EOPNOTSUPP);
	kvm->denied_fixed = 0xf;
	mem->attr.config = 0xc0;
	is("instructions are in the filter's list", do_open(), 0);
	kvm->denied_fixed = 0;
	kvm->denied_event = 0x0300;
	param(2, 2);
	mem->attr.config = 0x0300;
	is("which says nothing of what is in the bitmap", do_open(), 0);
	kvm->denied_event = 0;
	teardown();
	boot_cpu_data.x86_vendor = X86_VENDOR_AMD;
	pmu_capability.num_counters_fixed = 0;
	setup();
	kvm->denied_fixed = ~0u;
	param(1, 1);
	mem->attr.config = 0x0300;
	is("AMD has no fixed counters", do_open(), 0);
	teardown();
	hw_event_config[PERF_COUNT_HW_REF_CPU_CYCLES] = ref_cycles;
}

static void run_mode(bool nested, u64 n)
{
	unsigned long flags;

	here()->arch.guest_mode = nested;
	local_irq_save(flags);
	pv_perf_enter(here(), PV_PERF_ENTRY_ANEW);
	local_irq_restore(flags);
	run_guest(n);
	here()->arch.guest_mode = false;
}

static long open_mode(u32 id, u64 flags, u64 period)
{
	param(id, id);
	mem->attr.sample_period = period;
	mem->attr.flags = flags;
	return do_open() ? : call(KVM_PERF_OP_ENABLE, id);
}

/* What does not count is not looked for at each entry. */
static void test_stopped_forgotten(void)
{
	struct guest_perf_event *r;

	setup();
	r = mem->record;
	CHECK(!open_mode(1, KVM_PERF_ATTR_EXCLUDE_GUEST, 1000));
	run_mode(false, 300);
	run_mode(true, 50);
	is("an event is stopped", here()->arch.pv_perf->any_stopped, true);
	CHECK(!call(KVM_PERF_OP_DISABLE, 1));
	run_mode(true, 50);
	is("DISABLE forgets that", here()->arch.pv_perf->any_stopped, false);
	CHECK(!call(KVM_PERF_OP_ENABLE, 1));
	run_mode(false, 20);
	is("it goes on where it was", (call(5, 1), r[1].count), 320);
	is("in its period, too", r[1].period_left, 680);
	run_mode(true, 50);
	take_counters(tasks[0], NR_COUNTERS);
	enter_guest();
	run_mode(true, 50);
	enter_guest();
	run_mode(true, 50);
	is("so does its loss", here()->arch.pv_perf->any_stopped, false);
	take_counters(tasks[0], 0);
	CHECK(!call(KVM_PERF_OP_ENABLE, 1));
	run_mode(false, 20);
	is("and it goes on where it was", (call(5, 1), r[1].count), 340);
	is("in its period, too", r[1].period_left, 660);
	teardown();
}

/* perf throttles what overflows next. */
static void run_throttled(u64 n)
{
	throttles = true;
	run_guest(n);
	throttles = false;
}

/* perf throttles it, gives it another counter, and starts it without writing that. */
static void test_moved_throttled(void)
{
	struct guest_perf_event *r;

	setup();
	r = mem->record;
	param(1, 1);
	mem->attr.flags = KVM_PERF_ATTR_EXCLUDE_KERNEL;
	mem->attr.sample_period = 100;
	CHECK(!do_open() && !call(KVM_PERF_OP_ENABLE, 1));
	run_throttled(100);
	reassign(event(1)->backing, 1000);
	on(1);
	call(KVM_PERF_OP_READ, 1);
	is("READ from elsewhere, before the guest is told", r[1].count, 100);
	on(0);
	enter_guest();
	is("told, it is throttled", r[1].flags, KVM_PERF_EVENT_THROTTLED);
	run_mode(false, 10);
	is("and does not go on", (call(KVM_PERF_OP_READ, 1), r[1].count), 100);
	tick(event(1)->backing);
	is("READ of one that perf has started", (call(KVM_PERF_OP_READ, 1),
						 r[1].count), 100);
	is("what is left", r[1].period_left, 100);
	run_mode(false, 30);
	is("READ of one that goes on", (call(KVM_PERF_OP_READ, 1), r[1].count),
	   130);
	is("what is left", r[1].period_left, 70);
	enter_guest();

	/* Its place in the period is set meanwhile, or its period. */
	run_throttled(70);
	enter_guest();
	reassign(event(1)->backing, 1000);
	is("SET_LEFT", call3(KVM_PERF_OP_SET_LEFT, 1, 7, 0), 0);
	tick(event(1)->backing);
	run_mode(false, 6);
	is("holds", (enter_guest(), r[1].overflows), 2);
	run_mode(false, 1);
	is("as it goes on", (enter_guest(), r[1].overflows), 3);
	is("the count", r[1].count, 207);
	run_throttled(100);
	reassign(event(1)->backing, 1000);
	is("SET_PERIOD", call3(KVM_PERF_OP_SET_PERIOD, 1, 50, 0), 0);
	enter_guest();
	run_mode(false, 49);
	is("begins a period", (enter_guest(), r[1].overflows), 4);
	run_mode(false, 1);
	is("of that length", (enter_guest(), r[1].overflows), 5);
	is("the count", r[1].count, 357);

	/* It goes on elsewhere. */
	run_throttled(50);
	reassign(event(1)->backing, 1000);
	on(1);
	is("ENABLE elsewhere", call(KVM_PERF_OP_ENABLE, 1), 0);
	enter_guest();
	run_mode(false, 20);
	is("READ there", (call(KVM_PERF_OP_READ, 1), r[1].count), 427);
	is("what is left", r[1].period_left, 30);
	on(0);
	teardown();
}

static struct {
	const char *where;
	bool moved;
} throttle_at;

/* Of vCPU 0's event, while another's operation has to wait for that CPU. */
static void throttle_there(const char *where)
{
	if (strcmp(where, throttle_at.where))
		return;

	sleep_hook = NULL;
	on(0);
	run_throttled(100);
	if (throttle_at.moved)
		reassign(event(1)->backing, 1000);
	on(1);
}

static void throttle_while(const char *where, bool moved)
{
	throttle_at.where = where;
	throttle_at.moved = moved;
	sleep_hook = throttle_there;
	on(1);
}

static void throttle_late(void)
{
	disable_hook = NULL;
	throttles = true;
	count_guest(100);
	throttles = false;
}

/* perf throttles it while an operation waits for its CPU, or for its counter. */
static void test_throttled_meanwhile(void)
{
	struct guest_perf_event *r;

	setup();
	r = mem->record;
	CHECK(!open_mode(1, KVM_PERF_ATTR_EXCLUDE_KERNEL, 100));
	throttle_while("disable", false);
	is("SET_LEFT from elsewhere", call3(KVM_PERF_OP_SET_LEFT, 1, 7, 0), 0);
	on(0);
	enter_guest();
	run_mode(false, 6);
	is("not before", (enter_guest(), r[1].overflows), 1);
	run_mode(false, 1);
	is("it overflows there", (enter_guest(), r[1].overflows), 2);
	is("the count", r[1].count, 107);
	throttle_while("period", false);
	is("SET_PERIOD from elsewhere", call3(KVM_PERF_OP_SET_PERIOD, 1, 50, 0),
	   0);
	on(0);
	enter_guest();
	run_mode(false, 49);
	is("begins a period", (enter_guest(), r[1].overflows), 3);
	run_mode(false, 51);
	is("of that length", (enter_guest(), r[1].overflows), 5);
	CHECK(!call3(KVM_PERF_OP_SET_PERIOD, 1, 100, 0));
	run_mode(false, 1);
	is("the count", (call(KVM_PERF_OP_READ, 1), r[1].count), 308);
	CHECK(!call3(KVM_PERF_OP_SET_LEFT, 1, 100, 0));

	throttle_while("value", true);
	is("READ from elsewhere", (call(KVM_PERF_OP_READ, 1), r[1].count), 408);
	on(0);
	enter_guest();
	tick(event(1)->backing);
	run_mode(false, 0);

	disable_hook = throttle_late;
	is("SET_LEFT as it overflows", call3(KVM_PERF_OP_SET_LEFT, 1, 7, 0), 0);
	is("is throttled", event(1)->backing->hw.state & PERF_HES_STOPPED,
	   PERF_HES_STOPPED);
	enter_guest();
	tick(event(1)->backing);
	run_mode(false, 6);
	is("not before", (enter_guest(), r[1].overflows), 7);
	run_mode(false, 1);
	is("it overflows there", (enter_guest(), r[1].overflows), 8);
	is("the count", r[1].count, 515);

	/* What it counts that nobody has started at VM entry is another's. */
	run_throttled(100);
	enter_guest();
	reassign(event(1)->backing, 0);
	tick(event(1)->backing);
	run_throttled(100);
	is("READ", (call(KVM_PERF_OP_READ, 1), r[1].count), 615);
	enter_guest();
	is("once told", r[1].count, 615);
	teardown();
}

/* perf throttles it, moves it and starts it, and its vCPU stops it before it counts. */
static void test_stopped_moved(void)
{
	setup();
	CHECK(!open_mode(1, KVM_PERF_ATTR_EXCLUDE_GUEST, 100));
	run_throttled(100);
	enter_guest();
	reassign(event(1)->backing, 1000);
	tick(event(1)->backing);
	run_mode(true, 10);
	is("what is in its counter is another's",
	   !!(event(1)->backing->hw.state & PERF_HES_ARCH), true);
	run_mode(false, 30);
	is("READ of one that goes on",
	   (call(KVM_PERF_OP_READ, 1), mem->record[1].count), 130);
	teardown();
}

/* Stopped for a mode, whatever perf does with it until the next entry. */
static void test_stopped(void)
{
	struct guest_perf_event *r;

	setup();
	r = mem->record;
	is("open", open_mode(1, KVM_PERF_ATTR_EXCLUDE_HOST, 0), 0);
	run_mode(true, 100);
	run_mode(false, 10);
	reassign(event(1)->backing, 1000);
	call(KVM_PERF_OP_READ, 1);
	is("READ of one that has another counter", r[1].count, 100);
	start_again(event(1)->backing);
	call(KVM_PERF_OP_READ, 1);
	is("that perf has started", r[1].count, 100);
	run_mode(false, 10);
	call(KVM_PERF_OP_READ, 1);
	is("that is stopped again", r[1].count, 100);
	reassign(event(1)->backing, 1000);
	on(1);
	call(KVM_PERF_OP_READ, 1);
	is("READ from elsewhere", r[1].count, 100);
	on(0);
	start_again(event(1)->backing);
	run_mode(true, 7);
	call(KVM_PERF_OP_READ, 1);
	is("counts on", r[1].count, 107);

	run_mode(false, 10);
	reassign(event(1)->backing, 1000);
	is("DISABLE", call(KVM_PERF_OP_DISABLE, 1), 0);
	is("its count", r[1].count, 107);
	run_mode(true, 10);
	is("ENABLE", call(KVM_PERF_OP_ENABLE, 1), 0);
	run_mode(true, 10);
	run_mode(false, 10);
	reassign(event(1)->backing, 1000);
	start_again(event(1)->backing);
	on(1);
	is("ENABLE elsewhere", call(KVM_PERF_OP_ENABLE, 1), 0);
	run_mode(true, 1);
	call(KVM_PERF_OP_READ, 1);
	is("counts on there", r[1].count, 118);
	teardown();
}

/* It keeps its place in its period, too. */
static void test_stopped_period(void)
{
	struct guest_perf_event *r;

	setup();
	r = mem->record;
	CHECK(!open_mode(1, KVM_PERF_ATTR_EXCLUDE_HOST, 100));
	run_mode(true, 40);
	run_mode(false, 10);
	reassign(event(1)->backing, 1000);
	on(1);
	call(KVM_PERF_OP_READ, 1);
	is("READ from elsewhere", r[1].count, 40);
	is("what is left", r[1].period_left, 60);
	on(0);
	call(KVM_PERF_OP_READ, 1);
	is("as READ here says", r[1].period_left, 60);
	run_mode(true, 59);
	is("goes on there", enter_guest(), 0);
	run_mode(true, 1);
	is("until it overflows", enter_guest(), 1);
	is("at its period", r[1].last_period, 100);

	/* It comes to nothing meanwhile, and perf begins another. */
	run_mode(true, 30);
	run_mode(false, 10);
	reassign(event(1)->backing, 1000);
	on(1);
	call(KVM_PERF_OP_READ, 1);
	is("ENABLE elsewhere", call(KVM_PERF_OP_ENABLE, 1), 0);
	run_mode(true, 69);
	is("goes on", enter_guest(), 0);
	run_mode(true, 1);
	is("to its end", enter_guest(), 1);
	is("count", r[1].count, 200);
	run_mode(true, 30);
	run_mode(false, 10);
	is("SET_LEFT", call3(KVM_PERF_OP_SET_LEFT, 1, 7, 0), 0);
	is("what was left", r[1].period_left, 70);
	run_mode(false, 10);
	run_mode(true, 6);
	is("holds", enter_guest(), 0);
	run_mode(true, 1);
	is("as it goes on", enter_guest(), 1);
	run_mode(false, 10);
	on(0);
	is("SET_LEFT from elsewhere", call3(KVM_PERF_OP_SET_LEFT, 1, 9, 0), 0);
	on(1);
	run_mode(false, 10);
	run_mode(true, 8);
	is("holds as well", enter_guest(), 0);
	run_mode(true, 1);
	is("as it goes on then", enter_guest(), 1);
	run_mode(true, 30);
	run_mode(false, 10);
	is("SET_PERIOD", call3(KVM_PERF_OP_SET_PERIOD, 1, 50, 0), 0);
	run_mode(false, 10);
	call(KVM_PERF_OP_READ, 1);
	is("begins a period", r[1].period_left, 50);
	run_mode(true, 49);
	is("which holds", enter_guest(), 0);
	run_mode(true, 1);
	is("to its end", enter_guest(), 1);
	is("and is told", r[1].last_period, 50);

	/* What perf has throttled has its count, but perf has not taken it. */
	run_mode(true, 10);
	throttle(event(1)->backing);
	run_mode(false, 10);
	reassign(event(1)->backing, 1000);
	call(KVM_PERF_OP_READ, 1);
	is("READ of one that perf has throttled", r[1].period_left, 40);
	teardown();
}

/* Events that count the guest only, or only its nested guests. */
static void test_modes(void)
{
	struct guest_perf_event *r;

	setup();
	r = mem->record;
	is("exclude_guest", open_mode(1, KVM_PERF_ATTR_EXCLUDE_GUEST, 0), 0);
	is("exclude_host", open_mode(2, KVM_PERF_ATTR_EXCLUDE_HOST, 100), 0);
	is("both", open_mode(3, KVM_PERF_ATTR_EXCLUDE_GUEST |
			     KVM_PERF_ATTR_EXCLUDE_HOST, 0), 0);
	is("neither", open_mode(4, 0, 0), 0);
	run_mode(false, 10);
	run_mode(true, 300);
	run_mode(true, 40);
	run_mode(false, 5000);
	call(KVM_PERF_OP_READ, KVM_PERF_ID_ALL);
	is("the guest alone", r[1].count, 5010);
	is("nested guests alone", r[2].count, 340);
	is("neither of them", r[3].count, 0);
	is("both of them", r[4].count, 5350);
	is("overflows of the nested guest", (enter_guest(), r[2].overflows), 3);
	is("what is left of its period", r[2].period_left, 60);

	/* perf takes it out and in, and starts it. */
	task_sched_out(current);
	task_sched_in(current);
	run_mode(false, 1000);
	call(KVM_PERF_OP_READ, 2);
	is("stopped again", r[2].count, 340);
	task_sched_out(current);
	task_sched_in(current);
	run_mode(true, 60);
	is("overflow", (enter_guest(), r[2].overflows), 4);

	/* What perf has throttled perf starts. */
	throttle(event(2)->backing);
	run_mode(false, 10);
	run_mode(true, 10);
	call(KVM_PERF_OP_READ, 2);
	is("throttled", r[2].count, 400);

	/* Elsewhere. */
	on(1);
	is("ENABLE elsewhere", call(KVM_PERF_OP_ENABLE, 2), 0);
	run_mode(false, 10);
	run_mode(true, 7);
	call(KVM_PERF_OP_READ, 2);
	is("counts there", r[2].count, 407);
	is("CLOSE", call(KVM_PERF_OP_CLOSE, 2), 0);
	run_mode(true, 7);
	on(0);
	run_mode(true, 7);
	is("CLOSE of the others", call(KVM_PERF_OP_RESET, 0), 0);
	run_mode(true, 7);
	teardown();
}

/* The guest handles an NMI, from when it is injected to its IRET. */
static void run_nmi(u64 n, bool injected)
{
	here()->arch.nmi_injected = injected;
	here()->arch.iret_intercept = true;
	run_mode(false, n);
	here()->arch.nmi_injected = false;
}

static void end_nmi(void)
{
	unsigned long flags;

	here()->arch.iret_intercept = false;
	local_irq_save(flags);
	pv_perf_enter(here(), PV_PERF_ENTRY_AFTER_NMI);
	local_irq_restore(flags);
}

/* What the guest's kernel executes meanwhile is not counted. */
static void test_nmi(void)
{
	struct guest_perf_event *r;
	unsigned int before;

	setup();
	r = mem->record;
	CHECK(!open_mode(1, 0, 100));
	CHECK(!open_mode(2, KVM_PERF_ATTR_EXCLUDE_KERNEL, 0));
	CHECK(!open_mode(3, KVM_PERF_ATTR_EXCLUDE_USER, 0));
	run_mode(false, 10);
	run_nmi(1000, true);
	run_nmi(1000, false);
	call(KVM_PERF_OP_READ, KVM_PERF_ID_ALL);
	is("while it handles an NMI", r[1].count, 10);
	is("nothing overflows", (enter_guest(), r[1].overflows), 0);
	is("the kernel alone", r[3].count, 10);
	is("user mode alone: perf sees to that", r[2].count, 2010);
	is("SET_LEFT meanwhile", call3(KVM_PERF_OP_SET_LEFT, 1, 30, 0), 0);
	is("what was left", r[1].period_left, 90);
	task_sched_out(current);
	task_sched_in(current);
	run_nmi(1000, false);
	reassign(event(3)->backing, 7);
	end_nmi();
	run_guest(29);
	is("that holds after it", enter_guest(), 0);
	run_mode(false, 1);
	is("and ends as it should", (enter_guest(), r[1].overflows), 1);
	call(KVM_PERF_OP_READ, KVM_PERF_ID_ALL);
	is("counts on", r[1].count, 40);
	is("also with another counter", r[3].count, 40);

	/* With 1 left it would be written as 2, and 0 would begin a period. */
	run_nmi(1000, true);
	before = written_counters;
	end_nmi();
	is("its counter goes on", written_counters, before);
	run_nmi(1000, true);
	CHECK(!call3(KVM_PERF_OP_SET_LEFT, 1, 30, 0));
	end_nmi();
	is("and is written where that is set", written_counters > before, true);

	run_nmi(1000, true);
	is("DISABLE meanwhile", call(KVM_PERF_OP_DISABLE, 3), 0);
	end_nmi();
	run_guest(10);
	CHECK(!call(KVM_PERF_OP_ENABLE, 3));
	run_mode(false, 5);
	is("ENABLE after it", (call(KVM_PERF_OP_READ, 3), r[3].count), 45);

	run_nmi(1000, true);
	here()->arch.guest_mode = true;
	here()->arch.iret_intercept = false;
	run_mode(true, 3);
	is("a nested guest runs meanwhile", (call(KVM_PERF_OP_READ, 3),
	   r[3].count), 48);
	/* The VMM sets the vCPU's state, or its IRET cannot be intercepted. */
	here()->arch.nmi_injected = true;
	run_mode(false, 4);
	here()->arch.nmi_injected = false;
	is("one of which no end would be seen", (call(KVM_PERF_OP_READ, 3),
	   r[3].count), 52);
	teardown();
}

/* Records of branches */

/* As the MSRs have them. */
#define LBR_MISPREDICT	BIT_ULL(63)	/* of From */
#define LBR_VALID	BIT_ULL(63)	/* of To, as the others */
#define LBR_SPEC	BIT_ULL(62)
#define LBR_RESERVED	BIT_ULL(61)

static void setup_branches(void)
{
	memset(cpus[0].lbr, 0x5a, sizeof(cpus[0].lbr));
	cpus[0].lbr_config = BIT(3);
	cpus[0].lbr_select = 0;
	cpu_has_lbr_v2 = true;
	*param_pv_perf_branches = true;
	setup();
	have_area();
}

static void teardown_branches(void)
{
	teardown();
	cpu_has_lbr_v2 = false;
	*param_pv_perf_branches = false;
	cpus[0].lbr_config = 0;
}

static u32 enter_recording(void)
{
	unsigned long flags;

	local_irq_save(flags);
	pv_perf_enter(here(), PV_PERF_ENTRY_ANEW);
	check_branches(here());
	local_irq_restore(flags);
	return here()->arch.pv_perf_branches;
}

/* It executes these, and leaves the guest for an NMI or for something else. */
static void record(const u64 (*branches)[2], int n, bool nmi)
{
	unsigned long flags;

	local_irq_save(flags);
	run_branches(here(), branches, n);
	if (nmi)
		pv_perf_save_branches(here());
	local_irq_restore(flags);
	/* The host's handler of the NMI may have perf use the stack. */
	memset(cpus[current->cpu].lbr, 0xa5, sizeof(cpus[0].lbr));
}

/* One branch, and the overflow of an event of this period. */
static void overflow_after(u64 from, u64 period, bool nmi)
{
	const u64 branches[][2] = { { from, LBR_VALID | 0x2000 } };

	/* It has got any NMI that there was. */
	kvm_check_request(KVM_REQ_NMI, here());
	enter_recording();
	record(branches, 1, nmi);
	run_guest(period);
}

static void test_open_branches(void)
{
	struct guest_perf_query *q;
	int i;

	setup();
	param(1, 1);
	mem->attr.flags = KVM_PERF_ATTR_BRANCHES;
	mem->attr.sample_period = 1000;
	is("branches on a CPU that records none", do_open(), 0);
	is("are ignored", pv_perf_has_branches(event(1)), 0);
	q = &mem->query;
	q->size = sizeof(*q);
	CHECK(!call(6, GPA(query)));
	is("QUERY says so", q->features & KVM_PERF_FEATURE_BRANCHES, 0);
	is("and how many", q->branches, 0);
	teardown();

	/* By default. */
	cpu_has_lbr_v2 = true;
	setup();
	param(1, 1);
	mem->attr.flags = KVM_PERF_ATTR_BRANCHES;
	mem->attr.sample_period = 1000;
	is("branches where the administrator has not allowed them", do_open(), 0);
	is("are ignored, too", pv_perf_has_branches(event(1)), 0);
	q = &mem->query;
	q->size = sizeof(*q);
	CHECK(!call(6, GPA(query)));
	is("QUERY says so, too", q->branches, 0);
	teardown();
	cpu_has_lbr_v2 = false;

	setup_branches();
	q = &mem->query;
	for (i = 32; i < 41; i++) {
		param(i, i);
		mem->attr.flags = BIT_ULL(i);
		CHECK(!do_open() && !pv_perf_has_branches(event(i)));
		CHECK(!call(KVM_PERF_OP_CLOSE, i));
		mem->attr.sample_period = 1000;
		CHECK(!do_open());
		CHECK((event(i)->flags & KVM_PERF_ATTR_BRANCHES) == BIT_ULL(i));
	}
	is("each kind by itself, with a period", i, 41);
	CHECK(!call(KVM_PERF_OP_RESET, 0));
	param(1, 1);
	mem->attr.sample_period = 1000;
	mem->attr.flags = BIT_ULL(41);
	is("a kind that there is not", do_open(), 0);
	is("is ignored", pv_perf_has_branches(event(1)), 0);
	CHECK(!call(KVM_PERF_OP_CLOSE, 1));
	mem->attr.flags = KVM_PERF_ATTR_BRANCHES | BIT_ULL(31);
	open_fails("a flag that is not optional: EINVAL", -KVM_EINVAL);
	mem->attr.sample_period = 1000;
	mem->attr.flags = KVM_PERF_ATTR_BRANCHES | KVM_PERF_ATTR_FREQ;
	is("with a frequency", do_open(), 0);

	memset(q, 0x5a, sizeof(*q) + sizeof(mem->after_query));
	q->size = GUEST_PERF_QUERY_SIZE_VER0 + 8;
	CHECK(!call(6, GPA(query)));
	is("QUERY of a larger struct fills what the host knows", q->size,
	   GUEST_PERF_QUERY_SIZE_VER0);
	is("QUERY has the feature of branches",
	   !!(q->features & KVM_PERF_FEATURE_BRANCHES), true);
	is("QUERY has the number of branches", q->branches, NR_BRANCHES);
	is("QUERY writes nothing behind what the host knows", !memchr_inv(mem->after_query, 0x5a,
					sizeof(mem->after_query)), true);
	teardown_branches();

	cpu_branches = KVM_PERF_MAX_BRANCHES + 1;
	setup_branches();
	mem->query.size = sizeof(mem->query);
	CHECK(!call(6, GPA(query)));
	is("of a deeper stack as many as there is room for",
	   mem->query.branches, KVM_PERF_MAX_BRANCHES);
	teardown_branches();
	cpu_branches = NR_BRANCHES;
}

static u64 selected(void)
{
	CHECK(enter_recording());
	/* The MSR says what not to record. */
	return ~cpus[0].lbr_select & 0x1ff;
}

/* What is recorded, and when. */
static void test_branches_wanted(void)
{
	const u64 user = KVM_PERF_ATTR_BRANCH_USER, cond = KVM_PERF_ATTR_BRANCH_COND;
	const u64 kernel = KVM_PERF_ATTR_BRANCH_KERNEL;
	static const u64 one[][2] = { { 1, LBR_VALID | 2 } };
	unsigned long flags;
	u64 select;

	setup_branches();
	is("without such events", enter_recording(), 0);
	CHECK(!open_mode(1, 0, 1000));
	is("nothing is recorded", enter_recording(), 0);
	is("nor any register read or written", cpus[0].lbr_select, 0);
	is("and its records stay", cpus[0].lbr[0][0] == 0x5a5a5a5a5a5a5a5a, true);
	CHECK(!open_mode(2, user | cond, 1000));
	is("what an event wants", selected(), (user | cond) >> 32);
	is("the rest of the register stays", here()->arch.pv_perf_branches,
	   BIT(3) | DBG_EXTN_CFG_LBRV2EN);
	record(one, 1, false);
	is("as it does after it", cpus[0].lbr_config, BIT(3));
	CHECK(!open_mode(3, kernel | KVM_PERF_ATTR_BRANCH_FAR, 1000));
	select = selected();
	is("what two want", select, (user | cond | kernel |
				     KVM_PERF_ATTR_BRANCH_FAR) >> 32);
	CHECK(!call(KVM_PERF_OP_DISABLE, 2));
	is("what is disabled wants nothing", selected(),
	   (kernel | KVM_PERF_ATTR_BRANCH_FAR) >> 32);
	CHECK(!call(KVM_PERF_OP_ENABLE, 2));
	is("until ENABLE", selected(), select);
	on(1);
	CHECK(!call(KVM_PERF_OP_ENABLE, 3));
	on(0);
	is("nor what has moved", selected(), (user | cond) >> 32);
	take_counters(tasks[0], NR_COUNTERS);
	is("nor what has no counter", enter_recording(), 0);
	take_counters(tasks[0], 0);
	enter_guest();
	call(KVM_PERF_OP_ENABLE, 2);
	is("which it gets", selected(), (user | cond) >> 32);

	/* The host's perf has enabled it. */
	cpus[0].lbr_config |= DBG_EXTN_CFG_LBRV2EN;
	cpus[0].lbr_select = 0x77;
	cpus[0].lbr[0][0] = 0x1234;
	is("where the host records, the guest does not", enter_recording(), 0);
	is("which has its kinds", cpus[0].lbr_select, 0x77);
	is("and its records", cpus[0].lbr[0][0], 0x1234);
	overflow_after(0x1000, 1000, true);
	enter_guest();
	is("an overflow then has none", mem->area.nr_branches, 0);
	is("but is told of", mem->record[2].overflows, 1);
	cpus[0].lbr_config &= ~DBG_EXTN_CFG_LBRV2EN;
	is("until it ends that", selected(), (user | cond) >> 32);

	/* Once more without the way out of the run loop. */
	record(one, 1, true);
	local_irq_save(flags);
	pv_perf_enter(here(), PV_PERF_ENTRY_AFTER_NMI);
	check_branches(here());
	local_irq_restore(flags);
	is("the same as it enters again", !!here()->arch.pv_perf_branches, true);
	is("what was before is no more to be told of",
	   here()->arch.pv_perf->branches.nr, 0);

	here()->arch.guest_mode = true;
	is("not of a nested guest", enter_recording(), 0);
	here()->arch.guest_mode = false;
	is("but of the guest after it", !!enter_recording(), true);

	CHECK(!call(KVM_PERF_OP_CLOSE, 2));
	is("none is left that wants any", enter_recording(), 0);
	CHECK(!open_mode(2, user, 1000));
	CHECK(enter_recording());
	CHECK(!call(KVM_PERF_OP_RESET, 0));
	is("nor after RESET", enter_recording(), 0);
	is("of which nothing is looked at", here()->arch.pv_perf->at_entry, 0);
	is("nor changed", (cpus[0].lbr[0][0] = 7, enter_recording()) ||
	   cpus[0].lbr[0][0] != 7, false);
	CHECK(!open_mode(2, user, 1000));
	CHECK(enter_recording());
	pv_perf_vcpu_reset(vcpus[0]);
	is("nor after a reset", enter_recording(), 0);
	teardown_branches();
}

/* Of what does not count now. */
static void test_branches_stopped(void)
{
	const u64 user = KVM_PERF_ATTR_BRANCH_USER, kernel = KVM_PERF_ATTR_BRANCH_KERNEL;
	const u64 any = KVM_PERF_ATTR_BRANCHES;

	setup_branches();
	CHECK(!open_mode(1, any | KVM_PERF_ATTR_EXCLUDE_HOST, 1000));
	is("what counts nested guests alone", enter_recording(), 0);
	CHECK(!open_mode(2, any | KVM_PERF_ATTR_EXCLUDE_KERNEL, 1000));
	CHECK(!open_mode(3, 0, 1000));
	is("what counts user mode", selected(), 0x1ff);

	/* Of the kernel, but not of what takes a sample. */
	here()->arch.nmi_injected = true;
	here()->arch.iret_intercept = true;
	is("while the guest handles an NMI: nothing of its kernel", selected(),
	   0x1ff & ~(kernel >> 32));
	here()->arch.nmi_injected = false;
	is("up to its end", selected(), 0x1ff & ~(kernel >> 32));
	end_nmi();
	is("from where on it is again", ~cpus[0].lbr_select & 0x1ff, 0x1ff);
	CHECK(!call(KVM_PERF_OP_CLOSE, 2));
	CHECK(!open_mode(4, any, 1000));
	here()->arch.nmi_injected = true;
	here()->arch.iret_intercept = true;
	is("nor for what is stopped then", enter_recording(), 0);
	here()->arch.nmi_injected = false;
	end_nmi();
	is("but after it", !!here()->arch.pv_perf_branches, true);
	CHECK(!open_mode(5, user | KVM_PERF_ATTR_EXCLUDE_GUEST, 1000));
	here()->arch.guest_mode = true;
	is("a nested guest", enter_recording(), 0);
	here()->arch.guest_mode = false;
	teardown_branches();
}

static bool branch_is(int i, u64 from, u64 to, u64 info)
{
	const struct guest_perf_branch *b = &mem->area.branch[i];

	return b->from == from && b->to == to && b->info == info;
}

#define SPEC(what)	((u64)PERF_BR_##what << KVM_PERF_BRANCH_SPEC_SHIFT)

static void test_branches_decoded(void)
{
	/* What is above the 48 bits of an address says nothing of it. */
	static const u64 raw[][2] = {
		{ 0x1001, 0x2001 },				/* none */
		{ 0x1002, LBR_VALID | LBR_RESERVED | 0x2002 },	/* erratum */
		{ 0x7fffffffffff, LBR_VALID | 0x2003 },
		{ LBR_MISPREDICT | 0x1004, LBR_SPEC | 0x2004 },
		{ 0x800000000005, LBR_VALID | LBR_SPEC | 0xffff81234567 },
		{ LBR_MISPREDICT | 0x7fff800000001006,
		  LBR_VALID | 0x0ff0000000002006 },
	};
	static const u64 high[][2] = {
		{ 0x800000000005, LBR_VALID | 1ull << 56 },
	};
	u64 many[NR_BRANCHES + 3][2];
	int i;

	setup_branches();
	CHECK(!open_mode(1, KVM_PERF_ATTR_BRANCHES, 1000));
	memset(&mem->area.nr_branches, 0x77, sizeof(mem->area) -
	       offsetof(struct guest_perf_area, nr_branches));
	CHECK(enter_recording());
	record(raw, ARRAY_SIZE(raw), true);
	is("nothing is told before an overflow", mem->area.nr_branches,
	   0x77777777);
	run_guest(1000);
	is("NMI", enter_guest(), 1);
	is("how many branches led to it", mem->area.nr_branches, 4);
	is("reserved", mem->area.reserved2, 0);
	is("the last one, of a kernel", branch_is(0, 0xffff800000001006, 0x2006,
	   KVM_PERF_BRANCH_MISPREDICTED | SPEC(NON_SPEC_CORRECT_PATH)), true);
	is("one that was speculated", branch_is(1, 0xffff800000000005,
	   0xffffffff81234567, SPEC(SPEC_CORRECT_PATH)), true);
	is("one that was, wrongly", branch_is(2, 0x1004, 0x2004,
	   KVM_PERF_BRANCH_MISPREDICTED | SPEC(SPEC_WRONG_PATH)), true);
	is("the highest address of user mode", branch_is(3, 0x7fffffffffff,
	   0x2003, SPEC(NON_SPEC_CORRECT_PATH)), true);
	is("nothing behind these", mem->area.branch[4].from ==
	   0x7777777777777777, true);
	is("the page is dirty",
	   kvm->memslots.slot[0].dirty[gpa_to_gfn(GPA(area))], true);

	boot_cpu_data.x86_virt_bits = 57;
	CHECK(enter_recording());
	record(high, 1, true);
	run_guest(1000);
	enter_guest();
	is("addresses of 57 bits", branch_is(0, 0x800000000005,
	   0xff00000000000000, SPEC(NON_SPEC_CORRECT_PATH)), true);
	boot_cpu_data.x86_virt_bits = 48;

	for (i = 0; i < ARRAY_SIZE(many); i++) {
		many[i][0] = 0x1000 + i;
		many[i][1] = LBR_VALID | 0x2000;
	}
	CHECK(enter_recording());
	record(many, ARRAY_SIZE(many), true);
	run_guest(1000);
	enter_guest();
	is("as many as the stack has", mem->area.nr_branches, NR_BRANCHES);
	is("from the last one", mem->area.branch[0].from,
	   0x1000 + ARRAY_SIZE(many) - 1);
	is("to the first that is left",
	   mem->area.branch[NR_BRANCHES - 1].from, 0x1003);
	teardown_branches();
}

/* With the overflow that they led to, and no other. */
static void test_branches_told(void)
{
	struct guest_perf_event *r;

	setup_branches();
	r = mem->record;
	CHECK(!open_mode(1, KVM_PERF_ATTR_BRANCHES, 1000));
	overflow_after(0x1000, 1000, true);
	is("right at the exit", nmi_exit(), true);
	is("one branch", mem->area.nr_branches, 1);
	is("which was executed", mem->area.branch[0].from, 0x1000);
	is("an overflow", r[1].overflows, 1);
	CHECK(enter_recording());
	run_guest(1000);
	enter_guest();
	is("no exit for an NMI: none is known", mem->area.nr_branches, 0);
	is("but an overflow", r[1].overflows, 2);
	overflow_after(0x1000, 999, true);
	enter_guest();
	enter_recording();
	run_guest(1);
	enter_guest();
	is("what was executed before another entry is not told of",
	   mem->area.nr_branches, 0);
	overflow_after(0x1000, 1000, false);
	enter_guest();
	is("nor after another exit", mem->area.nr_branches, 0);

	/* One event more, which does not ask for it. */
	CHECK(!open_mode(2, 0, 500));
	overflow_after(0x1001, 500, true);
	CHECK(!mem->area.nr_branches);
	enter_guest();
	is("with the overflow of another event", mem->area.nr_branches, 0);
	is("that one was told of", r[2].overflows, 1);
	overflow_after(0x1002, 500, true);
	is("both at once", nmi_exit(), true);
	is("with those of the one", mem->area.branch[0].from, 0x1002);
	CHECK(!call(KVM_PERF_OP_CLOSE, 2));

	/* What one of two events has to wait for does not take the other's. */
	CHECK(!open_mode(3, KVM_PERF_ATTR_BRANCHES, 1000));
	CHECK(!call3(KVM_PERF_OP_SET_LEFT, 1, 1000, 0));
	param(4, 100);
	mem->attr.sample_period = 1000;
	mem->attr.flags = KVM_PERF_ATTR_BRANCHES;
	CHECK((RECORD(100) >> PAGE_SHIFT) != (RECORD(1) >> PAGE_SHIFT));
	CHECK(!do_open() && !call(KVM_PERF_OP_ENABLE, 4));
	overflow_after(0x1003, 1000, true);
	kvm->memslots.slot[0].absent[RECORD(100) >> PAGE_SHIFT] = true;
	is("two at once, another has to wait", nmi_exit(), true);
	kvm->memslots.slot[0].absent[RECORD(100) >> PAGE_SHIFT] = false;
	mem->area.nr_branches = 77;
	enter_guest();
	is("and is told of with the same", mem->area.nr_branches == 1 &&
	   mem->area.branch[0].from == 0x1003, true);
	is("as it is the only one", mem->record[100].overflows, 1);
	CHECK(!call(KVM_PERF_OP_CLOSE, 3) && !call(KVM_PERF_OP_CLOSE, 4));

	/* Moved before that could be told. */
	CHECK(!call3(KVM_PERF_OP_SET_LEFT, 1, 1000, 0));
	overflow_after(0x1004, 1000, true);
	on(1);
	mem->area.nr_branches = 77;
	CHECK(!call(KVM_PERF_OP_ENABLE, 1));
	is("told of elsewhere", enter_guest(), 1);
	is("where there is no area", mem->area.nr_branches, 77);
	on(0);
	enter_guest();
	is("nor where it was", mem->area.nr_branches, 77);
	is("nothing is recorded there any more", enter_recording(), 0);
	teardown_branches();
}

/* Where there is no room for them, the overflow is told of all the same. */
static void test_branches_room(void)
{
	bool *absent;
	u32 n;

	setup_branches();
	CHECK(!open_mode(1, KVM_PERF_ATTR_BRANCHES, 1000));
	CHECK(!set_area(0));
	mem->area.nr_branches = 77;
	overflow_after(0x1000, 1000, true);
	n = mem->record[1].overflows;
	is("no area: at the exit, too", nmi_exit(), true);
	is("for the overflow", mem->record[1].overflows, n + 1);
	is("but nothing where one was", mem->area.nr_branches, 77);

	have_area();
	absent = &kvm->memslots.slot[0].absent[gpa_to_gfn(GPA(area))];
	overflow_after(0x1000, 1000, true);
	*absent = true;
	is("a page that is not there is not waited for", nmi_exit(), false);
	is("nothing is told yet", mem->record[1].overflows, n + 1);
	*absent = false;
	is("but by the request", enter_guest(), 1);
	is("with its branch", mem->area.nr_branches == 1 &&
	   mem->area.branch[0].from == 0x1000, true);
	mem->area.nr_branches = 77;
	overflow_after(0x1000, 1000, true);
	*absent = true;
	is("a page that stays away: an NMI", enter_guest(), 1);
	*absent = false;
	is("for the overflow alone", mem->record[1].overflows, n + 3);
	is("no branch", mem->area.nr_branches, 77);

	kvm->memslots.generation++;
	overflow_after(0x1001, 1000, true);
	is("not where memory has changed", nmi_exit(), false);
	is("that is looked up", enter_guest(), 1);
	is("and told", mem->area.branch[0].from, 0x1001);
	overflow_after(0x1002, 1000, true);
	is("once", nmi_exit(), true);
	is("and told again", mem->area.branch[0].from, 0x1002);

	/* Where it may not be written. */
	CHECK(set_area(RO_MEMORY) == -KVM_EFAULT ||
	      set_area(RO_MEMORY) == -KVM_EINVAL);
	overflow_after(0x1003, 1000, true);
	CHECK(nmi_exit());
	is("a SET_AREA that fails leaves what there was",
	   mem->area.branch[0].from, 0x1003);

	/* RESET by another vCPU closes the event, and ends the area. */
	overflow_after(0x1004, 1000, true);
	on(1);
	CHECK(!call(KVM_PERF_OP_RESET, 0));
	on(0);
	enter_guest();
	is("after RESET nothing is written", mem->area.branch[0].from, 0x1003);

	/* The VMM stops the vCPU, and may save its memory. */
	have_area();
	CHECK(!open_mode(1, KVM_PERF_ATTR_BRANCHES, 1000));
	overflow_after(0x1005, 1000, true);
	pv_perf_vcpu_leave(vcpus[0], -EINTR);
	is("what is saved has the branch", mem->area.branch[0].from, 0x1005);
	is("the overflow", mem->record[1].overflows, 1);
	is("and no epoch", mem->area.epoch & 1, 0);
	teardown_branches();
}

/* perf throttles it, gives it another counter, and starts it without writing that. */
static void test_rdpmc_unwritten(void)
{
	*param_pv_perf_rdpmc = 1;
	setup_rdpmc();
	start_rdpmc(1, 10);
	CHECK(reads());
	run_throttled(10);
	reassign(event(1)->backing, 1000);
	is("what perf has throttled and moved is nowhere", (reads(), pmc(1)), 0);
	tick(event(1)->backing);
	is("started with what somebody else has counted, it is read", reads(), true);
	run_guest(5);
	is("without that", (call(KVM_PERF_OP_READ, 1), mem->record[1].count), 15);
	teardown();
	*param_pv_perf_rdpmc = 0;
}

/* What is found at an entry that looks only at what has changed. */
static void test_rdpmc_changed(void)
{
	struct perf_event *backing;
	unsigned long flags;

	*param_pv_perf_rdpmc = 1;
	setup_rdpmc();
	start_rdpmc(1, 0);
	CHECK(!open_mode(2, KVM_PERF_ATTR_EXCLUDE_HOST, 0));
	CHECK(reads() && reads());
	task_sched_out(current);
	task_sched_in(current);
	is("beside an event of another mode, once the thread runs again", reads(),
	   true);
	reassign(event(2)->backing, 1000);
	is("an event of another mode has another's counter", reads(), false);
	CHECK(!call(KVM_PERF_OP_CLOSE, 2) && reads() && pmc(1));
	CHECK(!open_mode(2, 0, 0));
	is("beside one that need not be read", reads() && reads(), true);
	task_sched_out(current);
	task_sched_in(current);
	CHECK(reads() && pmc(1));
	is("which is disabled", (call(KVM_PERF_OP_DISABLE, 2), reads() && reads()),
	   true);
	throttle(event(1)->backing);
	is("or throttled", (reads(), reads(), pmc(1)), 0);
	tick(event(1)->backing);
	CHECK(reads() && pmc(1));
	CHECK(!call(KVM_PERF_OP_CLOSE, 2) && reads());
	backing = event(1)->backing;
	backing->hw.last_tag++;
	is("the same counter, assigned anew", (reads(), pmc(1) != 0), true);
	local64_add(-5 - local64_read(&backing->hw.prev_count), &backing->count);
	local64_set(&backing->hw.prev_count, -5);
	is("a counter comes near its end", (reads(), pmc(1)), 0);
	teardown();

	setup_rdpmc();
	start_rdpmc(1, 0);
	CHECK(reads() && pmc(1));
	take_counters(tasks[0], 1);
	kvm->memslots.slot[0].absent[RECORD(1) >> PAGE_SHIFT] = true;
	local_irq_save(flags);
	pv_perf_enter(here(), PV_PERF_ENTRY_AFTER_NMI);
	local_irq_restore(flags);
	is("one that cannot be told where it enters again",
	   kvm_test_request(KVM_REQ_PV_PERF, here()), true);
	kvm->memslots.slot[0].absent[RECORD(1) >> PAGE_SHIFT] = false;
	is("is told first", (reads(), pmc(1)), 0);
	take_counters(tasks[0], 0);
	teardown();
	*param_pv_perf_rdpmc = 0;
}

static void test_rdpmc_in_nmi(void)
{
	u32 told;

	*param_pv_perf_rdpmc = 1;
	setup_rdpmc();
	start_rdpmc(1, 0);
	CHECK(reads());
	run_guest(10);
	told = mem->record[1].pmc;
	here()->arch.nmi_injected = true;
	here()->arch.iret_intercept = true;
	is("a counter that stands still is read", reads(), true);
	here()->arch.nmi_injected = false;
	is("where it was", mem->record[1].pmc, told);
	reassign(event(1)->backing, 1000);
	is("not in another counter, which nobody has written", reads(), false);
	is("of which it is told", pmc(1), 0);
	here()->arch.iret_intercept = false;
	is("can be read once it counts", (reads(), pmc(1) != 0), true);
	run_guest(5);
	is("and goes on", (call(KVM_PERF_OP_READ, 1), mem->record[1].count), 15);
	teardown();

	setup_rdpmc();
	start_rdpmc(1, 0);
	CHECK(!open_mode(2, KVM_PERF_ATTR_RDPMC |
			 KVM_PERF_ATTR_EXCLUDE_KERNEL, 0));
	CHECK(reads() && pmc(1));
	here()->arch.nmi_injected = true;
	here()->arch.iret_intercept = true;
	CHECK(reads() && pmc(1));
	here()->arch.nmi_injected = false;
	on(1);
	CHECK(!call(KVM_PERF_OP_DISABLE, 1));
	on(0);
	is("another vCPU disables one that stands still", (reads(), pmc(1)), 0);
	is("which is all that it is told", pmc(2) != 0, true);
	teardown();
	*param_pv_perf_rdpmc = 0;
}

static void test_period(void)
{
	struct guest_perf_event *r;
	struct perf_event *backing;

	setup();
	r = &mem->record[1];
	open_id(2);
	is("SET_PERIOD of a counting event", call3(7, 2, 5, 0), -KVM_EINVAL);
	is("SET_LEFT of a counting event", call3(10, 2, 5, 0), -KVM_EINVAL);
	open_sampling(1, 1000);
	is("SET_PERIOD 0", call3(7, 1, 0, 0), -KVM_EINVAL);
	is("SET_PERIOD 2^63", call3(7, 1, 0, 1u << 31), -KVM_EINVAL);
	is("SET_LEFT 2^63", call3(10, 1, 0, 1u << 31), -KVM_EINVAL);
	is("SET_PERIOD 2^32", call3(7, 1, 0, 1), 0);
	is("period 2^32", event(1)->backing->attr.sample_period == 1ul << 32,
	   true);
	is("SET_PERIOD", call3(7, 1, 100, 0), 0);
	call(5, 1);
	is("period_left of one that is disabled", r->period_left, 100);

	is("SET_LEFT while disabled", call3(10, 1, 30, 0), 0);
	call(3, 1);
	run_guest(29);
	is("not yet", enter_guest(), 0);
	run_guest(1);
	is("now", enter_guest(), 1);
	run_guest(100);
	is("and at the period", enter_guest(), 1);
	run_guest(90);
	is("SET_LEFT while it counts", call3(10, 1, 50, 0), 0);
	is("period_left before", r->period_left, 10);
	is("count", r->count, 220);
	run_guest(50);
	is("overflow at 50", enter_guest(), 1);
	run_guest(60);
	is("SET_LEFT 0", call3(10, 1, 0, 0), 0);
	run_guest(99);
	is("none at 99", enter_guest(), 0);
	run_guest(1);
	is("overflow at 100", enter_guest(), 1);
	on(1);
	is("SET_LEFT from another vCPU", call3(10, 1, 7, 0), 0);
	on(0);
	run_guest(7);
	is("overflow at 7", enter_guest(), 1);
	backing = event(1)->backing;
	throttle(backing);
	is("SET_LEFT of a throttled event", call3(10, 1, 5, 0), 0);
	is("it stays stopped", backing->hw.state & PERF_HES_STOPPED, 1);
	is("its rest", local64_read(&backing->hw.period_left), 5);
	is("SET_LEFT 0 of it", call3(10, 1, 0, 0), 0);
	is("a whole period", local64_read(&backing->hw.period_left), 100);
	call3(10, 1, 5, 0);
	kvm->memslots.slot[0].absent[RECORD(1) >> PAGE_SHIFT] = true;
	is("SET_LEFT without a record", call3(10, 1, 9, 0), -KVM_EFAULT);
	is("changes nothing", local64_read(&backing->hw.period_left), 5);
	kvm->memslots.slot[0].absent[RECORD(1) >> PAGE_SHIFT] = false;

	/* At the end of its period, before it overflows: at least 1. */
	local64_set(&backing->hw.period_left, -3);
	call(5, 1);
	is("period_left is at least 1", r->period_left, 1);

	param(3, 3);
	mem->attr.flags = KVM_PERF_ATTR_FREQ;
	mem->attr.sample_period = 1000;
	is("OPEN with a frequency", do_open(), 0);
	is("SET_PERIOD above the vCPU's rate", call3(7, 3, 100001, 0),
	   -KVM_EINVAL);
	is("SET_PERIOD 0 of a frequency", call3(7, 3, 0, 0), -KVM_EINVAL);
	is("SET_PERIOD to it", call3(7, 3, 100000, 0), 0);
	is("its frequency", event(3)->freq.hz, 100000);
	is("it starts lower, going by what it was",
	   event(3)->backing->hw.sample_period, 2);
	is("SET_PERIOD back", call3(7, 3, 1000, 0), 0);
	call(3, 3);
	is("and higher", event(3)->backing->hw.sample_period, 200);
	call(5, 3);
	is("at once", mem->record[3].period_left, 200);
	teardown();
}

/* What an event with a frequency has had, each overflow having a period. */
static u64 periods;

/* The guest runs on the CPU of @id's event, whose timer ticks. */
static u64 run_ticks(u32 id, u64 n)
{
	struct guest_perf_event *r = &mem->record[id];
	u64 before, overflows = 0;

	for (; n; n--) {
		run_mode(false, TICK_NSEC);
		tick(event(id)->backing);
		enter_guest();
		before = r->overflows;
		r->overflows = 0;
		overflows += before;
		periods += before * r->last_period;
	}
	return overflows;
}

static bool near(u64 got, u64 want)
{
	if (got < want * 9 / 10 || got > want * 11 / 10)
		ksft_print_msg("%llu, not %llu\n", got, want);
	return got >= want * 9 / 10 && got <= want * 11 / 10;
}

/* KVM completes @n instructions of the guest's, at @cpl. */
static void retire(unsigned int n, int cpl)
{
	here()->arch.cpl = cpl;
	while (n--)
		pv_perf_instruction_retired(here());
	here()->arch.cpl = 0;
	irq_work_run();
}

/* The emulator executes an instruction, which may change the CPL. */
static void emulate(bool branch, int length, int cpl, int new_cpl)
{
	here()->arch.cpl = cpl;
	pv_perf_emulates(here());
	here()->arch.cpl = new_cpl;
	pv_perf_emulated(here(), branch, kvm_rip_read(here()) + length);
	here()->arch.cpl = 0;
}

static u64 counted(u32 id)
{
	call(KVM_PERF_OP_READ, id);
	return mem->record[id].count;
}

static long open_config(u32 id, u32 type, u64 config, u64 flags)
{
	param(id, id);
	mem->attr.type = type;
	mem->attr.config = config;
	mem->attr.flags = flags;
	return do_open() ? : call(KVM_PERF_OP_ENABLE, id);
}

/* Which events count what KVM completes, and which of it. */
static void test_retired_by(void)
{
	setup();
	is("no event: not asked", here()->arch.pv_perf_retires, 0);
	CHECK(!open_config(1, KVM_PERF_TYPE_HARDWARE,
			   PERF_COUNT_HW_CPU_CYCLES, 0));
	is("nor with cycles alone", here()->arch.pv_perf_retires, 0);
	CHECK(!open_config(2, KVM_PERF_TYPE_HARDWARE,
			   PERF_COUNT_HW_BRANCH_INSTRUCTIONS, 0));
	is("with branches", here()->arch.pv_perf_retires, PV_PERF_BRANCH);
	CHECK(!open_config(3, KVM_PERF_TYPE_HARDWARE,
			   PERF_COUNT_HW_INSTRUCTIONS, 0));
	is("and instructions", here()->arch.pv_perf_retires,
	   PV_PERF_BRANCH | PV_PERF_INSTRUCTION);
	CHECK(!open_config(4, KVM_PERF_TYPE_RAW, 0xc0, 0));
	is("the hypercalls were not counted", counted(3) + counted(4), 0);
	retire(3, 0);
	emulate(true, 2, 0, 0);
	pv_perf_vmentry_retired(here(), PV_PERF_BRANCH);
	pv_perf_vmentry_retired(here(), PV_PERF_INSTRUCTION);
	is("cycles: none", counted(1), 0);
	is("branches", counted(2), 2);
	is("instructions", counted(3), 5);
	is("instructions by their encoding", counted(4), 5);

	emulate(false, 0, 0, 0);
	is("a string instruction that is not done yet", counted(3), 5);
	emulate(false, 2, 0, 0);
	is("one that is", counted(3), 6);
	emulate(true, 0, 0, 0);
	is("a branch to itself", counted(3), 7);
	is("is a branch", counted(2), 3);

	call(KVM_PERF_OP_DISABLE, 3);
	retire(1, 0);
	is("one that is disabled: none", counted(3), 7);
	is("the other one", counted(4), 8);
	take_counters(tasks[0], NR_COUNTERS);
	retire(1, 0);
	take_counters(tasks[0], 0);
	call(KVM_PERF_OP_READ, 4);
	is("one that has lost its counter: none", counted(4), 8);

	call(KVM_PERF_OP_RESET, 0);
	run_mode(false, 1);
	is("after RESET: not asked", here()->arch.pv_perf_retires, 0);

	/* Not what else they make of it. */
	CHECK(!open_config(1, KVM_PERF_TYPE_RAW, 0x010000c0, 0));
	CHECK(!open_config(2, KVM_PERF_TYPE_RAW, 0x000400c0, 0));
	CHECK(!open_config(3, KVM_PERF_TYPE_RAW, 0x000001c4, 0));
	is("not with a threshold, an edge or another unit mask",
	   here()->arch.pv_perf_retires, 0);
	teardown();
}

static void test_retired_cpl(void)
{
	setup();
	CHECK(!open_mode(1, KVM_PERF_ATTR_EXCLUDE_KERNEL, 0));
	CHECK(!open_mode(2, KVM_PERF_ATTR_EXCLUDE_USER, 0));
	CHECK(!open_mode(3, KVM_PERF_ATTR_EXCLUDE_USER |
			    KVM_PERF_ATTR_EXCLUDE_KERNEL, 0));
	retire(2, 0);
	retire(30, 3);
	retire(400, 1);
	is("user mode", counted(1), 430);
	is("kernel mode", counted(2), 2);
	emulate(true, 2, 3, 0);
	is("a SYSCALL is user mode's", counted(1), 431);
	is("not the kernel's", counted(2), 2);
	emulate(true, 2, 0, 3);
	is("a SYSRET is the kernel's", counted(2), 3);
	is("neither of them", counted(3), 0);
	teardown();
}

/* As the vCPU was when it left the guest. */
static void test_retired_mode(void)
{
	setup();
	CHECK(!open_mode(1, KVM_PERF_ATTR_EXCLUDE_GUEST, 0));
	CHECK(!open_mode(2, KVM_PERF_ATTR_EXCLUDE_HOST, 0));
	CHECK(!open_mode(3, 0, 0));
	run_mode(false, 10);
	retire(1, 0);
	here()->arch.guest_mode = true;
	/* The instruction that has entered the nested guest. */
	retire(1, 0);
	run_mode(true, 200);
	retire(5, 0);
	is("the guest's", counted(1), 12);
	is("the nested guest's", counted(2), 205);
	is("both", counted(3), 217);

	/* While the guest handles an NMI, its kernel is not counted. */
	run_nmi(100, true);
	retire(7, 0);
	is("none of an NMI's handler", counted(3), 217);
	end_nmi();
	retire(1, 0);
	is("but what follows", counted(3), 218);
	teardown();
}

static void test_retired_period(bool rdpmc)
{
	struct guest_perf_event *r;
	unsigned int written;

	setup_rdpmc();
	r = mem->record;
	if (rdpmc)
		start_rdpmc(1, 100);
	else
		CHECK(!open_mode(1, 0, 100));
	run_guest(97);
	written = written_counters;
	retire(2, 0);
	is("no overflow before the end", enter_guest(), 0);
	is("99", counted(1), 99);
	is("what is left", r[1].period_left, 1);
	is("perf has set no counter", written_counters, written);
	retire(1, 0);
	is("an overflow at the end", enter_guest(), 1);
	is("is one", r[1].overflows, 1);
	is("the period", r[1].last_period, 100);
	is("the next one", r[1].period_left, 100);
	is("the count", r[1].count, 100);
	retire(99, 0);
	is("no other before the next", enter_guest(), 0);
	run_guest(1);
	is("which the guest ends", enter_guest(), 1);
	is("200", r[1].count, 200);
	retire(250, 0);
	is("one NMI for two", enter_guest(), 1);
	is("overflows", r[1].overflows, 4);
	is("what is left then", r[1].period_left, 50);

	call3(KVM_PERF_OP_SET_LEFT, 1, 3, 0);
	retire(2, 0);
	is("SET_LEFT: not yet", enter_guest(), 0);
	retire(1, 0);
	is("now", enter_guest(), 1);
	call3(KVM_PERF_OP_SET_PERIOD, 1, 7, 0);
	retire(6, 0);
	is("SET_PERIOD: not yet", enter_guest(), 0);
	retire(1, 0);
	is("now, too", enter_guest(), 1);
	is("of the new period", r[1].last_period, 7);

	/* After a HLT the vCPU does not enter: it is woken. */
	CHECK(!atomic_read(&here()->arch.nmi_queued));
	retire(7, 0);
	is("an NMI wakes it", atomic_xchg(&here()->arch.nmi_queued, 0), 1);
	enter_guest();
	irq_work_late = true;
	pv_perf_vmentry_retired(here(), PV_PERF_INSTRUCTION);
	retire(6, 0);
	irq_work_late = false;
	is("or it is told before that", enter_guest(), 1);
	irq_work_run();
	is("once", enter_guest(), 0);

	throttle(event(1)->backing);
	retire(7, 0);
	is("not of what is throttled", enter_guest(), 0);
	teardown();
}

static void test_retired_late(void)
{
	struct perf_event *backing;

	/* The counter has overflowed, and perf's NMI is under way. */
	setup();
	CHECK(!open_mode(1, 0, 100));
	backing = event(1)->backing;
	run_guest(99);
	backing->hw.counter++;
	retire(1, 0);
	is("the counter stays as it is", backing->hw.counter, 100);
	is("no overflow by that", atomic_read(&event(1)->overflows), 0);
	is("the count", counted(1), 101);
	teardown();

	/* perf throttles it as its PMU is disabled. */
	setup();
	CHECK(!open_mode(1, 0, 100));
	run_guest(99);
	disable_hook = throttle_late;
	retire(1, 0);
	disable_hook = NULL;
	is("the NMI's overflow alone", atomic_read(&event(1)->overflows), 1);
	is("it stays throttled", event(1)->backing->hw.state != 0, true);
	teardown();
}

static void test_retired_frequency(void)
{
	u64 n;

	setup();
	param(1, 1);
	mem->attr.flags = KVM_PERF_ATTR_FREQ;
	mem->attr.sample_period = 50000;
	CHECK(!do_open() && !call(KVM_PERF_OP_ENABLE, 1));
	/* An instruction per 10 ns that KVM completes, and no other. */
	for (n = 0; n < 100000; n++) {
		__sync_fetch_and_add(&clock_ns, 10);
		retire(1, 0);
		if (n % 400 == 0)
			run_mode(false, 0);
		enter_guest();
	}
	is("the period is that of the frequency",
	   near(event(1)->backing->hw.sample_period, 2000), true);
	teardown();
}

/* What the guest reads by RDPMC has it, where it read before. */
static void test_retired_rdpmc(void)
{
	u32 before;

	setup_rdpmc();
	start_rdpmc(1, 0);
	start_rdpmc(2, 1000);
	CHECK(reads());
	run_guest(300);
	before = mem->record[1].pmc;
	retire(5, 0);
	is("it may read on", reads(), true);
	is("at the same place", mem->record[1].pmc, before);
	is("the count", counted(1), 305);
	before = mem->record[2].pmc;
	retire(695, 0);
	is("after an overflow, too", reads(), true);
	is("the event's offset is another", mem->record[2].pmc != before, true);
	is("the other's is not", counted(1), 1000);
	teardown();
}

/* Without full-width writes, and without counters: perf sets the position. */
static void test_retired_unwritable(void)
{
	setup();
	pv_perf_host.pmcs.writable = false;
	CHECK(!open_mode(1, 0, 100));
	CHECK(!open_mode(2, 0, 0));
	run_guest(90);
	retire(9, 0);
	is("no overflow yet", enter_guest(), 0);
	retire(1, 0);
	is("an overflow", enter_guest(), 1);
	is("one count", counted(1), 100);
	is("the other", counted(2), 100);
	teardown();

	pmu_capability.bit_width_gp = 40;
	setup();
	is("not with counters of another width",
	   pv_perf_host.pmcs.writable, false);
	teardown();
	pmu_capability.bit_width_gp = 48;
	setup();
	is("with those of 48 bits", pv_perf_host.pmcs.writable, true);
	teardown();
}

static void test_retired(void)
{
	test_retired_by();
	test_retired_cpl();
	test_retired_mode();
	*param_pv_perf_rdpmc = 1;
	test_retired_period(false);
	test_retired_period(true);
	test_retired_rdpmc();
	*param_pv_perf_rdpmc = 0;
	test_retired_late();
	test_retired_frequency();
	test_retired_unwritable();
}

/* An event per ns: a frequency of 50,000 is a period of 20,000, of 5 ticks. */
static void test_frequency(void)
{
	struct guest_perf_event *r;
	struct perf_event *backing;
	u64 period, count;
	int i;

	setup();
	r = &mem->record[1];
	periods = 0;
	param(1, 1);
	mem->attr.flags = KVM_PERF_ATTR_FREQ;
	mem->attr.sample_period = 50000;
	CHECK(!do_open() && !call(KVM_PERF_OP_ENABLE, 1));
	backing = event(1)->backing;
	run_ticks(1, 100);
	is("the period is that of the frequency",
	   near(backing->hw.sample_period, 20000), true);
	is("overflows at it", near(run_ticks(1, 1000), 200), true);
	call(KVM_PERF_OP_READ, 1);
	is("the sum of the periods is the count",
	   periods + r->last_period - r->period_left <= r->count &&
	   r->count < periods + 20001 * 9 / 8, true);

	is("for later", call3(KVM_PERF_OP_SET_LEFT, 1, -1u, -1u >> 1), 0);
	period = backing->hw.sample_period;
	is("no overflow for nobody", run_ticks(1, 1000), 0);
	is("nor another period", backing->hw.sample_period, period);
	call(KVM_PERF_OP_READ, 1);
	is("what is left", r->period_left > S64_MAX / 2, true);
	is("used again", call3(KVM_PERF_OP_SET_LEFT, 1, 5, 0), 0);
	run_guest(4);
	is("not yet", enter_guest(), 0);
	run_guest(1);
	is("where it was", enter_guest(), 1);
	r->overflows = 0;

	/* Used for a fifth of a tick now and then, and idle for longer. */
	for (i = 0; i < 300; i++) {
		call3(KVM_PERF_OP_SET_LEFT, 1, 0, 0);
		run_mode(false, TICK_NSEC / 5);
		call3(KVM_PERF_OP_SET_LEFT, 1, -1u, -1u >> 1);
		clock_ns += 20 * NSEC_PER_USEC;
		run_mode(false, 1);
	}
	is("the period tells of its use alone",
	   near(backing->hw.sample_period, 20000), true);
	is("which had no whole one", enter_guest(), 0);

	call3(KVM_PERF_OP_SET_LEFT, 1, 1 << 30, 0);
	is("SET_LEFT to much more", near(run_ticks(1, 200), 40), true);
	is("SET_PERIOD", call3(KVM_PERF_OP_SET_PERIOD, 1, 25000, 0), 0);
	is("overflows at half the frequency", near(run_ticks(1, 1000), 100),
	   true);
	call3(KVM_PERF_OP_SET_LEFT, 1, -1u, -1u >> 1);
	is("SET_PERIOD of one for later",
	   call3(KVM_PERF_OP_SET_PERIOD, 1, 50000, 0), 0);
	is("does not wake it", run_ticks(1, 1000), 0);
	call3(KVM_PERF_OP_SET_LEFT, 1, 0, 0);
	is("it holds", near(run_ticks(1, 1000), 200), true);

	/* The VM must not have what it overflows at. */
	*param_pv_perf_max_rate = 10000;
	count = run_ticks(1, 5000);
	is("throttled: the rate, and what may come at once",
	   count <= 5000 * TICK_NSEC * 20000 / NSEC_PER_SEC + 200, true);
	*param_pv_perf_max_rate = 100000;
	is("the PMU of the CPU's perf has seen no frequency",
	   atomic_read(&nr_freq_events), 0);
	teardown();
}

/* Half of the time it counts, and the other half its ticks tell nothing. */
static void test_frequency_mode(void)
{
	struct guest_perf_event *r;
	int i;

	setup();
	r = &mem->record[1];
	CHECK(!open_mode(1, KVM_PERF_ATTR_EXCLUDE_HOST | KVM_PERF_ATTR_FREQ,
			 50000));
	for (i = 0; i < 400; i++) {
		run_mode(true, TICK_NSEC);
		run_mode(false, TICK_NSEC);
		enter_guest();
	}
	is("the period is that of half as much",
	   near(event(1)->backing->hw.sample_period, 10000), true);
	call(KVM_PERF_OP_READ, 1);
	is("count", r->count, 400 * TICK_NSEC);
	run_mode(true, 10);
	is("SET_LEFT as it counts", call3(KVM_PERF_OP_SET_LEFT, 1, 50, 0), 0);
	enter_guest();
	run_mode(true, 49);
	is("not yet", enter_guest(), 0);
	run_mode(true, 1);
	is("overflow", enter_guest(), 1);
	teardown();
}

static void test_memslots(void)
{
	struct kvm_memory_slot *slot;
	struct guest_perf_event *r;

	setup();
	slot = &kvm->memslots.slot[0];
	r = &mem->record[1];
	open_id(1);
	call(3, 1);
	run_guest(1);
	kvm->memslots.generation += 2;
	is("READ after the memslots changed", call(5, 1), 0);
	is("count", r->count, 1);
	slot->readonly = true;
	kvm->memslots.generation += 2;
	is("READ, read-only", call(5, 1), -KVM_EFAULT);
	is("DISABLE, read-only", call(4, 1), -KVM_EFAULT);
	is("READ again", call(5, 1), -KVM_EFAULT);
	run_guest(10);
	slot->readonly = false;
	kvm->memslots.generation += 2;
	is("READ after that", call(5, 1), 0);
	is("DISABLE had stopped it", r->count, 1);
	slot->present = false;
	kvm->memslots.generation += 2;
	is("READ of none", call(5, 1), -KVM_EFAULT);
	is("CLOSE needs none", call(2, 1), 0);
	slot->present = true;
	teardown();
}

static void test_batch(void)
{
	u32 id;
	int i;

	setup();
	is("BATCH at 4", call3(8, 4, 0, 1), -KVM_EINVAL);
	is("BATCH of 0", call3(8, GPA(ops), 0, 0), -KVM_EINVAL);
	is("BATCH of 65", call3(8, GPA(ops), 0, 65), -KVM_EINVAL);
	is("BATCH of 2^32 + 1", call3(8, GPA(ops), 0, (1ul << 32) + 1),
	   -KVM_EINVAL);
	is("BATCH of no memory", call3(8, NO_MEMORY, 0, 1), -KVM_EFAULT);
	((struct guest_perf_op *)kvm->memslots.slot[1].memory)->op = 9;
	open_id(1);
	is("BATCH, read-only", call3(8, RO_MEMORY, 0, 1), -KVM_EFAULT);
	is("was not run", !!event(1), true);

	call(KVM_PERF_OP_RESET, 0);
	param(1, 1);
	mem->attr.sample_period = 1000;
	i = 0;
	op(i++, KVM_PERF_OP_OPEN, 0, GPA(param));
	op(i++, KVM_PERF_OP_ENABLE, 1, 0);
	op(i++, KVM_PERF_OP_READ, 2, 0x1234);
	op(i++, KVM_PERF_OP_BATCH, 0, GPA(ops));
	op(i++, KVM_PERF_OP_READ, 1, 0)->reserved = 1;
	op(i++, KVM_PERF_OP_SET_PERIOD, 1, 500);
	op(i++, KVM_PERF_OP_READ, KVM_PERF_ID_ALL, 0x1234);
	op(i++, 0, 0, 0);
	op(i++, 13, 0, 0);
	mem->query.size = sizeof(mem->query);
	op(i++, KVM_PERF_OP_QUERY, 0, GPA(query));
	is("BATCH", call3(8, GPA(ops), 0, i), 0);
	is("OPEN", mem->ops[0].result, 0);
	is("ENABLE", mem->ops[1].result, 0);
	is("READ of an unknown id", mem->ops[2].result, -KVM_ENOENT);
	is("its arg is as it was", mem->ops[2].arg, 0x1234);
	is("BATCH in it", mem->ops[3].result, -KVM_EINVAL);
	is("reserved", mem->ops[4].result, -KVM_EINVAL);
	is("SET_PERIOD", mem->ops[5].result, 0);
	is("READ all", mem->ops[6].result, 0);
	is("its arg, too", mem->ops[6].arg, 0x1234);
	is("operation 0", mem->ops[7].result, -KVM_ENOSYS);
	is("operation 13", mem->ops[8].result, -KVM_ENOSYS);
	is("QUERY", mem->ops[9].result, 0);
	run_guest(123);
	op(0, KVM_PERF_OP_READ, 1, 0);
	op(1, KVM_PERF_OP_SET_LEFT, 1, 10);
	op(2, KVM_PERF_OP_DISABLE, 1, 0);
	op(3, KVM_PERF_OP_CLOSE, 1, 0);
	op(4, KVM_PERF_OP_RESET, 0, 0);
	is("BATCH of readings", call3(8, GPA(ops), 0, 5), 0);
	for (i = 0; i < 4; i++)
		CHECK(!mem->ops[i].result);
	is("RESET in it", mem->ops[4].result, -KVM_EINVAL);
	for (i = 0; i < 3; i++)
		is("arg is the count", mem->ops[i].arg, 123);

	/* The record's page goes. */
	open_id(150);
	kvm->memslots.slot[0].absent[RECORD(150) >> PAGE_SHIFT] = true;
	op(0, KVM_PERF_OP_READ, 150, 0x1234);
	is("BATCH without a record", call3(8, GPA(ops), 0, 1), 0);
	is("READ without a record", mem->ops[0].result, -KVM_EFAULT);
	is("leaves its arg", mem->ops[0].arg, 0x1234);
	kvm->memslots.slot[0].absent[RECORD(150) >> PAGE_SHIFT] = false;

	for (id = 0; id < KVM_PERF_BATCH_MAX; id++)
		op(id, KVM_PERF_OP_CLOSE, id, 0);
	op(id, KVM_PERF_OP_CLOSE, id, 0);
	is("BATCH of 64", call3(8, GPA(ops), 0, 64), 0);
	is("the last", mem->ops[63].result, -KVM_ENOENT);
	is("not one more", mem->ops[64].result, 0x5a);
	teardown();
}

static void test_debugfs(void)
{
	static char buf[8192];
	struct task_struct *old;
	struct inode inode;
	struct file file;
	u32 id;

	setup();
	inode.i_private = kvm;
	for (id = 1; id <= 5; id++)
		open_id(id);
	event(5)->attr.exclude_user = 1;
	event(4)->attr.exclude_kernel = 1;
	for (id = 1; id <= 4; id++)
		call(3, id);
	run_guest(100);
	is("open", kvm->debugfs_dentry->fops->open(&inode, &file), 0);
	is("read", kvm->debugfs_dentry->fops->read(&file, buf, sizeof(buf),
						   NULL) > 0, true);
	is("events", !!strstr(buf,
		"events 5 of 128\noverflows 0 of 100000 per second and vCPU, throttled 0\n"), true);
	is("active", !!strstr(buf, "uk    0 active                      100"),
	   true);
	is("off", !!strstr(buf, "-k    0 off                           0"),
	   true);
	is("user only", !!strstr(buf, "u-    0 active"), true);
	take_counters(tasks[0], NR_COUNTERS);
	kvm->debugfs_dentry->fops->read(&file, buf, sizeof(buf), NULL);
	is("no-counter", !!strstr(buf, "uk    0 no-counter                  100"),
	   true);
	/* Told of: it is not for want of being enabled. */
	call(5, KVM_PERF_ID_ALL);
	memset(buf, 0, sizeof(buf));
	kvm->debugfs_dentry->fops->read(&file, buf, sizeof(buf), NULL);
	is("no-counter still",
	   !!strstr(buf, "uk    0 no-counter                  100"), true);
	take_counters(tasks[0], 0);
	call(5, KVM_PERF_ID_ALL);
	task_sched_out(tasks[0]);
	kvm->debugfs_dentry->fops->read(&file, buf, sizeof(buf), NULL);
	is("inactive", !!strstr(buf, "uk    0 inactive "), true);
	task_sched_in(tasks[0]);
	pv_perf_vcpu_run(vcpus[1]);
	kvm->debugfs_dentry->fops->read(&file, buf, sizeof(buf), NULL);
	is("inactive while the thread runs another vCPU",
	   !!strstr(buf, "uk    0 inactive "), true);
	old = tasks[0];
	tasks[0] = task_create(0);
	on(0);
	task_exit(old);
	kvm->debugfs_dentry->fops->read(&file, buf, sizeof(buf), NULL);
	is("no-thread", !!strstr(buf, "uk    0 no-thread "), true);
	/* A vCPU waits for the page of a record. */
	mutex_lock(&vcpus[0]->arch.pv_perf->lock);
	on(1);
	current->signalled = true;
	is("a reader that is killed does not wait for a vCPU that waits",
	   kvm->debugfs_dentry->fops->read(&file, buf, sizeof(buf), NULL),
	   -EINTR);
	current->signalled = false;
	on(0);
	mutex_unlock(&vcpus[0]->arch.pv_perf->lock);
	is("and holds no event", refcount_read(&event(1)->refs), 1);
	is("holds the VM", refcount_read(&kvm->users_count), 2);
	kvm->debugfs_dentry->fops->release(&inode, &file);
	is("until it is closed", refcount_read(&kvm->users_count), 1);
	alloc_faults = (struct faults){ .fail_at = 1 };
	is("open, no memory", kvm->debugfs_dentry->fops->open(&inode, &file),
	   -ENOMEM);
	alloc_faults.fail_at = 0;
	is("does not hold the VM", refcount_read(&kvm->users_count), 1);
	refcount_set(&kvm->users_count, 0);
	is("open of a VM that ends",
	   kvm->debugfs_dentry->fops->open(&inode, &file), -ENOENT);
	refcount_set(&kvm->users_count, 1);
	teardown();
}

static int nr_srcu_dropped;

static void note_srcu(const char *where)
{
	if (vcpu_srcu_dropped)
		nr_srcu_dropped++;
}

static int nr_events(void)
{
	return atomic_read(&kvm->arch.pv_perf->nr_events);
}

/* RESET of more events than one vCPU has. */
static void test_reset(void)
{
	u32 id;

	setup();
	for (id = 1; id <= 100; id++) {
		on(id % 2);
		CHECK(!open_id(id));
		enter_guest();
	}
	on(0);
	is("RESET of 100 events", call(KVM_PERF_OP_RESET, 0), 0);
	is("closes no more than 64 at once", nr_events(), 36);
	current->signalled = true;
	enter_guest();
	current->signalled = false;
	is("and the rest as the vCPU is to enter the guest", nr_events(), 0);

	for (id = 1; id <= 128; id++) {
		on(id % 2);
		CHECK(!open_id(id));
		enter_guest();
	}
	*param_pv_perf_max_events = 128;
	on(0);
	for (; id <= 180; id++) {
		CHECK(!open_id(id));
		enter_guest();
	}
	*param_pv_perf_max_events = 64;
	CHECK(!call(KVM_PERF_OP_RESET, 0));
	nr_srcu_dropped = 0;
	sleep_hook = note_srcu;
	current->signalled = true;
	enter_guest();
	is("a signal ends KVM_RUN in between", nr_events(), 180 - 128);
	is("which gives kvm->srcu back", nr_srcu_dropped, 1);
	current->signalled = false;
	enter_guest();
	sleep_hook = NULL;
	is("the next has the rest", nr_events(), 0);

	for (id = 1; id <= 100; id++) {
		on(id % 2);
		CHECK(!open_id(id));
		enter_guest();
	}
	on(0);
	CHECK(!call(KVM_PERF_OP_RESET, 0));
	pv_perf_vcpu_reset(vcpus[0]);
	on(1);
	call(KVM_PERF_OP_CLOSE, 1);
	CHECK(!open_id(1) && event(1));
	on(0);
	enter_guest();
	is("a reset of the vCPU ends it: events of the next kernel stay",
	   !!event(1), true);
	teardown();
}

static void test_trace(void)
{
	setup();
	trace_on = true;
	call(5, 0x77);
	is("kvm_pv_perf_op", strcmp(trace_line, "kvm_pv_perf_op: vcpu 0 READ 0x77 0x0 ret -2"), 0);
	trace_on = false;
	teardown();
}

static void test_vcpus(void)
{
	setup();
	open_id(1);
	open_id(2);
	on(1);
	open_id(3);
	call(3, 2);
	on(0);
	pv_perf_vcpu_reset(vcpus[0]);
	is("reset closes the vCPU's events", call(5, 1), -KVM_ENOENT);
	is("not one that has moved", call(5, 2), 0);
	is("nor another's", call(5, 3), 0);
	is("its id is free", open_id(1), 0);
	teardown();

	tasks[0] = task_create(0);
	on(0);
	alloc_faults = (struct faults){ .fail_at = 1 };
	is("a VM without memory", !vm_create(), true);
	alloc_faults.fail_at = 0;
	kvm = vm_create();
	vcpus[0] = vcpu_create(kvm, 0);
	pv_perf_vcpu_run(vcpus[0]);
	pv_perf_filter_changed(kvm);
	enter_guest();
	pv_perf_vcpu_leave(vcpus[0], 0);
	pv_perf_vcpu_reset(vcpus[0]);
	is("a vCPU that never asks costs no memory", !vcpus[0]->arch.pv_perf,
	   true);
	alloc_faults = (struct faults){ .fail_at = 1 };
	is("the first operation without memory", call(KVM_PERF_OP_READ, 1),
	   -KVM_ENOSPC);
	alloc_faults.fail_at = 0;
	is("and with it", call(KVM_PERF_OP_READ, 1), -KVM_ENOENT);
	vcpu_destroy(vcpus[0]);
	vm_destroy(kvm);
	task_put(tasks[0]);
}

/* Does KVM_SET_SREGS close the vCPU's events? */
static bool sregs_close(u64 cr0, u64 cs_base, bool smm)
{
	struct kvm_sregs sregs = { .cr0 = cr0, .cs.base = cs_base };
	bool closed;

	CHECK(!open_id(1));
	vcpus[0]->arch.smm = smm;
	pv_perf_vcpu_set_sregs(vcpus[0], &sregs);
	vcpus[0]->arch.smm = false;
	closed = !event(1);
	call(KVM_PERF_OP_RESET, 0);
	return closed;
}

static void test_set_sregs(void)
{
	const u64 pe = 0x80050033, real = 0x60000010;
	const u64 smbase = 0x30000, reset = 0xffff0000;

	setup();
	is("SREGS of protected mode", sregs_close(pe, 0, false), false);
	is("in SMM", sregs_close(pe, 0, true), false);
	is("even at the reset vector", sregs_close(pe, reset, true), false);
	is("SREGS of real mode close events", sregs_close(real, 0, false), true);
	is("so they do of the reset vector", sregs_close(real, reset, false),
	   true);
	is("real mode in SMM", sregs_close(real, smbase, true), false);
	is("a reset in SMM", sregs_close(real, reset, true), true);
	teardown();
}

/* Each allocation and each access to guest memory fails in turn. */

static long op_open(void)
{
	/* An id far away, for which the xarray grows. */
	param(1 << 20, 9);
	mem->attr.sample_period = 1000;
	return do_open();
}

static long op_close(void)
{
	return call(KVM_PERF_OP_CLOSE, 1);
}

static long op_enable(void)
{
	return call(KVM_PERF_OP_ENABLE, 3);
}

static long op_move(void)
{
	long ret;

	on(1);
	ret = call(KVM_PERF_OP_ENABLE, 1);
	on(0);
	return ret;
}

static long op_disable(void)
{
	return call(KVM_PERF_OP_DISABLE, 1);
}

static long op_read(void)
{
	return call(KVM_PERF_OP_READ, 1);
}

static long op_read_all(void)
{
	return call(KVM_PERF_OP_READ, KVM_PERF_ID_ALL);
}

static long op_query(void)
{
	mem->query.size = sizeof(mem->query);
	return call(KVM_PERF_OP_QUERY, GPA(query));
}

static long op_period(void)
{
	return call3(KVM_PERF_OP_SET_PERIOD, 1, 100, 0);
}

static long op_left(void)
{
	return call3(KVM_PERF_OP_SET_LEFT, 1, 300, 0);
}

static long op_batch(void)
{
	op(0, KVM_PERF_OP_READ, 1, 0);
	return call3(KVM_PERF_OP_BATCH, GPA(ops), 0, 1) ? :
	       mem->ops[0].result;
}

static long op_reset(void)
{
	return call(KVM_PERF_OP_RESET, 0);
}

static long op_deliver(void)
{
	run_guest(1000);
	return enter_guest() ? 0 : -KVM_EFAULT;
}

static const struct {
	const char *name;
	long (*run)(void);
	long alloc_error;	/* 0: it allocates nothing */
	int accesses;		/* to guest memory */
} ops[] = {
	/* param, size, attr; the record: address, write. */
	{ "OPEN", op_open, -KVM_ENOSPC, 5 },
	{ "CLOSE", op_close, 0, 0 },
	{ "ENABLE", op_enable, 0, 0 },
	{ "ENABLE elsewhere", op_move, -KVM_ENOSPC, 0 },
	/* The range, twice the sequence, six fields. */
	{ "DISABLE", op_disable, 0, 9 },
	{ "READ", op_read, 0, 9 },
	{ "READ all", op_read_all, 0, 18 },
	{ "QUERY", op_query, 0, 2 },
	{ "SET_PERIOD", op_period, 0, 0 },
	{ "SET_LEFT", op_left, 0, 9 },
	{ "BATCH of READ", op_batch, 0, 12 },
	{ "RESET", op_reset, 0, 0 },
	{ "delivery", op_deliver, 0, 10 },
};

static void setup_faults(void)
{
	setup();
	CHECK(!open_sampling(1, 1000));
	CHECK(!open_id(2));
	CHECK(!open_id(3));
	CHECK(!call(3, 1));
	CHECK(!call(3, 2));
	run_guest(10);
}

/* Runs @i with the @n-th of @faults failing; false: there are fewer. */
static bool run_fault(int i, struct faults *faults, int n, long want)
{
	int backing;
	u32 count;
	long ret;

	setup_faults();
	backing = atomic_read(&nr_backing_events);
	*faults = (struct faults){ .fail_at = n };
	ret = ops[i].run();
	faults->fail_at = 0;
	if (faults->seen < n) {
		CHECK(!ret);
		teardown();
		return false;
	}
	CHECK(ret == want);
	CHECK(atomic_read(&nr_backing_events) == backing);
	CHECK(atomic_read(&kvm->arch.pv_perf->nr_events) == 3);

	/* The events are as they were, and the operation works now. */
	count = mem->record[2].count;
	CHECK(ops[i].run == op_query || ops[i].run == op_read_all ||
	      count == 0);
	CHECK(!ops[i].run());
	call(KVM_PERF_OP_READ, 2);
	if (ops[i].run == op_deliver) {
		CHECK(mem->record[2].count == 2010);
		CHECK(mem->record[1].overflows == 1);
	} else {
		CHECK(mem->record[2].count == 10);
	}
	CHECK(!(mem->record[2].sequence & 1));
	call(KVM_PERF_OP_READ, 1);
	CHECK(!(mem->record[1].sequence & 1));
	teardown();
	return true;
}

static void test_faults(void)
{
	char what[64];
	size_t i;
	int n;

	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		for (n = 1; run_fault(i, &alloc_faults, n, ops[i].alloc_error);)
			n++;
		snprintf(what, sizeof(what), "%s without memory", ops[i].name);
		is(what, n > 1, ops[i].alloc_error != 0);
		for (n = 1; run_fault(i, &guest_faults, n, -KVM_EFAULT);)
			n++;
		snprintf(what, sizeof(what), "%s without guest memory",
			 ops[i].name);
		is(what, n - 1, ops[i].accesses);
	}
}

/* The BATCH's results are lost, but it was run. */
static void test_batch_lost(void)
{
	setup();
	open_id(1);
	op(0, KVM_PERF_OP_CLOSE, 1, 0);
	guest_faults = (struct faults){ .fail_at = 3 };
	is("BATCH whose results are lost", call3(8, GPA(ops), 0, 1),
	   -KVM_EFAULT);
	guest_faults.fail_at = 0;
	is("was run", call(2, 1), -KVM_ENOENT);
	teardown();
}

/* What can happen while an operation sleeps: another vCPU does something. */

static const char *hook_where;
static int hook_skip;
static void (*hook_action)(void);

static void hook(const char *where)
{
	void (*action)(void) = hook_action;
	struct task_struct *task = current;

	if (!action || strcmp(where, hook_where) || hook_skip--)
		return;

	hook_action = NULL;
	on(1);
	action();
	current = task;
}

static void at(const char *where, int skip, void (*action)(void))
{
	hook_where = where;
	hook_skip = skip;
	hook_action = action;
	sleep_hook = hook;
}

/* It did come to that point. */
static void done(void)
{
	CHECK(!hook_action);
	sleep_hook = NULL;
}

static void close_1(void)
{
	CHECK(!call(KVM_PERF_OP_CLOSE, 1));
}

static void move_1(void)
{
	CHECK(!call(KVM_PERF_OP_ENABLE, 1));
}

static void reset(void)
{
	CHECK(!call(KVM_PERF_OP_RESET, 0));
}

static void open_1_exists(void)
{
	struct guest_perf_event_param saved = mem->param;

	CHECK(call(KVM_PERF_OP_READ, 1) == -KVM_ENOENT);
	CHECK(open_id(1) == -KVM_EEXIST);
	mem->param = saved;
}

static void open_9(void)
{
	CHECK(!open_id(9));
}

static char debugfs_text[8192];

static void debugfs_read(void)
{
	struct inode inode = { .i_private = kvm };
	struct dentry *dentry = kvm->debugfs_dentry;
	struct file file;

	CHECK(!dentry->fops->open(&inode, &file));
	dentry->fops->read(&file, debugfs_text, sizeof(debugfs_text), NULL);
	dentry->fops->release(&inode, &file);
}

static void test_races(void)
{
	setup();
	open_id(1);
	open_id(2);
	at("mutex_lock", 0, close_1);
	debugfs_read();
	done();
	is("debugfs with an event that is being closed",
	   !strstr(debugfs_text, "\n         1 ") &&
	   strstr(debugfs_text, "\n         2 "), true);
	call(KVM_PERF_OP_RESET, 0);

	open_id(1);
	at("mutex_lock", 0, close_1);
	is("READ of an event that is being closed", call(5, 1), -KVM_ENOENT);
	done();

	open_id(1);
	at("mutex_lock", 0, move_1);
	is("READ of an event that moves", call(5, 1), 0);
	done();
	is("its home", event(1)->home == vcpus[1]->arch.pv_perf, true);
	is("ENABLE back", call(3, 1), 0);

	/* Moving: it is closed, or moves elsewhere, meanwhile. */
	call(KVM_PERF_OP_RESET, 0);
	on(1);
	open_id(1);
	on(0);
	/* After the lock to find it. */
	at("mutex_lock", 1, close_1);
	is("ENABLE of an event that is being closed", call(3, 1), -KVM_ENOENT);
	done();
	is("leaves nothing", atomic_read(&nr_backing_events), 0);

	open_id(1);
	on(1);
	is("moves", call(3, 1), 0);
	on(0);
	at("mutex_lock", 1, reset);
	is("ENABLE during RESET", call(3, 1), -KVM_ENOENT);
	done();

	/* While it is opened its id is taken, and it is not there yet. */
	param(1, 1);
	at("create", 0, open_1_exists);
	is("OPEN of one that is being opened", do_open(), 0);
	done();
	call(KVM_PERF_OP_CLOSE, 1);
	param(1, 1);
	at("create", 0, reset);
	is("OPEN during RESET", do_open(), 0);
	done();
	is("may stay", call(5, 1), 0);
	open_id(2);
	at("mutex_lock", 0, open_9);
	call(KVM_PERF_OP_RESET, 0);
	done();
	is("RESET closes no more than were there", event(9) != NULL, true);
	is("and these", !event(1) && !event(2), true);
	teardown();
}

/* It moves away while the one that moves it here waits for the locks. */
static void test_move_races(void)
{
	setup();
	/* Home is vCPU 0, whose thread changes: ENABLE moves it from 0 to 0. */
	open_id(1);
	tasks[0]->running = true;
	current = task_create(0);
	at("mutex_lock", 1, move_1);
	is("ENABLE of an event that moves away", pv_perf_hypercall(vcpus[0],
		3, 1, 0, 0), 0);
	done();
	is("it is here", event(1)->home == vcpus[0]->arch.pv_perf, true);
	is("with this thread", event(1)->backing->hw.target == current, true);
	run_guest(5);
	pv_perf_hypercall(vcpus[0], 5, 1, 0, 0);
	is("and counts", mem->record[1].count, 5);
	task_put(current);
	on(0);
	teardown();
}

/* What the other vCPU does to its event that is about to move. */

static void period_500(void)
{
	CHECK(!call3(KVM_PERF_OP_SET_PERIOD, 1, 500, 0));
}

static void frequency_500(void)
{
	CHECK(!call3(KVM_PERF_OP_SET_PERIOD, 2, 500, 0));
}

static bool home_waits;

/* Does vCPU 0 not enter the guest now? */
static void see_home_wait(void)
{
	home_waits = kvm_test_request(KVM_REQ_PV_PERF, vcpus[0]);
}

static void left_200(void)
{
	CHECK(!call3(KVM_PERF_OP_SET_LEFT, 1, 200, 0));
}

static void run_800(void)
{
	run_guest(800);
}

static void run_nested(void)
{
	run_mode(true, 100);
}

/* Move event @id, 300 after a period of 1,000 began, to vCPU 0. */
static void move_during(u32 id, void (*action)(void))
{
	on(1);
	CHECK(!call(KVM_PERF_OP_ENABLE, id));
	CHECK(!call3(KVM_PERF_OP_SET_LEFT, id, 1000, 0));
	run_guest(300);
	on(0);
	at("mutex_lock", 1, action);
	CHECK(!call(KVM_PERF_OP_ENABLE, id));
	done();
}

static void test_move_during(void)
{
	struct guest_perf_event *r;

	setup();
	r = mem->record;
	on(1);
	open_sampling(1, 1000);
	move_during(1, run_800);
	is("NMI for an overflow before it moves", enter_guest(), 1);
	run_guest(899);
	is("which does not come twice", enter_guest(), 0);
	run_guest(1);
	is("the next one", enter_guest(), 1);
	is("overflows", r[1].overflows, 2);
	is("count", r[1].count, 2000);

	/* While perf has it stopped. */
	at("enable", 0, see_home_wait);
	on(1);
	CHECK(!call3(KVM_PERF_OP_SET_LEFT, 1, 500, 0));
	on(0);
	done();
	is("SET_LEFT elsewhere keeps its vCPU from running uncounted", home_waits,
	   true);
	enter_guest();

	move_during(1, left_200);
	run_guest(199);
	is("SET_LEFT before it moves", enter_guest(), 0);
	run_guest(1);
	is("holds", enter_guest(), 1);
	move_during(1, period_500);
	run_guest(500);
	is("SET_PERIOD before it moves", enter_guest(), 1);
	run_guest(500);
	is("holds", enter_guest(), 1);
	is("last_period", r[1].last_period, 500);

	on(1);
	param(2, 2);
	mem->attr.flags = KVM_PERF_ATTR_FREQ;
	mem->attr.sample_period = 1000;
	do_open();
	move_during(2, frequency_500);
	is("its frequency", event(2)->freq.hz, 500);
	teardown();
}

/* The other vCPU enters its nested guest before its event is stopped. */
static void test_move_mode(void)
{
	setup();
	on(1);
	CHECK(!open_mode(1, KVM_PERF_ATTR_EXCLUDE_GUEST, 0));
	run_mode(false, 10);
	on(0);
	at("disable", 0, run_nested);
	is("ENABLE of an event that excludes a mode", call(3, 1), 0);
	done();
	run_mode(false, 7);
	call(KVM_PERF_OP_READ, 1);
	is("it has not counted that mode", mem->record[1].count, 17);
	teardown();
}

static void take_one_counter(void)
{
	take_counters(tasks[0], 1);
}

/* The host takes a counter during an ENABLE that has nothing to do. */
static void test_enable_again(void)
{
	u32 id;

	setup();
	for (id = 1; id <= NR_COUNTERS; id++)
		CHECK(!open_id(id) && !call(3, id));
	at("enable", 0, take_one_counter);
	is("ENABLE again while another loses its counter", call(3, 1), 0);
	sleep_hook = NULL;
	take_one_counter();
	run_guest(10);
	is("READ", call(5, 1), 0);
	is("it counts on", mem->record[1].count, 10);
	is("READ of the other", call(5, NR_COUNTERS), -KVM_EBUSY);
	teardown();
}

static void run_0_on_1(void)
{
	on(1);
	pv_perf_vcpu_run(vcpus[0]);
	on(0);
}

static void destroy_0(void)
{
	vcpu_destroy(vcpus[0]);
	vcpus[0] = vcpu_create(kvm, 0);
}

/* What happens to a vCPU as a thread that runs another is to stop its events. */
static void test_turn_races(void)
{
	setup();
	start_on(0, 1, 0);
	run_on(0, 10);
	at("mutex_lock", 0, run_0_on_1);
	run_on(1, 100);
	done();
	on(1);
	run_guest(5);
	is("run by another thread meanwhile, it counts there", count_on(0, 1),
	   15);

	at("mutex_lock", 0, destroy_0);
	run_on(1, 100);
	done();
	is("destroyed meanwhile, its event is gone", call_on(1, 5, 1),
	   -KVM_ENOENT);

	on(0);
	start_on(0, 1, 0);
	at("mutex_lock", 0, close_1);
	run_on(0, 1);
	done();
	run_on(1, 1);
	is("the event that was to follow is closed", call_on(1, 5, 1),
	   -KVM_ENOENT);
	teardown();
}

/* Threads that have the same place in the table. */
static void test_thread_hash(void)
{
	struct task_struct *other[16384];
	unsigned long a, b;
	int n = 0;

	setup();
	start_on(0, 1, 0);
	a = hash_long((unsigned long)tasks[0], 10);
	do {
		CHECK(n < ARRAY_SIZE(other));
		other[n] = task_create(1);
		b = hash_long((unsigned long)other[n++], 10);
	} while (a != b);
	current = other[n - 1];
	run_on(1, 10);
	on(0);
	run_on(0, 5);
	is("a thread with the hash of another has not its vCPU",
	   count_on(0, 1), 5);
	while (n--)
		task_put(other[n]);
	teardown();
}

static void read_found_free(void)
{
	close_1();
	rcu_barrier();
}

/* The last reference is the operation's. */
static void test_last_reference(void)
{
	setup();
	open_id(1);
	at("mutex_lock", 0, read_found_free);
	is("READ that has the last reference", call(5, 1), -KVM_ENOENT);
	done();
	/* As if the last reference went between look-up and increment. */
	open_id(1);
	refcount_set(&event(1)->refs, 0);
	is("READ of an event without references", call(5, 1), -KVM_ENOENT);
	refcount_set(&event(1)->refs, 1);
	teardown();
}

int main(void)
{
	rcu_register_thread();
	ksft_print_header();
	test_guest_only();
	test_available();
	test_dispatch();
	test_open_malformed();
	test_open_refused();
	test_attr();
	test_unknown_id();
	test_charge();
	test_counting();
	test_move();
	test_follow();
	test_turns();
	test_turns_lost();
	test_turns_throttled();
	test_swap();
	test_two_vms();
	test_pause();
	test_set_area();
	test_area();
	test_restored_in_place();
	test_set_counts();
	test_exits();
	test_own_exits();
	test_waiting_interrupt();
	test_nested_exits();
	test_injected_irqs();
	test_host_counts();
	test_slots();
	test_counts_memory();
	test_counts_faults();
	test_restored();
	test_move_sampling();
	test_lost();
	test_told();
	test_counters();
	test_max_counters();
	test_pairs();
	test_fixed_counters();
	test_held_pmu();
	test_query();
	test_model();
	test_limit();
	test_home_limit();
	test_caps();
	test_open_rate();
	test_move_rate();
	test_change_rate();
	test_wait_signal();
	test_rate();
	test_rate_after_rest();
	test_told_throttled();
	test_own_rate();
	test_nested_host();
	test_modes();
	test_nmi();
	test_open_branches();
	test_branches_wanted();
	test_branches_stopped();
	test_branches_decoded();
	test_branches_told();
	test_branches_room();
	test_rdpmc_in_nmi();
	test_rdpmc_unwritten();
	test_rdpmc_changed();
	test_moved_throttled();
	test_throttled_meanwhile();
	test_stopped_moved();
	test_stopped_forgotten();
	test_stopped();
	test_stopped_period();
	test_sampling();
	test_nmi_exit();
	test_rdpmc_allowed();
	test_rdpmc_intercepted();
	test_rdpmc();
	test_rdpmc_told();
	test_rdpmc_nmi();
	test_rdpmc_counters();
	test_filter();
	test_filter_fixed();
	test_period();
	test_retired();
	test_frequency();
	test_frequency_mode();
	test_memslots();
	test_batch();
	test_reset();
	test_debugfs();
	test_trace();
	test_vcpus();
	test_set_sregs();
	test_faults();
	test_batch_lost();
	test_races();
	test_move_races();
	test_move_during();
	test_move_mode();
	test_enable_again();
	test_turn_races();
	test_thread_hash();
	test_last_reference();
	rcu_unregister_thread();
	ksft_set_plan(ksft_test_num());
	ksft_finished();
}
