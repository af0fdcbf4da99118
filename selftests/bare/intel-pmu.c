// SPDX-License-Identifier: GPL-2.0
/*
 * Test of the performance counters of the emulated Intel CPU, on the bare
 * machine (bare.h).
 */
#include "intel-pmu.h"

/* A unit mask of BRANCHES, and how often what it selects is in EACH_BRANCH */
struct branches {
	const char *name;
	u8 unit_mask, times;
};

static const struct branches sandy_bridge[] = {
	{ "conditional branches", 0x01, 3 },
	{ "near calls", 0x02, 2 },
	{ "all branches, by the unit mask for PEBS", 0x04, 10 },
	{ "near returns", 0x08, 2 },
	{ "branches that are not taken", 0x10, 1 },
	{ "near branches that are taken", 0x20, 8 },
	{ "far branches", 0x40, 1 },
	{ "a unit mask that later CPUs have", 0x11, 0 },
	{ }
};

static const struct branches golden_cove[] = {
	{ "conditional branches that are taken", 0x01, 2 },
	{ "near calls", 0x02, 2 },
	{ "near returns", 0x08, 2 },
	{ "branches that are not taken", 0x10, 1 },
	{ "conditional branches", 0x11, 3 },
	{ "near branches that are taken", 0x20, 8 },
	{ "far branches", 0x40, 1 },
	{ "indirect jumps and calls", 0x80, 2 },
	{ "a unit mask that earlier CPUs have", 0x04, 0 },
	{ }
};

static const struct branches lion_cove[] = {
	{ "near calls", 0x02, 2 },
	{ "near returns", 0x08, 2 },
	{ "branches that are not taken", 0x10, 1 },
	{ "near branches that are taken", 0x20, 8 },
	{ "far branches", 0x40, 1 },
	{ "indirect jumps and calls", 0x80, 2 },
	{ "a unit mask that earlier CPUs have", 0x11, 0 },
	{ }
};

static const struct branches gracemont[] = {
	{ "conditional branches", 0x7e, 3 },
	{ "branches that are taken", 0x80, 9 },
	{ "far branches", 0xbf, 1 },
	{ "near branches that are taken", 0xc0, 8 },
	{ "direct jumps", 0xdf, 1 },
	{ "indirect jumps and calls", 0xeb, 2 },
	{ "indirect jumps", 0xef, 1 },
	{ "near returns", 0xf7, 2 },
	{ "near calls", 0xf9, 2 },
	{ "indirect calls", 0xfb, 1 },
	{ "direct calls", 0xfd, 1 },
	{ "conditional branches that are taken", 0xfe, 2 },
	{ "a unit mask that performance cores have", 0x20, 0 },
	{ }
};

/* What a CPU model, or a core of a hybrid CPU, has, and CPUID says */
static const struct model {
	const char *name;
	u32 signature;
	u32 hybrid, native_model;		/* leaves 7 and 1AH */
	u32 said_general, said_fixed;		/* leaf 0AH */
	u32 unavailable;
	u32 general, fixed;
	u64 more_global;			/* bits of the global registers */
	const struct branches *branches;
	u8 conditional;				/* unit mask, or 0: there is none */
} models[] = {
	{ "Haswell", 0x306c3, 0, 0, 4, 3, 0x58, 4, 3, 0, sandy_bridge, 0x01 },
	{ "Skylake", 0x50654, 0, 0, 4, 3, 0x58, 4, 3, 0, sandy_bridge, 0x01 },
	/* A performance core has more counters than it says, and metrics. */
	{ "a performance core of Alder Lake", 0x90672, 1, 0x40000001, 6, 3, 0x58,
	  8, 4, PERF_METRICS, golden_cove, 0x11 },
	{ "an efficiency core of Alder Lake", 0x90672, 1, 0x20000001, 6, 3, 0x58,
	  6, 3, 0, gracemont, 0x7e },
	{ "a performance core of Arrow Lake-H", 0xc0652, 1, 0x40000003, 8, 3, 0x1fd8,
	  8, 3, 0, lion_cove, 0 },
	{ "an efficiency core of Arrow Lake-H", 0xc0652, 1, 0x20000003, 8, 3, 0x1fd8,
	  8, 3, 0, gracemont, 0x7e },
	{ "a low-power core of Arrow Lake-H", 0xc0652, 1, 0x20000002, 8, 3, 0x1fd8,
	  8, 3, 0, gracemont, 0x7e },
	{ "Alder Lake, not hybrid", 0x90672, 0, 0, 8, 4, 0x58,
	  8, 4, PERF_METRICS, golden_cove, 0x11 },
	{ }
};
static const struct model *model;

