// SPDX-License-Identifier: GPL-2.0
/* build: -lpfm */
/*
 * pfmcount EVENT COMMAND...: counts an event in user mode, by libpfm4's name, while
 * the command runs.
 */
#include <err.h>
#include <linux/perf_event.h>
#include <perfmon/pfmlib_perf_event.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static void encode(const char *name, struct perf_event_attr *attr)
{
	char *full = NULL;
	pfm_perf_encode_arg_t arg = {
		.attr = attr, .fstr = &full, .size = sizeof(arg),
	};
	int ret = pfm_initialize();

	if (ret == PFM_SUCCESS)
		ret = pfm_get_os_event_encoding(name, PFM_PLM3,
						PFM_OS_PERF_EVENT, &arg);
	if (ret != PFM_SUCCESS)
		errx(1, "%s: %s", name, pfm_strerror(ret));

	printf("%s type %u config %#llx\n", full, attr->type,
	       (unsigned long long)attr->config);
}

int main(int argc, char **argv)
{
	struct perf_event_attr attr = { .size = sizeof(attr) };
	unsigned long long count;
	int fd, pid;

	if (argc < 3)
		errx(1, "usage: pfmcount EVENT COMMAND...");

	encode(argv[1], &attr);
	attr.disabled = 1;
	attr.enable_on_exec = 1;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		raise(SIGSTOP);
		execv(argv[2], argv + 2);
		err(1, "%s", argv[2]);
	}
	waitpid(pid, NULL, WUNTRACED);
	fd = perf_event_open(&attr, pid, -1, -1, 0);
	if (fd < 0)
		err(1, "perf_event_open");

	kill(pid, SIGCONT);
	waitpid(pid, NULL, 0);
	if (read(fd, &count, sizeof(count)) != sizeof(count))
		err(1, "read");
	printf("count %llu\n", count);
	return 0;
}
