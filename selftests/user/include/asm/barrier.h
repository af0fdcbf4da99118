/* SPDX-License-Identifier: GPL-2.0 */
#ifndef STAND_IN_ASM_BARRIER_H
#define STAND_IN_ASM_BARRIER_H
#include <linux/compiler.h>

/* All that x86 needs for them; what they order is accessed atomically. */
#define smp_wmb()	barrier()
#define smp_rmb()	barrier()
#endif
