// SPDX-License-Identifier: GPL-2.0
/*
 * On the bare machine (bare.h): the RIP that a page fault saves if it occurs when the
 * CPU fetches the first instruction of another fault's or an NMI's handler.
 */
#include "bare.h"

#define APIC_SPURIOUS	((volatile u32 *)0xfee000f0)
#define APIC_ICR	((volatile u32 *)0xfee00300)
/* An NMI to APIC 0, this CPU */
#define ICR_NMI		0x4400

/* After the mapped 4 GB */
#define HANDLER	0x140000000ul

static volatile u64 saved_rip, cr2;

/* Saves RIP, and returns from the first fault, 2 bytes later. */
asm("on_page_fault:\n"
	"	push	%rax\n"
	"	mov	16(%rsp), %rax\n"
	"	mov	%rax, saved_rip(%rip)\n"
	"	mov	%cr2, %rax\n"
	"	mov	%rax, cr2(%rip)\n"
	"	pop	%rax\n"
	/* the error code, 5 words, and a word for alignment */
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
	is("the handler's page causes a page fault", cr2, HANDLER);
	is("the page fault saves the handler's RIP", saved_rip, HANDLER);

	saved_rip = 0;
	*APIC_SPURIOUS = 0x1ff;
	asm volatile("movl	%1, %0\n"
		     "	xchg	%%ax, %%ax\n"	/* 2 bytes */
		     : "=m"(*APIC_ICR) : "i"(ICR_NMI) : "memory", "cc");
	is("the page fault saves the RIP of an NMI's handler", saved_rip, HANDLER);
	finish();
	return 0;
}
