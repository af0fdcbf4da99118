// SPDX-License-Identifier: GPL-2.0
/*
 * build: -fsanitize=address,undefined -fno-sanitize-recover=undefined
 * build: -fprofile-instr-generate -fcoverage-mapping
 */
/*
 * The host side in user space: every operation and every error. In turn, each
 * allocation and each access to guest memory fails. While an operation sleeps,
 * other vCPUs change its event.
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

/* The guest's memory, from guest physical address 0. */
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

/* Destroying the vCPUs closes the events that the test has left open. */
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
	return run_hypercall(here(), op, a1, a2, a3);
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

/* The event's record has the index @id. */
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

/* The next three load KVM again, with the current parameters and CPU. */

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

/*
 * The host is a guest on AMD, whose hypervisor may drop GuestOnly from event
 * selects.
 */
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
	is("unavailable if the hypervisor drops GuestOnly",
	   now_available(), false);
	is("the event selects are unchanged",
	   selects[0][0] == used && selects[0][1] == 0xc0, true);
	select_drops = 0;
	for (cpu = 0; cpu < NR_CPUS; cpu++)
		for (i = 0; i < NR_COUNTERS; i++)
			selects[cpu][i] = used;
	is("unavailable if no CPU has a free counter to try",
	   now_available(), false);
	selects[NR_CPUS - 1][0] = 0;
	is("available if another CPU's free counter keeps GuestOnly",
	   now_available(), true);
	select_drops = AMD64_EVENTSEL_GUESTONLY;
	is("unavailable if another CPU's free counter drops GuestOnly",
	   now_available(), false);
	select_drops = 0;
	selects[0][2] = 0xc2;
	is("available if this CPU's free counter keeps GuestOnly",
	   now_available(), true);
	is("the free counter's event select is unchanged", selects[0][2], 0xc2);
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
	is("unavailable on AMD without PERFCTR_CORE", now_available(), false);
	boot_cpu_data.x86_vendor = X86_VENDOR_HYGON;
	is("unavailable on Hygon without PERFCTR_CORE", now_available(), false);
	boot_cpu_data.x86_vendor = X86_VENDOR_INTEL;
	is("available on Intel", now_available(), true);
	pmu_capability.version = 1;
	is("unavailable with version 1", now_available(), false);
	pmu_capability.version = 2;
	pmu_capability.num_counters_gp = 0;
	is("unavailable without general counters", now_available(), false);
	pmu_capability.num_counters_gp = NR_COUNTERS;
	boot_cpu_data.x86_vendor = X86_VENDOR_ZHAOXIN;
	is("unavailable on Zhaoxin, which has VMX", now_available(), false);
	boot_cpu_data.x86_vendor = X86_VENDOR_INTEL;
	*param_pv_perf = false;
	is("with pv_perf=0, CPUID does not offer the feature",
	   now_for_all(), false);
	setup();
	is("a VM with pv_perf=0: ENOSYS",
	   call(KVM_PERF_OP_RESET, 0), -KVM_ENOSYS);
	is("with pv_perf=0, a VM has a limit of 0 events",
	   pv_perf_check_extension(kvm, KVM_CAP_PV_PERF_EVENTS), 0);
	is("with pv_perf=0, the host offers VMMs 64 events",
	   host_extension(KVM_CAP_PV_PERF_EVENTS), 64);
	teardown();
	tasks[0] = task_create(0);
	on(0);
	kvm = vm_create();
	is("with pv_perf=0, a VMM can ask for 8 events",
	   enable_cap(kvm, KVM_CAP_PV_PERF_EVENTS, 8), 0);
	vcpus[0] = vcpu_create(kvm, 0);
	is("that VMM's VM has the feature", call(KVM_PERF_OP_RESET, 0), 0);
	is("that VMM's VM has a limit of 8 events",
	   pv_perf_check_extension(kvm, KVM_CAP_PV_PERF_EVENTS), 8);
	vcpu_destroy(vcpus[0]);
	vm_destroy(kvm);

	enable_pmu = false;
	kvm = vm_create();
	is("with enable_pmu=0, a VMM cannot ask for events",
	   enable_cap(kvm, KVM_CAP_PV_PERF_EVENTS, 8), -EINVAL);
	is("with enable_pmu=0, the host offers no events",
	   host_extension(KVM_CAP_PV_PERF_EVENTS), 0);
	vm_destroy(kvm);
	task_put(tasks[0]);
	*param_pv_perf = true;
	is("with pv_perf=1 and enable_pmu=0, CPUID offers the feature",
	   now_for_all(), true);
	enable_pmu = true;

	setup();
	param(1, 1);
	mem->attr.config = 1ull << 32;
	is("OPEN with event bits 35:32 on Intel: EINVAL",
	   do_open(), -KVM_EINVAL);
	teardown();
	boot_cpu_data.x86_vendor = X86_VENDOR_AMD;
	cpu_has_perfctr_core = true;
	setup();
	param(1, 1);
	mem->attr.config = 1ull << 32;
	is("OPEN with event bits 35:32 on AMD", do_open(), 0);
	teardown();
}

/* This host is itself a guest, and has no PMU of its own. */
static void test_nested_host(void)
{
	pmu_capability.num_counters_gp = 0;
	have_kvm_pmu_query = true;
	have_hypervisor_slot = true;
	hypervisor.nr_counters = 3;
	hypervisor.raw_event_mask = 0xffff;
	hypervisor.hw_config[1] = 0xc0;
	is("unavailable if the hypervisor does not offer nested events",
	   now_available(), false);
	hypervisor.features = KVM_PERF_FEATURE_NESTED | KVM_PERF_FEATURE_BRANCHES;
	hypervisor.branches = 16;
	hypervisor.model = 0x21901;
	have_hypervisor_slot = false;
	is("unavailable if perf's slot has another PMU",
	   now_available(), false);
	have_hypervisor_slot = true;
	is("available by the hypervisor's PMU", now_available(), true);
	setup();
	mem->query.size = sizeof(mem->query);
	is("QUERY", call(KVM_PERF_OP_QUERY, GPA(query)), 0);
	is("QUERY: the hypervisor's number of counters",
	   mem->query.nr_counters, 3);
	is("QUERY: no branch records", mem->query.branches, 0);
	is("QUERY: not the feature of branches",
	   mem->query.features & KVM_PERF_FEATURE_BRANCHES, 0);
	*param_pv_perf_max_counters = 0;
	is("by default, this host keeps one of the counters",
	   told_counters(), 2);
	is("QUERY: the hypervisor's raw event mask",
	   mem->query.raw_event_mask, 0xffff);
	is("QUERY: the hypervisor's generic events",
	   mem->query.hw_config[1], 0xc0);
	is("QUERY: the hypervisor's CPU model", mem->query.model, 0x21901);
	param(1, 1);
	mem->attr.model = 0x21901;
	is("OPEN of a raw event of this model", do_open(), 0);
	CHECK(!call(KVM_PERF_OP_CLOSE, 1));
	hypervisor.model = 0x21731;
	is("after this host moved to another CPU, a raw event of the first: EOPNOTSUPP",
	   do_open(), -KVM_EOPNOTSUPP);
	told_counters();
	is("QUERY: the new CPU's model", mem->query.model, 0x21731);
	mem->attr.model = 0x21731;
	is("OPEN of a raw event of the new model", do_open(), 0);
	CHECK(!call(KVM_PERF_OP_CLOSE, 1));
	is("QUERY: this host's limit of events", mem->query.max_events, 128);
	param(1, 1);
	mem->attr.config = 0x1c000000;
	is("a raw event with bits outside of the mask: EINVAL",
	   do_open(), -KVM_EINVAL);
	mem->attr.config = 0xc0;
	mem->attr.sample_period = 1000;
	mem->attr.flags = KVM_PERF_ATTR_FREQ;
	is("OPEN with a frequency", do_open(), 0);
	is("the hypervisor's perf adapts the frequency",
	   event(1)->backing->attr.freq &&
	   event(1)->backing->attr.sample_freq == 1000,
	   true);
	is("SET_PERIOD above this host's maximum sample rate",
	   call3(7, 1, max_sample_rate + 1, 0), -KVM_EINVAL);
	*param_pv_perf_max_rate = 5000;
	is("SET_PERIOD above the vCPU's rate, of a frequency that perf adapts",
	   call3(7, 1, 5001, 0), -KVM_EINVAL);
	is("SET_PERIOD to the vCPU's rate", call3(7, 1, 5000, 0), 0);
	*param_pv_perf_max_rate = 100000;
	is("SET_PERIOD to this host's maximum sample rate",
	   call3(7, 1, max_sample_rate, 0), 0);
	is("SET_PERIOD changes the backing event's frequency",
	   event(1)->backing->attr.sample_freq, max_sample_rate);
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
	is("the refusal of the VM of TDX is logged once", log_lines, 1);
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
	is("SET_PERIOD with bit 32 of the third argument",
	   call3(7, 1, 1, 1ul << 32), -KVM_EINVAL);
	is("SET_LEFT with bit 32 of the third argument",
	   call3(10, 1, 1, 1ul << 32), -KVM_EINVAL);
	is("RESET ignores its third argument", call3(9, 0, 0, 1ul << 32), 0);
	teardown();
}

/* Checks that a failed OPEN opens no event and writes no record. */
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
	open_fails("HARDWARE event that the host does not have",
		   -KVM_EOPNOTSUPP);
	mem->attr.type = KVM_PERF_TYPE_HW_CACHE;
	mem->attr.config = 1ull << 24;
	open_fails("HW_CACHE with 25 bits", -KVM_EINVAL);
	mem->attr.type = KVM_PERF_TYPE_HW_CACHE;
	mem->attr.config = PERF_COUNT_HW_CACHE_NODE;
	open_fails("HW_CACHE event that the host does not have",
		   -KVM_EOPNOTSUPP);
	mem->attr.type = KVM_PERF_TYPE_HW_CACHE;
	mem->attr.config = 0xffffff;
	open_fails("HW_CACHE event that is not defined", -KVM_EINVAL);
	mem->attr.flags = KVM_PERF_ATTR_FREQ;
	mem->attr.sample_period = 1ull << 31;
	open_fails("a frequency of 2^31", -KVM_EINVAL);
	mem->attr.size = GUEST_PERF_ATTR_SIZE_MAX;
	((u8 *)&mem->attr)[GUEST_PERF_ATTR_SIZE_MAX - 1] = 1;
	open_fails("a bit beyond the attr's known fields", -KVM_EINVAL);

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
	is("the filter lets another event pass", do_open(), 0);
	kvm->denied_event = 0;
	is("OPEN with an id that is in use", open_id(1), -KVM_EEXIST);
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
	is("OPEN clears the record", !memchr_inv(&mem->record[1], 0, 64), true);
	attr = &event(1)->backing->attr;
	is("the host side adapts the frequency", event(1)->freq.hz, 1000);
	is("perf has no event with a frequency",
	   attr->freq || atomic_read(&nr_freq_events), false);
	is("the backing event has the guest's type",
	   attr->type, PERF_TYPE_HW_CACHE);
	is("the backing event has exclude_user",
	   attr->exclude_user && !attr->exclude_kernel, true);

	param(2, 2);
	mem->attr.flags = KVM_PERF_ATTR_EXCLUDE_KERNEL;
	mem->attr.sample_period = S64_MAX;
	is("OPEN with the longest period", do_open(), 0);
	attr = &event(2)->backing->attr;
	is("the backing event has the guest's period",
	   !attr->freq && attr->sample_period == S64_MAX, true);
	is("the backing event has exclude_kernel",
	   attr->exclude_kernel && !attr->exclude_user, true);
	teardown();
}

static void test_charge(void)
{
	u64 before;

	setup();
	open_id(1);
	before = charged;
	open_id(2);
	is("OPEN charges the VM for perf's allocations, too",
	   charged - before >= sizeof(struct perf_event) +
	   offsetof(struct pv_perf_event, charge),
	   true);
	teardown();
}

static void test_unknown_id(void)
{
	setup();
	is("CLOSE of an id that is not open", call(KVM_PERF_OP_CLOSE, 7), -KVM_ENOENT);
	is("ENABLE of an id that is not open", call(KVM_PERF_OP_ENABLE, 7), -KVM_ENOENT);
	is("DISABLE of an id that is not open", call(KVM_PERF_OP_DISABLE, 7), -KVM_ENOENT);
	is("READ of an id that is not open", call(KVM_PERF_OP_READ, 7), -KVM_ENOENT);
	is("READ all without events",
	   call(KVM_PERF_OP_READ, KVM_PERF_ID_ALL), -KVM_ENOENT);
	is("SET_PERIOD of an id that is not open",
	   call3(KVM_PERF_OP_SET_PERIOD, 7, 1, 0), -KVM_ENOENT);
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
	is("a disabled event has counted nothing", r->count, 0);
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
	is("the host keeps its own sequence number", r->sequence, 6);
	is("READ all on a vCPU without events",
	   call(5, KVM_PERF_ID_ALL), -KVM_ENOENT);
	on(0);
	is("DISABLE of an open event succeeds", call(KVM_PERF_OP_DISABLE, 1), 0);
	run_guest(1000);
	call(KVM_PERF_OP_READ, 1);
	is("a disabled event does not count", r->count, 111);
	is("ENABLE once more", call(KVM_PERF_OP_ENABLE, 1), 0);
	run_guest(9);
	task_sched_out(tasks[0]);
	run_guest(1000);
	on(1);
	is("READ while the vCPU's thread does not run",
	   call(KVM_PERF_OP_READ, 1), 0);
	is("an event does not count while its thread does not run",
	   r->count, 120);
	is("an event's time stands still while its thread does not run",
	   r->time_enabled, 120);
	task_sched_in(tasks[0]);
	on(0);
	run_guest(1);
	is("READ all", call(5, KVM_PERF_ID_ALL), 0);
	is("count of READ all", r->count, 121);
	is("time of READ all", r->time_running, 121);
	is("CLOSE", call(KVM_PERF_OP_CLOSE, 1), 0);
	is("READ of a closed event", call(KVM_PERF_OP_READ, 1), -KVM_ENOENT);
	is("RESET", (open_id(2), open_id(3), call(9, 0)), 0);
	is("RESET closes all events", atomic_read(&nr_backing_events), 0);
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
	is("READ after ENABLE elsewhere", call(KVM_PERF_OP_READ, 1), 0);
	is("the count includes both vCPUs", r->count, 501);
	is("the times include both vCPUs",
	   r->time_enabled == 501 && r->time_running == 501, true);
	is("the period continues", r->period_left, 499);
	on(0);
	run_guest(1000);
	is("the event does not count the first vCPU any more",
	   (call(5, 1), r->count), 501);
	is("a disabled event moves, too", (call(4, 1), call(3, 1)), 0);

	/* Both orders of the two vCPUs' locks. */
	open_id(2);
	on(1);
	is("ENABLE moves an event to the other vCPU", call(3, 2), 0);
	on(0);
	is("ENABLE moves the event back", call(3, 2), 0);

	/* The vCPU gets another thread. */
	old = tasks[0];
	tasks[0] = task_create(0);
	on(0);
	task_exit(old);
	is("READ with a new thread", call(KVM_PERF_OP_READ, 1), 0);
	is("ENABLE with a new thread", call(KVM_PERF_OP_ENABLE, 1), 0);
	run_guest(5);
	is("READ", call(KVM_PERF_OP_READ, 1), 0);
	is("the event counts the new thread", r->count, 506);
	teardown();
}

/* The VMM runs vCPU 0 on another thread. */
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
	is("an enabled event follows its vCPU to another thread",
	   event(1)->backing->hw.target == current, true);
	is("a disabled event does not follow",
	   event(2)->backing->hw.target == current, false);
	run_guest(5);
	is("READ", call(KVM_PERF_OP_READ, 1), 0);
	is("the count includes both threads", r->count, 305);
	is("the period continues on the new thread", r->period_left, 695);

	replace_thread();
	create_error = -ENOMEM;
	pv_perf_vcpu_run(vcpus[0]);
	is("without memory to follow, the record has the flag LOST",
	   (enter_guest(), r->flags), KVM_PERF_EVENT_LOST);
	run_guest(5);
	pv_perf_vcpu_run(vcpus[0]);
	enter_guest();
	run_guest(5);
	is("the flag LOST stays once there is memory",
	   r->flags, KVM_PERF_EVENT_LOST);
	is("READ of the lost event restarts it: EBUSY",
	   call(KVM_PERF_OP_READ, 1), -KVM_EBUSY);
	run_guest(5);
	is("the next READ succeeds", call(KVM_PERF_OP_READ, 1), 0);
	is("the event has counted since the restart only", r->count, 310);

	replace_thread();
	take_counters(tasks[0], NR_COUNTERS);
	pv_perf_vcpu_run(vcpus[0]);
	is("without a counter on the new thread, the record has the flag LOST",
	   (enter_guest(), r->flags), KVM_PERF_EVENT_LOST);
	run_guest(5);
	is("READ without a free counter",
	   call(KVM_PERF_OP_READ, 1), -KVM_EBUSY);
	take_counters(tasks[0], 0);
	is("READ with a free counter restarts the event: EBUSY",
	   call(KVM_PERF_OP_READ, 1), -KVM_EBUSY);
	run_guest(5);
	is("READ after the restart", call(KVM_PERF_OP_READ, 1), 0);
	is("the event has counted since the second restart, too",
	   r->count, 315);
	teardown();
}

/* Any vCPU may run on any thread. */
static long call_on(int vcpu, u64 op, u64 a1)
{
	return run_hypercall(vcpus[vcpu], op, a1, 0, 0);
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

/* One thread runs both vCPUs in turn. */
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
	is("the event's times stand still meanwhile",
	   mem->record[1].time_enabled, 300);
	for (i = 0; i < NR_COUNTERS; i++)
		start_on(1, 10 + i, 0);
	is("the other vCPU's events use all counters", NR_COUNTERS, 4);
	run_on(1, 2000);
	is("the stopped event does not overflow",
	   atomic_read(&event(1)->overflows), 0);
	for (i = 0; i < NR_COUNTERS; i++)
		CHECK(count_on(1, 10 + i) == 2000);
	run_on(0, 600);
	is("the event continues when its vCPU runs again", count_on(0, 1), 900);
	is("the event's period continues", mem->record[1].period_left, 100);
	is("the other vCPU's events do not count meanwhile",
	   count_on(0, 10), 2000);
	run_on(0, 100);
	is("the event overflows at the end of its period", enter_guest(), 1);
	run_on(1, 7);
	is("the other vCPU's events continue", count_on(1, 13), 2007);

	call_on(1, KVM_PERF_OP_DISABLE, 1);
	is("the count of an event that the other vCPU disables",
	   count_on(1, 1), 1000);
	run_on(0, 50);
	is("the disabled event does not count when its vCPU runs",
	   count_on(0, 1), 1000);
	is("ENABLE restarts the event", call_on(0, KVM_PERF_OP_ENABLE, 1), 0);
	run_on(0, 50);
	run_on(1, 50);
	is("ENABLE by the other vCPU, without a free counter",
	   call_on(1, KVM_PERF_OP_ENABLE, 1), -KVM_EBUSY);
	call_on(1, KVM_PERF_OP_CLOSE, 13);
	is("ENABLE by the other vCPU, with a free counter",
	   call_on(1, KVM_PERF_OP_ENABLE, 1), 0);
	run_on(1, 50);
	is("the event has counted the one vCPU and then the other",
	   count_on(1, 1), 1100);
	run_on(0, 50);
	call_on(0, KVM_PERF_OP_RESET, 0);
	run_on(1, 50);
	teardown();
}

/*
 * An event loses its counter before the other vCPU runs, and while the other
 * vCPU runs.
 */
static void test_turns_lost(void)
{
	setup();
	start_on(0, 1, 0);
	run_on(0, 10);
	take_counters(current, NR_COUNTERS);
	run_on(1, 10);
	take_counters(current, 0);
	is("READ of an event that lost its counter before the switch",
	   call_on(1, 5, 1), -KVM_EBUSY);
	run_on(1, 10);
	is("READ does not restart the event on another vCPU",
	   mem->record[1].count, 10);
	run_on(0, 10);
	is("READ on its own vCPU restarts the event: EBUSY",
	   call_on(0, 5, 1), -KVM_EBUSY);
	run_on(0, 10);
	is("the event has counted since the restart", count_on(0, 1), 20);

	run_on(1, 10);
	take_counters(current, NR_COUNTERS);
	run_on(0, 10);
	is("READ of an event that lost its counter during the switch",
	   call_on(0, 5, 1), -KVM_EBUSY);
	take_counters(current, 0);
	teardown();
}

/* Two threads swap their vCPUs. */
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
	is("the event of vCPU 1 counts vCPU 1 on the other thread",
	   count_on(1, 1), 110);
	is("the event of vCPU 0 does not count vCPU 1", count_on(1, 0), 10);
	on(1);
	run_on(0, 1000);
	is("the event of vCPU 0 counts vCPU 0 on the other thread",
	   count_on(0, 0), 1010);
	is("the event of vCPU 1 does not count vCPU 0", count_on(0, 1), 110);

	on(0);
	create_error = -ENOMEM;
	run_on(0, 5);
	is("READ of an event without memory to follow: EBUSY",
	   call_on(0, 5, 0), -KVM_EBUSY);
	is("the event without memory does not count",
	   mem->record[0].count, 1010);
	on(1);
	run_on(1, 5);
	is("READ of the event by the other vCPU: EBUSY",
	   call_on(1, 5, 0), -KVM_EBUSY);
	is("the event does not count the other vCPU",
	   mem->record[0].count, 1010);
	is("the event of vCPU 1 counts", count_on(1, 1), 115);
	on(0);
	run_on(0, 5);
	is("READ by its own vCPU restarts the event: EBUSY",
	   call_on(0, 5, 0), -KVM_EBUSY);
	run_on(0, 5);
	is("the event counts again", count_on(0, 0), 1015);
	teardown();
}

/* One thread runs vCPUs of two VMs in turn. */
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
	is("an event of the second VM counts its own vCPU",
	   count_on(0, 1), 100);
	vcpu_destroy(vcpus[0]);
	vm_destroy(kvm);

	vm_use(first);
	kvm = first;
	mem = first_mem;
	vcpus[0] = vcpu;
	is("the event of the first VM does not count the second VM",
	   count_on(1, 1), 10);
	run_on(0, 10);
	is("the event of the first VM continues", count_on(0, 1), 20);
	teardown();
}

/* A limited event does not restart while its thread runs another vCPU. */
static void test_turns_throttled(void)
{
	setup();
	*param_pv_perf_max_rate = 1000;
	start_on(0, 1, 10);
	run_on(0, 1000);
	enter_guest();
	is("an event that overflows too often is limited", is_limited(1), true);
	run_on(1, 2 * NSEC_PER_SEC);
	is("a limited event does not count while another vCPU runs",
	   count_on(1, 1), 1000);
	pv_perf_vcpu_run(vcpus[0]);
	enter_guest();
	is("the event is not limited when its own vCPU runs again",
	   is_limited(1), false);
	run_on(0, 5);
	is("the event counts again", count_on(0, 1), 1005);

	/* A limited event follows its vCPU to another thread. */
	run_on(0, 1000);
	enter_guest();
	is("the event is limited again", is_limited(1), true);
	replace_thread();
	create_error = -ENOMEM;
	run_on(0, 2 * NSEC_PER_SEC);
	enter_guest();
	is("without memory to follow, the event stays limited",
	   is_limited(1), true);
	pv_perf_vcpu_run(vcpus[0]);
	enter_guest();
	is("the event follows on the next run", is_limited(1), false);
	is("the record has the flag LOST",
	   mem->record[1].flags, KVM_PERF_EVENT_LOST);
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
	is("the record of a stopped vCPU's event has the count", r->count, 300);
	is("the record has the rest of the period", r->period_left, 700);
	is("the record of a disabled event is not written",
	   mem->record[2].count == 0xa5a5a5a5a5a5a5a5, true);
	run_guest(800);
	is("an overflow is not in the record yet", r->overflows, 0);
	pv_perf_vcpu_leave(vcpus[0], -EINTR);
	is("the record of the stopped vCPU's event has the overflow",
	   r->overflows, 1);
	is("the record has the count, too", r->count, 1100);

	run_guest(10);
	for (i = 0; i < ARRAY_SIZE(completed); i++) {
		vcpus[0]->run->exit_reason = completed[i];
		pv_perf_vcpu_leave(vcpus[0], 0);
		is("an exit that the VMM must complete writes no record",
		   r->count, 1100);
	}
	vcpus[0]->run->exit_reason = KVM_EXIT_HLT;
	pv_perf_vcpu_leave(vcpus[0], 0);
	is("a halt that the VMM handles writes the record", r->count, 1110);
	run_guest(10);
	pv_perf_vcpu_leave(vcpus[0], -EFAULT);
	is("an error writes the record", r->count, 1120);
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
	is("an area that is larger than a page: EINVAL",
	   set_area(GPA(area)), -KVM_EINVAL);
	/* The size at this address is valid. */
	*(u32 *)((char *)&mem->area + 2048) = sizeof(mem->area);
	is("an area in the middle of a page: EINVAL",
	   set_area(GPA(area) + 2048), -KVM_EINVAL);
	*(u32 *)((char *)&mem->area + 2048) = 0;
	is("an area without memory: EFAULT", set_area(NO_MEMORY), -KVM_EFAULT);
	*(u32 *)kvm->memslots.slot[1].memory = sizeof(mem->area);
	is("an area in read-only memory: EFAULT",
	   set_area(RO_MEMORY), -KVM_EFAULT);
	pv_perf_vcpu_leave(vcpus[0], -EINTR);
	is("a refused area is not written", mem->area.epoch, 0);

	mem->area.size = GUEST_PERF_AREA_ALIGN;
	is("SET_AREA", set_area(GPA(area)), 0);
	epoch = mem->area.epoch;
	is("SET_AREA writes an epoch", epoch != 0, true);
	is("SET_AREA writes the size of the known fields",
	   mem->area.size, sizeof(mem->area));
	mem->area.size = 1;
	is("SET_AREA that fails", set_area(GPA(area)), -KVM_EINVAL);
	pv_perf_vcpu_leave(vcpus[0], -EINTR);
	is("a failed SET_AREA keeps the previous area", mem->area.epoch & 1, 0);
	mem->area.size = sizeof(mem->area);
	is("SET_AREA once more", set_area(GPA(area)), 0);
	is("another SET_AREA writes another epoch",
	   mem->area.epoch != epoch, true);
	epoch = mem->area.epoch;
	is("SET_AREA to address 0", set_area(0), 0);
	pv_perf_vcpu_leave(vcpus[0], -EINTR);
	is("after SET_AREA to address 0, the area is not written",
	   mem->area.epoch, epoch);
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
	is("an exit that the VMM must complete keeps the epoch",
	   mem->area.epoch, epoch);
	kvm->memslots.slot[0].dirty[gpa_to_gfn(GPA(area))] = false;
	pv_perf_vcpu_leave(vcpus[0], -EINTR);
	is("a stopped vCPU's area has no epoch", mem->area.epoch & 1, 0);
	is("the area's page is dirty",
	   kvm->memslots.slot[0].dirty[gpa_to_gfn(GPA(area))], true);
	pv_perf_vcpu_run(vcpus[0]);
	is("when the vCPU runs again, the epoch is the same",
	   mem->area.epoch, epoch);
	is("the guest gets no NMI for that", enter_guest(), 0);

	pv_perf_vcpu_leave(vcpus[0], -EINTR);
	kvm->memslots.slot[0].absent[gpa_to_gfn(GPA(area))] = true;
	pv_perf_vcpu_run(vcpus[0]);
	is("while the page is absent, the area gets no epoch",
	   mem->area.epoch & 1, 0);
	kvm->memslots.slot[0].absent[gpa_to_gfn(GPA(area))] = false;
	pv_perf_vcpu_leave(vcpus[0], -EINTR);
	pv_perf_vcpu_run(vcpus[0]);
	is("when the page is present again, the area gets the epoch",
	   mem->area.epoch, epoch);

	on(1);
	is("RESET by another vCPU", call(KVM_PERF_OP_RESET, 0), 0);
	on(0);
	is("RESET sets the area's epoch to 0", mem->area.epoch, 0);
	pv_perf_vcpu_run(vcpus[0]);
	is("the area gets no epoch any more", mem->area.epoch, 0);

	CHECK(!set_area(GPA(area)));
	is("SET_AREA after RESET writes another epoch",
	   mem->area.epoch != epoch, true);
	epoch = mem->area.epoch;
	pv_perf_vcpu_reset(vcpus[0]);
	pv_perf_vcpu_leave(vcpus[0], -EINTR);
	pv_perf_vcpu_run(vcpus[0]);
	is("after a reset of the vCPU, the area is not written",
	   mem->area.epoch, epoch);
	teardown();
}

