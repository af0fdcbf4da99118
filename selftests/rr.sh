# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034 # for the tests
# Functions for the tests of rr. Debian's rr needs exact counts of conditional branches, and
# interrupts at a chosen count.
. "$VM_TREE/selftests/tap.sh"
export HOME=/dev/shm
python=/usr/bin/python3
python_code='import os, random, time
print(os.getpid(), random.random(), time.time(), sum(i * i for i in range(20000)))'
# shellcheck disable=SC2016 # the recorded shell's
bash_code='for i in {1..5}; do echo $i $RANDOM $$ $(echo $BASHPID); done'
# rr's messages if it does not get a counter, or if its event has lost the counter: a read()
# of the event then returns nothing, and rr takes what was in memory for the number of ticks.
# On Intel that is often 0, which rr finds in the replay only. Such a 0 is not a wrong count of
# the event: the test lost shows that all counts that perf returns are right.
no_counter="[Pp]erformance counter|PMU|perf_event_open"
no_counter+="|Assertion .tick_period >= 0|Invalid ticks value|Detected [0-9]{15,} ticks"
no_counter+="|ticks mismatch for .*(expected 0,|got 0( |$))"

# try RECORD_OPTION... -- COMMAND...: records a command and replays it. The statuses are in
# $recorded and $replayed, and the command's output in the files of these names. With $limit, rr is
# killed after so many seconds: status 137.
try() {
	local options=()

	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	rm -rf trace
	timeout -s KILL "${limit:-0}" rr record -o trace "${options[@]}" "${@:2}" >recorded 2>recorded.err
	recorded=$?
	timeout -s KILL "${limit:-0}" rr replay -a trace >replayed 2>replayed.err
	replayed=$?
}

show_errors() {
	grep -hA 3 FATAL recorded.err replayed.err | sed 's/^/# /'
	tail -n 30 recorded.err replayed.err | sed 's/^/# /'
}

# same TITLE RECORD_OPTION... -- COMMAND...: the command succeeds, prints something, and the
# replay prints the same.
same() {
	local title=$1

	shift
	try "$@"
	[ "$recorded $replayed" = "0 0" ] || show_errors
	is "$title is recorded" "$recorded $(test -s recorded; echo $?)" "0 0"
	is "$title is replayed" "$replayed $(cksum <replayed)" "0 $(cksum <recorded)"
}

# The race replays the same only if its threads are interrupted at the same instructions. Here
# rr lets a thread run for at most 500,000 of its 2,000,000 conditional branches at a time. A
# thread might never be interrupted with rr's default of 2,500,000.
same_race() {
	local title=$1

	same "$title" -c 500000 "${@:2}" -- "$T/race"
	more "$title: rr has interrupted threads" "$(rr dump trace | grep -c SCHED)" 0
}

# Conditional branches: AMD's event, or that of Intel before Ice Lake.
conditional=r00d1:u
[ "$kvm_vendor" = kvm-amd ] || conditional=r01c4:u

exact() {
	perf stat -x, -o out -e $conditional "$T/conditional"
	is "the count of conditional branches is exact" "$(count $conditional out)" 2000000
}

# gdb talks to rr by the loopback interface.
ip link set lo up
mount -t tmpfs none /lib/modules
cd /dev/shm || exit 1
