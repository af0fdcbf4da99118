#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A guest's counters that overflow together lower the host's perf_event_max_sample_rate no
# further than a host program's counters. With the series neither lowers it.
# vm: host --timeout 900
# tier: all
# machines: amd
# programs: longloop
# seconds: 60
. "$VM_TREE/selftests/tap.sh"
sysctl=/proc/sys/kernel

# together FILE N: sample N events that overflow at the same instructions, 5,000 times; fails
# if there are too few samples
together() {
	local events i

	for ((i = 0; i < $2; i++)); do
		events+=(-e instructions:u)
	done
	perf record -q -B -N "${events[@]}" -c 100000 -o "$1" "$T/longloop" 2>"$1.err" &&
		[ "$(samples_of "$1")" -ge 1000 ]
}

# rate_after N LEVEL: the host's perf_event_max_sample_rate after N such events on this level
rate_after() {
	# 40 % of the 10 us between two samples: more than one sample takes, less than four.
	echo 40 >$sysctl/perf_cpu_time_max_percent
	echo 100000 >$sysctl/perf_event_max_sample_rate
	if [ "$2" = host ]; then
		together data "$1"
	else
		"$vm" guest -- "$0" "$1" >&2
	fi && cat $sysctl/perf_event_max_sample_rate
}

cd /dev/shm || exit 1
mount -t tmpfs none /lib/modules
if [ $# -gt 0 ]; then
	together data "$1"
	exit
fi

echo 0 >$sysctl/nmi_watchdog
for level in host guest; do
	is "an event of the $level that overflows alone does not lower the rate" \
		"$(rate_after 1 $level)" 100000
done
host=$(rate_after 6 host)
guest=$(rate_after 6 guest)
case $(uname -r) in
*-series)
	is "six events of the host that overflow together do not lower the rate" "$host" 100000
	is "six events of a guest that overflow together do not lower the rate" "$guest" 100000
	;;
*)
	ok "six events of the host that overflow together lower the rate" \
		test "$host" -lt 100000
	more "six events of a guest lower the rate at most a fifth further" \
		"$guest" $((host * 4 / 5))
	;;
esac
finish
