// SPDX-License-Identifier: GPL-2.0
/*
 * perf for kernel counters of tasks: a small kernel/events/core.c, with
 * NR_COUNTERS counters per CPU.  The state of an event belongs to its task's
 * CPU, and changes with this CPU's interrupts off.
 */
#include "stand_in.h"

int cpu_kinds[NR_CPUS];
/* Intel's performance and efficiency cores. */
const u8 kind_cores[NR_KINDS] = { 0x40, 0x20 };

int kind_of(int cpu)
{
	return cpu_has_hybrid ? cpu_kinds[cpu] : 0;
}

/* An efficiency core has one less. */
int nr_counters(int cpu)
{
	return pmu_capability.num_counters_gp ? NR_COUNTERS - kind_of(cpu) : 0;
}

int create_error;
atomic_t nr_backing_events, nr_held_events, nr_freq_events;
int max_sample_rate = 100000;
u64 clock_ns = 1000;
bool register_taken;
u64 hw_event_config[PERF_COUNT_HW_MAX] = {
	0x76, 0xc0, 0, 0x964, 0xc2, 0xc3, 0, 0x287, 0x187, 0,
};

u64 perf_get_hw_event_config(int event)
{
	return event < PERF_COUNT_HW_MAX ? hw_event_config[event] : 0;
}

void perf_get_x86_pmu_capability(struct x86_pmu_capability *cap)
{
	/* On a hybrid CPU perf warns, because it does not know the type of core. */
	CHECK(!cpu_has_hybrid);
	*cap = pmu_capability;
}

u64 local_clock(void)
{
	return READ_ONCE(clock_ns);
}

/* Tasks */

static struct pmu pmus[NR_KINDS];

struct task_struct *task_create(int cpu)
{
	static u64 started;
	struct task_struct *task = calloc(1, sizeof(*task));

	refcount_set(&task->refs, 1);
	task->cpu = cpu;
	task->running = true;
	task->start_time = __atomic_add_fetch(&started, 1, __ATOMIC_RELAXED);
	/* The task's context begins at time 0, now. */
	task->ctx.timeoffset = -local_clock();
	raw_spin_lock_init(&task->ctx.lock);
	task->ctx.pmu = &pmus[0];
	task->ctx.task = task;
	INIT_LIST_HEAD(&task->ctx.pinned_active);
	INIT_LIST_HEAD(&task->ctx.flexible_active);
	INIT_LIST_HEAD(&task->events);
	return task;
}

void task_put(struct task_struct *task)
{
	if (!refcount_dec_and_test(&task->refs))
		return;

	CHECK(list_empty(&task->events) && list_empty(&task->ctx.pinned_active));
	CHECK(!task->ctx.nr_active && !task->ctx.nr_freq);
	free(task);
}

static u64 task_time(struct task_struct *task)
{
	return task->running ? local_clock() + task->ctx.timeoffset :
			       task->ctx.stopped_at;
}

/* Events */

static struct perf_cpu_context cpu_contexts[NR_CPUS];

static __attribute__((constructor)) void init_contexts(void)
{
	int i;

	for (i = 0; i < NR_CPUS; i++) {
		INIT_LIST_HEAD(&cpu_contexts[i].ctx.pinned_active);
		INIT_LIST_HEAD(&cpu_contexts[i].ctx.flexible_active);
	}
}

/* A counter has 48 bits, and half of that is the longest period. */
#define PMC_MASK	((1ull << 48) - 1)
#define MAX_PERIOD	((1ull << 47) - 1)

static u64 *residue(int cpu, int idx)
{
	return idx >= INTEL_PMC_IDX_FIXED ?
	       &cpus[cpu].fixed[idx - INTEL_PMC_IDX_FIXED] : &cpus[cpu].pmc[idx];
}

static u64 content(struct perf_event *event)
{
	return (local64_read(&event->hw.prev_count) + event->hw.counter) & PMC_MASK;
}

unsigned int written_counters;

/* x86_perf_event_set_period(): the counter overflows when it comes to 0. */
static void write_counter(struct perf_event *event)
{
	local64_set(&event->hw.prev_count,
		    -local64_read(&event->hw.period_left));
	__atomic_add_fetch(&written_counters, 1, __ATOMIC_RELAXED);
}

static void pmu_read(struct perf_event *event)
{
	struct hw_perf_event *hw = &event->hw;

	CHECK(event->oncpu == smp_processor_id());
	local64_add(hw->counter, &hw->prev_count);
	local64_add(hw->counter, &event->count);
	local64_sub(hw->counter, &hw->period_left);
	hw->counter = 0;
}

