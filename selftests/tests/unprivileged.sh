#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Programs without privileges may count those of the hypervisor's events that the guest causes.
# vm: guest --timeout 1200
# tier: all
# machines: amd
# seconds: 40
. "$VM_TREE/selftests/tap.sh"
cd "$VM_SCRATCH" || exit 1

devices=/sys/bus/event_source/devices

as_nobody() {
	setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
}

# open_all: open each event of the hypervisor in user mode; prints its errno, or 0
open_all() {
	local file
	for file in "$devices"/kvm/events/*; do
		case $file in *.*) continue ;; esac
		echo "${file##*/} $(sed 's/event=//' "$file")"
	done | as_nobody perl -ne '
		($name, $config) = split;
		$attr = pack("LLQQQQQx80", '"$(cat $devices/kvm/type)"', 128, hex $config,
			     0, 0, 0, 1 << 5);
		print "$name ", syscall(298, $attr, 0, -1, -1, 0) == -1 ? $! + 0 : 0, "\n"' |
		LC_ALL=C sort
}

# Events that reveal the host's work need CAP_PERFMON.
check_privileges() {
	echo 2 >/proc/sys/kernel/perf_event_paranoid
	open_all >opened
	is "a user without CAP_PERFMON may count events that the guest causes" \
		"$(awk '$2 == 0 { print $1 }' opened | tr '\n' ' ')" \
		"exits_cpuid exits_hlt exits_hypercall exits_io exits_mmio exits_msr exits_pv_perf halt_ns injected_irqs "
	is "a user without CAP_PERFMON gets EACCES for events that reveal the host's work" \
		"$(awk '$2 == 13 { print $1 }' opened | tr '\n' ' ')" \
		"exits exits_interrupt exits_nested exits_nmi exits_npf exits_other host_ns preemptions steal_ns "
	perf stat -x, -o out -e kvm/exits/ \
		setpriv --reuid=65534 --regid=65534 --clear-groups sh -c 'true & wait; exit 5'
	is "a user's program that root counts can fork" $? 5
	more "a user's program that root counts is counted" "$(count kvm/exits/ out)" 0
}

check_privileges
finish