static u32 hybrid(void)
{
	return cpuid(7).d >> 15 & 1;
}

static u32 native_model(void)
{
	return cpuid(0).a >= 0x1a ? cpuid(0x1a).a : 0;
}

static void find_model(void)
{
	for (model = models; model->name; model++)
		if (model->signature == cpuid(1).a && model->hybrid == hybrid() &&
		    model->native_model == native_model())
			break;
	is("the CPU is one of those that this tests", !!model->name, 1);
	if (!model->name) {
		finish();
		asm volatile("cli; hlt");
	}
	print("# ");
	print(model->name);
	print("\n");
}

static u64 rdpmc(u32 counter)
{
	u32 low, high;

	asm volatile("rdpmc" : "=a"(low), "=d"(high) : "c"(counter));
	return low | (u64)high << 32;
}

/*
 * Exceptions. A fault goes on behind the instruction, which has 2 bytes (RDMSR,
 * WRMSR, RDPMC, UD2).
 */
static volatile unsigned int faults;

asm("on_fault_code:\n"
	"	add	$8, %rsp\n"
	"on_fault:\n"
	"	addq	$2, (%rsp)\n"
	"	incl	faults(%rip)\n"
	"	iretq\n");
void on_fault_code(void);
void on_fault(void);

static void set_up(void)
{
	set_gate(2, on_nmi);
	set_gate(6, on_fault);
	set_gate(13, on_fault_code);
	set_up_machine();
	*APIC_SPURIOUS = 0x1ff;
	*APIC_LVTPC = LVT_NMI;
}

static bool write_faults(u32 msr, u64 value)
{
	unsigned int before = faults;

	wrmsr(msr, value);
	return faults != before;
}

static bool read_faults(u32 msr)
{
	unsigned int before = faults;

	rdmsr(msr);
	return faults != before;
}

static bool rdpmc_faults(u32 counter)
{
	unsigned int before = faults;

	rdpmc(counter);
	return faults != before;
}

/* What counters are compared over, with the same instructions around it. */
enum work { LOOP, REP, FAULT, EACH_BRANCH, NOTHING };

static void do_work(enum work work, u64 times)
{
	static u8 buffer[4096];
	void *to = buffer;

	switch (work) {
	case LOOP:
		asm volatile("1: dec %0; jnz 1b" : "+r"(times));
		break;
	case REP:
		asm volatile("rep stosb" : "+D"(to), "+c"(times) : "a"(0)
			     : "memory");
		break;
	case FAULT:
		asm volatile("1: ud2; dec %0; jnz 1b" : "+r"(times));
		break;
	case EACH_BRANCH:
		/* 10: 2 calls, one of them indirect, and 2 returns */
		asm volatile("	lea	5f(%%rip), %%rax\n"
			     "	lea	6f(%%rip), %%rdx\n"
			     "	mov	%%cs, %%ecx\n"
			     "1:	call	5f\n"
			     "	call	*%%rax\n"
			     /* 2 jumps, one of them indirect */
			     "	jmp	2f\n"
			     "2:	jmp	*%%rdx\n"
			     "5:	ret\n"
			     /* a far return */
			     "6:	lea	3f(%%rip), %%rsi\n"
			     "	push	%%rcx\n"
			     "	push	%%rsi\n"
			     "	lretq\n"
			     /* 3 conditional branches, one of them not taken */
			     "3:	cmp	%%eax, %%eax\n"
			     "	jne	4f\n"
			     "	je	4f\n"
			     "	nop\n"
			     "4:	dec	%0\n"
			     "	jnz	1b\n"
			     : "+r"(times) : : "rax", "rcx", "rdx", "rsi", "cc",
			     "memory");
		break;
	case NOTHING:
		break;
	}
}

