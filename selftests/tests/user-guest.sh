#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The guest's driver in user space, with a model of the host: perf's calls, an NMI at each
# point of a call, lost counters, other hosts, hostile memory.
# vm: none
# tier: quick
# programs: guest_count guest_sample guest_limit guest_host guest_hypervisor guest_rdpmc guest_init guest_hostile fuzz_guest
# packages: @build @user
# seconds: 120
top=$(realpath "$(dirname "$0")/../..")
. "$top/selftests/tap.sh"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1

tests=(guest_count guest_sample guest_limit guest_host guest_hypervisor guest_rdpmc guest_init
	guest_hostile)
# Each test is a process of its own. All processes of a program add to the same profile.
export LLVM_PROFILE_FILE=$dir/%m.profraw
for t in "${tests[@]}"; do
	ends_well "$t" "$T/$t"
done

corpus=$top/selftests/user/guest/corpus
# `make fuzz` tries other inputs.
ends_well "the seeds of fuzz_guest" "$T/fuzz_guest" -runs=0 "$corpus"
# Without compat.c and compat_user.c, which find the kernel's functions by kprobes: in user
# space they find the stand-ins.
llvm-profdata merge -o profile ./*.profraw
objects=()
for t in "${tests[@]:1}" fuzz_guest; do
	objects+=(-object "$T/$t")
done
llvm-cov report --show-branch-summary -instr-profile profile "$T/${tests[0]}" \
	"${objects[@]}" "$top"/guest/kvm_pmu*.c >coverage
awk '/^(Filename|kvm_pmu|TOTAL)/ { print "# " $1, "branches", $(NF - 2),
	"missed", $(NF - 1), $NF }' coverage
more "branches of guest/ in percent" \
	"$(awk '/^TOTAL/ { print int($NF) }' coverage)" 90
finish
