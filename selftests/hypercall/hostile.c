// SPDX-License-Identifier: GPL-2.0
/*
 * A hostile guest: random and structured hypercalls from several CPUs.
 *
 * Most hypercalls are well-formed, so that they get far, and use few ids, so that
 * the CPUs meet.  The others have hostile addresses, sizes, flags and periods. CPUs
 * change each other's arguments, and records overlap arguments and each other. The
 * contract must have each result for its operation.  In between the guest reads
 * any counters by RDPMC.
 *
 * Usage: hostile HYPERCALLS CPUS SEED [core]
 *
 * With core the host has neither RDPMC nor events of the hypervisor.
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

#define MAX_CPUS	16
#define NR_OPS		13	/* 0, which is no operation, to 12 */
#define CALLS		64	/* hypercalls per system call */
#define ENOUGH		20000	/* hypercalls, to see rare results */

#define pick(rng, a)	((a)[below(rng, ARRAY_SIZE(a))])

/*
 * The host reads addresses from params and ops, and must not write counts there: a
 * count would be taken for an address in the guest's own memory.
 */
struct area {
	struct guest_perf_event_param params[64];
	struct guest_perf_op ops[2 * KVM_PERF_BATCH_MAX];
	_Alignas(4096) char data[2 * 4096];	/* attrs, records, queries, areas */
};

_Static_assert(sizeof(struct area) <= KVM_PERF_HYPERCALL_MEM, "area");

struct mapping {
	struct area *area;
	uint64_t phys;
	int dev;
};

struct cpu {
	pthread_t thread;
	unsigned int nr;
	unsigned long hypercalls;	/* still to make */
	uint64_t rng;
	struct mapping own;
	/* the batch whose results are checked */
	unsigned int checked_nr;
	struct guest_perf_op checked[KVM_PERF_BATCH_MAX];
	/* by operation and error */
	unsigned long results[NR_OPS][KVM_ENOSYS + 1];
	unsigned long batched;
	unsigned long wrong;
	/* results of RDPMC: faults, 0, and other values */
	unsigned long faults, zeros, values;
};

static struct cpu cpus[MAX_CPUS];
static struct mapping common;

/* This thread now opens more events than the VM may have. */
static __thread bool many;

/* xorshift64* */
static uint64_t rnd(uint64_t *rng)
{
	*rng ^= *rng >> 12;
	*rng ^= *rng << 25;
	*rng ^= *rng >> 27;
	return *rng * 0x2545f4914f6cdd1dULL;
}

static uint64_t below(uint64_t *rng, uint64_t n)
{
	return (rnd(rng) >> 16) % n;
}

static bool one_in(uint64_t *rng, unsigned int n)
{
	return !below(rng, n);
}

/* No memory, read-only memory, devices, page 0, the end of the address space. */
static uint64_t hostile_addr(uint64_t *rng)
{
	static const uint64_t addrs[] = {
		1ULL << 45, 1ULL << 52, 1ULL << 63, -8ULL, -64ULL, -4096ULL,
		0xffffffc0, 0xffffff00, 0xfffffff8, 0xfffc0000, 0xfee00000,
		0xfec00000, 0xfed00000, 0xf0000, 0, 0x100000000,
	};

	return pick(rng, addrs) + (one_in(rng, 4) ? below(rng, 128) : 0);
}

static uint64_t phys(const struct mapping *m, const void *p)
{
	return m->phys + ((const char *)p - (const char *)m->area);
}

static uint32_t any_id(uint64_t *rng)
{
	switch (below(rng, 64)) {
	case 0:
		return KVM_PERF_ID_ALL;
	case 1:
		return rnd(rng);
	default:
		return below(rng, many ? 4096 : 12);
	}
}

/* Records overlap records and attrs, and cross pages; few are misaligned. */
static uint64_t data_addr(uint64_t *rng, const struct mapping *m)
{
	/* Even the longest structure, an attr, ends within the data. */
	uint64_t offset = below(rng, sizeof(m->area->data) -
				GUEST_PERF_ATTR_SIZE_MAX);

	if (one_in(rng, 32))
		return hostile_addr(rng);
	if (!one_in(rng, 32))
		offset &= ~63;

	return phys(m, m->area->data + offset);
}

