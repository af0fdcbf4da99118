#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The emulated machine with an Intel CPU, and the pair on it.
# vm: host --cpu intel --timeout 1200
# tier: all
# machines: intel
# needs: bochs build/pv-perf-doctor
# programs: loop life_test
# debug: no
# seconds: 119
. "$VM_TREE/selftests/tap.sh"
cd "$VM_SCRATCH" || exit 1

fixed=instructions:u,cycles:u,ref-cycles:u
# r400c4 counts branches by their edges.
general=branches:u,r00c0:u,r400c4:u

# all_the_time NAME EVENTS COUNTS: a group of EVENTS has COUNTS, without multiplexing
all_the_time() {
	perf stat -x, -o out -e "{$2}" "$T/loop"
	is "$1 counts all the time" "$(awk -F, '/u,/ { print $1, $5 }' out | paste -sd' ')" \
		"$(printf '%s 100.00\n' $3 | paste -sd' ')"
}

# Fixed and general-purpose counters at the same time.
counts() {
	local i
	for i in 1 2 3; do
		perf stat -x, -o out -e instructions:u,cycles:u,branches:u,r00c0:u \
			"$T/loop"
		is "$1, run $i: instructions, cycles, branches and a raw event" \
			"$(awk -F, '/:u/ { print $1 }' out | paste -sd' ')" \
			"10000004 10000004 5000001 10000004"
	done
	# The CPU has three fixed and four general-purpose counters.  A guest has three of the
	# latter.
	all_the_time "$1: a group with three fixed and three general counters" \
		"$fixed,$general" "10000004 10000004 10000004 5000001 10000004 5000001"
	# Before it asks for "instructions", the guest has as many general ones as it may.
	all_the_time "$1: a group with three general and three fixed counters" \
		"$general,$fixed" "5000001 10000004 5000001 10000004 10000004 10000004"
	perf stat -x, -o out -e cache-references:u,cache-misses:u,branch-misses:u \
		"$T/loop"
	is "$1: events that this CPU does not count are not supported" \
		"$(grep -c '^<not supported>,' out)" 3
}

one_more() {
	perf stat -x, -o out -e "{$fixed,$general,r10000c4:u}" "$T/loop"
	more "$1: a group with one more event is refused" "$(grep -c '^<not' out)" 0
}

samples() {
	# perf record reads all modules, which takes long through two machines.
	mount -t tmpfs none /lib/modules
	# Disable throttling by the time that samples take.
	echo 99 >/proc/sys/kernel/perf_cpu_time_max_percent
	echo 1000000 >/proc/sys/kernel/perf_event_max_sample_rate
	echo 0 >/proc/sys/kernel/perf_cpu_time_max_percent
	perf record -q -e instructions:u -c 10000 -o data "$T/loop"
	perf script -i data -F ip 2>/dev/null | sort | uniq -c >out
	is "$1: 1,000 samples at one address" "$(awk '{ print NR, $1 }' out)" \
		"1 1000"
}

doctor() {
	"$VM_TREE/build/pv-perf-doctor" >out 2>&1
	is "$1: the doctor finds no fault" $? 0
	grep '^not ok' out | sed 's/^/# /'
}

if [ "$VM_LEVEL" = guest ]; then
	counts guest
	one_more guest
	samples guest
	doctor guest
	finish
fi

dmesg >dmesg
has "the kernel finds the Intel PMU" 'Intel PMU driver' dmesg
is "the kernel reads no MSR that does not exist" "$(grep -c 'unchecked MSR' dmesg)" 0
counts host
samples host
perf record -q -b -e branches:u -c 100000 -o data "$T/loop"
perf script -i data -F brstack 2>/dev/null | grep -o '0x[^ ]*/0x[0-9a-f]*' |
	sort | uniq -c >out
is "host: 50 samples with 16 branches, all the loop's" \
	"$(awk '{ print NR, $1 }' out)" "1 800"
doctor host

# perf sets up the debug store of every CPU, which takes an interrupt on each CPU.
(
	cd /sys/kernel/tracing || exit 1
	# Without the watchdog the host has no counter of its own.
	sysctl -q kernel.nmi_watchdog=0
	echo reserve_ds_buffers release_ds_buffers >set_ftrace_filter
	echo function >current_tracer
	"$T/life_test" reopen 100
	grep -o '[a-z]*_ds_buffers' trace
	echo nop >current_tracer
) >out 2>&1
is "a guest that opens an event 100 times has perf set up the PMU once" \
	"$(sort out | uniq -c | awk '{ print $2, $1 }' | paste -sd' ')" \
	"release_ds_buffers 1 reserve_ds_buffers 1"

tracing=/sys/kernel/tracing/events/kvm
echo 'hist:keys=exit_reason' >$tracing/kvm_exit/trigger
echo 'hist:keys=common_type' >$tracing/kvm_pv_perf_overflow/trigger
# Events of the host that are not pinned: their fixed counters are for the guest.
perf stat -a -e instructions,ref-cycles -o profile &
profiler=$!
on_guest guest in_guest
kill -INT $profiler
wait $profiler
more "the host has counted beside the guest" \
	"$(awk '$2 == "instructions" { gsub(",", "", $1); print $1 }' profile)" 1000000
# hits HIST REGEX: the hit count in the first line that matches
hits() {
	awk -v r="$2" '!/^#/ && $0 ~ r { print $NF; exit }' "$tracing/$1/hist"
}
overflows=$(hits kvm_pv_perf_overflow hitcount)
more "the host has delivered overflows" "${overflows:-0}" 999
# Faults and the host's own counters have the same exit reason.
within "each overflow causes one exit, EXCEPTION_NMI" \
	"$(hits kvm_exit 'EXCEPTION_NMI|exit_reason: *0 ')" "$overflows" 1
finish
