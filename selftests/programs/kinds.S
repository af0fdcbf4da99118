/* SPDX-License-Identifier: GPL-2.0 */
/* build: -nostdlib -static -no-pie -fno-stack-protector */
/*
 * Moves itself to CPU 0 and to CPU 1, ROUNDS times, and loops on each CPU. If it starts on
 * CPU 0, it moves 2 * ROUNDS - 1 times, and executes in user mode
 *
 *	6 + ROUNDS * (2 * LOOPS + 7) instructions on CPU 0,
 *	ROUNDS * (2 * LOOPS + 9) - 2 instructions on CPU 1.
 *
 * A system call counts on the CPU on which it begins.
 */
#define ROUNDS	51
#define LOOPS	5000

	.macro	move_to, mask
	mov	$203, %eax		# sched_setaffinity
	xor	%edi, %edi
	mov	$8, %esi
	mov	$\mask, %edx
	syscall
	.endm

	.macro	loop
	mov	$LOOPS, %ecx
1:	dec	%ecx
	jnz	1b
	.endm

	.globl	_start
_start:
	mov	$ROUNDS, %ebx
2:	move_to	cpu0
	or	%eax, %ebp
	loop
	move_to	cpu1
	or	%eax, %ebp
	loop
	dec	%ebx
	jnz	2b
	mov	%ebp, %edi
	mov	$60, %eax		# exit
	syscall

	.section .rodata
	.balign	8
cpu0:	.quad	1
cpu1:	.quad	2

	.section .note.GNU-stack, "", @progbits
