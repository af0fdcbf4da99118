#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Limits that the host and the VMM set for a guest, and the cost of a guest at its limits for
# another guest.  LONG=1 adds a guest that opens events all the time, and lowers the allowed
# cost to 2 %.
# vm: host --host-cpus 2 --timeout 2400
# tier: test
# machines: amd intel
# needs: build/pv-perf-doctor
# programs: attack loop longloop
# seconds: 300, on intel 796
self=$(realpath "$0")
tree=${self%/selftests/*}
. "$tree/selftests/tap.sh"
kvm=/sys/kernel/debug/kvm

# Overflows per second that a VM may have.  On a kernel with checks an overflow takes many
# times as long, and 20,000 overflows would take all CPU time.
case $VM_KERNEL in
*-debug)	limit=2000 ;;
*)		limit=20000 ;;
esac

# Without the series 5-hypervisor-events the host has no events of the hypervisor.
has_hypervisor=yes
fewer=(--accel-opt pv-perf-rate=0 --accel-opt pv-perf-events=3)
case $VM_KERNEL in
*-core)	has_hypervisor= ;;
# Bit 4 is exits for CPUID, bit 14 is steal time.
*)	fewer+=(--accel-opt pv-perf-counts=0x4010) ;;
esac

# The modes of the attacker: one mode in each phase, until the victim has done its work.
modes="spin overflow"
# Other programs take 40 million instructions more or less, of 1.1 billion in a phase, or of
# 1.7 billion with LONG=1.
loops=2
percent=10
if long; then
	loops=3
	modes="spin open overflow"
	percent=2
fi
phases() {
	local where mode
	for where in same other; do
		for mode in $modes; do
			echo "$where-$mode"
		done
	done
}

be_attacker() {
	local phase
	rmmod kvm_pmu
	insmod "$tree/build/linux-$VM_KERNEL/hypercall/kvm_perf_hypercall.ko" \
		swallow_nmis=1
	for phase in $(phases); do
		wait_for "$phase.go"
		"$T/attack" "${phase#*-}" &
		touch "$phase.attacked"
		wait_for "$phase.done"
		kill $!
		wait $!
	done 2>/dev/null
	wait_for end
}

# Only the victim's work is timed.  On the same CPU each guest has half of the CPU's time, so
# that the work takes twice as long as alone.
be_victim() {
	local phase start
	echo "$VM_NAME" >victim.name
	cp "$T/longloop" /dev/shm
	for phase in $(phases); do
		wait_for "$phase.counted"
		start=$(date +%s%N)
		for _ in $(seq $loops); do /dev/shm/longloop; done
		echo $((($(date +%s%N) - start) / 1000)) >"$phase.us"
		touch "$phase.done"
	done
}

# pin CPU PID...: pin all threads of these processes to the CPU
pin() {
	local cpu=$1 pid
	shift
	for pid in "$@"; do taskset -pac "$cpu" "$pid"; done >/dev/null
}

overflows() {
	cat $kvm/*/pv_perf 2>/dev/null | awk '$1 == "overflows" { n += $2 }
		END { print n + 0 }'
}

