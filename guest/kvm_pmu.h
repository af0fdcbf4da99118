/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _KVM_PMU_H
#define _KVM_PMU_H

#include <linux/sysfs.h>
#include <linux/types.h>

u64 kvm_pmu_raw_event_mask(void);
u64 kvm_pmu_hw_config(unsigned int hw_event);
unsigned int kvm_pmu_nr_counters(void);

extern const struct attribute_group *kvm_pmu_attr_groups[];

#endif /* _KVM_PMU_H */
