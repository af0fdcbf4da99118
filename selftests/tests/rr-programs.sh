#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Debian's rr records programs and replays them, in a guest as on the host: with and without
# rr's buffer of system calls, in chaos mode, backwards in gdb, beside other users of counters,
# and while the host moves the vCPUs or takes counters; and in a guest of a guest.
# vm: host --host-cpus 2 --kvm-opt pv_perf_rdpmc=5 --timeout 3600
# tier: all
# machines: amd
# programs: conditional race turns backwards
# packages: rr gdb gcc
# debug: no, it takes hours
# seconds: 600
. "$VM_TREE/selftests/rr.sh"
rdpmc="--accel-opt pv-perf-rdpmc=on"

# The emulated Intel machine would take many hours for the whole test.
short() {
	[ "$kvm_vendor" = kvm-intel ]
}
times=3
! short || times=1

some_programs() {
	same_race "a race"
	same "bash" -- bash -c "$bash_code"
	same "threads, in chaos mode" --chaos -- "$T/turns"
}

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

# Replay backwards, from the end to the last write of a variable and to the write before.
backwards() {
	rm -rf trace
	rr record -o trace "$T/backwards" >recorded 2>recorded.err
	# gdb would execute a file of -x before it is connected to rr: commands come by stdin.
	rr replay trace >gdb.out 2>&1 <<-END
		set pagination off
		set confirm off
		break finish
		continue
		watch sum
		reverse-continue
		printf "first %lu\\n", sum
		reverse-continue
		printf "second %lu, i %d\\n", sum, i
		delete
		continue
		kill
	END
	has "gdb finds the last write by reverse execution" '[0-9].*overwritten' gdb.out
	has "gdb finds the value that the last write has overwritten" 'first 400$' gdb.out
	has "gdb finds the write before the last" 'second 361, i 39' gdb.out
}

programs() {
	exact
	if short; then
		some_programs
	else
		every_program
	fi
	backwards
}

moved() {
	for ((i = 1; i <= times; i++)); do
		same_race "a race, $i"
	done
	same "threads" -- "$T/turns"
	same "bash" -- bash -c "$bash_code"
}

beside() {
	"$@" >/dev/null 2>&1 &
	others+=($!)
}

# Ends what beside() has started, which must not have ended by itself.
end_others() {
	ok "what runs beside rr still runs" kill -0 "${others[@]}"
	kill "${others[@]}"
	wait "${others[@]}" 2>/dev/null
}

# The guest's own perf counts and samples all CPUs while rr records a race.
beside_perf() {
	others=()
	beside perf stat -a -e cycles,instructions sleep 100000
	beside perf record -q -a -B -N -F 2000 -e cycles -o /dev/shm/data
	beside sh -c 'while :; do :; done'
	for ((i = 1; i <= times; i++)); do
		same_race "a race beside perf stat and perf record, $i"
	done
	same "threads beside perf stat and perf record" -- "$T/turns"
	end_others
	more "perf record has taken samples beside rr" \
		"$(perf script -i /dev/shm/data -F ip 2>/dev/null | head -n 101 | wc -l)" 100
	rm -f /dev/shm/data
}

# The host takes counters now and then. If rr's event loses its counter, rr ends with one of its
# messages about the number of ticks, as on a host: as it records, or as it replays. If both end
# well, the outcome must be the same. An event without a counter does not interrupt, so rr may
# also wait for ever for a thread that waits for another: this was seen on a host.
honest() {
	local complained=0 stuck=0 right=0 i=0 limit=200

	until [ $i -ge $((4 * times)) ] && [ $complained -gt 0 ] || [ $i = 20 ]; do
		try -c 500000 -- "$T/race"
		if [ "$recorded $replayed" = "0 0" ] && cmp -s recorded replayed; then
			right=$((right + 1))
		elif [ "$recorded" = 137 ] || [ "$replayed" = 137 ]; then
			stuck=$((stuck + 1))
		elif [ "$recorded $replayed" != "0 0" ] &&
				grep -qE "$no_counter" recorded.err replayed.err; then
			complained=$((complained + 1))
		else
			show_errors
		fi
		i=$((i + 1))
		pause 1
	done
	echo "# of $i recordings $right were replayed, $complained had no counter, $stuck were stuck"
	is "rr replays a race while the host takes counters, or has no counter" \
		$((right + complained + stuck)) $i
	more "rr replays more recordings than it is stuck in" $right $stuck
	more "rr says that it has lost its counter" $complained 0
}

nested() {
	exact
	some_programs
}

# The guest records beside its own guest.
with_nested() {
	"$vm" nested -- "$0" nested >nested.tap 2>&1 &
	same_race "a race beside a nested guest"
	ends_well "the nested guest" wait $!
	tap_file "nested" nested.tap
}

# Move each thread of the guest's QEMU from CPU to CPU until the test kills this loop. The file
# moves gets a line for each time.
move_threads() {
	local task

	while :; do
		for task in /proc/"$(pidof qemu-system-x86_64)"/task/*; do
			taskset -p $((1 + RANDOM % 2)) "${task##*/}" >/dev/null 2>&1 && echo >>moves
		done
		sleep 0.02
	done
}

# Take all of a CPU's general-purpose counters for 0.2 s, after 1.5 s in which they are free, until
# the test kills perf. The file taken gets a line for each event that has counted. Starting perf
# each time would take the emulated Intel machine half a minute.
take_counters() {
	local all='{r76,rc0,rc2,r76,rc0,rc2}:D'

	[ "$kvm_vendor" = kvm-amd ] || all='{rc4,r1c4,r2c4,r8c4}:D'
	exec perf stat -r 0 -D 1500 -x, -o taken -a -e "$all" sleep 1.7
}

if [ $# -gt 0 ]; then
	"$1"
	finish
fi

programs
on_guest "in a guest" programs --mem 1024
# shellcheck disable=SC2086 # words, here and below
short || on_guest "in a guest that reads counters" programs --mem 1024 $rdpmc
short || on_guest "in a guest with two CPUs" beside_perf --mem 1024 --cpus 2
# shellcheck disable=SC2086
on_guest "in a guest with two CPUs that reads counters" beside_perf --mem 1024 --cpus 2 $rdpmc
# shellcheck disable=SC2086
on_guest "in a guest with a nested guest" with_nested --hypervisor --mem 1024 $rdpmc
move_threads &
mover=$!
short || on_guest "in a guest whose threads move" moved --mem 1024 --cpus 2
# shellcheck disable=SC2086
on_guest "in a guest that reads counters, whose threads move" moved --mem 1024 --cpus 2 $rdpmc
kill $mover
more "the host has moved threads of its guests" "$(wc -l <moves)" 100
# The watchdog would have one of the counters.
echo 0 >/proc/sys/kernel/nmi_watchdog
take_counters &
taker=$!
honest
on_guest "in a guest whose host takes counters" honest --mem 1024
# shellcheck disable=SC2086
short || on_guest "in a guest that reads counters and whose host takes some" honest --mem 1024 $rdpmc
kill $taker
more "the host has taken all counters" "$(grep -c '^[0-9]' taken)" 20
finish
