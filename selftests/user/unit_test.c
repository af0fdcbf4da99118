// SPDX-License-Identifier: GPL-2.0
/*
 * build: -fsanitize=address,undefined -fno-sanitize-recover=undefined
 * build: -fprofile-instr-generate -fcoverage-mapping
 */
/*
 * The host side in user space: every operation and every error.  The tests are in unit_*.c,
 * by what they test.  This file has the functions that the tests share.
 *
 *	unit_test		runs all tests
 *	unit_test NAME...	runs these tests
 *	unit_test --list	prints the names
 */
#include "unit.h"

#include "kselftest.h"

struct layout *mem;
struct kvm *kvm;
struct kvm_vcpu *vcpus[2];
struct task_struct *tasks[2];

void is(const char *what, long got, long want)
{
	if (got != want)
		ksft_print_msg("%s: %ld, not %ld\n", what, got, want);
	ksft_test_result(got == want, "%s\n", what);
}

void on(int cpu)
{
	current = tasks[cpu];
}

void setup(void)
{
	int i;

	*param_pv_perf_max_counters = NR_COUNTERS;
	tasks[0] = task_create(0);
	on(0);
	kvm = vm_create();
	for (i = 0; i < 2; i++) {
		if (i)
			tasks[i] = task_create(i);
		vcpus[i] = vcpu_create(kvm, i);
		CHECK(!pv_perf_vcpu_prepare(vcpus[i]));
	}
	mem = (struct layout *)kvm->memslots.slot[0].memory;
}

/* Destroying the vCPUs closes the events that the test has left open. */
void teardown(void)
{
	int i;

	for (i = 0; i < 2; i++) {
		if (cpus[i].taken)
			take_counters(tasks[i], 0);
		on(i);
		vcpu_destroy(vcpus[i]);
		task_put(tasks[i]);
		tasks[i] = NULL;
	}
	CHECK(!atomic_read(&nr_backing_events));
	CHECK(!atomic_read(&kvm->arch.pv_perf->nr_events));
	vm_destroy(kvm);
	CHECK(!atomic_read(&nr_held_events));
	rcu_barrier();
}

struct kvm_vcpu *here(void)
{
	return vcpus[current == tasks[1]];
}

long call3(u64 op, u64 a1, u64 a2, u64 a3)
{
	return run_hypercall(here(), op, a1, a2, a3);
}

long call(u64 op, u64 a1)
{
	return call3(op, a1, 0, 0);
}

void param(u32 id, int record)
{
	memset(&mem->attr, 0, sizeof(mem->attr));
	memset(mem->after_attr, 0, sizeof(mem->after_attr));
	mem->attr.size = sizeof(mem->attr);
	mem->attr.type = KVM_PERF_TYPE_RAW;
	mem->attr.config = 0xc0;
	mem->param = (struct guest_perf_event_param){
		.attr_addr = GPA(attr), .event_addr = RECORD(record), .id = id,
	};
}

long do_open(void)
{
	return call(KVM_PERF_OP_OPEN, GPA(param));
}

/* The event's record has the index @id. */
long open_id(u32 id)
{
	param(id, id);
	return do_open();
}

long open_sampling(u32 id, u64 period)
{
	param(id, id);
	mem->attr.sample_period = period;
	return do_open();
}

struct pv_perf_event *event(u32 id)
{
	return xa_load(&kvm->arch.pv_perf->events, id);
}

/* KVM is loaded again, with the current parameters and CPU, as for the next. */
bool now_available(void)
{
	pv_perf_init();
	return pv_perf_available();
}

int host_extension(unsigned int cap)
{
	pv_perf_init();
	return pv_perf_check_extension(NULL, cap);
}

bool is_lost(u32 id)
{
	return pv_perf_why(event(id)) & PV_PERF_LOST;
}

bool is_limited(u32 id)
{
	return pv_perf_why(event(id)) & PV_PERF_LIMITED;
}

long enter_guest(void)
{
	struct kvm_vcpu *vcpu = here();

	handle_requests(vcpu);
	return atomic_xchg(&vcpu->arch.nmi_queued, 0);
}

u32 told_counters(void)
{
	mem->query.size = sizeof(mem->query);
	CHECK(!call(KVM_PERF_OP_QUERY, GPA(query)));
	return mem->query.nr_counters;
}

int enable_cap(struct kvm *vm, u32 cap, u64 limit)
{
	struct kvm_enable_cap enable = { .cap = cap, .args = { limit } };

	return pv_perf_enable_cap(vm, &enable);
}

