#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A guest of a guest: each level counts its own execution only, and samples it.
# vm: none
# alone: builds for another kernel line
tree=$(realpath "$(dirname "$0")/../..")
self=$(realpath "$0")
. "$tree/selftests/tap.sh"
vm=$tree/selftests/vm
T=$tree/build/tests

# What each level leaves in the scratch folder has its name.

wait_for() {
	while [ ! -e "$1" ]; do sleep 0.2; done
}

in_nested() {
	# Not through 9p: perf looks at every module.
	mount -t tmpfs none /lib/modules
	touch ready.nested
	wait_for ready.guest
	for i in 1 2 3; do
		perf stat -x, -o "nested.$i" -e instructions:u,branches:u "$T/loop"
	done
	perf record -q -B -N -e cycles:u -c 100000 -o nested.data "$T/calltree"
	perf record -q -B -N -e instructions:u -c 10000 -o nested.loop "$T/loop"
	(while :; do "$T/loop"; done) &
	timeout -s INT 4 perf top --stdio -d 1 >nested.top 2>&1 \
		< <(exec sleep 1000)
	kill $!
	dmesg >nested.dmesg
	touch done.nested
}

in_guest() {
	mount -t tmpfs none /lib/modules
	perf stat -x, -o guest.alone -e instructions:u "$T/loop"
	"$vm" nested -- "$self" in_nested &
	wait_for ready.nested
	touch ready.guest
	perf stat -x, -a -o guest.split \
		-e instructions:uG,instructions:uH,instructions:uGH sleep 2
	for i in 1 2 3; do
		perf stat -x, -o "guest.$i" -e instructions:u "$T/loop"
	done
	wait_for done.nested
	wait
	echo $? >nested.status
	# The nested guest is gone: nothing counts for it any more.
	grep -ch active /sys/kernel/debug/kvm/*/pv_perf >guest.left 2>/dev/null
	perf stat -x, -a -o guest.after -e instructions:uG sleep 1
	touch done.guest
}

in_host() {
	"$vm" guest --kernel 7.3 --guest-kernel 6.1 --hypervisor -- \
		"$self" in_guest &
	wait_for ready.guest
	for i in 1 2 3; do
		perf stat -x, -o "host.$i" -e instructions:u "$T/loop"
	done
	wait_for done.guest
	wait $!
	echo $? >guest.status
}

if [ $# -gt 0 ]; then
	cd "$VM_SCRATCH" && "$@"
	exit
fi

dir=$tree/build/tests/nested
rm -rf "$dir"
mkdir -p "$dir"
if ! make -s -C "$tree" build/linux-7.3/initrd build/linux-7.3/modules.built \
		>"$dir/make" 2>&1 &&
		grep -q 'No version of kernel' "$tree/build/log/kernel-7.3.log"; then
	ok "nested guests # SKIP they need Linux 7.3, which Debian has not now" true
	finish
fi

"$vm" host --kernel 7.3 --guest-kernel 6.1 --timeout 900 --scratch "$dir" -- \
	"$self" in_host
is "the three levels end well" "$?" 0
cd "$dir" || exit 1
is "the guest ends well" "$(cat guest.status)" 0
is "the nested guest ends well" "$(cat nested.status)" 0
for i in 1 2 3; do
	for level in host guest nested; do
		is "run $i: exact on the $level" \
			"$(count instructions:u $level.$i)" 10000004
	done
done
within "the guest's :G and :H add up" \
	$(($(count instructions:uG guest.split) + $(count instructions:uH guest.split))) \
	"$(count instructions:uGH guest.split)" 0.1
more ":G counts the nested guest" "$(count instructions:uG guest.split)" 1000000
is ":G counts nothing when it is gone" "$(count instructions:uG guest.after)" 0
is "1,000 of 1,000 samples in the nested guest" \
	"$(perf script -i nested.loop -F ip 2>/dev/null | wc -l)" 1000
perf report -i nested.data --stdio --no-children -g none --sort symbol 2>/dev/null |
	awk '/%/ && $2 == "[.]" { sub("%", "", $1); print $3, $1 }' >shares
for pair in a:20 aa:10 b:10 bb:20 bbb:10 c:30; do
	got=$(awk -v f="${pair%:*}" '$1 == f { print $2 }' shares)
	ok "nested: the share of ${pair%:*} is ${pair#*:} % (got $got)" \
		awk -v g="$got" -v w="${pair#*:}" \
		'BEGIN { exit !(g != "" && g >= w - 2 && g <= w + 2) }'
done
has "perf top in the nested guest" ' [0-9.]+% +loop +\[\.\] _start' nested.top
finish