/* The CHECKs are the WARN_ON_ONCEs of x86_pmu_start(). */
static void pmu_start(struct perf_event *event, int flags)
{
	CHECK(event->hw.state & PERF_HES_STOPPED);
	CHECK(event->hw.idx != -1);
	CHECK(!(flags & PERF_EF_RELOAD) ||
	      event->hw.state & PERF_HES_UPTODATE);
	if (local64_read(&event->hw.period_left) <= 0) {
		local64_set(&event->hw.period_left, is_sampling_event(event) ?
			    READ_ONCE(event->hw.sample_period) : MAX_PERIOD);
		WRITE_ONCE(event->hw.last_period,
			   local64_read(&event->hw.period_left));
	}
	/* The old content of the counter no longer matters. */
	if (flags & PERF_EF_RELOAD) {
		event->hw.counter = 0;
		write_counter(event);
	}
	WRITE_ONCE(event->hw.state, 0);
}

static void pmu_stop(struct perf_event *event, int flags)
{
	int state = event->hw.state | PERF_HES_STOPPED;

	if (flags & PERF_EF_UPDATE && !(state & PERF_HES_UPTODATE)) {
		pmu_read(event);
		state |= PERF_HES_UPTODATE;
	}
	WRITE_ONCE(event->hw.state, state);
}

/*
 * For Intel's fixed counters a start or a stop takes effect only when the PMU is
 * enabled again: the PMU must be disabled during the start or stop.
 */
static _Thread_local bool pmu_is_disabled;

void (*disable_hook)(void);

/* amd_pmu_check_overflow() waits for the NMI of a counter that has overflowed. */
static void pmu_disable(struct pmu *pmu)
{
	CHECK(irqs_are_off() && !pmu_is_disabled);
	if (disable_hook)
		disable_hook();
	pmu_is_disabled = true;
}

static void pmu_enable(struct pmu *pmu)
{
	CHECK(irqs_are_off() && pmu_is_disabled);
	pmu_is_disabled = false;
}

static void start_with_pmu_disabled(struct perf_event *event, int flags)
{
	CHECK(pmu_is_disabled);
	pmu_start(event, flags);
}

static void stop_with_pmu_disabled(struct perf_event *event, int flags)
{
	CHECK(pmu_is_disabled);
	pmu_stop(event, flags);
}

static int filter_match(struct perf_event *event);
static int add_with_pmu_disabled(struct perf_event *event, int flags);
static void del_with_pmu_disabled(struct perf_event *event, int flags);

#define PMU(number) {						\
	.type = number,							\
	.pmu_cpu_context = cpu_contexts,				\
	.pmu_enable = pmu_enable,					\
	.pmu_disable = pmu_disable,					\
	.filter_match = filter_match,					\
	.add = add_with_pmu_disabled,					\
	.del = del_with_pmu_disabled,					\
	.read = pmu_read,						\
	.start = start_with_pmu_disabled,				\
	.stop = stop_with_pmu_disabled,					\
}

/* PERF_TYPE_RAW, and one that perf has chosen. */
static struct pmu pmus[NR_KINDS] = { PMU(4), PMU(10) };

static void update_times(struct perf_event *event)
{
	u64 now = task_time(event->hw.target);

	if (event->state >= PERF_EVENT_STATE_INACTIVE)
		event->total_time_enabled += now - event->tstamp;
	if (event->state == PERF_EVENT_STATE_ACTIVE)
		event->total_time_running += now - event->tstamp;
	event->tstamp = now;
}

static void set_state(struct perf_event *event, enum perf_event_state state)
{
	update_times(event);
	WRITE_ONCE(event->state, state);
}

/* Its counter is chosen. */
static void add(struct perf_event *event)
{
	/* intel_fixup_er() */
	if (register_taken && (event->hw.config & 0xff) == 0xb7)
		event->hw.config += 0xbb - 0xb7;
	WRITE_ONCE(event->hw.state, PERF_HES_STOPPED | PERF_HES_UPTODATE);
	pmu_start(event, PERF_EF_RELOAD);
}

static void del(struct perf_event *event)
{
	pmu_stop(event, PERF_EF_UPDATE);
	*residue(event->oncpu, event->hw.idx) = content(event);
}

static void account(struct perf_event *event, int n)
{
	event->ctx->nr_active += n;
	if (event->attr.freq)
		event->ctx->nr_freq += n;
}

