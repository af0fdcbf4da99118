#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# perf stat in a guest: its options and its errors.
# vm: host --host-cpus 2 --kvm-opt pv_perf_max_counters=6 --timeout 2400
# tier: test
# machines: amd intel
# programs: hop loop longloop longerloop
# seconds: 250, on intel 577
. "$VM_TREE/selftests/tap.sh"
cd "$VM_SCRATCH" || exit 1

# With these options perf stat counts only after "enable", and answers when it is ready.
controlled="-D -1 --control fifo:control,ack"
enable() {
	echo enable >control
	read -r _ <ack
}

used() {
	[ "$(cat /sys/module/kvm_pmu/refcnt)" != 0 ]
}

# Counters and events of the emulated CPU.
case $kvm_vendor in
kvm-amd)
	counters='6 counters of the host and 0 fixed ones' no_event=bus-cycles
	share=40
	format=config:0-7,32-35
	;;
kvm-intel)
	counters='4 counters of the host and 3 fixed ones'
	no_event=stalled-cycles-frontend
	format=config:0-7
	# Cycles and instructions do not need a general-purpose counter.  The other events take
	# turns for these.
	share=10
	;;
esac

# unload: unload the guest's driver, and load it again
unload() {
	local pid built
	(read -r _ <go; exec "$T/loop") &
	pid=$!
	perf stat -e instructions:u -p $pid sleep 0.1 2>/dev/null
	perf stat -e instructions sleep 1000 2>/dev/null &
	until_true used
	ok "rmmod is refused while an event is open" \
		sh -c '! rmmod kvm_pmu 2>/dev/null'
	pkill -x sleep
	wait $!
	ok "rmmod succeeds when all events are closed" rmmod kvm_pmu
	# Another module takes the address of the unloaded one.
	built=$VM_TREE/build/linux-$VM_KERNEL
	insmod "$built/hypercall/kvm_perf_hypercall.ko"
	ok "the module loads again" insmod "$built/guest/kvm_pmu.ko"
	perf stat -x, -o out -e instructions:u "$T/loop"
	is "the module that was loaded again counts exactly" "$(count instructions:u out)" 10000004
	perf stat -x, -o out $controlled -p $pid -e instructions:u &
	enable
	echo >go
	wait $pid $!
	more "the module that was loaded again counts a task that was counted before" \
		"$(count instructions:u out)" 10000003
}

