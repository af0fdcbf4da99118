#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# perf record in a guest, against the host.
# vm: host --host-cpus 2 --timeout 2400
. "$VM_TREE/selftests/tap.sh"
T=$VM_TREE/build/tests
cd "$VM_SCRATCH" || exit 1

# shares DATA: each function of calltree with its own share
shares() {
	perf report -i "$1" --stdio --no-children -g none --sort symbol 2>/dev/null |
		awk '/%/ && $2 == "[.]" { sub("%", "", $1); print $3, $1 }'
}

# Shares of a, aa, b, bb, bbb and c within 1 percentage point.
check_shares() {
	local f want got
	for pair in a:20 aa:10 b:10 bb:20 bbb:10 c:30; do
		f=${pair%:*}
		want=${pair#*:}
		got=$(awk -v f="$f" '$1 == f { print $2 }' shares)
		echo "# $f: $got % of $want %"
		ok "$1: the share of $f" awk -v g="$got" -v w="$want" \
			'BEGIN { exit !(g != "" && g >= w - 1 && g <= w + 1) }'
	done
}

record_calltree() {
	perf record -q -g -e cycles:u -c 100000 -o data "$T/calltree"
	shares data >shares
	check_shares "$1"
	perf report -i data --stdio --children -g none --sort symbol 2>/dev/null |
		awk '/%/ && $3 == "[.]" { sub("%", "", $1); print $4, $1 }' >children
	for pair in a:30 b:40; do
		got=$(awk -v f="${pair%:*}" '$1 == f { print $2 }' children)
		ok "$1: the share of ${pair%:*} with its callees is ${pair#*:} % (got $got)" \
			awk -v g="$got" -v w="${pair#*:}" \
			'BEGIN { exit !(g != "" && g >= w - 1 && g <= w + 1) }'
	done
}

in_guest() {
	record_calltree guest

	perf record -q -e instructions:u -c 10000 -o data "$T/loop"
	perf script -i data -F ip 2>/dev/null | sort | uniq -c >out
	is "1,000 samples of 1,000, no skid" "$(awk '{ print NR, $1 }' out)" \
		"1 1000"
	perf report -i data --stdio 2>/dev/null >out
	has "none lost" 'Total Lost Samples: 0' out

	perf record -q -F 1000 -e cycles:u -o data "$T/longloop"
	perf script -i data -F period 2>/dev/null >periods
	within "frequency mode: the periods sum to the count" \
		"$(awk '{ s += $1 } END { printf "%d", s }' periods)" \
		500000004 1
	# It settles from a period of 1, so leave out the first quarter.
	perf script -i data -F time 2>/dev/null | tr -d : |
		awk '{ t[NR] = $1 } END { b = int(NR / 4) + 1
			printf "%d", (NR - b) / (t[NR] - t[b]) }' >rate
	within "frequency mode: it settles at 1,000 Hz" "$(cat rate)" 1000 10

	perf record -q -e '{instructions:u,branches:u}:S' -c 100000 -o data "$T/loop"
	more "a group with PERF_SAMPLE_READ" \
		"$(perf script -i data -F ip 2>/dev/null | wc -l)" 50

	perf record -e cycles:pp -o data true >out 2>&1
	ok "precise_ip is refused or falls back" test $? -ne 139
	perf record -q -o data "$T/loop" >out 2>&1
	is "perf record with no options" $? 0

	# Too short a period: throttled, and nobody dies of it.
	perf record -q -e instructions:u -c 1000 -o data "$T/loop" >out 2>&1
	dmesg >dmesg
	ok "a period of 1,000: no unknown NMI" sh -c '! grep -q "unknown reason" dmesg'
	perf stat -x, -o out -e instructions:u "$T/loop"
	is "and it counts on" "$(count instructions:u out)" 10000004

	# The same on both CPUs, several events at once.
	perf record -q -a -e instructions:u,branches:u,cycles:k -c 10000 -o data \
		sh -c "taskset -c 0 $T/loop & taskset -c 1 $T/loop; wait"
	n=$(perf script -i data -F event,comm 2>/dev/null |
		grep -c 'loop.*instructions:u')
	within "two CPUs and three events: samples" "$n" 2000 1

	# NMIs of others still reach their handlers.
	perf stat -a -e cycles sleep 2 2>/dev/null &
	echo l >/proc/sysrq-trigger
	wait $!
	dmesg >dmesg
	has "a backtrace by NMI still works" 'NMI backtrace for cpu' dmesg
	ok "no unknown NMI" sh -c '! grep -q "unknown reason" dmesg'

	cat /sys/kernel/debug/kvm_pmu/overflows >overflows.guest
	finish
}

if [ "$VM_LEVEL" = guest ]; then
	in_guest
fi

tap_n=100
record_calltree host
# The guest keeps the VM until its overflows have been compared.
"$VM_TREE/selftests/vm" guest --cpus 2 --ignore 'NMI backtrace|Call Trace' -- \
	sh -c "$0; status=\$?; echo done >guest.done; \
		while [ ! -e compared ]; do sleep 0.2; done; exit \$status" &
guest=$!
while [ ! -e guest.done ] && kill -0 $guest 2>/dev/null; do
	sleep 0.5
done
delivered=$(awk '$1 == "overflows" { print $2 }' /sys/kernel/debug/kvm/*/pv_perf)
touch compared
wait $guest
is "the guest's part ends well" $? 0
is "each overflow that was delivered was handled" "$(cat overflows.guest)" \
	"$delivered"
echo "1..$((tap_n - 100))"
exit $tap_failed
