#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The guest's 32-bit code, run in user space, reads records correctly while the host writes
# them.
# vm: none
# tier: quick
# programs: record32_test
# packages: @build gcc-multilib
# seconds: 10
. "$(dirname "$0")/../tap.sh"
out=$(mktemp)
"$T/record32_test" >"$out" 2>&1
status=$?
# The shell's status for a program that the kernel cannot execute.
if [ $status = 126 ] && [ -x "$T/record32_test" ]; then
	ok "record32_test # SKIP this machine's kernel runs no 32-bit programs" true
else
	is "record32_test ends well" $status 0
	tap_file record32_test "$out"
fi
rm "$out"
finish
