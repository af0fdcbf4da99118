#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Installation: the packages on a Debian system, with a kernel update; their modules on the
# emulated host and in a guest; the doctor's messages about missing parts; the cases that
# tools/install refuses; the package of built modules.
# vm: none
# tier: all
# machines: amd
# needs: machine deb debian build/pv-perf-doctor
# lines: 7.3
# debug: no
# seconds: 400
tree=$(realpath "$(dirname "$0")/../..")
. "$tree/selftests/tap.sh"
kernel=$tree/build/linux-6.1
debian=$kernel/debian
release=$(cat "$kernel/release")

in_debian() {
	chroot "$debian" env HOME=/root LC_ALL=C \
		PATH=/usr/lib/ccache:/usr/sbin:/usr/bin:/sbin:/bin "$@"
}

# Mounts the tree at its path.  build may be a symbolic link: its target is mounted, too.
mount_tree() {
	local dir
	for dir in "$tree" "$(realpath "$tree/build")"; do
		mkdir -p "$debian$dir"
		mount --bind "$dir" "$debian$dir"
	done
}

# The mounts are visible to this process and its children.
mount_debian() {
	mount_tree
	for dir in proc sys dev; do
		mount --rbind /$dir "$debian/$dir"
	done
}

# said NAME STATUS REGEX... -- COMMAND...: the command ends with STATUS and prints lines that
# match
said() {
	local name=$1 status=$2 lines=()
	shift 2
	while [ "$1" != -- ]; do
		lines+=("$1")
		shift
	done
	shift
	"$@" >out 2>&1
	is "$name: status" $? "$status"
	for line in "${lines[@]}"; do
		has "$name: $line" "$line" out
	done
}

# on_level NAME ARGUMENT...: vm runs a part of this test
on_level() {
	local name=$1 status
	shift
	"$vm" "$1" --timeout 2400 "${@:2}" >level.out 2>&1
	status=$?
	tap_file "$name" level.out
	[ $status = 0 ] || tail -n 5 level.out | sed 's/^/# /'
	is "$name: ends well" $status 0
}

# place MODULE: the folder from which modprobe would take it
place() {
	in_debian modprobe -S "$release" -n --show-depends "$1" |
		sed -n "s,^insmod /lib/modules/$release/\(.*\)/$1.ko.*,\1,p"
}

# On this machine, in a chroot.

on_debian() {
	local installed="$debian/lib/modules/$release/updates/dkms"

	# Without headers and source, as for a kernel that is not installed yet.
	said "without headers" 0 \
		"Linux $release: its headers are not installed" \
		"Remedy: apt install linux-headers-$release" \
		"Linux $release keeps its own KVM" -- \
		in_debian apt-get install -y "$tree"/build/deb/pv-perf-{doctor,host,guest}*.deb
	is "the kernel keeps its own KVM" "$(place kvm)" kernel/arch/x86/kvm
	said "headers, but no source" 0 \
		"its source, linux-source-6.1 .* is not installed" \
		"Remedy: apt install linux-source-6.1=" -- \
		in_debian sh -c 'dpkg -i /srv/linux-[chk]*.deb'
	is "modprobe takes the guest's module" "$(place kvm_pmu)" updates/dkms
	said "headers and source" 0 -- \
		in_debian sh -c 'dpkg -i /srv/linux-source-*.deb'
	for m in kvm kvm-amd kvm-intel; do
		is "modprobe takes the host's $m" "$(place $m)" updates/dkms
	done
	is "dkms's key has signed the modules" \
		"$(modinfo -F signer "$installed"/kvm{,-amd,-intel,_pmu}.ko | uniq)" \
		"DKMS module signing key"
	ok "the guest's module is loaded at boot" grep -qx kvm_pmu \
		"$debian/usr/lib/modules-load.d/pv-perf-guest.conf"
}