static void sched_event_in(struct perf_event *event)
{
	if (event->state == PERF_EVENT_STATE_ACTIVE)
		return;

	list_add_tail(&event->active_list, &event->ctx->pinned_active);
	account(event, 1);
	cpu_contexts[smp_processor_id()].active_oncpu++;
	WRITE_ONCE(event->hw.interrupts, 0);
	WRITE_ONCE(event->oncpu, smp_processor_id());
	set_state(event, PERF_EVENT_STATE_ACTIVE);
	add(event);
}

static void sched_event_out(struct perf_event *event,
			    enum perf_event_state state)
{
	if (event->state == PERF_EVENT_STATE_ACTIVE) {
		del(event);
		list_del_init(&event->active_list);
		account(event, -1);
		cpu_contexts[event->oncpu].active_oncpu--;
		WRITE_ONCE(event->oncpu, -1);
	}
	set_state(event, state);
}

/* The fixed counter of an event, as a bit, or 0. */
static int fixed_counter(const struct perf_event *event)
{
	static const u64 selects[NR_FIXED] = { 0xc0, 0x3c, 0x300, 0x400 };
	int i;

	for (i = 0; i < pmu_capability.num_counters_fixed; i++)
		if ((event->hw.config & X86_RAW_EVENT_MASK) == selects[i])
			return 1 << i;
	return 0;
}

/* On AMD, floating-point operations take two counters. */
static int counters(const struct perf_event *event)
{
	return boot_cpu_data.x86 >= 0x17 &&
	       boot_cpu_data.x86_vendor == X86_VENDOR_AMD &&
	       (event->hw.config & 0xf000000ff) == 3 ? 2 : 1;
}

/* x86_assign_hw_event() */
static void set_idx(struct perf_event *event, int idx)
{
	struct hw_perf_event *hw = &event->hw;

	WRITE_ONCE(hw->idx, idx);
	if (idx >= INTEL_PMC_IDX_FIXED) {
		idx -= INTEL_PMC_IDX_FIXED;
		WRITE_ONCE(hw->event_base_rdpmc, INTEL_PMC_FIXED_RDPMC_BASE | idx);
		hw->event_base = MSR_CORE_PERF_FIXED_CTR0 + idx;
	} else {
		WRITE_ONCE(hw->event_base_rdpmc, idx);
		hw->event_base = boot_cpu_data.x86_vendor == X86_VENDOR_INTEL ?
				 MSR_IA32_PMC0 + idx :
				 MSR_F15H_PERF_CTR + 2 * idx;
	}
}

/* Like x86_pmu_enable(): the event continues in another counter. */
static void assign(struct perf_event *event, int idx)
{
	bool active = event->state == PERF_EVENT_STATE_ACTIVE;
	int state = event->hw.state;

	if (event->hw.idx == idx)
		return;

	if (active) {
		pmu_stop(event, PERF_EF_UPDATE);
		*residue(event->oncpu, event->hw.idx) = content(event);
	}
	set_idx(event, idx);
	if (active && state & PERF_HES_STOPPED)
		WRITE_ONCE(event->hw.state, event->hw.state | PERF_HES_ARCH);
	else if (active)
		pmu_start(event, PERF_EF_RELOAD);
}

/* Is the event's last counter free? */
static bool has_place(struct task_struct *task, struct perf_event *event)
{
	int left = nr_counters(task->cpu) - cpus[task->cpu].taken;
	struct perf_event *other;

	if (event->hw.idx == -1 || counters(event) > 1 ||
	    (event->hw.idx < INTEL_PMC_IDX_FIXED && event->hw.idx >= left))
		return false;

	list_for_each_entry(other, &task->events, node)
		if (other != event && other->hw.idx == event->hw.idx &&
		    other->pmu == event->pmu &&
		    other->state >= PERF_EVENT_STATE_INACTIVE)
			return false;
	return true;
}

static bool is_on_kind(const struct task_struct *task,
		       const struct perf_event *event)
{
	return event->pmu == &pmus[kind_of(task->cpu)];
}

/* Is the event to count on this kind of core?  @also is, whatever its state. */
static bool is_to_count(const struct task_struct *task, const struct perf_event *event,
			const struct perf_event *also)
{
	return (event->state >= PERF_EVENT_STATE_INACTIVE || event == also) &&
	       is_on_kind(task, event);
}

static bool all_have_places(struct task_struct *task, const struct perf_event *also)
{
	struct perf_event *event;

	list_for_each_entry(event, &task->events, node)
		if (is_to_count(task, event, also) && !has_place(task, event))
			return false;
	return true;
}

