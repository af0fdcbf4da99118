// SPDX-License-Identifier: GPL-2.0
/*
 * Tests the properties of sampling events that perf_event_open() promises, by system
 * calls.  The results must be the same on the host and in a guest.
 *
 * Usage: sampling_test [PERCENT]
 *
 * @PERCENT: the largest error of the frequency of samples (default: 10)
 *
 * Prints TAP.  record.sh compares lines "# samples:" and "# max skid:".
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <linux/perf_event.h>

#include "kselftest.h"

#define BRANCHES	"/sys/bus/event_source/devices/cpu/caps/branches"
#define PAGES		256	/* of a ring buffer */
#define MAX_SAMPLES	20000
#define BLOCK		64	/* instructions of the unrolled block */
#define LOOPED		(BLOCK + 2)

/* The parts of a PERF_RECORD_SAMPLE that the tests use. */
struct sample {
	uint64_t ip;
	uint32_t pid;
	uint32_t tid;
	uint64_t time;
	uint64_t period;
	uint64_t values[2];	/* of the first two events of a group */
};

struct ring {
	int fd;
	struct perf_event_mmap_page *page;
	unsigned int nr;
	unsigned int lost;
	unsigned int throttled;
	unsigned int unthrottled;
	struct sample samples[MAX_SAMPLES];
};

static struct ring ring;

static int open_event(struct perf_event_attr *attr, pid_t pid, int cpu,
		      int group)
{
	return syscall(SYS_perf_event_open, attr, pid, cpu, group,
		       PERF_FLAG_FD_CLOEXEC);
}

/* Instructions in user mode, with a sample every @period. */
static struct perf_event_attr attr_of(uint64_t period)
{
	return (struct perf_event_attr) {
		.size		= sizeof(struct perf_event_attr),
		.type		= PERF_TYPE_HARDWARE,
		.config		= PERF_COUNT_HW_INSTRUCTIONS,
		.sample_period	= period,
		.sample_type	= PERF_SAMPLE_IP | PERF_SAMPLE_TID |
				  PERF_SAMPLE_TIME | PERF_SAMPLE_PERIOD,
		.exclude_kernel	= 1,
		.disabled	= 1,
		.wakeup_events	= 1,
	};
}

static bool map_ring(int fd)
{
	memset(&ring, 0, sizeof(ring));
	ring.fd = fd;
	ring.page = mmap(NULL, (PAGES + 1) * 4096, PROT_READ | PROT_WRITE,
			 MAP_SHARED, fd, 0);
	return fd >= 0 && ring.page != MAP_FAILED;
}

static void get(const char *data, uint64_t *at, void *to, size_t size)
{
	char *p = to;

	while (size--)
		*p++ = data[(*at)++ % (PAGES * 4096)];
}

static void add_sample(const char *data, uint64_t at, bool group)
{
	struct sample *s = &ring.samples[ring.nr % MAX_SAMPLES];
	uint64_t nr;

	get(data, &at, &s->ip, 8);
	get(data, &at, &s->pid, 4);
	get(data, &at, &s->tid, 4);
	get(data, &at, &s->time, 8);
	get(data, &at, &s->period, 8);
	if (group) {
		get(data, &at, &nr, 8);
		get(data, &at, &s->values, sizeof(s->values));
	}
	ring.nr++;
}

/* Reads the ring buffer of an event that no longer runs. */
static void read_ring(bool group)
{
	const char *data = (char *)ring.page + ring.page->data_offset;
	uint64_t head = __atomic_load_n(&ring.page->data_head,
					__ATOMIC_ACQUIRE);
	uint64_t at = ring.page->data_tail, next, lost[2];
	struct perf_event_header header;

	for (; at < head; at = next) {
		next = at;
		get(data, &next, &header, sizeof(header));
		switch (header.type) {
		case PERF_RECORD_SAMPLE:
			add_sample(data, next, group);
			break;
		case PERF_RECORD_LOST:
			get(data, &next, lost, sizeof(lost));
			ring.lost += lost[1];
			break;
		case PERF_RECORD_THROTTLE:
			ring.throttled++;
			break;
		case PERF_RECORD_UNTHROTTLE:
			ring.unthrottled++;
			break;
		}
		next = at + header.size;
	}
	__atomic_store_n(&ring.page->data_tail, head, __ATOMIC_RELEASE);
}

