// SPDX-License-Identifier: GPL-2.0
/*
 * The life cycle of events: a guest whose events and vCPUs end, a vCPU that gets
 * another thread, a thread that gets another vCPU, a killed VMM.
 * The test needs no guest kernel, so that a VM lives for milliseconds.
 *
 * Usage: life_test			records of closed events, threads, pauses,
 *					signals, waits
 *	  life_test kill N [SEED]	kills N VMMs, each at a random moment
 *	  life_test spin SECONDS	2 vCPUs count and sample for so long after
 *					both have started; prints whether their
 *					counts ever went back
 *	  life_test hold N		a vCPU that opens N events, prints "held"
 *					and keeps them until it is killed
 *	  life_test reopen N		a vCPU that opens and closes an event N
 *					times
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kselftest.h"
#include "apic.h"
#include "guest_perf.h"

#define PATTERN		0xa5

/* Some thousand overflows per second. */
#define PERIOD		20000

static struct kvm_vcpu *vcpus[GUEST_PERF_VCPUS];
static struct guest_perf_shared *area;

static uint64_t seen(const uint64_t *p)
{
	return __atomic_load_n(p, __ATOMIC_SEQ_CST);
}

static void set(uint64_t *p, uint64_t value)
{
	__atomic_store_n(p, value, __ATOMIC_SEQ_CST);
}

/*
 * The guest
 */

static void guest_start(int vcpu, uint32_t id, uint64_t period)
{
	GUEST_ASSERT_EQ(guest_perf_open(vcpu, id, period), 0);
	GUEST_ASSERT_EQ(guest_perf_op(KVM_PERF_OP_ENABLE, id, 0), 0);
}

static void guest_fill(uint32_t id)
{
	uint8_t *p = (uint8_t *)&guest_area->record[id];
	unsigned int i;

	/* The NMI handler must no longer change the record. */
	guest_perf_forget(id);
	for (i = 0; i < sizeof(struct guest_perf_event); i++)
		p[i] = PATTERN;
}

static bool guest_is_filled(uint32_t id)
{
	const uint8_t *p = (const uint8_t *)&guest_area->record[id];
	unsigned int i;

	for (i = 0; i < sizeof(struct guest_perf_event); i++) {
		if (p[i] != PATTERN)
			return false;
	}
	return true;
}

static void guest_await_overflows(uint32_t id, unsigned int n)
{
	uint64_t until = seen(&guest_area->overflows[id]) + n;

	while (seen(&guest_area->overflows[id]) < until)
		guest_perf_burn(1000);
}

static void guest_await(const uint64_t *p, uint64_t value)
{
	while (seen(p) != value)
		guest_perf_burn(1000);
}

/* Fills the records of closed events, and checks that they stay unchanged. */
static void guest_check_untouched(uint32_t busy, uint32_t first, int n)
{
	int i;

	for (i = 0; i < n; i++)
		guest_fill(first + i);
	guest_await_overflows(busy, 20);
	for (i = 0; i < n; i++)
		GUEST_ASSERT_1(guest_is_filled(first + i), first + i);
}

/* vCPU 0 tells this vCPU to sample, and ends its events in one way or another. */
static void guest_records_other(int vcpu)
{
	guest_await(&guest_area->phase, vcpu);
	guest_start(vcpu, 10 * vcpu, PERIOD);
	guest_start(vcpu, 10 * vcpu + 1, PERIOD / 2);
	set(&guest_area->reached[vcpu], 1);
	if (vcpu == 3) {
		guest_await_overflows(10 * vcpu, 3);
		GUEST_SYNC(0);
	}
	for (;;)
		guest_perf_burn(1000);
}

/* Lets another vCPU sample. */
static void guest_let(int vcpu)
{
	set(&guest_area->phase, vcpu);
	guest_await(&guest_area->reached[vcpu], 1);
}

static void guest_await_closed(uint32_t id)
{
	while (guest_perf_op(KVM_PERF_OP_READ, id, 0) != -KVM_ENOENT)
		guest_perf_burn(1000);
}