static uint64_t any_period(uint64_t *rng)
{
	static const uint64_t periods[] = {
		1, 2, 100, 5000, 10007, 100003, 1000003, 1ULL << 32,
		1ULL << 47, 1ULL << 48, INT64_MAX, 1ULL << 63, -1ULL,
	};

	switch (below(rng, 16)) {
	case 0:
		return rnd(rng) >> below(rng, 64);
	case 1 ... 3:
		return pick(rng, periods);
	case 4 ... 6:
		return 20000 + below(rng, 100000);
	default:
		return 0;
	}
}

static void fill_attr(uint64_t *rng, struct guest_perf_attr *attr)
{
	static const uint64_t generic[] = {
		PERF_COUNT_HW_CPU_CYCLES, PERF_COUNT_HW_INSTRUCTIONS,
		PERF_COUNT_HW_BRANCH_INSTRUCTIONS, PERF_COUNT_HW_CACHE_MISSES,
	};
	static const uint64_t raw[] = { 0x76, 0xc0, 0xc2, 0x2c, 0x1ff45 };
	static const uint64_t more_flags[] = {
		KVM_PERF_ATTR_NOTIFY, KVM_PERF_ATTR_RDPMC,
		KVM_PERF_ATTR_RDPMC | KVM_PERF_ATTR_NOTIFY |
		KVM_PERF_ATTR_RDPMC_USER,
		KVM_PERF_ATTR_RDPMC | KVM_PERF_ATTR_RDPMC_USER |
		KVM_PERF_ATTR_EXCLUDE_GUEST,
		KVM_PERF_ATTR_RDPMC_USER | KVM_PERF_ATTR_EXCLUDE_HOST,
	};

	*attr = (struct guest_perf_attr) {
		.size		= sizeof(*attr),
		.type		= KVM_PERF_TYPE_HARDWARE,
		.config		= pick(rng, generic),
		.sample_period	= any_period(rng),
		.flags		= below(rng, 4),
	};
	/* Flags that change the content of a record, or when it is written. */
	if (one_in(rng, 2))
		attr->flags |= pick(rng, more_flags);
	/* A CPU without branch records ignores these flags. */
	if (one_in(rng, 8)) {
		attr->flags |= rnd(rng) & KVM_PERF_ATTR_BRANCHES;
		attr->sample_period = 20000 + below(rng, 100000);
	}

	switch (below(rng, 16)) {
	case 0 ... 2:
		attr->type = KVM_PERF_TYPE_RAW;
		attr->config = pick(rng, raw);
		break;
	case 3:
		attr->type = KVM_PERF_TYPE_HW_CACHE;
		attr->config = below(rng, 0x40404);
		break;
	case 4:
		attr->flags |= KVM_PERF_ATTR_FREQ;
		attr->sample_period = below(rng, 20000);
		break;
	case 5:
		attr->size = below(rng, 300);
		break;
	case 6:
		attr->config = rnd(rng) >> below(rng, 64);
		attr->type = below(rng, 8);
		break;
	case 7:
		((uint64_t *)attr)[below(rng, 6)] ^= 1ULL << below(rng, 64);
		break;
	}
}

/* Fills the arguments of an OPEN; returns their address. */
static uint64_t fill_param(uint64_t *rng, struct mapping *m)
{
	struct guest_perf_event_param *param =
		&m->area->params[below(rng, ARRAY_SIZE(m->area->params))];
	uint64_t attr = below(rng, 64);
	struct guest_perf_attr *where = (void *)(m->area->data + 64 * attr);

	/* Otherwise the attr is what others have left there. */
	if (!one_in(rng, 4))
		fill_attr(rng, where);

	param->attr_addr = one_in(rng, 16) ? data_addr(rng, m) : phys(m, where);
	param->event_addr = data_addr(rng, m);
	param->id = any_id(rng);
	param->reserved = one_in(rng, 64) ? rnd(rng) : 0;

	if (one_in(rng, 32))
		return hostile_addr(rng);
	return phys(m, param) + (one_in(rng, 64) ? below(rng, 8) : 0);
}

