#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The tool vm, which runs commands on emulated machines: input and output reach the command and
# come back, and vm fails if a kernel reports a fault.
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
	is "$VM_CPU: vm passes on the command's exit status" $? 42
	is "$VM_CPU: vm passes on the command's stdin and stdout" "$(tr '\n' ' ' <"$out")" \
		"input shared $dir.scratch read-only "
	is "$VM_CPU: vm passes on the command's stderr" "$(cat "$out.err")" error
	is "$VM_CPU: the command's file is in the scratch folder" \
		"$(cat "$dir.scratch/file")" written
}

fails() {
	"$vm" host --timeout 120 -- sh -c 'echo c >/proc/sysrq-trigger' >"$out" 2>&1
	is "$VM_CPU: vm fails after a kernel panic" $? 125
	has "$VM_CPU: vm shows the panic on the console" 'Kernel panic - not syncing' "$out"

	"$vm" host --timeout $boot -- sh -c 'echo begins; sleep 1000000' >"$out" 2>&1
	is "$VM_CPU: vm ends a command that has begun after the timeout" \
		"$? $(head -n 1 "$out")" \
		"124 begins"

	"$vm" guest --timeout 300 --pmu=none -- sh -c \
		'echo on >/proc/sys/kernel/printk_devkmsg
		 echo "WARNING: CPU: 0 PID: 1 at a test" >/dev/kmsg
		 for i in $(seq 200); do echo "line $i"; done >/dev/kmsg' >"$out" 2>&1
	is "$VM_CPU: vm fails after a kernel warning in the guest" $? 125
	is "$VM_CPU: vm shows the first report on the console and the console's end" \
		"$(sed -n 's/^    \[.*\] \(line 1\|line 200\|WARNING.*\)$/\1/p' "$out" |
		tr '\n' ' ')" "WARNING: CPU: 0 PID: 1 at a test line 1 line 200 "
}

# Beside two loops on the same CPU, a boot of B seconds takes 3 B.
waits() {
	local TIMEFORMAT=%U loops='' took

	took=$({ time "$vm" host -- true >"$out" 2>&1; } 2>&1)
	for _ in 1 2; do
		taskset 1 sh -c 'while :; do :; done' &
		loops="$loops $!"
	done
	taskset 1 "$vm" host -v --timeout "$(awk "BEGIN { print 2 * $took }")" -- true \
		>"$out" 2>&1
	is "$VM_CPU: the timeout does not count time while other programs have the CPU" $? 0
	sed -n "s/^vm: .*ends after/# a boot takes $took s of a CPU; here it took/p" "$out"
	# shellcheck disable=SC2086 # words
	kill $loops
}

# In a tree where build is a symbolic link to another folder, vm must find the build.  And a
# build that the user cannot write.
finds_build() {
	"$tree/selftests/vm" guest -- cat /sys/module/kvm_pmu/refcnt >"$out" 2>&1
	is "$VM_CPU: vm loads the guest's module if build is a symbolic link" \
		"$? $(cat "$out")" "0 0"

	setpriv --reuid=65534 --clear-groups "$vm" host -- true >"$out" 2>&1
	is "$VM_CPU: vm fails if the user cannot write build" $? 125
	is "$VM_CPU: vm says in one line that the user cannot write build" "$(
		grep -c 'cannot write .* Remedy: ' "$out") $(wc -l <"$out")" "1 1"
}

# The default of --cpu, and the seconds that suffice for a boot.
export VM_CPU=${VM_CPU:-amd}
boot=20
[ $VM_CPU != intel ] || boot=90
passes_on
fails
waits
finds_build
finish
