#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The emulated machine's Bochs.
# vm: none
top=$(realpath "$(dirname "$0")/../..")
. "$top/selftests/tap.sh"

# Every counter and bit of the emulated PMU, without a kernel, with 16 branch
# records and with 32.
out=$(mktemp)
for model in corei7_haswell_4770 corei7_skylake_x; do
	before=$tap_n
	"$top/selftests/machine/run-bare" "$top/build/tests/intel-pmu" $model >"$out"
	tap_file "intel-pmu on $model" "$out"
	is "it has come to its end" "$(tail -n 1 "$out")" "1..$((tap_n - before))"
done
rm "$out"
finish
