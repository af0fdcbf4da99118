// SPDX-License-Identifier: GPL-2.0
/* build: -lpapi */
/*
 * Counts a loop of 10,000,000 instructions by PAPI: prints the difference of two readings,
 * minus their difference without the loop.
 */
#include <papi.h>
#include <stdio.h>
#include <unistd.h>

static void check(const char *what, int ret)
{
	if (ret == PAPI_OK)
		return;

	fprintf(stderr, "%s: %s\n", what, PAPI_strerror(ret));
	_exit(1);
}

/* Never inlined, so that all instructions but the loop are the same each time. */
static __attribute__((noinline)) long long count(int set, unsigned int n)
{
	long long before, after;

	check("PAPI_read", PAPI_read(set, &before));
	__asm__ volatile("1: dec %0; jnz 1b" : "+r"(n));
	check("PAPI_read", PAPI_read(set, &after));
	return after - before;
}

int main(void)
{
	int set = PAPI_NULL;
	long long with, without;

	if (PAPI_library_init(PAPI_VER_CURRENT) != PAPI_VER_CURRENT) {
		fprintf(stderr, "no PAPI\n");
		return 1;
	}
	check("PAPI_create_eventset", PAPI_create_eventset(&set));
	check("PAPI_TOT_INS", PAPI_add_event(set, PAPI_TOT_INS));
	check("PAPI_start", PAPI_start(set));
	/* The first call resolves symbols and fills caches. */
	count(set, 1);
	/* Marks the begin for a trace of system calls. */
	if (write(2, "reading\n", 8) != 8)
		return 1;
	without = count(set, 1);
	with = count(set, 5000001);
	if (write(2, "read\n", 5) != 5)
		return 1;
	printf("%lld\n", with - without);
	return 0;
}
