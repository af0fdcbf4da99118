#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Profiling in a guest causes at most the allowed number of VM exits.
# vm: none
# tier: test
# machines: amd intel
# needs: machine
# programs: workload
# seconds: 80, on intel 128
exec "$(dirname "$0")/../bench/bench" --exits-only
