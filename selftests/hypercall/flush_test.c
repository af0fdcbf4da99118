// SPDX-License-Identifier: GPL-2.0
/*
 * Interrupts a flush, in which the guest's driver passes perf's changes on to the
 * host: by an NMI that ends an event or throttles a group, and by a BPF program that
 * reads a counter that the host has lost.
 *
 * Usage: flush_test SKID SECONDS
 *
 * @SKID: the most instructions that the kernel executes between an overflow and the stop
 * of the event: by the NMI or, if the NMI comes in a flush, at the end of perf's work
 * @SECONDS: how long a BPF program reads lost counters, by the machine's clock
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <linux/bpf.h>
#include <linux/kvm_para.h>
#include <linux/perf_event.h>

#include "kselftest.h"
#include "kvm_perf.h"
#include "kvm_perf_hypercall.h"

/* A turn of the loop is two instructions, one of which is a branch. */
#define LOOPS	100000ULL
/* The most instructions of a task in user mode from one read() to the next. */
#define SLACK	100

static int open_event(struct perf_event_attr *attr, pid_t pid, int cpu, int group)
{
	int fd = syscall(SYS_perf_event_open, attr, pid, cpu, group, 0);

	if (fd < 0)
		ksft_exit_fail_msg("perf_event_open: %s\n", strerror(errno));
	return fd;
}

static int count(uint64_t config, int group, bool cpu_wide)
{
	struct perf_event_attr attr = {
		.size		= sizeof(attr),
		.type		= PERF_TYPE_HARDWARE,
		.config		= config,
		.exclude_kernel	= 1,
	};

	return cpu_wide ? open_event(&attr, -1, 0, group) :
			  open_event(&attr, 0, -1, group);
}

/* Opens an event that overflows in the kernel, where flushes run. */
static int sample(uint64_t period, bool disabled)
{
	struct perf_event_attr attr = {
		.size		= sizeof(attr),
		.type		= PERF_TYPE_HARDWARE,
		.config		= PERF_COUNT_HW_INSTRUCTIONS,
		.sample_period	= period,
		.exclude_user	= 1,
		.disabled	= disabled,
	};

	return open_event(&attr, 0, -1, -1);
}

static void do_ioctl(int fd, unsigned long what, uint64_t arg)
{
	uint64_t *p = what == PERF_EVENT_IOC_PERIOD ? &arg : (void *)arg;

	if (ioctl(fd, what, p))
		ksft_exit_fail_msg("ioctl: %s\n", strerror(errno));
}

static uint64_t count_of(int fd)
{
	uint64_t n;

	if (read(fd, &n, sizeof(n)) != sizeof(n))
		ksft_exit_fail_msg("read: %s\n", strerror(errno));
	return n;
}

static void loop(void)
{
	uint64_t n = LOOPS;

	__asm__ volatile("1: dec %0; jnz 1b" : "+r"(n));
}

/* Causes flushes: perf removes all events and adds them again for this. */
static void toggle(int fd)
{
	do_ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
	do_ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
}

