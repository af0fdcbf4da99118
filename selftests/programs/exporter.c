// SPDX-License-Identifier: GPL-2.0
/*
 * Opens events as exporters of metrics do: many on each CPU, none in a group, and reads one
 * after the other at long intervals.
 *
 * Usage: exporter EVENTS SCRAPES SECONDS COUNTERS
 *
 * @EVENTS: number of events on all CPUs together
 * @SCRAPES: how often each event is read
 * @SECONDS: time between two readings of an event
 * @COUNTERS: number of counters of a CPU
 *
 * A child on the last CPU executes instructions for 0.5 ms of about 25 ms: such short pieces are
 * spread evenly over the events that share a counter.  The first event on each CPU is pinned and
 * counts instructions of user mode.  Each eighth of the others counts the same, but has to share
 * counters.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <linux/perf_event.h>

#include "kselftest.h"

#define CACHE(cache, op, result) \
	(PERF_COUNT_HW_CACHE_##cache | PERF_COUNT_HW_CACHE_OP_##op << 8 | \
	 PERF_COUNT_HW_CACHE_RESULT_##result << 16)

/* What node exporter and the like count. */
static const struct {
	uint32_t type;
	uint64_t config;
} counted[] = {
	{ PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS },
	{ PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES },
	{ PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS },
	{ PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES },
	{ PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_REFERENCES },
	{ PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES },
	{ PERF_TYPE_HW_CACHE, CACHE(L1D, READ, ACCESS) },
	{ PERF_TYPE_HW_CACHE, CACHE(L1D, READ, MISS) },
	{ PERF_TYPE_HW_CACHE, CACHE(L1I, READ, ACCESS) },
	{ PERF_TYPE_HW_CACHE, CACHE(L1I, READ, MISS) },
	{ PERF_TYPE_HW_CACHE, CACHE(DTLB, READ, ACCESS) },
	{ PERF_TYPE_HW_CACHE, CACHE(DTLB, READ, MISS) },
	{ PERF_TYPE_HW_CACHE, CACHE(ITLB, READ, ACCESS) },
	{ PERF_TYPE_HW_CACHE, CACHE(ITLB, READ, MISS) },
	{ PERF_TYPE_HW_CACHE, CACHE(BPU, READ, ACCESS) },
	{ PERF_TYPE_HW_CACHE, CACHE(BPU, READ, MISS) },
};

struct reading {
	uint64_t count;
	uint64_t enabled;
	uint64_t running;
};

struct counter {
	int fd;
	int cpu;
	/* Counts instructions of user mode. */
	int known;
	struct reading last;
	/* The least that the running time has grown by between two readings. */
	uint64_t least;
	int wrong;
};

static int open_counter(struct counter *counter, unsigned int i, int cpu)
{
	/* Each eighth counts instructions of user mode.  Else: user mode, kernel mode, both. */
	unsigned int what = i % 8 ? i % ARRAY_SIZE(counted) : 0;
	unsigned int mode = i % 8 ? i / ARRAY_SIZE(counted) % 3 : 0;
	struct perf_event_attr attr = {
		.size		= sizeof(attr),
		.type		= counted[what].type,
		.config		= counted[what].config,
		.pinned		= !i,
		.exclude_kernel	= mode == 0,
		.exclude_user	= mode == 1,
		.exclude_hv	= 1,
		.read_format	= PERF_FORMAT_TOTAL_TIME_ENABLED |
				  PERF_FORMAT_TOTAL_TIME_RUNNING,
	};

	*counter = (struct counter) {
		.fd	= syscall(SYS_perf_event_open, &attr, -1, cpu, -1, 0),
		.cpu	= cpu,
		.known	= attr.type == PERF_TYPE_HARDWARE && mode == 0 &&
			  attr.config == PERF_COUNT_HW_INSTRUCTIONS,
		.least	= UINT64_MAX,
	};
	return counter->fd < 0;
}

static void scrape(struct counter *counter, int first)
{
	struct reading now;

	if (read(counter->fd, &now, sizeof(now)) != sizeof(now)) {
		counter->wrong = 1;
		return;
	}
	if (now.running > now.enabled || now.count < counter->last.count ||
	    now.enabled < counter->last.enabled || now.running < counter->last.running)
		counter->wrong = 1;
	if (!first && now.running - counter->last.running < counter->least)
		counter->least = now.running - counter->last.running;
	counter->last = now;
}

