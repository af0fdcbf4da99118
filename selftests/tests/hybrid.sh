#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The emulated machine with a hybrid CPU: stock Linux has a PMU for each kind of core, each
# PMU counts exactly, and a task that moves between the kinds of cores loses no count.
# vm: none
# tier: intel
# machines: intel
# needs: machine bochs
# programs: loop kinds cpuid
# lines: 6.12 7.3
# debug: no
# seconds: 400
tree=$(realpath "$(dirname "$0")/../..")
self=$(realpath "$0")
. "$tree/selftests/tap.sh"

core=cpu_core/instructions/u
atom=cpu_atom/instructions/u

# field N: field N of each event in the output of perf stat, the file out
field() {
	awk -F, -v f="$1" '/cpu_/ { print $f }' out | paste -sd' '
}

# leaf CPU LEAF: EAX to EDX of this CPUID leaf on this CPU
leaf() {
	"$T/cpuid" "$1" "$2"
}

cpuid() {
	local cpu
	for cpu in 0 1; do
		is "CPUID: CPU $cpu is of a hybrid CPU" \
			"$(( (0x$(leaf $cpu 7 | cut -d' ' -f4) >> 15) & 1 ))" 1
		is "CPUID: CPU $cpu has the counters of all cores: 6 general and 3 fixed" \
			"$(leaf $cpu 10)" "07300605 00000058 00000007 00008603"
	done
	is "CPUID: CPU 0 is a performance core, Golden Cove" "$(kind 0)" 40000001
	is "CPUID: CPU 1 is an efficiency core, Gracemont" "$(kind 1)" 20000001
}

# kind CPU: the CPU's core type and native model ID
kind() {
	leaf "$1" 0x1a | cut -d' ' -f1
}

pmus() {
	local devices=/sys/bus/event_source/devices
	is "cpu_core has CPU 0, cpu_atom CPU 1" \
		"$(cat $devices/cpu_core/cpus $devices/cpu_atom/cpus | paste -sd' ')" "0 1"
	dmesg >dmesg
	is "the kernel reads no MSR that does not exist" "$(grep -c 'unchecked MSR' dmesg)" 0
}

# The numbers of counters in the boot log of Linux 6.1
counters() {
	is "cpu_core has 8 general and 4 fixed counters, cpu_atom 6 and 3" "$(
		sed -n -e '/cpu_core PMU driver/,$s/.*generic registers: *//p' \
			-e '/cpu_core PMU driver/,$s/.*fixed-purpose events: *//p' dmesg |
			head -n 4 | paste -sd' ')" "8 4 6 3"
}

# counts CPU OWN OTHER: on this CPU the PMU OWN counts, and the PMU OTHER does not
counts() {
	local cpu=$1 own=$2 other=$3
	taskset -c "$cpu" perf stat -x, -o out -e "$own/instructions/u,$own/branches/u" \
		-e "$other/instructions/u" "$T/loop"
	is "CPU $cpu: $own counts instructions and branches, $other does not count" \
		"$(field 1)" "10000004 5000001 <not counted>"
}

# unit_masks CPU PMU CONDITIONAL OTHERS: the unit mask of conditional branches on this kind of
# core, and on the other kind
unit_masks() {
	local cpu=$1 pmu=$2 conditional=$3 others=$4
	taskset -c "$cpu" perf stat -x, -o out -e "$pmu/event=0xc4,umask=$conditional/u" \
		-e "$pmu/event=0xc4,umask=$others/u" "$T/loop"
	is "$pmu: unit mask $conditional counts conditional branches, $others counts none" \
		"$(field 1)" "5000000 0"
}

# all_counters CPU PMU GENERAL: groups with an event for each counter, and with one more event
all_counters() {
	local cpu=$1 pmu=$2 general=$3 group
	group=$pmu/instructions/u,$pmu/cycles/u,$pmu/ref-cycles/u
	for _ in $(seq "$general"); do
		group=$group,$pmu/event=0xc4/u
	done
	taskset -c "$cpu" perf stat -x, -o out -e "{$group}" "$T/loop"
	is "$pmu: a group of 3 fixed and $general general counters counts all the time" \
		"$(awk -F, -v p="$pmu" 'index($3, p) { print $1, $5 }' out | sort | uniq -c |
			awk '{ print $1, $2, $3 }' | paste -sd,)" \
		"3 10000004 100.00,$general 5000001 100.00"
	taskset -c "$cpu" perf stat -x, -o out -e "{$group,$pmu/event=0xc4/u}" "$T/loop"
	more "$pmu: a group with one more event does not count" "$(grep -c '^<not' out)" 0
}

