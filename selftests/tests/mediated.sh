#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A host whose KVM has the mediated virtual PMU, which takes the whole PMU, does not offer the
# pair.
# vm: none
# tier: all
# machines: amd intel
# needs: machine
# programs: loop longerloop
# lines: 7.3
# seconds: 100, on intel 139
tree=$(realpath "$(dirname "$0")/../..")
self=$(realpath "$0")
. "$tree/selftests/tap.sh"
loop=$tree/build/tests/loop

# In a guest without a virtual PMU. With --pmu=none vm does not load the module.
with_pair() {
	insmod "$tree/build/linux-$VM_KERNEL/guest/kvm_pmu.ko" >alone 2>&1
}

# In a guest with the mediated virtual PMU.
with_both() {
	insmod "$tree/build/linux-$VM_KERNEL/guest/kvm_pmu.ko" >insmod 2>&1
	perf stat -x, -o both -e instructions:u "$loop"
}

in_host() {
	sysctl -q kernel.nmi_watchdog=0
	"$tree/build/pv-perf-doctor" host >doctor
	"$vm" guest --pmu=none -- "$self" with_pair
	"$vm" guest --pmu=vpmu -- "$self" with_both
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

has "if KVM has the mediated virtual PMU, no VM has the pair" \
	'No such device' alone
has "the doctor says why no VM has the pair" 'not ok .* no VM may take the whole PMU' doctor
is "a guest counts by the mediated virtual PMU" \
	"$(awk -F, '/instructions/ { print $1 }' both)" 10000004
has "a guest with the mediated virtual PMU does not have the pair" 'No such device' insmod
finish
