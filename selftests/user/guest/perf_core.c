// SPDX-License-Identifier: GPL-2.0
/*
 * perf's core for the guest's driver in user space: see perf_core.h.
 */
#include "stand_in.h"
#include "kvm_pmu.h"

struct perf_event_context cpu_contexts[NR_CPUS];
struct task_struct idle_tasks[NR_CPUS];
struct task_struct *currents[NR_CPUS];
int max_samples_per_tick = 1000;
int sample_rate = 100000;
u64 sample_took_ns;
bool raw_is_taken;
int register_error;

static struct pmu *pmus;
static int next_type = PERF_TYPE_MAX;
static u64 tick_seq;
/* Events that perf will disable as soon as interrupts are on. */
static struct perf_event *pending[64];
static unsigned int nr_pending;

/* PMUs */

static void nop_enable(struct pmu *pmu)
{
}

static void nop_start_txn(struct pmu *pmu, unsigned int flags)
{
}

static int nop_commit_txn(struct pmu *pmu)
{
	return 0;
}

int perf_pmu_register(struct pmu *pmu, const char *name, int type)
{
	int error = register_error;

	register_error = 0;
	if (error)
		return error;

	pmu->name = name;
	pmu->type = type >= 0 ? type : next_type++;
	if (!pmu->pmu_enable)
		pmu->pmu_enable = pmu->pmu_disable = nop_enable;
	if (!pmu->start_txn) {
		pmu->start_txn = nop_start_txn;
		pmu->commit_txn = nop_commit_txn;
		pmu->cancel_txn = nop_enable;
	}
	pmu->next = pmus;
	pmus = pmu;
	return 0;
}

void perf_pmu_unregister(struct pmu *pmu)
{
	struct pmu **p;

	for (p = &pmus; *p != pmu; p = &(*p)->next)
		;
	*p = pmu->next;
}

struct pmu *pmu_named(const char *name)
{
	struct pmu *pmu;

	for (pmu = pmus; pmu && strcmp(pmu->name, name); pmu = pmu->next)
		;
	return pmu;
}

static void perf_pmu_disable(struct pmu *pmu)
{
	CHECK(irqs_off());
	if (!pmu->disable_count[this_cpu]++)
		pmu->pmu_disable(pmu);
}

static void perf_pmu_enable(struct pmu *pmu)
{
	CHECK(pmu->disable_count[this_cpu] > 0);
	if (!--pmu->disable_count[this_cpu])
		pmu->pmu_enable(pmu);
}

static void all_disable(void)
{
	struct pmu *pmu;

	for (pmu = pmus; pmu; pmu = pmu->next)
		perf_pmu_disable(pmu);
}

static void all_enable(void)
{
	struct pmu *pmu;

	for (pmu = pmus; pmu; pmu = pmu->next)
		perf_pmu_enable(pmu);
}

/* Time */

static void update_times(struct perf_event *event)
{
	u64 delta = clock_ns - event->tstamp;

	event->tstamp = clock_ns;
	/* A group that is not scheduled is enabled if its leader is. */
	if (event->state >= PERF_EVENT_STATE_INACTIVE &&
	    event->group_leader->state >= PERF_EVENT_STATE_INACTIVE &&
	    event->ctx->is_active)
		event->time_enabled += delta;
	if (event->state == PERF_EVENT_STATE_ACTIVE)
		event->time_running += delta;
}

static void set_state(struct perf_event *event, enum perf_event_state state)
{
	update_times(event);
	event->state = state;
}

static void context_times(struct perf_event_context *ctx)
{
	struct perf_event *leader, *sibling;

	list_for_each_entry(leader, &ctx->groups, entry) {
		update_times(leader);
		for_each_sibling_event(sibling, leader)
			update_times(sibling);
	}
}

/* Scheduling */

static int event_sched_in(struct perf_event *event)
{
	int ret = 0;

	if (event->state <= PERF_EVENT_STATE_OFF)
		return 0;

	event->oncpu = this_cpu;
	set_state(event, PERF_EVENT_STATE_ACTIVE);
	if (event->hw.interrupts == MAX_INTERRUPTS) {
		event->unthrottled++;
		event->hw.interrupts = 0;
	}

	perf_pmu_disable(event->pmu);
	if (event->pmu->add(event, PERF_EF_START)) {
		set_state(event, PERF_EVENT_STATE_INACTIVE);
		event->oncpu = -1;
		ret = -EAGAIN;
	}
	perf_pmu_enable(event->pmu);
	return ret;
}

