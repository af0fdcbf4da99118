// SPDX-License-Identifier: GPL-2.0
/* build: -static */
/*
 * A BPF program reads a counter, by bpf_perf_event_read_value(), before and
 * after a loop whose instructions are known.
 */
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kselftest.h"

#define LOOPS	1000000
/* Instructions around the loop, from one system call to the other. */
#define SLACK	200

static int bpf(enum bpf_cmd cmd, union bpf_attr *attr)
{
	return syscall(SYS_bpf, cmd, attr, sizeof(*attr));
}

static int open_event(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_HW_INSTRUCTIONS,
		.exclude_kernel = 1,
	};

	return syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
}

/* Creates a map that has the event for each CPU. */
static int create_map(int event)
{
	int nr_cpus = sysconf(_SC_NPROCESSORS_CONF);
	union bpf_attr create = {
		.map_type = BPF_MAP_TYPE_PERF_EVENT_ARRAY,
		.key_size = 4,
		.value_size = 4,
		.max_entries = nr_cpus,
	};
	int map = bpf(BPF_MAP_CREATE, &create);

	for (int cpu = 0; cpu < nr_cpus; cpu++) {
		union bpf_attr update = {
			.map_fd = map,
			.key = (unsigned long)&cpu,
			.value = (unsigned long)&event,
		};

		if (bpf(BPF_MAP_UPDATE_ELEM, &update))
			return -1;
	}

	return map;
}

/* Returns the lower half of the counter, or a negative error. */
static int load_program(int map)
{
	struct bpf_insn program[] = {
		{ BPF_LD | BPF_DW | BPF_IMM, BPF_REG_1, BPF_PSEUDO_MAP_FD, 0, map },
		{ 0 },
		{ BPF_ALU | BPF_MOV | BPF_K, BPF_REG_2, 0, 0, -1 },
		{ BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_3, BPF_REG_10, 0, 0 },
		{ BPF_ALU64 | BPF_ADD | BPF_K, BPF_REG_3, 0, 0, -24 },
		{ BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_4, 0, 0, 24 },
		{ BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_perf_event_read_value },
		{ BPF_JMP | BPF_JNE | BPF_K, BPF_REG_0, 0, 1, 0 },
		{ BPF_LDX | BPF_MEM | BPF_W, BPF_REG_0, BPF_REG_10, -24, 0 },
		{ BPF_JMP | BPF_EXIT },
	};
	union bpf_attr load = {
		.prog_type = BPF_PROG_TYPE_RAW_TRACEPOINT,
		.insns = (unsigned long)program,
		.insn_cnt = ARRAY_SIZE(program),
		.license = (unsigned long)"GPL",
	};

	return bpf(BPF_PROG_LOAD, &load);
}

static int run_program(int program)
{
	union bpf_attr run = { .test.prog_fd = program };

	if (bpf(BPF_PROG_TEST_RUN, &run))
		return -errno;
	return run.test.retval;
}

int main(void)
{
	int event, map, program, before, after, more;
	unsigned long long count;

	ksft_print_header();
	ksft_set_plan(2);

	event = open_event();
	map = create_map(event);
	program = load_program(map);
	if (event < 0 || map < 0 || program < 0)
		ksft_exit_fail_msg("event %d, map %d, program %d: %s\n", event,
				   map, program, strerror(errno));

	before = run_program(program);
	asm volatile("mov %0, %%ecx; 1: dec %%ecx; jnz 1b" : : "i" (LOOPS)
		     : "ecx", "cc");
	after = run_program(program);
	if (read(event, &count, sizeof(count)) != sizeof(count))
		ksft_exit_fail_msg("read: %s\n", strerror(errno));

	more = after - before - 2 * LOOPS;
	ksft_print_msg("before %d, after %d, read() %llu\n", before, after,
		       count);
	ksft_test_result(before > 0 && more > 0 && more <= SLACK,
			 "a BPF program reads the loop's instructions\n");
	more = count - after;
	ksft_test_result(more > 0 && more <= SLACK,
			 "a BPF program reads the same count as read()\n");
	ksft_finished();
}
