// SPDX-License-Identifier: GPL-2.0
/*
 * Prints the results of perf_event_open() and of the system calls on its file
 * descriptor, over all of their arguments.  The output must be the same on the
 * host and in a guest.
 *
 * Usage: open_errors [GROUP...]
 *
 * Prints "GROUP/CASE: ok" or the name of the error, in the same order each
 * time.  Events stay disabled unless the case is about enabling them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <err.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <linux/perf_event.h>

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#define BIT(n)		(1ULL << (n))

#define BAD_FD		1000
#define BAD_CPU		100000
#define MAX_GROUP	24

/* perf_event_attr's word of flags has no name. */
#define ATTR_FLAGS	(offsetof(struct perf_event_attr, read_format) + 8)

struct target {
	pid_t pid;
	int cpu;
	int group;
	unsigned long flags;
};

/* Kernels know less than a page of the attr, so that 8192 bytes are too many. */
union long_attr {
	struct perf_event_attr attr;
	char bytes[8192];
};

static const struct target self = { .pid = 0, .cpu = -1, .group = -1 };

static const char *group_name;

static int open_at(const void *attr, struct target t)
{
	return syscall(SYS_perf_event_open, attr, t.pid, t.cpu, t.group,
		       t.flags);
}

static int open_event(const struct perf_event_attr *attr)
{
	return open_at(attr, self);
}

static void close_event(int fd)
{
	if (fd >= 0)
		close(fd);
}

/* @ret: the return value of a system call */
static void __attribute__((format(printf, 2, 3)))
report(long ret, const char *format, ...)
{
	const char *result = ret < 0 ? strerrorname_np(errno) : "ok";
	va_list args;

	printf("%s/", group_name);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf(": %s\n", result);
}

#define try_open_at(attr, target, ...) do {	\
	int fd__ = open_at(attr, target);	\
						\
	report(fd__, __VA_ARGS__);		\
	close_event(fd__);			\
} while (0)

#define try_open(attr, ...) try_open_at(attr, self, __VA_ARGS__)

static struct perf_event_attr attr_of(uint32_t type, uint64_t config)
{
	return (struct perf_event_attr) {
		.size		= sizeof(struct perf_event_attr),
		.type		= type,
		.config		= config,
		.disabled	= 1,
		.exclude_kernel	= 1,
	};
}

#define CACHE(cache, op, result) \
	((cache) | (uint64_t)(op) << 8 | (uint64_t)(result) << 16)

/*
 * The attrs from which the other groups start.  "absent" and "unknown" fail by
 * themselves on many CPUs, which shows which check comes first.
 */
static const struct base {
	const char *name;
	uint32_t type;
	uint64_t config;
	uint64_t period;
	bool freq;
} bases[] = {
	{ "counting", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS },
	{ "sampling", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, 1000000 },
	{ "frequency", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, 100, true },
	{ "cache", PERF_TYPE_HW_CACHE, CACHE(PERF_COUNT_HW_CACHE_DTLB, 0, 1) },
	{ "raw", PERF_TYPE_RAW, 0xc0 },
	{ "absent", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BUS_CYCLES },
	{ "unknown", PERF_TYPE_HARDWARE, PERF_COUNT_HW_MAX },
	{ "software", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK },
};

#define for_each_base(b) for ((b) = bases; (b) < bases + ARRAY_SIZE(bases); (b)++)

static struct perf_event_attr attr_of_base(const struct base *b)
{
	struct perf_event_attr attr = attr_of(b->type, b->config);

	attr.sample_period = b->period;
	attr.freq = b->freq;
	if (b->period)
		attr.sample_type = PERF_SAMPLE_IP;
	return attr;
}

static void flip_flag(struct perf_event_attr *attr, unsigned int bit)
{
	uint64_t flags;

	memcpy(&flags, (char *)attr + ATTR_FLAGS, sizeof(flags));
	flags ^= BIT(bit);
	memcpy((char *)attr + ATTR_FLAGS, &flags, sizeof(flags));
}

static void test_hardware(void)
{
	struct perf_event_attr attr;
	int i;

	for (i = 0; i <= 12; i++) {
		attr = attr_of(PERF_TYPE_HARDWARE, i);
		try_open(&attr, "config %d", i);
	}
	for (i = 4; i < 64; i++) {
		attr = attr_of(PERF_TYPE_HARDWARE, BIT(i));
		try_open(&attr, "config bit %d", i);
	}
	/* The upper half of config is the type of the PMU. */
	for (i = 0; i < 12; i++) {
		attr = attr_of(PERF_TYPE_HARDWARE,
			       (uint64_t)PERF_TYPE_RAW << 32 | i);
		try_open(&attr, "config %d of PMU 4", i);
	}
	attr = attr_of(PERF_TYPE_HARDWARE, UINT64_MAX);
	try_open(&attr, "config -1");
}

