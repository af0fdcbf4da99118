#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The host takes a counter away, has no counter free, or stops an event.  The guest's perf
# then prints an exact count, a scaled count or <not counted>, and shows which.
# vm: host --host-cpus 2 --kvm-opt pv_perf_max_counters=6 --timeout 1800
# tier: all
# machines: amd intel
# programs: loop longloop longerloop pinned
# seconds: 150, on intel 308
self=$(realpath "$0")
tree=${self%/selftests/*}
. "$tree/selftests/tap.sh"
cd "$VM_SCRATCH" || exit 1

# event: an event that needs a general-purpose counter; in_loop: its count in loop; other:
# another such event; conditional: conditional branches; counters: the number of general-purpose
# counters; more: fixed counters that count instructions.
case $kvm_vendor in
kvm-amd)	event=rc0:u in_loop=10000004 other=rc2:u conditional=0xd1 counters=6 more=0 ;;
kvm-intel)	event=rc4:u in_loop=5000001 other=rc4:u conditional=0x1c4 counters=4 more=1 ;;
esac

config=${event%:u}
config=0x${config#r}

# times N EVENT: a list of N times EVENT
times() {
	yes "$2" | head -n "$1" | paste -sd,
}

# ready NAME EVENTS OPTION...: start perf, which counts these events after "tell NAME enable"
ready() {
	local name=$1 events=$2
	shift 2
	# The pipe is in memory, because a pipe on 9p does not connect the levels.
	mkfifo "/dev/shm/$name.control" "/dev/shm/$name.ack" 2>/dev/null
	perf stat -x, -o "$name" --control "fifo:/dev/shm/$name.control,/dev/shm/$name.ack" \
		-D -1 -e "$events" "$@" 2>/dev/null &
	readied="$readied $!"
}

# shellcheck disable=SC2086 # several words
end_ready() {
	kill -INT $readied
	wait $readied
	readied=''
}

# tell NAME COMMAND: send the command to the perf of "ready NAME", and wait for its answer
tell() {
	echo "$2" >"/dev/shm/$1.control"
	read -r _ <"/dev/shm/$1.ack"
}

# phase NAME: have the guest run its phase NAME, and wait for its end
phase() {
	echo >"$1.begin"
	wait_for "$1.end"
}

in_guest() {
	# perf record reads all modules, which takes long through two machines.
	mount -t tmpfs none /lib/modules
	cp "$T/loop" "$T/longloop" "$T/longerloop" "$T/pinned" /dev/shm
	cd /dev/shm || exit 1

	./pinned park $config "$VM_SCRATCH/parked.begin"
	dmesg >"$VM_SCRATCH/parked"
	echo >"$VM_SCRATCH/parked.end"

	echo >"$VM_SCRATCH/pinned.begin"
	./pinned keep $config 3 >"$VM_SCRATCH/pinned"
	echo >"$VM_SCRATCH/pinned.end"

	echo >"$VM_SCRATCH/exact.begin"
	./pinned exact $conditional 5 >"$VM_SCRATCH/exact"
	echo >"$VM_SCRATCH/exact.end"

	echo >"$VM_SCRATCH/robbed.begin"
	perf stat -x, -o robbed -e instructions:u,branches:u \
		sh -c "./longerloop; ./longerloop"
	# The guest finds a counter that the host has given back within 0.1 seconds.
	sleep 0.2
	perf stat -x, -o after -e instructions:u,branches:u ./loop
	perf record -q -B -N -e instructions:u -c 100000 -o data ./loop
	samples_of data >samples
	dmesg >log
	cp robbed after samples log "$VM_SCRATCH"
	echo >"$VM_SCRATCH/robbed.end"

	wait_for "$VM_SCRATCH/taken.begin"
	sleep 2
	# Each perf stat has a new task, so that the guest does not know yet which counters the
	# host has.
	perf stat -x, -o all -e "{$(times $counters $event)}" ./loop
	perf stat -x, -o less -e "{$(times $((counters - 1)) $event)}" ./loop
	perf stat -x, -o singles -e "$(times $counters $event)" ./longloop
	# Two groups that do not fit together count in turn, each as a whole.
	perf stat -x, -o two -e \
		"{$event,$other,$event},{$event,$other,$event}" ./longloop
	# The event "fixed" begins when the group "first" has ended, whose counters keep
	# running for a while.
	ready first "{$(times $((counters - 1)) $event)}"
	ready fixed cycles:u
	tell first enable
	pause 0.1
	tell first disable
	tell fixed enable
	pause 0.05
	tell fixed disable
	end_ready

	# On Linux 6.1 a task's context keeps a pointer to the PMU of the unloaded module.
	mkfifo go
	(read -r _ <go; exec ./longloop) &
	loop=$!
	ready again "$event" -p $loop
	tell again enable
	end_ready
	rmmod kvm_pmu
	insmod "$VM_TREE/build/linux-$VM_KERNEL/guest/kvm_pmu.ko"
	ready again "$(times $counters $event)" -p $loop
	tell again enable
	echo >go
	wait
	cp all less singles two fixed again "$VM_SCRATCH"
	echo >"$VM_SCRATCH/taken.end"

	echo 99 >/proc/sys/kernel/perf_cpu_time_max_percent
	echo 1000000 >/proc/sys/kernel/perf_event_max_sample_rate
	echo 0 >/proc/sys/kernel/perf_cpu_time_max_percent
	for by in limit perf; do
		wait_for "$VM_SCRATCH/$by.begin"
		# The host stops the event of perf record.  The count of another event, of
		# perf stat, must not be affected.
		perf stat -x, -o "$by.counts" -e instructions:u \
			perf record -q -B -N -e instructions:uD -c 2000 -o data \
			./longloop
		perf report -i data -D >dump 2>/dev/null
		for what in THROTTLE UNTHROTTLE SAMPLE; do
			# Without the offset in the file: the file may have a record twice.
			echo "$what $(grep "PERF_RECORD_$what\\b" dump |
				sed 's/ 0x.*//' | sort -u | wc -l)"
		done >"$by"
		dmesg >"$by.dmesg"
		cp "$by" "$by.counts" "$by.dmesg" "$VM_SCRATCH"
		echo >"$VM_SCRATCH/$by.end"
	done
}

