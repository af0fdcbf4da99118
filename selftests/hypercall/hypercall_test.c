// SPDX-License-Identifier: GPL-2.0
/*
 * Every operation and every error of the contract, from a guest.
 *
 * A reference event counts all the time: an operation that fails must not change it.
 *
 * Usage: hypercall_test		the contract
 *	  hypercall_test --absent	a VM without the feature
 *	  hypercall_test --core		a host without events of the hypervisor
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/kvm_para.h>
#include <linux/perf_event.h>

#include "kselftest.h"
#include "kvm_perf.h"
#include "kvm_perf_hypercall.h"

/* Away from the ids of the guest's own driver. */
#define ID		1000000
#define REF_ID		999999
#define NO_ID		999998

/* Beyond any machine's memory. */
#define NO_MEMORY	(1ULL << 45)

/* The layout of the shared memory. */
struct shared {
	struct guest_perf_event ref;
	struct guest_perf_event record[128];
	struct guest_perf_event_param param;
	struct guest_perf_attr attr;
	char after_attr[GUEST_PERF_ATTR_SIZE_MAX];
	struct guest_perf_query query;
	char after_query[64];
	struct guest_perf_op ops[KVM_PERF_BATCH_MAX + 1];
	_Alignas(GUEST_PERF_AREA_ALIGN) struct guest_perf_area area;
};

static int dev;
static struct shared *shared;
static uint64_t shared_phys;

static uint64_t phys(void *p)
{
	return shared_phys + ((char *)p - (char *)shared);
}

static long call3(uint64_t op, uint64_t a1, uint64_t a2, uint64_t a3)
{
	struct kvm_perf_hypercall c = {
		.nr = KVM_PERF_OP, .a = { op, a1, a2, a3 },
	};

	if (ioctl(dev, KVM_PERF_HYPERCALL_CALL, &c))
		ksft_exit_fail_msg("ioctl: %s\n", strerror(errno));

	return c.ret;
}

static long call(uint64_t op, uint64_t a1, uint64_t a2)
{
	return call3(op, a1, a2, 0);
}

static long call_addr(uint64_t op, uint64_t addr)
{
	return call(op, (uint32_t)addr, addr >> 32);
}

/* A hypercall from CPL 3, by AMD's or Intel's instruction. */
static long call_from_user(uint64_t op, uint64_t a1, uint64_t a2)
{
	unsigned int eax = 0, ebx, ecx, edx;
	long ret;

	__asm__("cpuid" : "+a"(eax), "=b"(ebx), "=c"(ecx), "=d"(edx));
	if (ecx == 0x6c65746e)	/* the end of GenuineIntel */
		__asm__ volatile("vmcall" : "=a"(ret)
				 : "a"(KVM_PERF_OP), "b"(op), "c"(a1), "d"(a2)
				 : "memory");
	else
		__asm__ volatile("vmmcall" : "=a"(ret)
				 : "a"(KVM_PERF_OP), "b"(op), "c"(a1), "d"(a2)
				 : "memory");
	return ret;
}

static void expect(const char *what, long got, long want)
{
	if (got != want)
		ksft_print_msg("%s: %ld, not %ld\n", what, got, want);
	ksft_test_result(got == want, "%s\n", what);
}

static void expect_true(const char *what, bool ok)
{
	ksft_test_result(ok, "%s\n", what);
}

/* Some hundred thousand instructions in user mode. */
static void burn(void)
{
	volatile int i;

	for (i = 0; i < 100000; i++)
		;
}

static void default_open(uint32_t id, struct guest_perf_event *record)
{
	memset(&shared->attr, 0, sizeof(shared->attr));
	memset(shared->after_attr, 0, sizeof(shared->after_attr));
	shared->attr.size = sizeof(shared->attr);
	shared->attr.type = KVM_PERF_TYPE_HARDWARE;
	shared->attr.config = PERF_COUNT_HW_INSTRUCTIONS;
	shared->param.attr_addr = phys(&shared->attr);
	shared->param.event_addr = phys(record);
	shared->param.id = id;
	shared->param.reserved = 0;
}

static long do_open(void)
{
	return call_addr(KVM_PERF_OP_OPEN, phys(&shared->param));
}

static long open_id(uint32_t id, struct guest_perf_event *record)
{
	default_open(id, record);
	return do_open();
}

static bool ref_counts(void)
{
	uint64_t before = shared->ref.count;

	burn();
	return !call(KVM_PERF_OP_READ, REF_ID, 0) &&
	       shared->ref.count > before + 100000 &&
	       !(shared->ref.sequence & 1);
}

/* A failed OPEN must not open an event or write to the record. */
static void expect_open_fails(const char *what, long want)
{
	struct guest_perf_event pattern;
	long ret, close_ret;
	bool clean;

	memset(&pattern, 0x5a, sizeof(pattern));
	shared->record[0] = pattern;
	ret = do_open();
	clean = !memcmp(&shared->record[0], &pattern, sizeof(pattern));
	close_ret = call(KVM_PERF_OP_CLOSE, ID, 0);
	if (close_ret != -KVM_ENOENT)
		ksft_print_msg("%s: it did open\n", what);
	if (!clean)
		ksft_print_msg("%s: it wrote the record\n", what);
	if (!ref_counts())
		ksft_print_msg("%s: the reference event has stopped\n", what);
	expect(what, clean && close_ret == -KVM_ENOENT && ref_counts() ?
	       ret : -9999, want);
}