static void event_sched_out(struct perf_event *event)
{
	if (event->state != PERF_EVENT_STATE_ACTIVE)
		return;

	perf_pmu_disable(event->pmu);
	event->pmu->del(event, 0);
	event->oncpu = -1;
	set_state(event, event->pending_disable ? PERF_EVENT_STATE_OFF :
						  PERF_EVENT_STATE_INACTIVE);
	event->pending_disable = false;
	perf_pmu_enable(event->pmu);
}

static void group_sched_out(struct perf_event *leader)
{
	struct perf_event *sibling;

	if (leader->state != PERF_EVENT_STATE_ACTIVE)
		return;

	event_sched_out(leader);
	for_each_sibling_event(sibling, leader)
		event_sched_out(sibling);
}

/* The PMU of the group's hardware events, if there are any. */
static struct pmu *group_pmu(struct perf_event *leader)
{
	struct perf_event *sibling;

	if (!is_software_event(leader))
		return leader->pmu;

	for_each_sibling_event(sibling, leader) {
		if (!is_software_event(sibling))
			return sibling->pmu;
	}

	return leader->pmu;
}

static int group_sched_in(struct perf_event *leader)
{
	struct pmu *pmu = group_pmu(leader);
	struct perf_event *sibling, *partial = NULL;

	if (leader->state == PERF_EVENT_STATE_OFF)
		return 0;

	pmu->start_txn(pmu, PERF_PMU_TXN_ADD);
	if (event_sched_in(leader))
		goto error;

	for_each_sibling_event(sibling, leader) {
		if (event_sched_in(sibling)) {
			partial = sibling;
			goto group_error;
		}
	}

	if (!pmu->commit_txn(pmu))
		return 0;

group_error:
	for_each_sibling_event(sibling, leader) {
		if (sibling == partial)
			break;
		event_sched_out(sibling);
	}
	event_sched_out(leader);
error:
	pmu->cancel_txn(pmu);
	return -EAGAIN;
}

/* During perf_pmu_resched(): groups of other PMUs stay as they are. */
static struct pmu *only;

static bool stays(struct perf_event *leader)
{
	return only && group_pmu(leader) != only;
}

static void ctx_groups_in(struct perf_event_context *ctx, bool pinned,
			  bool *can_add_hw)
{
	struct perf_event *leader;

	list_for_each_entry(leader, &ctx->groups, entry) {
		if (stays(leader) || leader->attr.pinned != pinned ||
		    leader->state != PERF_EVENT_STATE_INACTIVE)
			continue;
		if (!pinned && !*can_add_hw &&
		    !is_software_event(leader))
			continue;
		if (group_sched_in(leader)) {
			if (pinned) {
				set_state(leader, PERF_EVENT_STATE_ERROR);
			} else {
				*can_add_hw = false;
				ctx->rotate = true;
			}
		}
	}
}

static void ctxs_in(bool pinned_and_flexible)
{
	struct perf_event_context *task = &current->ctx;
	struct perf_event_context *cpu = &cpu_contexts[this_cpu];
	bool can_add_hw = true;

	context_times(task);
	task->is_active = true;
	cpu->is_active = true;
	if (pinned_and_flexible) {
		ctx_groups_in(cpu, true, &can_add_hw);
		ctx_groups_in(task, true, &can_add_hw);
	}
	ctx_groups_in(cpu, false, &can_add_hw);
	ctx_groups_in(task, false, &can_add_hw);
}

static void ctx_out(struct perf_event_context *ctx, bool pinned_too)
{
	struct perf_event *leader;

	list_for_each_entry(leader, &ctx->groups, entry) {
		if (!stays(leader) && (pinned_too || !leader->attr.pinned))
			group_sched_out(leader);
	}
}

static void resched(void)
{
	bool on = irq_off();

	all_disable();
	ctx_out(&cpu_contexts[this_cpu], true);
	ctx_out(&current->ctx, true);
	ctxs_in(true);
	all_enable();
	irq_on(on);
}

void perf_pmu_resched(struct pmu *pmu)
{
	struct pmu *p;

	CHECK(irqs_off());
	/* perf must not be running already. */
	for (p = pmus; p; p = p->next)
		CHECK(!p->disable_count[this_cpu]);
	only = pmu;
	resched();
	only = NULL;
}