static void done(void)
{
	munmap(ring.page, (PAGES + 1) * 4096);
	close(ring.fd);
}

static uint64_t count_of(int fd)
{
	uint64_t value[8] = { 0 };

	if (read(fd, value, sizeof(value)) < 0)
		return 0;
	return value[0];
}

/* 2 * @n instructions, and a few more. */
static void loop(uint64_t n)
{
	__asm__ volatile("1: dec %0; jnz 1b" : "+r"(n));
}

/* @n turns of BLOCK instructions of one byte each, and the two instructions of the loop. */
__attribute__((noinline)) static void block(uint64_t n)
{
	__asm__ volatile(".globl block_start\n"
			 "block_start:\n"
			 "1: .rept 64; nop; .endr\n"
			 "dec %0\n"
			 "block_jump: jnz 1b\n" : "+r"(n));
}
extern char block_start[], block_jump[];

static void enable(int fd)
{
	ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
}

static void disable(int fd)
{
	ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
}

static bool near(uint64_t a, uint64_t b, uint64_t by)
{
	if (a > b ? a - b > by : b - a > by) {
		ksft_print_msg("%llu against %llu, at most %llu apart\n",
			       (unsigned long long)a, (unsigned long long)b,
			       (unsigned long long)by);
		return false;
	}
	return true;
}

static void test_period(uint64_t period)
{
	struct perf_event_attr attr = attr_of(period);
	char what[80];
	uint64_t count, sum = 0;
	unsigned int i;

	if (!map_ring(open_event(&attr, 0, -1, -1)))
		ksft_exit_fail_msg("perf_event_open: %s\n", strerror(errno));
	enable(ring.fd);
	loop(5000000);
	disable(ring.fd);
	count = count_of(ring.fd);
	read_ring(false);
	for (i = 0; i < ring.nr && i < MAX_SAMPLES; i++)
		sum += ring.samples[i].period;

	ksft_print_msg("samples: period %llu: %u\n", (unsigned long long)period,
		       ring.nr);
	snprintf(what, sizeof(what),
		 "period %llu: count / period is the number of samples",
		 (unsigned long long)period);
	ksft_test_result(near(ring.nr, count / period, 1) && !ring.lost,
			 "%s\n", what);
	ksft_test_result(sum == ring.nr * period,
			 "each sample has this period\n");
	done();
}

/* The count and the samples of an event of one of two tasks. */
struct turns {
	uint64_t count;
	uint64_t samples;
	uint64_t lost;
};

/* Takes turns with another task, each time after 20,000 instructions. */
static struct turns take_turns(int from, int to, uint64_t period)
{
	struct perf_event_attr attr = attr_of(period);
	struct turns turns;
	char c = 0;
	int i;

	attr.exclude_kernel = 0;
	attr.exclude_user = 1;
	if (!map_ring(open_event(&attr, 0, -1, -1)))
		ksft_exit_fail_msg("perf_event_open: %s\n", strerror(errno));
	enable(ring.fd);
	for (i = 0; i < 2000; i++) {
		if (read(from, &c, 1) != 1)
			break;
		loop(10000);
		if (write(to, &c, 1) != 1)
			break;
	}
	disable(ring.fd);
	turns.count = count_of(ring.fd);
	read_ring(false);
	turns.samples = ring.nr;
	turns.lost = ring.lost;
	done();
	return turns;
}

static void check_turns(const char *which, const struct turns *t, uint64_t period)
{
	ksft_print_msg("%s task: %llu samples of %llu instructions: %.2f %%\n", which,
		       (unsigned long long)t->samples, (unsigned long long)t->count,
		       100. * t->samples * period / t->count);
	ksft_test_result(near(t->samples * period, t->count, t->count / 100) && !t->lost,
			 "two tasks take turns: the %s one's periods all have a sample\n",
			 which);
}

