#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Every operation and error of the contract, by raw hypercalls from a guest.  With LONG=1
# a BPF program reads lost counters for three seconds of the machine's time instead of one.
# vm: host --host-cpus 2 --timeout 1200
# tier: test
# machines: amd intel
# programs: hypercall_test driver_test flush_test
# seconds: 90, on intel 164
. "$VM_TREE/selftests/tap.sh"
# VM_KERNEL is the kernel of the level that runs the command.
load="insmod $VM_TREE/build/linux-\$VM_KERNEL/hypercall/kvm_perf_hypercall.ko"
cd "$VM_SCRATCH" || exit 1

# Without the series 5-hypervisor-events the host has no events of the hypervisor.
host=
case $VM_KERNEL in
*-core)	host=--core ;;
esac
ends_well contract "$vm" guest --cpus 2 -- sh -c "$load; $T/hypercall_test $host"

dmesg >log
is "the host's log mentions the limit on events once" \
	"$(grep -c 'has reached its limit of 128 events' log)" 1

# The guest's kernel allows more overflows than this VM's limit, however long samples take.
rate=/sys/module/kvm/parameters/pv_perf_max_rate
before=$(cat $rate)
echo 5000 >$rate
ends_well driver "$vm" guest -- sh -c "$load; $T/driver_test 20000"

# skid: the most instructions between an overflow and the stop of the event. They are the
# NMI's handler, or the rest of perf's work that the overflow interrupts. On a kernel with
# checks they are more than a period. limit: a guest whose samples take all its time must
# reach the limit on the rate, even if a sample takes over a millisecond or an instruction
# takes 5 ns.
skid=8000 limit=$before seconds=1
! long || seconds=3
case $VM_KERNEL-$kvm_vendor in
*-debug-*)	skid=2000000 limit=200 ;;
*-kvm-intel)	limit=2000 seconds=3 ;;
esac
echo "$limit" >$rate
ends_well flush "$vm" guest --cpus 2 -- sh -c "$load; $T/flush_test $skid $seconds"

# Without the CPUID bit, which QEMU drops by default.
ends_well absent "$vm" guest --pmu=none -- sh -c "
	insmod $VM_TREE/build/linux-\$VM_KERNEL/guest/kvm_pmu.ko
	dmesg >dmesg
	$load; $T/hypercall_test --absent"
# A driver that is built in says nothing of that, because most machines are no such guests.
driver_is_built_in ||
	has "without the feature the module's log says why it is not loaded" \
		'kvm_pmu: not loaded: the host does not offer' dmesg
finish
