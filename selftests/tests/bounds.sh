#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# What programs of a guest, and any content of what its driver shares with the host, do to
# the guest's kernel is bounded.
# vm: guest --cpus 2 --kvm-opt pv_perf_max_events=12 --timeout 2400
# tier: all
# machines: amd
# programs: loop exits
# seconds: 120
self=$(realpath "$0")
. "$VM_TREE/selftests/tap.sh"
T=/dev/shm
cd "$VM_SCRATCH" || exit 1

seconds=${SCRIBBLE_S:-5}

as_nobody() {
	setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
}

# calls CPU: how often another CPU had it do something
calls() {
	awk -v i=$(($1 + 2)) '$1 == "CAL:" { print $i }' /proc/interrupts
}

# Other configurations than there is room for, on both CPUs; then still others for two
# seconds on one.
open_too_many() {
	perl -e '
		sub open_event {
			$attr = pack("LLQQQQQx80", 4, 128, 0xc0 | $_[0] << 24, 0, 0, 0, 1 << 5);
			return syscall(298, $attr, 0, -1, -1, 0);
		}
		sub open_some {
			system("taskset -pc $_[0] $$ >/dev/null");
			open_event($_) for 1 .. 16;
		}
		unless ($pid = fork) { open_some(1); 1 while 1; }
		open_some(0);
		$end = time + 1;
		1 while time <= $end;
		open F, "/proc/interrupts"; ($before) = map { (split)[2] } grep /CAL:/, <F>; close F;
		$end = time + 2;
		while (time <= $end) {
			$fd = open_event(17 + $n++ % 200);
			$refused++ if $fd == -1 && $! == 28;
			POSIX::close($fd) if $fd != -1;
		}
		open F, "/proc/interrupts"; ($after) = map { (split)[2] } grep /CAL:/, <F>; close F;
		kill 9, $pid;
		print $refused + 0, " ", $after - $before, "\n"' -MPOSIX
}

check_calls() {
	local refused calls
	as_nobody "$self" open_too_many >opened
	read -r refused calls <opened
	more "events that the host has no room for" "$refused" 200
	echo "# $calls calls of the other CPU"
	ok "interrupt other CPUs ten times a second at most" test "$calls" -lt 60
}

sample_rate() {
	cat /proc/sys/kernel/perf_event_max_sample_rate
}

nmis() {
	awk '$1 == "NMI:" { print $2 + $3 }' /proc/interrupts
}

# More periods end at an exit than there is time to sample.
check_rate() {
	local rate before n
	echo 99 >/proc/sys/kernel/perf_cpu_time_max_percent
	perf record -q -B -N -c 1 -o $T/data -e kvm/exits-cpuid/u $T/exits cpuid 20000
	rate=$(sample_rate)
	before=$(nmis)
	perf record -q -B -N -P -c 10 -o $T/data -e kvm/host-ns/u $T/exits cpuid 2000
	n=$(($(nmis) - before))
	perf script -i $T/data -F period 2>/dev/null >periods
	echo "# $(wc -l <periods) samples in $n NMIs, of $(awk '{ n += $1 } END { print n }' periods) ns"
	ok "an NMI takes 16 samples at most" test "$(wc -l <periods)" -le $((16 * n))
	more "of which the last stands for the rest" \
		"$(sort -n periods | tail -n 1)" 100
	echo "# $rate and then $(sample_rate) samples a second"
	ok "and the rate that perf allows is not lowered by it" \
		test "$(sample_rate)" -ge $((rate / 2))
}

while_scribbled() {
	while [ ! -e $T/enough ]; do "$@" >/dev/null 2>&1; done
}

# All that there is: groups, more configurations than counters, tasks and CPUs.
be_at_work() {
	local hypervisor=kvm/exits/,kvm/exits-hlt/u,kvm/host-ns/,kvm/exits-io/u
	while_scribbled perf stat -a -e cycles,instructions:u,branches,r0c5,r0d1,$hypervisor \
		sleep 0.5 &
	while_scribbled perf record -q -g -a -c 20000 -o $T/a \
		-e '{instructions:k,branches:k}:S' -e cycles:u sleep 0.5 &
	while_scribbled perf record -q -g -c 1000 -o $T/b -e kvm/host-ns/u \
		-e kvm/exits/u -e kvm/exits-io/u $T/exits io 2000 cpuid 2000 &
	while_scribbled perf record -q -a -F 500 -o $T/c \
		-e kvm/host-ns/,kvm/exits/,instructions sleep 0.5 &
	while_scribbled perf stat -e instructions:u,cycles:u $T/loop &
}

check_content() {
	local bad _
	dmesg -n 4
	be_at_work
	sleep 2
	insmod "$VM_TREE/build/linux-$VM_KERNEL/hypercall/kvm_pmu_scribble.ko"
	is "anything is written into what the driver shares" $? 0
	sleep "$seconds"
	rmmod kvm_pmu_scribble
	touch $T/enough
	wait
	dmesg >dmesg
	more "so many numbers" \
		"$(sed -n 's/.*kvm_pmu_scribble: \([0-9]*\) numbers written$/\1/p' dmesg)" \
		$((seconds * 100))
	bad=$(grep -E 'WARNING:|BUG:|Oops|Call Trace|lockup|stall|UBSAN:|KASAN:' dmesg |
		grep -v 'WARNING: See https')
	is "the kernel reports nothing" "$bad" ""
	grep 'kvm_pmu:' dmesg | sed 's/^/# /'
	is "the driver warns of each thing once" \
		"$(grep 'kvm_pmu:' dmesg | sed 's/^\[[^]]*\] *//' | sort | uniq -d)" ""
	# What is kept for later is closed after a second.
	sleep 3
	for _ in 1 2 3; do
		perf stat -x, -o out -e instructions:u,branches:u,kvm/exits-io/u $T/loop
	done
	is "then it counts right again" \
		"$(count instructions:u out) $(count branches:u out) $(count kvm/exits-io/u out)" \
		"10000004 5000001 0"
	perf record -q -B -N -c 1 -o $T/data -e kvm/exits-io/u $T/exits io 100
	more "and samples" "$(perf script -i $T/data 2>/dev/null | wc -l)" 98
}

if [ $# -gt 0 ]; then
	"$@"
	exit
fi

cp "$VM_TREE"/build/tests/{loop,exits} $T
check_content
check_calls
check_rate
finish
