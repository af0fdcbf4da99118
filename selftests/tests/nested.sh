#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A nested guest: each level counts and samples only its own execution.  If a level is killed,
# the level below has no event of it left; with LONG=1 also if a level reboots.
# vm: none
# tier: all
# machines: amd intel
# needs: machine
# programs: calltree exits loop longerloop self_monitor
# lines: 7.3
# debug: no, it takes hours
# seconds: 400, on intel 622
tree=$(realpath "$(dirname "$0")/../..")
self=$(realpath "$0")
. "$tree/selftests/tap.sh"
kvm=/sys/kernel/debug/kvm

# A line that perf top must show.
top_shows=' [0-9.]+% +longerloop +\[\.\] _start'

# Files in the scratch folder begin with the name of the level that writes them.

# answer FILE COMMAND...: wait until the command succeeds; writes yes or no to FILE
answer() {
	local file=$1 answer=no

	shift
	until_true "$@" && answer=yes
	echo $answer >"$file.new"
	mv "$file.new" "$file"
}

counting() {
	grep -Eqs ' (in)?active ' $kvm/*/pv_perf
}

no_vm() {
	[ -z "$(find $kvm -name pv_perf)" ]
}

# The VM exists, but has no events.
no_events() {
	grep -qs '^events 0 of' $kvm/*/pv_perf
}

# check_clean NAME PERF_EVENTS: the guest of this level has ended.  Writes to the files NAME.*
# whether anything of the guest is left on this level.
check_clean() {
	answer "$1.no_vm" no_vm
	perf stat -x, -o "$1.counts" -e instructions:u "$T/loop"
	perf stat -x, -a -o "$1.split" -e instructions:uG sleep 0.5
	answer "$1.perf_events" no_more perf_event "$2"
	rmmod $kvm_vendor kvm >"$1.rmmod" 2>&1
	echo $? >>"$1.rmmod"
}

load() {
	local dir=$tree/build/linux-$VM_KERNEL

	insmod "$dir/guest/kvm_pmu.ko" && insmod "$dir/kvm/kvm.ko" &&
		insmod "$dir/kvm/$kvm_vendor.ko"
}

nested_measures() {
	local how_often="-F 4000" loops

	touch nested.ready
	wait_for guest.ready
	for i in 1 2 3; do
		perf stat -x, -o "nested.$i" -e instructions:u,branches:u "$T/loop"
	done
	perf stat -x, -o nested.exits -e kvm/exits_cpuid/u,kvm/exits_io/u \
		"$T/exits" cpuid 1000
	"$T/self_monitor" 1 >nested.monitor
	# Counts are enabled and disabled while the guest counts with :G and :H.
	touch nested.counts
	while [ ! -e guest.split ]; do
		perf stat -x, -o nested.again -e instructions:u "$T/loop"
		sleep 0.3
	done
	perf record -q -B -N -e cycles:u -c 100000 -o nested.data "$T/calltree"
	perf record -q -B -N -e instructions:u -c 10000 -o nested.loop "$T/loop"
	# perf top samples user mode only: samples of the kernel at perf top's default
	# frequency would take all CPU time of three levels.  The program is in memory, because
	# the guest serves 9p only in the time that the samples leave.
	cp "$T/longerloop" /dev/shm
	(while :; do /dev/shm/longerloop; done) &
	loops=$!
	until pidof longerloop >/dev/null; do sleep 0.1; done
	# On the Intel machine an instruction takes 5 ns: samples at a frequency may take all
	# CPU time.
	[ "$kvm_vendor" != kvm-intel ] || how_often="-c 10000000"
	# shellcheck disable=SC2086 # words
	perf top $how_often -e cycles:u --stdio -d 1 >nested.top 2>&1 \
		< <(exec sleep 1000) &
	for ((i = 0; i < 300; i++)); do
		! [[ $(<nested.top) =~ $top_shows ]] || break
		pause 1
	done
	kill $!
	wait $!
	kill $loops
	# Without sync the file's content would be lost with the guest.
	sync nested.top
	dmesg >nested.dmesg
}

# The nested guest measures, and counts until it is killed.  With LONG=1 it reboots once while
# it counts.
in_nested() {
	# perf reads all modules, which takes long through 9p.
	mount -t tmpfs none /lib/modules
	if [ -e nested.done ]; then
		touch nested.rebooted
		perf stat -a -e instructions,cycles sleep 1000
	fi
	nested_measures
	touch nested.done
	perf stat -a -e instructions,cycles sleep 1000 &
	wait_for guest.counting
	! long || reboot -f
	wait
}

guest_measures() {
	wait_for nested.ready
	touch guest.ready
	for i in 1 2 3; do
		perf stat -x, -o "guest.$i" -e instructions:u "$T/loop"
	done
	wait_for nested.counts
	perf stat -x, -a -o split \
		-e instructions:uG,instructions:uH,instructions:uGH,kvm/exits_nested/ \
		sh -c "for i in 1 2 3; do sleep 1; $T/loop; done
			$T/self_monitor 2 >guest.monitor"
	mv split guest.split
}

with_nested() {
	local before

	before=$(objects perf_event)
	"$vm" nested --reboot -- "$self" in_nested &
	guest_measures
	wait_for nested.done
	answer guest.counting counting
	if long; then
		answer guest.reboot no_events
		wait_for nested.rebooted
		answer guest.counting2 counting
	fi
	pkill -9 -f 'accel kvm'
	wait
	check_clean guest.kill "$before"
	rmmod kvm_pmu >guest.rmmod 2>&1
	echo $? >>guest.rmmod
	load >guest.load 2>&1
	dmesg >guest.dmesg
}

