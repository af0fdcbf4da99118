/* SPDX-License-Identifier: GPL-2.0 */
/* The exit reasons, from user space's header. */
#include_next <asm/svm.h>
