#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The life cycle: killed VMMs, vCPUs that change their thread, host CPUs that go offline and
# online, and modules that are unloaded and loaded.
# vm: host --no-icount --host-cpus 2 --timeout 3000
# tier: test
# machines: amd intel
# programs: life_test
# seconds: 100, on intel 157
#
# LIFE_KILLS: how many VMMs to kill
. "$VM_TREE/selftests/tap.sh"
kvm=/sys/kernel/debug/kvm
built=$VM_TREE/build/linux-$VM_KERNEL/kvm
cd "$VM_SCRATCH" || exit 1

no_vm() {
	[ -z "$(find $kvm -name pv_perf)" ] &&
		[ "$(cat /sys/module/${kvm_vendor/-/_}/refcnt)" = 0 ]
}

ends_well life_test "$T/life_test"

# VMMs that are killed.
free_kb() {
	local cache
	echo 3 >/proc/sys/vm/drop_caches
	# KASAN keeps freed memory until the caches are shrunk.
	for cache in /sys/kernel/slab/*/shrink; do
		echo 1 >"$cache"
	done
	# The free pages that each CPU keeps (10 MB to 28 MB) are free memory, too.
	awk '$1 == "MemFree:" { n += $2 } $1 == "count:" { n += 4 * $2 } END { print n }' \
		/proc/meminfo /proc/zoneinfo
}
"$T/life_test" kill 3 1 >/dev/null
slabs="perf_event task_struct mm_struct kvm_vcpu"
# The number of the kernel's workers varies, and an idle CPU keeps the memory of a task.
declare -A before others=([task_struct]=10 [mm_struct]=10)
for slab in $slabs; do
	before[$slab]=$(objects "$slab")
done
free_before=$(free_kb)
"$T/life_test" kill "${LIFE_KILLS:-50}" >out 2>&1
is "life_test kill ends well" $? 0
sed 's/^/# /' out
ok "killed: no VM is left, and $kvm_vendor has no users" until_true no_vm
for slab in $slabs; do
	ok "killed: no $slab is left in the slab" \
		until_true no_more "$slab" $((before[$slab] + others[$slab]))
	echo "# $slab: ${before[$slab]} before, $now after"
done
free_after=$(free_kb)
echo "# free memory: $free_before kB before, $free_after after"
ok "killed: free memory has shrunk by less than 4 MB" \
	test $((free_before - free_after)) -lt 4096

# A VMM's memory control group.
slab_of() {
	local group=/sys/fs/cgroup/held vmm
	mkdir $group
	sh -c "echo \$\$ >$group/cgroup.procs; exec $T/life_test hold $1" >held 2>&1 &
	vmm=$!
	until_true grep -q held held
	awk '$1 == "slab" { print $2 }' $group/memory.stat
	kill -9 $vmm
	wait $vmm 2>/dev/null
	until_true rmdir $group
}
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
none=$(slab_of 0)
held=$(slab_of 64)
event=$(awk '$1 == "perf_event" { print $4 }' /proc/slabinfo)
ok "64 events, with the host's $event bytes each, count as memory of the VMM" \
	test $((held - none)) -gt $((64 * event))
echo "# slab: $none bytes without events, $held with"

# CPUs of the host.
cpu1=/sys/devices/system/cpu/cpu1/online
"$T/life_test" spin 8 >out 2>&1 &
spin=$!
n=0
while kill -0 $spin 2>/dev/null; do
	echo 0 >$cpu1
	sleep 0.2
	echo 1 >$cpu1
	sleep 0.2
	n=$((n + 1))
done
wait $spin
is "a host CPU goes and comes $n times: 2 vCPUs count all they execute" $? 0
sed 's/^/# /' out

# The modules.
"$T/life_test" spin 1000 >/dev/null 2>&1 &
spin=$!
a_vm() {
	[ -n "$(find $kvm -name pv_perf)" ]
}
until_true a_vm
ok "rmmod $kvm_vendor is refused while a VM runs" sh -c "! rmmod $kvm_vendor 2>/dev/null"
kill -9 $spin
wait $spin 2>/dev/null
until_true no_vm
for i in 1 2 3; do
	rmmod $kvm_vendor && insmod "$built/$kvm_vendor.ko" && "$T/life_test" spin 1 >out 2>&1
	is "$kvm_vendor unloaded and loaded again, $i: VMs count" $? 0
done
rmmod $kvm_vendor kvm && insmod "$built/kvm.ko" pv_perf=1 && insmod "$built/$kvm_vendor.ko" &&
	"$T/life_test" spin 1 >out 2>&1
is "kvm and $kvm_vendor unloaded and loaded again: VMs count" $? 0

# Which VMMs offer the feature.  1000 is KVM_ENOSYS.
load_kvm() {
	rmmod "$kvm_vendor" kvm && insmod "$built/kvm.ko" "$@" && insmod "$built/$kvm_vendor.ko" &&
		"$T/life_test" offer >offer
}
load_kvm pv_perf=1
is "with pv_perf=1 a VMM that passes on KVM's CPUID offers the feature" \
	"$(sed -n 's/^unasked: //p' offer)" "CPUID 1, KVM_ENABLE_CAP 0, KVM_PERF_OP -0"
load_kvm
is "by default a VMM that passes on KVM's CPUID does not offer the feature" \
	"$(sed -n 's/^unasked: //p' offer)" \
	"CPUID 0, KVM_ENABLE_CAP 0, KVM_PERF_OP -1000"
is "by default a VMM that asks for the feature offers it" "$(sed -n 's/^asked: //p' offer)" \
	"CPUID 0, KVM_ENABLE_CAP 0, KVM_PERF_OP -0"
load_kvm enable_pmu=0
is "with enable_pmu=0 a VMM may not ask for the feature" "$(sed -n 's/^asked: //p' offer)" \
	"CPUID 0, KVM_ENABLE_CAP -1, KVM_PERF_OP -1000"
load_kvm enable_pmu=0 pv_perf=1
is "with enable_pmu=0 and pv_perf=1 a VMM offers the feature" "$(sed -n 's/^unasked: //p' offer)" \
	"CPUID 1, KVM_ENABLE_CAP 0, KVM_PERF_OP -0"
finish
