// SPDX-License-Identifier: GPL-2.0
/* build: -O2 */
/*
 * mover PID US CPU CPU...
 *
 * Moves all threads of a process from CPU to CPU, to another one each US microseconds,
 * until it is killed by SIGTERM or the process ends.  Then prints how often it moved
 * them.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <err.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static volatile sig_atomic_t ended;

static void end(int signal)
{
	ended = signal;
}

/* Returns whether there are any. */
static int move_threads(const char *tasks, int cpu)
{
	struct dirent *entry;
	int moved = 0;
	cpu_set_t set;
	DIR *dir;

	dir = opendir(tasks);
	if (!dir)
		return 0;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	while ((entry = readdir(dir)))
		moved |= atoi(entry->d_name) &&
			 !sched_setaffinity(atoi(entry->d_name), sizeof(set), &set);
	closedir(dir);
	return moved;
}

int main(int argc, char **argv)
{
	unsigned long moves = 0;
	char tasks[64];

	if (argc < 5)
		errx(1, "usage: mover PID US CPU CPU...");

	snprintf(tasks, sizeof(tasks), "/proc/%s/task", argv[1]);
	signal(SIGTERM, end);
	while (!ended && move_threads(tasks, atoi(argv[3 + moves % (argc - 3)]))) {
		moves++;
		usleep(atoi(argv[2]));
	}
	printf("%lu\n", moves);
	return 0;
}
