/* SPDX-License-Identifier: GPL-2.0 */
#ifndef STAND_IN_ASM_BARRIER_H
#define STAND_IN_ASM_BARRIER_H
/* All that x86 needs for them; what they order is accessed atomically. */
#define smp_wmb()	__asm__ __volatile__("" : : : "memory")
#define smp_rmb()	__asm__ __volatile__("" : : : "memory")
#endif