static void nap(double seconds)
{
	struct timespec left = { seconds, (seconds - (long)seconds) * 1e9 };

	while (nanosleep(&left, &left))
		;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static pid_t start_load(int cpu)
{
	pid_t parent = getpid(), pid = fork();
	cpu_set_t set;
	double begin;

	if (pid)
		return pid;

	/* The parent may have ended before this. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		_exit(1);
	for (;;) {
		begin = now();
		while (now() < begin + 0.0005)
			for (int i = 0; i < 1000; i++)
				__asm__ volatile("");
		nap(0.0125 + 0.025 * rand() / RAND_MAX);
	}
}

/* On the busy CPU: the estimates of counters that count the same as the pinned one. */
static void check_estimates(const struct counter *counters, int nr, int cpu, double allowed)
{
	const struct counter *pinned = NULL;
	double estimate, worst = 0;
	int i, others = 0;

	for (i = 0; i < nr; i++) {
		if (counters[i].cpu != cpu || !counters[i].known)
			continue;
		if (!pinned) {
			pinned = &counters[i];
			continue;
		}
		others++;
		estimate = counters[i].last.count * (double)counters[i].last.enabled /
			   counters[i].last.running;
		estimate = estimate / pinned->last.count - 1;
		if (estimate < 0)
			estimate = -estimate;
		if (estimate > worst)
			worst = estimate;
		ksft_print_msg("%" PRIu64 " counted in %.1f %% of the time, of %" PRIu64 "\n",
			       counters[i].last.count,
			       100.0 * counters[i].last.running / counters[i].last.enabled,
			       pinned->last.count);
	}
	ksft_test_result(pinned && pinned->last.running == pinned->last.enabled,
			 "a pinned event counts all the time\n");
	ksft_test_result(others && worst < allowed,
			 "estimates of instructions are right to within %.0f %%: %.0f %%\n",
			 100 * allowed, 100 * worst);
}

/*
 * If an event's running time included time without a counter, the running times of a CPU's
 * events would add up to more than the CPU's counters have.
 */
static void check_running(const struct counter *counters, int nr, int nr_cpus, int nr_counters)
{
	double running, most = 0;
	int i, cpu;

	for (cpu = 0; cpu < nr_cpus; cpu++) {
		running = 0;
		for (i = cpu; i < nr; i += nr_cpus)
			running += counters[i].last.running;
		/* The first event of a CPU is enabled for longest. */
		running /= counters[cpu].last.enabled;
		if (running > most)
			most = running;
	}
	ksft_test_result(most <= nr_counters * 1.01,
			 "a CPU's events run no longer than its %d counters: %.2f at a time\n",
			 nr_counters, most);
}

int main(int argc, char **argv)
{
	int nr_cpus = sysconf(_SC_NPROCESSORS_ONLN);
	int nr, nr_counters, scrapes, i, s, refused = 0, wrong = 0;
	double seconds, share = 1;
	struct counter *counters;
	uint64_t least = UINT64_MAX;
	pid_t load;

	if (argc != 5)
		ksft_exit_fail_msg("usage: exporter EVENTS SCRAPES SECONDS COUNTERS\n");
	nr = atoi(argv[1]);
	scrapes = atoi(argv[2]);
	seconds = atof(argv[3]);
	nr_counters = atoi(argv[4]);
	counters = calloc(nr, sizeof(*counters));
	if (nr < nr_cpus || scrapes < 2 || !counters)
		ksft_exit_fail_msg("too few events, or readings\n");

	ksft_print_header();
	ksft_set_plan(7);
	load = start_load(nr_cpus - 1);
	for (i = 0; i < nr; i++)
		refused += open_counter(&counters[i], i / nr_cpus, i % nr_cpus);
	ksft_test_result(!refused, "%d events are opened on %d CPUs\n", nr, nr_cpus);
	if (refused)
		ksft_exit_fail_msg("%d events are refused: %s\n", refused, strerror(errno));

	for (s = 0; s < scrapes; s++) {
		if (s)
			nap(seconds);
		for (i = 0; i < nr; i++)
			scrape(&counters[i], !s);
	}
	kill(load, SIGKILL);

	for (i = 0; i < nr; i++) {
		double running = (double)counters[i].last.running / counters[i].last.enabled;

		wrong += counters[i].wrong;
		if (counters[i].least < least)
			least = counters[i].least;
		if (running < share)
			share = running;
	}
	ksft_test_result(!wrong, "no count and no time goes backwards, and none runs longer than enabled\n");
	check_running(counters, nr, nr_cpus, nr_counters);
	ksft_test_result(least > 0, "each event counts between two readings: at least %.1f ms\n",
			 least / 1e6);
	ksft_test_result(share >= 0.5 * nr_counters / ((double)nr / nr_cpus),
			 "each event has its share of the counters: at least %.1f %% of the time\n",
			 100 * share);
	/* A load of some hundred seconds is spread evenly over the events. */
	check_estimates(counters, nr, nr_cpus - 1, scrapes * seconds > 1000 ? 0.1 : 0.5);
	ksft_finished();
}
