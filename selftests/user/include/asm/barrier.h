/* SPDX-License-Identifier: GPL-2.0 */
#ifndef STAND_IN_ASM_BARRIER_H
#define STAND_IN_ASM_BARRIER_H
#include <linux/compiler.h>

/* x86 needs only a compiler barrier.  The ordered accesses are atomic. */
#define smp_wmb()	barrier()
#define smp_rmb()	barrier()
#define smp_store_release(p, v)	__atomic_store_n(p, v, __ATOMIC_RELEASE)
#define smp_load_acquire(p)	__atomic_load_n(p, __ATOMIC_ACQUIRE)
#endif
