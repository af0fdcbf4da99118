#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Whether a kernel with checks (KERNEL=debug) finds what it is there for, and a
# run on it fails then.
# vm: none
# tier: all
# machines: amd
# needs: machine
# debug: only
# seconds: 120
top=$(realpath "$(dirname "$0")/../..")
. "$top/selftests/tap.sh"
console=$top/build/tests/checks.console

case ${VM_KERNEL-} in
*-debug) ;;
*)
	ok "reports of a kernel with checks # SKIP for KERNEL=debug" true
	finish
	;;
esac

# A report of KASAN would end the run at once.
"$top/selftests/vm" host --ignore KASAN --console "$console" -- sh -c "
	modprobe lkdtm
	echo READ_AFTER_FREE >/sys/kernel/debug/provoke-crash/DIRECT
	echo ARRAY_BOUNDS >/sys/kernel/debug/provoke-crash/DIRECT
	modprobe kmemleak-test
	rmmod kmemleak-test" >"$console.out" 2>&1
is "a run with reports fails" $? 125
has "memory that is used after it was freed" 'BUG: KASAN: use-after-free' \
	"$console"
has "an index beyond an array" 'UBSAN: array-index-out-of-bounds' "$console"
has "memory that nothing points to" 'unreferenced object' "$console"
finish
