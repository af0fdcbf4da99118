// SPDX-License-Identifier: GPL-2.0
/*
 * Test of the performance counters of the emulated Intel CPU, on the bare
 * machine (bare.h).
 */
#include "intel-pmu.h"

/* A unit mask of BRANCHES, and how many of its branches EACH_BRANCH has */
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

/* The counters of a CPU model or of a core of a hybrid CPU, and those in CPUID */
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
	/* A performance core has more counters than its CPUID has, and metrics. */
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
	is("the test knows the CPU", !!model->name, 1);
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
 * Exceptions. After a fault the program continues after the instruction, which has
 * 2 bytes (RDMSR, WRMSR, RDPMC, UD2).
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

/* The work that counters count, with the same instructions around it. */
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

/* The count of `counter`, by its number for RDPMC, during the work */
__attribute__((noipa))
static u64 count(u32 counter, u64 global, enum work work, u64 times)
{
	u64 before = rdpmc(counter);

	wrmsr(MSR_GLOBAL_CTRL, global);
	do_work(work, times);
	wrmsr(MSR_GLOBAL_CTRL, 0);
	return (rdpmc(counter) - before) & WIDTH_MASK;
}

/* The difference of the counts for 3000 and for 1000 times the work */
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
	is("CPUID has the number of general counters of all cores", leaf.a >> 8 & 0xff,
	   model->said_general);
	is("CPUID: the counters have 48 bits", leaf.a >> 16 & 0xff, 48);
	is("CPUID has the number of fixed counters", leaf.d & 0x1f, model->said_fixed);
	is("CPUID: the counters have 48 bits", leaf.d >> 5 & 0xff, 48);
	is("CPUID has the fixed counters from version 5 on",
	   version() >= 5 ? leaf.c : (1u << model->said_fixed) - 1,
	   (1u << model->said_fixed) - 1);
	is("CPUID lacks cache events and mispredicted branches", leaf.b,
	   model->unavailable);
	is("IA32_PERF_CAPABILITIES has writes of full width",
	   rdmsr(MSR_PERF_CAPABILITIES) >> 13 & 1, 1);
	is("IA32_MISC_ENABLE has performance monitoring without BTS and PEBS",
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
		is(n < 3 ? "a fixed counter counts" :
			   "the fixed counter of slots does not count",
		   differs(1 << 30 | n, 1ULL << (32 + n), LOOP), n < 3 ? 4000 : 0);
	}
	is("a counter counts cycles", with_select(CYCLES, LOOP), 4000);
	is("a counter counts branches", with_select(BRANCHES, LOOP), 2000);
	is("an event that is not modelled does not count", with_select(NOT_MODELLED, LOOP), 0);
	is("REP counts as one instruction", with_select(INSTRUCTIONS, REP), 0);
	/* Per UD2, which faults: 3 instructions of the handler, 2 of the loop. */
	is("an instruction that faults does not count",
	   with_select(INSTRUCTIONS, FAULT), 10000);
}

static void test_branches(void)
{
	const struct branches *b;
	u32 conditional = BRANCHES | UMASK(model->conditional);

	is("a counter counts all kinds of branches",
	   with_select(BRANCHES, EACH_BRANCH), 2000 * 10);
	for (b = model->branches; b->name; b++)
		is(b->name, with_select(BRANCHES | UMASK(b->unit_mask), EACH_BRANCH),
		   2000 * b->times);
	if (!model->conditional)
		return;
	is("a counter counts edges of conditional branches",
	   with_select(conditional | EDGE, EACH_BRANCH), 2000 * 3);
	is("a counter counts conditional branches of a loop",
	   with_select(conditional, LOOP), 2000);
	is("REP has no conditional branch", with_select(conditional, REP), 0);
}

static void test_selects(void)
{
	is("a select for user mode does not count the kernel",
	   with_select(0xc0 | USR | EN, LOOP), 0);
	is("a select that is not enabled does not count", with_select(0xc0 | OS, LOOP), 0);
	is("counter mask 1 counts branches", with_select(BRANCHES | CMASK(1), LOOP), 2000);
	is("counter mask 2 does not count branches",
	   with_select(BRANCHES | CMASK(2), LOOP), 0);
	is("an inverted counter mask 2 counts each cycle",
	   with_select(BRANCHES | CMASK(2) | INV, LOOP), 4000);
	is("instructions have no edges", with_select(INSTRUCTIONS | EDGE, LOOP), 0);
	all_off();
	wrmsr(MSR_EVTSEL0, INSTRUCTIONS);
	is("a counter is off by the global control", differs(0, 0, LOOP), 0);
}