static void guest_records_main(void)
{
	int i;

	guest_start(0, 0, PERIOD);
	for (i = 0; i < 10; i++) {
		guest_start(0, 1, PERIOD / 2);
		guest_await_overflows(1, 3);
		GUEST_ASSERT_EQ(guest_perf_op(KVM_PERF_OP_CLOSE, 1, 0), 0);
		guest_check_untouched(0, 1, 1);
	}
	GUEST_SYNC((uint64_t)"after CLOSE no byte of a record is written");

	guest_let(1);
	guest_await_overflows(10, 3);
	GUEST_ASSERT_EQ(guest_perf_op(KVM_PERF_OP_RESET, 0, 0), 0);
	guest_fill(0);
	guest_start(0, 2, PERIOD);
	guest_check_untouched(2, 10, 2);
	GUEST_ASSERT(guest_is_filled(0));
	GUEST_SYNC((uint64_t)"after RESET no byte of a record is written");

	guest_let(2);
	guest_await_overflows(20, 3);
	x2apic_write_reg(APIC_ICR, 2ull << 32 | APIC_DEST_PHYSICAL |
			 APIC_INT_ASSERT | APIC_DM_INIT);
	guest_await_closed(20);
	guest_await_closed(21);
	guest_check_untouched(2, 20, 2);
	GUEST_SYNC((uint64_t)"after INIT no byte of a record is written");

	guest_let(3);
	guest_await_closed(30);
	guest_await_closed(31);
	guest_check_untouched(2, 30, 2);
	GUEST_SYNC((uint64_t)"after a reset by the VMM no byte of a record is written");
	GUEST_DONE();
}

static void guest_records(int vcpu)
{
	x2apic_enable();
	if (vcpu)
		guest_records_other(vcpu);
	else
		guest_records_main();
}

#define BURN		1000000
#define ROUNDS		20

static uint64_t guest_count(uint32_t id)
{
	GUEST_ASSERT_EQ(guest_perf_op(KVM_PERF_OP_READ, id, 0), 0);
	return guest_area->record[id].count;
}

/* At each GUEST_SYNC the VMM continues the vCPU with another thread. */
static void guest_threads(int vcpu)
{
	uint64_t before, after, overflows;
	int i;

	guest_start(vcpu, 0, 0);
	for (i = 0; i < ROUNDS; i++) {
		before = guest_count(0);
		GUEST_SYNC(i);
		guest_perf_burn(BURN);
		after = guest_count(0);
		/* The count includes the instructions of GUEST_SYNC(). */
		GUEST_ASSERT_2(after - before >= 2 * BURN &&
			       after - before < 2 * BURN + 2000, i,
			       after - before);
	}

	guest_start(vcpu, 1, PERIOD);
	for (i = 0; i < ROUNDS; i++) {
		guest_perf_burn(BURN);
		GUEST_SYNC(i);
	}
	guest_perf_burn(BURN);
	GUEST_ASSERT_EQ(guest_perf_op(KVM_PERF_OP_DISABLE, 1, 0), 0);
	guest_perf_burn(1000);
	overflows = seen(&guest_area->overflows[1]);
	GUEST_ASSERT_2(overflows == guest_area->record[1].count / PERIOD,
		       overflows, guest_area->record[1].count);
	GUEST_DONE();
}

/*
 * Two vCPUs with different loops use all counters in turn, and each must count its
 * own loop.  At each GUEST_SYNC the VMM runs the other vCPU.
 */
