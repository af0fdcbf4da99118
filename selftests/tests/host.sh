#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The host's side: its own counts beside a guest's, two guests at once, a killed VMM, debugfs
# and tracepoints.
# vm: host --host-cpus 2 --timeout 2400
# tier: test
# machines: amd intel
# programs: loop hop
# seconds: 250, on intel 536
. "$VM_TREE/selftests/tap.sh"
cd "$VM_SCRATCH" || exit 1
kvm=/sys/kernel/debug/kvm
tracing=/sys/kernel/tracing

slab_before=$(objects perf_event)

echo 1 >$tracing/events/kvm/kvm_pv_perf_op/enable
echo 1 >$tracing/events/kvm/kvm_pv_perf_open/enable

# Each guest waits for the other, so that both count at the same time.
guest() {
	$vm guest -- sh -c "echo ready >ready$1; \
		while [ ! -e ready1 ] || [ ! -e ready2 ]; do sleep 0.1; done; \
		perf stat -x, -e instructions:u $T/loop; \
		perf stat -x, -a -e instructions:u,instructions -o busy$1 \
			sh -c 'while [ ! -e stop ]; do $T/loop; done'" >guest$1 2>&1
}
guest 1 &
one=$!
guest 2 &
two=$!

counting() {
	grep -Eqs ' (in)?active ' $kvm/*/pv_perf
}
ok "debugfs shows the events that count" until_true counting
cat $kvm/*/pv_perf >events
sed 's/^/# /' events | head -8

for i in 1 2 3; do
	perf stat -x, -o out -e instructions:u "$T/loop"
	is "run $i: the host counts its own program exactly beside two guests" \
		"$(count instructions:u out)" 10000004
done
perf stat -x, -o out -a -e instructions:G,instructions:H,instructions:GH sleep 1
within "the host's :G and :H add up to :GH" \
	$(($(count instructions:G out) + $(count instructions:H out))) \
	"$(count instructions:GH out)" 2
more "the host's :G counts the guests" "$(count instructions:G out)" 1000000

touch stop
wait $one $two
for n in 1 2; do
	is "guest $n of two counts its own program exactly" \
		"$(count instructions:u guest$n)" 10000004
done

# A task of the host takes the CPU for at least 0.3 ms after every 0.2 ms, now and then in
# the middle of the guest's NMI handler.  The guest's perf measures the handler's time.
chrt -f 1 perl -e 'while (1) {
	if (-e "competing") { for ($n = 0; $n < 1000; $n++) {} }
	select undef, undef, undef, 0.0002;
}' &
competitor=$!
taskset -pc 1 $competitor >/dev/null
# The program is in memory, because 9p is slow while the task runs.  An empty /lib/modules
# spares perf the search through modules.
taskset -c 1 "$vm" guest -- sh -c "cp $T/loop /dev/shm
	mount -t tmpfs none /lib/modules
	echo 'p:took perf_sample_event_took ns=%di' >$tracing/kprobe_events
	echo 'ns > 200000' >$tracing/events/kprobes/took/filter
	echo 1 >$tracing/events/kprobes/took/enable
	echo probe \$(cat $tracing/events/kprobes/took/enable)
	touch competing
	perf record -q -B -N -o /dev/shm/data -e instructions:u -c 100000 \
		sh -c 'for _ in \$(seq 6); do /dev/shm/loop; done'
	rm competing
	perf report -i /dev/shm/data --stats
	cat $tracing/trace" >out 2>&1
kill $competitor
has "a guest takes its samples while the host takes its CPU away" \
	"SAMPLE events: +6[0-9]{2}" out
grep ' took:' out | sed 's/^/# /'
ok "the guest's perf measures more than 0.2 ms for at most 2 samples" \
	test "$(grep -cx 'probe 1' out)" = 1 -a "$(grep -c ' took:' out)" -le 2
