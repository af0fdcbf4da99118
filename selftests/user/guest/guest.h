/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Macros for the tests of the guest's driver.
 *
 * Each test is a process of its own, in which the driver has just been loaded.  A program's
 * arguments are the names of the tests to run; by default it runs all tests.
 */
#ifndef GUEST_H
#define GUEST_H

#include "driver.h"

#include <unistd.h>

#include "kselftest_harness.h"

FIXTURE(guest) {
	int unused;
};

/* The driver is not loaded yet: a test may change the host first. */
FIXTURE(unloaded) {
	int unused;
};

int __llvm_profile_write_file(void) __attribute__((weak));

FIXTURE_SETUP(guest)
{
	guest_init();
	load();
}

FIXTURE_SETUP(unloaded)
{
	guest_init();
}

/* The harness ends a test by _exit(). */
FIXTURE_TEARDOWN(guest)
{
	if (__llvm_profile_write_file)
		__llvm_profile_write_file();
}

FIXTURE_TEARDOWN(unloaded)
{
	if (__llvm_profile_write_file)
		__llvm_profile_write_file();
}

#define GUEST_TEST(name)		TEST_F(guest, name)
#define GUEST_TEST_UNLOADED(name)	TEST_F_TIMEOUT(unloaded, name, 300)

static void keep_test(struct __fixture_metadata *f, struct __test_metadata *t)
{
	__LIST_APPEND(f->tests, t);
}

static void keep_tests(struct __fixture_metadata *f, int argc, char **argv)
{
	struct __test_metadata *t = f->tests, *next;
	int i;

	f->tests = NULL;
	for (; t; t = next) {
		next = t->next;
		for (i = 1; i < argc && strcmp(argv[i], t->name); i++)
			;
		if (argc < 2 || i < argc)
			keep_test(f, t);
	}
}

int main(int argc, char **argv)
{
	struct __fixture_metadata *f;

	for (f = __fixture_list; f; f = f->next)
		keep_tests(f, argc, argv);
	return test_harness_run(argc, argv);
}

#endif
