#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The runner of the tests: which ones it runs, what it counts, and what it says where a
# test fails, cannot be built, or lacks a package.
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

# test_of NAME TIER 'KEY: VALUE'... <BODY: notes that it has run
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

# run ARGUMENT...: what it prints is in out, its status in status, which tests ran in ran
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
is "the tier quick" "$(ran)" good
is "the results of the tier quick are counted in the last line" "$status $(tail -n 1 out)" \
	"0 2 passed, 0 failed"
is "what the tier quick needs has been built" "$(sort made | paste -sd' ')" \
	"build/tests/one build/tests/two"
run
is "the tier test, which is the default, has quick's" "$(ran)" "emulated good"
run --tier all --continue
is "the tier all, without those that the last run has run" "$(ran)" slow
is "the last line counts the results of the last run, too" "$status $(tail -n 1 out)" \
	"0 3 passed, 0 failed, 1 skipped"
has "the line before the last names what took longest" '^==> the longest: slow [12] s$' out
run --tier all
is "without --continue the tier all runs all its tests" "$(ran)" "emulated good slow"
has "the results of a tier are written for make results" \
	'^    \["emulated", 1, 0, 0, [0-9]*\],$' build/results/tests-amd-6.1.json
has "the results of a tier have the command that repeats them" '"command": "make test-all",' \
	build/results/tests-amd-6.1.json
rm build/results/tests-amd-6.1.json
VM_CPU=intel run --tier intel
is "the tier intel" "$(ran)" "bare emulated"
VM_KERNEL=6.1-debug run --tier all
is "with a kernel with checks, what runs on an emulated machine" "$(ran)" "emulated slow"
run slow
is "a test that is named runs alone" "$(ran)" slow
is "a test by its name has no results to record" \
	"$(test -e build/results/tests-amd-6.1.json; echo $?)" 1
is "if nothing passes, the run fails" "$status $(tail -n 1 out)" \
	"1 0 passed, 0 failed, 1 skipped"

test_of lacks quick 'packages: no-such-package' <<<'echo ok 1 a; echo 1..1'
run --tier quick
is "a quick test that lacks a package does not run" "$(ran)" good
has "the run says what to install" '^==> lacks: .* apt install no-such-package$' out
is "a test that lacks a package is counted as skipped" \
	"$(tail -n 1 out)" "2 passed, 0 failed, 1 skipped"
rm selftests/tests/lacks.sh

test_of fails test <<<'echo "not ok 1 that"; echo ok 2 this; echo 1..2; exit 1'
test_of stops test <<<'echo ok 1 a; echo 1..2'
test_of dies test <<<'echo ok 1 a; echo 1..1; exit 3'
test_of unbuilt test 'needs: broken' <<<'echo ok 1 a; echo 1..1'
run
is "a test that cannot be built keeps none from running" "$(ran)" \
	"dies emulated fails good stops"
is "tests that fail are counted" "$status $(tail -n 1 out)" "1 6 passed, 4 failed"
has "a result that fails is named" 'FAILED: that$' out
has "fewer results than planned are a failure" \
	'FAILED: ended with status 0 after 1 results of 2' out
has "a status without a result that fails is a failure" \
	'FAILED: ended with status 3 after 1 results of 1' out
has "a test that is not built is told with the end of what make has printed" \
	'^        no compiler$' out

printf '#!/bin/sh\n# vm: none\n# seconds: 1\n' >selftests/tests/bad.sh
run good
is "a test is not read if another is run by its name" $status 0
run
is "a test without a tier is refused" "$status $(grep -c 'tests/bad.sh: ' out)" "1 1"
finish
