#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# KVM's own tests of what the series changes: they end the same with KVM's stock modules
# and with ours, with the emulated virtual PMU and with the mediated one.
# vm: none
# tier: intel
# machines: intel
# needs: machine series
# packages: unifdef uuid-dev libelf-dev
# lines: 7.3
# debug: no
# seconds: 300
tree=$(realpath "$(dirname "$0")/../..")
. "$tree/selftests/tap.sh"
out=$tree/build/tests/kvm-selftests.out

needs_line 7.3 "KVM's own tests" || finish
"$tree/series/compare-selftests" "$tree/build/series/kernel" 7.3 >"$out" 2>&1
is "KVM's own tests end the same with the stock modules and with ours" $? 0
sed 's/^/# /' "$out"
finish