static void test_dispatch(void)
{
	expect("operation 0: ENOSYS", call(0, 0, 0), -KVM_ENOSYS);
	expect("operation 13: ENOSYS", call(13, 0, 0), -KVM_ENOSYS);
	expect("operation 2^32 + READ: ENOSYS",
	       call((1ULL << 32) + KVM_PERF_OP_READ, REF_ID, 0), -KVM_ENOSYS);
	expect("READ from CPL 3: EPERM",
	       call_from_user(KVM_PERF_OP_READ, REF_ID, 0), -KVM_EPERM);
	expect("RESET from CPL 3: EPERM",
	       call_from_user(KVM_PERF_OP_RESET, 0, 0), -KVM_EPERM);
	expect("READ with bit 32 in the id: EINVAL",
	       call(KVM_PERF_OP_READ, (1ULL << 32) | REF_ID, 0), -KVM_EINVAL);
	expect("OPEN with bit 32 in the address's low half: EINVAL",
	       call(KVM_PERF_OP_OPEN, 1ULL << 32, 0), -KVM_EINVAL);
	expect("OPEN with bit 32 in the address's high half: EINVAL",
	       call(KVM_PERF_OP_OPEN, 0, 1ULL << 32), -KVM_EINVAL);
	expect_true("the reference event counts on", ref_counts());
}

static void test_unknown_id(void)
{
	expect("CLOSE of an unknown id: ENOENT",
	       call(KVM_PERF_OP_CLOSE, NO_ID, 0), -KVM_ENOENT);
	expect("ENABLE of an unknown id: ENOENT",
	       call(KVM_PERF_OP_ENABLE, NO_ID, 0), -KVM_ENOENT);
	expect("DISABLE of an unknown id: ENOENT",
	       call(KVM_PERF_OP_DISABLE, NO_ID, 0), -KVM_ENOENT);
	expect("READ of an unknown id: ENOENT",
	       call(KVM_PERF_OP_READ, NO_ID, 0), -KVM_ENOENT);
	expect("CLOSE of the id for all: ENOENT",
	       call(KVM_PERF_OP_CLOSE, KVM_PERF_ID_ALL, 0), -KVM_ENOENT);
}

static void test_open_param(void)
{
	expect("OPEN at a misaligned address: EINVAL",
	       call_addr(KVM_PERF_OP_OPEN, phys(&shared->param) + 4),
	       -KVM_EINVAL);
	expect("OPEN outside of memory: EFAULT",
	       call_addr(KVM_PERF_OP_OPEN, NO_MEMORY), -KVM_EFAULT);
	expect("OPEN at the end of the address space: EFAULT",
	       call_addr(KVM_PERF_OP_OPEN, -8ULL), -KVM_EFAULT);

	default_open(ID, &shared->record[0]);
	shared->param.reserved = 1;
	expect_open_fails("OPEN with a reserved field set: EINVAL",
			  -KVM_EINVAL);

	default_open(KVM_PERF_ID_ALL, &shared->record[0]);
	expect_open_fails("OPEN of the id for all: EINVAL", -KVM_EINVAL);

	default_open(ID, &shared->record[0]);
	shared->param.event_addr += 32;
	expect_open_fails("OPEN with a misaligned record: EINVAL",
			  -KVM_EINVAL);

	default_open(ID, &shared->record[0]);
	shared->param.event_addr = NO_MEMORY;
	expect_open_fails("OPEN with a record outside of memory: EFAULT",
			  -KVM_EFAULT);

	/* The firmware's ROM below 4 GiB: the reset vector is in it. */
	default_open(ID, &shared->record[0]);
	shared->param.event_addr = 0xffffffc0;
	expect_open_fails("OPEN with a record in read-only memory: EFAULT",
			  -KVM_EFAULT);

	default_open(ID, &shared->record[0]);
	shared->param.attr_addr += 4;
	expect_open_fails("OPEN with a misaligned attr: EINVAL", -KVM_EINVAL);

	default_open(ID, &shared->record[0]);
	shared->param.attr_addr = NO_MEMORY;
	expect_open_fails("OPEN with an attr outside of memory: EFAULT",
			  -KVM_EFAULT);

	default_open(REF_ID, &shared->record[0]);
	expect_open_fails("OPEN of an id that is open: EEXIST", -KVM_EEXIST);
}