/* The counters that are free while perf places events. */
struct places {
	bool anew;
	int left;
	int fixed;	/* those that are taken, as bits */
	int next;
};

static struct places free_places(struct task_struct *task, const struct perf_event *also)
{
	return (struct places) {
		.anew = !all_have_places(task, also),
		.left = nr_counters(task->cpu) - cpus[task->cpu].taken,
		.fixed = cpus[task->cpu].taken_fixed,
	};
}

/* Returns whether the event can have a counter, and if so the counter's index. */
static bool find_place(struct places *places, const struct perf_event *event, int *idx)
{
	int fixed = fixed_counter(event) & ~places->fixed;
	int needs;

	if (!places->anew && event->hw.idx < INTEL_PMC_IDX_FIXED)
		fixed = 0;
	places->fixed |= fixed;
	needs = fixed ? 0 : counters(event);
	if (needs > places->left)
		return false;

	*idx = !places->anew ? event->hw.idx :
	       fixed ? INTEL_PMC_IDX_FIXED + __builtin_ctz(fixed) : places->next;
	places->left -= needs;
	places->next += needs;
	return true;
}

/*
 * Schedules pinned events in the order of their age: an event without a counter is
 * in error.  As in x86_schedule_events(), events keep their counters if possible.
 */
static void resched(struct task_struct *task)
{
	struct places places = free_places(task, NULL);
	struct perf_event *event;
	int idx;

	list_for_each_entry(event, &task->events, node) {
		if (event->state < PERF_EVENT_STATE_INACTIVE)
			continue;
		/* The filter comes first: it is not in error. */
		if (!is_on_kind(task, event) || !task->running) {
			sched_event_out(event, PERF_EVENT_STATE_INACTIVE);
		} else if (find_place(&places, event, &idx)) {
			assign(event, idx);
			sched_event_in(event);
		} else {
			sched_event_out(event, PERF_EVENT_STATE_ERROR);
		}
	}
}

static int filter_match(struct perf_event *event)
{
	return is_on_kind(event->hw.target, event);
}

/* Either each event of the thread has a counter then, or nothing changes. */
static bool place_beside(struct task_struct *task, struct perf_event *also)
{
	struct places places = free_places(task, also), same = places;
	struct perf_event *event;
	int idx;

	list_for_each_entry(event, &task->events, node)
		if (is_to_count(task, event, also) && !find_place(&places, event, &idx))
			return false;

	list_for_each_entry(event, &task->events, node) {
		if (!is_to_count(task, event, also) || !find_place(&same, event, &idx))
			continue;
		/* Before 7.0, x86_pmu_enable() would leave the old content in the counter. */
		CHECK(event == also || event->hw.idx == idx ||
		      event->hw.interrupts != -1ull);
		if (event == also)
			set_idx(event, idx);
		else
			assign(event, idx);
	}
	return true;
}

static int add_with_pmu_disabled(struct perf_event *event, int flags)
{
	CHECK(pmu_is_disabled && flags == PERF_EF_START);
	/* As event_sched_in() calls it: a guest's driver may throttle the event now. */
	CHECK(event->hw.target == current && event->state == PERF_EVENT_STATE_ACTIVE);
	CHECK(event->oncpu == smp_processor_id() && event->hw.interrupts != -1ull);
	if (!place_beside(current, event))
		return -EAGAIN;

	add(event);
	return 0;
}

static void del_with_pmu_disabled(struct perf_event *event, int flags)
{
	CHECK(pmu_is_disabled && event->oncpu == smp_processor_id());
	del(event);
}

/* The kind that an event is for; on a hybrid host, an event has to say so. */
static int kind_of_attr(struct perf_event_attr *attr)
{
	u32 type = attr->type;

	if (!cpu_has_hybrid)
		return 0;

	if (type == PERF_TYPE_HARDWARE || type == PERF_TYPE_HW_CACHE) {
		type = attr->config >> PERF_PMU_TYPE_SHIFT;
		attr->config &= U32_MAX;
	} else {
		attr->type = PERF_TYPE_RAW;
	}
	CHECK(type == pmus[0].type || type == pmus[1].type);
	/* An efficiency core has no events of caches. */
	if (type == pmus[1].type && attr->type == PERF_TYPE_HW_CACHE)
		attr->config = 0;
	return type == pmus[1].type;
}