cat $tracing/trace >trace
has "the tracepoint kvm_pv_perf_op shows ENABLE" 'kvm_pv_perf_op: vcpu 0 ENABLE' trace
has "the tracepoint kvm_pv_perf_open shows the event" 'kvm_pv_perf_open: vcpu 0 id' trace
echo 0 >$tracing/events/kvm/enable

# The guest has more CPUs than the host.
perf stat -x, -o out -e instructions:u "$T/hop"
$vm guest --cpus 4 -- perf stat -x, -e instructions:u "$T/hop" >guest4 2>&1
is "a program that moves 1,000 times between 4 vCPUs counts as on the host" \
	"$(count instructions:u guest4)" "$(count instructions:u out)"

# A guest always counts more events than the CPU has counters.  The host's perf counts on the
# same CPU, where the NMI watchdog has a counter, too.  Then the guest counts two events until
# its VMM dies.
$vm guest -- sh -c "for most in 6 0; do
		while [ ! -e share.\$most.begin ]; do sleep 0.1; done
		perf stat -a -e \
instructions,branches,cycles,instructions,branches,cycles,instructions \
			sh -c \"while [ ! -e share.\$most.end ]; do $T/loop; done\"
		touch share.\$most.ended
	done
	perf stat -a -e instructions,cycles \
		sh -c 'touch goes_on; while :; do $T/loop; done'" >out 2>&1 &
victim=$!
# share MOST: how long the host's event counts beside a guest that may have MOST counters;
# 0 is the default
share() {
	echo "$1" >/sys/module/kvm/parameters/pv_perf_max_counters
	touch "share.$1.begin"
	until_true counting
	taskset -pac 1 "$(pgrep -f 'accel kvm')" >/dev/null
	sleep 1
	perf stat -x, -o share -C 1 -e instructions sleep 2
	touch "share.$1.end"
	wait_for "share.$1.ended"
	sed 's/^/# /' share
}
max_counters=$(cat /sys/module/kvm/parameters/pv_perf_max_counters)
share 6
has "the host's perf does not always count beside a guest that may have all counters" \
	'^<not counted>|,[0-9][0-9]?\.[0-9]*,' share
share 0
# Only perf knows whether a fixed counter is free.  If perf takes the host's fixed counter for
# the guest, the host's event waits until perf's next tick.
least=100
[ ! -e /sys/module/kvm_intel ] || least=95
is "the host's perf always counts beside a guest that only wants all counters" \
	"$(awk -F, -v l=$least '$3 ~ /^instructions/ { print ($5 >= l) }' share)" 1
echo "$max_counters" >/sys/module/kvm/parameters/pv_perf_max_counters

# The VMM dies while events count.  Until then these events have caused no exit.
ok "the guest's perf counts until its VMM is killed" until_true [ -e goes_on ]
sleep 2
echo >$tracing/trace
echo 1 >$tracing/events/kvm/kvm_pv_perf_op/enable
sleep 2
echo 0 >$tracing/events/kvm/kvm_pv_perf_op/enable
none "a busy guest whose events count makes no hypercall" \
	"$(grep kvm_pv_perf_op $tracing/trace | head -n 3)"
pkill -9 -f 'accel kvm'
wait $victim
gone() {
	[ -z "$(find $kvm -name pv_perf)" ]
}
ok "killed: no VM is left in debugfs" until_true gone
used() {
	[ "$(cat /sys/module/${kvm_vendor/-/_}/refcnt)" = 0 ]
}
ok "killed: $kvm_vendor has no users" until_true used
perf stat -x, -o out -e "{instructions:u,instructions:u,instructions:u,instructions:u,instructions:u}" "$T/loop"
is "killed: all counters of the host are free" "$(grep -c '^10000004,' out)" 5
ok "killed: no perf_event is left in the slab" until_true no_more perf_event "$slab_before"
echo "# perf_event slab: $slab_before objects before, $now after"
ok "the pair's KVM modules unload" rmmod $kvm_vendor kvm
ok "the stock KVM modules load" modprobe $kvm_vendor
"$vm" guest --pmu=none -- true >out 2>&1
is "the stock KVM modules run a guest" $? 0
finish
