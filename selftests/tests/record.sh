#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# perf record and perf top in a guest take the same samples as on the host.
# vm: none
# tier: test
# machines: amd intel
# needs: machine
# programs: calltree loop longloop overflow_stress sampling_test
# seconds: 450, on intel 919
#
# The script runs itself on the emulated host and in its guests. It examines the recordings
# here, because perf report takes long on the emulated machine. With LONG=1 it takes ten times
# as many overflows with events opened and closed at random.
self=$(realpath "$0")
tree=${self%/selftests/*}
. "$tree/selftests/tap.sh"

# Do not walk /lib/modules, which takes long through two machines' file systems.
prepare() {
	mount -t tmpfs none /lib/modules
	[ "$VM_LEVEL" != host ] ||
		echo 1000000 >/sys/module/kvm/parameters/pv_perf_max_rate
}

# record_programs LEVEL: the same recordings on the host and in the guest
record_programs() {
	local percent=10

	# perf adapts a frequency at ticks, which come late on a kernel with checks.
	case $VM_KERNEL in
	*-debug)	percent=40 ;;
	esac
	perf record -q -B -N -g -e cycles:u -c 100000 -o "$1.calltree" "$T/calltree"
	perf record -q -B -N --call-graph dwarf -e cycles:u -c 1900003 \
		-o "$1.dwarf" "$T/calltree"
	"$T/sampling_test" $percent >"$1.tap"
	sample_kernel "$1"
}

# sample_kernel LEVEL: sample the kernel with a period that is shorter than the NMI's handler
sample_kernel() {
	local work='dd if=/dev/zero of=/dev/null bs=1 count=1000'

	# The first run only brings the program's pages into memory.
	# shellcheck disable=SC2086 # several words
	$work 2>/dev/null
	# shellcheck disable=SC2086 # several words
	perf stat -x, -o "$1.kernel.stat" -e instructions:k $work 2>/dev/null
	# shellcheck disable=SC2086 # several words
	perf record -q -B -N -m 1024 -e instructions:k -c 1000 -o "$1.kernel" $work \
		2>/dev/null
}

# Lines that perf top must show.
top_shows=' [0-9.]+% +loop +\[\.\] _start'
tui_shows='Samples:.*cycles|loop'

# show FILE REGEX COMMAND...: run the command until its output in FILE matches
show() {
	local file=$1 regex=$2
	shift 2
	"$@" >"$file" 2>&1 <&0 &
	until_true grep -qE -- "$regex" "$file"
	kill $!
	wait $!
}

# turns HZ: two tasks take turns on the CPU, and perf samples one of them at HZ.  Its event
# stays open on the host while the other task runs.
turns() {
	local overflows=/sys/kernel/debug/kvm_pmu/overflows before

	before=$(cat $overflows)
	(while :; do "$T/longloop"; done) &
	perf record -q -B -N -F "$1" -e cycles:u -o "guest.turns.$1" "$T/longloop"
	kill $!
	echo $(($(cat $overflows) - before)) >"guest.turns.$1.overflows"
}

# The guest samples work in its kernel while the host profiles the guest.
be_profiled() {
	cat /proc/kallsyms >kallsyms
	cat /proc/modules >modules
	touch profiled.ready
	wait_for profiled.go
	perf record -q -B -N -e cycles -c 100000 -o data \
		dd if=/dev/zero of=/dev/shm/zero bs=64k count=300 2>/dev/null
	touch profiled.done
}

# In a guest with one CPU: the parts that run one after another.
guest_first() {
	local options='' loops

	# On a kernel with checks samples at perf top's default rate would take all CPU time.
	case $VM_KERNEL in
	*-debug)	options="-F 100" ;;
	esac
	prepare
	record_programs guest
	turns 1000
	perf record -q -o guest.default "$T/loop" 2>guest.default.err
	perf record -q -e cycles:pp -o guest.precise "$T/loop" 2>guest.precise.err
	echo $? >guest.precise.status
	cat /proc/sys/kernel/nmi_watchdog >guest.watchdog

	export TERM=xterm COLUMNS=100 LINES=30
	(while :; do "$T/loop"; sleep 0.03; done) &
	loops=$!
	# shellcheck disable=SC2086 # several words
	show guest.top "$top_shows" stdbuf -oL perf top --stdio -d 1 $options \
		< <(exec sleep 1000)
	show guest.top.tui "$tui_shows" script -qc \
		"stty cols 100 rows 30; exec perf top $options" /dev/null </dev/null
	kill "$loops"
	be_profiled
}

# In a guest with several CPUs: samples and other NMIs at the same time.
guest_stress() {
	prepare
	perf stat -a -e cycles sleep 1 2>/dev/null &
	echo l >/proc/sysrq-trigger
	wait $!
	dmesg >"stress$1.sysrq"
	"$T/overflow_stress" "$2" >"stress$1.samples"
	# After 3 seconds the last stopped event no longer overflows.
	sleep 3
	cat /sys/kernel/debug/kvm_pmu/overflows >"stress$1.handled"
	dmesg >"stress$1.dmesg"
	touch "stress$1.done"
	wait_for "stress$1.compared"
}

# In a guest that gets an NMI from the QEMU monitor while it samples.
guest_nmi() {
	prepare
	perf record -q -B -a -e cycles -c 100000 -o data sleep 3 &
	sleep 1
	touch nmi.ready
	wait $!
	dmesg >nmi.dmesg
}

# stress CPUS OVERFLOWS
stress() {
	echo "$2" >"stress$1.wanted"
	"$vm" guest --cpus "$1" --ignore 'NMI backtrace|Call Trace' -- \
		"$self" guest_stress "$1" "$2" &
	wait_for "stress$1.done" $!
	awk '$1 == "overflows" { print $2 }' /sys/kernel/debug/kvm/*/pv_perf \
		>"stress$1.delivered"
	touch "stress$1.compared"
	wait $!
	echo $? >"stress$1.status"
}