static u64 eventsel(const struct perf_event_attr *attr)
{
	u64 config = attr->config;

	if (attr->type == PERF_TYPE_HARDWARE)
		config = perf_get_hw_event_config(attr->config);
	else if (attr->type == PERF_TYPE_HW_CACHE)
		config = config == PERF_COUNT_HW_CACHE_DTLB ? 0xff45 : 0;

	return config;
}

/* Does perf know the event?  Whether it can count depends on the CPU. */
static bool is_event(const struct perf_event_attr *attr)
{
	u64 config = attr->config;

	if (attr->type == PERF_TYPE_HARDWARE)
		return config < PERF_COUNT_HW_MAX;
	if (attr->type == PERF_TYPE_HW_CACHE)
		return (config & 0xff) < PERF_COUNT_HW_CACHE_MAX &&
		       (config >> 8 & 0xff) < PERF_COUNT_HW_CACHE_OP_MAX &&
		       (config >> 16 & 0xff) < PERF_COUNT_HW_CACHE_RESULT_MAX;
	return true;
}

static int check_attr(const struct perf_event_attr *attr)
{
	if (create_error) {
		int error = create_error;

		create_error = 0;
		return error;
	}
	if (!is_event(attr))
		return -EINVAL;
	return eventsel(attr) ? 0 : -ENOENT;
}

unsigned int cpus_offline;
/* How often KVM has created such an event. */
unsigned int nr_asked;

/* The event never counts: it keeps the mediated virtual PMU from taking the whole PMU. */
static struct perf_event *create_held(struct perf_event_attr *attr, int cpu)
{
	struct perf_event *event;

	CHECK(cpu_has_hybrid || cpu == smp_processor_id());
	CHECK(attr->disabled && attr->exclude_guest && !attr->sample_period);
	nr_asked++;
	if (cpus_offline & BIT(cpu))
		return ERR_PTR(-ENODEV);
	event = kzalloc(sizeof(*event), GFP_KERNEL);
	if (!event)
		return ERR_PTR(-ENOMEM);

	event->pmu = &pmus[kind_of(cpu)];
	atomic_inc(&nr_held_events);
	return event;
}

struct perf_event *
perf_event_create_kernel_counter(struct perf_event_attr *wanted, int cpu,
				 struct task_struct *task,
				 perf_overflow_handler_t overflow_handler,
				 void *context)
{
	struct perf_event_attr attr[1] = { *wanted };
	struct perf_event *event;
	int ret, kind;

	might_sleep_at("create");
	if (!task)
		return create_held(attr, cpu);

	kind = kind_of_attr(attr);

	/* Properties that no guest may change. */
	CHECK(cpu == -1 && task == current);
	CHECK(attr->size == sizeof(*attr) && attr->disabled && attr->pinned);
	CHECK(attr->exclude_host && !attr->exclude_guest);
	CHECK(!attr->precise_ip && !attr->config1 && !attr->config2);
	CHECK(!attr->sample_type && !attr->inherit);
	CHECK(attr->sample_period <= S64_MAX);

	ret = check_attr(attr);
	if (ret)
		return ERR_PTR(ret);
	/* Not charged, as in perf. */
	event = kzalloc(sizeof(*event), GFP_KERNEL);
	if (!event)
		return ERR_PTR(-ENOMEM);

	event->pmu = &pmus[kind];
	event->state = PERF_EVENT_STATE_OFF;
	event->oncpu = -1;
	event->attr = *attr;
	event->hw.config = eventsel(attr) | ARCH_PERFMON_EVENTSEL_INT |
			   ARCH_PERFMON_EVENTSEL_ENABLE;
	event->hw.idx = -1;
	event->hw.target = task;
	refcount_inc(&task->refs);
	event->hw.sample_period = attr->freq ? 1 : attr->sample_period;
	event->hw.last_period = event->hw.sample_period;
	local64_set(&event->hw.period_left, event->hw.sample_period);
	event->ctx = &task->ctx;
	event->group_leader = event;
	INIT_LIST_HEAD(&event->sibling_list);
	event->overflow_handler = overflow_handler;
	event->overflow_handler_context = context;
	atomic_inc(&nr_backing_events);
	if (attr->freq)
		atomic_inc(&nr_freq_events);

	irq_lock(task->cpu);
	event->tstamp = task_time(task);
	list_add_tail(&event->node, &task->events);
	irq_unlock(task->cpu);
	return event;
}

