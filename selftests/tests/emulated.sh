#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Instructions and branches that KVM completes for the guest count as they do on the host,
# also in samples and for a program that reads its counter by RDPMC. RDPMC works beside the
# host's NMI watchdog, too.
# vm: host --kvm-opt pv_perf_rdpmc=5 --kvm-opt force_emulation_prefix=1 --timeout 2400
# tier: all
# machines: amd intel
# programs: emulated
# seconds: 350
. "$VM_TREE/selftests/tap.sh"
cd "$VM_SCRATCH" || exit 1

# Instructions that cause an exit in a guest, but not on the host.
kinds="cpuid in out ins outs load store"

# sampled FILE: sample every 1,003 instructions of a loop of 4; writes samples by address
sampled() {
	perf record -q -B -N -e instructions:u -c 1003 -o data \
		"$T/emulated" run cpuid 50000
	perf script -i data -F ip,sym | grep 'do_cpuid\|cpuid_instruction' |
		awk '{ n[$1]++ } END { for (ip in n) print ip, n[ip] }' | sort >"$1"
}

samples() {
	awk '{ n += $2 } END { print n + 0 }' "$1"
}

in_guest() {
	local kind want
	[ $kvm_vendor = kvm-amd ] && call=vmmcall || call=vmcall
	modprobe msr

	for kind in $kinds; do
		is "$kind counts in the guest as on the host" "$("$T/emulated" $kind 1000)" \
			"$(cat host.$kind)"
	done
	is "a hypercall counts as an instruction" \
		"$("$T/emulated" $call 1000)" "4000 instructions, 1000 branches"
	is "an instruction that KVM emulates counts" "$("$T/emulated" nop 1000)" \
		"3000 instructions, 1000 branches"
	is "a branch that KVM emulates counts" "$("$T/emulated" jump 1000)" \
		"3000 instructions, 2000 branches"
	is "a system call that KVM emulates counts in user mode" "$("$T/emulated" syscall 1000)" \
		"4000 instructions, 2000 branches"
	is "instructions that read an MSR count in the kernel" \
		"$("$T/emulated" msr)" "$(cat host.msr)"

	perf stat -x, -o out -e instructions:u,instructions:k,branches:u,r00c0:u \
		"$T/emulated" run cpuid 100000
	more "perf stat counts emulated instructions" "$(count instructions:u out)" 400000
	is "a raw event counts emulated instructions, too" \
		"$(count r00c0:u out)" "$(count instructions:u out)"

	[ "$1" = rdpmc ] || finish
	sampled guest
	sed 's/^/# /' guest
	within "samples of CPUID are as many as on the host" "$(samples guest)" \
		"$(samples host)" 1
	is "samples of CPUID are at the same addresses as on the host" \
		"$(cut -d' ' -f1 guest)" "$(cut -d' ' -f1 host)"
	while read -r ip want; do
		within "samples at 0x$ip are as many as on the host" \
			"$(awk -v ip="$ip" '$1 == ip { print $2 }' guest)" \
			"$want" 5
	done <host
	is "a counter read by RDPMC includes emulated instructions" \
		"$("$T/emulated" rdpmc cpuid 1000)" \
		"4000 instructions"
	is "a counter read by RDPMC includes instructions that the VMM emulates" \
		"$("$T/emulated" rdpmc out 1000)" "3000 instructions"
	finish
}

if [ "$VM_LEVEL" = guest ]; then
	in_guest "$1"
fi

modprobe msr
for kind in $kinds; do
	"$T/emulated" "$kind" 1000 >"host.$kind"
	sed "s/^/# $kind: /" "host.$kind"
done
"$T/emulated" msr >host.msr
sampled host
sed 's/^/# /' host
is "a loop with 1,000 CPUIDs on the host has 4,000 instructions" \
	"$(cat host.cpuid)" "4000 instructions, 1000 branches"
on_guest "with RDPMC" rdpmc --accel-opt pv-perf-rdpmc=on
on_guest "without RDPMC" plain
finish
