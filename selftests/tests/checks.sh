#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A kernel with checks (KERNEL=debug) reports planted bugs, and a run with such a report
# fails.
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

# Without --ignore a report of KASAN would end the run at once.
"$top/selftests/vm" host --ignore KASAN --console "$console" -- sh -c "
	modprobe lkdtm
	echo READ_AFTER_FREE >/sys/kernel/debug/provoke-crash/DIRECT
	echo ARRAY_BOUNDS >/sys/kernel/debug/provoke-crash/DIRECT
	modprobe kmemleak-test
	rmmod kmemleak-test" >"$console.out" 2>&1
is "a run with reports fails" $? 125
has "KASAN reports a use after free" 'BUG: KASAN: use-after-free' \
	"$console"
has "UBSAN reports an index beyond an array" 'UBSAN: array-index-out-of-bounds' "$console"
has "kmemleak reports memory that nothing points to" 'unreferenced object' "$console"
finish
