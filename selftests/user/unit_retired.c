// SPDX-License-Identifier: GPL-2.0
/*
 * Unit tests of the host side: instructions that KVM emulates.
 */
#include "unit.h"

/* KVM completes @n instructions of the guest at @cpl. */
static void retire(unsigned int n, int cpl)
{
	here()->arch.cpl = cpl;
	while (n--)
		pv_perf_instruction_retired(here());
	here()->arch.cpl = 0;
	irq_work_run();
}

/* The emulator executes an instruction, which may change the CPL. */
static void emulate(bool branch, int length, int cpl, int new_cpl)
{
	here()->arch.cpl = cpl;
	pv_perf_emulates(here());
	here()->arch.cpl = new_cpl;
	pv_perf_emulated(here(), branch, kvm_rip_read(here()) + length);
	here()->arch.cpl = 0;
}

static u64 counted(u32 id)
{
	call(KVM_PERF_OP_READ, id);
	return mem->record[id].count;
}

static long open_config(u32 id, u32 type, u64 config, u64 flags)
{
	param(id, id);
	mem->attr.type = type;
	mem->attr.config = config;
	mem->attr.flags = flags;
	return do_open() ? : call(KVM_PERF_OP_ENABLE, id);
}

/*
 * Which events count the instructions that KVM completes, and which
 * instructions.
 */
UNIT_TEST(retired_by)
{
	setup();
	is("without an event, KVM does not report instructions",
	   here()->arch.pv_perf_retires, 0);
	CHECK(!open_config(1, KVM_PERF_TYPE_HARDWARE,
			   PERF_COUNT_HW_CPU_CYCLES, 0));
	is("with cycles only, KVM does not report instructions",
	   here()->arch.pv_perf_retires, 0);
	CHECK(!open_config(2, KVM_PERF_TYPE_HARDWARE,
			   PERF_COUNT_HW_BRANCH_INSTRUCTIONS, 0));
	is("with an event of branches, KVM reports branches",
	   here()->arch.pv_perf_retires, PV_PERF_BRANCH);
	CHECK(!open_config(3, KVM_PERF_TYPE_HARDWARE,
			   PERF_COUNT_HW_INSTRUCTIONS, 0));
	is("with an event of instructions, KVM reports instructions, too",
	   here()->arch.pv_perf_retires, PV_PERF_BRANCH | PV_PERF_INSTRUCTION);
	CHECK(!open_config(4, KVM_PERF_TYPE_RAW, 0xc0, 0));
	is("the tests' hypercalls are not counted", counted(3) + counted(4), 0);
	retire(3, 0);
	emulate(true, 2, 0, 0);
	pv_perf_vmentry_retired(here(), PV_PERF_BRANCH);
	pv_perf_vmentry_retired(here(), PV_PERF_INSTRUCTION);
	is("cycles do not count completed instructions", counted(1), 0);
	is("branches count completed branches", counted(2), 2);
	is("instructions count completed instructions", counted(3), 5);
	is("a raw event of instructions counts completed instructions",
	   counted(4), 5);

	emulate(false, 0, 0, 0);
	is("a string instruction that is not finished does not count",
	   counted(3), 5);
	emulate(false, 2, 0, 0);
	is("a finished string instruction counts", counted(3), 6);
	emulate(true, 0, 0, 0);
	is("a branch to itself counts as instruction", counted(3), 7);
	is("a branch to itself counts as branch", counted(2), 3);

	call(KVM_PERF_OP_DISABLE, 3);
	retire(1, 0);
	is("a disabled event does not count", counted(3), 7);
	is("the other event counts", counted(4), 8);
	take_counters(tasks[0], NR_COUNTERS);
	retire(1, 0);
	take_counters(tasks[0], 0);
	call(KVM_PERF_OP_READ, 4);
	is("an event that has lost its counter does not count", counted(4), 8);

	call(KVM_PERF_OP_RESET, 0);
	run_mode(false, 1);
	is("after RESET, KVM does not report instructions",
	   here()->arch.pv_perf_retires, 0);

	/* Raw events with other bits count something else. */
	CHECK(!open_config(1, KVM_PERF_TYPE_RAW, 0x010000c0, 0));
	CHECK(!open_config(2, KVM_PERF_TYPE_RAW, 0x000400c0, 0));
	CHECK(!open_config(3, KVM_PERF_TYPE_RAW, 0x000001c4, 0));
	is("with a threshold, an edge or a unit mask, KVM does not report instructions",
	   here()->arch.pv_perf_retires, 0);
	teardown();
}

