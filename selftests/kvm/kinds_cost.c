// SPDX-License-Identifier: GPL-2.0
/*
 * Measures what events cost a guest, on an emulated machine whose time stamp counter counts
 * instructions.
 *
 *	kinds_cost			operations of a guest that stays on CPU 0
 *	kinds_cost move A B OTHER	the vCPU's thread moves between the CPUs A and B while
 *					this program runs on another CPU
 *
 * prints a line for each operation and number of events: the operation, the number, and the
 * instructions of host and guest per operation.  The operations:
 *
 *	exit		CPUID: an exit and an entry
 *	rdpmc-exit	the same for a guest that may read the events by RDPMC
 *	freq-exit	the same for an event that has a frequency
 *	enable		DISABLE and ENABLE of all events, by a BATCH each
 *	read		READ of each event
 *	open		OPEN and CLOSE of one more event
 *	move		how long the guest does not run because of a move
 *
 * The figure is the least of ROUNDS, so that it has no tick of the host's timer; of moves,
 * whose length depends on what the other CPU does at the moment, it is the median.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest_perf.h"

#define ROUNDS		100
#define OPERATIONS	10
#define MOVES		60
#define MOST_EVENTS	4

enum operation { EXIT, ENABLE, READ, OPEN };

static struct kvm_vcpu *vcpus[GUEST_PERF_VCPUS];
static struct guest_perf_shared *area;

/*
 * The guest
 */

static void guest_open(uint32_t id, uint64_t period, uint64_t flags)
{
	struct guest_perf_event_param *param = &guest_area->vcpu[0].param;
	struct guest_perf_attr *attr = &guest_area->vcpu[0].attr;

	*attr = (struct guest_perf_attr) {
		.size		= sizeof(*attr),
		.type		= KVM_PERF_TYPE_HARDWARE,
		.config		= PERF_COUNT_HW_INSTRUCTIONS,
		.sample_period	= period,
		.flags		= flags,
	};
	*param = (struct guest_perf_event_param) {
		.attr_addr	= guest_perf_gpa(attr),
		.event_addr	= guest_perf_gpa(&guest_area->record[id]),
		.id		= id,
	};
	GUEST_ASSERT_EQ(guest_perf_addr_op(KVM_PERF_OP_OPEN, param, 0), 0);
}

static void guest_start(uint32_t id, uint64_t period, uint64_t flags)
{
	guest_open(id, period, flags);
	GUEST_ASSERT_EQ(guest_perf_op(KVM_PERF_OP_ENABLE, id, 0), 0);
}

static void guest_close(uint32_t id)
{
	GUEST_ASSERT_EQ(guest_perf_op(KVM_PERF_OP_CLOSE, id, 0), 0);
}

static void guest_batch(unsigned int op, int events)
{
	struct guest_perf_op *ops = guest_area->vcpu[0].ops;
	int id;

	for (id = 0; id < events; id++)
		ops[id] = (struct guest_perf_op) { .op = op, .id = id };
	GUEST_ASSERT_EQ(guest_perf_addr_op(KVM_PERF_OP_BATCH, ops, events), 0);
	for (id = 0; id < events; id++)
		GUEST_ASSERT_EQ(ops[id].result, 0);
}

