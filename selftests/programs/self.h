/* SPDX-License-Identifier: GPL-2.0 */
/* Functions for a program that counts its own instructions and reads them in user mode. */
#ifndef SELF_H
#define SELF_H

#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile struct perf_event_mmap_page *page;

/* Opens the event, maps its page, and returns its file descriptor. */
static inline int count_self(void)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_HARDWARE,
		.size		= sizeof(attr),
		.config		= PERF_COUNT_HW_INSTRUCTIONS,
		.exclude_kernel	= 1,
		.exclude_hv	= 1,
	};
	int fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);

	if (fd < 0) {
		perror("perf_event_open");
		exit(2);
	}
	page = mmap(NULL, sysconf(_SC_PAGESIZE), PROT_READ, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED) {
		perror("mmap");
		exit(2);
	}
	return fd;
}

/* The time in seconds.  The clock also runs while the program sleeps. */
static inline double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

#endif
