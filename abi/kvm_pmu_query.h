/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Between the two sides if they run in one kernel: a guest that is a KVM host
 * itself.  KVM takes the function by symbol_get(), because the guest's driver
 * may not be loaded.
 */
#ifndef _KVM_PMU_QUERY_H
#define _KVM_PMU_QUERY_H

#include "kvm_perf.h"

bool kvm_pmu_query(struct guest_perf_query *query);

#endif /* _KVM_PMU_QUERY_H */