# set_version VERSION: make packages of Debian's kernel $release (image, headers and source)
# that differ only in their version
set_version() {
	local dir
	rm -rf deb
	for deb in "$debian"/srv/linux-{headers-"$release",source-6.1}_*.deb; do
		dpkg-deb -R "$deb" deb
		sed -i "s/^Version: .*/Version: $1/" deb/DEBIAN/control
		# These fields name exact versions of other packages, which are installed.
		sed -i '/^\(Depends\|Recommends\|Suggests\):/d' deb/DEBIAN/control
		rm -f deb/DEBIAN/md5sums
		find deb -name package.h -exec \
			sed -i "s/ Debian [^\"]*/ Debian $1/" {} +
		dpkg-deb -Zgzip -z1 -b deb "$debian/srv/$(basename "${deb%%_*}")_new.deb" >/dev/null
		rm -r deb
	done
	make_image "$1"
}

# make_image VERSION
make_image() {
	mkdir -p deb/DEBIAN
	cat >deb/DEBIAN/control <<-END
		Package: linux-image-$release
		Version: $1
		Architecture: amd64
		Maintainer: nobody <nobody@example.com>
		Description: what Debian's has, without its files
	END
	# Debian's package runs these hooks, too.
	cat >deb/DEBIAN/postinst <<-END
		#!/bin/sh
		run-parts --exit-on-error --arg=$release --arg=/boot/vmlinuz-$release \
			/etc/kernel/postinst.d
	END
	chmod +x deb/DEBIAN/postinst
	dpkg-deb -b deb "$debian/srv/linux-image_new.deb" >/dev/null
	rm -r deb
}

install_image() {
	make_image "$1"
	in_debian dpkg -i /srv/linux-image_new.deb
}

built_from() {
	cat "$debian/var/lib/pv-perf-host/$release"
}

