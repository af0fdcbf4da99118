// SPDX-License-Identifier: GPL-2.0-only
/*
 * Paravirtual performance events: the hypercall KVM_PERF_OP, its errors, counts
 * and overflows, and what the VMM may limit.
 *
 * asm/kvm_pv_perf.h is the contract.
 */
#include <linux/perf_event.h>
#include <linux/sizes.h>

#include <asm/kvm_para.h>
#include <asm/kvm_pv_perf.h>

#include "test_util.h"
#include "kvm_util.h"
#include "kvm_test_harness.h"
#include "pmu.h"
#include "processor.h"
#include "ucall_common.h"

#define NR_RECORDS	16

/* Two instructions each time around. */
#define LOOPS		100000
#define INSTRUCTIONS	(2 * LOOPS)

/* What the guest executes around a loop between two hypercalls, at most. */
#define AROUND		1000

/* Between two overflows, and how many of them the loop has. */
#define PERIOD		20000
#define OVERFLOWS	(INSTRUCTIONS / PERIOD)

/* Memory that the guest passes to the host. */
struct area {
	struct guest_perf_event record[NR_RECORDS];
	struct guest_perf_event_param param;
	struct guest_perf_attr attr;
	struct guest_perf_query query;
	struct guest_perf_op ops[KVM_PERF_BATCH_MAX];
};

/* The guest's address of it, and the guest-physical one; the VMM sets them. */
static struct area *area;
static u64 area_gpa;

/* The NMI handler adds to them: for READ_ONCE(). */
static u64 nmis, overflows[NR_RECORDS];

static u64 gpa_of(const void *p)
{
	return area_gpa + ((char *)p - (char *)area);
}

static long op(u64 nr, u32 id, u64 arg)
{
	return kvm_hypercall(KVM_PERF_OP, nr, id, (u32)arg, arg >> 32);
}

static long op_gpa(u64 nr, u64 gpa, u64 n)
{
	return kvm_hypercall(KVM_PERF_OP, nr, (u32)gpa, gpa >> 32, n);
}

static long op_addr(u64 nr, const void *p)
{
	return op_gpa(nr, gpa_of(p), 0);
}

/* Instructions, in any mode. */
static void fill_open(u32 id, u64 period)
{
	area->attr = (struct guest_perf_attr) {
		.size		= sizeof(area->attr),
		.type		= KVM_PERF_TYPE_HARDWARE,
		.config		= PERF_COUNT_HW_INSTRUCTIONS,
		.sample_period	= period,
	};
	area->param = (struct guest_perf_event_param) {
		.attr_addr	= gpa_of(&area->attr),
		.event_addr	= gpa_of(&area->record[id]),
		.id		= id,
	};
}

static long do_open(void)
{
	return op_addr(KVM_PERF_OP_OPEN, &area->param);
}

static long open_event(u32 id, u64 period)
{
	fill_open(id, period);
	return do_open();
}

/* Keeps nothing on the stack, as an NMI may come in between. */
static noinline void burn(u64 n)
{
	asm volatile("1: dec %0; jnz 1b" : "+r"(n) : : "memory");
}

static void assert_counted(u64 count, u64 instructions)
{
	GUEST_ASSERT(count >= instructions);
	GUEST_ASSERT(count <= instructions + AROUND);
}

static void handle_nmi(struct ex_regs *regs)
{
	int i;

	nmis++;
	for (i = 0; i < NR_RECORDS; i++)
		overflows[i] += __atomic_exchange_n(&area->record[i].overflows,
						    0, __ATOMIC_SEQ_CST);
}

static void run(struct kvm_vcpu *vcpu)
{
	struct ucall uc;

	vcpu_run(vcpu);
	TEST_ASSERT_KVM_EXIT_REASON(vcpu, KVM_EXIT_IO);
	switch (get_ucall(vcpu, &uc)) {
	case UCALL_ABORT:
		REPORT_GUEST_ASSERT(uc);
		break;
	case UCALL_DONE:
		break;
	default:
		TEST_FAIL("Unexpected ucall %lu", uc.cmd);
	}
}

