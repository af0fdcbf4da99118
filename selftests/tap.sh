# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034 # variables are for those who source it
#
# TAP for test scripts, like the kernel's ktap_helpers.sh (Linux 6.8 and later).
# A script sources this, calls these functions, and ends with `finish`.

tap_n=0
tap_failed=0
# The tree, the folder of the tests' programs, and the tool that runs a command on the emulated
# machine.
tree=$(realpath "${BASH_SOURCE[0]%/*}/..")
T=$tree/build/tests
vm=$tree/selftests/vm
# The module of KVM for this machine's CPU: kvm-amd or kvm-intel; lsmod and sysfs
# call it kvm_amd or kvm_intel.
kvm_vendor=kvm-$(grep -q GenuineIntel /proc/cpuinfo && echo intel || echo amd)

# The guest driver's message for an event that has lost its counter. lost.sh provokes the
# message.
says_lost='the host needed the counter of a running event, which is scaled now'

# long: succeeds if LONG=1 is set: the test then also runs parts that take long and rarely find
# anything. The test's first comment names these parts.
long() {
	[ -n "${VM_LONG-}" ]
}

# driver_is_built_in: succeeds if the guest's driver is built into this kernel, which has the
# series for mainline
driver_is_built_in() {
	case $VM_KERNEL in
	*-core|*-series) ;;
	*)	false ;;
	esac
}

# ok NAME COMMAND...: passes when the command succeeds
ok() {
	local name=$1 mark=ok
	shift
	"$@" || { mark="not ok"; tap_failed=1; }
	tap_n=$((tap_n + 1))
	echo "$mark $tap_n $name"
}

# is NAME GOT WANT: GOT is WANT, and WANT is not empty. An empty WANT would be the output of a
# command that has failed, and GOT might be the same.
is() {
	local same=no
	[ -z "$3" ] || [ "$2" != "$3" ] || same=yes
	[ $same = yes ] || echo "$1: got '$2', want '$3'" | sed 's/^/# /'
	ok "$1" [ $same = yes ]
}

# none NAME GOT: GOT is empty. The test proves elsewhere that the command of GOT can print
# something.
none() {
	[ -z "$2" ] || echo "$1: got '$2'" | sed 's/^/# /'
	ok "$1" [ -z "$2" ]
}

# empty NAME FILE: the file exists and is empty
empty() {
	[ ! -s "$2" ] || head -n 40 "$2" | sed 's/^/# /'
	ok "$1" [ -f "$2" -a ! -s "$2" ]
}

# no_warning NAME FILE...: these kernel logs exist, are not empty, and have no report
no_warning() {
	local name=$1 file found
	shift
	found=$(for file; do
		[ -s "$file" ] || echo "$file is empty"
		grep -E 'WARNING:|BUG:|Call Trace|unknown reason' "$file" |
			grep -v 'WARNING: See https'
	done 2>&1)
	none "$name" "$found"
}

# within NAME GOT WANT PERCENT: GOT is WANT, which is not 0, to within PERCENT
within() {
	local verdict
	verdict=$(awk -v g="$2" -v w="$3" -v p="$4" 'BEGIN {
		if (g !~ /^[0-9.]+$/ || w !~ /^[0-9.]+$/ || w == 0) { print "no"; exit }
		d = g - w; if (d < 0) d = -d
		print d <= w * p / 100 ? "yes" : "no" }')
	echo "# $1: $2 against $3, at most $4 %"
	is "$1" "$verdict" yes
}

# more NAME GOT THAN: GOT is greater than THAN
more() {
	echo "# $1: $2"
	ok "$1" test "$2" -gt "$3"
}

# has NAME REGEX FILE: the file has a line that matches; if not, has shows the file's end
has() {
	local found=yes
	# Read the file only once, because it may be a pipe.
	grep -qE -- "$2" "$3" || found=no
	if [ $found = no ]; then
		echo "# $1: no '$2' in:"
		tail -n 15 "$3" | sed 's/^/#   /'
	fi
	ok "$1" [ $found = yes ]
}

# show_others FILE: prints what a program has said beside its results
show_others() {
	grep -vE '^((not )?ok |1\.\.|#)' "$1" | tail -n 40 | sed 's/^/# /'
}