static void test_cache(void)
{
	struct perf_event_attr attr;
	int cache, op, result, i;

	for (cache = 0; cache <= 8; cache++) {
		for (op = 0; op <= 3; op++) {
			for (result = 0; result <= 2; result++) {
				attr = attr_of(PERF_TYPE_HW_CACHE,
					       CACHE(cache, op, result));
				try_open(&attr, "%d %d %d", cache, op, result);
			}
		}
	}
	for (i = 0; i < 64; i++) {
		attr = attr_of(PERF_TYPE_HW_CACHE,
			       CACHE(PERF_COUNT_HW_CACHE_DTLB, 0, 0) ^ BIT(i));
		try_open(&attr, "dTLB-loads, config bit %d", i);
	}
	for (i = 0; i < 3; i++) {
		attr = attr_of(PERF_TYPE_HW_CACHE, 0xffULL << 8 * i);
		try_open(&attr, "byte %d is 255", i);
	}
	attr = attr_of(PERF_TYPE_HW_CACHE, (uint64_t)PERF_TYPE_RAW << 32 |
		       CACHE(PERF_COUNT_HW_CACHE_DTLB, 0, 0));
	try_open(&attr, "dTLB-loads of PMU 4");
	attr.config = UINT64_MAX;
	try_open(&attr, "config -1");
}

static void test_raw(void)
{
	static const uint64_t configs[] = {
		0, 0x76, 0xc0, 0x530076, 0xff45, 0x1000000c0, 0xf000000ff,
		0xffffffff, UINT64_MAX,
	};
	struct perf_event_attr attr;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(configs); i++) {
		attr = attr_of(PERF_TYPE_RAW, configs[i]);
		try_open(&attr, "config %#llx",
			 (unsigned long long)configs[i]);
	}
	/* An Intel event that uses config1 on newer CPUs. */
	attr = attr_of(PERF_TYPE_RAW, 0x4c2);
	attr.config1 = 8;
	try_open(&attr, "event 0x4c2, config1 8");
	for (i = 0; i < 64; i++) {
		attr = attr_of(PERF_TYPE_RAW, 0xc0 ^ BIT(i));
		try_open(&attr, "instructions, config bit %u", i);
	}
	for (i = 0; i < 0x1000; i++) {
		attr = attr_of(PERF_TYPE_RAW, (i & 0xff) | (i & 0xf00ULL) << 24);
		if (i % 16 == 3)
			try_open(&attr, "event %#x", i);
	}
}

static int type_of(const char *pmu)
{
	char path[128];
	int type = -1;
	FILE *f;

	snprintf(path, sizeof(path),
		 "/sys/bus/event_source/devices/%s/type", pmu);
	f = fopen(path, "r");
	if (!f)
		return -1;
	if (fscanf(f, "%d", &type) != 1)
		type = -1;
	fclose(f);
	return type;
}

static void try_pmu(const char *name)
{
	struct perf_event_attr attr;
	int type = type_of(name);
	int i;

	errno = ENODEV;
	report(type, "%s is there", name);
	for (i = 0; type >= 0 && i < 12; i++) {
		attr = attr_of(type, i);
		try_open(&attr, "%s, config %d", name, i);
		attr.sample_period = 1000000;
		try_open(&attr, "%s, config %d, sampling", name, i);
	}
}

/* perf gives out types from 6 on when PMUs register: these PMUs are known by name. */
static void test_type(void)
{
	static const char * const pmus[] = {
		"cpu", "software", "tracepoint", "breakpoint", "kprobe",
		"uprobe", "msr",
	};
	static const uint32_t unknown[] = {
		100, 1000, 65536, INT_MAX, 1u << 31, UINT_MAX - 1, UINT_MAX,
	};
	struct perf_event_attr attr;
	unsigned int i, j;

	for (i = 0; i < ARRAY_SIZE(pmus); i++)
		try_pmu(pmus[i]);
	for (i = 0; i < ARRAY_SIZE(unknown); i++) {
		for (j = 0; j < 2; j++) {
			attr = attr_of(unknown[i], j);
			try_open(&attr, "%u, config %u", unknown[i], j);
		}
	}
	/* A generic event for a PMU of another type. */
	for (i = 0; i < ARRAY_SIZE(pmus); i++) {
		uint64_t type = type_of(pmus[i]);

		attr = attr_of(PERF_TYPE_HARDWARE, type << 32);
		try_open(&attr, "cycles of %s", pmus[i]);
		attr = attr_of(PERF_TYPE_HW_CACHE, type << 32);
		try_open(&attr, "L1-dcache-loads of %s", pmus[i]);
	}
}

/* config3, at offset 128, exists from Linux 6.3 on. */
static void test_config(void)
{
	static const struct {
		const char *name;
		size_t offset;
		uint32_t size;
	} fields[] = {
		{ "config1", offsetof(struct perf_event_attr, config1), 0 },
		{ "config2", offsetof(struct perf_event_attr, config2), 0 },
		{ "config3", 128, 136 },
		{ "config4", 136, 144 },
	};
	static const uint64_t values[] = { 1, 0x1f, BIT(32), UINT64_MAX };
	static union long_attr long_attr;
	const struct base *b;
	unsigned int i, j;

	for_each_base(b) {
		for (i = 0; i < ARRAY_SIZE(fields); i++) {
			for (j = 0; j < ARRAY_SIZE(values); j++) {
				struct perf_event_attr attr = attr_of_base(b);

				if (fields[i].size)
					attr.size = fields[i].size;
				memset(&long_attr, 0, sizeof(long_attr));
				long_attr.attr = attr;
				memcpy(long_attr.bytes + fields[i].offset,
				       &values[j], sizeof(values[j]));
				try_open(&long_attr, "%s, %s %#llx", b->name,
					 fields[i].name,
					 (unsigned long long)values[j]);
			}
		}
	}
}

