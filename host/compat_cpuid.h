/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Includes the kernel's header of cpuid_eax() and others.  The series for mainline includes
 * <asm/cpuid/api.h> instead of this header.
 */
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 16, 0)
#include <asm/processor.h>
#else
#include <asm/cpuid/api.h>
#endif
