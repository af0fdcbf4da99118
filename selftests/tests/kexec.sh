#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A guest's kernel starts another kernel: by kexec, after a crash, and at a reboot.
# vm: host --no-icount --host-cpus 2 --timeout 3000
# tier: all
# machines: amd
# needs: memory-initrd
# seconds: 200
exec "$VM_TREE/selftests/life/kexec"
