// SPDX-License-Identifier: GPL-2.0
/*
 * Unit tests of the host side: events follow their vCPU's thread and the guest's tasks.
 */
#include "unit.h"

#include <linux/hash.h>

UNIT_TEST(move)
{
	struct guest_perf_event *r;
	struct task_struct *old;

	setup();
	r = &mem->record[1];
	open_sampling(1, 1000);
	call(KVM_PERF_OP_ENABLE, 1);
	run_guest(300);
	on(1);
	create_error = -ENOMEM;
	is("ENABLE elsewhere, no memory", call(3, 1), -KVM_ENOSPC);
	take_counters(tasks[1], NR_COUNTERS);
	is("ENABLE elsewhere, no counter", call(3, 1), -KVM_EBUSY);
	take_counters(tasks[1], 0);
	on(0);
	run_guest(1);
	is("the event counts on", (call(5, 1), r->count), 301);
	on(1);
	is("ENABLE elsewhere", call(KVM_PERF_OP_ENABLE, 1), 0);
	run_guest(200);
	is("READ after ENABLE elsewhere", call(KVM_PERF_OP_READ, 1), 0);
	is("the count includes both vCPUs", r->count, 501);
	is("the times include both vCPUs",
	   r->time_enabled == 501 && r->time_running == 501, true);
	is("the period continues", r->period_left, 499);
	on(0);
	run_guest(1000);
	is("the event does not count the first vCPU any more",
	   (call(5, 1), r->count), 501);
	is("a disabled event moves, too", (call(4, 1), call(3, 1)), 0);

	/* Both orders of the two vCPUs' locks. */
	open_id(2);
	on(1);
	is("ENABLE moves an event to the other vCPU", call(3, 2), 0);
	on(0);
	is("ENABLE moves the event back", call(3, 2), 0);

	/* The vCPU gets another thread. */
	old = tasks[0];
	tasks[0] = task_create(0);
	on(0);
	task_exit(old);
	is("READ with a new thread", call(KVM_PERF_OP_READ, 1), 0);
	is("ENABLE with a new thread", call(KVM_PERF_OP_ENABLE, 1), 0);
	run_guest(5);
	is("READ", call(KVM_PERF_OP_READ, 1), 0);
	is("the event counts the new thread", r->count, 506);
	teardown();
}

UNIT_TEST(follow)
{
	struct guest_perf_event *r;

	setup();
	pv_perf_vcpu_run(vcpus[0]);
	r = &mem->record[1];
	open_sampling(1, 1000);
	open_id(2);
	call(KVM_PERF_OP_ENABLE, 1);
	run_guest(300);
	replace_thread();
	pv_perf_vcpu_run(vcpus[0]);
	is("an enabled event follows its vCPU to another thread",
	   event(1)->backing->hw.target == current, true);
	is("a disabled event does not follow",
	   event(2)->backing->hw.target == current, false);
	run_guest(5);
	is("READ", call(KVM_PERF_OP_READ, 1), 0);
	is("the count includes both threads", r->count, 305);
	is("the period continues on the new thread", r->period_left, 695);

	replace_thread();
	create_error = -ENOMEM;
	pv_perf_vcpu_run(vcpus[0]);
	is("without memory to follow, the record has the flag LOST",
	   (enter_guest(), r->flags), KVM_PERF_EVENT_LOST);
	run_guest(5);
	pv_perf_vcpu_run(vcpus[0]);
	enter_guest();
	run_guest(5);
	is("the flag LOST stays once there is memory",
	   r->flags, KVM_PERF_EVENT_LOST);
	is("READ of the lost event restarts it: EBUSY",
	   call(KVM_PERF_OP_READ, 1), -KVM_EBUSY);
	run_guest(5);
	is("the next READ succeeds", call(KVM_PERF_OP_READ, 1), 0);
	is("the event has counted since the restart only", r->count, 310);

	replace_thread();
	take_counters(tasks[0], NR_COUNTERS);
	pv_perf_vcpu_run(vcpus[0]);
	is("without a counter on the new thread, the record has the flag LOST",
	   (enter_guest(), r->flags), KVM_PERF_EVENT_LOST);
	run_guest(5);
	is("READ without a free counter",
	   call(KVM_PERF_OP_READ, 1), -KVM_EBUSY);
	take_counters(tasks[0], 0);
	is("READ with a free counter restarts the event: EBUSY",
	   call(KVM_PERF_OP_READ, 1), -KVM_EBUSY);
	run_guest(5);
	is("READ after the restart", call(KVM_PERF_OP_READ, 1), 0);
	is("the event has counted since the second restart, too",
	   r->count, 315);
	teardown();
}