static void test_open_attr(void)
{
	default_open(ID, &shared->record[0]);
	shared->attr.size = 0;
	expect_open_fails("OPEN with an attr of size 0: EINVAL", -KVM_EINVAL);

	default_open(ID, &shared->record[0]);
	shared->attr.size = GUEST_PERF_ATTR_SIZE_VER0 - 8;
	expect_open_fails("OPEN with an attr smaller than version 0: EINVAL", -KVM_EINVAL);

	default_open(ID, &shared->record[0]);
	shared->attr.size = GUEST_PERF_ATTR_SIZE_MAX + 1;
	expect_open_fails("OPEN with an attr larger than the largest: EINVAL",
			  -KVM_EINVAL);

	default_open(ID, &shared->record[0]);
	shared->attr.size = GUEST_PERF_ATTR_SIZE_VER0 + 8;
	shared->after_attr[7] = 1;
	expect_open_fails("OPEN with an unknown field of the attr set: EINVAL",
			  -KVM_EINVAL);

	default_open(ID, &shared->record[0]);
	shared->attr.size = GUEST_PERF_ATTR_SIZE_MAX;
	expect("OPEN with unknown fields of the attr that are 0: 0", do_open(), 0);
	expect("CLOSE of the event: 0", call(KVM_PERF_OP_CLOSE, ID, 0), 0);

	default_open(ID, &shared->record[0]);
	shared->attr.type = PERF_TYPE_SOFTWARE;
	expect_open_fails("OPEN of a software event: EINVAL", -KVM_EINVAL);

	default_open(ID, &shared->record[0]);
	shared->attr.type = PERF_TYPE_BREAKPOINT;
	expect_open_fails("OPEN of a breakpoint: EINVAL", -KVM_EINVAL);

	default_open(ID, &shared->record[0]);
	shared->attr.type = 8;	/* some PMU of the host */
	expect_open_fails("OPEN with the type of another PMU: EINVAL", -KVM_EINVAL);

	default_open(ID, &shared->record[0]);
	shared->attr.flags = 1ULL << 8;
	expect_open_fails("OPEN with an unknown flag, bit 8: EINVAL", -KVM_EINVAL);

	default_open(ID, &shared->record[0]);
	shared->attr.flags = 1ULL << 31;
	expect_open_fails("OPEN with an unknown flag, bit 31: EINVAL", -KVM_EINVAL);

	default_open(ID, &shared->record[0]);
	shared->attr.flags = KVM_PERF_ATTR_FREQ;
	expect_open_fails("OPEN with a frequency of 0: EINVAL", -KVM_EINVAL);

	default_open(ID, &shared->record[0]);
	shared->attr.sample_period = 1ULL << 63;
	expect_open_fails("OPEN with a period of 2^63: EINVAL", -KVM_EINVAL);

	default_open(ID, &shared->record[0]);
	shared->attr.flags = KVM_PERF_ATTR_FREQ;
	shared->attr.sample_period = 1ULL << 31;
	expect_open_fails("OPEN with a frequency of 2^31: EINVAL", -KVM_EINVAL);

	default_open(ID, &shared->record[0]);
	shared->attr.config1 = 1;
	expect_open_fails("OPEN with config1: EOPNOTSUPP", -KVM_EOPNOTSUPP);

	default_open(ID, &shared->record[0]);
	shared->attr.config2 = 1;
	expect_open_fails("OPEN with config2: EOPNOTSUPP", -KVM_EOPNOTSUPP);

	default_open(ID, &shared->record[0]);
	shared->attr.config = PERF_COUNT_HW_MAX;
	expect_open_fails("OPEN of a generic event that does not exist: EINVAL", -KVM_EINVAL);

	default_open(ID, &shared->record[0]);
	shared->attr.config = 4ULL << 32;
	expect_open_fails("OPEN of a generic event of a chosen PMU: EINVAL",
			  -KVM_EINVAL);

	default_open(ID, &shared->record[0]);
	shared->attr.type = KVM_PERF_TYPE_HW_CACHE;
	shared->attr.config = 0xffffff;
	expect_open_fails("OPEN of a cache event that does not exist: EINVAL", -KVM_EINVAL);

	default_open(ID, &shared->record[0]);
	shared->attr.type = KVM_PERF_TYPE_HW_CACHE;
	shared->attr.config = 1ULL << 24;
	expect_open_fails("OPEN of a cache event beyond 24 bits: EINVAL", -KVM_EINVAL);
}

/* Bits of an event select that the host sets itself. */
static void test_raw_filter(void)
{
	static const struct {
		const char *what;
		uint64_t bit;
	} bits[] = {
		{ "USR", 1 << 16 }, { "OS", 1 << 17 }, { "PIN", 1 << 19 },
		{ "INT", 1 << 20 }, { "ANY", 1 << 21 }, { "EN", 1 << 22 },
		{ "GuestOnly", 1ULL << 40 }, { "HostOnly", 1ULL << 41 },
		{ "63", 1ULL << 63 },
	};
	char what[64];
	size_t i;

	for (i = 0; i < sizeof(bits) / sizeof(bits[0]); i++) {
		default_open(ID, &shared->record[0]);
		shared->attr.type = KVM_PERF_TYPE_RAW;
		shared->attr.config = 0xc0 | bits[i].bit;
		snprintf(what, sizeof(what), "raw event with bit %s: EINVAL",
			 bits[i].what);
		expect_open_fails(what, -KVM_EINVAL);
	}
}

static void test_query(void)
{
	struct guest_perf_query *q = &shared->query;

	memset(q, 0xff, sizeof(*q) + sizeof(shared->after_query));
	q->size = GUEST_PERF_QUERY_SIZE_VER0 - 1;
	expect("QUERY with too small a struct: EINVAL",
	       call_addr(KVM_PERF_OP_QUERY, phys(q)), -KVM_EINVAL);
	expect("QUERY at a misaligned address: EINVAL",
	       call_addr(KVM_PERF_OP_QUERY, phys(q) + 4), -KVM_EINVAL);
	expect("QUERY outside of memory: EFAULT",
	       call_addr(KVM_PERF_OP_QUERY, NO_MEMORY), -KVM_EFAULT);

	q->size = sizeof(*q) + sizeof(shared->after_query);
	expect("QUERY with a larger struct: 0",
	       call_addr(KVM_PERF_OP_QUERY, phys(q)), 0);
	ksft_print_msg("version %u features %#x max_events %u counters %u mask %#llx\n",
		       q->version, q->features, q->max_events, q->nr_counters,
		       (unsigned long long)q->raw_event_mask);
	expect("QUERY returns the size that the host fills", q->size, sizeof(*q));
	expect_true("QUERY does not write beyond this size",
		    shared->after_query[0] == (char)0xff);
	expect("QUERY returns the version", q->version, KVM_PERF_ABI_VERSION);
	expect_true("QUERY returns the numbers of counters and events",
		    q->nr_counters >= 2 && q->max_events >= 1);
	expect_true("QUERY returns the raw config of instructions",
		    q->hw_config[PERF_COUNT_HW_INSTRUCTIONS] == 0xc0);
}

/* Raw events belong to a CPU model. */
static void test_model(void)
{
	default_open(ID, &shared->record[0]);
	shared->attr.type = KVM_PERF_TYPE_RAW;
	shared->attr.config = 0xc0;
	shared->attr.model = shared->query.model;
	expect("OPEN of a raw event of the CPU's model: 0", do_open(), 0);
	expect("CLOSE of the event: 0", call(KVM_PERF_OP_CLOSE, ID, 0), 0);
	default_open(ID, &shared->record[0]);
	shared->attr.type = KVM_PERF_TYPE_RAW;
	shared->attr.config = 0xc0;
	shared->attr.model = shared->query.model + 1;
	expect_open_fails("OPEN of a raw event of another CPU model: EOPNOTSUPP",
			  -KVM_EOPNOTSUPP);
	default_open(ID, &shared->record[0]);
	shared->attr.type = KVM_PERF_TYPE_HARDWARE;
	shared->attr.config = PERF_COUNT_HW_INSTRUCTIONS;
	shared->attr.model = shared->query.model;
	expect_open_fails("OPEN of a named event with a CPU model: EINVAL", -KVM_EINVAL);
}