static const char * const flag_names[64] = {
	"disabled", "inherit", "pinned", "exclusive", "exclude_user",
	"exclude_kernel", "exclude_hv", "exclude_idle", "mmap", "comm", "freq",
	"inherit_stat", "enable_on_exec", "task", "watermark", "precise_ip 1",
	"precise_ip 2", "mmap_data", "sample_id_all", "exclude_host",
	"exclude_guest", "exclude_callchain_kernel", "exclude_callchain_user",
	"mmap2", "comm_exec", "use_clockid", "context_switch", "write_backward",
	"namespaces", "ksymbol", "bpf_event", "aux_output", "cgroup",
	"text_poke", "build_id", "inherit_thread", "remove_on_exec", "sigtrap",
};

static void test_flag(void)
{
	const struct base *b;
	unsigned int i;

	for_each_base(b) {
		for (i = 0; i < 64; i++) {
			struct perf_event_attr attr = attr_of_base(b);

			flip_flag(&attr, i);
			try_open(&attr, "%s, %s (bit %u)", b->name,
				 flag_names[i] ? : "reserved", i);
		}
	}
}

/* Flags that perf checks together, and with other fields. */
static const struct combination {
	const char *name;
	struct perf_event_attr attr;
} combinations[] = {
	{ "exclude_user", { .exclude_user = 1 } },
	{ "exclude_guest + exclude_host",
	  { .exclude_guest = 1, .exclude_host = 1 } },
	{ "exclude all",
	  { .exclude_user = 1, .exclude_hv = 1, .exclude_idle = 1,
	    .exclude_guest = 1, .exclude_host = 1 } },
	{ "exclude all callchains",
	  { .sample_type = PERF_SAMPLE_CALLCHAIN,
	    .exclude_callchain_kernel = 1, .exclude_callchain_user = 1 } },
	{ "inherit + inherit_stat", { .inherit = 1, .inherit_stat = 1 } },
	{ "inherit + inherit_thread", { .inherit = 1, .inherit_thread = 1 } },
	{ "inherit + PERF_FORMAT_GROUP",
	  { .inherit = 1, .read_format = PERF_FORMAT_GROUP } },
	{ "inherit + PERF_FORMAT_ID",
	  { .inherit = 1, .read_format = PERF_FORMAT_ID } },
	{ "inherit + PERF_SAMPLE_READ",
	  { .inherit = 1, .sample_type = PERF_SAMPLE_READ } },
	{ "inherit + PERF_SAMPLE_READ + PERF_FORMAT_GROUP",
	  { .inherit = 1, .sample_type = PERF_SAMPLE_READ,
	    .read_format = PERF_FORMAT_GROUP } },
	{ "pinned + exclusive", { .pinned = 1, .exclusive = 1 } },
	{ "precise_ip 3", { .precise_ip = 3 } },
	{ "precise_ip 1 + exclude_guest",
	  { .precise_ip = 1, .exclude_guest = 1 } },
	{ "precise_ip 2 + BRANCH_STACK",
	  { .precise_ip = 2, .sample_type = PERF_SAMPLE_BRANCH_STACK,
	    .branch_sample_type = PERF_SAMPLE_BRANCH_ANY } },
	{ "precise_ip 1 + aux_output", { .precise_ip = 1, .aux_output = 1 } },
	{ "aux_output + aux_sample_size",
	  { .aux_output = 1, .aux_sample_size = 4096 } },
	{ "aux_sample_size", { .aux_sample_size = 4096 } },
	{ "aux_sample_size + PERF_SAMPLE_AUX",
	  { .aux_sample_size = 4096, .sample_type = PERF_SAMPLE_AUX } },
	{ "aux_sample_size 2^31", { .aux_sample_size = 1u << 31 } },
	{ "aux_watermark", { .aux_watermark = 4096 } },
	{ "aux_watermark 2^32 - 1", { .aux_watermark = UINT_MAX } },
	{ "enable_on_exec + remove_on_exec",
	  { .enable_on_exec = 1, .remove_on_exec = 1 } },
	{ "sigtrap + remove_on_exec", { .sigtrap = 1, .remove_on_exec = 1 } },
	{ "sigtrap + remove_on_exec + sig_data",
	  { .sigtrap = 1, .remove_on_exec = 1, .sig_data = UINT64_MAX } },
	{ "sig_data", { .sig_data = UINT64_MAX } },
	{ "sigtrap + remove_on_exec + inherit",
	  { .sigtrap = 1, .remove_on_exec = 1, .inherit = 1,
	    .inherit_thread = 1 } },
	{ "write_backward + inherit", { .write_backward = 1, .inherit = 1 } },
	{ "mmap + mmap2 + build_id", { .mmap = 1, .mmap2 = 1, .build_id = 1 } },
	{ "task + comm + comm_exec", { .task = 1, .comm = 1, .comm_exec = 1 } },
	{ "watermark", { .watermark = 1, .wakeup_watermark = UINT_MAX } },
	{ "wakeup_events", { .wakeup_events = UINT_MAX } },
	{ "CLOCK_MONOTONIC", { .use_clockid = 1, .clockid = CLOCK_MONOTONIC } },
	{ "CLOCK_MONOTONIC_RAW",
	  { .use_clockid = 1, .clockid = CLOCK_MONOTONIC_RAW } },
	{ "CLOCK_BOOTTIME", { .use_clockid = 1, .clockid = CLOCK_BOOTTIME } },
	{ "CLOCK_TAI", { .use_clockid = 1, .clockid = CLOCK_TAI } },
	{ "CLOCK_PROCESS_CPUTIME_ID",
	  { .use_clockid = 1, .clockid = CLOCK_PROCESS_CPUTIME_ID } },
	{ "clockid -1", { .use_clockid = 1, .clockid = -1 } },
	{ "clockid without use_clockid", { .clockid = 99 } },
	{ "callchain of 1",
	  { .sample_type = PERF_SAMPLE_CALLCHAIN, .sample_max_stack = 1 } },
	{ "callchain of 127",
	  { .sample_type = PERF_SAMPLE_CALLCHAIN, .sample_max_stack = 127 } },
	{ "callchain of 128",
	  { .sample_type = PERF_SAMPLE_CALLCHAIN, .sample_max_stack = 128 } },
	{ "callchain of 65535",
	  { .sample_type = PERF_SAMPLE_CALLCHAIN, .sample_max_stack = 65535 } },
	{ "sample_max_stack 65535", { .sample_max_stack = 65535 } },
	{ "weight and weight struct",
	  { .sample_type = PERF_SAMPLE_WEIGHT | PERF_SAMPLE_WEIGHT_STRUCT } },
	{ "all that perf record asks for",
	  { .sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID |
			   PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR |
			   PERF_SAMPLE_ID | PERF_SAMPLE_CPU |
			   PERF_SAMPLE_PERIOD | PERF_SAMPLE_DATA_SRC |
			   PERF_SAMPLE_WEIGHT | PERF_SAMPLE_CALLCHAIN,
	    .read_format = PERF_FORMAT_ID, .inherit = 1, .mmap = 1, .comm = 1,
	    .task = 1, .sample_id_all = 1, .exclude_guest = 1, .mmap2 = 1,
	    .comm_exec = 1, .ksymbol = 1, .bpf_event = 1 } },
	{ "reserved_1", { .__reserved_1 = 1 } },
	{ "reserved_2", { .__reserved_2 = 1 } },
	{ "reserved_3", { .__reserved_3 = 1 } },
};