/* The kernel mostly switches tasks, and perf switches their events. */
static void test_turns(uint64_t period)
{
	struct turns first, second;
	int ping[2], pong[2], result[2], status;
	pid_t pid;

	if (pipe(ping) || pipe(pong) || pipe(result))
		ksft_exit_fail_msg("pipe: %s\n", strerror(errno));
	pid = fork();
	if (!pid) {
		second = take_turns(ping[0], pong[1], period);
		_exit(write(result[1], &second, sizeof(second)) != sizeof(second));
	}
	if (write(pong[1], "", 1) != 1)
		ksft_exit_fail_msg("write: %s\n", strerror(errno));
	first = take_turns(pong[0], ping[1], period);
	if (read(result[0], &second, sizeof(second)) != sizeof(second) ||
	    waitpid(pid, &status, 0) != pid || status)
		ksft_exit_fail_msg("the other task has failed\n");
	check_turns("first", &first, period);
	check_turns("second", &second, period);
	close(ping[0]);
	close(ping[1]);
	close(pong[0]);
	close(pong[1]);
	close(result[0]);
	close(result[1]);
}

/* The index of the loop's instruction at @ip, or -1. */
static int block_index(uint64_t ip)
{
	if (ip < (uintptr_t)block_start || ip > (uintptr_t)block_jump)
		return -1;
	return ip == (uintptr_t)block_jump ? LOOPED - 1 :
					     ip - (uintptr_t)block_start;
}

/*
 * The period is one instruction more than a multiple of the loop.  Each sample is
 * thus at the loop's next instruction, unless the interrupt comes late: it skids.
 */
static void test_skid(void)
{
	struct perf_event_attr attr = attr_of(300 * LOOPED + 1);
	unsigned int histogram[LOOPED] = { 0 }, outside = 0, i, n = 0;
	int first = -1, index, skid, least = 0;

	if (!map_ring(open_event(&attr, 0, -1, -1)))
		ksft_exit_fail_msg("perf_event_open: %s\n", strerror(errno));
	enable(ring.fd);
	block(300 * 1000);
	disable(ring.fd);
	read_ring(false);

	for (i = 0; i < ring.nr; i++) {
		index = block_index(ring.samples[i].ip);
		if (index < 0) {
			outside++;
			continue;
		}
		if (first < 0)
			first = (index + 2 * LOOPED - i % LOOPED) % LOOPED;
		/* The distance from the instruction at which the overflow occurred. */
		skid = (index + 2 * LOOPED - first - i % LOOPED) % LOOPED;
		histogram[skid]++;
		n++;
	}
	for (i = 0; i < LOOPED; i++) {
		if (histogram[i])
			ksft_print_msg("skid: %u instructions: %u of %u samples\n",
				       i, histogram[i], n);
		least = i && histogram[i] ? i : least;
	}
	ksft_print_msg("max skid: %d\n", least);
	ksft_test_result(n > 900 && outside <= 1,
			 "the samples of a loop are in the loop\n");
	done();
}

static void test_ioc_period(void)
{
	struct perf_event_attr attr = attr_of(100000);
	unsigned int before;
	uint64_t half;

	map_ring(open_event(&attr, 0, -1, -1));
	enable(ring.fd);
	loop(1000000);
	disable(ring.fd);
	read_ring(false);
	before = ring.nr;
	half = 10000;
	ksft_test_result(!ioctl(ring.fd, PERF_EVENT_IOC_PERIOD, &half),
			 "PERF_EVENT_IOC_PERIOD changes the period of a stopped event\n");
	enable(ring.fd);
	loop(1000000);
	half = 20000;
	ksft_test_result(!ioctl(ring.fd, PERF_EVENT_IOC_PERIOD, &half),
			 "PERF_EVENT_IOC_PERIOD changes the period of a running event\n");
	loop(1000000);
	disable(ring.fd);
	read_ring(false);
	ksft_test_result(near(before, 20, 1) &&
			 near(ring.nr - before, 200 + 100, 2),
			 "samples come at each of the periods\n");
	done();
}

