#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Tools that do not know the pair: perf of three lines, PAPI, libpfm4 and BPF in a guest, which
# the host's perf kvm watches.
# vm: none
# tier: all
# machines: amd
# needs: machine newer-perf
# programs: bpf_read check_events pfmcount loop longloop
# packages: papi-tools libpfm4-dev bpftrace
# seconds: 250
#
# The script runs itself on the emulated host and in a guest of that host. It examines the
# tools' output here, because that takes long on the emulated machine.
self=$(realpath "$0")
tree=${self%/selftests/*}
. "$tree/selftests/tap.sh"
perfs=(/usr/bin/perf "$tree"/build/perf/perf-{6.12,7})

# PAPI does not accept Debian's default of perf_event_paranoid. perf reads all modules, which
# takes long.
prepare() {
	mount -t tmpfs none /lib/modules
	echo 2 >/proc/sys/kernel/perf_event_paranoid
}

# run_papi LEVEL: the same on the host and in the guest
run_papi() {
	papi_avail -a >"$1.papi_avail"
	papi_command_line PAPI_TOT_INS PAPI_BR_INS >"$1.papi"
}

run_libpfm() {
	local code
	"$T/check_events" RETIRED_INSTRUCTIONS >check_events
	code=$(sed -n 's/^Codes *: 0x//p' check_events)
	perf stat -x, -o code -e "r$code:u" "$T/loop"
	for event in RETIRED_INSTRUCTIONS RETIRED_BRANCH_INSTRUCTIONS; do
		"$T/pfmcount" $event "$T/loop"
	done >pfmcount
}

run_perfs() {
	local perf
	for perf in "${perfs[@]}"; do
		$perf stat -x, -e instructions:u,branches:u \
			-o "${perf##*/}.stat" "$T/loop"
		$perf record -q -B -N -e instructions:u -c 10000 \
			-o "${perf##*/}.data" "$T/loop"
	done
}

# A sample's NMI and BPF program run in the kernel, so that the script counts by mode.
run_bpf() {
	bpftrace -e 'hardware:instructions:100000 /comm == "loop"/ {
		@[reg("cs") & 3] = count(); }' -c "$T/loop" >bpftrace 2>&1
	"$T/bpf_read" >bpf_read
}

# The pauses keep hypercalls away from the begin and the end of the host's count.
run_watched() {
	sleep 1
	touch ready
	wait_for go
	perf stat -x, -o watched.stat -e instructions:u "$T/longloop"
	perf record -q -B -N -e instructions:u -c 10000 -o watched.data "$T/loop"
	sleep 1
	touch quiet
	wait_for after
}

in_guest() {
	prepare
	run_papi guest
	run_libpfm
	run_perfs
	run_bpf
	run_watched
}

hypercalls() {
	cat /sys/kernel/debug/kvm/hypercalls
}

# The host's tools watch during this function.
let_go() {
	hypercalls >before
	touch go
	wait_for quiet
	hypercalls >counted
	mv counted after
}

watch_guest() {
	wait_for ready
	# Without this perf reads all programs that have run.
	perf config record.build-id=skip
	perf kvm stat record -a -o kvm.stat \
		perf kvm --guest record -q -a -e instructions:uG -c 1000000 \
			-o kvm.data \
		perf stat -x, -a -o kvm.count -e instructions:uG \
		"$self" let_go >watch 2>&1
}

on_host() {
	prepare
	run_papi host
	watch_guest &
	"$vm" guest -- "$self" in_guest
	status=$?
	[ $status = 0 ] || kill $!
	wait
	return $status
}

if [ $# -gt 0 ]; then
	cd "$VM_SCRATCH" && "$@"
	exit
fi

dir=$tree/build/tests/tools
rm -rf "$dir"
mkdir -p "$dir"
"$vm" host --kvm-opt pv_perf_max_counters=6 --timeout 2400 --scratch "$dir" -- "$self" on_host
is "the host and the guest end well" $? 0
cd "$dir" || exit 1

for perf in "${perfs[@]}"; do
	name=$($perf version)
	data=${perf##*/}
	is "$name: counts in the guest are exact" \
		"$(count instructions:u "$data.stat") $(
		   count branches:u "$data.stat")" "10000004 5000001"
	is "$name: perf record takes all samples in the guest" \
		"$($perf script -i "$data.data" -F ip | wc -l)" 1000
done

# papi EVENT LEVEL: the count of papi_command_line
papi() {
	awk -v e="$1" '$1 == e { print $3 }' "$2.papi"
}
presets() {
	awk '$1 ~ /^PAPI_/ && $2 ~ /^0x/ { print $1, $2 }' "$1.papi_avail"
}
sed -n 's/^PAPI version *: /# PAPI /p' guest.papi_avail
has "papi_avail finds the counters" '^Number Hardware Counters : 6$' \
	guest.papi_avail
has "papi_avail has a preset for instructions" '^PAPI_TOT_INS ' guest.papi_avail
is "papi_avail has the presets of the host" "$(presets guest)" "$(presets host)"
for event in PAPI_TOT_INS PAPI_BR_INS; do
	within "papi_command_line counts $event in the guest as on the host" \
		"$(papi $event guest)" "$(papi $event host)" 0.0001
done

has "libpfm4 finds the CPU's model" '^Actual +Event: amd64_fam17h_zen1::' \
	check_events
is "libpfm4's raw code of an event, with its bits for user and kernel, counts exactly" \
	"$(sed -n '/:u,/s/,.*//p' code)" 10000004
is "libpfm4's RETIRED_INSTRUCTIONS counts exactly" \
	"$(sed -n 's/^count //p' pfmcount | head -1)" 10000004
is "libpfm4's RETIRED_BRANCH_INSTRUCTIONS counts exactly" \
	"$(sed -n 's/^count //p' pfmcount | tail -1)" 5000001

sed 's/^/# /' bpftrace
within "bpftrace counts a sample for each 100,000 instructions in user mode" \
	"$(sed -n 's/^@\[3\]: //p' bpftrace)" 100 10
tap_file "BPF" bpf_read

perf kvm -i kvm.stat stat report >report 2>&1
is "perf kvm stat sees each hypercall of a guest that profiles" \
	"$(awk '$1 == "hypercall" { print $2 }' report)" \
	$(($(cat after) - $(cat before)))
more "perf kvm stat sees exits for NMIs" \
	"$(awk '$1 == "nmi" { print $2 }' report)" 1000
# Linux 6.1's KVM tells perf the vCPU's mode at its last preemption, which may not be its mode
# at the sample.
loop_samples() {
	perf script -i kvm.data -D |
		grep -cE 'SAMPLE\(IP, 0x(400)?[45]\).* 0x40100[0-9a-f] '
}
within "perf kvm record samples the guest's program at every 1,000,000 instructions" \
	"$(loop_samples)" 510 1
more "perf stat -e instructions:uG counts the guest's program" \
	"$(count instructions:uG kvm.count)" \
	510000000
is "the guest counts exactly while the host's perf kvm watches" \
	"$(count instructions:u watched.stat)" 500000004
is "the guest takes its samples while the host's perf kvm watches" \
	"$(samples_of watched.data)" 1000
finish
