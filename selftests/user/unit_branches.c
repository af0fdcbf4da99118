// SPDX-License-Identifier: GPL-2.0
/*
 * Unit tests of the host side: branch stacks.
 */
#include "unit.h"

/* The records' format in the MSRs. */
#define LBR_MISPREDICT	BIT_ULL(63)	/* of From */
#define LBR_VALID	BIT_ULL(63)	/* of To, as the others */
#define LBR_SPEC	BIT_ULL(62)
#define LBR_RESERVED	BIT_ULL(61)

static void setup_branches(void)
{
	memset(cpus[0].lbr, 0x5a, sizeof(cpus[0].lbr));
	cpus[0].lbr_config = BIT(3);
	cpus[0].lbr_select = 0;
	cpu_has_lbr_v2 = true;
	*param_pv_perf_branches = true;
	setup();
	have_area();
}

static void teardown_branches(void)
{
	teardown();
	cpu_has_lbr_v2 = false;
	*param_pv_perf_branches = false;
	cpus[0].lbr_config = 0;
}

static u32 enter_recording(void)
{
	unsigned long flags;

	local_irq_save(flags);
	pv_perf_enter(here(), PV_PERF_ENTRY_ANEW);
	check_branches(here());
	local_irq_restore(flags);
	return here()->arch.pv_perf_branches;
}

/* Executes @branches, and leaves the guest for an NMI or for another reason. */
static void record(const u64 (*branches)[2], int n, bool nmi)
{
	unsigned long flags;

	local_irq_save(flags);
	run_branches(here(), branches, n);
	if (nmi)
		pv_perf_save_branches(here());
	local_irq_restore(flags);
	/* perf may use the stack in the host's NMI handler. */
	memset(cpus[current->cpu].lbr, 0xa5, sizeof(cpus[0].lbr));
}

/* Executes one branch, and makes an event with @period overflow. */
static void overflow_after(u64 from, u64 period, bool nmi)
{
	const u64 branches[][2] = { { from, LBR_VALID | 0x2000 } };

	/* The guest takes any NMI that is to come. */
	kvm_check_request(KVM_REQ_NMI, here());
	enter_recording();
	record(branches, 1, nmi);
	run_guest(period);
}

UNIT_TEST(open_branches)
{
	struct guest_perf_query *q;
	int i;

	setup();
	param(1, 1);
	mem->attr.flags = KVM_PERF_ATTR_BRANCHES;
	mem->attr.sample_period = 1000;
	is("OPEN with branches on a CPU without branch records", do_open(), 0);
	is("the flags of branches are ignored on this CPU",
	   pv_perf_has_branches(event(1)), 0);
	q = &mem->query;
	q->size = sizeof(*q);
	CHECK(!call(6, GPA(query)));
	is("QUERY: not the feature of branches on this CPU",
	   q->features & KVM_PERF_FEATURE_BRANCHES, 0);
	is("QUERY: no branches on this CPU", q->branches, 0);
	teardown();

	/* By default, the administrator has not allowed branches. */
	cpu_has_lbr_v2 = true;
	setup();
	param(1, 1);
	mem->attr.flags = KVM_PERF_ATTR_BRANCHES;
	mem->attr.sample_period = 1000;
	is("OPEN with branches that the administrator has not allowed",
	   do_open(), 0);
	is("the flags of branches that are not allowed are ignored",
	   pv_perf_has_branches(event(1)), 0);
	q = &mem->query;
	q->size = sizeof(*q);
	CHECK(!call(6, GPA(query)));
	is("QUERY: no branches if they are not allowed", q->branches, 0);
	teardown();
	cpu_has_lbr_v2 = false;

	setup_branches();
	q = &mem->query;
	for (i = 32; i < 41; i++) {
		param(i, i);
		mem->attr.flags = BIT_ULL(i);
		CHECK(!do_open() && !pv_perf_has_branches(event(i)));
		CHECK(!call(KVM_PERF_OP_CLOSE, i));
		mem->attr.sample_period = 1000;
		CHECK(!do_open());
		CHECK((event(i)->flags & KVM_PERF_ATTR_BRANCHES) == BIT_ULL(i));
	}
	is("OPEN with each kind of branch, only with a period", i, 41);
	CHECK(!call(KVM_PERF_OP_RESET, 0));
	param(1, 1);
	mem->attr.sample_period = 1000;
	mem->attr.flags = BIT_ULL(41);
	is("OPEN with a kind of branch that is not defined", do_open(), 0);
	is("the kind that is not defined is ignored",
	   pv_perf_has_branches(event(1)), 0);
	CHECK(!call(KVM_PERF_OP_CLOSE, 1));
	mem->attr.flags = KVM_PERF_ATTR_BRANCHES | BIT_ULL(31);
	open_fails("a flag that is not optional: EINVAL", -KVM_EINVAL);
	mem->attr.sample_period = 1000;
	mem->attr.flags = KVM_PERF_ATTR_BRANCHES | KVM_PERF_ATTR_FREQ;
	is("OPEN with branches and a frequency", do_open(), 0);

	memset(q, 0x5a, sizeof(*q) + sizeof(mem->after_query));
	q->size = GUEST_PERF_QUERY_SIZE_VER0 + 8;
	CHECK(!call(6, GPA(query)));
	is("QUERY of a larger struct fills what the host knows", q->size,
	   GUEST_PERF_QUERY_SIZE_VER0);
	is("QUERY has the feature of branches",
	   !!(q->features & KVM_PERF_FEATURE_BRANCHES), true);
	is("QUERY has the number of branches", q->branches, NR_BRANCHES);
	is("QUERY writes nothing behind what the host knows",
	   !memchr_inv(mem->after_query, 0x5a, sizeof(mem->after_query)), true);
	teardown_branches();

	cpu_branches = KVM_PERF_MAX_BRANCHES + 1;
	setup_branches();
	mem->query.size = sizeof(mem->query);
	CHECK(!call(6, GPA(query)));
	is("with a deeper stack, QUERY has as many branches as the area has room for",
	   mem->query.branches, KVM_PERF_MAX_BRANCHES);
	teardown_branches();
	cpu_branches = NR_BRANCHES;
}