/* What the enabled counter `counter`, of rdpmc, counts meanwhile */
__attribute__((noipa))
static u64 count(u32 counter, u64 global, enum work work, u64 times)
{
	u64 before = rdpmc(counter);

	wrmsr(MSR_GLOBAL_CTRL, global);
	do_work(work, times);
	wrmsr(MSR_GLOBAL_CTRL, 0);
	return (rdpmc(counter) - before) & WIDTH_MASK;
}

/* By how much the count differs for 1000 times and 3000 */
static u64 differs(u32 counter, u64 global, enum work work)
{
	u64 less = count(counter, global, work, 1000);

	return count(counter, global, work, 3000) - less;
}

static u64 with_select(u32 select, enum work work)
{
	all_off();
	wrmsr(MSR_EVTSEL0, select);
	return differs(0, 1, work);
}

static void test_cpuid(void)
{
	struct cpuid leaf = cpuid(10);

	print("# version ");
	print_number(version());
	print("\n");
	is("CPUID says how many general counters all cores have", leaf.a >> 8 & 0xff,
	   model->said_general);
	is("of 48 bits", leaf.a >> 16 & 0xff, 48);
	is("and how many fixed counters", leaf.d & 0x1f, model->said_fixed);
	is("of 48 bits", leaf.d >> 5 & 0xff, 48);
	is("from version 5 on also which",
	   version() >= 5 ? leaf.c : (1u << model->said_fixed) - 1,
	   (1u << model->said_fixed) - 1);
	is("no cache references and misses, no mispredicted branches", leaf.b,
	   model->unavailable);
	is("writes of full width",
	   rdmsr(MSR_PERF_CAPABILITIES) >> 13 & 1, 1);
	is("performance monitoring without BTS and PEBS",
	   rdmsr(MSR_MISC_ENABLE) &
	   (PERFMON_AVAILABLE | BTS_UNAVAILABLE | PEBS_UNAVAILABLE),
	   PERFMON_AVAILABLE | BTS_UNAVAILABLE | PEBS_UNAVAILABLE);
}

static void test_counts(void)
{
	u32 n;

	for (n = 0; n < model->general; n++) {
		all_off();
		wrmsr(MSR_EVTSEL0 + n, INSTRUCTIONS);
		is("a general counter counts instructions",
		   differs(n, 1 << n, LOOP), 4000);
	}
	for (n = 0; n < model->fixed; n++) {
		all_off();
		wrmsr(MSR_FIXED_CTRL, 1ULL << (4 * n));
		is(n < 3 ? "a fixed counter counts" : "that of slots does not",
		   differs(1 << 30 | n, 1ULL << (32 + n), LOOP), n < 3 ? 4000 : 0);
	}
	is("cycles", with_select(CYCLES, LOOP), 4000);
	is("branches", with_select(BRANCHES, LOOP), 2000);
	is("an event that is not modelled", with_select(NOT_MODELLED, LOOP), 0);
	is("REP is one instruction", with_select(INSTRUCTIONS, REP), 0);
	/* UD2 faults; 3 are the handler's, 2 the loop's. */
	is("an instruction that faults is none",
	   with_select(INSTRUCTIONS, FAULT), 10000);
}

static void test_branches(void)
{
	const struct branches *b;
	u32 conditional = BRANCHES | UMASK(model->conditional);

	is("all branches", with_select(BRANCHES, EACH_BRANCH), 2000 * 10);
	for (b = model->branches; b->name; b++)
		is(b->name, with_select(BRANCHES | UMASK(b->unit_mask), EACH_BRANCH),
		   2000 * b->times);
	if (!model->conditional)
		return;
	is("conditional branches and edges",
	   with_select(conditional | EDGE, EACH_BRANCH), 2000 * 3);
	is("conditional branches of a loop", with_select(conditional, LOOP), 2000);
	is("none is conditional in a REP", with_select(conditional, REP), 0);
}

