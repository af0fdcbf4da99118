#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# pv-perf qualify on the emulated machine with a hybrid CPU: all checks of a guest pass while
# the guest runs on both kinds of cores, and the report names the kinds.
# vm: none
# tier: intel
# machines: intel
# needs: machine bochs build/pv-perf-doctor
# debug: no
# seconds: 600
tree=$(realpath "$(dirname "$0")/../..")
self=$(realpath "$0")
. "$tree/selftests/tap.sh"
. "$tree/selftests/qualify/lib.sh"
built=$tree/build/tests/hybrid-qualify/built

# of_report EXPRESSION: prints a value of the report r
of_report() {
	python3 -c "import json; r = json.load(open('report.json')); print($1)"
}

in_host() {
	cd "$VM_SCRATCH" || exit 1
	# The kernel as Debian has it: Bochs takes minutes to unpack that.
	boot_kernel vmlinux
	"$tree/tools/pv-perf" qualify --yes --built "$built" \
		-o report >qualify.out 2>&1
	is "qualify finds no difference" $? 0
	sed 's/^/# /' qualify.out
	is "the report has the kinds of cores" "$(of_report "r['kinds of cores']")" \
		"{'cpu_atom': 1, 'cpu_core': 1}"
	is "no check differs" \
		"$(of_report "[c['name'] for c in r['checks'] if c['verdict'] == 'differs']")" "[]"
	more "at least 15 checks work" \
		"$(of_report "sum(c['verdict'] == 'works' for c in r['checks'])")" 14
	is "the check 'move' works: the vCPU moves between the kinds" \
		"$(of_report "[c['verdict'] for c in r['checks'] if c['name'] == 'move']")" \
		"['works']"
	finish
}

if [ $# -gt 0 ]; then
	"$@"
	exit
fi
prepare_built "$built"
cd "${built%/*}" || exit 1
ends_well "hybrid host" "$vm" host --cpu hybrid --stock-kvm --timeout 3000 -- "$self" in_host
finish
