// SPDX-License-Identifier: GPL-2.0
/*
 * A guest that uses all its limits, as fast as it can, until SIGTERM.
 *
 * Usage: attack spin		does nothing else; the others are compared with this
 *	  attack open		opens events up to the limit, and closes them
 *	  attack overflow	as many events as there are counters overflow at every
 *				PERIOD-th instruction
 */
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <linux/kvm_para.h>
#include <linux/perf_event.h>

#include "kvm_perf.h"
#include "kvm_perf_hypercall.h"

#define PERIOD		100
#define NR_COUNTERS	6
#define NR_EVENTS	80	/* more than the limit of one vCPU */

static struct shared {
	struct guest_perf_event record[NR_EVENTS];
	struct guest_perf_event_param param[NR_EVENTS];
	struct guest_perf_attr attr;
} *shared;

_Static_assert(sizeof(struct shared) <= KVM_PERF_HYPERCALL_MEM, "shared");

static int dev;
static volatile sig_atomic_t stop;
static uint64_t phys;
static struct kvm_perf_hypercall calls[2 * NR_EVENTS];
static unsigned int nr_calls;

static void add(uint64_t op, uint64_t a1, uint64_t a2)
{
	calls[nr_calls++] = (struct kvm_perf_hypercall){
		.nr = KVM_PERF_OP, .a = { op, a1, a2 },
	};
}

static void stop_attack(int signal)
{
	stop = 1;
}

static void make_calls(void)
{
	struct kvm_perf_hypercalls all = {
		.calls = (uintptr_t)calls, .nr = nr_calls,
	};

	if (ioctl(dev, KVM_PERF_HYPERCALL_CALLS, &all)) {
		perror("attack: hypercalls");
		exit(1);
	}
}

static void add_open(uint32_t id)
{
	uint64_t param = phys + offsetof(struct shared, param[id]);

	shared->param[id] = (struct guest_perf_event_param){
		.attr_addr = phys + offsetof(struct shared, attr),
		.event_addr = phys + offsetof(struct shared, record[id]),
		.id = id,
	};
	add(KVM_PERF_OP_OPEN, (uint32_t)param, param >> 32);
}

static void attack_open(void)
{
	unsigned int id;

	for (id = 0; id < NR_EVENTS; id++)
		add_open(id);
	for (id = 0; id < NR_EVENTS; id++)
		add(KVM_PERF_OP_CLOSE, id, 0);
	while (!stop)
		make_calls();
}

static void attack_overflow(void)
{
	volatile unsigned int i;
	unsigned int id;

	shared->attr.sample_period = PERIOD;
	for (id = 0; id < NR_COUNTERS; id++)
		add_open(id);
	make_calls();

	/* Enable events again that the host has stopped or that have no counter. */
	nr_calls = 0;
	for (id = 0; id < NR_COUNTERS; id++) {
		add(KVM_PERF_OP_DISABLE, id, 0);
		add(KVM_PERF_OP_ENABLE, id, 0);
	}
	while (!stop) {
		make_calls();
		for (i = 0; i < 10000; i++)
			;
	}
}

int main(int argc, char **argv)
{
	const char *what = argc == 2 ? argv[1] : "";

	dev = open("/dev/kvm_perf_hypercall", O_RDWR);
	shared = mmap(NULL, KVM_PERF_HYPERCALL_MEM, PROT_READ | PROT_WRITE,
		      MAP_SHARED, dev, 0);
	if (shared == MAP_FAILED ||
	    ioctl(dev, KVM_PERF_HYPERCALL_PHYS, &phys)) {
		perror("attack: /dev/kvm_perf_hypercall");
		return 1;
	}
	shared->attr.size = sizeof(shared->attr);
	shared->attr.type = PERF_TYPE_HARDWARE;
	shared->attr.config = PERF_COUNT_HW_INSTRUCTIONS;
	signal(SIGTERM, stop_attack);

	if (!strcmp(what, "open")) {
		attack_open();
	} else if (!strcmp(what, "overflow")) {
		attack_overflow();
	} else if (!strcmp(what, "spin")) {
		while (!stop)
			;
	} else {
		fprintf(stderr, "usage: attack spin|open|overflow\n");
		return 2;
	}

	/* RESET before the kernel frees the memory of the records. */
	nr_calls = 0;
	add(KVM_PERF_OP_RESET, 0, 0);
	make_calls();
	return 0;
}