/* A VMM without KVM's local APIC restores memory without notifying KVM. */
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
	is("a VM that continues after it was saved has its epoch",
	   mem->area.epoch, epoch);
	pv_perf_vcpu_leave(vcpus[0], -EINTR);
	is("each stop hides the epoch by another number",
	   mem->area.epoch != hidden && !(mem->area.epoch & 1), true);
	pv_perf_vcpu_run(vcpus[0]);
	run_guest(1000);
	is("the VM's event counts on", call(KVM_PERF_OP_READ, 1), 0);
	pv_perf_vcpu_leave(vcpus[0], -EINTR);

	memcpy(&mem->area, saved, sizeof(saved));
	memset(mem->record, 0x5a, sizeof(mem->record));
	pv_perf_vcpu_run(vcpus[0]);
	is("a VM that is restored in place has no epoch", mem->area.epoch, hidden);
	is("the restored VM does not have the later event",
	   call(KVM_PERF_OP_READ, 1), -KVM_ENOENT);
	is("the later event's record is not written",
	   !memchr_inv(mem->record, 0x5a, sizeof(mem->record)), true);
	is("the restored VM gets no NMI", enter_guest(), 0);
	pv_perf_vcpu_leave(vcpus[0], -EINTR);
	pv_perf_vcpu_run(vcpus[0]);
	is("the restored VM's area is not written", mem->area.epoch, hidden);
	CHECK(!set_area(GPA(area)));
	is("after SET_AREA, the restored VM has an epoch",
	   mem->area.epoch & 1, 1);
	is("after SET_AREA, the restored VM can open an event", open_id(1), 0);

	pv_perf_vcpu_leave(vcpus[0], -EINTR);
	kvm->memslots.slot[0].absent[gpa_to_gfn(GPA(area))] = true;
	pv_perf_vcpu_run(vcpus[0]);
	is("an absent page does not count as restored", event(1) != NULL, true);
	kvm->memslots.slot[0].absent[gpa_to_gfn(GPA(area))] = false;
	teardown();
}

#define ALL_COUNTS	(BIT(KVM_PERF_NR_COUNTS) - 1)

static long set_counts(u64 wanted)
{
	return call3(KVM_PERF_OP_SET_COUNTS, (u32)wanted, wanted >> 32, 0);
}

/* Enters the guest, after all requests are handled. Returns the number of NMIs. */
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

/* The vCPU exits and enters again. Returns the number of NMIs. */
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
	is("a count that is not defined: EINVAL",
	   set_counts(BIT(KVM_PERF_NR_COUNTS)), -KVM_EINVAL);
	is("a count in the upper half that is not defined: EINVAL",
	   set_counts(1ull << 32), -KVM_EINVAL);
	is("SET_COUNTS", set_counts(ALL_COUNTS), 0);
	is("VM entry looks at the counts",
	   here()->arch.pv_perf->at_entry, PV_PERF_AT_ENTRY_COUNTS);
	CHECK(!call(KVM_PERF_OP_RESET, 0));
	enter_counting();
	is("SET_COUNTS after RESET: EINVAL", set_counts(1), -KVM_EINVAL);
	teardown();

	setup();
	mem->area.size = sizeof(mem->area);
	CHECK(!set_area(GPA(area)));
	here()->arch.pv_cpuid.features &= ~(1u << KVM_FEATURE_STEAL_TIME);
	is("without the VMM's steal time, steal time: EOPNOTSUPP",
	   set_counts(BIT(KVM_PERF_COUNT_STEAL_NS)), -KVM_EOPNOTSUPP);
	is("without the VMM's steal time, preemptions: EOPNOTSUPP",
	   set_counts(BIT(KVM_PERF_COUNT_PREEMPTIONS)), -KVM_EOPNOTSUPP);
	is("without the VMM's steal time, the host's time: EOPNOTSUPP",
	   set_counts(BIT(KVM_PERF_COUNT_HOST_NS)), -KVM_EOPNOTSUPP);
	mem->query.size = sizeof(mem->query);
	CHECK(!call(KVM_PERF_OP_QUERY, GPA(query)));
	is("without the VMM's steal time, QUERY does not offer these",
	   mem->query.counts,
	   ALL_COUNTS &
	   ~(BIT(KVM_PERF_COUNT_STEAL_NS) | BIT(KVM_PERF_COUNT_PREEMPTIONS) |
	     BIT(KVM_PERF_COUNT_HOST_NS)));
	is("SET_COUNTS of all counts that QUERY offers",
	   set_counts(mem->query.counts), 0);
	teardown();

	*param_pv_perf_counts = 0x6;
	setup();
	mem->area.size = sizeof(mem->area);
	CHECK(!set_area(GPA(area)));
	is("a count that the host does not allow: EOPNOTSUPP",
	   set_counts(0x8), -KVM_EOPNOTSUPP);
	is("a count that the host allows", set_counts(0x2), 0);
	mem->query.size = sizeof(mem->query);
	CHECK(!call(KVM_PERF_OP_QUERY, GPA(query)));
	is("QUERY has the counts that the host allows", mem->query.counts, 0x6);
	is("KVM_CHECK_EXTENSION has the counts that the host allows",
	   host_extension(KVM_CAP_PV_PERF_COUNTS), 0x6);
	teardown();

	tasks[0] = task_create(0);
	kvm = vm_create();
	cap.args[0] = 0x8;
	is("the VMM cannot allow a count that the host does not allow",
	   pv_perf_enable_cap(kvm, &cap), -EINVAL);
	cap.args[0] = 0x4;
	is("the VMM can allow fewer counts", pv_perf_enable_cap(kvm, &cap), 0);
	is("KVM_CHECK_EXTENSION of the VM has the VMM's counts",
	   pv_perf_check_extension(kvm, KVM_CAP_PV_PERF_COUNTS), 0x4);
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
		is("an exit of SVM adds 1 to its count",
		   kernel_count(exits[i].count) - before, 1);
		before = kernel_count(exits[i].count);
		boot_cpu_data.x86_vendor = X86_VENDOR_INTEL;
		exit_for(exits[i].vmx);
		boot_cpu_data.x86_vendor = vendor;
		is("an exit of VMX adds 1 to its count",
		   kernel_count(exits[i].count) - before, 1);
	}
	boot_cpu_data.x86_vendor = X86_VENDOR_INTEL;
	here()->arch.exit.intr_info = INTR_TYPE_NMI_INTR;
	before = kernel_count(KVM_PERF_COUNT_EXITS_NMI);
	exit_for(EXIT_REASON_EXCEPTION_NMI);
	is("an NMI exit of VMX counts as NMI",
	   kernel_count(KVM_PERF_COUNT_EXITS_NMI) - before, 1);
	exit_for(EXIT_REASON_EPT_MISCONFIG);
	boot_cpu_data.x86_vendor = vendor;
	kvm->memslots.slot[0].internal = true;
	exit_for(SVM_EXIT_NPF);
	kvm->memslots.slot[0].internal = false;
	is("a fault in KVM's own memory counts as MMIO",
	   kernel_count(KVM_PERF_COUNT_EXITS_MMIO), 2);
	here()->arch.exit.gpa = NO_MEMORY;
	exit_for(SVM_EXIT_NPF);
	is("a fault without memory counts as MMIO",
	   kernel_count(KVM_PERF_COUNT_EXITS_MMIO), 3);
	exit_for(SVM_EXIT_AVIC_UNACCELERATED_ACCESS);
	is("an APIC access counts as MMIO",
	   kernel_count(KVM_PERF_COUNT_EXITS_MMIO), 4);

	here()->arch.cpl = 3;
	exit_for(SVM_EXIT_CPUID);
	is("an exit of user mode adds to the count of user mode",
	   mem->area.count[KVM_PERF_COUNT_EXITS_CPUID][1], 1);
	here()->arch.exit.rax = KVM_PERF_OP;
	exit_for(SVM_EXIT_VMMCALL);
	is("a hypercall of user mode is not the pair's own",
	   mem->area.count[KVM_PERF_COUNT_EXITS_HYPERCALL][1], 1);
	here()->arch.cpl = 0;
	exit_for(SVM_EXIT_VMMCALL);
	is("a hypercall of the kernel for the pair is the pair's own",
	   kernel_count(KVM_PERF_COUNT_EXITS_PV_PERF), 1);

	CHECK(!set_counts(BIT(KVM_PERF_COUNT_EXITS_IO)));
	before = kernel_count(KVM_PERF_COUNT_EXITS_CPUID);
	exit_for(SVM_EXIT_CPUID);
	is("an exit that is not selected is not counted",
	   kernel_count(KVM_PERF_COUNT_EXITS_CPUID), before);
	CHECK(!set_counts(0));
	is("if no count is selected, VM entry looks at nothing",
	   here()->arch.pv_perf->at_entry, 0);
	teardown();
}

/* Exits that the pair causes have a count of their own. */
static void test_own_exits(void)
{
	count_all();
	CHECK(!open_sampling(1, 100) && !call(KVM_PERF_OP_ENABLE, 1));
	run_guest(100);
	is("an overflow of an event: one NMI", exit_for(SVM_EXIT_NMI), 1);
	is("the exit for the overflow does not count as NMI",
	   kernel_count(KVM_PERF_COUNT_EXITS_NMI), 0);
	exit_for(SVM_EXIT_IRET);
	is("the exits of the overflow and of its handler's IRET are the pair's own",
	   kernel_count(KVM_PERF_COUNT_EXITS_PV_PERF), 2);
	exit_for(SVM_EXIT_IRET);
	is("the next exit for an IRET counts as NMI",
	   kernel_count(KVM_PERF_COUNT_EXITS_NMI), 1);

	run_guest(100);
	exit_for(SVM_EXIT_NMI);
	here()->arch.nmi_pending = 1;
	exit_for(SVM_EXIT_IRET);
	exit_for(SVM_EXIT_EXCP_BASE + DB_VECTOR);
	is("with an NMI pending, the exits for IRET and #DB are the pair's own",
	   kernel_count(KVM_PERF_COUNT_EXITS_PV_PERF), 5);
	here()->arch.nmi_pending = 0;
	exit_for(SVM_EXIT_IRET);
	is("the exit for the other NMI's IRET is the pair's own",
	   kernel_count(KVM_PERF_COUNT_EXITS_PV_PERF), 6);
	exit_for(SVM_EXIT_EXCP_BASE + DB_VECTOR);
	is("an exit for a later #DB counts as other",
	   kernel_count(KVM_PERF_COUNT_EXITS_OTHER), 1);
	teardown();
}

static void use_slot(int i, u64 counts, u64 left, u32 exclude)
{
	mem->area.slot[i] = (struct guest_perf_slot) {
		.counts = counts, .left = left, .exclude = exclude,
	};
	mem->area.slots |= BIT(i);
}

/*
 * An interrupt waits behind the NMI of a sample, so the vCPU exits for its
 * window.
 */
static void test_waiting_interrupt(void)
{
	count_all();
	here()->arch.has_interrupt = true;
	exit_for(SVM_EXIT_INTR);
	is("without a sample, an exit for an interrupt counts as interrupt",
	   kernel_count(KVM_PERF_COUNT_EXITS_INTERRUPT), 1);
	use_slot(0, BIT(KVM_PERF_COUNT_EXITS_INTERRUPT), 1, 0);
	is("a slot's overflow: one NMI", exit_for(SVM_EXIT_VINTR), 1);
	mem->area.slot[0].left = 1;
	is("no NMI for the interrupt that waits behind the NMI",
	   exit_for(SVM_EXIT_INTR), 0);
	is("no NMI for the interrupt's window", exit_for(SVM_EXIT_VINTR), 0);
	is("both exits are the pair's own",
	   kernel_count(KVM_PERF_COUNT_EXITS_PV_PERF), 2);
	is("both exits do not count as interrupts",
	   kernel_count(KVM_PERF_COUNT_EXITS_INTERRUPT), 2);
	here()->arch.interrupt.injected = true;
	enter_counting();
	here()->arch.interrupt.injected = false;
	is("after the guest got the interrupt, the next exit counts",
	   exit_for(SVM_EXIT_INTR), 1);
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
	is("a nested guest's hypercall counts as nested exit",
	   kernel_count(KVM_PERF_COUNT_EXITS_NESTED), 1);
	exit_for(SVM_EXIT_IRET);
	run_guest(100);
	exit_for(SVM_EXIT_NMI);
	is("the exit for an overflow is not a nested exit",
	   kernel_count(KVM_PERF_COUNT_EXITS_NESTED), 2);
	is("the exit for an overflow is the pair's own",
	   kernel_count(KVM_PERF_COUNT_EXITS_PV_PERF), 1);
	here()->arch.guest_mode = false;
	here()->arch.cpl = 0;
	is("an NMI when the guest runs again", enter_counting(), 1);
	is("the slot has the address of the guest's VMRUN",
	   mem->area.slot[0].ip, 0x1000);
	is("the slot says kernel mode", mem->area.slot[0].user, 0);
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
	is("an interrupt that the guest has not taken does not count",
	   injected_irqs(), 0);
	*injected = false;
	exit_for(SVM_EXIT_CPUID);
	is("an interrupt that the guest has taken counts", injected_irqs(), 1);
	exit_for(SVM_EXIT_CPUID);
	is("the interrupt counts once", injected_irqs(), 1);
	*injected = true;
	here()->arch.interrupt.soft = true;
	enter_counting();
	*injected = false;
	exit_for(SVM_EXIT_CPUID);
	is("a software interrupt does not count", injected_irqs(), 1);
	here()->arch.interrupt.soft = false;
	here()->arch.guest_mode = true;
	*injected = true;
	enter_counting();
	*injected = false;
	exit_for(SVM_EXIT_CPUID);
	is("a nested guest's interrupt does not count", injected_irqs(), 1);
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
	is("the thread's involuntary switches are preemptions",
	   kernel_count(KVM_PERF_COUNT_PREEMPTIONS), 2);
	is("the thread's run delay is steal time",
	   kernel_count(KVM_PERF_COUNT_STEAL_NS), 50);
	is("time halted is without the wait for a CPU after it",
	   kernel_count(KVM_PERF_COUNT_HALT_NS), 123);
	is("the rest of the time is the host's",
	   kernel_count(KVM_PERF_COUNT_HOST_NS), 27);
	current->sched_info.run_delay = 1000;
	exit_for(SVM_EXIT_HLT);
	is("with more steal time than time, the host's time stays",
	   kernel_count(KVM_PERF_COUNT_HOST_NS), 27);
	is("all of that time is steal time",
	   kernel_count(KVM_PERF_COUNT_STEAL_NS), 1000);
	current->start_time++;
	current->nivcsw = 10;
	exit_for(SVM_EXIT_HLT);
	is("a new thread's numbers add no preemptions",
	   kernel_count(KVM_PERF_COUNT_PREEMPTIONS), 2);
	stat->generic.halt_wait_ns = 0;
	current->nivcsw = 1;
	current->sched_info.run_delay = 0;
	exit_for(SVM_EXIT_HLT);
	is("numbers that fell add nothing",
	   kernel_count(KVM_PERF_COUNT_PREEMPTIONS) +
	   kernel_count(KVM_PERF_COUNT_STEAL_NS) +
	   kernel_count(KVM_PERF_COUNT_HALT_NS),
	   2 + 1000 + 123);

	leave_for(SVM_EXIT_HLT);
	clock_ns += 10;
	pv_perf_vcpu_leave(here(), -EINTR);
	is("when the vCPU stops, the host's time is up to date",
	   kernel_count(KVM_PERF_COUNT_HOST_NS), 37);
	is("when the vCPU stops, the exits are up to date",
	   kernel_count(KVM_PERF_COUNT_EXITS_HLT), 5);
	here()->arch.exit.rax = KVM_PERF_OP;
	leave_for(SVM_EXIT_VMMCALL);
	clock_ns += 10;
	enter_counting();
	is("the pair's own exits add no time of the host",
	   kernel_count(KVM_PERF_COUNT_HOST_NS), 37);
	teardown();
}

/* Overflows @slot until the rate limit delays the NMI. */
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
	is("the first of two exits: no NMI", exit_for(SVM_EXIT_IOIO), 0);
	is("the first exit decrements left", slot[0].left, 1);
	here()->arch.exit.rip = 0x2000;
	is("the second of two exits: one NMI", exit_for(SVM_EXIT_IOIO), 1);
	is("the slot has the address of the exit", slot[0].ip, 0x2000);
	is("the slot has the mode of the exit", slot[0].user, 0);
	is("the next exit: no NMI", exit_for(SVM_EXIT_IOIO), 0);
	is("the next exit decrements left, too", slot[0].left, -1);
	here()->arch.cpl = 3;
	is("an exit of user mode: one NMI for two slots",
	   exit_for(SVM_EXIT_IOIO), 1);
	is("the slot for user mode says user mode", slot[2].user, 1);
	is("the slot for both modes says user mode", slot[1].user, 1);
	is("a slot for the kernel counts exits of the kernel only",
	   slot[15].left, 97);
	here()->arch.cpl = 0;

	mem->area.slots = BIT(31) | BIT(3);
	slot[3].counts = ~0ull;
	slot[3].left = 1;
	*param_pv_perf_max_rate = 0;
	is("with a maximum rate of 0: no NMI", exit_for(SVM_EXIT_IOIO), 0);
	is("with a maximum rate of 0, left is not decremented",
	   slot[3].left, 1);
	*param_pv_perf_max_rate = 100;
	is("with a maximum rate, an NMI is delayed at last",
	   overflow_late(&slot[3]), true);
	is("the slot has overflowed before its NMI",
	   (s64)slot[3].left <= 0, true);
	here()->arch.pv_perf->overflow_rate = (struct pv_perf_rate){};
	is("the delayed NMI comes later", exit_for(SVM_EXIT_CPUID), 1);
	CHECK(overflow_late(&slot[3]));
	mem->area.slots = 0;
	here()->arch.pv_perf->overflow_rate = (struct pv_perf_rate){};
	is("no delayed NMI if the guest has removed the slot",
	   exit_for(SVM_EXIT_CPUID), 0);
	mem->area.slots = BIT(3);
	CHECK(overflow_late(&slot[3]) && !set_counts(io));
	here()->arch.pv_perf->overflow_rate = (struct pv_perf_rate){};
	is("SET_COUNTS keeps the delayed NMI", exit_for(SVM_EXIT_CPUID), 1);
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
	is("an exit counts after the memory slots have changed",
	   kernel_count(KVM_PERF_COUNT_EXITS_CPUID), 1);
	kvm->memslots.slot[0].dirty[gpa_to_gfn(GPA(area))] = false;
	exit_for(SVM_EXIT_CPUID);
	is("the area's page is dirty",
	   kvm->memslots.slot[0].dirty[gpa_to_gfn(GPA(area))], true);
	*absent = true;
	before = kernel_count(KVM_PERF_COUNT_EXITS_CPUID);
	use_slot(0, BIT(KVM_PERF_COUNT_EXITS_CPUID), 1, 0);
	is("while the area's page is absent: no NMI",
	   exit_for(SVM_EXIT_CPUID), 0);
	*absent = false;
	is("when the page is present again: the NMI",
	   exit_for(SVM_EXIT_CPUID), 1);
	is("no exit is lost while the page is absent",
	   kernel_count(KVM_PERF_COUNT_EXITS_CPUID), before + 2);
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
	is("one NMI per overflow, also if an access fails", n, 15);
	is("no exit is lost if an access fails",
	   kernel_count(KVM_PERF_COUNT_EXITS_IO), 15);

	leave_for(SVM_EXIT_IOIO);
	here()->arch.guest_mode = true;
	pv_perf_vcpu_leave(here(), -EINTR);
	is("an exit counts if the vCPU stops while a nested guest runs",
	   kernel_count(KVM_PERF_COUNT_EXITS_IO), 16);
	here()->arch.guest_mode = false;
	here()->arch.exit.gpa = 0;
	boot_cpu_data.x86_vendor = X86_VENDOR_INTEL;
	exit_for(EXIT_REASON_MSR_WRITE);
	exit_for(EXIT_REASON_APIC_ACCESS);
	exit_for(EXIT_REASON_APIC_WRITE);
	exit_for(EXIT_REASON_INTERRUPT_WINDOW);
	boot_cpu_data.x86_vendor = X86_VENDOR_AMD;
	is("other exit reasons of VMX count, too",
	   kernel_count(KVM_PERF_COUNT_EXITS_MSR) +
	   kernel_count(KVM_PERF_COUNT_EXITS_MMIO) +
	   kernel_count(KVM_PERF_COUNT_EXITS_INTERRUPT),
	   4);
	CHECK(!call(KVM_PERF_OP_RESET, 0));
	exit_for(SVM_EXIT_CPUID);
	is("after RESET, VM entry looks at nothing",
	   here()->arch.pv_perf->at_entry, 0);
	teardown();
}

/* A VMM restores the APIC's registers and memory with an area. */
static void test_restored(void)
{
	struct kvm_lapic lapic = { .lvtpc = KVM_PERF_LVTPC };
	struct kvm_vcpu *fresh;

	setup();
	fresh = vcpu_create(kvm, 2);
	fresh->arch.apic = &lapic;
	pv_perf_vcpu_run(fresh);
	is("a vCPU without a call on this host that had an area elsewhere: an NMI",
	   atomic_read(&fresh->arch.nmi_queued), 1);
	vcpu_destroy(fresh);
	vcpus[0]->arch.apic = &lapic;
	vcpus[1]->arch.apic = &lapic;
	pv_perf_vcpu_run(vcpus[0]);
	is("a vCPU without an area that had an area elsewhere: an NMI",
	   enter_guest(), 1);
	pv_perf_vcpu_run(vcpus[0]);
	is("the vCPU gets this NMI once", enter_guest(), 0);
	pv_perf_vcpu_reset(vcpus[0]);
	pv_perf_vcpu_run(vcpus[0]);
	is("after a reset of the vCPU: another NMI", enter_guest(), 1);
	mem->area.size = sizeof(mem->area);
	CHECK(!set_area(GPA(area)) && !set_area(0));
	pv_perf_vcpu_run(vcpus[0]);
	is("a vCPU that has removed its area gets no NMI", enter_guest(), 0);

	on(1);
	lapic.lvtpc = 0x400;
	pv_perf_vcpu_run(vcpus[1]);
	is("a vCPU with another LVTPC gets no NMI", enter_guest(), 0);
	lapic.lvtpc = KVM_PERF_LVTPC;
	vcpus[1]->arch.nmi_pending = 1;
	pv_perf_vcpu_run(vcpus[1]);
	is("a vCPU with another NMI pending gets no NMI", enter_guest(), 0);
	vcpus[1]->arch.nmi_pending = 0;
	pv_perf_vcpu_reset(vcpus[1]);
	vcpus[1]->arch.apic = NULL;
	pv_perf_vcpu_run(vcpus[1]);
	is("a vCPU with its APIC in user space gets no NMI", enter_guest(), 0);
	vcpus[1]->arch.apic = &lapic;
	pv_perf_vcpu_run(vcpus[1]);
	is("any other vCPU gets the NMI", enter_guest(), 1);
	teardown();
}

/* An event moves from a vCPU that runs on, without a READ. */
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
	is("no overflow at 999 events of both vCPUs", enter_guest(), 0);
	run_guest(1);
	is("an overflow at 1000 events of both vCPUs", enter_guest(), 1);

	param(2, 2);
	mem->attr.flags = KVM_PERF_ATTR_FREQ;
	mem->attr.sample_period = 1000;
	do_open();
	call(KVM_PERF_OP_ENABLE, 2);
	run_guest(128);
	run_guest(128);
	enter_guest();
	period = event(2)->backing->hw.sample_period;
	is("the period of an event with a frequency is adapted",
	   period > 1000, true);
	run_guest(100);
	on(0);
	CHECK(!call(KVM_PERF_OP_ENABLE, 2));
	run_guest(27);
	is("after the move, the old period is not over yet", enter_guest(), 0);
	run_guest(1);
	enter_guest();
	is("after the move, the event overflows at the end of the old period",
	   mem->record[2].last_period, 128);
	run_guest(period - 1);
	is("the adapted period is not over yet", enter_guest(), 0);
	run_guest(1);
	enter_guest();
	is("the next overflow is at the end of the adapted period",
	   mem->record[2].last_period, period);
	teardown();
}

/* An event that has lost its counter does not take another event's counter. */
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
	/*
	 * Events 2 and 5 count. Events 3 and 4 have lost their counters, and
	 * are older than 5.
	 */
	is("ENABLE of a lost event: EBUSY", call(3, 3), -KVM_EBUSY);
	is("the youngest event counts on", call(5, NR_COUNTERS + 1), 0);
	is("ENABLE of another event: EBUSY", call(3, 1), -KVM_EBUSY);
	is("the youngest event still counts", call(5, NR_COUNTERS + 1), 0);
	is("READ of the lost event: EBUSY", call(5, 3), -KVM_EBUSY);
	run_guest(10);
	is("the youngest event counts after the READ",
	   call(5, NR_COUNTERS + 1), 0);
	is("the youngest event has missed nothing",
	   mem->record[NR_COUNTERS + 1].count, 10);
	is("READ of the lost event without a free counter: EBUSY",
	   call(5, 3), -KVM_EBUSY);
	take_counters(tasks[0], 1);
	is("ENABLE of another event, with a free counter", call(3, 1), 0);
	is("READ of a lost event after that ENABLE: EBUSY",
	   call(5, 4), -KVM_EBUSY);
	take_counters(tasks[0], 0);
	is("READ of a lost event with a free counter restarts it: EBUSY",
	   call(5, 3), -KVM_EBUSY);
	is("READ of the restarted event", call(5, 3), 0);
	is("DISABLE of a lost event", call(4, 4), 0);
	is("READ of the disabled event", call(5, 4), 0);
	teardown();
}

/* VM entry up to the last check for requests. */
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