static u64 selected(void)
{
	CHECK(enter_recording());
	/* The MSR selects the branches not to record. */
	return ~cpus[0].lbr_select & 0x1ff;
}

/* Which branches are recorded, and when. */
/* Loads KVM with evidence for a CPU and its microcode; returns what guests may have. */
static unsigned int branches_with(u32 cpu, u32 microcode)
{
	unsigned int nr;

	*param_pv_perf_branches_cpu = cpu;
	*param_pv_perf_branches_microcode = microcode;
	setup();
	nr = pv_perf_host.pmu.branches;
	is("the parameter pv_perf_branches says whether guests may have branches",
	   *param_pv_perf_branches, !!nr);
	teardown();
	*param_pv_perf_branches = false;
	return nr;
}

UNIT_TEST(branches_shown)
{
	u32 microcode = boot_cpu_data.microcode;

	cpu_has_lbr_v2 = true;
	is("branches on the CPU and microcode for which they are shown",
	   branches_with(cpu_signature, microcode), NR_BRANCHES);
	is("no branches on another CPU model",
	   branches_with(cpu_signature + 1, microcode), 0);
	is("no branches with newer microcode",
	   branches_with(cpu_signature, microcode - 1), 0);
	is("no branches with older microcode",
	   branches_with(cpu_signature, microcode + 1), 0);
	is("no branches if they are shown for no CPU", branches_with(0, microcode), 0);
	cpu_has_lbr_v2 = false;
	is("no branches on a CPU without branch records, whatever is shown",
	   branches_with(cpu_signature, microcode), 0);
	*param_pv_perf_branches_cpu = 0;
	*param_pv_perf_branches_microcode = 0;
}

