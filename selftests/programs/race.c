// SPDX-License-Identifier: GPL-2.0
/*
 * Two threads that change the same variables without a lock and without system calls:
 * what they end with depends on where each is interrupted.
 */
#include <pthread.h>
#include <stdio.h>

#define TIMES 3000000L

static volatile long sum, history;
static volatile int last;

static void *add(void *arg)
{
	int self = (long)arg;

	for (long i = 0; i < TIMES; i++) {
		long old = sum;

		if (last != self) {
			last = self;
			history = history * 31 + i;
		}
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