int perf_event_release_kernel(struct perf_event *event)
{
	struct task_struct *task = event->hw.target;

	might_sleep_at("perf");
	if (!task) {
		free(event);
		atomic_dec(&nr_held_events);
		return 0;
	}

	irq_lock(task->cpu);
	sched_event_out(event, PERF_EVENT_STATE_DEAD);
	list_del(&event->node);
	irq_unlock(task->cpu);
	task_put(task);
	if (event->attr.freq)
		atomic_dec(&nr_freq_events);
	free(event);
	atomic_dec(&nr_backing_events);
	return 0;
}

void perf_event_enable(struct perf_event *event)
{
	struct task_struct *task = event->hw.target;

	might_sleep_at("enable");
	irq_lock(task->cpu);
	if (event->state == PERF_EVENT_STATE_ERROR)
		set_state(event, PERF_EVENT_STATE_OFF);
	if (event->state == PERF_EVENT_STATE_OFF) {
		set_state(event, PERF_EVENT_STATE_INACTIVE);
		resched(task);
	}
	irq_unlock(task->cpu);
}

void perf_event_disable(struct perf_event *event)
{
	struct task_struct *task = event->hw.target;

	might_sleep_at("disable");
	irq_lock(task->cpu);
	if (event->state >= PERF_EVENT_STATE_INACTIVE)
		sched_event_out(event, PERF_EVENT_STATE_OFF);
	irq_unlock(task->cpu);
}

int perf_event_period(struct perf_event *event, u64 value)
{
	struct task_struct *task = event->hw.target;

	might_sleep_at("period");
	if (!is_sampling_event(event) || !value || value > S64_MAX)
		return -EINVAL;
	if (event->attr.freq && value > max_sample_rate)
		return -EINVAL;

	irq_lock(task->cpu);
	/* perf calls no function for an event whose thread has ended, and says nothing. */
	if (event->state == PERF_EVENT_STATE_EXIT) {
		irq_unlock(task->cpu);
		return 0;
	}

	if (event->state == PERF_EVENT_STATE_ACTIVE) {
		event->hw.interrupts = 0;
		pmu_stop(event, PERF_EF_UPDATE);
	}
	if (event->attr.freq)
		event->attr.sample_freq = value;
	else
		event->attr.sample_period = value;
	if (!event->attr.freq)
		WRITE_ONCE(event->hw.sample_period, value);
	local64_set(&event->hw.period_left, 0);
	if (event->state == PERF_EVENT_STATE_ACTIVE)
		pmu_start(event, PERF_EF_RELOAD);
	irq_unlock(task->cpu);
	return 0;
}

u64 perf_event_read_value(struct perf_event *event, u64 *enabled, u64 *running)
{
	struct task_struct *task = event->hw.target;
	u64 count;

	might_sleep_at("value");
	irq_lock(task->cpu);
	if (event->state == PERF_EVENT_STATE_ACTIVE)
		pmu_read(event);
	update_times(event);
	count = local64_read(&event->count);
	*enabled = event->total_time_enabled;
	*running = event->total_time_running;
	irq_unlock(task->cpu);
	return count;
}

/* Scheduling of tasks */

static void sched_task(struct task_struct *task, bool running)
{
	struct perf_event *event;

	irq_lock(task->cpu);
	list_for_each_entry(event, &task->events, node)
		update_times(event);
	task->ctx.stopped_at = task_time(task);
	WRITE_ONCE(task->ctx.timeoffset,
		   task->ctx.stopped_at - local_clock());
	task->running = running;
	resched(task);
	irq_unlock(task->cpu);
}

void task_sched_out(struct task_struct *task)
{
	sched_task(task, false);
}

void task_sched_in(struct task_struct *task)
{
	sched_task(task, true);
}

void task_exit(struct task_struct *task)
{
	struct perf_event *event;

	irq_lock(task->cpu);
	list_for_each_entry(event, &task->events, node)
		sched_event_out(event, PERF_EVENT_STATE_EXIT);
	irq_unlock(task->cpu);
	task_put(task);
}

static void take_counters_locked(struct task_struct *task, int n)
{
	struct cpu *cpu = &cpus[task->cpu];
	int i;

	cpu_contexts[task->cpu].active_oncpu += n - cpu->taken;
	/* The host's counters have some content. */
	for (i = NR_COUNTERS - max(n, cpu->taken); i < NR_COUNTERS; i++)
		cpu->pmc[i] = 0x5ec7e7 + i;
	cpu->taken = n;
	resched(task);
}

/* The host's events that are pinned to the CPU take precedence. */
void take_counters(struct task_struct *task, int n)
{
	irq_lock(task->cpu);
	take_counters_locked(task, n);
	irq_unlock(task->cpu);
}

