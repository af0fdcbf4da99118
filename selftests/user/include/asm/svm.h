/* SPDX-License-Identifier: GPL-2.0 */
/* The reasons for exits, as user space has them. */
#include_next <asm/svm.h>
