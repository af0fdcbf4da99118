#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A guest that loses a CPU and gets it back, and that is suspended, to idle and
# to memory, while perf runs in it.
# vm: host --no-icount --host-cpus 2 --kvm-opt pv_perf_rdpmc=5 --timeout 3000
# tier: all
# machines: amd
# needs: memory-initrd
# seconds: 100
exec "$VM_TREE/selftests/life/suspend"
