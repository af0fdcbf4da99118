// SPDX-License-Identifier: GPL-2.0
/*
 * Unit tests of the host side: failures of each allocation and of each access to guest
 * memory, debugfs and tracepoints.
 */
#include "unit.h"

UNIT_TEST(debugfs)
{
	static char buf[8192];
	struct task_struct *old;
	struct inode inode;
	struct file file;
	u32 id;

	setup();
	inode.i_private = kvm;
	for (id = 1; id <= 5; id++)
		open_id(id);
	event(5)->attr.exclude_user = 1;
	event(4)->attr.exclude_kernel = 1;
	for (id = 1; id <= 4; id++)
		call(3, id);
	run_guest(100);
	is("debugfs: open", kvm->debugfs_dentry->fops->open(&inode, &file), 0);
	is("debugfs: read",
	   kvm->debugfs_dentry->fops->read(&file, buf, sizeof(buf), NULL) > 0,
	   true);
	is("debugfs has the VM's limits",
	   !!strstr(buf,
		"events 5 of 128\noverflows 0 of 100000 per second and vCPU, limited 0\n"),
	   true);
	is("debugfs: an active event",
	   !!strstr(buf, "uk    0 active                      100"), true);
	is("debugfs: a disabled event of the kernel",
	   !!strstr(buf, "-k    0 off                           0"), true);
	is("debugfs: an active event of user mode",
	   !!strstr(buf, "u-    0 active"), true);
	take_counters(tasks[0], NR_COUNTERS);
	kvm->debugfs_dentry->fops->read(&file, buf, sizeof(buf), NULL);
	is("debugfs: an event without a counter",
	   !!strstr(buf, "uk    0 no-counter                  100"), true);
	/* The loss is in the record: debugfs still shows no-counter, not off. */
	call(5, KVM_PERF_ID_ALL);
	memset(buf, 0, sizeof(buf));
	kvm->debugfs_dentry->fops->read(&file, buf, sizeof(buf), NULL);
	is("debugfs: an event without a counter after READ",
	   !!strstr(buf, "uk    0 no-counter                  100"), true);
	take_counters(tasks[0], 0);
	call(5, KVM_PERF_ID_ALL);
	task_sched_out(tasks[0]);
	kvm->debugfs_dentry->fops->read(&file, buf, sizeof(buf), NULL);
	is("debugfs: an event whose thread does not run",
	   !!strstr(buf, "uk    0 inactive "), true);
	task_sched_in(tasks[0]);
	pv_perf_vcpu_run(vcpus[1]);
	kvm->debugfs_dentry->fops->read(&file, buf, sizeof(buf), NULL);
	is("debugfs: an event whose thread runs another vCPU",
	   !!strstr(buf, "uk    0 inactive "), true);
	old = tasks[0];
	tasks[0] = task_create(0);
	on(0);
	task_exit(old);
	kvm->debugfs_dentry->fops->read(&file, buf, sizeof(buf), NULL);
	is("debugfs: an event whose thread has exited",
	   !!strstr(buf, "uk    0 no-thread "), true);
	/* A vCPU waits for the page of a record. */
	mutex_lock(&vcpus[0]->arch.pv_perf->lock);
	on(1);
	current->signalled = true;
	is("a signal ends a reader's wait for the vCPU's lock",
	   kvm->debugfs_dentry->fops->read(&file, buf, sizeof(buf), NULL),
	   -EINTR);
	current->signalled = false;
	on(0);
	mutex_unlock(&vcpus[0]->arch.pv_perf->lock);
	is("the interrupted reader holds no event",
	   refcount_read(&event(1)->refs), 1);
	is("the open file holds the VM", refcount_read(&kvm->users_count), 2);
	kvm->debugfs_dentry->fops->release(&inode, &file);
	is("the closed file does not hold the VM",
	   refcount_read(&kvm->users_count), 1);
	alloc_faults = (struct faults){ .fail_at = 1 };
	is("debugfs: open without memory",
	   kvm->debugfs_dentry->fops->open(&inode, &file), -ENOMEM);
	alloc_faults.fail_at = 0;
	is("the failed open does not hold the VM",
	   refcount_read(&kvm->users_count), 1);
	refcount_set(&kvm->users_count, 0);
	is("debugfs: open while the VM ends",
	   kvm->debugfs_dentry->fops->open(&inode, &file), -ENOENT);
	refcount_set(&kvm->users_count, 1);
	teardown();
}

UNIT_TEST(trace)
{
	setup();
	trace_on = true;
	call(5, 0x77);
	is("kvm_pv_perf_op",
	   strcmp(trace_line, "kvm_pv_perf_op: vcpu 0 READ 0x77 0x0 ret -2"), 0);
	trace_on = false;
	teardown();
}

/* Each allocation and each access to guest memory fails in turn. */
static long op_open(void)
{
	/* The xarray grows for this id. */
	param(1 << 20, 9);
	mem->attr.sample_period = 1000;
	return do_open();
}

static long op_close(void)
{
	return call(KVM_PERF_OP_CLOSE, 1);
}

static long op_enable(void)
{
	return call(KVM_PERF_OP_ENABLE, 3);
}