static volatile sig_atomic_t signals, hangups;

static void on_signal(int signal, siginfo_t *info, void *context)
{
	if (info->si_code == POLL_HUP)
		hangups++;
	else
		signals++;
}

static void send_signals(int fd)
{
	struct sigaction action = {
		.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO,
	};
	struct f_owner_ex owner = {
		.type = F_OWNER_TID, .pid = syscall(SYS_gettid),
	};

	signals = hangups = 0;
	sigaction(SIGRTMIN, &action, NULL);
	fcntl(fd, F_SETSIG, SIGRTMIN);
	fcntl(fd, F_SETOWN_EX, &owner);
	fcntl(fd, F_SETFL, O_ASYNC);
}

static void test_signals(void)
{
	struct perf_event_attr attr = attr_of(100000);

	map_ring(open_event(&attr, 0, -1, -1));
	send_signals(ring.fd);
	enable(ring.fd);
	loop(1000000);
	disable(ring.fd);
	read_ring(false);
	ksft_print_msg("%d signals, %u samples\n", (int)signals, ring.nr);
	/* The delivery of a signal executes additional instructions in user mode. */
	ksft_test_result(signals >= 20 && near(signals, ring.nr, 1),
			 "F_SETSIG: each sample sends a signal\n");
	done();

	map_ring(open_event(&attr, 0, -1, -1));
	send_signals(ring.fd);
	ioctl(ring.fd, PERF_EVENT_IOC_REFRESH, 3);
	loop(1000000);
	read_ring(false);
	ksft_print_msg("%d signals, %d hang-ups, %u samples\n", (int)signals,
		       (int)hangups, ring.nr);
	ksft_test_result(ring.nr == 3 && signals == 2 && hangups == 1,
			 "PERF_EVENT_IOC_REFRESH of 3: the event stops after 3 samples\n");
	ioctl(ring.fd, PERF_EVENT_IOC_REFRESH, 2);
	loop(1000000);
	read_ring(false);
	ksft_test_result(ring.nr == 5, "PERF_EVENT_IOC_REFRESH of 2: 2 more samples come\n");
	done();
}

static void test_group(void)
{
	struct perf_event_attr attr = attr_of(100000);
	unsigned int i, wrong = 0;
	int sibling;

	attr.sample_type |= PERF_SAMPLE_READ;
	attr.read_format = PERF_FORMAT_GROUP;
	map_ring(open_event(&attr, 0, -1, -1));
	attr = attr_of(0);
	attr.config = PERF_COUNT_HW_BRANCH_INSTRUCTIONS;
	attr.disabled = 0;
	attr.read_format = PERF_FORMAT_GROUP;
	sibling = open_event(&attr, 0, -1, ring.fd);
	enable(ring.fd);
	loop(1000000);
	disable(ring.fd);
	read_ring(true);
	for (i = 0; i < ring.nr; i++) {
		struct sample *s = &ring.samples[i];

		/* Every second instruction is a branch. */
		if (!near(s->values[0], (i + 1) * 100000ULL, 2000) ||
		    !near(s->values[1], (i + 1) * 50000ULL, 2000))
			wrong++;
	}
	ksft_test_result(near(ring.nr, 20, 1) && !wrong,
			 "PERF_SAMPLE_READ: each sample has the group's counts\n");
	close(sibling);
	done();
}

static void test_many(void)
{
	struct perf_event_attr attr = attr_of(10000);
	struct perf_event_mmap_page *pages[4];
	int fds[4], i, ok = 0;

	for (i = 0; i < 4; i++) {
		fds[i] = open_event(&attr, 0, -1, -1);
		pages[i] = mmap(NULL, (PAGES + 1) * 4096,
				PROT_READ | PROT_WRITE, MAP_SHARED, fds[i], 0);
	}
	for (i = 0; i < 4; i++)
		enable(fds[i]);
	loop(1000000);
	for (i = 0; i < 4; i++)
		disable(fds[i]);
	for (i = 0; i < 4; i++) {
		memset(&ring, 0, sizeof(ring));
		ring.fd = fds[i];
		ring.page = pages[i];
		read_ring(false);
		ok += near(ring.nr, 200, 2);
		done();
	}
	ksft_test_result(ok == 4, "4 events that overflow together all have samples\n");
}

