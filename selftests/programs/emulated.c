// SPDX-License-Identifier: GPL-2.0
/* build: -g -static -no-pie */
/*
 * Executes instructions that a hypervisor completes for its guest, and counts in user mode.
 * Needs root.
 *
 *	emulated KIND NUMBER
 *
 * runs a loop with one instruction of this KIND for NUMBER turns, and prints the counts of
 * instructions and branches.
 *
 *	emulated rdpmc KIND NUMBER
 *
 * prints only the instructions, read by RDPMC right before and after the loop.
 *
 *	emulated run KIND NUMBER
 *
 * runs the loop without counting.
 *
 *	emulated msr
 *
 * reads 100 times an MSR that hypervisors intercept and 100 times an MSR that they do not
 * intercept, and prints the difference of the kernel's instructions.
 *
 * KIND: cpuid; in, out: a port; ins, outs: 8 bytes at a port; load, store: an address
 * without a device; vmcall, vmmcall: a hypercall that user mode may not make.  For a guest
 * with kvm.force_emulation_prefix=1: nop, jump and syscall, which KVM emulates.
 */
#include <err.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/io.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/perf_event.h>

/* TCG PC Client platform TPM profile: locality 0.  The machine has no TPM. */
#define TPM		0xfed40000

#define MSR_APICBASE	0x1b
#define MSR_STAR	0xc0000081

static volatile void *nowhere;
static char buffer[8];

/* The loop has two more instructions than @text, one of which is a branch. */
#define KIND(name, text)						\
static void do_##name(long n)						\
{									\
	asm volatile("1: " text "; dec %0; jnz 1b"			\
		     : "+r" (n) : "r" (nowhere), "r" (buffer)		\
		     : "rax", "rbx", "rcx", "rdx", "rsi", "rdi",	\
		       "r11", "cc", "memory");				\
}

/* KVM emulates an instruction with this prefix (handle_ud()). */
#define EMULATE		"ud2; .ascii \"kvm\"; "

KIND(cpuid, "xor %%eax, %%eax; .globl cpuid_instruction; cpuid_instruction: cpuid")
KIND(in, "in $0x61, %%al")
KIND(out, "out %%al, $0x80")
KIND(ins, "mov $8, %%ecx; mov $0x61, %%edx; mov %2, %%rdi; rep insb")
KIND(outs, "mov $8, %%ecx; mov $0x80, %%edx; mov %2, %%rsi; rep outsb")
KIND(load, "mov (%1), %%eax")
KIND(store, "movl $0, (%1)")
KIND(vmcall, "mov $0x1000, %%eax; vmcall")
KIND(vmmcall, "mov $0x1000, %%eax; vmmcall")
KIND(nop, EMULATE "nop")
KIND(jump, EMULATE "jmp 2f; 2:")
KIND(syscall, "mov $110, %%eax; " EMULATE "syscall")

static const struct kind {
	const char *name;
	void (*run)(long n);
} kinds[] = {
	{ "cpuid", do_cpuid },
	{ "in", do_in },
	{ "out", do_out },
	{ "ins", do_ins },
	{ "outs", do_outs },
	{ "load", do_load },
	{ "store", do_store },
	{ "vmcall", do_vmcall },
	{ "vmmcall", do_vmmcall },
	{ "nop", do_nop },
	{ "jump", do_jump },
	{ "syscall", do_syscall },
};

static const struct kind *kind_of(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (!strcmp(kinds[i].name, name))
			return &kinds[i];
	errx(2, "no such kind: %s", name);
}

static void prepare(void)
{
	int fd = open("/dev/mem", O_RDWR | O_SYNC);

	if (ioperm(0x61, 1, 1) || ioperm(0x80, 1, 1))
		err(1, "ioperm");
	if (fd < 0)
		err(1, "/dev/mem");
	nowhere = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, TPM);
	if (nowhere == MAP_FAILED)
		err(1, "mmap");
	close(fd);
	/* Fault the page in before the count. */
	*(volatile int *)nowhere;
}

static int count(unsigned int event, int user, int group)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_HARDWARE,
		.config = event,
		.disabled = group < 0,
		.exclude_kernel = user,
		.exclude_user = !user,
		.exclude_hv = 1,
		.read_format = PERF_FORMAT_GROUP,
	};
	int fd = syscall(SYS_perf_event_open, &attr, 0, -1, group, 0);

	if (fd < 0)
		err(1, "perf_event_open");
	return fd;
}

