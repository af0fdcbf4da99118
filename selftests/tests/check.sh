#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# checkpatch, W=1 and sparse find no fault in the repository's C code. The contract's header
# also compiles for 32 bits and as C++.
# vm: none
# tier: quick
# needs: kernel
# packages: @build g++
# seconds: 60
top=$(realpath "$(dirname "$0")/../..")
. "$top/selftests/tap.sh"
cd "$top" || exit 1

selftests/check 6.1 >build/log/check-all.log 2>&1
status=$?
[ $status = 0 ] || sed 's/^/# /' build/log/check-all.log
is "checkpatch, W=1 and sparse find nothing" $status 0
for options in "-x c -std=gnu11" "-x c -std=gnu11 -m32" "-x c++"; do
	# shellcheck disable=SC2086 # words
	ok "kvm_perf.h compiles with $options" \
		gcc $options -fsyntax-only -Wall -Werror \
			-I/usr/include/x86_64-linux-gnu abi/kvm_perf.h
done
finish