void perf_sched_cb_inc(struct pmu *pmu)
{
	pmu->sched_cb[this_cpu]++;
}

void perf_sched_cb_dec(struct pmu *pmu)
{
	CHECK(pmu->sched_cb[this_cpu]-- > 0);
}

void perf_task_switch(int cpu, struct task_struct *next)
{
	struct task_struct *prev = currents[cpu];
	struct pmu *pmu;
	int was = this_cpu;
	bool on;

	if (next == prev)
		return;

	CHECK(next->cpu < 0);
	this_cpu = cpu;
	on = irq_off();
	if (sched_switch_tracepoint.probe)
		((void (*)(void *, bool, struct task_struct *,
			   struct task_struct *, unsigned int))
		 sched_switch_tracepoint.probe)(NULL, false, prev, next, 0);

	all_disable();
	context_times(&prev->ctx);
	ctx_out(&prev->ctx, true);
	prev->ctx.is_active = false;
	all_enable();

	prev->cpu = -1;
	next->cpu = cpu;
	currents[cpu] = next;
	if (prev->mm)
		prev->mm->cpus.bits &= ~BIT(cpu);
	if (next->mm)
		next->mm->cpus.bits |= BIT(cpu);

	/* If the task has pinned events, the CPU's other events make room. */
	all_disable();
	if (next->ctx.groups.next != &next->ctx.groups)
		ctx_out(&cpu_contexts[cpu], false);
	ctxs_in(true);
	all_enable();

	for (pmu = pmus; pmu; pmu = pmu->next) {
		if (pmu->sched_task && pmu->sched_cb[cpu])
			pmu->sched_task(NULL, next, true);
	}

	irq_on(on);
	this_cpu = was;
}

static void rotate_ctx(struct perf_event_context *ctx)
{
	struct perf_event *leader;

	list_for_each_entry(leader, &ctx->groups, entry) {
		if (!leader->attr.pinned) {
			list_del(&leader->entry);
			list_add_tail(&leader->entry, &ctx->groups);
			return;
		}
	}
}

void perf_rotate(int cpu)
{
	struct perf_event_context *task, *of_cpu = &cpu_contexts[cpu];
	int was = this_cpu;
	bool on;

	this_cpu = cpu;
	task = &current->ctx;
	if (task->rotate || of_cpu->rotate) {
		on = irq_off();
		all_disable();
		ctx_out(of_cpu, false);
		ctx_out(task, false);
		if (of_cpu->rotate)
			rotate_ctx(of_cpu);
		if (task->rotate)
			rotate_ctx(task);
		task->rotate = of_cpu->rotate = false;
		ctxs_in(false);
		all_enable();
		irq_on(on);
	}
	this_cpu = was;
}

/* Overflows */

static void adjust_period(struct perf_event *event, u64 ns, u64 count, bool disable)
{
	struct hw_perf_event *hwc = &event->hw;
	u64 period = 1;
	s64 delta;

	if (ns && event->attr.sample_freq)
		period = count * (NSEC_PER_SEC / event->attr.sample_freq) / ns;
	delta = (s64)(period - hwc->sample_period) / 8;
	hwc->sample_period += delta;
	if ((s64)hwc->sample_period < 1)
		hwc->sample_period = 1;

	if (local64_read(&hwc->period_left) > (s64)(8 * hwc->sample_period)) {
		if (disable)
			event->pmu->stop(event, PERF_EF_UPDATE);
		local64_set(&hwc->period_left, 0);
		if (disable)
			event->pmu->start(event, PERF_EF_RELOAD);
	}
}

int perf_event_account_interrupt(struct perf_event *event)
{
	struct hw_perf_event *hwc = &event->hw;
	int ret = 0;
	u64 delta;

	if (tick_seq != hwc->interrupts_seq) {
		hwc->interrupts_seq = tick_seq;
		hwc->interrupts = 1;
	} else {
		hwc->interrupts++;
		if (hwc->interrupts > (u64)max_samples_per_tick) {
			hwc->interrupts = MAX_INTERRUPTS;
			event->throttled++;
			ret = 1;
		}
	}

	if (event->attr.freq) {
		delta = clock_ns - hwc->freq_time_stamp;
		hwc->freq_time_stamp = clock_ns;
		if (delta > 0 && delta < 2 * TICK_NSEC)
			adjust_period(event, delta, hwc->last_period, true);
	}
	return ret;
}