# A kernel update with the same release.
update_kernel() {
	local old new version
	version=$(cat "$kernel/version")
	new=$version.1
	old=$(built_from)
	is "the package records the kernel version that the modules are built from" \
		"${old%source*}" "kernel $version "
	set_version "$new"
	said "a newer image" \
		0 "Linux $release is $new, and its KVM was built from: kernel $version " \
		"its image is $new, its headers are $version" -- \
		in_debian dpkg -i /srv/linux-image_new.deb
	is "modules for the older kernel do not hide the newer kernel's KVM" "$(place kvm)" \
		kernel/arch/x86/kvm
	is "the package of the kernel is installed completely" \
		"$(in_debian dpkg-query -W -f '${db:Status-Status}' "linux-image-$release")" installed
	has "the record says why the stock KVM is used" \
		'^stock .*its headers are' <(built_from)
	said "headers and source of the newer kernel" \
		0 "KVM for Linux $release is built from linux-source $new" -- \
		in_debian sh -c "dpkg -i /srv/linux-headers-${release}_new.deb /srv/linux-source-6.1_new.deb"
	is "modprobe takes the pair's kvm again" "$(place kvm)" updates/dkms
	has "the modules are built from the newer source" "^kernel $new source " <(built_from)
	# Another source with the same version.
	sed -i 's/source .*/source 0/' "$debian/var/lib/pv-perf-host/$release"
	said "another source with the same version" 0 "is built from linux-source $new" -- \
		in_debian /usr/lib/pv-perf/host-modules update "$release"
	said "an update without changes" 0 -- \
		in_debian /usr/lib/pv-perf/host-modules update "$release"
	empty "an update without changes prints nothing" out
	# A user may remove the source to save room.
	mv "$debian"/usr/src/linux-source-6.1.tar.xz "$debian/srv/"
	in_debian /usr/lib/pv-perf/host-modules update "$release" >out
	is "modules of this version stay without its source" "$(place kvm)" updates/dkms
	mv "$debian"/srv/linux-source-6.1.tar.xz "$debian/usr/src/"
	# A source that does not build.
	sed -i 's/source .*/source 0/' "$debian/var/lib/pv-perf-host/$release"
	mv "$debian/usr/bin/patch" "$debian/srv/patch"
	said "a source that does not build" 0 'keeps its own KVM: the modules do not build' -- \
		in_debian /usr/lib/pv-perf/host-modules update "$release"
	is "if the source does not build, modprobe takes the stock KVM" \
		"$(place kvm)" kernel/arch/x86/kvm
	mv "$debian/srv/patch" "$debian/usr/bin/patch"
	# The doctor on a machine whose modules are built from another version than its kernel.
	mkdir -p "$debian/lib/modules/$(uname -r)/build/include/generated"
	echo '#define LINUX_PACKAGE_ID " Debian 1.0-2"' \
		>"$debian/lib/modules/$(uname -r)/build/include/generated/package.h"
	echo "kernel 1.0-1 source 0" >"$debian/var/lib/pv-perf-host/$(uname -r)"
	said "doctor for modules of another kernel version" \
		1 "^not ok  KVM's modules are built from the source of this kernel" \
		'built from 1.0-1, and the kernel is' 'host-modules update' -- \
		in_debian pv-perf-doctor host
	rm -r "$debian/var/lib/pv-perf-host/$(uname -r)" "$debian/lib/modules/$(uname -r)"
	said "Debian's packages again" \
		0 "is built from linux-source $version" -- in_debian sh -c "
		dpkg --purge linux-image-$release
		dpkg -i /srv/linux-headers-${release}_[0-9]*.deb /srv/linux-source-6.1_[0-9]*.deb"
	rm "$debian"/srv/*_new.deb
	is "modprobe takes the pair's kvm with Debian's packages again" \
		"$(place kvm)" updates/dkms
}

remove_from_debian() {
	said "the packages are removed" 0 -- \
		in_debian apt-get remove -y pv-perf-{host-dkms,guest-dkms,doctor}
	is "modprobe takes the kernel's own KVM again" "$(place kvm)" \
		kernel/arch/x86/kvm
	none "no file of the packages is left" "$(find "$debian/lib/modules/$release/updates" \
		"$debian"/usr/src/pv-perf* "$debian"/var/lib/dkms/pv-perf* \
		"$debian/var/lib/pv-perf-host" 2>/dev/null)"
}

# The package of built modules, on a host without headers, source and DKMS.
on_kmod() {
	local place="$debian/lib/modules/$release/updates/pv-perf" version new
	version=$(cat "$kernel/version")
	new=$version.1
	in_debian openssl req -new -x509 -nodes -newkey rsa:2048 -days 9 -subj '/CN=ACME modules' \
		-outform DER -keyout /srv/acme.key -out /srv/acme.der 2>/dev/null
	in_debian env KMOD_KEY=/srv/acme.key KMOD_CERT=/srv/acme.der \
		"$tree/tools/build-kmod" 1.0 "$release" >kmod.log 2>&1
	is "tools/build-kmod builds a package of modules" $? 0
	in_debian sh -c "dpkg --purge \$(dpkg-query -W -f '\${Package} ' 'linux-*-6.1*')" \
		>/dev/null 2>&1
	none "the host has no headers and no source" \
		"$(ls -d "$debian/lib/modules/$release/build" \
		"$debian"/usr/src/linux-* 2>/dev/null)"
	is "the package needs no compiler" \
		"$(dpkg-deb -f "$tree"/build/deb/pv-perf-host-kmod_*.deb Depends)" "kmod, pv-perf-doctor"
	install_image "$version"
	said "the package of modules is installed" \
		0 "KVM for Linux $release is built from linux-source $version" -- \
		in_debian dpkg -i "$tree"/build/deb/pv-perf-{doctor,host-kmod}_*.deb
	for m in kvm kvm-amd kvm-intel; do
		is "modprobe takes the package's $m" "$(place $m)" updates/pv-perf
	done
	is "the organisation's key has signed the package's modules" \
		"$(modinfo -F signer "$place"/kvm{,-amd,-intel}.ko | uniq)" "ACME modules"
	has "the package of modules records the kernel version and source" \
		"^kernel $version source [0-9a-f]{64}$" \
		<(built_from)
	said "an update without changes" 0 -- in_debian /usr/lib/pv-perf/host-kmod update
	none "an update without changes prints nothing" "$(cat out)"
	install_image "$new" >out
	has "the package of modules says that a kernel update has another version" \
		"the kernel is $new, and the modules are built from: kernel $version " out
	is "the package's modules for the older kernel do not hide the newer kernel's KVM" \
		"$(place kvm)" kernel/arch/x86/kvm
	has "the package's record says why the stock KVM is used" \
		"^stock the kernel is $new" <(built_from)
	# Later the package of modules for the kernel update is installed.
	dpkg-deb -R "$tree"/build/deb/pv-perf-host-kmod_*.deb kmod
	sed -i "s/^kernel $version /kernel $new /" "kmod/usr/lib/pv-perf/kmod/$release/built-from"
	sed -i 's/^Version:.*/Version: 1.1/' kmod/DEBIAN/control
	dpkg-deb -Zgzip -z1 -b kmod "$debian/srv/kmod_new.deb" >/dev/null
	said "the package of modules for the newer kernel" \
		0 "is built from linux-source $new" -- in_debian dpkg -i /srv/kmod_new.deb
	is "modprobe takes the kvm of the newer package of modules" \
		"$(place kvm)" updates/pv-perf
	rm -r "$debian/usr/lib/pv-perf/kmod/$release"
	said "a package without modules for this kernel" 0 'has no modules for this kernel' -- \
		in_debian /usr/lib/pv-perf/host-kmod update
	is "without modules for this kernel, modprobe takes the kernel's own KVM" \
		"$(place kvm)" kernel/arch/x86/kvm
	install_image "$version" >/dev/null
	in_debian dpkg -i "$tree"/build/deb/pv-perf-host-kmod_*.deb >/dev/null 2>&1
}

