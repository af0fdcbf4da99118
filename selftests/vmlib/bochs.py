# SPDX-License-Identifier: GPL-2.0
"""Bochs: the machine with an Intel CPU.

Bochs has neither a loader for Linux nor virtio. The kernel, its initrd and its
boot parameters are in memory when a boot sector (machine/bochs/boot.S) starts.
diod serves files by 9P through the emulated network card. The streams use that
network, too, which ends at unix sockets in a folder of this run.
"""
import json
import os
import shutil
import socket
import struct
import subprocess
import tempfile

from vmlib import BUILD, TREE, Failure
from vmlib.terminal import Terminal

BOCHS = os.path.join(BUILD, "bochs")
MODEL = "corei7_haswell_4770"
# A later model: Linux allows any period there.
SKYLAKE_MODEL = "corei7_skylake_x"
HYBRID_MODEL = "alder_lake"
# A model that has low-power cores, too.
THREE_KINDS_MODEL = "arrow_lake_h"
BIOS = "/usr/share/bochs/BIOS-bochs-latest"
VGA_BIOS = "/usr/share/vgabios/vgabios.bin"
MSRS = os.path.join(TREE, "selftests", "machine", "bochs", "msrs")
DIOD = "/usr/sbin/diod"

# The address of the services for `init` and `run-job`, and their ports: 9P and
# the streams.
SERVICES = "10.0.2.100"
PORTS = {"9p": 564, "status": 1, "stdin": 2, "stdout": 3, "stderr": 4}

# The machine's clock: each instruction takes 1/IPS seconds.
IPS = 200000000
MAX_MEM = 2048

# See boot.S.
BOOT_PARAMS = 0x800000

CONFIG = """\
config_interface: textconfig
display_library: nogui
plugin_ctrl: unmapped=true, biosdev=true, speaker=false, extfpuirq=true, \
parallel=false, serial=true
cpu: model={model}, count={cpus}, hybrid="{cores}", ips={ips}, \
perfmon_version=4, perfmon_skid={skid}, reset_on_triple_fault=0, ignore_bad_msrs=0, \
msrs="{msrs}", mwait_is_nop=0
memory: guest={mem}, host={mem}, block_size=2048
romimage: file={bios}, options=fastboot
vgaromimage: file={vga_bios}
vga: extension=none, update_freq=1, realtime=0
pci: enabled=1, chipset=i440fx
ata0: enabled=1, ioaddr1=0x1f0, ioaddr2=0x3f0, irq=14
ata1: enabled=0
ata0-master: type=disk, mode=flat, path="{folder}/disk", cylinders=0
boot: disk
clock: sync={sync}, time0=1767225600, rtc_sync=0
com1: enabled=1, mode=file, dev="{console}"
log: "{log}"
logprefix: %t%e%d
debug: action=ignore
info: action=report
error: action=report
panic: action=fatal
private_colormap: enabled=0
"""

NETWORK = """\
plugin_ctrl: e1000=true
e1000: enabled=1, mac=52:54:00:12:34:56, ethmod=slirp, script={folder}/slirp
"""

SLIRP = """\
# slirp config
restricted = 1
ipv6_enabled = 0
"""


def load_segments(path):
    """The ELF file's entry and segments (physical address, data, size in memory)."""
    with open(path, "rb") as f:
        data = f.read()
    entry, offset = struct.unpack_from("<QQ", data, 24)
    size, count = struct.unpack_from("<HH", data, 54)
    segments = []
    for n in range(count):
        kind, _, start, _, address, stored, used = struct.unpack_from(
            "<IIQQQQQ", data, offset + n * size)
        if kind == 1:           # PT_LOAD
            segments.append((address, data[start:start + stored], used))
    return entry, segments


def model_for(cores):
    """The CPU model that has cores of these kinds; without kinds, not hybrid."""
    if "L" in cores:
        return THREE_KINDS_MODEL
    return HYBRID_MODEL if cores else MODEL


def program(cpus):
    return os.path.join(BOCHS, "bochs" if cpus == 1 else "bochs-smp")


def start(words, stdout, stderr):
    """Starts a program that is killed when this program ends."""
    return subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *words],
                            stdin=subprocess.DEVNULL, stdout=stdout,
                            stderr=stderr)


def image(number, path, address):
    """The line of the configuration that loads a file into memory."""
    return f"optramimage{number}: file=\"{path}\", address={address:#x}\n"