/* Checks that a failed OPEN opens no event and writes no record. */
void open_fails(const char *what, long want)
{
	long ret;

	memset(mem->record, 0x5a, sizeof(mem->record));
	ret = do_open();
	CHECK(!event(1));
	CHECK(!atomic_read(&nr_backing_events));
	CHECK(!atomic_read(&kvm->arch.pv_perf->nr_events));
	CHECK(!memchr_inv(mem->record, 0x5a, sizeof(mem->record)));
	is(what, ret, want);
	param(1, 1);
}

/* The VMM runs vCPU 0 on another thread. */
void replace_thread(void)
{
	struct task_struct *old = tasks[0];

	tasks[0] = task_create(0);
	on(0);
	task_exit(old);
}

/* Any vCPU may run on any thread. */
long call_on(int vcpu, u64 op, u64 a1)
{
	return run_hypercall(vcpus[vcpu], op, a1, 0, 0);
}

void run_on(int vcpu, u64 n)
{
	pv_perf_vcpu_run(vcpus[vcpu]);
	run_guest(n);
}

void start_on(int vcpu, u32 id, u64 period)
{
	param(id, id);
	mem->attr.sample_period = period;
	CHECK(!call_on(vcpu, KVM_PERF_OP_OPEN, GPA(param)));
	CHECK(!call_on(vcpu, KVM_PERF_OP_ENABLE, id));
}

u64 count_on(int vcpu, u32 id)
{
	CHECK(!call_on(vcpu, KVM_PERF_OP_READ, id));
	return mem->record[id].count;
}

long set_area(gpa_t gpa)
{
	return call(KVM_PERF_OP_SET_AREA, gpa);
}

/* Enters the guest, after all requests are handled. Returns the number of NMIs. */
int enter_counting(void)
{
	unsigned long flags;
	bool again;
	int nmis;

	do {
		handle_requests(here());
		local_irq_save(flags);
		pv_perf_enter(here(), PV_PERF_ENTRY_ANEW);
		again = kvm_test_request(KVM_REQ_PV_PERF, here());
		local_irq_restore(flags);
	} while (again);
	nmis = atomic_xchg(&here()->arch.nmi_queued, 0);
	kvm_check_request(KVM_REQ_NMI, here());
	return nmis;
}

/* VM entry up to the last check for requests. */
bool entry_goes_on(void)
{
	unsigned long flags;

	local_irq_save(flags);
	pv_perf_enter(here(), PV_PERF_ENTRY_ANEW);
	local_irq_restore(flags);
	return !kvm_test_request(KVM_REQ_PV_PERF, here());
}

long open_notify(u32 id, u64 period)
{
	param(id, id);
	mem->attr.sample_period = period;
	mem->attr.flags = KVM_PERF_ATTR_NOTIFY;
	return do_open();
}

long open_raw(u32 id, u64 config)
{
	param(id, id);
	mem->attr.config = config;
	return do_open();
}

struct guest_perf_op *op(int i, u32 nr, u32 id, u64 arg)
{
	mem->ops[i] = (struct guest_perf_op){
		.op = nr, .result = 0x5a, .id = id, .arg = arg,
	};
	return &mem->ops[i];
}

/* How long it takes to open and close @n events, in ns. */
u64 open_takes(int n)
{
	u64 start = clock_ns;

	while (n--) {
		CHECK(!open_id(1) && !call(2, 1));
		enter_guest();
	}
	return clock_ns - start;
}

/* Does the VM's file in debugfs have these words? */
bool debugfs_has(const char *words)
{
	struct inode inode = { .i_private = kvm };
	struct file file = {};
	static char buf[8192];

	memset(buf, 0, sizeof(buf));
	CHECK(!kvm->debugfs_dentry->fops->open(&inode, &file));
	CHECK(kvm->debugfs_dentry->fops->read(&file, buf, sizeof(buf) - 1, NULL) > 0);
	kvm->debugfs_dentry->fops->release(&inode, &file);
	return strstr(buf, words);
}

void run_until_limited(u32 id)
{
	int i;

	for (i = 0; i < 100000 && !is_limited(id); i++) {
		run_guest(100);
		enter_guest();
	}
	is("the event is limited at last", is_limited(id), true);
	is("debugfs: a limited event", debugfs_has(" limited  "), true);
	enter_guest();
}

/*
 * After the host's handler of the NMI exit: returns whether the guest gets an
 * NMI at once.
 */
bool nmi_exit(void)
{
	unsigned long flags;
	bool nmi;

	local_irq_save(flags);
	nmi = pv_perf_deliver_at_exit(here());
	if (nmi)
		pv_perf_enter(here(), PV_PERF_ENTRY_AFTER_NMI);
	local_irq_restore(flags);
	return nmi;
}

/* The VMM changes the event filter. */
void deny(u64 eventsel)
{
	WRITE_ONCE(kvm->denied_event, eventsel);
	pv_perf_filter_changed(kvm);
}

