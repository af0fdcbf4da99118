# SPDX-License-Identifier: GPL-2.0
"""QEMU: the machine with an AMD CPU, by TCG, and all guests, by KVM."""
import os
import shlex
import socket
import subprocess

from vmlib import BUILD, Failure

QEMU = os.path.join(BUILD, "qemu", "qemu-system-x86_64")
FIRMWARE = ["/usr/share/seabios", "/usr/share/qemu"]

HOST_CPU = "EPYC,+svm,pmu=on,+perfctr-core,+perfmon-v2"
# The features of Zen 4 that matter for profiling.
ZEN4 = "family=25,model=17,stepping=1,+vgif,+vnmi,+amd-lbr-v2,+amd-lbr-pmc-freeze"
GUEST_CPU = {
    # migratable=no: QEMU passes on paravirtual features for which it has no name.
    "pv": "host,migratable=no,pmu=off",
    "vpmu": "host,pmu=on",
    "none": "host,pmu=off,kvm-pv-perf=off",
}
# QEMU refuses a CPU with branch records, like the host's, but without a PMU.
WITHOUT_PMU = {"amd": "", "intel": "lbr-fmt=0"}
# The CPU feature that a guest needs to be a host.
HYPERVISOR = {"amd": "+svm", "intel": "+vmx"}

MACHINE = "q35,usb=off,smbus=off,sata=off,vmport=off"


class Qemu:
    """One QEMU, for a Level."""

    name = "QEMU"
    tty = "hvc0"
    # Files and streams are virtio devices, not services on a network.
    services = ""

    def __init__(self, vm):
        if not os.access(QEMU, os.X_OK):
            raise Failure("QEMU is not built: make qemu")
        self.vm, self.o = vm, vm.o
        self.mmio = vm.level != "host" and self.o.machine == "microvm"
        self.bus = "device" if self.mmio else "pci"

    def host(self):
        o = self.o
        words = ["-machine", MACHINE,
                 "-accel", "tcg" + ("" if o.icount else ",thread=multi"),
                 "-cpu", HOST_CPU + (f",{ZEN4}" if o.cpu == "zen4" else ""),
                 "-smp", str(o.host_cpus),
                 "-m", str(o.host_mem or 2560)]
        if o.icount:
            words += ["-icount", "shift=0,sleep=off"]
        return words

    def guest(self):
        o, vm = self.o, self.vm
        hosts = vm.level == "guest" and vm.hosts
        # No HPET, as in virt-manager's guests: QEMU would wake for the HPET's ticks,
        # which the guest does not use.
        words = ["-machine", "microvm" if self.mmio else f"{MACHINE},hpet=off",
                 "-accel", ",".join(["kvm", *o.accel_opt]),
                 "-cpu", ",".join(filter(None, [
                     GUEST_CPU[o.pmu],
                     "" if o.pmu == "vpmu" else WITHOUT_PMU[o.vendor],
                     HYPERVISOR[o.vendor] if hosts else "", o.cpu_opt])),
                 "-smp", str(o.cpus),
                 "-m", str(o.mem + 768 if hosts else o.mem)]
        if vm.level == "nested":
            # SeaBIOS does not boot in a nested guest on TCG.
            words += ["-bios", "qboot.rom"]
        return words

    def parameters(self):
        """For the kernel's command line."""
        if self.vm.level == "host":
            return ["tsc=reliable"]
        # Every character on the console is an exit: the other messages are in the
        # log that is saved at the end.  Every access to one of the 255 buses that do
        # not exist is an exit, too.
        return ["loglevel=5", "pci=lastbus=0"] + (
            ["reboot=t"] if self.mmio else [])

    def streams(self, fds):
        words = ["-chardev", f"file,id=console,path={self.vm.console}",
                 "-serial", "chardev:console",
                 "-device", f"virtio-serial-{self.bus}"]
        for fd, port in zip(fds, ("status", "stdin", "stdout", "stderr")):
            words += ["-chardev", f"socket,id={port},fd={fd}",
                      "-device", f"virtserialport,chardev={port},name={port}"]
        if self.o.tty:
            words += ["-chardev", "stdio,id=tty,mux=on,signal=off",
                      "-device", "virtconsole,chardev=tty"]
        return words

    def files(self):
        words = []
        for tag, mode, path in self.vm.mounts:
            words += ["-fsdev", f"local,id={tag},path={path},"
                      "security_model=none,multidevs=remap"
                      + (",readonly=on" if mode == "ro" else ""),
                      "-device", f"virtio-9p-{self.bus},fsdev={tag},"
                      f"mount_tag={tag}"]
        return words

    def words(self, fds):
        o, vm = self.o, self.vm
        words = [QEMU, "-nodefaults", "-no-user-config", "-display", "none"]
        for path in FIRMWARE:
            words += ["-L", path]
        words += self.host() if vm.level == "host" else self.guest()
        words += ["-rtc", "base=2026-01-01,clock=vm",
                  "-kernel", f"{vm.dest}/vmlinux",
                  "-initrd", f"{vm.dest}/initrd",
                  "-append", vm.append(self.parameters())]
        words += self.streams(fds) + self.files()
        if vm.last and o.monitor:
            words += ["-monitor", f"unix:{o.monitor},server=on,wait=off"]
        if not o.reboot:
            words += ["-no-reboot"]
        return words + (shlex.split(o.qemu) if vm.last else [])

    def start(self, log):
        """Sets process, and ports: status, stdin, stdout, stderr."""
        pairs = [socket.socketpair() for _ in range(4)]
        fds = [theirs.fileno() for _, theirs in pairs]
        words = self.words(fds)
        self.vm.say(shlex.join(words))
        self.process = subprocess.Popen(
            words, pass_fds=fds, stderr=log,
            stdin=None if self.o.tty else subprocess.DEVNULL,
            stdout=None if self.o.tty else subprocess.DEVNULL)
        for _, theirs in pairs:
            theirs.close()
        self.ports = [ours for ours, _ in pairs]

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
