// SPDX-License-Identifier: GPL-2.0
/*
 * Unit tests of the host side: the limits of events and of operations.
 */
#include "unit.h"

UNIT_TEST(limit)
{
	setup();
	*param_pv_perf_max_events = 1;
	log_lines = 0;
	is("the first event", open_id(1), 0);
	is("the second event", open_id(2), 0);
	is("the third event: ENOSPC", open_id(3), -KVM_ENOSPC);
	is("another event: ENOSPC", open_id(4), -KVM_ENOSPC);
	is("the limit is logged once", log_lines, 1);
	is("the message names the limit",
	   strcmp(log_line, "kvm: pv_perf: VM of pid 1234 has reached its limit of 2 events (kvm.pv_perf_max_events per vCPU)\n"),
	   0);
	is("CLOSE makes room", (call(2, 1), open_id(3)), 0);
	*param_pv_perf_max_events = 64;
	teardown();
}

/* A vCPU has a share of the VM's limit. */
UNIT_TEST(home_limit)
{
	int n;

	setup();
	for (n = 1; !open_id(n); n++)
		;
	is("one vCPU can open its share of 64 events", n, 65);
	is("an event beyond the share: ENOSPC", open_id(n), -KVM_ENOSPC);
	is("the message names the vCPU's limit",
	   strcmp(log_line, "kvm: pv_perf: a vCPU of the VM of pid 1234 has reached its limit of 64 events (kvm.pv_perf_max_events)\n"),
	   0);
	on(1);
	is("the other vCPU has room", open_id(n), 0);
	is("ENABLE moves an event to the other vCPU",
	   call(KVM_PERF_OP_ENABLE, 1), 0);
	on(0);
	is("after the move, the first vCPU has room", open_id(n + 1), 0);
	is("ENABLE cannot move the event back: ENOSPC",
	   call(KVM_PERF_OP_ENABLE, 1), -KVM_ENOSPC);
	is("ENABLE of an event that is on this vCPU",
	   call(KVM_PERF_OP_ENABLE, 2), 0);
	replace_thread();
	pv_perf_vcpu_run(vcpus[0]);
	is("the event follows the vCPU to another thread",
	   event(2)->backing->hw.target == current, true);
	is("ENABLE of an event that is on this vCPU's previous thread",
	   call(KVM_PERF_OP_ENABLE, 3), 0);
	is("CLOSE makes room", (call(KVM_PERF_OP_CLOSE, 4),
				call(KVM_PERF_OP_ENABLE, 1)), 0);
	call(KVM_PERF_OP_RESET, 0);
	enter_guest();

	log_lines = 0;
	for (n = 1; !open_id(n); n++)
		;
	is("a vCPU's limit is logged only once", log_lines, 0);
	on(1);
	for (; !open_id(n); n++)
		;
	is("both vCPUs can open 128 events", n, 129);
	is("the VM's limit is logged", log_lines, 1);
	on(0);
	call(KVM_PERF_OP_RESET, 0);
	enter_guest();

	*param_pv_perf_max_events = 17;
	for (n = 1; !open_id(n); n++)
		;
	is("with a low limit, one vCPU may have all of the VM's events", n, 33);
	*param_pv_perf_max_events = 64;
	teardown();
}

