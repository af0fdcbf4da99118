// SPDX-License-Identifier: GPL-2.0
/*
 * build: -fsanitize=address,undefined -fno-sanitize-recover=undefined
 * build: -fsanitize=fuzzer -fprofile-instr-generate -fcoverage-mapping
 */
/*
 * libFuzzer target: events of a vCPU whose thread moves between the kinds of cores of a
 * hybrid host, while the host takes counters and memory is short.
 *
 * An event counts each instruction that the guest executes where the event exists, or its
 * record says that it has lost its counter.  It has as many overflows as whole periods.
 *
 * The input is a stream of bytes, read by get().
 */
#include "stand_in.h"

#include "pv_perf.h"
#include "pv_perf_event.h"
#include "pv_perf_core.h"
#include "pv_perf_seam.h"
#include "pv_perf_top.h"

#define NR_EVENTS	6
#define MAX_STEPS	200
/* A run is shorter than each period, so that it has at most one overflow. */
#define MAX_RUN		19
#define MIN_PERIOD	20

/* CPUs from here on are efficiency cores. */
#define EFFICIENCY_CPU	8

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const u8 *data, size_t size);

static struct layout {
	struct guest_perf_event_param param;
	struct guest_perf_attr attr;
	struct guest_perf_event record[NR_EVENTS] __aligned(64);
} *mem;

#define GPA(field)	offsetof(struct layout, field)

/* Where an event exists, as bits of kinds. */
static const struct {
	u32 type;
	u64 config;
	u8 kinds;
} choices[] = {
	{ KVM_PERF_TYPE_RAW, 0xc0, 3 },
	{ KVM_PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, 3 },
	{ KVM_PERF_TYPE_HW_CACHE, PERF_COUNT_HW_CACHE_DTLB, 1 },
	{ KVM_PERF_TYPE_RAW, 0x1b1, 2 },
};

static struct model {
	bool open;
	bool enabled;
	bool instructions;
	u8 kinds;
	u64 period;
	u64 count;
	bool counted;	/* up to the last exit */
} model[NR_EVENTS];

static const u8 *input, *input_end;
static struct kvm *kvm;
static struct kvm_vcpu *vcpu;
static struct task_struct *task;

/* With FUZZ_TRACE in the environment, each step is printed. */
static bool trace;

#define TRACE(...)	do { if (trace) fprintf(stderr, __VA_ARGS__); } while (0)

static u8 get(void)
{
	return input < input_end ? *input++ : 0;
}

static long call(u64 op, u64 a1)
{
	return run_hypercall(vcpu, op, a1, 0, 0);
}

static int kind_now(void)
{
	return kind_of(current->cpu);
}

static bool is_lost(int id)
{
	return mem->record[id].flags & KVM_PERF_EVENT_LOST;
}

static void enter(void)
{
	unsigned long flags;
	bool again;

	do {
		handle_requests(vcpu);
		local_irq_save(flags);
		pv_perf_enter(vcpu, PV_PERF_ENTRY_ANEW);
		again = kvm_test_request(KVM_REQ_PV_PERF, vcpu);
		local_irq_restore(flags);
	} while (again);
	atomic_xchg(&vcpu->arch.nmi_queued, 0);
	kvm_check_request(KVM_REQ_NMI, vcpu);
	CHECK(vcpu->arch.pv_perf->kind == pv_perf_kind_of_cpu(current->cpu) ||
	      list_empty(&vcpu->arch.pv_perf->events));
}

static void run(u64 n)
{
	struct model *m;
	int id;

	enter();
	for (id = 0; id < NR_EVENTS; id++) {
		m = &model[id];
		m->counted = m->enabled && !is_lost(id) && m->kinds & 1 << kind_now();
		if (m->counted)
			m->count += n;
	}
	TRACE("run %llu\n", (unsigned long long)n);
	run_guest(n);
}

static void check(int id)
{
	struct guest_perf_event *r = &mem->record[id];
	struct model *m = &model[id];
	long ret = call(KVM_PERF_OP_READ, id);

	if (m->open)
		TRACE("event %d: %ld, count %llu, model %llu, flags %x, overflows %llu\n",
		      id, ret, (unsigned long long)r->count,
		      (unsigned long long)m->count, r->flags,
		      (unsigned long long)r->overflows);
	CHECK(ret == (m->open ? 0 : -KVM_ENOENT) || (m->enabled && ret == -KVM_EBUSY));
	if (!m->open)
		return;

	CHECK(r->count == m->count);
	CHECK(r->time_running <= r->time_enabled);
	/* The overflow of the last run may not have been delivered. */
	enter();
	CHECK(!m->period || r->overflows == m->count / m->period);
	CHECK(atomic_read(&nr_backing_events) <= NR_EVENTS * NR_KINDS);
}

