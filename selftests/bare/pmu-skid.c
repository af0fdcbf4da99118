// SPDX-License-Identifier: GPL-2.0
/*
 * Test of overflows that interrupt SKID instructions late, on the bare machine
 * (run-bare --skid 20).
 */
#include "intel-pmu.h"

#define SKID	20

static void set_up(void)
{
	set_gate(2, on_nmi);
	set_up_machine();
	*APIC_SPURIOUS = 0x1ff;
}

/* Two counters of instructions: the first overflows after `left`, the second does not. */
static void start_at(u64 left)
{
	wrmsr(MSR_GLOBAL_CTRL, 0);
	wrmsr(MSR_GLOBAL_OVF_CTRL, CTR_FRZ | 1);
	*APIC_LVTPC = LVT_NMI;
	wrmsr(MSR_EVTSEL0, INSTRUCTIONS | INT);
	wrmsr(MSR_EVTSEL0 + 1, INSTRUCTIONS);
	wrmsr(MSR_FULL_PMC0, WIDTH_MASK + 1 - left);
	wrmsr(MSR_FULL_PMC0 + 1, 0);
}

/* The last instruction of the skid is before `late`.  REP is one with many iterations. */
extern char late[];

__attribute__((noipa))
static u64 overflow_before_rep(void)
{
	static char buffer[1000];
	void *to = buffer;
	u32 c = MSR_GLOBAL_CTRL;

	asm volatile("wrmsr; .rept 58; nop; .endr\n"
		     "	mov	%2, %1\n"
		     "	rep stosb\n"
		     "	.rept 10; nop; .endr\n"
		     "late:\n"
		     "	.rept 100; nop; .endr\n"
		     : "+D"(to), "+c"(c)
		     : "i"(sizeof(buffer)), "a"(1), "d"(0) : "memory");
	wrmsr(MSR_GLOBAL_CTRL, 0);
	return nmi_rip;
}

/* WRMSR, which starts the counters, is one instruction, HLT the tenth. */
#define BEFORE_HLT	9

__attribute__((noipa))
static void halt(void)
{
	asm volatile("wrmsr; .rept 8; nop; .endr; hlt"
		     : : "c"(MSR_GLOBAL_CTRL), "a"(3), "d"(0) : "memory");
}

int main(void)
{
	set_up();
	start_at(1 + 50);
	is("an overflow interrupts SKID instructions late", overflow(1, 0),
	   50 + SKID);
	is("a late overflow interrupts once", nmis, 1);
	start_at(1 + 50);
	is("REP is one of the instructions of the skid", overflow_before_rep(), (u64)late);

	nmis = 0;
	wrmsr(MSR_DEBUGCTL, FREEZE_PERFMON_ON_PMI);
	start_at(BEFORE_HLT - 5);
	halt();
	is("a HLT during the skid brings the interrupt on", nmis, 1);
	is("counters freeze at the HLT", rdmsr(MSR_PMC0 + 1), BEFORE_HLT);
	start_at(BEFORE_HLT + 1);
	halt();
	is("an overflow by HLT itself ends the HLT", nmis, 2);
	is("counters freeze after the HLT", rdmsr(MSR_PMC0 + 1),
	   BEFORE_HLT + 1);
	finish();
	return 0;
}