/* hardlockup_detector_event_create(); there is only one watchdog at a time. */
struct perf_event watchdog = {
	.pmu = &pmus[0],
	.state = PERF_EVENT_STATE_ACTIVE,
	.attr.type = PERF_TYPE_HARDWARE,
	.attr.config = PERF_COUNT_HW_CPU_CYCLES,
	.attr.pinned = 1,
	.owner = (void *)-1l,
	.hw.idx = NR_COUNTERS - 1,
};

static void set_host_event_locked(struct task_struct *task, struct perf_event *event)
{
	struct perf_event_context *ctx = &cpu_contexts[task->cpu].ctx;

	INIT_LIST_HEAD(&ctx->pinned_active);
	INIT_LIST_HEAD(&ctx->flexible_active);
	if (event)
		list_add_tail(&event->active_list, event->attr.pinned ?
			      &ctx->pinned_active : &ctx->flexible_active);
}

void set_watchdog(struct task_struct *task, bool on)
{
	irq_lock(task->cpu);
	set_host_event_locked(task, on ? &watchdog : NULL);
	take_counters_locked(task, on);
	irq_unlock(task->cpu);
}

/* perf has this event, or none, on the task's CPU.  The event takes no counter. */
void set_host_event(struct task_struct *task, struct perf_event *event)
{
	irq_lock(task->cpu);
	set_host_event_locked(task, event);
	irq_unlock(task->cpu);
}

static struct perf_event *event_with(int idx)
{
	struct perf_event *event;

	list_for_each_entry(event, &current->events, node) {
		if (event->state == PERF_EVENT_STATE_ACTIVE &&
		    event->hw.idx == idx)
			return event;
	}
	return NULL;
}

u64 native_read_pmc(int ecx)
{
	int idx = ecx & INTEL_PMC_FIXED_RDPMC_BASE ?
		  INTEL_PMC_IDX_FIXED + (ecx & ~INTEL_PMC_FIXED_RDPMC_BASE) : ecx;
	struct perf_event *event = event_with(idx);

	if (ecx == INTEL_PMC_FIXED_RDPMC_METRICS) {
		CHECK(cpu_has_metrics);
		return perf_metrics;
	}
	/* It would fault. */
	CHECK(idx >= INTEL_PMC_IDX_FIXED || idx < nr_counters(smp_processor_id()));

	return event ? content(event) : *residue(smp_processor_id(), idx);
}

void wrmsr(u32 msr, u32 low, u32 high)
{
	int idx = msr >= MSR_F15H_PERF_CTR ? (msr - MSR_F15H_PERF_CTR) / 2 :
		  msr >= MSR_IA32_PMC0 ? msr - MSR_IA32_PMC0 :
		  msr >= MSR_CORE_PERF_FIXED_CTR0 ?
		  INTEL_PMC_IDX_FIXED + msr - MSR_CORE_PERF_FIXED_CTR0 :
		  msr - MSR_ARCH_PERFMON_PERFCTR0;
	u64 value = (u64)high << 32 | low;
	struct perf_event *event;

	CHECK(irqs_are_off());
	if (msr == MSR_PERF_METRICS) {
		CHECK(!value);
		perf_metrics = 0;
		return;
	}
	event = event_with(idx);
	if (event) {
		/*
		 * The write adds 1, and must not reach an overflow: a write does not raise an
		 * interrupt.
		 */
		CHECK(event->hw.event_base == msr && !event->hw.state);
		CHECK(value == content(event) + 1 && value >> 47 == 1);
		event->hw.counter++;
		return;
	}
	CHECK(!value);
	*residue(smp_processor_id(), idx) = 0;
}

u64 *lbr_msr(u32 msr)
{
	struct cpu *cpu = &cpus[smp_processor_id()];

	CHECK(irqs_are_off() && cpu_has_lbr_v2);
	switch (msr) {
	case MSR_AMD_DBG_EXTN_CFG:
		return &cpu->lbr_config;
	case MSR_AMD64_LBR_SELECT:
		return &cpu->lbr_select;
	}
	CHECK(msr - MSR_AMD_SAMP_BR_FROM < 2 * NR_BRANCHES);
	return &cpu->lbr[0][0] + (msr - MSR_AMD_SAMP_BR_FROM);
}

void throttle(struct perf_event *event)
{
	irq_lock(event->oncpu);
	pmu_stop(event, 0);
	event->hw.interrupts = -1;
	irq_unlock(event->oncpu);
}

/*
 * x86_pmu_enable() gives a stopped event another counter, because a new event
 * needs its old counter.  The other counter has another event's content.  Before
 * Linux 7.0 perf does not write it until the event starts.
 */
