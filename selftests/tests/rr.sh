#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# rr, as Debian has it, records programs and replays them, in a guest as on the host: it
# needs exact counts of conditional branches, and interrupts at a chosen count.  With
# LONG=1 it records many programs in several ways, executes backwards in gdb, and does so
# beside other users of counters.
# vm: host --host-cpus 2 --kvm-opt pv_perf_rdpmc=1 --timeout 14400
. "$VM_TREE/selftests/tap.sh"
T=$VM_TREE/build/tests
vm=$VM_TREE/selftests/vm
export HOME=/dev/shm
python=/usr/bin/python3
python_code='import os, random, time
print(os.getpid(), random.random(), time.time(), sum(i * i for i in range(20000)))'
# shellcheck disable=SC2016 # the recorded shell's
bash_code='for i in {1..5}; do echo $i $RANDOM $$ $(echo $BASHPID); done'

# try RECORD_OPTION... -- COMMAND...: records it and replays it; what became of it is in
# $recorded and $replayed, and what it has printed in the files of these names.
try() {
	local options=()

	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	rm -rf trace
	timeout 1800 rr record -o trace "${options[@]}" "${@:2}" >recorded 2>recorded.err
	recorded=$?
	timeout 1800 rr replay -a trace >replayed 2>replayed.err
	replayed=$?
}

show_errors() {
	tail -n 30 recorded.err replayed.err | sed 's/^/# /'
}

# same TITLE RECORD_OPTION... -- COMMAND...: it succeeds, prints something, and does the
# same when it is replayed.
same() {
	local title=$1

	shift
	try "$@"
	[ "$recorded $replayed" = "0 0" ] || show_errors
	is "$title is recorded" "$recorded $(test -s recorded; echo $?)" "0 0"
	is "$title is replayed" "$replayed $(cksum <replayed)" "0 $(cksum <recorded)"
}

# How often a thread of the recorded program was interrupted at a count of branches.
interrupts() {
	rr dump trace | grep -c SCHED
}

# It is the same race only if its threads are interrupted at the same instructions.
same_race() {
	local title=$1

	same "$title" "${@:2}" -- "$T/race"
	more "$title was interrupted" "$(interrupts)" 0
}

exact() {
	perf stat -x, -o out -e r00d1:u "$T/conditional"
	is "conditional branches are exact" "$(count r00d1:u out)" 2000000
}

short() {
	exact
	same "bash" -- bash -c "$bash_code"
	same_race "a race"
}

# Each program with what rr records in the program itself, without, and with threads that
# it interrupts as often as it can.
every_program() {
	local title options

	while IFS=: read -r title options; do
		# shellcheck disable=SC2086 # words
		{
			same "ls$title" $options -- ls -l /usr/bin
			same "bash$title" $options -- bash -c "$bash_code"
			same "python3$title" $options -- $python -c "$python_code"
			same "gcc$title" $options -- sh -c \
				"gcc -c -o file.o '$VM_TREE/selftests/programs/race.c'
				cksum file.o"
			same "threads$title" $options -- "$T/turns"
			same_race "a race$title" $options
		}
	done <<-END
		:
		, without a buffer of system calls:-n
		, in chaos mode:--chaos
	END
}

# From the end back to the last write of a variable, and to the one before.
backwards() {
	rm -rf trace
	rr record -o trace "$T/backwards" >recorded 2>recorded.err
	cat >commands <<-END
		set pagination off
		set confirm off
		break finish
		continue
		watch sum
		reverse-continue
		printf "first %lu, i %d\n", sum, i
		reverse-continue
		printf "second %lu, i %d\n", sum, i
		delete
		continue
		kill
	END
	# What gdb gets by -x it executes before it is connected.
	timeout 3600 rr replay trace <commands >gdb.out 2>&1
	has "gdb finds the last write by reverse execution" '^[0-9].*overwritten' gdb.out
	has "and what it has overwritten" '^first 225000000' gdb.out
	has "and the write before that" '^second 224970001, i 29999' gdb.out
}

races() {
	for i in 1 2 3; do
		same_race "a race, $i"
	done
	same "threads" -- "$T/turns"
	same "bash" -- bash -c "$bash_code"
}

long_part() {
	exact
	every_program
	backwards
}

# What else counts on all CPUs, and keeps them busy.
beside() {
	"$@" >/dev/null 2>&1 &
	others+=($!)
}

# The race, several times, while the guest's own perf counts and samples all CPUs.
beside_perf() {
	others=()
	beside perf stat -a -e cycles,instructions sleep 100000
	beside perf record -q -a -B -N -F 2000 -e cycles -o /dev/shm/data
	beside sh -c 'while :; do :; done'
	for i in 1 2 3; do
		same_race "a race beside perf stat and perf record, $i"
	done
	same "threads beside perf stat and perf record" -- "$T/turns"
	kill "${others[@]}"
	wait "${others[@]}" 2>/dev/null
	rm -f /dev/shm/data
}

# The host takes counters now and then.  rr may say that it has none, while it records or
# replays, but nothing that it has recorded to the end may have another outcome.
honest() {
	local complained=0 right=0

	for _ in {1..6}; do
		try -- "$T/race"
		if [ "$recorded" = 0 ] && [ "$replayed" = 0 ] &&
				cmp -s recorded replayed; then
			right=$((right + 1))
		elif grep -qE "$no_counter" recorded.err replayed.err; then
			complained=$((complained + 1))
		else
			show_errors
		fi
	done
	echo "# of 6 recordings $right were replayed, $complained had no counter"
	is "a race while the host takes counters is replayed, or rr says why not" \
		$((right + complained)) 6
}
no_counter="hardware performance counter|performance counter|Performance counter"

guest() {
	local title=$1 part=$2

	shift 2
	"$vm" guest --mem 1024 --timeout 0 "$@" -- "$0" "$part" >"$title.tap" 2>&1
	is "$title ends well" $? 0
	tap_file "$title" "$title.tap"
}

# Meanwhile the threads of the guest's QEMU go from CPU to CPU, each by itself.
move_threads() {
	local task

	while :; do
		for task in /proc/"$(pidof qemu-system-x86_64)"/task/*; do
			taskset -p $((1 + RANDOM % 2)) "${task##*/}" >/dev/null 2>&1
		done
		sleep 0.02
	done
}

# All of a CPU's counters
take_counters() {
	while :; do
		perf stat -a -e '{r76,rc0,rc2,r76,rc0,rc2}:D' sleep 0.2 >/dev/null 2>&1
		sleep 0.2
	done
}

mount -t tmpfs none /lib/modules
cd /dev/shm || exit 1
# On the level that it is called on
if [ $# -gt 0 ]; then
	"$1"
	finish
fi

exact
if ! long; then
	guest "in a guest" short
	finish
fi

every_program
backwards
guest "in a guest" long_part
guest "in a guest that reads counters" long_part --accel-opt pv-perf-rdpmc=on
guest "in a guest with two CPUs" beside_perf --cpus 2
guest "in one that reads counters" beside_perf --cpus 2 --accel-opt pv-perf-rdpmc=on
move_threads &
mover=$!
guest "in a guest whose threads move" races --cpus 2
guest "in one that reads counters and whose threads move" races --cpus 2 \
	--accel-opt pv-perf-rdpmc=on
kill $mover
take_counters &
taker=$!
guest "in a guest whose host takes counters" honest
guest "in one that reads counters and whose host takes some" honest \
	--accel-opt pv-perf-rdpmc=on
kill $taker
finish
