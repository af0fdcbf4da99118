#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A guest migrates from QEMU to QEMU, and to a QEMU without the feature, while perf runs in
# the guest.
# vm: host --no-icount --host-cpus 2 --kvm-opt pv_perf_rdpmc=5 --timeout 3000
# tier: all
# machines: amd intel
# needs: memory-initrd
# seconds: 300, on intel 853
exec "$VM_TREE/selftests/life/migrate"
