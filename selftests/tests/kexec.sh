#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A guest whose kernel starts another: by kexec, as it crashes, as it reboots,
# while perf stat and perf record run in it.
# vm: host --host-cpus 2 --timeout 2400
. "$VM_TREE/selftests/tap.sh"
self=$(realpath "$0")
tracing=/sys/kernel/tracing
line=$VM_TREE/build/linux-6.1
vm=$VM_TREE/selftests/vm

# In the first kernel: profile, and start the second, which has no module, in
# the way that is asked for.
first_kernel() {
	for file in env job mounts; do
		cp "$VM_RUN/$VM_NAME.$file" "$VM_RUN/second-$1.$file"
	done
	sed -i 's/^export VM_SETUP=.*/export VM_SETUP=true/' \
		"$VM_RUN/second-$1.env"

	perf record -q -a -e instructions -c 100000 -o /dev/shm/data sleep 1000 &
	perf stat -a -e cycles,branches sleep 1000 2>/dev/null &
	sleep 1
	cat /sys/kernel/debug/kvm_pmu/overflows >"$1.handled"
	load=(kexec -s "$line"/image/boot/vmlinuz-* --initrd="$line/initrd"
		"--command-line=$(sed "s/vm.name=[^ ]*/vm.name=second-$1/
			s/crashkernel=[^ ]*//" /proc/cmdline) $2")
	case $1 in
	kexec)
		"${load[@]}" -l && kexec -e ;;
	crash)
		"${load[@]}" -p && echo c >/proc/sysrq-trigger ;;
	reboot)
		echo b >/proc/sysrq-trigger ;;
	esac
	exit 1
}

# In the second, which has no module but after a reboot.
second_kernel() {
	{ lsmod; ls /proc/vmcore; } >"$1.second" 2>&1
	dmesg >"$1.dmesg"
	touch "$1.started"
	while [ ! -e "$1.compared" ]; do sleep 0.1; done
}

if [ "$VM_LEVEL" = guest ]; then
	cd "$VM_SCRATCH" || exit 1
	if [ -e "$1.handled" ]; then
		second_kernel "$1"
	else
		first_kernel "$@"
	fi
	exit
fi

# start_other HOW PARAMETERS VM-OPTION...
start_other() {
	local how=$1 parameters=$2
	shift 2
	echo >$tracing/trace
	$vm guest --reboot --cpus 2 "$@" -- "$self" "$how" "$parameters" >"$how.out" 2>&1 &
	while [ ! -e "$how.started" ] && kill -0 $! 2>/dev/null; do
		sleep 0.2
	done
	cat $tracing/trace >"$how.trace"
	cat /sys/kernel/debug/kvm/*/pv_perf >"$how.events"
	touch "$how.compared"
	wait $!
	is "$how: the second kernel runs" $? 0
	more "$how: the first one sampled" "$(cat "$how.handled")" 100
	has "$how: no event is left" '^events 0 of' "$how.events"
	is "$how: no unknown NMI" "$(grep -c 'unknown reason' "$how.dmesg")" 0
	[ $tap_failed = 0 ] || tail -n 30 "$how.out" | sed 's/^/# /'
}

# after_reset HOW: the first kernel's last operation is RESET, nothing follows
after_reset() {
	ok "$1: the second kernel has no module" \
		sh -c "! grep -q ^kvm_pmu $1.second"
	is "$1: the last that the host did for the first one is RESET" \
		"$(grep -oE 'RESET|kvm_pv_perf_[a-z]+' "$1.trace" | tail -n 1)" RESET
}

cd "$VM_SCRATCH" || exit 1
echo 1 >$tracing/events/kvm/kvm_pv_perf_op/enable
echo 1 >$tracing/events/kvm/kvm_pv_perf_overflow/enable

start_other kexec ""
after_reset kexec
start_other crash "nr_cpus=1 reset_devices" --mem 768 \
	--append crashkernel=192M --ignore 'Kernel panic|Call Trace'
after_reset crash
has "crash: the second kernel has the first one's memory" vmcore crash.second
start_other reboot ""
finish
