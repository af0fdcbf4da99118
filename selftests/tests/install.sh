#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Installing: the packages on a Debian, a kernel update there, and its modules
# on the emulated host and in a guest; what the doctor says where something is
# missing.
# vm: none
top=$(realpath "$(dirname "$0")/../..")
. "$top/selftests/tap.sh"
debian=$top/build/linux-6.1/debian
release=$(cat "$top/build/linux-6.1/release")
doctor=$top/build/pv-perf-doctor

# Only this program and what it starts sees these.
in_debian() {
	chroot "$debian" env PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C "$@"
}

mount_debian() {
	mkdir -p "$debian$top"
	mount --bind "$top" "$debian$top"
	for dir in proc sys dev; do
		mount --rbind /$dir "$debian/$dir"
	done
}

# Which file modprobe would load.
chosen() {
	in_debian modprobe -S "$release" -n --show-depends "$1" |
		sed -n "s,^insmod /lib/modules/$release/\(.*/$1.ko\).*,\1,p"
}

# said NAME STATUS REGEX...: the doctor's status, and lines that it printed
said() {
	local name=$1 status=$2 got line
	shift 2
	got=$(cat status)
	sed 's/^/# /' out
	is "$name: status" "$got" "$status"
	for line; do
		has "$name: $line" "$line" out
	done
}

# Runs a command and keeps its output and its status for `said`.
run() {
	"$@" >out 2>&1
	echo $? >status
}

on_debian() {
	local updates=$debian/lib/modules/$release/updates/dkms

	# Before there are headers and source, as for a kernel to come.
	run in_debian apt-get install -y "$top"/build/deb/pv-perf-*.deb
	said "installed without headers" 0 "Linux $release: its headers are not" \
		"Remedy: apt install linux-headers-$release" \
		"not for Linux $release, which keeps its own KVM"
	is "the kernel keeps its own KVM" "$(chosen kvm)" \
		kernel/arch/x86/kvm/kvm.ko
	run in_debian sh -c 'dpkg -i /srv/linux-[chk]*.deb'
	said "headers, but no source" 0 "its source, linux-source-6.1 .* is not installed" \
		"Remedy: apt install linux-source-6.1="
	run in_debian sh -c 'dpkg -i /srv/linux-source-*.deb'
	said "headers and source" 0 'Installing to /lib/modules/.*/updates/dkms/'
	is "modprobe takes the host's" "$(chosen kvm-amd | tr '\n' ' ')" \
		"updates/dkms/kvm-amd.ko "
	is "with its kvm.ko" "$(in_debian modprobe -S "$release" -n \
		--show-depends kvm-amd | grep -c updates/dkms)" 2
	is "and the guest's" "$(chosen kvm_pmu)" updates/dkms/kvm_pmu.ko
	is "kvm-intel.ko, too" "$(chosen kvm-intel)" updates/dkms/kvm-intel.ko
	is "both are signed by dkms's key" \
		"$(modinfo -F signer "$updates"/kvm{,_pmu}.ko | sort -u)" \
		"DKMS module signing key"
	ok "the guest's is loaded at boot" grep -qx kvm_pmu \
		"$debian"/usr/lib/modules-load.d/pv-perf-guest.conf
}

remove() {
	run in_debian apt-get remove -y pv-perf-{host-dkms,guest-dkms,doctor}
	said "removed" 0
	is "modprobe takes the kernel's own KVM again" "$(chosen kvm)" \
		kernel/arch/x86/kvm/kvm.ko
	is "nothing is left" "$(find "$debian/lib/modules/$release/updates" \
		"$debian"/usr/src/pv-perf* "$debian"/var/lib/dkms/pv-perf* \
		2>/dev/null)" ""
}

# Of an earlier run that was cut short, also.
purge() {
	in_debian sh -c "dpkg --purge pv-perf-host-dkms pv-perf-guest-dkms \
		pv-perf-doctor \$(dpkg-query -W -f '\${Package} ' 'linux-*-6.1*')" \
		>/dev/null 2>&1
}

if [ "${VM_LEVEL-}" = "" ] && [ "${1-}" != mounted ]; then
	exec unshare -m "$0" mounted
fi
mount_debian
cd "$top/build/tests" || exit 1
purge
on_debian
remove
finish