/* The VMM sets limits for its VM. */
UNIT_TEST(caps)
{
	struct kvm_enable_cap bad = { .cap = KVM_CAP_PV_PERF_RATE };
	struct guest_perf_query *q;
	int i;

	tasks[0] = task_create(0);
	on(0);
	kvm = vm_create();
	mem = (struct layout *)kvm->memslots.slot[0].memory;
	q = &mem->query;

	is("the host's limit of events",
	   host_extension(KVM_CAP_PV_PERF_EVENTS), 64);
	is("the host's maximum rate",
	   host_extension(KVM_CAP_PV_PERF_RATE), 100000);
	is("the VM's limit of events",
	   pv_perf_check_extension(kvm, KVM_CAP_PV_PERF_EVENTS), 64);
	is("more events than the host allows", enable_cap(kvm,
		KVM_CAP_PV_PERF_EVENTS, 65), -EINVAL);
	is("far more events than the host allows",
	   enable_cap(kvm, KVM_CAP_PV_PERF_EVENTS, -1ull), -EINVAL);
	is("a higher rate than the host allows",
	   enable_cap(kvm, KVM_CAP_PV_PERF_RATE, 100001), -EINVAL);
	for (i = 1; i < 4; i++) {
		bad.args[i] = 1;
		is("an argument that must be 0",
		   pv_perf_enable_cap(kvm, &bad), -EINVAL);
		bad.args[i] = 0;
	}
	pmu_capability.num_counters_gp = 0;
	is("a host without the feature has a limit of 0 events",
	   host_extension(KVM_CAP_PV_PERF_EVENTS), 0);
	pmu_capability.num_counters_gp = NR_COUNTERS;
	*param_pv_perf_max_counters = 3;
	is("the host's limit of counters",
	   host_extension(KVM_CAP_PV_PERF_COUNTERS), 3);
	is("more counters than the host allows",
	   enable_cap(kvm, KVM_CAP_PV_PERF_COUNTERS, 4), -EINVAL);
	is("a limit of 1 counter",
	   enable_cap(kvm, KVM_CAP_PV_PERF_COUNTERS, 1), 0);
	is("KVM_CHECK_EXTENSION: 1 counter",
	   pv_perf_check_extension(kvm, KVM_CAP_PV_PERF_COUNTERS), 1);
	is("a limit of 2 events",
	   enable_cap(kvm, KVM_CAP_PV_PERF_EVENTS, 2), 0);
	is("a maximum rate of 0", enable_cap(kvm, KVM_CAP_PV_PERF_RATE, 0), 0);
	is("KVM_CHECK_EXTENSION: 2 events",
	   pv_perf_check_extension(kvm, KVM_CAP_PV_PERF_EVENTS), 2);
	is("KVM_CHECK_EXTENSION: a rate of 0",
	   pv_perf_check_extension(kvm, KVM_CAP_PV_PERF_RATE), 0);

	vcpus[0] = vcpu_create(kvm, 0);
	is("a limit after the first vCPU was created: EINVAL",
	   enable_cap(kvm, KVM_CAP_PV_PERF_EVENTS, 1), -EINVAL);
	q->size = sizeof(*q);
	call(6, GPA(query));
	is("QUERY: no sampling", q->features, KVM_PERF_FEATURE_BATCH |
	   KVM_PERF_FEATURE_NESTED | KVM_PERF_FEATURE_NOTIFY |
	   KVM_PERF_FEATURE_AREA | KVM_PERF_FEATURE_RDPMC |
	   KVM_PERF_FEATURE_COUNTS);
	is("QUERY: 2 events", q->max_events, 2);
	is("QUERY: 1 counter", q->nr_counters, 1);
	is("OPEN with a period", open_sampling(1, 1000), -KVM_EOPNOTSUPP);
	is("OPEN without a period", open_id(1), 0);
	is("OPEN of the second event", open_id(2), 0);
	is("OPEN of the third event: ENOSPC", open_id(3), -KVM_ENOSPC);
	*param_pv_perf_max_events = 1;
	is("a lower limit of the host applies, too",
	   pv_perf_check_extension(kvm, KVM_CAP_PV_PERF_EVENTS), 1);
	*param_pv_perf_max_events = 64;
	vcpu_destroy(vcpus[0]);
	vm_destroy(kvm);

	kvm = vm_create();
	is("a VMM that refuses the feature",
	   enable_cap(kvm, KVM_CAP_PV_PERF_EVENTS, 0), 0);
	vcpus[0] = vcpu_create(kvm, 0);
	is("a VM whose VMM refuses the feature: ENOSYS",
	   call(9, 0), -KVM_ENOSYS);
	vcpu_destroy(vcpus[0]);
	vm_destroy(kvm);
	task_put(tasks[0]);
	rcu_barrier();
}

static bool is_100_ms(u64 ns)
{
	return ns >= 99000000 && ns < 110000000;
}

/* A vCPU that opens too many events has to wait, but OPEN does not fail. */
UNIT_TEST(open_rate)
{
	u64 start;

	setup();
	is("at 10,000 per second, 100 events take no time", open_takes(100), 0);
	is("1,000 more events take 0.1 seconds",
	   is_100_ms(open_takes(1000)), true);
	*param_pv_perf_max_open_rate = 0;
	is("OPEN after the rate becomes 0", open_id(1), 0);
	enter_guest();
	start = clock_ns;
	is("another OPEN with a rate of 0", (call(2, 1), open_id(1)), 0);
	is("OPEN with a rate of 0 does not wait itself", clock_ns - start, 0);
	enter_guest();
	is("the vCPU enters the guest after a second",
	   clock_ns - start, NSEC_PER_SEC);
	*param_pv_perf_max_open_rate = 10000;
	teardown();
}

/* An ENABLE that moves an event creates a new backing event. */
UNIT_TEST(move_rate)
{
	u64 start;
	int i;

	setup();
	open_id(1);
	start = clock_ns;
	for (i = 0; i < 2200; i++) {
		on(1 - i % 2);
		CHECK(!call(KVM_PERF_OP_ENABLE, 1));
		enter_guest();
	}
	is("at 10,000 per second, 1,100 moves on each vCPU take 0.1 seconds",
	   is_100_ms(clock_ns - start), true);

	/* The event is on vCPU 0. */
	on(1);
	take_counters(tasks[1], NR_COUNTERS);
	start = clock_ns;
	for (i = 0; i < 1000; i++) {
		CHECK(call(KVM_PERF_OP_ENABLE, 1) == -KVM_EBUSY);
		enter_guest();
	}
	is("1,000 moves that fail take 0.1 seconds, too",
	   is_100_ms(clock_ns - start), true);
	on(0);
	start = clock_ns;
	for (i = 0; i < 2000; i++)
		CHECK(!call(KVM_PERF_OP_ENABLE, 1));
	is("ENABLEs without a move take no time", clock_ns - start, 0);
	teardown();
}

