/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Paravirtual performance events, guest side: reads the records that the host writes.
 *
 * NMI-safe.
 */
#ifndef _KVM_PMU_RECORD_H
#define _KVM_PMU_RECORD_H

#include "kvm_pmu.h"

/* @field: a field of @record that the host writes under its sequence */
static inline u64 kvm_pmu_read_field(const struct guest_perf_event *record,
				     const u64 *field)
{
	unsigned int tries = KVM_PMU_MAX_TRIES;
	u32 sequence;
	u64 value;

	if (IS_ENABLED(CONFIG_64BIT))
		return READ_ONCE(*field);

	/* On 32 bits the value is two loads. */
	do {
		sequence = READ_ONCE(record->sequence);
		/* The value is read between the two sequence numbers. */
		virt_rmb();
		value = *field;
		/* Order the value before the second sequence number. */
		virt_rmb();
	} while (((sequence & 1) || sequence != READ_ONCE(record->sequence)) &&
		 --tries);

	return value;
}

/* The count that the host has written last. */
static inline u64 kvm_pmu_record_count(const struct guest_perf_event *record)
{
	return kvm_pmu_read_field(record, &record->count);
}

/* The period_left that the host has written last. */
static inline u64 kvm_pmu_record_left(const struct guest_perf_event *record)
{
	return kvm_pmu_read_field(record, &record->period_left);
}

/* The period that ended with the last overflow. */
static inline u64 kvm_pmu_record_last_period(const struct guest_perf_event *record)
{
	return kvm_pmu_read_field(record, &record->last_period);
}

#endif /* _KVM_PMU_RECORD_H */
