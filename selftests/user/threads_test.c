// SPDX-License-Identifier: GPL-2.0
/*
 * READ_ONCE() and WRITE_ONCE() are volatile accesses:
 * build: -fsanitize=thread -mllvm -tsan-distinguish-volatile
 */
/*
 * The threads of 8 vCPUs make all operations on the same few events at the same time,
 * under ThreadSanitizer.  In the first half nothing resets the events: each thread's own
 * event, and the hypervisor's events in its vCPU's area, must have exact counts.  In the
 * second half RESET and others end events, so that counts are at most exact.
 *
 * Usage: threads_test [SECONDS]
 */
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "stand_in.h"

#include <asm/svm.h>

#include "kselftest.h"
#include "pv_perf.h"
#include "pv_perf_event.h"

#define NR_THREADS	8
#define NR_IDS		5
#define OWN_ID(thread)	(100 + (thread))
#define ALL_COUNTS	(BIT(KVM_PERF_NR_COUNTS) - 1)
#define ALL_EXITS	(BIT(KVM_PERF_COUNT_INJECTED_IRQS) - 1)
#define FAR		(1ull << 40)

/* Each thread has a page, after a page of records. */
struct page {
	struct guest_perf_area area;
	struct guest_perf_event_param param;
	struct guest_perf_attr attr;
	struct guest_perf_query query;
	struct guest_perf_op ops[4];
};

struct thread {
	pthread_t pthread;
	int nr;
	unsigned int seed;
	struct kvm_vcpu *vcpu;
	struct kvm_vcpu *other;
	struct page *page;
	gpa_t gpa;
	u64 ran;
	u64 done[13];	/* successful operations, by operation */
	u64 exits[KVM_PERF_COUNT_INJECTED_IRQS][2];	/* in user mode, or not */
	u64 grown[KVM_PERF_NR_COUNTS];
};

static struct kvm *kvm;
static struct thread threads[NR_THREADS];
static atomic_t stop;
static bool resets;
static pthread_barrier_t opened;

static gpa_t record_gpa(u32 id)
{
	return (id < NR_IDS ? id : id - 100 + NR_IDS) * 64ul;
}

static struct guest_perf_event *record(u32 id)
{
	return (void *)kvm->memslots.slot[0].memory + record_gpa(id);
}

static unsigned int rnd(struct thread *t, unsigned int n)
{
	return rand_r(&t->seed) % n;
}

static long call(struct thread *t, u64 op, u64 a1, u64 a2, u64 a3)
{
	long ret = run_hypercall(t->vcpu, op, a1, a2, a3);

	if (!ret)
		t->done[op]++;
	return ret;
}

static void prepare_open(struct thread *t, u32 id, u64 period)
{
	t->page->attr = (struct guest_perf_attr){
		.size = sizeof(t->page->attr), .type = KVM_PERF_TYPE_RAW,
		.config = 0xc0, .sample_period = period,
		.flags = (period > 500 ? KVM_PERF_ATTR_FREQ : 0) |
			 (id % 4 ? KVM_PERF_ATTR_RDPMC : 0) |
			 (period && id % 3 ? KVM_PERF_ATTR_BRANCHES : 0),
	};
	t->page->param = (struct guest_perf_event_param){
		.attr_addr = t->gpa + offsetof(struct page, attr),
		.event_addr = record_gpa(id), .id = id,
	};
}

static void batch(struct thread *t)
{
	u32 ops[] = { KVM_PERF_OP_CLOSE, KVM_PERF_OP_ENABLE,
		      KVM_PERF_OP_DISABLE, KVM_PERF_OP_READ,
		      KVM_PERF_OP_SET_LEFT };
	int i;

	for (i = 0; i < 4; i++)
		t->page->ops[i] = (struct guest_perf_op){
			.op = ops[rnd(t, 5)], .id = rnd(t, NR_IDS), .arg = 40,
		};
	CHECK(!call(t, KVM_PERF_OP_BATCH, t->gpa + offsetof(struct page, ops),
		    0, 4));
	for (i = 0; i < 4; i++)
		if (!t->page->ops[i].result)
			t->done[t->page->ops[i].op]++;
}

