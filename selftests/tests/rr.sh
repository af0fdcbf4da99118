#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Debian's rr records a shell and a data race in a guest, and replays them there. The test
# rr-programs records more programs, in more ways.
# vm: host
# tier: test
# machines: amd
# programs: conditional race
# packages: rr
# seconds: 60
. "$VM_TREE/selftests/rr.sh"

in_guest() {
	exact
	same "bash" -- bash -c "$bash_code"
	same_race "a race"
}

if [ $# -gt 0 ]; then
	"$1"
	finish
fi

exact
same_race "on the host, a race"
on_guest "in a guest" in_guest --mem 1024
finish
