/* SPDX-License-Identifier: GPL-2.0 */
/*
 * perf's core as a PMU's driver sees it: perf's calls, their order, and their context, as
 * in kernel/events/core.c.  It only keeps numbers of samples, no ring buffers.
 */
#ifndef PERF_CORE_H
#define PERF_CORE_H

#define PERF_EF_START		1
#define PERF_EF_RELOAD		2
#define PERF_EF_UPDATE		4
#define PERF_HES_STOPPED	1
#define PERF_HES_UPTODATE	2
#define PERF_PMU_TXN_ADD	1
#define PERF_PMU_TXN_READ	2
#define PERF_PMU_CAP_NO_INTERRUPT	1
#define PERF_ATTACH_SCHED_CB	1
#define MAX_INTERRUPTS		(~0ull)

enum {
	perf_hw_context = 0,
	perf_sw_context,
};

enum perf_event_state {
	PERF_EVENT_STATE_ERROR = -2,
	PERF_EVENT_STATE_OFF = -1,
	PERF_EVENT_STATE_INACTIVE = 0,
	PERF_EVENT_STATE_ACTIVE = 1,
};

struct perf_event;
struct perf_event_context;
struct perf_event_pmu_context;

struct pmu {
	void *module;
	const struct attribute_group **attr_groups;
	int capabilities;
	int task_ctx_nr;
	int type;
	const char *name;
	struct pmu *next;
	int disable_count[NR_CPUS];
	unsigned int txn_flags[NR_CPUS];
	int sched_cb[NR_CPUS];
	void (*pmu_enable)(struct pmu *pmu);
	void (*pmu_disable)(struct pmu *pmu);
	int (*event_init)(struct perf_event *event);
	void (*event_mapped)(struct perf_event *event, struct mm_struct *mm);
	void (*event_unmapped)(struct perf_event *event, struct mm_struct *mm);
	int (*add)(struct perf_event *event, int flags);
	void (*del)(struct perf_event *event, int flags);
	void (*start)(struct perf_event *event, int flags);
	void (*stop)(struct perf_event *event, int flags);
	void (*read)(struct perf_event *event);
	void (*start_txn)(struct pmu *pmu, unsigned int txn_flags);
	int (*commit_txn)(struct pmu *pmu);
	void (*cancel_txn)(struct pmu *pmu);
	int (*check_period)(struct perf_event *event, u64 value);
	void (*sched_task)(struct perf_event_pmu_context *context,
			   struct task_struct *task, bool sched_in);
};

struct hw_perf_event_extra {
	u64 config;
	unsigned int reg;
};

struct hw_perf_event {
	u64 config;
	u64 last_tag;
	unsigned long event_base;
	int idx;
	int flags;
	int state;
	struct hw_perf_event_extra branch_reg;
	local64_t prev_count;
	u64 sample_period;
	u64 last_period;
	local64_t period_left;
	u64 interrupts;
	u64 interrupts_seq;
	u64 freq_time_stamp;
	u64 freq_count_stamp;
};

struct perf_event_context {
	struct list_head groups;	/* leaders, pinned events first */
	bool is_active;
	bool rotate;
};

struct perf_sample_data;

struct perf_event {
	struct list_head entry;		/* in its context, of a leader */
	struct list_head sibling_list;
	struct list_head sibling_entry;
	struct perf_event *group_leader;
	struct perf_event *parent;
	struct perf_event_context *ctx;
	struct pmu *pmu;
	void *pmu_private;
	enum perf_event_state state;
	unsigned int attach_state;
	int oncpu;
	struct perf_event_attr attr;
	struct hw_perf_event hw;
	local64_t count;
	atomic64_t child_count;
	atomic64_t lost_samples;
	u64 tstamp, time_enabled, time_running;
	void (*destroy)(struct perf_event *event);
	struct perf_event_mmap_page *rb;	/* the mapped page */
	/* PERF_EVENT_IOC_REFRESH */
	int event_limit;
	bool pending_disable;
	/* Values for tests. */
	u64 samples;
	u64 sum_of_periods;
	u64 last_sample_period;
	unsigned long last_ip, last_cs;
	unsigned int last_branches;
	u64 first_branch;
	u64 throttled, unthrottled;
	void (*handler)(struct perf_event *event, struct perf_sample_data *data);
	struct mm_struct *mm;
	struct task_struct *task;
	int cpu;
};

