#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The functions of tap.sh pass and fail in the right cases.
# vm: none
# tier: quick
# seconds: 2
top=$(realpath "$(dirname "$0")/../..")
. "$top/selftests/tap.sh"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
printf 'a line\n' >file
: >nothing
printf 'ok 1 a\nok 2 b\n1..2\n' >two
printf 'ok 1 a\n1..2\n' >fewer
printf 'ok 1 a\nnot ok 2 b\n1..2\n' >fails
printf 'ok 1 a\n' >short
printf 'WARNING: CPU: 0\n' >warning
printf 'WARNING: See https://kernel.org/doc\n' >harmless

# outcome COMMAND...: the exit status of a script that only runs this command, and whether some
# or none of its results fail
outcome() {
	local status
	# shellcheck disable=SC2016 # the script's
	bash -c '. "$0"; "$@"; finish' "$top/selftests/tap.sh" "$@" >printed 2>&1
	status=$?
	if grep -q '^not ok ' printed; then
		echo "$status some"
	else
		echo "$status none"
	fi
}

passes() {
	is "passes: $*" "$(outcome "$@")" "0 none"
}

fails() {
	is "fails: $*" "$(outcome "$@")" "1 some"
}

passes ok name true
fails ok name false
passes is name a a
fails is name a b
fails is name '' ''
fails is name a ''
passes none name ''
fails none name a
passes empty name nothing
fails empty name file
fails empty name no-such-file
passes within name 101 100 1
fails within name 102 100 1
fails within name 0 0 1
fails within name '' '' 1
fails within name '<not counted>' 100 1
passes more name 2 1
fails more name 1 1
fails more name '' 1
passes has name 'a l' file
fails has name 'b l' file
fails has name 'a l' no-such-file
passes no_warning name file harmless
fails no_warning name file warning
fails no_warning name nothing
fails no_warning name no-such-file
passes tap_file name two
fails tap_file name fewer
fails tap_file name fails
fails tap_file name short
echo 1..0 >none
fails tap_file name none
fails tap_file name nothing
fails tap_file name no-such-file
{
	cat fewer
	echo 'ValueError: invalid literal'
} >broken
fails tap_file name broken
has "tap_file prints what a program that ended early has said" '^# ValueError' printed
passes ends_well name true
passes ends_well name cat two
fails ends_well name false
fails ends_well name sh -c 'cat two; exit 3'
fails ends_well name cat fewer
is "the output of ends_well is in the file out" "$(cat out)" "$(cat fewer)"
finish