# duel: both guests on the same CPU, and then on different CPUs
duel() {
	local attacker victim phase start
	echo $limit >/sys/module/kvm/parameters/pv_perf_max_rate
	taskset -pc 1 $$ >/dev/null

	"$vm" guest -- "$self" be_attacker >attacker.log 2>&1 &
	attacker=$!
	"$vm" guest -- "$self" be_victim >victim.log 2>&1 &
	victim=$!
	for phase in $(phases); do
		if [ "$phase" = same-spin ]; then
			until [ "$(pgrep -fc 'accel kvm')" = 2 ]; do sleep 0.2; done
		elif [ "$phase" = other-spin ]; then
			pin 0 "$(pgrep -f "accel kvm.*vm.name=$(cat victim.name) ")"
		fi
		touch "$phase.go"
		wait_for "$phase.attacked"
		sleep 0.5
		# perf does not count while the guests wait for each other.
		perf stat -x, -C 0 -e instructions:GH -o "$phase.cpu0" \
			sh -c "touch $phase.counted; while [ ! -e $phase.done ]; do sleep 0.2; done" &
		wait_for "$phase.counted"
		start=$(date +%s%N)
		overflows >"$phase.overflows"
		wait_for "$phase.done"
		overflows >>"$phase.overflows"
		echo $((($(date +%s%N) - start) / 1000)) >"$phase.time"
		wait $!
	done
	cat $kvm/*/pv_perf >debugfs 2>&1
	touch end
	wait $attacker
	echo $? >attacker.status
	wait $victim
	echo $? >victim.status
}

if [ $# -gt 0 ]; then
	cd "$VM_SCRATCH" && "$@"
	exit
fi
cd "$VM_SCRATCH" || exit 1

"$vm" guest --accel-opt pv-perf-events=65 -- true >out 2>&1
has "a VMM cannot allow more events than the host" \
	'pv-perf-events=65: KVM on this host allows at most 64' out
if [ -n "$has_hypervisor" ]; then
	"$vm" guest --accel-opt pv-perf-counts=0x20010 -- true >out 2>&1
	has "a VMM cannot allow an event of the hypervisor that does not exist" \
		'pv-perf-counts=0x20010: KVM on this host allows only 0x1ffff' out
fi
# CPUID has the feature's bit, but the VM does not have the feature.  A driver that is built into
# the kernel says so in the kernel's log only.
"$vm" guest --accel-opt pv-perf-events=0 -- dmesg >out 2>&1
has "a guest that may have no events logs the host's error, in spite of its CPUID" \
	'not loaded: the host answers KVM_PERF_OP_QUERY with -1000' out
"$vm" guest --accel-opt dirty-ring-size=4096 -- dmesg >out 2>&1
has "a guest of a VM with dirty rings logs the host's error" \
	'not loaded: the host answers KVM_PERF_OP_QUERY with -1000' out
dmesg >dmesg
has "the host's log says that a VM has dirty rings" \
	'gets no paravirtual events because it uses dirty rings' \
	dmesg

# shellcheck disable=SC2016 # $T is the guest's
"$vm" guest "${fewer[@]}" -- sh -c '
	mount -t tmpfs none /lib/modules
	dmesg | grep kvm_pmu:
	T=$VM_TREE/build/tests
	perf stat -x, -e instructions:u $T/loop
	perf record -e instructions:u -c 1000 -o /dev/shm/data $T/loop
	ls /sys/bus/event_source/devices/kvm/events >events
	perf stat -x, -e kvm/event=0x1/ true
	$VM_TREE/build/pv-perf-doctor guest >doctor
	true' >out 2>&1
has "a guest with 3 events and no overflows logs these limits" \
	'at most 3 events, counting only \(the host does not let this VM sample' out
is "a guest without overflows counts exactly" "$(count instructions:u out)" 10000004
has "a guest without overflows refuses to sample" \
	'instructions:u: PMU Hardware doesn.t support sampling' out
if [ -n "$has_hypervisor" ]; then
	is "a guest that may have 2 events of the hypervisor has exactly these" \
		"$(grep -v '\.' events | paste -sd' ')" "exits_cpuid steal_ns"
	has "a guest that may have 2 events of the hypervisor refuses a third" \
		'^<not supported>,,kvm/event=0x1/' out
	has "the doctor counts an event that the guest may have" \
		'^ok .* the hypervisor \(kvm/exits_cpuid/\)' doctor
	has "the doctor lists the events that the guest does not have" \
		'^    exits_other exits_io exits_mmio ' doctor
fi

mount -t tmpfs none /lib/modules
duel
is "the attacking guest ends well" "$(cat attacker.status)" 0
is "the other guest ends well" "$(cat victim.status)" 0
has "debugfs shows the limits" \
	"^overflows [0-9]+ of $limit per second and vCPU, limited [1-9]" debugfs
sed 's/^/# /' debugfs
printf '# %-15s %12s %16s %12s\n' phase 'ms' 'instr. of CPU 0' overflows/s
for phase in $(phases); do
	awk -v phase="$phase" -v us="$(cat "$phase.us")" \
		-v time="$(cat "$phase.time")" \
		-v n="$(count instructions:GH "$phase.cpu0")" '
		NR == 1 { first = $1 }
		END { printf "# %-15s %12.1f %16d %12.0f\n", phase, us / 1000, n,
			($1 - first) * 1000000 / time }' "$phase.overflows"
done
# costs NAME GOT WANT: GOT is at most $percent percent more than WANT
costs() {
	echo "# $1: $2 against $3"
	case $VM_KERNEL in
	*-debug)	ok "$1 # SKIP on a kernel with checks" true ;;
	*)		ok "$1: at most $percent %" test "$2" -le $(($3 + $3 * percent / 100)) ;;
	esac
}
for mode in ${modes#spin }; do
	costs "on the same CPU, the time that '$mode' costs the other guest" \
		"$(cat same-$mode.us)" "$(cat same-spin.us)"
	costs "on another CPU, the instructions that '$mode' costs the attacker's CPU" \
		"$(count instructions:GH other-$mode.cpu0)" \
		"$(count instructions:GH other-spin.cpu0)"
done
for where in same other; do
	rate=$(awk -v time="$(cat $where-overflow.time)" 'NR == 1 { first = $1 }
		END { printf "%d", ($1 - first) * 1000000 / time }' \
		$where-overflow.overflows)
	more "$where CPU: overflows come" "$rate" $((limit / 20))
	# A burst of 10 ms may come on top of the rate.
	ok "$where CPU: the rate of overflows is at most the VM's limit" \
		test "$rate" -le $((limit + limit / 100))
done
finish
