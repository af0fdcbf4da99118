/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The header of cpuid_eax() and others: in the series for mainline, <asm/cpuid/api.h>.
 */
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 16, 0)
#include <asm/processor.h>
#else
#include <asm/cpuid/api.h>
#endif
