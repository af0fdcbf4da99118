// SPDX-License-Identifier: GPL-2.0
/*
 * perf's events, and the loops that the checks count and sample.
 */
#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "checks.h"

int open_attr(const struct perf_event_attr *attr, int group)
{
	return syscall(SYS_perf_event_open, attr, 0, -1, group, PERF_FLAG_FD_CLOEXEC);
}

int open_user(uint64_t config, int group, uint64_t read_format)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_HARDWARE,
		.config = config,
		.disabled = group < 0,
		.exclude_kernel = 1,
		.exclude_hv = 1,
		.read_format = read_format,
	};
	int fd = open_attr(&attr, group);

	if (fd < 0)
		impossible("perf opens no event %d: %s", (int)config, strerror(errno));
	return fd;
}

struct values read_group(int fd)
{
	struct values values = { 0 };

	if (read(fd, &values, sizeof(values)) < 0)
		impossible("read of an event: %s", strerror(errno));
	return values;
}

uint64_t read_one(int fd)
{
	uint64_t value = 0;

	if (read(fd, &value, sizeof(value)) < 0)
		impossible("read of an event: %s", strerror(errno));
	return value;
}

/*
 * The assembly contains the system calls.  Between them, each pass executes @text, DEC and
 * JNZ.  After the last pass, five instructions follow up to and including SYSCALL.
 */
#define LOOP(name, text, ...)							\
__attribute__((noinline)) void run_##name(int fd, unsigned long n)		\
{										\
	asm volatile("mov $16, %%eax; mov %[fd], %%edi; mov %[on], %%esi\n"	\
		     "mov $1, %%edx; syscall\n"					\
		     "1: " text "; dec %[n]; jnz 1b\n"				\
		     "mov $16, %%eax; mov %[fd], %%edi; mov %[off], %%esi\n"	\
		     "mov $1, %%edx; syscall\n"					\
		     : [n] "+r" (n)						\
		     : [fd] "r" (fd), [on] "i" (PERF_EVENT_IOC_ENABLE),		\
		       [off] "i" (PERF_EVENT_IOC_DISABLE)			\
		     : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r11", "cc",	\
		       "memory" __VA_ARGS__);					\
}

/* Each instruction has three bytes, so that an address gives its index. */
extern const char block_begin[], block_end[];

extern const char tight_begin[];

LOOP(tight, ".globl tight_begin; tight_begin:")
LOOP(block, ".globl block_begin, block_end; block_begin:"
	    ".rept 998; inc %%r8; .endr; block_end:")
LOOP(cpuid, "xor %%eax, %%eax; cpuid", , "rbx")
LOOP(out, "out %%al, $0x80")
/* sched_yield() */
LOOP(yield, "mov $24, %%eax; syscall")

int block_index(uint64_t ip)
{
	/* DEC and JNZ follow block_end. */
	if (ip < (uintptr_t)block_begin || ip > (uintptr_t)block_end + 3)
		return -1;
	return (ip - (uintptr_t)block_begin) / 3;
}

bool is_tight_branch(uint64_t ip)
{
	/* JNZ follows DEC, which has three bytes. */
	return ip == (uintptr_t)tight_begin + 3;
}

void map_ring(struct ring *ring, int fd)
{
	ring->tail = 0;
	ring->page = mmap(NULL, (RING_PAGES + 1) * 4096, PROT_READ | PROT_WRITE,
			  MAP_SHARED, fd, 0);
	if (ring->page == MAP_FAILED)
		impossible("mmap of an event: %s", strerror(errno));
}

void unmap_ring(struct ring *ring)
{
	munmap(ring->page, (RING_PAGES + 1) * 4096);
}

static void copy_out(struct ring *ring, uint64_t from, void *to, size_t size)
{
	const char *data = (const char *)ring->page + ring->page->data_offset;
	size_t i;

	for (i = 0; i < size; i++)
		((char *)to)[i] = data[(from + i) % ring->page->data_size];
}

/* For PERF_SAMPLE_IP without other fields. */
bool next_record(struct ring *ring, struct sample *sample)
{
	uint64_t head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
	struct perf_event_header header;

	if (ring->tail == head)
		return false;
	copy_out(ring, ring->tail, &header, sizeof(header));
	sample->type = header.type;
	sample->ip = 0;
	if (header.type == PERF_RECORD_SAMPLE)
		copy_out(ring, ring->tail + sizeof(header), &sample->ip,
			 sizeof(sample->ip));
	ring->tail += header.size;
	__atomic_store_n(&ring->page->data_tail, ring->tail, __ATOMIC_RELEASE);
	return true;
}

/* For PERF_SAMPLE_IP | PERF_SAMPLE_BRANCH_STACK: the address, a number, and the branches. */
bool next_branch_sample(struct ring *ring, struct branch_sample *sample)
{
	struct perf_event_header header;
	uint64_t begin;

	do {
		begin = ring->tail;
		if (begin == __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE))
			return false;
		copy_out(ring, begin, &header, sizeof(header));
		ring->tail += header.size;
	} while (header.type != PERF_RECORD_SAMPLE);

	begin += sizeof(header) + sizeof(uint64_t);
	copy_out(ring, begin, &sample->nr, sizeof(sample->nr));
	if (sample->nr > MAX_BRANCHES)
		impossible("a sample has %lu branches", sample->nr);
	copy_out(ring, begin + sizeof(sample->nr), sample->branch,
		 sample->nr * sizeof(sample->branch[0]));
	__atomic_store_n(&ring->page->data_tail, ring->tail, __ATOMIC_RELEASE);
	return true;
}

static double clock_seconds(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

double seconds(void)
{
	return clock_seconds(CLOCK_MONOTONIC);
}

double cpu_seconds(void)
{
	return clock_seconds(CLOCK_THREAD_CPUTIME_ID);
}

/* The time stamp counter, which has a constant rate. */
uint64_t cycles(void)
{
	uint32_t low, high;

	asm volatile("lfence; rdtsc" : "=a" (low), "=d" (high));
	return (uint64_t)high << 32 | low;
}
