/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Definitions of arch/x86/events/perf_event.h, which modules cannot include.  The series
 * for mainline includes the kernel's header instead of this one.
 */
#ifndef _KVM_PMU_COMPAT_BRANCHES_H
#define _KVM_PMU_COMPAT_BRANCHES_H

#include <linux/kernel.h>
#include <linux/mm.h>

enum {
	X86_BR_NONE		= 0,
	X86_BR_USER		= 1 << 0,
	X86_BR_KERNEL		= 1 << 1,
	X86_BR_CALL		= 1 << 2,
	X86_BR_RET		= 1 << 3,
	X86_BR_SYSCALL		= 1 << 4,
	X86_BR_SYSRET		= 1 << 5,
	X86_BR_INT		= 1 << 6,
	X86_BR_IRET		= 1 << 7,
	X86_BR_JCC		= 1 << 8,
	X86_BR_JMP		= 1 << 9,
	X86_BR_IRQ		= 1 << 10,
	X86_BR_IND_CALL		= 1 << 11,
	X86_BR_ABORT		= 1 << 12,
	X86_BR_ZERO_CALL	= 1 << 15,
	X86_BR_IND_JMP		= 1 << 17,
};

#define X86_BR_ANY_CALL	(X86_BR_CALL | X86_BR_IND_CALL | X86_BR_ZERO_CALL | \
			 X86_BR_SYSCALL | X86_BR_IRQ | X86_BR_INT)
#define X86_BR_ANY	(X86_BR_ANY_CALL | X86_BR_RET | X86_BR_SYSRET | \
			 X86_BR_IRET | X86_BR_JCC | X86_BR_JMP | X86_BR_ABORT | \
			 X86_BR_IND_JMP)

static inline bool kernel_ip(unsigned long ip)
{
	return IS_ENABLED(CONFIG_X86_32) ? ip > PAGE_OFFSET : (long)ip < 0;
}

#endif
