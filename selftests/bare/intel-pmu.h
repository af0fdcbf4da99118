/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The performance counters of an Intel CPU and their interrupts, which are NMIs,
 * for programs on the bare machine (bare.h).
 */
#ifndef INTEL_PMU_H
#define INTEL_PMU_H

#include "bare.h"

#define APIC_LVTPC	((volatile u32 *)0xfee00340)
#define APIC_SPURIOUS	((volatile u32 *)0xfee000f0)
#define LVT_NMI		0x400
#define LVT_MASKED	0x10000

#define MSR_PMC0		0xc1
#define MSR_EVTSEL0		0x186
#define MSR_MISC_ENABLE		0x1a0
#define MSR_LBR_SELECT		0x1c8
#define MSR_LBR_TOS		0x1c9
#define MSR_DEBUGCTL		0x1d9
#define MSR_FIXED0		0x309
#define MSR_PERF_METRICS	0x329
#define MSR_PERF_CAPABILITIES	0x345
#define MSR_FIXED_CTRL		0x38d
#define MSR_GLOBAL_STATUS	0x38e
#define MSR_GLOBAL_CTRL		0x38f
#define MSR_GLOBAL_OVF_CTRL	0x390
#define MSR_GLOBAL_STATUS_SET	0x391
#define MSR_FULL_PMC0		0x4c1
#define MSR_LBR_FROM0		0x680
#define MSR_LBR_TO0		0x6c0

#define UMASK(n) ((n) << 8)
#define USR	(1 << 16)
#define OS	(1 << 17)
#define EDGE	(1 << 18)
#define INT	(1 << 20)
#define EN	(1 << 22)
#define INV	(1 << 23)
#define CMASK(n) ((n) << 24)

#define INSTRUCTIONS	(0xc0 | OS | EN)
#define CYCLES		(0x3c | OS | EN)
#define BRANCHES	(0xc4 | OS | EN)
#define NOT_MODELLED	(0x2e | OS | EN)

#define WIDTH_MASK	((1ULL << 48) - 1)
#define PERF_METRICS	(1ULL << 48)
#define LBR_FRZ		(1ULL << 58)
#define CTR_FRZ		(1ULL << 59)
#define OVF_BUF		(1ULL << 62)
#define COND_CHGD	(1ULL << 63)

/* The index of the metrics for RDPMC */
#define RDPMC_METRICS		(1 << 29)

/* MISC_ENABLE */
#define PERFMON_AVAILABLE	(1 << 7)
#define BTS_UNAVAILABLE		(1 << 11)
#define PEBS_UNAVAILABLE	(1 << 12)

/* DEBUGCTL */
#define LBR			(1 << 0)
#define BTF			(1 << 1)
#define FREEZE_LBRS_ON_PMI	(1 << 11)
#define FREEZE_PERFMON_ON_PMI	(1 << 12)
#define FREEZE_WHILE_SMM	(1 << 14)

/* LBR_SELECT: branches that are not recorded; CPL is the level at the branch's target */
#define CPL_EQ_0	(1 << 0)
#define CPL_NEQ_0	(1 << 1)
#define JCC		(1 << 2)
#define NEAR_REL_CALL	(1 << 3)
#define NEAR_IND_CALL	(1 << 4)
#define NEAR_RET	(1 << 5)
#define NEAR_IND_JMP	(1 << 6)
#define NEAR_REL_JMP	(1 << 7)
#define FAR_BRANCH	(1 << 8)
/* The call-stack mode, unlike the other bits */
#define EN_CALLSTACK	(1 << 9)

static u64 rdmsr(u32 msr)
{
	u32 low, high;

	asm volatile("rdmsr" : "=a"(low), "=d"(high) : "c"(msr));
	return low | (u64)high << 32;
}

static void wrmsr(u32 msr, u64 value)
{
	asm volatile("wrmsr" : : "c"(msr), "a"((u32)value),
		     "d"((u32)(value >> 32)) : "memory");
}

struct cpuid {
	u32 a, b, c, d;
};

static inline struct cpuid cpuid(u32 leaf)
{
	struct cpuid r = { .a = leaf };

	asm volatile("cpuid" : "+a"(r.a), "=b"(r.b), "+c"(r.c), "=d"(r.d));
	return r;
}

static inline u32 version(void)
{
	return cpuid(10).a & 0xff;
}

static inline void all_off(void)
{
	int n;

	wrmsr(MSR_GLOBAL_CTRL, 0);
	wrmsr(MSR_FIXED_CTRL, 0);
	for (n = 0; n < 4; n++)
		wrmsr(MSR_EVTSEL0 + n, 0);
	wrmsr(MSR_GLOBAL_OVF_CTRL, rdmsr(MSR_GLOBAL_STATUS));
}

static volatile unsigned int nmis;
static volatile u64 nmi_rip;

__attribute__((used)) static void handle_nmi(u64 rip)
{
	nmis++;
	nmi_rip = rip;
}

asm("on_nmi:\n"
	"	push	%rax; push %rcx; push %rdx; push %rsi; push %rdi\n"
	"	push	%r8; push %r9; push %r10; push %r11\n"
	"	mov	72(%rsp), %rdi\n"
	"	cld\n"
	"	call	handle_nmi\n"
	"	pop	%r11; pop %r10; pop %r9; pop %r8\n"
	"	pop	%rdi; pop %rsi; pop %rdx; pop %rcx; pop %rax\n"
	"	iretq\n");
void on_nmi(void);

/* Overflows a counter of instructions; returns the number of NOPs before the interrupt */
extern char overflow_enabled[];

__attribute__((noipa))
static u64 overflow(u64 global, u64 extra)
{
	asm volatile("	wrmsr\n"
		     "overflow_enabled:\n"
		     "	.rept 200; nop; .endr\n"
		     : : "c"(MSR_GLOBAL_CTRL), "a"((u32)(global | extra)),
			 "d"((u32)(global >> 32)) : "memory");
	wrmsr(MSR_GLOBAL_CTRL, 0);
	return nmi_rip - (u64)overflow_enabled;
}

#endif
