#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The documents: Sphinx builds them without a warning; they are short, have no dates, and are
# in a table of contents; references to documents, sections and files have a target; and
# tables are the ones that the recorded results give.
# vm: none
# tier: quick
# needs: build/linux-6.1/release
# packages: @build python3-sphinx
# seconds: 30
top=$(realpath "$(dirname "$0")/../..")
. "$top/selftests/tap.sh"
cd "$top" || exit 1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

selftests/docs --check >"$dir/out" 2>&1
status=$?
sed 's/^/# /' "$dir/out"
is "Sphinx builds the documents, and selftests/docs finds no fault" $status 0
selftests/results --check >"$dir/out" 2>&1
status=$?
sed 's/^/# /' "$dir/out"
is "the documents' tables agree with the recorded results" $status 0
is "the reference of the ABI is in its document" \
	"$(grep -c 'c.guest_perf_event_param' build/docs/html/abi.html | sed 's/[1-9].*/some/')" some

# All faults are planted in one copy.  selftests/docs must find each of them.
git ls-files -z --cached --others --exclude-standard | grep -zv '^selftests/user/corpus/' |
	xargs -0 cp --parents -t "$dir" 2>/dev/null
{
	# shellcheck disable=SC2016 # reST
	printf '\nSee :doc:`nowhere`.  It was 2026-01-31.  See section 4.2.\n'
	printf 'pv_perf_nothing.c does that.\n'
	yes '' | head -n 460
	echo 'The end.'
} >>"$dir/Documentation/limits.rst"
printf 'Alone\n=====\n' >"$dir/Documentation/alone.rst"
# shellcheck disable=SC2016 # Markdown
echo 'See [this](no/such/file), Documentation/gone.rst, and Documentation/abi.rst, "Gone".' \
	>>"$dir/CONTRIBUTING.md"
touch "$dir/selftests/machine/qemu/0099-a-patch.patch"
selftests/docs --check "$dir" >"$dir/out" 2>&1
status=$?
is "selftests/docs fails for planted faults" $status 1
for found in "nowhere" "limits.rst:.*a date" "limits.rst:.*section 4.2" \
	"limits.rst: .* lines, more than 450" "no file pv_perf_nothing.c" \
	"alone.rst.*toctree" "alone.rst: .* does not name it" \
	"no row for 0099-a-patch.patch" "CONTRIBUTING.md:.*no file no/such/file" "no document Documentation/gone.rst" \
	"abi.rst has no section 'Gone'"; do
	grep -q -- "$found" "$dir/out"
	is "selftests/docs finds the planted fault: $found" $? 0
done
finish