static void test_selects(void)
{
	is("user only", with_select(0xc0 | USR | EN, LOOP), 0);
	is("not enabled", with_select(0xc0 | OS, LOOP), 0);
	is("counter mask 1", with_select(BRANCHES | CMASK(1), LOOP), 2000);
	is("counter mask 2", with_select(BRANCHES | CMASK(2), LOOP), 0);
	is("and inverted: each cycle",
	   with_select(BRANCHES | CMASK(2) | INV, LOOP), 4000);
	is("edges of instructions", with_select(INSTRUCTIONS | EDGE, LOOP), 0);
	all_off();
	wrmsr(MSR_EVTSEL0, INSTRUCTIONS);
	is("off by the global control", differs(0, 0, LOOP), 0);
}

static void test_registers(void)
{
	all_off();
	wrmsr(MSR_PMC0, 0x80000000);
	is("32 bits are written with their sign", rdmsr(MSR_PMC0),
	   0xffff80000000);
	wrmsr(MSR_FULL_PMC0, 0x123456789abc);
	is("48 by the alias", rdmsr(MSR_PMC0), 0x123456789abc);
	is("RDPMC reads them", rdpmc(0), 0x123456789abc);
	is("more are refused", write_faults(MSR_FULL_PMC0, 1ULL << 48), true);
	is("so are reserved bits of a select",
	   write_faults(MSR_EVTSEL0, 1ULL << 32), true);
	is("of the fixed control",
	   write_faults(MSR_FIXED_CTRL, 1ULL << (4 * model->fixed)), true);
	is("of the global control",
	   write_faults(MSR_GLOBAL_CTRL, 1ULL << model->general), true);
	is("and of its fixed counters",
	   write_faults(MSR_GLOBAL_CTRL, 1ULL << (32 + model->fixed)), true);
	is("which takes the bits of all counters at once",
	   write_faults(MSR_GLOBAL_CTRL, ((1ULL << model->general) - 1) |
			((1ULL << model->fixed) - 1) << 32 | model->more_global),
	   false);
	is("of the debug control, as it does not freeze in SMM",
	   write_faults(MSR_DEBUGCTL, FREEZE_WHILE_SMM), true);
	is("a write of the status", write_faults(MSR_GLOBAL_STATUS, 0), true);
	is("a counter behind the last", read_faults(MSR_PMC0 + model->general), true);
	is("by RDPMC, too", rdpmc_faults(model->general), true);
	is("and a fixed one", rdpmc_faults(1 << 30 | model->fixed), true);
}

/* Of a performance core; the others do not have them. */
static void test_metrics(void)
{
	bool metrics = model->more_global & PERF_METRICS;

	all_off();
	is("IA32_PERF_CAPABILITIES says whether there are metrics",
	   rdmsr(MSR_PERF_CAPABILITIES) >> 15 & 1, metrics);
	is("IA32_PERF_METRICS faults, unless it is there",
	   write_faults(MSR_PERF_METRICS, 0x1234), !metrics);
	is("so does its bit of the global control",
	   write_faults(MSR_GLOBAL_CTRL, PERF_METRICS), !metrics);
	is("and its index for RDPMC", rdpmc_faults(RDPMC_METRICS), !metrics);
	if (metrics)
		is("it is what was written", rdpmc(RDPMC_METRICS), 0x1234);
	all_off();
}

static void test_overflow(u64 left)
{
	unsigned int before = nmis;

	all_off();
	*APIC_LVTPC = LVT_NMI;
	wrmsr(MSR_EVTSEL0, INSTRUCTIONS | INT);
	/* WRMSR, which starts it, is one. */
	wrmsr(MSR_FULL_PMC0, WIDTH_MASK + 1 - left - 1);
	is("an overflow interrupts right behind the instruction",
	   overflow(1, 0), left);
	is("once", nmis, before + 1);
	is("the status says which", rdmsr(MSR_GLOBAL_STATUS), 1);
	is("the entry is masked", *APIC_LVTPC, LVT_NMI | LVT_MASKED);

	wrmsr(MSR_FULL_PMC0, WIDTH_MASK);
	overflow(1, 0);
	is("a masked entry does not interrupt", nmis, before + 1);
	wrmsr(MSR_GLOBAL_OVF_CTRL, 1);
	is("the status is reset", rdmsr(MSR_GLOBAL_STATUS), 0);
}