/* Reads a record as the contract describes, of any thread's event, which all may READ. */
static void read_record(struct thread *t)
{
	u32 id = OWN_ID(rnd(t, NR_THREADS));
	struct guest_perf_event *r = record(id);
	u64 enabled, running;
	u32 sequence;
	int i;

	CHECK(!call(t, KVM_PERF_OP_READ, id, 0, 0));
	for (i = 0; i < 10; i++) {
		sequence = READ_ONCE(r->sequence);
		enabled = READ_ONCE(r->time_enabled);
		running = READ_ONCE(r->time_running);
		if (!(sequence & 1) && sequence == READ_ONCE(r->sequence)) {
			CHECK(running <= enabled);
			return;
		}
	}
}

static void own_event(struct thread *t)
{
	CHECK(!call(t, KVM_PERF_OP_READ, OWN_ID(t->nr), 0, 0));
	CHECK(READ_ONCE(record(OWN_ID(t->nr))->count) == t->ran);
}

/*
 * The VMM has stopped the vCPU and runs it again, perhaps with another thread or
 * after another vCPU.
 */
static void leave_and_run(struct thread *t)
{
	struct task_struct *old = current;
	u32 epoch = READ_ONCE(t->page->area.epoch);

	pv_perf_vcpu_leave(t->vcpu, -EINTR);
	/* An even number: a saved area can be distinguished from a current one. */
	CHECK(resets || !(READ_ONCE(t->page->area.epoch) & 1));
	if (!rnd(t, 4)) {
		current = task_create(t->nr);
		task_exit(old);
	}
	if (!rnd(t, 4)) {
		pv_perf_vcpu_run(t->other);
		run_guest(rnd(t, 300));
	}
	pv_perf_vcpu_run(t->vcpu);
	CHECK(resets || READ_ONCE(t->page->area.epoch) == epoch);
}

/* SET_COUNTS tells of the remaining numbers.  Another thread's RESET may come before. */
static void set_counts(struct thread *t, u32 counts)
{
	long ret = call(t, KVM_PERF_OP_SET_COUNTS, counts, 0, 0);

	CHECK(!ret || (resets && ret == -KVM_EINVAL));
}

static void set_area(struct thread *t)
{
	WRITE_ONCE(t->page->area.size, sizeof(t->page->area));
	CHECK(!call(t, KVM_PERF_OP_SET_AREA, t->gpa, 0, 0));
	set_counts(t, ALL_COUNTS);
}

/* A slot for all exits, and a slot that overflows. */
static void begin_counting(struct thread *t)
{
	struct guest_perf_area *area = &t->page->area;

	memset(t->exits, 0, sizeof(t->exits));
	memset(t->grown, 0, sizeof(t->grown));
	memset(area, 0, sizeof(*area));
	area->slots = BIT(0) | BIT(1);
	area->slot[0] = (struct guest_perf_slot){ .counts = ALL_EXITS, .left = FAR };
	area->slot[1] = (struct guest_perf_slot){ .counts = ALL_COUNTS };
	set_area(t);
}

static void grow(struct thread *t)
{
	u64 n = rnd(t, 50);

	switch (rnd(t, 3)) {
	case 0:
		t->vcpu->stat.generic.halt_wait_ns += n;
		t->grown[KVM_PERF_COUNT_HALT_NS] += n;
		break;
	case 1:
		current->nivcsw += n;
		t->grown[KVM_PERF_COUNT_PREEMPTIONS] += n;
		break;
	default:
		current->sched_info.run_delay += n;
		t->grown[KVM_PERF_COUNT_STEAL_NS] += n;
	}
}

