/* SPDX-License-Identifier: GPL-2.0 */
/* RCU by liburcu, as in tools/testing/radix-tree. */
#ifndef STAND_IN_LINUX_RCUPDATE_H
#define STAND_IN_LINUX_RCUPDATE_H
#include <linux/kernel.h>
#undef synchronize_rcu
#include_next <linux/rcupdate.h>

/* Also for the kernel's xarray. */
void rcu_call(struct rcu_head *head, void (*func)(struct rcu_head *head));
void rcu_kfree(void *p);
/* For a single thread: callbacks wait for rcu_run(), not for a grace period. */
extern bool rcu_by_hand;
void rcu_run(void);

#define kfree_rcu(p, head)	rcu_kfree(p)

/* For ThreadSanitizer: a reader's accesses come before those of a waiter. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#include <sanitizer/tsan_interface.h>
#define rcu_release()	__tsan_release(&rcu_by_hand)
#define rcu_acquire()	__tsan_acquire(&rcu_by_hand)
#endif
#endif
#ifndef rcu_release
#define rcu_release()	((void)0)
#define rcu_acquire()	((void)0)
#endif

static inline void rcu_unlock(void)
{
	rcu_release();
	rcu_read_unlock();
}

#undef rcu_read_unlock
#define rcu_read_unlock	rcu_unlock
#undef call_rcu
#define call_rcu	rcu_call

#endif
