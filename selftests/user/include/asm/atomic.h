/* SPDX-License-Identifier: GPL-2.0 */
/*
 * GCC's atomics, which ThreadSanitizer understands, instead of x86's inline
 * assembly.
 */
#ifndef STAND_IN_ASM_ATOMIC_H
#define STAND_IN_ASM_ATOMIC_H
#include <asm-generic/atomic-gcc.h>

/* Not a plain store, as in the kernel. */
#define atomic_set(v, i)	WRITE_ONCE((v)->counter, i)
#define atomic_or(i, v)		((void)__sync_fetch_and_or(&(v)->counter, i))
#define atomic_andnot(i, v)	((void)__sync_fetch_and_and(&(v)->counter, ~(i)))
#define atomic_fetch_or_release(i, v)	__sync_fetch_and_or(&(v)->counter, i)
#define atomic_read_acquire(v)	__atomic_load_n(&(v)->counter, __ATOMIC_ACQUIRE)
#define atomic_dec(v)		__sync_fetch_and_sub(&(v)->counter, 1)

typedef struct {
	s64 counter;
} atomic64_t;

/* A test's NMI, which comes once, before the next of these operations. */
extern void (*nmi_to_come)(void);

static inline void let_nmi_come(void)
{
	void (*nmi)(void) = nmi_to_come;

	if (nmi) {
		nmi_to_come = NULL;
		nmi();
	}
}

#define atomic64_read(v)	(let_nmi_come(), READ_ONCE((v)->counter))
#define atomic64_set(v, i)	WRITE_ONCE((v)->counter, i)
#define atomic64_add(i, v)	__sync_fetch_and_add(&(v)->counter, i)
#define atomic64_sub(i, v) \
	(let_nmi_come(), __sync_fetch_and_sub(&(v)->counter, i))
#define atomic_xchg(v, n) \
	__atomic_exchange_n(&(v)->counter, n, __ATOMIC_SEQ_CST)
#define atomic_try_cmpxchg(v, old, new) \
	__atomic_compare_exchange_n(&(v)->counter, old, new, false, \
				    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)
#define atomic64_try_cmpxchg(v, old, new)  atomic_try_cmpxchg(v, old, new)
#define atomic64_inc(v)		atomic64_add(1, v)

typedef atomic64_t local64_t;

#define local64_read(l)		READ_ONCE((l)->counter)
#define local64_set(l, i)	atomic64_set(l, i)
#define local64_add(i, l)	atomic64_add(i, l)
#define local64_sub(i, l)	atomic64_add(-(i), l)
#define local64_inc(l)		atomic64_add(1, l)
#define local64_sub_return(i, l)	__sync_sub_and_fetch(&(l)->counter, i)
#endif