# The guest runs nested guests, and counts until it is killed.  With LONG=1 it reboots once
# while it counts.
in_guest() {
	mount -t tmpfs none /lib/modules
	if [ -e guest.done ]; then
		touch guest.rebooted
	else
		with_nested
		touch guest.done
	fi
	perf stat -a -e instructions:G,instructions:H,instructions sleep 1000 &
	wait_for host.counting
	! long || [ -e guest.rebooted ] || reboot -f
	wait
}

in_host() {
	before=$(objects perf_event)
	"$vm" guest --hypervisor --reboot --accel-opt pv-perf-rdpmc=on -- "$self" in_guest >guest.out 2>&1 &
	wait_for guest.ready
	for i in 1 2 3; do
		perf stat -x, -o "host.$i" -e instructions:u "$T/loop"
	done
	wait_for guest.done
	answer host.counting counting
	if long; then
		answer host.reboot no_events
		wait_for guest.rebooted
		answer host.counting2 counting
	fi
	pkill -9 -f 'accel kvm'
	wait
	check_clean host.kill "$before"
}

if [ $# -gt 0 ]; then
	cd "$VM_SCRATCH" && "$@"
	exit
fi

guest=${VM_GUEST_KERNEL:-${VM_KERNEL:-6.1}}
dir=$tree/build/tests/nested
rm -rf "$dir"
mkdir -p "$dir"
# If Debian no longer has this line: make a hook patch for the newest line that Debian has.
needs_line 7.3 "nested guests" || finish

"$vm" host --kernel 7.3 --guest-kernel "$guest" --timeout 3600 \
	--kvm-opt pv_perf_rdpmc=5 --scratch "$dir" -- "$self" in_host
is "the host ends well" "$?" 0
cd "$dir" || exit 1

for i in 1 2 3; do
	for level in host guest nested; do
		is "run $i: the $level counts exactly" \
			"$(count instructions:u $level.$i)" 10000004
	done
done
has "the guest reads in user mode while its nested guest runs" \
	'^[1-9][0-9]* readings by RDPMC, [0-9]* by read\(\), 0 wrong$' guest.monitor
has "the nested guest, whose host is a guest, reads by read()" \
	'^0 readings by RDPMC, [1-9][0-9]* by read\(\), 0 wrong$' nested.monitor
# The C library causes exits, too, when a program starts.
within "the nested guest counts its exits to its own hypervisor" \
	"$(count kvm/exits_cpuid/u nested.exits)" 1025 2.5
is "the nested guest counts exits by reason" "$(count kvm/exits_io/u nested.exits)" 0
more "the guest counts these exits as a nested guest's" \
	"$(count kvm/exits_nested/ guest.split)" 1000
within "the guest's :G and :H add up while its nested guest counts, too" \
	$(($(count instructions:uG guest.split) + $(count instructions:uH guest.split))) \
	"$(count instructions:uGH guest.split)" 0.01
more ":G counts the nested guest" "$(count instructions:uG guest.split)" 10000000
more ":H counts the guest's programs" \
	"$(count instructions:uH guest.split)" 30000000
is "a count of the nested guest that is enabled again and again is exact" \
	"$(count instructions:u nested.again)" 10000004

is "the nested guest takes all 1,000 samples" \
	"$(samples_of nested.loop)" 1000
perf report -i nested.data --stdio --no-children -g none --sort symbol 2>/dev/null |
	awk '/%/ && $2 == "[.]" { sub("%", "", $1); print $3, $1 }' >shares
for pair in a:20 aa:10 b:10 bb:20 bbb:10 c:30; do
	got=$(awk -v f="${pair%:*}" '$1 == f { print $2 }' shares)
	ok "nested: the share of ${pair%:*} is ${pair#*:} % (got $got)" \
		awk -v g="$got" -v w="${pair#*:}" \
		'BEGIN { exit !(g != "" && g >= w - 2 && g <= w + 2) }'
done
has "perf top in the nested guest shows the program that runs" "$top_shows" nested.top

# ended LEVEL BELOW: LEVEL has ended; the files are of BELOW, the level below it
ended() {
	is "the $1 counts until it is killed" "$(cat "$2.counting")" yes
	long || return
	is "the $1 reboots while it counts: its events in the $2 are closed" \
		"$(cat "$2.reboot")" yes
	is "the $1 counts again after the reboot" "$(cat "$2.counting2")" yes
}
ended "nested guest" guest
ended guest host
for level in guest host; do
	below="killed: in the $level"
	is "$below no VM is left" "$(cat $level.kill.no_vm)" yes
	is "$below no perf_event is left" "$(cat $level.kill.perf_events)" yes
	is "$below no event counts a guest" \
		"$(count instructions:uG $level.kill.split)" 0
	is "$below a count of a program is exact" \
		"$(count instructions:u $level.kill.counts)" 10000004
	is "$below KVM's modules unload" "$(cat $level.kill.rmmod)" 0
done
is "the guest's driver unloads after KVM" "$(cat guest.rmmod)" 0
empty "the driver and KVM load again" guest.load
no_warning "the logs of the guest and the nested guest have no warning" guest.dmesg nested.dmesg
finish