static void test_inherit(void)
{
	struct perf_event_attr attr = attr_of(10000);
	unsigned int i, of_child = 0;
	pid_t child;

	attr.inherit = 1;
	/* perf maps the ring buffer of an inherited event only for an event of one CPU. */
	map_ring(open_event(&attr, 0, 0, -1));
	enable(ring.fd);
	child = fork();
	if (!child) {
		loop(1000000);
		_exit(0);
	}
	waitpid(child, NULL, 0);
	loop(1000000);
	disable(ring.fd);
	read_ring(false);
	for (i = 0; i < ring.nr; i++)
		of_child += ring.samples[i].pid == (uint32_t)child;
	ksft_test_result(near(of_child, 200, 2) && near(ring.nr, 400, 4),
			 "inherit: the ring buffer has a child's samples\n");
	done();
}

static pthread_barrier_t barrier;
static volatile pid_t other;

static void *thread(void *arg)
{
	other = syscall(SYS_gettid);
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	loop(1000000);
	return NULL;
}

static void test_thread(void)
{
	struct perf_event_attr attr = attr_of(10000);
	unsigned int i, wrong = 0;
	pthread_t t;

	pthread_barrier_init(&barrier, NULL, 2);
	pthread_create(&t, NULL, thread, NULL);
	pthread_barrier_wait(&barrier);
	map_ring(open_event(&attr, other, -1, -1));
	enable(ring.fd);
	pthread_barrier_wait(&barrier);
	loop(1000000);
	pthread_join(t, NULL);
	disable(ring.fd);
	read_ring(false);
	for (i = 0; i < ring.nr; i++)
		wrong += ring.samples[i].tid != (uint32_t)other;
	ksft_test_result(near(ring.nr, 200, 4) && !wrong,
			 "an event of a thread has only this thread's samples\n");
	done();
}

static void run_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		ksft_exit_fail_msg("CPU %d: %s\n", cpu, strerror(errno));
}

static void test_cpu(int cpu)
{
	struct perf_event_attr attr = attr_of(10000);
	unsigned int i, mine = 0;

	map_ring(open_event(&attr, -1, cpu, -1));
	run_on(cpu);
	enable(ring.fd);
	loop(1000000);
	disable(ring.fd);
	run_on(0);
	read_ring(false);
	for (i = 0; i < ring.nr; i++)
		mine += ring.samples[i].pid == (uint32_t)getpid();
	ksft_test_result(near(mine, 200, 2), "an event of CPU %d has all samples\n", cpu);
	done();
}

/* A steady load for @seconds. */
static void load(double seconds)
{
	struct timespec now, end;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_nsec += (long)(seconds * 1e9);
	end.tv_sec += end.tv_nsec / 1000000000;
	end.tv_nsec %= 1000000000;
	do {
		loop(100000);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec < end.tv_sec ||
		 (now.tv_sec == end.tv_sec && now.tv_nsec < end.tv_nsec));
}

/* The frequency must settle within half of the time, less than a second. */
static void test_frequency(unsigned int hz, unsigned int percent)
{
	struct perf_event_attr attr = attr_of(0);
	uint64_t sum = 0, count;
	unsigned int i, from;
	double rate;

	attr.freq = 1;
	attr.sample_freq = hz;
	map_ring(open_event(&attr, 0, -1, -1));
	enable(ring.fd);
	load(0.4);
	disable(ring.fd);
	count = count_of(ring.fd);
	read_ring(false);
	for (i = 0; i < ring.nr; i++)
		sum += ring.samples[i].period;
	for (from = 0; from < ring.nr; from++)
		if (ring.samples[from].time >
		    ring.samples[ring.nr - 1].time - 200000000)
			break;
	rate = (ring.nr - 1 - from) * 1e9 /
	       (ring.samples[ring.nr - 1].time - ring.samples[from].time);
	ksft_print_msg("%u Hz: %u samples, at last %.0f a second; periods %llu of %llu\n",
		       hz, ring.nr, rate, (unsigned long long)sum,
		       (unsigned long long)count);
	ksft_test_result(fabs(rate / hz - 1) * 100 < percent,
			 "%u Hz: the frequency settles to within %u %%\n", hz, percent);
	ksft_test_result(near(sum, count, count / 100),
			 "the periods of all samples add up to the count, within 1 %%\n");
	done();
}