/* The last two exits may be the pair's or not, so that a nested guest does not make them. */
static void exit_guest(struct thread *t)
{
	static const struct {
		u32 reason;
		u32 count;
	} exits[] = {
		{ SVM_EXIT_IOIO, KVM_PERF_COUNT_EXITS_IO },
		{ SVM_EXIT_CPUID, KVM_PERF_COUNT_EXITS_CPUID },
		{ SVM_EXIT_VMMCALL, KVM_PERF_COUNT_EXITS_HYPERCALL },
		{ SVM_EXIT_NMI, KVM_PERF_COUNT_EXITS_NMI },
		{ SVM_EXIT_IRET, KVM_PERF_COUNT_EXITS_NMI },
	};
	bool nested = t->vcpu->arch.guest_mode, user = rnd(t, 2);
	int i = rnd(t, ARRAY_SIZE(exits) - 2 * nested);
	unsigned long flags;

	t->vcpu->arch.exit.reason = exits[i].reason;
	t->vcpu->arch.cpl = user ? 3 : 0;
	local_irq_save(flags);
	pv_perf_exit(t->vcpu);
	t->exits[nested ? KVM_PERF_COUNT_EXITS_NESTED : exits[i].count][user]++;
	if (rnd(t, 2))
		grow(t);
	local_irq_restore(flags);
	t->vcpu->arch.cpl = 0;
}

/* Uses a slot again that has overflowed. */
static void use_slot(struct thread *t)
{
	struct guest_perf_slot *slot = &t->page->area.slot[1];

	if ((s64)READ_ONCE(slot->left) <= 0)
		WRITE_ONCE(slot->left, 1 + rnd(t, 10));
}

static void check_count(u64 got, u64 want)
{
	CHECK(resets ? got <= want : got == want);
}

/* This test does not distinguish the pair's own exits. */
static u64 exits(const struct thread *t, int nr, int user)
{
	const struct guest_perf_area *area = &t->page->area;
	u64 n = area->count[nr][user];

	if (nr == KVM_PERF_COUNT_EXITS_NMI)
		n += area->count[KVM_PERF_COUNT_EXITS_PV_PERF][user];
	return n;
}

/* A nested guest's exits count for the mode in which the guest has entered it. */
static void check_exits(struct thread *t)
{
	u64 all = 0, user, kernel;
	int nr;

	for (nr = 0; nr < KVM_PERF_COUNT_EXITS_PV_PERF; nr++) {
		kernel = exits(t, nr, 0);
		user = exits(t, nr, 1);
		check_count(kernel + user, t->exits[nr][0] + t->exits[nr][1]);
		if (nr != KVM_PERF_COUNT_EXITS_NESTED)
			check_count(user, t->exits[nr][1]);
		all += kernel + user;
	}
	CHECK(t->page->area.slot[0].left == FAR - all);
}

static void end_counting(struct thread *t)
{
	const struct guest_perf_area *area = &t->page->area;
	int nr;

	set_counts(t, 0);
	check_exits(t);
	for (nr = KVM_PERF_COUNT_INJECTED_IRQS; nr < KVM_PERF_COUNT_HOST_NS; nr++)
		check_count(area->count[nr][0] + area->count[nr][1], t->grown[nr]);
}

