// SPDX-License-Identifier: GPL-2.0
/*
 * Checks of counts.  If an interrupt comes meanwhile, a real CPU counts one more
 * instruction.  So the checks take the least count of several runs.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checks.h"

#define RUNS		10
#define PASSES		100000

typedef void (*loop_t)(int fd, unsigned long n);

static uint64_t count_once(int fd, loop_t loop, unsigned long n)
{
	ioctl(fd, PERF_EVENT_IOC_RESET, PERF_IOC_FLAG_GROUP);
	loop(fd, n);
	return read_one(fd);
}

static uint64_t least(int fd, loop_t loop, unsigned long n)
{
	uint64_t count, min = UINT64_MAX;
	int i;

	for (i = 0; i < RUNS; i++) {
		count = count_once(fd, loop, n);
		if (count < min)
			min = count;
	}
	return min;
}

/* Writes [count of @passes passes, count of one pass and the code around the loop]. */
static void count_loop(char *text, size_t size, uint64_t config, loop_t loop,
		       unsigned long passes)
{
	int fd = open_user(config, -1, 0);
	uint64_t one = least(fd, loop, 1);

	snprintf(text, size, "[%lu, %lu]", least(fd, loop, passes + 1) - one, one);
	close(fd);
}

void check_counts(void)
{
	char instructions[64], branches[64];

	count_loop(instructions, sizeof(instructions), PERF_COUNT_HW_INSTRUCTIONS,
		   run_tight, PASSES);
	count_loop(branches, sizeof(branches), PERF_COUNT_HW_BRANCH_INSTRUCTIONS,
		   run_tight, PASSES);
	say("\"passes\": %d, \"instructions\": %s, \"branches\": %s", PASSES,
	    instructions, branches);
}

void check_emulated(void)
{
	char instructions[64], branches[64];
	int passes = 1000;

	count_loop(instructions, sizeof(instructions), PERF_COUNT_HW_INSTRUCTIONS,
		   run_cpuid, passes);
	count_loop(branches, sizeof(branches), PERF_COUNT_HW_BRANCH_INSTRUCTIONS,
		   run_cpuid, passes);
	say("\"passes\": %d, \"instructions\": %s, \"branches\": %s", passes,
	    instructions, branches);
}

void check_groups(void)
{
	int leader = open_user(PERF_COUNT_HW_INSTRUCTIONS, -1, GROUP_FORMAT), i;
	struct values one, all, min = { 0 };

	open_user(PERF_COUNT_HW_BRANCH_INSTRUCTIONS, leader, GROUP_FORMAT);
	open_user(PERF_COUNT_HW_CPU_CYCLES, leader, GROUP_FORMAT);
	run_tight(leader, 1);
	one = read_group(leader);
	for (i = 0; i < RUNS; i++) {
		ioctl(leader, PERF_EVENT_IOC_RESET, PERF_IOC_FLAG_GROUP);
		run_tight(leader, PASSES + 1);
		all = read_group(leader);
		if (!i || all.value[0] < min.value[0])
			min = all;
	}
	say("\"passes\": %d, \"members\": %lu, \"instructions\": %ld, \"branches\": %ld, "
	    "\"cycles\": %ld, \"enabled\": %lu, \"running\": %lu", PASSES, all.nr,
	    min.value[0] - one.value[0], min.value[1] - one.value[1],
	    min.value[2], all.enabled, all.running);
}

#define TASKS		3
#define TURNS		100
#define SWITCHES	20

/* Counts this task while tasks of one CPU take turns by sched_yield(). */
static void count_turns(uint64_t *result)
{
	int fd = open_user(PERF_COUNT_HW_INSTRUCTIONS, -1, 0), i;
	uint64_t one = least(fd, run_yield, 1), count;

	result[0] = UINT64_MAX;
	for (i = 0; i < TURNS; i++) {
		count = count_once(fd, run_yield, SWITCHES + 1) - one;
		if (count < result[0])
			result[0] = count;
		if (count < SWITCHES * YIELD || count > SWITCHES * YIELD + 10)
			result[1]++;
	}
}

void check_tasks(void)
{
	uint64_t (*results)[2] = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
				      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cpu_set_t one_cpu;
	int i;

	CPU_ZERO(&one_cpu);
	CPU_SET(sched_getcpu(), &one_cpu);
	sched_setaffinity(0, sizeof(one_cpu), &one_cpu);
	for (i = 0; i < TASKS; i++) {
		if (!fork()) {
			count_turns(results[i]);
			_exit(0);
		}
	}
	while (wait(NULL) > 0)
		;
	say("\"turns\": %d, \"least\": [%lu, %lu, %lu], \"wrong\": %lu, \"instructions\": %d",
	    TASKS * TURNS, results[0][0], results[1][0], results[2][0],
	    results[0][1] + results[1][1] + results[2][1], SWITCHES * YIELD);
}

