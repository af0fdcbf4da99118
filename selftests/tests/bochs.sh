#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The emulated machine's Bochs.
# vm: none
# tier: all
# machines: intel
# needs: bochs
# programs: intel-pmu intel-lbr pmu-skid fault-rip smp-clock
# debug: no
# seconds: 2
top=$(realpath "$(dirname "$0")/../..")
. "$top/selftests/tap.sh"

out=$(mktemp)
# bare TITLE OPTION... PROGRAM: without a kernel
bare() {
	local title=$1 before=$tap_n
	shift
	"$top/selftests/machine/run-bare" "${@:1:$#-1}" \
		"$top/build/tests/${*: -1}" >"$out"
	tap_file "$title" "$out"
	is "$title has come to its end" "$(tail -n 1 "$out")" \
		"1..$((tap_n - before))"
}

# The emulated PMU, with 16 branch records and with 32.
for model in corei7_haswell_4770 corei7_skylake_x; do
	bare "intel-pmu on $model" --model $model intel-pmu
	bare "intel-lbr on $model" --model $model intel-lbr
done
bare "pmu-skid" --skid 20 pmu-skid
for cpus in 1 2; do
	bare "fault-rip, CPUs: $cpus" --cpus $cpus fault-rip
	bare "smp-clock, CPUs: $cpus" --cpus $cpus smp-clock
done
rm "$out"
finish