static void test_registers(void)
{
	all_off();
	wrmsr(MSR_PMC0, 0x80000000);
	is("a write of 32 bits extends the sign", rdmsr(MSR_PMC0),
	   0xffff80000000);
	wrmsr(MSR_FULL_PMC0, 0x123456789abc);
	is("the alias writes 48 bits", rdmsr(MSR_PMC0), 0x123456789abc);
	is("RDPMC reads 48 bits", rdpmc(0), 0x123456789abc);
	is("the alias refuses more than 48 bits",
	   write_faults(MSR_FULL_PMC0, 1ULL << 48), true);
	is("a select refuses reserved bits",
	   write_faults(MSR_EVTSEL0, 1ULL << 32), true);
	is("the fixed control refuses reserved bits",
	   write_faults(MSR_FIXED_CTRL, 1ULL << (4 * model->fixed)), true);
	is("the global control refuses bits of general counters beyond the last",
	   write_faults(MSR_GLOBAL_CTRL, 1ULL << model->general), true);
	is("the global control refuses bits of fixed counters beyond the last",
	   write_faults(MSR_GLOBAL_CTRL, 1ULL << (32 + model->fixed)), true);
	is("the global control accepts the bits of all counters at once",
	   write_faults(MSR_GLOBAL_CTRL, ((1ULL << model->general) - 1) |
			((1ULL << model->fixed) - 1) << 32 | model->more_global),
	   false);
	is("the debug control refuses to freeze in SMM",
	   write_faults(MSR_DEBUGCTL, FREEZE_WHILE_SMM), true);
	is("a write of the global status faults", write_faults(MSR_GLOBAL_STATUS, 0), true);
	is("a read of a counter beyond the last faults",
	   read_faults(MSR_PMC0 + model->general), true);
	is("RDPMC of a counter beyond the last faults", rdpmc_faults(model->general), true);
	is("RDPMC of a fixed counter beyond the last faults",
	   rdpmc_faults(1 << 30 | model->fixed), true);
}

/* Only performance cores have metrics. */
static void test_metrics(void)
{
	bool metrics = model->more_global & PERF_METRICS;

	all_off();
	is("IA32_PERF_CAPABILITIES shows whether the CPU has metrics",
	   rdmsr(MSR_PERF_CAPABILITIES) >> 15 & 1, metrics);
	is("IA32_PERF_METRICS faults without metrics",
	   write_faults(MSR_PERF_METRICS, 0x1234), !metrics);
	is("the metrics' bit of the global control faults without metrics",
	   write_faults(MSR_GLOBAL_CTRL, PERF_METRICS), !metrics);
	is("the metrics' index for RDPMC faults without metrics",
	   rdpmc_faults(RDPMC_METRICS), !metrics);
	if (metrics)
		is("IA32_PERF_METRICS reads the written value", rdpmc(RDPMC_METRICS), 0x1234);
	all_off();
}

static void test_overflow(u64 left)
{
	unsigned int before = nmis;

	all_off();
	*APIC_LVTPC = LVT_NMI;
	wrmsr(MSR_EVTSEL0, INSTRUCTIONS | INT);
	/* WRMSR, which starts the counter, counts as one instruction. */
	wrmsr(MSR_FULL_PMC0, WIDTH_MASK + 1 - left - 1);
	is("an overflow interrupts right after the instruction",
	   overflow(1, 0), left);
	is("an overflow interrupts once", nmis, before + 1);
	is("the status shows the counter of the overflow", rdmsr(MSR_GLOBAL_STATUS), 1);
	is("an overflow masks the LVT entry", *APIC_LVTPC, LVT_NMI | LVT_MASKED);

	wrmsr(MSR_FULL_PMC0, WIDTH_MASK);
	overflow(1, 0);
	is("a masked LVT entry does not interrupt", nmis, before + 1);
	wrmsr(MSR_GLOBAL_OVF_CTRL, 1);
	is("the status can be reset", rdmsr(MSR_GLOBAL_STATUS), 0);
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
	is("a conditional branch that is not taken overflows: interrupt right after it",
	   conditional_overflow(2), (u64)second_conditional);
	is("a conditional branch that is taken overflows: interrupt right after it",
	   conditional_overflow(3), (u64)third_conditional);
	is("each of these overflows interrupts once", nmis, before + 2);
	conditional_overflow(4);
	is("a counter of conditional branches does not interrupt before its overflow",
	   nmis, before + 2);
}

static void test_fixed_overflow(void)
{
	all_off();
	*APIC_LVTPC = LVT_NMI;
	wrmsr(MSR_FIXED_CTRL, 9);
	wrmsr(MSR_FIXED0, WIDTH_MASK + 1 - 51);
	is("an overflow of a fixed counter interrupts, too", overflow(1ULL << 32, 0), 50);
	is("the status shows the fixed counter", rdmsr(MSR_GLOBAL_STATUS), 1ULL << 32);
}

static void test_version_4(void)
{
	all_off();
	wrmsr(MSR_GLOBAL_STATUS_SET, 2);
	is("IA32_PERF_GLOBAL_STATUS_SET sets a counter's bit", rdmsr(MSR_GLOBAL_STATUS), 2);
	wrmsr(MSR_GLOBAL_STATUS_SET, OVF_BUF);
	is("IA32_PERF_GLOBAL_STATUS_SET sets OVF_BUF", rdmsr(MSR_GLOBAL_STATUS), OVF_BUF | 2);
	wrmsr(MSR_GLOBAL_OVF_CTRL, COND_CHGD | OVF_BUF);
	is("OVF_BUF can be reset", rdmsr(MSR_GLOBAL_STATUS), 2);
	is("IA32_PERF_GLOBAL_STATUS_SET refuses a reserved bit",
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
	is("the status shows that counters are frozen", rdmsr(MSR_GLOBAL_STATUS), CTR_FRZ | 1);
	wrmsr(MSR_GLOBAL_OVF_CTRL, CTR_FRZ | 1);
	is("counters count again when the freeze is reset", differs(1, 2, LOOP), 4000);
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