static uint64_t query_addr(uint64_t *rng, struct mapping *m)
{
	uint64_t addr = data_addr(rng, m);
	uint64_t offset = addr - phys(m, m->area->data);

	if (offset < sizeof(m->area->data) && !one_in(rng, 4))
		*(uint32_t *)(m->area->data + offset) = one_in(rng, 4) ?
			rnd(rng) : GUEST_PERF_QUERY_SIZE_VER0;

	return addr;
}
/* The area is mostly in the memory of records, too. */
static uint64_t area_addr(uint64_t *rng, struct mapping *m)
{
	static const uint32_t sizes[] = {
		sizeof(struct guest_perf_area), sizeof(struct guest_perf_area),
		GUEST_PERF_AREA_SIZE_VER0 - 1, GUEST_PERF_AREA_SIZE_VER0 + 1,
	};
	unsigned int offset = one_in(rng, 2) * GUEST_PERF_AREA_ALIGN;

	if (one_in(rng, 16))
		return data_addr(rng, m);
	if (one_in(rng, 8))
		return hostile_addr(rng) & -(uint64_t)GUEST_PERF_AREA_ALIGN;
	if (!one_in(rng, 4))
		*(uint32_t *)(m->area->data + offset) = one_in(rng, 4) ?
			below(rng, 5000) : pick(rng, sizes);

	return phys(m, m->area->data + offset);
}

/* The slots of the area have any content. */
static uint64_t any_counts(uint64_t *rng)
{
	uint64_t all = (1 << KVM_PERF_NR_COUNTS) - 1;

	if (one_in(rng, 16))
		return rnd(rng);
	return one_in(rng, 2) ? all : rnd(rng) & all;
}

static uint32_t any_op(uint64_t *rng)
{
	static const uint8_t ops[] = {
		KVM_PERF_OP_OPEN, KVM_PERF_OP_OPEN, KVM_PERF_OP_OPEN,
		KVM_PERF_OP_OPEN, KVM_PERF_OP_OPEN, KVM_PERF_OP_OPEN,
		KVM_PERF_OP_CLOSE, KVM_PERF_OP_CLOSE, KVM_PERF_OP_CLOSE,
		KVM_PERF_OP_ENABLE, KVM_PERF_OP_ENABLE, KVM_PERF_OP_ENABLE,
		KVM_PERF_OP_ENABLE, KVM_PERF_OP_DISABLE, KVM_PERF_OP_DISABLE,
		KVM_PERF_OP_DISABLE, KVM_PERF_OP_READ, KVM_PERF_OP_READ,
		KVM_PERF_OP_READ, KVM_PERF_OP_READ, KVM_PERF_OP_QUERY,
		KVM_PERF_OP_SET_PERIOD, KVM_PERF_OP_SET_LEFT,
		KVM_PERF_OP_SET_LEFT, KVM_PERF_OP_BATCH,
		KVM_PERF_OP_SET_AREA, KVM_PERF_OP_SET_COUNTS,
	};

	if (one_in(rng, 5000))
		return KVM_PERF_OP_RESET;
	if (many && !one_in(rng, 8))
		return KVM_PERF_OP_OPEN;
	return one_in(rng, 64) ? below(rng, 16) : pick(rng, ops);
}

static void fill_op(uint64_t *rng, struct mapping *m, struct guest_perf_op *op)
{
	*op = (struct guest_perf_op) {
		.op = any_op(rng),
		.id = any_id(rng),
		.result = 1,
		.reserved = one_in(rng, 64) ? rnd(rng) : 0,
	};

	switch (op->op) {
	case KVM_PERF_OP_OPEN:
		op->arg = fill_param(rng, m);
		break;
	case KVM_PERF_OP_QUERY:
		op->arg = query_addr(rng, m);
		break;
	case KVM_PERF_OP_SET_AREA:
		op->arg = area_addr(rng, m);
		break;
	case KVM_PERF_OP_SET_COUNTS:
		op->arg = any_counts(rng);
		break;
	case KVM_PERF_OP_SET_PERIOD:
	case KVM_PERF_OP_SET_LEFT:
		op->arg = any_period(rng);
		break;
	}
}

/* Only the first batch in the CPU's own memory can be checked. */
static uint64_t fill_batch(struct cpu *cpu, struct mapping *m, __u64 *nr)
{
	uint64_t *rng = &cpu->rng;
	unsigned int i, n = 1 + below(rng, one_in(rng, 8) ?
				      KVM_PERF_BATCH_MAX : 6);
	struct guest_perf_op *ops =
		m->area->ops + below(rng, KVM_PERF_BATCH_MAX);

	*nr = n;
	if (one_in(rng, 32)) {
		*nr = one_in(rng, 2) ? rnd(rng) : 65 * below(rng, 2);
		return one_in(rng, 2) ? hostile_addr(rng) : phys(m, ops);
	}

	if (m == &common) {
		for (i = 0; i < n; i++)
			fill_op(rng, m, &ops[i]);
		return phys(m, ops);
	}

	if (cpu->checked_nr)
		return hostile_addr(rng);

	ops = m->area->ops;
	for (i = 0; i < n; i++) {
		fill_op(rng, m, &cpu->checked[i]);
		ops[i] = cpu->checked[i];
	}
	cpu->checked_nr = n;
	return phys(m, ops);
}

