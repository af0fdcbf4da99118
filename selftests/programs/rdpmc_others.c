// SPDX-License-Identifier: GPL-2.0
/* build: -static */
/*
 * rdpmc_others [-f] SECONDS ECX...: counts its own instructions in user mode, and reads
 * these counters of its CPU by RDPMC, which a program with a mapped event may execute.
 *
 * A round reads each counter but the program's own, makes system calls, and reads the
 * counters again.  If perf has changed the event's page meanwhile, or the page has no index,
 * the round does not count, because the program cannot know its own counter.  Prints in how many rounds a
 * counter moved or was not 0, and shows the first of these.  Exits with 1 if there was
 * such a round, or no round at all.  After a round that does not count, the next one makes
 * fewer system calls: on a slow machine another task might interrupt each round.
 *
 * The program leaves out counters that the CPU does not have.  In a guest, RDPMC of such a
 * counter reads 0, and the driver changes the page, so that no round would count.
 *
 * -f: a child reads the counters.  The child has not mapped an event, but has inherited
 * its parent's permission to execute RDPMC.
 *
 * With SECONDS 0, the program reads its own counter by RDPMC until the counter reads 0 or
 * RDPMC faults: user mode may then no longer read counters.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>

#include "self.h"

#define MAX_COUNTERS	16
/* System calls of a round, and the fewest. */
#define CALLS		200
#define MIN_CALLS	10

/* The counters' numbers in ECX for RDPMC. */
static uint32_t counters[MAX_COUNTERS];
static unsigned int nr_counters;

static sigjmp_buf faulted;

static void fault(int signo)
{
	siglongjmp(faulted, 1);
}

/* Returns 0 if RDPMC faults because the CPU does not have the counter. */
static uint64_t rdpmc(uint32_t counter)
{
	uint32_t low, high;

	if (sigsetjmp(faulted, 1))
		return 0;

	__asm__ volatile("rdpmc" : "=a"(low), "=d"(high) : "c"(counter));
	return (uint64_t)high << 32 | low;
}

static bool is_absent(uint32_t counter)
{
	uint32_t lock;
	int i;

	for (i = 0; i < 20; i++) {
		lock = page->lock;
		rdpmc(counter);
		if (page->lock == lock)
			return false;
	}
	return true;
}

static void leave_out_absent(void)
{
	unsigned int i, kept = 0;

	for (i = 0; i < nr_counters; i++) {
		if (is_absent(counters[i]))
			printf("counter %#x: the CPU does not have it\n", counters[i]);
		else
			counters[kept++] = counters[i];
	}
	nr_counters = kept;
}

/* The index of the program's own counter plus 1, as in the page; 0 for a child. */
static uint32_t own_index(void)
{
	return page ? page->index : 0;
}

enum round {
	VOID,
	NOTHING,
	HELD,
	MOVED,
	NR_ROUNDS,
};

static enum round one_round(int fd, unsigned int calls, bool say)
{
	uint64_t before[MAX_COUNTERS], after[MAX_COUNTERS], count;
	uint32_t lock = page ? page->lock : 0, own = own_index();
	enum round result = NOTHING;
	unsigned int i;

	if (page && !own) {
		/* After read(), the page may have an index again. */
		if (read(fd, &count, sizeof(count)) < 0)
			perror("read");
		return VOID;
	}

	for (i = 0; i < nr_counters; i++)
		before[i] = rdpmc(counters[i]);
	for (i = 0; i < calls; i++)
		syscall(SYS_getppid);
	for (i = 0; i < nr_counters; i++)
		after[i] = rdpmc(counters[i]);

	if (page && page->lock != lock)
		return VOID;

	for (i = 0; i < nr_counters; i++) {
		if (counters[i] + 1 == own || !(before[i] | after[i]))
			continue;
		if (before[i] != after[i])
			result = MOVED;
		else if (result == NOTHING)
			result = HELD;
		if (say)
			printf("counter %#x (own: index %u): %llu, after %u system calls %llu\n",
			       counters[i], own, (unsigned long long)before[i],
			       calls, (unsigned long long)after[i]);
	}
	return result;
}

static int look(int fd, double seconds)
{
	double end = now() + seconds;
	unsigned long rounds[NR_ROUNDS] = { 0 }, bad = 0;
	unsigned int calls = CALLS;
	enum round result;

	while (now() < end) {
		result = one_round(fd, calls, bad < 3);
		rounds[result]++;
		bad = rounds[HELD] + rounds[MOVED];
		calls = result == VOID ? calls - (calls - MIN_CALLS) / 4 : CALLS;
	}
	printf("%lu rounds, in %lu another counter moved, in %lu it held something; %lu void\n",
	       rounds[NOTHING] + bad, rounds[MOVED], rounds[HELD],
	       rounds[VOID]);
	return bad || !rounds[NOTHING];
}

static int until_revoked(void)
{
	uint32_t own;

	do {
		own = own_index();
	} while (!own || !page->cap_user_rdpmc);
	printf("reads\n");
	fflush(stdout);
	while (rdpmc(own - 1))
		;
	printf("revoked\n");
	return 0;
}

int main(int argc, char *argv[])
{
	bool child = argc > 1 && !strcmp(argv[1], "-f");
	double seconds;
	int status, fd, i;

	if (argc < 2 + child || argc > 2 + child + MAX_COUNTERS) {
		fprintf(stderr, "usage: rdpmc_others [-f] SECONDS ECX...\n");
		return 2;
	}
	seconds = atof(argv[1 + child]);
	for (i = 2 + child; i < argc; i++)
		counters[nr_counters++] = strtoul(argv[i], NULL, 0);
	signal(SIGSEGV, fault);
	fd = count_self();
	if (seconds)
		leave_out_absent();
	if (!nr_counters && seconds) {
		fprintf(stderr, "rdpmc_others: the CPU has none of these counters\n");
		return 2;
	}
	if (!child)
		return seconds ? look(fd, seconds) : until_revoked();

	fflush(stdout);
	if (!fork()) {
		page = NULL;
		return look(fd, seconds);
	}
	wait(&status);
	return WEXITSTATUS(status);
}
