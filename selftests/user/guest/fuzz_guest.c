// SPDX-License-Identifier: GPL-2.0
/* build: -fsanitize=fuzzer */
/*
 * libFuzzer target: perf's calls of the guest's driver, in any order, with NMIs, lost
 * counters, refusals and other hosts at any point.
 *
 * With an honest host, each count is between a lower and an upper bound.  The bounds differ
 * only by counts that a host had not told before the guest left it, and by work of the
 * kernel within the driver, which may count or not.
 *
 * A hostile host writes anything into the memory that it shares with the driver, at any
 * point, and returns any results.  The driver must continue, in bounded time, and must not
 * make calls that perf does not expect.  With an honest host again, new events count exactly.
 *
 * The input is a stream of bytes, read by get().
 */
#include "driver.h"

#include "kvm_pmu.h"

#define MAX_STEPS	80
#define NR_EVENTS	24
/*
 * The most points and hypercalls of a step, and points of an NMI: a hostile host chooses
 * how many NMIs there are, and makes each of them read everything KVM_PMU_MAX_TRIES times.
 */
#define MAX_POINTS	8000000
#define MAX_CALLS	20000
#define MAX_NMI_POINTS	200000

int LLVMFuzzerTestOneInput(const u8 *data, size_t size);

/* The input */

static const u8 *input, *input_end;

static u64 get(int bytes)
{
	u64 value = 0;

	while (bytes--)
		value = value << 8 | (input < input_end ? *input++ : 0);
	return value;
}

static u32 below(u32 n)
{
	return get(n > 256 ? 2 : 1) % n;
}

/* The model */

static struct known {
	struct perf_event *event;
	u64 low, high;
	u64 weight;
	u64 just;		/* part of low for the current work */
	u64 meanwhile;		/* part of high since the last read began */
	bool is_hypervisor;
	bool disturbed;		/* its samples need not add up */
} known[NR_EVENTS];

/* Until then the driver may not know that events do not count. */
static u64 blind_until[NR_CPUS];
static bool hostile, tells;

static bool is_counting(const struct known *k, int cpu)
{
	return k->event && k->event->state == PERF_EVENT_STATE_ACTIVE &&
	       k->event->oncpu == cpu && !k->event->hw.state;
}

static bool excludes(const struct known *k, bool user)
{
	return user ? k->event->attr.exclude_user : k->event->attr.exclude_kernel;
}

/* Work while the driver is not running. */
static void expect(struct known *k, int cpu, u64 n)
{
	k->just = 0;
	if (!is_counting(k, cpu))
		return;

	k->high += n;
	if (clock_ns >= blind_until[cpu])
		k->just = n;
	k->low += k->just;
}

/* An overflow may have made perf stop an event in the middle of the work. */
static void expect_less_of_who_stopped(int cpu)
{
	struct known *k;

	for (k = known; k < known + NR_EVENTS; k++) {
		if (k->event && !is_counting(k, cpu))
			k->low -= k->just;
		k->just = 0;
	}
}

static void expect_work(int cpu, u64 n, bool user)
{
	struct known *k;

	for (k = known; k < known + NR_EVENTS; k++) {
		if (k->event && !k->is_hypervisor && !excludes(k, user))
			expect(k, cpu, n * k->weight);
	}
}

static void expect_exit(int cpu, unsigned int count, u64 n, bool user)
{
	struct known *k;

	for (k = known; k < known + NR_EVENTS; k++) {
		if (k->event && k->is_hypervisor && !excludes(k, user) &&
		    k->event->hw.config & BIT(count))
			expect(k, cpu, n);
	}
}

/* Work while the driver is running, in any state of the events. */
static void may_count(u64 n)
{
	struct known *k;

	for (k = known; k < known + NR_EVENTS; k++) {
		if (!k->event || excludes(k, false))
			continue;
		k->high += n * k->weight;
		k->meanwhile += n * k->weight;
	}
}

static void begin_read(void)
{
	struct known *k;

	for (k = known; k < known + NR_EVENTS; k++)
		k->meanwhile = 0;
}