/* @base, with the bits of @from set as well. */
static struct perf_event_attr combine(const struct base *base,
				      const struct perf_event_attr *from)
{
	struct perf_event_attr attr = attr_of_base(base);
	const char *bits = (const char *)from;
	char *to = (char *)&attr;
	size_t i;

	for (i = 0; i < sizeof(attr); i++)
		to[i] |= bits[i];
	return attr;
}

static void test_combination(void)
{
	const struct base *b;
	unsigned int i;

	for_each_base(b) {
		for (i = 0; i < ARRAY_SIZE(combinations); i++) {
			struct perf_event_attr attr;

			attr = combine(b, &combinations[i].attr);
			try_open(&attr, "%s, %s", b->name,
				 combinations[i].name);
		}
	}
}

static void test_sample(void)
{
	const struct base *b;
	unsigned int i;

	for_each_base(b) {
		for (i = 0; i < 64; i++) {
			struct perf_event_attr attr = attr_of_base(b);

			attr.sample_type = BIT(i);
			try_open(&attr, "%s, sample_type bit %u", b->name, i);
		}
	}
}

static void test_branch(void)
{
	const struct base *b;
	unsigned int i;

	for_each_base(b) {
		struct perf_event_attr attr = attr_of_base(b);

		for (i = 0; i < 64; i++) {
			attr.sample_type = PERF_SAMPLE_BRANCH_STACK;
			attr.branch_sample_type = BIT(i);
			try_open(&attr, "%s, branch stack, bit %u", b->name, i);
			attr.branch_sample_type |= PERF_SAMPLE_BRANCH_ANY |
						   PERF_SAMPLE_BRANCH_USER;
			try_open(&attr, "%s, branch stack of any, bit %u",
				 b->name, i);
			attr.sample_type = PERF_SAMPLE_IP;
			attr.branch_sample_type = BIT(i);
			try_open(&attr, "%s, no branch stack, bit %u", b->name,
				 i);
		}
		attr.sample_type = PERF_SAMPLE_BRANCH_STACK;
		attr.branch_sample_type = PERF_SAMPLE_BRANCH_CALL_STACK |
					  PERF_SAMPLE_BRANCH_USER;
		try_open(&attr, "%s, LBR call stack", b->name);
	}
}

static void test_regs(void)
{
	static const uint32_t stacks[] = {
		0, 1, 7, 8, 1024, 65528, 65534, 65535, 65536, UINT_MAX,
	};
	const struct base *b;
	unsigned int i;

	for_each_base(b) {
		struct perf_event_attr attr = attr_of_base(b);

		for (i = 0; i < 64; i++) {
			attr.sample_type = PERF_SAMPLE_REGS_USER;
			attr.sample_regs_user = BIT(i);
			try_open(&attr, "%s, user bit %u", b->name, i);
			attr.sample_type = 0;
			try_open(&attr, "%s, user bit %u, not sampled", b->name,
				 i);
			attr.sample_regs_user = 0;

			attr.sample_type = PERF_SAMPLE_REGS_INTR;
			attr.sample_regs_intr = BIT(i);
			try_open(&attr, "%s, intr bit %u", b->name, i);
			attr.sample_type = 0;
			try_open(&attr, "%s, intr bit %u, not sampled", b->name,
				 i);
			attr.sample_regs_intr = 0;
		}
		for (i = 0; i < ARRAY_SIZE(stacks); i++) {
			attr.sample_type = PERF_SAMPLE_STACK_USER;
			attr.sample_stack_user = stacks[i];
			try_open(&attr, "%s, user stack of %u", b->name,
				 stacks[i]);
		}
	}
}