UNIT_TEST(branches_wanted)
{
	const u64 user = KVM_PERF_ATTR_BRANCH_USER, cond = KVM_PERF_ATTR_BRANCH_COND;
	const u64 kernel = KVM_PERF_ATTR_BRANCH_KERNEL;
	static const u64 one[][2] = { { 1, LBR_VALID | 2 } };
	unsigned long flags;
	u64 select;

	setup_branches();
	is("nothing is recorded without events", enter_recording(), 0);
	CHECK(!open_mode(1, 0, 1000));
	is("nothing is recorded for an event without branches",
	   enter_recording(), 0);
	is("for an event without branches, LBR_SELECT stays",
	   cpus[0].lbr_select, 0);
	is("for an event without branches, the records stay",
	   cpus[0].lbr[0][0] == 0x5a5a5a5a5a5a5a5a, true);
	CHECK(!open_mode(2, user | cond, 1000));
	is("an event's kinds of branches are selected",
	   selected(), (user | cond) >> 32);
	is("the other bits of DBG_EXTN_CFG stay in the guest",
	   here()->arch.pv_perf_branches, BIT(3) | DBG_EXTN_CFG_LBRV2EN);
	record(one, 1, false);
	is("after the exit, DBG_EXTN_CFG is restored",
	   cpus[0].lbr_config, BIT(3));
	CHECK(!open_mode(3, kernel | KVM_PERF_ATTR_BRANCH_FAR, 1000));
	select = selected();
	is("the kinds of branches of both events are selected",
	   select, (user | cond | kernel | KVM_PERF_ATTR_BRANCH_FAR) >> 32);
	CHECK(!call(KVM_PERF_OP_DISABLE, 2));
	is("a disabled event's kinds are not selected",
	   selected(), (kernel | KVM_PERF_ATTR_BRANCH_FAR) >> 32);
	CHECK(!call(KVM_PERF_OP_ENABLE, 2));
	is("after ENABLE, the event's kinds are selected", selected(), select);
	on(1);
	CHECK(!call(KVM_PERF_OP_ENABLE, 3));
	on(0);
	is("a moved event's kinds are not selected",
	   selected(), (user | cond) >> 32);
	take_counters(tasks[0], NR_COUNTERS);
	is("nothing is recorded for an event without a counter",
	   enter_recording(), 0);
	take_counters(tasks[0], 0);
	enter_guest();
	call(KVM_PERF_OP_ENABLE, 2);
	is("after ENABLE with a counter, the event's kinds are selected",
	   selected(), (user | cond) >> 32);

	/* The host's perf records branches. */
	cpus[0].lbr_config |= DBG_EXTN_CFG_LBRV2EN;
	cpus[0].lbr_select = 0x77;
	cpus[0].lbr[0][0] = 0x1234;
	is("while the host records, nothing is recorded for the guest",
	   enter_recording(), 0);
	is("the host's LBR_SELECT stays", cpus[0].lbr_select, 0x77);
	is("the host's records stay", cpus[0].lbr[0][0], 0x1234);
	overflow_after(0x1000, 1000, true);
	enter_guest();
	is("while the host records, an overflow has no branches",
	   mem->area.nr_branches, 0);
	is("while the host records, an overflow is delivered",
	   mem->record[2].overflows, 1);
	cpus[0].lbr_config &= ~DBG_EXTN_CFG_LBRV2EN;
	is("when the host stops, branches are recorded again",
	   selected(), (user | cond) >> 32);

	/* The vCPU enters again without leaving the run loop. */
	record(one, 1, true);
	local_irq_save(flags);
	pv_perf_enter(here(), PV_PERF_ENTRY_AFTER_NMI);
	check_branches(here());
	local_irq_restore(flags);
	is("branches are recorded when the vCPU enters again",
	   !!here()->arch.pv_perf_branches, true);
	is("saved branches are dropped when the vCPU enters again",
	   here()->arch.pv_perf->branches.nr, 0);

	here()->arch.guest_mode = true;
	is("nothing is recorded for a nested guest", enter_recording(), 0);
	here()->arch.guest_mode = false;
	is("branches of the guest are recorded after the nested guest",
	   !!enter_recording(), true);

	CHECK(!call(KVM_PERF_OP_CLOSE, 2));
	is("nothing is recorded after the event's CLOSE", enter_recording(), 0);
	CHECK(!open_mode(2, user, 1000));
	CHECK(enter_recording());
	CHECK(!call(KVM_PERF_OP_RESET, 0));
	is("nothing is recorded after RESET", enter_recording(), 0);
	is("after RESET, VM entry looks at nothing",
	   here()->arch.pv_perf->at_entry, 0);
	is("after RESET, VM entry changes no record",
	   (cpus[0].lbr[0][0] = 7, enter_recording()) || cpus[0].lbr[0][0] != 7,
	   false);
	CHECK(!open_mode(2, user, 1000));
	CHECK(enter_recording());
	pv_perf_vcpu_reset(vcpus[0]);
	is("nothing is recorded after a reset of the vCPU",
	   enter_recording(), 0);
	teardown_branches();
}

