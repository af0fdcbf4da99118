// SPDX-License-Identifier: GPL-2.0
/* build: -static */
/*
 * self_monitor [SECONDS]: counts its own instructions, and reads the count in user
 * mode by RDPMC, as linux/perf_event.h describes (struct perf_event_mmap_page).  Counts
 * a loop of 10,000 instructions again and again, for SECONDS (default: 2) or until
 * SIGINT, and prints how many counts were wrong.  Exits with 1 if any count was wrong.
 *
 * If perf does not let the program read a counter, the program uses read().
 *
 * self_monitor not-mapped: executes RDPMC without an event, which causes SIGSEGV.
 */
#include <signal.h>
#include <stdbool.h>
#include <string.h>

#include "self.h"

#define LOOP		5000	/* of two instructions each */
/* The most additional instructions of a repeated reading or of a read(). */
#define SLACK		400

/* A count, and how the program has read it. */
struct reading {
	uint64_t count;
	unsigned int again;
	bool by_read;
};

static int fd;
static volatile sig_atomic_t interrupted;

static inline uint64_t rdpmc(uint32_t counter)
{
	uint32_t low, high;

	__asm__ volatile("rdpmc" : "=a"(low), "=d"(high) : "c"(counter));
	return (uint64_t)high << 32 | low;
}

/* Keeps the compiler from moving memory accesses across this. */
static inline void barrier(void)
{
	__asm__ volatile("" : : : "memory");
}

/* Returns false if there is no counter to read now. */
static inline bool read_counter(struct reading *reading)
{
	uint32_t seq, index;
	uint64_t count;
	int64_t pmc;

	for (;; reading->again++) {
		seq = page->lock;
		barrier();
		index = page->index;
		count = page->offset;
		if (!page->cap_user_rdpmc || !index)
			return false;
		pmc = rdpmc(index - 1) << (64 - page->pmc_width);
		count += pmc >> (64 - page->pmc_width);
		barrier();
		if (page->lock == seq) {
			reading->count = count;
			return true;
		}
	}
}

/* Never inlined, so that each reading executes the same. */
static __attribute__((noinline)) struct reading take_reading(void)
{
	struct reading reading = { 0 };

	if (!read_counter(&reading)) {
		reading.by_read = true;
		if (read(fd, &reading.count, 8) != 8) {
			perror("read");
			exit(2);
		}
	}
	return reading;
}

static void loop(void)
{
	unsigned int n = LOOP;

	__asm__ volatile("1: dec %0; jnz 1b" : "+r"(n));
}

static void interrupt(int signo)
{
	interrupted = 1;
}

int main(int argc, char *argv[])
{
	double end = now() + (argc > 1 ? atof(argv[1]) : 2);
	unsigned long by_rdpmc = 0, by_read = 0, wrong = 0;
	uint64_t usual = 0, counted, last = 0;
	struct reading before, after;
	bool plain;

	if (argc > 1 && !strcmp(argv[1], "not-mapped")) {
		printf("%llu\n", (unsigned long long)rdpmc(0));
		return 0;
	}

	signal(SIGINT, interrupt);
	fd = count_self();
	while (!interrupted && now() < end) {
		before = take_reading();
		loop();
		after = take_reading();
		/* The count may include the signal handler's instructions. */
		if (interrupted)
			break;

		counted = after.count - before.count;
		/* A repeated reading may execute other instructions at its end. */
		plain = !before.by_read && !after.by_read && !before.again &&
			!after.again;
		if (plain && !usual)
			usual = counted;
		by_rdpmc += !before.by_read + !after.by_read;
		by_read += before.by_read + after.by_read;
		if (before.count < last || counted < 2 * LOOP ||
		    counted > 2 * LOOP + SLACK * (after.again + 1) ||
		    (plain && counted != usual)) {
			if (wrong++ < 5)
				fprintf(stderr,
					"counted %lld, of %llu; %u %u again, read %d %d, from %llu on, after %llu\n",
					(long long)counted,
					(unsigned long long)usual, before.again,
					after.again,
					before.by_read, after.by_read,
					(unsigned long long)before.count,
					(unsigned long long)last);
		}
		last = after.count;
	}

	printf("%lu readings by RDPMC, %lu by read(), %lu wrong\n", by_rdpmc,
	       by_read, wrong);
	return wrong != 0;
}
