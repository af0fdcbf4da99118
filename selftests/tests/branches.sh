#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Branch stacks: perf record -b records the same branches in a guest as on its host, on an
# emulated CPU that records branches.
# vm: none
# tier: all
# machines: zen4
# needs: machine build/pv-perf-doctor
# programs: branches loop
# lines: 6.12
# seconds: 200
#
# The script runs itself on the emulated host and in a guest of that host. It examines the
# recordings here, because perf script takes long on the emulated machine. A second run
# uses a kernel that uses the CPU's virtual NMIs.
self=$(realpath "$0")
tree=${self%/selftests/*}
. "$tree/selftests/tap.sh"
check=$tree/selftests/programs/check-branches

# Filters of perf -j.  The numbers are the program's branches that the filter must record.
filters="any,u:0 1 2 3 4 5 6 8
any_call,u:0 2
any_ret,u:1 3
call,u:0
ind_call,u:2
ind_jmp,u:4
cond,u:6 8"

refused="any,in_tx any,no_tx any,abort_tx"

# sample OUT OPTIONS... -- COMMAND...
sample() {
	local out=$1
	shift
	perf record -q -B -N -m 256 -o "$out" "$@" 2>"$out.err"
	echo $? >"$out.status"
}

# record LEVEL: the same recordings on the host and in the guest
record() {
	local filter

	mount -t tmpfs none /lib/modules
	while IFS=: read -r filter _; do
		sample "$1.$filter" -e branches:u -c 2003 -j "$filter" -- "$T/branches"
	done <<<"$filters"
	# User mode and kernel: check-branches finds missing and impossible branches.
	sample "$1.chain" -e instructions -c 200003 -j any,u,k -- \
		dd if=/dev/zero of=/dev/null bs=1 count=100000
	sample "$1.kernel" -e instructions:k -c 200003 -j any,k -- \
		dd if=/dev/zero of=/dev/null bs=1 count=100000
	# Two tasks with different filters take turns on the CPU.
	sample "$1.task.call" -e branches:u -c 2003 -j call,u -- "$T/branches" &
	sample "$1.task.cond" -e branches:u -c 2003 -j cond,u -- "$T/branches"
	wait
	# All tasks of the CPU: no sample may have a branch of another task.
	"$T/loop" &
	sample "$1.cpu" -a -e branches:u -c 2003 -j any,u -- "$T/branches"
	wait
	for filter in $refused; do
		sample "$1.refused.$filter" -e branches:u -c 2003 -j "$filter" -- true
	done
	sample "$1.refused.lbr" -e branches:u -c 2003 --call-graph lbr -- true
	perf stat -x, -o "$1.stat" -e branches:u "$T/branches"
	cat /sys/bus/event_source/devices/cpu/caps/branches >"$1.caps"
	kernel_entries >"$1.entries"
}

# The begin and end of each function that exceptions and interrupts enter, one per line.
kernel_entries() {
	awk 'begin && $1 != begin { print begin, $1; begin = "" }
		$3 ~ /^(asm_exc_|asm_sysvec_|asm_.*_interrupt|(irq|spurious)_entries_start)/ {
			begin = $1
		}' /proc/kallsyms
}

guest() {
	cd "$VM_SCRATCH" || exit
	record guest
	dmesg | grep kvm_pmu: >guest.log
	"$tree/build/pv-perf-doctor" guest >guest.doctor
}

# With virtual NMIs a sample of user mode costs one exit.
guest_vnmi() {
	cd "$VM_SCRATCH" || exit
	mount -t tmpfs none /lib/modules
	sample vnmi.any,u -e branches:u -c 2003 -j any,u -- "$T/branches"
}

host() {
	cd "$VM_SCRATCH" || exit
	echo 1000000 >/sys/module/kvm/parameters/pv_perf_max_rate
	record host
	"$tree/build/pv-perf-doctor" host >host.doctor
	"$vm" guest -- "$self" guest
	echo $? >guest.status
}

host_vnmi() {
	cd "$VM_SCRATCH" || exit
	cat /sys/module/kvm_amd/parameters/vnmi >vnmi
	perf stat -a -x, -o vnmi.stat -e kvm:kvm_pv_perf_overflow \
		-e kvm:kvm_exit --filter 'exit_reason == 0x61' \
		-e kvm:kvm_exit --filter 'exit_reason == 0x74' \
		"$vm" guest -- "$self" guest_vnmi
	echo $? >vnmi.status
}

# exits N: the count of the N-th kvm:kvm_exit event of host_vnmi
exits() {
	awk -F, -v n="$1" '$3 == "kvm:kvm_exit" && ++i == n { print $1 }' vnmi.stat
}

# look NAME WORDS...: write what check-branches finds in the recording NAME to NAME.seen
look() {
	local name=$1
	shift
	perf script -i "$name" -F ip,brstack 2>"$name.script" | "$check" "$@" >"$name.seen"
}

seen() {
	awk -v w="$1" '$1 == w { print $2 }' "$2.seen"
}

# judge WHERE FILTER BRANCHES
judge() {
	local name=$1.$2 samples full
	# shellcheck disable=SC2086 # several words
	look "$name" program "$T/branches" $3
	samples=$(seen samples "$name") full=$(seen full "$name")
	more "$1: -j $2: samples" "$samples" 999
	# An interrupt right before a sample adds its own branches or makes the guest exit.
	within "$1: -j $2: samples with 16 branches" "$full" "$samples" 1
	is "$1: -j $2: no branch is foreign or out of order" \
		"$(seen wrong "$name")" 0
	is "$1: -j $2: no branch has an address of the kernel" "$(seen kernel "$name")" 0
}

judge_all() {
	local filter kinds task

	while IFS=: read -r filter kinds; do
		judge "$1" "$filter" "$kinds"
	done <<<"$filters"

	look "$1.chain" chain "$1.entries"
	more "$1: user and kernel mode: samples" "$(seen samples "$1.chain")" 99
	more "$1: user and kernel mode: addresses of the kernel" \
		"$(seen kernel "$1.chain")" 1000
	is "$1: no branch is missing between two recorded branches" "$(seen gaps "$1.chain")" 0
	look "$1.kernel" chain "$1.entries"
	within "$1: samples of the kernel alone have full stacks" "$(seen full "$1.kernel")" \
		"$(seen samples "$1.kernel")" 1

	for task in call:0 cond:"6 8"; do
		# shellcheck disable=SC2086 # several words
		look "$1.task.${task%:*}" program "$T/branches" ${task#*:}
		is "$1: beside a task with another filter: only branches of -j ${task%:*}" \
			"$(seen wrong "$1.task.${task%:*}")" 0
		more "$1: beside a task with another filter: samples of -j ${task%:*}" \
			"$(seen samples "$1.task.${task%:*}")" 999
	done
	perf script -i "$1.cpu" --comm branches -F ip,brstack 2>/dev/null |
		"$check" program "$T/branches" 0 1 2 3 4 5 6 8 >"$1.cpu.seen"
	is "$1: samples of a CPU have no branch of another task" "$(seen wrong "$1.cpu")" 0
	more "$1: samples of a CPU" "$(seen samples "$1.cpu")" 999
	for filter in $refused lbr; do
		is "$1: -j $filter is refused" "$(cat "$1.refused.$filter.status")" 255
	done
	# The system call that ends the program is a branch.
	is "$1: branches are counted" "$(count branches:u "$1.stat")" 2140001
	is "$1: caps/branches" "$(cat "$1.caps")" 16
}

# How many branches the host executes between the WRMSR that enables the records and VMRUN,
# and between VMRUN and the WRMSR that disables the records. A recorded branch of the host
# would tell the guest an address of the host. The JE that skips the second WRMSR is not
# counted, because with records enabled it is not taken.
host_branches() {
	objdump -d --no-show-raw-insn --disassemble=__svm_vcpu_run "$1" | awk '
		$2 == "wrmsr" && entered { print n; exit }
		$2 == "wrmsr" { n = 0 }
		$2 == "vmrun" { entered = 1 }
		$2 ~ /^(j|call|ret|loop|int|iret|sys)/ && !(entered && $2 == "je") { n++ }'
}

if [ $# -gt 0 ]; then
	"$@"
	exit
fi

for module in "$tree"/build/linux-*/kvm/kvm-amd.ko; do
	line=${module#"$tree"/build/}
	is "${line%%/*}: no branch of the host is recorded" \
		"$(host_branches "$module")" 0
done

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export VM_CPU=zen4
cd "$dir" || exit

# run FUNCTION OPTIONS...: run FUNCTION on the emulated host
run() {
	local name=$1
	shift
	"$vm" host --timeout 1500 --scratch "$dir" "$@" -- "$self" "$name" >out 2>&1
	status=$?
	cat out
}

run host
is "the machine ends well" $status 0
is "the guest ends well" "$(cat guest.status)" 0
judge_all host
judge_all guest
has "the guest's log" 'samples have up to 16 branches' guest.log
has "the doctor on the host" '^This CPU records branches' host.doctor
has "the doctor in the guest" '^Samples have up to 16 branches' guest.doctor

if needs_line 6.12 "virtual NMIs"; then
	run host_vnmi --kernel 6.12
	is "virtual NMIs: the machine ends well" $status 0
	is "virtual NMIs: the guest ends well" "$(cat vnmi.status)" 0
	is "virtual NMIs are used" "$(cat vnmi)" Y
	judge vnmi any,u "0 1 2 3 4 5 6 8"
	overflows=$(count kvm:kvm_pv_perf_overflow vnmi.stat)
	within "virtual NMIs: exits for an NMI, of $overflows samples" "$(exits 1)" \
		"$overflows" 2
	is "virtual NMIs: exits at the IRET" "$(exits 2)" 0
fi
finish