# tap_file PREFIX FILE: the results of a program become results of this script, renumbered. If
# their number is not the program's plan, or 0, as of a part whose name is wrong, a result fails,
# the function prints what else the program has said, and returns 1.
tap_file() {
	local line mark before=$tap_n plan=none
	while read -r line; do
		case $line in
		"ok "*|"not ok "*)
			mark=${line%%ok*}ok
			tap_n=$((tap_n + 1))
			[ "$mark" = ok ] || tap_failed=1
			echo "$mark $tap_n $1: ${line#*ok * }"
			;;
		1..*)	plan=${line#1..} ;;
		"#"*)	echo "$line" ;;
		esac
	done <"$2"
	[ "$plan" != 0 ] || plan="more than 0"
	[ $((tap_n - before)) != "$plan" ] || return 0
	is "$1: the number of results" $((tap_n - before)) "$plan"
	[ ! -e "$2" ] || show_others "$2"
	return 1
}

# ends_well NAME COMMAND...: the command has status 0. If the command prints TAP, its results
# become results of this script. The command may be a program, or $vm with a part of a test.
# The file out has the command's output.
ends_well() {
	local name=$1 status
	shift
	"$@" >out 2>&1
	status=$?
	if ! grep -qE '^(1\.\.[0-9]|(not )?ok [0-9])' out || tap_file "$name" out; then
		[ $status = 0 ] || show_others out
	fi
	is "$name ends well" $status 0
}

# on_guest TITLE PART OPTION...: runs a part of this test in a guest with these options of vm.
# The part is the script's first argument in the guest. The part's results become results here.
on_guest() {
	local title=$1 part=$2 status
	shift 2
	"$vm" guest "$@" -- "$0" "$part" >"$title.tap" 2>&1
	status=$?
	! tap_file "$title" "$title.tap" || [ $status = 0 ] || show_others "$title.tap"
	is "$title: the guest ends well" $status 0
}

# until_true COMMAND...: repeats the command until it succeeds, at most $VM_PATIENCE minutes
until_true() {
	for _ in $(seq $((300 * ${VM_PATIENCE:-1}))); do
		"$@" && return
		sleep 0.2
	done
	return 1
}

# pause SECONDS: sleeps without a program. On the emulated machine, instructions of one CPU
# advance the clock of all CPUs, and a program would be read from the machines below.
exec {tap_nothing}<> <(:)
pause() {
	# The timeout is not a failure: there is nothing to read.
	read -rt "$1" -u "$tap_nothing" || true
}

# wait_for FILE [PID]: waits until the file exists, which another level may make, or until the
# process has ended
wait_for() {
	while [ ! -e "$1" ]; do
		[ -z "${2-}" ] || kill -0 "$2" 2>/dev/null || return
		pause 0.1
	done
}

# objects SLAB: prints the number of objects in use.  Shrinking empties the slabs of each CPU,
# whose free objects would count as used.
objects() {
	echo 1 >"/sys/kernel/slab/$1/shrink"
	awk -v s="$1" '$1 == s { print $2 }' /proc/slabinfo
}

# no_more SLAB THAN: the slab has at most THAN objects in use; sets now
no_more() {
	now=$(objects "$1")
	[ "$now" -le "$2" ]
}

# needs_line LINE NAME: builds this kernel line's modules in $tree, one test at a time. If the
# build fails, needs_line fails and prints a result: a SKIP if Debian does not have the line
# now
needs_line() {
	local log
	log=$(mktemp)
	if flock "$tree/build" make -s -C "$tree" "build/linux-$1/initrd" \
			"build/linux-$1/modules.built" >"$log" 2>&1; then
		rm "$log"
		return
	fi
	if grep -q 'No version of kernel' "$tree/build/log/kernel-$1.log"; then
		ok "$2 # SKIP Debian has no Linux $1 now" true
	else
		tail -n 20 "$log" | sed 's/^/# /'
		ok "$2: Linux $1 is built" false
	fi
	rm "$log"
	return 1
}

finish() {
	echo "1..$tap_n"
	exit $tap_failed
}

# count EVENT FILE: prints an event's count from the output of perf stat -x,
count() {
	awk -F, -v e="$1" '$3 == e { print $1; exit }' "$2"
}

# samples_of FILE: prints the number of samples of one task in a recording.  perf record may
# write a sample twice that comes while perf reads new samples (perf_mmap__push(), Linux 6.1
# to 7.3)
samples_of() {
	perf script -i "$1" -F time,ip --ns 2>/dev/null | sort -u | wc -l
}