static void init_vm(struct kvm_vm *vm)
{
	gva_t gva = vm_alloc(vm, sizeof(struct area), KVM_UTIL_MIN_VADDR);
	struct area *guest_area = (struct area *)gva;
	u64 gpa = addr_gva2gpa(vm, gva);

	memset(addr_gva2hva(vm, gva), 0, sizeof(struct area));
	write_guest_global(vm, area, guest_area);
	write_guest_global(vm, area_gpa, gpa);
	vm_install_exception_handler(vm, NMI_VECTOR, handle_nmi);
}

static void run_guest(struct kvm_vcpu *vcpu)
{
	init_vm(vcpu->vm);
	run(vcpu);
}

KVM_ONE_VCPU_TEST_SUITE(pv_perf);

static void guest_query(void)
{
	struct guest_perf_query *query = &area->query;

	query->size = sizeof(*query);
	GUEST_ASSERT_EQ(op_addr(KVM_PERF_OP_QUERY, query), 0);
	GUEST_ASSERT_EQ(query->size, sizeof(*query));
	GUEST_ASSERT_EQ(query->version, KVM_PERF_ABI_VERSION);
	GUEST_ASSERT(query->features & KVM_PERF_FEATURE_SAMPLING);
	GUEST_ASSERT(query->features & KVM_PERF_FEATURE_BATCH);
	GUEST_ASSERT(query->nr_counters);
	GUEST_ASSERT(query->max_events);
	GUEST_ASSERT_EQ(query->fixed_counters >> KVM_PERF_NR_FIXED_COUNTERS, 0);
	GUEST_ASSERT(query->hw_config[PERF_COUNT_HW_INSTRUCTIONS]);
	GUEST_ASSERT_EQ(query->hw_config[PERF_COUNT_HW_INSTRUCTIONS] &
			~query->raw_event_mask, 0);

	/* A guest that knows more than the host, and one that knows less. */
	query->size = SZ_4K;
	GUEST_ASSERT_EQ(op_addr(KVM_PERF_OP_QUERY, query), 0);
	GUEST_ASSERT_EQ(query->size, sizeof(*query));
	query->size = GUEST_PERF_QUERY_SIZE_VER0 - 1;
	GUEST_ASSERT_EQ(op_addr(KVM_PERF_OP_QUERY, query), -KVM_EINVAL);
	GUEST_ASSERT_EQ(op_gpa(KVM_PERF_OP_QUERY, gpa_of(query) + 4, 0),
			-KVM_EINVAL);
	GUEST_ASSERT_EQ(op_gpa(KVM_PERF_OP_QUERY, 1ull << 51, 0), -KVM_EFAULT);
	GUEST_DONE();
}

KVM_ONE_VCPU_TEST(pv_perf, query, guest_query)
{
	run_guest(vcpu);
}

static void guest_arguments(void)
{
	u64 too_long = 1ull << 32;

	GUEST_ASSERT_EQ(op(0, 0, 0), -KVM_ENOSYS);
	GUEST_ASSERT_EQ(op(KVM_PERF_OP_SET_COUNTS + 1, 0, 0), -KVM_ENOSYS);
	GUEST_ASSERT_EQ(op(KVM_PERF_OP_RESET | too_long, 0, 0), -KVM_ENOSYS);
	GUEST_ASSERT_EQ(kvm_hypercall(KVM_PERF_OP, KVM_PERF_OP_CLOSE, too_long,
				      0, 0), -KVM_EINVAL);
	GUEST_ASSERT_EQ(kvm_hypercall(KVM_PERF_OP, KVM_PERF_OP_CLOSE, 0,
				      too_long, 0), -KVM_EINVAL);

	GUEST_ASSERT_EQ(op(KVM_PERF_OP_CLOSE, 1, 0), -KVM_ENOENT);
	GUEST_ASSERT_EQ(op(KVM_PERF_OP_ENABLE, 1, 0), -KVM_ENOENT);
	GUEST_ASSERT_EQ(op(KVM_PERF_OP_DISABLE, 1, 0), -KVM_ENOENT);
	GUEST_ASSERT_EQ(op(KVM_PERF_OP_READ, 1, 0), -KVM_ENOENT);
	GUEST_ASSERT_EQ(op(KVM_PERF_OP_READ, KVM_PERF_ID_ALL, 0), -KVM_ENOENT);
	GUEST_ASSERT_EQ(op(KVM_PERF_OP_SET_PERIOD, 1, 1), -KVM_ENOENT);
	GUEST_ASSERT_EQ(op(KVM_PERF_OP_SET_LEFT, 1, 1), -KVM_ENOENT);
	GUEST_ASSERT_EQ(op(KVM_PERF_OP_SET_COUNTS, 1, 0), -KVM_EINVAL);
	GUEST_ASSERT_EQ(op(KVM_PERF_OP_RESET, 0, 0), 0);
	GUEST_DONE();
}