/* The vCPUs are created after the VMM has allowed RDPMC. */
void setup_rdpmc(void)
{
	int i;

	setup();
	for (i = 0; i < 2; i++)
		vcpu_destroy(vcpus[i]);
	kvm->created_vcpus = 0;
	atomic_set(&kvm->online_vcpus, 0);
	CHECK(!enable_cap(kvm, KVM_CAP_PV_PERF_RDPMC, 1));
	for (i = 0; i < 2; i++) {
		vcpus[i] = vcpu_create(kvm, i);
		CHECK(!pv_perf_vcpu_prepare(vcpus[i]));
	}
}

void have_area(void)
{
	mem->area.size = sizeof(mem->area);
	CHECK(!set_area(GPA(area)));
}

void start_rdpmc(u32 id, u64 period)
{
	param(id, id);
	mem->attr.flags = KVM_PERF_ATTR_RDPMC;
	mem->attr.sample_period = period;
	CHECK(!do_open() && !call(KVM_PERF_OP_ENABLE, id));
}

/* The number of NMIs in the last reads(). */
int nmis;

/* Enters the guest and checks RDPMC. Returns whether RDPMC is not intercepted. */
bool reads(void)
{
	unsigned long flags;
	bool again;

	nmis = 0;
	do {
		handle_requests(here());
		local_irq_save(flags);
		pv_perf_enter(here(), PV_PERF_ENTRY_ANEW);
		again = kvm_test_request(KVM_REQ_PV_PERF, here());
		if (!again)
			check_rdpmc(here());
		local_irq_restore(flags);
	} while (again);

	/* The guest takes the NMI. */
	kvm_check_request(KVM_REQ_NMI, here());
	nmis = atomic_xchg(&here()->arch.nmi_queued, 0);
	return !here()->arch.rdpmc_intercept;
}

void run_mode(bool nested, u64 n)
{
	unsigned long flags;

	here()->arch.guest_mode = nested;
	local_irq_save(flags);
	pv_perf_enter(here(), PV_PERF_ENTRY_ANEW);
	local_irq_restore(flags);
	run_guest(n);
	here()->arch.guest_mode = false;
}

long open_mode(u32 id, u64 flags, u64 period)
{
	param(id, id);
	mem->attr.sample_period = period;
	mem->attr.flags = flags;
	return do_open() ? : call(KVM_PERF_OP_ENABLE, id);
}

/* perf throttles the next event that overflows. */
void run_throttled(u64 n)
{
	throttles = true;
	run_guest(n);
	throttles = false;
}

void throttle_late(void)
{
	disable_hook = NULL;
	throttles = true;
	count_guest(100);
	throttles = false;
}

/* The guest handles an NMI, from the injection to the IRET. */
void run_nmi(u64 n, bool injected)
{
	here()->arch.nmi_injected = injected;
	here()->arch.iret_intercept = true;
	run_mode(false, n);
	here()->arch.nmi_injected = false;
}

void end_nmi(void)
{
	unsigned long flags;

	here()->arch.iret_intercept = false;
	local_irq_save(flags);
	pv_perf_enter(here(), PV_PERF_ENTRY_AFTER_NMI);
	local_irq_restore(flags);
}

bool near(u64 got, u64 want)
{
	if (got < want * 9 / 10 || got > want * 11 / 10)
		ksft_print_msg("%llu, not %llu\n", got, want);
	return got >= want * 9 / 10 && got <= want * 11 / 10;
}

/* The tests, in the order of their files. */
static struct unit_test *tests, **next_test = &tests;

void unit_add(struct unit_test *test)
{
	*next_test = test;
	next_test = &test->next;
}

static void run(const struct unit_test *test)
{
	ksft_print_msg("%s\n", test->name);
	/* The host has run for a while. */
	clock_ns += NSEC_PER_SEC;
	test->run();
}

static const struct unit_test *find(const char *name)
{
	const struct unit_test *test;

	for (test = tests; test; test = test->next) {
		if (!strcmp(test->name, name))
			return test;
	}
	ksft_exit_fail_msg("no test %s: unit_test --list prints the names\n", name);
	return NULL;
}

int main(int argc, char **argv)
{
	const struct unit_test *test;
	int i;

	if (argc == 2 && !strcmp(argv[1], "--list")) {
		for (test = tests; test; test = test->next)
			puts(test->name);
		return 0;
	}

	rcu_register_thread();
	ksft_print_header();
	for (test = tests; test && argc < 2; test = test->next)
		run(test);
	for (i = 1; i < argc; i++)
		run(find(argv[i]));
	rcu_unregister_thread();
	ksft_set_plan(ksft_test_num());
	ksft_finished();
}
