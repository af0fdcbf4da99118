#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The emulated machine: its PMU counts and samples exactly, for the host and for stock KVM's
# virtual PMU.
# vm: host --host-cpus 2 --stock-kvm --timeout 900
# tier: all
# machines: amd intel
# programs: loop
# seconds: 60, on intel 180
. "$VM_TREE/selftests/tap.sh"
cd "$VM_SCRATCH" || exit 1

dmesg >dmesg
if [ $kvm_vendor = kvm-intel ]; then
	has "the stock kernel finds the Intel PMU" 'Intel PMU driver' dmesg
	is "the stock kernel reads no MSR that does not exist" "$(grep -c 'unchecked MSR' dmesg)" 0
	# Loads that miss the TLB.
	not_modelled=r0108
else
	has "the stock kernel finds the AMD PMU" 'AMD PMU driver' dmesg
	not_modelled=branch-misses
fi

for i in 1 2 3; do
	perf stat -x, -o out -e instructions:u,branches:u "$T/loop"
	is "run $i: the loop has 2 * 5,000,000 + 4 instructions" \
		"$(count instructions:u out)" 10000004
	# The system call that ends the loop is a branch.
	is "run $i: the loop has 5,000,000 + 1 branches" \
		"$(count branches:u out)" 5000001
done

perf stat -x, -o out -e cycles,dTLB-load-misses,cpu/event=0x2c/ \
	gzip -c /usr/bin/perf >/dev/null
more "cycles count" "$(count cycles out)" 100000000
if [ $kvm_vendor = kvm-amd ]; then
	more "dTLB misses count" "$(count dTLB-load-misses out)" 1000
	more "interrupts count" "$(count cpu/event=0x2c/ out)" 10
fi

perf stat -x, -o out -e $not_modelled "$T/loop"
is "an event that the machine does not model reads 0" "$(count $not_modelled out)" 0

perf record -q -e instructions:u -c 10000 -o data "$T/loop"
perf script -i data -F time,ip --ns 2>/dev/null | sort -u | awk '{ print $2 }' |
	sort | uniq -c >out
is "perf record on the host: 1,000 samples at one address" \
	"$(awk '{ print NR, $1 }' out)" "1 1000"

perf stat -x, -a -A -o out -e instructions taskset -c 1 "$T/loop"
is "each CPU has a PMU" "$(grep -c 'CPU[01],' out)" 2

"$VM_TREE/selftests/vm" guest --pmu=vpmu -- \
	perf stat -x, -e instructions:u,branches:u "$T/loop" >out 2>&1
is "stock KVM's virtual PMU counts instructions" \
	"$(count instructions:u out)" 10000004
is "stock KVM's virtual PMU counts branches" "$(count branches:u out)" 5000001
finish