static void test_query_offer(void)
{
	struct guest_perf_query *q = &shared->query;

	expect("QUERY returns branches and their feature, or neither",
	       !!(q->features & KVM_PERF_FEATURE_BRANCHES), !!q->branches);
	expect_true("QUERY returns no more branches than a record holds",
		    q->branches <= KVM_PERF_MAX_BRANCHES);
	expect_true("QUERY returns the CPU's model", q->model);
}

static long open_branches(uint64_t flags)
{
	default_open(ID, &shared->record[0]);
	shared->attr.sample_period = 1ULL << 40;
	shared->attr.flags = flags;
	return do_open();
}

static void test_open_branches(void)
{
	unsigned int i, wrong = 0;

	ksft_print_msg("%u branches\n", shared->query.branches);
	for (i = 32; i < 64; i++) {
		default_open(ID, &shared->record[0]);
		shared->attr.flags = 1ULL << i;
		wrong += do_open() != 0;
		wrong += call(KVM_PERF_OP_CLOSE, ID, 0) != 0;
		wrong += open_branches(1ULL << i) != 0;
		wrong += call(KVM_PERF_OP_CLOSE, ID, 0) != 0;
	}
	expect("OPEN with an optional flag, with and without a period: 0",
	       wrong, 0);
	expect("OPEN with bit 31 beside optional flags: EINVAL",
	       open_branches(KVM_PERF_ATTR_BRANCHES | 1ULL << 31), -KVM_EINVAL);
	default_open(ID, &shared->record[0]);
	shared->attr.flags = KVM_PERF_ATTR_BRANCHES | KVM_PERF_ATTR_FREQ;
	expect("OPEN with all kinds of branches and a frequency of 0: EINVAL",
	       do_open(), -KVM_EINVAL);

	expect("OPEN with all kinds of branches, on any CPU",
	       open_branches(KVM_PERF_ATTR_BRANCHES), 0);
	expect("ENABLE of an event with branches", call(KVM_PERF_OP_ENABLE, ID, 0), 0);
	burn();
	expect("DISABLE of an event with branches", call(KVM_PERF_OP_DISABLE, ID, 0), 0);
	expect_true("the event has counted", shared->record[0].count > 100000);
	call(KVM_PERF_OP_CLOSE, ID, 0);
	expect_true("the reference event counts on", ref_counts());
}

/* The first generic event for which QUERY returns no raw config. */
static void test_missing_event(void)
{
	const char what[] = "OPEN of a generic event that the CPU does not have: EOPNOTSUPP";
	unsigned int i = 0;

	while (i < KVM_PERF_NR_HW_EVENTS && shared->query.hw_config[i])
		i++;
	if (i == KVM_PERF_NR_HW_EVENTS) {
		ksft_test_result_skip("%s: the CPU has all\n", what);
		return;
	}

	default_open(ID, &shared->record[0]);
	shared->attr.config = i;
	expect_open_fails(what, -KVM_EOPNOTSUPP);
}

static void test_counting(void)
{
	struct guest_perf_event *r = &shared->record[1];
	uint64_t count;

	memset(r, 0xff, sizeof(*r));
	expect("OPEN", open_id(ID, r), 0);
	expect_true("OPEN zeroes the record",
		    !r->count && !r->overflows && !r->sequence &&
		    !r->time_enabled && !r->pmc && !r->offset);

	burn();
	expect("READ of an event never enabled", call(KVM_PERF_OP_READ, ID, 0),
	       0);
	expect("an event that was never enabled has a count of 0", r->count, 0);

	expect("ENABLE", call(KVM_PERF_OP_ENABLE, ID, 0), 0);
	expect("ENABLE again", call(KVM_PERF_OP_ENABLE, ID, 0), 0);
	burn();
	expect("READ", call(KVM_PERF_OP_READ, ID, 0), 0);
	expect_true("the event has counted", r->count > 100000);
	expect_true("the event has run all the time",
		    r->time_enabled && r->time_enabled == r->time_running);

	count = r->count;
	burn();
	expect("without a hypercall the record does not change", r->count, count);
	expect("DISABLE", call(KVM_PERF_OP_DISABLE, ID, 0), 0);
	expect_true("DISABLE updates the record",
		    r->count > count + 100000);

	count = r->count;
	burn();
	expect("READ of a disabled event", call(KVM_PERF_OP_READ, ID, 0), 0);
	expect("a disabled event does not count", r->count, count);
	expect("DISABLE again", call(KVM_PERF_OP_DISABLE, ID, 0), 0);

	expect("ENABLE once more", call(KVM_PERF_OP_ENABLE, ID, 0), 0);
	burn();
	expect("READ for all events", call(KVM_PERF_OP_READ, KVM_PERF_ID_ALL,
					   0), 0);
	expect_true("an event that is enabled again continues its count",
		    r->count > count + 100000);
	expect_true("the record has no overflows", !r->overflows);

	memset(r, 0x5a, sizeof(*r));
	expect("CLOSE", call(KVM_PERF_OP_CLOSE, ID, 0), 0);
	burn();
	call(KVM_PERF_OP_READ, KVM_PERF_ID_ALL, 0);
	expect_true("the host does not write to the record at CLOSE or later",
		    r->count == 0x5a5a5a5a5a5a5a5aULL &&
		    r->sequence == 0x5a5a5a5a);
	expect("CLOSE again: ENOENT", call(KVM_PERF_OP_CLOSE, ID, 0),
	       -KVM_ENOENT);
}

