// SPDX-License-Identifier: GPL-2.0
/* build: -O0 -g -static -no-pie */
/*
 * Causes exits of a guest from user mode, NUMBER of each KIND.  Needs root.
 *
 *	exits KIND NUMBER...
 *
 * KIND: cpuid; io: a write to port 0x80; mmio: a read of the registers of a TPM that the
 * machine does not have; hypercall: a hypercall that user mode may not make; halt: the CPU
 * is idle for a millisecond.
 */
#include <cpuid.h>
#include <err.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/io.h>
#include <sys/mman.h>
#include <unistd.h>

/* TCG PC Client platform TPM profile: locality 0. */
#define TPM		0xfed40000

static volatile unsigned int *tpm;
static bool is_intel;

static void do_cpuid(void)
{
	unsigned int eax = 0, ebx, ecx = 0, edx;

	asm volatile(".globl cpuid_instruction\ncpuid_instruction: cpuid"
		     : "+a" (eax), "=b" (ebx), "+c" (ecx), "=d" (edx));
}

static void do_io(void)
{
	asm volatile(".globl io_instruction\nio_instruction: outb %%al, $0x80"
		     : : "a" (0));
}

static void do_mmio(void)
{
	*tpm;
}

static void do_hypercall(void)
{
	long rax = 0x1000;

	if (is_intel)
		asm volatile("vmcall" : "+a" (rax) : : "memory");
	else
		asm volatile("vmmcall" : "+a" (rax) : : "memory");
}

static void do_halt(void)
{
	usleep(1000);
}

static const struct kind {
	const char *name;
	void (*once)(void);
} kinds[] = {
	{ "cpuid", do_cpuid },
	{ "io", do_io },
	{ "mmio", do_mmio },
	{ "hypercall", do_hypercall },
	{ "halt", do_halt },
};

static const struct kind *kind_of(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (!strcmp(kinds[i].name, name))
			return &kinds[i];
	errx(2, "no such kind: %s", name);
}

static void prepare(const char *name)
{
	int fd;

	if (!strcmp(name, "io") && ioperm(0x80, 1, 1))
		err(1, "ioperm");
	if (strcmp(name, "mmio"))
		return;

	fd = open("/dev/mem", O_RDWR | O_SYNC);
	if (fd < 0)
		err(1, "/dev/mem");
	tpm = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		       TPM);
	if (tpm == MAP_FAILED)
		err(1, "mmap");
	close(fd);
}

int main(int argc, char *argv[])
{
	unsigned int eax, ebx, ecx, edx;
	const struct kind *kind;
	long n;
	int i;

	__cpuid(0, eax, ebx, ecx, edx);
	is_intel = ebx == signature_INTEL_ebx;
	if (argc < 3 || argc % 2 == 0)
		errx(2, "usage: exits KIND NUMBER...");
	for (i = 1; i < argc; i += 2)
		prepare(argv[i]);
	for (i = 1; i < argc; i += 2) {
		kind = kind_of(argv[i]);
		for (n = atol(argv[i + 1]); n > 0; n--)
			kind->once();
	}
	return 0;
}