KVM_ONE_VCPU_TEST(pv_perf, arguments, guest_arguments)
{
	run_guest(vcpu);
}

/* OPEN of what fill_open() has made, with one change. */
#define ASSERT_OPEN(want, change)			\
do {							\
	fill_open(0, 0);				\
	change;						\
	GUEST_ASSERT_EQ(do_open(), want);		\
} while (0)

static void guest_open(void)
{
	struct guest_perf_event_param *param = &area->param;
	struct guest_perf_attr *attr = &area->attr;

	ASSERT_OPEN(-KVM_EINVAL, param->reserved = 1);
	ASSERT_OPEN(-KVM_EINVAL, param->id = KVM_PERF_ID_ALL);
	ASSERT_OPEN(-KVM_EINVAL, param->event_addr += 8);
	ASSERT_OPEN(-KVM_EINVAL, param->attr_addr += 4);
	ASSERT_OPEN(-KVM_EFAULT, param->event_addr = 1ull << 51);
	ASSERT_OPEN(-KVM_EFAULT, param->attr_addr = 1ull << 51);
	ASSERT_OPEN(-KVM_EINVAL, attr->size = GUEST_PERF_ATTR_SIZE_VER0 - 1);
	ASSERT_OPEN(-KVM_EINVAL, attr->size = GUEST_PERF_ATTR_SIZE_MAX + 1);
	ASSERT_OPEN(-KVM_EINVAL, attr->type = PERF_TYPE_SOFTWARE);
	ASSERT_OPEN(-KVM_EINVAL, attr->flags = 1ull << 31);
	ASSERT_OPEN(-KVM_EINVAL, attr->model = 1);
	ASSERT_OPEN(-KVM_EINVAL, attr->flags = KVM_PERF_ATTR_FREQ);
	ASSERT_OPEN(-KVM_EINVAL, attr->sample_period = 1ull << 63);
	ASSERT_OPEN(-KVM_EOPNOTSUPP, attr->config1 = 1);
	ASSERT_OPEN(-KVM_EOPNOTSUPP, attr->config2 = 1);
	ASSERT_OPEN(-KVM_EINVAL, attr->config = KVM_PERF_NR_HW_EVENTS);
	ASSERT_OPEN(-KVM_EINVAL, { attr->type = KVM_PERF_TYPE_RAW;
				   attr->config = 1ull << 63; });
	ASSERT_OPEN(-KVM_EOPNOTSUPP, { attr->type = KVM_PERF_TYPE_RAW;
				       attr->model = -1; });

	/* What a later version has, unused and used. */
	memset(&area->query, 0, sizeof(area->query));
	ASSERT_OPEN(0, attr->size += 8);
	GUEST_ASSERT_EQ(op(KVM_PERF_OP_CLOSE, 0, 0), 0);
	ASSERT_OPEN(-KVM_EINVAL, { attr->size += 8; attr[1].size = 1; });

	/* It zeroes the record, and only that of an event that it opens. */
	memset(&area->record[0], 0xff, sizeof(area->record[0]));
	ASSERT_OPEN(-KVM_EINVAL, param->reserved = 1);
	GUEST_ASSERT_EQ(area->record[0].count, ~0ull);
	ASSERT_OPEN(0, (void)0);
	GUEST_ASSERT_EQ(area->record[0].count, 0);
	GUEST_ASSERT_EQ(area->record[0].overflows, 0);
	ASSERT_OPEN(-KVM_EEXIST, (void)0);

	GUEST_ASSERT_EQ(op(KVM_PERF_OP_SET_PERIOD, 0, 1), -KVM_EINVAL);
	GUEST_ASSERT_EQ(op(KVM_PERF_OP_SET_LEFT, 0, 1), -KVM_EINVAL);
	GUEST_ASSERT_EQ(op(KVM_PERF_OP_CLOSE, 0, 0), 0);
	GUEST_ASSERT_EQ(op(KVM_PERF_OP_CLOSE, 0, 0), -KVM_ENOENT);
	GUEST_DONE();
}

