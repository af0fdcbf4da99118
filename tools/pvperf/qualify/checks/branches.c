// SPDX-License-Identifier: GPL-2.0
/*
 * Check of branch records: are all their addresses the guest's?
 *
 * The host writes the records of each overflow to the guest's area.  The driver shows the
 * area in debugfs.  perf would drop branches that are not of the guest's own code.
 *
 * This program is the only program of the guest.  So an address of user mode has to be in its
 * text or in the vDSO, and an address of the kernel has to be in the text of the kernel or of
 * a module.  The host's kvm is a module, so its addresses are where this guest has modules, or
 * where it has nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/io.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "checks.h"

#define AREA		"/sys/kernel/debug/kvm_pmu/area"
#define AREA_BRANCHES	1040

/*
 * The driver's handler executes hundreds of branches, which count.  With a shorter period it
 * would be interrupted again and again.
 */
#define PERIOD		2003

/* As from nr_branches on in struct guest_perf_area */
struct branches {
	uint32_t nr;
	uint32_t reserved;
	struct branch branch[MAX_BRANCHES];
};

struct range {
	uint64_t begin;
	uint64_t end;
};

/* Text that the guest may execute. */
static struct range ranges[32];
static unsigned int nr_ranges;

/* The linker's symbols of this program's text. */
extern const char __executable_start[], etext[];

static void add_range(uint64_t begin, uint64_t end)
{
	if (nr_ranges == ARRAY_SIZE(ranges) || begin >= end)
		impossible("the guest's text is not known");
	ranges[nr_ranges++] = (struct range) { begin, end };
}

static void add_kernel(void)
{
	FILE *file = fopen("/proc/kallsyms", "r");
	uint64_t address, begin = 0, end = 0;
	char line[512], name[128];

	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%lx %*c %127s", &address, name) != 2)
			continue;
		if (!strcmp(name, "_stext"))
			begin = address;
		else if (!strcmp(name, "_etext"))
			end = address;
		if (begin && end)
			break;
	}
	if (file)
		fclose(file);
	add_range(begin, end);
}

static void add_modules(void)
{
	FILE *file = fopen("/proc/modules", "r");
	uint64_t address;
	unsigned long size;
	char line[512];

	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%*s %lu %*u %*s %*s %lx", &size, &address) == 2)
			add_range(address, address + size);
	}
	if (file)
		fclose(file);
}

static void find_text(void)
{
	uint64_t vdso = getauxval(AT_SYSINFO_EHDR);

	add_range((uintptr_t)__executable_start, (uintptr_t)etext);
	if (vdso)
		add_range(vdso, vdso + 2 * 4096);
	add_kernel();
	add_modules();
}

static bool is_own(uint64_t address)
{
	unsigned int i;

	for (i = 0; i < nr_ranges; i++) {
		if (address >= ranges[i].begin && address < ranges[i].end)
			return true;
	}
	return false;
}

static bool is_kernel(uint64_t address)
{
	return address >> 63;
}

struct found {
	unsigned long overflows;
	unsigned long records;
	unsigned long kernel;		/* records with an address of this kernel */
	unsigned long foreign;		/* records with an address that is not the guest's */
	unsigned long foreign_kernel;	/* of those: in the kernel's half */
};

static void look_at(const struct branch *branch, struct found *found)
{
	bool from = is_own(branch->from), to = is_own(branch->to);

	found->records++;
	found->kernel += is_kernel(branch->from) || is_kernel(branch->to);
	if (from && to)
		return;
	found->foreign++;
	found->foreign_kernel += (!from && is_kernel(branch->from)) ||
				 (!to && is_kernel(branch->to));
}

/*
 * Looks at the records if the host has written others.  The handler of the overflow sets
 * nr_branches to 0, and leaves the records.
 */
