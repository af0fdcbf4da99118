#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The command line of pv-perf: --version, completion in bash, and messages about guests of
# libvirt.
# vm: none
# tier: quick
# packages: bash-completion python3-libvirt
# needs: build/pv-perf-doctor
# seconds: 10
tree=$(realpath "$(dirname "$0")/../..")
. "$tree/selftests/tap.sh"
. "$tree/selftests/report/functions"
begin cli

is "pv-perf --version names the source tree" \
	"$("$pv_perf" --version)" "pv-perf of the source tree $tree"
mkdir package
cp -r "$tree/tools/pv-perf" "$tree/tools/pvperf" package/
echo 20260102.030405 >package/version
is "pv-perf --version of a package prints the package's version" \
	"$(package/pv-perf --version)" "pv-perf 20260102.030405"
is "pv-perf-doctor --version names the source tree" \
	"$("$tree/build/pv-perf-doctor" --version)" \
	"pv-perf-doctor of the source tree"

# completed WORD...: bash's completions of the last word
completed() {
	bash -c '. /usr/share/bash-completion/bash_completion
		. "$0"
		COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*"
		COMP_POINT=${#COMP_LINE} COMP_TYPE=9 COMP_KEY=9
		_pv_perf
		printf "%s\n" "${COMPREPLY[@]}" | sort | paste -sd" "' \
		"$tree/tools/pv-perf.bash-completion" "$@" 2>&1
}
mkdir bin
printf '#!/bin/sh\necho web1\necho web2\necho db\n' >bin/virsh
chmod +x bin/virsh
export PATH=$PWD/bin:$PATH
is "bash completes commands of pv-perf" "$(completed "$pv_perf" re)" "record report"
is "bash completes options of a command" \
	"$(completed "$pv_perf" record --s)" "--seconds --strict --symbols"
is "bash completes options of the doctor" "$(completed "$pv_perf" doctor --no)" "--no-vms"
is "bash completes --vm with running domains" \
	"$(completed "$pv_perf" record -g --vm web)" "web1 web2"
touch a-session
is "bash completes files" "$(completed "$pv_perf" report a-s)" "a-session"
has "bash completes a program after --" '(^| )gzip( |$)' <(completed "$pv_perf" record -- gzi)

ends_well libvirt env PYTHONPATH="$tree/tools:$tree/selftests" /usr/bin/python3 -B \
	"$tree/selftests/programs/libvirt_test.py"
finish
