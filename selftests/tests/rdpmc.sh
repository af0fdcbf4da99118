#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A guest reads counters by RDPMC, in its kernel and in user mode. Counts are as exact as the
# host's, also while the host profiles. A guest reads only its own counters, and only if the
# host and the VMM allow it. With LONG=1 the host profiles for minutes of the machine's time,
# programs read for three times as long, and a thread reads while another thread maps an event.
# vm: host --host-cpus 2 --kvm-opt pv_perf_rdpmc=1 --kvm-opt pv_perf_counts=0 --timeout 5400
# tier: test
# machines: amd intel
# needs: build/pv-perf-doctor
# programs: loop longloop longerloop papi_read rdpmc rdpmc_others rdpmc_threads self_monitor
# packages: libpapi-dev strace
# seconds: 350, on intel 880
. "$VM_TREE/selftests/tap.sh"
load="insmod $VM_TREE/build/linux-$VM_GUEST_KERNEL/hypercall/kvm_perf_hypercall.ko"
tracing=/sys/kernel/tracing/events/kvm
cd "$VM_SCRATCH" || exit 1

# phase NAME: the host waits for the begin of the guest's phase
phase() {
	wait_for "$1.begin"
}

# begin NAME: the guest begins a phase, and waits until the host is ready
begin() {
	touch "$1.begin"
	wait_for "$1.ready"
}

# own: counters that this CPU may have; others: counters that it does not have, or on Intel
# may not have.
if grep -q GenuineIntel /proc/cpuinfo; then
	own="$(seq -s' ' 0 7) 0x40000000 0x40000001 0x40000002"
	others=$(seq -s' ' 8 15)
else
	own=$(seq -s' ' 0 5)
	others=$(seq -s' ' 6 15)
fi

# The values of this CPU's counters, or "fault".
counters() {
	# shellcheck disable=SC2086 # several words
	"$T/rdpmc" $own | awk '{ print $2 }'
}

# The number of counters that RDPMC reads as not 0.
held() {
	counters | grep -cv '^0$\|^fault$'
}

reads_none() {
	[ "$(held)" = 0 ]
}

reads_two() {
	[ "$(held)" = 2 ]
}

# readings FILE TITLE: the readings of self_monitor, in FILE, are right
readings() {
	sed 's/^/# /' "$1"
	has "$2: no reading in user mode was wrong" ' 0 wrong$' "$1"
}

# others NAME REGEX OPTION...: tasks of root count the kernel.  A program of another user may
# execute RDPMC.  Its readings of counters that are not its own match REGEX.
others() {
	local name=$1 regex=$2
	shift 2
	rm -f others.end
	taskset -c 0 perf stat -x, -o root -e r00c0:k,r00c2:k sh -c \
		'until [ -e others.end ]; do sleep 0.001; done' &
	until_true pgrep -x sleep >/dev/null
	# shellcheck disable=SC2086 # several words
	taskset -c 0 setpriv --reuid=65534 --regid=65534 --clear-groups \
		"$T/rdpmc_others" "$@" $own >others
	touch others.end
	wait $!
	sed 's/^/# /' others
	has "$name" "^[1-9][0-9]* rounds, $regex;" others
	more "$name: root's tasks count instructions of the kernel" \
		"$(count r00c0:k root)" 1000000
}

# On the host an unused counter may still hold the value that Linux wrote at boot to test it.
all_others() {
	echo 2 >/proc/sys/kernel/perf_event_paranoid
	others "$1: a program that has mapped an event reads no other task's counter" \
		"$2" 0.3
	others "$1: a child of such a program reads no other task's counter" "$2" -f 0.3
}