/* Counts the same loop again and again while the host does something. */
static void count_while(const char *what)
{
	int fd = open_user(PERF_COUNT_HW_INSTRUCTIONS, -1, 0);
	uint64_t one = least(fd, run_tight, 1), count, most = 0, min = UINT64_MAX;
	unsigned long runs = 0, wrong = 0;

	begin_on_host(what);
	do {
		count = count_once(fd, run_tight, PASSES + 1) - one;
		if (count < min)
			min = count;
		if (count > most)
			most = count;
		wrong += count < PASSES * TIGHT || count > PASSES * TIGHT + 50;
		runs++;
	} while (!host_is_done());
	say("\"runs\": %lu, \"wrong\": %lu, \"least\": %lu, \"most\": %lu, \"instructions\": %d",
	    runs, wrong, min, most, PASSES * TIGHT);
}

void check_move(void)
{
	count_while("move");
}

void check_beside(void)
{
	count_while("beside");
}

void check_two_guests(void)
{
	count_while("two guests");
}

#define TIMES_FORMAT (PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING)

/* The layout of read() with TIMES_FORMAT. */
struct times {
	uint64_t count;
	uint64_t enabled;
	uint64_t running;
};

static struct times read_times(int fd)
{
	struct times times = { 0 };

	if (read(fd, &times, sizeof(times)) != sizeof(times))
		impossible("read of an event");
	return times;
}

/*
 * The host needs all counters for a while.  If a count is too low, the event must have been
 * enabled longer than running, so that perf scales the count.  Counts branches, one in each
 * pass: on Intel, instructions have a counter of their own, which the host does not need.
 */
void check_lost(void)
{
	int fd = open_user(PERF_COUNT_HW_BRANCH_INSTRUCTIONS, -1, TIMES_FORMAT);
	unsigned long runs = 0, marked = 0, unmarked = 0, after = 0;
	struct times then, now;
	double until;
	uint64_t one;

	run_tight(fd, 1);
	one = read_times(fd).count;
	begin_on_host("lost");
	do {
		ioctl(fd, PERF_EVENT_IOC_RESET, 0);
		then = read_times(fd);
		run_tight(fd, PASSES + 1);
		now = read_times(fd);
		runs++;
		if (now.running - then.running < now.enabled - then.enabled)
			marked++;
		else if (now.count < one + PASSES)
			unmarked++;
	} while (!host_is_done());

	/* Afterwards counts are right again, once the driver has asked for a counter again. */
	until = seconds() + 5;
	while (after < 10 && seconds() < until) {
		ioctl(fd, PERF_EVENT_IOC_RESET, 0);
		run_tight(fd, PASSES + 1);
		after += read_times(fd).count >= one + PASSES;
	}
	say("\"runs\": %lu, \"marked\": %lu, \"unmarked\": %lu, \"right afterwards\": %lu",
	    runs, marked, unmarked, after);
}

#define WIDE_RUNS	100

/*
 * Counts user mode on all CPUs, of this kernel alone and not of its guests.  So the host has
 * events beside a guest's on the CPU that runs the guest.
 */
void check_wide(void)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_HARDWARE,
		.config = PERF_COUNT_HW_INSTRUCTIONS,
		.exclude_kernel = 1,
		.exclude_hv = 1,
		.exclude_guest = 1,
	};
	int cpus = sysconf(_SC_NPROCESSORS_ONLN), fds[1024], cpu, i;
	double began = seconds();
	uint64_t count = 0;

	if (cpus > (int)ARRAY_SIZE(fds))
		cpus = ARRAY_SIZE(fds);
	for (cpu = 0; cpu < cpus; cpu++)
		fds[cpu] = syscall(SYS_perf_event_open, &attr, -1, cpu, -1, 0);
	for (i = 0; i < WIDE_RUNS; i++)
		run_tight(-1, PASSES);
	for (cpu = 0; cpu < cpus; cpu++) {
		if (fds[cpu] >= 0)
			count += read_one(fds[cpu]);
	}
	say("\"count\": %lu, \"loop\": %d, \"cpus\": %d, \"seconds\": %.4f", count,
	    WIDE_RUNS * PASSES * TIGHT, cpus, seconds() - began);
}

/* On the host, takes all counters of all CPUs until the input ends. */
void hog(void)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_HARDWARE,
		.config = PERF_COUNT_HW_BRANCH_INSTRUCTIONS,
		.pinned = 1,
	};
	int cpus = sysconf(_SC_NPROCESSORS_ONLN), taken = 0, cpu, i;
	char c;

	for (cpu = 0; cpu < cpus; cpu++) {
		for (i = 0; i < 16; i++)
			taken += syscall(SYS_perf_event_open, &attr, -1, cpu, -1, 0) >= 0;
	}
	printf("@hog %d\n", taken);
	fflush(stdout);
	while (read(0, &c, 1) == 1)
		;
}

/* On the host, executes branches of all kinds until it is killed. */
void spin(void)
{
	void (*volatile call)(int fd, unsigned long n) = run_tight;

	for (;;)
		call(-1, 1000);
}
