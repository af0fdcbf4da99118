// SPDX-License-Identifier: GPL-2.0
/*
 * Uses counters that the host takes away for a moment.
 *
 * Usage: pinned keep CONFIG SECONDS
 *	  pinned park CONFIG FILE
 *	  pinned exact CONFIG SECONDS
 *
 * keep: keeps a pinned event counting: if perf gives up the event, the program enables it
 * again.  Prints how often it did so, and the longest time without a count in us.
 *
 * park: counts, and then makes the file while the driver still keeps the unused counter.
 * Then the program is busy for half a second.
 *
 * exact: counts the conditional branches of a child between two stops, as rr does: while the
 * child is stopped, the program resets a pinned event and enables it, and reads it at the next
 * stop.  Prints how many counts were right, how often perf had given up the event, and how many
 * counts were wrong.
 *
 * @CONFIG: a raw event, of user mode; of exact, the event of conditional branches
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <linux/perf_event.h>

#define BRANCHES	20000

static void die(const char *what)
{
	fprintf(stderr, "pinned: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int count(const char *config, int pinned)
{
	struct perf_event_attr attr = {
		.size		= sizeof(attr),
		.type		= PERF_TYPE_RAW,
		.config		= strtoull(config, NULL, 0),
		.pinned		= pinned,
		.exclude_kernel	= 1,
	};
	int fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);

	if (fd < 0)
		die("perf_event_open");
	return fd;
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

static void busy(double s)
{
	double end = seconds() + s;

	while (seconds() < end)
		;
}

/* A read of an event that perf has given up returns 0 bytes. */
static int counts(int fd)
{
	uint64_t n;
	ssize_t ret = read(fd, &n, sizeof(n));

	if (ret < 0)
		die("read");
	return ret;
}

static void keep(const char *config, double s)
{
	int fd = count(config, 1);
	double end = seconds() + s, longest = 0, since;
	unsigned int outages = 0;

	while (seconds() < end) {
		busy(0.001);
		if (counts(fd))
			continue;

		outages++;
		since = seconds();
		do {
			busy(0.001);
			if (ioctl(fd, PERF_EVENT_IOC_ENABLE, 0))
				die("enable");
		} while (!counts(fd) && seconds() < since + 10);
		if (seconds() - since > longest)
			longest = seconds() - since;
	}
	printf("%u %.0f\n", outages, longest * 1e6);
}

static void park(const char *config, const char *file)
{
	int fd = count(config, 0);

	busy(0.01);
	close(fd);
	if (creat(file, 0666) < 0)
		die(file);
	busy(0.5);
}

static void trace_me(void)
{
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
		die("ptrace");
	for (;;) {
		unsigned long n = BRANCHES;

		asm volatile("1: dec %0; jnz 1b; int3" : "+r" (n) : : "cc");
	}
}

static void next_stop(pid_t child)
{
	int status;

	if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status))
		die("waitpid");
}

static void exact(const char *config, double s)
{
	struct perf_event_attr attr = {
		.size		= sizeof(attr),
		.type		= PERF_TYPE_RAW,
		.config		= strtoull(config, NULL, 0),
		.pinned		= 1,
		.disabled	= 1,
		.exclude_kernel	= 1,
	};
	unsigned int right = 0, none = 0, wrong = 0;
	double end = seconds() + s;
	pid_t child = fork();
	int fd;

	if (!child)
		trace_me();
	next_stop(child);
	fd = syscall(SYS_perf_event_open, &attr, child, -1, -1, 0);
	if (fd < 0)
		die("perf_event_open");
	while (seconds() < end) {
		uint64_t n;
		ssize_t ret;

		if (ioctl(fd, PERF_EVENT_IOC_RESET, 0) || ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) ||
		    ptrace(PTRACE_CONT, child, NULL, NULL))
			die("enable");
		next_stop(child);
		ret = read(fd, &n, sizeof(n));
		if (ret < 0 || ioctl(fd, PERF_EVENT_IOC_DISABLE, 0))
			die("read");
		if (!ret)
			none++;
		else if (n == BRANCHES)
			right++;
		else if (!wrong++)
			fprintf(stderr, "pinned: %llu of %d branches\n",
				(unsigned long long)n, BRANCHES);
	}
	kill(child, SIGKILL);
	printf("%u %u %u\n", right, none, wrong);
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "keep"))
		keep(argv[2], strtod(argv[3], NULL));
	else if (argc == 4 && !strcmp(argv[1], "park"))
		park(argv[2], argv[3]);
	else if (argc == 4 && !strcmp(argv[1], "exact"))
		exact(argv[2], strtod(argv[3], NULL));
	else
		return 2;
	return 0;
}