/* Passes time between two flushes, so that an event does not overflow in all of them. */
static void pass_time_in_kernel(void)
{
	int n;

	for (n = rand() % 64; n; n--)
		getppid();
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

/* Is the event's count exact? */
static bool counts(int fd)
{
	uint64_t before = count_of(fd), n;

	loop();
	n = count_of(fd) - before;
	ksft_print_msg("%llu of %llu\n", (unsigned long long)n, 2 * LOOPS);
	return n >= 2 * LOOPS && n <= 2 * LOOPS + SLACK;
}

/*
 * An event that ends with its first sample.  If the event overflows in a flush, perf takes
 * the sample at the flush's end.  An event that has ended must not count on.
 */
static void test_end(uint64_t most)
{
	int always = count(PERF_COUNT_HW_INSTRUCTIONS, -1, false);
	int toggled = count(PERF_COUNT_HW_BRANCH_INSTRUCTIONS, -1, false);
	int ending = sample(1 << 30, true);
	unsigned int late = 0, on = 0;
	uint64_t n, start, end;
	double deadline;
	bool ok;
	int i;

	srand(1);
	for (int round = 0; round < 500; round++) {
		uint64_t period = 5000 + rand() % 20000;

		start = count_of(ending);
		do_ioctl(ending, PERF_EVENT_IOC_PERIOD, period);
		do_ioctl(ending, PERF_EVENT_IOC_REFRESH, 1);
		end = start;
		deadline = seconds() + 5;
		for (i = 0; i < 100 && seconds() < deadline;) {
			toggle(toggled);
			pass_time_in_kernel();
			n = count_of(ending);
			if (n == end && n - start >= period)
				break;
			/* The host's limit on the rate may hold the event for many flushes. */
			i += n != end;
			end = n;
		}
		n = end - start;
		if (i < 100 && n >= period && n - period <= most)
			continue;
		on += i == 100;
		late += n < period || n - period > most;
		ksft_print_msg("round %d, period %llu: %llu after %d flushes\n", round,
			       (unsigned long long)period, (unsigned long long)n,
			       i);
	}

	ksft_test_result(!on, "an NMI ends an event beside flushes\n");
	ksft_test_result(!late, "an event that an NMI has ended does not count on\n");
	ksft_print_msg("%u have counted on\n", late);
	ok = counts(always);
	ksft_test_result(ok, "another event beside the flushes counts exactly\n");
	close(always);
	close(toggled);
	close(ending);
}

/* From Linux 6.16 on the NMI stops all events of the group, also one that just starts. */
static void test_throttle(double length)
{
	int leader = sample(500, false);
	int always = count(PERF_COUNT_HW_INSTRUCTIONS, leader, false);
	int toggled = count(PERF_COUNT_HW_BRANCH_INSTRUCTIONS, leader, false);
	double end = seconds() + length;
	uint64_t before;
	bool ok;

	while (seconds() < end)
		toggle(toggled);
	do_ioctl(leader, PERF_EVENT_IOC_PERIOD, 1ULL << 40);
	/*
	 * perf restarts throttled events at a tick, which is late on a busy machine, whose
	 * clock goes on.
	 */
	before = count_of(always);
	end = seconds() + 10;
	while (count_of(always) == before && seconds() < end)
		;

	ok = counts(always);
	ksft_test_result(ok, "a group that is throttled in the middle of flushes counts on\n");
	close(leader);
	close(always);
	close(toggled);
}

static int bpf(enum bpf_cmd cmd, union bpf_attr *attr)
{
	int ret = syscall(SYS_bpf, cmd, attr, sizeof(*attr));

	if (ret < 0)
		ksft_exit_fail_msg("bpf %d: %s\n", cmd, strerror(errno));
	return ret;
}

/* Creates a map that has the event for CPU 0. */
static int create_map(int event)
{
	unsigned int cpu = 0;
	union bpf_attr create = {
		.map_type = BPF_MAP_TYPE_PERF_EVENT_ARRAY,
		.key_size = 4,
		.value_size = 4,
		.max_entries = sysconf(_SC_NPROCESSORS_CONF),
	};
	int map = bpf(BPF_MAP_CREATE, &create);
	union bpf_attr update = {
		.map_fd = map,
		.key = (unsigned long)&cpu,
		.value = (unsigned long)&event,
	};

	bpf(BPF_MAP_UPDATE_ELEM, &update);
	return map;
}

/* The program reads this CPU's event, and returns 1 after a read, which perf counts. */
static int load_program(int map)
{
	struct bpf_insn program[] = {
		{ BPF_LD | BPF_DW | BPF_IMM, BPF_REG_1, BPF_PSEUDO_MAP_FD, 0, map },
		{ 0 },
		{ BPF_ALU | BPF_MOV | BPF_K, BPF_REG_2, 0, 0, -1 },
		{ BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_3, BPF_REG_10, 0, 0 },
		{ BPF_ALU64 | BPF_ADD | BPF_K, BPF_REG_3, 0, 0, -24 },
		{ BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_4, 0, 0, 24 },
		{ BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_perf_event_read_value },
		{ BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_1, 0, 0, 1 },
		{ BPF_JMP | BPF_JEQ | BPF_K, BPF_REG_0, 0, 1, 0 },
		{ BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_1, 0, 0, 0 },
		{ BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_0, BPF_REG_1, 0, 0 },
		{ BPF_JMP | BPF_EXIT },
	};
	union bpf_attr load = {
		.prog_type = BPF_PROG_TYPE_KPROBE,
		.insns = (unsigned long)program,
		.insn_cnt = ARRAY_SIZE(program),
		.license = (unsigned long)"GPL",
	};

	return bpf(BPF_PROG_LOAD, &load);
}

/* Opens a kprobe that runs the program when a flush gives perf a new count. */
static int attach(int program)
{
	struct perf_event_attr attr = {
		.size		= sizeof(attr),
		.config1	= (unsigned long)"perf_event_update_userpage",
		.disabled	= 1,
	};
	FILE *f = fopen("/sys/bus/event_source/devices/kprobe/type", "r");
	int fd;

	if (!f || fscanf(f, "%u", &attr.type) != 1)
		ksft_exit_fail_msg("no kprobes: %s\n", strerror(errno));
	fclose(f);
	fd = open_event(&attr, -1, 0, -1);
	do_ioctl(fd, PERF_EVENT_IOC_SET_BPF, program);
	do_ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
	return fd;
}

static int dev;
static volatile bool stop;

static void run_on(int cpu)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		ksft_exit_fail_msg("no CPU %d\n", cpu);
}

