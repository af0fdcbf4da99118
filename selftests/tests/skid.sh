#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Overflows that interrupt late, as on real CPUs: where the guest has exited meanwhile,
# the host gets the interrupt, and the guest its sample.
# vm: host --cpu intel --skid 20 --timeout 1200
. "$VM_TREE/selftests/tap.sh"
T=$VM_TREE/build/tests
cd "$VM_SCRATCH" || exit 1

# check TITLE PERIOD COMMAND...: each overflow is a sample, and nothing is counted twice
check() {
	local title=$1 period=$2 count
	shift 2
	perf stat -x, -o out -e instructions:u "$@"
	count=$(count instructions:u out)
	perf record -q -e instructions:u -c "$period" -o data "$@"
	# The environment is larger by what perf record adds.
	within "$title: samples" "$(samples_of data)" $((count / period)) 3
}

if [ "$VM_LEVEL" = guest ]; then
	mount -t tmpfs none /lib/modules
	# None is throttled for the time that it takes.
	echo 99 >/proc/sys/kernel/perf_cpu_time_max_percent
	echo 1000000 >/proc/sys/kernel/perf_event_max_sample_rate
	echo 0 >/proc/sys/kernel/perf_cpu_time_max_percent
	perf stat -x, -o out -e instructions:u "$T/loop"
	is "counts are as without" "$(count instructions:u out)" 10000004
	check "no exits" 10000 "$T/loop"
	# From one exit to the next it is 24 instructions.
	check "with an exit before each interrupt" 1009 "$T/exits" cpuid 20000
	# The vCPU is about to halt then.
	check "and the halt of the CPU" 101 "$T/exits" halt 100
	finish
fi

tracing=/sys/kernel/tracing/events/kvm
# hits HIST REGEX: of the line that matches
hits() {
	awk -v r="$2" '!/^#/ && $0 ~ r { n = $NF } END { print n + 0 }' "$tracing/$1/hist"
}

echo 'hist:keys=exit_reason' >$tracing/kvm_exit/trigger
echo 'hist:keys=common_type' >$tracing/kvm_pv_perf_overflow/trigger
"$VM_TREE/selftests/vm" guest -- "$0" >guest.tap
is "the guest ends well" $? 0
tap_file guest guest.tap
overflows=$(hits kvm_pv_perf_overflow hitcount)
nmis=$(hits kvm_exit 'EXCEPTION_NMI|exit_reason: *0 ')
echo "# overflows: $overflows, exits for NMIs: $nmis"
more "of them the host got the interrupt itself" $((overflows - nmis)) 200
finish
