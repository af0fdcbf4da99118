#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# perf_event_open() and the system calls on its file descriptor fail with the same errors in
# a guest as on the host, for root and for a user.
# vm: host --host-cpus 2 --kvm-opt pv_perf_max_counters=6 --timeout 1200
# tier: test
# machines: amd intel
# programs: open_errors
# seconds: 120, on intel 232
. "$VM_TREE/selftests/tap.sh"
cd "$VM_SCRATCH" || exit 1

# Cases that may differ, as regular expressions for "who/group/case: host guest".
allowed() {
	# On Intel CPUs, the host does not switch the branch records (LBR), so that a guest
	# has no branch stacks and no LBR call stacks.
	# A guest cannot have bits of the event select that this CPU does not have, the bit
	# AnyThread, which counts the core's other threads, and config1 of events that use
	# config1 on newer CPUs only.  The guest's driver does not ignore these bits.
	[ "$kvm_vendor" != kvm-intel ] || cat <<-'END'
		/branch/.*(branch stack|LBR call stack).*: [A-Za-z]+ EOPNOTSUPP$
		/raw/.*config (0x(ffffffff)+|0x[1f]000000..|bit (21|32|33|36|4[0-7])): [A-Za-z]+ EOPNOTSUPP$
		/raw/event 0x[1235679abdef]..: [A-Za-z]+ EOPNOTSUPP$
		/raw/event 0x4c2, config1 8: [A-Za-z]+ ENOENT$
	END
	cat <<-'END' | grep -v '^#'
	# A guest has no precise_ip, because PEBS and IBS use memory and registers of
	# the host: max_precise is 0.
	/(flag|combination)/.*precise_ip.*: [A-Za-z]+ EOPNOTSUPP$
	# The host opens the events of a group one by one.  If an event needs two counters,
	# the guest finds out when the group does not count.
	/large_group/flops, [4-6] of them, enabled: EINVAL ok$
	# Modules cannot read the kernel's limit on frequencies.  The host's limit refuses
	# the frequency, and the period stays.
	/ioctl/frequency, PERIOD 2147483647: EINVAL ok$
	END
}

# Groups of cases: "name:description".
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
	# Otherwise perf lowers the maximum sample rate, which limits frequencies.
	echo 0 >/proc/sys/kernel/perf_cpu_time_max_percent

	open_errors >"$VM_LEVEL.root"
	setpriv --reuid=65534 --regid=65534 --clear-groups \
		"$VM_TREE/build/tests/open_errors" >"$VM_LEVEL.user"
	echo 0 >/sys/devices/system/cpu/cpu1/online
	open_errors pid_cpu >"$VM_LEVEL.offline"
	echo 1 >/sys/devices/system/cpu/cpu1/online
}

# Prints "who/group/case: host guest" for each case that differs or is missing on one side.
differences() {
	awk -F': ' -v who="$1" '
		NR == FNR { host[$1] = $2; next }
		host[$1] != $2 { print who "/" $1 ": " (host[$1] ? host[$1] : "-"), $2 }
		{ delete host[$1] }
		END { for (i in host) print who "/" i ": " host[i] " -" }' \
		"host.$1" "guest.$1"
}

# same WHO GROUP NAME: the cases of the group are the same, except for allowed differences
same() {
	local cases differ
	cases=$(grep -c "^$2/" "host.$1")
	differ=$(grep -c "^$1/$2/" unexpected)
	echo "# $1, $3: $cases cases, of which $differ differ"
	grep "^$1/$2/" unexpected | head -n 50 | sed 's/^/#   /'
	ok "$1, $3: the guest's errors are the host's" test "$cases" -ge 30 -a "$differ" = 0
}

record
[ "$VM_LEVEL" = host ] || exit 0

"$VM_TREE/selftests/vm" guest --cpus 2 -- "$0"
is "the guest ends well" $? 0
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
# Events that this CPU has must open: above, both sides might have failed alike.
if grep -qw amd_lbr_v2 /proc/cpuinfo; then
	is "a branch stack can be opened" \
		"$(grep -c '^branch/sampling, branch stack of any, bit 3: ok' guest.user)" 1
fi
is "a generic event can be opened" \
	"$(grep -c '^hardware/config [01]: ok' guest.user)" 2
finish
