// SPDX-License-Identifier: GPL-2.0
/*
 * Checks of the hypervisor's events and of limits
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/io.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "checks.h"

#define DEVICES		"/sys/bus/event_source/devices/"

/* Opens an event of the PMU "kvm". */
static int open_exits(const char *name)
{
	struct perf_event_attr attr = { .size = sizeof(attr), .disabled = 1 };
	char path[128], text[64] = "";
	unsigned int config = 0;
	FILE *file;
	int fd;

	attr.type = number_in(DEVICES "kvm/type");
	snprintf(path, sizeof(path), DEVICES "kvm/events/%s", name);
	file = fopen(path, "r");
	if (!file)
		impossible("there is no event kvm/%s/", name);
	if (!fgets(text, sizeof(text), file) || sscanf(text, "event=%x", &config) != 1)
		impossible("kvm/%s/ is %s", name, text);
	fclose(file);
	attr.config = config;
	fd = open_attr(&attr, -1);
	if (fd < 0)
		impossible("kvm/%s/: %s", name, strerror(errno));
	return fd;
}

/*
 * pv-perf reads KVM's own count of VM exits meanwhile.  The two requests to pv-perf cause some
 * VM exits, too.
 */
void check_hypervisor(void)
{
	int cpuids = open_exits("exits_cpuid"), outs = open_exits("exits_io");
	int exits = open_exits("exits");
	uint64_t cpuid_count, out_count;

	if (ioperm(0x80, 1, 1))
		impossible("ioperm: %s", strerror(errno));
	run_cpuid(cpuids, 1000);
	cpuid_count = read_one(cpuids);
	run_out(outs, 1000);
	out_count = read_one(outs);

	on_host("exits before");
	run_cpuid(exits, 20000);
	on_host("exits after");
	say("\"cpuid\": %lu, \"of cpuid\": 1000, \"io\": %lu, \"of io\": 1000, \"exits\": %lu, "
	    "\"of exits\": 20000", cpuid_count, out_count, read_one(exits));
}

/* The size of the largest group that perf accepts, at most @most. */
static int largest_group(int most)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_HARDWARE,
		.config = PERF_COUNT_HW_BRANCH_INSTRUCTIONS,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};
	int leader = -1, fd, n;

	for (n = 0; n < most; n++) {
		fd = open_attr(&attr, leader);
		if (fd < 0)
			break;
		if (leader < 0)
			leader = fd;
	}
	return n;
}

/*
 * A group can have as many events as there are counters, and perf refuses a feature that is
 * not there.
 */
void check_limits(void)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_HARDWARE,
		.config = PERF_COUNT_HW_INSTRUCTIONS,
		.sample_period = 100000,
		.disabled = 1,
		.exclude_kernel = 1,
		.precise_ip = 3,
	};
	int precise = open_attr(&attr, -1) < 0 ? errno : 0;
	long counters = number_in(DEVICES "cpu/caps/counters");

	say("\"group\": %d, \"counters\": %ld, \"precise\": \"%s\"", largest_group(32),
	    counters, precise ? strerrorname_np(precise) : "ok");
}