static void sysctl(const char *name, const char *value)
{
	char path[80];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/sys/kernel/%s", name);
	f = fopen(path, "w");
	if (!f || fputs(value, f) < 0 || fclose(f))
		ksft_exit_fail_msg("%s: %s\n", path, strerror(errno));
}

/* Have perf throttle at this rate, and for no other reason. */
static void set_max_rate(const char *rate)
{
	sysctl("perf_cpu_time_max_percent", "99");
	sysctl("perf_event_max_sample_rate", rate);
	sysctl("perf_cpu_time_max_percent", "0");
}

static void test_throttle(void)
{
	struct perf_event_attr attr = attr_of(100);
	uint64_t count;

	set_max_rate("1000");
	map_ring(open_event(&attr, 0, -1, -1));
	enable(ring.fd);
	load(0.1);
	disable(ring.fd);
	read_ring(false);
	ksft_print_msg("%u samples, throttled %u times, unthrottled %u times\n",
		       ring.nr, ring.throttled, ring.unthrottled);
	ksft_test_result(ring.throttled && ring.unthrottled,
			 "an event with a far too short period is throttled, with records\n");
	done();
	set_max_rate("1000000");

	attr = attr_of(0);
	map_ring(open_event(&attr, 0, -1, -1));
	enable(ring.fd);
	loop(1000000);
	disable(ring.fd);
	count = count_of(ring.fd);
	ksft_test_result(near(count, 2000000, 2000),
			 "after throttling events count exactly\n");
	done();
}

static unsigned long max_rate(void)
{
	unsigned long rate = 0;
	FILE *f = fopen("/proc/sys/kernel/perf_event_max_sample_rate", "r");

	if (!f || fscanf(f, "%lu", &rate) != 1)
		ksft_exit_fail_msg("perf_event_max_sample_rate\n");
	fclose(f);
	return rate;
}

/* 1 % of the time between samples at this rate is 10 ns, too short for a sample. */
static void test_cpu_time(void)
{
	struct perf_event_attr attr = attr_of(10000);

	sysctl("perf_cpu_time_max_percent", "1");
	map_ring(open_event(&attr, 0, -1, -1));
	enable(ring.fd);
	loop(1000000);
	disable(ring.fd);
	ksft_print_msg("the rate is %lu\n", max_rate());
	ksft_test_result(max_rate() < 1000000,
			 "perf lowers its rate if samples take too much time\n");
	done();
	set_max_rate("1000000");
}

static bool has_branches(void)
{
	FILE *f = fopen(BRANCHES, "r");
	int n = 0;

	if (f && fscanf(f, "%d", &n) != 1)
		n = 0;
	if (f)
		fclose(f);
	return n > 0;
}

static void test_refused(void)
{
	struct perf_event_attr attr = attr_of(100000);
	bool has;
	int fd;

	attr.precise_ip = 1;
	fd = open_event(&attr, 0, -1, -1);
	/* On AMD precise_ip needs IBS. */
	ksft_test_result(fd >= 0 || errno == EOPNOTSUPP || errno == ENOENT,
			 "an event with precise_ip opens, or is refused as not supported\n");
	close(fd);

	attr = attr_of(100000);
	attr.sample_type |= PERF_SAMPLE_BRANCH_STACK;
	attr.branch_sample_type = PERF_SAMPLE_BRANCH_ANY;
	has = has_branches();
	fd = open_event(&attr, 0, -1, -1);
	ksft_test_result(has ? fd >= 0 : fd < 0 && errno == EOPNOTSUPP,
			 "an event with branch stacks opens or fails with EOPNOTSUPP\n");
	close(fd);
}