extern char second_conditional[], third_conditional[];

__attribute__((noipa))
static u64 conditional_overflow(u64 left)
{
	all_off();
	*APIC_LVTPC = LVT_NMI;
	wrmsr(MSR_EVTSEL0, BRANCHES | UMASK(model->conditional) | INT);
	wrmsr(MSR_FULL_PMC0, WIDTH_MASK + 1 - left);
	asm volatile("	wrmsr\n"
		     "	cmp	%%eax, %%eax\n"
		     "	je	1f\n"
		     "1:	jmp	2f\n"
		     "2:	jne	3f\n"
		     "second_conditional:\n"
		     "	nop\n"
		     "3:	nop\n"
		     "	je	third_conditional\n"
		     "	nop\n"
		     "third_conditional:\n"
		     "	.rept 50; nop; .endr\n"
		     : : "c"(MSR_GLOBAL_CTRL), "a"(1), "d"(0) : "cc", "memory");
	wrmsr(MSR_GLOBAL_CTRL, 0);
	return nmi_rip;
}

static void test_conditional_overflow(void)
{
	unsigned int before = nmis;

	if (!model->conditional)
		return;
	is("an overflow of conditional branches interrupts behind one that is not taken",
	   conditional_overflow(2), (u64)second_conditional);
	is("and behind one that is", conditional_overflow(3), (u64)third_conditional);
	is("once each", nmis, before + 2);
	conditional_overflow(4);
	is("and not before", nmis, before + 2);
}

static void test_fixed_overflow(void)
{
	all_off();
	*APIC_LVTPC = LVT_NMI;
	wrmsr(MSR_FIXED_CTRL, 9);
	wrmsr(MSR_FIXED0, WIDTH_MASK + 1 - 51);
	is("a fixed counter as well", overflow(1ULL << 32, 0), 50);
	is("with its status", rdmsr(MSR_GLOBAL_STATUS), 1ULL << 32);
}

static void test_version_4(void)
{
	all_off();
	wrmsr(MSR_GLOBAL_STATUS_SET, 2);
	is("a status is set", rdmsr(MSR_GLOBAL_STATUS), 2);
	wrmsr(MSR_GLOBAL_STATUS_SET, OVF_BUF);
	is("another one, too", rdmsr(MSR_GLOBAL_STATUS), OVF_BUF | 2);
	wrmsr(MSR_GLOBAL_OVF_CTRL, COND_CHGD | OVF_BUF);
	is("and reset", rdmsr(MSR_GLOBAL_STATUS), 2);
	is("a reserved one is refused",
	   write_faults(MSR_GLOBAL_STATUS_SET, COND_CHGD), true);
	all_off();

	*APIC_LVTPC = LVT_NMI;
	wrmsr(MSR_DEBUGCTL, FREEZE_PERFMON_ON_PMI);
	wrmsr(MSR_EVTSEL0, INSTRUCTIONS | INT);
	wrmsr(MSR_EVTSEL0 + 1, INSTRUCTIONS);
	wrmsr(MSR_FULL_PMC0, WIDTH_MASK + 1 - 51);
	wrmsr(MSR_FULL_PMC0 + 1, 0);
	overflow(1, 2);
	is("counters freeze on the interrupt", rdmsr(MSR_PMC0 + 1), 51);
	is("which the status says", rdmsr(MSR_GLOBAL_STATUS), CTR_FRZ | 1);
	wrmsr(MSR_GLOBAL_OVF_CTRL, CTR_FRZ | 1);
	is("and count again when that is reset", differs(1, 2, LOOP), 4000);
	wrmsr(MSR_DEBUGCTL, 0);
}

int main(void)
{
	set_up();
	find_model();
	test_cpuid();
	test_counts();
	test_branches();
	test_selects();
	test_registers();
	test_metrics();
	test_overflow(1);
	test_overflow(33);
	test_overflow(100);
	test_conditional_overflow();
	test_fixed_overflow();
	if (version() >= 4)
		test_version_4();
	finish();
	return 0;
}
