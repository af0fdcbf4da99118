// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, guest side: reading the records that the host
 * writes.
 *
 * Also in NMI context.
 */
#include <linux/perf_event.h>

#include "kvm_pmu.h"

/* @field: of @record, one that the host writes with it */
static u64 kvm_pmu_read_field(const struct guest_perf_event *record,
			      const u64 *field)
{
	unsigned int tries = KVM_PMU_MAX_TRIES;
	u32 sequence;
	u64 value;

	if (IS_ENABLED(CONFIG_64BIT))
		return READ_ONCE(*field);

	/* 64 bits are two loads. */
	do {
		sequence = READ_ONCE(record->sequence);
		/* The value is read between the two sequence numbers. */
		virt_rmb();
		value = *field;
		/* As above. */
		virt_rmb();
	} while (((sequence & 1) || sequence != READ_ONCE(record->sequence)) &&
		 --tries);

	return value;
}

/**
 * kvm_pmu_record_count - the count that the host has written last
 * @record: the record
 */
u64 kvm_pmu_record_count(const struct guest_perf_event *record)
{
	return kvm_pmu_read_field(record, &record->count);
}

/**
 * kvm_pmu_record_left - the period_left that the host has written last
 * @record: the record
 */
u64 kvm_pmu_record_left(const struct guest_perf_event *record)
{
	return kvm_pmu_read_field(record, &record->period_left);
}

/**
 * kvm_pmu_record_last_period - the period that ended with the last overflow
 * @record: the record
 */
u64 kvm_pmu_record_last_period(const struct guest_perf_event *record)
{
	return kvm_pmu_read_field(record, &record->last_period);
}

/**
 * kvm_pmu_take_left - what is left of an event's period is in the record
 * @counter: its counter
 * @event: the event
 *
 * But where the host wrote that after it was told that the counter overflows for
 * nobody, it is no more known: a whole period.
 */
void kvm_pmu_take_left(const struct kvm_pmu_counter *counter,
		       struct perf_event *event)
{
	u64 left = kvm_pmu_record_left(&counter->record);

	local64_set(&event->hw.period_left,
		    left > KVM_PMU_NO_OVERFLOW / 2 ? 0 : left);
}

/**
 * kvm_pmu_count - bring the count of an event up to that of its counter
 * @event: the event
 * @count: the counter's
 *
 * An NMI may do so in between, with a higher count.
 */
void kvm_pmu_count(struct perf_event *event, u64 count)
{
	u64 prev;

	do {
		prev = local64_read(&event->hw.prev_count);
		if ((s64)(count - prev) <= 0)
			return;
	} while (local64_cmpxchg(&event->hw.prev_count, prev, count) != prev);

	local64_add(count - prev, &event->count);
}

/**
 * kvm_pmu_counter_update - bring an event's count up to its counter's record
 * @counter: the counter
 * @event: its event, which counts
 *
 * May be called in NMI context.
 */
void kvm_pmu_counter_update(struct kvm_pmu_counter *counter,
			    struct perf_event *event)
{
	kvm_pmu_count(event, kvm_pmu_record_count(&counter->record));
	/* A KVM on top tells its guest. */
	kvm_pmu_take_left(counter, event);
}