remove_kmod() {
	said "the package of modules is removed" \
		0 -- in_debian dpkg --purge pv-perf-host-kmod pv-perf-doctor
	is "modprobe takes the kernel's own KVM again" "$(place kvm)" kernel/arch/x86/kvm
	none "no file of the package of modules is left" \
		"$(find "$debian/lib/modules/$release/updates" \
		"$debian"/usr/lib/pv-perf "$debian"/etc/kernel/*/pv-perf* \
		"$debian/var/lib/pv-perf-host" 2>/dev/null)"
}

# Removes packages and files that an interrupted run may have left.
purge() {
	rm -f "$debian"/srv/*_new.deb
	in_debian sh -c "dpkg --purge pv-perf-host-dkms pv-perf-guest-dkms \
		pv-perf-host-kmod pv-perf-doctor \$(dpkg-query -W -f '\${Package} ' 'linux-*-6.1*')" \
		>/dev/null 2>&1
}

# On the emulated host, which starts with its kernel's own KVM.

doctor() {
	in_debian pv-perf-doctor "$@"
}

guest() {
	"$vm" guest --pmu=none "$@"
}

on_host() {
	said "the kernel's own KVM" 1 '^ok .* perf counts instructions here' \
		"^not ok .* the loaded KVM is the pair's" \
		'modprobe -r kvm_amd kvm && modprobe kvm_amd' -- doctor

	guest -- "$0" unoffered >guest.out 2>&1 &
	wait_for unoffered $!
	said "while a VM runs" 1 '^not ok .* no VM runs' \
		'process [0-9]+ \(qemu-system' 'Nothing was changed' -- \
		in_debian "$tree/tools/install" host
	touch unoffered.end
	wait $!
	tap_file "guest of the kernel's own KVM" guest.out

	said "make install" 0 "^ok .* KVM offers the feature to VMs" \
		'^KVM offers the feature to all VMs from now on' \
		'-cpu host,migratable=no,pmu=off' -- \
		in_debian "$tree/tools/install" host
	guest --cpu-opt kvm-pv-perf=on -- "$0" offered >guest.out 2>&1
	tap_file "guest" guest.out
	"$vm" guest --pmu=vpmu -- "$0" vpmu >guest.out 2>&1
	tap_file "guest with a virtual PMU" guest.out

	in_debian modprobe -r kvm_amd kvm
	rm "$debian/etc/modprobe.d/pv-perf.conf"
	in_debian modprobe kvm
	in_debian modprobe kvm_amd
	said "without the parameter" 1 '^not ok .* KVM offers the feature' \
		'kvm is loaded with pv_perf=0' 'echo options kvm pv_perf=1' \
		'only if its VMM asks for it' -- doctor

	said "make uninstall" 0 -- in_debian "$tree/tools/install" remove
	ok "KVM is the kernel's own again" \
		test ! -e /sys/module/kvm/parameters/pv_perf -a -e /sys/module/kvm_amd
	said "uninstalled" 1 'make install' -- "$tree/build/pv-perf-doctor"
}

# In a guest.

unoffered() {
	said "doctor" 1 '^not ok .* the host offers the feature' \
		'-cpu host,migratable=no,pmu=off' -- doctor
	touch unoffered
	wait_for unoffered.end
}

offered() {
	said "without the module" 1 '^ok .* the host offers the feature' \
		'^not ok .* the module kvm_pmu is loaded' 'modprobe kvm_pmu' -- \
		doctor
	in_debian modprobe kvm_pmu
	said "with the module" 0 '^ok .* perf counts instructions' \
		'^ok .* perf takes samples' -- doctor
	said "not as root" 1 'sysctl kernel.perf_event_paranoid=1' -- \
		setpriv --reuid=65534 --clear-groups "$tree/build/pv-perf-doctor"
}

vpmu() {
	in_debian modprobe kvm_pmu
	said "doctor" 1 "^not ok .* perf's hardware events are the pair's" \
		"Another PMU has perf's" 'pmu=off' 'perf stat -e kvm_pmu/' -- doctor
}

# On a host with Linux 7.3, which has the mediated virtual PMU.

mediated() {
	said "doctor" 1 '^ok .* KVM offers the feature to VMs' \
		'^not ok .* may take the whole PMU' 'enable_mediated_pmu=0' -- \
		"$tree/build/pv-perf-doctor"
}

mediated_host() {
	needs_line 7.3 "mediated virtual PMU" || return
	on_level "mediated virtual PMU" host --kernel 7.3 \
		--kvm-amd-opt enable_mediated_pmu=1 -- "$0" mediated
}

# On a host that takes signed modules only.

locked() {
	said "doctor" 1 '^not ok .* modules that dkms has signed' \
		'mokutil --import /var/lib/dkms/mok.pub' 'Enroll MOK' -- \
		doctor --can-install host
	said "make install" 1 'Nothing was changed' -- \
		in_debian "$tree/tools/install" host
	modprobe -r kvm_amd kvm
	said "modprobe" 1 'Key was rejected|Operation not permitted' -- \
		in_debian modprobe kvm
}

if [ -n "${VM_LEVEL-}" ]; then
	mount -t securityfs securityfs /sys/kernel/security
	mount_debian
	cd "$VM_SCRATCH" || exit 1
	"$1"
	finish
fi

if [ "${1-}" != mounted ]; then
	exec unshare -m "$0" mounted
fi
mount_debian
mkdir -p "$tree/build/tests/install"
cd "$tree/build/tests/install" || exit 1
purge
on_debian
update_kernel
# Through 9p, a tree that is mounted inside itself looks like a loop.
umount "$debian$(realpath "$tree/build")" "$debian$tree"
on_level "host" host --stock-kvm --host-cpus 2 -- "$0" on_host
on_level "lockdown" host --stock-kvm --append lockdown=integrity -- "$0" locked
mediated_host
mount_tree
remove_from_debian
on_kmod
remove_kmod
finish