struct task_struct {
	struct perf_event_context ctx;
	struct mm_struct *mm;
	unsigned int flags;
	struct pt_regs regs;
	int cpu;	/* on which it runs, or -1 */
};

struct perf_branch_stack {
	u64 nr;
	u64 hw_idx;
	struct perf_branch_entry entries[];
};

struct perf_sample_data {
	u64 sample_flags;
	u64 period;
	struct perf_branch_stack *br_stack;
};

extern struct perf_event_context cpu_contexts[NR_CPUS];
extern int max_samples_per_tick;
extern int sample_rate;
/* The last argument of perf_sample_event_took(). */
extern u64 sample_took_ns;
extern struct task_struct idle_tasks[NR_CPUS];
extern bool raw_is_taken;

#define for_each_sibling_event(sibling, event)				\
	if ((event)->group_leader == (event))				\
		list_for_each_entry((sibling), &(event)->sibling_list, sibling_entry)

static inline bool is_sampling_event(struct perf_event *event)
{
	return event->attr.sample_period != 0;
}

static inline bool has_branch_stack(struct perf_event *event)
{
	return event->attr.sample_type & PERF_SAMPLE_BRANCH_STACK;
}

static inline bool is_software_event(struct perf_event *event)
{
	return event->pmu->task_ctx_nr == perf_sw_context;
}

static inline void perf_sample_data_init(struct perf_sample_data *data, u64 addr,
					 u64 period)
{
	data->sample_flags = 0;
	data->period = period;
}

static inline void perf_sample_save_brstack(struct perf_sample_data *data,
					    struct perf_event *event,
					    struct perf_branch_stack *stack,
					    u64 *counters)
{
	data->br_stack = stack;
	data->sample_flags |= PERF_SAMPLE_BRANCH_STACK;
}

#define perf_fetch_caller_regs(regs) \
	((void)((regs)->cs = __KERNEL_CS))

int perf_pmu_register(struct pmu *pmu, const char *name, int type);
void perf_pmu_unregister(struct pmu *pmu);
struct pmu *pmu_named(const char *name);
/* The next registration fails with this error, once. */
extern int register_error;

typedef void (*perf_overflow_handler_t)(struct perf_event *event,
					struct perf_sample_data *data,
					struct pt_regs *regs);

struct perf_event *
perf_event_create_kernel_counter(struct perf_event_attr *attr, int cpu,
				 struct task_struct *task,
				 perf_overflow_handler_t handler, void *context);
int perf_event_release_kernel(struct perf_event *event);
int perf_event_overflow(struct perf_event *event, struct perf_sample_data *data,
			struct pt_regs *regs);
int perf_event_account_interrupt(struct perf_event *event);
void perf_event_update_userpage(struct perf_event *event);
void perf_pmu_resched(struct pmu *pmu);
void perf_sample_event_took(u64 ns);
void perf_sched_cb_inc(struct pmu *pmu);
void perf_sched_cb_dec(struct pmu *pmu);
int branch_type_fused(unsigned long from, unsigned long to, int abort, int *offset);
int common_branch_type(int type);
int kernel_text_address(unsigned long address);
void cr4_update_pce(void *unused);

/* Operations of user space. */

/* Opens an event of @task, or of @cpu if @task is NULL.  Returns it or an ERR_PTR(). */
struct perf_event *perf_open(const struct perf_event_attr *attr,
			     struct task_struct *task, int cpu,
			     struct perf_event *leader);
/* Returns the child's copy of an event when a task forks. */
struct perf_event *perf_inherit(struct perf_event *parent,
				struct task_struct *child);
void perf_close(struct perf_event *event);
/* PERF_EVENT_IOC_* */
void perf_enable(struct perf_event *event);
void perf_disable(struct perf_event *event);
int perf_period(struct perf_event *event, u64 period);
void perf_refresh(struct perf_event *event, int n);
u64 perf_read(struct perf_event *event);
/* PERF_FORMAT_GROUP */
void perf_read_group(struct perf_event *leader);
void perf_mmap(struct perf_event *event, struct mm_struct *mm);
void perf_munmap(struct perf_event *event);

/* Operations of the kernel. */
void perf_task_switch(int cpu, struct task_struct *next);
void perf_tick(int cpu);
void perf_rotate(int cpu);
void perf_run_pending(void);
void task_init(struct task_struct *task);

#endif
