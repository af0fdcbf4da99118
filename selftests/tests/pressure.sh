#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The memory of records is ballooned away, swapped out, migrated, mapped elsewhere, made
# read-only, and logged as dirty.
# vm: host --timeout 900
# tier: test
# machines: amd intel
# programs: pressure_test
# seconds: 10, on intel 9
. "$VM_TREE/selftests/tap.sh"
cd "$VM_SCRATCH" || exit 1

modprobe zram
echo 64M >/sys/block/zram0/disksize
mkswap /dev/zram0 >mkswap.log 2>&1 && swapon /dev/zram0
is "the host has swap space" $? 0

# Memory compaction runs during the test.
while [ ! -e stop ]; do
	echo 1 >/proc/sys/vm/compact_memory
	sleep 0.2
done &
ends_well pressure_test "$T/pressure_test"
touch stop
wait
finish