class Machine:
    """A Bochs with a program in memory that the boot sector enters."""

    def __init__(self, cpus=1, mem=MAX_MEM, model=None, skid=0, cores=""):
        self.cpus, self.mem, self.skid, self.cores = cpus, mem, skid, cores
        self.model = model or model_for(cores)
        self.folder = tempfile.mkdtemp(prefix="vm-")

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, data):
        with open(self.path(name), "wb") as f:
            f.write(data)

    def place(self, elf):
        """Writes the program's image and the boot sector; returns the entry and
        the end of the program in memory."""
        entry, segments = load_segments(elf)
        self.start = min(address for address, _, _ in segments)
        with open(self.path("kernel"), "wb") as f:
            for address, data, _ in segments:
                f.seek(address - self.start)
                f.write(data)
        with open(os.path.join(BOCHS, "boot.bin"), "rb") as f:
            self.write("disk", f.read())
        os.truncate(self.path("disk"), 1 << 20)
        return entry, max(address + used for address, _, used in segments)

    def configure(self, console, log, params, more="", sync="none"):
        self.write("params", params)
        self.write("config", (CONFIG.format(
            # A hybrid CPU is one processor with several cores.
            model=self.model, cpus=f"1:{self.cpus}" if self.cores else self.cpus,
            cores=self.cores, ips=IPS, skid=self.skid,
            mem=self.mem, sync=sync, bios=BIOS, vga_bios=VGA_BIOS, msrs=MSRS,
            folder=self.folder, console=console, log=log)
            + image(1, self.path("kernel"), self.start)
            + image(2, self.path("params"), BOOT_PARAMS) + more).encode())

    def run(self, stderr):
        return start([program(self.cpus), "-q", "-f", self.path("config")],
                     subprocess.DEVNULL, stderr)

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)


def bare_params(entry):
    """The memory at BOOT_PARAMS for any program: entry and page tables."""
    page = bytearray(0x8000)
    struct.pack_into("<Q", page, 0x1ff8, entry)
    # The first 4 GB are mapped at the same address, in pages of 2 MB.
    struct.pack_into("<Q", page, 0x2000, BOOT_PARAMS + 0x3000 + 3)
    for n in range(4):
        struct.pack_into("<Q", page, 0x3000 + 8 * n,
                         BOOT_PARAMS + 0x4000 + 0x1000 * n + 3)
    for n in range(2048):
        struct.pack_into("<Q", page, 0x4000 + 8 * n, n << 21 | 0x83)
    return page


def boot_params(entry, mem, command_line, initrd_at, initrd_size):
    """The memory at BOOT_PARAMS for Linux, with its boot_params and command line."""
    page = bare_params(entry)
    struct.pack_into("<H", page, 0x1fe, 0xaa55)
    struct.pack_into("<4sH", page, 0x202, b"HdrS", 0x20c)
    page[0x210] = 0xff          # type_of_loader: a loader without a number
    page[0x211] = 1             # loadflags: LOADED_HIGH
    struct.pack_into("<II", page, 0x218, initrd_at, initrd_size)
    struct.pack_into("<I", page, 0x228, BOOT_PARAMS + 0x1000)
    # The BIOS has its ACPI tables in the last 64 KB.
    tables = mem - 0x10000
    e820 = [(0, 0x9f000, 1), (0x9f000, 0x1000, 2), (0xe8000, 0x18000, 2),
            (0x100000, tables - 0x100000, 1), (tables, 0x10000, 3),
            (0xfffc0000, 0x40000, 2)]
    page[0x1e8] = len(e820)
    for n, entries in enumerate(e820):
        struct.pack_into("<QQI", page, 0x2d0 + 20 * n, *entries)
    line = command_line.encode() + b"\0"
    if len(line) > 0xff8:
        raise Failure("the kernel's command line is too long")
    page[0x1000:0x1000 + len(line)] = line
    return page


class Port:
    """A stream: a socket to which the machine will connect."""

    def __init__(self, path):
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.bind(path)
        self.listening.listen()
        self.connected = None
        self.timeout = None

    def connection(self):
        if not self.connected:
            self.listening.settimeout(self.timeout)
            self.connected, _ = self.listening.accept()
            self.connected.settimeout(self.timeout)
        return self.connected

    def settimeout(self, timeout):
        self.timeout = timeout

    def recv(self, size):
        return self.connection().recv(size)

    def sendall(self, data):
        self.connection().sendall(data)

    def shutdown(self, how):
        self.connection().shutdown(how)

    def close(self):
        """Wakes a thread that waits for the stream."""
        for end in filter(None, (self.connected, self.listening)):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:     # the socket is closed already
                pass