/* The event's count of a loop, or 0 if the event does not open. */
static uint64_t counted(struct perf_event_attr *attr)
{
	uint64_t count = 0;
	int fd = open_event(attr, 0, -1, -1);

	if (fd < 0)
		return 0;
	enable(fd);
	loop(1000000);
	disable(fd);
	count = count_of(fd);
	close(fd);
	return count;
}

static void test_no_frequency(void)
{
	struct perf_event_attr attr = attr_of(0);

	attr.freq = 1;
	ksft_test_result(near(counted(&attr), 2000000, 2000),
			 "an event with a frequency of 0 counts, without samples\n");
	attr = attr_of(0);
	ksft_test_result(near(counted(&attr), 2000000, 2000),
			 "other events count beside an event with a frequency of 0\n");
}

/* perf may lower the rate at any time. */
static uint64_t max_sample_rate(void)
{
	FILE *f = fopen("/proc/sys/kernel/perf_event_max_sample_rate", "r");
	unsigned long long hz;

	if (!f || fscanf(f, "%llu", &hz) != 1)
		ksft_exit_fail_msg("no perf_event_max_sample_rate\n");
	fclose(f);
	return hz;
}

static void test_ioc_frequency(void)
{
	struct perf_event_attr attr = attr_of(0);
	uint64_t hz = max_sample_rate() + 1;
	int fd;

	attr.freq = 1;
	attr.sample_freq = 1000;
	fd = open_event(&attr, 0, -1, -1);
	ksft_test_result(ioctl(fd, PERF_EVENT_IOC_PERIOD, &hz) && errno == EINVAL,
			 "PERF_EVENT_IOC_PERIOD refuses a frequency above perf's limit\n");
	hz = max_sample_rate() / 2;
	ksft_test_result(!ioctl(fd, PERF_EVENT_IOC_PERIOD, &hz),
			 "PERF_EVENT_IOC_PERIOD accepts a frequency below perf's limit\n");
	close(fd);
}

/* More configurations than a driver may keep, and an event that does not exist. */
static void test_configs(void)
{
	struct perf_event_attr attr = attr_of(0);
	int fds[200];
	unsigned int i, refused = 0;

	for (i = 0; i < 200; i++) {
		attr.type = PERF_TYPE_RAW;
		attr.config = i;
		fds[i] = open_event(&attr, 0, -1, -1);
	}
	attr.type = PERF_TYPE_HW_CACHE;
	attr.config = PERF_COUNT_HW_CACHE_L1I |
		      PERF_COUNT_HW_CACHE_OP_WRITE << 8;
	for (i = 0; i < 20; i++)
		refused += !counted(&attr);
	ksft_test_result(refused == 20,
			 "an event that does not exist is refused beside 200 others\n");
	attr = attr_of(0);
	ksft_test_result(near(counted(&attr), 2000000, 2000),
			 "an event that exists counts beside 200 others\n");
	for (i = 0; i < 200; i++)
		close(fds[i]);
}

int main(int argc, char **argv)
{
	int percent = argc > 1 ? atoi(argv[1]) : 10;
	int cpu;

	ksft_print_header();
	run_on(0);
	set_max_rate("1000000");
	test_period(100000);
	test_period(10000);
	test_period(9973);
	test_turns(10007);
	test_skid();
	test_ioc_period();
	test_signals();
	test_group();
	test_many();
	test_inherit();
	test_thread();
	for (cpu = 0; cpu < sysconf(_SC_NPROCESSORS_ONLN); cpu++)
		test_cpu(cpu);
	test_frequency(1000, percent);
	test_frequency(4000, percent);
	test_no_frequency();
	test_ioc_frequency();
	test_configs();
	test_refused();
	test_cpu_time();
	test_throttle();

	ksft_set_plan(ksft_test_num());
	ksft_finished();
}
