/* SPDX-License-Identifier: GPL-2.0 */
/* The exit reasons, from user space's header. */
#include_next <asm/vmx.h>

#define INTR_INFO_INTR_TYPE_MASK	0x700
#define INTR_TYPE_NMI_INTR		(2 << 8)