KVM_ONE_VCPU_TEST(pv_perf, open, guest_open)
{
	run_guest(vcpu);
}

static void guest_count(void)
{
	struct guest_perf_event *record = &area->record[1];
	u64 count;

	GUEST_ASSERT_EQ(open_event(1, 0), 0);
	burn(LOOPS);
	GUEST_ASSERT_EQ(op(KVM_PERF_OP_READ, 1, 0), 0);
	GUEST_ASSERT_EQ(record->count, 0);

	GUEST_ASSERT_EQ(op(KVM_PERF_OP_ENABLE, 1, 0), 0);
	burn(LOOPS);
	GUEST_ASSERT_EQ(op(KVM_PERF_OP_READ, 1, 0), 0);
	assert_counted(record->count, INSTRUCTIONS);
	GUEST_ASSERT_EQ(record->sequence & 1, 0);
	GUEST_ASSERT(record->time_enabled);
	GUEST_ASSERT_EQ(record->time_enabled, record->time_running);
	GUEST_ASSERT_EQ(record->period_left, 0);

	burn(LOOPS);
	GUEST_ASSERT_EQ(op(KVM_PERF_OP_READ, KVM_PERF_ID_ALL, 0), 0);
	assert_counted(record->count, 2 * INSTRUCTIONS);

	/* Stopped, it does not count; started again, it carries on. */
	GUEST_ASSERT_EQ(op(KVM_PERF_OP_DISABLE, 1, 0), 0);
	count = record->count;
	burn(LOOPS);
	GUEST_ASSERT_EQ(op(KVM_PERF_OP_READ, 1, 0), 0);
	GUEST_ASSERT_EQ(record->count, count);
	GUEST_ASSERT_EQ(op(KVM_PERF_OP_READ, KVM_PERF_ID_ALL, 0), -KVM_ENOENT);
	GUEST_ASSERT_EQ(op(KVM_PERF_OP_ENABLE, 1, 0), 0);
	burn(LOOPS);
	GUEST_ASSERT_EQ(op(KVM_PERF_OP_DISABLE, 1, 0), 0);
	assert_counted(record->count, 3 * INSTRUCTIONS);

	/* The record is the guest's again. */
	GUEST_ASSERT_EQ(op(KVM_PERF_OP_CLOSE, 1, 0), 0);
	memset(record, 0xaa, sizeof(*record));
	burn(LOOPS);
	GUEST_ASSERT_EQ(op(KVM_PERF_OP_READ, 1, 0), -KVM_ENOENT);
	GUEST_ASSERT_EQ(record->count, 0xaaaaaaaaaaaaaaaaull);
	GUEST_DONE();
}

KVM_ONE_VCPU_TEST(pv_perf, count, guest_count)
{
	run_guest(vcpu);
}

static void guest_flags(void)
{
	fill_open(0, 0);
	area->attr.flags = KVM_PERF_ATTR_EXCLUDE_KERNEL;
	GUEST_ASSERT_EQ(do_open(), 0);
	fill_open(1, 0);
	area->attr.flags = KVM_PERF_ATTR_EXCLUDE_USER;
	GUEST_ASSERT_EQ(do_open(), 0);

	GUEST_ASSERT_EQ(op(KVM_PERF_OP_ENABLE, 0, 0), 0);
	GUEST_ASSERT_EQ(op(KVM_PERF_OP_ENABLE, 1, 0), 0);
	burn(LOOPS);
	GUEST_ASSERT_EQ(op(KVM_PERF_OP_READ, KVM_PERF_ID_ALL, 0), 0);
	/* All of this is CPL 0. */
	GUEST_ASSERT_EQ(area->record[0].count, 0);
	assert_counted(area->record[1].count, INSTRUCTIONS);
	GUEST_DONE();
}

KVM_ONE_VCPU_TEST(pv_perf, flags, guest_flags)
{
	run_guest(vcpu);
}

