/* SPDX-License-Identifier: GPL-2.0 */
/* The reasons for exits, as user space has them. */
#include_next <asm/vmx.h>

#define INTR_INFO_INTR_TYPE_MASK	0x700
#define INTR_TYPE_NMI_INTR		(2 << 8)
