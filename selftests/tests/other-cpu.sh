#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A guest migrates to a host with another CPU model and lower limits, and back. Named events
# continue. Raw events do not count on a CPU of another model.
# vm: none
# tier: all
# machines: amd zen4
# needs: machine memory-initrd
# seconds: 300
tree=$(realpath "$(dirname "$0")/../..")
. "$tree/selftests/tap.sh"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# run PART CPU OPTIONS...: run this part on a host with this CPU
run() {
	local part=$1 cpu=$2
	shift 2
	"$vm" host --cpu "$cpu" --no-icount --host-cpus 2 --timeout 1500 \
		--scratch "$dir" "$@" -- "$tree/selftests/life/other-cpu" "$part" \
		>"$dir/$part.out" 2>&1
	tap_file "on $cpu" "$dir/$part.out"
}

run first amd --kvm-opt pv_perf_rdpmc=5
run second zen4 --kvm-opt pv_perf_max_counters=2 --kvm-opt pv_perf_counts=0
run third amd --kvm-opt pv_perf_rdpmc=5
finish