if [ "$VM_LEVEL" = guest ]; then
	in_guest
	exit
fi

# is_scaled NAME EVENT WANT FILE: the count is scaled, and is WANT to within 10 %
is_scaled() {
	local share
	share=$(awk -F, -v e="$2" '$3 == e { print int($5); exit }' "$4")
	echo "# $1: counted for $share % of the time"
	ok "$1: perf shows that the count is scaled" test "$share" -gt 5 -a "$share" -lt 98
	# The other CPU's instructions advance the same clock.
	within "$1: the scaled count is right" "$(count "$2" "$4")" "$3" 10
}

# Without the watchdog no other event of the host has a counter.
echo 0 >/proc/sys/kernel/nmi_watchdog
# perf starts before the guest, because its start takes long.
ready host "$(times $((counters + more)) rc0:D)" -C 0
robber=${readied# }
taskset -cp 1 "$robber" >/dev/null

# Whether an event of a guest is active.
is_counting() {
	local events=(/sys/kernel/debug/kvm/*/pv_perf)
	mapfile -t events <"${events[0]}"
	[[ "${events[*]} " = *" active "* ]]
}

# The guest has a CPU for itself, because perf scales counts by time.
taskset -c 0 "$vm" guest -- "$self" >guest.log 2>&1 &
guest=$!

# The host must act within 0.1 seconds: the guest keeps an unused counter no longer.
until [ -e parked.begin ]; do :; done
tell host enable
pause 0.02
tell host disable
wait_for parked.end
is "the guest's log does not mention the loss of a counter that no event uses" \
	"$(grep -c "$says_lost" parked)" 0

# shortages NAME: takes all counters now and then during the guest's phase NAME. The longest
# shortage in us is in $shortage.
shortages() {
	local since us

	shortage=0
	wait_for "$1.begin"
	while [ ! -e "$1.end" ]; do
		since=${EPOCHREALTIME/./}
		tell host enable
		pause 0.02
		tell host disable
		us=$((${EPOCHREALTIME/./} - since))
		[ $us -lt $shortage ] || shortage=$us
		pause 0.2
	done
}

shortages pinned
read -r outages us <pinned
echo "# a pinned event: $outages shortages of $shortage us at most; of $us us at most for it"
more "perf gives up a pinned event without a counter, and the program enables it again" \
	"$outages" 5
more "a pinned event counts within 20 ms after the host has a counter" \
	$((shortage + 20000)) "$us"
shortages exact
read -r right none wrong <exact
echo "# a pinned event, as rr reads it: $right counts were right, $none times perf had given it up"
more "a pinned event that perf enables before each count has counts" "$right" 10
more "perf gives up such an event if the host takes its counter" "$none" 2
is "no count of such an event lacks what was not counted" "$wrong" 0

wait_for robbed.begin
until is_counting || [ -e robbed.end ]; do pause 0.1; done
pause 0.5
tell host enable
pause 1
tell host disable
wait_for robbed.end
kill -INT $robber
wait $robber
is "pinned events of the host have all counters" \
	"$(grep -c ',100.00' host)" $((counters + more))
is_scaled "instructions without a counter for a second" instructions:u \
	4000000008 robbed
is_scaled "branches without a counter for a second" branches:u 2000000002 robbed
has "the guest's log says that events lost their counter" "$says_lost" log
is "counts are exact after the shortage" "$(count instructions:u after)" 10000004
is "samples are exact after the shortage" "$(cat samples)" 100

# The host's watchdog takes a counter; on an Intel CPU a fixed counter.
echo 1 >/proc/sys/kernel/nmi_watchdog
if [ "$more" = 1 ]; then
	perf stat -C 0 -e ${event%:u}:D sleep 10000 2>/dev/null &
	taker=$!
fi
phase taken
sed 's/^/# /' all less singles two
is "a group of $counters events is not counted while the host has one counter" \
	"$(grep -c "^<not counted>,,$event" all)" $counters
is "a group with one event less counts all the time" \
	"$(grep -c "^$in_loop,,$event,[0-9]*,100.00" less)" \
	$((counters - 1))
is "$counters events without a group take turns" "$(awk -F, -v e=$event \
	'$3 == e && $5 < 100 { n++ } END { print n + 0 }' singles)" $counters
is "no event that takes turns is 0" "$(grep -c '^0,' singles)" 0
is "no event of two groups is 0" "$(grep -c '^0,' two)" 0
is "the events of a group count for the same time" \
	"$(awk -F, 'NF > 4 { print $4 }' two | uniq -c | awk '{ print $1 }' | paste -sd,)" 3,3
sed 's/^/# /' fixed again
has "cycles count all the time, whichever event has their counter" \
	'^[1-9][0-9]*,,cycles:u,[0-9]+,(9[0-9]|100)\.' fixed
# longloop is 50 times as long as loop.
is "events of a task also take turns after the module was loaded again" \
	"$(awk -F, -v e=$event \
	-v all=$((in_loop * 50)) '$3 == e && $5 < 99 && $1 > all * .8 && $1 < all * 1.2 { n++ }
	END { print n + 0 }' again)" $counters
echo 0 >/proc/sys/kernel/nmi_watchdog
[ "$more" = 0 ] || kill "$taker"

rate=/sys/module/kvm/parameters/pv_perf_max_rate
saved=$(cat $rate)
echo 1000 >$rate
phase limit
echo "$saved" >$rate

echo 99 >/proc/sys/kernel/perf_cpu_time_max_percent
echo 1000 >/proc/sys/kernel/perf_event_max_sample_rate
echo 0 >/proc/sys/kernel/perf_cpu_time_max_percent
phase perf
wait $guest
is "the guest ends well" $? 0
for by in limit perf; do
	sed "s/^/# $by: /" $by
	number() { awk -v w="$1" '$1 == w { print $2 }' $by; }
	more "stopped by the host's $by: the guest's perf has THROTTLE records" \
		"$(number THROTTLE)" 0
	ok "stopped by the host's $by: each THROTTLE but the last has an UNTHROTTLE" \
		test $(($(number THROTTLE) - $(number UNTHROTTLE))) -le 1
	more "stopped by the host's $by: a pinned event has samples in between" \
		"$(number SAMPLE)" 50
	has "stopped by the host's $by: another event's count is not scaled" \
		'^[0-9]{9},,instructions:u,[0-9]+,100.00' $by.counts
done
finish