/* When an event stops counting, the guest gets the reason at once. */
static void test_told(void)
{
	struct guest_perf_event *r;
	u32 sequence;

	setup();
	r = mem->record;
	CHECK(!open_notify(1, 0) && !open_id(2));
	CHECK(!call(3, 1) && !call(3, 2));
	is("all events count: VM entry goes on", entry_goes_on(), true);
	take_counters(tasks[0], NR_COUNTERS);
	is("events have lost their counters: VM entry does not go on",
	   entry_goes_on(), false);
	is("an NMI, because one of the events has the flag NOTIFY",
	   enter_guest(), 1);
	is("the event with the flag NOTIFY has the flag LOST",
	   r[1].flags, KVM_PERF_EVENT_LOST);
	is("the other event has the flag LOST",
	   r[2].flags, KVM_PERF_EVENT_LOST);
	is("after the request, VM entry goes on", entry_goes_on(), true);
	is("READ of the lost event: EBUSY", call(5, 1), -KVM_EBUSY);
	is("READ of the lost event causes no NMI", enter_guest(), 0);
	is("the flag LOST stays", r[1].flags, KVM_PERF_EVENT_LOST);
	take_counters(tasks[0], 0);
	sequence = r[1].sequence;
	is("ENABLE with a free counter", call(3, 1), 0);
	is("ENABLE clears the flag LOST", r[1].flags, 0);
	is("ENABLE writes the record once", r[1].sequence, sequence + 2);
	is("ENABLE of an event that counts", call(3, 1), 0);
	is("ENABLE of an event that counts writes no record",
	   r[1].sequence, sequence + 2);
	is("READ of the other lost event restarts it: EBUSY",
	   call(5, 2), -KVM_EBUSY);
	is("READ clears the flag LOST", r[2].flags, 0);

	/* The thread of the event's vCPU runs the guest, and is not scheduled. */
	take_counters(tasks[0], NR_COUNTERS);
	take_counters(tasks[0], 0);
	on(1);
	is("READ of the lost event by another vCPU: EBUSY",
	   call(5, 1), -KVM_EBUSY);
	is("READ by another vCPU does not restart the event",
	   event(1)->backing->state, PERF_EVENT_STATE_ERROR);
	on(0);
	is("VM entry of the event's own vCPU does not go on",
	   entry_goes_on(), false);
	is("the event's own vCPU gets the NMI", enter_guest(), 1);
	is("the event's own vCPU gets the NMI once", enter_guest(), 0);
	is("ENABLE by another vCPU restarts the event", (on(1), call(3, 1)), 0);
	is("ENABLE by another vCPU clears the flag LOST", r[1].flags, 0);
	on(0);

	/*
	 * The event's vCPU has not entered the guest since the loss, so its NMI
	 * is still to come.
	 */
	CHECK(!call(3, 1));
	enter_guest();
	take_counters(tasks[0], NR_COUNTERS);
	take_counters(tasks[0], 0);
	on(1);
	is("READ by another vCPU before the event's own vCPU enters: EBUSY",
	   call(5, 1), -KVM_EBUSY);
	is("READ by another vCPU sets the flag LOST",
	   r[1].flags, KVM_PERF_EVENT_LOST);
	is("ENABLE by another vCPU before the event's own vCPU enters",
	   call(3, 1), 0);
	is("this ENABLE clears the flag LOST", r[1].flags, 0);
	on(0);
	CHECK(!call(2, 1) && !open_notify(1, 1000) && !call(3, 1));
	enter_guest();
	take_counters(tasks[0], NR_COUNTERS);
	take_counters(tasks[0], 0);
	on(1);
	is("READ of a lost sampling event by another vCPU: EBUSY",
	   call(5, 1), -KVM_EBUSY);
	on(0);
	is("SET_LEFT by the event's own vCPU before it enters",
	   call3(10, 1, 7, 0), 0);
	is("the event's own vCPU gets the NMI nevertheless", enter_guest(), 1);
	is("the event's own vCPU gets this NMI once", enter_guest(), 0);
	CHECK(!call(3, 1));

	/* KVM is to inject a nested guest's NMI again. */
	take_counters(tasks[0], 0);
	CHECK(!call(3, 1));
	take_counters(tasks[0], NR_COUNTERS);
	here()->arch.guest_mode = true;
	here()->arch.nmi_injected = true;
	is("lost before the nested guest is entered: VM entry does not go on",
	   entry_goes_on(), false);
	is("the guest gets an NMI beside the nested guest's NMI",
	   enter_guest(), 1);
	here()->arch.nmi_injected = false;
	here()->arch.guest_mode = false;
	take_counters(tasks[0], 0);
	CHECK(!call(3, 1));
	take_counters(tasks[0], NR_COUNTERS);
	here()->arch.nmi_injected = true;
	is("lost before the guest is entered: VM entry does not go on",
	   entry_goes_on(), false);
	is("the guest gets no NMI beside its injected NMI", enter_guest(), 0);
	here()->arch.nmi_injected = false;

	/* A record that cannot be written must not keep the vCPU from running. */
	take_counters(tasks[0], NR_COUNTERS);
	kvm->memslots.slot[0].absent[RECORD(2) >> PAGE_SHIFT] = true;
	enter_guest();
	is("VM entry goes on without the record", entry_goes_on(), true);
	kvm->memslots.slot[0].absent[RECORD(2) >> PAGE_SHIFT] = false;
	teardown();

	/* The VMM stops the vCPU before VM entry. */
	setup();
	CHECK(!open_notify(1, 0) && !call(3, 1));
	take_counters(tasks[0], NR_COUNTERS);
	pv_perf_vcpu_leave(vcpus[0], -EINTR);
	is("the record of a stopped vCPU's event has the flag LOST",
	   mem->record[1].flags, KVM_PERF_EVENT_LOST);
	is("the stopped vCPU's NMI is queued",
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
	is("READ all of the events that count", call(5, KVM_PERF_ID_ALL), 0);
	is("the oldest event counts", mem->record[1].count, 10);
	is("the youngest event counts", mem->record[NR_COUNTERS].count, 10);

	/* The oldest event is enabled last: perf would stop the youngest. */
	call(KVM_PERF_OP_DISABLE, 1);
	CHECK(!call(KVM_PERF_OP_ENABLE, NR_COUNTERS + 1));
	is("ENABLE of the oldest event: EBUSY",
	   call(KVM_PERF_OP_ENABLE, 1), -KVM_EBUSY);
	run_guest(10);
	is("the other events count on", call(5, KVM_PERF_ID_ALL), 0);
	is("the youngest event has missed nothing",
	   mem->record[NR_COUNTERS + 1].count, 10);

	/* The host takes one counter. */
	take_counters(tasks[0], 1);
	run_guest(10);
	is("READ all with a lost event: EBUSY",
	   call(5, KVM_PERF_ID_ALL), -KVM_EBUSY);
	is("READ all reads the other events", mem->record[2].count, 30);
	is("READ of the lost event: EBUSY",
	   call(5, NR_COUNTERS + 1), -KVM_EBUSY);
	is("ENABLE of another event meanwhile: EBUSY", call(3, 1), -KVM_EBUSY);
	is("ENABLE of an event that counts", call(3, 2), 0);
	take_counters(tasks[0], 0);
	is("READ of the lost event restarts it: EBUSY",
	   call(5, NR_COUNTERS + 1), -KVM_EBUSY);
	is("READ of the restarted event", call(5, NR_COUNTERS + 1), 0);
	run_guest(10);
	call(5, NR_COUNTERS + 1);
	is("the event has counted while it had a counter",
	   mem->record[NR_COUNTERS + 1].count, 20);
	take_counters(tasks[0], NR_COUNTERS);
	is("DISABLE of a lost event", call(4, NR_COUNTERS + 1), 0);
	is("READ of the disabled event", call(5, NR_COUNTERS + 1), 0);
	teardown();
}

static int enabled_by_perf;

static void count_enables(const char *where)
{
	enabled_by_perf += !strcmp(where, "enable");
}

static int scheduled_by_perf;

static void count_scheduling(const char *where)
{
	scheduled_by_perf += !strcmp(where, "enable") || !strcmp(where, "disable");
}

/* perf would schedule all events of the thread. */
static void test_beside(void)
{
	u32 id;

	setup();
	for (id = 1; id <= NR_COUNTERS + 1; id++)
		open_id(id);
	scheduled_by_perf = 0;
	sleep_hook = count_scheduling;
	call(KVM_PERF_OP_ENABLE, 1);
	is("perf schedules the first event", scheduled_by_perf, 1);
	run_guest(10);
	for (id = 2; id <= NR_COUNTERS; id++)
		CHECK(!call(KVM_PERF_OP_ENABLE, id));
	run_guest(10);
	is("an event starts beside others without perf", scheduled_by_perf, 1);
	call(KVM_PERF_OP_DISABLE, 2);
	run_guest(10);
	is("an event stops beside others without perf", scheduled_by_perf, 1);
	take_counters(tasks[0], 1);
	is("ENABLE without a free counter", call(3, NR_COUNTERS + 1), -KVM_EBUSY);
	is("perf schedules all events, and then all except for the new one",
	   scheduled_by_perf, 3);
	take_counters(tasks[0], 0);
	is("ENABLE with a free counter", call(3, NR_COUNTERS + 1), 0);
	is("it starts without perf", scheduled_by_perf, 3);
	run_guest(10);
	sleep_hook = NULL;

	call(5, KVM_PERF_ID_ALL);
	call(5, 2);
	is("the first event has counted all the time", mem->record[1].count, 40);
	is("the first event's time", mem->record[1].time_running, 40);
	is("the second event has counted until it was stopped",
	   mem->record[2].count, 10);
	is("the second event's time", mem->record[2].time_running, 10);
	is("the last event has counted since it was started",
	   mem->record[NR_COUNTERS + 1].count, 10);
	is("the last event's time", mem->record[NR_COUNTERS + 1].time_enabled, 10);
	for (id = 1; id <= NR_COUNTERS + 1; id++)
		call(KVM_PERF_OP_DISABLE, id);
	run_guest(10);
	call(5, 3);
	is("a disabled event counts no more", mem->record[3].count, 30);
	is("its time stands still", mem->record[3].time_running, 30);

	CHECK(!open_notify(20, 100) && !call(KVM_PERF_OP_ENABLE, 20));
	throttle(event(20)->backing);
	scheduled_by_perf = 0;
	sleep_hook = count_scheduling;
	is("ENABLE beside a throttled event", call(KVM_PERF_OP_ENABLE, 1), 0);
	is("perf schedules both", scheduled_by_perf, 1);
	sleep_hook = NULL;
	teardown();
}

/* Starts and stops event 2.  Returns whether perf has scheduled other events for that. */
static bool perf_schedules(void)
{
	scheduled_by_perf = 0;
	sleep_hook = count_scheduling;
	CHECK(!call(KVM_PERF_OP_ENABLE, 2));
	sleep_hook = NULL;
	CHECK(!call(KVM_PERF_OP_DISABLE, 2));
	return scheduled_by_perf;
}

/* Only events that need not make way stay where they are. */
static void test_beside_host(void)
{
	struct perf_event sibling = { 0 };
	struct perf_event leader = { .attr.pinned = 1, .group_leader = &leader };

	INIT_LIST_HEAD(&leader.sibling_list);
	list_add_tail(&sibling.sibling_list, &leader.sibling_list);
	sibling.group_leader = &leader;

	setup();
	CHECK(!open_id(1) && !open_id(2) && !call(KVM_PERF_OP_ENABLE, 1));
	set_host_event(tasks[0], &leader);
	is("an event starts beside a pinned one of the host without perf",
	   perf_schedules(), 0);
	leader.hw.interrupts = -1;
	is("perf schedules all events beside a throttled one of the host",
	   perf_schedules(), 1);
	leader.hw.interrupts = 0;
	sibling.hw.interrupts = -1;
	is("perf schedules all events beside a group with a throttled one",
	   perf_schedules(), 1);
	sibling.hw.interrupts = 0;
	leader.attr.pinned = 0;
	set_host_event(tasks[0], &leader);
	is("an event of the host that is not pinned makes way",
	   perf_schedules(), 1);
	set_host_event(tasks[0], NULL);
	is("an event starts without perf when the host has none",
	   perf_schedules(), 0);
	list_add_tail(&leader.active_list, &tasks[0]->ctx.flexible_active);
	is("an event of the thread that is not pinned makes way",
	   perf_schedules(), 1);
	list_del_init(&leader.active_list);
	teardown();
}

/* The host keeps some counters for itself. */
static void test_max_counters(void)
{
	u32 id;

	setup();
	*param_pv_perf_max_counters = 0;
	is("without fixed counters the host keeps two", told_counters(),
	   NR_COUNTERS - 2);
	*param_pv_perf_max_counters = NR_COUNTERS + 1;
	is("QUERY has no more counters than the CPU",
	   told_counters(), NR_COUNTERS);
	*param_pv_perf_max_counters = 2;
	is("QUERY has the limit", told_counters(), 2);
	for (id = 1; id <= 4; id++)
		CHECK(!open_id(id));
	is("ENABLE of the first event", call(3, 1), 0);
	is("ENABLE of the second event, which reaches the limit",
	   call(3, 2), 0);
	sleep_hook = count_enables;
	is("ENABLE beyond the limit: EBUSY", call(3, 3), -KVM_EBUSY);
	is("ENABLE beyond the limit takes no counter meanwhile",
	   enabled_by_perf, 0);
	sleep_hook = NULL;
	is("ENABLE again of an event that counts", call(3, 2), 0);
	on(1);
	is("another vCPU has its own limit", call(3, 3), 0);
	is("ENABLE moves an event to the other vCPU", call(3, 2), 0);
	is("ENABLE beyond the other vCPU's limit: EBUSY",
	   call(3, 1), -KVM_EBUSY);
	on(0);
	is("after the move, the first vCPU has a free counter", call(3, 4), 0);
	run_guest(10);
	is("the other event counts on", (call(5, 1), mem->record[1].count), 10);

	/* A lower limit concerns only events that start later, as in perf. */
	*param_pv_perf_max_counters = 1;
	run_guest(10);
	is("a lower limit stops nothing", call(5, 4), 0);
	replace_thread();
	pv_perf_vcpu_run(vcpus[0]);
	run_guest(10);
	is("after a move to another thread, one event is beyond the limit",
	   (call(5, 1), call(5, 4)) || call(5, 1), true);
	*param_pv_perf_max_counters = 2;
	call(5, 1);
	call(5, 4);
	is("after the limit is raised, READ restarts the event",
	   call(5, 1) ? : call(5, 4), 0);
	take_counters(tasks[0], NR_COUNTERS - 1);
	is("READ of an event that has lost its counter: EBUSY",
	   call(5, 4), -KVM_EBUSY);
	teardown();

	/* Other events count while this event does not. */
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
	is("the other vCPU's event has a counter, too", count_on(0, 1), 20);
	teardown();
}

static long open_raw(u32 id, u64 config)
{
	param(id, id);
	mem->attr.config = config;
	return do_open();
}

/* Some events of Zen use two counters. */
static void test_pairs(void)
{
	setup();
	*param_pv_perf_max_counters = 3;
	CHECK(!open_raw(1, 0x3) && !open_raw(2, 0xff03));
	CHECK(!open_raw(3, 0x100000003));
	is("a pair of counters", call(3, 1), 0);
	is("another pair is beyond the limit of 3 counters",
	   call(3, 2), -KVM_EBUSY);
	is("an event with a longer number uses one counter", call(3, 3), 0);
	*param_pv_perf_max_counters = 4;
	is("with a limit of 4, a pair and a counter leave no pair",
	   call(3, 2), -KVM_EBUSY);
	call(4, 3);
	is("with a limit of 4, two pairs have room", call(3, 2), 0);
	boot_cpu_data.x86 = 0x15;
	is("before Zen, each event uses one counter", call(3, 3), 0);
	boot_cpu_data.x86 = 0x17;
	teardown();
}

/* A fixed counter counts only its own event. */
static void test_fixed_counters(void)
{
	boot_cpu_data.x86_vendor = X86_VENDOR_INTEL;
	pmu_capability.num_counters_fixed = 3;
	setup();
	*param_pv_perf_max_counters = 0;
	is("with fixed counters the host keeps one", told_counters(),
	   NR_COUNTERS - 1);
	is("QUERY has the fixed counters", mem->query.fixed_counters, 7);
	*param_pv_perf_max_counters = 1;
	CHECK(!open_id(1) && !open_id(2) && !open_id(3));
	is("ENABLE of instructions uses the fixed counter", call(3, 1), 0);
	is("ENABLE of instructions again uses the general counter",
	   call(3, 2), 0);
	is("ENABLE of instructions once more: EBUSY", call(3, 3), -KVM_EBUSY);
	open_raw(5, 0x2c);
	call(4, 1);
	is("if the fixed counter becomes free, the general counter does, too",
	   call(3, 3), 0);
	call(4, 3);
	call(4, 2);
	call(3, 1);
	call(3, 2);
	call(4, 1);
	is("an event without a fixed counter has no room",
	   call(3, 5), -KVM_EBUSY);
	is("the first event of instructions has room again", call(3, 1), 0);
	call(4, 1);
	call(4, 2);

	/* The host uses the fixed counter of cycles, like the NMI watchdog. */
	cpus[0].taken_fixed = 2;
	open_raw(8, 0x3c);
	is("instructions in the fixed counter, cycles in the general counter",
	   call(3, 2) ?: call(3, 8), 0);
	is("an older event of instructions: EBUSY", call(3, 1), -KVM_EBUSY);
	call(4, 8);
	is("the older event has not moved the other event for good",
	   call(3, 5), 0);
	call(4, 5);
	call(2, 8);
	cpus[0].taken_fixed = 0;
	call(3, 1);
	call(3, 2);
	call(4, 1);
	call(3, 1);
	open_raw(4, 0x3c);
	is("cycles use their own fixed counter", call(3, 4), 0);
	is("other events have no fixed counter: EBUSY", call(3, 5), -KVM_EBUSY);
	run_guest(10);
	is("all enabled events count", call(5, KVM_PERF_ID_ALL), 0);
	call(4, 2);
	is("DISABLE makes room", call(3, 5), 0);
	open_raw(6, 0x300);
	is("perf's event for branch records: EOPNOTSUPP",
	   open_raw(7, 0x1b00), -KVM_EOPNOTSUPP);
	is("reference cycles use their own fixed counter", call(3, 6), 0);
	teardown();
	boot_cpu_data.x86_vendor = X86_VENDOR_AMD;
	pmu_capability.num_counters_fixed = 0;

	/* The CPU has two counters. */
	pmu_capability.num_counters_gp = 2;
	setup();
	*param_pv_perf_max_counters = 0;
	is("the guest has at least one counter", told_counters(), 1);
	teardown();
	pmu_capability.num_counters_gp = NR_COUNTERS;
}

/* On Intel, perf stays set up for the next event until the VM ends. */
static void test_held_pmu(void)
{
	int n = 0;

	setup();
	CHECK(!open_id(1));
	is("nothing is held on AMD", atomic_read(&nr_held_events), 0);
	teardown();

	boot_cpu_data.x86_vendor = X86_VENDOR_INTEL;
	setup();
	is("nothing is held on Intel before the first OPEN",
	   atomic_read(&nr_held_events), 0);
	/* Each OPEN tries again, and fails at a later allocation. */
	do {
		alloc_faults = (struct faults){ .fail_at = ++n };
		CHECK(open_id(1));
	} while (!atomic_read(&nr_held_events));
	alloc_faults.fail_at = 0;
	is("the failed OPEN holds one event", atomic_read(&nr_held_events), 1);
	CHECK(!open_id(1) && !open_id(2));
	is("OPENs that succeed hold no more", atomic_read(&nr_held_events), 1);
	on(1);
	CHECK(!open_id(3));
	is("OPEN by another vCPU holds no more",
	   atomic_read(&nr_held_events), 1);
	call(2, 1);
	call(2, 2);
	call(2, 3);
	is("CLOSE does not release the held event",
	   atomic_read(&nr_held_events), 1);
	/* teardown() checks that the end of the VM releases the held event. */
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
	is("QUERY writes nothing behind the known fields",
	   !memchr_inv(mem->after_query, 0x5a, sizeof(mem->after_query)), true);
	*param_pv_perf_max_events = -1u;
	call(6, GPA(query));
	is("max_events at most 2^31 - 1", q->max_events, INT_MAX);
	*param_pv_perf_max_events = 64;
	teardown();
}

/* Raw events belong to a CPU model, named events do not. */
static void test_model(void)
{
	struct guest_perf_query *q;
	u32 model;

	setup();
	q = &mem->query;
	q->size = sizeof(*q);
	CHECK(!call(6, GPA(query)));
	model = q->model;
	is("QUERY has the CPU's model",
	   model,
	   KVM_PERF_MODEL_AMD | 0x17 << KVM_PERF_MODEL_FAMILY_SHIFT | 0x31);
	param(1, 1);
	mem->attr.model = model;
	is("a raw event of this model", do_open(), 0);
	CHECK(!call(KVM_PERF_OP_CLOSE, 1));
	mem->attr.model = 0;
	is("a raw event of any model", do_open(), 0);
	CHECK(!call(KVM_PERF_OP_CLOSE, 1));
	mem->attr.model = model + 1;
	open_fails("a raw event of another model: EOPNOTSUPP", -KVM_EOPNOTSUPP);
	param(1, 1);
	mem->attr.model = model + 1;
	mem->attr.config = -1ull;
	open_fails("a raw event of another model with bits outside of the mask: EOPNOTSUPP",
		   -KVM_EOPNOTSUPP);
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

	/*
	 * The guest moves from an AMD host to an Intel host, and learns that
	 * only by QUERY.
	 */
	boot_cpu_data.x86_vendor = X86_VENDOR_INTEL;
	boot_cpu_data.x86 = 6;
	boot_cpu_data.x86_model = 0x31;
	setup();
	q = &mem->query;
	q->size = sizeof(*q);
	CHECK(!call(6, GPA(query)));
	is("on Intel, QUERY has the Intel CPU's model",
	   q->model,
	   KVM_PERF_MODEL_INTEL | 6 << KVM_PERF_MODEL_FAMILY_SHIFT | 0x31);
	is("on Intel, QUERY has Intel's raw event mask",
	   q->raw_event_mask == X86_RAW_EVENT_MASK, true);
	param(1, 1);
	mem->attr.model = model;
	open_fails("on Intel, a raw event of AMD: EOPNOTSUPP", -KVM_EOPNOTSUPP);
	param(1, 1);
	mem->attr.type = KVM_PERF_TYPE_HARDWARE;
	mem->attr.config = PERF_COUNT_HW_INSTRUCTIONS;
	mem->attr.flags = KVM_PERF_ATTR_OPTIONAL;
	is("on Intel, a named event with all optional flags", do_open(), 0);
	teardown();
	boot_cpu_data.x86_vendor = X86_VENDOR_HYGON;
	setup();
	mem->query.size = sizeof(mem->query);
	CHECK(!call(6, GPA(query)));
	is("on Hygon, QUERY has another vendor",
	   mem->query.model & KVM_PERF_MODEL_VENDOR, KVM_PERF_MODEL_HYGON);
	teardown();
	boot_cpu_data.x86_vendor = X86_VENDOR_AMD;
	boot_cpu_data.x86 = 0x17;
}

static void test_limit(void)
{
	setup();
	*param_pv_perf_max_events = 1;
	log_lines = 0;
	is("the first event", open_id(1), 0);
	is("the second event", open_id(2), 0);
	is("the third event: ENOSPC", open_id(3), -KVM_ENOSPC);
	is("another event: ENOSPC", open_id(4), -KVM_ENOSPC);
	is("the limit is logged once", log_lines, 1);
	is("the message names the limit",
	   strcmp(log_line, "kvm: pv_perf: VM of pid 1234 has reached its limit of 2 events (kvm.pv_perf_max_events per vCPU)\n"),
	   0);
	is("CLOSE makes room", (call(2, 1), open_id(3)), 0);
	*param_pv_perf_max_events = 64;
	teardown();
}

/* A vCPU has a share of the VM's limit. */
static void test_home_limit(void)
{
	int n;

	setup();
	for (n = 1; !open_id(n); n++)
		;
	is("one vCPU can open its share of 64 events", n, 65);
	is("an event beyond the share: ENOSPC", open_id(n), -KVM_ENOSPC);
	is("the message names the vCPU's limit",
	   strcmp(log_line, "kvm: pv_perf: a vCPU of the VM of pid 1234 has reached its limit of 64 events (kvm.pv_perf_max_events)\n"),
	   0);
	on(1);
	is("the other vCPU has room", open_id(n), 0);
	is("ENABLE moves an event to the other vCPU",
	   call(KVM_PERF_OP_ENABLE, 1), 0);
	on(0);
	is("after the move, the first vCPU has room", open_id(n + 1), 0);
	is("ENABLE cannot move the event back: ENOSPC",
	   call(KVM_PERF_OP_ENABLE, 1), -KVM_ENOSPC);
	is("ENABLE of an event that is on this vCPU",
	   call(KVM_PERF_OP_ENABLE, 2), 0);
	replace_thread();
	pv_perf_vcpu_run(vcpus[0]);
	is("the event follows the vCPU to another thread",
	   event(2)->backing->hw.target == current, true);
	is("ENABLE of an event that is on this vCPU's previous thread",
	   call(KVM_PERF_OP_ENABLE, 3), 0);
	is("CLOSE makes room", (call(KVM_PERF_OP_CLOSE, 4),
				call(KVM_PERF_OP_ENABLE, 1)), 0);
	call(KVM_PERF_OP_RESET, 0);
	enter_guest();

	log_lines = 0;
	for (n = 1; !open_id(n); n++)
		;
	is("a vCPU's limit is logged only once", log_lines, 0);
	on(1);
	for (; !open_id(n); n++)
		;
	is("both vCPUs can open 128 events", n, 129);
	is("the VM's limit is logged", log_lines, 1);
	on(0);
	call(KVM_PERF_OP_RESET, 0);
	enter_guest();

	*param_pv_perf_max_events = 17;
	for (n = 1; !open_id(n); n++)
		;
	is("with a low limit, one vCPU may have all of the VM's events", n, 33);
	*param_pv_perf_max_events = 64;
	teardown();
}

/* The VMM sets limits for its VM. */
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

	is("the host's limit of events",
	   host_extension(KVM_CAP_PV_PERF_EVENTS), 64);
	is("the host's maximum rate",
	   host_extension(KVM_CAP_PV_PERF_RATE), 100000);
	is("the VM's limit of events",
	   pv_perf_check_extension(kvm, KVM_CAP_PV_PERF_EVENTS), 64);
	is("more events than the host allows", enable_cap(kvm,
		KVM_CAP_PV_PERF_EVENTS, 65), -EINVAL);
	is("far more events than the host allows",
	   enable_cap(kvm, KVM_CAP_PV_PERF_EVENTS, -1ull), -EINVAL);
	is("a higher rate than the host allows",
	   enable_cap(kvm, KVM_CAP_PV_PERF_RATE, 100001), -EINVAL);
	for (i = 1; i < 4; i++) {
		bad.args[i] = 1;
		is("an argument that must be 0",
		   pv_perf_enable_cap(kvm, &bad), -EINVAL);
		bad.args[i] = 0;
	}
	pmu_capability.num_counters_gp = 0;
	is("a host without the feature has a limit of 0 events",
	   host_extension(KVM_CAP_PV_PERF_EVENTS), 0);
	pmu_capability.num_counters_gp = NR_COUNTERS;
	*param_pv_perf_max_counters = 3;
	is("the host's limit of counters",
	   host_extension(KVM_CAP_PV_PERF_COUNTERS), 3);
	is("more counters than the host allows",
	   enable_cap(kvm, KVM_CAP_PV_PERF_COUNTERS, 4), -EINVAL);
	is("a limit of 1 counter",
	   enable_cap(kvm, KVM_CAP_PV_PERF_COUNTERS, 1), 0);
	is("KVM_CHECK_EXTENSION: 1 counter",
	   pv_perf_check_extension(kvm, KVM_CAP_PV_PERF_COUNTERS), 1);
	is("a limit of 2 events",
	   enable_cap(kvm, KVM_CAP_PV_PERF_EVENTS, 2), 0);
	is("a maximum rate of 0", enable_cap(kvm, KVM_CAP_PV_PERF_RATE, 0), 0);
	is("KVM_CHECK_EXTENSION: 2 events",
	   pv_perf_check_extension(kvm, KVM_CAP_PV_PERF_EVENTS), 2);
	is("KVM_CHECK_EXTENSION: a rate of 0",
	   pv_perf_check_extension(kvm, KVM_CAP_PV_PERF_RATE), 0);

	vcpus[0] = vcpu_create(kvm, 0);
	is("a limit after the first vCPU was created: EINVAL",
	   enable_cap(kvm, KVM_CAP_PV_PERF_EVENTS, 1), -EINVAL);
	q->size = sizeof(*q);
	call(6, GPA(query));
	is("QUERY: no sampling", q->features, KVM_PERF_FEATURE_BATCH |
	   KVM_PERF_FEATURE_NESTED | KVM_PERF_FEATURE_NOTIFY |
	   KVM_PERF_FEATURE_AREA | KVM_PERF_FEATURE_RDPMC |
	   KVM_PERF_FEATURE_COUNTS);
	is("QUERY: 2 events", q->max_events, 2);
	is("QUERY: 1 counter", q->nr_counters, 1);
	is("OPEN with a period", open_sampling(1, 1000), -KVM_EOPNOTSUPP);
	is("OPEN without a period", open_id(1), 0);
	is("OPEN of the second event", open_id(2), 0);
	is("OPEN of the third event: ENOSPC", open_id(3), -KVM_ENOSPC);
	*param_pv_perf_max_events = 1;
	is("a lower limit of the host applies, too",
	   pv_perf_check_extension(kvm, KVM_CAP_PV_PERF_EVENTS), 1);
	*param_pv_perf_max_events = 64;
	vcpu_destroy(vcpus[0]);
	vm_destroy(kvm);

	kvm = vm_create();
	is("a VMM that refuses the feature",
	   enable_cap(kvm, KVM_CAP_PV_PERF_EVENTS, 0), 0);
	vcpus[0] = vcpu_create(kvm, 0);
	is("a VM whose VMM refuses the feature: ENOSYS",
	   call(9, 0), -KVM_ENOSYS);
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

/* A vCPU that opens too many events has to wait, but OPEN does not fail. */
static void test_open_rate(void)
{
	u64 start;

	setup();
	is("at 10,000 per second, 100 events take no time", open_takes(100), 0);
	is("1,000 more events take 0.1 seconds",
	   is_100_ms(open_takes(1000)), true);
	*param_pv_perf_max_open_rate = 0;
	is("OPEN after the rate becomes 0", open_id(1), 0);
	enter_guest();
	start = clock_ns;
	is("another OPEN with a rate of 0", (call(2, 1), open_id(1)), 0);
	is("OPEN with a rate of 0 does not wait itself", clock_ns - start, 0);
	enter_guest();
	is("the vCPU enters the guest after a second",
	   clock_ns - start, NSEC_PER_SEC);
	*param_pv_perf_max_open_rate = 10000;
	teardown();
}

/* An ENABLE that moves an event creates a new backing event. */
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
	is("at 10,000 per second, 1,100 moves on each vCPU take 0.1 seconds",
	   is_100_ms(clock_ns - start), true);

	/* The event is on vCPU 0. */
	on(1);
	take_counters(tasks[1], NR_COUNTERS);
	start = clock_ns;
	for (i = 0; i < 1000; i++) {
		CHECK(call(KVM_PERF_OP_ENABLE, 1) == -KVM_EBUSY);
		enter_guest();
	}
	is("1,000 moves that fail take 0.1 seconds, too",
	   is_100_ms(clock_ns - start), true);
	on(0);
	start = clock_ns;
	for (i = 0; i < 2000; i++)
		CHECK(!call(KVM_PERF_OP_ENABLE, 1));
	is("ENABLEs without a move take no time", clock_ns - start, 0);
	teardown();
}