static long op_move(void)
{
	long ret;

	on(1);
	ret = call(KVM_PERF_OP_ENABLE, 1);
	on(0);
	return ret;
}

static long op_disable(void)
{
	return call(KVM_PERF_OP_DISABLE, 1);
}

static long op_read(void)
{
	return call(KVM_PERF_OP_READ, 1);
}

static long op_read_all(void)
{
	return call(KVM_PERF_OP_READ, KVM_PERF_ID_ALL);
}

static long op_query(void)
{
	mem->query.size = sizeof(mem->query);
	return call(KVM_PERF_OP_QUERY, GPA(query));
}

static long op_period(void)
{
	return call3(KVM_PERF_OP_SET_PERIOD, 1, 100, 0);
}

static long op_left(void)
{
	return call3(KVM_PERF_OP_SET_LEFT, 1, 300, 0);
}

static long op_batch(void)
{
	op(0, KVM_PERF_OP_READ, 1, 0);
	return call3(KVM_PERF_OP_BATCH, GPA(ops), 0, 1) ? :
	       mem->ops[0].result;
}

static long op_reset(void)
{
	return call(KVM_PERF_OP_RESET, 0);
}

static long op_deliver(void)
{
	run_guest(1000);
	return enter_guest() ? 0 : -KVM_EFAULT;
}

static const struct {
	const char *name;
	long (*run)(void);
	long alloc_error;	/* 0: the operation allocates nothing */
	int accesses;		/* to guest memory */
} ops[] = {
	/* param, size, attr; the record: address, write. */
	{ "OPEN", op_open, -KVM_ENOSPC, 5 },
	{ "CLOSE", op_close, 0, 0 },
	{ "ENABLE", op_enable, 0, 0 },
	{ "ENABLE elsewhere", op_move, -KVM_ENOSPC, 0 },
	/* The record: address, twice the sequence, six fields. */
	{ "DISABLE", op_disable, 0, 9 },
	{ "READ", op_read, 0, 9 },
	{ "READ all", op_read_all, 0, 18 },
	{ "QUERY", op_query, 0, 2 },
	{ "SET_PERIOD", op_period, 0, 0 },
	{ "SET_LEFT", op_left, 0, 9 },
	{ "BATCH of READ", op_batch, 0, 12 },
	{ "RESET", op_reset, 0, 0 },
	{ "delivery", op_deliver, 0, 10 },
};

static void setup_faults(void)
{
	setup();
	CHECK(!open_sampling(1, 1000));
	CHECK(!open_id(2));
	CHECK(!open_id(3));
	CHECK(!call(3, 1));
	CHECK(!call(3, 2));
	run_guest(10);
	/* A READ would be tried twice. */
	here()->guest_debug = 1;
}

/*
 * Runs operation @i. The @n-th of @faults fails. Returns false if there are
 * fewer than @n.
 */
static bool run_fault(int i, struct faults *faults, int n, long want)
{
	int backing;
	u32 count;
	long ret;

	setup_faults();
	backing = atomic_read(&nr_backing_events);
	*faults = (struct faults){ .fail_at = n };
	ret = ops[i].run();
	faults->fail_at = 0;
	if (faults->seen < n) {
		CHECK(!ret);
		teardown();
		return false;
	}
	CHECK(ret == want);
	CHECK(atomic_read(&nr_backing_events) == backing);
	CHECK(atomic_read(&kvm->arch.pv_perf->nr_events) == 3);

	/* The events are unchanged, and the operation succeeds now. */
	count = mem->record[2].count;
	CHECK(ops[i].run == op_query || ops[i].run == op_read_all ||
	      count == 0);
	CHECK(!ops[i].run());
	call(KVM_PERF_OP_READ, 2);
	if (ops[i].run == op_deliver) {
		CHECK(mem->record[2].count == 2010);
		CHECK(mem->record[1].overflows == 1);
	} else {
		CHECK(mem->record[2].count == 10);
	}
	CHECK(!(mem->record[2].sequence & 1));
	call(KVM_PERF_OP_READ, 1);
	CHECK(!(mem->record[1].sequence & 1));
	teardown();
	return true;
}

UNIT_TEST(faults)
{
	char what[64];
	size_t i;
	int n;

	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		for (n = 1; run_fault(i, &alloc_faults, n, ops[i].alloc_error);)
			n++;
		snprintf(what, sizeof(what), "%s without memory", ops[i].name);
		is(what, n > 1, ops[i].alloc_error != 0);
		for (n = 1; run_fault(i, &guest_faults, n, -KVM_EFAULT);)
			n++;
		snprintf(what, sizeof(what), "%s without guest memory",
			 ops[i].name);
		is(what, n - 1, ops[i].accesses);
	}
}

/* The BATCH is run although its results cannot be written. */
UNIT_TEST(batch_lost)
{
	setup();
	open_id(1);
	op(0, KVM_PERF_OP_CLOSE, 1, 0);
	guest_faults = (struct faults){ .fail_at = 3 };
	is("BATCH whose results cannot be written",
	   call3(8, GPA(ops), 0, 1), -KVM_EFAULT);
	guest_faults.fail_at = 0;
	is("the BATCH was run", call(2, 1), -KVM_ENOENT);
	teardown();
}
