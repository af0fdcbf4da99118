#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The host side in user space: every operation and error, a failure of each allocation and each
# access to guest memory, 8 vCPUs at the same time, hostile memory.
# vm: none
# tier: quick
# programs: unit_test threads_test fuzz_host fuzz_kinds
# packages: @build @user
# seconds: 150
top=$(realpath "$(dirname "$0")/../..")
. "$top/selftests/tap.sh"
corpus=$top/selftests/user/corpus
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1

export LLVM_PROFILE_FILE=$dir/%p.profraw
ends_well unit_test "$T/unit_test"
ends_well threads_test "$T/threads_test" 14
ends_well "the seeds of fuzz_host" "$T/fuzz_host" -runs=0 "$corpus"
mkdir new
# The inputs are the same in each run: the seeds have a fixed order, and addresses are not
# random if this machine allows that, nor do they depend on the size of the environment.
# `make fuzz` tries other inputs.
printf '%s\n' "$corpus"/* | sort | paste -sd, >seeds
fixed=(env -i LLVM_PROFILE_FILE="$LLVM_PROFILE_FILE" setarch --addr-no-randomize)
"${fixed[@]}" true 2>/dev/null || fixed=()
ends_well fuzz_host "${fixed[@]}" "$T/fuzz_host" -seed=1 -runs=20000 -max_len=2048 \
	-timeout=100 -reload=0 -verbosity=0 -print_final_stats=1 \
	-seed_inputs=@seeds new
more "fuzz_host runs sequences of hypercalls" \
	"$(awk '/number_of_executed_units/ { print $2 }' out)" 19999
mkdir kinds
ends_well fuzz_kinds "${fixed[@]}" "$T/fuzz_kinds" -seed=1 -runs=10000 -max_len=500 \
	-len_control=0 -timeout=100 -reload=0 -verbosity=0 -print_final_stats=1 kinds
more "fuzz_kinds moves a vCPU between kinds of cores" \
	"$(awk '/number_of_executed_units/ { print $2 }' out)" 9999

# The measured programs do not take these branches: the retry of pv_perf_charge(), which needs
# two vCPUs at the same instant (threads_test, whose coverage is not measured); a QUERY with a
# smaller struct than this version's; and failing assertions in the stand-ins' macros.
llvm-profdata merge -o profile ./*.profraw
llvm-cov report --show-branch-summary -instr-profile profile "$T/unit_test" \
	-object "$T/fuzz_host" -object "$T/fuzz_kinds" "$top"/host/*.c >coverage
awk '/^(Filename|pv_perf|TOTAL)/ { print "# " $1, "branches", $(NF - 2),
	"missed", $(NF - 1), $NF }' coverage
more "branches of host/ in percent" \
	"$(awk '/^TOTAL/ { print int($NF) }' coverage)" 93
finish