static void test_raw(void)
{
	struct guest_perf_event *r = &shared->record[1];

	default_open(ID, r);
	shared->attr.type = KVM_PERF_TYPE_RAW;
	shared->attr.config = 0xc0;
	shared->attr.flags = KVM_PERF_ATTR_EXCLUDE_KERNEL;
	expect("OPEN of a raw event for user mode", do_open(), 0);
	call(KVM_PERF_OP_ENABLE, ID, 0);
	burn();
	call(KVM_PERF_OP_DISABLE, ID, 0);
	expect_true("a raw event counts", r->count > 100000);
	call(KVM_PERF_OP_CLOSE, ID, 0);
}

/* The events are never enabled: this program does not handle NMIs. */
/* There is no nested guest. */
static void test_modes(void)
{
	static const struct {
		const char *name;
		uint64_t flags;
		bool counts;
	} cases[] = {
		{ "EXCLUDE_GUEST: it counts", KVM_PERF_ATTR_EXCLUDE_GUEST, true },
		{ "EXCLUDE_HOST: it does not", KVM_PERF_ATTR_EXCLUDE_HOST, false },
		{ "both: it does not", KVM_PERF_ATTR_EXCLUDE_GUEST |
				       KVM_PERF_ATTR_EXCLUDE_HOST, false },
	};
	struct guest_perf_event *r = &shared->record[1];
	unsigned int i;

	expect_true("QUERY returns NESTED",
		    shared->query.features & KVM_PERF_FEATURE_NESTED);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		default_open(ID, r);
		shared->attr.flags = cases[i].flags;
		expect("OPEN of an event of one mode", do_open(), 0);
		call(KVM_PERF_OP_ENABLE, ID, 0);
		burn();
		call(KVM_PERF_OP_DISABLE, ID, 0);
		if (cases[i].counts)
			expect_true(cases[i].name, r->count > 100000);
		else
			expect_true(cases[i].name, !r->count);
		call(KVM_PERF_OP_CLOSE, ID, 0);
	}
}

static void test_set_period(void)
{
	const uint64_t op = KVM_PERF_OP_SET_PERIOD;

	expect("SET_PERIOD of an unknown id: ENOENT", call(op, NO_ID, 1000),
	       -KVM_ENOENT);
	expect("SET_PERIOD of an event without a period: EINVAL",
	       call(op, REF_ID, 1000), -KVM_EINVAL);

	default_open(ID, &shared->record[1]);
	shared->attr.sample_period = 100000;
	expect("OPEN with a period", do_open(), 0);
	expect("SET_PERIOD", call(op, ID, 200000), 0);
	expect("SET_PERIOD beyond 32 bits", call3(op, ID, 0, 1), 0);
	expect("SET_PERIOD to 0: EINVAL", call(op, ID, 0), -KVM_EINVAL);
	expect("SET_PERIOD with bit 32 in the high half: EINVAL",
	       call3(op, ID, 1, 1ULL << 32), -KVM_EINVAL);
	expect("CLOSE", call(KVM_PERF_OP_CLOSE, ID, 0), 0);

	default_open(ID, &shared->record[1]);
	shared->attr.sample_period = 1000;
	shared->attr.flags = KVM_PERF_ATTR_FREQ;
	expect("OPEN with a frequency", do_open(), 0);
	expect("SET_PERIOD to another frequency", call(op, ID, 2000), 0);
	expect("SET_PERIOD to an impossible frequency: EINVAL",
	       call(op, ID, 2000000000), -KVM_EINVAL);
	expect("CLOSE of an event with a frequency", call(KVM_PERF_OP_CLOSE, ID, 0), 0);
	expect_true("the reference event counts on", ref_counts());
}

static void test_set_left(void)
{
	const uint64_t op = KVM_PERF_OP_SET_LEFT;
	struct guest_perf_event *r = &shared->record[1];

	expect("SET_LEFT of an unknown id: ENOENT", call(op, NO_ID, 1000),
	       -KVM_ENOENT);
	expect("SET_LEFT of an event without a period: EINVAL",
	       call(op, REF_ID, 1000), -KVM_EINVAL);

	default_open(ID, r);
	shared->attr.sample_period = 1ULL << 40;
	expect("OPEN with a period", do_open(), 0);
	expect("SET_LEFT", call(op, ID, 200000), 0);
	expect("SET_LEFT first writes the old period_left to the record",
	       r->period_left, 1ULL << 40);
	expect("READ after SET_LEFT", call(KVM_PERF_OP_READ, ID, 0), 0);
	expect("the record has the new period_left", r->period_left, 200000);
	expect("SET_LEFT beyond 32 bits", call3(op, ID, 0, 1), 0);
	expect("SET_LEFT with bit 63: EINVAL", call3(op, ID, 0, 1U << 31),
	       -KVM_EINVAL);
	expect("SET_LEFT with bit 32 in the high half: EINVAL",
	       call3(op, ID, 1, 1ULL << 32), -KVM_EINVAL);
	call(KVM_PERF_OP_READ, ID, 0);
	expect("a failed SET_LEFT does not change period_left", r->period_left, 1ULL << 32);

	/* The event does not overflow: this program does not handle NMIs. */
	call(KVM_PERF_OP_ENABLE, ID, 0);
	burn();
	expect("SET_LEFT of an event that counts", call3(op, ID, 0, 2), 0);
	expect_true("SET_LEFT of an event that counts updates the record",
		    r->count > 100000 && r->count + r->period_left == 1ULL << 32);
	burn();
	call(KVM_PERF_OP_DISABLE, ID, 0);
	expect_true("the event counts on after SET_LEFT",
		    r->count > 200000 && r->period_left < 2ULL << 32);
	expect("SET_LEFT to a whole period", call(op, ID, 0), 0);
	call(KVM_PERF_OP_READ, ID, 0);
	expect("the record has a whole period left", r->period_left, 1ULL << 40);
	expect("CLOSE", call(KVM_PERF_OP_CLOSE, ID, 0), 0);
}

