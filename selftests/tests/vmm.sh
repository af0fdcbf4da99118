#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The pair with the VMMs of users: Debian's QEMU, libvirt with this QEMU, and QEMU with the
# patch that names the feature.
# A guest with one program in memory prints the output of pv-perf-doctor.
# vm: host --kvm-opt enable_pmu=0 --timeout 2400
# tier: all
# machines: amd
# needs: build/pv-perf-doctor
# packages: qemu-system-x86 libvirt-daemon libvirt-clients
# seconds: 100
. "$VM_TREE/selftests/tap.sh"
kernel=$VM_TREE/build/linux-$VM_GUEST_KERNEL
root=/dev/shm/root
guest_kernel=$kernel/vmlinux
initrd=/dev/shm/initrd
append="console=ttyS0 panic=-1 loglevel=4"
cd /dev/shm || exit 1

make_initrd() {
	mkdir -p $root/{bin,dev,proc,sys}
	cp /bin/busybox $root/bin/
	cp "$kernel/guest/kvm_pmu.ko" "$VM_TREE/build/pv-perf-doctor" $root/
	# The doctor's libraries.
	ldd $root/pv-perf-doctor | grep -o '/[^ ]*' | xargs cp --parents -Lt $root
	cat >$root/init <<-'END'
		#!/bin/busybox sh
		/bin/busybox --install -s /bin
		mount -t proc proc /proc
		mount -t sysfs sysfs /sys
		mount -t devtmpfs devtmpfs /dev
		exec >/dev/ttyS0 2>&1
		insmod /kvm_pmu.ko
		/pv-perf-doctor
		echo "status $?"
		sleep 1
		reboot -f
	END
	chmod +x $root/init
	(cd $root && find . | busybox cpio -o -H newc 2>/dev/null) >$initrd
}

# run_qemu CPU [QEMU [ACCEL-OPTION]]
run_qemu() {
	timeout 200 "${2:-qemu-system-x86_64}" -nodefaults -L /usr/share/seabios \
		-L /usr/share/qemu -display none -no-reboot \
		-accel "kvm${3:+,$3}" -cpu "$1" -m 256 -serial stdio \
		-kernel "$guest_kernel" -initrd $initrd -append "$append"
}

# libvirt's driver for QEMU without its daemons.
run_libvirt() {
	cat >domain.xml <<-END
		<domain type='kvm'>
		  <name>guest</name>
		  <memory unit='MiB'>256</memory>
		  <vcpu>1</vcpu>
		  <os>
		    <type arch='x86_64' machine='q35'>hvm</type>
		    <kernel>$guest_kernel</kernel>
		    <initrd>$initrd</initrd>
		    <cmdline>$append</cmdline>
		  </os>
		  <features><acpi/><pmu state='off'/></features>
		  <cpu mode='host-passthrough' migratable='off'/>
		  <on_reboot>destroy</on_reboot>
		  <devices>
		    <serial type='file'><source path='/dev/shm/serial'/></serial>
		    <memballoon model='none'/>
		  </devices>
		</domain>
	END
	mkdir -p libvirt/etc
	cat >libvirt/etc/qemu.conf <<-END
		user = "root"
		group = "root"
		security_driver = "none"
		namespaces = []
		cgroup_controllers = []
		stdio_handler = "file"
	END
	# The package libvirt-daemon-system adds this user, too.
	useradd -r libvirt-qemu
	# virt-qemu-run does not end with the guest.
	timeout 200 virt-qemu-run --root /dev/shm/libvirt domain.xml &
	while kill -0 $! && ! grep -qs '^status' serial; do
		sleep 0.5
	done
	kill $!
	cat serial
}

# kvm_stat counts the tracepoints while a guest runs.
watch_with_kvm_stat() {
	PYTHONUNBUFFERED=1 \
		"$kernel/source/tools/kvm/kvm_stat/kvm_stat" --tracepoints --log \
		--fields '^kvm_pv_perf' >kvm_stat.out 2>&1 &
	"$@"
	sleep 5
	kill $!
}

make_initrd
qemu-system-x86_64 --version | sed -n 's/^/# /p'
watch_with_kvm_stat run_qemu host,migratable=no,pmu=off >out 2>&1
has "QEMU -cpu host,migratable=no,pmu=off: the doctor finds no fault" \
	'^status 0' out
has "QEMU: the doctor takes samples" '^ok .* perf takes samples' out
has "QEMU: the doctor counts events of the hypervisor" \
	'^ok .* perf counts events of the hypervisor' out
sed 's/^/# /' kvm_stat.out
is "kvm_stat counts operations, opened events and overflows" \
	"$(awk '{ op += $3; open += $4; overflow += $5 }
	END { print (op > 2), (open > 0), (overflow > 0) }' kvm_stat.out)" "1 1 1"
run_qemu host,pmu=off >out 2>&1
has "QEMU without migratable=no: the doctor says that the feature is missing" \
	'^not ok .* the host offers the feature' out
for cpu in host,pmu=off EPYC,kvm-pv-perf=on,pmu=off; do
	run_qemu "$cpu" "$VM_TREE/build/qemu/qemu-system-x86_64" \
		pv-perf-counts=0 >out 2>&1
	has "QEMU with our patches, -cpu $cpu: the doctor finds no fault" \
		'^status 0' out
	has "QEMU with our patches, -cpu $cpu: the VM does not have the hypervisor's events" \
		'^There are no events of the hypervisor' out
done
virsh --version | sed 's/^/# libvirt /'
run_libvirt >out 2>&1
has "libvirt: the doctor finds no fault" '^status 0' out
has "libvirt: the doctor counts events of the hypervisor" \
	'^ok .* perf counts events of the hypervisor' out
finish