static void enter_guest(struct thread *t)
{
	u64 n = rnd(t, 300);
	static const u64 branch[][2] = { { 0x1000, BIT_ULL(63) | 0x2000 } };
	unsigned long flags;
	bool nmi;

	if (!rnd(t, 8))
		leave_and_run(t);
	local_irq_save(flags);
	if (pv_perf_deliver_at_exit(t->vcpu)) {
		t->vcpu->arch.nmi_injected = true;
		t->vcpu->arch.iret_intercept = true;
		pv_perf_enter(t->vcpu, PV_PERF_ENTRY_AFTER_NMI);
		t->vcpu->arch.nmi_injected = false;
	}
	local_irq_restore(flags);
	handle_requests(t->vcpu);
	atomic_xchg(&t->vcpu->arch.nmi_queued, 0);
	WRITE_ONCE(t->vcpu->arch.nmi_from_guest, rnd(t, 2));
	/* The thread's own event is its oldest, and always finds a counter. */
	if (!rnd(t, 4))
		take_counters(current, rnd(t, NR_COUNTERS));
	if (!rnd(t, 4)) {
		task_sched_out(current);
		task_sched_in(current);
	}
	WRITE_ONCE(t->vcpu->arch.guest_mode, rnd(t, 2));
	/* The guest handles an NMI, which does not count. */
	nmi = !t->vcpu->arch.guest_mode && !rnd(t, 4);
	t->vcpu->arch.nmi_injected = nmi;
	t->vcpu->arch.iret_intercept = nmi;
	local_irq_save(flags);
	pv_perf_enter(t->vcpu, PV_PERF_ENTRY_ANEW);
	t->vcpu->arch.nmi_injected = false;
	if (!kvm_test_request(KVM_REQ_PV_PERF, t->vcpu))
		check_rdpmc(t->vcpu);
	check_branches(t->vcpu);
	run_branches(t->vcpu, branch, 1);
	pv_perf_save_branches(t->vcpu);
	local_irq_restore(flags);
	run_guest(n);
	if (!nmi)
		t->ran += n;
	exit_guest(t);
	WRITE_ONCE(t->vcpu->arch.guest_mode, false);
	use_slot(t);
}

static void debugfs(void)
{
	struct inode inode = { .i_private = kvm };
	struct dentry *dentry = kvm->debugfs_dentry;
	char buf[8192];
	struct file file;

	CHECK(!dentry->fops->open(&inode, &file));
	dentry->fops->read(&file, buf, sizeof(buf), NULL);
	dentry->fops->release(&inode, &file);
}

static void step(struct thread *t)
{
	u32 id = rnd(t, NR_IDS);

	switch (rnd(t, 16)) {
	case 0 ... 2:
		prepare_open(t, id, rnd(t, 2) ? 50 + rnd(t, 1000) : 0);
		call(t, KVM_PERF_OP_OPEN,
		     t->gpa + offsetof(struct page, param), 0, 0);
		break;
	case 3:
		call(t, KVM_PERF_OP_CLOSE, id, 0, 0);
		break;
	case 4 ... 6:
		call(t, KVM_PERF_OP_ENABLE, id, 0, 0);
		break;
	case 7:
		call(t, KVM_PERF_OP_DISABLE, id, 0, 0);
		break;
	case 8:
		call(t, KVM_PERF_OP_READ, id, 0, 0);
		if (!resets)
			read_record(t);
		break;
	case 9:
		call(t, KVM_PERF_OP_READ, KVM_PERF_ID_ALL, 0, 0);
		break;
	case 10:
		call(t, KVM_PERF_OP_SET_PERIOD, id, 50 + rnd(t, 100), 0);
		break;
	case 11:
		call(t, KVM_PERF_OP_SET_LEFT, id, rnd(t, 100), 0);
		break;
	case 12:
		batch(t);
		break;
	case 13:
		if (!rnd(t, 10))
			debugfs();
		if (!rnd(t, resets ? 2 : 10)) {
			set_counts(t, ALL_COUNTS);
			set_area(t);
		}
		if (!rnd(t, 10))
			pv_perf_filter_changed(kvm);
		/* The filter denies the event that all threads count. */
		if (resets && !rnd(t, 10))
			WRITE_ONCE(kvm->denied_event, rnd(t, 2) * 0xc0);
		if (resets && !rnd(t, 10))
			call(t, KVM_PERF_OP_RESET, 0, 0, 0);
		if (resets && !rnd(t, 10))
			pv_perf_vcpu_reset(t->vcpu);
		break;
	default:
		enter_guest(t);
		if (!resets)
			own_event(t);
	}
}

