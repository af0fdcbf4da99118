#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# How many VM exits profiling takes in a guest: none more than it may.
# vm: none
# tier: test
# machines: amd intel
# needs: machine
# programs: workload
# seconds: 80, on intel 128
exec "$(dirname "$0")/../bench/bench" --exits-only
