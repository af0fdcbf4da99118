// SPDX-License-Identifier: GPL-2.0
/*
 * Checks of samples and of their NMIs
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "checks.h"

/*
 * A prime number, so that samples spread over the loop.  So large that a fast CPU does not
 * reach the kernel's and the host's limits of samples per second.
 */
#define PERIOD		100003
#define PASSES		50000

static int open_sampling(uint64_t config, uint64_t period, bool frequency)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_HARDWARE,
		.config = config,
		.sample_period = period,
		.freq = frequency,
		.sample_type = PERF_SAMPLE_IP,
		.disabled = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};
	int fd = open_attr(&attr, -1);

	if (fd < 0)
		impossible("perf opens no event that samples: %s", strerror(errno));
	return fd;
}

#define MAX_SAMPLES	4096

struct tally {
	unsigned long samples;
	unsigned long outside;		/* of the loop */
	unsigned long lost;
	unsigned long throttled;
	/* For each sample: the index of its instruction in the loop, or -1. */
	short index[MAX_SAMPLES];
	unsigned int skid[BLOCK];
};

static void add_sample(struct tally *tally, uint64_t ip)
{
	int index = block_index(ip);

	tally->outside += index < 0;
	if (tally->samples < MAX_SAMPLES)
		tally->index[tally->samples] = index;
	tally->samples++;
}

static void add_records(struct tally *tally, struct ring *ring)
{
	struct sample sample;

	while (next_record(ring, &sample)) {
		if (sample.type == PERF_RECORD_SAMPLE)
			add_sample(tally, sample.ip);
		else if (sample.type == PERF_RECORD_LOST)
			tally->lost++;
		else if (sample.type == PERF_RECORD_THROTTLE)
			tally->throttled++;
	}
}

/*
 * The skid is the number of instructions between an overflow and its sample's address.  The
 * k-th overflow is at the count k * PERIOD, and the count begins with the loop.  A real CPU
 * counts some more instructions for each earlier interrupt: @extra for all interrupts.
 */
static void measure_skid(struct tally *tally, long extra)
{
	long n = tally->samples, each = n ? (extra + n / 2) / n : 0, k, at;

	for (k = 1; k <= n && k <= MAX_SAMPLES; k++) {
		at = k * PERIOD - (k - 1) * each;
		if (tally->index[k - 1] >= 0)
			tally->skid[(tally->index[k - 1] + BLOCK - at % BLOCK) % BLOCK]++;
	}
}

/* The skid that this share of the samples does not exceed. */
static int skid_of(const struct tally *tally, double share)
{
	unsigned long in_loop = tally->samples - tally->outside, sum = 0;
	int i;

	for (i = 0; i < BLOCK - 1; i++) {
		sum += tally->skid[i];
		if (sum >= share * in_loop && sum)
			break;
	}
	return i;
}

void check_sampling(void)
{
	static struct tally tally;
	struct ring ring;
	int fd = open_sampling(PERF_COUNT_HW_INSTRUCTIONS, PERIOD, false);
	uint64_t count;

	map_ring(&ring, fd);
	run_block(fd, PASSES);
	add_records(&tally, &ring);
	count = read_one(fd);
	/* Five instructions follow the loop: events.c. */
	measure_skid(&tally, (long)(count - PASSES * BLOCK - 5));
	say("\"period\": %d, \"instructions\": %d, \"count\": %lu, \"samples\": %lu, "
	    "\"outside\": %lu, \"lost\": %lu, \"throttled\": %lu, "
	    "\"skid\": [%d, %d, %d, %d]", PERIOD, PASSES * BLOCK, count,
	    tally.samples, tally.outside, tally.lost, tally.throttled,
	    skid_of(&tally, 0), skid_of(&tally, 0.5), skid_of(&tally, 0.99),
	    skid_of(&tally, 1));
}

/* Does perf take as many samples per second of this task's time as requested? */
void check_frequency(void)
{
	static struct tally tally;
	struct ring ring;
	int fd = open_sampling(PERF_COUNT_HW_CPU_CYCLES, 1000, true);
	double began = cpu_seconds(), took;

	map_ring(&ring, fd);
	do {
		run_block(fd, 1000);
		took = cpu_seconds() - began;
	} while (took < 0.5);
	add_records(&tally, &ring);
	say("\"frequency\": 1000, \"seconds\": %.4f, \"samples\": %lu, \"throttled\": %lu",
	    took, tally.samples, tally.throttled);
}

/* The sum of all CPUs' NMIs in /proc/interrupts. */
static unsigned long count_nmis(void)
{
	FILE *file = fopen("/proc/interrupts", "r");
	char *line = NULL, *word, *rest;
	unsigned long sum = 0;
	size_t size = 0;

	while (file && getline(&line, &size, file) > 0) {
		word = line + strspn(line, " ");
		if (strncmp(word, "NMI:", 4))
			continue;
		word += 4;
		for (;;) {
			unsigned long n = strtoul(word, &rest, 10);

			if (rest == word)
				break;
			sum += n;
			word = rest;
		}
	}
	if (file)
		fclose(file);
	free(line);
	return sum;
}

void check_nmis(void)
{
	static struct tally tally;
	unsigned long nmis, passes = 2 * PASSES;
	long overflows = number_in("/sys/kernel/debug/kvm_pmu/overflows");
	int fd = open_sampling(PERF_COUNT_HW_INSTRUCTIONS, PERIOD, false);
	struct ring ring;

	map_ring(&ring, fd);
	if (in_guest)
		on_host("nmis before");
	nmis = count_nmis();
	run_block(fd, passes);
	nmis = count_nmis() - nmis;
	if (in_guest)
		on_host("nmis after");
	add_records(&tally, &ring);
	say("\"period\": %d, \"instructions\": %lu, \"count\": %lu, \"samples\": %lu, "
	    "\"lost\": %lu, \"nmis\": %lu, \"overflows\": %ld", PERIOD, passes * BLOCK,
	    read_one(fd), tally.samples, tally.lost, nmis,
	    number_in("/sys/kernel/debug/kvm_pmu/overflows") - overflows);
}

/* Takes samples while the host limits the samples of a vCPU to a low rate. */
void check_rate(void)
{
	static struct tally tally;
	struct ring ring;
	int fd = open_sampling(PERF_COUNT_HW_INSTRUCTIONS, 20011, false);
	double began, took;

	map_ring(&ring, fd);
	on_host("rate limit");
	began = seconds();
	do {
		run_block(fd, 1000);
		add_records(&tally, &ring);
		took = seconds() - began;
	} while (took < 0.5);
	on_host("rate free");
	say("\"seconds\": %.4f, \"samples\": %lu", took, tally.samples);
}
