# SPDX-License-Identifier: GPL-2.0
"""The host: facts for the report, problems that forbid a run, and the kernel's log."""
import os
import re
import shutil
import subprocess

from pvperf import doctor
from pvperf.error import Error
from pvperf.qualify import build, guest, modules
from pvperf.qualify.modules import read
from pvperf.record import vmm

BAD = re.compile(r"unknown reason|Dazed and confused|WARNING:|BUG:|Oops|Call Trace|"
                 r"lockup|general protection|Kernel panic|hardware error", re.I)


# Addresses in a kernel's log, which are random, and secret.
ADDRESS = re.compile(r"\b(0x)?[0-9a-f]{8,}\b")


def bad_lines(lines):
    return [ADDRESS.sub("ADDRESS", line[:200]) for line in lines if BAD.search(line)]


class Log:
    """The kernel's log, from now on."""

    def __init__(self):
        self.fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(self.fd, 0, os.SEEK_END)

    def lines(self):
        """The lines with warnings and errors."""
        found = []
        while True:
            try:
                text = os.read(self.fd, 8192).decode(errors="replace")
            except BlockingIOError:
                break
            except BrokenPipeError:     # older lines are lost
                continue
            found.append(text.partition(";")[2].splitlines()[0])
        return bad_lines(found)


def cpu():
    wanted = {"vendor_id": "vendor", "model name": "name", "cpu family": "family",
              "model": "model", "stepping": "stepping", "microcode": "microcode"}
    found = {}
    for line in (read("/proc/cpuinfo") or "").split("\n\n")[0].splitlines():
        name, _, value = line.partition(":")
        if name.strip() in wanted:
            found[wanted[name.strip()]] = value.strip()
        elif name.strip() == "flags":
            flags = value.split()
            found["in a VM"] = "hypervisor" in flags
            found["flags"] = [f for f in flags if re.match(
                r"perfctr|perfmon|arch_perfmon|ibs|brs|amd_lbr|lbr|pdcm|vnmi|constant_tsc|"
                r"nonstop_tsc", f)]
    return found


def lines_of_doctor():
    try:
        result = subprocess.run([doctor.program(), "--can-install", "host"],
                                capture_output=True, text=True, errors="replace")
    except FileNotFoundError:
        raise doctor.MISSING from None
    return [] if not result.returncode else result.stdout.splitlines()


def kinds_of_cores():
    """The PMUs of a hybrid CPU, each with its number of CPUs; empty on other CPUs."""
    devices = "/sys/bus/event_source/devices"
    found = {}
    for name in sorted(os.listdir(devices)):
        cpus = read(f"{devices}/{name}/cpus") if name.startswith("cpu_") else None
        if cpus:
            ranges = [part.split("-") for part in cpus.split(",")]
            found[name] = sum(int(r[-1]) - int(r[0]) + 1 for r in ranges)
    return found


def facts():
    """All facts about the machine in a report.  They do not identify the machine."""
    uname = os.uname()
    what = cpu()
    lbr = "lbr-fmt=0" if what["vendor"] == "GenuineIntel" and guest_version() >= (7, 1) else ""
    return {"cpu": what, "cpus": os.cpu_count(), "kinds of cores": kinds_of_cores(),
            "kernel": {"release": uname.release, "version": uname.version},
            "qemu": guest.version() if shutil.which("qemu-system-x86_64") else None,
            "cpu options": f",{lbr}" if lbr else ""}


def guest_version():
    match = re.search(r"version (\d+)\.(\d+)", guest.version()) \
        if shutil.which("qemu-system-x86_64") else None
    return tuple(int(n) for n in match.groups()) if match else (0, 0)


def kvm_problems():
    vendor = modules.vendor()
    if not os.path.isdir("/sys/module/kvm"):
        return [f"KVM is not loaded. Remedy: modprobe {vendor}"]
    if not os.path.exists("/sys/module/kvm/initstate"):
        return ["KVM is built into this kernel. Remedy: a kernel of Debian's"]
    found = []
    if not os.path.isdir(f"/sys/module/{vendor}"):
        found.append(f"{vendor} is not loaded. Remedy: modprobe {vendor}")
    if modules.users():
        names = [f"{p} ({read(f'/proc/{p}/comm')})" for p in sorted(vmm.of_kvm())]
        found.append("KVM is in use, by process " + ", ".join(names or ["unknown"]) +
                     ". Remedy: end these processes")
    others = [h for h in os.listdir("/sys/module/kvm/holders") if h != vendor]
    if others:
        found.append(f"{', '.join(others)} uses kvm. Remedy: rmmod {' '.join(others)}")
    for module in ("kvm", vendor):
        # To go back, qualify uses modprobe.
        if os.path.isdir(f"/sys/module/{module}") and \
                not modules.is_what_modprobe_loads(module):
            found.append(f"the loaded {module} is not the file that modprobe would load. "
                         f"Remedy: modprobe -r {vendor} kvm && modprobe {vendor}")
    return found


def build_problems():
    found = []
    packages = build.missing()
    if packages:
        found.append("packages for the build are missing. Remedy: apt install " +
                     " ".join(packages))
    try:
        build.find_source(os.uname().release)
    except Error as error:
        found.append(str(error))
    if shutil.disk_usage("/var/tmp").free < 1 << 30:
        found.append("/var/tmp has less than 1 GB. Remedy: make room")
    return found


def problems(args):
    """[reason for which qualify cannot run, with a remedy].  Changes nothing."""
    found = []
    lines = lines_of_doctor()
    if any("not ok" in line for line in lines):
        found += [line for line in lines if line.startswith(("not ok", "   "))]
    found += kvm_problems()
    if not shutil.which("qemu-system-x86_64"):
        found.append("there is no QEMU. Remedy: apt install qemu-system-x86")
    kernel = f"/boot/vmlinuz-{os.uname().release}"
    if not os.path.exists(kernel):
        found.append(f"there is no {kernel} for the guest. Remedy: apt install "
                     f"linux-image-{os.uname().release}")
    if args.built:
        build.check_built(args.built)
    else:
        found += build_problems()
    memory = re.search(r"MemAvailable: *(\d+)", read("/proc/meminfo") or "")
    if memory and int(memory[1]) < 800 * 1024:
        found.append("less than 800 MB of memory are free")
    folder = os.path.dirname(os.path.abspath(args.o))
    if not os.access(folder, os.W_OK):
        found.append(f"{folder} cannot be written. Remedy: -o NAME")
    return found
