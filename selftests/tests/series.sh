#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The patches for mainline are written, apply without fuzz, include all hooks and build, and
# checkpatch --strict finds nothing that is not explained.  The patches' test of the ABI passes
# on the emulated machine.
# vm: none
# tier: all
# machines: amd
# needs: qemu
# packages: unifdef uuid-dev libelf-dev
# lines: 7.3
# debug: no
# seconds: 300
tree=$(realpath "$(dirname "$0")/../..")
. "$tree/selftests/tap.sh"
cd "$tree" || exit 1
out=build/series
log=build/tests/series.out

# Debian removes this line's packages when it has a newer line.
line=7.3
needs_line $line "the patches for mainline" || finish

# written NAME COMMAND...: the command succeeds, and prints nothing but what it works on
written() {
	"${@:2}" >"$log" 2>&1
	is "$1" "$? $(grep -vE '^(make|writing |checking |asking )' "$log")" "0 "
}

written "the patches for the kernel are written" \
	series/write-kernel "build/linux-$line/source" $out/kernel
written "the patches for QEMU are written" series/write-qemu \
	"$(echo build/download/qemu_*.orig.tar.xz)" $out/qemu
for folder in series/kernel/[0-9]*; do
	name=${folder##*/}
	is "$name: all patches are in the file series" \
		"$(grep -c "/$name/" "$out/kernel/series")" \
		"$(find "$folder" -mindepth 1 -maxdepth 1 -type d | wc -l)"
done
for file in "$out"/qemu/000{1..3}-*.patch; do
	ok "the patch ${file##*/} is written" test -s "$file"
done

series/build-kernel --together "build/linux-$line/source" $out/kernel x86_64 \
	>"$log" 2>&1
is "the kernel's patches build" $? 0
sed -n '/error: /s/^/# /p' "$log"

series/build-selftests $out/kernel pv_perf_test >"$log" 2>&1
is "KVM's selftests are built" $? 0
selftests/vm host --kernel $line --timeout 900 -- \
	$out/kernel.selftests/x86/pv_perf_test >"$log" 2>&1
is "pv_perf_test ends well" $? 0
tap_file pv_perf_test "$log"
finish