/* A change of another vCPU's event interrupts that vCPU's CPU. */
static void test_change_rate(void)
{
	u64 start;
	int i;

	setup();
	open_sampling(1, 1000);
	start = clock_ns;
	for (i = 0; i < 2000; i++)
		CHECK(!call3(7, 1, 1000 + i, 0) && !call3(10, 1, 10, 0));
	is("changes of the vCPU's own event take no time", clock_ns - start, 0);
	on(1);
	for (i = 0; i < 550; i++) {
		CHECK(!call3(7, 1, 1000 + i, 0) && !call3(10, 1, 10, 0));
		enter_guest();
	}
	is("at 10,000 per second, 1,100 changes of another vCPU's event take 0.1 seconds",
	   is_100_ms(clock_ns - start), true);
	start = clock_ns;
	for (i = 0; i < 1000; i++) {
		CHECK(!call(KVM_PERF_OP_DISABLE, 1));
		enter_guest();
	}
	is("1,000 DISABLEs of another vCPU's event take 0.1 seconds",
	   is_100_ms(clock_ns - start), true);
	on(0);
	teardown();
}

/*
 * The VMM changes a vCPU's thread.  A disabled event stays with the former thread, whose
 * CPU a change of the event interrupts.
 */
static void test_change_rate_of_former_thread(void)
{
	struct task_struct *former;
	u64 start;
	int i;

	setup();
	open_sampling(1, 1000);
	former = tasks[0];
	tasks[0] = task_create(0);
	on(0);
	pv_perf_vcpu_run(vcpus[0]);
	is("the disabled event is on the former thread",
	   event(1)->backing->hw.target == former, true);
	start = clock_ns;
	for (i = 0; i < 550; i++) {
		CHECK(!call3(7, 1, 1000 + i, 0) && !call3(10, 1, 10, 0));
		enter_guest();
	}
	is("1,100 changes of an event on the former thread take 0.1 seconds",
	   is_100_ms(clock_ns - start), true);
	start = clock_ns;
	for (i = 0; i < 1000; i++) {
		CHECK(!call(KVM_PERF_OP_DISABLE, 1));
		enter_guest();
	}
	is("1,000 DISABLEs of an event on the former thread take 0.1 seconds",
	   is_100_ms(clock_ns - start), true);
	is("ENABLE moves the event to the new thread", call(KVM_PERF_OP_ENABLE, 1), 0);
	enter_guest();
	start = clock_ns;
	for (i = 0; i < 1000; i++)
		CHECK(!call3(7, 1, 1000 + i, 0));
	enter_guest();
	is("changes of an event on the new thread take no time", clock_ns - start, 0);
	task_put(former);
	teardown();
}

/* The VMM interrupts a vCPU that waits. */
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
	is("640 OPENs in batches do not wait themselves", clock_ns - start, 0);
	current->signalled = true;
	is("an overflow is delivered before the wait", enter_guest(), 1);
	is("the wait ends at once if a signal is pending", clock_ns - start, 0);
	pv_perf_vcpu_leave(vcpus[0], -EINTR);
	is("the rest of the wait is still requested",
	   kvm_test_request(KVM_REQ_PV_PERF, vcpus[0]), true);
	current->signalled = false;
	enter_guest();
	is("when the vCPU runs again, it waits for the rest of 54 ms",
	   clock_ns - start > 53 * NSEC_PER_MSEC &&
	   clock_ns - start < 55 * NSEC_PER_MSEC,
	   true);
	is("the rest of the wait is requested once",
	   kvm_test_request(KVM_REQ_PV_PERF, vcpus[0]), false);
	teardown();
}

/* Runs until the clock has moved on by @ns. Returns the number of overflows. */
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

/* Does the VM's file in debugfs have these words? */
static bool debugfs_has(const char *words)
{
	struct inode inode = { .i_private = kvm };
	struct file file = {};
	static char buf[8192];

	memset(buf, 0, sizeof(buf));
	CHECK(!kvm->debugfs_dentry->fops->open(&inode, &file));
	CHECK(kvm->debugfs_dentry->fops->read(&file, buf, sizeof(buf) - 1, NULL) > 0);
	kvm->debugfs_dentry->fops->release(&inode, &file);
	return strstr(buf, words);
}

static void run_until_limited(u32 id)
{
	int i;

	for (i = 0; i < 100000 && !is_limited(id); i++) {
		run_guest(100);
		enter_guest();
	}
	is("the event is limited at last", is_limited(id), true);
	is("debugfs: a limited event", debugfs_has(" limited  "), true);
	enter_guest();
}

/* The clock is not read at each overflow: see pv_perf_charge_overflows(). */
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
	is("after a rest, a burst has at least the overflows of 10 ms",
	   n >= 200, true);
	is("after a rest, a burst has at most the overflows of 20 ms",
	   n <= 2 * 200 + 10, true);
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
	is("the allowed rate is the parameter",
	   pv_perf_rate_allowed(kvm), 20000);
	open_sampling(1, 100000);
	call(3, 1);
	pv = vcpus[0]->arch.pv_perf;
	is("below the rate, all overflows are delivered",
	   overflows_in(second / 10, 0, 1), 1000);
	is("below the rate, the event is not limited", pv->limited, 0);

	open_sampling(2, 100);
	call(3, 2);
	n = overflows_in(second / 10, 0, 2);
	is("above the rate, as many overflows as the rate and a burst",
	   n > 1900 - 1000 && n < 2000 + 200 + 20, true);
	is("above the rate, events were limited", pv->limited > 0, true);
	n = mem->record[1].overflows - 1000;
	is("the vCPU's events share the rate", n < 1000, true);

	/* The guest tries to get round the limit. */
	run_until_limited(2);
	is("perf has stopped the limited event",
	   event(2)->backing->state, PERF_EVENT_STATE_OFF);
	is("ENABLE of the limited event", call(3, 2), 0);
	is("ENABLE does not restart the limited event",
	   event(2)->backing->state, PERF_EVENT_STATE_OFF);
	is("SET_LEFT does not restart the limited event",
	   (call3(10, 2, 1, 0), event(2)->backing->state),
	   PERF_EVENT_STATE_OFF);
	is("READ does not restart the limited event",
	   (call(5, 2), event(2)->backing->state), PERF_EVENT_STATE_OFF);
	is("DISABLE of the limited event", call(4, 2), 0);
	is("the disabled event is not limited", is_limited(2), false);
	pv->overflow_rate.time = clock_ns + 20 * NSEC_PER_MSEC;
	is("ENABLE while the rate is exceeded", call(3, 2), -KVM_EAGAIN);
	is("ENABLE of an event that counts, while the rate is exceeded",
	   call(3, 1), 0);
	on(1);
	vcpus[1]->arch.pv_perf->overflow_rate.time = pv->overflow_rate.time;
	is("ENABLE on another vCPU that has exceeded the rate",
	   call(3, 2), -KVM_EAGAIN);
	is("ENABLE of a new event on that vCPU",
	   (open_sampling(3, 100), call(3, 3)), -KVM_EAGAIN);
	open_id(4);
	is("ENABLE of an event without a period on that vCPU", call(3, 4), 0);
	call(2, 3);
	on(0);

	/* The limited event is closed, or its record cannot be written. */
	overflows_in(20 * NSEC_PER_MSEC, 0, 1);
	is("ENABLE after the rate was exceeded", call(3, 2), 0);
	run_until_limited(2);
	call(2, 2);
	overflows_in(20 * NSEC_PER_MSEC, 0, 1);
	is("the timer finds the limited event closed",
	   atomic_read(&kvm->arch.pv_perf->nr_events), 2);
	open_sampling(2, 100);
	call(3, 2);
	n = pv->limited;
	kvm->memslots.slot[0].absent[RECORD(2) >> PAGE_SHIFT] = true;
	overflows_in(second / 50, 0, 2);
	is("overflows are charged even if the record cannot be written",
	   pv->limited > n, true);
	kvm->memslots.slot[0].absent[RECORD(2) >> PAGE_SHIFT] = false;

	/* The host takes the counters while the event is stopped. */
	overflows_in(second / 10, 0, 2);
	run_until_limited(2);
	take_counters(tasks[0], NR_COUNTERS);
	overflows_in(20 * NSEC_PER_MSEC, 0, 1);
	is("the event is lost if it has no counter when it may restart",
	   is_lost(2), true);
	take_counters(tasks[0], 0);
	is("READ of the lost event restarts it: EBUSY", call(5, 2), -KVM_EBUSY);
	is("the restarted event is not lost", is_lost(2), false);

	*param_pv_perf_max_rate = 0;
	n = overflows_in(second / 10, 0, 2);
	is("after the rate becomes 0, there are no overflows", n < 2, true);
	*param_pv_perf_max_rate = 100000;
	teardown();
}

/* The guest gets the reason when perf or the VM's limit stops its event. */
static void test_told_throttled(void)
{
	struct guest_perf_event *r;

	setup();
	r = mem->record;
	CHECK(!open_notify(1, 100) && !call(3, 1));
	run_guest(100);
	throttle(event(1)->backing);
	is("an event that perf throttles: an NMI", enter_guest(), 1);
	is("an event that perf throttles has the flag THROTTLED",
	   r[1].flags, KVM_PERF_EVENT_THROTTLED);
	tick(event(1)->backing);
	is("READ after perf has restarted the event", call(5, 1), 0);
	is("READ clears the flag THROTTLED", r[1].flags, 0);

	*param_pv_perf_max_rate = 10000;
	/* The event is limited, and has also lost its counter. */
	run_until_limited(1);
	is("a limited event has the flag THROTTLED",
	   r[1].flags, KVM_PERF_EVENT_THROTTLED);
	pv_perf_set_why(event(1), PV_PERF_LOST);
	call(5, 1);
	is("a limited event that has lost its counter has both flags",
	   r[1].flags, KVM_PERF_EVENT_THROTTLED | KVM_PERF_EVENT_LOST);
	overflows_in(20 * NSEC_PER_MSEC, 0, 1);
	is("at the end of the limit, the flag LOST stays",
	   r[1].flags, KVM_PERF_EVENT_LOST);
	is("the lost event does not count",
	   event(1)->backing->state, PERF_EVENT_STATE_OFF);
	is("ENABLE restarts the lost event", call(3, 1), 0);
	is("ENABLE clears the flag LOST", r[1].flags, 0);
	*param_pv_perf_max_rate = 100000;
	teardown();
}

/* One vCPU's overflows and OPENs do not limit another vCPU. */
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
	is("one vCPU has as many overflows as the rate and a burst",
	   n > 1900 && n < 2000 + 200 + 20, true);
	run_until_limited(1);
	is("the other vCPU's event is not stopped",
	   overflows_in(second / 10, 1, 2), 1000);
	is("the limited event restarts on the other vCPU", call(3, 1), 0);
	is("the limit is counted for the first vCPU only",
	   vcpus[0]->arch.pv_perf->limited && !vcpus[1]->arch.pv_perf->limited,
	   true);
	call(4, 1);
	on(0);
	call(2, 1);
	is("a vCPU that opens too many events waits",
	   open_takes(1000) > 0, true);
	on(1);
	is("the other vCPU does not wait", open_takes(100), 0);
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
	is("no NMI before the period ends", enter_guest(), 0);
	run_guest(1);
	is("an overflow is not delivered in the host's NMI handler",
	   r->overflows, 0);
	is("an overflow at the end of the period: one NMI", enter_guest(), 1);
	is("the record has the overflow", r->overflows, 1);
	is("the record has the last period", r->last_period, 1000);
	is("the record has the rest of the period", r->period_left, 1000);
	is("the record has the count", r->count, 1000);
	is("the vCPU is not kicked", atomic_read(&vcpus[0]->kicks), 0);
	run_guest(2500);
	is("two overflows: one NMI", enter_guest(), 1);
	is("the record has both overflows", r->overflows, 3);
	is("debugfs counts all delivered overflows",
	   vcpus[0]->arch.pv_perf->delivered, 3);
	run_guest(500);
	vcpus[0]->arch.nmi_pending = 1;
	is("no NMI while another NMI is pending", enter_guest(), 0);
	vcpus[0]->arch.nmi_pending = 0;
	is("the record has the overflow without another NMI", r->overflows, 4);
	run_guest(1000);
	vcpus[0]->arch.nmi_queued.counter = 1;
	is("no second NMI while another NMI is queued", enter_guest(), 1);

	/*
	 * The host's NMI does not come from guest mode: the vCPU may be about
	 * to halt.
	 */
	vcpus[0]->arch.nmi_from_guest = false;
	run_guest(2000);
	is("the vCPU is kicked once", atomic_read(&vcpus[0]->kicks), 1);
	is("NMI by the irq_work", enter_guest(), 1);
	enter_guest();
	irq_work_late = true;
	run_guest(1000);
	is("NMI before the irq_work", enter_guest(), 1);
	irq_work_late = false;
	irq_work_run();
	is("the late irq_work causes no NMI", enter_guest(), 0);
	is("the late irq_work causes no kick",
	   atomic_read(&vcpus[0]->kicks), 1);
	vcpus[0]->arch.nmi_from_guest = true;

	/* Another overflow comes before the last period is read, and after that. */
	n = r->overflows;
	for (i = 0; i < 2; i++) {
		run_guest(1000);
		nmi_to_come = i ? overflow_then : overflow_now;
		enter_guest();
		is("an overflow during a delivery: its last period",
		   r->last_period, 1000);
		enter_guest();
		is("the next delivery: its last period", r->last_period, 1000);
	}
	is("both overflows are delivered each time", r->overflows - n, 4);

	/* The record's page is absent. */
	r->overflows = 0;
	kvm->memslots.slot[0].absent[RECORD(1) >> PAGE_SHIFT] = true;
	run_guest(1000);
	is("no NMI without a record", enter_guest(), 0);
	kvm->memslots.slot[0].absent[RECORD(1) >> PAGE_SHIFT] = false;
	is("the overflow without a record is lost",
	   (enter_guest(), r->overflows), 0);

	/* Overflows that were not delivered move with the event. */
	run_guest(1000);
	on(1);
	CHECK(!enter_guest());
	is("ENABLE by another vCPU, with an overflow to deliver",
	   call(KVM_PERF_OP_ENABLE, 1), 0);
	is("the other vCPU gets the NMI", enter_guest(), 1);
	is("the record has the overflow", r->overflows, 1);

	/* DISABLE delivers none; CLOSE drops them. */
	run_guest(1000);
	is("DISABLE of an event with an overflow succeeds", call(4, 1), 0);
	is("DISABLE delivers no overflow", r->overflows, 1);
	is("after DISABLE, the vCPU gets the NMI", enter_guest(), 1);
	call(3, 1);
	run_guest(1000);
	is("CLOSE", call(2, 1), 0);
	is("after CLOSE, the vCPU gets no NMI", enter_guest(), 0);
	teardown();
}

/*
 * After the host's handler of the NMI exit: returns whether the guest gets an
 * NMI at once.
 */
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
	is("without an overflow, no NMI", nmi_exit(), false);
	run_guest(1000);
	call(KVM_PERF_OP_ENABLE, 2);
	is("with an overflow, an NMI at once", nmi_exit(), true);
	is("the record has the overflow", r1->overflows, 1);
	is("the record has the last period", r1->last_period, 1000);
	is("the record has the count", r1->count, 1000);
	is("no request is left", vcpus[0]->requests, 0);
	is("debugfs counts the delivered overflow",
	   vcpus[0]->arch.pv_perf->delivered, 1);
	is("no second NMI for the overflow", nmi_exit(), false);

	run_guest(1000);
	is("one NMI for two events", nmi_exit(), true);
	is("overflow of the first", r1->overflows, 2);
	is("overflows of the second", r2->overflows, 2);

	/* If a delivery has to wait, the request makes all of it. */
	run_guest(1000);
	vcpus[0]->arch.nmi_pending = 1;
	is("no delivery at the exit while an NMI is pending",
	   nmi_exit(), false);
	vcpus[0]->arch.nmi_pending = 0;
	vcpus[0]->guest_debug = 1;
	is("no delivery at the exit for a debugged guest", nmi_exit(), false);
	vcpus[0]->guest_debug = 0;
	kvm_make_request(KVM_REQ_NMI, vcpus[0]);
	is("no delivery at the exit if more is requested", nmi_exit(), false);
	kvm_check_request(KVM_REQ_NMI, vcpus[0]);
	mutex_lock(&vcpus[0]->arch.pv_perf->lock);
	is("no delivery at the exit while the lock is taken",
	   nmi_exit(), false);
	mutex_unlock(&vcpus[0]->arch.pv_perf->lock);
	kvm->memslots.slot[0].absent[RECORD(1) >> PAGE_SHIFT] = true;
	is("no delivery at the exit while the record's page is absent",
	   nmi_exit(), false);
	kvm->memslots.slot[0].absent[RECORD(1) >> PAGE_SHIFT] = false;
	kvm->memslots.generation++;
	is("no delivery at the exit after a change of memory slots",
	   nmi_exit(), false);
	is("none of these exits has delivered an overflow", r1->overflows, 2);
	is("the request delivers the overflows: one NMI", enter_guest(), 1);
	is("the request delivers the first event's overflow", r1->overflows, 3);
	is("the request delivers the second event's overflows",
	   r2->overflows, 4);
	is("the record has the second event's last period",
	   r2->last_period, 500);

	/* One of two events with overflows is disabled. */
	kvm_check_request(KVM_REQ_NMI, vcpus[0]);
	run_guest(1000);
	call(KVM_PERF_OP_DISABLE, 2);
	is("an NMI at the exit for the enabled event", nmi_exit(), true);
	is("the exit delivers the enabled event's overflow", r1->overflows, 4);
	is("the exit does not deliver the disabled event's overflows",
	   r2->overflows, 4);
	is("the request delivers the disabled event's overflows: one NMI",
	   enter_guest(), 1);
	is("the record has the disabled event's overflows", r2->overflows, 6);

	/* A limited event waits for its request. */
	*param_pv_perf_max_rate = 100;
	run_until_limited(1);
	kvm_check_request(KVM_REQ_NMI, vcpus[0]);
	kvm_make_request(KVM_REQ_PV_PERF, vcpus[0]);
	is("no NMI at the exit for a limited event", nmi_exit(), false);
	is("the exit keeps the limited event's request",
	   kvm_test_request(KVM_REQ_PV_PERF, vcpus[0]), true);
	*param_pv_perf_max_rate = 100000;
	teardown();
}

/* Returns whether a READ is run right at its exit.  KVM counts other hypercalls itself. */
static bool read_at_exit(u64 id)
{
	u64 before = here()->stat.hypercalls;

	call(KVM_PERF_OP_READ, id);
	return here()->stat.hypercalls != before;
}

static void test_read_at_exit(void)
{
	struct guest_perf_event *r;

	setup();
	r = &mem->record[1];
	open_id(1);
	is("READ of a disabled event is not run at the exit", read_at_exit(1), false);
	call(KVM_PERF_OP_ENABLE, 1);
	run_guest(100);
	kvm->memslots.slot[0].dirty[RECORD(1) >> PAGE_SHIFT] = false;
	is("READ is run at the exit", read_at_exit(1), true);
	is("the record has the count", r->count, 100);
	is("READ at the exit succeeds", here()->arch.exit.rax, 0);
	is("the record's page is dirty",
	   kvm->memslots.slot[0].dirty[RECORD(1) >> PAGE_SHIFT], true);
	is("the hypercall itself is not counted", (read_at_exit(1), r->count), 100);

	/* All others are run as any hypercall, with the same result. */
	here()->guest_debug = 1;
	is("not for a debugged guest", read_at_exit(1), false);
	here()->guest_debug = 0;
	here()->arch.exit.rflags = X86_EFLAGS_TF;
	is("not if a trap follows the instruction", read_at_exit(1), false);
	here()->arch.exit.rflags = 0;
	here()->arch.nmi_pending = 1;
	is("not while an NMI is pending", read_at_exit(1), false);
	here()->arch.nmi_pending = 0;
	kvm_make_request(KVM_REQ_PV_PERF, here());
	is("not if anything is requested", read_at_exit(1), false);
	kvm_check_request(KVM_REQ_PV_PERF, here());
	here()->arch.cpl = 3;
	is("not from user mode", read_at_exit(1), false);
	here()->arch.cpl = 0;
	here()->arch.guest_mode = true;
	is("not for a nested guest", read_at_exit(1), false);
	here()->arch.guest_mode = false;
	here()->arch.hv_hypercalls = true;
	is("not if hypercalls are Hyper-V's", read_at_exit(1), false);
	here()->arch.hv_hypercalls = false;
	kvm->xen_hypercalls = true;
	is("not if hypercalls are Xen's", read_at_exit(1), false);
	kvm->xen_hypercalls = false;
	kvm->arch.enable_pmu = true;
	here()->arch.pmu.version = 1;
	is("not of a vCPU with KVM's virtual PMU", read_at_exit(1), false);
	kvm->arch.enable_pmu = false;
	here()->arch.pmu.version = 0;
	is("not of an id that is not open", read_at_exit(2), false);
	is("not of all events", read_at_exit(KVM_PERF_ID_ALL), false);
	is("not of an id with more than 32 bits", read_at_exit(BIT_ULL(32) | 1), false);
	mutex_lock(&here()->arch.pv_perf->lock);
	is("not while the lock is taken", pv_perf_event_read_irqoff(here(), 1), false);
	mutex_unlock(&here()->arch.pv_perf->lock);
	kvm->memslots.generation++;
	is("not after a change of memory slots", read_at_exit(1), false);
	is("but then again", read_at_exit(1), true);
	kvm->memslots.slot[0].absent[RECORD(1) >> PAGE_SHIFT] = true;
	is("not while the record's page is absent", read_at_exit(1), false);
	kvm->memslots.slot[0].absent[RECORD(1) >> PAGE_SHIFT] = false;
	take_counters(tasks[0], NR_COUNTERS);
	is("not of an event that has lost its counter", read_at_exit(1), false);
	take_counters(tasks[0], 0);
	enter_guest();
	on(1);
	call(KVM_PERF_OP_QUERY, GPA(param));
	is("not of another vCPU's event", read_at_exit(1), false);
	on(0);
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

/* The vCPUs are created after the VMM has allowed RDPMC. */
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

/* QUERY's answer to a VM whose VMM has not allowed RDPMC. */
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
	is("no RDPMC if the host does not allow it",
	   told_rdpmc(), KVM_PERF_RDPMC_HOST);
	is("if the host does not allow RDPMC, VMMs cannot ask for it",
	   host_extension(KVM_CAP_PV_PERF_RDPMC), 0);
	teardown();
	*param_pv_perf_rdpmc = 1;
	setup();
	is("no RDPMC if the VMM does not allow it",
	   told_rdpmc(), KVM_PERF_RDPMC_VMM);
	is("the host offers RDPMC to VMMs",
	   host_extension(KVM_CAP_PV_PERF_RDPMC), 1);
	is("KVM_CHECK_EXTENSION of a VM without RDPMC",
	   pv_perf_check_extension(kvm, KVM_CAP_PV_PERF_RDPMC), 0);
	teardown();

	setup_rdpmc();
	is("RDPMC is allowed by host and VMM",
	   told_rdpmc(), KVM_PERF_RDPMC_ALLOWED);
	is("no RDPMC of user mode with the VMM's local APIC",
	   !!(mem->query.features & KVM_PERF_FEATURE_RDPMC_USER), false);
	here()->arch.apic = &lapic;
	told_rdpmc();
	is("RDPMC of user mode with KVM's local APIC",
	   !!(mem->query.features & KVM_PERF_FEATURE_RDPMC_USER), true);
	is("KVM_CHECK_EXTENSION of a VM with RDPMC",
	   pv_perf_check_extension(kvm, KVM_CAP_PV_PERF_RDPMC), 1);
	is("the VMM cannot set RDPMC to 2",
	   enable_cap(kvm, KVM_CAP_PV_PERF_RDPMC, 2), -EINVAL);
	kvm->arch.enable_pmu = true;
	vcpus[0]->arch.pmu.version = 2;
	is("no RDPMC with a virtual PMU", told_rdpmc(), KVM_PERF_RDPMC_PMU);
	teardown();

	*param_pv_perf_rdpmc_default = true;
	setup();
	is("RDPMC is allowed if the host's default says so",
	   told_rdpmc(), KVM_PERF_RDPMC_ALLOWED);
	is("KVM_CHECK_EXTENSION of a VM with RDPMC by default",
	   pv_perf_check_extension(kvm, KVM_CAP_PV_PERF_RDPMC), 1);
	is("by default, the VM may not see the NMI watchdog",
	   pv_perf_kinds[0].pmcs.watchdog, false);
	teardown();
	tasks[0] = task_create(0);
	on(0);
	kvm = vm_create();
	CHECK(!enable_cap(kvm, KVM_CAP_PV_PERF_RDPMC, 0));
	is("a VMM can refuse RDPMC",
	   pv_perf_check_extension(kvm, KVM_CAP_PV_PERF_RDPMC), 0);
	vm_destroy(kvm);
	task_put(tasks[0]);
	*param_pv_perf_rdpmc = 0;
	setup();
	is("the default is ignored if the host does not allow RDPMC",
	   told_rdpmc(), KVM_PERF_RDPMC_HOST);
	teardown();
	*param_pv_perf_rdpmc_default = false;
	*param_pv_perf_rdpmc = 5;
	setup();
	is("with the parameter 5, the VM may see the NMI watchdog",
	   pv_perf_kinds[0].pmcs.watchdog, true);
	teardown();

	cpu_has_perfctr_nb = true;
	is("no RDPMC if it shows other CPUs' counters",
	   host_rdpmc(), KVM_PERF_RDPMC_SHARED);
	*param_pv_perf_rdpmc = 2;
	is("RDPMC that shows other CPUs' counters, with the parameter 2",
	   host_rdpmc(), KVM_PERF_RDPMC_VMM);
	cpu_has_perfctr_nb = false;
	enable_vmware_backdoor = true;
	is("no RDPMC with VMware's backdoor",
	   host_rdpmc(), KVM_PERF_RDPMC_HOST);
	enable_vmware_backdoor = false;
	pmu_capability.bit_width_gp = 40;
	is("no RDPMC with counters of another width",
	   host_rdpmc(), KVM_PERF_RDPMC_HOST);
	pmu_capability.bit_width_gp = 48;
	boot_cpu_data.x86_vendor = X86_VENDOR_INTEL;
	pmu_capability.version = 5;
	cpuid_fixed = 0xf;
	is("no RDPMC on Intel without full-width writes",
	   host_rdpmc(), KVM_PERF_RDPMC_HOST);
	cpu_has_pdcm = true;
	is("no RDPMC on Intel with other capabilities only",
	   host_rdpmc(), KVM_PERF_RDPMC_HOST);
	perf_capabilities = FULL_WIDTH_WRITES;
	is("RDPMC on Intel with version 5", host_rdpmc(), KVM_PERF_RDPMC_VMM);
	cpuid_fixed = 0x77;
	is("no RDPMC on Intel with gaps in the fixed counters",
	   host_rdpmc(), KVM_PERF_RDPMC_HOST);
	cpuid_fixed = 0xf;
	pmu_capability.version = 6;
	is("no RDPMC on Intel with version 6",
	   host_rdpmc(), KVM_PERF_RDPMC_HOST);
	pmu_capability.version = 4;
	cpu_has_tsx_force_abort = true;
	is("no RDPMC on Intel if TSX may be forced to abort",
	   host_rdpmc(), KVM_PERF_RDPMC_HOST);
	cpu_has_tsx_force_abort = false;
	pmu_capability.num_counters_gp = 9;
	is("no RDPMC on Intel with more general counters than known",
	   host_rdpmc(), KVM_PERF_RDPMC_HOST);
	pmu_capability.num_counters_gp = NR_COUNTERS;
	cpu_has_pdcm = false;
	perf_capabilities = 0;
	boot_cpu_data.x86_vendor = X86_VENDOR_AMD;
	pmu_capability.version = 2;
	pmu_capability.num_counters_gp = 0;
	have_kvm_pmu_query = have_hypervisor_slot = true;
	hypervisor.features = KVM_PERF_FEATURE_NESTED;
	hypervisor.nr_counters = 3;
	is("no RDPMC on a host that is a guest",
	   host_rdpmc(), KVM_PERF_RDPMC_NESTED);
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
	is("RDPMC of a VM without RDPMC faults",
	   pv_perf_rdpmc(vcpus[0], 0, &value), false);
	teardown();
	*param_pv_perf_rdpmc = 1;
	setup_rdpmc();
	is("an intercepted RDPMC of a VM with RDPMC",
	   pv_perf_rdpmc(vcpus[0], 0, &value), true);
	is("an intercepted RDPMC reads 0", value, 0);
	is("an intercepted RDPMC of the last counter",
	   pv_perf_rdpmc(vcpus[0], NR_COUNTERS - 1, &value), true);
	is("RDPMC beyond the last counter faults",
	   pv_perf_rdpmc(vcpus[0], NR_COUNTERS, &value), false);
	is("RDPMC of a fixed counter faults on AMD",
	   pv_perf_rdpmc(vcpus[0], 1 << 30, &value), false);
	vcpus[0]->arch.cpl = 3;
	is("RDPMC of user mode without CR4.PCE faults",
	   pv_perf_rdpmc(vcpus[0], 0, &value), false);
	vcpus[0]->arch.cr4 = X86_CR4_PCE;
	is("RDPMC of user mode without an area faults",
	   pv_perf_rdpmc(vcpus[0], 0, &value), false);
	have_area();
	is("an intercepted RDPMC of user mode with CR4.PCE and an area",
	   pv_perf_rdpmc(vcpus[0], 0, &value), true);
	is("an intercepted RDPMC of a counter that only another host has",
	   pv_perf_rdpmc(vcpus[0], NR_COUNTERS, &value), true);
	vcpu_to_pmu(vcpus[0])->version = 1;
	kvm->arch.enable_pmu = true;
	is("RDPMC with a virtual PMU is left to the PMU",
	   pv_perf_rdpmc(vcpus[0], 0, &value), false);
	vcpu_to_pmu(vcpus[0])->version = 0;
	kvm->arch.enable_pmu = false;
	teardown();
	*param_pv_perf_rdpmc = 0;

	setup();
	have_area();
	vcpus[0]->arch.cpl = 3;
	vcpus[0]->arch.cr4 = X86_CR4_PCE;
	value = 1;
	is("RDPMC of user mode with an area, on a host without RDPMC",
	   pv_perf_rdpmc(vcpus[0], 0, &value), true);
	is("this RDPMC reads 0", value, 0);
	vcpus[0]->arch.pv_cpuid.features = 0;
	is("RDPMC of user mode without the feature faults",
	   pv_perf_rdpmc(vcpus[0], 0, &value), false);
	teardown();
}

