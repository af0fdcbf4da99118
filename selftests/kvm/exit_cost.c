// SPDX-License-Identifier: GPL-2.0
/*
 * Counts the instructions that the host executes for a VM exit of a guest without events.
 *
 *	exit_cost
 *
 * prints a line for each kind of exit: its name, and the host's instructions per operation.
 * An operation is one exit and one entry, except for:
 *
 *	halt		an exit for the MSR that sets the timer, an exit for HLT, a sleep until
 *			the timer fires, and an exit for the MSR that ends the interrupt
 *	interrupt	the same, but the guest spins: the host's timer interrupt is an exit
 *	user-io		OUT to a port that the VMM handles: also a return to user space
 *
 * A counter of the host's CPU counts.  The figure is the least of ROUNDS, so that it has no
 * tick of the host's timer.  Needs root, a host with counters, and kvm.halt_poll_ns=0.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/param.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/perf_event.h>

#include "apic.h"
#include "kvm_util.h"
#include "processor.h"

#define ROUNDS		300
#define OPERATIONS	10
#define TIMER_VECTOR	0x40
#define TIMER_TICKS	20000
#define PIC_PORT	0x21
#define USER_PORT	0x80
/* Divide the clock of the APIC's timer by 1 (SDM volume 3A, Divide Configuration Register) */
#define TDCR_DIV_1	0xb
#ifndef APIC_LVTT
#define APIC_LVTT	0x320
#define APIC_TMICT	0x380
#define APIC_TDCR	0x3e0
#endif

enum kind { CPUID, READ_MSR, KERNEL_IO, USER_IO, HALT, INTERRUPT, NR_KINDS };

static const char *const names[] = {
	[CPUID] = "cpuid", [READ_MSR] = "msr", [KERNEL_IO] = "kernel-io",
	[USER_IO] = "user-io", [HALT] = "halt", [INTERRUPT] = "interrupt",
};

static volatile unsigned int fired;

static void timer_handler(struct ex_regs *regs)
{
	fired++;
	x2apic_write_reg(APIC_EOI, 0);
}

static void wait_for_timer(bool halt)
{
	unsigned int before = fired;

	x2apic_write_reg(APIC_TMICT, TIMER_TICKS);
	while (fired == before)
		if (halt)
			asm volatile("sti; hlt; cli");
		else
			asm volatile("sti; nop; cli");
}

static inline uint8_t in(uint16_t port)
{
	uint8_t value;

	asm volatile("inb %1, %0" : "=a"(value) : "Nd"(port));
	return value;
}

static void operation(enum kind kind)
{
	uint32_t eax = 0, ebx, ecx = 0, edx;

	switch (kind) {
	case CPUID:
		asm volatile("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
		break;
	case READ_MSR:
		rdmsr(MSR_IA32_APICBASE);
		break;
	case KERNEL_IO:
		in(PIC_PORT);
		break;
	case USER_IO:
		asm volatile("outb %%al, %0" : : "N"(USER_PORT), "a"(0));
		break;
	default:
		wait_for_timer(kind == HALT);
	}
}

/* Each round first makes no operations, and then OPERATIONS of them. */
static void guest_main(void)
{
	enum kind kind;
	int round, i;

	x2apic_enable();
	x2apic_write_reg(APIC_TDCR, TDCR_DIV_1);
	x2apic_write_reg(APIC_LVTT, TIMER_VECTOR);
	for (kind = 0; kind < NR_KINDS; kind++)
		for (round = 0; round < ROUNDS; round++) {
			GUEST_SYNC(0);
			GUEST_SYNC(0);
			for (i = 0; i < OPERATIONS; i++)
				operation(kind);
			GUEST_SYNC(0);
		}
	GUEST_DONE();
}

static int count_instructions(void)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr), .type = PERF_TYPE_HARDWARE,
		.config = PERF_COUNT_HW_INSTRUCTIONS, .pinned = 1,
		/* The guest spins until the timer fires: its instructions are not counted. */
		.exclude_guest = 1,
	};
	int fd = syscall(SYS_perf_event_open, &attr, -1, 0, -1, 0);

	TEST_ASSERT(fd >= 0, "perf_event_open: the host has no counter for instructions");
	return fd;
}

/* Runs the guest until its next GUEST_SYNC(), which has another port than USER_PORT. */
static uint64_t run(struct kvm_vcpu *vcpu, int fd)
{
	uint64_t count;
	struct ucall uc;

	do
		vcpu_run(vcpu);
	while (vcpu->run->exit_reason == KVM_EXIT_IO && vcpu->run->io.port == USER_PORT);
	TEST_ASSERT(read(fd, &count, sizeof(count)) == sizeof(count), "read");
	TEST_ASSERT(get_ucall(vcpu, &uc) == UCALL_SYNC, "the guest has ended");
	return count;
}

int main(void)
{
	struct kvm_vcpu *vcpu;
	struct kvm_vm *vm;
	enum kind kind;
	cpu_set_t cpus;
	int fd, round;

	CPU_ZERO(&cpus);
	CPU_SET(0, &cpus);
	TEST_ASSERT(!sched_setaffinity(0, sizeof(cpus), &cpus), "sched_setaffinity");
	fd = count_instructions();
	vm = vm_create_with_one_vcpu(&vcpu, guest_main);
	vm_init_descriptor_tables(vm);
	vcpu_init_descriptor_tables(vcpu);
	vm_install_exception_handler(vm, TIMER_VECTOR, timer_handler);
	for (kind = 0; kind < NR_KINDS; kind++) {
		uint64_t least_none = -1ull, least_some = -1ull;

		for (round = 0; round < ROUNDS; round++) {
			uint64_t start = run(vcpu, fd), none = run(vcpu, fd);
			uint64_t some = run(vcpu, fd);

			least_none = MIN(least_none, none - start);
			least_some = MIN(least_some, some - none);
		}
		printf("%s %.1f\n", names[kind],
		       (double)(least_some - least_none) / OPERATIONS);
	}
	kvm_vm_free(vm);
	return 0;
}
