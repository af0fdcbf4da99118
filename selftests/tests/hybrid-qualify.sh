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

# of_report EXPRESSION: prints a value of the report r
of_report() {
	python3 -c "import json; r = json.load(open('report.json')); print($1)"
}

in_host() {
	cd "$VM_SCRATCH" || exit 1
	cp "$tree/build/linux-$VM_KERNEL/image/boot/vmlinuz-$(uname -r)" /boot/
	PV_PERF_KEEP=1 "$tree/tools/pv-perf" qualify --yes --built "$VM_SCRATCH/built" \
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
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
kernel=$tree/build/linux-${VM_KERNEL:-6.1}
mkdir -p built/kvm built/guest
cp -L "$kernel"/kvm/{kvm,kvm-intel}.ko built/kvm/
cp -L "$kernel/guest/kvm_pmu.ko" built/guest/
gcc -O2 -static -D_GNU_SOURCE -o built/checks "$tree"/tools/pvperf/qualify/checks/*.c
is "the checks are built" $? 0
ends_well "hybrid host" "$vm" host --cpu hybrid --stock-kvm --scratch "$dir" --timeout 3000 \
	-- "$self" in_host
finish