in_guest() {
	mkfifo control ack
	cpu=/sys/bus/event_source/devices/cpu
	dmesg >dmesg
	has "the module logs the number of counters" \
		"kvm_pmu: PMU 'cpu': $counters, at most 128" dmesg

	perf stat -x, -o out -e cycles,instructions,branches,dTLB-load-misses \
		gzip -c /usr/bin/perf >/dev/null
	for event in cycles instructions branches; do
		more "$event count" "$(count $event out)" 10000000
	done
	# The emulated Intel CPU does not have this event: its count is 0.
	[ $kvm_vendor = kvm-intel ] || more "dTLB-load-misses count" \
		"$(count dTLB-load-misses out)" 100

	for i in 1 2 3; do
		perf stat -x, -o out -e instructions:u,branches:u "$T/loop"
		is "run $i: instructions in user mode are exact" \
			"$(count instructions:u out)" 10000004
		is "run $i: branches in user mode are exact" \
			"$(count branches:u out)" 5000001
	done

	perf stat -x, -o out -e instructions:u,instructions:k,instructions "$T/loop"
	within ":u and :k add up" \
		$(($(count instructions:u out) + $(count instructions:k out))) \
		"$(count instructions out)" 0.1

	perf stat -o out -e $no_event,instructions "$T/loop"
	has "an event that the host does not have is not supported" "<not supported> +$no_event" out

	perf stat -x, -o out -e cpu/event=0xc0/u,cpu/instructions/u,r00c0:u "$T/loop"
	is "cpu/event=0xc0/ counts exactly" "$(count cpu/event=0xc0/u out)" 10000004
	is "cpu/instructions/ counts exactly" "$(count cpu/instructions/u out)" 10000004
	is "r00c0 counts exactly" "$(count r00c0:u out)" 10000004
	is "the file format/event is the CPU's" "$(cat $cpu/format/event)" $format
	(cd $cpu/events && grep . -- * | sort) >events
	ok "events/ has instructions" grep -q '^instructions:' events
	none "each file in events/ is the same as the host's" \
		"$(comm -23 events host-events 2>&1)"
	ok "events/ does not have an event that the host does not have" \
		test ! -e $cpu/events/$no_event
	is "the file caps/max_precise is 0" "$(cat $cpu/caps/max_precise)" 0
	perf list hw >out 2>&1
	has "perf list has the generic events" 'cpu-cycles OR cycles' out

	# 8 events for at most 6 counters.  The host's watchdog has a counter, too.
	eight=instructions:u,instructions:u,instructions:u,instructions:u
	# A long program: its start is work in the kernel, which the events do not count.
	perf stat -x, -o out -e $eight,$eight "$T/longerloop"
	is "perf stat prints 8 events in 8 lines" "$(grep -c instructions:u out)" 8
	has "8 events are multiplexed" 'instructions:u,[0-9]+,[1-9][0-9]?\.' out
	worst=$(awk -F, -v w=2000000004 '$3 == "instructions:u" {
		d = ($1 - w) / w * 100; if (d < 0) d = -d; if (d > m) m = d }
		END { printf "%.3f", m }' out)
	echo "# the largest error is $worst %"
	ok "scaled counts are within 2 %" awk "BEGIN { exit !($worst <= 2) }"

	perf stat -x, -o out \
		-e '{instructions:u,branches:u,cycles:u,instructions:u}' \
		-e '{cycles:u,branches:u,instructions:u,cycles:u}' "$T/loop"
	is "two groups of four events count" "$(grep -cE '^[0-9]+,' out)" 8

	perf stat -x, -a -o out -e instructions:u taskset -c 1 "$T/loop"
	more "perf stat -a counts the program" "$(count instructions:u out)" 10000003
	perf stat -x, -a -A -o out -e instructions:u taskset -c 1 "$T/loop"
	ok "perf stat -a -A counts the program on CPU 1" awk -F, \
		'$1 == "CPU1" && $2 >= 10000004 { found = 1 } END { exit !found }' out
	# To add the task's pinned event, perf removes the CPU's events and adds them again
	# after it.  The pinned event takes the counter of the CPU's event that counts the
	# same.
	perf stat -x, -a -o out -e instructions:u,r00c0:u sh -c "for i in 1 2 3; do
		perf stat -x, -o pinned.\$i -e instructions:uD $T/loop; sleep 0.3; done"
	within "beside a pinned event, two equal events of perf stat -a count the same" \
		"$(count instructions:u out)" \
		"$(count r00c0:u out)" 0.001
	is "a pinned event beside perf stat -a counts exactly" \
		"$(grep -hc '^10000004,' pinned.? | paste -sd' ')" "1 1 1"
	perf stat -a --per-core -o out -e instructions "$T/loop"
	has "perf stat --per-core counts instructions" '[1-9][0-9,]+ +instructions' out

	perf stat -x, -o out -r 5 -e instructions:u "$T/loop"
	is "perf stat -r 5 counts exactly" "$(count instructions:u out)" 10000004

	# longloop takes half a second, so that it does not end right after an interval of
	# 150 ms.  perf would then not print a last interval.
	perf stat -x, -o out -I 150 -e instructions:u "$T/longloop"
	sum=$(awk -F, '$4 == "instructions:u" { s += $2 } END { print s }' out)
	is "perf stat -I 150: the intervals add up" "$sum" 500000004

	# The program waits until perf counts it.
	mkfifo go
	sh -c "read x <go; $T/loop; $T/loop" &
	pid=$!
	perf stat -x, -o out $controlled -e instructions:u -p $pid &
	stat=$!
	enable
	echo >go
	wait $pid $stat
	more "perf stat -p PID counts a process and its children" \
		"$(count instructions:u out)" 20000007

	for i in 1 2; do
		perf stat -x, -o out -e instructions:u "$T/hop"
		count instructions:u out >>hops
	done
	is "a program that moves 1,000 times between CPUs has the same count twice" \
		"$(sort -u hops | wc -l)" 1
	cp hops "$VM_SCRATCH/hops.guest"

	perf stat -x, -o out -e "$(yes instructions:u | head -130 | paste -sd,)" true
	is "with 130 events, more than the VM may have open, perf ends well and supports all" \
		"$? $(grep -cE '^([0-9]+|<not counted>),,instructions:u' out)" "0 130"
	dmesg >dmesg
	is "no event has lost its counter" "$(grep -c "$says_lost" dmesg)" 0

	# CPU hotplug with events on the CPU.
	perf stat -x, -a -o out $controlled -e instructions:u sleep 2 &
	enable
	echo 0 >/sys/devices/system/cpu/cpu1/online
	"$T/loop"
	echo 1 >/sys/devices/system/cpu/cpu1/online
	wait $!
	more "perf stat -a counts while a CPU goes offline and online" \
		"$(count instructions:u out)" 10000003
	perf stat -x, -o out -e instructions:u taskset -c 1 "$T/loop"
	more "a CPU that is online again counts" "$(count instructions:u out)" 10000003

	driver_is_built_in || unload
	finish
}

if [ "$VM_LEVEL" = guest ]; then
	in_guest
fi

perf stat -x, -o host -e instructions:u "$T/hop"
(cd /sys/bus/event_source/devices/cpu/events && grep . -- *) |
	sort >host-events
on_guest guest in_guest --cpus 2
echo "# hop: $(count instructions:u host) on the host, $(head -1 hops.guest) in the guest"
is "a program that moves between CPUs counts the same on the host" "$(head -1 hops.guest)" \
	"$(count instructions:u host)"
limit=/sys/module/kvm/parameters/pv_perf_max_events
old=$(cat $limit)
echo 3 >$limit
"$vm" guest -- sh -c "perf stat -x, -o out \
	-e instructions:u,branches:u,cycles:u,instructions:u,branches:u,cycles:u \
	$T/longloop; dmesg >dmesg
	perf stat -x, -o differ -e instructions:u,branches:u,cycles:u,rc2:u,rc3:u,r41:u \
	$T/longloop
	perf stat -o sleeper -e branches:u,rc2:u,rc3:u \
		sh -c 'until [ -e end ]; do sleep 0.02; done' &
	for i in 1 2 3 4 5; do
		sleep 0.1
		perf stat -x, -o place\$i -e cycles:uD $T/loop
	done
	>end
	wait"
is "if the VM may have 3 open events, all of 6 events are multiplexed" \
	"$(awk -F, '$1 > 0 && $5 < 99 { n++ } END { print n }' out)" 6
is "each of 6 different events counts for at least $share % of the time" \
	"$(awk -F, -v share=$share '$5 > share && $5 < 60 { n++ } END { print n }' differ)" 6
has "the guest's log says that the host allows no more events" \
	'the host allows no more events' dmesg
# On Intel the pinned event has a fixed counter: it only lacks one of the VM's open events.
is "a pinned event takes the place of an event whose task sleeps" \
	"$(cat place* | grep -c '^100000..,')" 5
echo "$old" >$limit
is "no VM is left on the host" \
	"$(find /sys/kernel/debug/kvm -name pv_perf | wc -l)" 0
finish
