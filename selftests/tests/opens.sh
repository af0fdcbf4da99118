#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Tasks with more configurations than a CPU has records: each switch opens an event, with IRQs
# off and rq->lock held.  The test bounds the time that a switch takes, also if the limit on
# the rate of opened events makes the vCPU wait.
# vm: host --timeout 900
# tier: all
# machines: amd
# programs: ring
# seconds: 150
. "$VM_TREE/selftests/tap.sh"
self=$VM_TREE/selftests/tests/opens.sh
tracing=/sys/kernel/tracing

# in_guest TASKS: prints the number of flushes, and the time in us of the longest flush but
# five: the host may run other threads in the middle of a flush.
in_guest() {
	mountpoint -q $tracing || mount -t tracefs tracefs $tracing || return
	cd $tracing || return
	echo kvm_pmu_flush >set_graph_function
	echo 1 >max_graph_depth
	echo 8192 >buffer_size_kb
	echo function_graph >current_tracer
	"$T/ring" "$1" 100 || return
	echo 0 >tracing_on
	awk '$0 ~ / us / { for (i = 2; i <= NF; i++) if ($i == "us") print $(i - 1) }' trace |
		sort -rn | awk 'NR == 6 { t = $1 } END { printf "%d %d\n", NR, t + 1 }'
}

if [ $# = 1 ]; then
	in_guest "$1"
	exit
fi

# measure TASKS RATE: sets flushes and longest
measure() {
	echo "$2" >/sys/module/kvm/parameters/pv_perf_max_open_rate
	"$vm" guest -- "$self" "$1" >"$VM_SCRATCH/out" 2>&1
	read -r flushes longest < <(tail -n 1 "$VM_SCRATCH/out")
	echo "# $1 tasks, $2 events per second: $flushes flushes, the longest but five $longest us"
}

# Each task has one event.  The host's timer has a slack of 50 us.  The rest of the bound is
# for the operations.
measure 16 10000
more "tasks with as many configurations as records cause flushes" "$flushes" 1000
ok "but for five, each flush takes less than 300 us" test "$longest" -lt 300
measure 20 10000
more "tasks with more configurations than records cause flushes" "$flushes" 1000
ok "but for five, each flush that opens an event takes less than 400 us" test "$longest" -lt 400
measure 20 1000
ok "the longest flush at a rate of 1000 opened events per second takes more than 500 us" \
	test "$longest" -gt 500
ok "the longest flush at that rate takes less than the wait for two events" test "$longest" -lt 2000
finish
