#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A hostile guest makes random hypercalls from several CPUs, and reads counters by RDPMC,
# while the host and another guest profile.  Their counts stay exact, also the counts that the
# other guest reads in user mode.  After the hostile guest the host has nothing of it left.
#
#	make test TESTS=hostile HYPERCALLS=10000000 SEED=1
#
# vm: none
# tier: all
# machines: amd intel
# needs: machine
# programs: hostile loop self_monitor
# seconds: 150, on intel 255
self=$(realpath "$0")
tree=${self%/selftests/*}
. "$tree/selftests/tap.sh"

# Without the series 4-rdpmc a guest has no RDPMC: its programs use read().
case ${VM_KERNEL-} in
*-core)	core=core rdpmc=() reads='[0-9]* readings by RDPMC, [1-9][0-9]* by read\(\)' ;;
*)	core='' rdpmc=(--accel-opt pv-perf-rdpmc=on)
	reads='[1-9][0-9]* readings by RDPMC, [0-9]* by read\(\)' ;;
esac

# In the hostile guest: hostile HYPERCALLS CPUS SEED [core]
be_hostile() {
	rmmod kvm_pmu
	insmod "$tree/build/linux-$VM_KERNEL/hypercall/kvm_perf_hypercall.ko" \
		swallow_nmis=1
	# shellcheck disable=SC2086 # a word, or none
	"$T/hostile" "$@" $core
}

# count_loop FILE: count the same program again and again, until the file stop exists
count_loop() {
	while [ ! -e stop ]; do
		perf stat -x, -o "$1.out" -e instructions:u,branches:u "$T/loop"
		echo "$(count instructions:u "$1.out") $(count branches:u "$1.out")" \
			>>"$1"
		sleep 1
	done
}

# In the other guest.
be_victim() {
	touch ready
	"$T/self_monitor" 1000000 >monitor 2>&1 &
	count_loop victim
	kill -INT $!
	wait
}

# The resources that the host uses: perf_events, pinned pages, and kB of slabs. The loop runs
# twice, because memory freed by RCU returns a moment later.
used() {
	for _ in 1 2; do
		echo 3 >/proc/sys/vm/drop_caches
		for cache in /sys/kernel/slab/*/shrink; do
			echo 1 >"$cache"
		done
		sleep 1
	done
	# Each CPU's counts of pages reach /proc/vmstat late without this.
	cat /proc/sys/vm/stat_refresh
	awk '$1 == "perf_event" { print "perf_events", $2 }' /proc/slabinfo
	awk '$1 == "nr_foll_pin_acquired" { n += $2 }
		$1 == "nr_foll_pin_released" { n -= $2 }
		END { print "pinned", n + 0 }' /proc/vmstat
	awk '$1 == "SUnreclaim:" { print "slab", $2 }' /proc/meminfo
}

# on_host HYPERCALLS SEED
on_host() {
	# The first guest fills caches: without it their memory would look like a leak.
	"$vm" guest --cpus 2 -- "$self" be_hostile 1000 2 "$2" >first
	used >used.before
	dmesg >dmesg.before

	"$vm" guest "${rdpmc[@]}" -- "$self" be_victim \
		>victim.log 2>&1 &
	victim=$!
	wait_for ready $victim
	count_loop host &
	"$vm" guest --cpus 2 "${rdpmc[@]}" -- \
		"$self" be_hostile "$1" 2 "$2" >hostile
	echo $? >hostile.status
	touch stop
	wait $victim
	echo $? >victim.status
	wait

	find /sys/kernel/debug/kvm -name pv_perf >left
	used >used.after
	dmesg >dmesg.after
}

if [ $# -gt 0 ]; then
	cd "$VM_SCRATCH" && "$@"
	exit
fi

# On a kernel with checks a hypercall takes 0.1 seconds of CPU time.
case ${VM_KERNEL-} in
*-debug)	hypercalls=${HYPERCALLS:-4000} ;;
*)		hypercalls=${HYPERCALLS:-20000} ;;
esac
seed=${SEED:-$(date +%s)}
dir=$T/hostile.scratch
rm -rf "$dir"
mkdir -p "$dir"
# Overflows at each instruction take all CPU time until perf throttles them, at this rate.
"$vm" host --host-cpus 2 --timeout $((1200 + hypercalls / 500)) \
	--append sysctl.kernel.perf_event_max_sample_rate=4000 \
	--kvm-opt pv_perf_rdpmc=5 \
	--scratch "$dir" -- "$self" on_host "$hypercalls" "$seed"
is "the host and the guests end well" $? 0
cd "$dir" || exit 1

tap_file "the hostile guest" hostile
is "the hostile guest ends well" "$(cat hostile.status)" 0
is "the other guest ends well" "$(cat victim.status)" 0
for who in host victim; do
	name="the $who"
	[ $who = host ] || name="the other guest"
	echo "# $name has counted $(wc -l <$who) times"
	more "$name counts beside the hostile guest" "$(wc -l <$who)" 1
	is "$name counts exactly each time" "$(sort -u $who)" "10000004 5000001"
done

sed 's/^/# the other guest: /' monitor
has "the other guest's readings in user mode are exact" \
	"^$reads, 0 wrong\$" monitor

empty "no VM is left" left
sed 's/^/# before: /' used.before
sed 's/^/# after: /' used.after
is "no perf_event and no pinned page is left" \
	"$(grep -v slab used.after)" "$(grep -v slab used.before)"
# A leak at each OPEN would exceed 2 MB.
slab() {
	awk '$1 == "slab" { print $2 }' "$1"
}
ok "the host's slabs have grown by at most 2 MB" \
	test "$(slab used.after)" -le $(($(slab used.before) + 2048))
comm -13 <(sort dmesg.before) <(sort dmesg.after) >log
# Expected lines: the pair's messages about limits, and kernel messages with a limited rate.
grep -vE 'has reached its limit of [0-9]+ events|interrupt took too long|NMI handler .* took too long|callbacks suppressed|drop_caches|Unhandled (RD|WR)MSR' \
	log | sed 's/^/# unexpected: /' | tee unexpected
empty "the host's log has no unexpected line" unexpected
grep -o 'kvm: pv_perf: .* has reached its limit of .*' log >limits
ok "the host's log tells of a limit" test -s limits
none "the host's log tells of each limit once" "$(sort limits | uniq -d)"
finish
