// SPDX-License-Identifier: GPL-2.0
/*
 * The guest's driver in user space: accepted events, sysfs, and loading, also without parts
 * of the kernel.
 */
#include "guest.h"

#include "kvm_pmu.h"
#include "kvm_pmu_query.h"

static struct perf_event_attr of_type(u32 type, u64 config)
{
	struct perf_event_attr attr = raw_user(config);

	attr.type = type;
	return attr;
}

GUEST_TEST(takes_events_by_name)
{
	EXPECT_EQ(0, open_error(of_type(PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS)));
	EXPECT_EQ(0, open_error(of_type(PERF_TYPE_HW_CACHE, 0x10003)));
	EXPECT_EQ(-ENOENT, open_error(of_type(PERF_TYPE_SOFTWARE, 0)));
	EXPECT_EQ(-EINVAL, open_error(of_type(PERF_TYPE_HARDWARE, 10)));
	host.query.hw_config[PERF_COUNT_HW_BUS_CYCLES] = 0;
	EXPECT_EQ(-ENOENT,
		  open_error(of_type(PERF_TYPE_HARDWARE, PERF_COUNT_HW_BUS_CYCLES)));
	unload();
}

GUEST_TEST(what_x86_refuses)
{
	struct perf_event_attr attr = raw_user(0xc0);

	attr.precise_ip = 1;
	EXPECT_EQ(-EOPNOTSUPP, open_error(attr));
	attr = raw_user(0xc0);
	attr.sample_regs_intr = 1ull << 40;
	EXPECT_EQ(-EINVAL, open_error(attr));
	/* AMD's PMU ignores bits that it does not know. */
	EXPECT_EQ(0, open_error(raw_user(0xc0 | 1ull << 45)));
	unload();
}

GUEST_TEST(extra_registers_are_intels)
{
	struct perf_event_attr attr = raw_user(0xb7);

	attr.config1 = 1;
	EXPECT_EQ(0, open_error(attr));
	boot_cpu_data.x86_vendor = X86_VENDOR_INTEL;
	EXPECT_EQ(-ENOENT, open_error(attr));
	attr.config = 0xc0;
	EXPECT_EQ(0, open_error(attr));
	attr.aux_output = 1;
	EXPECT_EQ(-EINVAL, open_error(attr));
	/* On Intel this bit selects another event. */
	EXPECT_EQ(-EOPNOTSUPP, open_error(raw_user(0xc0 | 1ull << 45)));
	unload();
}

/* rr opens each of its events also with the bit "not in transactions that abort". */
GUEST_TEST(transactions_of_intel)
{
	struct perf_event_attr attr = raw_user(0x1c4 | HSW_IN_TX_CHECKPOINTED);

	EXPECT_EQ(0, open_error(attr));
	boot_cpu_data.x86_vendor = X86_VENDOR_INTEL;
	EXPECT_EQ(0, open_error(attr));
	cpu_has_rtm = true;
	EXPECT_EQ(-EINVAL, open_error(attr));
	attr.config = 0x1c4;
	EXPECT_EQ(0, open_error(attr));
	unload();
}

GUEST_TEST(guests_of_this_guest)
{
	struct perf_event_attr attr = raw_user(0xc0);
	struct perf_event *event;

	attr.exclude_guest = 1;
	cpu_has_svm = true;
	event = open_cpu(attr, 0);
	EXPECT_TRUE(backing(event)->attr.flags & KVM_PERF_ATTR_EXCLUDE_GUEST);
	perf_close(event);
	attr.exclude_guest = 0;
	attr.exclude_host = 1;
	event = open_cpu(attr, 0);
	EXPECT_TRUE(backing(event)->attr.flags & KVM_PERF_ATTR_EXCLUDE_HOST);
	perf_close(event);
	unload();
}

GUEST_TEST_UNLOADED(an_older_host_knows_no_guests_of_this_guest)
{
	struct perf_event_attr attr = raw_user(0xc0);

	host.query.features &= ~KVM_PERF_FEATURE_NESTED;
	load();
	attr.exclude_guest = 1;
	EXPECT_EQ(0, open_error(attr));
	attr.exclude_host = 1;
	EXPECT_EQ(-EOPNOTSUPP, open_error(attr));
	unload();
}

static long refused_with;

static long refuse(u32 op, u32 id, u64 arg)
{
	return op == KVM_PERF_OP_OPEN ? refused_with : 0;
}

