/* SPDX-License-Identifier: GPL-2.0 */
/* build: -nostdlib -static -no-pie -fno-stack-protector */
#define LOOPS 1000000000
#include "loop.S"
