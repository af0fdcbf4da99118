// SPDX-License-Identifier: GPL-2.0
/* build: -static -pthread */
/*
 * rdpmc_threads SECONDS ECX...: while one thread, on CPU 0, maps an event of its own and
 * unmaps it, again and again, another thread, on CPU 1, sleeps shortly and then reads these
 * counters of its CPU by RDPMC.  That thread has no event, so all counters that it can read
 * are others'.  Prints how often it could read one, and shows the first readings that were
 * not 0.  Exits with 1 if there were any, or if it could read no counter at all.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>

#include "self.h"

static const struct timespec nap = { 0, 100000 };
static volatile bool stop;
static volatile unsigned long mappings;
static sigjmp_buf faulted;

static void fault(int signo)
{
	siglongjmp(faulted, 1);
}

/* Returns false if RDPMC faults. */
static bool rdpmc(uint32_t counter, uint64_t *value)
{
	uint32_t low, high;

	if (sigsetjmp(faulted, 1))
		return false;

	__asm__ volatile("rdpmc" : "=a"(low), "=d"(high) : "c"(counter));
	*value = (uint64_t)high << 32 | low;
	return true;
}

static void run_on(int cpu)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus)) {
		perror("sched_setaffinity");
		exit(2);
	}
}

static void *map_and_unmap(void *unused)
{
	long size = sysconf(_SC_PAGESIZE);
	int fd;

	run_on(0);
	fd = count_self();
	munmap((void *)page, size);
	while (!stop) {
		void *again = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);

		if (again == MAP_FAILED) {
			perror("mmap");
			exit(2);
		}
		mappings++;
		nanosleep(&nap, NULL);
		munmap(again, size);
	}
	return NULL;
}

int main(int argc, char *argv[])
{
	unsigned long rounds = 0, able = 0, held = 0;
	uint64_t value;
	double end;
	pthread_t thread;
	int i;

	if (argc < 3) {
		fprintf(stderr, "usage: rdpmc_threads SECONDS ECX...\n");
		return 2;
	}
	signal(SIGSEGV, fault);
	pthread_create(&thread, NULL, map_and_unmap, NULL);
	run_on(1);
	end = now() + atof(argv[1]);
	for (; now() < end; rounds++) {
		nanosleep(&nap, NULL);
		for (i = 2; i < argc; i++) {
			value = 0;
			able += rdpmc(strtoul(argv[i], NULL, 0), &value);
			if (value && held++ < 3)
				printf("counter %s: %#llx\n", argv[i],
				       (unsigned long long)value);
		}
	}
	stop = true;
	pthread_join(thread, NULL);
	printf("%lu rounds, %lu readings, %lu not 0; %lu mappings\n", rounds, able, held,
	       mappings);
	return held || !able;
}