/* A change of another vCPU's event interrupts that vCPU's CPU. */
UNIT_TEST(change_rate)
{
	u64 start;
	int i;

	setup();
	open_sampling(1, 1000);
	start = clock_ns;
	for (i = 0; i < 2000; i++)
		CHECK(!call3(7, 1, 1000 + i, 0) && !call3(10, 1, 10, 0));
	is("changes of the vCPU's own event take no time", clock_ns - start, 0);
	on(1);
	for (i = 0; i < 550; i++) {
		CHECK(!call3(7, 1, 1000 + i, 0) && !call3(10, 1, 10, 0));
		enter_guest();
	}
	is("at 10,000 per second, 1,100 changes of another vCPU's event take 0.1 seconds",
	   is_100_ms(clock_ns - start), true);
	start = clock_ns;
	for (i = 0; i < 1000; i++) {
		CHECK(!call(KVM_PERF_OP_DISABLE, 1));
		enter_guest();
	}
	is("1,000 DISABLEs of another vCPU's event take 0.1 seconds",
	   is_100_ms(clock_ns - start), true);
	on(0);
	teardown();
}

/*
 * The VMM changes a vCPU's thread.  A disabled event stays with the former thread, whose
 * CPU a change of the event interrupts.
 */
UNIT_TEST(change_rate_of_former_thread)
{
	struct task_struct *former;
	u64 start;
	int i;

	setup();
	open_sampling(1, 1000);
	former = tasks[0];
	tasks[0] = task_create(0);
	on(0);
	pv_perf_vcpu_run(vcpus[0]);
	is("the disabled event is on the former thread",
	   event(1)->backing->hw.target == former, true);
	start = clock_ns;
	for (i = 0; i < 550; i++) {
		CHECK(!call3(7, 1, 1000 + i, 0) && !call3(10, 1, 10, 0));
		enter_guest();
	}
	is("1,100 changes of an event on the former thread take 0.1 seconds",
	   is_100_ms(clock_ns - start), true);
	start = clock_ns;
	for (i = 0; i < 1000; i++) {
		CHECK(!call(KVM_PERF_OP_DISABLE, 1));
		enter_guest();
	}
	is("1,000 DISABLEs of an event on the former thread take 0.1 seconds",
	   is_100_ms(clock_ns - start), true);
	is("ENABLE moves the event to the new thread", call(KVM_PERF_OP_ENABLE, 1), 0);
	enter_guest();
	start = clock_ns;
	for (i = 0; i < 1000; i++)
		CHECK(!call3(7, 1, 1000 + i, 0));
	enter_guest();
	is("changes of an event on the new thread take no time", clock_ns - start, 0);
	task_put(former);
	teardown();
}

/* The VMM interrupts a vCPU that waits. */
UNIT_TEST(wait_signal)
{
	u64 start;
	int i;

	setup();
	open_sampling(1, 1000);
	call(KVM_PERF_OP_ENABLE, 1);
	run_guest(1000);
	for (i = 0; i < KVM_PERF_BATCH_MAX; i++)
		op(i, i % 2 ? KVM_PERF_OP_CLOSE :
						   KVM_PERF_OP_OPEN,
		   i % 2 ? 2 : 0, i % 2 ? 0 : GPA(param));
	param(2, 2);
	start = clock_ns;
	for (i = 0; i < 20; i++)
		CHECK(!call3(KVM_PERF_OP_BATCH, GPA(ops), 0,
			     KVM_PERF_BATCH_MAX));
	is("640 OPENs in batches do not wait themselves", clock_ns - start, 0);
	current->signalled = true;
	is("an overflow is delivered before the wait", enter_guest(), 1);
	is("the wait ends at once if a signal is pending", clock_ns - start, 0);
	pv_perf_vcpu_leave(vcpus[0], -EINTR);
	is("the rest of the wait is still requested",
	   kvm_test_request(KVM_REQ_PV_PERF, vcpus[0]), true);
	current->signalled = false;
	enter_guest();
	is("when the vCPU runs again, it waits for the rest of 54 ms",
	   clock_ns - start > 53 * NSEC_PER_MSEC &&
	   clock_ns - start < 55 * NSEC_PER_MSEC,
	   true);
	is("the rest of the wait is requested once",
	   kvm_test_request(KVM_REQ_PV_PERF, vcpus[0]), false);
	teardown();
}