static void *run(void *arg)
{
	struct thread *t = arg;

	rcu_register_thread();
	current = task_create(t->nr);
	begin_counting(t);
	if (!resets) {
		t->ran = 0;
		prepare_open(t, OWN_ID(t->nr), 0);
		CHECK(!call(t, KVM_PERF_OP_OPEN,
			    t->gpa + offsetof(struct page, param), 0, 0));
		CHECK(!call(t, KVM_PERF_OP_ENABLE, OWN_ID(t->nr), 0, 0));
		pthread_barrier_wait(&opened);
	}
	while (!atomic_read(&stop))
		step(t);
	if (!resets)
		pthread_barrier_wait(&opened);
	end_counting(t);
	pv_perf_vcpu_reset(t->vcpu);
	irq_work_sync(&t->vcpu->arch.pv_perf->irq_work);
	task_exit(current);
	rcu_unregister_thread();
	return NULL;
}

static void run_threads(unsigned int seconds)
{
	int i;

	atomic_set(&stop, 0);
	for (i = 0; i < NR_THREADS; i++)
		pthread_create(&threads[i].pthread, NULL, run, &threads[i]);
	sleep(seconds);
	atomic_set(&stop, 1);
	for (i = 0; i < NR_THREADS; i++)
		pthread_join(threads[i].pthread, NULL);
}

static void report(void)
{
	static const char * const name[] = {
		"", "OPEN", "CLOSE", "ENABLE", "DISABLE", "READ", "QUERY",
		"SET_PERIOD", "BATCH", "RESET", "SET_LEFT",
		"SET_AREA", "SET_COUNTS",
	};
	u64 n;
	int op, i;

	for (op = 1; op < 13; op++) {
		if (op == KVM_PERF_OP_QUERY)
			continue;
		for (i = 0, n = 0; i < NR_THREADS; i++)
			n += threads[i].done[op];
		ksft_test_result(n > 10, "%s: %llu\n", name[op], n);
	}
}

int main(int argc, char *argv[])
{
	unsigned int seconds = argc > 1 ? atoi(argv[1]) : 10;
	struct thread *t;
	int i;

	rcu_register_thread();
	ksft_print_header();
	pthread_barrier_init(&opened, NULL, NR_THREADS);
	*param_pv_perf_rdpmc = 1;
	*param_pv_perf_branches = true;
	cpu_has_lbr_v2 = true;
	kvm = vm_create();
	current = task_create(0);
	CHECK(!pv_perf_enable_cap(kvm, &(struct kvm_enable_cap) {
			.cap = KVM_CAP_PV_PERF_RDPMC, .args = { 1 } }));
	task_put(current);
	for (i = 0; i < NR_THREADS; i++) {
		gpa_t gpa = i < 4 ? (1 + i) * PAGE_SIZE :
				    0x20000 + i * PAGE_SIZE;

		t = &threads[i];
		t->nr = i;
		getrandom(&t->seed, sizeof(t->seed), 0);
		t->vcpu = vcpu_create(kvm, i);
		t->other = vcpu_create(kvm, NR_THREADS + i);
		t->gpa = gpa;
		t->page = (void *)kvm->memslots.slot[i < 4 ? 0 : 2].memory +
			  (i < 4 ? gpa : gpa - 0x20000);
		ksft_print_msg("seed of thread %d: %u\n", i, t->seed);
	}

	/* No thread may have to wait because of the others. */
	*param_pv_perf_max_counters = NR_COUNTERS;
	*param_pv_perf_max_rate = INT_MAX;
	run_threads((seconds + 1) / 2);
	ksft_test_result(true, "the count of each thread's own event is exact\n");
	ksft_test_result(true, "the hypervisor's events of each vCPU are exact\n");
	*param_pv_perf_max_rate = 10000;
	resets = true;
	run_threads((seconds + 1) / 2);

	ksft_test_result(!atomic_read(&nr_backing_events), "no backing event is left\n");
	ksft_test_result(!atomic_read(&kvm->arch.pv_perf->nr_events),
			 "the VM has no event left in its count\n");
	report();

	current = task_create(0);
	for (i = 0; i < NR_THREADS; i++) {
		vcpu_destroy(threads[i].vcpu);
		vcpu_destroy(threads[i].other);
	}
	vm_destroy(kvm);
	task_put(current);
	rcu_unregister_thread();
	ksft_set_plan(ksft_test_num());
	ksft_finished();
}
