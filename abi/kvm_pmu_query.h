/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Between the two sides where they run in the same kernel: a guest that is a
 * host of KVM itself.  KVM takes it by symbol_get(), as the guest's driver need
 * not be there.
 */
#ifndef _KVM_PMU_QUERY_H
#define _KVM_PMU_QUERY_H

#include "kvm_perf.h"

bool kvm_pmu_query(struct guest_perf_query *query);

#endif /* _KVM_PMU_QUERY_H */