static void start_rdpmc(u32 id, u64 period)
{
	param(id, id);
	mem->attr.flags = KVM_PERF_ATTR_RDPMC;
	mem->attr.sample_period = period;
	CHECK(!do_open() && !call(KVM_PERF_OP_ENABLE, id));
}

/* The number of NMIs in the last reads(). */
static int nmis;

/* Enters the guest and checks RDPMC. Returns whether RDPMC is not intercepted. */
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
	is("no RDPMC without an event that asks for it", reads(), false);
	call(KVM_PERF_OP_CLOSE, 5);
	start_rdpmc(1, 0);
	start_rdpmc(2, 1000);
	cpus[0].pmc[3] = 0x1234;
	is("RDPMC for two events", reads(), true);
	is("the two events have different counters",
	   pmc(1) && pmc(2) && pmc(1) != pmc(2), true);
	is("the other counters are cleared", cpus[0].pmc[3], 0);
	run_guest(300);
	before = mem->record[1].pmc;
	is("RDPMC at the next entry", reads(), true);
	is("the next entry does not change pmc", mem->record[1].pmc, before);
	before = mem->record[2].pmc;
	run_guest(1800);
	is("RDPMC after two overflows", reads(), true);
	is("the overflows change pmc", mem->record[2].pmc != before, true);

	run_guest(900);
	is("an overflow is delivered at an NMI exit", nmi_exit(), true);
	before = mem->record[2].pmc;
	is("the NMI exit has updated pmc",
	   (reads(), mem->record[2].pmc), before);

	take_counters(tasks[0], 1);
	is("no RDPMC beside an event of the host", reads(), false);
	is("pmc of both events is 0", pmc(1) | pmc(2), 0);
	take_counters(tasks[0], 0);
	is("RDPMC after the host's event has ended", reads(), true);
	set_watchdog(tasks[0], true);
	is("no RDPMC beside the NMI watchdog", reads(), false);
	is("pmc is 0 beside the NMI watchdog", pmc(1), 0);
	pv_perf_kinds[0].pmcs.watchdog = true;
	is("RDPMC beside the NMI watchdog if the host allows it",
	   reads(), true);
	watchdog.owner = NULL;
	is("no RDPMC beside an event with another owner", reads(), false);
	watchdog.owner = (void *)-1l;
	watchdog.attr.config = PERF_COUNT_HW_INSTRUCTIONS;
	is("no RDPMC beside a watchdog event that counts instructions",
	   reads(), false);
	watchdog.attr.config = PERF_COUNT_HW_CPU_CYCLES;
	watchdog.attr.type = PERF_TYPE_RAW;
	is("no RDPMC beside a watchdog event of another type", reads(), false);
	watchdog.attr.type = PERF_TYPE_HARDWARE;
	watchdog.attr.exclude_user = 1;
	is("no RDPMC beside a watchdog event that excludes user mode",
	   reads(), false);
	watchdog.attr.exclude_user = 0;
	watchdog.attr.exclude_kernel = 1;
	is("no RDPMC beside a watchdog event that excludes the kernel",
	   reads(), false);
	watchdog.attr.exclude_kernel = 0;
	watchdog.hw.idx = -1;
	is("no RDPMC beside a watchdog event without a counter",
	   reads(), false);
	watchdog.hw.idx = NR_COUNTERS - 1;
	take_counters(tasks[0], 2);
	is("no RDPMC beside the watchdog and another event", reads(), false);
	set_watchdog(tasks[0], false);

	throttle(event(2)->backing);
	reads();
	is("pmc of a throttled event is 0", pmc(2), 0);
	tick(event(2)->backing);
	is("pmc is not 0 after perf has restarted the event",
	   (reads(), pmc(2) != 0), true);
	call(KVM_PERF_OP_SET_LEFT, 2);
	is("RDPMC after SET_LEFT", reads(), true);

	/* The event moves to the other vCPU, which has its own thread. */
	on(1);
	is("ENABLE elsewhere", call(KVM_PERF_OP_ENABLE, 1), 0);
	is("pmc is 0 after ENABLE elsewhere", pmc(1), 0);
	is("pmc is not 0 after the other vCPU enters",
	   (reads(), pmc(1) != 0), true);
	run_guest(70);
	reads();
	is("READ by the event's new vCPU",
	   (call(5, 1), mem->record[1].count), 3070);
	on(0);
	is("pmc of the other event stays", (reads(), pmc(2) != 0), true);

	on(1);
	call(KVM_PERF_OP_RESET, 0);
	on(0);
	is("no RDPMC after RESET by the other vCPU", reads(), false);
	is("after RESET, VM entry looks at nothing",
	   vcpus[0]->arch.pv_perf->at_entry, 0);
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
	is("RDPMC although the record's page is absent", reads(), true);
	slot->absent[RECORD(1) >> PAGE_SHIFT] = false;
	is("pmc is not written while the page is absent", pmc(1), 0);
	is("pmc is written when the page is present",
	   (reads(), pmc(1) != 0), true);

	take_counters(tasks[0], 1);
	kvm->memslots.generation++;
	local_irq_save(flags);
	pv_perf_enter(here(), PV_PERF_ENTRY_ANEW);
	local_irq_restore(flags);
	is("VM entry does not go on until pmc is cleared",
	   kvm_test_request(KVM_REQ_PV_PERF, here()), true);
	is("the request clears pmc", (handle_requests(here()), pmc(1)), 0);
	take_counters(tasks[0], 0);
	CHECK(reads() && pmc(1));

	mutex_lock(&here()->arch.pv_perf->lock);
	take_counters(tasks[0], 1);
	local_irq_save(flags);
	pv_perf_enter(here(), PV_PERF_ENTRY_ANEW);
	local_irq_restore(flags);
	mutex_unlock(&here()->arch.pv_perf->lock);
	is("VM entry does not go on while another vCPU has the lock",
	   kvm_test_request(KVM_REQ_PV_PERF, here()), true);
	is("no RDPMC after the lock is released", reads(), false);
	take_counters(tasks[0], 0);
	CHECK(reads() && pmc(1));

	slot->absent[RECORD(1) >> PAGE_SHIFT] = true;
	take_counters(tasks[0], 1);
	is("no RDPMC if pmc cannot be cleared", reads(), false);
	is("RDPMC faults if pmc cannot be cleared",
	   pv_perf_rdpmc(here(), 0, &value), false);
	have_area();
	here()->arch.cpl = 3;
	here()->arch.cr4 = X86_CR4_PCE;
	is("RDPMC of user mode faults if pmc cannot be cleared",
	   pv_perf_rdpmc(here(), 0, &value), false);
	here()->arch.cpl = 0;
	here()->arch.cr4 = 0;
	take_counters(tasks[0], 0);
	is("no RDPMC after the host's event has ended, either", reads(), false);
	slot->absent[RECORD(1) >> PAGE_SHIFT] = false;
	is("when the page is present, pmc is cleared", (reads(), pmc(1)), 0);
	is("after that, RDPMC and pmc are back", reads() && pmc(1), true);

	/*
	 * The host takes the other event's counter before the guest has run
	 * with that event.
	 */
	open_id(2);
	CHECK(reads() && pmc(1) && !call(KVM_PERF_OP_ENABLE, 2));
	take_counters(tasks[0], NR_COUNTERS - 1);
	take_counters(tasks[0], 0);
	CHECK(pv_perf_is_newly_lost(event(2)) && !pv_perf_is_newly_lost(event(1)));
	is("RDPMC beside an event that has lost its counter",
	   reads() && pmc(1), true);
	is("the lost event has the flag LOST",
	   mem->record[2].flags, KVM_PERF_EVENT_LOST);
	call(KVM_PERF_OP_CLOSE, 2);

	/* The counter is about to wrap. */
	local64_set(&event(1)->backing->hw.prev_count, -100);
	is("pmc of a counter that is about to wrap is 0", (reads(), pmc(1)), 0);
	teardown();
	*param_pv_perf_rdpmc = 0;
}

/* Changes of pmc, with and without an NMI. */
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
	is("no NMI when pmc becomes valid", nmis, 0);
	take_counters(tasks[0], 1);
	CHECK(!reads() && !pmc(1));
	is("an NMI when pmc becomes 0", nmis, 1);
	reads();
	is("the NMI comes once", nmis, 0);
	take_counters(tasks[0], 0);
	CHECK(reads() && pmc(1));
	is("no NMI when pmc becomes valid again", nmis, 0);
	local64_add(1000, &event(1)->backing->count);
	CHECK(reads() && pmc(1));
	is("an NMI when the offset changes", nmis, 1);

	CHECK(!call(KVM_PERF_OP_DISABLE, 1));
	is("DISABLE sets pmc to 0 at once", pmc(1), 0);
	reads();
	is("no NMI for a DISABLE by the event's own vCPU", nmis, 0);
	CHECK(!call(KVM_PERF_OP_ENABLE, 1) && reads() && pmc(1));
	on(1);
	CHECK(!call(KVM_PERF_OP_DISABLE, 1));
	on(0);
	is("after DISABLE by another vCPU, VM entry sets pmc to 0",
	   (reads(), pmc(1)), 0);
	is("an NMI for a DISABLE by another vCPU", nmis, 1);

	CHECK(!call(KVM_PERF_OP_ENABLE, 1) && reads() && pmc(1));
	take_counters(tasks[0], 1);
	kvm->memslots.generation++;
	CHECK(!reads() && !pmc(1));
	is("an NMI when the request sets pmc to 0", nmis, 1);
	take_counters(tasks[0], 0);
	CHECK(reads() && pmc(1));

	replace_thread();
	pv_perf_vcpu_run(here());
	is("pmc is valid after another thread runs the vCPU",
	   reads() && pmc(1), true);
	is("an NMI after another thread runs the vCPU", nmis, 1);

	slot->absent[RECORD(1) >> PAGE_SHIFT] = true;
	take_counters(tasks[0], 1);
	CHECK(!reads() && pmc(1));
	is("no NMI while pmc cannot be written", nmis, 0);
	slot->absent[RECORD(1) >> PAGE_SHIFT] = false;
	CHECK(!reads() && !pmc(1));
	is("an NMI when pmc can be written", nmis, 1);
	take_counters(tasks[0], 0);
	CHECK(reads() && pmc(1));

	slot->absent[RECORD(1) >> PAGE_SHIFT] = true;
	CHECK(!call(KVM_PERF_OP_ENABLE, 1));
	is("DISABLE while the record's page is absent",
	   call(KVM_PERF_OP_DISABLE, 1), -EFAULT);
	is("after that DISABLE, RDPMC is intercepted", reads(), false);
	slot->absent[RECORD(1) >> PAGE_SHIFT] = false;
	is("when the page is present, pmc becomes 0", (reads(), pmc(1)), 0);

	CHECK(!call(KVM_PERF_OP_ENABLE, 1) && reads() && pmc(1));
	here()->arch.pv_perf->pmc_changed = true;
	pv_perf_vcpu_reset(here());
	reads();
	is("a reset of the vCPU drops the NMI", nmis, 0);
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
	is("no RDPMC beside a pair of counters", reads(), false);
	call(KVM_PERF_OP_CLOSE, 2);
	is("RDPMC after the pair is closed", reads(), true);
	/* A nested guest runs. */
	param(3, 3);
	mem->attr.flags = KVM_PERF_ATTR_RDPMC | KVM_PERF_ATTR_RDPMC_USER |
			  KVM_PERF_ATTR_EXCLUDE_GUEST;
	CHECK(!do_open() && !call(3, 3));
	CHECK(reads() && pmc(3));
	told = mem->record[3].pmc;
	here()->arch.guest_mode = true;
	is("RDPMC while a nested guest runs", reads(), true);
	is("pmc of an event that excludes the nested guest stays",
	   mem->record[3].pmc, told);
	is("no NMI while the nested guest runs", nmis, 0);
	take_counters(tasks[0], 1);
	is("no RDPMC of the nested guest beside an event of the host",
	   reads(), false);
	is("pmc stays while the nested guest runs", mem->record[3].pmc, told);
	here()->arch.guest_mode = false;
	is("pmc becomes 0 before the guest runs", (reads(), pmc(3)), 0);
	is("an NMI when pmc becomes 0", nmis, 1);
	take_counters(tasks[0], 0);
	is("pmc is valid after the host's event has ended",
	   (reads(), pmc(3) != 0), true);
	mem->attr.flags = KVM_PERF_ATTR_RDPMC | KVM_PERF_ATTR_RDPMC_USER |
			  KVM_PERF_ATTR_EXCLUDE_HOST;
	CHECK(!call(KVM_PERF_OP_CLOSE, 3) && !do_open() && !call(3, 3));
	is("pmc of an event for nested guests only is valid",
	   (reads(), pmc(3) != 0), true);
	told = mem->record[3].pmc;
	here()->arch.guest_mode = true;
	CHECK(reads());
	run_guest(10);
	here()->arch.guest_mode = false;
	is("pmc of that event stays after the nested guest ran",
	   (reads(), mem->record[3].pmc), told);
	is("no NMI after the nested guest ran", nmis, 0);
	teardown();

	boot_cpu_data.x86_vendor = X86_VENDOR_INTEL;
	pmu_capability.num_counters_fixed = NR_FIXED;
	cpu_has_pdcm = true;
	/* Not every CPU with metrics has the capability for them. */
	perf_capabilities = FULL_WIDTH_WRITES;
	cpu_has_metrics = true;
	perf_metrics = 0x20;
	setup_rdpmc();
	cpus[0].fixed[1] = 77;
	start_rdpmc(1, 0);
	start_rdpmc(2, 0);
	is("RDPMC with fixed counters", reads(), true);
	is("pmc has the fixed counter", pmc(1), KVM_PERF_PMC_FIXED | 1);
	is("pmc of the other event has a general counter", pmc(2), 1);
	is("the other fixed counters are cleared", cpus[0].fixed[1], 0);
	is("the metrics are cleared", perf_metrics, 0);
	is("an intercepted RDPMC of the last fixed counter",
	   pv_perf_rdpmc(vcpus[0], 1 << 30 | (NR_FIXED - 1), &perf_metrics),
	   true);
	is("RDPMC beyond the last fixed counter faults",
	   pv_perf_rdpmc(vcpus[0], 1 << 30 | NR_FIXED, &perf_metrics), false);
	cpu_has_metrics = false;
	teardown();
	setup_rdpmc();
	start_rdpmc(1, 0);
	is("RDPMC on a CPU without metrics", reads(), true);
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
	mem->attr.config = 0xb7;
	do_open();
	open_id(3);
	call(3, 1);
	call(3, 2);
	run_guest(1000);
	deny(0xc0);
	is("every vCPU is told", kvm_test_request(KVM_REQ_PV_PERF, vcpus[1]),
	   true);
	nmi_exit();
	is("the NMI exit keeps the filter's request",
	   kvm_test_request(KVM_REQ_PV_PERF, vcpus[0]), true);
	enter_guest();
	run_guest(10);
	is("READ of a denied event", call(5, 1), -KVM_EBUSY);
	is("the denied event does not count", r[1].count, 1000);
	is("another event counts", (call(5, 2), r[2].count), 1010);
	is("ENABLE of the denied event", call(3, 1), -KVM_EOPNOTSUPP);
	is("ENABLE of a denied event that was disabled",
	   call(3, 3), -KVM_EOPNOTSUPP);
	on(1);
	is("ENABLE of the denied event on another vCPU",
	   call(3, 1), -KVM_EOPNOTSUPP);
	on(0);
	call(4, 1);
	is("ENABLE of the denied event after DISABLE",
	   call(3, 1), -KVM_EOPNOTSUPP);
	replace_thread();
	pv_perf_vcpu_run(vcpus[0]);
	run_guest(10);
	is("the other event counts on another thread",
	   (call(5, 2), r[2].count), 1020);
	deny(0);
	is("ENABLE after the filter allows the event again", call(3, 1), 0);
	run_guest(10);
	is("the event counts again", (call(5, 1), r[1].count), 1010);
	enter_guest();

	/*
	 * Before the filter's request is handled, the event needs another
	 * backing event.
	 */
	deny(0xc0);
	replace_thread();
	pv_perf_vcpu_run(vcpus[0]);
	run_guest(10);
	is("the filter is checked when the event moves to another thread",
	   (call(5, 1), r[1].count), 1010);
	deny(0);
	is("READ after the filter allows the event restarts it: EBUSY",
	   call(5, 1), -KVM_EBUSY);
	run_guest(10);
	is("the event counts from where it was",
	   (call(5, 1), r[1].count), 1020);
	enter_guest();

	/* A denied event does not take a counter before the guest asks again. */
	deny(0xc0);
	enter_guest();
	deny(0);
	replace_thread();
	pv_perf_vcpu_run(vcpus[0]);
	enter_guest();
	run_guest(10);
	is("an event that was denied does not restart on another thread",
	   event(1)->backing->state, PERF_EVENT_STATE_OFF);
	is("the event has the flag LOST", r[1].flags, KVM_PERF_EVENT_LOST);
	is("the event has not counted", (call(5, 1), r[1].count), 1020);

	/* perf changes the event's config when it is scheduled. */
	register_taken = true;
	CHECK(!call(4, 2) && !call(3, 2));
	CHECK((event(2)->backing->hw.config & 0xff) == 0xbb);
	deny(0xbb);
	enter_guest();
	run_guest(10);
	is("the filter does not apply to perf's config",
	   (call(5, 2), r[2].count), 1070);
	is("the filter does not apply to perf's config on ENABLE",
	   (call(4, 2), call(3, 2)), 0);
	replace_thread();
	pv_perf_vcpu_run(vcpus[0]);
	deny(0xbb);
	enter_guest();
	run_guest(10);
	is("the filter does not apply to perf's config on another thread",
	   (call(5, 2), r[2].count), 1080);
	register_taken = false;
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
	open_fails("the filter denies fixed counter 2: ref-cycles as a raw event",
		   -KVM_EOPNOTSUPP);
	mem->attr.config = 0x0400;
	is("slots are in another fixed counter", do_open(), 0);
	CHECK(!call(3, 1));
	run_guest(10);
	kvm->denied_fixed = BIT(3);
	pv_perf_filter_changed(kvm);
	enter_guest();
	run_guest(10);
	is("slots stop when their fixed counter is denied",
	   (call(5, 1), r[1].count), 10);
	is("ENABLE of slots whose fixed counter is denied",
	   call(3, 1), -KVM_EOPNOTSUPP);
	call(KVM_PERF_OP_CLOSE, 1);
	param(1, 1);
	mem->attr.config = 0x8100;
	open_fails("metrics need slots, which are denied", -KVM_EOPNOTSUPP);
	kvm->denied_fixed = 0xf;
	mem->attr.config = 0xc0;
	is("instructions depend on the filter's list, not on its bitmap",
	   do_open(), 0);
	kvm->denied_fixed = 0;
	kvm->denied_event = 0x0300;
	param(2, 2);
	mem->attr.config = 0x0300;
	is("ref-cycles depend on the filter's bitmap, not on its list",
	   do_open(), 0);
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

/* VM entry does not look for stopped events that do not count. */
static void test_stopped_forgotten(void)
{
	struct guest_perf_event *r;

	setup();
	r = mem->record;
	CHECK(!open_mode(1, KVM_PERF_ATTR_EXCLUDE_GUEST, 1000));
	run_mode(false, 300);
	run_mode(true, 50);
	is("VM entry of a nested guest stops an event",
	   here()->arch.pv_perf->any_stopped, true);
	CHECK(!call(KVM_PERF_OP_DISABLE, 1));
	run_mode(true, 50);
	is("VM entry does not look for a disabled event",
	   here()->arch.pv_perf->any_stopped, false);
	CHECK(!call(KVM_PERF_OP_ENABLE, 1));
	run_mode(false, 20);
	is("the event continues after ENABLE", (call(5, 1), r[1].count), 320);
	is("the event's period continues after ENABLE", r[1].period_left, 680);
	run_mode(true, 50);
	take_counters(tasks[0], NR_COUNTERS);
	enter_guest();
	run_mode(true, 50);
	enter_guest();
	run_mode(true, 50);
	is("VM entry does not look for an event that has lost its counter",
	   here()->arch.pv_perf->any_stopped, false);
	take_counters(tasks[0], 0);
	CHECK(!call(KVM_PERF_OP_ENABLE, 1));
	run_mode(false, 20);
	is("the lost event continues after ENABLE",
	   (call(5, 1), r[1].count), 340);
	is("the lost event's period continues after ENABLE",
	   r[1].period_left, 660);
	teardown();
}

/* perf throttles the next event that overflows. */
static void run_throttled(u64 n)
{
	throttles = true;
	run_guest(n);
	throttles = false;
}

/*
 * perf throttles an event, and restarts it on another counter without writing
 * that counter.
 */
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
	is("debugfs: an event that perf has throttled", debugfs_has(" throttled  "), true);
	reassign(event(1)->backing, 1000);
	on(1);
	call(KVM_PERF_OP_READ, 1);
	is("READ by another vCPU before the delivery", r[1].count, 100);
	on(0);
	enter_guest();
	is("after the delivery, the event has the flag THROTTLED",
	   r[1].flags, KVM_PERF_EVENT_THROTTLED);
	run_mode(false, 10);
	is("the throttled event does not count",
	   (call(KVM_PERF_OP_READ, 1), r[1].count), 100);
	tick(event(1)->backing);
	is("READ after perf has restarted the event on another counter",
	   (call(KVM_PERF_OP_READ, 1), r[1].count), 100);
	is("the rest of the period of the restarted event",
	   r[1].period_left, 100);
	run_mode(false, 30);
	is("READ after the restarted event has counted",
	   (call(KVM_PERF_OP_READ, 1), r[1].count), 130);
	is("the rest of the period after the event has counted",
	   r[1].period_left, 70);
	enter_guest();

	/*
	 * While the event is throttled, the guest sets its position or its
	 * period.
	 */
	run_throttled(70);
	enter_guest();
	reassign(event(1)->backing, 1000);
	is("SET_LEFT of the throttled event",
	   call3(KVM_PERF_OP_SET_LEFT, 1, 7, 0), 0);
	tick(event(1)->backing);
	run_mode(false, 6);
	is("after SET_LEFT 7, no overflow at 6",
	   (enter_guest(), r[1].overflows), 2);
	run_mode(false, 1);
	is("after SET_LEFT 7, an overflow at 7",
	   (enter_guest(), r[1].overflows), 3);
	is("the count after SET_LEFT", r[1].count, 207);
	run_throttled(100);
	reassign(event(1)->backing, 1000);
	is("SET_PERIOD of the throttled event",
	   call3(KVM_PERF_OP_SET_PERIOD, 1, 50, 0), 0);
	enter_guest();
	run_mode(false, 49);
	is("after SET_PERIOD 50, no overflow at 49",
	   (enter_guest(), r[1].overflows), 4);
	run_mode(false, 1);
	is("after SET_PERIOD 50, an overflow at 50",
	   (enter_guest(), r[1].overflows), 5);
	is("the count after SET_PERIOD", r[1].count, 357);

	/* The event moves to another vCPU. */
	run_throttled(50);
	reassign(event(1)->backing, 1000);
	on(1);
	is("ENABLE of the throttled event elsewhere",
	   call(KVM_PERF_OP_ENABLE, 1), 0);
	enter_guest();
	run_mode(false, 20);
	is("READ on the other vCPU",
	   (call(KVM_PERF_OP_READ, 1), r[1].count), 427);
	is("the rest of the period on the other vCPU", r[1].period_left, 30);
	on(0);
	teardown();
}

static struct {
	const char *where;
	bool moved;
} throttle_at;

/*
 * perf throttles vCPU 0's event while another vCPU's operation waits for its
 * CPU.
 */
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

/* perf throttles an event while an operation waits for its CPU or its counter. */
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
	is("after SET_LEFT 7 from elsewhere, no overflow at 6",
	   (enter_guest(), r[1].overflows), 1);
	run_mode(false, 1);
	is("after SET_LEFT 7 from elsewhere, an overflow at 7",
	   (enter_guest(), r[1].overflows), 2);
	is("the count after SET_LEFT from elsewhere", r[1].count, 107);
	throttle_while("period", false);
	is("SET_PERIOD from elsewhere", call3(KVM_PERF_OP_SET_PERIOD, 1, 50, 0),
	   0);
	on(0);
	enter_guest();
	run_mode(false, 49);
	is("after SET_PERIOD 50 from elsewhere, no overflow at 49",
	   (enter_guest(), r[1].overflows), 3);
	run_mode(false, 51);
	is("after SET_PERIOD 50 from elsewhere, two overflows at 100",
	   (enter_guest(), r[1].overflows), 5);
	CHECK(!call3(KVM_PERF_OP_SET_PERIOD, 1, 100, 0));
	run_mode(false, 1);
	is("the count after SET_PERIOD from elsewhere",
	   (call(KVM_PERF_OP_READ, 1), r[1].count), 308);
	CHECK(!call3(KVM_PERF_OP_SET_LEFT, 1, 100, 0));

	throttle_while("value", true);
	is("READ from elsewhere", (call(KVM_PERF_OP_READ, 1), r[1].count), 408);
	on(0);
	enter_guest();
	tick(event(1)->backing);
	run_mode(false, 0);

	disable_hook = throttle_late;
	is("SET_LEFT while the event overflows",
	   call3(KVM_PERF_OP_SET_LEFT, 1, 7, 0), 0);
	is("the event is throttled meanwhile",
	   event(1)->backing->hw.state & PERF_HES_STOPPED, PERF_HES_STOPPED);
	enter_guest();
	tick(event(1)->backing);
	run_mode(false, 6);
	is("after this SET_LEFT 7, no overflow at 6",
	   (enter_guest(), r[1].overflows), 7);
	run_mode(false, 1);
	is("after this SET_LEFT 7, an overflow at 7",
	   (enter_guest(), r[1].overflows), 8);
	is("the count after this SET_LEFT", r[1].count, 515);

	/*
	 * perf restarts the event on another counter, and VM entry has not
	 * started it yet.
	 */
	run_throttled(100);
	enter_guest();
	reassign(event(1)->backing, 0);
	tick(event(1)->backing);
	run_throttled(100);
	is("READ before VM entry has started the event",
	   (call(KVM_PERF_OP_READ, 1), r[1].count), 615);
	enter_guest();
	is("the count after the delivery", r[1].count, 615);
	teardown();
}

/*
 * perf throttles, moves and restarts an event, and its vCPU stops it before it
 * counts.
 */
static void test_stopped_moved(void)
{
	setup();
	CHECK(!open_mode(1, KVM_PERF_ATTR_EXCLUDE_GUEST, 100));
	run_throttled(100);
	enter_guest();
	reassign(event(1)->backing, 1000);
	tick(event(1)->backing);
	run_mode(true, 10);
	is("the counter's value does not belong to the event",
	   !!(event(1)->backing->hw.state & PERF_HES_ARCH), true);
	run_mode(false, 30);
	is("READ after the event has counted",
	   (call(KVM_PERF_OP_READ, 1), mem->record[1].count), 130);
	teardown();
}

/*
 * An event is stopped for a mode, and perf changes its counter before the next
 * entry.
 */
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
	is("READ after perf has assigned another counter", r[1].count, 100);
	start_again(event(1)->backing);
	call(KVM_PERF_OP_READ, 1);
	is("READ after perf has started the event", r[1].count, 100);
	run_mode(false, 10);
	call(KVM_PERF_OP_READ, 1);
	is("READ after VM entry has stopped the event again", r[1].count, 100);
	reassign(event(1)->backing, 1000);
	on(1);
	call(KVM_PERF_OP_READ, 1);
	is("READ by another vCPU after perf has assigned another counter",
	   r[1].count, 100);
	on(0);
	start_again(event(1)->backing);
	run_mode(true, 7);
	call(KVM_PERF_OP_READ, 1);
	is("the event counts in its mode", r[1].count, 107);

	run_mode(false, 10);
	reassign(event(1)->backing, 1000);
	is("DISABLE after perf has assigned another counter",
	   call(KVM_PERF_OP_DISABLE, 1), 0);
	is("the count of the disabled event", r[1].count, 107);
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
	is("the event counts on the other vCPU", r[1].count, 118);
	teardown();
}