void reassign(struct perf_event *event, u64 content)
{
	irq_lock(event->oncpu);
	CHECK(event->hw.state & PERF_HES_STOPPED);
	pmu_stop(event, PERF_EF_UPDATE);
	set_idx(event, (event->hw.idx + 1) % NR_COUNTERS);
	event->hw.state |= PERF_HES_ARCH;
	event->hw.counter = content;
	irq_unlock(event->oncpu);
}

/* perf starts an event again that something else has stopped. */
void start_again(struct perf_event *event)
{
	irq_lock(event->oncpu);
	pmu_stop(event, PERF_EF_UPDATE);
	pmu_start(event, 0);
	irq_unlock(event->oncpu);
}

/* perf_adjust_period(), without the part that changes period_left. */
static void adjust_period(struct perf_event *event, u64 ns, u64 count)
{
	struct hw_perf_event *hw = &event->hw;
	s64 delta = count * NSEC_PER_SEC / (ns * event->attr.sample_freq) -
		    hw->sample_period;

	delta = (delta >= 0 ? delta + 7 : delta - 7) / 8;
	WRITE_ONCE(hw->sample_period, hw->sample_period + delta ? : 1);
}

static void adjust_at_tick(struct perf_event *event)
{
	struct hw_perf_event *hw = &event->hw;
	s64 delta;

	pmu_stop(event, PERF_EF_UPDATE);
	delta = local64_read(&event->count) - hw->freq_count_stamp;
	hw->freq_count_stamp = local64_read(&event->count);
	if (delta > 0) {
		adjust_period(event, TICK_NSEC, delta);
		if (local64_read(&hw->period_left) > 8 * hw->sample_period)
			local64_set(&hw->period_left, 0);
	}
	pmu_start(event, delta > 0 ? PERF_EF_RELOAD : 0);
}

/* perf_adjust_freq_unthr_context() */
void tick(struct perf_event *event)
{
	irq_lock(current->cpu);
	if (event->state == PERF_EVENT_STATE_ACTIVE) {
		if (event->hw.interrupts == -1ull) {
			event->hw.interrupts = 0;
			pmu_start(event, 0);
		}
		if (event->attr.freq)
			adjust_at_tick(event);
	}
	irq_unlock(current->cpu);
}

static void adjust_at_overflow(struct perf_event *event)
{
	u64 now = local_clock(), delta = now - event->hw.freq_time_stamp;

	event->hw.freq_time_stamp = now;
	if (delta && delta < 2 * TICK_NSEC)
		adjust_period(event, delta, event->hw.last_period);
}

bool throttles;

/* x86_pmu_handle_irq() */
static void overflow(struct perf_event *event)
{
	struct perf_sample_data data = { .period = event->hw.last_period };
	struct hw_perf_event *hw = &event->hw;

	pmu_read(event);
	local64_set(&hw->period_left, READ_ONCE(hw->sample_period));
	write_counter(event);
	WRITE_ONCE(hw->last_period, local64_read(&hw->period_left));
	if (event->attr.freq)
		adjust_at_overflow(event);
	if (throttles)
		hw->interrupts = -1;
	event->overflow_handler(event, &data, NULL);
	if (throttles)
		pmu_stop(event, 0);
}

static void count(struct perf_event *event, u64 n)
{
	bool overflowed = false;
	u64 step;

	while (n && !(event->hw.state & PERF_HES_STOPPED)) {
		step = n;
		if (is_sampling_event(event))
			step = min(step, (u64)local64_read(&event->hw.period_left) -
					 event->hw.counter);
		event->hw.counter += step;
		n -= step;
		if (is_sampling_event(event) &&
		    event->hw.counter == local64_read(&event->hw.period_left)) {
			overflow(event);
			overflowed = true;
		}
	}

	/* The NMI ends guest mode, and perf reads the counter. */
	if (overflowed)
		pmu_read(event);
}

void count_guest(u64 n)
{
	struct perf_event *event;

	CHECK(irqs_are_off());
	__sync_fetch_and_add(&clock_ns, n);
	list_for_each_entry(event, &current->events, node)
		if (event->state == PERF_EVENT_STATE_ACTIVE &&
		    !(event->hw.state & PERF_HES_STOPPED))
			count(event, n);
}

void run_guest(u64 n)
{
	irq_lock(current->cpu);
	count_guest(n);
	irq_unlock(current->cpu);
	irq_work_run();
	hrtimer_run();
}