struct counts {
	uint64_t nr;
	uint64_t value[2];
};

/* The counts include the system calls around the loop. */
static struct counts count_run(const struct kind *kind, int fd, long n)
{
	struct counts counts;

	ioctl(fd, PERF_EVENT_IOC_RESET, PERF_IOC_FLAG_GROUP);
	ioctl(fd, PERF_EVENT_IOC_ENABLE, PERF_IOC_FLAG_GROUP);
	kind->run(n);
	ioctl(fd, PERF_EVENT_IOC_DISABLE, PERF_IOC_FLAG_GROUP);
	if (read(fd, &counts, sizeof(counts)) != sizeof(counts))
		err(1, "read");
	return counts;
}

static void count_kind(const struct kind *kind, long n)
{
	int fd = count(PERF_COUNT_HW_INSTRUCTIONS, 1, -1);
	struct counts one, all;

	count(PERF_COUNT_HW_BRANCH_INSTRUCTIONS, 1, fd);
	one = count_run(kind, fd, 1);
	all = count_run(kind, fd, n + 1);
	printf("%ld instructions, %ld branches\n",
	       (long)(all.value[0] - one.value[0]),
	       (long)(all.value[1] - one.value[1]));
}

/* As in linux/perf_event.h.  read_run() has the loop. */
static inline uint64_t read_counter(volatile struct perf_event_mmap_page *page)
{
	uint32_t low, high, index = page->index;
	uint64_t offset = page->offset;

	if (!index)
		errx(1, "no counter to be read");
	asm volatile("rdpmc" : "=a" (low), "=d" (high) : "c" (index - 1));
	return offset + ((int64_t)((uint64_t)high << 32 | low) << 16 >> 16);
}

static long read_run(const struct kind *kind,
		     volatile struct perf_event_mmap_page *page, long n)
{
	uint64_t before;
	uint32_t seq;
	long got;

	/* Repeat if the kernel has changed the page meanwhile. */
	do {
		seq = page->lock;
		before = read_counter(page);
		kind->run(n);
		got = read_counter(page) - before;
	} while (page->lock != seq);
	return got;
}

static void read_kind(const struct kind *kind, long n)
{
	int fd = count(PERF_COUNT_HW_INSTRUCTIONS, 1, -1);
	volatile struct perf_event_mmap_page *page;
	long one;

	page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		err(1, "mmap");
	ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
	one = read_run(kind, page, 1);
	printf("%ld instructions\n", read_run(kind, page, n + 1) - one);
}

/* Returns the least of many counts, because an interrupt adds to a count. */
static uint64_t count_msr(int fd, int msrs, uint32_t msr)
{
	uint64_t least = -1, value;
	struct counts counts;
	int i, j;

	for (i = 0; i < 30; i++) {
		ioctl(fd, PERF_EVENT_IOC_RESET, 0);
		for (j = 0; j < 100; j++)
			if (pread(msrs, &value, 8, msr) != 8)
				err(1, "MSR 0x%x", msr);
		if (read(fd, &counts, sizeof(counts)) < 16)
			err(1, "read");
		if (counts.value[0] < least)
			least = counts.value[0];
	}
	return least;
}

static void compare_msrs(void)
{
	int fd = count(PERF_COUNT_HW_INSTRUCTIONS, 0, -1);
	int msrs = open("/dev/cpu/0/msr", O_RDONLY);
	uint64_t intercepted;

	if (msrs < 0)
		err(1, "/dev/cpu/0/msr");
	ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
	intercepted = count_msr(fd, msrs, MSR_APICBASE);
	printf("%ld instructions\n",
	       (long)(intercepted - count_msr(fd, msrs, MSR_STAR)));
}

int main(int argc, char *argv[])
{
	if (argc == 2 && !strcmp(argv[1], "msr")) {
		compare_msrs();
		return 0;
	}

	prepare();
	if (argc == 3)
		count_kind(kind_of(argv[1]), atol(argv[2]));
	else if (argc == 4 && !strcmp(argv[1], "rdpmc"))
		read_kind(kind_of(argv[2]), atol(argv[3]));
	else if (argc == 4 && !strcmp(argv[1], "run"))
		kind_of(argv[2])->run(atol(argv[3]));
	else
		errx(2, "usage: emulated [rdpmc|run] KIND NUMBER | emulated msr");
	return 0;
}