/* A stopped event keeps its position in the period. */
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
	is("READ by another vCPU", r[1].count, 40);
	is("READ by another vCPU has the rest of the period",
	   r[1].period_left, 60);
	on(0);
	call(KVM_PERF_OP_READ, 1);
	is("READ by its own vCPU has the rest of the period",
	   r[1].period_left, 60);
	run_mode(true, 59);
	is("the event continues: no overflow before the end of the period",
	   enter_guest(), 0);
	run_mode(true, 1);
	is("the event continues: an overflow at the end of the period",
	   enter_guest(), 1);
	is("the record has the last period", r[1].last_period, 100);

	/* The event moves while it is stopped. */
	run_mode(true, 30);
	run_mode(false, 10);
	reassign(event(1)->backing, 1000);
	on(1);
	call(KVM_PERF_OP_READ, 1);
	is("ENABLE elsewhere", call(KVM_PERF_OP_ENABLE, 1), 0);
	run_mode(true, 69);
	is("after the move, no overflow before the end of the period",
	   enter_guest(), 0);
	run_mode(true, 1);
	is("after the move, an overflow at the end of the period",
	   enter_guest(), 1);
	is("the count after the move", r[1].count, 200);
	run_mode(true, 30);
	run_mode(false, 10);
	is("SET_LEFT of the stopped event",
	   call3(KVM_PERF_OP_SET_LEFT, 1, 7, 0), 0);
	is("SET_LEFT writes the rest of the period before it",
	   r[1].period_left, 70);
	run_mode(false, 10);
	run_mode(true, 6);
	is("after SET_LEFT 7, no overflow at 6", enter_guest(), 0);
	run_mode(true, 1);
	is("after SET_LEFT 7, an overflow at 7", enter_guest(), 1);
	run_mode(false, 10);
	on(0);
	is("SET_LEFT from elsewhere", call3(KVM_PERF_OP_SET_LEFT, 1, 9, 0), 0);
	on(1);
	run_mode(false, 10);
	run_mode(true, 8);
	is("after SET_LEFT 9 from elsewhere, no overflow at 8",
	   enter_guest(), 0);
	run_mode(true, 1);
	is("after SET_LEFT 9 from elsewhere, an overflow at 9",
	   enter_guest(), 1);
	run_mode(true, 30);
	run_mode(false, 10);
	is("SET_PERIOD of the stopped event",
	   call3(KVM_PERF_OP_SET_PERIOD, 1, 50, 0), 0);
	run_mode(false, 10);
	call(KVM_PERF_OP_READ, 1);
	is("after SET_PERIOD 50, the rest of the period is 50",
	   r[1].period_left, 50);
	run_mode(true, 49);
	is("after SET_PERIOD 50, no overflow at 49", enter_guest(), 0);
	run_mode(true, 1);
	is("after SET_PERIOD 50, an overflow at 50", enter_guest(), 1);
	is("after SET_PERIOD 50, the last period is 50", r[1].last_period, 50);

	/* perf has counted a throttled event, but has not updated it since. */
	run_mode(true, 10);
	throttle(event(1)->backing);
	run_mode(false, 10);
	reassign(event(1)->backing, 1000);
	call(KVM_PERF_OP_READ, 1);
	is("READ of a throttled event has the rest of the period",
	   r[1].period_left, 40);
	teardown();
}

/* Events that count only the guest or only its nested guests. */
static void test_modes(void)
{
	struct guest_perf_event *r;

	setup();
	r = mem->record;
	is("OPEN and ENABLE with EXCLUDE_GUEST",
	   open_mode(1, KVM_PERF_ATTR_EXCLUDE_GUEST, 0), 0);
	is("OPEN and ENABLE with EXCLUDE_HOST",
	   open_mode(2, KVM_PERF_ATTR_EXCLUDE_HOST, 100), 0);
	is("OPEN and ENABLE with both flags",
	   open_mode(3, KVM_PERF_ATTR_EXCLUDE_GUEST |
			KVM_PERF_ATTR_EXCLUDE_HOST, 0), 0);
	is("OPEN and ENABLE with neither flag", open_mode(4, 0, 0), 0);
	run_mode(false, 10);
	run_mode(true, 300);
	run_mode(true, 40);
	run_mode(false, 5000);
	call(KVM_PERF_OP_READ, KVM_PERF_ID_ALL);
	is("EXCLUDE_GUEST counts the guest only", r[1].count, 5010);
	is("EXCLUDE_HOST counts nested guests only", r[2].count, 340);
	is("both flags count nothing", r[3].count, 0);
	is("neither flag counts the guest and nested guests", r[4].count, 5350);
	is("EXCLUDE_HOST overflows in nested guests",
	   (enter_guest(), r[2].overflows), 3);
	is("EXCLUDE_HOST has the rest of the period", r[2].period_left, 60);

	/* perf schedules the event out and in, and starts it. */
	task_sched_out(current);
	task_sched_in(current);
	run_mode(false, 1000);
	call(KVM_PERF_OP_READ, 2);
	is("VM entry of the guest stops the event again", r[2].count, 340);
	task_sched_out(current);
	task_sched_in(current);
	run_mode(true, 60);
	is("the event overflows in a nested guest",
	   (enter_guest(), r[2].overflows), 4);

	/* Only perf restarts a throttled event. */
	throttle(event(2)->backing);
	run_mode(false, 10);
	run_mode(true, 10);
	call(KVM_PERF_OP_READ, 2);
	is("VM entry of a nested guest does not start a throttled event",
	   r[2].count, 400);

	/* The event moves to another vCPU. */
	on(1);
	is("ENABLE elsewhere", call(KVM_PERF_OP_ENABLE, 2), 0);
	run_mode(false, 10);
	run_mode(true, 7);
	call(KVM_PERF_OP_READ, 2);
	is("the event counts on the other vCPU", r[2].count, 407);
	is("CLOSE", call(KVM_PERF_OP_CLOSE, 2), 0);
	run_mode(true, 7);
	on(0);
	run_mode(true, 7);
	is("RESET of the other events", call(KVM_PERF_OP_RESET, 0), 0);
	run_mode(true, 7);
	teardown();
}

/* The guest handles an NMI, from the injection to the IRET. */
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

/* The kernel's code in an NMI handler is not counted. */
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
	is("an event does not count an NMI handler", r[1].count, 10);
	is("an event does not overflow in an NMI handler",
	   (enter_guest(), r[1].overflows), 0);
	is("an event of the kernel does not count an NMI handler",
	   r[3].count, 10);
	is("an event of user mode is not stopped", r[2].count, 2010);
	is("SET_LEFT in an NMI handler",
	   call3(KVM_PERF_OP_SET_LEFT, 1, 30, 0), 0);
	is("SET_LEFT writes the rest of the period before it",
	   r[1].period_left, 90);
	task_sched_out(current);
	task_sched_in(current);
	run_nmi(1000, false);
	reassign(event(3)->backing, 7);
	end_nmi();
	run_guest(29);
	is("after SET_LEFT 30 and the handler, no overflow at 29",
	   enter_guest(), 0);
	run_mode(false, 1);
	is("after SET_LEFT 30 and the handler, an overflow at 30",
	   (enter_guest(), r[1].overflows), 1);
	call(KVM_PERF_OP_READ, KVM_PERF_ID_ALL);
	is("the event counts after the handler", r[1].count, 40);
	is("the event of the kernel counts on another counter", r[3].count, 40);

	/*
	 * A counter with 1 left would be written as 2, and 0 left would begin a
	 * period.
	 */
	run_nmi(1000, true);
	before = written_counters;
	end_nmi();
	is("after a handler, the counter continues without a write",
	   written_counters, before);
	run_nmi(1000, true);
	CHECK(!call3(KVM_PERF_OP_SET_LEFT, 1, 30, 0));
	end_nmi();
	is("after a handler with SET_LEFT, the counter is written",
	   written_counters > before, true);

	run_nmi(1000, true);
	is("DISABLE in an NMI handler", call(KVM_PERF_OP_DISABLE, 3), 0);
	end_nmi();
	run_guest(10);
	CHECK(!call(KVM_PERF_OP_ENABLE, 3));
	run_mode(false, 5);
	is("the event counts after DISABLE in a handler and ENABLE",
	   (call(KVM_PERF_OP_READ, 3), r[3].count), 45);

	run_nmi(1000, true);
	here()->arch.guest_mode = true;
	here()->arch.iret_intercept = false;
	run_mode(true, 3);
	is("an event counts a nested guest that the handler runs",
	   (call(KVM_PERF_OP_READ, 3), r[3].count), 48);
	/* The VMM injects an NMI, or KVM cannot intercept the IRET. */
	here()->arch.nmi_injected = true;
	run_mode(false, 4);
	here()->arch.nmi_injected = false;
	is("an event counts an NMI handler if its end would not be seen",
	   (call(KVM_PERF_OP_READ, 3), r[3].count), 52);
	teardown();
}

/* Records of branches */

/* The records' format in the MSRs. */
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

/* Executes @branches, and leaves the guest for an NMI or for another reason. */
static void record(const u64 (*branches)[2], int n, bool nmi)
{
	unsigned long flags;

	local_irq_save(flags);
	run_branches(here(), branches, n);
	if (nmi)
		pv_perf_save_branches(here());
	local_irq_restore(flags);
	/* perf may use the stack in the host's NMI handler. */
	memset(cpus[current->cpu].lbr, 0xa5, sizeof(cpus[0].lbr));
}

/* Executes one branch, and makes an event with @period overflow. */
static void overflow_after(u64 from, u64 period, bool nmi)
{
	const u64 branches[][2] = { { from, LBR_VALID | 0x2000 } };

	/* The guest takes any NMI that is to come. */
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
	is("OPEN with branches on a CPU without branch records", do_open(), 0);
	is("the flags of branches are ignored on this CPU",
	   pv_perf_has_branches(event(1)), 0);
	q = &mem->query;
	q->size = sizeof(*q);
	CHECK(!call(6, GPA(query)));
	is("QUERY: not the feature of branches on this CPU",
	   q->features & KVM_PERF_FEATURE_BRANCHES, 0);
	is("QUERY: no branches on this CPU", q->branches, 0);
	teardown();

	/* By default, the administrator has not allowed branches. */
	cpu_has_lbr_v2 = true;
	setup();
	param(1, 1);
	mem->attr.flags = KVM_PERF_ATTR_BRANCHES;
	mem->attr.sample_period = 1000;
	is("OPEN with branches that the administrator has not allowed",
	   do_open(), 0);
	is("the flags of branches that are not allowed are ignored",
	   pv_perf_has_branches(event(1)), 0);
	q = &mem->query;
	q->size = sizeof(*q);
	CHECK(!call(6, GPA(query)));
	is("QUERY: no branches if they are not allowed", q->branches, 0);
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
	is("OPEN with each kind of branch, only with a period", i, 41);
	CHECK(!call(KVM_PERF_OP_RESET, 0));
	param(1, 1);
	mem->attr.sample_period = 1000;
	mem->attr.flags = BIT_ULL(41);
	is("OPEN with a kind of branch that is not defined", do_open(), 0);
	is("the kind that is not defined is ignored",
	   pv_perf_has_branches(event(1)), 0);
	CHECK(!call(KVM_PERF_OP_CLOSE, 1));
	mem->attr.flags = KVM_PERF_ATTR_BRANCHES | BIT_ULL(31);
	open_fails("a flag that is not optional: EINVAL", -KVM_EINVAL);
	mem->attr.sample_period = 1000;
	mem->attr.flags = KVM_PERF_ATTR_BRANCHES | KVM_PERF_ATTR_FREQ;
	is("OPEN with branches and a frequency", do_open(), 0);

	memset(q, 0x5a, sizeof(*q) + sizeof(mem->after_query));
	q->size = GUEST_PERF_QUERY_SIZE_VER0 + 8;
	CHECK(!call(6, GPA(query)));
	is("QUERY of a larger struct fills what the host knows", q->size,
	   GUEST_PERF_QUERY_SIZE_VER0);
	is("QUERY has the feature of branches",
	   !!(q->features & KVM_PERF_FEATURE_BRANCHES), true);
	is("QUERY has the number of branches", q->branches, NR_BRANCHES);
	is("QUERY writes nothing behind what the host knows",
	   !memchr_inv(mem->after_query, 0x5a, sizeof(mem->after_query)), true);
	teardown_branches();

	cpu_branches = KVM_PERF_MAX_BRANCHES + 1;
	setup_branches();
	mem->query.size = sizeof(mem->query);
	CHECK(!call(6, GPA(query)));
	is("with a deeper stack, QUERY has as many branches as the area has room for",
	   mem->query.branches, KVM_PERF_MAX_BRANCHES);
	teardown_branches();
	cpu_branches = NR_BRANCHES;
}

static u64 selected(void)
{
	CHECK(enter_recording());
	/* The MSR selects the branches not to record. */
	return ~cpus[0].lbr_select & 0x1ff;
}

/* Which branches are recorded, and when. */
/* Loads KVM with evidence for a CPU and its microcode; returns what guests may have. */
static unsigned int branches_with(u32 cpu, u32 microcode)
{
	unsigned int nr;

	*param_pv_perf_branches_cpu = cpu;
	*param_pv_perf_branches_microcode = microcode;
	setup();
	nr = pv_perf_host.pmu.branches;
	is("the parameter pv_perf_branches says whether guests may have branches",
	   *param_pv_perf_branches, !!nr);
	teardown();
	*param_pv_perf_branches = false;
	return nr;
}

static void test_branches_shown(void)
{
	u32 microcode = boot_cpu_data.microcode;

	cpu_has_lbr_v2 = true;
	is("branches on the CPU and microcode for which they are shown",
	   branches_with(cpu_signature, microcode), NR_BRANCHES);
	is("no branches on another CPU model",
	   branches_with(cpu_signature + 1, microcode), 0);
	is("no branches with newer microcode",
	   branches_with(cpu_signature, microcode - 1), 0);
	is("no branches with older microcode",
	   branches_with(cpu_signature, microcode + 1), 0);
	is("no branches if they are shown for no CPU", branches_with(0, microcode), 0);
	cpu_has_lbr_v2 = false;
	is("no branches on a CPU without branch records, whatever is shown",
	   branches_with(cpu_signature, microcode), 0);
	*param_pv_perf_branches_cpu = 0;
	*param_pv_perf_branches_microcode = 0;
}

static void test_branches_wanted(void)
{
	const u64 user = KVM_PERF_ATTR_BRANCH_USER, cond = KVM_PERF_ATTR_BRANCH_COND;
	const u64 kernel = KVM_PERF_ATTR_BRANCH_KERNEL;
	static const u64 one[][2] = { { 1, LBR_VALID | 2 } };
	unsigned long flags;
	u64 select;

	setup_branches();
	is("nothing is recorded without events", enter_recording(), 0);
	CHECK(!open_mode(1, 0, 1000));
	is("nothing is recorded for an event without branches",
	   enter_recording(), 0);
	is("for an event without branches, LBR_SELECT stays",
	   cpus[0].lbr_select, 0);
	is("for an event without branches, the records stay",
	   cpus[0].lbr[0][0] == 0x5a5a5a5a5a5a5a5a, true);
	CHECK(!open_mode(2, user | cond, 1000));
	is("an event's kinds of branches are selected",
	   selected(), (user | cond) >> 32);
	is("the other bits of DBG_EXTN_CFG stay in the guest",
	   here()->arch.pv_perf_branches, BIT(3) | DBG_EXTN_CFG_LBRV2EN);
	record(one, 1, false);
	is("after the exit, DBG_EXTN_CFG is restored",
	   cpus[0].lbr_config, BIT(3));
	CHECK(!open_mode(3, kernel | KVM_PERF_ATTR_BRANCH_FAR, 1000));
	select = selected();
	is("the kinds of branches of both events are selected",
	   select, (user | cond | kernel | KVM_PERF_ATTR_BRANCH_FAR) >> 32);
	CHECK(!call(KVM_PERF_OP_DISABLE, 2));
	is("a disabled event's kinds are not selected",
	   selected(), (kernel | KVM_PERF_ATTR_BRANCH_FAR) >> 32);
	CHECK(!call(KVM_PERF_OP_ENABLE, 2));
	is("after ENABLE, the event's kinds are selected", selected(), select);
	on(1);
	CHECK(!call(KVM_PERF_OP_ENABLE, 3));
	on(0);
	is("a moved event's kinds are not selected",
	   selected(), (user | cond) >> 32);
	take_counters(tasks[0], NR_COUNTERS);
	is("nothing is recorded for an event without a counter",
	   enter_recording(), 0);
	take_counters(tasks[0], 0);
	enter_guest();
	call(KVM_PERF_OP_ENABLE, 2);
	is("after ENABLE with a counter, the event's kinds are selected",
	   selected(), (user | cond) >> 32);

	/* The host's perf records branches. */
	cpus[0].lbr_config |= DBG_EXTN_CFG_LBRV2EN;
	cpus[0].lbr_select = 0x77;
	cpus[0].lbr[0][0] = 0x1234;
	is("while the host records, nothing is recorded for the guest",
	   enter_recording(), 0);
	is("the host's LBR_SELECT stays", cpus[0].lbr_select, 0x77);
	is("the host's records stay", cpus[0].lbr[0][0], 0x1234);
	overflow_after(0x1000, 1000, true);
	enter_guest();
	is("while the host records, an overflow has no branches",
	   mem->area.nr_branches, 0);
	is("while the host records, an overflow is delivered",
	   mem->record[2].overflows, 1);
	cpus[0].lbr_config &= ~DBG_EXTN_CFG_LBRV2EN;
	is("when the host stops, branches are recorded again",
	   selected(), (user | cond) >> 32);

	/* The vCPU enters again without leaving the run loop. */
	record(one, 1, true);
	local_irq_save(flags);
	pv_perf_enter(here(), PV_PERF_ENTRY_AFTER_NMI);
	check_branches(here());
	local_irq_restore(flags);
	is("branches are recorded when the vCPU enters again",
	   !!here()->arch.pv_perf_branches, true);
	is("saved branches are dropped when the vCPU enters again",
	   here()->arch.pv_perf->branches.nr, 0);

	here()->arch.guest_mode = true;
	is("nothing is recorded for a nested guest", enter_recording(), 0);
	here()->arch.guest_mode = false;
	is("branches of the guest are recorded after the nested guest",
	   !!enter_recording(), true);

	CHECK(!call(KVM_PERF_OP_CLOSE, 2));
	is("nothing is recorded after the event's CLOSE", enter_recording(), 0);
	CHECK(!open_mode(2, user, 1000));
	CHECK(enter_recording());
	CHECK(!call(KVM_PERF_OP_RESET, 0));
	is("nothing is recorded after RESET", enter_recording(), 0);
	is("after RESET, VM entry looks at nothing",
	   here()->arch.pv_perf->at_entry, 0);
	is("after RESET, VM entry changes no record",
	   (cpus[0].lbr[0][0] = 7, enter_recording()) || cpus[0].lbr[0][0] != 7,
	   false);
	CHECK(!open_mode(2, user, 1000));
	CHECK(enter_recording());
	pv_perf_vcpu_reset(vcpus[0]);
	is("nothing is recorded after a reset of the vCPU",
	   enter_recording(), 0);
	teardown_branches();
}

/* Branches for events that do not count now. */
static void test_branches_stopped(void)
{
	const u64 user = KVM_PERF_ATTR_BRANCH_USER, kernel = KVM_PERF_ATTR_BRANCH_KERNEL;
	const u64 any = KVM_PERF_ATTR_BRANCHES;

	setup_branches();
	CHECK(!open_mode(1, any | KVM_PERF_ATTR_EXCLUDE_HOST, 1000));
	is("nothing is recorded for an event for nested guests only",
	   enter_recording(), 0);
	CHECK(!open_mode(2, any | KVM_PERF_ATTR_EXCLUDE_KERNEL, 1000));
	CHECK(!open_mode(3, 0, 1000));
	is("all kinds are recorded for an event of user mode",
	   selected(), 0x1ff);

	/* The kernel's branches are recorded, but not an NMI handler's. */
	here()->arch.nmi_injected = true;
	here()->arch.iret_intercept = true;
	is("in an NMI handler, the kernel is not recorded",
	   selected(), 0x1ff & ~(kernel >> 32));
	here()->arch.nmi_injected = false;
	is("at the next entry in the handler, the kernel is not recorded",
	   selected(), 0x1ff & ~(kernel >> 32));
	end_nmi();
	is("after the handler, the kernel is recorded",
	   ~cpus[0].lbr_select & 0x1ff, 0x1ff);
	CHECK(!call(KVM_PERF_OP_CLOSE, 2));
	CHECK(!open_mode(4, any, 1000));
	here()->arch.nmi_injected = true;
	here()->arch.iret_intercept = true;
	is("in an NMI handler, nothing is recorded for a stopped event",
	   enter_recording(), 0);
	here()->arch.nmi_injected = false;
	end_nmi();
	is("after the handler, branches are recorded for that event",
	   !!here()->arch.pv_perf_branches, true);
	CHECK(!open_mode(5, user | KVM_PERF_ATTR_EXCLUDE_GUEST, 1000));
	here()->arch.guest_mode = true;
	is("in a nested guest, nothing is recorded", enter_recording(), 0);
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
	/* The bits above the 48 bits of an address are ignored. */
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
	is("no branches are written before an overflow",
	   mem->area.nr_branches, 0x77777777);
	run_guest(1000);
	is("an overflow: one NMI", enter_guest(), 1);
	is("the number of valid branches", mem->area.nr_branches, 4);
	is("the reserved field is 0", mem->area.reserved2, 0);
	is("the last branch, of the kernel",
	   branch_is(0, 0xffff800000001006, 0x2006,
		     KVM_PERF_BRANCH_MISPREDICTED | SPEC(NON_SPEC_CORRECT_PATH)),
	   true);
	is("a speculated branch on the correct path",
	   branch_is(1, 0xffff800000000005,
		     0xffffffff81234567, SPEC(SPEC_CORRECT_PATH)),
	   true);
	is("a speculated branch on the wrong path",
	   branch_is(2, 0x1004, 0x2004,
		     KVM_PERF_BRANCH_MISPREDICTED | SPEC(SPEC_WRONG_PATH)),
	   true);
	is("a branch from the highest address of user mode",
	   branch_is(3, 0x7fffffffffff, 0x2003, SPEC(NON_SPEC_CORRECT_PATH)),
	   true);
	is("nothing is written behind the branches",
	   mem->area.branch[4].from == 0x7777777777777777, true);
	is("the area's page is dirty",
	   kvm->memslots.slot[0].dirty[gpa_to_gfn(GPA(area))], true);

	boot_cpu_data.x86_virt_bits = 57;
	CHECK(enter_recording());
	record(high, 1, true);
	run_guest(1000);
	enter_guest();
	is("a branch with addresses of 57 bits",
	   branch_is(0, 0x800000000005,
		     0xff00000000000000, SPEC(NON_SPEC_CORRECT_PATH)),
	   true);
	boot_cpu_data.x86_virt_bits = 48;

	for (i = 0; i < ARRAY_SIZE(many); i++) {
		many[i][0] = 0x1000 + i;
		many[i][1] = LBR_VALID | 0x2000;
	}
	CHECK(enter_recording());
	record(many, ARRAY_SIZE(many), true);
	run_guest(1000);
	enter_guest();
	is("a full stack has NR_BRANCHES branches",
	   mem->area.nr_branches, NR_BRANCHES);
	is("the first entry is the last branch",
	   mem->area.branch[0].from, 0x1000 + ARRAY_SIZE(many) - 1);
	is("the last entry is the first branch that is left",
	   mem->area.branch[NR_BRANCHES - 1].from, 0x1003);
	teardown_branches();
}

/*
 * Branches are delivered with the overflow that they led to, and with no other
 * overflow.
 */
static void test_branches_told(void)
{
	struct guest_perf_event *r;

	setup_branches();
	r = mem->record;
	CHECK(!open_mode(1, KVM_PERF_ATTR_BRANCHES, 1000));
	overflow_after(0x1000, 1000, true);
	is("an overflow is delivered at the exit", nmi_exit(), true);
	is("the area has one branch", mem->area.nr_branches, 1);
	is("the branch is the executed branch",
	   mem->area.branch[0].from, 0x1000);
	is("the record has the overflow", r[1].overflows, 1);
	CHECK(enter_recording());
	run_guest(1000);
	enter_guest();
	is("without an NMI exit, an overflow has no branches",
	   mem->area.nr_branches, 0);
	is("without an NMI exit, an overflow is delivered", r[1].overflows, 2);
	overflow_after(0x1000, 999, true);
	enter_guest();
	enter_recording();
	run_guest(1);
	enter_guest();
	is("branches before an earlier entry are not delivered",
	   mem->area.nr_branches, 0);
	overflow_after(0x1000, 1000, false);
	enter_guest();
	is("branches of an exit for another reason are not delivered",
	   mem->area.nr_branches, 0);

	/* Another event does not ask for branches. */
	CHECK(!open_mode(2, 0, 500));
	overflow_after(0x1001, 500, true);
	CHECK(!mem->area.nr_branches);
	enter_guest();
	is("an overflow of the event without branches has no branches",
	   mem->area.nr_branches, 0);
	is("the overflow of the event without branches is delivered",
	   r[2].overflows, 1);
	overflow_after(0x1002, 500, true);
	is("both events overflow: an NMI", nmi_exit(), true);
	is("both overflows come with the first event's branches",
	   mem->area.branch[0].from, 0x1002);
	CHECK(!call(KVM_PERF_OP_CLOSE, 2));

	/* If one of two events has to wait, its branches stay. */
	CHECK(!open_mode(3, KVM_PERF_ATTR_BRANCHES, 1000));
	CHECK(!call3(KVM_PERF_OP_SET_LEFT, 1, 1000, 0));
	param(4, 100);
	mem->attr.sample_period = 1000;
	mem->attr.flags = KVM_PERF_ATTR_BRANCHES;
	CHECK((RECORD(100) >> PAGE_SHIFT) != (RECORD(1) >> PAGE_SHIFT));
	CHECK(!do_open() && !call(KVM_PERF_OP_ENABLE, 4));
	overflow_after(0x1003, 1000, true);
	kvm->memslots.slot[0].absent[RECORD(100) >> PAGE_SHIFT] = true;
	is("two events overflow, a third has to wait: an NMI",
	   nmi_exit(), true);
	kvm->memslots.slot[0].absent[RECORD(100) >> PAGE_SHIFT] = false;
	mem->area.nr_branches = 77;
	enter_guest();
	is("the third overflow comes with the same branches",
	   mem->area.nr_branches == 1 && mem->area.branch[0].from == 0x1003,
	   true);
	is("the third overflow is delivered once",
	   mem->record[100].overflows, 1);
	CHECK(!call(KVM_PERF_OP_CLOSE, 3) && !call(KVM_PERF_OP_CLOSE, 4));

	/* The event moves before its overflow is delivered. */
	CHECK(!call3(KVM_PERF_OP_SET_LEFT, 1, 1000, 0));
	overflow_after(0x1004, 1000, true);
	on(1);
	mem->area.nr_branches = 77;
	CHECK(!call(KVM_PERF_OP_ENABLE, 1));
	is("the other vCPU gets the NMI", enter_guest(), 1);
	is("the other vCPU, without an area, gets no branches",
	   mem->area.nr_branches, 77);
	on(0);
	enter_guest();
	is("the first vCPU gets no branches", mem->area.nr_branches, 77);
	is("nothing is recorded on the first vCPU any more",
	   enter_recording(), 0);
	teardown_branches();
}

