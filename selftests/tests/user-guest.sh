#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The guest's driver in user space, beside a model of the host: what perf calls, an NMI at
# each point of it, counters that are lost, other hosts, hostile memory.
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
# Each test is a process of its program, and all of these add to one file.
export LLVM_PROFILE_FILE=$dir/%m.profraw
for t in "${tests[@]}"; do
	ends_well "$t" "$T/$t"
done

corpus=$top/selftests/user/guest/corpus
# `make fuzz` tries others.
ends_well "the seeds of fuzz_guest" "$T/fuzz_guest" -runs=0 "$corpus"
# Not compat.c and compat_user.c, which find the kernel's functions by probes: what they find
# here are the stand-ins.
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
