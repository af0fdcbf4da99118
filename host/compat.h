/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the newest kernel has, for the older ones that the host side is built
 * for.
 */
#ifndef __KVM_X86_PV_PERF_COMPAT_H
#define __KVM_X86_PV_PERF_COMPAT_H

#include <linux/export.h>
#include <linux/hrtimer.h>
#include <linux/slab.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
static inline void
hrtimer_setup(struct hrtimer *timer,
	      enum hrtimer_restart (*function)(struct hrtimer *),
	      clockid_t clock, enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock, mode);
	timer->function = function;
}
#endif

#ifndef kzalloc_obj
#define kzalloc_obj(obj, gfp)		kzalloc(sizeof(obj), gfp)
#endif

#ifndef EXPORT_SYMBOL_FOR_KVM_INTERNAL
#define EXPORT_SYMBOL_FOR_KVM_INTERNAL	EXPORT_SYMBOL_GPL
#endif

#endif /* __KVM_X86_PV_PERF_COMPAT_H */
