#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Overflows that interrupt late, as on real CPUs, but later, so that more cases occur. If the
# guest exits between the overflow and the interrupt, the host gets the interrupt, and the
# guest still gets its sample, at once even if it has halted.
# vm: host --cpu intel --skid 200 --timeout 1200
# tier: all
# machines: intel
# needs: bochs
# programs: exits loop
# debug: no
# seconds: 164
. "$VM_TREE/selftests/tap.sh"
cd "$VM_SCRATCH" || exit 1

# check TITLE PERIOD COMMAND...: the command has a sample for each period
check() {
	local title=$1 period=$2 count
	shift 2
	perf stat -x, -o out -e instructions:u "$@"
	count=$(count instructions:u out)
	perf record -q -e instructions:u -c "$period" -o data "$@"
	# perf record adds variables to the environment: the command executes a bit more.
	within "$title: each period has a sample" "$(samples_of data)" $((count / period)) 3
	sum=$((sum + $(samples_of data)))
}

if [ "$VM_LEVEL" = guest ]; then
	mount -t tmpfs none /lib/modules
	# Disable throttling by the time that samples take.
	echo 99 >/proc/sys/kernel/perf_cpu_time_max_percent
	echo 1000000 >/proc/sys/kernel/perf_event_max_sample_rate
	echo 0 >/proc/sys/kernel/perf_cpu_time_max_percent
	sum=0
	perf stat -x, -o out -e instructions:u "$T/loop"
	is "counts are exact with late interrupts" "$(count instructions:u out)" 10000004
	check "no exits" 10000 "$T/loop"
	# There are 24 instructions between two exits.
	check "with an exit before most interrupts" 1009 "$T/exits" cpuid 20000
	# The idle loop counts up to its HLT.
	mkfifo never
	perf record -q -a -D 300 -e instructions:k -c 10007 -o /dev/shm/data bash -c \
		'exec 3<>never; for n in {1..300}; do read -t 0.005 -u 3; done'
	more "the guest's kernel has samples" "$(samples_of /dev/shm/data)" 1000
	sum=$((sum + $(samples_of /dev/shm/data)))
	echo "# samples: $sum"
	finish
fi

tracing=/sys/kernel/tracing
# hits HIST REGEX: the hit count in the last line that matches
hits() {
	awk -v r="$2" '!/^#/ && $0 ~ r { n = $NF } END { print n + 0 }' \
		"$tracing/events/kvm/$1/hist"
}

# late_halts TRACE: the number of overflows that interrupt after the exit of a HLT, and how
# many of them are delivered only after another wakeup of the vCPU, over a millisecond later
late_halts() {
	awk '/ kvm_exit: / { halted = 1; waited = 0 }
	     / kvm_entry: / { halted = 0 }
	     / kvm_vcpu_wakeup: / && match($0, /time [0-9]+ ns/) {
		waited = substr($0, RSTART + 5) + 0
	     }
	     / kvm_pv_perf_overflow: / && halted {
		halted = 0
		n++
		late += waited > 1000000
	     }
	     END { print n + 0, late + 0 }' "$1"
}

echo 'hist:keys=exit_reason' >$tracing/events/kvm/kvm_exit/trigger
echo 'hist:keys=common_type' >$tracing/events/kvm/kvm_pv_perf_overflow/trigger
# EXIT_REASON_HLT
echo 'exit_reason == 12' >$tracing/events/kvm/kvm_exit/filter
echo 40000 >$tracing/buffer_size_kb
for event in kvm_exit kvm_entry kvm_vcpu_wakeup kvm_pv_perf_overflow; do
	echo 1 >$tracing/events/kvm/$event/enable
done
on_guest guest in_guest
echo 0 >$tracing/tracing_on
overflows=$(hits kvm_pv_perf_overflow hitcount)
nmis=$(hits kvm_exit 'EXCEPTION_NMI|exit_reason: *0 ')
echo "# overflows: $overflows, exits for NMIs: $nmis"
more "overflows whose interrupt came after the guest's exit" $((overflows - nmis)) 200
more "overflows whose interrupt made the guest exit" "$nmis" 1000
# An overflow has no sample if its event ends at once, or if perf's buffer is full.
within "samples are as many as overflows" "$(sed -n 's/^# samples: //p' guest.tap)" \
	"$overflows" 0.3
read -r halts late < <(late_halts $tracing/trace)
more "interrupts that came after a HLT" "$halts" 2
is "an overflow after a HLT does not wait for another wakeup" "$late" 0
finish