static void forget_what_is_not_told(void)
{
	struct known *k;
	u64 count;
	int i;

	for (k = known; k < known + NR_EVENTS; k++) {
		if (!k->event)
			continue;
		count = local64_read(&k->event->count);
		k->low = min_t(u64, k->low, count);
		k->disturbed = true;
	}
	for (i = 0; i < NR_CPUS && !tells; i++)
		blind_until[i] = clock_ns + NSEC_PER_SEC * 3 / 10;
}

/* Checks the samples of an event, unless something has disturbed them. */
static void check_samples(const struct known *k, u64 count)
{
	const struct perf_event *event = k->event;

	if (hostile || k->disturbed || !event->attr.sample_period || event->attr.freq)
		return;

	CHECK(event->sum_of_periods <= count);
}

static void check_count(struct known *k, u64 count)
{
	if (hostile)
		return;

	if (count < k->low || count > k->high)
		fprintf(stderr, "count %llu, not %llu to %llu\n", count, k->low, k->high);
	CHECK(count >= k->low && count <= k->high);
	check_samples(k, count);
	k->low = count;
	/* The read may have got the count before the work of its time. */
	k->high = count + k->meanwhile;
}

static u64 count_of(struct known *k)
{
	return local64_read(&k->event->count);
}

static void read_one(struct known *k)
{
	begin_read();
	perf_read(k->event);
	check_count(k, count_of(k));
}

/* The count that a running program reads by the page. */
static void check_page(struct known *k)
{
	struct perf_event *event = k->event;
	int cpu = event->oncpu;
	u64 count;

	if (hostile || !event->rb || cpu < 0 || clock_ns < blind_until[cpu])
		return;

	run_interrupts(cpu);
	if (!event->rb->cap_user_rdpmc)
		return;
	CHECK(page_count(event, cpu, &count));
	count -= atomic64_read(&event->child_count);
	CHECK(count >= k->low && count <= k->high);
}

/* Actions at a point */

static unsigned int points_to_go;
static unsigned int at_point_what;
static u32 at_point_n;

static void lose_counters(int cpu, int n)
{
	struct known *k;

	for (k = known; k < known + NR_EVENTS; k++)
		k->disturbed = true;
	host_set_counters(cpu, n);
	if (!(host.query.features & KVM_PERF_FEATURE_NOTIFY))
		blind_until[cpu] = clock_ns + NSEC_PER_SEC * 3 / 10;
}

static void migrate(void)
{
	forget_what_is_not_told();
	host_migrate();
}

static void come(void)
{
	if (!points_to_go || --points_to_go)
		return;

	if (getenv("FUZZ_TRACE"))
		fprintf(stderr, "at a point: %u of %u\n", at_point_what, at_point_n);
	switch (at_point_what) {
	case 0:
		host_nmi(this_cpu);
		break;
	case 1:
		lose_counters(this_cpu, at_point_n % 5);
		break;
	case 2:
		migrate();
		break;
	case 3:
		may_count(at_point_n);
		kernel_work(this_cpu, at_point_n);
		break;
	case 4:
		may_count(at_point_n);
		host_exit(this_cpu, at_point_n % KVM_PERF_NR_COUNTS, at_point_n, false,
			  0xffffffff81000200);
		break;
	case 5:
		/* An NMI does not interrupt an NMI, but an exit may. */
		host.vcpus[this_cpu].nmi = true;
		break;
	}
}

/* Refusals: the refuse_at-th operation refuse_op fails. */
static u32 refuse_op, refuse_at;
static long refuse_with;

static long refuse(u32 op, u32 id, u64 arg)
{
	if (op != refuse_op || !refuse_at || --refuse_at)
		return 0;
	return refuse_with;
}

static void step_refusal(void)
{
	static const struct {
		u32 op;
		long error;
	} refusals[] = {
		{ KVM_PERF_OP_OPEN, -KVM_ENOSPC },
		{ KVM_PERF_OP_OPEN, -KVM_EOPNOTSUPP },
		{ KVM_PERF_OP_OPEN, -KVM_EBUSY },
		{ KVM_PERF_OP_ENABLE, -KVM_EBUSY },
		{ KVM_PERF_OP_ENABLE, -KVM_EAGAIN },
		{ KVM_PERF_OP_SET_PERIOD, -KVM_EINVAL },
		{ KVM_PERF_OP_SET_COUNTS, -KVM_EOPNOTSUPP },
	};
	unsigned int i = below(ARRAY_SIZE(refusals)), n;

	refuse_op = refusals[i].op;
	refuse_with = refusals[i].error;
	refuse_at = 1 + below(8);
	for (n = 0; n < NR_EVENTS; n++)
		known[n].disturbed = true;
}