/* If the branches cannot be written, the overflow is still delivered. */
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
	is("without an area: an NMI at the exit", nmi_exit(), true);
	is("without an area, the overflow is delivered",
	   mem->record[1].overflows, n + 1);
	is("without an area, no branches are written",
	   mem->area.nr_branches, 77);

	have_area();
	absent = &kvm->memslots.slot[0].absent[gpa_to_gfn(GPA(area))];
	overflow_after(0x1000, 1000, true);
	*absent = true;
	is("no delivery at the exit while the area's page is absent",
	   nmi_exit(), false);
	is("no overflow while the area's page is absent",
	   mem->record[1].overflows, n + 1);
	*absent = false;
	is("the request delivers the overflow: one NMI", enter_guest(), 1);
	is("the request writes the branch",
	   mem->area.nr_branches == 1 && mem->area.branch[0].from == 0x1000,
	   true);
	mem->area.nr_branches = 77;
	overflow_after(0x1000, 1000, true);
	*absent = true;
	is("the request without the area's page: one NMI", enter_guest(), 1);
	*absent = false;
	is("the request without the area's page delivers the overflow",
	   mem->record[1].overflows, n + 3);
	is("the request without the area's page writes no branch",
	   mem->area.nr_branches, 77);

	kvm->memslots.generation++;
	overflow_after(0x1001, 1000, true);
	is("no delivery at the exit after a change of memory slots",
	   nmi_exit(), false);
	is("the request looks up the memory slots: one NMI", enter_guest(), 1);
	is("the request writes the branch after that change",
	   mem->area.branch[0].from, 0x1001);
	overflow_after(0x1002, 1000, true);
	is("the next overflow is delivered at the exit", nmi_exit(), true);
	is("the exit writes the branch", mem->area.branch[0].from, 0x1002);

	/* SET_AREA to read-only memory fails. */
	CHECK(set_area(RO_MEMORY) == -KVM_EFAULT ||
	      set_area(RO_MEMORY) == -KVM_EINVAL);
	overflow_after(0x1003, 1000, true);
	CHECK(nmi_exit());
	is("a failed SET_AREA keeps the previous area",
	   mem->area.branch[0].from, 0x1003);

	/* RESET by another vCPU closes the event and removes the area. */
	overflow_after(0x1004, 1000, true);
	on(1);
	CHECK(!call(KVM_PERF_OP_RESET, 0));
	on(0);
	enter_guest();
	is("after RESET, no branches are written",
	   mem->area.branch[0].from, 0x1003);

	/* The VMM stops the vCPU, and may save the guest's memory. */
	have_area();
	CHECK(!open_mode(1, KVM_PERF_ATTR_BRANCHES, 1000));
	overflow_after(0x1005, 1000, true);
	pv_perf_vcpu_leave(vcpus[0], -EINTR);
	is("a stopped vCPU's area has the branch",
	   mem->area.branch[0].from, 0x1005);
	is("a stopped vCPU's record has the overflow",
	   mem->record[1].overflows, 1);
	is("a stopped vCPU's area has no epoch", mem->area.epoch & 1, 0);
	teardown_branches();
}

/*
 * perf throttles an event, and restarts it on another counter without writing
 * that counter.
 */
static void test_rdpmc_unwritten(void)
{
	*param_pv_perf_rdpmc = 1;
	setup_rdpmc();
	start_rdpmc(1, 10);
	CHECK(reads());
	run_throttled(10);
	reassign(event(1)->backing, 1000);
	is("pmc of an event that perf has throttled and moved is 0",
	   (reads(), pmc(1)), 0);
	tick(event(1)->backing);
	is("RDPMC after perf has restarted the event", reads(), true);
	run_guest(5);
	is("the event does not count the counter's earlier value",
	   (call(KVM_PERF_OP_READ, 1), mem->record[1].count), 15);
	teardown();
	*param_pv_perf_rdpmc = 0;
}

/* VM entry looks only at changed events. */
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
	is("RDPMC beside an event of another mode, after the thread was scheduled",
	   reads(), true);
	reassign(event(2)->backing, 1000);
	is("no RDPMC if an event of another mode gets a counter with another value",
	   reads(), false);
	CHECK(!call(KVM_PERF_OP_CLOSE, 2) && reads() && pmc(1));
	CHECK(!open_mode(2, 0, 0));
	is("RDPMC beside an event without RDPMC", reads() && reads(), true);
	task_sched_out(current);
	task_sched_in(current);
	CHECK(reads() && pmc(1));
	is("RDPMC after the other event is disabled",
	   (call(KVM_PERF_OP_DISABLE, 2), reads() && reads()), true);
	throttle(event(1)->backing);
	is("pmc of a throttled event is 0", (reads(), reads(), pmc(1)), 0);
	tick(event(1)->backing);
	CHECK(reads() && pmc(1));
	CHECK(!call(KVM_PERF_OP_CLOSE, 2) && reads());
	backing = event(1)->backing;
	backing->hw.last_tag++;
	is("pmc is valid when the same counter is assigned again",
	   (reads(), pmc(1) != 0), true);
	local64_add(-5 - local64_read(&backing->hw.prev_count), &backing->count);
	local64_set(&backing->hw.prev_count, -5);
	is("pmc of a counter that is about to wrap is 0", (reads(), pmc(1)), 0);
	teardown();

	setup_rdpmc();
	start_rdpmc(1, 0);
	CHECK(reads() && pmc(1));
	take_counters(tasks[0], 1);
	kvm->memslots.slot[0].absent[RECORD(1) >> PAGE_SHIFT] = true;
	local_irq_save(flags);
	pv_perf_enter(here(), PV_PERF_ENTRY_AFTER_NMI);
	local_irq_restore(flags);
	is("VM entry does not go on if pmc cannot be cleared",
	   kvm_test_request(KVM_REQ_PV_PERF, here()), true);
	kvm->memslots.slot[0].absent[RECORD(1) >> PAGE_SHIFT] = false;
	is("pmc is cleared before VM entry goes on", (reads(), pmc(1)), 0);
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
	is("RDPMC of a stopped event in an NMI handler", reads(), true);
	here()->arch.nmi_injected = false;
	is("pmc of the stopped event stays", mem->record[1].pmc, told);
	reassign(event(1)->backing, 1000);
	is("no RDPMC of a stopped event on another counter", reads(), false);
	is("pmc of that event is 0", pmc(1), 0);
	here()->arch.iret_intercept = false;
	is("RDPMC of that event after the handler",
	   (reads(), pmc(1) != 0), true);
	run_guest(5);
	is("the event counts after the handler",
	   (call(KVM_PERF_OP_READ, 1), mem->record[1].count), 15);
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
	is("pmc of a stopped event is 0 after DISABLE by another vCPU",
	   (reads(), pmc(1)), 0);
	is("pmc of the other event stays", pmc(2) != 0, true);
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
	is("period_left of a disabled event is the period",
	   r->period_left, 100);

	is("SET_LEFT while disabled", call3(10, 1, 30, 0), 0);
	call(3, 1);
	run_guest(29);
	is("after SET_LEFT 30 while disabled, no overflow at 29",
	   enter_guest(), 0);
	run_guest(1);
	is("after SET_LEFT 30 while disabled, an overflow at 30",
	   enter_guest(), 1);
	run_guest(100);
	is("the next overflow is at the end of the period", enter_guest(), 1);
	run_guest(90);
	is("SET_LEFT while it counts", call3(10, 1, 50, 0), 0);
	is("SET_LEFT writes the rest of the period before it",
	   r->period_left, 10);
	is("SET_LEFT writes the count", r->count, 220);
	run_guest(50);
	is("after SET_LEFT 50, an overflow at 50", enter_guest(), 1);
	run_guest(60);
	is("SET_LEFT 0", call3(10, 1, 0, 0), 0);
	run_guest(99);
	is("after SET_LEFT 0, no overflow at 99", enter_guest(), 0);
	run_guest(1);
	is("after SET_LEFT 0, an overflow at 100", enter_guest(), 1);
	on(1);
	is("SET_LEFT from another vCPU", call3(10, 1, 7, 0), 0);
	on(0);
	run_guest(7);
	is("after SET_LEFT 7 from another vCPU, an overflow at 7",
	   enter_guest(), 1);
	backing = event(1)->backing;
	throttle(backing);
	is("SET_LEFT of a throttled event", call3(10, 1, 5, 0), 0);
	is("the throttled event stays stopped",
	   backing->hw.state & PERF_HES_STOPPED, 1);
	is("the rest of the throttled event's period is 5",
	   local64_read(&backing->hw.period_left), 5);
	is("SET_LEFT 0 of a throttled event", call3(10, 1, 0, 0), 0);
	is("the rest of the throttled event's period is the period",
	   local64_read(&backing->hw.period_left), 100);
	call3(10, 1, 5, 0);
	kvm->memslots.slot[0].absent[RECORD(1) >> PAGE_SHIFT] = true;
	is("SET_LEFT without a record", call3(10, 1, 9, 0), -KVM_EFAULT);
	is("SET_LEFT without a record changes nothing",
	   local64_read(&backing->hw.period_left), 5);
	kvm->memslots.slot[0].absent[RECORD(1) >> PAGE_SHIFT] = false;

	/* The period has ended, but the event has not overflowed yet. */
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
	is("SET_PERIOD to the vCPU's rate", call3(7, 3, 100000, 0), 0);
	is("SET_PERIOD sets the frequency", event(3)->freq.hz, 100000);
	is("a higher frequency starts with a shorter period",
	   event(3)->backing->hw.sample_period, 2);
	is("SET_PERIOD to a lower frequency", call3(7, 3, 1000, 0), 0);
	call(3, 3);
	is("a lower frequency starts with a longer period",
	   event(3)->backing->hw.sample_period, 200);
	call(5, 3);
	is("the longer period begins at once", mem->record[3].period_left, 200);
	teardown();
}

/* The sum of the periods of an event with a frequency. */
static u64 periods;

/*
 * Runs the guest for @n ticks of the timer of the CPU of event @id. Returns the
 * number of overflows.
 */
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

/* KVM completes @n instructions of the guest at @cpl. */
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

/*
 * Which events count the instructions that KVM completes, and which
 * instructions.
 */
static void test_retired_by(void)
{
	setup();
	is("without an event, KVM does not report instructions",
	   here()->arch.pv_perf_retires, 0);
	CHECK(!open_config(1, KVM_PERF_TYPE_HARDWARE,
			   PERF_COUNT_HW_CPU_CYCLES, 0));
	is("with cycles only, KVM does not report instructions",
	   here()->arch.pv_perf_retires, 0);
	CHECK(!open_config(2, KVM_PERF_TYPE_HARDWARE,
			   PERF_COUNT_HW_BRANCH_INSTRUCTIONS, 0));
	is("with an event of branches, KVM reports branches",
	   here()->arch.pv_perf_retires, PV_PERF_BRANCH);
	CHECK(!open_config(3, KVM_PERF_TYPE_HARDWARE,
			   PERF_COUNT_HW_INSTRUCTIONS, 0));
	is("with an event of instructions, KVM reports instructions, too",
	   here()->arch.pv_perf_retires, PV_PERF_BRANCH | PV_PERF_INSTRUCTION);
	CHECK(!open_config(4, KVM_PERF_TYPE_RAW, 0xc0, 0));
	is("the tests' hypercalls are not counted", counted(3) + counted(4), 0);
	retire(3, 0);
	emulate(true, 2, 0, 0);
	pv_perf_vmentry_retired(here(), PV_PERF_BRANCH);
	pv_perf_vmentry_retired(here(), PV_PERF_INSTRUCTION);
	is("cycles do not count completed instructions", counted(1), 0);
	is("branches count completed branches", counted(2), 2);
	is("instructions count completed instructions", counted(3), 5);
	is("a raw event of instructions counts completed instructions",
	   counted(4), 5);

	emulate(false, 0, 0, 0);
	is("a string instruction that is not finished does not count",
	   counted(3), 5);
	emulate(false, 2, 0, 0);
	is("a finished string instruction counts", counted(3), 6);
	emulate(true, 0, 0, 0);
	is("a branch to itself counts as instruction", counted(3), 7);
	is("a branch to itself counts as branch", counted(2), 3);

	call(KVM_PERF_OP_DISABLE, 3);
	retire(1, 0);
	is("a disabled event does not count", counted(3), 7);
	is("the other event counts", counted(4), 8);
	take_counters(tasks[0], NR_COUNTERS);
	retire(1, 0);
	take_counters(tasks[0], 0);
	call(KVM_PERF_OP_READ, 4);
	is("an event that has lost its counter does not count", counted(4), 8);

	call(KVM_PERF_OP_RESET, 0);
	run_mode(false, 1);
	is("after RESET, KVM does not report instructions",
	   here()->arch.pv_perf_retires, 0);

	/* Raw events with other bits count something else. */
	CHECK(!open_config(1, KVM_PERF_TYPE_RAW, 0x010000c0, 0));
	CHECK(!open_config(2, KVM_PERF_TYPE_RAW, 0x000400c0, 0));
	CHECK(!open_config(3, KVM_PERF_TYPE_RAW, 0x000001c4, 0));
	is("with a threshold, an edge or a unit mask, KVM does not report instructions",
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
	is("an event of user mode counts instructions of CPL 1 and 3",
	   counted(1), 430);
	is("an event of the kernel counts instructions of CPL 0",
	   counted(2), 2);
	emulate(true, 2, 3, 0);
	is("an event of user mode counts a SYSCALL", counted(1), 431);
	is("an event of the kernel does not count a SYSCALL", counted(2), 2);
	emulate(true, 2, 0, 3);
	is("an event of the kernel counts a SYSRET", counted(2), 3);
	is("an event of neither mode counts nothing", counted(3), 0);
	teardown();
}

/* The mode of an instruction is the vCPU's mode at the exit. */
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
	is("EXCLUDE_GUEST counts the guest's instructions", counted(1), 12);
	is("EXCLUDE_HOST counts the nested guest's instructions",
	   counted(2), 205);
	is("an event without these flags counts both", counted(3), 217);

	/* While the guest handles an NMI, its kernel is not counted. */
	run_nmi(100, true);
	retire(7, 0);
	is("an event does not count an NMI handler's instructions",
	   counted(3), 217);
	end_nmi();
	retire(1, 0);
	is("an event counts the instructions after the handler",
	   counted(3), 218);
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
	is("no overflow before the end of the period", enter_guest(), 0);
	is("the count before the end of the period", counted(1), 99);
	is("the rest before the end of the period", r[1].period_left, 1);
	is("perf has not written the counter", written_counters, written);
	retire(1, 0);
	is("an NMI at the end of the period", enter_guest(), 1);
	is("the record has one overflow", r[1].overflows, 1);
	is("the record has the last period", r[1].last_period, 100);
	is("the record has the rest of the next period", r[1].period_left, 100);
	is("the record has the count", r[1].count, 100);
	retire(99, 0);
	is("no overflow before the end of the next period", enter_guest(), 0);
	run_guest(1);
	is("the guest's own instruction ends the next period",
	   enter_guest(), 1);
	is("the count after two periods", r[1].count, 200);
	retire(250, 0);
	is("one NMI for two overflows", enter_guest(), 1);
	is("the record has both overflows", r[1].overflows, 4);
	is("the record has the rest after both overflows",
	   r[1].period_left, 50);

	call3(KVM_PERF_OP_SET_LEFT, 1, 3, 0);
	retire(2, 0);
	is("after SET_LEFT 3, no overflow at 2", enter_guest(), 0);
	retire(1, 0);
	is("after SET_LEFT 3, an overflow at 3", enter_guest(), 1);
	call3(KVM_PERF_OP_SET_PERIOD, 1, 7, 0);
	retire(6, 0);
	is("after SET_PERIOD 7, no overflow at 6", enter_guest(), 0);
	retire(1, 0);
	is("after SET_PERIOD 7, an overflow at 7", enter_guest(), 1);
	is("after SET_PERIOD 7, the last period is 7", r[1].last_period, 7);

	/* After a HLT, the vCPU does not enter the guest until it is woken. */
	CHECK(!atomic_read(&here()->arch.nmi_queued));
	retire(7, 0);
	is("an overflow queues an NMI, which wakes the vCPU",
	   atomic_xchg(&here()->arch.nmi_queued, 0), 1);
	enter_guest();
	irq_work_late = true;
	pv_perf_vmentry_retired(here(), PV_PERF_INSTRUCTION);
	retire(6, 0);
	irq_work_late = false;
	is("the delivery comes before a late irq_work", enter_guest(), 1);
	irq_work_run();
	is("the late irq_work causes no NMI", enter_guest(), 0);

	throttle(event(1)->backing);
	retire(7, 0);
	is("a throttled event does not overflow", enter_guest(), 0);
	teardown();
}

static void test_retired_late(void)
{
	struct perf_event *backing;

	/* The counter has overflowed, and perf's NMI has not come yet. */
	setup();
	CHECK(!open_mode(1, 0, 100));
	backing = event(1)->backing;
	run_guest(99);
	backing->hw.counter++;
	retire(1, 0);
	is("the counter is not written", backing->hw.counter, 100);
	is("the instruction causes no overflow",
	   atomic_read(&event(1)->overflows), 0);
	is("the event counts the instruction", counted(1), 101);
	teardown();

	/* perf throttles the event while its PMU is disabled. */
	setup();
	CHECK(!open_mode(1, 0, 100));
	run_guest(99);
	disable_hook = throttle_late;
	retire(1, 0);
	disable_hook = NULL;
	is("the event has only the NMI's overflow",
	   atomic_read(&event(1)->overflows), 1);
	is("the event stays throttled", event(1)->backing->hw.state != 0, true);
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
	/*
	 * KVM completes one instruction per 10 ns. The guest executes no other
	 * instruction.
	 */
	for (n = 0; n < 100000; n++) {
		__sync_fetch_and_add(&clock_ns, 10);
		retire(1, 0);
		if (n % 400 == 0)
			run_mode(false, 0);
		enter_guest();
	}
	is("completed instructions adapt the period to the frequency",
	   near(event(1)->backing->hw.sample_period, 2000), true);
	teardown();
}

/* RDPMC includes the instructions that KVM completes, with the same pmc. */
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
	is("RDPMC after completed instructions", reads(), true);
	is("completed instructions do not change pmc",
	   mem->record[1].pmc, before);
	is("the count includes completed instructions", counted(1), 305);
	before = mem->record[2].pmc;
	retire(695, 0);
	is("RDPMC after an overflow by completed instructions", reads(), true);
	is("the overflow changes the event's pmc",
	   mem->record[2].pmc != before, true);
	is("the count of the other event continues", counted(1), 1000);
	teardown();
}

/* Without full-width writes and without counters, perf sets the position. */
static void test_retired_unwritable(void)
{
	setup();
	pv_perf_host.writable = false;
	CHECK(!open_mode(1, 0, 100));
	CHECK(!open_mode(2, 0, 0));
	run_guest(90);
	retire(9, 0);
	is("no overflow before the end of the period", enter_guest(), 0);
	retire(1, 0);
	is("an overflow at the end of the period", enter_guest(), 1);
	is("the count of the sampling event", counted(1), 100);
	is("the count of the other event", counted(2), 100);
	teardown();

	pmu_capability.bit_width_gp = 40;
	setup();
	is("counters of another width are not writable",
	   pv_perf_host.writable, false);
	teardown();
	pmu_capability.bit_width_gp = 48;
	setup();
	is("counters of 48 bits are writable",
	   pv_perf_host.writable, true);
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

/*
 * The guest causes one event per ns, so 50,000 Hz are a period of 20,000, or 5
 * ticks.
 */
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
	is("the period is adapted to the frequency",
	   near(backing->hw.sample_period, 20000), true);
	is("overflows come at the frequency",
	   near(run_ticks(1, 1000), 200), true);
	call(KVM_PERF_OP_READ, 1);
	is("the sum of the periods is the count",
	   periods + r->last_period - r->period_left <= r->count &&
	   r->count < periods + 20001 * 9 / 8, true);

	is("SET_LEFT parks the event",
	   call3(KVM_PERF_OP_SET_LEFT, 1, -1u, -1u >> 1), 0);
	period = backing->hw.sample_period;
	is("a parked event does not overflow", run_ticks(1, 1000), 0);
	is("a parked event keeps its period",
	   backing->hw.sample_period, period);
	call(KVM_PERF_OP_READ, 1);
	is("period_left of a parked event is large",
	   r->period_left > S64_MAX / 2, true);
	is("SET_LEFT 5 of the parked event",
	   call3(KVM_PERF_OP_SET_LEFT, 1, 5, 0), 0);
	run_guest(4);
	is("after SET_LEFT 5, no overflow at 4", enter_guest(), 0);
	run_guest(1);
	is("after SET_LEFT 5, an overflow at 5", enter_guest(), 1);
	r->overflows = 0;

	/* The event is in use for a fifth of a tick, and parked for longer. */
	for (i = 0; i < 300; i++) {
		call3(KVM_PERF_OP_SET_LEFT, 1, 0, 0);
		run_mode(false, TICK_NSEC / 5);
		call3(KVM_PERF_OP_SET_LEFT, 1, -1u, -1u >> 1);
		clock_ns += 20 * NSEC_PER_USEC;
		run_mode(false, 1);
	}
	is("the period is adapted only to the time in use",
	   near(backing->hw.sample_period, 20000), true);
	is("a period longer than each use does not end", enter_guest(), 0);

	call3(KVM_PERF_OP_SET_LEFT, 1, 1 << 30, 0);
	is("after SET_LEFT beyond the period, overflows come at the frequency",
	   near(run_ticks(1, 200), 40), true);
	is("SET_PERIOD", call3(KVM_PERF_OP_SET_PERIOD, 1, 25000, 0), 0);
	is("after SET_PERIOD, overflows come at half the frequency",
	   near(run_ticks(1, 1000), 100), true);
	call3(KVM_PERF_OP_SET_LEFT, 1, -1u, -1u >> 1);
	is("SET_PERIOD of a parked event",
	   call3(KVM_PERF_OP_SET_PERIOD, 1, 50000, 0), 0);
	is("SET_PERIOD does not make a parked event overflow",
	   run_ticks(1, 1000), 0);
	call3(KVM_PERF_OP_SET_LEFT, 1, 0, 0);
	is("in use again, overflows come at the new frequency",
	   near(run_ticks(1, 1000), 200), true);

	/* The event's frequency is above the VM's rate. */
	*param_pv_perf_max_rate = 10000;
	count = run_ticks(1, 5000);
	is("a limited event has as many overflows as the rate and a burst",
	   count <= 5000 * TICK_NSEC * 20000 / NSEC_PER_SEC + 200, true);
	*param_pv_perf_max_rate = 100000;
	is("perf had no event with a frequency",
	   atomic_read(&nr_freq_events), 0);
	teardown();
}

/*
 * The event counts half of the time. The ticks of the other half do not adapt
 * the period.
 */
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
	is("the period is adapted to half of the time",
	   near(event(1)->backing->hw.sample_period, 10000), true);
	call(KVM_PERF_OP_READ, 1);
	is("the event has counted half of the time", r->count, 400 * TICK_NSEC);
	run_mode(true, 10);
	is("SET_LEFT while the event counts",
	   call3(KVM_PERF_OP_SET_LEFT, 1, 50, 0), 0);
	enter_guest();
	run_mode(true, 49);
	is("after SET_LEFT 50, no overflow at 49", enter_guest(), 0);
	run_mode(true, 1);
	is("after SET_LEFT 50, an overflow at 50", enter_guest(), 1);
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
	is("READ after the change writes the count", r->count, 1);
	slot->readonly = true;
	kvm->memslots.generation += 2;
	is("READ while memory is read-only", call(5, 1), -KVM_EFAULT);
	is("DISABLE while memory is read-only", call(4, 1), -KVM_EFAULT);
	is("READ again while memory is read-only", call(5, 1), -KVM_EFAULT);
	run_guest(10);
	slot->readonly = false;
	kvm->memslots.generation += 2;
	is("READ after memory is writable again", call(5, 1), 0);
	is("DISABLE has stopped the event", r->count, 1);
	slot->present = false;
	kvm->memslots.generation += 2;
	is("READ without memory", call(5, 1), -KVM_EFAULT);
	is("CLOSE without memory", call(2, 1), 0);
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
	is("BATCH in read-only memory", call3(8, RO_MEMORY, 0, 1), -KVM_EFAULT);
	is("BATCH in read-only memory is not run", !!event(1), true);

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
	is("BATCH of different operations", call3(8, GPA(ops), 0, i), 0);
	is("OPEN in a BATCH", mem->ops[0].result, 0);
	is("ENABLE in a BATCH", mem->ops[1].result, 0);
	is("READ of an unknown id", mem->ops[2].result, -KVM_ENOENT);
	is("READ of an unknown id keeps its arg", mem->ops[2].arg, 0x1234);
	is("BATCH in a BATCH", mem->ops[3].result, -KVM_EINVAL);
	is("an operation with a reserved field",
	   mem->ops[4].result, -KVM_EINVAL);
	is("SET_PERIOD in a BATCH", mem->ops[5].result, 0);
	is("READ all in a BATCH", mem->ops[6].result, 0);
	is("READ all keeps its arg", mem->ops[6].arg, 0x1234);
	is("operation 0 in a BATCH", mem->ops[7].result, -KVM_ENOSYS);
	is("operation 13 in a BATCH", mem->ops[8].result, -KVM_ENOSYS);
	is("QUERY in a BATCH", mem->ops[9].result, 0);
	run_guest(123);
	op(0, KVM_PERF_OP_READ, 1, 0);
	op(1, KVM_PERF_OP_SET_LEFT, 1, 10);
	op(2, KVM_PERF_OP_DISABLE, 1, 0);
	op(3, KVM_PERF_OP_CLOSE, 1, 0);
	op(4, KVM_PERF_OP_RESET, 0, 0);
	is("BATCH of READ, SET_LEFT, DISABLE, CLOSE and RESET",
	   call3(8, GPA(ops), 0, 5), 0);
	for (i = 0; i < 4; i++)
		CHECK(!mem->ops[i].result);
	is("RESET in a BATCH", mem->ops[4].result, -KVM_EINVAL);
	for (i = 0; i < 3; i++)
		is("arg is the count", mem->ops[i].arg, 123);

	/* The record's page is absent. */
	open_id(150);
	kvm->memslots.slot[0].absent[RECORD(150) >> PAGE_SHIFT] = true;
	op(0, KVM_PERF_OP_READ, 150, 0x1234);
	is("BATCH without a record", call3(8, GPA(ops), 0, 1), 0);
	is("READ without a record", mem->ops[0].result, -KVM_EFAULT);
	is("READ without a record keeps its arg", mem->ops[0].arg, 0x1234);
	kvm->memslots.slot[0].absent[RECORD(150) >> PAGE_SHIFT] = false;

	for (id = 0; id < KVM_PERF_BATCH_MAX; id++)
		op(id, KVM_PERF_OP_CLOSE, id, 0);
	op(id, KVM_PERF_OP_CLOSE, id, 0);
	is("BATCH of 64", call3(8, GPA(ops), 0, 64), 0);
	is("the last operation of the BATCH of 64 was run",
	   mem->ops[63].result, -KVM_ENOENT);
	is("the operation behind the BATCH of 64 was not run",
	   mem->ops[64].result, 0x5a);
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
	is("debugfs: open", kvm->debugfs_dentry->fops->open(&inode, &file), 0);
	is("debugfs: read",
	   kvm->debugfs_dentry->fops->read(&file, buf, sizeof(buf), NULL) > 0,
	   true);
	is("debugfs has the VM's limits",
	   !!strstr(buf,
		"events 5 of 128\noverflows 0 of 100000 per second and vCPU, limited 0\n"),
	   true);
	is("debugfs: an active event",
	   !!strstr(buf, "uk    0 active                      100"), true);
	is("debugfs: a disabled event of the kernel",
	   !!strstr(buf, "-k    0 off                           0"), true);
	is("debugfs: an active event of user mode",
	   !!strstr(buf, "u-    0 active"), true);
	take_counters(tasks[0], NR_COUNTERS);
	kvm->debugfs_dentry->fops->read(&file, buf, sizeof(buf), NULL);
	is("debugfs: an event without a counter",
	   !!strstr(buf, "uk    0 no-counter                  100"), true);
	/* The loss is in the record: debugfs still shows no-counter, not off. */
	call(5, KVM_PERF_ID_ALL);
	memset(buf, 0, sizeof(buf));
	kvm->debugfs_dentry->fops->read(&file, buf, sizeof(buf), NULL);
	is("debugfs: an event without a counter after READ",
	   !!strstr(buf, "uk    0 no-counter                  100"), true);
	take_counters(tasks[0], 0);
	call(5, KVM_PERF_ID_ALL);
	task_sched_out(tasks[0]);
	kvm->debugfs_dentry->fops->read(&file, buf, sizeof(buf), NULL);
	is("debugfs: an event whose thread does not run",
	   !!strstr(buf, "uk    0 inactive "), true);
	task_sched_in(tasks[0]);
	pv_perf_vcpu_run(vcpus[1]);
	kvm->debugfs_dentry->fops->read(&file, buf, sizeof(buf), NULL);
	is("debugfs: an event whose thread runs another vCPU",
	   !!strstr(buf, "uk    0 inactive "), true);
	old = tasks[0];
	tasks[0] = task_create(0);
	on(0);
	task_exit(old);
	kvm->debugfs_dentry->fops->read(&file, buf, sizeof(buf), NULL);
	is("debugfs: an event whose thread has exited",
	   !!strstr(buf, "uk    0 no-thread "), true);
	/* A vCPU waits for the page of a record. */
	mutex_lock(&vcpus[0]->arch.pv_perf->lock);
	on(1);
	current->signalled = true;
	is("a signal ends a reader's wait for the vCPU's lock",
	   kvm->debugfs_dentry->fops->read(&file, buf, sizeof(buf), NULL),
	   -EINTR);
	current->signalled = false;
	on(0);
	mutex_unlock(&vcpus[0]->arch.pv_perf->lock);
	is("the interrupted reader holds no event",
	   refcount_read(&event(1)->refs), 1);
	is("the open file holds the VM", refcount_read(&kvm->users_count), 2);
	kvm->debugfs_dentry->fops->release(&inode, &file);
	is("the closed file does not hold the VM",
	   refcount_read(&kvm->users_count), 1);
	alloc_faults = (struct faults){ .fail_at = 1 };
	is("debugfs: open without memory",
	   kvm->debugfs_dentry->fops->open(&inode, &file), -ENOMEM);
	alloc_faults.fail_at = 0;
	is("the failed open does not hold the VM",
	   refcount_read(&kvm->users_count), 1);
	refcount_set(&kvm->users_count, 0);
	is("debugfs: open while the VM ends",
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

/* RESET of more events than one vCPU may have. */
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
	is("RESET closes 64 events at once", nr_events(), 36);
	current->signalled = true;
	enter_guest();
	current->signalled = false;
	is("the request closes the rest before VM entry", nr_events(), 0);

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
	is("a signal ends KVM_RUN before all events are closed",
	   nr_events(), 180 - 128);
	is("the request releases kvm->srcu meanwhile", nr_srcu_dropped, 1);
	current->signalled = false;
	enter_guest();
	sleep_hook = NULL;
	is("the next KVM_RUN closes the rest", nr_events(), 0);

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
	is("a reset of the vCPU ends RESET: events of the next kernel stay",
	   !!event(1), true);
	teardown();
}