static void fill_call(struct cpu *cpu, struct kvm_perf_hypercall *call)
{
	uint64_t *rng = &cpu->rng;
	struct mapping *m = one_in(rng, 4) ? &common : &cpu->own;
	struct guest_perf_op op;
	__u64 *a = call->a;

	fill_op(rng, m, &op);
	call->nr = KVM_PERF_OP;
	a[0] = op.op;
	switch (op.op) {
	case KVM_PERF_OP_OPEN:
	case KVM_PERF_OP_QUERY:
	case KVM_PERF_OP_SET_AREA:
	case KVM_PERF_OP_SET_COUNTS:
		a[1] = (uint32_t)op.arg;
		a[2] = op.arg >> 32;
		a[3] = 0;
		break;
	case KVM_PERF_OP_BATCH:
		op.arg = fill_batch(cpu, m, &a[3]);
		a[1] = (uint32_t)op.arg;
		a[2] = op.arg >> 32;
		break;
	default:
		a[1] = op.id;
		a[2] = (uint32_t)op.arg;
		a[3] = op.arg >> 32;
	}

	/* A batch that is to be checked must run. */
	if (op.op != KVM_PERF_OP_BATCH && one_in(rng, 128))
		a[below(rng, 4)] ^= 1ULL << (32 + below(rng, 32));
}

/* Does the contract have this result for the operation? */
static bool expected(uint64_t op, int64_t ret)
{
#define E(error)	(ret == -KVM_##error)
	switch (op) {
	case KVM_PERF_OP_OPEN:
		return !ret || E(EINVAL) || E(EFAULT) || E(EEXIST) ||
		       E(EOPNOTSUPP) || E(ENOSPC) || E(EBUSY);
	case KVM_PERF_OP_CLOSE:
		return !ret || E(ENOENT);
	case KVM_PERF_OP_ENABLE:
		return !ret || E(ENOENT) || E(EBUSY) || E(ENOSPC) ||
		       E(EINVAL) || E(EOPNOTSUPP);
	case KVM_PERF_OP_DISABLE:
		return !ret || E(ENOENT) || E(EFAULT);
	case KVM_PERF_OP_READ:
		return !ret || E(ENOENT) || E(EFAULT) || E(EBUSY);
	case KVM_PERF_OP_QUERY:
	case KVM_PERF_OP_BATCH:
	case KVM_PERF_OP_SET_AREA:
		return !ret || E(EINVAL) || E(EFAULT);
	case KVM_PERF_OP_SET_COUNTS:
		return !ret || E(EINVAL) || E(EOPNOTSUPP);
	case KVM_PERF_OP_SET_PERIOD:
		return !ret || E(ENOENT) || E(EINVAL);
	case KVM_PERF_OP_RESET:
		return !ret;
	case KVM_PERF_OP_SET_LEFT:
		return !ret || E(ENOENT) || E(EINVAL) || E(EFAULT);
	default:
		return E(ENOSYS);
	}
#undef E
}

static void check(struct cpu *cpu, const char *what, uint64_t op, int64_t ret,
		  bool malformed)
{
	if (malformed ? ret != -KVM_EINVAL : !expected(op, ret)) {
		if (cpu->wrong++ < 5)
			ksft_print_msg("CPU %u: %s%s %llu: %lld\n", cpu->nr,
				       what, malformed ? " malformed" : "",
				       (unsigned long long)op, (long long)ret);
		return;
	}

	cpu->results[op < NR_OPS ? op : 0][-ret]++;
}

static void check_call(struct cpu *cpu, const struct kvm_perf_hypercall *call)
{
	const __u64 *a = call->a;
	bool third = a[0] == KVM_PERF_OP_SET_PERIOD ||
		     a[0] == KVM_PERF_OP_SET_LEFT;

	check(cpu, "operation", a[0], call->ret,
	      a[1] >> 32 || a[2] >> 32 || (third && a[3] >> 32));
}

static void check_batch(struct cpu *cpu)
{
	const struct guest_perf_op *was = cpu->checked, *is = cpu->own.area->ops;
	unsigned int i;

	for (i = 0; i < cpu->checked_nr; i++)
		check(cpu, "batched operation", was[i].op, is[i].result,
		      was[i].reserved || was[i].op == KVM_PERF_OP_BATCH ||
		      was[i].op == KVM_PERF_OP_RESET);
	cpu->batched += cpu->checked_nr;
	cpu->checked_nr = 0;
}