static void guest_turns(int vcpu)
{
	uint32_t first = 16 * vcpu, id;
	uint64_t before, after, n = (vcpu + 1) * BURN, overflows;
	int i;

	for (id = first; ; id++) {
		GUEST_ASSERT_EQ(guest_perf_open(vcpu, id, 0), 0);
		if (guest_perf_op(KVM_PERF_OP_ENABLE, id, 0))
			break;
	}
	set(&guest_area->reached[vcpu], id - first);
	for (i = 0; i < ROUNDS; i++) {
		before = guest_count(first);
		GUEST_SYNC(i);
		guest_perf_burn(n);
		GUEST_SYNC(i);
		after = guest_count(first);
		GUEST_ASSERT_2(after - before >= 2 * n &&
			       after - before < 2 * n + 2000, n, after - before);
	}
	do
		GUEST_ASSERT_EQ(guest_perf_op(KVM_PERF_OP_CLOSE, id, 0), 0);
	while (id-- > first);

	guest_start(vcpu, first, PERIOD);
	for (i = 0; i < ROUNDS; i++) {
		guest_perf_burn(n);
		GUEST_SYNC(i);
	}
	GUEST_ASSERT_EQ(guest_perf_op(KVM_PERF_OP_DISABLE, first, 0), 0);
	guest_perf_burn(1000);
	overflows = seen(&guest_area->overflows[first]);
	GUEST_ASSERT_2(overflows == guest_area->record[first].count / PERIOD,
		       overflows, guest_area->record[first].count);
	GUEST_DONE();
}

/* Counts, and makes no hypercall. */
static void guest_paused(int vcpu)
{
	guest_start(vcpu, 0, 0);
	for (;;) {
		guest_perf_burn(BURN / 1000);
		set(&guest_area->reached[0], guest_area->reached[0] + 1);
	}
}

/* The guest's event overflows; see test_leave(). */
static void guest_sample(int vcpu)
{
	guest_start(vcpu, 0, PERIOD);
	for (;;)
		guest_perf_burn(1000);
}

#define OPENS		(KVM_PERF_BATCH_MAX / 2)

/* Opens and closes events as often as the host lets it. */
static void guest_open_many(int vcpu)
{
	struct guest_perf_op *ops = guest_area->vcpu[vcpu].ops;
	int i;

	for (;;) {
		GUEST_ASSERT_EQ(guest_perf_open(vcpu, 0, 0), 0);
		GUEST_ASSERT_EQ(guest_perf_op(KVM_PERF_OP_CLOSE, 0, 0), 0);
		for (i = 0; i < KVM_PERF_BATCH_MAX; i += 2) {
			ops[i] = (struct guest_perf_op) {
				.op = KVM_PERF_OP_OPEN,
				.arg = guest_perf_gpa(&guest_area->vcpu[vcpu].param),
			};
			ops[i + 1] = (struct guest_perf_op) {
				.op = KVM_PERF_OP_CLOSE,
			};
		}
		GUEST_ASSERT_EQ(guest_perf_addr_op(KVM_PERF_OP_BATCH, ops,
						   KVM_PERF_BATCH_MAX), 0);
		GUEST_ASSERT_EQ(ops[KVM_PERF_BATCH_MAX - 2].result, 0);
		set(&guest_area->reached[0],
		    guest_area->reached[0] + OPENS + 1);
	}
}

static void guest_reset(void)
{
	GUEST_SYNC(0);
}

/* Makes all operations, in random order. */
static void guest_busy(int vcpu)
{
	uint64_t random = rdtsc() | 1;
	struct guest_perf_op *ops = guest_area->vcpu[vcpu].ops;
	uint32_t id;

	for (;;) {
		random = random * 6364136223846793005ull + 1442695040888963407ull;
		/* Mostly events of this vCPU, sometimes of the other. */
		id = (random >> 60) + (random >> 40 & 7 ? 16 * vcpu : 0);
		switch (random >> 50 & 15) {
		case 0 ... 3:
			guest_perf_open(vcpu, id,
					random >> 32 & 1 ? PERIOD / 4 : 0);
			break;
		case 4 ... 8:
			guest_perf_op(KVM_PERF_OP_ENABLE, id, 0);
			break;
		case 9:
			guest_perf_op(KVM_PERF_OP_DISABLE, id, 0);
			break;
		case 10:
			guest_perf_op(KVM_PERF_OP_READ, id, 0);
			break;
		case 11:
			guest_perf_op(KVM_PERF_OP_SET_LEFT, id, PERIOD);
			break;
		case 12:
			ops[0] = (struct guest_perf_op) {
				.op = KVM_PERF_OP_DISABLE, .id = id };
			ops[1] = (struct guest_perf_op) {
				.op = KVM_PERF_OP_CLOSE, .id = id };
			guest_perf_addr_op(KVM_PERF_OP_BATCH, ops, 2);
			break;
		case 13:
			guest_perf_op(KVM_PERF_OP_CLOSE, id, 0);
			break;
		case 14:
			if (!(random >> 35 & 15))
				guest_perf_op(KVM_PERF_OP_RESET, 0, 0);
			break;
		default:
			guest_perf_burn(random >> 45 & 0x3fff);
			break;
		}
		set(&guest_area->reached[vcpu],
		    guest_area->reached[vcpu] + 1);
	}
}

