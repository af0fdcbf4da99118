// SPDX-License-Identifier: GPL-2.0
/*
 * On the bare machine (bare.h): what RIP a fault saves that is met as the first
 * instruction of another fault's handler is fetched, or of an NMI's.
 */
#include "bare.h"

#define APIC_SPURIOUS	((volatile u32 *)0xfee000f0)
#define APIC_ICR	((volatile u32 *)0xfee00300)
/* To APIC 0, which is this one */
#define ICR_NMI		0x4400

/* Behind the 4 GB that are mapped */
#define HANDLER	0x140000000ul

static volatile u64 saved_rip, cr2;

/* Notes RIP, and returns from the first one 2 bytes further. */
asm("on_page_fault:\n"
	"	push	%rax\n"
	"	mov	16(%rsp), %rax\n"
	"	mov	%rax, saved_rip(%rip)\n"
	"	mov	%cr2, %rax\n"
	"	mov	%rax, cr2(%rip)\n"
	"	pop	%rax\n"
	/* the error code and 5 words, and one that aligned them */
	"	add	$56, %rsp\n"
	"	addq	$2, (%rsp)\n"
	"	iretq\n");
void on_page_fault(void);

int main(void)
{
	set_gate(2, (void (*)(void))HANDLER);
	set_gate(6, (void (*)(void))HANDLER);
	set_gate(14, on_page_fault);
	set_up_machine();
	asm volatile("ud2" : : : "memory", "cc");
	is("the handler's page is not there", cr2, HANDLER);
	is("the page fault saves the handler's RIP", saved_rip, HANDLER);

	saved_rip = 0;
	*APIC_SPURIOUS = 0x1ff;
	asm volatile("movl	%1, %0\n"
		     "	xchg	%%ax, %%ax\n"	/* 2 bytes */
		     : "=m"(*APIC_ICR) : "i"(ICR_NMI) : "memory", "cc");
	is("and that of an NMI's handler", saved_rip, HANDLER);
	finish();
	return 0;
}
