/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The boot sector that enters a Linux kernel in long mode, by the 64-bit boot
 * protocol.  The kernel and its boot parameters are in memory already (see
 * selftests/vmlib/bochs.py), so that nothing has to be loaded or decompressed.
 */
#define BOOT_PARAMS	0x800000
#define ENTRY		(BOOT_PARAMS + 0x1ff8)
#define PAGE_TABLES	(BOOT_PARAMS + 0x2000)

	.code16
	.globl	_start
_start:	cli
	cld
	xorw	%ax, %ax
	movw	%ax, %ds
	movw	%ax, %es
	movw	%ax, %ss
	movw	$0x7c00, %sp
	inb	$0x92, %al			/* A20 */
	orb	$2, %al
	outb	%al, $0x92
	lgdtl	gdtr
	movl	%cr0, %eax
	orb	$1, %al				/* PE */
	movl	%eax, %cr0
	ljmpl	$0x08, $protected

	.code32
protected:
	movw	$0x18, %ax
	movw	%ax, %ds
	movw	%ax, %es
	movw	%ax, %ss
	movw	%ax, %fs
	movw	%ax, %gs
	movl	$PAGE_TABLES, %eax
	movl	%eax, %cr3
	movl	%cr4, %eax
	orl	$0x20, %eax			/* PAE */
	movl	%eax, %cr4
	movl	$0xc0000080, %ecx		/* EFER */
	rdmsr
	orl	$0x100, %eax			/* LME */
	wrmsr
	movl	%cr0, %eax
	orl	$0x80000000, %eax		/* PG */
	movl	%eax, %cr0
	ljmpl	$0x10, $long

	.code64
long:	movl	$BOOT_PARAMS, %esi
	jmp	*ENTRY

	.balign	8
gdt:	.quad	0
	.quad	0x00cf9a000000ffff		/* code, 32 bits */
	.quad	0x00af9a000000ffff		/* code, 64 bits */
	.quad	0x00cf92000000ffff		/* data */
gdtr:	.word	4 * 8 - 1
	.long	gdt

	.org	510
	.word	0xaa55
