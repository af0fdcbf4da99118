#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Counters of a guest that overflow together lower the host's perf_event_max_sample_rate no
# further than those of a program on the host; with the series they do not lower it.
# vm: host --timeout 900
# tier: all
# machines: amd
# programs: longloop
# seconds: 60
. "$VM_TREE/selftests/tap.sh"
sysctl=/proc/sys/kernel

# together FILE N: N events that overflow at the same instructions, 5,000 times; fails without
# samples
together() {
	local events i

	for ((i = 0; i < $2; i++)); do
		events+=(-e instructions:u)
	done
	perf record -q -B -N "${events[@]}" -c 100000 -o "$1" "$T/longloop" 2>"$1.err" &&
		[ "$(samples_of "$1")" -ge 1000 ]
}

# rate_after N LEVEL: the host's rate after N such events on this level
rate_after() {
	# Of the 10 us between two samples: more than a sample takes here, less than four.
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
	is "an event of the $level that overflows alone leaves the rate alone" \
		"$(rate_after 1 $level)" 100000
done
host=$(rate_after 6 host)
guest=$(rate_after 6 guest)
case $(uname -r) in
*-series)
	is "six of the host that overflow together leave it alone" "$host" 100000
	is "so do six of a guest" "$guest" 100000
	;;
*)
	ok "six of the host that overflow together lower it" test "$host" -lt 100000
	more "six of a guest lower it at most a fifth further" "$guest" $((host * 4 / 5))
	;;
esac
finish