# profile_guest PID: profile the guest, whose vm has this PID
profile_guest() {
	wait_for profiled.ready "$1" || return
	touch profiled.go
	perf kvm --host --guest --guestkallsyms=kallsyms \
		--guestmodules=modules record -q -a -e cycles -c 1000000 \
		-o host.kvm sh -c 'while [ ! -e profiled.done ]; do sleep 0.1; done' &
	profiler=$!
	perf record -q -B -N -e instructions:u -c 10000 -o host.loop "$T/loop"
	wait $profiler
}

monitor_nmi() {
	"$vm" guest --monitor /run/monitor \
		--ignore 'unknown reason|Dazed|strange power' -- \
		"$self" guest_nmi &
	wait_for nmi.ready
	python3 - <<'PY'
import socket
s = socket.socket(socket.AF_UNIX)
s.connect("/run/monitor")
s.recv(4096)
s.sendall(b"nmi\n")
s.recv(4096)
PY
	wait $!
}

on_host() {
	local many=10000 guest

	! long || many=100000
	prepare
	record_programs host
	"$vm" guest -- "$self" guest_first &
	guest=$!
	profile_guest $guest
	wait $guest
	echo $? >guest.status
	# On a kernel with checks an overflow takes longer than an event of the guest's kernel
	# takes to overflow again.  Without a lower rate, overflows would take all CPU time.
	case $VM_KERNEL in
	*-debug)
		many=5000
		echo 500 >/sys/module/kvm/parameters/pv_perf_max_rate
		;;
	esac
	stress 2 "$many"
	stress 4 $((many / 10))
	monitor_nmi
}

if [ $# -gt 0 ]; then
	cd "$VM_SCRATCH" && "$@"
	exit
fi

dir=$tree/build/tests/record
rm -rf "$dir"
mkdir -p "$dir"
"$vm" host --host-cpus 2 --timeout 1800 --scratch "$dir" -- "$self" on_host
is "the host and the guests end well" $? 0
cd "$dir" || exit 1

# check_shares TITLE FUNCTION:PERCENT...: each function has its share, to within 1 point
check_shares() {
	local title=$1 pair got
	shift
	for pair; do
		got=$(awk -v f="${pair%:*}" '$1 == f { print $2 }' shares)
		ok "$title: the share of ${pair%:*} is ${pair#*:} % (got $got)" \
			awk -v g="$got" -v w="${pair#*:}" \
			'BEGIN { exit !(g != "" && g >= w - 1 && g <= w + 1) }'
	done
}

# shares DATA OPTION COLUMN: write each function with its share to the file shares
shares() {
	perf report -i "$1" --stdio "$2" -g none --sort symbol 2>/dev/null |
		awk -v c="$3" '/%/ && $c == "[.]" {
			sub("%", "", $1); print $(c + 1), $1 }' >shares
}

for level in host guest; do
	shares $level.calltree --no-children 2
	check_shares $level a:20 aa:10 b:10 bb:20 bbb:10 c:30
	shares $level.calltree --children 3
	check_shares "$level, with callees" a:30 b:40 main:100
	# These samples are large, so that they are too few for shares.
	shares $level.dwarf --children 3
	is "$level: call chains by DWARF have all functions" \
		"$(grep -cE '^(a|aa|b|bb|bbb|c|main) ' shares)" 7
	tap_file "$level" "$level.tap"
