/* SPDX-License-Identifier: GPL-2.0 */
/* build: -nostdlib -static -no-pie -fno-stack-protector */
#define LOOPS 250000000
#include "loop.S"