static void set_op(int i, u32 nr, u32 id, u64 arg)
{
	area->ops[i] = (struct guest_perf_op) {
		.op = nr, .id = id, .arg = arg, .result = 1
	};
}

static long batch(u64 n)
{
	return op_gpa(KVM_PERF_OP_BATCH, gpa_of(area->ops), n);
}

static void guest_batch(void)
{
	fill_open(2, 0);
	set_op(0, KVM_PERF_OP_OPEN, 0, gpa_of(&area->param));
	set_op(1, KVM_PERF_OP_ENABLE, 3, 0);
	set_op(2, KVM_PERF_OP_ENABLE, 2, 0);
	set_op(3, KVM_PERF_OP_BATCH, 0, gpa_of(area->ops));
	set_op(4, KVM_PERF_OP_READ, 2, 0);
	area->ops[4].reserved = 1;
	GUEST_ASSERT_EQ(batch(5), 0);
	GUEST_ASSERT_EQ(area->ops[0].result, 0);
	GUEST_ASSERT_EQ(area->ops[1].result, -KVM_ENOENT);
	GUEST_ASSERT_EQ(area->ops[2].result, 0);
	GUEST_ASSERT_EQ(area->ops[3].result, -KVM_EINVAL);
	GUEST_ASSERT_EQ(area->ops[4].result, -KVM_EINVAL);

	burn(LOOPS);
	set_op(0, KVM_PERF_OP_DISABLE, 2, 0);
	set_op(1, KVM_PERF_OP_CLOSE, 2, 0);
	GUEST_ASSERT_EQ(batch(2), 0);
	GUEST_ASSERT_EQ(area->ops[0].result, 0);
	GUEST_ASSERT_EQ(area->ops[0].arg, area->record[2].count);
	GUEST_ASSERT_EQ(area->ops[1].result, 0);
	assert_counted(area->record[2].count, INSTRUCTIONS);

	GUEST_ASSERT_EQ(batch(0), -KVM_EINVAL);
	GUEST_ASSERT_EQ(batch(KVM_PERF_BATCH_MAX + 1), -KVM_EINVAL);
	GUEST_ASSERT_EQ(op_gpa(KVM_PERF_OP_BATCH, gpa_of(area->ops) + 4, 1),
			-KVM_EINVAL);
	GUEST_ASSERT_EQ(op_gpa(KVM_PERF_OP_BATCH, 1ull << 51, 1), -KVM_EFAULT);
	GUEST_DONE();
}

KVM_ONE_VCPU_TEST(pv_perf, batch, guest_batch)
{
	run_guest(vcpu);
}

static void guest_sample(void)
{
	struct guest_perf_event *record = &area->record[4];
	u64 told;

	GUEST_ASSERT_EQ(open_event(4, PERIOD), 0);
	GUEST_ASSERT_EQ(op(KVM_PERF_OP_ENABLE, 4, 0), 0);
	burn(LOOPS);
	GUEST_ASSERT_EQ(op(KVM_PERF_OP_DISABLE, 4, 0), 0);

	/* The handler's own instructions count as well. */
	told = READ_ONCE(overflows[4]);
	GUEST_ASSERT(told >= OVERFLOWS);
	GUEST_ASSERT(told <= record->count / PERIOD);
	GUEST_ASSERT(READ_ONCE(nmis) >= 1 && READ_ONCE(nmis) <= told);
	GUEST_ASSERT(record->last_period >= PERIOD);
	GUEST_ASSERT(record->period_left >= 1 && record->period_left <= PERIOD);

	/* No overflow without an event that counts. */
	told = READ_ONCE(nmis);
	burn(LOOPS);
	GUEST_ASSERT_EQ(READ_ONCE(nmis), told);

	/* A rest of a period, once. */
	GUEST_ASSERT_EQ(op(KVM_PERF_OP_SET_LEFT, 4, 1ull << 63), -KVM_EINVAL);
	GUEST_ASSERT_EQ(op(KVM_PERF_OP_SET_LEFT, 4, INSTRUCTIONS / 2), 0);
	told = READ_ONCE(overflows[4]);
	GUEST_ASSERT_EQ(op(KVM_PERF_OP_ENABLE, 4, 0), 0);
	burn(LOOPS / 4);
	GUEST_ASSERT_EQ(READ_ONCE(overflows[4]), told);
	burn(LOOPS / 2);
	GUEST_ASSERT(READ_ONCE(overflows[4]) > told);
	GUEST_ASSERT_EQ(op(KVM_PERF_OP_DISABLE, 4, 0), 0);

	/* Another period. */
	GUEST_ASSERT_EQ(op(KVM_PERF_OP_SET_PERIOD, 4, 0), -KVM_EINVAL);
	GUEST_ASSERT_EQ(op(KVM_PERF_OP_SET_PERIOD, 4, 10 * INSTRUCTIONS), 0);
	told = READ_ONCE(overflows[4]);
	GUEST_ASSERT_EQ(op(KVM_PERF_OP_ENABLE, 4, 0), 0);
	burn(LOOPS);
	GUEST_ASSERT_EQ(READ_ONCE(overflows[4]), told);

	/* Those that nobody closes do not outlive RESET. */
	GUEST_ASSERT_EQ(op(KVM_PERF_OP_RESET, 0, 0), 0);
	GUEST_ASSERT_EQ(op(KVM_PERF_OP_READ, 4, 0), -KVM_ENOENT);
	GUEST_DONE();
}

