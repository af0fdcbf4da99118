/* SPDX-License-Identifier: GPL-2.0 */
/* build: -nostdlib -static -no-pie -fno-stack-protector */
/*
 * Two loops with known branches.  A turn of the first loop has seven branches: one of each
 * kind, and two returns.  A turn of the second loop has two branches, one of which enters
 * the kernel.  from_N is the address of branch N, and to_N is its target.
 */
#include <sys/syscall.h>

	.globl	_start
	.text

#define FROM(n)	.globl from_##n; from_##n:
#define TO(n)	.globl to_##n; to_##n:

_start:
	mov	$300000, %ebx
	lea	to_2(%rip), %r12
	lea	to_4(%rip), %r13
TO(6)
FROM(0)	call	to_0
	nop
FROM(2)	call	*%r12
	nop
FROM(4)	jmp	*%r13
	nop
TO(4)
	nop
FROM(5)	jmp	to_5
	nop
TO(5)
	dec	%ebx
FROM(6)	jnz	to_6

	mov	$20000, %ebx
TO(8)
	mov	$SYS_getppid, %eax
FROM(7)	syscall
	dec	%ebx
FROM(8)	jnz	to_8

	mov	$SYS_exit, %eax
	xor	%edi, %edi
	syscall

TO(0)
	nop
FROM(1)	ret

TO(2)
	nop
FROM(3)	ret
