/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The checks of pv-perf qualify: one static program, which runs natively and as the only
 * program of a guest.  Each check prints its figures as one line of JSON.  pv-perf judges
 * the figures, because it has the native ones and the guest's.
 */
#ifndef CHECKS_H
#define CHECKS_H

#include <stdbool.h>
#include <stdint.h>

#include <linux/perf_event.h>

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

/* main.c */
extern bool in_guest;

/* Asks pv-perf to do something on the host, and waits until pv-perf has done it. */
void on_host(const char *what);
/* Asks pv-perf to do something on the host while the guest goes on, until host_is_done(). */
void begin_on_host(const char *what);
bool host_is_done(void);
/* The number at the begin of a file; -1 if the file cannot be opened. */
long number_in(const char *path);
/* The number behind the word that begins with @before in the guest's command line, or 0. */
long number_of_command_line(const char *before);
/* Prints the figures of the check as a line of JSON. */
__attribute__((format(printf, 1, 2))) void say(const char *format, ...);
/* Ends a check that cannot be made; the text is the reason. */
__attribute__((noreturn, format(printf, 1, 2))) void impossible(const char *format, ...);

/* events.c */
int open_attr(const struct perf_event_attr *attr, int group);
/*
 * Opens an event of user mode of this task, disabled unless it is in a group.  If this
 * fails, ends the check.
 */
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
 * Enables the event @fd, executes a loop @n times, and disables the event.  The compiler
 * adds no code between, so each call counts the same number of instructions.
 */
void run_tight(int fd, unsigned long n);
void run_block(int fd, unsigned long n);
void run_cpuid(int fd, unsigned long n);
void run_out(int fd, unsigned long n);
void run_yield(int fd, unsigned long n);

/* Instructions in one pass of a loop. */
#define TIGHT		2
#define BLOCK		1000
#define CPUID		4
#define YIELD		4

/* The index of the instruction at an address in run_block()'s loop, or -1. */
int block_index(uint64_t ip);
/* Is this the address of the branch in run_tight()'s loop? */
bool is_tight_branch(uint64_t ip);

struct ring {
	struct perf_event_mmap_page *page;
	uint64_t tail;
};

struct sample {
	uint32_t type;
	uint64_t ip;
};

/* A branch, as in struct perf_branch_entry and in struct guest_perf_branch. */
struct branch {
	uint64_t from;
	uint64_t to;
	uint64_t info;
};

#define MAX_BRANCHES	32

struct branch_sample {
	uint64_t nr;
	struct branch branch[MAX_BRANCHES];
};

#define RING_PAGES	64

void map_ring(struct ring *ring, int fd);
void unmap_ring(struct ring *ring);
bool next_record(struct ring *ring, struct sample *sample);
/* The next sample with a branch stack; skips other records. */
bool next_branch_sample(struct ring *ring, struct branch_sample *sample);

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
void check_wide(void);
void check_branches(void);
void check_costs(void);
void hog(void);
void spin(void);

#endif
