#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Debian's rr records a data race in a guest that migrates meanwhile, to hosts with and without
# RDPMC. The recording replays, also if the guest migrates during the replay.
# vm: host --no-icount --host-cpus 2 --kvm-opt pv_perf_rdpmc=5 --timeout 3000
# tier: all
# machines: amd
# needs: memory-initrd
# programs: race
# packages: rr
# seconds: 250
exec "$VM_TREE/selftests/life/rr-migrate"
