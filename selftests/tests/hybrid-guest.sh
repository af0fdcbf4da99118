#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# On a host with two or three kinds of cores, guests count and sample exactly while their
# vCPUs move between the kinds.
# vm: none
# tier: intel
# machines: intel
# needs: machine bochs
# programs: hostile loop longloop mover self_monitor
# lines: 7.3
# debug: no
# seconds: 900
tree=$(realpath "$(dirname "$0")/../..")
self=$(realpath "$0")
. "$tree/selftests/tap.sh"
exact=10000004

# In a guest

# The host begins to move the vCPUs, or to place them.
begin() {
	mount -t tmpfs none /lib/modules
	cd /dev/shm || exit 1
	touch "$VM_SCRATCH/ready"
	wait_for "$VM_SCRATCH/moving"
}

guest_counts() {
	local i
	for ((i = 0; i < 5; i++)); do
		perf stat -x, -o out -e instructions:u,branches:u "$T/loop"
		count instructions:u out
		perf stat -x, -o "out.group" -e "{instructions:u,branches:u,cycles:u}" "$T/loop"
		count instructions:u out.group
	done >counts
	is "ten programs are counted exactly, alone and in a group" \
		"$(sort counts | uniq -c | tr -s ' ')" " 10 $exact"
	is "branches are counted exactly" "$(count branches:u out.group)" 5000001
	is "the counters count all the time" \
		"$(awk -F, '/:u/ { print $5 }' out out.group | sort -u)" 100.00
}

guest_samples() {
	perf record -q -B -N -e instructions:u -c 10000 -o data "$T/loop"
	is "a program has a sample every 10,000 instructions" "$(samples_of data)" 1000
	perf record -q -B -N -e instructions:u -F 2000 -o data "$T/loop"
	perf script -i data -F period 2>/dev/null | awk '{ sum += $1 } END { print sum }' >periods
	within "with a frequency, the periods of the samples add up to the count" \
		"$(cat periods)" "$exact" 10
}

guest_raw() {
	perf stat -x, -o out -e r00c4:u "$T/loop"
	is "an architectural event counts by its number" "$(count r00c4:u out)" 5000001
	perf stat -x, -o out -e r01b1:u "$T/loop"
	is "an event that each kind numbers differently is refused" \
		"$(cut -d, -f1 out | grep not)" "<not supported>"
}

guest_rdpmc() {
	"$T/self_monitor" >monitor 2>&1
	is "a program that reads its counters by RDPMC reads the right counts" $? 0
	sed 's/^/# /' monitor
}

moving() {
	begin
	guest_counts
	guest_samples
	guest_raw
	guest_rdpmc
	dmesg >dmesg
	no_warning "the guest's log has no warning" dmesg
	finish
}

# Of three kinds, two have the core type 0x20.
three() {
	local type=/sys/bus/event_source/devices/cpu/core_type
	begin
	guest_counts
	guest_samples
	guest_rdpmc
	echo 0x20 >$type
	perf stat -x, -o out -e r7ec4:u "$T/loop"
	is "a raw event of a core type that two kinds have is refused" \
		"$(awk -F, '/r7ec4/ { print $1 }' out)" "<not supported>"
	dmesg >dmesg
	no_warning "the guest's log has no warning" dmesg
	finish
}

# The driver asks for the event at each tick, that is, after 4 ms.
one_of_three() {
	begin
	echo 0x40 >/sys/bus/event_source/devices/cpu/core_type
	perf stat -x, --no-scale -o out -e r20c4:u "$T/longloop"
	within "a raw event of one kind of three counts for a third of the time" \
		"$(awk -F, '/r20c4/ { print $5 }' out)" 33 40
	finish
}

# Each vCPU on its own kind
apart() {
	begin
	taskset -c 0 perf stat -x, -o out.0 -e instructions:u "$T/loop" &
	taskset -c 1 perf stat -x, -o out.1 -e instructions:u "$T/loop"
	wait
	is "two vCPUs on two kinds count exactly" \
		"$(count instructions:u out.0) $(count instructions:u out.1)" "$exact $exact"
	echo 0x40 >/sys/bus/event_source/devices/cpu/core_type
	taskset -c 0 perf stat -x, -o out -e r11c4:u "$T/loop"
	is "a raw event of performance cores counts there" "$(count r11c4:u out)" 5000000
	taskset -c 1 perf stat -x, -o out -e r11c4:u "$T/loop"
	is "a raw event of performance cores does not count on an efficiency core" \
		"$(awk -F, '/r11c4/ { print $1 }' out)" "<not counted>"
	echo 0x20 >/sys/bus/event_source/devices/cpu/core_type
	taskset -c 1 perf stat -x, -o out -e r7ec4:u "$T/loop"
	is "a raw event of efficiency cores counts there" "$(count r7ec4:u out)" 5000000
	perf record -q -B -N -e instructions:u -c 10000 -o data taskset -c 1 "$T/loop"
	more "a program on the other vCPU is sampled" "$(samples_of data)" 999
	finish
}

