/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The checks of pv-perf qualify: one program without libraries, which runs natively and
 * as the only program of a guest.  Each check measures and prints one line of JSON; what
 * the figures mean is for pv-perf to say, which sees both.
 */
#ifndef CHECKS_H
#define CHECKS_H

#include <stdbool.h>
#include <stdint.h>

#include <linux/perf_event.h>

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

/* main.c */
extern bool in_guest;

/* Has pv-perf do something on the host while the guest waits. */
void on_host(const char *what);
/* The same, but the guest goes on meanwhile, until host_is_done(). */
void begin_on_host(const char *what);
bool host_is_done(void);
/* The number that a file begins with, or -1. */
long number_in(const char *path);
/* For the host in a line of JSON of its own. */
__attribute__((format(printf, 1, 2))) void say(const char *format, ...);
/* Ends the check: it cannot be made. */
__attribute__((noreturn, format(printf, 1, 2))) void impossible(const char *format, ...);

/* events.c */
int open_attr(const struct perf_event_attr *attr, int group);
/* An event of user mode of this task, disabled unless it is in a group; ends the check if
 * there is none. */
int open_user(uint64_t config, int group, uint64_t read_format);

struct values {
	uint64_t nr;
	uint64_t enabled;
	uint64_t running;
	uint64_t value[8];
};

#define GROUP_FORMAT (PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED | \
		      PERF_FORMAT_TOTAL_TIME_RUNNING)

struct values read_group(int fd);
uint64_t read_one(int fd);

/*
 * Enables the group of @fd, executes a loop @n times, and disables the group, without any
 * code of the compiler's between: the same number of instructions each time.
 */
void run_tight(int fd, unsigned long n);
void run_block(int fd, unsigned long n);
void run_cpuid(int fd, unsigned long n);
void run_out(int fd, unsigned long n);
void run_yield(int fd, unsigned long n);

/* Instructions of a pass through a loop. */
#define TIGHT		2
#define BLOCK		1000
#define CPUID		4
#define YIELD		4

/* Of an address: which instruction of run_block()'s loop is there, or -1. */
int block_index(uint64_t ip);

struct ring {
	struct perf_event_mmap_page *page;
	uint64_t tail;
};

struct sample {
	uint32_t type;
	uint64_t ip;
};

#define RING_PAGES	64

void map_ring(struct ring *ring, int fd);
void unmap_ring(struct ring *ring);
bool next_record(struct ring *ring, struct sample *sample);

double seconds(void);
double cpu_seconds(void);
uint64_t cycles(void);

/* The checks */
void check_counts(void);
void check_groups(void);
void check_tasks(void);
void check_emulated(void);
void check_sampling(void);
void check_frequency(void);
void check_nmis(void);
void check_rdpmc(void);
void check_residue(void);
void check_limits(void);
void check_rate(void);
void check_hypervisor(void);
void check_move(void);
void check_beside(void);
void check_two_guests(void);
void check_lost(void);
void check_costs(void);
void hog(void);

#endif
