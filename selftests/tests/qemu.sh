#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The patched QEMU of the emulated AMD machine.
# vm: none
# tier: all
# machines: amd
# needs: machine
# programs: fxrstor life_test amd-pmu amd-vnmi amd-lbr amd-nrips amd-virq amd-step
# debug: no
# seconds: 120
top=$(realpath "$(dirname "$0")/../..")
. "$top/selftests/tap.sh"

# bare PROGRAM CPU OPTION...: run a guest program that comes with the patches, without a kernel
bare() {
	timeout 600 "$top/build/qemu/qemu-system-x86_64" \
		-L /usr/share/seabios -L /usr/share/qemu \
		-nodefaults -display none -debugcon stdio \
		-device isa-debug-exit,iobase=0xf4,iosize=0x4 \
		-kernel "$top/build/tests/$1" -cpu "${@:2}" \
		>"$top/build/tests/out" 2>&1
	status=$?
	[ $status = 0 ] || sed 's/^/# /' "$top/build/tests/out"
	is "$*" $status 0
}
# both PROGRAM CPU OPTION...: run with the real clock, and with the clock that counts
# instructions
both() {
	bare "$@"
	bare "$@" -icount shift=0,sleep=off
}
# Every counter, bit and event of the emulated PMU.
both amd-pmu EPYC,pmu=on,+perfctr-core,+perfmon-v2
both amd-vnmi EPYC,+svm,+vgif,+vnmi
both amd-nrips EPYC,+svm
# One #DB for a single step and a data breakpoint.
both amd-step EPYC
both amd-lbr EPYC,pmu=on,+perfmon-v2,+amd-lbr-v2,+amd-lbr-pmc-freeze
# Interrupts from a CPU that runs in parallel
bare amd-virq EPYC,+svm,+x2apic -smp 2

# The clock must stand still while the machine waits for a file.  Without the patch it advances
# by seconds.
"$top/selftests/vm" host -- sh -c "
	read -r _ before </proc/uptime
	cat '$top'/build/linux-*/source/kernel/*.c >/dev/null
	read -r _ after </proc/uptime
	echo \$before \$after" >"$top/build/tests/out" 2>&1
sed 's/^/# idle before and after, in s: /' "$top/build/tests/out"
is "the machine's clock stands still while a program waits for files" \
	"$(awk '/^[0-9.]+ [0-9.]+$/ { print $2 < $1 + 1 ? "less than 1 s" : $2 - $1 }' \
	"$top/build/tests/out")" "less than 1 s"

# CPUs share no part of their FPU state.
"$top/selftests/vm" host --no-icount --host-cpus 2 -- sh -c "
	taskset 2 '$top/build/tests/fxrstor' &
	taskset 1 '$top/build/tests/life_test' kill 10 1"
is "a CPU that restores its FPU state does not disturb a hypervisor on another CPU" $? 0
finish
