// SPDX-License-Identifier: GPL-2.0
/*
 * Paravirtual performance events, host side: the tracepoints.
 */
#include <linux/kvm_host.h>

#include "kvm_perf.h"

#define CREATE_TRACE_POINTS
#include "pv_perf_trace.h"
