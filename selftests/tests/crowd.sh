#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# In a guest with eight vCPUs on four CPUs, perf top profiles all vCPUs while a program
# on each is counted.
# vm: host --host-cpus 4 --host-mem 3072 --timeout 1800
# tier: all
# machines: amd
# programs: loop
# seconds: 300
. "$VM_TREE/selftests/tap.sh"
vcpus=8
exact=10000004

crowd() {
	local top vcpu pids

	export TERM=xterm COLUMNS=100 LINES=30
	stdbuf -oL perf top -a --stdio -d 1 >top.out 2>&1 < <(exec sleep 1000) &
	top=$!
	ok "perf top shows its first screen" until_true grep -q PerfTop top.out
	for _ in 1 2 3; do
		for ((vcpu = 0; vcpu < vcpus; vcpu++)); do
			taskset -c $vcpu perf stat -x, -o "out.$vcpu" -e instructions:u \
				"$T/loop" &
			pids[vcpu]=$!
		done
		wait "${pids[@]}"
		for ((vcpu = 0; vcpu < vcpus; vcpu++)); do
			count instructions:u "out.$vcpu"
		done
	done >counts
	is "beside perf top, programs on eight vCPUs are counted exactly, three times each" \
		"$(sort counts | uniq -c | tr -s ' ')" " $((3 * vcpus)) $exact"
	ok "perf top shows the program" until_true grep -qE ' [0-9.]+% +loop +\[\.\] _start' \
		top.out
	kill $top
	wait $top
	none "perf top has lost no sample" "$(grep -oE 'lost: [1-9][^ ]*' top.out | tail -n 1)"
	dmesg >dmesg
	no_warning "the guest's log has no warning" dmesg
}

mount -t tmpfs none /lib/modules
cd /dev/shm || exit 1
if [ $# -gt 0 ]; then
	"$1"
	cp top.out "$VM_SCRATCH"
	finish
fi
on_guest "eight vCPUs" crowd --cpus $vcpus --mem 1024
finish