/* The event counts all instructions, whatever the host does to its CPUs. */
static void guest_spin(int vcpu)
{
	uint64_t before, after;

	guest_start(vcpu, vcpu, 0);
	guest_start(vcpu, 8 + vcpu, PERIOD);
	before = guest_count(vcpu);
	while (!seen(&guest_area->phase)) {
		guest_perf_burn(100000);
		after = guest_count(vcpu);
		GUEST_ASSERT_2(after >= before + 200000, before, after);
		before = after;
	}
	GUEST_DONE();
}

/*
 * The VMM
 */

/* KVM notices a reset by real mode. */
static void reset_vcpu(struct kvm_vcpu *vcpu)
{
	struct kvm_sregs sregs;

	vcpu_sregs_get(vcpu, &sregs);
	sregs.cr0 = 0x60000010;
	sregs.cr3 = 0;
	sregs.cr4 = 0;
	sregs.efer = 0;
	sregs.cs.l = 0;
	vcpu_sregs_set(vcpu, &sregs);
}

static void create(int nr_vcpus, void *guest_code)
{
	guest_perf_vm_create(nr_vcpus, guest_code, vcpus, &area);
}

static void start_thread(pthread_t *thread, void *(*function)(void *),
			 void *arg)
{
	if (pthread_create(thread, NULL, function, arg))
		ksft_exit_fail_msg("no thread\n");
}

static void *run_record_vcpu(void *arg)
{
	struct kvm_vcpu *vcpu = arg;
	struct ucall uc;

	/* Only the last thread returns from the guest. */
	guest_perf_run(vcpu, &uc);
	reset_vcpu(vcpu);
	return NULL;
}

static void test_records(void)
{
	pthread_t thread;
	struct ucall uc;
	int i;

	create(4, guest_records);
	for (i = 1; i < 4; i++)
		start_thread(&thread, run_record_vcpu, vcpus[i]);
	while (guest_perf_run(vcpus[0], &uc) != UCALL_DONE)
		ksft_test_result_pass("%s\n", (char *)uc.args[1]);
}

/* Has the calling thread run on @cpu, modulo the number of CPUs. */
static void run_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu % get_nprocs(), &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void *run_once(void *arg)
{
	static int n;
	struct ucall uc;

	run_on(n++);
	return (void *)guest_perf_run(vcpus[0], &uc);
}

static void test_threads(void)
{
	pthread_t thread;
	void *cmd;
	int n = 0;

	create(1, guest_threads);
	do {
		start_thread(&thread, run_once, NULL);
		pthread_join(thread, &cmd);
		n++;
	} while ((uint64_t)cmd != UCALL_DONE);
	ksft_test_result(n == 2 * ROUNDS + 1,
			 "%d threads run a vCPU in turn: nothing is lost\n", n);
}

/* One thread runs two vCPUs in turn. */
static void take_turns(struct kvm_vcpu *a, struct kvm_vcpu *b)
{
	struct kvm_vcpu *pair[] = { a, b };
	bool done[2] = { };
	struct ucall uc;
	int i;

	for (i = 0; !done[0] || !done[1]; i ^= 1) {
		if (!done[i])
			done[i] = guest_perf_run(pair[i], &uc) == UCALL_DONE;
	}
}

static void test_turns(void)
{
	create(2, guest_turns);
	take_turns(vcpus[0], vcpus[1]);
	ksft_print_msg("%lu and %lu counters\n", area->reached[0],
		       area->reached[1]);
	ksft_test_result(area->reached[0] &&
			 area->reached[0] == area->reached[1],
			 "a thread runs two vCPUs in turn: each counts itself\n");
}