done

# per_thousand LEVEL: samples with a period of 1,000 for every 1,000,000 counted instructions
per_thousand() {
	awk -F, -v n="$(perf script -i "$1.kernel" -F ip 2>/dev/null | wc -l)" \
		'/instructions/ { printf "%d\n", n * 1000000 / $1 }' "$1.kernel.stat"
}
ok "the guest's kernel, at a period below the NMI handler's instructions: $(per_thousand guest) of 1,000 ($(per_thousand host) on the host)" \
	test "$(per_thousand guest)" -ge 980 -a "$(per_thousand guest)" -le 1200

is "the guest's samples are as many as the host's" \
	"$(grep '^# samples:' guest.tap)" "$(grep '^# samples:' host.tap)"
skid() {
	awk '/^# max skid:/ { print $4 }' "$1.tap"
}
ok "the guest's skid, $(skid guest), is no larger than the host's, $(skid host)" \
	test "$(skid guest)" -le "$(skid host)"

samples=$(samples_of guest.turns.1000)
more "a task that another takes turns with, at 1,000 Hz: samples" "$samples" 300
# Without the series 3-frequencies the host's perf adapts periods.  It then also shortens the
# period of an event that waits for its task.
case $VM_KERNEL in
*-core)	;;
*)	is "a task that another takes turns with: the other has no overflow" \
		"$(cat guest.turns.1000.overflows)" "$samples" ;;
esac

perf report -i guest.calltree --stdio 2>/dev/null >out
has "perf record in the guest loses no sample" 'Total Lost Samples: 0' out
more "perf record with no options takes samples" \
	"$(samples_of guest.default)" 20
sed 's/^/# perf record: /' guest.default.err
is "perf record with no options does not complain" \
	"$(grep -ciE 'error|not supported|failed' guest.default.err)" 0
falls_back_or_says_why() {
	case $(cat guest.precise.status) in
	0)	[ "$(samples_of guest.precise)" -gt 0 ] ;;
	255)	grep -qE "cycles:pp: PMU Hardware doesn't support|'precise' request" \
			guest.precise.err ;;
	*)	false ;;
	esac
}
sed 's/^/# perf record -e cycles:pp: /' guest.precise.err
ok "perf record of cycles:pp takes samples, or perf says that the PMU does not support it" \
	falls_back_or_says_why
is "the guest's hard-lockup watchdog is off, because it looks for a PMU before the module is there" \
	"$(cat guest.watchdog)" 0
has "perf top --stdio shows the program that runs" "$top_shows" guest.top
is "perf top with no options starts and does not complain" \
	"$(grep -ciE 'error|not supported|failed' guest.top.tui)" 0
has "perf top with no options draws its screen" "$tui_shows" guest.top.tui

for cpus in 2 4; do
	is "$cpus CPUs: the guest ends well" "$(cat stress$cpus.status)" 0
	more "$cpus CPUs: overflows with events opened and closed at random" \
		"$(cat stress$cpus.handled)" $(($(cat stress$cpus.wanted) - 1))
	echo "# $cpus CPUs: samples that the program has read: $(cat stress$cpus.samples)"
	ok "$cpus CPUs: the program has read enough samples, none without an overflow" \
		test "$(cat stress$cpus.samples)" -ge "$(cat stress$cpus.wanted)" -a \
		"$(cat stress$cpus.samples)" -le "$(cat stress$cpus.handled)"
	is "$cpus CPUs: the guest has handled each overflow that the host has delivered" \
		"$(cat stress$cpus.handled)" "$(cat stress$cpus.delivered)"
	is "$cpus CPUs: no unknown NMI" \
		"$(grep -c 'unknown reason' stress$cpus.dmesg)" 0
	has "$cpus CPUs: a backtrace by NMI still works" \
		'NMI backtrace for cpu' stress$cpus.sysrq
done

within "the host samples its own program beside the guest" \
	"$(samples_of host.loop)" 1000 0.1
perf kvm --host --guest --guestkallsyms=kallsyms --guestmodules=modules \
	report -i host.kvm --stdio --sort dso,symbol 2>/dev/null >out
has "the host's perf kvm record sees the guest's kernel" \
	'\[guest.kernel.kallsyms\]' out
grep -E 'guest.kernel' out | head -4 | sed 's/^/# /'
is "an NMI from the QEMU monitor reaches the guest's kernel" \
	"$(grep -c 'NMI received for unknown reason' nmi.dmesg)" 1
finish
