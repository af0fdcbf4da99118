#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Each check of pv-perf qualify fails if the fault that it looks for is planted in the modules
# that it loads, and works without a fault: selftests/qualify/faults. One boot of the emulated
# host loads them all, one after the other.
# vm: none
# tier: all
# machines: zen4
# needs: machine build/pv-perf-doctor
# packages: qemu-system-x86 binutils
# seconds: 900
#
#	qualify-faults.sh [NAME...]
#
# A fault is a patch, NAME.patch, whose first line is
#
#	CHECK [ROW]: WHAT IS WRONG
#
# The check CHECK has to fail, or the row ROW of the report if another row has to say so.
self=$(realpath "$0")
tree=${self%/selftests/*}
. "$tree/selftests/tap.sh"
. "$tree/selftests/qualify/lib.sh"
faults=$tree/selftests/qualify/faults
line=${VM_KERNEL:-6.1}
built=$tree/build/tests/qualify-faults

# row NAME FIELD: a field of a row of the last report
row() {
	/usr/bin/python3 -c 'import json, sys
print(*[c[sys.argv[2]] for c in json.load(open("report.json"))["checks"] if c["name"] == sys.argv[1]])' "$@"
}

# qualify NAME CHECKS: with these modules
qualify() {
	rm -f report.json
	"$tree/tools/pv-perf" qualify --yes --built "$built/$1" --checks "$2" -o report >out 2>&1
}

# found NAME CHECK ROW WHAT
found() {
	local title
	qualify "$1" "$2"
	is "$1 ($4): qualify fails" $? 1
	is "$1: \"$3\" differs" "$(row "$3" verdict)" differs
	title=$(row "$3" title)
	has "$1: the last sentence says what differs" \
		"^Do not use the pair on this CPU yet: .*$title" out
	ok "$1: qualify says what that means to a user" grep -qF "$(row "$3" meaning)" out
	echo "# $(row "$3" why | cut -c -150)"
}

# read_fault NAME: sets check, row and what
read_fault() {
	IFS=: read -r check what <"$faults/$1.patch"
	read -r check shown <<<"$check"
	shown=${shown:-$check}
}

on_host() {
	local name check shown what checks=
	for name; do
		read_fault "$name"
		[[ ,$checks = *,$check,* ]] || checks+=$check,
	done
	qualify none "${checks%,}"
	is "without a fault, all these checks work: ${checks%,}" $? 0
	grep -A 2 ^differs out | sed 's/^/# /'
	for name; do
		read_fault "$name"
		found "$name" "$check" "$shown" "${what# }"
	done
}

if [ -n "${VM_LEVEL-}" ]; then
	cd "$VM_SCRATCH" || exit 1
	boot_kernel vmlinux
	on_host "$@"
	finish
fi
names=("$@")
if [ $# = 0 ]; then
	for name in "$faults"/*.patch; do
		name=${name##*/}
		names+=("${name%.patch}")
	done
fi
mkdir -p "$built"
if [ -z "${QUALIFY_FAULTS_BUILT-}" ]; then
	"$tree/selftests/qualify/build-faults" "$line" "$built" none "${names[@]}" || exit 1
fi
build_checks "$built"
for name in none "${names[@]}"; do
	ln -sf "$built/checks" "$built/$name/checks"
done
# The host's log has to have a report of a fault, too.
exec "$vm" host --cpu zen4 --stock-kvm --host-cpus 2 --timeout 3000 \
	--ignore 'BUG: planted by a test' -- "$self" "${names[@]}"