static const uint64_t periods[] = {
	0, 1, 2, 31, 32, 1000, INT_MAX, BIT(31), UINT_MAX, BIT(32), BIT(47),
	INT64_MAX, BIT(63), UINT64_MAX,
};

static void test_period(void)
{
	const struct base *b;
	unsigned int i;

	for_each_base(b) {
		struct perf_event_attr attr = attr_of_base(b);

		for (i = 0; i < ARRAY_SIZE(periods); i++) {
			attr.sample_period = periods[i];
			attr.freq = 0;
			try_open(&attr, "%s, period %llu", b->name,
				 (unsigned long long)periods[i]);
			attr.freq = 1;
			try_open(&attr, "%s, frequency %llu", b->name,
				 (unsigned long long)periods[i]);
		}
	}
}

static void test_format(void)
{
	const struct base *b;
	unsigned int i;

	for_each_base(b) {
		struct perf_event_attr attr = attr_of_base(b);

		for (i = 0; i < 64; i++) {
			attr.read_format = BIT(i);
			try_open(&attr, "%s, read_format bit %u", b->name, i);
		}
		attr.read_format = PERF_FORMAT_MAX - 1;
		try_open(&attr, "%s, read_format all", b->name);
	}
}

static void test_size(void)
{
	static const uint32_t sizes[] = {
		0, 1, 63, 64, 65, 71, 72, 80, 96, 104, 112, 120, 127, 128, 129,
		136, 144, 4095, 4096, 4097, UINT_MAX,
	};
	static union long_attr long_attr;
	unsigned int i, last;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		memset(&long_attr, 0, sizeof(long_attr));
		long_attr.attr = attr_of(PERF_TYPE_HARDWARE,
					 PERF_COUNT_HW_INSTRUCTIONS);
		long_attr.attr.size = sizes[i];
		try_open(&long_attr, "%u", sizes[i]);
		/* 0 stands for PERF_ATTR_SIZE_VER0. */
		last = sizes[i] - 1;
		if (last >= sizeof(long_attr))
			last = PERF_ATTR_SIZE_VER0 - 1;
		long_attr.bytes[last] = 1;
		try_open(&long_attr, "%u, last byte 1", sizes[i]);
	}
	try_open(NULL, "no attr");
}

static void test_breakpoint(void)
{
	static const uint32_t types[] = { 0, 1, 2, 3, 4, 5, 7, 8, UINT_MAX };
	static const uint64_t lens[] = { 0, 1, 2, 3, 4, 8, 16, UINT64_MAX };
	static const uint64_t off[] = { 0, 1, BIT(63) };
	static uint64_t variable;
	struct perf_event_attr attr;
	unsigned int i, j, k;

	for (i = 0; i < ARRAY_SIZE(types); i++) {
		for (j = 0; j < ARRAY_SIZE(lens); j++) {
			for (k = 0; k < ARRAY_SIZE(off); k++) {
				attr = attr_of(PERF_TYPE_BREAKPOINT, 0);
				attr.bp_type = types[i];
				attr.bp_len = lens[j];
				attr.bp_addr = (uintptr_t)&variable | off[k];
				try_open(&attr, "type %u, len %llu, addr %u",
					 types[i], (unsigned long long)lens[j],
					 k);
			}
		}
		attr = attr_of(PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS);
		attr.bp_type = types[i];
		try_open(&attr, "counting, bp_type %u", types[i]);
	}
}

static pid_t zombie(void)
{
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	waitid(P_PID, pid, NULL, WEXITED | WNOWAIT);
	return pid;
}

static void test_pid_cpu(void)
{
	pid_t dead = zombie();
	const struct {
		const char *name;
		pid_t pid;
	} pids[] = {
		{ "self", 0 }, { "all", -1 }, { "-2", -2 }, { "init", 1 },
		{ "a kernel thread", 2 }, { "a zombie", dead },
		{ "nobody", INT_MAX }, { "INT_MIN", INT_MIN },
	};
	static const int cpus[] = { -1, 0, 1, -2, BAD_CPU, INT_MAX, INT_MIN };
	const struct base *b;
	unsigned int i, j;

	for_each_base(b) {
		struct perf_event_attr attr = attr_of_base(b);

		for (i = 0; i < ARRAY_SIZE(pids); i++) {
			for (j = 0; j < ARRAY_SIZE(cpus); j++) {
				struct target t = {
					.pid = pids[i].pid, .cpu = cpus[j],
					.group = -1,
				};

				try_open_at(&attr, t, "%s, pid %s, cpu %d",
					    b->name, pids[i].name, cpus[j]);
			}
		}
	}
	waitpid(dead, NULL, 0);
}

static void try_flags(const struct perf_event_attr *attr, struct target t,
		      const char *what)
{
	unsigned int i;

	for (i = 0; i < 64; i++) {
		t.flags = BIT(i);
		try_open_at(attr, t, "%s, flag %u", what, i);
	}
	t.flags = PERF_FLAG_FD_NO_GROUP | PERF_FLAG_FD_OUTPUT;
	try_open_at(attr, t, "%s, FD_NO_GROUP + FD_OUTPUT", what);
}

