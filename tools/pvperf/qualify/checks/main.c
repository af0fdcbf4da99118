// SPDX-License-Identifier: GPL-2.0
/*
 * checks [NAME,NAME]
 *
 * Runs these checks, each in its own process.  Without names, runs all checks that are
 * possible here.  "checks hog" takes all counters until its input ends.  "checks spin" only
 * executes branches, for ever.
 *
 * If the program is process 1, it is in a guest of pv-perf qualify.  It loads the driver,
 * takes the names from qualify.checks=NAME,NAME in the kernel's command line, and ends the
 * guest after the checks.
 *
 * A line for pv-perf begins with "@".  pv-perf answers "@wait WHAT" with a line after it has
 * done WHAT.  It answers "@begin WHAT" with a line at once, and with a line at the end.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "checks.h"

bool in_guest;

static const char *check_name;

static const struct {
	const char *name;
	void (*run)(void);
	bool needs_guest;
} checks[] = {
	{ "counts", check_counts, false },
	{ "groups", check_groups, false },
	{ "tasks", check_tasks, false },
	{ "emulated", check_emulated, false },
	{ "sampling", check_sampling, false },
	{ "frequency", check_frequency, false },
	{ "nmis", check_nmis, false },
	{ "rdpmc", check_rdpmc, false },
	{ "residue", check_residue, false },
	{ "limits", check_limits, false },
	{ "rate", check_rate, true },
	{ "hypervisor", check_hypervisor, true },
	{ "move", check_move, true },
	{ "beside", check_beside, true },
	{ "two_guests", check_two_guests, true },
	{ "wide", check_wide, false },
	{ "branches", check_branches, false },
	/* Last: for a second, the guest's driver remembers that counters were missing. */
	{ "lost", check_lost, true },
	{ "costs", check_costs, false },
};

void say(const char *format, ...)
{
	va_list args;

	printf("@result {\"check\": \"%s\", ", check_name);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("}\n");
	fflush(stdout);
}

void impossible(const char *format, ...)
{
	va_list args;

	/* The check may have begun a line. */
	printf("\n@result {\"check\": \"%s\", \"impossible\": \"", check_name);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\"}\n");
	fflush(stdout);
	_exit(0);
}

static void read_line(void)
{
	char c;

	while (read(0, &c, 1) == 1 && c != '\n')
		;
}

void on_host(const char *what)
{
	printf("@wait %s\n", what);
	fflush(stdout);
	read_line();
}

void begin_on_host(const char *what)
{
	printf("@begin %s\n", what);
	fflush(stdout);
	read_line();
}

bool host_is_done(void)
{
	struct pollfd input = { .fd = 0, .events = POLLIN };

	if (poll(&input, 1, 0) <= 0)
		return false;
	read_line();
	return true;
}

long number_in(const char *path)
{
	char text[64] = "";
	int fd = open(path, O_RDONLY);

	if (fd < 0)
		return -1;
	if (read(fd, text, sizeof(text) - 1) < 0)
		text[0] = '\0';
	close(fd);
	return strtol(text, NULL, 0);
}

/* The rest of the word that begins with @before in the kernel's command line, or NULL. */
static char *word_of_command_line(const char *before)
{
	static char line[4096];
	char *word;
	int fd = open("/proc/cmdline", O_RDONLY);

	if (fd < 0 || read(fd, line, sizeof(line) - 1) <= 0)
		return NULL;
	word = strstr(line, before);
	if (!word)
		return NULL;
	word += strlen(before);
	word[strcspn(word, " \n")] = '\0';
	return word;
}

long number_of_command_line(const char *before)
{
	char *word = word_of_command_line(before);

	return word ? strtol(word, NULL, 0) : 0;
}

static void load_driver(void)
{
	char *options = word_of_command_line("qualify.options=");
	int fd = open("/kvm_pmu.ko", O_RDONLY);

	if (syscall(SYS_finit_module, fd, options ?: "", 0))
		printf("@driver {\"error\": \"%s\"}\n", strerror(errno));
	else
		printf("@driver {}\n");
	fflush(stdout);
}

/* Also allows perf's samples to take any share of the CPU's time. */
static void start_guest(void)
{
	char *driver;
	struct termios raw;
	int fd;

	mount("proc", "/proc", "proc", 0, NULL);
	mount("sysfs", "/sys", "sysfs", 0, NULL);
	mount("debugfs", "/sys/kernel/debug", "debugfs", 0, NULL);
	mount("devtmpfs", "/dev", "devtmpfs", 0, NULL);
	fd = open("/dev/ttyS0", O_RDWR);
	if (fd >= 0) {
		dup2(fd, 0);
		dup2(fd, 1);
		dup2(fd, 2);
		tcgetattr(0, &raw);
		cfmakeraw(&raw);
		tcsetattr(0, TCSANOW, &raw);
	}
	fd = open("/proc/sys/kernel/perf_cpu_time_max_percent", O_WRONLY);
	if (fd >= 0 && write(fd, "0", 1) == 1)
		close(fd);

	driver = word_of_command_line("qualify.driver=");
	if (!driver || strcmp(driver, "0"))
		load_driver();
}

static bool is_among(const char *name, char *names)
{
	size_t length = strlen(name);
	char *at;

	for (at = names; (at = strstr(at, name)); at += length) {
		if ((at == names || at[-1] == ',') &&
		    (at[length] == ',' || !at[length]))
			return true;
	}
	return false;
}

/* A new process for each check, so that no events of other checks are left. */
static void run_check(int i)
{
	pid_t child;
	int status;

	printf("@check %s\n", checks[i].name);
	fflush(stdout);
	check_name = checks[i].name;
	child = fork();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		checks[i].run();
		fflush(stdout);
		_exit(0);
	}
	waitpid(child, &status, 0);
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		say("\"died\": %d", status);
}

int main(int argc, char **argv)
{
	char *names = NULL;
	size_t i;

	in_guest = getpid() == 1;
	if (in_guest) {
		start_guest();
		names = word_of_command_line("qualify.checks=");
	} else if (argc > 1 && !strcmp(argv[1], "hog")) {
		hog();
		return 0;
	} else if (argc > 1 && !strcmp(argv[1], "spin")) {
		spin();
		return 0;
	} else if (argc > 1) {
		names = argv[1];
	}
	for (i = 0; i < ARRAY_SIZE(checks); i++) {
		if (names ? is_among(checks[i].name, names) :
			    in_guest || !checks[i].needs_guest)
			run_check(i);
	}
	printf("@end\n");
	fflush(stdout);
	if (in_guest) {
		tcdrain(1);
		reboot(RB_AUTOBOOT);
	}
	return 0;
}
