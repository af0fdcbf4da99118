// SPDX-License-Identifier: GPL-2.0
/*
 * Test of the last branch records of the emulated Intel CPU, on the bare
 * machine (bare.h).
 */
#include "intel-pmu.h"

#define MSR_EFER	0xc0000080
#define MSR_STAR	0xc0000081
#define MSR_LSTAR	0xc0000082
#define EFER_SCE	1

/* The code segment of boot.S; the segments that SYSRET loads need not exist. */
#define CODE		0x10

#define PAGE_USER	4

#define KINDS	(JCC | NEAR_REL_CALL | NEAR_IND_CALL | NEAR_RET | \
		 NEAR_IND_JMP | NEAR_REL_JMP | FAR_BRANCH)
#define ONLY(kinds)	(KINDS & ~(kinds))

/* The branches of do_branches(), in order, and the filters that leave them out */
struct branch {
	u64 from, to, filters;
};
extern const struct branch __start_branches[], __stop_branches[];

#define TEXT(filters)	#filters
#define RECORD(from, to, filters) \
	"	.pushsection branches, \"a\"\n" \
	"	.quad	" from ", " to ", " TEXT(filters) "\n" \
	"	.popsection\n"

/* A branch from 1 to 2, which does not follow right after it */
#define BRANCH(instruction, filters) \
	RECORD("1f", "2f", filters) \
	"1:	" instruction "\n" \
	"	nop\n" \
	"2:\n"

/* A branch from 1 to the handler, and a branch from its end to 2: it continues at RAX. */
#define INTERRUPT(instruction) \
	RECORD("1f", "on_interrupt", FAR_BRANCH | CPL_EQ_0) \
	RECORD("interrupt_over", "2f", FAR_BRANCH | CPL_EQ_0) \
	"	mov	$2f, %%rax\n" \
	"1:	" instruction "\n" \
	"	nop\n" \
	"2:\n"

asm("on_interrupt:\n"
	"	mov	%rax, (%rsp)\n"
	"interrupt_over:\n"
	"	iretq\n");
void on_interrupt(void);

extern char behind_syscall[];

/* Takes fewer branches than there are records, which are at least 16. */
__attribute__((noipa))
static void do_branches(void)
{
	wrmsr(MSR_DEBUGCTL, LBR);
	asm volatile("	xor	%%ecx, %%ecx\n"
		     "	jnz	2f\n"		/* not taken */
		     BRANCH("jz	2f", JCC | CPL_EQ_0)
		     BRANCH("jrcxz	2f", JCC | CPL_EQ_0)
		     BRANCH("call	2f", NEAR_REL_CALL | CPL_EQ_0)
		     "	mov	$2f, %%rax\n"
		     BRANCH("call	*%%rax", NEAR_IND_CALL | CPL_EQ_0)
		     "	movq	$2f, (%%rsp)\n"	/* not the call's return address */
		     BRANCH("ret", NEAR_RET | CPL_EQ_0)
		     "	pop	%%rax\n"	/* of the first call */
		     "	mov	$2f, %%rax\n"
		     BRANCH("jmp	*%%rax", NEAR_IND_JMP | CPL_EQ_0)
		     BRANCH("jmp	2f", NEAR_REL_JMP | CPL_EQ_0)
		     "	push	%0\n"
		     "	push	$2f\n"
		     BRANCH("lretq", FAR_BRANCH | CPL_EQ_0)
		     INTERRUPT("int	$31")
		     INTERRUPT("ud2")
		     "	mov	$2f, %%rcx\n"
		     "	mov	$2, %%r11d\n"	/* RFLAGS */
		     BRANCH("sysretq", FAR_BRANCH | CPL_NEQ_0)
		     BRANCH("jmp	2f", NEAR_REL_JMP | CPL_NEQ_0)
		     BRANCH("syscall", FAR_BRANCH | CPL_EQ_0)
		     "behind_syscall:\n"
		     : : "i"(CODE) : "rax", "rcx", "r11", "memory", "cc");
	wrmsr(MSR_DEBUGCTL, 0);
}

/* Allows CPL 3 to access the page of `address`, which has 2 MB */
static void map_for_user(u64 address)
{
	u64 *table, cr3;
	int shift;

	asm volatile("mov %%cr3, %0" : "=r"(cr3));
	table = (u64 *)cr3;
	for (shift = 39; shift >= 21; shift -= 9) {
		u64 *entry = &table[address >> shift & 511];

		*entry |= PAGE_USER;
		table = (u64 *)(*entry & ~0xfffULL);
	}
	asm volatile("mov %0, %%cr3" : : "r"(cr3) : "memory");
}

static volatile unsigned int debugs;

asm("on_debug:\n"
	"	andl	$~0x100, 16(%rsp)\n"	/* TF */
	"	incl	debugs(%rip)\n"
	"	iretq\n");
void on_debug(void);

static void set_up(void)
{
	set_gate(1, on_debug);
	set_gate(2, on_nmi);
	set_gate(6, on_interrupt);
	set_gate(31, on_interrupt);
	set_up_machine();
	*APIC_SPURIOUS = 0x1ff;
	map_for_user((u64)behind_syscall);
	wrmsr(MSR_EFER, rdmsr(MSR_EFER) | EFER_SCE);
	wrmsr(MSR_STAR, (u64)CODE << 48 | (u64)CODE << 32);
	wrmsr(MSR_LSTAR, (u64)behind_syscall);
}

