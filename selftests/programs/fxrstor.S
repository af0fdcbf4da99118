/* SPDX-License-Identifier: GPL-2.0 */
/* build: -nostdlib -static -no-pie -fno-stack-protector */
/* Restores its FPU state as fast as possible, until it is killed. */
	.globl	_start
_start:
	fxsave	state(%rip)
1:	fxrstor	state(%rip)
	jmp	1b

	.bss
	.balign	16
state:	.skip	512

	.section .note.GNU-stack, "", @progbits
