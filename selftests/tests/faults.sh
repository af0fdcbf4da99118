#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A user-space test catches each fault that selftests/faults/run plants in host/ and guest/.
# vm: none
# tier: all
# programs: unit_test threads_test guest_hypervisor guest_init guest_limit guest_sample
# packages: @build @user
# seconds: 200
exec "$(dirname "$0")/../faults/run"
