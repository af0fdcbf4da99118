// SPDX-License-Identifier: GPL-2.0
/*
 * Three threads take turns by a lock and a condition, in an order that depends on the
 * scheduler.
 *
 * build: -O0 -g -pthread
 */
#include <pthread.h>
#include <stdio.h>

#define THREADS	3
#define TIMES	5000

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t all_here = PTHREAD_COND_INITIALIZER;
static int here;
static unsigned long sum, order;

static void *take_turns(void *arg)
{
	unsigned long self = (long)arg;

	pthread_mutex_lock(&lock);
	if (++here == THREADS)
		pthread_cond_broadcast(&all_here);
	while (here < THREADS)
		pthread_cond_wait(&all_here, &lock);
	pthread_mutex_unlock(&lock);

	for (int i = 0; i < TIMES; i++) {
		pthread_mutex_lock(&lock);
		sum++;
		order = order * 3 + self;
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];

	for (long i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, take_turns, (void *)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("%lu %lx\n", sum, order);
	return sum != THREADS * TIMES;
}
