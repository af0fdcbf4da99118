#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Debian's programs that use counters print the same in a guest as on its host.
# vm: none
# tier: all
# machines: amd
# needs: machine newer-perf build/clients
# programs: loop longloop
# packages: bpfcc-tools bpftrace dbus iproute2 libjson-c5 libpcp-pmda3 libreadline8 pcp-conf libuv1 likwid papi-tools stress-ng sysprof
# seconds: 1200
#
# selftests/clients has a script for each program. The script's output must be the same on
# both levels, except for the lines that match a "# differs: REGEX: WHY" of the script, which must
# differ. On the host, the output must have a line that matches each "# finds: REGEX" of the
# script. The variable CLIENTS names the scripts to run. make results makes a table of the last
# run of all scripts.
self=$(realpath "$0")
tree=${self%/selftests/*}
. "$tree/selftests/tap.sh"
scripts=$tree/selftests/clients
read -ra names <<<"${CLIENTS:-$(cd "$scripts" && echo *)}"
export clients=$tree/build/clients debs=$tree/build/clients/debs tree T

# states FILE: the events in the output of perf stat -x, each with "counted", 0 or its error.
# Whether a short program is switched or moved is chance.
states() {
	awk -F, 'NF > 3 {
		if ($1 ~ /^[0-9.]+$/ && $3 ~ /^(context-switches|cpu-migrations)/)
			$1 = "any number"
		print $3, ($1 ~ /^[0-9.]+$/ && $1 > 0 ? "counted" : $1)
	}' "$1"
}
export -f states

# run_all: run each script; its output goes to the file NAME.LEVEL
run_all() {
	local name

	export HOME=/dev/shm
	mount -t tmpfs none /lib/modules
	mkdir -p /dev/shm/clients
	cd /dev/shm/clients || exit 1
	[ "$VM_LEVEL" = guest ] || echo 0 >/proc/sys/kernel/nmi_watchdog
	for name in "${names[@]}"; do
		echo "# $VM_LEVEL, $SECONDS s: $name" >&2
		timeout 1200 "$scripts/$name" >"$VM_SCRATCH/$name.$VM_LEVEL" 2>&1
		rm -rf /dev/shm/clients/*
	done
}

version() {
	eval "$(sed -n 's/^# version: //p' "$scripts/$1")" 2>&1 | grep -o '[0-9][^ ,]*' | head -n 1
}

# explained NAME: the regular expressions of lines that may differ
explained() {
	sed -n 's/^# differs: \([^:]*\): .*/\1/p' "$scripts/$1"
}

# The columns of the table: program, version, lines of output, lines that differ, why
row() {
	printf '%s\t%s\t%s\t%s\t%s\n' "$1" "$(version "$1")" "$(wc -l <"$1.host")" \
		"$(diff "$1.host" "$1.guest" | grep -c '^>')" \
		"$(sed -n 's/^# differs: //p' "$scripts/$1" | paste -sd' ')"
}

# Removes the lines that are explained.
rest() {
	grep -vEf <(explained "$1") "$1.$2" >"$1.$2.rest"
}

if [ -n "$VM_LEVEL" ]; then
	run_all
	[ "$VM_LEVEL" = guest ] ||
		"$vm" guest --accel-opt pv-perf-rdpmc=on --mem 1024 --cpus 2 --timeout 0 \
			--scratch "$VM_SCRATCH" -- env CLIENTS="${names[*]}" "$self"
	exit
fi

out=$tree/build/tests/clients
rm -rf "$out"
mkdir -p "$out"
cd "$out" || exit 1
"$vm" host --host-cpus 2 --host-mem 3072 --kvm-opt pv_perf_rdpmc=5 --timeout 3600 \
	--scratch "$out" -- env CLIENTS="${names[*]}" "$self"
is "the host and the guest end well" $? 0
for name in "${names[@]}"; do
	diff "$name.host" "$name.guest" | sed 's/^/# /'
	while read -r regex; do
		has "$name finds '$regex' on the host" "$regex" "$name.host"
	done < <(sed -n 's/^# finds: //p' "$scripts/$name")
	while read -r regex; do
		has "$name differs in '$regex', as its script explains" "$regex" \
			<(diff "$name.host" "$name.guest")
	done < <(explained "$name")
	rest "$name" host
	rest "$name" guest
	ok "$name finds the same in a guest" cmp -s "$name.host.rest" "$name.guest.rest"
	row "$name" >>rows
done
[ -n "${CLIENTS-}" ] || PYTHONPATH=$tree/selftests python3 - <<'END'
from vmlib import results

rows = [line.rstrip("\n").split("\t") for line in open("rows")]
results.save("clients", "clients", "amd", "Programs of Debian that use counters",
             "make test TESTS=clients", {"host and guest": results.release("6.1"),
             "emulator": results.emulator("amd")},
             [{"title": "What each prints on the host and in a guest",
               "columns": ["program", "version", "lines", "lines that differ", "why"],
               "rows": [[name, version, int(n), int(differ), why]
                        for name, version, n, differ, why in rows]}])
END
finish