static void test_two_vms(void)
{
	struct guest_perf_shared *first;
	struct kvm_vcpu *vcpu;

	create(1, guest_turns);
	first = area;
	vcpu = vcpus[0];
	create(1, guest_turns);
	take_turns(vcpu, vcpus[0]);
	ksft_test_result(first->reached[0] &&
			 first->reached[0] == area->reached[0],
			 "a thread runs two VMs in turn: each counts itself\n");
}

static pthread_barrier_t turn;

/* Each time runs the vCPU that the other thread has run before. */
static void *swap_vcpus(void *arg)
{
	static bool done[2];
	int nr = (long)arg, i;
	struct ucall uc;

	for (i = nr; ; i ^= 1) {
		/* The threads run at once, or one after the other. */
		if (nr && rdtsc() & 1)
			usleep(20000);
		if (!done[i])
			done[i] = guest_perf_run(vcpus[i], &uc) == UCALL_DONE;
		pthread_barrier_wait(&turn);
		if (done[0] && done[1])
			return NULL;
		pthread_barrier_wait(&turn);
	}
}

static void test_swap(void)
{
	pthread_t thread;

	create(2, guest_turns);
	pthread_barrier_init(&turn, NULL, 2);
	start_thread(&thread, swap_vcpus, (void *)1);
	swap_vcpus((void *)0);
	pthread_join(thread, NULL);
	ksft_test_result(area->reached[0] &&
			 area->reached[0] == area->reached[1],
			 "two threads swap vCPUs: each counts itself\n");
}

static void ignore(int signal)
{
}

/* When the VMM has stopped a vCPU, the record has the vCPU's whole count. */
static void test_pause(void)
{
	struct itimerval timer = { .it_value.tv_usec = 50000 };
	uint64_t executed, count, told = 0;
	int i, wrong = 0;

	create(1, guest_paused);
	signal(SIGALRM, ignore);
	for (i = 0; i < 10; i++) {
		setitimer(ITIMER_REAL, &timer, NULL);
		if (!__vcpu_run(vcpus[0]) || errno != EINTR)
			ksft_exit_fail_msg("no signal: %s\n", strerror(errno));
		executed = area->reached[0] * 2 * BURN / 1000;
		count = area->record[0].count;
		/* The vCPU may not have run after the stop before. */
		if (count < executed || count > executed * 1.01 + 3000 ||
		    count < told) {
			ksft_print_msg("executed %lu, told of %lu, before of %lu\n",
				       executed, count, told);
			wrong++;
		}
		told = count;
	}
	ksft_print_msg("executed %lu, told of %lu\n", executed, told);
	ksft_test_result(executed && !wrong,
			 "a vCPU that is stopped has its count in the record\n");
}

#define HALTS		20

/* Halts, and makes no hypercall. */
static void guest_halt(int vcpu)
{
	guest_start(vcpu, 0, 0);
	for (;;) {
		guest_perf_burn(BURN / 1000);
		set(&guest_area->reached[0], guest_area->reached[0] + 1);
		__asm__ volatile("hlt");
	}
}

/*
 * A VMM with an interrupt controller of its own gets the vCPU at each HLT, not
 * by a signal, and may save it then.
 */
static void test_halt(void)
{
	uint64_t executed, count;
	struct kvm_vcpu *vcpu;
	int i, wrong = 0;

	guest_perf_without_irqchip = true;
	create(1, guest_halt);
	guest_perf_without_irqchip = false;
	vcpu = vcpus[0];
	for (i = 1; i <= HALTS; i++) {
		if (__vcpu_run(vcpu) || vcpu->run->exit_reason != KVM_EXIT_HLT)
			ksft_exit_fail_msg("no halt: exit %s\n",
				exit_reason_str(vcpu->run->exit_reason));
		executed = area->reached[0] * 2 * BURN / 1000;
		count = area->record[0].count;
		wrong += count < executed || count > executed * 1.1 + 3000;
	}
	ksft_print_msg("executed %lu, told of %lu\n", executed, count);
	ksft_test_result(area->reached[0] == HALTS && !wrong,
			 "a vCPU that the VMM halts has its count in the record\n");
}

