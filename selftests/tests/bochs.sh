#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The patched Bochs of the emulated Intel machine: PMU, branch records, faults and clocks.
# vm: none
# tier: all
# machines: intel
# needs: bochs
# programs: intel-pmu intel-lbr pmu-skid fault-rip syscall-step smp-clock
# debug: no
# seconds: 2
top=$(realpath "$(dirname "$0")/../..")
. "$top/selftests/tap.sh"

out=$(mktemp)
# bare TITLE OPTION... PROGRAM: run PROGRAM without a kernel, and take over its results
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
# Each kind of core of a hybrid CPU, and the same model without kinds of cores.
for kind in P E; do
	bare "intel-pmu on a core of kind $kind" --cores $kind intel-pmu
done
for kind in P E L; do
	bare "intel-pmu on a core of kind $kind, of three" --model arrow_lake_h \
		--cores $kind intel-pmu
done
bare "intel-pmu on alder_lake, not hybrid" --model alder_lake intel-pmu
# refused TITLE REGEX OPTION...: Bochs does not start, and REGEX matches the reason
refused() {
	local title=$1 regex=$2
	shift 2
	"$top/selftests/machine/run-bare" "$@" "$top/build/tests/intel-pmu" >"$out" 2>&1
	has "$title" "$regex" "$out"
}
refused "Bochs refuses a kind of core that a hybrid CPU does not have" \
	"alder_lake does not have cores of kind 'X'" --cores PX --cpus 2
refused "Bochs refuses kinds of cores for a CPU model that is not hybrid" \
	"corei7_haswell_4770 does not have cores of kind 'E'" \
	--model corei7_haswell_4770 --cores E
bare "pmu-skid" --skid 20 pmu-skid
bare "syscall-step" syscall-step
for cpus in 1 2; do
	bare "fault-rip, CPUs: $cpus" --cpus $cpus fault-rip
	bare "smp-clock, CPUs: $cpus" --cpus $cpus smp-clock
done
rm "$out"
finish
