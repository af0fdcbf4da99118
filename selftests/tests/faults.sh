#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Faults planted in host/ and guest/: a user-space test catches each. selftests/faults/run
# says what a fault is.
# vm: none
# tier: all
# programs: unit_test threads_test guest_hypervisor guest_init guest_limit guest_sample
# packages: @build @user
# seconds: 200
exec "$(dirname "$0")/../faults/run"
