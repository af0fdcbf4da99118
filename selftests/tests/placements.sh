#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Counts and samples are exact wherever threads and vCPUs run: the four placements of
# perfctr-xen's evaluation, two guests on one CPU, and a thread that moves between
# vCPUs while it is sampled.
# vm: host --host-cpus 2 --host-mem 3072 --timeout 1800
# tier: all
# machines: amd
# programs: loop hop
# seconds: 400
. "$VM_TREE/selftests/tap.sh"
exact=10000004

# threads TITLE VCPUS...: run a thread on each of these vCPUs at the same time, and count each
# thread
threads() {
	local title=$1 vcpu n=0

	shift
	for vcpu; do
		n=$((n + 1))
		taskset -c "$vcpu" perf stat -x, -o "out.$n" -e instructions:u "$T/loop" &
	done
	wait
	for ((; n; n--)); do
		is "$title: the count of thread $n is exact" \
			"$(count instructions:u "out.$n")" "$exact"
	done
}

one_vcpu() {
	threads "one thread on one vCPU" 0
	threads "two threads on one vCPU" 0 0
}

two_vcpus() {
	threads "two threads on two vCPUs" 0 1
	threads "threads that move between two vCPUs" 0-1 0-1 0-1
}

two_threads() {
	for i in 1 2 3; do
		threads "beside another guest on the same CPU, $i" 0 0
	done
}

sampled() {
	perf stat -x, -o out -e instructions:u "$T/hop"
	perf record -q -B -N -e instructions:u -c 10000 -o data "$T/hop"
	is "a thread that moves between vCPUs takes all its samples" "$(samples_of data)" \
		$(($(count instructions:u out) / 10000))
	perf report -i data --sort cpu --stdio 2>/dev/null | grep -E '^ +[0-9.]+% +[01]' >cpus
	is "the samples of a moving thread are on both vCPUs" "$(wc -l <cpus)" 2
}

# on_cpus CPUS TITLE PART [VM_OPTION...]: run the part in a guest whose QEMU runs on these CPUs
on_cpus() {
	taskset -pc "$1" $$ >/dev/null
	on_guest "${@:2}"
}

mount -t tmpfs none /lib/modules
cd /dev/shm || exit 1
if [ $# -gt 0 ]; then
	"$1"
	finish
fi

on_cpus 0 "one vCPU on one CPU" one_vcpu
on_cpus 0 "two vCPUs on one CPU" two_vcpus --cpus 2
on_cpus 0-1 "two vCPUs on two CPUs" two_vcpus --cpus 2
on_cpus 0-1 "sampled" sampled --cpus 2
"$vm" guest --scratch "$VM_SCRATCH" -- "$0" two_threads >other.tap 2>&1 &
other=$!
taskset -p 1 $other >/dev/null
on_cpus 0 "two guests on one CPU" two_threads
wait $other
is "the other guest on this CPU ends well" $? 0
tap_file "the other guest on this CPU" other.tap
finish