static void guest_do(enum operation what, int events)
{
	uint32_t eax = 0, ebx, ecx = 0, edx;
	int id;

	switch (what) {
	case EXIT:
		asm volatile("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
		break;
	case ENABLE:
		guest_batch(KVM_PERF_OP_DISABLE, events);
		guest_batch(KVM_PERF_OP_ENABLE, events);
		break;
	case READ:
		for (id = 0; id < events; id++)
			GUEST_ASSERT_EQ(guest_perf_op(KVM_PERF_OP_READ, id, 0), 0);
		break;
	case OPEN:
		guest_open(MOST_EVENTS, 0, 0);
		guest_close(MOST_EVENTS);
		break;
	}
}

/* Tells the VMM the least time of ten operations, and the number of events. */
static void guest_measure(enum operation what, const char *name, int events)
{
	uint64_t least = -1ull, begin;
	int round, i;

	for (round = 0; round < ROUNDS; round++) {
		begin = rdtsc();
		for (i = 0; i < OPERATIONS; i++)
			guest_do(what, events);
		least = MIN(least, rdtsc() - begin);
	}
	GUEST_SYNC_ARGS((uintptr_t)name, events, least, 0, 0);
}

static void guest_operations(int vcpu)
{
	int events;

	guest_measure(EXIT, "exit", 0);
	guest_measure(OPEN, "open", 0);
	for (events = 1; events <= MOST_EVENTS; events++) {
		guest_start(events - 1, 0, 0);
		if (events > 1 && events < MOST_EVENTS)
			continue;
		guest_measure(EXIT, "exit", events);
		guest_measure(ENABLE, "enable", events);
		guest_measure(READ, "read", events);
	}
	for (events = 0; events < MOST_EVENTS; events++)
		guest_close(events);

	for (events = 1; events <= MOST_EVENTS; events++) {
		guest_start(events - 1, 0, KVM_PERF_ATTR_RDPMC);
		if (events == 1 || events == MOST_EVENTS)
			guest_measure(EXIT, "rdpmc-exit", events);
	}
	for (events = 0; events < MOST_EVENTS; events++)
		guest_close(events);

	/* So few overflows that most rounds have none. */
	guest_start(0, 1, KVM_PERF_ATTR_FREQ);
	guest_measure(EXIT, "freq-exit", 1);
	guest_close(0);
	GUEST_DONE();
}

/* Tells the VMM, whenever it begins another phase, the longest time without the guest. */
static void guest_gaps(int vcpu)
{
	uint64_t last = rdtsc(), most = 0, phase = 0, now;

	for (;;) {
		now = rdtsc();
		most = MAX(most, now - last);
		last = now;
		if (READ_ONCE(guest_area->phase) == phase)
			continue;
		phase = READ_ONCE(guest_area->phase);
		guest_area->reached[1] = most;
		most = 0;
		WRITE_ONCE(guest_area->reached[0], phase);
	}
}

/* Opens as many events as the VMM says. */
static void guest_moved(int events)
{
	int id;

	for (id = 0; id < events; id++)
		guest_start(id, 0, 0);
	GUEST_SYNC(0);
	guest_gaps(0);
}

/*
 * The VMM
 */

static void run_on(pid_t thread, int cpu)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	TEST_ASSERT(!sched_setaffinity(thread, sizeof(cpus), &cpus), "CPU %d", cpu);
}

static void measure_operations(void)
{
	struct kvm_vm *vm;
	struct ucall uc;

	run_on(0, 0);
	vm = guest_perf_vm_create(1, guest_operations, vcpus, &area);
	while (guest_perf_run(vcpus[0], &uc) == UCALL_SYNC)
		printf("%s %lu %.1f\n", (const char *)uc.args[1], uc.args[2],
		       (double)uc.args[3] / OPERATIONS);
	kvm_vm_free(vm);
}

static void *run_vcpu(void *tid)
{
	struct ucall uc;

	TEST_ASSERT(guest_perf_run(vcpus[0], &uc) == UCALL_SYNC, "the guest has ended");
	__atomic_store_n((pid_t *)tid, syscall(SYS_gettid), __ATOMIC_SEQ_CST);
	guest_perf_run(vcpus[0], &uc);
	return NULL;
}

/* Returns the longest time without the guest since the last call. */
static uint64_t next_phase(void)
{
	uint64_t phase = area->phase + 1;

	WRITE_ONCE(area->phase, phase);
	while (READ_ONCE(area->reached[0]) != phase)
		;
	return area->reached[1];
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void measure_moves(int events, const int cpus[2])
{
	uint64_t gaps[MOVES];
	pthread_t thread;
	pid_t tid = 0;
	int i;

	guest_perf_vm_create(1, guest_moved, vcpus, &area);
	vcpu_args_set(vcpus[0], 1, (uint64_t)events);
	pthread_create(&thread, NULL, run_vcpu, &tid);
	while (!__atomic_load_n(&tid, __ATOMIC_SEQ_CST))
		sched_yield();
	/* Later moves find everything in place. */
	for (i = -4; i < MOVES; i++) {
		next_phase();
		run_on(tid, cpus[i & 1]);
		/* The guest runs there. */
		usleep(500);
		if (i >= 0)
			gaps[i] = next_phase();
	}
	qsort(gaps, MOVES, sizeof(*gaps), compare);
	printf("move %d %lu\n", events, gaps[MOVES / 2]);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	int cpus[2], events[] = { 0, 1, MOST_EVENTS }, i;

	if (argc == 1) {
		measure_operations();
		return 0;
	}
	if (argc != 5 || strcmp(argv[1], "move")) {
		fprintf(stderr, "usage: kinds_cost [move A B OTHER]\n");
		return 2;
	}
	cpus[0] = atoi(argv[2]);
	cpus[1] = atoi(argv[3]);
	run_on(0, atoi(argv[4]));
	for (i = 0; i < 3; i++) {
		if (!fork()) {
			measure_moves(events[i], cpus);
			/* The vCPU still runs. */
			_exit(0);
		}
		wait(NULL);
	}
	return 0;
}