int perf_event_overflow(struct perf_event *event, struct perf_sample_data *data,
			struct pt_regs *regs)
{
	int ret;

	/* A disabled PMU has no overflows.  A PMU of software events is never disabled. */
	CHECK(is_software_event(event) || !event->pmu->disable_count[this_cpu]);
	CHECK(event->state == PERF_EVENT_STATE_ACTIVE);
	CHECK(event->oncpu == this_cpu);
	ret = perf_event_account_interrupt(event);
	event->samples++;
	event->sum_of_periods += data->period;
	event->last_sample_period = data->period;
	event->last_ip = regs->ip;
	event->last_cs = regs->cs;
	event->last_branches = 0;
	if (data->sample_flags & PERF_SAMPLE_BRANCH_STACK) {
		event->last_branches = data->br_stack->nr;
		if (data->br_stack->nr)
			event->first_branch = data->br_stack->entries[0].from;
	}
	if (event->handler)
		event->handler(event, data);

	if (event->event_limit && !--event->event_limit) {
		ret = 1;
		event->pending_disable = true;
		CHECK(nr_pending < ARRAY_SIZE(pending));
		pending[nr_pending++] = event;
	}
	return ret;
}

void perf_sample_event_took(u64 ns)
{
	sample_took_ns = ns;
}

static void do_disable(struct perf_event *event)
{
	if (event->state < PERF_EVENT_STATE_INACTIVE)
		return;

	if (event == event->group_leader)
		group_sched_out(event);
	else
		event_sched_out(event);
	set_state(event, PERF_EVENT_STATE_OFF);
}

/* perf_pending_event(): in the name of the event's CPU, with interrupts on. */
void perf_run_pending(void)
{
	struct perf_event *event;
	int was = this_cpu;
	bool on;

	while (nr_pending) {
		event = pending[--nr_pending];
		if (!event->pending_disable || event->oncpu < 0)
			continue;
		this_cpu = event->oncpu;
		on = irq_off();
		event->pending_disable = false;
		do_disable(event);
		irq_on(on);
		this_cpu = was;
	}
}

static void tick_of(struct perf_event *event)
{
	struct hw_perf_event *hwc = &event->hw;
	u64 now;
	s64 delta;

	if (event->state != PERF_EVENT_STATE_ACTIVE)
		return;

	perf_pmu_disable(event->pmu);
	if (hwc->interrupts == MAX_INTERRUPTS) {
		hwc->interrupts = 0;
		event->unthrottled++;
		event->pmu->start(event, 0);
	}

	if (event->attr.freq && event->attr.sample_freq) {
		event->pmu->stop(event, PERF_EF_UPDATE);
		now = local64_read(&event->count);
		delta = now - hwc->freq_count_stamp;
		hwc->freq_count_stamp = now;
		if (delta > 0)
			adjust_period(event, TICK_NSEC, delta, false);
		event->pmu->start(event, delta > 0 ? PERF_EF_RELOAD : 0);
	}
	perf_pmu_enable(event->pmu);
}

static void tick_ctx(struct perf_event_context *ctx)
{
	struct perf_event *leader, *sibling;

	list_for_each_entry(leader, &ctx->groups, entry) {
		tick_of(leader);
		for_each_sibling_event(sibling, leader)
			tick_of(sibling);
	}
}

void perf_tick(int cpu)
{
	int was = this_cpu;
	bool on;

	tick_seq++;
	this_cpu = cpu;
	on = irq_off();
	tick_ctx(&cpu_contexts[cpu]);
	tick_ctx(&current->ctx);
	irq_on(on);
	this_cpu = was;
}

/* The page */

void perf_event_update_userpage(struct perf_event *event)
{
	struct perf_event_mmap_page *page = event->rb;
	struct kretprobe_instance ri;
	struct pt_regs regs = {
		.di	= (unsigned long)event,
		.si	= (unsigned long)page,
	};

	if (!page)
		return;

	CHECK(!in_nmi());
	page->lock++;
	page->index = 0;
	page->offset = local64_read(&event->count) +
		       atomic64_read(&event->child_count);
	page->cap_user_rdpmc = 0;
	/* arch_perf_update_userpage() */
	if (page_probe && !page_probe->entry_handler(&ri, &regs))
		page_probe->handler(&ri, &regs);
	page->lock++;
}

/* Events */

