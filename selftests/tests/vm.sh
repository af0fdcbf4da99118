#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The tool that all other tests use: what it passes on, and when it fails.
# vm: none
# tier: all
# machines: amd intel
# needs: machine
# seconds: 100, on intel 131
top=$(realpath "$(dirname "$0")/../..")
. "$top/selftests/tap.sh"
out=$top/build/tests/vm.out
dir=$top/build/tests/vm.share
mkdir -p "$dir" "$dir.scratch"
echo shared >"$dir/file"
tree=$top/build/tests/vm.tree
mkdir -p "$tree/selftests/machine"
cp -r "$vm" "${vm}lib" "$tree/selftests/"
cp -r "$top/selftests/machine/bochs" "$tree/selftests/machine/"
ln -sfn "$top/build" "$tree/build"

passes_on() {
	rm -f "$dir.scratch/file"
	echo input | "$vm" host --share "$dir" --scratch "$dir.scratch" -- sh -c \
		"cat; echo error >&2; cat $dir/file; echo \$VM_SCRATCH; \
		 echo written >\$VM_SCRATCH/file; touch $dir/new 2>/dev/null || echo read-only; \
		 exit 42" >"$out" 2>"$out.err"
	is "$VM_CPU: the command's exit status" $? 42
	is "$VM_CPU: its stdin and stdout" "$(tr '\n' ' ' <"$out")" \
		"input shared $dir.scratch read-only "
	is "$VM_CPU: its stderr" "$(cat "$out.err")" error
	is "$VM_CPU: its scratch folder" "$(cat "$dir.scratch/file")" written
}

fails() {
	"$vm" host --timeout 120 -- sh -c 'echo c >/proc/sysrq-trigger' >"$out" 2>&1
	is "$VM_CPU: a panic is a failure" $? 125
	has "$VM_CPU: with the console's report" 'Kernel panic - not syncing' "$out"

	"$vm" host --timeout $boot -- sh -c 'echo begins; sleep 1000000' >"$out" 2>&1
	is "$VM_CPU: a timeout, of a command that has begun" "$? $(head -n 1 "$out")" \
		"124 begins"

	"$vm" guest --timeout 300 --pmu=none -- sh -c \
		'echo on >/proc/sys/kernel/printk_devkmsg
		 echo "WARNING: CPU: 0 PID: 1 at a test" >/dev/kmsg
		 for i in $(seq 200); do echo "line $i"; done >/dev/kmsg' >"$out" 2>&1
	is "$VM_CPU: a kernel warning in the guest is a failure" $? 125
	is "$VM_CPU: with the first report of the console and its end" \
		"$(sed -n 's/^    \[.*\] \(line 1\|line 200\|WARNING.*\)$/\1/p' "$out" |
		tr '\n' ' ')" "WARNING: CPU: 0 PID: 1 at a test line 1 line 200 "
}

# On a CPU with two loops, what takes it B seconds takes it 3 B.
waits() {
	local TIMEFORMAT=%U loops='' took

	took=$({ time "$vm" host -- true >"$out" 2>&1; } 2>&1)
	for _ in 1 2; do
		taskset 1 sh -c 'while :; do :; done' &
		loops="$loops $!"
	done
	taskset 1 "$vm" host -v --timeout "$(awk "BEGIN { print 2 * $took }")" -- true \
		>"$out" 2>&1
	is "$VM_CPU: no timeout while others have the CPU" $? 0
	sed -n "s/^vm: .*ends after/# a boot takes $took s of a CPU; here it took/p" "$out"
	# shellcheck disable=SC2086 # words
	kill $loops
}

# A tree whose build is a symbolic link out of it; vm is to find it there.  And a build
# that the user cannot write.
finds_build() {
	"$tree/selftests/vm" guest -- cat /sys/module/kvm_pmu/refcnt >"$out" 2>&1
	is "$VM_CPU: build as a symbolic link: the guest's module is loaded" \
		"$? $(cat "$out")" "0 0"

	setpriv --reuid=65534 --clear-groups "$vm" host -- true >"$out" 2>&1
	is "$VM_CPU: build that the user cannot write: status" $? 125
	is "$VM_CPU: and one line that says so" "$(
		grep -c 'cannot write .* Remedy: ' "$out") $(wc -l <"$out")" "1 1"
}

# The default of --cpu, and how many seconds are enough for a boot.
export VM_CPU=${VM_CPU:-amd}
boot=20
[ $VM_CPU != intel ] || boot=90
passes_on
fails
waits
finds_build
finish
