/* SPDX-License-Identifier: GPL-2.0 */
#include_next <linux/perf_event.h>	/* the kernel's header for user space */
#include "stand_in.h"
