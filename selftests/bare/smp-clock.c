// SPDX-License-Identifier: GPL-2.0
/*
 * On the bare machine (bare.h): an instruction takes a tick of the TSC, even if other
 * CPUs are idle.
 */
#include "bare.h"

#define LOOPS	1000000
/* The instructions around the loop, and the CPU's granularity */
#define MORE	100

static u64 rdtsc(void)
{
	u32 low, high;

	asm volatile("rdtsc" : "=a"(low), "=d"(high) : : "memory");
	return (u64)high << 32 | low;
}

static u64 ticks_of_loop(void)
{
	u32 n = LOOPS;
	u64 begin = rdtsc();

	asm volatile("1: dec %0; jnz 1b" : "+r"(n) : : "cc");
	return rdtsc() - begin;
}

static u64 ticks_of_rep(void)
{
	static char buffer[LOOPS];
	void *to = buffer;
	u64 n = LOOPS, begin = rdtsc();

	asm volatile("rep stosb" : "+D"(to), "+c"(n) : "a"(0) : "memory");
	return rdtsc() - begin;
}

int main(void)
{
	u64 ticks;

	set_up_machine();
	ticks = ticks_of_loop();
	is("2,000,000 instructions take 2,000,000 ticks",
	   ticks >= 2 * LOOPS && ticks < 2 * LOOPS + MORE ? 2 * LOOPS : ticks,
	   2 * LOOPS);
	ticks = ticks_of_rep();
	is("1,000,000 iterations of REP take 1,000,000 ticks",
	   ticks > LOOPS - MORE && ticks < LOOPS + MORE ? LOOPS : ticks, LOOPS);
	finish();
	return 0;
}