UNIT_TEST(retired_cpl)
{
	setup();
	CHECK(!open_mode(1, KVM_PERF_ATTR_EXCLUDE_KERNEL, 0));
	CHECK(!open_mode(2, KVM_PERF_ATTR_EXCLUDE_USER, 0));
	CHECK(!open_mode(3, KVM_PERF_ATTR_EXCLUDE_USER |
			    KVM_PERF_ATTR_EXCLUDE_KERNEL, 0));
	retire(2, 0);
	retire(30, 3);
	retire(400, 1);
	is("an event of user mode counts instructions of CPL 1 and 3",
	   counted(1), 430);
	is("an event of the kernel counts instructions of CPL 0",
	   counted(2), 2);
	emulate(true, 2, 3, 0);
	is("an event of user mode counts a SYSCALL", counted(1), 431);
	is("an event of the kernel does not count a SYSCALL", counted(2), 2);
	emulate(true, 2, 0, 3);
	is("an event of the kernel counts a SYSRET", counted(2), 3);
	is("an event of neither mode counts nothing", counted(3), 0);
	teardown();
}

/* The mode of an instruction is the vCPU's mode at the exit. */
UNIT_TEST(retired_mode)
{
	setup();
	CHECK(!open_mode(1, KVM_PERF_ATTR_EXCLUDE_GUEST, 0));
	CHECK(!open_mode(2, KVM_PERF_ATTR_EXCLUDE_HOST, 0));
	CHECK(!open_mode(3, 0, 0));
	run_mode(false, 10);
	retire(1, 0);
	here()->arch.guest_mode = true;
	/* The instruction that has entered the nested guest. */
	retire(1, 0);
	run_mode(true, 200);
	retire(5, 0);
	is("EXCLUDE_GUEST counts the guest's instructions", counted(1), 12);
	is("EXCLUDE_HOST counts the nested guest's instructions",
	   counted(2), 205);
	is("an event without these flags counts both", counted(3), 217);

	/* While the guest handles an NMI, its kernel is not counted. */
	run_nmi(100, true);
	retire(7, 0);
	is("an event does not count an NMI handler's instructions",
	   counted(3), 217);
	end_nmi();
	retire(1, 0);
	is("an event counts the instructions after the handler",
	   counted(3), 218);
	teardown();
}

static void retire_to_overflow(bool rdpmc)
{
	struct guest_perf_event *r;
	unsigned int written;

	setup_rdpmc();
	r = mem->record;
	if (rdpmc)
		start_rdpmc(1, 100);
	else
		CHECK(!open_mode(1, 0, 100));
	run_guest(97);
	written = written_counters;
	retire(2, 0);
	is("no overflow before the end of the period", enter_guest(), 0);
	is("the count before the end of the period", counted(1), 99);
	is("the rest before the end of the period", r[1].period_left, 1);
	is("perf has not written the counter", written_counters, written);
	retire(1, 0);
	is("an NMI at the end of the period", enter_guest(), 1);
	is("the record has one overflow", r[1].overflows, 1);
	is("the record has the last period", r[1].last_period, 100);
	is("the record has the rest of the next period", r[1].period_left, 100);
	is("the record has the count", r[1].count, 100);
	retire(99, 0);
	is("no overflow before the end of the next period", enter_guest(), 0);
	run_guest(1);
	is("the guest's own instruction ends the next period",
	   enter_guest(), 1);
	is("the count after two periods", r[1].count, 200);
	retire(250, 0);
	is("one NMI for two overflows", enter_guest(), 1);
	is("the record has both overflows", r[1].overflows, 4);
	is("the record has the rest after both overflows",
	   r[1].period_left, 50);

	call3(KVM_PERF_OP_SET_LEFT, 1, 3, 0);
	retire(2, 0);
	is("after SET_LEFT 3, no overflow at 2", enter_guest(), 0);
	retire(1, 0);
	is("after SET_LEFT 3, an overflow at 3", enter_guest(), 1);
	call3(KVM_PERF_OP_SET_PERIOD, 1, 7, 0);
	retire(6, 0);
	is("after SET_PERIOD 7, no overflow at 6", enter_guest(), 0);
	retire(1, 0);
	is("after SET_PERIOD 7, an overflow at 7", enter_guest(), 1);
	is("after SET_PERIOD 7, the last period is 7", r[1].last_period, 7);

	/* After a HLT, the vCPU does not enter the guest until it is woken. */
	CHECK(!atomic_read(&here()->arch.nmi_queued));
	retire(7, 0);
	is("an overflow queues an NMI, which wakes the vCPU",
	   atomic_xchg(&here()->arch.nmi_queued, 0), 1);
	enter_guest();
	irq_work_late = true;
	pv_perf_vmentry_retired(here(), PV_PERF_INSTRUCTION);
	retire(6, 0);
	irq_work_late = false;
	is("the delivery comes before a late irq_work", enter_guest(), 1);
	irq_work_run();
	is("the late irq_work causes no NMI", enter_guest(), 0);

	throttle(event(1)->backing);
	retire(7, 0);
	is("a throttled event does not overflow", enter_guest(), 0);
	teardown();
}