/* Branches for events that do not count now. */
UNIT_TEST(branches_stopped)
{
	const u64 user = KVM_PERF_ATTR_BRANCH_USER, kernel = KVM_PERF_ATTR_BRANCH_KERNEL;
	const u64 any = KVM_PERF_ATTR_BRANCHES;

	setup_branches();
	CHECK(!open_mode(1, any | KVM_PERF_ATTR_EXCLUDE_HOST, 1000));
	is("nothing is recorded for an event for nested guests only",
	   enter_recording(), 0);
	CHECK(!open_mode(2, any | KVM_PERF_ATTR_EXCLUDE_KERNEL, 1000));
	CHECK(!open_mode(3, 0, 1000));
	is("all kinds are recorded for an event of user mode",
	   selected(), 0x1ff);

	/* The kernel's branches are recorded, but not an NMI handler's. */
	here()->arch.nmi_injected = true;
	here()->arch.iret_intercept = true;
	is("in an NMI handler, the kernel is not recorded",
	   selected(), 0x1ff & ~(kernel >> 32));
	here()->arch.nmi_injected = false;
	is("at the next entry in the handler, the kernel is not recorded",
	   selected(), 0x1ff & ~(kernel >> 32));
	end_nmi();
	is("after the handler, the kernel is recorded",
	   ~cpus[0].lbr_select & 0x1ff, 0x1ff);
	CHECK(!call(KVM_PERF_OP_CLOSE, 2));
	CHECK(!open_mode(4, any, 1000));
	here()->arch.nmi_injected = true;
	here()->arch.iret_intercept = true;
	is("in an NMI handler, nothing is recorded for a stopped event",
	   enter_recording(), 0);
	here()->arch.nmi_injected = false;
	end_nmi();
	is("after the handler, branches are recorded for that event",
	   !!here()->arch.pv_perf_branches, true);
	CHECK(!open_mode(5, user | KVM_PERF_ATTR_EXCLUDE_GUEST, 1000));
	here()->arch.guest_mode = true;
	is("in a nested guest, nothing is recorded", enter_recording(), 0);
	here()->arch.guest_mode = false;
	teardown_branches();
}

static bool branch_is(int i, u64 from, u64 to, u64 info)
{
	const struct guest_perf_branch *b = &mem->area.branch[i];

	return b->from == from && b->to == to && b->info == info;
}

#define SPEC(what)	((u64)PERF_BR_##what << KVM_PERF_BRANCH_SPEC_SHIFT)

UNIT_TEST(branches_decoded)
{
	/* The bits above the 48 bits of an address are ignored. */
	static const u64 raw[][2] = {
		{ 0x1001, 0x2001 },				/* none */
		{ 0x1002, LBR_VALID | LBR_RESERVED | 0x2002 },	/* erratum */
		{ 0x7fffffffffff, LBR_VALID | 0x2003 },
		{ LBR_MISPREDICT | 0x1004, LBR_SPEC | 0x2004 },
		{ 0x800000000005, LBR_VALID | LBR_SPEC | 0xffff81234567 },
		{ LBR_MISPREDICT | 0x7fff800000001006,
		  LBR_VALID | 0x0ff0000000002006 },
	};
	static const u64 high[][2] = {
		{ 0x800000000005, LBR_VALID | 1ull << 56 },
	};
	u64 many[NR_BRANCHES + 3][2];
	int i;

	setup_branches();
	CHECK(!open_mode(1, KVM_PERF_ATTR_BRANCHES, 1000));
	memset(&mem->area.nr_branches, 0x77, sizeof(mem->area) -
	       offsetof(struct guest_perf_area, nr_branches));
	CHECK(enter_recording());
	record(raw, ARRAY_SIZE(raw), true);
	is("no branches are written before an overflow",
	   mem->area.nr_branches, 0x77777777);
	run_guest(1000);
	is("an overflow: one NMI", enter_guest(), 1);
	is("the number of valid branches", mem->area.nr_branches, 4);
	is("the reserved field is 0", mem->area.reserved2, 0);
	is("the last branch, of the kernel",
	   branch_is(0, 0xffff800000001006, 0x2006,
		     KVM_PERF_BRANCH_MISPREDICTED | SPEC(NON_SPEC_CORRECT_PATH)),
	   true);
	is("a speculated branch on the correct path",
	   branch_is(1, 0xffff800000000005,
		     0xffffffff81234567, SPEC(SPEC_CORRECT_PATH)),
	   true);
	is("a speculated branch on the wrong path",
	   branch_is(2, 0x1004, 0x2004,
		     KVM_PERF_BRANCH_MISPREDICTED | SPEC(SPEC_WRONG_PATH)),
	   true);
	is("a branch from the highest address of user mode",
	   branch_is(3, 0x7fffffffffff, 0x2003, SPEC(NON_SPEC_CORRECT_PATH)),
	   true);
	is("nothing is written behind the branches",
	   mem->area.branch[4].from == 0x7777777777777777, true);
	is("the area's page is dirty",
	   kvm->memslots.slot[0].dirty[gpa_to_gfn(GPA(area))], true);

	boot_cpu_data.x86_virt_bits = 57;
	CHECK(enter_recording());
	record(high, 1, true);
	run_guest(1000);
	enter_guest();
	is("a branch with addresses of 57 bits",
	   branch_is(0, 0x800000000005,
		     0xff00000000000000, SPEC(NON_SPEC_CORRECT_PATH)),
	   true);
	boot_cpu_data.x86_virt_bits = 48;

	for (i = 0; i < ARRAY_SIZE(many); i++) {
		many[i][0] = 0x1000 + i;
		many[i][1] = LBR_VALID | 0x2000;
	}
	CHECK(enter_recording());
	record(many, ARRAY_SIZE(many), true);
	run_guest(1000);
	enter_guest();
	is("a full stack has NR_BRANCHES branches",
	   mem->area.nr_branches, NR_BRANCHES);
	is("the first entry is the last branch",
	   mem->area.branch[0].from, 0x1000 + ARRAY_SIZE(many) - 1);
	is("the last entry is the first branch that is left",
	   mem->area.branch[NR_BRANCHES - 1].from, 0x1003);
	teardown_branches();
}