in_user_mode() {
	local pmu=/sys/bus/event_source/devices/cpu seconds=0.3

	! long || seconds=1

	"$T/self_monitor" not-mapped 2>/dev/null
	is "RDPMC in user mode without an event faults" $? 139
	"$T/self_monitor" $seconds >monitor
	readings monitor "alone"
	has "alone: all readings in user mode are by RDPMC" \
		'^[1-9][0-9]* readings by RDPMC, 0 by read' monitor
	"$T/self_monitor" $seconds >other &
	"$T/self_monitor" $seconds >monitor
	wait
	readings monitor "two programs that take turns, the first"
	readings other "two programs that take turns, the second"
	perf record -q -B -N -F 1000 -e cycles -o data "$T/self_monitor" $seconds >monitor
	readings monitor "a program that is sampled with a frequency"
	perf record -q -B -N -c 500 -e cycles -o data "$T/self_monitor" $seconds >monitor 2>/dev/null
	readings monitor "a program that is sampled too often"
	perf test 'User space counter reading' >out 2>&1
	is "perf's own tests of reading counters in user mode pass" \
		"$(grep -c 'User space.*: Ok$' out)" 2
	# PAPI does not know Debian's value 3.
	echo 2 >/proc/sys/kernel/perf_event_paranoid
	strace -o calls "$T/papi_read" >out
	is "PAPI counts a loop exactly" "$(cat out)" 10000000
	is "PAPI reads without a system call" \
		"$(grep -c '"reading' calls) $(sed -n '/reading/,$p' calls |
		grep -c '^read(\|^ioctl(')" "1 0"

	is "the file rdpmc is 1, as with x86's own PMU" "$(cat $pmu/rdpmc)" 1
	ok "the file rdpmc refuses 2, which would allow RDPMC without an event" \
		sh -c "! echo 2 2>/dev/null >$pmu/rdpmc"
	"$T/rdpmc_others" 0 >revoked &
	until_true grep -q reads revoked
	"$T/self_monitor" 1000 >other &
	monitor=$!
	sleep 0.2
	echo 0 >$pmu/rdpmc
	ok "0 in the file rdpmc forbids RDPMC to a program that has executed it before" \
		until_true grep -q revoked revoked
	"$T/self_monitor" $seconds >monitor
	readings monitor "RDPMC is forbidden"
	has "RDPMC is forbidden: all readings are by read()" \
		'^0 readings by RDPMC, [1-9]' monitor
	kill -INT $monitor
	wait
	readings other "RDPMC was forbidden during the program"
	has "a program continues with read() when RDPMC is forbidden" \
		'^[1-9][0-9]* readings by RDPMC, [1-9][0-9]* by read' other
	echo 1 >$pmu/rdpmc
	"$T/self_monitor" $seconds >monitor
	has "1 in the file rdpmc allows RDPMC again" \
		'^[1-9][0-9]* readings by RDPMC, 0 by read' monitor
	all_others "in a guest" 'in 0 another counter moved, in 0 it held something'
}

in_guest() {
	$load
	mount -t tmpfs none /lib/modules
	dmesg >dmesg
	has "the guest's log says that counters are read by RDPMC" \
		'kvm_pmu: counters are read by RDPMC, also in user mode' dmesg
	"$VM_TREE/build/pv-perf-doctor" guest >out
	has "the doctor says that counters are read by RDPMC" \
		'^The kernel and programs read counters .* by RDPMC' out
	for i in 1 2 3; do
		perf stat -x, -o out -e instructions:u,branches:u "$T/loop"
		is "run $i: instructions and branches are exact" \
			"$(count instructions:u out) $(count branches:u out)" \
			"10000004 5000001"
	done
	perf stat -x, -o out -e '{instructions:u,branches:u,r00c0:u}' "$T/loop"
	is "a group of three events is exact" "$(awk -F, '/:u/ { print $1 }' out | paste -sd' ')" \
		"10000004 5000001 10000004"
	perf stat -x, -o out -e instructions:u sh -c "$T/loop & $T/loop; wait"
	more "events are inherited by children" "$(count instructions:u out)" 20000007
	# The program runs for half a second.  perf leaves out the last interval if an interval
	# ends right before the program.
	perf stat -x, -I 150 -o out -e instructions:u "$T/longloop"
	is "the intervals of perf stat -I add up" "$(awk -F, '/instructions:u/ { n += $2 }
		END { print n }' out)" 500000004
	perf record -q -B -N -e instructions:u -c 10000 -o data "$T/loop"
	is "perf record takes each sample" "$(samples_of data)" 1000
	in_user_mode

	# The host's events on this CPU begin and end while these programs run.
	local times=1 program=longloop want="500000004 250000001"
	begin profiled
	"$T/self_monitor" 1000 >monitor &
	"$T/self_monitor" 1000 >other &
	if long; then
		times=20 program=longerloop want="2000000004 1000000001"
	fi
	for i in $(seq $times); do
		perf stat -x, -o out -e instructions:u,branches:u "$T/$program"
		is "counts are exact while the host profiles the CPU now and then, $i" \
			"$(count instructions:u out) $(count branches:u out)" "$want"
	done
	# shellcheck disable=SC2046 # words
	kill -INT $(jobs -p)
	wait
	touch profiled.end
	readings monitor "the host profiles the CPU now and then, the first program"
	readings other "the host profiles the CPU now and then, the second program"
	is "while the host profiles the CPU now and then, readings are by RDPMC and by read()" \
		"$(cat monitor other |
		grep -c '^[1-9][0-9]* readings by RDPMC, [1-9]')" 2

	# The guest's driver keeps counters running for a while after the last event.
	ok "RDPMC without events faults, or reads 0" until_true reads_none
	perf stat -a -e instructions,cycles sleep 1000 &
	perf=$!
	ok "RDPMC with two events reads two counters" until_true reads_two
	echo "# while the guest counts: $(counters | paste -sd' ')"
	is "RDPMC reads no counter that is unused or was another event's" "$(held)" 2
	# shellcheck disable=SC2086 # several words
	"$T/rdpmc" $others >out
	is "RDPMC of counters that a CPU does not have faults" \
		"$(wc -w <<<"$others") $(grep -cv fault out)" "$(grep -c fault out) 0"
	begin secret
	is "beside an event of the host RDPMC reads no counter" \
		"$(for _ in $(seq 50); do counters; done | grep -v fault |
			sort -u)" 0
	touch secret.end
	wait_for residue.ready
	sleep 0.5
	echo "# after the host's event: $(counters | paste -sd' ')"
	is "after the host's event RDPMC reads the guest's own two counters" "$(held)" 2
	touch residue.end
	kill $perf
	finish
}

