/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the tests and the fuzzer of the guest's driver share: the driver in a guest of the
 * model of a host, tasks, and events.
 */
#ifndef DRIVER_H
#define DRIVER_H

#include "stand_in.h"
#include "host.h"

extern struct task_struct tasks[4];
extern struct mm_struct mms[4];

/* Before load(), a test may change the host. */
void guest_init(void);
void load(void);
/* Nothing is left then. */
void unload(void);

struct perf_event_attr raw(u64 config);
struct perf_event_attr raw_user(u64 config);
struct perf_event_attr sampling(u64 config, u64 period);
struct perf_event_attr hypervisor(u64 count, u64 period);
struct perf_event *open_task(struct perf_event_attr attr, int task);
struct perf_event *open_cpu(struct perf_event_attr attr, int cpu);
struct perf_event *open_group(struct perf_event_attr attr, struct perf_event *leader);
int open_error(struct perf_event_attr attr);
/* CPU 0 runs a task, or is idle: -1. */
void run(int task);
/* The host's event that a perf_event has now. */
struct host_event *backing(struct perf_event *event);
/* A file of the PMU "cpu" in sysfs. */
struct device_attribute *sysfs_file(const char *name);
/* As a program reads it by its page, if it may. */
bool page_count(struct perf_event *event, int cpu, u64 *count);
/*
 * Calls @func with an NMI at the @i-th point on the way, for each @i, each time in a
 * driver that has just been loaded.  Returns how many there are.
 */
unsigned long with_nmi_at_each_point(void (*prepare)(void), void (*func)(void),
				     void (*check)(void));
/* What comes at that point; host_nmi() where it is not set. */
extern void (*at_point)(void);

#endif
