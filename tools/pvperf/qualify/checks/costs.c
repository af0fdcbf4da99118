// SPDX-License-Identifier: GPL-2.0
/*
 * Measures costs of operations, in nanoseconds and in ticks of the time stamp counter.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checks.h"

#define BATCHES		21

struct cost {
	double ns;
	double ticks;
};

static int compare(const void *a, const void *b)
{
	const struct cost *x = a, *y = b;

	return x->ns < y->ns ? -1 : x->ns > y->ns;
}

/* Prints the quartiles of the cost of one operation, from batches of @n operations. */
static void print_cost(const char *name, void (*batch)(int n), int n)
{
	struct cost costs[BATCHES];
	uint64_t ticks;
	double began;
	int i;

	batch(n);
	for (i = 0; i < BATCHES; i++) {
		began = seconds();
		ticks = cycles();
		batch(n);
		costs[i].ticks = (double)(cycles() - ticks) / n;
		costs[i].ns = (seconds() - began) * 1e9 / n;
	}
	qsort(costs, BATCHES, sizeof(*costs), compare);
	printf("\"%s\": [%.0f, %.0f, %.0f, %.0f], ", name, costs[BATCHES / 4].ns,
	       costs[BATCHES / 2].ns, costs[BATCHES * 3 / 4].ns,
	       costs[BATCHES / 2].ticks);
}

static int event;
static volatile struct perf_event_mmap_page *page;

static void batch_cpuid(int n)
{
	unsigned int leaf;

	while (n--) {
		leaf = 0;
		asm volatile("cpuid" : "+a" (leaf) : : "ebx", "ecx", "edx");
	}
}

static void batch_read(int n)
{
	while (n--)
		read_one(event);
}

static void batch_rdpmc(int n)
{
	uint32_t low, high;

	while (n--) {
		if (page->index)
			asm volatile("rdpmc" : "=a" (low), "=d" (high)
				     : "c" (page->index - 1));
	}
}

static void batch_open(int n)
{
	while (n--)
		close(open_user(PERF_COUNT_HW_INSTRUCTIONS, -1, 0));
}

static void batch_fork(int n)
{
	while (n--) {
		if (!fork())
			_exit(0);
		wait(NULL);
	}
}

/* Sends a byte to another task and back: two task switches. */
static int to[2], from[2];

static void batch_switch(int n)
{
	char byte = 0;

	while (n--) {
		if (write(to[1], &byte, 1) != 1 || read(from[0], &byte, 1) != 1)
			impossible("pipe");
	}
}

static void start_partner(void)
{
	cpu_set_t one_cpu;
	char byte;

	CPU_ZERO(&one_cpu);
	CPU_SET(sched_getcpu(), &one_cpu);
	sched_setaffinity(0, sizeof(one_cpu), &one_cpu);
	if (pipe(to) || pipe(from))
		impossible("pipe");
	if (!fork()) {
		close(to[1]);
		while (read(to[0], &byte, 1) == 1 && write(from[1], &byte, 1) == 1)
			;
		_exit(0);
	}
}

/* perf maps no page of an event that children inherit, so this event has no inherit. */
static void open_event(void)
{
	event = open_user(PERF_COUNT_HW_INSTRUCTIONS, -1, 0);
	page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, event, 0);
	if (page == MAP_FAILED)
		impossible("mmap of an event");
	ioctl(event, PERF_EVENT_IOC_ENABLE, 0);
}

/* Opens four events that children inherit. */
static void open_events(void)
{
	static const uint64_t configs[] = {
		PERF_COUNT_HW_INSTRUCTIONS, PERF_COUNT_HW_BRANCH_INSTRUCTIONS,
		PERF_COUNT_HW_CPU_CYCLES, PERF_COUNT_HW_BRANCH_INSTRUCTIONS,
	};
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_HARDWARE,
		.inherit = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(configs); i++) {
		attr.config = configs[i];
		if (open_attr(&attr, -1) < 0)
			impossible("perf opens no four events");
	}
}

static void batch_samples(int n)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_HARDWARE,
		.config = PERF_COUNT_HW_INSTRUCTIONS,
		.sample_period = 100000,
		.sample_type = PERF_SAMPLE_IP,
		.disabled = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};
	int fd = open_attr(&attr, -1);
	struct ring ring;

	if (fd < 0)
		impossible("perf opens no event that samples");
	map_ring(&ring, fd);
	run_block(fd, n * 100);
	unmap_ring(&ring);
	close(fd);
}

/* Executes the same instructions without samples. */
static void batch_no_samples(int n)
{
	int fd = open_user(PERF_COUNT_HW_INSTRUCTIONS, -1, 0);

	run_block(fd, n * 100);
	close(fd);
}

static void print_switches(const char *name)
{
	start_partner();
	print_cost(name, batch_switch, 100);
	close(to[1]);
	wait(NULL);
}

void check_costs(void)
{
	unsigned int index;

	printf("@costs {");
	print_cost("cpuid", batch_cpuid, 200);
	print_cost("open", batch_open, 20);
	print_cost("samples", batch_samples, 20);
	print_cost("no samples", batch_no_samples, 20);
	print_cost("fork, no event", batch_fork, 10);
	print_switches("2 switches, no event");

	open_event();
	print_cost("read", batch_read, 100);
	index = page->index;
	if (index)
		print_cost("rdpmc", batch_rdpmc, 200);
	close(event);
	munmap((void *)page, 4096);

	open_events();
	print_cost("fork, 4 events", batch_fork, 10);
	print_switches("2 switches, 4 events");
	printf("\"rdpmc index\": %u}\n", index);
	say("\"batches\": %d", BATCHES);
}