def file_systems(*paths):
    """The mount points of the paths' file systems, without /."""
    found = []
    for path in map(os.path.realpath, paths):
        while not os.path.ismount(path):
            path = os.path.dirname(path)
        if path != "/" and path not in found:
            found.append(path)
    return found


class Bochs:
    """One Bochs, for the Level of the host."""

    name = "Bochs"
    tty = "ttyS1"
    services = SERVICES

    def __init__(self, vm):
        self.vm, self.o = vm, vm.o
        self.mem = self.o.host_mem or MAX_MEM
        if self.mem > MAX_MEM:
            raise Failure(f"Bochs has at most {MAX_MEM} MB")
        if vm.last and (self.o.monitor or self.o.qemu or self.o.reboot):
            raise Failure("the host is not on QEMU: no --monitor, no --qemu, and "
                          "no --reboot, as what it boots is in memory only once")
        for file in program(self.o.host_cpus), BIOS, VGA_BIOS, DIOD:
            if not os.path.exists(file):
                raise Failure(f"{file} is not there: make bochs")
        # diod does not cross from one file system to another.
        others = file_systems(TREE, BUILD, os.getcwd())
        if others:
            vm.mounts[2:2] = [(f"disk{n}", "ro", path)
                              for n, path in enumerate(others)]
            # The run's folder again, because it may be below another mount.
            vm.mounts.insert(2 + len(others), ("run", "rw", vm.run))

    def parameters(self):
        """For the kernel's command line."""
        # The serial line is no faster than its rate: the other messages are in
        # the log that is saved at the end.
        return ["console=ttyS0,115200", "loglevel=5", "tsc=reliable"]

    def configure(self):
        vm, machine = self.vm, self.machine
        initrd = f"{vm.dest}/initrd"
        entry, end = machine.place(f"{vm.dest}/vmlinux")
        initrd_at = (end + 0x1fffff) & ~0x1fffff
        params = boot_params(
            entry, machine.mem << 20, vm.append(self.parameters()), initrd_at,
            os.path.getsize(initrd))
        more = image(3, initrd, initrd_at)
        more += NETWORK.format(folder=machine.folder)
        if self.o.tty:
            more += f"com2: enabled=1, mode=term, dev={self.terminal.name}\n"
        machine.configure(vm.console, vm.prefix + ".bochs", params, more,
                          "none" if self.o.icount else "slowdown")
        machine.write("slirp", (SLIRP + "".join(
            f"guestfwd = {SERVICES}:{port}-unix:{machine.path(name)}\n"
            for name, port in PORTS.items())).encode())

    def serve_files(self, log):
        # diod uses the first match: writable folders, inside read-only ones,
        # come first.
        exports = ", ".join(
            f"{{ path = {json.dumps(path)}, opts = '{'ro' * (mode == 'ro')}' }}"
            for _, mode, path in reversed(self.vm.mounts))
        path = self.machine.path
        self.machine.write("diod", f"exports = {{ {exports} }}\n".encode())
        self.diod = start([DIOD, "-f", "-n", "-S", "-U", "root",
                           "-c", path("diod"), "-l", path("9p"),
                           "-L", "stderr"], log, log)

    def start(self, log):
        """Sets process, and ports: status, stdin, stdout, stderr."""
        self.machine = Machine(
            self.o.host_cpus, self.mem, skid=self.o.skid, cores=self.o.cores or "",
            model=SKYLAKE_MODEL if self.o.cpu == "skylake" else None)
        if self.o.tty:
            # The process does not exist yet.
            # pylint: disable-next=unnecessary-lambda
            self.terminal = Terminal(lambda: self.process.terminate())
        self.configure()
        self.serve_files(log)
        self.ports = [Port(self.machine.path(name)) for name in
                      ("status", "stdin", "stdout", "stderr")]
        self.process = self.machine.run(log)
        if self.o.tty:
            self.terminal.start()

    def stop(self):
        for process in self.process, self.diod:
            process.kill()
            process.wait()
        for port in self.ports:
            port.close()
        if self.o.tty:
            self.terminal.stop()
        self.machine.remove()
