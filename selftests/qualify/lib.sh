# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154 # variables of tap.sh
#
# For tests that run pv-perf qualify on the emulated host. They source it after tap.sh.

# prepare_built DIR: on this machine, put into DIR what `pv-perf qualify --build` builds: the
# modules of `make modules`, and the program of checks
prepare_built() {
	local built
	built=$(realpath "$tree/build/linux-${VM_KERNEL:-6.1}")
	rm -rf "$1"
	mkdir -p "$1"
	ln -s "$built/kvm" "$built/guest" "$1/"
	build_checks "$1"
}

# build_checks DIR
build_checks() {
	/usr/bin/python3 -B -c "import sys
sys.path.insert(0, '$tree/tools')
from pvperf.qualify import build
build.build_checks('$1', '$1/log')"
}

# On the emulated host.

# boot_kernel FILE: have the guests of pv-perf qualify boot this file of the host's kernel. An
# unpacked kernel (vmlinux) boots in a fraction of the time.
boot_kernel() {
	cp "$tree/build/linux-$VM_KERNEL/$1" "/boot/vmlinuz-$(uname -r)"
}

# loaded_kvm: print build IDs and parameters of the loaded modules of KVM
loaded_kvm() {
	local module
	for module in kvm "${kvm_vendor/-/_}"; do
		echo "$module $(od -An -tx1 -v -w99 "/sys/module/$module/notes/.note.gnu.build-id")"
		grep -r . "/sys/module/$module/parameters" | sort
	done 2>&1
}

# quiet: no process of pv-perf qualify is left
quiet() {
	! pgrep -x qemu-system-x86 >/dev/null && ! pgrep -x checks >/dev/null &&
		! pgrep -f 'pv-perf qualify --yes' >/dev/null
}

# changed_since FILE: print the files of the root file system that have changed since the file
# was touched. Only written files can have: to look at all files takes minutes through 9p.
changed_since() {
	find /run/written -cnewer "$1" ! -type d -printf '/%P\n' | sort
}
