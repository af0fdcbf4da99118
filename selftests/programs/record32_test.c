// SPDX-License-Identifier: GPL-2.0
/* build: -m32 */
/*
 * The guest's 32-bit code reads each 64-bit number of a record in two halves, while
 * the host writes the record.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#include "kselftest.h"
#include "kvm_perf.h"

/* The definitions of the kernel and of kvm_pmu.h that guest/kvm_pmu_record.h uses. */
#define _KVM_PMU_H
typedef uint32_t u32;
typedef uint64_t u64;

#define IS_ENABLED(option)	0
#define READ_ONCE(x)		(*(const volatile typeof(x) *)&(x))
#define virt_rmb()		read_barrier()
/* Unlike in the guest's kernel, a reader may wait for a writer without a CPU. */
#define KVM_PMU_MAX_TRIES	20000000

/* Both sides may share one CPU, so that a waiting reader must let the writer run. */
static void read_barrier(void)
{
	static const struct timespec shortly = { .tv_nsec = 1000 };
	static u32 n;

	atomic_signal_fence(memory_order_seq_cst);
	if (!(++n % 100000))
		nanosleep(&shortly, NULL);
}

#include "../../guest/kvm_pmu_record.h"

static struct guest_perf_event shared;
static volatile bool stop;

static void wmb(void)
{
	atomic_thread_fence(memory_order_seq_cst);
}

/* Writes records like the host, with numbers whose halves are the same. */
static void *host(void *arg)
{
	volatile struct guest_perf_event *record = &shared;

	for (u32 n = 0; !stop; n++) {
		u64 value = (u64)n << 32 | n;

		record->sequence++;
		wmb();
		record->count = value;
		record->period_left = value;
		record->last_period = value;
		wmb();
		record->sequence++;
	}
	return NULL;
}

static bool is_torn(u64 value)
{
	return (u32)value != value >> 32;
}

int main(void)
{
	u64 (*const reads[])(const struct guest_perf_event *) = {
		kvm_pmu_record_count, kvm_pmu_record_left,
		kvm_pmu_record_last_period,
	};
	const char *const names[] = { "count", "period_left", "last_period" };
	u32 torn[ARRAY_SIZE(reads)] = {};
	time_t end = time(NULL) + 3;
	u64 changes = 0, last = 0;
	pthread_t thread;

	ksft_print_header();
	ksft_set_plan(ARRAY_SIZE(reads) + 2);
	if (sizeof(long) != 4 || pthread_create(&thread, NULL, host, NULL))
		ksft_exit_fail_msg("not in 32-bit code, or no thread\n");
	/* Run longer if other programs have the CPUs. */
	while (time(NULL) < end || (changes <= 10 && time(NULL) < end + 60)) {
		for (unsigned int i = 0; i < ARRAY_SIZE(reads); i++)
			torn[i] += is_torn(reads[i](&shared));
		changes += shared.count != last;
		last = shared.count;
	}
	stop = true;
	pthread_join(thread, NULL);

	ksft_print_msg("%llu changes seen\n", (unsigned long long)changes);
	ksft_test_result(changes > 10, "the record changes meanwhile\n");
	for (unsigned int i = 0; i < ARRAY_SIZE(reads); i++)
		ksft_test_result(!torn[i], "%s is read as a whole\n", names[i]);

	shared.sequence = 1;
	shared.count = 5;
	/* If the read does not end, the alarm kills the program. */
	alarm(60);
	ksft_test_result(kvm_pmu_record_count(&shared) == 5,
			 "a read of a record whose write never ends has an end\n");
	ksft_finished();
}
