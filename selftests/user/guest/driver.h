/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions for the tests and the fuzzer of the guest's driver: the driver with a model of
 * the host, tasks, and events.
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
void load_for_kind(void);
/* Unloads the driver, and checks that nothing is left. */
void unload(void);

struct perf_event_attr raw(u64 config);
struct perf_event_attr raw_user(u64 config);
struct perf_event_attr sampling(u64 config, u64 period);
struct perf_event_attr hypervisor(u64 count, u64 period);
struct perf_event *open_task(struct perf_event_attr attr, int task);
struct perf_event *open_cpu(struct perf_event_attr attr, int cpu);
struct perf_event *open_group(struct perf_event_attr attr, struct perf_event *leader);
int open_error(struct perf_event_attr attr);
/* Has CPU 0 run a task, or be idle (-1). */
void run(int task);
/* The host's event that now backs a perf_event. */
struct host_event *backing(struct perf_event *event);
/* A file of the PMU "cpu" in sysfs. */
struct device_attribute *sysfs_file(const char *name);
/* Reads the count by the page, like a program; returns false if it may not. */
bool page_count(struct perf_event *event, int cpu, u64 *count);
/*
 * Calls @func with an NMI at the @i-th point in it, for each @i, each time with a driver
 * that has just been loaded.  Returns the number of points.
 */
unsigned long with_nmi_at_each_point(void (*prepare)(void), void (*func)(void),
				     void (*check)(void));
/* The action at that point; host_nmi() by default. */
extern void (*at_point)(void);

#endif