static void set_op(int i, uint32_t op, uint32_t id, uint64_t arg)
{
	shared->ops[i] = (struct guest_perf_op) {
		.op = op, .id = id, .arg = arg, .result = 1,
	};
}

static long batch(uint64_t addr, uint64_t nr)
{
	return call3(KVM_PERF_OP_BATCH, (uint32_t)addr, addr >> 32, nr);
}

static void test_batch_errors(void)
{
	uint64_t ops = phys(shared->ops);
	int i;

	for (i = 0; i <= KVM_PERF_BATCH_MAX; i++)
		set_op(i, KVM_PERF_OP_CLOSE, REF_ID, 0);
	expect("BATCH of 0 operations: EINVAL", batch(ops, 0), -KVM_EINVAL);
	expect("BATCH of too many operations: EINVAL", batch(ops, KVM_PERF_BATCH_MAX + 1),
	       -KVM_EINVAL);
	expect("BATCH of 2^32 + 1 operations: EINVAL", batch(ops, (1ULL << 32) + 1),
	       -KVM_EINVAL);
	expect("BATCH at a misaligned address: EINVAL", batch(ops + 4, 1),
	       -KVM_EINVAL);
	expect("BATCH outside of memory: EFAULT", batch(NO_MEMORY, 1),
	       -KVM_EFAULT);
	/* The firmware's ROM: the host must not run its bytes as operations. */
	expect("BATCH in read-only memory: EFAULT", batch(0xffffff00, 8),
	       -KVM_EFAULT);
	expect("a batch that fails has no results", shared->ops[0].result, 1);
	expect_true("the reference event counts on", ref_counts());
}

static void test_batch(void)
{
	struct guest_perf_event *r = &shared->record[1];
	uint64_t count;

	default_open(ID, r);
	set_op(0, KVM_PERF_OP_OPEN, 0, phys(&shared->param));
	set_op(1, KVM_PERF_OP_BATCH, 0, phys(shared->ops));
	set_op(2, KVM_PERF_OP_READ, NO_ID, 77);
	set_op(3, KVM_PERF_OP_ENABLE, ID, 0);
	shared->ops[3].reserved = 1;
	set_op(4, KVM_PERF_OP_ENABLE, ID, 0);
	set_op(5, 13, ID, 0);
	set_op(6, KVM_PERF_OP_READ, REF_ID, 0);
	expect("BATCH", batch(phys(shared->ops), 7), 0);
	expect("OPEN in a batch", shared->ops[0].result, 0);
	expect("BATCH in a batch: EINVAL", shared->ops[1].result, -KVM_EINVAL);
	expect("READ of an unknown id in a batch: ENOENT", shared->ops[2].result,
	       -KVM_ENOENT);
	expect("a failed READ in a batch does not change its argument",
	       shared->ops[2].arg, 77);
	expect("an operation in a batch with a reserved field set: EINVAL",
	       shared->ops[3].result, -KVM_EINVAL);
	expect("ENABLE in a batch", shared->ops[4].result, 0);
	expect("operation 13 in a batch: ENOSYS", shared->ops[5].result,
	       -KVM_ENOSYS);
	expect("READ in a batch", shared->ops[6].result, 0);
	expect("READ in a batch returns the count", shared->ops[6].arg, shared->ref.count);

	burn();
	set_op(0, KVM_PERF_OP_READ, KVM_PERF_ID_ALL, 0);
	set_op(1, KVM_PERF_OP_DISABLE, ID, 0);
	expect("BATCH of READ for all and DISABLE", batch(phys(shared->ops), 2),
	       0);
	expect_true("the event has counted",
		    !shared->ops[0].result && !shared->ops[1].result &&
		    r->count > 100000);
	expect("DISABLE in a batch returns the count", shared->ops[1].arg, r->count);
	count = r->count;
	burn();
	set_op(0, KVM_PERF_OP_READ, ID, 0);
	set_op(1, KVM_PERF_OP_CLOSE, ID, 0);
	expect("BATCH of READ and CLOSE", batch(phys(shared->ops), 2), 0);
	expect("the event has not counted after DISABLE in a batch",
	       shared->ops[0].arg, count);
	expect("the event is closed after CLOSE in a batch",
	       call(KVM_PERF_OP_READ, ID, 0), -KVM_ENOENT);
	expect_true("the reference event counts on", ref_counts());
}

/* Enables events until no counter is free. */
static void test_no_counter(void)
{
	unsigned int i, n = 0;
	long ret = 0;

	for (i = 0; i < 32; i++) {
		open_id(ID + i, &shared->record[i]);
		ret = call(KVM_PERF_OP_ENABLE, ID + i, 0);
		if (ret)
			break;
		n++;
	}
	ksft_print_msg("%u events beside the reference event\n", n);
	expect("ENABLE with no counter free: EBUSY", ret, -KVM_EBUSY);
	expect_true("at least 3 events have counters before", n >= 3);
	expect_true("the reference event counts on", ref_counts());

	burn();
	call(KVM_PERF_OP_READ, ID + n, 0);
	expect("the event without a counter counts nothing",
	       shared->record[n].count, 0);
	call(KVM_PERF_OP_DISABLE, ID, 0);
	expect("ENABLE when a counter is free again",
	       call(KVM_PERF_OP_ENABLE, ID + n, 0), 0);
	for (i = 0; i <= n; i++)
		call(KVM_PERF_OP_CLOSE, ID + i, 0);
}