/* The guest changes it before the event has followed its vCPU to the next thread. */
UNIT_TEST(period_of_ended_thread)
{
	struct guest_perf_event *r;

	setup();
	pv_perf_vcpu_run(vcpus[0]);
	r = &mem->record[1];
	open_sampling(1, 1000);
	open_sampling(2, 1000);
	CHECK(!call(KVM_PERF_OP_ENABLE, 1));
	run_guest(10);
	replace_thread();
	is("SET_PERIOD of an event whose thread has ended",
	   call3(KVM_PERF_OP_SET_PERIOD, 1, 100, 0), 0);
	is("SET_PERIOD of a disabled event whose thread has ended",
	   call3(KVM_PERF_OP_SET_PERIOD, 2, 100, 0), 0);
	pv_perf_vcpu_run(vcpus[0]);
	CHECK(!call(KVM_PERF_OP_ENABLE, 2));
	is("the new period begins on the next thread",
	   (call(KVM_PERF_OP_READ, 1), r->period_left), 100);
	run_guest(99);
	is("no overflow before its end", enter_guest(), 0);
	run_guest(1);
	is("an overflow at its end", enter_guest(), 1);
	is("both events overflow", r[0].overflows + r[1].overflows, 2);
	is("the period was the new one", r->last_period, 100);
	teardown();
}

/* One thread runs both vCPUs in turn. */
UNIT_TEST(turns)
{
	int i;

	setup();
	run_on(0, 1);
	start_on(0, 1, 1000);
	run_on(0, 300);
	run_on(1, 5);
	is("while its thread runs another vCPU, an event does not count",
	   count_on(1, 1), 300);
	is("the event's times stand still meanwhile",
	   mem->record[1].time_enabled, 300);
	for (i = 0; i < NR_COUNTERS; i++)
		start_on(1, 10 + i, 0);
	is("the other vCPU's events use all counters", NR_COUNTERS, 4);
	run_on(1, 2000);
	is("the stopped event does not overflow",
	   atomic_read(&event(1)->overflows), 0);
	for (i = 0; i < NR_COUNTERS; i++)
		CHECK(count_on(1, 10 + i) == 2000);
	run_on(0, 600);
	is("the event continues when its vCPU runs again", count_on(0, 1), 900);
	is("the event's period continues", mem->record[1].period_left, 100);
	is("the other vCPU's events do not count meanwhile",
	   count_on(0, 10), 2000);
	run_on(0, 100);
	is("the event overflows at the end of its period", enter_guest(), 1);
	run_on(1, 7);
	is("the other vCPU's events continue", count_on(1, 13), 2007);

	call_on(1, KVM_PERF_OP_DISABLE, 1);
	is("the count of an event that the other vCPU disables",
	   count_on(1, 1), 1000);
	run_on(0, 50);
	is("the disabled event does not count when its vCPU runs",
	   count_on(0, 1), 1000);
	is("ENABLE restarts the event", call_on(0, KVM_PERF_OP_ENABLE, 1), 0);
	run_on(0, 50);
	run_on(1, 50);
	is("ENABLE by the other vCPU, without a free counter",
	   call_on(1, KVM_PERF_OP_ENABLE, 1), -KVM_EBUSY);
	call_on(1, KVM_PERF_OP_CLOSE, 13);
	is("ENABLE by the other vCPU, with a free counter",
	   call_on(1, KVM_PERF_OP_ENABLE, 1), 0);
	run_on(1, 50);
	is("the event has counted the one vCPU and then the other",
	   count_on(1, 1), 1100);
	run_on(0, 50);
	call_on(0, KVM_PERF_OP_RESET, 0);
	run_on(1, 50);
	teardown();
}

