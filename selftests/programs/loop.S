/* SPDX-License-Identifier: GPL-2.0 */
/* build: -nostdlib -static -no-pie -fno-stack-protector */
/*
 * Executes exactly 2 * LOOPS + 4 instructions in user mode, including the system
 * call that ends the program.  LOOPS of them are conditional branches.
 */
#ifndef LOOPS
#define LOOPS 5000000
#endif
	.globl	_start
_start:
	mov	$LOOPS, %ecx
1:	dec	%ecx
	jnz	1b
	xor	%edi, %edi
	mov	$60, %eax		# exit(0)
	syscall

	.section .note.GNU-stack, "", @progbits
