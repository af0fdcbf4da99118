// SPDX-License-Identifier: GPL-2.0
/*
 * Prints a CPUID leaf of one CPU: EAX, EBX, ECX and EDX.
 *
 * Usage: cpuid CPU LEAF
 */
#define _GNU_SOURCE
#include <cpuid.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	unsigned int a, b, c, d;
	cpu_set_t set;

	if (argc != 3)
		return 2;
	CPU_ZERO(&set);
	CPU_SET(atoi(argv[1]), &set);
	if (sched_setaffinity(0, sizeof(set), &set)) {
		perror("sched_setaffinity");
		return 1;
	}
	__cpuid_count(strtoul(argv[2], NULL, 0), 0, a, b, c, d);
	printf("%08x %08x %08x %08x\n", a, b, c, d);
	return 0;
}