/*
 * An event loses its counter before the other vCPU runs, and while the other
 * vCPU runs.
 */
UNIT_TEST(turns_lost)
{
	setup();
	start_on(0, 1, 0);
	run_on(0, 10);
	take_counters(current, NR_COUNTERS);
	run_on(1, 10);
	take_counters(current, 0);
	is("READ of an event that lost its counter before the switch",
	   call_on(1, 5, 1), -KVM_EBUSY);
	run_on(1, 10);
	is("READ does not restart the event on another vCPU",
	   mem->record[1].count, 10);
	run_on(0, 10);
	is("READ on its own vCPU restarts the event: EBUSY",
	   call_on(0, 5, 1), -KVM_EBUSY);
	run_on(0, 10);
	is("the event has counted since the restart", count_on(0, 1), 20);

	run_on(1, 10);
	take_counters(current, NR_COUNTERS);
	run_on(0, 10);
	is("READ of an event that lost its counter during the switch",
	   call_on(0, 5, 1), -KVM_EBUSY);
	take_counters(current, 0);
	teardown();
}

/* Two threads swap their vCPUs. */
UNIT_TEST(swap)
{
	int i;

	setup();
	for (i = 0; i < 2; i++) {
		on(i);
		start_on(i, i, 0);
		run_on(i, 10);
	}
	on(0);
	run_on(1, 100);
	is("the event of vCPU 1 counts vCPU 1 on the other thread",
	   count_on(1, 1), 110);
	is("the event of vCPU 0 does not count vCPU 1", count_on(1, 0), 10);
	on(1);
	run_on(0, 1000);
	is("the event of vCPU 0 counts vCPU 0 on the other thread",
	   count_on(0, 0), 1010);
	is("the event of vCPU 1 does not count vCPU 0", count_on(0, 1), 110);

	on(0);
	create_error = -ENOMEM;
	run_on(0, 5);
	is("READ of an event without memory to follow: EBUSY",
	   call_on(0, 5, 0), -KVM_EBUSY);
	is("the event without memory does not count",
	   mem->record[0].count, 1010);
	on(1);
	run_on(1, 5);
	is("READ of the event by the other vCPU: EBUSY",
	   call_on(1, 5, 0), -KVM_EBUSY);
	is("the event does not count the other vCPU",
	   mem->record[0].count, 1010);
	is("the event of vCPU 1 counts", count_on(1, 1), 115);
	on(0);
	run_on(0, 5);
	is("READ by its own vCPU restarts the event: EBUSY",
	   call_on(0, 5, 0), -KVM_EBUSY);
	run_on(0, 5);
	is("the event counts again", count_on(0, 0), 1015);
	teardown();
}

/* One thread runs vCPUs of two VMs in turn. */
UNIT_TEST(two_vms)
{
	struct kvm *first;
	struct kvm_vcpu *vcpu;
	struct layout *first_mem;

	setup();
	start_on(0, 1, 0);
	run_on(0, 10);
	first = kvm;
	first_mem = mem;
	vcpu = vcpus[0];

	kvm = vm_create();
	vcpus[0] = vcpu_create(kvm, 0);
	mem = (struct layout *)kvm->memslots.slot[0].memory;
	run_on(0, 100);
	start_on(0, 1, 0);
	run_on(0, 100);
	is("an event of the second VM counts its own vCPU",
	   count_on(0, 1), 100);
	vcpu_destroy(vcpus[0]);
	vm_destroy(kvm);

	vm_use(first);
	kvm = first;
	mem = first_mem;
	vcpus[0] = vcpu;
	is("the event of the first VM does not count the second VM",
	   count_on(1, 1), 10);
	run_on(0, 10);
	is("the event of the first VM continues", count_on(0, 1), 20);
	teardown();
}