static void open_event(int id)
{
	unsigned int i = get() % ARRAY_SIZE(choices);
	u8 period = get();
	long ret;

	memset(&mem->attr, 0, sizeof(mem->attr));
	mem->attr.size = sizeof(mem->attr);
	mem->attr.type = choices[i].type;
	mem->attr.config = choices[i].config;
	mem->attr.sample_period = period & 1 ? MIN_PERIOD + period : 0;
	if (choices[i].config == 0x1b1)
		mem->attr.model = (pv_perf_model() & ~KVM_PERF_MODEL_KIND) |
				  kind_cores[1] << KVM_PERF_MODEL_KIND_SHIFT;
	mem->param = (struct guest_perf_event_param) {
		.attr_addr = GPA(attr), .event_addr = GPA(record[id]), .id = id,
	};
	ret = call(KVM_PERF_OP_OPEN, GPA(param));
	if (ret)
		return;

	CHECK(!model[id].open);
	model[id] = (struct model) {
		.open = true,
		.instructions = choices[i].config == 0xc0,
		.kinds = choices[i].kinds,
		.period = mem->attr.sample_period,
	};
}

static void move(int cpu)
{
	task_sched_out(current);
	current->cpu = cpu;
	task_sched_in(current);
}

/* After a move, perf may have no counter for the event. */
static bool has_error(int id)
{
	const struct pv_perf_event *event = xa_load(&kvm->arch.pv_perf->events, id);

	return event->backing->state == PERF_EVENT_STATE_ERROR;
}

/* KVM completes an instruction, perhaps after the thread has moved. */
static void retire(void)
{
	int id;

	for (id = 0; id < NR_EVENTS; id++) {
		struct model *m = &model[id];

		if (m->open && m->enabled && m->counted && m->instructions &&
		    !has_error(id))
			m->count++;
		/* One exit has one instruction. */
		m->counted = false;
	}
	pv_perf_instruction_retired(vcpu);
	irq_work_run();
}

static void new_thread(void)
{
	struct task_struct *old = current;

	if (cpus[old->cpu].taken)
		take_counters(old, 0);
	task = task_create(old->cpu);
	current = task;
	task_exit(old);
	pv_perf_vcpu_run(vcpu);
}

static void step(void)
{
	u8 what = get();
	int id = what >> 4 & 7;

	if (id >= NR_EVENTS)
		id -= NR_EVENTS;
	TRACE("step %u of event %d on kind %d\n", what & 15, id, kind_now());

	switch (what & 15) {
	case 0:
	case 1:
		open_event(id);
		break;
	case 2:
	case 3:
		if (!call(KVM_PERF_OP_ENABLE, id))
			model[id].enabled = true;
		break;
	case 4:
		if (!call(KVM_PERF_OP_DISABLE, id))
			model[id].enabled = false;
		break;
	case 5:
		if (!call(KVM_PERF_OP_CLOSE, id))
			model[id] = (struct model) { };
		break;
	case 6:
		take_counters(current, get() % (nr_counters(current->cpu) + 1));
		break;
	case 7:
		new_thread();
		break;
	case 8:
		create_error = -ENOMEM;
		break;
	case 9:
		run(1 + get() % MAX_RUN);
		move(get() % NR_CPUS);
		retire();
		break;
	case 10:
	case 11:
		move(get() % NR_CPUS);
		break;
	default:
		run(1 + get() % MAX_RUN);
	}
	/* READ, as each operation, has the events follow: mostly VM entry is to see it. */
	if (what & 128)
		check(id);
}

static void setup(void)
{
	memset(model, 0, sizeof(model));
	clock_ns = 1000;
	create_error = 0;
	task = task_create(0);
	current = task;
	pv_perf_init();
	kvm = vm_create();
	vcpu = vcpu_create(kvm, 0);
	CHECK(!pv_perf_vcpu_prepare(vcpu));
	mem = (struct layout *)kvm->memslots.slot[0].memory;
}

static void teardown(void)
{
	int i;

	for (i = 0; i < NR_CPUS; i++)
		cpus[i].taken = 0;
	create_error = 0;
	irq_work_run();
	vcpu_destroy(vcpu);
	task_put(task);
	vm_destroy(kvm);
	rcu_run();
	CHECK(!atomic_read(&nr_backing_events));
	CHECK(!atomic_read(&nr_held_events));
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	int cpu;

	trace = getenv("FUZZ_TRACE");
	rcu_by_hand = true;
	rcu_register_thread();
	for (cpu = EFFICIENCY_CPU; cpu < NR_CPUS; cpu++)
		cpu_kinds[cpu] = 1;
	cpu_has_hybrid = true;
	boot_cpu_data.x86_vendor = X86_VENDOR_INTEL;
	*param_pv_perf_max_counters = NR_COUNTERS;
	/* No limit on rates, because the fuzzer moves the clock. */
	*param_pv_perf_max_rate = INT_MAX;
	*param_pv_perf_max_open_rate = INT_MAX;
	return 0;
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	int i;

	input = data;
	input_end = data + size;
	setup();
	for (i = 0; i < MAX_STEPS && input < input_end; i++)
		step();
	for (i = 0; i < NR_EVENTS; i++)
		check(i);
	teardown();
	return 0;
}
