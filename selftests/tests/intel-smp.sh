#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The pair's life cycle on the emulated machine with two Intel CPUs.
# vm: host --cpu intel --host-cpus 2 --timeout 1200
# tier: all
# machines: intel
# needs: bochs
# programs: life_test
# debug: no
# seconds: 47
. "$VM_TREE/selftests/tap.sh"
cd "$VM_SCRATCH" || exit 1

"$VM_TREE/build/tests/life_test" >out 2>&1
is "life_test ends well" $? 0
tap_file life_test out
finish