GUEST_TEST(what_the_hosts_errors_are_to_perf)
{
	static const struct {
		long host;
		int perf;
	} errors[] = {
		{ -KVM_EOPNOTSUPP, -ENOENT },
		{ -KVM_ENOSYS, -EOPNOTSUPP },
		{ -KVM_EINVAL, -EINVAL },
		{ -KVM_ENOSPC, -ENOSPC },
		{ -KVM_EBUSY, -EBUSY },
		{ -KVM_EPERM, -EIO },
		{ -KVM_EFAULT, -EIO },
	};
	unsigned int i;

	host.refuse = refuse;
	log_lines = 0;
	for (i = 0; i < ARRAY_SIZE(errors); i++) {
		refused_with = errors[i].host;
		EXPECT_EQ(errors[i].perf, open_error(raw_user(0x1000 + i)));
	}
	EXPECT_EQ(1, log_lines);
	/* The driver remembers only errors that do not change. */
	host.refuse = NULL;
	for (i = 0; i < ARRAY_SIZE(errors); i++)
		EXPECT_EQ(i == 0 ? -ENOENT : i == 2 ? -EINVAL : 0,
			  open_error(raw_user(0x1000 + i)));
	unload();
}

static int visible(struct __test_metadata *_metadata, const char *pmu, const char *name)
{
	const struct attribute_group **group;
	struct attribute **attr;
	struct device_attribute *file;
	char *page = calloc(1, PAGE_SIZE);
	int i, n = 0;

	for (group = pmu_named(pmu)->attr_groups; *group; group++) {
		for (attr = (*group)->attrs, i = 0; *attr; attr++, i++) {
			if ((*group)->is_visible &&
			    !(*group)->is_visible(NULL, *attr, i))
				continue;
			n++;
			file = container_of(*attr, struct device_attribute, attr);
			EXPECT_LT(0, file->show(NULL, file, page));
			EXPECT_EQ('\n', page[strlen(page) - 1]);
			if (name && !strcmp((*attr)->name, name))
				strcpy(log_line, page);
		}
	}
	free(page);
	return n;
}

GUEST_TEST(files_in_sysfs)
{
	int n = visible(_metadata, "cpu", "instructions");

	EXPECT_STREQ("event=0xc0\n", log_line);
	EXPECT_EQ(n, visible(_metadata, "cpu", "event"));
	EXPECT_STREQ("config:0-7,32-35\n", log_line);
	host.query.raw_event_mask = 0xffffffff;
	host.query.hw_config[PERF_COUNT_HW_BUS_CYCLES] = 0;
	host.query.hw_config[PERF_COUNT_HW_CACHE_MISSES] = 0x20c4017e | 1 << 23;
	unload();
	load();
	EXPECT_EQ(n - 1, visible(_metadata, "cpu", "event"));
	EXPECT_STREQ("config:0-7\n", log_line);
	visible(_metadata, "cpu", "cache-misses");
	EXPECT_STREQ("event=0x7e,umask=0x01,edge,inv,cmask=0x20\n", log_line);
	n = visible(_metadata, "kvm", "exits_io");
	EXPECT_STREQ("event=0x01\n", log_line);
	host.query.counts = BIT(KVM_PERF_COUNT_EXITS_IO);
	unload();
	load();
	EXPECT_GT(n, visible(_metadata, "kvm", "exits_io"));
	unload();
}

GUEST_TEST(a_kvm_on_top_is_told)
{
	struct guest_perf_query query;

	EXPECT_TRUE(kvm_pmu_query(&query));
	EXPECT_EQ(4, query.nr_counters);
	unload();
}

GUEST_TEST_UNLOADED(beside_another_pmu)
{
	struct guest_perf_query query;

	raw_is_taken = true;
	load();
	EXPECT_EQ(NULL, pmu_named("cpu"));
	EXPECT_FALSE(kvm_pmu_query(&query));
	EXPECT_EQ(-ENOENT, open_error(of_type(PERF_TYPE_HARDWARE, 0)));
	EXPECT_EQ(0, open_error(of_type(pmu_named("kvm_pmu")->type, 0xc0)));
	unload();
}

GUEST_TEST(overflows_are_in_debugfs)
{
	struct perf_event *event = open_task(sampling(0xc0, 10), 0);
	u64 n;

	run(0);
	user_work(0, 50);
	EXPECT_EQ(0, debugfs_overflows->get(NULL, &n));
	EXPECT_EQ(5, n);
	perf_close(event);
	unload();
}

GUEST_TEST(the_area_is_in_debugfs)
{
	struct guest_perf_area area = { };
	loff_t at = 0;

	run(0);
	EXPECT_EQ(sizeof(area), debugfs_area->read(NULL, (char *)&area, sizeof(area), &at));
	EXPECT_EQ(sizeof(area), area.size);
	EXPECT_EQ(area.epoch, this_kvm_pmu_cpu()->host.area->epoch);
	EXPECT_EQ(0, debugfs_area->read(NULL, (char *)&area, sizeof(area), &at));
	unload();
}

static void not_loaded(struct __test_metadata *_metadata, int error, const char *why)
{
	EXPECT_EQ(error, stand_in_init());
	EXPECT_NE(NULL, strstr(log_line, why));
	EXPECT_EQ(0, nr_allocated);
	EXPECT_FALSE(!!nmi_handler);
}

