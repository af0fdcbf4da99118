// SPDX-License-Identifier: GPL-2.0
/*
 * On the bare machine (bare.h): a SYSCALL with TF set causes a single-step trap behind it
 * only if IA32_FMASK leaves TF set.
 */
#include "bare.h"

#define MSR_EFER	0xc0000080
#define EFER_SCE	1
#define MSR_STAR	0xc0000081
#define MSR_LSTAR	0xc0000082
#define MSR_FMASK	0xc0000084
/* boot.S: code, and the stack's segment behind it */
#define KERNEL_CS	0x10ull
#define TF		0x100

static volatile u64 traps, first_rip;

static u64 rdmsr(u32 msr)
{
	u32 low, high;

	asm volatile("rdmsr" : "=a"(low), "=d"(high) : "c"(msr));
	return (u64)high << 32 | low;
}

static void wrmsr(u32 msr, u64 value)
{
	asm volatile("wrmsr" : : "c"(msr), "a"((u32)value), "d"((u32)(value >> 32)));
}

/* Counts the trap, notes the RIP of the first, and clears the interrupted TF. */
asm("on_trap:\n"
	"	push	%rax\n"
	"	cmpq	$0, traps(%rip)\n"
	"	jne	1f\n"
	"	mov	8(%rsp), %rax\n"
	"	mov	%rax, first_rip(%rip)\n"
	"1:	incq	traps(%rip)\n"
	"	andq	$~0x100, 24(%rsp)\n"
	"	pop	%rax\n"
	"	iretq\n"
	"on_syscall:\n"
	"	nop\n"
	"	jmp	*%rcx\n");
void on_trap(void);
void on_syscall(void);

/* POPF sets TF, so that SYSCALL is the first instruction that is stepped. */
__attribute__((noipa))
static void step_syscall(u64 fmask)
{
	traps = 0;
	first_rip = 0;
	wrmsr(MSR_FMASK, fmask);
	asm volatile("pushfq\n"
		     "	orq	$0x100, (%%rsp)\n"
		     "	popfq\n"
		     "	syscall\n"
		     : : : "rcx", "r11", "memory", "cc");
}

int main(void)
{
	set_gate(1, on_trap);
	set_up_machine();
	wrmsr(MSR_EFER, rdmsr(MSR_EFER) | EFER_SCE);
	wrmsr(MSR_STAR, KERNEL_CS << 32);
	wrmsr(MSR_LSTAR, (u64)on_syscall);

	step_syscall(0);
	is("a SYSCALL that leaves TF set causes one trap", traps, 1);
	is("the trap is behind the SYSCALL", first_rip, (u64)on_syscall);
	step_syscall(TF);
	is("a SYSCALL that clears TF causes no trap", traps, 0);
	finish();
	return 0;
}
