// SPDX-License-Identifier: GPL-2.0
/*
 * The workloads of the benchmark.
 *
 * Usage: workload MARK WORKLOAD:VARIANT:N...
 *
 * Runs each workload with N operations and prints a line: WORKLOAD VARIANT N, the
 * time of the operations by the machine's clock in ns and by the TSC, their number,
 * and the mean and the longest latency of a server's answers in us.  VARIANT is the
 * number of events, the period of samples or their frequency; 0 is the workload
 * without events.
 *
 * Operations that leave no work for later are timed in pieces.  The quickest piece,
 * which contains no timer tick, stands for all pieces.
 *
 * With a MARK of 1 it makes a failing hypercall before and after the operations,
 * which the host's trace shows.  It then leaves out runs without events.
 */
#define _GNU_SOURCE
#include <cpuid.h>
#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/param.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <linux/perf_event.h>

/* Far from the numbers of KVM's hypercalls. */
#define MARK	0x4d41524b

#define WARMUP	20
#define PIECES	200
#define MAX_FD	64

static bool marking;
static uint64_t started, elapsed, started_tsc, elapsed_tsc;
/* The times of the pieces. */
static uint64_t least, least_tsc;
/* Latencies of a server's answers, in us; 0 for other workloads. */
static double mean_latency, max_latency;

static void mark(unsigned int which)
{
	long ret;

	if (!marking)
		return;
	if (__builtin_cpu_is("intel"))
		__asm__ volatile("vmcall" : "=a"(ret) : "a"(MARK), "b"(which)
				 : "memory");
	else
		__asm__ volatile("vmmcall" : "=a"(ret) : "a"(MARK), "b"(which)
				 : "memory");
}

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

static void start_clock(void)
{
	started_tsc = __builtin_ia32_rdtsc();
	started = now();
}

static void stop_clock(void)
{
	elapsed = now() - started;
	elapsed_tsc = __builtin_ia32_rdtsc() - started_tsc;
}

static void start(void)
{
	mark(1);
	start_clock();
}

static void stop(void)
{
	stop_clock();
	mark(2);
}

static long piece_size(long n)
{
	return MAX(n / PIECES, 1);
}

static void start_pieces(void)
{
	least = least_tsc = UINT64_MAX;
	start();
}

static void next_piece(void)
{
	stop_clock();
	least = MIN(least, elapsed);
	least_tsc = MIN(least_tsc, elapsed_tsc);
	start_clock();
}

/* To call before the @k-th of @n operations; operations below 0 are not timed. */
static void next_operation(long k, long n)
{
	if (!k)
		start_pieces();
	else if (k > 0 && !(k % piece_size(n)))
		next_piece();
}

static void stop_pieces(long n)
{
	next_operation(n, n);
	stop();
	elapsed = least * n / piece_size(n);
	elapsed_tsc = least_tsc * n / piece_size(n);
}

static void die(const char *what)
{
	perror(what);
	exit(1);
}

/*
 * The most common events.  The raw events are AMD's codes: branch misses, which the
 * machine with an Intel CPU does not have by name, and the first two events again.
 * On Intel these codes are other events, at the same cost.
 */
static const struct {
	uint32_t type;
	uint64_t config;
} events[] = {
	{ PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES },
	{ PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS },
	{ PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS },
	{ PERF_TYPE_RAW, 0xc3 },
	{ PERF_TYPE_RAW, 0x76 },
	{ PERF_TYPE_RAW, 0xc0 },
};

static int open_event(struct perf_event_attr *attr, int group)
{
	int fd;

	attr->size = sizeof(*attr);
	attr->exclude_kernel = 1;
	fd = syscall(SYS_perf_event_open, attr, 0, -1, group, 0);
	if (fd < 0)
		die("perf_event_open");
	return fd;
}

/* While the event is mapped, the task may read it by RDPMC. */
static void *map_event(int fd)
{
	void *page = mmap(NULL, sysconf(_SC_PAGESIZE), PROT_READ, MAP_SHARED,
			  fd, 0);

	if (page == MAP_FAILED)
		die("mmap");
	return page;
}

/*
 * Opens events of this task.  @cmask makes them differ from another task's events.
 * Returns the last event, or -1 if there is none.
 */
static int open_events(int nr, bool inherit, unsigned int cmask)
{
	int fd = -1, i;

	for (i = 0; i < nr; i++) {
		struct perf_event_attr attr = {
			.type = events[i].type, .config = events[i].config,
			.inherit = inherit,
		};

		if (cmask) {
			attr.type = PERF_TYPE_RAW;
			attr.config = 0xc0 | (cmask + i) << 24;
		}
		fd = open_event(&attr, -1);
	}
	return fd;
}

static void close_events(void)
{
	int fd;

	for (fd = 3; fd < MAX_FD; fd++)
		close(fd);
}

