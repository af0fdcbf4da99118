/* SPDX-License-Identifier: GPL-2.0 */
/* The kernel's header, for a kernel with perf. */
#ifndef STAND_IN_ASM_PERF_EVENT_H
#define STAND_IN_ASM_PERF_EVENT_H
#include <linux/types.h>
#include <asm/ptrace.h>

#define CONFIG_PERF_EVENTS	1
#define CONFIG_PERF_GUEST_MEDIATED_PMU	1
#define CONFIG_CPU_SUP_INTEL	1
#include_next <asm/perf_event.h>
#endif
