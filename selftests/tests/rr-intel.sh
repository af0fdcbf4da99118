#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Debian's rr on a machine with an Intel CPU: what rr-programs does, with fewer programs. The CPU
# is a later model than that of the other tests, because Linux refuses a period of rr on Haswell.
# vm: host --cpu skylake --host-cpus 2 --kvm-opt pv_perf_rdpmc=5 --timeout 20000
# tier: all
# machines: intel
# needs: bochs
# programs: conditional race turns backwards
# packages: rr gdb gcc
# debug: no, it takes hours
# seconds: 4000
exec "$VM_TREE/selftests/tests/rr-programs.sh"