static void bounce(int in, int out, long n, bool first)
{
	char c = 0;

	while (n--) {
		if (first && write(out, &c, 1) != 1)
			die("write");
		if (read(in, &c, 1) != 1)
			die("read");
		if (!first && write(out, &c, 1) != 1)
			die("write");
	}
}

/*
 * Two tasks, each with events of its own; an operation is one switch.  With @map, one of
 * them has mapped its last event, and may execute RDPMC.
 */
static long run_switch(long nr, long n, bool differ, bool map)
{
	int to[2], from[2], fd;
	void *page = NULL;
	pid_t pid;
	long k;

	if (pipe(to) || pipe(from))
		die("pipe");
	pid = fork();
	if (!pid) {
		open_events(nr, false, differ ? 1 : 0);
		bounce(to[0], from[1], WARMUP + n / 2, false);
		_exit(0);
	}
	fd = open_events(nr, false, 0);
	if (map && nr)
		page = map_event(fd);
	for (k = -WARMUP; k < n / 2; k++) {
		next_operation(k, n / 2);
		bounce(from[0], to[1], 1, true);
	}
	stop_pieces(n / 2);
	waitpid(pid, NULL, 0);
	if (page)
		munmap(page, sysconf(_SC_PAGESIZE));
	close_events();
	return n;
}

/* Without events there is nothing to read: the loop alone. */
static long run_read(long nr, long n)
{
	int leader = -1, fd, i;
	char buf[128];
	long k;

	for (i = 0; i < nr; i++) {
		struct perf_event_attr attr = {
			.type = events[i].type, .config = events[i].config,
			.read_format = PERF_FORMAT_GROUP,
		};

		fd = open_event(&attr, leader);
		leader = leader < 0 ? fd : leader;
	}
	for (k = -WARMUP; k < n; k++) {
		next_operation(k, n);
		if (nr && read(leader, buf, sizeof(buf)) < 0)
			die("read");
	}
	stop_pieces(n);
	close_events();
	return n;
}

/* Reads by RDPMC, as in linux/perf_event.h, or by read() if RDPMC is not possible. */
static uint64_t read_self(int fd, volatile struct perf_event_mmap_page *page)
{
	uint32_t seq, index, low, high;
	uint64_t count;
	int64_t pmc;

	do {
		seq = page->lock;
		__asm__ volatile("" : : : "memory");
		index = page->index;
		count = page->offset;
		if (!page->cap_user_rdpmc || !index) {
			if (read(fd, &count, sizeof(count)) != sizeof(count))
				die("read");
			return count;
		}
		__asm__ volatile("rdpmc" : "=a"(low), "=d"(high)
				 : "c"(index - 1));
		pmc = ((uint64_t)high << 32 | low) << (64 - page->pmc_width);
		count += pmc >> (64 - page->pmc_width);
		__asm__ volatile("" : : : "memory");
	} while (page->lock != seq);

	return count;
}

/* A task that reads its own count in user mode. */
static long run_self(long nr, long n)
{
	struct perf_event_attr attr = {
		.type = events[1].type, .config = events[1].config,
	};
	long size = sysconf(_SC_PAGESIZE), k;
	void *page = NULL;
	int fd = -1;

	if (nr) {
		fd = open_event(&attr, -1);
		page = map_event(fd);
	}
	for (k = -WARMUP; k < n; k++) {
		next_operation(k, n);
		if (nr)
			read_self(fd, page);
	}
	stop_pieces(n);
	if (nr)
		munmap(page, size);
	close_events();
	return n;
}

static long run_open(long nr, long n)
{
	struct perf_event_attr attr = {
		.type = events[1].type, .config = events[1].config,
	};
	long k;

	for (k = -WARMUP; k < n; k++) {
		if (!k)
			start();
		if (nr)
			close(open_event(&attr, -1));
	}
	stop();
	return n;
}

static long run_fork(long nr, long n)
{
	long k;
	pid_t pid;

	open_events(nr, true, 0);
	for (k = -WARMUP; k < n; k++) {
		if (!k)
			start();
		pid = fork();
		if (!pid)
			_exit(0);
		waitpid(pid, NULL, 0);
	}
	stop();
	close_events();
	return n;
}

/* Samples branches in user mode.  The operations are the overflows. */
static long run_sample(long period, long n)
{
	uint64_t branches = piece_size(n) * (period ? period : 1000), left;
	long k;

	if (period) {
		struct perf_event_attr attr = {
			.type = PERF_TYPE_HARDWARE,
			.config = PERF_COUNT_HW_BRANCH_INSTRUCTIONS,
			.sample_period = period,
			.sample_type = PERF_SAMPLE_IP,
		};

		open_event(&attr, -1);
	}
	for (k = 0; k < n; k += piece_size(n)) {
		next_operation(k, n);
		left = branches;
		__asm__ volatile("1: dec %0; jnz 1b" : "+r"(left));
	}
	stop_pieces(n);
	close_events();
	return n;
}

