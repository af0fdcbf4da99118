// SPDX-License-Identifier: GPL-2.0
/*
 * ring TASKS ROUNDS: tasks pass a token on in a ring of pipes.  Task N has a raw event that
 * no other task has: instructions in cycles with fewer than N instructions.  The tasks of a
 * CPU can thus have more configurations than the CPU has records.
 */
#include <err.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int open_event(unsigned long long config)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_RAW, .size = sizeof(attr), .config = config,
	};

	return syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
}

static void task(int n, int in, int out, int rounds)
{
	/* Instructions, with the invert bit and a threshold of n + 1. */
	int fd = open_event(0xc0 | 1 << 23 | (n + 1ull) << 24);
	char token;

	if (fd < 0)
		err(1, "event %d", n);
	while (rounds--)
		if (read(in, &token, 1) != 1 || write(out, &token, 1) != 1)
			err(1, "pipe");
	exit(0);
}

int main(int argc, char **argv)
{
	int tasks, rounds, i, status, failed = 0;

	if (argc != 3)
		errx(1, "usage: ring TASKS ROUNDS");
	tasks = atoi(argv[1]);
	rounds = atoi(argv[2]);
	int pipes[tasks][2];

	for (i = 0; i < tasks; i++)
		if (pipe(pipes[i]))
			err(1, "pipe");
	for (i = 0; i < tasks; i++)
		if (!fork())
			task(i, pipes[i][0], pipes[(i + 1) % tasks][1], rounds);
	if (write(pipes[0][1], "", 1) != 1)
		err(1, "pipe");
	while (wait(&status) > 0)
		failed |= status;
	return !!failed;
}
