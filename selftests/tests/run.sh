#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The runner of the tests: the tests that it chooses, the results that it counts, and its
# messages if a test fails, cannot be built, or lacks a package.
# vm: none
# tier: quick
# seconds: 10
tree=$(realpath "$(dirname "$0")/../..")
. "$tree/selftests/tap.sh"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir"/selftests/{tests,machine}
cp -r "$tree"/selftests/{run,vmlib} "$dir/selftests/"
cp "$tree"/selftests/machine/{install-packages,stage} "$dir/selftests/machine/"
cd "$dir" || exit 1
unset VM_CPU VM_KERNEL NO_INSTALL
printf 'broken:\n\t@echo no compiler; false\nbuild/tests/%%:\n\t@echo $@ >>made\n' >Makefile

# test_of NAME TIER 'KEY: VALUE'... <BODY: make a test that appends its name to the file ran
test_of() {
	local name=$1 tier=$2
	shift 2
	{
		printf '#!/bin/sh\n# vm: none\n# tier: %s\n# seconds: 1\n' "$tier"
		[ $# = 0 ] || printf '# %s\n' "$@"
		echo "echo $name >>'$dir/ran'"
		cat
	} >"selftests/tests/$name.sh"
	chmod +x "selftests/tests/$name.sh"
}

# run ARGUMENT...: run the runner; its output is in out, its status in status, and the names of
# the tests in ran
run() {
	: >ran
	selftests/run "$@" >out 2>&1
	status=$?
}
ran() {
	sort ran | paste -sd' '
}

test_of good quick 'programs: one two' <<<'echo ok 1 a; echo ok 2 b; echo 1..2'
test_of emulated test 'machines: amd intel' <<<'echo ok 1 a; echo 1..1'
test_of slow all 'machines: amd' <<<'sleep 1.1; echo ok 1 a "# SKIP not today"; echo 1..1'
test_of bare intel 'machines: intel' <<<'echo ok 1 a; echo 1..1'

run --tier quick
is "the tier quick runs the quick tests" "$(ran)" good
is "the results of the tier quick are counted in the last line" "$status $(tail -n 1 out)" \
	"0 2 passed, 0 failed"
is "the runner builds the needs of the tier quick" "$(sort made | paste -sd' ')" \
	"build/tests/one build/tests/two"
run
is "the default tier is test, which includes the tier quick" "$(ran)" "emulated good"
run --tier all --continue
is "with --continue the tier all leaves out the tests of the last run" "$(ran)" slow
is "with --continue the last line also counts the results of the last run" \
	"$status $(tail -n 1 out)" \
	"0 3 passed, 0 failed, 1 skipped"
has "the last line but one names the test that took longest" \
	'^==> the longest: slow [12] s$' out
run --tier all
is "without --continue the tier all runs all its tests" "$(ran)" "emulated good slow"
has "the runner writes the results of a tier for make results" \
	'^    \["emulated", 1, 0, 0, [0-9]*\],$' build/results/tests-amd-6.1.json
has "the results of a tier have the command that repeats them" '"command": "make test-all",' \
	build/results/tests-amd-6.1.json
rm build/results/tests-amd-6.1.json
VM_CPU=intel run --tier intel
is "the tier intel runs all tests for the Intel machine" "$(ran)" "bare emulated"
VM_KERNEL=6.1-debug run --tier all
is "with a kernel with checks only tests on an emulated machine run" "$(ran)" "emulated slow"
run slow
is "a test that is named runs alone" "$(ran)" slow
is "a run of a named test writes no results to record" \
	"$(test -e build/results/tests-amd-6.1.json; echo $?)" 1
is "if nothing passes, the run fails" "$status $(tail -n 1 out)" \
	"1 0 passed, 0 failed, 1 skipped"

test_of lacks quick 'packages: no-such-package' <<<'echo ok 1 a; echo 1..1'
run --tier quick
is "a quick test that lacks a package does not run" "$(ran)" good
has "the run names the package to install" '^==> lacks: .* apt install no-such-package$' out
is "a test that lacks a package is counted as skipped" \
	"$(tail -n 1 out)" "2 passed, 0 failed, 1 skipped"
rm selftests/tests/lacks.sh

test_of fails test <<<'echo "not ok 1 that"; echo ok 2 this; echo 1..2; exit 1'
test_of stops test <<<'echo ok 1 a; echo 1..2'
test_of dies test <<<'echo ok 1 a; echo 1..1; exit 3'
test_of unbuilt test 'needs: broken' <<<'echo ok 1 a; echo 1..1'
run
is "a test that cannot be built does not keep other tests from running" "$(ran)" \
	"dies emulated fails good stops"
is "the last line counts failed tests" "$status $(tail -n 1 out)" "1 6 passed, 4 failed"
has "the run names a failed result" 'FAILED: that$' out
has "a test with fewer results than planned fails" \
	'FAILED: ended with status 0 after 1 results of 2' out
has "a test whose status is not 0 fails, also without a failed result" \
	'FAILED: ended with status 3 after 1 results of 1' out
has "if a test cannot be built, the run shows the end of make's output" \
	'^        no compiler$' out

printf '#!/bin/sh\n# vm: none\n# seconds: 1\n' >selftests/tests/bad.sh
run good
is "a run of a named test does not read the other tests" $status 0
run
is "the runner refuses a test without a tier" "$status $(grep -c 'tests/bad.sh: ' out)" "1 1"
finish
