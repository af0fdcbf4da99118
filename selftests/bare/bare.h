/* SPDX-License-Identifier: GPL-2.0 */
/*
 * For programs on the bare machine: machine/bochs/boot.S enters main() in long
 * mode, at CPL 0, with the first 4 GB mapped 1:1. A program prints TAP to the
 * serial port; finish() switches the machine off.
 */
#ifndef BARE_H
#define BARE_H

#include <stdbool.h>
#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

asm(".globl _start\n"
	"_start:\n"
	"	mov	$stack_end, %rsp\n"
	"	call	main\n"
	"1:	hlt\n"
	"	jmp	1b\n"
	".bss\n"
	"	.balign	16\n"
	"	.skip	16384\n"
	"stack_end:\n"
	".text\n");

static void outb(u16 port, u8 value)
{
	asm volatile("outb %0, %1" : : "a"(value), "Nd"(port));
}

static u8 inb(u16 port)
{
	u8 value;

	asm volatile("inb %1, %0" : "=a"(value) : "Nd"(port));
	return value;
}

static void print(const char *text)
{
	for (; *text; text++) {
		while (!(inb(0x3fd) & 0x20))
			;
		outb(0x3f8, *text);
	}
}

static void print_number(u64 n)
{
	char text[21], *p = text + 20;

	*p = 0;
	do
		*--p = '0' + n % 10;
	while (n /= 10);
	print(p);
}

static unsigned int results;

static void is(const char *name, u64 got, u64 want)
{
	if (got != want) {
		print("# got ");
		print_number(got);
		print(", want ");
		print_number(want);
		print("\nnot ");
	}
	print("ok ");
	print_number(++results);
	print(" ");
	print(name);
	print("\n");
}

static struct {
	u16 offset_low, selector, type, offset_middle;
	u32 offset_high, zero;
} idt[32];

static inline void set_gate(unsigned int vector, void (*handler)(void))
{
	u64 offset = (u64)handler;

	idt[vector].offset_low = offset;
	idt[vector].selector = 0x10;
	idt[vector].type = 0x8e00;
	idt[vector].offset_middle = offset >> 16;
	idt[vector].offset_high = offset >> 32;
}

/* Loads the IDT, and sets the serial port to 8 bits */
static void set_up_machine(void)
{
	struct {
		u16 limit;
		u64 base;
	} __attribute__((packed)) idtr = { sizeof(idt) - 1, (u64)idt };

	asm volatile("lidt %0" : : "m"(idtr));
	outb(0x3fb, 3);
}

static void finish(void)
{
	const char *off;

	print("1..");
	print_number(results);
	print("\n");
	while (!(inb(0x3fd) & 0x40))
		;
	for (off = "Shutdown"; *off; off++)
		outb(0x8900, *off);
}

#endif
