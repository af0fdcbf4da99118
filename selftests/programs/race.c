// SPDX-License-Identifier: GPL-2.0
/*
 * Two threads change the same variables without a lock and without system calls: the
 * result depends on the instructions at which the threads are interrupted.
 *
 * Most instructions are conditional branches at different addresses.  A replayer gets an
 * interrupt some 10,000 branches before its target, and then sets a breakpoint at the
 * target instruction.  In a short loop this breakpoint would be hit thousands of times.
 *
 * The threads begin together. If rr knows only one thread that can run, rr lets this
 * thread run without a limit, perhaps to its end.
 *
 * build: -O0 -g -pthread
 */
#include <pthread.h>
#include <stdio.h>

#define TIMES 4000L	/* of 500 branches */

static volatile long sum, history;
static volatile int last, begun;

static void branch_500_times(void)
{
	asm volatile("test %%esp, %%esp\n\t"
		     ".rept 500\n\t"
		     "jz 1f\n"
		     "1:\n\t"
		     ".endr" ::: "cc");
}

static void *add(void *arg)
{
	int self = (long)arg;

	__atomic_fetch_add(&begun, 1, __ATOMIC_SEQ_CST);
	do
		branch_500_times();
	while (begun < 2);
	for (long i = 0; i < TIMES; i++) {
		long old = sum;

		if (last != self) {
			last = self;
			history = history * 31 + i;
		}
		branch_500_times();
		sum = old + 1;
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[2];

	for (long i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, add, (void *)(i + 1));
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	printf("%ld %lx\n", sum, history);
	return 0;
}