static uint64_t now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000ull + ts.tv_nsec / 1000;
}

static void *interrupt(void *vcpu_thread)
{
	for (;;) {
		usleep(100 + random() % 400);
		pthread_kill(*(pthread_t *)vcpu_thread, SIGALRM);
	}
	return NULL;
}

/* Drops the NMI, as a reset does; returns whether there was an NMI. */
static bool drop_nmi(void)
{
	struct kvm_vcpu_events events;

	vcpu_events_get(vcpus[0], &events);
	if (!events.nmi.injected)
		return false;

	events.nmi.injected = 0;
	events.nmi.pending = 0;
	events.nmi.masked = 0;
	vcpu_events_set(vcpus[0], &events);
	return true;
}

/* Runs other code, as after a reset; returns true if an NMI still comes. */
static bool nmi_after_reset(void)
{
	uint64_t before = seen(&area->overflows[0]);
	struct kvm_regs regs, reset;
	struct ucall uc;

	vcpu_regs_get(vcpus[0], &regs);
	reset = regs;
	reset.rip = (uint64_t)guest_reset;
	reset.rsp = ((regs.rsp - 256) & ~15ull) - 8;
	vcpu_regs_set(vcpus[0], &reset);
	guest_perf_run(vcpus[0], &uc);
	vcpu_regs_set(vcpus[0], &regs);
	return seen(&area->overflows[0]) != before;
}

#define NMI_TAKEN_BACK	"an NMI that the VMM takes back does not come"

/* When KVM leaves the guest, it must not keep an NMI that it has injected. */
static void leave_with_nmi(void)
{
	pthread_t self = pthread_self(), thread;
	uint64_t end = now_us() + 120000000;
	int left = 0, dropped = 0, wrong = 0;
	cpu_set_t all;

	create(1, guest_sample);
	signal(SIGALRM, ignore);
	sched_getaffinity(0, sizeof(all), &all);
	/* A thread starts on its creator's CPU. */
	run_on(1);
	start_thread(&thread, interrupt, &self);
	run_on(0);
	while (dropped < 50 && now_us() < end) {
		if (!__vcpu_run(vcpus[0]) || errno != EINTR)
			ksft_exit_fail_msg("no signal: %s\n", strerror(errno));
		left++;
		if (!drop_nmi())
			continue;
		dropped++;
		wrong += nmi_after_reset();
	}
	pthread_cancel(thread);
	pthread_join(thread, NULL);
	sched_setaffinity(0, sizeof(all), &all);
	ksft_print_msg("left the guest %d times, %d with an NMI injected, which came %d times\n",
		       left, dropped, wrong);
	ksft_test_result(dropped >= 10 && !wrong,
			 NMI_TAKEN_BACK "\n");
}

/*
 * If the fast path of VMX has injected the NMI, with interrupts off, only another CPU can
 * make the vCPU leave before the entry that delivers the NMI.
 */
static void test_leave(void)
{
	if (get_nprocs() == 1 && !access("/sys/module/kvm_intel", F_OK))
		ksft_test_result_skip(NMI_TAKEN_BACK ": takes two CPUs\n");
	else
		leave_with_nmi();
}

/* Sets a parameter of the module kvm; returns the old value. */
static unsigned int set_parameter(const char *name, unsigned int value)
{
	char path[100];
	unsigned int old = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/module/kvm/parameters/%s", name);
	f = fopen(path, "r+");
	if (!f || fscanf(f, "%u", &old) != 1)
		ksft_exit_fail_msg("%s: %s\n", path, strerror(errno));
	rewind(f);
	fprintf(f, "%u", value);
	fclose(f);
	return old;
}

static uint64_t stop_running, left_guest;

/* Runs the vCPU until stop_running is set, in spite of signals. */
static void *run_interrupted(void *arg)
{
	while (!seen(&stop_running)) {
		if (__vcpu_run(arg) && errno != EINTR)
			ksft_exit_fail_msg("no signal: %s\n", strerror(errno));
		set(&left_guest, left_guest + 1);
	}
	return NULL;
}