static void test_trace(void)
{
	setup();
	trace_on = true;
	call(5, 0x77);
	is("kvm_pv_perf_op",
	   strcmp(trace_line, "kvm_pv_perf_op: vcpu 0 READ 0x77 0x0 ret -2"), 0);
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
	is("reset does not close an event that has moved", call(5, 2), 0);
	is("reset does not close another vCPU's event", call(5, 3), 0);
	is("reset makes the event's id free", open_id(1), 0);
	teardown();

	tasks[0] = task_create(0);
	on(0);
	alloc_faults = (struct faults){ .fail_at = 1 };
	is("a VM cannot be created without memory", !vm_create(), true);
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
	is("the first operation with memory",
	   call(KVM_PERF_OP_READ, 1), -KVM_ENOENT);
	vcpu_destroy(vcpus[0]);
	vm_destroy(kvm);
	task_put(tasks[0]);
}

/* Returns whether KVM_SET_SREGS closes the vCPU's events. */
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
	is("SREGS of protected mode keep events",
	   sregs_close(pe, 0, false), false);
	is("SREGS of protected mode in SMM keep events",
	   sregs_close(pe, 0, true), false);
	is("SREGS of protected mode in SMM at the reset vector keep events",
	   sregs_close(pe, reset, true), false);
	is("SREGS of real mode close events", sregs_close(real, 0, false), true);
	is("SREGS of real mode at the reset vector close events",
	   sregs_close(real, reset, false), true);
	is("SREGS of real mode in SMM keep events",
	   sregs_close(real, smbase, true), false);
	is("SREGS of real mode in SMM at the reset vector close events",
	   sregs_close(real, reset, true), true);
	teardown();
}

/* Each allocation and each access to guest memory fails in turn. */

static long op_open(void)
{
	/* The xarray grows for this id. */
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
	long alloc_error;	/* 0: the operation allocates nothing */
	int accesses;		/* to guest memory */
} ops[] = {
	/* param, size, attr; the record: address, write. */
	{ "OPEN", op_open, -KVM_ENOSPC, 5 },
	{ "CLOSE", op_close, 0, 0 },
	{ "ENABLE", op_enable, 0, 0 },
	{ "ENABLE elsewhere", op_move, -KVM_ENOSPC, 0 },
	/* The record: address, twice the sequence, six fields. */
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
	/* A READ would be tried twice. */
	here()->guest_debug = 1;
}

/*
 * Runs operation @i. The @n-th of @faults fails. Returns false if there are
 * fewer than @n.
 */
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

	/* The events are unchanged, and the operation succeeds now. */
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

/* The BATCH is run although its results cannot be written. */
static void test_batch_lost(void)
{
	setup();
	open_id(1);
	op(0, KVM_PERF_OP_CLOSE, 1, 0);
	guest_faults = (struct faults){ .fail_at = 3 };
	is("BATCH whose results cannot be written",
	   call3(8, GPA(ops), 0, 1), -KVM_EFAULT);
	guest_faults.fail_at = 0;
	is("the BATCH was run", call(2, 1), -KVM_ENOENT);
	teardown();
}

/* While an operation sleeps, another vCPU runs @hook_action. */

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

/* Checks that the operation has slept at that point. */
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
	is("the event is on the vCPU to which it has moved",
	   event(1)->home == vcpus[1]->arch.pv_perf, true);
	is("ENABLE moves the event back", call(3, 1), 0);

	/* While ENABLE moves an event, another vCPU closes or moves the event. */
	call(KVM_PERF_OP_RESET, 0);
	on(1);
	open_id(1);
	on(0);
	/* Skip the lock that finds the event. */
	at("mutex_lock", 1, close_1);
	is("ENABLE of an event that is being closed", call(3, 1), -KVM_ENOENT);
	done();
	is("ENABLE of a closed event leaves no backing event",
	   atomic_read(&nr_backing_events), 0);

	open_id(1);
	on(1);
	is("ENABLE by another vCPU", call(3, 1), 0);
	on(0);
	at("mutex_lock", 1, reset);
	is("ENABLE during RESET", call(3, 1), -KVM_ENOENT);
	done();

	/* While OPEN runs, its id is in use, but its event does not exist yet. */
	param(1, 1);
	at("create", 0, open_1_exists);
	is("OPEN while another vCPU opens the same id", do_open(), 0);
	done();
	call(KVM_PERF_OP_CLOSE, 1);
	param(1, 1);
	at("create", 0, reset);
	is("OPEN during RESET", do_open(), 0);
	done();
	is("the event that was opened during RESET stays", call(5, 1), 0);
	open_id(2);
	at("mutex_lock", 0, open_9);
	call(KVM_PERF_OP_RESET, 0);
	done();
	is("RESET keeps an event that is opened meanwhile",
	   event(9) != NULL, true);
	is("RESET closes the events before it", !event(1) && !event(2), true);
	teardown();
}

/*
 * An event moves away while ENABLE, which is to move it here, waits for the
 * locks.
 */
static void test_move_races(void)
{
	setup();
	/*
	 * The event is on vCPU 0, whose thread changes: ENABLE moves it from
	 * vCPU 0 to vCPU 0.
	 */
	open_id(1);
	tasks[0]->running = true;
	current = task_create(0);
	at("mutex_lock", 1, move_1);
	is("ENABLE of an event that moves away", pv_perf_hypercall(vcpus[0],
		3, 1, 0, 0), 0);
	done();
	is("the event is on the vCPU of the ENABLE",
	   event(1)->home == vcpus[0]->arch.pv_perf, true);
	is("the event counts the vCPU's new thread",
	   event(1)->backing->hw.target == current, true);
	run_guest(5);
	pv_perf_hypercall(vcpus[0], 5, 1, 0, 0);
	is("the moved event counts", mem->record[1].count, 5);
	task_put(current);
	on(0);
	teardown();
}

/* The other vCPU changes its event, which is about to move. */

static void period_500(void)
{
	CHECK(!call3(KVM_PERF_OP_SET_PERIOD, 1, 500, 0));
}

static void frequency_500(void)
{
	CHECK(!call3(KVM_PERF_OP_SET_PERIOD, 2, 500, 0));
}

static bool home_waits;

/* Sees whether a request keeps vCPU 0 from entering the guest. */
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
	is("the overflow is not delivered twice", enter_guest(), 0);
	run_guest(1);
	is("an NMI at the end of the next period", enter_guest(), 1);
	is("the record has both overflows", r[1].overflows, 2);
	is("the record has the count", r[1].count, 2000);

	/* perf has stopped the event. */
	at("enable", 0, see_home_wait);
	on(1);
	CHECK(!call3(KVM_PERF_OP_SET_LEFT, 1, 500, 0));
	on(0);
	done();
	is("SET_LEFT elsewhere keeps the event's vCPU from VM entry",
	   home_waits, true);
	enter_guest();

	move_during(1, left_200);
	run_guest(199);
	is("SET_LEFT 200 before the move: no overflow at 199",
	   enter_guest(), 0);
	run_guest(1);
	is("SET_LEFT 200 before the move: an overflow at 200",
	   enter_guest(), 1);
	move_during(1, period_500);
	run_guest(500);
	is("SET_PERIOD 500 before the move: an overflow at 500",
	   enter_guest(), 1);
	run_guest(500);
	is("SET_PERIOD 500 before the move: the next overflow at 500",
	   enter_guest(), 1);
	is("SET_PERIOD 500 before the move: the last period is 500",
	   r[1].last_period, 500);

	on(1);
	param(2, 2);
	mem->attr.flags = KVM_PERF_ATTR_FREQ;
	mem->attr.sample_period = 1000;
	do_open();
	move_during(2, frequency_500);
	is("SET_PERIOD before the move sets the frequency",
	   event(2)->freq.hz, 500);
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
	is("the moved event has not counted that mode",
	   mem->record[1].count, 17);
	teardown();
}

static void take_one_counter(void)
{
	take_counters(tasks[0], 1);
}

/* The host takes a counter during an ENABLE of an event that counts. */
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
	is("READ of the event", call(5, 1), 0);
	is("the event counts on", mem->record[1].count, 10);
	is("READ of the event that has lost its counter",
	   call(5, NR_COUNTERS), -KVM_EBUSY);
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

/*
 * A vCPU changes while a thread that runs another vCPU is about to stop its
 * events.
 */
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
	is("the event of a vCPU that another thread runs meanwhile counts there",
	   count_on(0, 1), 15);

	at("mutex_lock", 0, destroy_0);
	run_on(1, 100);
	done();
	is("the event of a vCPU that is destroyed meanwhile is gone",
	   call_on(1, 5, 1), -KVM_ENOENT);

	on(0);
	start_on(0, 1, 0);
	at("mutex_lock", 0, close_1);
	run_on(0, 1);
	done();
	run_on(1, 1);
	is("the event that is closed before it follows is gone",
	   call_on(1, 5, 1), -KVM_ENOENT);
	teardown();
}

/* Of more threads than there are hashes, two have the same. */
static void test_thread_hash(void)
{
	struct task_struct *task[1025], *with[1024] = { }, *other;
	unsigned long hash;
	int n = 0;

	setup();
	for (;;) {
		CHECK(n < ARRAY_SIZE(task));
		task[n] = task_create(1);
		hash = hash_long((unsigned long)task[n], 10);
		other = with[hash];
		if (other)
			break;
		with[hash] = task[n++];
	}
	current = other;
	start_on(0, 1, 0);
	current = task[n];
	run_on(1, 10);
	current = other;
	run_on(0, 5);
	is("a thread with another thread's hash does not stop that thread's vCPU",
	   count_on(0, 1), 5);
	on(0);
	do
		task_put(task[n]);
	while (n--);
	teardown();
}

static void read_found_free(void)
{
	close_1();
	rcu_barrier();
}

/* The operation has the last reference. */
static void test_last_reference(void)
{
	setup();
	open_id(1);
	at("mutex_lock", 0, read_found_free);
	is("READ that has the last reference", call(5, 1), -KVM_ENOENT);
	done();
	/* As if the last reference were dropped between look-up and increment. */
	open_id(1);
	refcount_set(&event(1)->refs, 0);
	is("READ of an event without references", call(5, 1), -KVM_ENOENT);
	refcount_set(&event(1)->refs, 1);
	teardown();
}

/*
 * A hybrid host
 */

#define PERFORMANCE_CPU	0
#define EFFICIENCY_CPU	2

/* KVM is loaded on a host whose CPUs from EFFICIENCY_CPU on are efficiency cores. */
static void set_hybrid(bool hybrid)
{
	int cpu;

	for (cpu = EFFICIENCY_CPU; cpu < NR_CPUS; cpu++)
		cpu_kinds[cpu] = 1;
	cpu_has_hybrid = hybrid;
	boot_cpu_data.x86_vendor = hybrid ? X86_VENDOR_INTEL : X86_VENDOR_AMD;
	if (!hybrid)
		pv_perf_hybrid = false;
	tasks[0] = task_create(0);
	on(0);
	pv_perf_init();
	task_put(tasks[0]);
}

/* The host's scheduler moves the vCPU's thread. */
static void to_cpu(int cpu)
{
	task_sched_out(current);
	current->cpu = cpu;
	task_sched_in(current);
}

static long nr_backings(void)
{
	return atomic_read(&nr_backing_events);
}

static u64 counted_now(u32 id)
{
	CHECK(!call(KVM_PERF_OP_READ, id));
	return mem->record[id].count;
}

static void test_hybrid_offer(void)
{
	u64 start;
	u32 named;
	int i;

	setup();
	is("a hybrid host offers as many counters as each of its kinds has",
	   told_counters(), NR_COUNTERS - 1);
	is("its model says that it is hybrid",
	   !!(mem->query.model & KVM_PERF_MODEL_HYBRID), true);
	named = mem->query.model & ~KVM_PERF_MODEL_KIND;
	param(1, 1);
	mem->attr.model = mem->query.model;
	is("a raw event that is architectural opens", do_open(), 0);
	param(2, 2);
	mem->attr.config = 0x1b1;
	is("another raw event has no meaning there: EINVAL", do_open(), -KVM_EINVAL);
	mem->attr.model = named | KVM_PERF_MODEL_HYBRID;
	is("nor has one that names no kind: EINVAL", do_open(), -KVM_EINVAL);
	mem->attr.model = named;
	is("one of a host that is not hybrid: EOPNOTSUPP", do_open(), -KVM_EOPNOTSUPP);
	mem->attr.model = named | 0x33u << KVM_PERF_MODEL_KIND_SHIFT;
	is("one of a kind that there is not: EOPNOTSUPP", do_open(), -KVM_EOPNOTSUPP);
	mem->attr.model = (named ^ 1) | (u32)kind_cores[1] << KVM_PERF_MODEL_KIND_SHIFT;
	is("one of a kind of another model: EOPNOTSUPP", do_open(), -KVM_EOPNOTSUPP);
	mem->attr.model = named | (u32)kind_cores[1] << KVM_PERF_MODEL_KIND_SHIFT;
	create_error = -ENOMEM;
	is("without memory for the kind that a raw event names: ENOSPC", do_open(),
	   -KVM_ENOSPC);
	is("one that names a kind opens", do_open(), 0);
	is("on the other kind it has no counter: EBUSY", call(3, 2), -KVM_EBUSY);
	start = clock_ns;
	for (i = 0; i < 2200; i++) {
		CHECK(call(3, 2) == -KVM_EBUSY);
		enter_guest();
	}
	is("a guest that keeps asking for it there does not have to wait", clock_ns - start, 0);
	to_cpu(EFFICIENCY_CPU);
	enter_counting();
	is("on its own kind it has one", call(3, 2), 0);
	run_guest(7);
	is("it counts there", counted_now(2), 7);
	to_cpu(PERFORMANCE_CPU);
	enter_counting();
	is("where it does not exist, it loses its counter",
	   !!(mem->record[2].flags & KVM_PERF_EVENT_LOST), true);
	run_guest(10);
	is("it counts nothing there: EBUSY", call(5, 2), -KVM_EBUSY);
	is("its count stays", mem->record[2].count, 7);
	to_cpu(EFFICIENCY_CPU);
	enter_counting();
	run_guest(3);
	is("back on its kind it counts nothing", mem->record[2].count, 7);
	is("until READ restarts it", call(5, 2), -KVM_EBUSY);
	run_guest(3);
	is("it counts on", counted_now(2), 10);
	teardown();

	setup();
	to_cpu(EFFICIENCY_CPU);
	param(1, 1);
	mem->attr.type = KVM_PERF_TYPE_HW_CACHE;
	mem->attr.config = PERF_COUNT_HW_CACHE_DTLB;
	is("an event that another kind has opens", do_open(), 0);
	is("with a backing event for that kind only", nr_backings(), 1);
	is("it has no counter here: EBUSY", call(3, 1), -KVM_EBUSY);
	to_cpu(PERFORMANCE_CPU);
	enter_counting();
	CHECK(!call(3, 1));
	run_guest(20);
	is("it counts where it exists", counted_now(1), 20);
	is("with the same backing event", nr_backings(), 1);
	teardown();
}

static void test_hybrid_count(void)
{
	struct guest_perf_event *r;
	struct task_struct *old;
	int i;

	setup();
	r = &mem->record[1];
	open_sampling(1, 1000);
	open_id(2);
	open_id(3);
	CHECK(!call(3, 1) && !call(3, 2));
	enter_counting();
	run_guest(300);
	is("where a VM stays on one kind, it has one backing event each", nr_backings(), 3);
	to_cpu(EFFICIENCY_CPU);
	is("on a CPU of another kind, the entry is given up", entry_goes_on(), false);
	enter_counting();
	is("enabled events have another backing event there", nr_backings(), 5);
	run_guest(300);
	is("the count goes on", counted_now(1), 600);
	is("the times go on", r->time_enabled == 600 && r->time_running == 600, true);
	is("the period goes on", r->period_left, 400);
	to_cpu(PERFORMANCE_CPU);
	enter_counting();
	is("back on the first kind, the first backing events go on", nr_backings(), 5);
	run_guest(399);
	is("before its end, the period has not ended", enter_counting(), 0);
	to_cpu(EFFICIENCY_CPU);
	enter_counting();
	run_guest(1);
	is("a period that began on one kind ends on the other, exactly", enter_counting(), 1);
	is("the overflow is told", r->overflows, 1);
	for (i = 0; i < 1000; i++) {
		to_cpu(i & 1 ? EFFICIENCY_CPU : PERFORMANCE_CPU);
		enter_counting();
		run_guest(7);
	}
	enter_counting();
	is("after 1,000 moves the count is exact", counted_now(1), 8000);
	is("the other's, too", counted_now(2), 8000);
	is("so are the overflows", r->overflows, 8);
	is("a disabled event is enabled there", call(3, 3), 0);
	run_guest(5);
	is("it counts", counted_now(3), 5);

	create_error = -ENOMEM;
	old = tasks[0];
	tasks[0] = task_create(PERFORMANCE_CPU);
	on(0);
	task_exit(old);
	pv_perf_vcpu_run(vcpus[0]);
	enter_counting();
	is("on another thread one event finds no memory",
	   is_lost(1) + is_lost(2) + is_lost(3), 1);
	CHECK(!call(3, 1) && !call(3, 2) && !call(3, 3));
	run_guest(10);
	is("the others go on there", counted_now(2), 8015);
	is("and keep none of the old thread", nr_backings() <= 6, true);
	to_cpu(EFFICIENCY_CPU);
	create_error = -ENOMEM;
	enter_counting();
	is("without memory for another kind, an event is lost",
	   is_lost(1) + is_lost(2) + is_lost(3), 1);
	CHECK(!call(3, 1) && !call(3, 2) && !call(3, 3));
	run_guest(10);
	is("until it is enabled again", counted_now(1) + counted_now(2) + counted_now(3),
	   8025 + 8025 + 25);
	CHECK(!call(2, 1) && !call(2, 2) && !call(2, 3));
	is("CLOSE releases all backing events", nr_backings(), 0);
	teardown();
}

/* One thread runs both vCPUs in turn, and an event moves between them. */
static void test_hybrid_turns(void)
{
	int i;

	setup();
	CHECK(!open_id(1) && !call(3, 1));
	for (i = 0; i < 20; i++) {
		int vcpu = i & 1;

		to_cpu(i & 2 ? EFFICIENCY_CPU : PERFORMANCE_CPU);
		pv_perf_vcpu_run(vcpus[vcpu]);
		CHECK(!pv_perf_hypercall(vcpus[vcpu], KVM_PERF_OP_ENABLE, 1, 0, 0));
	}
	is("an event that moves between vCPUs and kinds has a backing event for each kind",
	   nr_backings(), 2);
	teardown();
}

/* perf changes the event select of a backing event, which is then not kept. */
static void test_hybrid_select(void)
{
	u64 misses = hw_event_config[PERF_COUNT_HW_CACHE_MISSES];
	int cpu;

	setup();
	hw_event_config[PERF_COUNT_HW_CACHE_MISSES] = 0xb7;
	param(1, 1);
	mem->attr.type = KVM_PERF_TYPE_HARDWARE;
	mem->attr.config = PERF_COUNT_HW_CACHE_MISSES;
	CHECK(!do_open());
	register_taken = true;
	CHECK(!call(KVM_PERF_OP_ENABLE, 1));
	for (cpu = 0; cpu < 4; cpu++) {
		to_cpu(cpu % 2 ? EFFICIENCY_CPU : PERFORMANCE_CPU);
		enter_counting();
		run_guest(10);
	}
	CHECK((event(1)->backing->hw.config & 0xff) == 0xbb);
	deny(0xbb);
	to_cpu(PERFORMANCE_CPU);
	enter_counting();
	run_guest(10);
	is("the filter does not apply to perf's config on another kind of core",
	   is_lost(1), false);
	register_taken = false;
	hw_event_config[PERF_COUNT_HW_CACHE_MISSES] = misses;
	teardown();
}

static void test_hybrid_lost(void)
{
	struct guest_perf_event *r;
	struct task_struct *other;

	setup();
	r = &mem->record[1];
	open_notify(1, 1000);
	CHECK(!call(3, 1));
	enter_counting();
	run_guest(300);
	other = task_create(EFFICIENCY_CPU);
	take_counters(other, NR_COUNTERS - 1);
	to_cpu(EFFICIENCY_CPU);
	is("a kind without a free counter: the guest gets an NMI", enter_counting(), 1);
	is("its event is lost", !!(r->flags & KVM_PERF_EVENT_LOST), true);
	run_guest(50);
	to_cpu(PERFORMANCE_CPU);
	enter_counting();
	run_guest(50);
	is("it stays lost on the other kind", r->count, 300);
	is("until READ restarts it", call(5, 1), -KVM_EBUSY);
	run_guest(50);
	is("it counts on", counted_now(1), 350);
	take_counters(other, 0);
	task_put(other);
	teardown();

	setup();
	r = &mem->record[1];
	open_sampling(1, 100);
	CHECK(!call(3, 1));
	enter_counting();
	run_guest(100);
	throttle(event(1)->backing);
	to_cpu(EFFICIENCY_CPU);
	enter_counting();
	is("an event that perf throttled goes on on another kind", event(1)->backing->hw.state,
	   0);
	run_guest(99);
	is("where its period was", (call(5, 1), r->count == 199 && r->period_left == 1), true);
	teardown();
}

static void test_hybrid_retired(void)
{
	struct guest_perf_event *r;

	setup();
	r = &mem->record[1];
	open_sampling(1, 100);
	CHECK(!call(3, 1));
	enter_counting();
	run_guest(97);
	to_cpu(EFFICIENCY_CPU);
	pv_perf_instruction_retired(here());
	enter_counting();
	is("an instruction that KVM completes after a move counts", counted_now(1), 98);
	is("and is taken from the period", r->period_left, 2);
	run_guest(1);
	to_cpu(PERFORMANCE_CPU);
	pv_perf_instruction_retired(here());
	run_guest(0);
	is("it can end a period", enter_counting(), 1);
	is("which is told", r->overflows == 1 && r->last_period == 100, true);
	is("a whole period follows", (call(5, 1), r->period_left), 100);
	to_cpu(EFFICIENCY_CPU);
	pv_perf_instruction_retired(here());
	enter_counting();
	is("from it, too, is taken", (call(5, 1), r->period_left), 99);
	teardown();
}

static void test_hybrid_freq(void)
{
	setup();
	param(1, 1);
	mem->attr.sample_period = 1000;
	mem->attr.flags = KVM_PERF_ATTR_FREQ;
	CHECK(!do_open() && !call(3, 1));
	enter_counting();
	pv_perf_counter_set_period(event(1)->backing, 5000);
	to_cpu(EFFICIENCY_CPU);
	enter_counting();
	is("a period that follows a frequency goes over to another kind",
	   pv_perf_backing_period(event(1)->backing), 5000);
	is("SET_PERIOD there", call3(7, 1, 2000, 0), 0);
	to_cpu(PERFORMANCE_CPU);
	enter_counting();
	is("holds back on the first", pv_perf_backing_period(event(1)->backing), 2500);
	teardown();
}

static void test_hybrid_rdpmc(void)
{
	u32 index;

	cpu_has_pdcm = true;
	perf_capabilities = FULL_WIDTH_WRITES;
	pmu_capability.version = 5;
	*param_pv_perf_rdpmc = 1;
	set_hybrid(true);
	setup_rdpmc();
	start_rdpmc(1, 0);
	start_rdpmc(2, 1000);
	is("RDPMC on a performance core", reads(), true);
	index = mem->record[1].pmc;
	run_guest(300);
	cpus[EFFICIENCY_CPU].pmc[2] = 0x1234;
	to_cpu(EFFICIENCY_CPU);
	is("RDPMC on an efficiency core", reads(), true);
	is("with another index, or anew", mem->record[1].pmc != index, true);
	is("what was in another counter there is gone", cpus[EFFICIENCY_CPU].pmc[2], 0);
	run_guest(300);
	is("the count goes on", counted_now(1), 600);
	is("a counter that only the other kind has is none of its",
	   pv_perf_rdpmc(here(), NR_COUNTERS - 1, &(u64){ 0 }), false);
	teardown();
	*param_pv_perf_rdpmc = 0;
	cpu_has_pdcm = false;
	perf_capabilities = 0;
	pmu_capability.version = 2;
}

/* CPUs that were offline when KVM was loaded. */
static void test_hybrid_late_cpu(void)
{
	const struct pv_perf_kind *unknown = &pv_perf_kinds[PV_PERF_MAX_KINDS];
	struct guest_perf_event *r;
	int cpu;

	setup();
	r = &mem->record[1];
	open_id(1);
	CHECK(!call(3, 1));
	enter_counting();
	run_guest(10);
	per_cpu(pv_perf_cpu_kind, EFFICIENCY_CPU + 1) = unknown;
	to_cpu(EFFICIENCY_CPU + 1);
	enter_counting();
	run_guest(10);
	is("on a CPU that comes online after KVM is loaded, an event goes on",
	   counted_now(1), 20);
	per_cpu(pv_perf_cpu_kind, EFFICIENCY_CPU + 1) = unknown;
	alloc_faults = (struct faults) { .fail_at = 1 };
	is("without memory, the kind of such a CPU stays unknown",
	   pv_perf_kind_of_cpu(EFFICIENCY_CPU + 1) == unknown, true);
	alloc_faults = (struct faults) { };
	is("KVM asks again", pv_perf_kind_of_cpu(EFFICIENCY_CPU + 1) == &pv_perf_kinds[1],
	   true);
	CHECK(!call(KVM_PERF_OP_CLOSE, 1));
	to_cpu(PERFORMANCE_CPU);
	enter_counting();
	pv_perf_nr_kinds = 1;
	for (cpu = EFFICIENCY_CPU; cpu < NR_CPUS; cpu++)
		per_cpu(pv_perf_cpu_kind, cpu) = unknown;
	open_id(1);
	CHECK(!call(3, 1));
	enter_counting();
	run_guest(10);
	to_cpu(EFFICIENCY_CPU);
	enter_counting();
	run_guest(10);
	is("on a CPU of a kind that KVM does not know, an event has no counter",
	   !!(r->flags & KVM_PERF_EVENT_LOST), true);
	is("and does not count: EBUSY", call(5, 1), -KVM_EBUSY);
	is("an event opens there", open_id(2), 0);
	is("and has no counter: EBUSY", call(3, 2), -KVM_EBUSY);
	to_cpu(PERFORMANCE_CPU);
	enter_counting();
	CHECK(!call(3, 1) && !call(3, 2));
	run_guest(10);
	is("back on a known kind, the event counts on", counted_now(1), 20);
	is("the event that was opened elsewhere counts, too", counted_now(2), 10);
	teardown();

	for (cpu = 0; cpu < NR_CPUS; cpu++)
		cpu_kinds[cpu] = 0;
	tasks[0] = task_create(0);
	on(0);
	alloc_faults = (struct faults) { .fail_at = 1 };
	is("a host whose PMUs perf does not tell offers nothing", now_available(), false);
	alloc_faults = (struct faults) { };
	pmu_capability.version = 1;
	is("a hybrid host without version 2 offers nothing", now_available(), false);
	pmu_capability.version = 2;
	pmu_capability.num_counters_gp = 0;
	is("a hybrid host without counters offers nothing", now_available(), false);
	pmu_capability.num_counters_gp = NR_COUNTERS;
	task_put(tasks[0]);
}

static void test_hybrid(void)
{
	set_hybrid(true);
	test_hybrid_offer();
	test_hybrid_count();
	test_hybrid_turns();
	test_hybrid_select();
	test_hybrid_lost();
	test_hybrid_retired();
	test_hybrid_freq();
	test_hybrid_rdpmc();
	test_hybrid_late_cpu();
	set_hybrid(false);
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
	test_hybrid();
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
	test_beside();
	test_beside_host();
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
	test_change_rate_of_former_thread();
	test_wait_signal();
	test_rate();
	test_rate_after_rest();
	test_told_throttled();
	test_own_rate();
	test_nested_host();
	test_modes();
	test_nmi();
	test_open_branches();
	test_branches_shown();
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
	test_read_at_exit();
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
