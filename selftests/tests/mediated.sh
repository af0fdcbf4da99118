#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A host whose KVM offers both, the pair and the mediated virtual PMU, which
# takes the whole PMU: a VM uses one or the other, and is told.
# vm: none
tree=$(realpath "$(dirname "$0")/../..")
self=$(realpath "$0")
. "$tree/selftests/tap.sh"
vm=$tree/selftests/vm
loop=$tree/build/tests/loop

# Host and guest talk by files in the scratch folder.
wait_for() {
	while [ ! -e "$1" ]; do sleep 0.2; done
}

# A VM with all that KVM offers, halted.
start_vm_with_both() {
	timeout 100 "$tree/build/qemu/qemu-system-x86_64" \
		-S -nodefaults -display none -L /usr/share/seabios -L /usr/share/qemu \
		-accel kvm -cpu host,migratable=no >vm 2>&1 &
}

with_pair() {
	perf stat -x, -o alone -e instructions:u "$loop"
	# Busy for more than a second: the counter is closed.
	"$tree/build/tests/longerloop"
	touch ready
	wait_for mediated
	perf stat -x, -e branches:u "$loop" >beside 2>&1
	touch refused
	wait_for gone
	# What has been found busy is tried again after a second.
	"$tree/build/tests/longerloop"
	perf stat -x, -o again -e instructions:u "$loop"
	# Of a CPU: what a task that sleeps counts is closed.
	perf stat -a -e instructions:u sleep 1000 &
	sleep 1
	touch counting
	wait_for end
}

with_both() {
	insmod "$tree/build/linux-$VM_KERNEL/guest/kvm_pmu.ko" >insmod 2>&1
	perf stat -x, -o both -e instructions:u "$loop"
}

in_host() {
	sysctl -q kernel.nmi_watchdog=0
	"$vm" guest -- "$self" with_pair &
	wait_for ready
	start_vm_with_both
	until [ "$(find /sys/kernel/debug/kvm -name vcpu0 | wc -l)" = 2 ]; do
		sleep 0.2
	done
	touch mediated
	wait_for refused
	kill $!
	wait $!
	touch gone
	wait_for counting
	start_vm_with_both
	wait $!
	echo $? >refused.status
	touch end
	wait
	"$vm" guest --pmu=vpmu -- "$self" with_both
	dmesg >dmesg
}

if [ $# -gt 0 ]; then
	cd "$VM_SCRATCH" && "$@"
	exit
fi

guest=${VM_GUEST_KERNEL:-${VM_KERNEL:-6.1}}
vendor=amd
[ "${VM_CPU:-}" != intel ] || vendor=intel
dir=$tree/build/tests/mediated
rm -rf "$dir"
mkdir -p "$dir"
needs_line 7.3 "mediated virtual PMU" || finish

"$vm" host --kernel 7.3 --guest-kernel "$guest" \
	"--kvm-$vendor-opt" enable_mediated_pmu=1 --timeout 900 --scratch "$dir" -- \
	"$self" in_host
is "the host ends well" "$?" 0
cd "$dir" || exit 1

is "the pair counts where KVM offers both" \
	"$(awk -F, '/instructions/ { print $1 }' alone)" 10000004
has "it is busy while another VM has the mediated virtual PMU" \
	'Device or resource busy' beside
is "when that has gone, it does again" \
	"$(awk -F, '/instructions/ { print $1 }' again)" 10000004
is "while it counts, no VM gets the mediated virtual PMU" \
	"$(cat refused.status)" 1
has "of which KVM tells" 'Failed to enable mediated vPMU' dmesg
has "the log says why a VM got no event" \
	'pv_perf: VM of pid [0-9]+ gets no events .*mediated' dmesg
is "which it says once per VM" "$(grep -c 'gets no events' dmesg)" 1
is "a VM with both counts by the virtual PMU" \
	"$(awk -F, '/instructions/ { print $1 }' both)" 10000004
has "the pair is not there for it" 'No such device' insmod
has "the log says so" \
	'pv_perf: VM of pid [0-9]+ has the mediated virtual PMU' dmesg
finish