/* The last two arguments of perf_event_open(). */
static void test_argument(void)
{
	struct perf_event_attr attr = attr_of_base(&bases[0]);
	int null = open("/dev/null", O_RDONLY);
	int leader = open_event(&attr);
	const struct {
		const char *name;
		int fd;
	} groups[] = {
		{ "no group", -1 }, { "group -2", -2 },
		{ "closed group", BAD_FD }, { "/dev/null as group", null },
		{ "leader", leader },
	};
	const int cgroups[] = { BAD_FD, null, leader, -1 };
	struct target t = self;
	unsigned int i;
	int cpu;

	for (i = 0; i < ARRAY_SIZE(groups); i++) {
		t.group = groups[i].fd;
		try_open_at(&attr, t, "%s", groups[i].name);
		try_flags(&attr, t, groups[i].name);
	}

	t.group = -1;
	t.flags = PERF_FLAG_PID_CGROUP;
	for (i = 0; i < ARRAY_SIZE(cgroups); i++) {
		for (cpu = -1; cpu < 2; cpu++) {
			t.pid = cgroups[i];
			t.cpu = cpu;
			try_open_at(&attr, t, "cgroup %u, cpu %d", i, cpu);
		}
	}
	close_event(leader);
	close(null);
}

static void try_sibling(int leader, const struct perf_event_attr *attr,
			const char *of, const char *how, const char *what)
{
	struct target t = { .pid = 0, .cpu = -1, .group = leader };

	try_open_at(attr, t, "%s leads %s%s", of, how, what);
}

static void try_siblings(const struct base *b)
{
	struct perf_event_attr attr = attr_of_base(b), other = attr;
	struct target t = { .group = open_event(&attr), .cpu = -1 };
	const struct base *s;
	int sibling;

	if (t.group < 0)
		return;

	for_each_base(s) {
		other = attr_of_base(s);
		try_sibling(t.group, &other, b->name, "", s->name);
		other.pinned = 1;
		try_sibling(t.group, &other, b->name, "pinned ",
			    s->name);
		other.pinned = 0;
		other.exclusive = 1;
		try_sibling(t.group, &other, b->name, "exclusive ",
			    s->name);
		other.exclusive = 0;
		other.inherit = 1;
		try_sibling(t.group, &other, b->name, "inherited ",
			    s->name);
	}
	attr.use_clockid = 1;
	attr.clockid = CLOCK_MONOTONIC;
	try_sibling(t.group, &attr, b->name, "", "one of another clock");
	attr.use_clockid = 0;

	t.cpu = 0;
	try_open_at(&attr, t, "%s leads one of CPU 0", b->name);
	t.pid = -1;
	try_open_at(&attr, t, "%s leads one of all on CPU 0", b->name);
	t.pid = getppid();
	t.cpu = -1;
	try_open_at(&attr, t, "%s leads one of another task", b->name);

	t.pid = 0;
	sibling = open_at(&attr, t);
	report(sibling, "%s leads the same", b->name);
	try_sibling(sibling, &attr, "a sibling", "", b->name);
	close_event(sibling);
	close(t.group);
}

static void try_across_cpus(const struct base *b)
{
	struct perf_event_attr attr = attr_of_base(b);
	struct target t = { .pid = -1, .cpu = 0, .group = -1 };
	int leader = open_at(&attr, t);

	report(leader, "%s of CPU 0", b->name);
	t.group = leader;
	try_open_at(&attr, t, "%s of CPU 0 leads the same", b->name);
	t.cpu = 1;
	try_open_at(&attr, t, "%s of CPU 0 leads one of CPU 1", b->name);
	t.pid = 0;
	t.cpu = 0;
	try_open_at(&attr, t, "%s of CPU 0 leads one of a task", b->name);
	close_event(leader);
}

static void test_group(void)
{
	const struct base *b;

	for_each_base(b) {
		try_siblings(b);
		try_across_cpus(b);
	}
}

/* Opens @nr events of @b; the first event leads.  @disabled is for the other events. */
static int open_group(const struct base *b, int nr, bool disabled, int *fds)
{
	struct perf_event_attr attr = attr_of_base(b);
	struct target t = self;
	int i;

	for (i = 0; i < nr; i++) {
		fds[i] = open_at(&attr, t);
		if (fds[i] < 0)
			break;
		t.group = fds[0];
		attr.disabled = disabled;
	}
	return i;
}

static void close_group(const int *fds, int nr)
{
	while (nr--)
		close(fds[nr]);
}

/* Groups of up to more events than there are counters. */
static void try_large_groups(const struct base *b)
{
	int fds[MAX_GROUP], disabled, nr, opened;

	for (disabled = 0; disabled < 2; disabled++) {
		for (nr = 2; nr <= MAX_GROUP; nr++) {
			opened = open_group(b, nr, disabled, fds);
			report(opened < nr ? -1 : 0, "%s, %d of them, %s",
			       b->name, nr, disabled ? "disabled" : "enabled");
			close_group(fds, opened);
		}
	}
}

static void try_next(const int *fds, const struct base *b, const char *name)
{
	struct perf_event_attr attr = attr_of_base(b);
	struct target t = { .pid = 0, .cpu = -1, .group = fds[0] };

	try_open_at(&attr, t, "%s and then %s", name, b->name);
	attr.disabled = 0;
	try_open_at(&attr, t, "%s and then %s, enabled", name, b->name);
}

