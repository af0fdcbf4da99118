#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The script of pv-perf-host-kmod: if the modules of one kernel cannot be installed, this kernel
# and all others lose modules that were built for an earlier version, and the log says so.
# vm: none
# tier: quick
# seconds: 1
self=$(realpath "$0")
tree=${self%/selftests/*}
. "$tree/selftests/tap.sh"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1

# The script, with this folder in place of the machine's.
sed "s|/lib/modules|$dir/modules|g; s|^lib=.*|lib=$dir/lib|; s|^state=.*|state=$dir/state|" \
	"$tree/tools/host-kmod" >host-kmod
mkdir bin state
for program in depmod logger pv-perf-doctor; do
	ln -s /bin/true bin/$program
done
for release in 6.1.0-40 6.1.0-41; do
	mkdir -p modules/$release/{kernel,updates/pv-perf} lib/kmod/$release
	echo old >modules/$release/updates/pv-perf/kvm.ko
	echo "kernel 1.40 source old" >state/$release
	echo new >lib/kmod/$release/kvm.ko
done
# Both kernels are a later version now. The package has modules for the first.
printf '#!/bin/sh\necho 1.41\n' >lib/kernel-version
echo "kernel 1.41 source new" >lib/kmod/6.1.0-40/built-from
echo "kernel 1.40 source old" >lib/kmod/6.1.0-41/built-from
printf '#!/bin/sh\necho "cp: No space left on device" >&2\nexit 1\n' >bin/cp
chmod +x host-kmod bin/cp lib/kernel-version
export PATH=$dir/bin:$PATH

./host-kmod update >out 2>&1
is "an update without room fails" $? 1
none "no kernel has the old modules" "$(find modules -name '*.ko')"
has "it says that the kernel keeps its own KVM" \
	'Linux 6.1.0-40 keeps its own KVM: an update has failed' out
has "it goes on with the other kernel" 'Linux 6.1.0-41 keeps its own KVM: the kernel is 1.41' out
none "no state says that modules of the pair are installed" "$(grep -l '^kernel' state/*)"
rm bin/cp
./host-kmod update >out 2>&1
is "with room, an update ends well" $? 0
is "and installs the new modules" "$(cat modules/*/updates/pv-perf/kvm.ko)" new
finish
