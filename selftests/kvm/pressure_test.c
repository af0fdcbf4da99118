// SPDX-License-Identifier: GPL-2.0
/*
 * Tests records whose memory the VMM or the host changes: ballooning, swapping,
 * migration, another mapping, read-only memory, dirty logging.
 *
 * The records are in a memory slot of their own, to which only the host writes.
 * Needs swap.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/kvm_para.h>

#include "kselftest.h"
#include "guest_perf.h"

#define PERIOD		20000
#define BURN		(10 * PERIOD)

/* Pages of the slot: the record of a counting event, of a sampling event; unused. */
#define SLOT		10
#define SLOT_GPA	0x40000000ull
#define PAGE		4096ul
#define COUNTS		0
#define SAMPLES		1
#define UNUSED		2
#define SLOT_SIZE	(3 * PAGE)

/* Linux 6.1's headers define this, but the C library's headers may not. */
#ifndef MADV_SOFT_OFFLINE
#define MADV_SOFT_OFFLINE	101
#endif

static struct kvm_vcpu *vcpus[GUEST_PERF_VCPUS];
static struct guest_perf_shared *area;
static struct kvm_vm *vm;
static char *memory;
static uint64_t rounds;

/*
 * The guest
 */

static void guest_start(uint32_t page, uint64_t period)
{
	struct guest_perf_event_param *param = &guest_area->vcpu[0].param;
	struct guest_perf_attr *attr = &guest_area->vcpu[0].attr;

	*attr = (struct guest_perf_attr) {
		.size		= sizeof(*attr),
		.type		= KVM_PERF_TYPE_HARDWARE,
		.config		= PERF_COUNT_HW_INSTRUCTIONS,
		.sample_period	= period,
	};
	*param = (struct guest_perf_event_param) {
		.attr_addr	= guest_perf_gpa(attr),
		.event_addr	= SLOT_GPA + page * PAGE,
		.id		= page,
	};
	GUEST_ASSERT_EQ(guest_perf_addr_op(KVM_PERF_OP_OPEN, param, 0), 0);
	GUEST_ASSERT_EQ(guest_perf_op(KVM_PERF_OP_ENABLE, page, 0), 0);
}

/* In a round an event overflows, and the VMM gets the result of a READ. */
static void guest_main(int vcpu)
{
	guest_start(COUNTS, 0);
	guest_start(SAMPLES, PERIOD);
	for (;;) {
		guest_perf_burn(BURN);
		GUEST_SYNC(guest_perf_op(KVM_PERF_OP_READ, COUNTS, 0));
	}
}

/*
 * The VMM
 */

static struct guest_perf_event *record(unsigned int page)
{
	return (struct guest_perf_event *)(memory + page * PAGE);
}

/* Runs a round of the guest; returns the result of READ. */
static long round_of_guest(void)
{
	struct ucall uc;

	if (guest_perf_run(vcpus[0], &uc) != UCALL_SYNC)
		ksft_exit_fail_msg("the guest has ended\n");
	rounds++;
	return uc.args[1];
}

static void is(const char *what, long got, long want)
{
	if (got != want)
		ksft_print_msg("%s: %ld, not %ld\n", what, got, want);
	ksft_test_result(got == want, "%s\n", what);
}

/* The count has all of the guest's instructions, also from while a write failed. */
static bool counts_all(void)
{
	uint64_t executed = rounds * 2 * BURN;
	uint64_t count = record(COUNTS)->count;

	if (count >= executed && count < executed + rounds * 2000)
		return true;

	ksft_print_msg("counted %lu of %lu\n", count, executed);
	return false;
}

static void check_works(const char *what)
{
	long ret;

	record(SAMPLES)->overflows = 0;
	ret = round_of_guest();
	if (ret)
		ksft_print_msg("READ answers %ld\n", ret);
	ksft_test_result(!ret && counts_all(), "%s: READ writes the whole count\n",
			 what);
	ksft_test_result(record(SAMPLES)->overflows >= 2 * BURN / PERIOD - 1,
			 "%s: the host delivers overflows\n", what);
}

static void check_fails(const char *what)
{
	long ret = round_of_guest();

	if (ret != -KVM_EFAULT)
		ksft_print_msg("READ answers %ld\n", ret);
	ksft_test_result(ret == -KVM_EFAULT, "%s: READ answers -KVM_EFAULT\n",
			 what);
}

/* Entries of /proc/PID/pagemap: Documentation/admin-guide/mm/pagemap.rst. */
#define PAGEMAP_PFN(entry)	((entry) & ((1ull << 55) - 1))
#define PAGEMAP_SWAPPED(entry)	((entry) >> 62 & 1)

static uint64_t pagemap(unsigned int page)
{
	off_t offset = (uintptr_t)record(page) / PAGE * sizeof(uint64_t);
	int fd = open("/proc/self/pagemap", O_RDONLY);
	uint64_t entry;

	if (pread(fd, &entry, sizeof(entry), offset) != sizeof(entry))
		ksft_exit_fail_msg("pagemap: %s\n", strerror(errno));
	close(fd);
	return entry;
}

static void advise(unsigned int page, int advice)
{
	if (madvise(record(page), PAGE, advice))
		ksft_exit_fail_msg("madvise %d: %s\n", advice, strerror(errno));
}

static char *map(void *where, int prot)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | (where ? MAP_FIXED : 0);
	char *p = mmap(where, SLOT_SIZE, prot, flags, -1, 0);

	if (p == MAP_FAILED)
		ksft_exit_fail_msg("mmap: %s\n", strerror(errno));
	return p;
}