static void run_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		ksft_exit_fail_msg("CPU %d: %s\n", cpu, strerror(errno));
}

/* A vCPU may open its share of the VM's limit, or 32 events if the share is less. */
static void test_limit(void)
{
	uint32_t max = shared->query.max_events, n = 1;
	int cpus = sysconf(_SC_NPROCESSORS_ONLN), cpu;
	uint32_t share = max / cpus < 32 ? 32 : max / cpus;
	long ret = 0;

	for (cpu = 0; cpu < cpus; cpu++) {
		run_on(cpu);
		while (n <= max + 1) {
			ret = open_id(ID + n, &shared->record[1]);
			if (ret)
				break;
			n++;
		}
		/* n includes the reference event. */
		if (!cpu)
			expect("one vCPU may open its share of events", n,
			       share < max ? share : max);
		expect("OPEN at the limit: ENOSPC", ret, -KVM_ENOSPC);
	}
	expect("the limit is that of QUERY", n, max);
	run_on(0);
	call(KVM_PERF_OP_CLOSE, ID + 1, 0);
	expect("OPEN after a CLOSE", open_id(ID + 1, &shared->record[1]), 0);
	expect("OPEN at the limit again: ENOSPC",
	       open_id(ID + n, &shared->record[1]), -KVM_ENOSPC);
	expect_true("the reference event counts on", ref_counts());
	while (--n)
		call(KVM_PERF_OP_CLOSE, ID + n, 0);
}

static void test_move(void)
{
	struct guest_perf_event *r = &shared->record[1];
	uint64_t count;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
		ksft_test_result_skip("moving needs two CPUs\n");
		return;
	}

	open_id(ID, r);
	call(KVM_PERF_OP_ENABLE, ID, 0);
	burn();
	call(KVM_PERF_OP_READ, ID, 0);
	count = r->count;

	run_on(1);
	expect("ENABLE of an event on another CPU", call(KVM_PERF_OP_ENABLE, ID, 0), 0);
	burn();
	expect("DISABLE on the other CPU", call(KVM_PERF_OP_DISABLE, ID, 0), 0);
	expect_true("the count continues on the other CPU", r->count > count + 100000);
	count = r->count;

	call(KVM_PERF_OP_ENABLE, ID, 0);
	run_on(0);
	expect("READ from the first CPU", call(KVM_PERF_OP_READ, ID, 0), 0);
	count = r->count;
	expect("DISABLE from the first CPU", call(KVM_PERF_OP_DISABLE, ID, 0),
	       0);
	expect("CLOSE from the first CPU", call(KVM_PERF_OP_CLOSE, ID, 0), 0);
	expect_true("the count includes both CPUs", r->count >= count);
}

#define RACE_IDS	4
#define RACE_CALLS	2000

static void *racer(void *arg)
{
	static const uint64_t ops[] = {
		KVM_PERF_OP_OPEN, KVM_PERF_OP_ENABLE, KVM_PERF_OP_ENABLE,
		KVM_PERF_OP_READ, KVM_PERF_OP_DISABLE, KVM_PERF_OP_CLOSE,
	};
	unsigned int seed = (uintptr_t)arg;
	long bad = 0;
	int i;

	run_on(seed % sysconf(_SC_NPROCESSORS_ONLN));
	for (i = 0; i < RACE_CALLS; i++) {
		uint64_t op = ops[rand_r(&seed) % 6];
		uint32_t id = rand_r(&seed) % RACE_IDS;
		struct guest_perf_event_param *param =
			(void *)&shared->record[64 + id];
		long ret;

		if (op == KVM_PERF_OP_OPEN)
			ret = call_addr(op, phys(param));
		else
			ret = call(op, ID + id, 0);
		if (ret && ret != -KVM_ENOENT && ret != -KVM_EEXIST &&
		    ret != -KVM_EBUSY)
			bad = ret;
	}
	return (void *)bad;
}

static void test_races(void)
{
	pthread_t threads[4];
	long bad = 0;
	int i;

	for (i = 0; i < RACE_IDS; i++) {
		struct guest_perf_event_param *param =
			(void *)&shared->record[64 + i];

		default_open(ID + i, &shared->record[i]);
		*param = shared->param;
	}
	for (i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, racer,
			       (void *)(uintptr_t)(i + 1));
	for (i = 0; i < 4; i++) {
		void *ret;

		pthread_join(threads[i], &ret);
		bad = bad ? : (long)ret;
	}
	expect("4 threads race for the same ids: no other error", bad, 0);
	for (i = 0; i < RACE_IDS; i++)
		call(KVM_PERF_OP_CLOSE, ID + i, 0);
	expect_true("the reference event counts on", ref_counts());
}

/* After RESET has removed this area, the driver sets its own area again. */
static void test_area(void)
{
	const uint64_t op = KVM_PERF_OP_SET_AREA;
	struct guest_perf_area *area = &shared->area;
	uint32_t epoch;

	area->size = GUEST_PERF_AREA_SIZE_VER0 - 1;
	expect("SET_AREA with a size below the smallest: EINVAL",
	       call_addr(op, phys(area)), -KVM_EINVAL);
	area->size = GUEST_PERF_AREA_ALIGN + 1;
	expect("SET_AREA with a size of more than a page: EINVAL",
	       call_addr(op, phys(area)), -KVM_EINVAL);
	/* The size at this address is valid. */
	*(uint32_t *)((char *)area + 64) = sizeof(*area);
	expect("SET_AREA in the middle of a page: EINVAL",
	       call_addr(op, phys(area) + 64), -KVM_EINVAL);
	*(uint32_t *)((char *)area + 64) = 0;
	expect("SET_AREA outside of memory: EFAULT",
	       call_addr(op, NO_MEMORY), -KVM_EFAULT);
	/* The firmware's ROM: its bytes may be a valid size or not. */
	expect_true("SET_AREA in read-only memory: EFAULT, or EINVAL",
		    call_addr(op, 0xfffff000) == -KVM_EFAULT ||
		    call_addr(op, 0xfffff000) == -KVM_EINVAL);
	expect("a failed SET_AREA does not write an epoch", area->epoch, 0);
	area->size = GUEST_PERF_AREA_ALIGN;
	expect("SET_AREA", call_addr(op, phys(area)), 0);
	expect("SET_AREA writes the size that the host fills", area->size, sizeof(*area));
	epoch = area->epoch;
	expect_true("SET_AREA writes an epoch", epoch);
	usleep(10000);
	expect("the epoch stays the same", area->epoch, epoch);
	expect("SET_AREA again", call_addr(op, phys(area)), 0);
	expect_true("SET_AREA again writes another epoch",
		    area->epoch && area->epoch != epoch);
	expect_true("the reference event counts on", ref_counts());
}

