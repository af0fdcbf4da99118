/* SPDX-License-Identifier: GPL-2.0 */
/* The header of tools/, but u64 is __u64, as in the kernel. */
#ifndef STAND_IN_LINUX_TYPES_H
#define STAND_IN_LINUX_TYPES_H
#define u64 tools_u64
#define s64 tools_s64
#include_next <linux/types.h>
#undef u64
#undef s64
typedef __u64 u64;
typedef __s64 s64;
#endif
