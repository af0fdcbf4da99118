#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The other kernel lines, each as host and guest.  The test nested has the newest line as the
# host of the oldest.  make matrix runs all pairs.
# vm: none
# tier: all
# machines: amd
# needs: qemu
# programs: hypercall_test loop
# lines: 6.12 7.3
# debug: no
# seconds: 150
exec "$(dirname "$0")/../matrix" 6.12/6.12 7.3/7.3
