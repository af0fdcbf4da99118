// SPDX-License-Identifier: GPL-2.0
/*
 * Opens, enables, disables, reads and closes sampling events at random on all
 * CPUs until they have overflowed OVERFLOWS times.
 *
 * Usage: overflow_stress OVERFLOWS [SEED]
 *
 * Each CPU has a thread, with events of the thread and of the CPU.  The program
 * counts the samples in the ring buffers, and prints their number.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/perf_event.h>

#define EVENTS	8
#define PAGES	8

struct event {
	int fd;
	struct perf_event_mmap_page *page;
};

static long wanted;
static long overflows;

static const uint64_t configs[] = {
	PERF_COUNT_HW_INSTRUCTIONS, PERF_COUNT_HW_CPU_CYCLES,
	PERF_COUNT_HW_BRANCH_INSTRUCTIONS,
};

static void open_event(struct event *e, int cpu, unsigned int *seed)
{
	unsigned int kind = rand_r(seed);
	struct perf_event_attr attr = {
		.size		= sizeof(attr),
		.type		= PERF_TYPE_HARDWARE,
		.config		= configs[kind % 3],
		.sample_type	= PERF_SAMPLE_IP,
		.disabled	= kind >> 4 & 1,
		.exclude_kernel	= kind >> 5 & 1,
		.exclude_user	= (kind >> 5 & 3) == 2,
	};

	if ((kind >> 8) % 4) {
		attr.sample_period = 500 + (kind >> 10) % 8 * 500;
		/*
		 * Events of the kernel count the entry of the NMI handler: a longer period
		 * lets the program make progress.
		 */
		if (!attr.exclude_kernel)
			attr.sample_period *= 20;
	} else {
		attr.freq = 1;
		attr.sample_freq = 20000;
	}

	e->fd = syscall(SYS_perf_event_open, &attr, kind >> 7 & 1 ? 0 : -1, cpu,
			-1, 0);
	if (e->fd < 0) {
		perror("perf_event_open");
		exit(1);
	}
	e->page = mmap(NULL, (PAGES + 1) * 4096, PROT_READ | PROT_WRITE,
		       MAP_SHARED, e->fd, 0);
	if (e->page == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
}

/* The ring buffer also has records that an event is throttled. */
static void drain(struct event *e)
{
	uint64_t head = __atomic_load_n(&e->page->data_head, __ATOMIC_ACQUIRE);
	uint64_t tail = e->page->data_tail;
	const struct perf_event_header *record;

	for (; tail < head; tail += record->size) {
		record = (void *)e->page + 4096 + tail % (PAGES * 4096);
		if (record->type == PERF_RECORD_SAMPLE)
			__atomic_add_fetch(&overflows, 1, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&e->page->data_tail, head, __ATOMIC_RELEASE);
}

static void close_event(struct event *e)
{
	drain(e);
	munmap(e->page, (PAGES + 1) * 4096);
	close(e->fd);
	e->page = NULL;
}

static void step(struct event *e, int cpu, unsigned int *seed)
{
	char buf[64];

	if (!e->page) {
		open_event(e, cpu, seed);
		return;
	}

	drain(e);
	switch (rand_r(seed) % 8) {
	case 0:
		close_event(e);
		break;
	case 1:
		ioctl(e->fd, PERF_EVENT_IOC_DISABLE, 0);
		break;
	case 2:
		ioctl(e->fd, PERF_EVENT_IOC_REFRESH, 5);
		break;
	case 3:
		if (read(e->fd, buf, sizeof(buf)) < 0)
			perror("read");
		break;
	default:
		ioctl(e->fd, PERF_EVENT_IOC_ENABLE, 0);
		break;
	}
}

static void *worker(void *arg)
{
	unsigned int cpu = (uintptr_t)arg & 0xffff, seed = (uintptr_t)arg;
	struct event events[EVENTS] = { 0 };
	volatile int i;
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);

	while (__atomic_load_n(&overflows, __ATOMIC_RELAXED) < wanted) {
		step(&events[rand_r(&seed) % EVENTS], cpu, &seed);
		for (i = rand_r(&seed) % 4000; i; i--)
			;
	}
	for (i = 0; i < EVENTS; i++)
		if (events[i].page)
			close_event(&events[i]);
	return NULL;
}

int main(int argc, char **argv)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN), i;
	unsigned long seed = argc > 2 ? strtoul(argv[2], NULL, 0) : 1;
	pthread_t threads[cpus];

	if (argc < 2) {
		fprintf(stderr, "Usage: overflow_stress OVERFLOWS [SEED]\n");
		return 2;
	}
	wanted = atol(argv[1]);
	for (i = 0; i < cpus; i++)
		pthread_create(&threads[i], NULL, worker,
			       (void *)(seed << 16 | i));
	for (i = 0; i < cpus; i++)
		pthread_join(threads[i], NULL);
	printf("%ld\n", overflows);
	return 0;
}
