// SPDX-License-Identifier: GPL-2.0
/* build: -nostdlib -static -no-pie -fno-stack-protector */
/*
 * Moves itself 1,000 times between CPUs 0 and 1, and loops a little on each CPU.
 * It has no library, so that it executes the same instructions in user mode in
 * every run.
 */
#define NR_exit			60
#define NR_sched_setaffinity	203

static long syscall3(long nr, long a, long b, long c)
{
	long ret;

	__asm__ volatile("syscall" : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c)
			 : "rcx", "r11", "memory");
	return ret;
}

void _start(void)
{
	unsigned long mask;
	long failed = 0;
	int i, n;

	for (i = 0; i < 1000; i++) {
		mask = 1UL << (i & 1);
		failed |= syscall3(NR_sched_setaffinity, 0, sizeof(mask),
				   (long)&mask);
		n = 10000;
		__asm__ volatile("1: dec %0; jnz 1b" : "+r"(n));
	}
	syscall3(NR_exit, failed != 0, 0, 0);
}