static void test_large_group(void)
{
	/* An event with large increments, which takes two counters on AMD. */
	static const struct base flops = { "flops", PERF_TYPE_RAW, 0xf03 };
	/* An event that only one counter counts on Intel. */
	static const struct base ref_cycles = {
		"ref-cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_REF_CPU_CYCLES,
	};
	int fds[MAX_GROUP], nr;
	const struct base *b;

	for_each_base(b)
		try_large_groups(b);
	try_large_groups(&flops);
	try_large_groups(&ref_cycles);

	/* The order of the checks, and the events that count towards the group's limit. */
	for_each_base(b) {
		nr = open_group(&bases[0], 6, false, fds);
		try_next(fds, b, "six");
		close_group(fds, nr);
		nr = open_group(&bases[0], 6, true, fds);
		try_next(fds, b, "one and five that are disabled");
		close_group(fds, nr);
		nr = open_group(&bases[7], 1, false, fds);
		nr += open_group(&bases[0], 6, false, fds + nr);
		try_next(fds, b, "a leader of software");
		close_group(fds, nr);
	}
}

static void try_ioctl(int fd, const struct base *b, const char *name,
		      unsigned long request, uintptr_t arg)
{
	report(ioctl(fd, request, arg), "%s, %s", b->name, name);
}

#define ARG(request, arg) { #request " " #arg, PERF_EVENT_IOC_##request, \
			    (uintptr_t)(arg) }

static void try_plain_ioctls(int fd, const struct base *b)
{
	static uint64_t id;
	static const struct {
		const char *name;
		unsigned long request;
		uintptr_t arg;
	} t[] = {
		ARG(ENABLE, 0), ARG(ENABLE, 1), ARG(ENABLE, 2),
		ARG(DISABLE, 0), ARG(DISABLE, 1), ARG(DISABLE, 2),
		ARG(RESET, 0), ARG(RESET, 1), ARG(RESET, 2),
		ARG(REFRESH, 0), ARG(REFRESH, 1), ARG(REFRESH, -1),
		{ "DISABLE after REFRESH", PERF_EVENT_IOC_DISABLE, 0 },
		ARG(PERIOD, NULL), ARG(ID, &id), ARG(ID, NULL),
		ARG(SET_OUTPUT, -1), ARG(SET_OUTPUT, -2),
		ARG(SET_OUTPUT, BAD_FD),
		ARG(SET_FILTER, NULL), ARG(SET_FILTER, ""),
		ARG(SET_FILTER, "pid == 1"), ARG(SET_FILTER, "filter 0/0"),
		ARG(SET_BPF, -1), ARG(SET_BPF, BAD_FD),
		ARG(PAUSE_OUTPUT, 0), ARG(PAUSE_OUTPUT, 1),
		ARG(QUERY_BPF, NULL), ARG(MODIFY_ATTRIBUTES, NULL),
		{ "unknown", _IO('$', 99), 0 }, { "TCGETS", 0x5401, 0 },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(t); i++)
		try_ioctl(fd, b, t[i].name, t[i].request, t[i].arg);
}

static void try_period_ioctls(int fd, const struct base *b)
{
	char name[64];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(periods); i++) {
		snprintf(name, sizeof(name), "PERIOD %llu",
			 (unsigned long long)periods[i]);
		try_ioctl(fd, b, name, PERF_EVENT_IOC_PERIOD,
			  (uintptr_t)&periods[i]);
	}
}

static void try_modify(int fd, const struct base *b)
{
	struct perf_event_attr attr = attr_of_base(b);
	const unsigned long request = PERF_EVENT_IOC_MODIFY_ATTRIBUTES;

	try_ioctl(fd, b, "MODIFY_ATTRIBUTES, the same", request,
		  (uintptr_t)&attr);
	attr.config ^= 1;
	try_ioctl(fd, b, "MODIFY_ATTRIBUTES, config", request,
		  (uintptr_t)&attr);
	attr.config ^= 1;
	attr.sample_period ^= 1;
	try_ioctl(fd, b, "MODIFY_ATTRIBUTES, period", request,
		  (uintptr_t)&attr);
	attr.sample_period ^= 1;
	attr.type = PERF_TYPE_BREAKPOINT;
	try_ioctl(fd, b, "MODIFY_ATTRIBUTES, type", request,
		  (uintptr_t)&attr);
	attr.size = 1;
	try_ioctl(fd, b, "MODIFY_ATTRIBUTES, size", request,
		  (uintptr_t)&attr);
}

static void try_output(int fd, const struct base *b)
{
	const unsigned long request = PERF_EVENT_IOC_SET_OUTPUT;
	int null = open("/dev/null", O_RDONLY);
	const struct base *o;
	int other;

	try_ioctl(fd, b, "SET_OUTPUT to itself", request, fd);
	try_ioctl(fd, b, "SET_OUTPUT to /dev/null", request, null);
	for_each_base(o) {
		struct perf_event_attr attr = attr_of_base(o);
		char name[64];

		other = open_event(&attr);
		snprintf(name, sizeof(name), "SET_OUTPUT to %s", o->name);
		try_ioctl(fd, b, name, request, other);
		close_event(other);
	}
	close(null);
}

static void test_ioctl(void)
{
	const struct base *b;

	for_each_base(b) {
		struct perf_event_attr attr = attr_of_base(b);
		int fd = open_event(&attr);

		if (fd < 0)
			continue;
		try_plain_ioctls(fd, b);
		try_period_ioctls(fd, b);
		try_modify(fd, b);
		try_output(fd, b);
		close(fd);
	}
}