static void test_counts(void)
{
	const uint64_t op = KVM_PERF_OP_SET_COUNTS, all = shared->query.counts;
	struct guest_perf_area *area = &shared->area;
	uint64_t before;

	expect("QUERY returns the events of the hypervisor", all,
	       (1 << KVM_PERF_NR_COUNTS) - 1);
	expect("SET_COUNTS of an event that does not exist: EINVAL",
	       call_addr(op, 1 << KVM_PERF_NR_COUNTS), -KVM_EINVAL);
	area->size = sizeof(*area);
	expect("SET_AREA",
	       call_addr(KVM_PERF_OP_SET_AREA, phys(area)), 0);
	expect("SET_COUNTS", call_addr(op, all), 0);
	before = area->count[KVM_PERF_COUNT_EXITS_PV_PERF][0];
	call(13, 0, 0);
	expect("SET_COUNTS counts an exit of the pair",
	       area->count[KVM_PERF_COUNT_EXITS_PV_PERF][0] - before, 1);
	expect("SET_COUNTS of no event", call_addr(op, 0), 0);
	before = area->count[KVM_PERF_COUNT_EXITS_PV_PERF][0];
	call(13, 0, 0);
	expect("after SET_COUNTS of no event an exit of the pair is not counted",
	       area->count[KVM_PERF_COUNT_EXITS_PV_PERF][0],
	       before);
	expect_true("the reference event counts on", ref_counts());
}

static void test_no_counts(void)
{
	const uint64_t op = KVM_PERF_OP_SET_COUNTS;

	expect("QUERY returns no events of the hypervisor",
	       shared->query.counts, 0);
	expect("SET_COUNTS of an event that does not exist: EINVAL",
	       call_addr(op, 1 << KVM_PERF_NR_COUNTS), -KVM_EINVAL);
	expect("SET_COUNTS of an event that the host does not have: EOPNOTSUPP",
	       call_addr(op, 1 << KVM_PERF_COUNT_EXITS_IO), -KVM_EOPNOTSUPP);
	expect("SET_COUNTS of no event", call_addr(op, 0), 0);
}

static void test_reset(void)
{
	expect("OPEN", open_id(ID, &shared->record[1]), 0);
	expect("RESET", call(KVM_PERF_OP_RESET, 0, 0), 0);
	expect("the event is closed after RESET", call(KVM_PERF_OP_READ, ID, 0),
	       -KVM_ENOENT);
	expect("the reference event is closed after RESET", call(KVM_PERF_OP_READ, REF_ID, 0),
	       -KVM_ENOENT);
	expect("READ for all without events: ENOENT",
	       call(KVM_PERF_OP_READ, KVM_PERF_ID_ALL, 0), -KVM_ENOENT);
	expect("the area's epoch is 0 after RESET", shared->area.epoch, 0);
	expect("RESET without events", call(KVM_PERF_OP_RESET, 0, 0), 0);
}

static void test_absent(void)
{
	uint64_t op;
	char what[32];

	for (op = 0; op <= 13; op++) {
		snprintf(what, sizeof(what), "operation %d: ENOSYS", (int)op);
		default_open(ID, &shared->record[0]);
		expect(what, call_addr(op, phys(&shared->param)), -KVM_ENOSYS);
	}
}

int main(int argc, char **argv)
{
	ksft_print_header();

	dev = open("/dev/kvm_perf_hypercall", O_RDWR);
	if (dev < 0)
		ksft_exit_fail_msg("/dev/kvm_perf_hypercall: %s\n",
				   strerror(errno));
	shared = mmap(NULL, KVM_PERF_HYPERCALL_MEM, PROT_READ | PROT_WRITE,
		      MAP_SHARED, dev, 0);
	if (shared == MAP_FAILED || sizeof(*shared) > KVM_PERF_HYPERCALL_MEM ||
	    ioctl(dev, KVM_PERF_HYPERCALL_PHYS, &shared_phys))
		ksft_exit_fail_msg("mmap: %s\n", strerror(errno));

	if (argc > 1 && !strcmp(argv[1], "--absent")) {
		test_absent();
	} else {
		run_on(0);
		if (open_id(REF_ID, &shared->ref) ||
		    call(KVM_PERF_OP_ENABLE, REF_ID, 0))
			ksft_exit_fail_msg("no reference event\n");
		test_dispatch();
		test_unknown_id();
		test_open_param();
		test_open_attr();
		test_raw_filter();
		test_query();
		test_query_offer();
		test_model();
		test_open_branches();
		test_missing_event();
		test_counting();
		test_raw();
		test_modes();
		test_set_period();
		test_set_left();
		test_batch_errors();
		test_batch();
		test_no_counter();
		test_limit();
		test_move();
		test_races();
		test_area();
		if (argc > 1 && !strcmp(argv[1], "--core"))
			test_no_counts();
		else
			test_counts();
		test_reset();
	}

	ksft_set_plan(ksft_test_num());
	ksft_finished();
}
