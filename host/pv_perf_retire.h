/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Paravirtual performance events, host side: instructions that KVM completes for the
 * guest.
 */
#ifndef __KVM_X86_PV_PERF_RETIRE_H
#define __KVM_X86_PV_PERF_RETIRE_H

#include "pv_perf_event.h"

u8 pv_perf_retired_by(const struct guest_perf_query *pmu, u64 select);

#endif /* __KVM_X86_PV_PERF_RETIRE_H */