# The host's events take all counters of efficiency cores.
short() {
	begin
	perf stat -x, --no-scale -o out -e branches:u "$T/longloop"
	more "where one kind has no counter, a count says for how long it did not count" \
		"$(awk -F, '/branches/ { print 100 - int($5) }' out)" 0
	finish
}

# Random hypercalls, without the driver
hostile() {
	begin
	rmmod kvm_pmu
	insmod "$tree/build/linux-$VM_KERNEL/hypercall/kvm_perf_hypercall.ko" swallow_nmis=1
	# The program fails, because so few hypercalls do not have all results.
	"$T/hostile" 20000 2 1 >hypercalls 2>&1
	has "the hostile guest's hypercalls have results of the contract" \
		'^ok .* the contract has all results' hypercalls
	finish
}

# A guest that is a host: its PMU is the pair's, which is not hybrid.
nested_host() {
	begin
	"$vm" nested -- bash -c "for i in 1 2 3; do
		perf stat -x, -e instructions:u,branches:u $T/loop 2>&1; done" >nested.out
	is "a nested guest counts exactly" \
		"$(awk -F, '/:u/ { print $1 }' nested.out | sort | uniq -c | tr -s ' ' | paste -sd,)" \
		" 3 $exact, 3 5000001"
	finish
}

# On the host

# guest PART VM_OPTION...: starts a guest; when it is ready, its QEMU's pid is in qemu
start_guest() {
	local part=$1
	shift
	rm -f ready moving
	"$vm" guest "$@" --scratch "$VM_SCRATCH" -- "$self" "$part" >"$part.tap" 2>&1 &
	guest=$!
	wait_for ready $guest
	qemu=$(pgrep -n qemu-system)
}

end_guest() {
	wait "$guest"
	is "$1: the guest ends well" $? 0
	tap_file "$1" "$2.tap"
}

# The CPUs between which guests move, and how often at least
cpus="0 1"
moves=1000

# moved_guest TITLE PART US VM_OPTION...: a guest whose threads move each US microseconds
moved_guest() {
	local title=$1 part=$2 us=$3 mover
	shift 3
	start_guest "$part" "$@"
	# shellcheck disable=SC2086 # several words
	"$T/mover" "$qemu" "$us" $cpus >moves &
	mover=$!
	touch moving
	end_guest "$title" "$part"
	wait $mover
	more "$title: its threads have moved between the kinds" "$(cat moves)" "$moves"
}

in_host() {
	local events host cpu
	cd "$VM_SCRATCH" || exit 1
	sysctl -q kernel.nmi_watchdog=0

	events=$(objects perf_event)
	moved_guest "moving vCPU" moving 2000
	moved_guest "a hostile guest" hostile 2000 --cpus 2
	ok "no event of the hostile guest is left" until_true no_more perf_event "$events"
	moved_guest "a nested guest" nested_host 5000 --hypervisor

	start_guest apart --cpus 2
	for cpu in 0 1; do
		taskset -pc $cpu "$(cat /sys/kernel/debug/kvm/"$qemu"-*/vcpu$cpu/pid)" >/dev/null
		is "vCPU $cpu stays on CPU $cpu" $? 0
	done
	touch moving
	end_guest "two vCPUs" apart

	perf stat -C 1 -o host.stat -e "$(for _ in 1 2 3 4 5 6; do
			printf 'cpu_atom/event=0xc4/D,'; done)cpu_atom/cycles/D" sleep 1000 &
	host=$!
	moved_guest "a shortage" short 2000
	kill $host
	wait
	dmesg >dmesg
	no_warning "the host's log has no warning" dmesg
	finish
}

on_three() {
	cd "$VM_SCRATCH" || exit 1
	sysctl -q kernel.nmi_watchdog=0
	is "this host has three kinds of cores" \
		"$(cat /sys/bus/event_source/devices/cpu_{core,atom,lowpower}/cpus | paste -sd' ')" \
		"0 1 2"
	cpus="0 1 2"
	moved_guest "three kinds" three 2000
	moves=30
	moved_guest "one of three kinds" one_of_three 40000
	dmesg >dmesg
	no_warning "the log of a host with three kinds has no warning" dmesg
	finish
}

if [ $# -gt 0 ]; then
	"$@"
	exit
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
on=(--kvm-opt pv_perf=1 --kvm-opt pv_perf_rdpmc=1 --kvm-opt pv_perf_rdpmc_default=1)
ends_well "hybrid host" "$vm" host --cpu hybrid "${on[@]}" --timeout 1800 -- "$self" in_host
# The first line that has PMUs for three kinds
if needs_line 7.3 "three kinds of cores, Linux 7.3"; then
	ends_well "host with three kinds of cores" "$vm" host --kernel 7.3 --guest-kernel 6.1 \
		--cpu hybrid --cores PEL "${on[@]}" --timeout 1800 -- "$self" on_three
fi
finish
