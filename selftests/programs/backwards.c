// SPDX-License-Identifier: GPL-2.0
/*
 * Overwrites a sum long before the program uses it.  A debugger that executes backwards
 * from the use finds the write.
 *
 * build: -O0 -g
 */
#include <stdio.h>

static volatile unsigned long sum;

static int odd(int i)
{
	return i & 1;
}

static void finish(void)
{
	printf("%lu\n", sum);
}

int main(void)
{
	for (int i = 0; i < 40; i++) {
		if (odd(i))
			sum += i;
	}
	sum = 7;			/* overwritten */
	for (int i = 0; i < 20; i++) {
		if (odd(i) > 1)
			sum = i;
	}
	finish();
	return 0;
}
