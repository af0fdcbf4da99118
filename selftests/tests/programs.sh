#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Common programs execute the same in a guest as on the host: gzip, bzip2, sqlite3 and a
# compiler, by each event that the machine counts, in user mode.
# vm: host --host-mem 3072 --timeout 1800
# tier: all
# machines: amd
# packages: gzip bzip2 sqlite3 gcc
# seconds: 200
. "$VM_TREE/selftests/tap.sh"
# The events of the emulated AMD CPU: cycles, instructions, branches; conditional branches,
# loads, stores; loads with a store. A guest has counters for three events at a time.
groups="r76:u,rc0:u,rc2:u rd1:u,r129:u,r229:u r429:u"
program='int f(int n) { int i, s = 0; for (i = 0; i < n; i++) s += i * n; return s; }
int main(int argc, char **argv) { return f(argc) + f(argc + 1); }'
query='create table t (a integer, b text);
with recursive c(x) as (select 1 union all select x + 1 from c where x < 3000)
	insert into t select x, hex(x * 7919) from c;
select count(*), sum(a), max(b) from t where b like "%3%";'

# measure COMMAND...: print the command's count of each event. The environment and the
# addresses of the command are the same on both levels.
measure() {
	local group e

	for group in $groups; do
		env -i PATH=/usr/bin:/bin perf stat -x, -o stat -e "$group" \
			setarch --addr-no-randomize "$@" >/dev/null
		for e in ${group//,/ }; do
			echo "$e $(count "$e" stat)"
		done
	done
}

# all DIR: measure each program; the counts go to files in DIR
all() {
	cat "$VM_TREE"/host/*.c >text
	echo "$program" >program.c
	measure gzip -c text >"$1/gzip"
	measure bzip2 -c text >"$1/bzip2"
	measure sqlite3 :memory: "$query" >"$1/sqlite3"
	# The compiler proper, without gcc's driver.
	measure "$(gcc -print-prog-name=cc1)" -quiet -O2 program.c -o program.s >"$1/cc1"
}

mount -t tmpfs none /lib/modules
cd /dev/shm || exit 1
if [ $# -gt 0 ]; then
	mkdir -p "$VM_SCRATCH/guest"
	all "$VM_SCRATCH/guest"
	exit
fi

mkdir host
all host
"$vm" guest --scratch "$VM_SCRATCH" -- "$0" in_guest
is "the guest ends well" $? 0
for name in gzip bzip2 sqlite3 cc1; do
	while read -r event count; do
		more "the host counts $event in $name" "$count" 100
		# The kernel gives a program random bytes and the CPU's features, which differ.
		within "$name: $event in the guest is as on the host" \
			"$(awk -v e="$event" '$1 == e { print $2 }' "$VM_SCRATCH/guest/$name")" \
			"$count" 0.1
	done <"host/$name"
done
finish