#define INTERVAL	2500000

/*
 * At the end of each interval of INTERVAL instructions of user mode, @nr events are read, as
 * by "perf record -c 2500000 -e '{instructions,...}:S'".  The events are in groups of 4, which
 * take turns: instructions and three events that differ between the groups.  The operations
 * are the intervals.  They are not timed in pieces, because turns are a part of the cost.
 */
static long run_intervals(long nr, long n)
{
	uint64_t left = n * (INTERVAL / 2);
	int leader = -1, i;

	for (i = 0; i < nr; i++) {
		struct perf_event_attr attr = {
			.type = PERF_TYPE_RAW, .config = 0xc0 | i << 24,
			.read_format = PERF_FORMAT_GROUP,
		};

		if (i % 4) {
			open_event(&attr, leader);
			continue;
		}
		attr.type = PERF_TYPE_HARDWARE;
		attr.config = PERF_COUNT_HW_INSTRUCTIONS;
		attr.sample_period = INTERVAL;
		attr.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_READ;
		leader = open_event(&attr, -1);
	}
	start();
	__asm__ volatile("1: dec %0; jnz 1b" : "+r"(left));
	stop();
	close_events();
	return n;
}

/* CPUID: an exit with little work, which a nested guest's hypervisor handles. */
static long run_exit(long nr, long n)
{
	unsigned int a, b, c, d;
	long k;

	open_events(nr, false, 0);
	for (k = -WARMUP; k < n; k++) {
		next_operation(k, n);
		__cpuid(0, a, b, c, d);
	}
	stop_pieces(n);
	close_events();
	return n;
}

/* Runs a program of selftests/bench, which prints the amount of its work and the time. */
static long run_program(const char *name, long frequency, long n)
{
	unsigned long long ns;
	char command[512];
	FILE *output;
	long ops;

	snprintf(command, sizeof(command), "%s/selftests/bench/%s %ld %ld",
		 getenv("VM_TREE"), name, frequency, n);
	start();
	output = popen(command, "r");
	if (!output || fscanf(output, "%ld %llu", &ops, &ns) != 2) {
		fprintf(stderr, "failed: %s\n", command);
		exit(1);
	}
	/* A server also prints its latencies. */
	if (fscanf(output, "%lf %lf", &mean_latency, &max_latency) != 2)
		mean_latency = max_latency = 0;
	if (pclose(output)) {
		fprintf(stderr, "failed: %s\n", command);
		exit(1);
	}
	stop();
	elapsed_tsc = (double)elapsed_tsc / elapsed * ns;
	elapsed = ns;
	return ops;
}

static long run(const char *workload, long variant, long n)
{
	if (!strcmp(workload, "switch"))
		return run_switch(variant, n, false, false);
	if (!strcmp(workload, "switch-differ"))
		return run_switch(variant, n, true, false);
	if (!strcmp(workload, "switch-mapped"))
		return run_switch(variant, n, false, true);
	if (!strcmp(workload, "read"))
		return run_read(variant, n);
	if (!strcmp(workload, "self"))
		return run_self(variant, n);
	if (!strcmp(workload, "open"))
		return run_open(variant, n);
	if (!strcmp(workload, "fork"))
		return run_fork(variant, n);
	if (!strcmp(workload, "sample"))
		return run_sample(variant, n);
	if (!strcmp(workload, "intervals"))
		return run_intervals(variant, n);
	if (!strcmp(workload, "exit"))
		return run_exit(variant, n);
	if (!strcmp(workload, "server") || !strcmp(workload, "callchain"))
		return run_program(workload, variant, n);
	if (!strcmp(workload, "idle"))
		return run_switch(0, n, false, false);
	fprintf(stderr, "no such workload: %s\n", workload);
	exit(2);
}

static void run_on_one_cpu(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(0, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("sched_setaffinity");
}

int main(int argc, char **argv)
{
	char workload[32];
	long variant, n, ops;
	int i;

	if (argc < 3) {
		fprintf(stderr, "Usage: workload MARK WORKLOAD:VARIANT:N...\n");
		return 2;
	}
	marking = atoi(argv[1]);
	run_on_one_cpu();
	for (i = 2; i < argc; i++) {
		if (sscanf(argv[i], "%31[^:]:%ld:%ld", workload, &variant,
			   &n) != 3)
			return 2;
		if (marking && !variant)
			continue;
		/* Until then counters that the last run has left running are stopped. */
		usleep(300000);
		mean_latency = max_latency = 0;
		ops = run(workload, variant, n);
		printf("%s %ld %ld %llu %llu %ld %.0f %.0f\n", workload, variant, n,
		       (unsigned long long)elapsed,
		       (unsigned long long)elapsed_tsc, ops, mean_latency,
		       max_latency);
		fflush(stdout);
	}
	return 0;
}
