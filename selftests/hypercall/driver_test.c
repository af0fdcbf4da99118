// SPDX-License-Identifier: GPL-2.0
/*
 * Tests the guest's driver if the host has lost the driver's events or refuses an
 * operation.  A RESET behind the driver's back makes the host lose all events, as a
 * migration does.
 *
 * Usage: driver_test HZ
 *
 * @HZ: a frequency that this kernel allows and the host's does not
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <linux/kvm_para.h>
#include <linux/perf_event.h>

#include "kselftest.h"
#include "kvm_perf.h"
#include "kvm_perf_hypercall.h"

/* A turn of the loop is two instructions, one of which is a branch. */
#define LOOPS	1000000ULL

static int dev;

static void reset_host(void)
{
	struct kvm_perf_hypercall c = {
		.nr = KVM_PERF_OP, .a = { KVM_PERF_OP_RESET },
	};

	if (ioctl(dev, KVM_PERF_HYPERCALL_CALL, &c) || c.ret)
		ksft_exit_fail_msg("RESET: %lld, %s\n", (long long)c.ret,
				   strerror(errno));
}

static void loop(void)
{
	uint64_t n = LOOPS;

	__asm__ volatile("1: dec %0; jnz 1b" : "+r"(n));
}

/* Passes time without being idle: the driver checks counters only on a CPU that runs. */
static void busy(double s)
{
	struct timespec from, now;

	clock_gettime(CLOCK_MONOTONIC, &from);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while (now.tv_sec - from.tv_sec +
	       (now.tv_nsec - from.tv_nsec) / 1e9 < s);
}

/* Opens an event that counts in user mode from now on. */
static int count(unsigned int config, uint64_t hz, bool cpu_wide)
{
	struct perf_event_attr attr = {
		.size		= sizeof(attr),
		.type		= PERF_TYPE_HARDWARE,
		.config		= config,
		.freq		= !!hz,
		.sample_freq	= hz,
		.exclude_kernel	= 1,
	};
	int fd = syscall(SYS_perf_event_open, &attr, cpu_wide ? -1 : 0,
			 cpu_wide ? 0 : -1, -1, 0);

	if (fd < 0)
		ksft_exit_fail_msg("perf_event_open: %s\n", strerror(errno));
	return fd;
}

static uint64_t count_of(int fd)
{
	uint64_t n;

	if (read(fd, &n, sizeof(n)) != sizeof(n))
		ksft_exit_fail_msg("read: %s\n", strerror(errno));
	return n;
}

static void expect_near(const char *what, uint64_t got, uint64_t want)
{
	bool ok = got >= want && got - want < want / 100;

	ksft_print_msg("%s: %llu of %llu\n", what, (unsigned long long)got,
		       (unsigned long long)want);
	ksft_test_result(ok, "%s\n", what);
}

/* The driver opens some lost events again before it notices that others are lost, too. */
static void test_some_lost(void)
{
	int instructions = count(PERF_COUNT_HW_INSTRUCTIONS, 0, true);
	int branches, cycles;
	uint64_t i, b, c;

	loop();
	reset_host();
	branches = count(PERF_COUNT_HW_BRANCH_INSTRUCTIONS, 0, true);
	busy(0.5);
	loop();
	/* The count from the loss until this read, which would notice the loss, too. */
	i = count_of(instructions);
	ksft_print_msg("%llu instructions\n", (unsigned long long)i);
	ksft_test_result(i > 4 * LOOPS,
			 "a lost event counts again after another event is opened\n");

	cycles = count(PERF_COUNT_HW_CPU_CYCLES, 0, false);
	i = count_of(instructions);
	b = count_of(branches);
	c = count_of(cycles);
	loop();
	expect_near("a lost event counts exactly again", count_of(instructions) - i,
		    2 * LOOPS);
	expect_near("another lost event counts exactly again", count_of(branches) - b, LOOPS);
	ksft_test_result(count_of(cycles) - c >= LOOPS,
			 "an event opened after the loss counts\n");
	close(instructions);
	close(branches);
	close(cycles);
}

/*
 * To open another event, perf removes the event from its counter and adds it again.
 * The event may count less if the host's perf throttles it.
 */
static void test_refused_frequency(uint64_t hz)
{
	int instructions = count(PERF_COUNT_HW_INSTRUCTIONS, 1000, false);
	uint64_t before, i;
	int branches, n;

	for (n = 0; n < 5; n++)
		loop();
	before = count_of(instructions);
	if (ioctl(instructions, PERF_EVENT_IOC_PERIOD, &hz))
		ksft_exit_fail_msg("PERF_EVENT_IOC_PERIOD: %s\n",
				   strerror(errno));
	branches = count(PERF_COUNT_HW_BRANCH_INSTRUCTIONS, 0, false);
	loop();
	i = count_of(instructions) - before;
	ksft_print_msg("%llu instructions\n", (unsigned long long)i);
	ksft_test_result(i > 0 && i < 2.02 * LOOPS,
			 "an event counts on, and once, if the host refuses its frequency\n");
	close(instructions);
	close(branches);
}

/* Other events have all counters. */
static void test_stray_start(void)
{
	int instructions = count(PERF_COUNT_HW_INSTRUCTIONS, 0, false);
	uint64_t before;

	errno = 0;
	ksft_test_result(!ioctl(dev, KVM_PERF_HYPERCALL_STRAY),
			 "an event without a counter may be started and stopped: %s\n",
			 strerror(errno));
	before = count_of(instructions);
	loop();
	expect_near("an event with a counter then counts on",
		    count_of(instructions) - before, 2 * LOOPS);
	close(instructions);
}

int main(int argc, char **argv)
{
	cpu_set_t cpus;

	if (argc != 2)
		ksft_exit_fail_msg("usage: driver_test HZ\n");

	dev = open("/dev/kvm_perf_hypercall", O_RDWR);
	if (dev < 0)
		ksft_exit_fail_msg("/dev/kvm_perf_hypercall: %s\n",
				   strerror(errno));

	CPU_ZERO(&cpus);
	CPU_SET(0, &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);

	ksft_print_header();
	ksft_set_plan(7);
	test_some_lost();
	test_refused_frequency(strtoull(argv[1], NULL, 0));
	test_stray_start();
	ksft_finished();
}
