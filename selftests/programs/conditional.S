/* SPDX-License-Identifier: GPL-2.0 */
/* build: -nostdlib -static -no-pie -fno-stack-protector */
/*
 * 2,000,000 conditional branches of all kinds, taken and not taken, and some instructions
 * that are conditional or branches, but not both.
 */
#include <sys/syscall.h>

	.globl	_start
	.text

_start:
	mov	$1000000, %ebx
1:	dec	%ebx
	jnz	1b

	# 50,000 rounds of 20
	mov	$50000, %ebx
2:	xor	%ecx, %ecx
	jrcxz	3f
	nop
3:	mov	$1, %ecx
	jrcxz	4f
4:	mov	$10, %ecx
5:	loop	5b
	mov	$3, %ecx
6:	cmp	%eax, %eax
	loope	6b
	mov	$3, %ecx
7:	test	%esp, %esp
	loopne	7b
	cmp	%eax, %eax
	jne	8f
	cmove	%eax, %edx
	sete	%dl
8:	jmp	9f
9:	call	10f
	dec	%ebx
	jnz	2b

	mov	$SYS_exit, %eax
	xor	%edi, %edi
	syscall

10:	ret