static void test_read(void)
{
	static const size_t sizes[] = { 0, 1, 7, 8, 15, 16, 24, 32, 40, 48 };
	/* Volatile, so that gcc does not know that the pointer is NULL. */
	char *volatile nowhere = NULL;
	const struct base *b;
	unsigned int format, i;
	char buf[64] = "";
	int fd;

	for_each_base(b) {
		struct perf_event_attr attr = attr_of_base(b);

		for (format = 0; format < 32; format++) {
			attr.read_format = format;
			fd = open_event(&attr);
			for (i = 0; fd >= 0 && i < ARRAY_SIZE(sizes); i++)
				report(read(fd, buf, sizes[i]),
				       "%s, read_format %#x, %zu bytes",
				       b->name, format, sizes[i]);
			close_event(fd);
		}
		attr.read_format = 0;
		fd = open_event(&attr);
		report(read(fd, nowhere, 8), "%s, to NULL", b->name);
		report(write(fd, buf, 8), "%s, write", b->name);
		close_event(fd);
	}
}

static void try_mmap(int fd, const char *name, size_t pages, int prot,
		     int flags, off_t page)
{
	size_t size = pages * 4096;
	void *p = mmap(NULL, size, prot, flags, fd, page * 4096);

	report(p == MAP_FAILED ? -1 : 0, "%s, %zu pages at %ld%s%s", name,
	       pages, (long)page, prot & PROT_WRITE ? "" : ", read-only",
	       flags & MAP_PRIVATE ? ", private" : "");
	if (p != MAP_FAILED)
		munmap(p, size);
}

/* ioctls while the ring buffer is mapped. */
static void try_mapped(int fd, const char *name)
{
	const int rw = PROT_READ | PROT_WRITE;
	void *page = mmap(NULL, 9 * 4096, rw, MAP_SHARED, fd, 0);
	char again[64];

	if (page == MAP_FAILED)
		return;
	snprintf(again, sizeof(again), "%s, mapped", name);
	try_mmap(fd, again, 9, rw, MAP_SHARED, 0);
	try_mmap(fd, again, 5, rw, MAP_SHARED, 0);
	try_mmap(fd, again, 8, rw, MAP_SHARED, 9);
	report(ioctl(fd, PERF_EVENT_IOC_PAUSE_OUTPUT, 1), "%s, PAUSE_OUTPUT",
	       again);
	report(ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, -1), "%s, SET_OUTPUT -1",
	       again);
	munmap(page, 9 * 4096);
}

static void try_mmaps(const struct perf_event_attr *attr, const char *base,
		      const char *what)
{
	static const size_t sizes[] = {
		1, 2, 3, 4, 5, 7, 9, 65, 129, 130, 1025, 4097, 1048577,
	};
	const int rw = PROT_READ | PROT_WRITE;
	int fd = open_event(attr);
	unsigned int i;
	char name[48];

	if (fd < 0)
		return;
	snprintf(name, sizeof(name), "%s, %s", base, what);
	for (i = 0; i < ARRAY_SIZE(sizes); i++)
		try_mmap(fd, name, sizes[i], rw, MAP_SHARED, 0);
	try_mmap(fd, name, 9, PROT_READ, MAP_SHARED, 0);
	try_mmap(fd, name, 1, PROT_READ, MAP_SHARED, 0);
	try_mmap(fd, name, 9, rw, MAP_PRIVATE, 0);
	try_mmap(fd, name, 8, rw, MAP_SHARED, 1);
	try_mmap(fd, name, 8, rw, MAP_SHARED, 9);
	try_mapped(fd, name);
	close(fd);
}

static void test_mmap(void)
{
	const struct base *b;

	for_each_base(b) {
		struct perf_event_attr attr = attr_of_base(b);

		try_mmaps(&attr, b->name, "plain");
		attr.inherit = 1;
		try_mmaps(&attr, b->name, "inherit");
		attr.inherit = 0;
		attr.write_backward = 1;
		try_mmaps(&attr, b->name, "write_backward");
		attr.watermark = 1;
		attr.wakeup_watermark = UINT_MAX;
		try_mmaps(&attr, b->name, "watermark");
	}
}

static const struct {
	const char *name;
	void (*run)(void);
} groups[] = {
	{ "hardware", test_hardware }, { "cache", test_cache },
	{ "raw", test_raw }, { "type", test_type }, { "config", test_config },
	{ "flag", test_flag }, { "combination", test_combination },
	{ "sample", test_sample }, { "branch", test_branch },
	{ "regs", test_regs }, { "period", test_period },
	{ "format", test_format }, { "size", test_size },
	{ "breakpoint", test_breakpoint }, { "pid_cpu", test_pid_cpu },
	{ "argument", test_argument }, { "group", test_group },
	{ "large_group", test_large_group }, { "ioctl", test_ioctl },
	{ "read", test_read }, { "mmap", test_mmap },
};

static bool is_wanted(const char *name, char **wanted)
{
	if (!*wanted)
		return true;
	for (; *wanted; wanted++) {
		if (!strcmp(*wanted, name))
			return true;
	}
	return false;
}

int main(int argc, char **argv)
{
	struct rlimit none = { 0, 0 };
	unsigned int i;

	/* The limit on mapped memory must not depend on the parent process. */
	if (setrlimit(RLIMIT_MEMLOCK, &none))
		err(1, "setrlimit");

	for (i = 0; i < ARRAY_SIZE(groups); i++) {
		group_name = groups[i].name;
		if (is_wanted(group_name, argv + 1))
			groups[i].run();
	}
	return 0;
}