/* Reads a counter: AMD's or Intel's, from 6 on another AMD CPU's, a fixed one, or none. */
static void read_counter(struct cpu *cpu)
{
	struct kvm_perf_rdpmc rdpmc = {
		.ecx = one_in(&cpu->rng, 8) ? rnd(&cpu->rng) :
			below(&cpu->rng, 12) | below(&cpu->rng, 2) << 30,
	};

	if (one_in(&cpu->rng, 2))
		rdpmc.ecx = below(&cpu->rng, 6);
	if (ioctl(cpu->own.dev, KVM_PERF_HYPERCALL_RDPMC, &rdpmc))
		ksft_exit_fail_msg("RDPMC: %s\n", strerror(errno));
	cpu->faults += rdpmc.failed;
	cpu->zeros += !rdpmc.failed && !rdpmc.value;
	cpu->values += rdpmc.value != 0;
}

static void *run(void *arg)
{
	struct kvm_perf_hypercall calls[CALLS] = { };
	struct cpu *cpu = arg;
	cpu_set_t set;
	unsigned int i, n;

	CPU_ZERO(&set);
	CPU_SET(cpu->nr, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		ksft_exit_fail_msg("CPU %u: %s\n", cpu->nr, strerror(errno));

	while (cpu->hypercalls) {
		struct kvm_perf_hypercalls all = { .calls = (uintptr_t)calls };

		/* In 8 of 64 system calls, in a row. */
		many = (cpu->hypercalls / CALLS) % 64 < 8;
		n = cpu->hypercalls < CALLS ? cpu->hypercalls : CALLS;
		for (i = 0; i < n; i++)
			fill_call(cpu, &calls[i]);
		all.nr = n;
		if (ioctl(cpu->own.dev, KVM_PERF_HYPERCALL_CALLS, &all))
			ksft_exit_fail_msg("ioctl: %s\n", strerror(errno));
		for (i = 0; i < 16; i++)
			read_counter(cpu);
		for (i = 0; i < n; i++)
			check_call(cpu, &calls[i]);
		check_batch(cpu);
		cpu->hypercalls -= n;
	}

	return NULL;
}

static void map(struct mapping *m)
{
	m->dev = open("/dev/kvm_perf_hypercall", O_RDWR);
	if (m->dev < 0)
		ksft_exit_fail_msg("/dev/kvm_perf_hypercall: %s\n",
				   strerror(errno));
	m->area = mmap(NULL, KVM_PERF_HYPERCALL_MEM, PROT_READ | PROT_WRITE,
		       MAP_SHARED, m->dev, 0);
	if (m->area == MAP_FAILED ||
	    ioctl(m->dev, KVM_PERF_HYPERCALL_PHYS, &m->phys))
		ksft_exit_fail_msg("mmap: %s\n", strerror(errno));
}

static unsigned long sum(unsigned int nr_cpus, unsigned int op, unsigned int err)
{
	unsigned long n = 0;
	unsigned int i;

	for (i = 0; i < nr_cpus; i++)
		n += cpus[i].results[op][err];
	return n;
}

static void report(unsigned int nr_cpus, unsigned long hypercalls, bool core)
{
	static const char * const names[NR_OPS] = {
		"none", "OPEN", "CLOSE", "ENABLE", "DISABLE", "READ", "QUERY",
		"SET_PERIOD", "BATCH", "RESET", "SET_LEFT", "SET_AREA",
		"SET_COUNTS",
	};
	/* Each of these results must occur: otherwise the test does not get far enough. */
	static const struct {
		int op, err;
	} must[] = {
		{ 0, KVM_ENOSYS },
		{ KVM_PERF_OP_OPEN, 0 }, { KVM_PERF_OP_OPEN, KVM_EINVAL },
		{ KVM_PERF_OP_OPEN, KVM_EFAULT },
		{ KVM_PERF_OP_OPEN, KVM_EEXIST },
		{ KVM_PERF_OP_OPEN, KVM_ENOSPC },
		{ KVM_PERF_OP_OPEN, KVM_EOPNOTSUPP },
		{ KVM_PERF_OP_CLOSE, 0 }, { KVM_PERF_OP_CLOSE, KVM_ENOENT },
		{ KVM_PERF_OP_ENABLE, 0 }, { KVM_PERF_OP_ENABLE, KVM_EBUSY },
		{ KVM_PERF_OP_DISABLE, 0 }, { KVM_PERF_OP_READ, 0 },
		{ KVM_PERF_OP_QUERY, 0 }, { KVM_PERF_OP_QUERY, KVM_EFAULT },
		{ KVM_PERF_OP_SET_PERIOD, 0 },
		{ KVM_PERF_OP_SET_PERIOD, KVM_EINVAL },
		{ KVM_PERF_OP_BATCH, 0 }, { KVM_PERF_OP_BATCH, KVM_EFAULT },
		{ KVM_PERF_OP_RESET, 0 }, { KVM_PERF_OP_SET_LEFT, 0 },
		{ KVM_PERF_OP_SET_AREA, 0 }, { KVM_PERF_OP_SET_AREA, KVM_EINVAL },
		{ KVM_PERF_OP_SET_AREA, KVM_EFAULT },
		{ KVM_PERF_OP_SET_COUNTS, 0 }, { KVM_PERF_OP_SET_COUNTS, KVM_EINVAL },
	};
	unsigned long wrong = 0, batched = 0, n;
	unsigned long faults = 0, zeros = 0, values = 0;
	unsigned int i, err, missing = 0;

	for (i = 0; i < nr_cpus; i++) {
		wrong += cpus[i].wrong;
		batched += cpus[i].batched;
		faults += cpus[i].faults;
		zeros += cpus[i].zeros;
		values += cpus[i].values;
	}
	ksft_print_msg("%lu hypercalls, %lu more operations in own batches\n",
		       hypercalls, batched);
	for (i = 0; i < NR_OPS; i++) {
		printf("# %s:", names[i]);
		for (err = 0; err <= KVM_ENOSYS; err++) {
			n = sum(nr_cpus, i, err);
			if (n)
				printf(" %lu x %d", n, -(int)err);
		}
		printf("\n");
	}
	for (i = 0; i < ARRAY_SIZE(must); i++) {
		if (sum(nr_cpus, must[i].op, must[i].err) ||
		    (core && must[i].op == KVM_PERF_OP_SET_COUNTS && !must[i].err))
			continue;
		ksft_print_msg("%s never answered %d\n", names[must[i].op],
			       -must[i].err);
		missing++;
	}

	ksft_print_msg("RDPMC: %lu faults, %lu zeros, %lu values\n", faults,
		       zeros, values);

	if (core)
		ksft_test_result(faults && !values, "RDPMC is not allowed\n");
	else
		ksft_test_result(faults && zeros && values,
				 "RDPMC is allowed at times, and at times faults\n");
	ksft_test_result(!wrong, "the contract has all results\n");
	if (missing && hypercalls < ENOUGH)
		ksft_test_result_skip("too few hypercalls to see all results that matter\n");
	else
		ksft_test_result(!missing, "all results that matter have occurred\n");
}

int main(int argc, char **argv)
{
	unsigned long hypercalls, seed;
	unsigned int nr_cpus, i;

	if (argc < 4)
		ksft_exit_fail_msg("usage: hostile HYPERCALLS CPUS SEED [core]\n");
	hypercalls = strtoul(argv[1], NULL, 0);
	nr_cpus = strtoul(argv[2], NULL, 0);
	seed = strtoul(argv[3], NULL, 0);
	if (!nr_cpus || nr_cpus > MAX_CPUS)
		ksft_exit_fail_msg("1 to %d CPUs\n", MAX_CPUS);

	ksft_print_header();
	ksft_print_msg("seed %lu\n", seed);
	map(&common);
	for (i = 0; i < nr_cpus; i++) {
		struct cpu *cpu = &cpus[i];

		cpu->nr = i;
		cpu->hypercalls = hypercalls / nr_cpus +
				  (i < hypercalls % nr_cpus);
		/* Never 0: xorshift would stay 0. */
		cpu->rng = (seed * MAX_CPUS + i) * 0x9e3779b97f4a7c15ULL | 1;
		map(&cpu->own);
		if (pthread_create(&cpu->thread, NULL, run, cpu))
			ksft_exit_fail_msg("no thread\n");
	}
	for (i = 0; i < nr_cpus; i++)
		pthread_join(cpus[i].thread, NULL);

	report(nr_cpus, hypercalls, argc > 4);
	/* Open events stay open: the host must close them at the end of the VM. */
	ksft_set_plan(ksft_test_num());
	ksft_finished();
}
