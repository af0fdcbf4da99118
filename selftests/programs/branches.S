/* SPDX-License-Identifier: GPL-2.0 */
/* build: -nostdlib -static -no-pie -fno-stack-protector */
/*
 * Two loops whose branches are known, for their records: seven in a turn of the first,
 * of each kind one, and of returns two; two in a turn of the second, one of which
 * enters the kernel.  The symbols of branches begin with from_, those of where they go
 * with to_, and then their number, in order.
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
