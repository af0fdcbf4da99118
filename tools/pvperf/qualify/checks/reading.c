// SPDX-License-Identifier: GPL-2.0
/*
 * Checks of RDPMC in user mode
 */
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checks.h"

#define READINGS	20000
#define LOOP		500

static inline uint64_t rdpmc(uint32_t counter)
{
	uint32_t low, high;

	asm volatile("rdpmc" : "=a" (low), "=d" (high) : "c" (counter) : "memory");
	return (uint64_t)high << 32 | low;
}

static volatile struct perf_event_mmap_page *map_page(int fd)
{
	void *page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);

	if (page == MAP_FAILED)
		impossible("mmap of an event");
	return page;
}

/* The algorithm of linux/perf_event.h.  Returns false if RDPMC cannot read the event. */
static inline __attribute__((always_inline)) bool
read_page(volatile struct perf_event_mmap_page *page, uint64_t *count, unsigned int *again)
{
	uint32_t seq, index;
	uint64_t offset;

	for (;; ++*again) {
		seq = page->lock;
		asm volatile("" : : : "memory");
		index = page->index;
		offset = page->offset;
		if (!page->cap_user_rdpmc || !index)
			return false;
		*count = offset + ((int64_t)(rdpmc(index - 1) << (64 - page->pmc_width)) >>
				   (64 - page->pmc_width));
		asm volatile("" : : : "memory");
		if (page->lock == seq)
			return true;
	}
}

/* Reads before and after a loop: the loop, and always the same code around the loop. */
void check_rdpmc(void)
{
	int fd = open_user(PERF_COUNT_HW_INSTRUCTIONS, -1, 0), i;
	volatile struct perf_event_mmap_page *page = map_page(fd);
	uint64_t before, after, least = UINT64_MAX, most = 0, last = 0, by_read = UINT64_MAX;
	unsigned long by_rdpmc = 0, backwards = 0, few = 0, many = 0, n;
	unsigned int again;

	ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
	for (i = 0; i < READINGS; i++) {
		again = 0;
		n = LOOP;
		if (!read_page(page, &before, &again))
			continue;
		asm volatile("1: dec %0; jnz 1b" : "+r" (n));
		if (!read_page(page, &after, &again))
			continue;
		by_rdpmc++;
		backwards += before < last;
		last = after;
		after -= before;
		few += after < LOOP * TIGHT;
		many += after > LOOP * TIGHT + 100 * (again + 1);
		if (!again && after < least)
			least = after;
		if (!again && after > most)
			most = after;
	}
	/* Compares with the count by a system call, and takes the least difference. */
	for (i = 0; i < 10; i++) {
		again = 0;
		before = 0;
		read_page(page, &before, &again);
		after = read_one(fd) - before;
		if (after < by_read)
			by_read = after;
	}
	say("\"readings\": %lu, \"of\": %d, \"too few\": %lu, \"too many\": %lu, "
	    "\"backwards\": %lu, \"least\": %lu, \"most\": %lu, \"loop\": %d, "
	    "\"read() more by\": %ld", by_rdpmc, READINGS, few, many, backwards, least, most,
	    LOOP * TIGHT, (long)by_read);
}

static sigjmp_buf faulted;

static void fault(int signo)
{
	siglongjmp(faulted, signo);
}

/* The counters to try: general-purpose counters, and Intel's fixed counters. */
static const uint32_t counters[] = {
	0, 1, 2, 3, 4, 5, 6, 7, 0x40000000, 0x40000001, 0x40000002,
};

/* Reads a counter; returns false if RDPMC faults. */
static bool try_rdpmc(uint32_t counter, uint64_t *value)
{
	if (sigsetjmp(faulted, 1))
		return false;
	*value = rdpmc(counter);
	return true;
}

/* Runs in another task: counts on this CPU, so that counters may hold this task's counts. */
static void count_others(void)
{
	int fds[3], i;

	for (i = 0; i < 3; i++)
		fds[i] = open_user(i == 1 ? PERF_COUNT_HW_BRANCH_INSTRUCTIONS :
				   PERF_COUNT_HW_INSTRUCTIONS, -1, 0);
	run_tight(fds[0], 5000);
	run_tight(fds[1], 5000);
	run_tight(fds[2], 5000);
	ioctl(fds[2], PERF_EVENT_IOC_ENABLE, 0);
	sched_yield();
}

void check_residue(void)
{
	volatile struct perf_event_mmap_page *page;
	unsigned long rounds = 0, held = 0, moved = 0, readable = 0;
	uint64_t first, then, worst = 0;
	cpu_set_t one_cpu;
	int fd, i, j;

	CPU_ZERO(&one_cpu);
	CPU_SET(sched_getcpu(), &one_cpu);
	sched_setaffinity(0, sizeof(one_cpu), &one_cpu);
	signal(SIGSEGV, fault);
	fd = open_user(PERF_COUNT_HW_INSTRUCTIONS, -1, 0);
	page = map_page(fd);
	ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
	for (i = 0; i < 50; i++) {
		uint32_t own;

		if (!fork()) {
			count_others();
			_exit(0);
		}
		wait(NULL);
		own = page->index;
		if (!own || !page->cap_user_rdpmc)
			continue;
		rounds++;
		for (j = 0; j < (int)ARRAY_SIZE(counters); j++) {
			if (counters[j] + 1 == own || !try_rdpmc(counters[j], &first))
				continue;
			syscall(SYS_getppid);
			if (!try_rdpmc(counters[j], &then) || page->index != own)
				continue;
			readable++;
			held += then && then == first;
			moved += then != first;
			if (then > worst)
				worst = then;
		}
	}
	say("\"rounds\": %lu, \"readable\": %lu, \"held\": %lu, \"moved\": %lu, "
	    "\"worst\": %lu", rounds, readable, held, moved, worst);
}