metrics() {
	taskset -c 0 perf stat -x, -o out -e "{cpu_core/slots/u,cpu_core/topdown-retiring/u}" \
		"$T/loop"
	is "cpu_core: slots and metrics exist and read 0" \
		"$(field 1)" "0 0"
}

# samples CPU PMU
samples() {
	perf record -q -e "$2/instructions/u" -c 10000 -o data taskset -c "$1" "$T/loop"
	perf script -i data -F ip 2>/dev/null | sort | uniq -c >ips
	# taskset has a few samples, too.
	is "$2: 1,000 samples at one address" "$(awk '$1 > 10 { print $1 }' ips)" 1000
}

# Without --no-scale perf scales each count up as if the task had always run on one kind of
# core. perf prints time_running in ns, and as a whole percentage of time_enabled. From Linux
# 6.2 on, the dummy event is enabled at the same time as the others and always runs.
moves() {
	taskset -c 0 perf stat -x, --no-scale -o out -e "$core,$atom,dummy:u" "$T/kinds"
	is "a task moves 101 times: each PMU counts the task's instructions on its CPU" \
		"$(field 1)" "510363 510457"
	within "both events' time_running adds up to time_enabled, in percent" \
		"$(field 5 | awk '{ print $1 + $2 }')" 100 1
	[ "$VM_KERNEL" = 6.1 ] ||
		is "both events' time_running adds up to time_enabled, in ns" \
			"$(field 4 | awk '{ print $1 + $2 }')" \
			"$(awk -F, '/dummy/ { print $4 }' out)"
	more "each event runs for more than 10 % of the time" \
		"$(field 5 | awk '{ print int($1 < $2 ? $1 : $2) }')" 10
}

in_host() {
	sysctl -q kernel.nmi_watchdog=0
	pmus
	counts 0 cpu_core cpu_atom
	counts 1 cpu_atom cpu_core
	moves
	[ "$VM_KERNEL" != 6.1 ] && finish
	cpuid
	counters
	unit_masks 0 cpu_core 0x11 0x7e
	unit_masks 1 cpu_atom 0x7e 0x11
	all_counters 0 cpu_core 8
	all_counters 1 cpu_atom 6
	metrics
	# perf record reads all modules, which takes long.
	mount -t tmpfs none /lib/modules
	samples 0 cpu_core
	samples 1 cpu_atom
	"$vm" guest --pmu=none -- "$T/loop"
	is "a guest runs on a hybrid CPU" $? 0
	finish
}

# On a machine with three kinds of cores
of_three() {
	local devices=/sys/bus/event_source/devices
	sysctl -q kernel.nmi_watchdog=0
	is "CPUID: Lion Cove, Skymont and Crestmont" "$(kind 0) $(kind 1) $(kind 2)" \
		"40000003 20000003 20000002"
	is "each of three kinds has a PMU" \
		"$(cat $devices/cpu_{core,atom,lowpower}/cpus | paste -sd' ')" "0 1 2"
	counts 0 cpu_core cpu_lowpower
	counts 1 cpu_atom cpu_core
	counts 2 cpu_lowpower cpu_atom
	finish
}

if [ $# -gt 0 ]; then
	cd "$VM_SCRATCH" && "$@"
	exit
fi

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
for line in 6.1 6.12 7.3; do
	[ $line = 6.1 ] || needs_line $line "hybrid CPU, Linux $line" || continue
	VM_KERNEL=$line ends_well "Linux $line" "$vm" host --cpu hybrid --stock-kvm \
		--timeout 1200 -- "$self" in_host
	[ $line != 7.3 ] ||
		VM_KERNEL=$line ends_well "three kinds" "$vm" host --cpu hybrid \
			--cores PEL --stock-kvm --timeout 1200 -- "$self" of_three
done
finish