struct call {
	void (*func)(struct perf_event *event);
	struct perf_event *event;
};

static void do_call(void *info)
{
	struct call *call = info;

	call->func(call->event);
}

/* Runs @func on the CPU of the event's context, or here. */
static void event_call(struct perf_event *event, void (*func)(struct perf_event *event))
{
	struct call call = { func, event };
	int cpu = event->task ? event->task->cpu : event->cpu;
	bool on;

	if (cpu >= 0) {
		on_cpu(cpu, do_call, &call);
	} else {
		on = irq_off();
		func(event);
		irq_on(on);
	}
	perf_run_pending();
}

static bool is_installed(struct perf_event *event)
{
	return event->task ? event->task->cpu == this_cpu : event->cpu == this_cpu;
}

static void do_enable(struct perf_event *event)
{
	if (event->state >= PERF_EVENT_STATE_INACTIVE)
		return;

	set_state(event, PERF_EVENT_STATE_INACTIVE);
	if (is_installed(event))
		resched();
}

void perf_enable(struct perf_event *event)
{
	event_call(event, do_enable);
}

void perf_disable(struct perf_event *event)
{
	event_call(event, do_disable);
}

void perf_refresh(struct perf_event *event, int n)
{
	event->event_limit += n;
	perf_enable(event);
}

static u64 new_period;

static void do_period(struct perf_event *event)
{
	bool active = event->state == PERF_EVENT_STATE_ACTIVE;

	if (event->attr.freq) {
		event->attr.sample_freq = new_period;
	} else {
		event->attr.sample_period = new_period;
		event->hw.sample_period = new_period;
	}

	if (active) {
		perf_pmu_disable(event->pmu);
		if (event->hw.interrupts == MAX_INTERRUPTS)
			event->hw.interrupts = 0;
		event->pmu->stop(event, PERF_EF_UPDATE);
	}
	local64_set(&event->hw.period_left, 0);
	if (active) {
		event->pmu->start(event, PERF_EF_RELOAD);
		perf_pmu_enable(event->pmu);
	}
}

int perf_period(struct perf_event *event, u64 period)
{
	if (!is_sampling_event(event) || !period || period >> 63)
		return -EINVAL;
	if (event->attr.freq && period > (u64)sample_rate)
		return -EINVAL;
	if (event->pmu->check_period && event->pmu->check_period(event, period))
		return -EINVAL;

	new_period = period;
	event_call(event, do_period);
	return 0;
}

static void do_read(struct perf_event *event)
{
	context_times(event->ctx);
	if (event->state == PERF_EVENT_STATE_ACTIVE)
		event->pmu->read(event);
}

u64 perf_read(struct perf_event *event)
{
	event_call(event, do_read);
	return local64_read(&event->count) + atomic64_read(&event->child_count);
}

static void do_read_group(struct perf_event *leader)
{
	struct pmu *pmu = leader->pmu;
	struct perf_event *sibling;

	context_times(leader->ctx);
	if (leader->state != PERF_EVENT_STATE_ACTIVE)
		return;

	pmu->start_txn(pmu, PERF_PMU_TXN_READ);
	pmu->read(leader);
	for_each_sibling_event(sibling, leader) {
		if (sibling->state == PERF_EVENT_STATE_ACTIVE)
			sibling->pmu->read(sibling);
	}
	pmu->commit_txn(pmu);
}

void perf_read_group(struct perf_event *leader)
{
	event_call(leader, do_read_group);
}

static struct perf_event *event_alloc(const struct perf_event_attr *attr,
				      struct task_struct *task, int cpu,
				      struct perf_event *leader,
				      struct perf_event *parent)
{
	struct perf_event *event = calloc(1, sizeof(*event));
	struct hw_perf_event *hwc = &event->hw;
	struct pmu *pmu;
	int ret = -ENOENT;

	event->attr = *attr;
	event->task = task;
	event->cpu = task ? -1 : cpu;
	event->ctx = task ? &task->ctx : &cpu_contexts[cpu];
	event->group_leader = leader ? : event;
	event->parent = parent;
	event->oncpu = -1;
	event->tstamp = clock_ns;
	event->state = attr->disabled ? PERF_EVENT_STATE_OFF :
					PERF_EVENT_STATE_INACTIVE;
	list_init(&event->sibling_list);