/* A hostile host */

static u64 seed;
static u32 scribble_every, scribble_in;

static u64 any(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

/* Some values are more likely to matter than any other. */
static u64 any_value(u64 old)
{
	switch (any() % 10) {
	case 0:
		return 0;
	case 1:
		return any() % 64;
	case 2:
		return ~0ull;
	case 3:
		return 1ull << any() % 64;
	case 4:
		return old ^ 1ull << any() % 64;
	case 5:
		return -(u64)(u32)any();
	case 6:
		return S64_MIN + any() % 2;
	case 7:
		return (0xffffffff81000000 | (any() & 0xfff000)) + 0xff0 + any() % 16;
	case 8:
		return (u32)any();
	default:
		return any();
	}
}

static void write_any(void *memory, size_t size)
{
	u64 *word = (u64 *)memory + any() % (size / 8);
	u64 value = any_value(*word);

	/* Half of the word, as often. */
	if (any() % 2)
		memcpy((u32 *)word + any() % 2, &value, 4);
	else
		memcpy(word, &value, 8);
}

static struct guest_perf_event *records[64];
static unsigned int nr_records;

/* A hostile host may write to any record that the guest has ever told it. */
static void note_records(void)
{
	struct host_event *event;
	unsigned int i;

	for (event = host.events; event < host.events + HOST_EVENTS; event++) {
		if (!event->open || event->id >= NR_CPUS * KVM_PMU_NR_BACKING)
			continue;
		for (i = 0; i < nr_records && records[i] != event->record; i++)
			;
		if (i == nr_records && nr_records < ARRAY_SIZE(records))
			records[nr_records++] = event->record;
	}
}

static void scribble(void)
{
	struct guest_perf_area *area = host.vcpus[any() % NR_CPUS].area;

	switch (any() % 8) {
	case 0:
	case 1:
	case 2:
		if (nr_records)
			write_any(records[any() % nr_records],
				  sizeof(struct guest_perf_event));
		break;
	case 3:
		/*
		 * With another epoch the driver opens all events again: do not change it each
		 * time.
		 */
		if (area && !(any() % 16))
			area->epoch = any_value(area->epoch);
		break;
	case 4:
		if (area)
			write_any(area->slot, sizeof(area->slot));
		break;
	case 5:
		if (area)
			area->slots = any_value(area->slots);
		break;
	case 6:
		if (area)
			area->nr_branches = any_value(area->nr_branches);
		break;
	default:
		if (area)
			write_any(area->count, sizeof(*area) -
				  offsetof(struct guest_perf_area, count));
		break;
	}
	if (!(any() % 8))
		host.vcpus[any() % NR_CPUS].nmi = true;
	if (!(any() % 16))
		host_deliver(this_cpu);
}

static void scribble_at_point(void)
{
	if (!--scribble_in) {
		scribble_in = 1 + any() % scribble_every;
		scribble();
	}
}

static void scribble_results(void)
{
	struct guest_perf_op *op;

	note_records();
	scribble();
	if (!host.last_batch || any() % 4)
		return;

	op = host.last_batch + any() % host.last_batch_n;
	switch (any() % 3) {
	case 0:
		op->op = any_value(op->op);
		break;
	case 1:
		op->result = -(s32)(any() % 40);
		break;
	default:
		op->arg = any_value(op->arg);
		break;
	}
}

static long refuse_anything(u32 op, u32 id, u64 arg)
{
	if (any() % 16)
		return 0;
	return any() % 2 ? -(long)(any() % 40) : (long)any_value(0);
}

/* Events */

static struct known *unknown(void)
{
	struct known *k;

	for (k = known; k < known + NR_EVENTS; k++) {
		if (!k->event)
			return k;
	}
	return NULL;
}

static struct known *some(void)
{
	struct known *k = &known[below(NR_EVENTS)];
	int i;

	for (i = 0; i < NR_EVENTS && !k->event; i++) {
		if (++k == known + NR_EVENTS)
			k = known;
	}
	return k->event ? k : NULL;
}

static void learn(struct perf_event *event)
{
	struct known *k = unknown();

	if (IS_ERR(event))
		return;

	*k = (struct known) {
		.event	= event,
		.is_hypervisor = event->pmu == pmu_named("kvm"),
		.weight	= 1,
	};
	if (!k->is_hypervisor && event->attr.type == PERF_TYPE_RAW)
		k->weight = 1 + (event->attr.config & 3);
	/* perf may have been interrupted while it opened the event. */
	k->high = point_hook ? 1000000 : 0;
	read_one(k);
}

static struct perf_event_attr get_attr(void)
{
	static const u64 configs[] = { 0xc0, 0xc1, 0xc2, 0x3c, 0x300, 0x1d0, 0xd1 };
	static const u64 branches[] = {
		PERF_SAMPLE_BRANCH_ANY, PERF_SAMPLE_BRANCH_USER | PERF_SAMPLE_BRANCH_COND,
		PERF_SAMPLE_BRANCH_KERNEL | PERF_SAMPLE_BRANCH_ANY_CALL |
		PERF_SAMPLE_BRANCH_TYPE_SAVE,
	};
	static const u64 periods[] = { 0, 0, 100, 1000, 3, 77, 1, 20000 };
	u8 what = get(1), mode = get(1);
	struct perf_event_attr attr;

	if (what & 1)
		attr = hypervisor(what & 2 ? KVM_PERF_MAX_COUNTS : (what >> 2) % KVM_PERF_NR_COUNTS,
				  0);
	else if (what & 2)
		attr = raw(configs[(what >> 2) % ARRAY_SIZE(configs)]);
	else
		attr = (struct perf_event_attr) {
			.type	= PERF_TYPE_HARDWARE,
			.config	= (what >> 2) % 10,
		};
	attr.sample_period = periods[mode & 7];
	if ((mode & 7) == 7) {
		attr.freq = 1;
		attr.sample_freq = 1000;
	}
	attr.exclude_kernel = !!(mode & 8);
	attr.exclude_user = !!(mode & 16) && !(mode & 8);
	attr.pinned = (mode & 0x60) == 0x60;
	attr.disabled = (mode & 0xe0) == 0x80;
	if ((mode & 0xe0) == 0xa0 && attr.sample_period && !(what & 1)) {
		attr.sample_type = PERF_SAMPLE_BRANCH_STACK;
		attr.branch_sample_type = branches[mode % 3];
	}
	return attr;
}

static void step_open(void)
{
	struct perf_event_attr attr = get_attr();
	u8 where = get(1);
	struct known *leader;

	if (!unknown())
		return;

	leader = where & 0xc0 ? NULL : some();
	if (leader && (leader->event->group_leader != leader->event ||
		       leader->event->parent))
		leader = NULL;
	if (leader) {
		attr.pinned = 0;
		learn(perf_open(&attr, leader->event->task, leader->event->cpu,
				leader->event));
	} else if (where & 1) {
		learn(perf_open(&attr, NULL, (where >> 1) % NR_CPUS, NULL));
	} else {
		learn(perf_open(&attr, &tasks[(where >> 1) % 4], -1, NULL));
	}
}

static void forget(struct known *k)
{
	struct known *child;
	struct perf_event *event = k->event;

	/* perf closes the children of an event with it. */
	for (child = known; child < known + NR_EVENTS; child++) {
		if (child->event && child->event->parent == event)
			forget(child);
	}
	if (!hostile)
		read_one(k);
	k->event = NULL;
	perf_close(event);
}

static void step_close(void)
{
	struct known *k = some();

	if (k)
		forget(k);
}

static void step_read(void)
{
	struct known *k = some(), *other;
	struct perf_event *leader;

	if (!k)
		return;

	leader = k->event->group_leader;
	if (get(1) & 1 || is_software_event(leader)) {
		read_one(k);
		return;
	}

	begin_read();
	perf_read_group(leader);
	for (other = known; other < known + NR_EVENTS; other++) {
		if (other->event && other->event->group_leader == leader &&
		    other->event->state == PERF_EVENT_STATE_ACTIVE)
			check_count(other, count_of(other));
	}
}

static void step_switch(void)
{
	u8 what = get(1);
	int cpu = what % NR_CPUS;
	struct task_struct *task = what & 4 ? &idle_tasks[cpu] : &tasks[what >> 3 & 3];

	if (!(what & 4) && task->cpu >= 0 && task->cpu != cpu)
		perf_task_switch(task->cpu, &idle_tasks[task->cpu]);
	perf_task_switch(cpu, task);
}

static void step_work(void)
{
	u8 what = get(1);
	int cpu = what % NR_CPUS;
	bool user = what & 4;
	u32 n = below(2000), part;

	/* Any part of the work may make perf stop an event. */
	while (n) {
		part = hostile ? n : 1;
		if (n > 50 && !hostile)
			part = min_t(u32, n, 25);
		expect_work(cpu, part, user);
		host_work(cpu, part, user);
		run_interrupts(cpu);
		expect_less_of_who_stopped(cpu);
		n -= part;
	}
}

static void step_exit(void)
{
	u8 what = get(1);
	int cpu = what % NR_CPUS;
	unsigned int count = (what >> 3) % KVM_PERF_NR_COUNTS;
	u32 n = below(300);

	expect_exit(cpu, count, n, what & 4);
	host_exit(cpu, count, n, what & 4, what & 4 ? 0x400200 : 0xffffffff81000200);
	expect_less_of_who_stopped(cpu);
}

static void step_enable(void)
{
	struct known *k = some();
	u8 how = get(1);

	if (!k)
		return;
	if (how & 4 && k->event->attr.sample_period)
		perf_refresh(k->event, 1 + (how >> 3) % 4);
	else if (how & 1)
		perf_enable(k->event);
	else
		perf_disable(k->event);
}

static void step_period(void)
{
	struct known *k = some();
	u32 period = 1 + below(5000);

	if (k && !perf_period(k->event, period))
		k->disturbed = true;
}

static void step_wait(void)
{
	u8 what = get(1);

	wait_ns(what < 200 ? (what % 8) * TICK_NSEC / 2 :
		what < 240 ? NSEC_PER_SEC / 8 : NSEC_PER_SEC * 5 / 4);
}

static void step_map(void)
{
	struct known *k = some();

	if (!k || !k->event->task)
		return;
	if (k->event->rb)
		perf_munmap(k->event);
	else
		perf_mmap(k->event, k->event->task->mm);
}

static void step_inherit(void)
{
	struct known *k = some();
	u8 task = get(1);

	if (!k || !unknown() || !k->event->task || k->event->parent ||
	    k->event->group_leader != k->event || hostile)
		return;

	learn(perf_inherit(k->event, &tasks[task % 4]));
}

static void step_throttle(void)
{
	struct known *k = some();
	struct host_event *event;
	unsigned int i;
	u32 id;

	if (!k || k->is_hypervisor || k->event->oncpu < 0 || k->event->hw.idx < 0)
		return;
	event = backing(k->event);
	if (!event || !event->enabled)
		return;

	for (i = 0; i < NR_EVENTS; i++)
		known[i].disturbed = true;
	id = event->id;
	host_throttle(event->cpu, id);
	host_unthrottle(0, id);
}

static void step_point(void)
{
	points_to_go = 1 + below(600);
	at_point_what = below(6);
	at_point_n = below(200);
	if (!hostile)
		point_hook = come;
}

static void step_migrate(void)
{
	migrate();
}

static void step_rdpmc_file(void)
{
	kvm_pmu_user_allow(get(1) & 1);
}

static void step_counters(void)
{
	u8 what = get(1);

	lose_counters(what % NR_CPUS, (what >> 2) % 6);
}

static void step_fixed(void)
{
	u8 what = get(1);
	int cpu = what % NR_CPUS;
	unsigned int i;

	for (i = 0; i < NR_EVENTS; i++)
		known[i].disturbed = true;
	host_set_no_fixed(cpu, what >> 2 & 7);
	if (!(host.query.features & KVM_PERF_FEATURE_NOTIFY))
		blind_until[cpu] = clock_ns + NSEC_PER_SEC * 3 / 10;
}

#define STEP(name)	{ step_##name, #name }

static const struct {
	void (*run)(void);
	const char *name;
} steps[] = {
	STEP(open), STEP(open), STEP(open), STEP(close), STEP(read), STEP(read),
	STEP(switch), STEP(switch), STEP(switch), STEP(work), STEP(work), STEP(exit),
	STEP(enable), STEP(period), STEP(wait), STEP(map), STEP(inherit), STEP(throttle),
	STEP(point), STEP(point), STEP(rdpmc_file), STEP(counters), STEP(fixed),
	STEP(refusal), STEP(migrate),
};

/*
 * With FUZZ_TRACE in the environment, prints the steps of an input.  Reads nothing in a way
 * that comes to a point, because the trace must not change what happens.
 */
static void trace(const char *name)
{
	struct known *k;

	fprintf(stderr, "%s at %llu\n", name, clock_ns);
	for (k = known; k < known + NR_EVENTS; k++) {
		if (!k->event)
			continue;
		fprintf(stderr, "  %d: %s %llx period %llu state %d cpu %d idx %d stopped %d count %llu of %llu to %llu samples %llu\n",
			(int)(k - known), k->is_hypervisor ? "kvm" : "cpu",
			(u64)k->event->attr.config, k->event->hw.sample_period,
			k->event->state, k->event->oncpu, k->event->hw.idx,
			k->event->hw.state, k->event->count.counter, k->low, k->high,
			k->event->samples);
	}
}

static u64 count_nmis(void)
{
	u64 n = 0;
	int cpu;

	for (cpu = 0; cpu < NR_CPUS; cpu++)
		n += host.vcpus[cpu].nmis;
	return n;
}

static void check_all(u64 calls, u64 nmis, unsigned long before)
{
	struct known *k;
	int cpu;

	CHECK(points - before < MAX_POINTS + (count_nmis() - nmis) * MAX_NMI_POINTS);
	CHECK(host.calls - calls < MAX_CALLS);
	for (cpu = 0; cpu < NR_CPUS; cpu++)
		run_interrupts(cpu);
	for (k = known; k < known + NR_EVENTS; k++) {
		if (k->event)
			check_page(k);
	}
}

static void fuzz_step(void)
{
	unsigned long before = points;
	u64 calls = host.calls, nmis = count_nmis();
	unsigned int i = below(ARRAY_SIZE(steps));

	steps[i].run();
	if (getenv("FUZZ_TRACE"))
		trace(steps[i].name);
	check_all(calls, nmis, before);
}

/* The host's QUERY when it is not hostile. */
static struct guest_perf_query honest;

/* With an honest host again, new events count exactly. */
static void check_recovery(void)
{
	struct perf_event *events[3];
	u64 n[2];
	int cpu;

	point_hook = NULL;
	host.refuse = NULL;
	host.exit_hook = NULL;
	if (hostile) {
		/* The features that the hostile host has told remain. */
		honest.features |= host.query.features;
		honest.rdpmc = host.query.rdpmc;
		host.query = honest;
	}
	for (cpu = 0; cpu < NR_CPUS; cpu++) {
		perf_task_switch(cpu, &idle_tasks[cpu]);
		host_set_counters(cpu, 4);
		host_set_no_fixed(cpu, 0);
	}
	wait_ns(NSEC_PER_SEC / 4);
	host_migrate();
	/* The driver remembers refusals and keeps unused events for a second. */
	wait_ns(NSEC_PER_SEC * 3 / 2);

	run(0);
	events[0] = open_task(raw_user(0xc0), 0);
	events[1] = open_task(sampling(0xc1, 100), 0);
	events[2] = open_task(hypervisor(KVM_PERF_COUNT_EXITS_IO, 5), 0);
	if (kvm_pmu_host.nr_counters > 1) {
		CHECK(events[0]->state == PERF_EVENT_STATE_ACTIVE);
		CHECK(events[1]->state == PERF_EVENT_STATE_ACTIVE);
		n[0] = perf_read(events[0]);
		n[1] = perf_read(events[1]);
		CHECK(!n[0] && !n[1]);
		user_work(0, 1000);
		CHECK(perf_read(events[0]) == 1000);
		CHECK(perf_read(events[1]) == 2000);
		CHECK(events[1]->samples == 20 || kvm_pmu_ended);
	}
	if (events[2]->state == PERF_EVENT_STATE_ACTIVE) {
		host_exit(0, KVM_PERF_COUNT_EXITS_IO, 10, true, 0x400200);
		CHECK(perf_read(events[2]) == 10);
		CHECK(events[2]->samples == 2);
	}
	for (cpu = 0; cpu < 3; cpu++)
		perf_close(events[cpu]);
}

static void be_honest(void)
{
	static const u32 max_events[] = { 64, 64, 64, 12, 5 };
	u8 what = get(1), more = get(1);

	host.query.nr_counters = 1 + more % 8;
	host.query.max_events = max_events[(more >> 3) % ARRAY_SIZE(max_events)];
	if (what & 1)
		host.query.features &= ~KVM_PERF_FEATURE_NOTIFY;
	if (what & 2)
		host.query.fixed_counters = 7;
	if (what & 4) {
		host.query.features |= KVM_PERF_FEATURE_BRANCHES;
		host.query.branches = 16;
	}
	if (what & 8) {
		host.query.rdpmc = KVM_PERF_RDPMC_ALLOWED;
		host.query.features |= KVM_PERF_FEATURE_RDPMC;
		if (what & 16)
			host.query.features |= KVM_PERF_FEATURE_RDPMC_USER;
	}
	cpu_has_apic = !(what & 32);
	is_64bit = (what & 0xc0) != 0xc0;
	tells = cpu_has_apic;
	host.refuse = refuse;
}

/* Random answers to QUERY, except features that the driver needs to load. */
static void be_hostile(void)
{
	unsigned int i;
	u8 *query = (u8 *)&host.query;

	honest = host.query;
	is_64bit = get(1) & 3;
	cpu_has_apic = get(1) & 3;
	scribble_every = 1 + below(500);
	seed = get(8) | 1;
	if (get(1) & 1) {
		for (i = 0; i < sizeof(host.query); i++)
			query[i] = any();
		host.query.nr_counters = any_value(4);
	}
	host.query.features |= KVM_PERF_FEATURE_BATCH | KVM_PERF_FEATURE_COUNTS |
			       KVM_PERF_FEATURE_SAMPLING | KVM_PERF_FEATURE_NOTIFY;
	host.query.counts |= GENMASK(KVM_PERF_NR_COUNTS - 1, 0);
	if (get(1) & 1) {
		host.query.rdpmc = KVM_PERF_RDPMC_ALLOWED;
		host.query.features |= KVM_PERF_FEATURE_AREA | KVM_PERF_FEATURE_RDPMC |
				       KVM_PERF_FEATURE_RDPMC_USER;
	}
	host.query.raw_event_mask |= 0xffff;
	host.query.max_events = HOST_EVENTS - 4;
}

static void start_scribbling(void)
{
	nr_records = 0;
	scribble_in = 1;
	host.refuse = refuse_anything;
	host.exit_hook = scribble_results;
	point_hook = scribble_at_point;
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct known *k;
	int i;

	input = data;
	input_end = data + size;
	/* The driver has forgotten the last input, so that the input is reproducible. */
	clock_ns = (clock_ns / (100 * NSEC_PER_SEC) + 2) * 100 * NSEC_PER_SEC;
	point_hook = NULL;
	points_to_go = refuse_at = 0;
	memset(known, 0, sizeof(known));
	memset(blind_until, 0, sizeof(blind_until));
	log_lines = 0;
	sample_rate = 100000;
	max_samples_per_tick = 100;
	guest_init();
	hostile = get(1) & 1;
	if (hostile)
		be_hostile();
	else
		be_honest();
	load();
	if (hostile)
		start_scribbling();

	for (i = 0; i < MAX_STEPS && input < input_end; i++)
		fuzz_step();

	point_hook = NULL;
	host.refuse = NULL;
	for (k = known; k < known + NR_EVENTS; k++) {
		if (k->event)
			forget(k);
	}
	/* The driver warns of each problem once. */
	CHECK(log_lines < 20);
	check_recovery();
	unload();
	return 0;
}
