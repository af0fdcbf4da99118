#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# pv-perf qualify, from the installed package, on an emulated host with the kernel's own KVM:
# all checks work, within 15 minutes of the machine's time, and afterwards KVM and all files are
# as before. On a CPU that records branches, its report turns them on for this CPU alone.
# VM_CPU=zen4 LINE=6.12 has such a CPU.
# vm: none
# tier: all
# machines: amd intel zen4
# needs: machine deb
# packages: qemu-system-x86
# seconds: 400, on intel 1500
self=$(realpath "$0")
tree=${self%/selftests/*}
. "$tree/selftests/tap.sh"
. "$tree/selftests/qualify/lib.sh"
built=$tree/build/tests/qualify/built

# The checks that find nothing to check on this machine.
not_there() {
	grep -q amd_lbr_v2 /proc/cpuinfo || echo branches
}

# verdict_of CHECK
verdict_of() {
	/usr/bin/python3 -c 'import json, sys
print(*[c["verdict"] for c in json.load(open("report.json"))["checks"] if c["name"] == sys.argv[1]])' "$1"
}

all_checks() {
	/usr/bin/python3 -B -c "import sys
sys.path.insert(0, '/usr/share/pv-perf')
from pvperf.qualify import verdicts
print(*(c.name for c in verdicts.CHECKS))"
}

# The kernel's addresses begin with ffff.
identifies() {
	grep -oE "$(hostname)|ffff[0-9a-f]{8,}" report.json report.html
}

check_run() {
	local before began took name want

	hostname not-to-be-told
	before=$(loaded_kvm)
	touch /began
	pause 0.1
	began=$(cut -d. -f1 /proc/uptime)
	pv-perf qualify --yes --built "$built" -o report >out 2>&1
	is "qualify succeeds" $? 0
	took=$(($(cut -d. -f1 /proc/uptime) - began))
	sed 's/^/# /' out
	echo "# took $took s of the machine's time"
	ok "qualify ends within 15 minutes of the machine's time" [ $took -le 900 ]
	is "the kernel's own KVM is loaded again, with its parameters" "$(loaded_kvm)" "$before"
	ok "qualify leaves no process" quiet
	touch /control
	is "qualify leaves no files but its report" "$(changed_since /began | grep -v '\.pyc$')" \
		/control
	for name in $(all_checks); do
		want=works
		! not_there | grep -qx "$name" || want="not there"
		is "the check $name: $want" "$(verdict_of "$name")" "$want"
	done
	for name in "guest's log" "host's log" back; do
		is "$name: works" "$(verdict_of "$name")" works
	done
	has "the report says that the pair works on this CPU" \
		'^The pair works on this CPU in all' out
	none "the report has no name and no address of the machine" "$(identifies)"
	pv-perf qualify --compare report.json report.json >compared
	has "a report is the same as itself" 'verdicts are the same' compared
}

# loads FILE...: load our KVM with the options of these files; prints whether guests have
# branches
loads() {
	modprobe -r kvm_amd kvm
	modprobe -a irqbypass ccp
	# shellcheck disable=SC2046 # words
	insmod "$built/kvm/kvm.ko" pv_perf=1 $(sed -n 's/^options kvm //p' "$@") &&
		insmod "$built/kvm/kvm-amd.ko" &&
		cat /sys/module/kvm/parameters/pv_perf_branches
}

check_evidence() {
	local conf=/etc/modprobe.d/pv-perf-qualified.conf

	is "without a report, guests have no branches" "$(loads /dev/null)" N
	rmmod kvm_amd kvm
	pv-perf qualify --install report.json >out 2>&1
	is "qualify installs the report" $? 0
	is "with the report, guests have branches" "$(loads $conf)" Y
	pv-perf-doctor host >out
	has "the doctor says that the report is of this CPU" '^ok .* report .* is of this CPU' out
	has "the doctor says what the report says" 'has said: The pair works on this CPU' out
	rmmod kvm_amd kvm
	sed -i 's/\(microcode[:=] *0x\)/\11/' $conf
	is "with other microcode, guests have no branches" "$(loads $conf)" N
	pv-perf-doctor host >out
	is "with other microcode, the doctor fails" $? 1
	has "the doctor says that the report is of other microcode" \
		'^not ok .* report .* is of this CPU' out
	sed -i 's/"stepping": "/&9/' report.json
	pv-perf qualify --install report.json >out 2>&1
	is "qualify does not install the report of another CPU" $? 1
	has "qualify says in what the CPU differs" 'stepping 9[0-9]+, here' out
}

if [ -n "${VM_LEVEL-}" ]; then
	cd "$VM_SCRATCH" || exit 1
	# The trigger of man-db would read all manual pages.
	dpkg --force-depends --no-triggers -i "$tree"/build/deb/pv-perf{,-doctor}_*.deb >dpkg.out 2>&1
	is "the packages are installed" $? 0
	# The kernel as Debian has it: Bochs takes minutes to unpack that.
	[ "$VM_CPU" = intel ] || boot_kernel "image/boot/vmlinuz-$(uname -r)"
	[ "$VM_CPU" != intel ] || boot_kernel vmlinux
	check_run
	[ "$VM_CPU" != zen4 ] || check_evidence
	finish
fi
prepare_built "$built"
exec "$vm" host --stock-kvm --host-cpus 2 --timeout 6000 -- "$self"