static void set_slot(uint32_t flags, uint64_t size)
{
	vm_set_user_memory_region(vm, SLOT, flags, SLOT_GPA, size, memory);
}

static void test_balloon(void)
{
	advise(COUNTS, MADV_DONTNEED);
	advise(SAMPLES, MADV_DONTNEED);
	check_works("ballooned away");
}

static int swapped_pages(void)
{
	return PAGEMAP_SWAPPED(pagemap(COUNTS)) +
	       PAGEMAP_SWAPPED(pagemap(SAMPLES));
}

/* Repeat, because madvise skips a page that compaction has just isolated. */
static void swap_out(void)
{
	int tries;

	for (tries = 0; tries < 50 && swapped_pages() < 2; tries++) {
		if (tries)
			usleep(1000);
		advise(COUNTS, MADV_PAGEOUT);
		advise(SAMPLES, MADV_PAGEOUT);
	}
}

static void test_swap(void)
{
	swap_out();
	is("swapped out: both records are on swap", swapped_pages(), 2);
	/* Not check_works(), which reads the records before the host does. */
	is("swapped out: READ", round_of_guest(), 0);
	is("swapped out: READ brings the record back", PAGEMAP_SWAPPED(pagemap(COUNTS)), 0);
	is("swapped out: an overflow brings the record back",
	   PAGEMAP_SWAPPED(pagemap(SAMPLES)), 0);
	ksft_test_result(counts_all(), "swapped out: READ writes the whole count\n");
	check_works("after it");
}

/* Migration of a page fails if the host has pinned it. */
static void test_migration(void)
{
	uint64_t counts, samples;

	check_works("before migration");
	counts = PAGEMAP_PFN(pagemap(COUNTS));
	samples = PAGEMAP_PFN(pagemap(SAMPLES));
	advise(COUNTS, MADV_SOFT_OFFLINE);
	advise(SAMPLES, MADV_SOFT_OFFLINE);
	ksft_test_result(counts && PAGEMAP_PFN(pagemap(COUNTS)) != counts &&
			 PAGEMAP_PFN(pagemap(SAMPLES)) != samples,
			 "the records migrate to other pages: the host has not pinned them\n");
	check_works("migrated");
}

static void test_mapping(void)
{
	char *was = memory;

	map(memory, PROT_READ | PROT_WRITE);
	check_works("other memory at the same address");

	munmap(memory, SLOT_SIZE);
	check_fails("unmapped by the VMM");
	map(memory, PROT_READ | PROT_WRITE);
	check_works("mapped again");

	mprotect(memory, SLOT_SIZE, PROT_READ);
	check_fails("made read-only by the VMM");
	mprotect(memory, SLOT_SIZE, PROT_READ | PROT_WRITE);
	check_works("made writable again");

	set_slot(0, 0);
	check_fails("slot removed");
	memory = map(NULL, PROT_READ | PROT_WRITE);
	set_slot(0, SLOT_SIZE);
	check_works("slot at another address");
	is("another mapping: the host does not write to the old memory",
	   ((struct guest_perf_event *)was)->count < record(COUNTS)->count,
	   true);

	set_slot(0, 0);
	set_slot(KVM_MEM_READONLY, SLOT_SIZE);
	check_fails("read-only slot");
	set_slot(0, 0);
	set_slot(0, SLOT_SIZE);
	check_works("writable slot");
}

static uint64_t dirty_pages(void)
{
	uint64_t bitmap = 0;

	kvm_vm_get_dirty_log(vm, SLOT, &bitmap);
	return bitmap;
}

static void test_dirty_log(void)
{
	set_slot(KVM_MEM_LOG_DIRTY_PAGES, SLOT_SIZE);
	dirty_pages();
	is("dirty logging: no page is dirty at first", dirty_pages(), 0);
	check_works("dirty logging");
	is("dirty logging: both records are dirty, and no other page", dirty_pages(),
	   1 << COUNTS | 1 << SAMPLES);
	is("dirty logging: no page is dirty after the log was read", dirty_pages(), 0);
	check_works("after the log was read");
	is("dirty logging: both records are dirty again", dirty_pages(),
	   1 << COUNTS | 1 << SAMPLES);
	set_slot(0, SLOT_SIZE);
}

/* The number of pages in the whole system that FOLL_PIN has pinned, from /proc/vmstat. */
static long pinned_pages(void)
{
	long n, pinned = 0;
	char name[64];
	FILE *f = fopen("/proc/vmstat", "r");

	while (f && fscanf(f, "%63s %ld", name, &n) == 2) {
		if (!strcmp(name, "nr_foll_pin_acquired"))
			pinned += n;
		if (!strcmp(name, "nr_foll_pin_released"))
			pinned -= n;
	}
	fclose(f);
	return pinned;
}

int main(void)
{
	long pinned = pinned_pages();

	setbuf(stdout, NULL);
	ksft_print_header();
	vm = guest_perf_vm_create(1, guest_main, vcpus, &area);
	memory = map(NULL, PROT_READ | PROT_WRITE);
	set_slot(0, SLOT_SIZE);

	check_works("at first");
	test_balloon();
	test_swap();
	test_migration();
	test_mapping();
	test_dirty_log();
	is("no page is pinned", pinned_pages(), pinned);
	ksft_set_plan(ksft_test_num());
	ksft_finished();
}
