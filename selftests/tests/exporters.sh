#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# An exporter of metrics keeps 182 events on four vCPUs, which have 4 counters each: each
# event counts in each interval, estimates are marked, and idle vCPUs stay idle.
# LONG=1: for an hour of the machine's time
# vm: none
# tier: all
# machines: amd
# needs: machine
# programs: exporter
# seconds: 120
self=$(realpath "$0")
tree=${self%/selftests/*}
. "$tree/selftests/tap.sh"
vcpus=4
events=182
# Between two readings, in seconds of the machine's time.
interval=15
readings=5
! long || readings=241
# How long the host measures, in seconds of the machine's time.
measured=10

# Tells the host that the guest is in a state, and waits until the host has measured.
state() {
	touch "$VM_SCRATCH/$1"
	wait_for "$VM_SCRATCH/$1.measured"
}

in_guest() {
	local pid

	pause 2
	state idle
	"$T/exporter" $events $readings $interval 4 >tap &
	pid=$!
	pause $interval
	state exporting
	wait $pid
	is "the exporter ends well" $? 0
	tap_file "the exporter" tap
	dmesg >dmesg
	no_warning "the guest's log has no warning" dmesg
}

# measure STATE: the exits of each vCPU, and the instructions of all CPUs
measure() {
	local vcpu words=()

	for ((vcpu = 0; vcpu < vcpus; vcpu++)); do
		words+=(-e kvm:kvm_exit --filter "vcpu_id == $vcpu")
	done
	perf stat -x, -a -o "$VM_SCRATCH/$1.out" "${words[@]}" -e instructions sleep $measured
}

measure_guest() {
	local state

	for state in idle exporting; do
		wait_for "$VM_SCRATCH/$state"
		measure $state
		touch "$VM_SCRATCH/$state.measured"
	done
}

on_host() {
	local measuring

	mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs /sys/kernel/tracing
	measure native-idle
	"$T/exporter" $events 2 $((measured + 2)) 6 >native.tap &
	pause 1
	measure native
	wait $!
	# This run is too short for its estimates.
	has "the exporter opens its events on the host" '^ok 1 ' native.tap
	measure_guest &
	measuring=$!
	on_guest "a guest" in_guest --cpus $vcpus --timeout 0
	kill $measuring 2>/dev/null
	wait $measuring
}

# instructions STATE: millions per second, of all CPUs
instructions() {
	awk -F, -v s=$measured '$3 == "instructions" { printf "%.1f", $1 / s / 1e6 }' "$1.out"
}

# idle_exits STATE: exits per second of a vCPU that has no work. The first runs the exporter,
# and the last its load.
idle_exits() {
	awk -F, -v s=$measured -v last=$vcpus '/kvm_exit/ && ++n > 1 && n < last { sum += $1 }
		END { printf "%.0f", sum / (last - 2) / s }' "$1.out"
}

if [ -n "$VM_LEVEL" ]; then
	mount -t tmpfs none /lib/modules
	cd /dev/shm || exit 1
	if [ "$VM_LEVEL" = guest ]; then
		in_guest
	else
		on_host
	fi
	finish
fi

out=$tree/build/tests/exporters
rm -rf "$out"
mkdir -p "$out"
cd "$out" || exit 1
ends_well "the machine" "$vm" host --host-cpus 4 --host-mem 3072 --timeout 7200 --scratch "$out" \
	-- "$self"
for state in native-idle native idle exporting; do
	echo "# $state: $(instructions $state) million instructions per second"
	more "instructions were counted: $state" "$(count instructions $state.out)" 0
done
echo "# exits of an idle vCPU per second: $(idle_exits idle), $(idle_exits exporting) with the exporter"
more "the exits were counted without the exporter" "$(idle_exits idle)" 0
more "the exits were counted with the exporter" "$(idle_exits exporting)" 0
# perf has other events count each 4 ms, on an idle CPU, too: exits for the timer and for the
# events.
ok "an idle vCPU exits at most 2,000 times a second" [ "$(idle_exits exporting)" -le 2000 ]
PYTHONPATH=$tree/selftests python3 - "$(instructions native-idle)" "$(instructions native)" \
	"$(instructions idle)" "$(instructions exporting)" "$(idle_exits idle)" \
	"$(idle_exits exporting)" "$(((readings - 1) * interval))" <<'END'
import sys
from vmlib import results

*millions, exits, exits_with, seconds = map(float, sys.argv[1:])
results.save(
    "exporters", "exporters", "amd", "What an exporter of metrics costs: 182 events on 4 CPUs",
    "make test TESTS=exporters" + (" LONG=1" if seconds >= 3600 else ""),
    {"host and guest": results.release("6.1"), "machine": results.emulator("amd")},
    [{"title": "Millions of instructions of the whole machine per second",
      "columns": ["exporter", "without", "with"],
      "rows": [["on the host", *millions[:2]], ["in a guest", *millions[2:]]]}],
    [f"A vCPU that is idle exits {exits:.0f} times per second, and {exits_with:.0f} times with "
     "the exporter.",
     f"The exporter read its events for {seconds:.0f} seconds of the machine's time."])
END
finish
