#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A guest migrates from a hybrid host to a host with one kind of cores, and back. Named events
# continue exactly. Raw events do not count on a host of another kind until they are opened
# again.
# vm: none
# tier: intel
# machines: intel
# needs: machine bochs memory-initrd
# programs: mover
# debug: no
# seconds: 700
tree=$(realpath "$(dirname "$0")/../..")
. "$tree/selftests/tap.sh"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# run PART CPU: run this part on a host with this CPU
run() {
	local status
	"$vm" host --cpu "$2" --no-icount --timeout 3000 --scratch "$dir" \
		-- "$tree/selftests/life/other-kinds" "$1" >"$dir/$1.out" 2>&1
	status=$?
	[ $status = 0 ] || grep -vE '^((not )?ok |#)' "$dir/$1.out" | tail -n 40 | sed 's/^/# /'
	is "$1 part: the host ends well" $status 0
	tap_file "on $2" "$dir/$1.out"
}

run first hybrid
run second intel
run third hybrid
finish