/* Changes the memory slots; returns the time in us. */
static uint64_t change_slots(struct kvm_vm *vm, int i)
{
	uint64_t began = now_us();

	vm_mem_region_set_flags(vm, 10, i % 2 ? 0 : KVM_MEM_LOG_DIRTY_PAGES);
	return now_us() - began;
}

/* Makes the vCPU leave the guest; returns the time in us. */
static uint64_t get_vcpu_back(pthread_t thread)
{
	uint64_t began = now_us(), before = seen(&left_guest);

	pthread_kill(thread, SIGALRM);
	while (seen(&left_guest) == before)
		usleep(100);
	return now_us() - began;
}

#define OPEN_RATE	40
#define WAITS		20
/* After so many us a caller has waited for the vCPU, or for others on a busy machine. */
#define WAITED		250000

/*
 * A vCPU that opens events too often has to wait for 825 ms after each batch.  No
 * other operation may wait for the vCPU: it would wait each time.
 */
static void test_wait(void)
{
	unsigned int rate = set_parameter("pv_perf_max_open_rate", OPEN_RATE);
	unsigned int slots = 0, back = 0, i;
	uint64_t began, opened;
	struct kvm_vm *vm;
	pthread_t thread;

	create(1, guest_open_many);
	vm = vcpus[0]->vm;
	vm_userspace_mem_region_add(vm, VM_MEM_SRC_ANONYMOUS, 1 << 30, 10, 1, 0);
	signal(SIGALRM, ignore);
	began = now_us();
	start_thread(&thread, run_interrupted, vcpus[0]);
	for (i = 0; i < WAITS; i++) {
		usleep(50000 + random() % 50000);
		slots += change_slots(vm, i) >= WAITED;
	}
	for (i = 0; i < WAITS; i++) {
		usleep(50000 + random() % 50000);
		back += get_vcpu_back(thread) >= WAITED;
	}
	opened = seen(&area->reached[0]);
	began = now_us() - began;
	set(&stop_running, 1);
	get_vcpu_back(thread);
	pthread_join(thread, NULL);
	set_parameter("pv_perf_max_open_rate", rate);

	ksft_print_msg("opened %lu in %lu ms; of %d times the memory slots took 250 ms to change %u times, the vCPU to come back %u\n",
		       opened, began / 1000, WAITS, slots, back);
	/* At most a batch more than the rate allows in this time. */
	ksft_test_result(opened > OPENS && opened * 1000000 / OPEN_RATE <=
			 began + (OPENS + 3) * 1000000 / OPEN_RATE,
			 "a vCPU opens no more events than it may, signals or not\n");
	ksft_test_result(slots <= WAITS / 2,
			 "a change of the memory slots does not wait for a vCPU that waits\n");
	ksft_test_result(back <= WAITS / 2,
			 "a VMM that wants a waiting vCPU back does not wait\n");
}

static void *run_for_ever(void *arg)
{
	struct ucall uc;

	while (guest_perf_run(arg, &uc) != UCALL_DONE)
		;
	return NULL;
}

/* Does not return. */
static void live(uint64_t *reached)
{
	pthread_t thread;

	create(2, guest_busy);
	start_thread(&thread, run_for_ever, vcpus[0]);
	start_thread(&thread, run_for_ever, vcpus[1]);
	for (;;) {
		*reached = seen(&area->reached[0]) + seen(&area->reached[1]);
		usleep(1000);
	}
}

/* Kills a VMM; returns how many rounds its guest has made. */
static uint64_t kill_one(uint64_t *reached, uint64_t after_us)
{
	pid_t pid;

	*reached = 0;
	pid = fork();
	if (!pid)
		live(reached);
	if (after_us)
		usleep(after_us);
	else
		while (seen(reached) < 100)
			usleep(1000);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return *reached;
}

static void kill_many(int n, unsigned int seed)
{
	uint64_t *reached = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t began = now_us(), life;
	int i, running = 0;

	kill_one(reached, 0);
	life = now_us() - began;
	srandom(seed);
	for (i = 0; i < n; i++)
		running += kill_one(reached, random() % (2 * life) + 1) > 0;
	printf("seed %u: %d VMMs killed in %lu ms, within %lu us of their start, %d of them while the guest ran\n",
	       seed, n, (now_us() - began) / 1000, 2 * life, running);
}