KVM_ONE_VCPU_TEST(pv_perf, sample, guest_sample)
{
	run_guest(vcpu);
}

static void guest_enable_there(void)
{
	GUEST_ASSERT_EQ(op(KVM_PERF_OP_ENABLE, 5, 0), 0);
	burn(LOOPS);
	GUEST_ASSERT_EQ(op(KVM_PERF_OP_READ, 5, 0), 0);
	assert_counted(area->record[5].count, 2 * INSTRUCTIONS);
	GUEST_DONE();
}

static void guest_enable_here(void)
{
	GUEST_ASSERT_EQ(open_event(5, 0), 0);
	GUEST_ASSERT_EQ(op(KVM_PERF_OP_ENABLE, 5, 0), 0);
	burn(LOOPS);
	GUEST_ASSERT_EQ(op(KVM_PERF_OP_READ, 5, 0), 0);
	assert_counted(area->record[5].count, INSTRUCTIONS);
	GUEST_DONE();
}

/* An event goes to the vCPU that enables it, and its count carries on. */
TEST(two_vcpus)
{
	struct kvm_vcpu *here, *there;
	struct kvm_vm *vm;

	vm = vm_create_with_one_vcpu(&here, guest_enable_here);
	there = vm_vcpu_add(vm, 1, guest_enable_there);
	init_vm(vm);
	run(here);
	run(there);
	kvm_vm_free(vm);
}

static void guest_refused(void)
{
	GUEST_ASSERT_EQ(op(KVM_PERF_OP_RESET, 0, 0), -KVM_ENOSYS);
	area->query.size = sizeof(area->query);
	GUEST_ASSERT_EQ(op_addr(KVM_PERF_OP_QUERY, &area->query), -KVM_ENOSYS);
	GUEST_ASSERT_EQ(open_event(0, 0), -KVM_ENOSYS);
	GUEST_DONE();
}

KVM_ONE_VCPU_TEST(pv_perf, no_cpuid_bit, guest_refused)
{
	vcpu_clear_cpuid_feature(vcpu, X86_FEATURE_KVM_PV_PERF);
	run_guest(vcpu);
}

static void guest_filtered(void)
{
	GUEST_ASSERT_EQ(open_event(0, 0), -KVM_EOPNOTSUPP);
	GUEST_DONE();
}

KVM_ONE_VCPU_TEST(pv_perf, event_filter, guest_filtered)
{
	struct {
		struct kvm_pmu_event_filter filter;
		u64 event;
	} deny = {
		.filter = { .action = KVM_PMU_EVENT_DENY, .nevents = 1 },
		/* Retired instructions, of AMD and of Intel. */
		.event = 0xc0,
	};

	vm_ioctl(vcpu->vm, KVM_SET_PMU_EVENT_FILTER, &deny.filter);
	run_guest(vcpu);
}

