#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# pv-perf with guests of libvirt: a session with an event that only guests have, and with
# stacks without frame pointers; and counts of host and guests over time on one axis.
# vm: host --host-cpus 2 --host-mem 3072 --kvm-opt enable_pmu=0 --timeout 3600
# tier: all
# machines: amd
# needs: agent-initrd
# programs: calltree
# packages: qemu-system-x86 libvirt-daemon libvirt-clients python3-libvirt
# seconds: 200
. "$VM_TREE/selftests/tap.sh"
tree=$VM_TREE
. "$tree/selftests/report/functions"
. "$tree/selftests/report/guests"
work=/dev/shm/work
mkdir -p $work
cd $work || exit 1

# lines NAME REGEX: the number of lines in the samples of a machine that match
lines() {
	zcat "several/$1.samples.gz" | grep -cE -- "$2"
}

start_libvirt
start_guest $system web 2 &
start_guest $system db 1 &
wait_for_guests web db

cat >several.sh <<-END
	$(declare -f in_guest)
	VM_TREE=$VM_TREE
	in_guest $system web '/calltree; for n in 1 2 3 4 5 6 7 8 9; do
		echo \$n >/dev/ttyS0; done; /calltree'
END
"$pv_perf" record -c 381967 -e cycles -e kvm/exits,period=10/ --call-graph dwarf -o several \
	--vm web -- bash several.sh >several.out 2>&1
is "a session with an event of guests only ends well" $? 0
sed 's/^/# /' several.out
is "all machines have the status ok" "$(python3 -c 'import json
print([d["status"] for d in json.load(open("several/session.json"))["domains"]])')" \
	"['ok', 'ok']"
more "the guest has samples of cycles" "$(lines web ': 381967 cycles')" 100
more "the guest has samples of its exits" "$(lines web ': 10 kvm/exits')" 10
is "the host has no samples of a guest's exits" "$(lines host 'kvm/exits')" 0
more "without frame pointers the guest's samples have the program's outermost function" \
	"$(lines web '"main" "calltree"')" 100
"$pv_perf" report --event kvm/exits/ several >out
sed 's/^/# /' out
has "report shows which of the guest's code causes exits" ' guest web kernel$' out
"$pv_perf" report several >out
has "report shows cycles by themselves" ' 381,967; host' out
is "the host has counted the VMM in guest mode" "$(python3 -c 'import json
print([d["counted"] > 2e8 for d in json.load(open("several/session.json"))["domains"]
       if d["name"] == "web"])')" "[True]"

# The guests and the host execute a known number of instructions, one after the other.
cat >turns.sh <<-END
	$(declare -f in_guest)
	VM_TREE=$VM_TREE
	in_guest $system web /longloop
	in_guest $system db /longloop
	$VM_TREE/build/tests/calltree
	$VM_TREE/build/tests/calltree
END
cat >turns.py <<-'END'
	import argparse, sys
	sys.argv = ["pv-perf", "--", "bash", "turns.sh"]
	from pvperf.timeline import command
	runs, _ = command.count_machines(argparse.Namespace(
	    vm=["web", "db"], connect=[], seconds=None, what=["bash", "turns.sh"], I=50,
	    e="instructions:u,kvm/exits/"))
	for run in runs:
	    for s in run.series:
	        whole, before, at = s.total(), 0, {}
	        for i in s.intervals:
	            before += i.count or 0
	            for part in (0.2, 0.8):
	                if before >= part * whole:
	                    at.setdefault(part, round(i.end * 1000))
	        print(run.name, s.name, round(whole), s.scaled(), s.missing(), at[0.2], at[0.8])
END
PYTHONPATH=$tree/tools python3 -B turns.py >turns 2>turns.err
is "timeline counts host and guests" $? 0
sed 's/^/# /' turns.err turns
# of MACHINE EVENT FIELD
of() {
	awk -v m="$1" -v e="$2" -v f="$3" '$1 == m && $2 == e { print $f }' turns
}
for name in web db; do
	within "the page has the instructions of $name" "$(of $name instructions:u 3)" 500000000 5
	more "the page has the exits of $name" "$(of $name kvm/exits/ 3)" 10
done
more "the page has the instructions of the host" "$(of host instructions:u 3)" 200000000
none "the host has no exits of its own" "$(of host kvm/exits/ 3)"
is "no count is an estimate, or missing" \
	"$(awk '{ n += $4 + $5 } END { print NR, n }' turns)" "5 0"
ok "on one axis web works first, then db, and then the host" test \
	"$(of web instructions:u 7)" -lt "$(of db instructions:u 6)" -a \
	"$(of db instructions:u 7)" -lt "$(of host instructions:u 7)"
none "no session is left in a guest" \
	"$(in_guest $system web 'find /var/tmp /tmp -name "pv-perf*"')"
finish
