#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Shell scripts pass shellcheck, and none of their pipes ends early. Python passes pylint,
# and pv-perf needs no feature that Python 3.9 does not have. Text passes codespell. Each
# check finds a planted fault.
# vm: none
# tier: quick
# packages: shellcheck pylint mypy codespell
# seconds: 60
top=$(realpath "$(dirname "$0")/../..")
. "$top/selftests/tap.sh"
cd "$top" || exit 1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# The misspelt word is composed here, because this file must not contain it.
printf '"""Has a fault."""\nprint(%s)\n' nobody_defines_this >"$dir/pylint"
printf 'import itertools\nprint(*itertools.pairwise([1, 2]))\n' >"$dir/python39"
printf '%s%s\n' 'A word that is re' 'cieved.' >"$dir/codespell"
printf '#!/bin/bash\nfor f in $(%s); do echo $f; done; unused=1\n' 'ls' >"$dir/shellcheck"
printf '#!/bin/bash\nset -euo pipefail\n%s | awk "{ print; exit }"\n' 'seq 3' >"$dir/pipes"

for linter in shellcheck pipes pylint python39 codespell; do
	selftests/lint $linter >"$dir/out" 2>&1
	status=$?
	head -n 40 "$dir/out" | sed 's/^/# /'
	is "$linter finds nothing" $status 0
	selftests/lint $linter "$dir/$linter" >"$dir/out" 2>&1
	status=$?
	is "$linter finds a planted fault" "$((status != 0)) $(grep -c "$dir/$linter" "$dir/out" |
		sed 's/^[1-9].*/found/')" "1 found"
done
finish
