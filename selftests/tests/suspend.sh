#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# perf runs in a guest while a CPU goes offline and online, and while the guest is suspended to
# idle and to memory.
# vm: host --no-icount --host-cpus 2 --kvm-opt pv_perf_rdpmc=5 --timeout 3000
# tier: all
# machines: amd
# needs: memory-initrd
# seconds: 100
exec "$VM_TREE/selftests/life/suspend"