GUEST_TEST_UNLOADED(not_loaded_without_kvm)
{
	host.offers = false;
	not_loaded(_metadata, -ENODEV, "no guest of KVM");
}

GUEST_TEST_UNLOADED(not_loaded_without_the_feature)
{
	host.offers = false;
	host.gone = true;
	not_loaded(_metadata, -ENODEV, "does not offer");
	host.offers = true;
	not_loaded(_metadata, -ENODEV, "answers");
}

GUEST_TEST_UNLOADED(not_loaded_in_encrypted_memory)
{
	memory_is_encrypted = true;
	not_loaded(_metadata, -ENODEV, "encrypted");
}

GUEST_TEST_UNLOADED(not_loaded_without_batches)
{
	host.query.features &= ~KVM_PERF_FEATURE_BATCH;
	not_loaded(_metadata, -ENODEV, "does not have KVM_PERF_OP_BATCH");
}

GUEST_TEST_UNLOADED(not_loaded_without_a_function_that_it_needs)
{
	static const char *const functions[] = {
		"perf_pmu_resched is not found", "perf_event_overflow is not found",
		"perf_event_account_interrupt is not found", "perf_sched_cb_inc is not found",
		"perf_sched_cb_dec is not found", "branch_type_fused is not found",
		"common_branch_type is not found", "kernel_text_address is not found",
	};
	char name[64];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(functions); i++) {
		sscanf(functions[i], "%63s", name);
		missing_function = name;
		not_loaded(_metadata, -ENOENT, functions[i]);
	}
}

/* A change of a function's code interrupts all CPUs. */
GUEST_TEST_UNLOADED(functions_are_found_without_a_change_to_them)
{
	host.query.rdpmc = KVM_PERF_RDPMC_ALLOWED;
	/* The driver arms a probe of its own there. */
	missing_function = "machine_kexec";
	load();
	EXPECT_EQ(0, open_error(sampling(0xc0, 100)));
	EXPECT_EQ(NULL, armed_function);
	unload();
}

GUEST_TEST_UNLOADED(not_loaded_without_a_pmu)
{
	register_error = -ENOMEM;
	not_loaded(_metadata, -ENOMEM, "registering the PMU failed");
}

GUEST_TEST_UNLOADED(every_allocation_may_fail)
{
	unsigned int i;

	for (i = 1;; i++) {
		alloc_fail_at = i;
		if (!stand_in_init())
			break;
		EXPECT_EQ(0, nr_allocated);
		EXPECT_FALSE(!!nmi_handler);
	}
	EXPECT_LT(10, i);
	alloc_fail_at = 0;
	unload();
}

GUEST_TEST_UNLOADED(what_else_may_fail)
{
	cpuhp_fails = true;
	EXPECT_EQ(-ENOSPC, stand_in_init());
	EXPECT_EQ(0, nr_allocated);
	cpuhp_fails = false;
	nmi_register_fails = true;
	EXPECT_EQ(-ENOMEM, stand_in_init());
	EXPECT_EQ(0, nr_allocated);
	nmi_register_fails = false;
	load();
	unload();
}

GUEST_TEST(an_allocation_for_an_event_may_fail)
{
	alloc_fail_at = 1;
	EXPECT_EQ(-ENOMEM, open_error(raw_user(0xc0)));
	alloc_fail_at = 2;
	EXPECT_EQ(-ENOMEM, open_error(raw_user(0xc0)));
	EXPECT_EQ(0, open_error(raw_user(0xc0)));
	unload();
}

GUEST_TEST_UNLOADED(why_counters_are_read_by_the_host)
{
	static const char * const why[] = {
		[KVM_PERF_RDPMC_UNKNOWN] = "it knows no RDPMC",
		[KVM_PERF_RDPMC_NESTED] = "it counts by a host of its own",
		[KVM_PERF_RDPMC_PMU + 1] = "it gives no reason",
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(why); i++) {
		if (!why[i])
			continue;
		host.query.rdpmc = i;
		load();
		EXPECT_STREQ(why[i], kvm_pmu_why_no_rdpmc());
		unload();
	}
}

/* The driver limits the host's numbers to its own room. */
GUEST_TEST_UNLOADED(a_host_that_tells_nonsense)
{
	struct guest_perf_query query;

	host.query.nr_counters = ~0;
	host.query.fixed_counters = ~0;
	host.query.counts = ~0;
	host.query.branches = ~0;
	host.query.features = ~0;
	host.query.rdpmc = ~0;
	memset(host.query.hw_config, 0xff, sizeof(host.query.hw_config));
	load();
	EXPECT_TRUE(kvm_pmu_query(&query));
	EXPECT_EQ(KVM_PMU_NR_BACKING, query.nr_counters);
	EXPECT_EQ(KVM_PERF_MAX_BRANCHES, kvm_pmu_branches_possible());
	EXPECT_EQ(0, open_error(raw_user(0xc0)));
	EXPECT_LT(20, visible(_metadata, "cpu", NULL));
	unload();
}
