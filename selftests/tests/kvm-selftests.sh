#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# KVM's selftests of the code that the series changes end the same with KVM's stock modules
# and with the pair's, with the emulated and with the mediated virtual PMU.
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
is "KVM's own tests end the same with the stock modules and with the pair's" $? 0
sed 's/^/# /' "$out"
finish
