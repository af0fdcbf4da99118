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

ends_well life_test "$T/life_test"
finish