# In a guest with two vCPUs.
two_threads() {
	echo 2 >/proc/sys/kernel/perf_event_paranoid
	taskset -c 1 perf stat -x, -o root -e r00c0:k,r00c2:k sh -c \
		'until [ -e threads.end ]; do sleep 0.001; done' &
	until_true pgrep -x sleep >/dev/null
	# shellcheck disable=SC2086 # several words
	setpriv --reuid=65534 --regid=65534 --clear-groups "$T/rdpmc_threads" 10 $own >threads
	is "a thread without an event reads no counter while another thread maps an event" $? 0
	touch threads.end
	wait
	sed 's/^/# /' threads
	more "beside the two threads, root's tasks count instructions of the kernel" \
		"$(count r00c0:k root)" 1000000
	finish
}

if [ "$VM_LEVEL" = guest ]; then
	[ "${1-}" != two_threads ] || two_threads
	in_guest
fi

"$VM_TREE/build/pv-perf-doctor" host >doctor
has "the doctor on the host says how to allow RDPMC" 'pv-perf-rdpmc=on' doctor
has "the doctor on the host says that guests count no events of the hypervisor" \
	'^kvm is loaded with pv_perf_counts=0;' doctor
# The host must have no event of its own.
echo 0 >/proc/sys/kernel/nmi_watchdog
all_others "on the host" 'in 0 another counter moved, in [0-9]* it held something'
taskset -c 0 "$vm" guest --accel-opt pv-perf-rdpmc=on -- "$0" >guest.tap 2>&1 &
guest=$!
phase profiled
touch profiled.ready
while [ ! -e profiled.end ]; do
	taskset -c 1 perf stat -C 0 -e instructions,r00c2 sleep 0.05 2>/dev/null
	sleep 0.05
	# Move the vCPU to the other CPU and back.
	taskset -a -p 2 "$(pidof qemu-system-x86_64)" >/dev/null
	sleep 0.05
	taskset -a -p 1 "$(pidof qemu-system-x86_64)" >/dev/null
done
phase secret
mkfifo /dev/shm/control /dev/shm/ack
taskset -c 1 perf stat -C 0 -e instructions -D -1 \
	--control fifo:/dev/shm/control,/dev/shm/ack sleep 1000 2>/dev/null &
perf=$!
echo enable >/dev/shm/control
read -r _ </dev/shm/ack
touch secret.ready
wait_for secret.end
kill $perf
wait $perf
touch residue.ready
wait $guest
is "the guest ends well" $? 0
tap_file guest guest.tap
if long; then
	"$vm" guest --cpus 2 --accel-opt pv-perf-rdpmc=on -- "$0" two_threads >threads.tap 2>&1
	is "the guest with two vCPUs ends well" $? 0
	tap_file "two vCPUs" threads.tap
fi

# Without pv_perf_rdpmc=5 a guest has no RDPMC beside the NMI watchdog, which counts the host's
# cycles.  The driver keeps the guest's first counter for less than a second.
echo 1 >/proc/sys/kernel/nmi_watchdog
echo 'hist:keys=exit_reason' >$tracing/kvm_exit/trigger
"$vm" guest --accel-opt pv-perf-rdpmc=on -- sh -c "
	perf stat -a -e instructions:u sleep 0.2 2>/dev/null
	sleep 1
	$load; perf stat -a -e instructions sleep 1000 &
	for _ in \$(seq 50); do
		$T/rdpmc $own >>beside
		sleep 0.1
	done" >/dev/null 2>&1
more "beside the host's NMI watchdog the guest tries to read counters" \
	"$(wc -l <beside)" 99
is "beside the host's NMI watchdog RDPMC reads no counter" "$(grep -cv ' 0$\| fault$' beside)" 0
echo '!hist:keys=exit_reason' >$tracing/kvm_exit/trigger

# RDPMC needs both the host and the VMM.
"$vm" guest -- sh -c "dmesg | grep kvm_pmu >not-asked; $load
	$VM_TREE/build/pv-perf-doctor guest >doctor
	perf stat -a -e instructions sleep 1000 & sleep 2
	$T/rdpmc 0 1 2 3 4 5 >without" >/dev/null 2>&1
has "the guest's log says that the VMM has not asked for RDPMC" \
	'counters are read by the host: the VMM has not asked' not-asked
has "the doctor says that the VMM has not asked for RDPMC" \
	'asks the host: the VMM has not asked' doctor
has "the doctor says that the host does not allow the hypervisor's events" \
	'^There are no events of the hypervisor .*: the host or the VMM does not$' doctor
is "RDPMC reads no counter if the VMM has not asked for it" \
	"$(grep -c ' 0$\| fault$' without) of $(wc -l <without)" \
	"6 of 6"
finish
