#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# pv-perf qualify is interrupted at ten points, by Ctrl-C and by the death of one of its two
# processes: the kernel's own KVM is loaded again, and no process is left. After a reboot in the
# middle, nothing is left either.
# vm: none
# tier: all
# machines: amd
# needs: machine build/pv-perf-doctor
# packages: qemu-system-x86
# seconds: 400
self=$(realpath "$0")
tree=${self%/selftests/*}
. "$tree/selftests/tap.sh"
. "$tree/selftests/qualify/lib.sh"
built=$tree/build/tests/qualify-stop/built
state=/run/pv-perf-qualify.json

# state_of PID: the state of a process, a letter; nothing if there is none
state_of() {
	sed -n 's/^State:\t\(.\).*/\1/p' "/proc/$1/status" 2>/dev/null
}

# stopped: one of the two processes is stopped; sets worker to the other or to nothing
stopped() {
	local pid
	worker=
	for pid in $(pgrep -P "$guard" -f 'pv-perf qualify'); do
		worker=$pid
	done
	[ "$(state_of "$guard")" = T ] || { [ -n "$worker" ] && [ "$(state_of "$worker")" = T ]; }
}

start_until() {
	"$tree/tools/pv-perf" qualify --yes --built "$built" --checks counts --stop-at "$1" \
		-o report >out 2>&1 &
	guard=$!
	until_true stopped
}

# The worker stops at the point "back", too, if it undoes the changes in the guard's place.
as_before() {
	[ -z "$worker" ] || kill -CONT "$worker" 2>/dev/null
	quiet && [ ! -e $state ] && [ "$(loaded_kvm)" = "$before" ]
}

# interrupt POINT SIGNAL guard|worker STATUS: stop qualify at the point, and send the signal to
# one of its processes. Then let go on what is left.
interrupt() {
	local name="$2 to the $3 at \"$1\"" pid
	if ! start_until "$1"; then
		ok "$name: qualify comes to this point" false
		sed 's/^/# /' out
		return
	fi
	pid=$guard
	[ "$3" = guard ] || pid=$worker
	kill -"$2" "$pid"
	kill -CONT "$guard" ${worker:+"$worker"} 2>/dev/null
	wait "$guard" 2>/dev/null
	is "$name: the status is $4" $? "$4"
	until_true as_before || sed 's/^/# /' out
	is "$name: the kernel's own KVM is loaded" "$(loaded_kvm)" "$before"
	ok "$name: no process is left" quiet
	ok "$name: the note of the old modules is gone" [ ! -e $state ]
}

at_ten_points() {
	local point
	before=$(loaded_kvm)
	# Before qualify has replaced anything, while it does, and while its guest runs.
	for point in build native unload unloaded "half loaded" loaded "guest: counts" end; do
		interrupt "$point" INT guard 130
	done
	for point in build unload "half loaded" "guest: counts"; do
		interrupt "$point" KILL guard 137
	done
	for point in native unloaded loaded end; do
		interrupt "$point" KILL worker 137
	done
	# While qualify restores the modules, and when it has: it does not stop any more.
	interrupt back INT guard 0
	interrupt report INT guard 0
	interrupt report KILL guard 137
	# Killed while it restores the modules, the worker does.
	interrupt back KILL guard 137
	start_until back
	kill -KILL "$guard" "$worker"
	wait "$guard" 2>/dev/null
	ok "if both processes are dead, the note of the old modules is still there" [ -e $state ]
	"$tree/tools/pv-perf" qualify --back >out 2>&1
	is "--back restores KVM after both processes have died" "$? $(loaded_kvm)" "0 $before"
	ok "--back removes the note of the old modules" [ ! -e $state ]
}

# The first half of the test with a reboot.
until_reboot() {
	loaded_kvm >stock
	touch /began
	pause 0.1
	start_until loaded
	has "before the reboot, qualify's own modules are loaded" pv_perf <(loaded_kvm)
	changed_since /began >changed
	has "qualify has a folder in /var/tmp" '^/var/tmp/pv-perf-qualify/initrd' changed
	none "qualify has changed no file but in its folder" \
		"$(grep -v -e '^/var/tmp/pv-perf-qualify/' -e '\.pyc$' changed)"
	echo "$tap_n $tap_failed" >rebooted
	sync
	echo b >/proc/sysrq-trigger
	pause 60
}

after_reboot() {
	read -r tap_n tap_failed <rebooted
	is "after a reboot, the kernel's own KVM is loaded" "$(loaded_kvm)" "$(cat stock)"
	ok "after a reboot, there is no note of old modules" [ ! -e $state ]
	"$tree/tools/pv-perf" qualify --back >out 2>&1
	is "after a reboot, --back has nothing to do" "$? $(wc -c <out)" "0 0"
}

if [ -n "${VM_LEVEL-}" ]; then
	cd "$VM_SCRATCH" || exit 1
	boot_kernel vmlinux
	if [ "$1" = points ]; then
		at_ten_points
	elif [ -e rebooted ]; then
		after_reboot
	else
		until_reboot
	fi
	finish
fi
mkdir -p "$tree/build/tests/qualify-stop"
cd "$tree/build/tests/qualify-stop" || exit 1
prepare_built "$built"
for part in points reboot; do
	"$vm" host --stock-kvm --host-cpus 2 --timeout 3000 --reboot -- "$self" $part >part.out 2>&1
	status=$?
	tap_file "$part" part.out
	[ $status = 0 ] || grep -vE '^((not )?ok |#)' part.out | tail -n 20 | sed 's/^/# /'
	is "$part: ends well" $status 0
done
finish