static void spin(int seconds)
{
	pthread_t threads[2];
	int i;

	create(2, guest_spin);
	for (i = 0; i < 2; i++)
		start_thread(&threads[i], run_for_ever, vcpus[i]);
	while (!seen(&area->overflows[8]) || !seen(&area->overflows[9]))
		usleep(1000);
	sleep(seconds);
	set(&area->phase, 1);
	for (i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	for (i = 0; i < 2; i++)
		printf("vCPU %d counted %llu, overflows %lu of %llu\n", i,
		       area->record[i].count, area->overflows[8 + i],
		       area->record[8 + i].count / PERIOD);
}

static void guest_hold(int vcpu)
{
	uint32_t id;

	for (id = 0; id < seen(&guest_area->phase); id++)
		GUEST_ASSERT_EQ(guest_perf_open(vcpu, id, 0), 0);
	GUEST_DONE();
}

static void hold(int n)
{
	create(1, guest_hold);
	set(&area->phase, n);
	run_for_ever(vcpus[0]);
	puts("held");
	pause();
}

static void guest_reopen(int vcpu)
{
	uint64_t n;

	for (n = seen(&guest_area->phase); n; n--) {
		GUEST_ASSERT_EQ(guest_perf_open(vcpu, 0, 0), 0);
		GUEST_ASSERT_EQ(guest_perf_op(KVM_PERF_OP_CLOSE, 0, 0), 0);
	}
	GUEST_DONE();
}

static void reopen(int n)
{
	create(1, guest_reopen);
	set(&area->phase, n);
	run_for_ever(vcpus[0]);
}

static void guest_ask(void)
{
	GUEST_SYNC(-guest_perf_op(KVM_PERF_OP_RESET, 0, 0));
	GUEST_DONE();
}

/*
 * Prints what a guest has if its VMM passes on KVM_GET_SUPPORTED_CPUID.  With @ask the VMM
 * asks for the feature, and sets its bit.
 */
static void tell_offer(bool ask)
{
	struct kvm_vm *vm = vm_create(1);
	struct kvm_cpuid_entry2 *entry;
	struct kvm_vcpu *vcpu;
	struct ucall uc;
	int ret = 0;

	if (ask)
		ret = __vm_enable_cap(vm, KVM_CAP_PV_PERF_EVENTS, 8);
	vcpu = vm_vcpu_add(vm, 0, guest_ask);
	entry = vcpu_get_cpuid_entry(vcpu, 0x40000001);
	printf("%s: CPUID %u", ask ? "asked" : "unasked",
	       entry->eax >> KVM_FEATURE_PV_PERF & 1);
	if (ask) {
		entry->eax |= 1u << KVM_FEATURE_PV_PERF;
		vcpu_set_cpuid(vcpu);
	}
	guest_perf_run(vcpu, &uc);
	printf(", KVM_ENABLE_CAP %d, KVM_PERF_OP -%lu\n", ret, uc.args[1]);
	kvm_vm_free(vm);
}

int main(int argc, char **argv)
{
	setbuf(stdout, NULL);
	if (argc > 1 && !strcmp(argv[1], "offer")) {
		tell_offer(false);
		tell_offer(true);
		return 0;
	}
	if (argc > 2 && !strcmp(argv[1], "kill")) {
		kill_many(atoi(argv[2]), argc > 3 ? atoi(argv[3]) : time(NULL));
		return 0;
	}
	if (argc > 2 && !strcmp(argv[1], "spin")) {
		spin(atoi(argv[2]));
		return 0;
	}
	if (argc > 2 && !strcmp(argv[1], "hold")) {
		hold(atoi(argv[2]));
		return 0;
	}
	if (argc > 2 && !strcmp(argv[1], "reopen")) {
		reopen(atoi(argv[2]));
		return 0;
	}

	ksft_print_header();
	ksft_set_plan(14);
	test_records();
	test_threads();
	test_turns();
	test_two_vms();
	test_swap();
	test_pause();
	test_halt();
	test_leave();
	test_wait();
	ksft_finished();
}
