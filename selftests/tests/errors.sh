#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The errors that programs see of perf_event_open() and of the system calls on
# its file descriptor: each on the host and in a guest, as root and as a user.
# vm: host --host-cpus 2 --kvm-opt pv_perf_max_counters=6 --timeout 1200
# tier: test
# machines: amd intel
# programs: open_errors
# seconds: 120, on intel 232
. "$VM_TREE/selftests/tap.sh"
cd "$VM_SCRATCH" || exit 1

# Cases that may differ: regular expressions for "who/group/case: host guest".
allowed() {
	# Of Intel's CPUs the records of the branches, LBR call stacks among them, are
	# registers that are not switched for this.
	# Bits of the event select that this CPU has not, or that count what else runs
	# on the core (AnyThread), and config1 of events that have it on newer CPUs: the
	# guest cannot have them, and does not ignore them.
	[ "$kvm_vendor" != kvm-intel ] || cat <<-'END'
		/branch/.*(branch stack|LBR call stack).*: [A-Za-z]+ EOPNOTSUPP$
		/raw/.*config (0x(ffffffff)+|0x[1f]000000..|bit (21|32|33|36|4[0-7])): [A-Za-z]+ EOPNOTSUPP$
		/raw/event 0x[1235679abdef]..: [A-Za-z]+ EOPNOTSUPP$
		/raw/event 0x4c2, config1 8: [A-Za-z]+ ENOENT$
	END
	cat <<-'END' | grep -v '^#'
	# No exact address without the host's PEBS or IBS, which count and sample
	# by memory and registers of the host: max_precise is 0.
	/(flag|combination)/.*precise_ip.*: [A-Za-z]+ EOPNOTSUPP$
	# A group's events are one by one for the host: that an event takes two
	# of its counters shows once the group does not count.
	/large_group/flops, [4-6] of them, enabled: EINVAL ok$
	# The limit on frequencies is a variable that modules cannot reach: the
	# host's limit refuses it, and the period stays.
	/ioctl/frequency, PERIOD 2147483647: EINVAL ok$
	END
}

# Group, and what it is.
groups="hardware:generic events
cache:cache events
raw:raw events
type:types of PMUs
config:config1 and further
flag:every flag
combination:flags with others and with fields
sample:every sample_type
branch:branch stacks
regs:registers and stacks of samples
period:periods and frequencies
format:every read_format
size:sizes of the attr
breakpoint:breakpoints
pid_cpu:tasks and CPUs
argument:group_fd and flags
group:groups
large_group:groups that are larger than the PMU
ioctl:ioctls
read:reads
mmap:mappings"

open_errors() {
	"$VM_TREE/build/tests/open_errors" "$@"
}

record() {
	echo 2 >/proc/sys/kernel/perf_event_paranoid
	# Or perf lowers the rate that frequencies are compared with.
	echo 0 >/proc/sys/kernel/perf_cpu_time_max_percent

	open_errors >"$VM_LEVEL.root"
	setpriv --reuid=65534 --regid=65534 --clear-groups \
		"$VM_TREE/build/tests/open_errors" >"$VM_LEVEL.user"
	echo 0 >/sys/devices/system/cpu/cpu1/online
	open_errors pid_cpu >"$VM_LEVEL.offline"
	echo 1 >/sys/devices/system/cpu/cpu1/online
}

# Prints "who/group/case: host guest" of each case that differs, or is missing on one side.
differences() {
	awk -F': ' -v who="$1" '
		NR == FNR { host[$1] = $2; next }
		host[$1] != $2 { print who "/" $1 ": " (host[$1] ? host[$1] : "-"), $2 }
		{ delete host[$1] }
		END { for (i in host) print who "/" i ": " host[i] " -" }' \
		"host.$1" "guest.$1"
}

# same WHO GROUP NAME: but for what may differ
same() {
	local cases differ
	cases=$(grep -c "^$2/" "host.$1")
	differ=$(grep -c "^$1/$2/" unexpected)
	echo "# $1, $3: $cases cases, of which $differ differ"
	grep "^$1/$2/" unexpected | head -n 50 | sed 's/^/#   /'
	ok "$1, $3" test "$cases" -ge 30 -a "$differ" = 0
}

record
[ "$VM_LEVEL" = host ] || exit 0

"$VM_TREE/selftests/vm" guest --cpus 2 -- "$0"
is "the guest's part ends well" $? 0
allowed >allowed
for who in root user offline; do
	differences $who
done >different
grep -Evf allowed different >unexpected
grep -Ef allowed different | sed 's/^/# may differ: /'

for who in root user; do
	while IFS=: read -r group name; do
		same $who "$group" "$name"
	done <<<"$groups"
done
same offline pid_cpu "CPU 1: tasks and CPUs"
# Events that this CPU has: else both sides might have failed alike above.
if grep -qw amd_lbr_v2 /proc/cpuinfo; then
	is "a branch stack can be opened" \
		"$(grep -c '^branch/sampling, branch stack of any, bit 3: ok' guest.user)" 1
fi
is "a generic event can be opened" \
	"$(grep -c '^hardware/config [01]: ok' guest.user)" 2
finish