/* Makes the host lose all events of this VM, as a migration does. */
static void *reset_host(void *arg)
{
	run_on(1);
	while (!stop) {
		struct kvm_perf_hypercall c = {
			.nr = KVM_PERF_OP, .a = { KVM_PERF_OP_RESET },
		};

		if (ioctl(dev, KVM_PERF_HYPERCALL_CALL, &c))
			ksft_exit_fail_msg("RESET: %s\n", strerror(errno));
	}
	return NULL;
}

/* The event that BPF reads counts on while perf changes the task's events. */
static void test_bpf(double length)
{
	int always = count(PERF_COUNT_HW_INSTRUCTIONS, -1, true);
	int toggled = count(PERF_COUNT_HW_BRANCH_INSTRUCTIONS, -1, false);
	int probe = attach(load_program(create_map(always)));
	double end = seconds() + length;
	unsigned int toggles = 0;
	pthread_t resetter;
	bool ok;
	uint64_t reads;

	if (pthread_create(&resetter, NULL, reset_host, NULL))
		ksft_exit_fail_msg("no thread\n");
	for (; seconds() < end; toggles++)
		toggle(toggled);
	stop = true;
	pthread_join(resetter, NULL);
	reads = count_of(probe);
	close(probe);

	/* A last flush, which finds the last loss. */
	toggle(toggled);
	count_of(always);
	ksft_print_msg("%llu reads in %u flushes\n", (unsigned long long)reads,
		       toggles * 2);
	ksft_test_result(reads > toggles, "BPF reads a lost event in a flush\n");
	ok = counts(always);
	ksft_test_result(ok, "the event that BPF reads counts on exactly\n");
	close(always);
	close(toggled);
}

int main(int argc, char **argv)
{
	if (argc != 3)
		ksft_exit_fail_msg("usage: flush_test SKID SECONDS\n");

	dev = open("/dev/kvm_perf_hypercall", O_RDWR);
	if (dev < 0)
		ksft_exit_fail_msg("/dev/kvm_perf_hypercall: %s\n",
				   strerror(errno));

	run_on(0);
	ksft_print_header();
	ksft_set_plan(6);
	test_end(strtoull(argv[1], NULL, 0));
	test_throttle(strtod(argv[2], NULL) / 3);
	test_bpf(strtod(argv[2], NULL));
	ksft_finished();
}