static void look(int area, struct branches *last, struct found *found)
{
	struct branches now = { 0 };
	int i;

	if (pread(area, &now, sizeof(now), AREA_BRANCHES) != sizeof(now))
		impossible("the driver's area cannot be read");
	if (!memcmp(now.branch, last->branch, sizeof(now.branch)))
		return;
	*last = now;
	found->overflows++;
	for (i = 0; i < MAX_BRANCHES; i++) {
		if (now.branch[i].from || now.branch[i].to)
			look_at(&now.branch[i], found);
	}
}

/* Executes many branches, and causes a VM exit for a reason that depends on @turn. */
static void work(int fd, unsigned int turn)
{
	struct timespec moment = { .tv_nsec = 1000 };
	char *page;

	run_tight(-1, 8 + turn % 16);
	switch (turn % 8) {
	case 0:
		run_cpuid(-1, 1);
		break;
	case 1:
		run_out(-1, 1);
		break;
	case 2:		/* an MSR for the timer, and HLT */
		if (turn % 64 == 2)
			nanosleep(&moment, NULL);
		break;
	case 3:		/* perhaps memory that the host has not given yet */
		page = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (page != MAP_FAILED) {
			*(volatile char *)page = 1;
			munmap(page, 4096);
		}
		break;
	case 4:		/* a hypercall */
		read_one(fd);
		break;
	case 5:
		run_yield(-1, 1);
		break;
	default:	/* only interrupts */
		break;
	}
}

static int open_branches(uint64_t period, bool kernel)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_HARDWARE,
		.config = PERF_COUNT_HW_BRANCH_INSTRUCTIONS,
		.sample_period = period,
		.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_BRANCH_STACK,
		.branch_sample_type = PERF_SAMPLE_BRANCH_ANY | PERF_SAMPLE_BRANCH_USER |
				      (kernel ? PERF_SAMPLE_BRANCH_KERNEL : 0),
		.disabled = 1,
		.exclude_kernel = !kernel,
		.exclude_hv = 1,
	};

	return open_attr(&attr, -1);
}

/* What perf makes of the records: the branches of a loop, natively and in the guest. */
static void sample_loop(unsigned long *samples, unsigned long *branches,
			unsigned long *outside)
{
	struct branch_sample sample;
	struct ring ring;
	int fd = open_branches(1009, false);
	unsigned int i;

	if (fd < 0)
		impossible("perf records no branches here: %s", strerrorname_np(errno));
	map_ring(&ring, fd);
	run_tight(fd, 200000);
	while (next_branch_sample(&ring, &sample)) {
		++*samples;
		*branches += sample.nr;
		for (i = 0; i < sample.nr; i++)
			*outside += !is_tight_branch(sample.branch[i].from);
	}
	unmap_ring(&ring);
	close(fd);
}

/* The time for the records, in seconds of this task. */
#define MOST_SECONDS	60

void check_branches(void)
{
	long wanted = in_guest ? number_of_command_line("qualify.records=") : 0;
	unsigned long samples = 0, branches = 0, outside = 0;
	struct branches last = { 0 };
	struct found found = { 0 };
	double began = cpu_seconds();
	unsigned int turn = 0;
	int area, fd;

	sample_loop(&samples, &branches, &outside);
	if (in_guest) {
		find_text();
		area = open(AREA, O_RDONLY);
		fd = open_branches(PERIOD, true);
		if (area < 0 || fd < 0 || ioperm(0x80, 1, 1))
			impossible("the records cannot be read: %s", strerrorname_np(errno));
		on_host("spin");
		ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
		while ((long)found.records < wanted && cpu_seconds() - began < MOST_SECONDS) {
			work(fd, turn++);
			look(area, &last, &found);
		}
		ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
		on_host("spin no more");
	}
	say("\"samples\": %lu, \"branches\": %lu, \"outside\": %lu, \"overflows\": %lu, "
	    "\"records\": %lu, \"wanted\": %ld, \"kernel\": %lu, \"foreign\": %lu, "
	    "\"foreign kernel\": %lu", samples, branches, outside, found.overflows,
	    found.records, wanted, found.kernel, found.foreign, found.foreign_kernel);
}
