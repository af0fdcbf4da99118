// SPDX-License-Identifier: GPL-2.0
/*
 * Unit tests of the host side: OPEN and its errors, the event filter, BATCH, RESET, and
 * memory that goes away.
 */
#include "unit.h"

UNIT_TEST(dispatch)
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

UNIT_TEST(open_malformed)
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

UNIT_TEST(open_refused)
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

UNIT_TEST(attr)
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

UNIT_TEST(charge)
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

UNIT_TEST(unknown_id)
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

UNIT_TEST(filter)
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
UNIT_TEST(filter_fixed)
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

UNIT_TEST(memslots)
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

UNIT_TEST(batch)
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
UNIT_TEST(reset)
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

UNIT_TEST(set_sregs)
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