/*
 * Branches are delivered with the overflow that they led to, and with no other
 * overflow.
 */
UNIT_TEST(branches_told)
{
	struct guest_perf_event *r;

	setup_branches();
	r = mem->record;
	CHECK(!open_mode(1, KVM_PERF_ATTR_BRANCHES, 1000));
	overflow_after(0x1000, 1000, true);
	is("an overflow is delivered at the exit", nmi_exit(), true);
	is("the area has one branch", mem->area.nr_branches, 1);
	is("the branch is the executed branch",
	   mem->area.branch[0].from, 0x1000);
	is("the record has the overflow", r[1].overflows, 1);
	CHECK(enter_recording());
	run_guest(1000);
	enter_guest();
	is("without an NMI exit, an overflow has no branches",
	   mem->area.nr_branches, 0);
	is("without an NMI exit, an overflow is delivered", r[1].overflows, 2);
	overflow_after(0x1000, 999, true);
	enter_guest();
	enter_recording();
	run_guest(1);
	enter_guest();
	is("branches before an earlier entry are not delivered",
	   mem->area.nr_branches, 0);
	overflow_after(0x1000, 1000, false);
	enter_guest();
	is("branches of an exit for another reason are not delivered",
	   mem->area.nr_branches, 0);

	/* Another event does not ask for branches. */
	CHECK(!open_mode(2, 0, 500));
	overflow_after(0x1001, 500, true);
	CHECK(!mem->area.nr_branches);
	enter_guest();
	is("an overflow of the event without branches has no branches",
	   mem->area.nr_branches, 0);
	is("the overflow of the event without branches is delivered",
	   r[2].overflows, 1);
	overflow_after(0x1002, 500, true);
	is("both events overflow: an NMI", nmi_exit(), true);
	is("both overflows come with the first event's branches",
	   mem->area.branch[0].from, 0x1002);
	CHECK(!call(KVM_PERF_OP_CLOSE, 2));

	/* If one of two events has to wait, its branches stay. */
	CHECK(!open_mode(3, KVM_PERF_ATTR_BRANCHES, 1000));
	CHECK(!call3(KVM_PERF_OP_SET_LEFT, 1, 1000, 0));
	param(4, 100);
	mem->attr.sample_period = 1000;
	mem->attr.flags = KVM_PERF_ATTR_BRANCHES;
	CHECK((RECORD(100) >> PAGE_SHIFT) != (RECORD(1) >> PAGE_SHIFT));
	CHECK(!do_open() && !call(KVM_PERF_OP_ENABLE, 4));
	overflow_after(0x1003, 1000, true);
	kvm->memslots.slot[0].absent[RECORD(100) >> PAGE_SHIFT] = true;
	is("two events overflow, a third has to wait: an NMI",
	   nmi_exit(), true);
	kvm->memslots.slot[0].absent[RECORD(100) >> PAGE_SHIFT] = false;
	mem->area.nr_branches = 77;
	enter_guest();
	is("the third overflow comes with the same branches",
	   mem->area.nr_branches == 1 && mem->area.branch[0].from == 0x1003,
	   true);
	is("the third overflow is delivered once",
	   mem->record[100].overflows, 1);
	CHECK(!call(KVM_PERF_OP_CLOSE, 3) && !call(KVM_PERF_OP_CLOSE, 4));

	/* The event moves before its overflow is delivered. */
	CHECK(!call3(KVM_PERF_OP_SET_LEFT, 1, 1000, 0));
	overflow_after(0x1004, 1000, true);
	on(1);
	mem->area.nr_branches = 77;
	CHECK(!call(KVM_PERF_OP_ENABLE, 1));
	is("the other vCPU gets the NMI", enter_guest(), 1);
	is("the other vCPU, without an area, gets no branches",
	   mem->area.nr_branches, 77);
	on(0);
	enter_guest();
	is("the first vCPU gets no branches", mem->area.nr_branches, 77);
	is("nothing is recorded on the first vCPU any more",
	   enter_recording(), 0);
	teardown_branches();
}

