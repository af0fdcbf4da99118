// SPDX-License-Identifier: GPL-2.0
/* build: -O0 -g -static -Wl,--eh-frame-hdr */
/*
 * A call tree with known shares of the time, in tenths: main calls a (2, and its
 * callee aa 1), b (1, and its callees bb 2 and bbb 1) and c (3).
 */
/* A macro, so that the time counts for the function itself, not for a callee. */
#define PARTS(n) do {							\
	int left = (n) * 100000;					\
	__asm__ volatile("1: dec %0; jnz 1b" : "+r"(left));		\
} while (0)

void aa(void)
{
	PARTS(1);
}

void a(void)
{
	PARTS(2);
	aa();
}

void bbb(void)
{
	PARTS(1);
}

void bb(void)
{
	PARTS(2);
	bbb();
}

void b(void)
{
	PARTS(1);
	bb();
}

void c(void)
{
	PARTS(3);
}

int main(void)
{
	int i;

	for (i = 0; i < 50; i++) {
		a();
		b();
		c();
	}
	return 0;
}