/* A limited event does not restart while its thread runs another vCPU. */
UNIT_TEST(turns_throttled)
{
	setup();
	*param_pv_perf_max_rate = 1000;
	start_on(0, 1, 10);
	run_on(0, 1000);
	enter_guest();
	is("an event that overflows too often is limited", is_limited(1), true);
	run_on(1, 2 * NSEC_PER_SEC);
	is("a limited event does not count while another vCPU runs",
	   count_on(1, 1), 1000);
	pv_perf_vcpu_run(vcpus[0]);
	enter_guest();
	is("the event is not limited when its own vCPU runs again",
	   is_limited(1), false);
	run_on(0, 5);
	is("the event counts again", count_on(0, 1), 1005);

	/* A limited event follows its vCPU to another thread. */
	run_on(0, 1000);
	enter_guest();
	is("the event is limited again", is_limited(1), true);
	replace_thread();
	create_error = -ENOMEM;
	run_on(0, 2 * NSEC_PER_SEC);
	enter_guest();
	is("without memory to follow, the event stays limited",
	   is_limited(1), true);
	pv_perf_vcpu_run(vcpus[0]);
	enter_guest();
	is("the event follows on the next run", is_limited(1), false);
	is("the record has the flag LOST",
	   mem->record[1].flags, KVM_PERF_EVENT_LOST);
	*param_pv_perf_max_rate = 100000;
	teardown();
}

/* The VMM stops vCPU 0, perhaps to save the guest's memory. */
UNIT_TEST(pause)
{
	static const u32 completed[] = {
		KVM_EXIT_IO, KVM_EXIT_MMIO, KVM_EXIT_HYPERCALL, KVM_EXIT_XEN,
		KVM_EXIT_X86_RDMSR, KVM_EXIT_X86_WRMSR,
	};
	struct guest_perf_event *r;
	unsigned int i;

	setup();
	pv_perf_vcpu_leave(vcpus[0], -EINTR);
	r = &mem->record[1];
	open_sampling(1, 1000);
	open_id(2);
	call(KVM_PERF_OP_ENABLE, 1);
	run_guest(300);
	memset(&mem->record[2], 0xa5, sizeof(*r));
	pv_perf_vcpu_leave(vcpus[0], -EINTR);
	is("the record of a stopped vCPU's event has the count", r->count, 300);
	is("the record has the rest of the period", r->period_left, 700);
	is("the record of a disabled event is not written",
	   mem->record[2].count == 0xa5a5a5a5a5a5a5a5, true);
	run_guest(800);
	is("an overflow is not in the record yet", r->overflows, 0);
	pv_perf_vcpu_leave(vcpus[0], -EINTR);
	is("the record of the stopped vCPU's event has the overflow",
	   r->overflows, 1);
	is("the record has the count, too", r->count, 1100);

	run_guest(10);
	for (i = 0; i < ARRAY_SIZE(completed); i++) {
		vcpus[0]->run->exit_reason = completed[i];
		pv_perf_vcpu_leave(vcpus[0], 0);
		is("an exit that the VMM must complete writes no record",
		   r->count, 1100);
	}
	vcpus[0]->run->exit_reason = KVM_EXIT_HLT;
	pv_perf_vcpu_leave(vcpus[0], 0);
	is("a halt that the VMM handles writes the record", r->count, 1110);
	run_guest(10);
	pv_perf_vcpu_leave(vcpus[0], -EFAULT);
	is("an error writes the record", r->count, 1120);
	teardown();
}

