/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The spinlock of tools/, with an RCU read lock.  In the kernel a spinlock keeps
 * preemption off, so that a grace period waits for its holder.  The xarray relies
 * on this: it calls call_rcu() for a node before it removes the node from the tree.
 */
#ifndef STAND_IN_LINUX_SPINLOCK_H
#define STAND_IN_LINUX_SPINLOCK_H
#include_next <linux/spinlock.h>
#include <linux/rcupdate.h>

#undef spin_lock
#undef spin_unlock
#undef spin_lock_irqsave
#undef spin_unlock_irqrestore
#define spin_lock(x)	(rcu_read_lock(), (void)pthread_mutex_lock(x))
#define spin_unlock(x)	((void)pthread_mutex_unlock(x), rcu_read_unlock())
#define spin_lock_irqsave(x, flags)	 ((void)(flags), spin_lock(x))
#define spin_unlock_irqrestore(x, flags) ((void)(flags), spin_unlock(x))
#endif
