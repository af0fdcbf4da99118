/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Paravirtual performance events, host side, top: the capabilities.
 */
#ifndef __KVM_X86_PV_PERF_CAP_H
#define __KVM_X86_PV_PERF_CAP_H

#include "pv_perf_event.h"

void pv_perf_init_limits(struct pv_perf_vm *vm);

#endif /* __KVM_X86_PV_PERF_CAP_H */