/* An event moves from a vCPU that runs on, without a READ. */
UNIT_TEST(move_sampling)
{
	u64 period;

	setup();
	open_sampling(1, 1000);
	call(KVM_PERF_OP_ENABLE, 1);
	run_guest(300);
	on(1);
	CHECK(!call(KVM_PERF_OP_ENABLE, 1));
	run_guest(699);
	is("no overflow at 999 events of both vCPUs", enter_guest(), 0);
	run_guest(1);
	is("an overflow at 1000 events of both vCPUs", enter_guest(), 1);

	param(2, 2);
	mem->attr.flags = KVM_PERF_ATTR_FREQ;
	mem->attr.sample_period = 1000;
	do_open();
	call(KVM_PERF_OP_ENABLE, 2);
	run_guest(128);
	run_guest(128);
	enter_guest();
	period = event(2)->backing->hw.sample_period;
	is("the period of an event with a frequency is adapted",
	   period > 1000, true);
	run_guest(100);
	on(0);
	CHECK(!call(KVM_PERF_OP_ENABLE, 2));
	run_guest(27);
	is("after the move, the old period is not over yet", enter_guest(), 0);
	run_guest(1);
	enter_guest();
	is("after the move, the event overflows at the end of the old period",
	   mem->record[2].last_period, 128);
	run_guest(period - 1);
	is("the adapted period is not over yet", enter_guest(), 0);
	run_guest(1);
	enter_guest();
	is("the next overflow is at the end of the adapted period",
	   mem->record[2].last_period, period);
	teardown();
}

UNIT_TEST(vcpus)
{
	setup();
	open_id(1);
	open_id(2);
	on(1);
	open_id(3);
	call(3, 2);
	on(0);
	pv_perf_vcpu_reset(vcpus[0]);
	is("reset closes the vCPU's events", call(5, 1), -KVM_ENOENT);
	is("reset does not close an event that has moved", call(5, 2), 0);
	is("reset does not close another vCPU's event", call(5, 3), 0);
	is("reset makes the event's id free", open_id(1), 0);
	teardown();

	tasks[0] = task_create(0);
	on(0);
	alloc_faults = (struct faults){ .fail_at = 1 };
	is("a VM cannot be created without memory", !vm_create(), true);
	alloc_faults.fail_at = 0;
	kvm = vm_create();
	vcpus[0] = vcpu_create(kvm, 0);
	pv_perf_vcpu_run(vcpus[0]);
	pv_perf_filter_changed(kvm);
	enter_guest();
	pv_perf_vcpu_leave(vcpus[0], 0);
	pv_perf_vcpu_reset(vcpus[0]);
	is("a vCPU that never asks costs no memory", !vcpus[0]->arch.pv_perf,
	   true);
	alloc_faults = (struct faults){ .fail_at = 1 };
	is("the first operation without memory", call(KVM_PERF_OP_READ, 1),
	   -KVM_ENOSPC);
	alloc_faults.fail_at = 0;
	is("the first operation with memory",
	   call(KVM_PERF_OP_READ, 1), -KVM_ENOENT);
	vcpu_destroy(vcpus[0]);
	vm_destroy(kvm);
	task_put(tasks[0]);
}

/* Of more threads than there are hashes, two have the same. */
UNIT_TEST(thread_hash)
{
	struct task_struct *task[1025], *with[1024] = { }, *other;
	unsigned long hash;
	int n = 0;

	setup();
	for (;;) {
		CHECK(n < ARRAY_SIZE(task));
		task[n] = task_create(1);
		hash = hash_long((unsigned long)task[n], 10);
		other = with[hash];
		if (other)
			break;
		with[hash] = task[n++];
	}
	current = other;
	start_on(0, 1, 0);
	current = task[n];
	run_on(1, 10);
	current = other;
	run_on(0, 5);
	is("a thread with another thread's hash does not stop that thread's vCPU",
	   count_on(0, 1), 5);
	on(0);
	do
		task_put(task[n]);
	while (n--);
	teardown();
}