/* A VM whose VMM sets a limit. */
static void run_limited(u32 cap, u64 limit, void *guest_code)
{
	struct kvm_vcpu *vcpu;
	struct kvm_vm *vm = vm_create(1);

	TEST_ASSERT(vm_check_cap(vm, cap) > limit, "The host allows no more");
	vm_enable_cap(vm, cap, limit);
	TEST_ASSERT_EQ(vm_check_cap(vm, cap), limit);

	vcpu = vm_vcpu_add(vm, 0, guest_code);
	TEST_ASSERT(__vm_enable_cap(vm, cap, limit) && errno == EINVAL,
		    "A limit was set after a vCPU was created");
	run_guest(vcpu);
	kvm_vm_free(vm);
}

TEST(no_events)
{
	run_limited(KVM_CAP_PV_PERF_EVENTS, 0, guest_refused);
}

static void guest_two_events(void)
{
	GUEST_ASSERT_EQ(open_event(0, 0), 0);
	GUEST_ASSERT_EQ(open_event(1, 0), 0);
	GUEST_ASSERT_EQ(open_event(2, 0), -KVM_ENOSPC);
	GUEST_ASSERT_EQ(op(KVM_PERF_OP_CLOSE, 0, 0), 0);
	GUEST_ASSERT_EQ(open_event(2, 0), 0);
	GUEST_DONE();
}

TEST(two_events)
{
	run_limited(KVM_CAP_PV_PERF_EVENTS, 2, guest_two_events);
}

/* Raw, as there may be a fixed counter for a generic event. */
static long open_raw(u32 id)
{
	fill_open(id, 0);
	area->attr.type = KVM_PERF_TYPE_RAW;
	area->attr.config = area->query.hw_config[PERF_COUNT_HW_BRANCH_INSTRUCTIONS];
	return do_open();
}

static void guest_one_counter(void)
{
	area->query.size = sizeof(area->query);
	GUEST_ASSERT_EQ(op_addr(KVM_PERF_OP_QUERY, &area->query), 0);
	GUEST_ASSERT_EQ(area->query.nr_counters, 1);
	GUEST_ASSERT_EQ(open_raw(0), 0);
	GUEST_ASSERT_EQ(open_raw(1), 0);
	GUEST_ASSERT_EQ(op(KVM_PERF_OP_ENABLE, 0, 0), 0);
	GUEST_ASSERT_EQ(op(KVM_PERF_OP_ENABLE, 1, 0), -KVM_EBUSY);
	GUEST_ASSERT_EQ(op(KVM_PERF_OP_DISABLE, 0, 0), 0);
	GUEST_ASSERT_EQ(op(KVM_PERF_OP_ENABLE, 1, 0), 0);
	GUEST_DONE();
}

TEST(one_counter)
{
	run_limited(KVM_CAP_PV_PERF_COUNTERS, 1, guest_one_counter);
}

static void guest_no_sampling(void)
{
	area->query.size = sizeof(area->query);
	GUEST_ASSERT_EQ(op_addr(KVM_PERF_OP_QUERY, &area->query), 0);
	GUEST_ASSERT_EQ(area->query.features & KVM_PERF_FEATURE_SAMPLING, 0);
	GUEST_ASSERT_EQ(open_event(0, PERIOD), -KVM_EOPNOTSUPP);
	GUEST_ASSERT_EQ(open_event(0, 0), 0);
	GUEST_DONE();
}

TEST(no_sampling)
{
	run_limited(KVM_CAP_PV_PERF_RATE, 0, guest_no_sampling);
}

TEST(too_much)
{
	struct kvm_vm *vm = vm_create(1);
	u32 caps[] = { KVM_CAP_PV_PERF_EVENTS, KVM_CAP_PV_PERF_RATE,
		       KVM_CAP_PV_PERF_COUNTERS, KVM_CAP_PV_PERF_COUNTS };
	int i, max;

	for (i = 0; i < ARRAY_SIZE(caps); i++) {
		max = kvm_check_cap(caps[i]);
		TEST_ASSERT(max > 0, "No limit where there is the feature");
		TEST_ASSERT(__vm_enable_cap(vm, caps[i], max + 1ull) &&
			    errno == EINVAL, "More than the host allows");
		vm_enable_cap(vm, caps[i], max);
	}
	kvm_vm_free(vm);
}

int main(int argc, char *argv[])
{
	TEST_REQUIRE(kvm_cpu_has(X86_FEATURE_KVM_PV_PERF));

	return test_harness_run(argc, argv);
}