	hwc->sample_period = attr->sample_period;
	if (attr->freq && attr->sample_freq)
		hwc->sample_period = 1;
	hwc->last_period = hwc->sample_period;
	local64_set(&hwc->period_left, hwc->sample_period);

	for (pmu = pmus; pmu; pmu = pmu->next) {
		event->pmu = pmu;
		if (is_sampling_event(event) &&
		    pmu->capabilities & PERF_PMU_CAP_NO_INTERRUPT &&
		    pmu->type == (int)attr->type)
			ret = -EOPNOTSUPP;
		else
			ret = pmu->event_init(event);
		if (ret != -ENOENT)
			break;
	}
	if (ret) {
		free(event);
		return ERR_PTR(ret);
	}
	return event;
}

static void do_install(struct perf_event *event)
{
	struct perf_event *leader = event->group_leader;

	if (leader != event)
		list_add_tail(&event->sibling_entry, &leader->sibling_list);
	else
		list_add_tail(&event->entry, &event->ctx->groups);
	if (is_installed(event))
		resched();
}

struct perf_event *perf_open(const struct perf_event_attr *attr,
			     struct task_struct *task, int cpu,
			     struct perf_event *leader)
{
	struct perf_event *event = event_alloc(attr, task, cpu, leader, NULL);

	if (!IS_ERR(event))
		event_call(event, do_install);
	return event;
}

/* perf_event_init_task() */
struct perf_event *perf_inherit(struct perf_event *parent, struct task_struct *child)
{
	struct perf_event *event = event_alloc(&parent->attr, child, -1, NULL, parent);

	if (IS_ERR(event))
		return event;

	event->state = parent->state >= PERF_EVENT_STATE_INACTIVE ?
		       PERF_EVENT_STATE_INACTIVE : PERF_EVENT_STATE_OFF;
	if (parent->attr.freq) {
		event->hw.sample_period = parent->hw.sample_period;
		event->hw.last_period = parent->hw.sample_period;
		local64_set(&event->hw.period_left, event->hw.sample_period);
	}
	event_call(event, do_install);
	return event;
}

static void do_remove(struct perf_event *event)
{
	struct perf_event *sibling;

	event_sched_out(event);
	if (event->group_leader != event) {
		list_del(&event->sibling_entry);
		return;
	}

	/* perf_group_detach(): each sibling becomes a leader. */
	list_del(&event->entry);
	while (event->sibling_list.next != &event->sibling_list) {
		sibling = list_entry(event->sibling_list.next, struct perf_event,
				     sibling_entry);
		list_del(&sibling->sibling_entry);
		list_init(&sibling->sibling_list);
		sibling->group_leader = sibling;
		list_add_tail(&sibling->entry, &event->ctx->groups);
	}
}

void perf_close(struct perf_event *event)
{
	unsigned int i;

	if (event->rb)
		perf_munmap(event);
	event_call(event, do_remove);
	for (i = 0; i < nr_pending; i++) {
		if (pending[i] == event)
			pending[i--] = pending[--nr_pending];
	}
	if (event->parent) {
		atomic64_add(local64_read(&event->count),
			     &event->parent->child_count);
		event->parent->time_enabled += event->time_enabled;
		event->parent->time_running += event->time_running;
	}
	event->destroy(event);
	free(event);
}

struct perf_event *
perf_event_create_kernel_counter(struct perf_event_attr *attr, int cpu,
				 struct task_struct *task,
				 perf_overflow_handler_t handler, void *context)
{
	/* Another PMU takes the event. */
	return raw_is_taken ? calloc(1, 1) : ERR_PTR(-ENOENT);
}

int perf_event_release_kernel(struct perf_event *event)
{
	free(event);
	return 0;
}

void perf_mmap(struct perf_event *event, struct mm_struct *mm)
{
	event->mm = mm;
	event->rb = calloc(1, sizeof(*event->rb));
	if (event->pmu->event_mapped)
		event->pmu->event_mapped(event, mm);
	event_call(event, perf_event_update_userpage);
}

void perf_munmap(struct perf_event *event)
{
	if (event->pmu->event_unmapped)
		event->pmu->event_unmapped(event, event->mm);
	free(event->rb);
	event->rb = NULL;
}

void task_init(struct task_struct *task)
{
	*task = (struct task_struct){ .cpu = -1 };
	list_init(&task->ctx.groups);
	task->regs = (struct pt_regs){ .ip = 0x401000, .cs = __USER_CS };
}