/* If the branches cannot be written, the overflow is still delivered. */
UNIT_TEST(branches_room)
{
	bool *absent;
	u32 n;

	setup_branches();
	CHECK(!open_mode(1, KVM_PERF_ATTR_BRANCHES, 1000));
	CHECK(!set_area(0));
	mem->area.nr_branches = 77;
	overflow_after(0x1000, 1000, true);
	n = mem->record[1].overflows;
	is("without an area: an NMI at the exit", nmi_exit(), true);
	is("without an area, the overflow is delivered",
	   mem->record[1].overflows, n + 1);
	is("without an area, no branches are written",
	   mem->area.nr_branches, 77);

	have_area();
	absent = &kvm->memslots.slot[0].absent[gpa_to_gfn(GPA(area))];
	overflow_after(0x1000, 1000, true);
	*absent = true;
	is("no delivery at the exit while the area's page is absent",
	   nmi_exit(), false);
	is("no overflow while the area's page is absent",
	   mem->record[1].overflows, n + 1);
	*absent = false;
	is("the request delivers the overflow: one NMI", enter_guest(), 1);
	is("the request writes the branch",
	   mem->area.nr_branches == 1 && mem->area.branch[0].from == 0x1000,
	   true);
	mem->area.nr_branches = 77;
	overflow_after(0x1000, 1000, true);
	*absent = true;
	is("the request without the area's page: one NMI", enter_guest(), 1);
	*absent = false;
	is("the request without the area's page delivers the overflow",
	   mem->record[1].overflows, n + 3);
	is("the request without the area's page writes no branch",
	   mem->area.nr_branches, 77);

	kvm->memslots.generation++;
	overflow_after(0x1001, 1000, true);
	is("no delivery at the exit after a change of memory slots",
	   nmi_exit(), false);
	is("the request looks up the memory slots: one NMI", enter_guest(), 1);
	is("the request writes the branch after that change",
	   mem->area.branch[0].from, 0x1001);
	overflow_after(0x1002, 1000, true);
	is("the next overflow is delivered at the exit", nmi_exit(), true);
	is("the exit writes the branch", mem->area.branch[0].from, 0x1002);

	/* SET_AREA to read-only memory fails. */
	CHECK(set_area(RO_MEMORY) == -KVM_EFAULT ||
	      set_area(RO_MEMORY) == -KVM_EINVAL);
	overflow_after(0x1003, 1000, true);
	CHECK(nmi_exit());
	is("a failed SET_AREA keeps the previous area",
	   mem->area.branch[0].from, 0x1003);

	/* RESET by another vCPU closes the event and removes the area. */
	overflow_after(0x1004, 1000, true);
	on(1);
	CHECK(!call(KVM_PERF_OP_RESET, 0));
	on(0);
	enter_guest();
	is("after RESET, no branches are written",
	   mem->area.branch[0].from, 0x1003);

	/* The VMM stops the vCPU, and may save the guest's memory. */
	have_area();
	CHECK(!open_mode(1, KVM_PERF_ATTR_BRANCHES, 1000));
	overflow_after(0x1005, 1000, true);
	pv_perf_vcpu_leave(vcpus[0], -EINTR);
	is("a stopped vCPU's area has the branch",
	   mem->area.branch[0].from, 0x1005);
	is("a stopped vCPU's record has the overflow",
	   mem->record[1].overflows, 1);
	is("a stopped vCPU's area has no epoch", mem->area.epoch & 1, 0);
	teardown_branches();
}