/* The branches that LBR_SELECT does not leave out, one bit each */
static u64 unfiltered(u32 select)
{
	const struct branch *b;
	u64 bits = 0;

	for (b = __start_branches; b < __stop_branches; b++)
		if (!(b->filters & select))
			bits |= 1ULL << (b - __start_branches);
	return bits;
}

/* The recorded branches; all bits if any other branch is recorded */
static u64 recorded(u32 select)
{
	const struct branch *b;
	u64 bits = 0, last;
	u32 n = 1;

	wrmsr(MSR_LBR_SELECT, select);
	wrmsr(MSR_LBR_TOS, 0);
	do_branches();
	last = rdmsr(MSR_LBR_TOS);
	for (b = __start_branches; b < __stop_branches && n <= last; b++) {
		if (rdmsr(MSR_LBR_FROM0 + n) != b->from ||
		    rdmsr(MSR_LBR_TO0 + n) != b->to)
			continue;
		bits |= 1ULL << (b - __start_branches);
		n++;
	}
	return n > last ? bits : ~0ULL;
}

static void test_filters(void)
{
	static const struct {
		const char *name;
		u32 select;
	} cases[] = {
		{ "all branches that are taken are recorded", 0 },
		{ "none that ends at CPL 0", CPL_EQ_0 },
		{ "none that ends at CPL 3", CPL_NEQ_0 },
		{ "no conditional one", JCC },
		{ "nothing but conditional ones", ONLY(JCC) },
		{ "no relative call", NEAR_REL_CALL },
		{ "nothing but relative calls", ONLY(NEAR_REL_CALL) },
		{ "no indirect call", NEAR_IND_CALL },
		{ "nothing but indirect calls", ONLY(NEAR_IND_CALL) },
		{ "no return", NEAR_RET },
		{ "nothing but returns", ONLY(NEAR_RET) },
		{ "no indirect jump", NEAR_IND_JMP },
		{ "nothing but indirect jumps", ONLY(NEAR_IND_JMP) },
		{ "no relative jump", NEAR_REL_JMP },
		{ "nothing but relative jumps", ONLY(NEAR_REL_JMP) },
		{ "nothing far", FAR_BRANCH },
		{ "nothing but what is far", ONLY(FAR_BRANCH) },
	};
	unsigned int n;

	for (n = 0; n < sizeof(cases) / sizeof(*cases); n++)
		is(cases[n].name, recorded(cases[n].select),
		   unfiltered(cases[n].select));
}

/* The last call has returned, the call before has not. */
static void test_call_stack(void)
{
	u32 select = ONLY(NEAR_REL_CALL | NEAR_IND_CALL | NEAR_RET);

	is("the records have calls and returns", recorded(select), unfiltered(select));
	is("in call-stack mode a return removes its call",
	   recorded(select | EN_CALLSTACK), unfiltered(ONLY(NEAR_REL_CALL)));
}

static void test_freeze(void)
{
	u64 tos = rdmsr(MSR_LBR_TOS);

	all_off();
	*APIC_LVTPC = LVT_NMI;
	wrmsr(MSR_LBR_SELECT, ONLY(NEAR_REL_CALL));
	wrmsr(MSR_DEBUGCTL, LBR | FREEZE_LBRS_ON_PMI);
	wrmsr(MSR_EVTSEL0, INSTRUCTIONS | INT);
	wrmsr(MSR_FULL_PMC0, WIDTH_MASK + 1 - 51);
	overflow(1, 0);
	is("the records freeze on the interrupt, whose handler has a call",
	   rdmsr(MSR_LBR_TOS), tos);
	if (version() >= 4)
		is("the status shows that the records are frozen", rdmsr(MSR_GLOBAL_STATUS),
		   LBR_FRZ | 1);
	else
		is("DEBUGCTL shows that the records are off", rdmsr(MSR_DEBUGCTL),
		   FREEZE_LBRS_ON_PMI);
	wrmsr(MSR_DEBUGCTL, 0);
	all_off();
}

static void test_debug_exception(void)
{
	u64 tos = rdmsr(MSR_LBR_TOS);

	wrmsr(MSR_LBR_SELECT, ONLY(FAR_BRANCH));
	wrmsr(MSR_DEBUGCTL, LBR | BTF);
	asm volatile("pushf\n"
		     "orl	$0x100, (%%rsp)\n"
		     "popf\n"
		     "nop" : : : "memory", "cc");
	is("a single step causes a debug exception", debugs, 1);
	is("the debug exception switches the records and BTF off", rdmsr(MSR_DEBUGCTL),
	   0);
	is("the debug exception is not recorded", rdmsr(MSR_LBR_TOS), tos);
	wrmsr(MSR_DEBUGCTL, 0);
}

int main(void)
{
	set_up();
	test_filters();
	test_call_stack();
	test_freeze();
	test_debug_exception();
	finish();
	return 0;
}