UNIT_TEST(retired_period)
{
	*param_pv_perf_rdpmc = 1;
	retire_to_overflow(false);
	retire_to_overflow(true);
	*param_pv_perf_rdpmc = 0;
}

UNIT_TEST(retired_late)
{
	struct perf_event *backing;

	/* The counter has overflowed, and perf's NMI has not come yet. */
	setup();
	CHECK(!open_mode(1, 0, 100));
	backing = event(1)->backing;
	run_guest(99);
	backing->hw.counter++;
	retire(1, 0);
	is("the counter is not written", backing->hw.counter, 100);
	is("the instruction causes no overflow",
	   atomic_read(&event(1)->overflows), 0);
	is("the event counts the instruction", counted(1), 101);
	teardown();

	/* perf throttles the event while its PMU is disabled. */
	setup();
	CHECK(!open_mode(1, 0, 100));
	run_guest(99);
	disable_hook = throttle_late;
	retire(1, 0);
	disable_hook = NULL;
	is("the event has only the NMI's overflow",
	   atomic_read(&event(1)->overflows), 1);
	is("the event stays throttled", event(1)->backing->hw.state != 0, true);
	teardown();
}

UNIT_TEST(retired_frequency)
{
	u64 n;

	setup();
	param(1, 1);
	mem->attr.flags = KVM_PERF_ATTR_FREQ;
	mem->attr.sample_period = 50000;
	CHECK(!do_open() && !call(KVM_PERF_OP_ENABLE, 1));
	/*
	 * KVM completes one instruction per 10 ns. The guest executes no other
	 * instruction.
	 */
	for (n = 0; n < 100000; n++) {
		__sync_fetch_and_add(&clock_ns, 10);
		retire(1, 0);
		if (n % 400 == 0)
			run_mode(false, 0);
		enter_guest();
	}
	is("completed instructions adapt the period to the frequency",
	   near(event(1)->backing->hw.sample_period, 2000), true);
	teardown();
}

/* RDPMC includes the instructions that KVM completes, with the same pmc. */
UNIT_TEST(retired_rdpmc)
{
	u32 before;

	*param_pv_perf_rdpmc = 1;
	setup_rdpmc();
	start_rdpmc(1, 0);
	start_rdpmc(2, 1000);
	CHECK(reads());
	run_guest(300);
	before = mem->record[1].pmc;
	retire(5, 0);
	is("RDPMC after completed instructions", reads(), true);
	is("completed instructions do not change pmc",
	   mem->record[1].pmc, before);
	is("the count includes completed instructions", counted(1), 305);
	before = mem->record[2].pmc;
	retire(695, 0);
	is("RDPMC after an overflow by completed instructions", reads(), true);
	is("the overflow changes the event's pmc",
	   mem->record[2].pmc != before, true);
	is("the count of the other event continues", counted(1), 1000);
	teardown();
	*param_pv_perf_rdpmc = 0;
}

/* Without full-width writes and without counters, perf sets the position. */
UNIT_TEST(retired_unwritable)
{
	setup();
	pv_perf_host.writable = false;
	CHECK(!open_mode(1, 0, 100));
	CHECK(!open_mode(2, 0, 0));
	run_guest(90);
	retire(9, 0);
	is("no overflow before the end of the period", enter_guest(), 0);
	retire(1, 0);
	is("an overflow at the end of the period", enter_guest(), 1);
	is("the count of the sampling event", counted(1), 100);
	is("the count of the other event", counted(2), 100);
	teardown();

	pmu_capability.bit_width_gp = 40;
	setup();
	is("counters of another width are not writable",
	   pv_perf_host.writable, false);
	teardown();
	pmu_capability.bit_width_gp = 48;
	setup();
	is("counters of 48 bits are writable",
	   pv_perf_host.writable, true);
	teardown();
}
