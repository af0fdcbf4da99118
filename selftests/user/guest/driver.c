// SPDX-License-Identifier: GPL-2.0
/*
 * Functions for the tests of the guest's driver: see driver.h.
 */
#include "driver.h"
#include "kvm_pmu.h"

struct task_struct tasks[4];
struct mm_struct mms[4];

void guest_init(void)
{
	unsigned int i;

	cpu_init();
	host_init();
	for (i = 0; i < NR_CPUS; i++) {
		cpu_contexts[i] = (struct perf_event_context){ .is_active = true };
		list_init(&cpu_contexts[i].groups);
		task_init(&idle_tasks[i]);
		idle_tasks[i].cpu = i;
		idle_tasks[i].flags = PF_KTHREAD;
		currents[i] = &idle_tasks[i];
		lvtpc[i] = APIC_LVT_MASKED;
	}
	for (i = 0; i < ARRAY_SIZE(tasks); i++) {
		task_init(&tasks[i]);
		mms[i] = (struct mm_struct){ };
		tasks[i].mm = &mms[i];
	}
}

void load(void)
{
	CHECK(!stand_in_init());
}

/* In a guest of a hybrid host, whose raw events are for the cores of HOST_CORE_TYPE. */
void load_for_kind(void)
{
	host.query.model = KVM_PERF_MODEL_HYBRID | 1;
	load();
	CHECK(sysfs_file("core_type")->store(NULL, NULL, "0x40\n", 5) == 5);
}

void unload(void)
{
	stand_in_exit();
	CHECK(!nr_allocated);
	CHECK(!host_open());
	CHECK(!nmi_handler && !kexec_probe && !page_probe && !sched_switch_tracepoint.probe);
}

struct perf_event_attr raw(u64 config)
{
	return (struct perf_event_attr) {
		.type	= PERF_TYPE_RAW,
		.size	= sizeof(struct perf_event_attr),
		.config	= config,
	};
}

struct perf_event_attr raw_user(u64 config)
{
	struct perf_event_attr attr = raw(config);

	attr.exclude_kernel = 1;
	return attr;
}

struct perf_event_attr sampling(u64 config, u64 period)
{
	struct perf_event_attr attr = raw_user(config);

	attr.sample_period = period;
	return attr;
}

struct perf_event_attr hypervisor(u64 count, u64 period)
{
	struct perf_event_attr attr = raw(count);

	attr.type = pmu_named("kvm")->type;
	attr.sample_period = period;
	return attr;
}

struct perf_event *open_task(struct perf_event_attr attr, int task)
{
	struct perf_event *event = perf_open(&attr, &tasks[task], -1, NULL);

	CHECK(!IS_ERR(event));
	return event;
}

struct perf_event *open_cpu(struct perf_event_attr attr, int cpu)
{
	struct perf_event *event = perf_open(&attr, NULL, cpu, NULL);

	CHECK(!IS_ERR(event));
	return event;
}

struct perf_event *open_group(struct perf_event_attr attr, struct perf_event *leader)
{
	struct perf_event *event = perf_open(&attr, leader->task, leader->cpu, leader);

	CHECK(!IS_ERR(event));
	return event;
}

int open_error(struct perf_event_attr attr)
{
	struct perf_event *event = perf_open(&attr, &tasks[0], -1, NULL);

	if (IS_ERR(event))
		return PTR_ERR(event);
	perf_close(event);
	return 0;
}

void run(int task)
{
	perf_task_switch(0, task < 0 ? &idle_tasks[0] : &tasks[task]);
}

struct host_event *backing(struct perf_event *event)
{
	CHECK(event->oncpu >= 0 && event->hw.idx >= 0);
	return host_find(event->oncpu * KVM_PMU_NR_BACKING + event->hw.idx);
}

struct device_attribute *sysfs_file(const char *name)
{
	const struct attribute_group **group;
	struct attribute **attr;

	for (group = pmu_named("cpu")->attr_groups; *group; group++) {
		for (attr = (*group)->attrs; *attr; attr++) {
			if (!strcmp((*attr)->name, name))
				return container_of(*attr, struct device_attribute, attr);
		}
	}
	return NULL;
}

bool page_count(struct perf_event *event, int cpu, u64 *count)
{
	struct perf_event_mmap_page *page = event->rb;
	u64 value;

	*count = page->offset;
	if (!page->cap_user_rdpmc)
		return false;
	if (page->index) {
		CHECK(page->pmc_width == 48);
		CHECK(host_rdpmc(cpu, page->index - 1, &value));
		*count += sign_extend64(value, 47);
	}
	return true;
}

void (*at_point)(void);

static unsigned long left_to_go;

static void come(void)
{
	if (left_to_go && !--left_to_go) {
		if (at_point)
			at_point();
		else
			host_nmi(this_cpu);
	}
}

unsigned long with_nmi_at_each_point(void (*prepare)(void), void (*func)(void),
				     void (*check)(void))
{
	unsigned long i, before = 0;

	for (i = 1;; i++) {
		prepare();
		left_to_go = i;
		before = points;
		point_hook = come;
		func();
		point_hook = NULL;
		check();
		/* The point was not reached. */
		if (left_to_go)
			return i - 1;
		CHECK(points - before < 100000);
	}
}
