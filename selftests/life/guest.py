# SPDX-License-Identifier: GPL-2.0
"""A guest with all its files in memory, which can migrate from QEMU to QEMU."""
import os
import re
import socket
import subprocess
import sys
import time

TREE = os.environ["VM_TREE"]
# QEMU's library comes with its source. vmlib is for the tests that import this module.
sys.path[:0] = [os.path.join(TREE, "build", "qemu-src", "python"),
                os.path.join(TREE, "selftests")]
# pylint: disable-next=wrong-import-position,no-name-in-module
from qemu.qmp import QMPError
# pylint: disable-next=wrong-import-position,no-name-in-module
from qemu.qmp.legacy import QEMUMonitorProtocol
# pylint: disable-next=wrong-import-position,unused-import # for the tests
from vmlib.tap import Tap

LINE = os.path.join(TREE, "build",
                    "linux-" + os.environ["VM_GUEST_KERNEL"])
QEMU = os.path.join(TREE, "build", "qemu", "qemu-system-x86_64")
# QEMU refuses a CPU with branch records, like Intel's, but without a PMU.
NO_PMU = "pmu=off" + (",lbr-fmt=0" if os.path.exists("/sys/module/kvm_intel")
                      else "")
# With migratable=no the guest's CPU has an invariant TSC if the host's CPU has one, like
# Intel's, and QEMU does not migrate an invariant TSC.
PV = "host,migratable=no,invtsc=off," + NO_PMU
NO_PV = f"host,{NO_PMU},kvm-pv-perf=off"
RDPMC = "kvm,pv-perf-rdpmc=on"

LONG = 500000004                # instructions of longloop
TIMEOUT = 300 * float(os.environ["VM_PATIENCE"])        # seconds


def count(line):
    """(count, percentage of the time) of a line of perf stat -x,"""
    words = line.split(",")
    if len(words) < 5:
        raise ValueError(f"no count in '{line}'")
    return (int(words[0]) if words[0].isdigit() else None, float(words[4]))


def connect(path):
    s = socket.socket(socket.AF_UNIX)
    for _ in range(600):
        try:
            s.connect(path)
            return s
        except OSError:
            time.sleep(0.1)
    raise TimeoutError(path)


class Qemu:
    """One QEMU.  Its guest may come from another QEMU."""
    count = 0

    def __init__(self, cpu=PV, cpus=2, mem=256, incoming=None,
                 append="", accel="kvm", initrd=LINE + "/memory-initrd"):
        Qemu.count += 1
        self.name = f"qemu{Qemu.count}"
        self.console = os.path.abspath(self.name + ".console")
        # A kernel with checks needs memory for KASAN's shadow and for kmemleak.
        # The clock is real: the checks take so long that the kernel would report a
        # lockup of 20 seconds, the default.
        if LINE.endswith("-debug"):
            mem += 256
            append += (" watchdog_thresh=60"
                       " rcupdate.rcu_cpu_stall_timeout=120")
        path = f"/run/{self.name}"
        words = [QEMU, "-nodefaults", "-no-user-config", "-display", "none",
                 "-L", "/usr/share/seabios", "-L", "/usr/share/qemu",
                 "-machine", "q35,usb=off,smbus=off,sata=off,vmport=off,"
                 "hpet=off",
                 "-accel", accel, "-cpu", cpu, "-smp", str(cpus),
                 "-m", str(mem),
                 "-kernel", LINE + "/vmlinux",
                 "-initrd", initrd,
                 "-append", "console=ttyS0 panic=-1 nokaslr loglevel=5 pci=lastbus=0 "
                 "no_console_suspend 8250.nr_uarts=2 " + append,
                 "-chardev", f"file,id=console,path={self.console}",
                 "-serial", "chardev:console",
                 "-chardev", f"socket,id=shell,path={path}.shell,server=on,"
                 "wait=off", "-serial", "chardev:shell",
                 "-qmp", f"unix:{path}.qmp,server=on,wait=off"]
        if incoming:
            words += ["-incoming", incoming]
        self.process = subprocess.Popen(words)
        self.qmp = QEMUMonitorProtocol(connect(path + ".qmp"))
        self.qmp.connect()
        self.qmp.settimeout(TIMEOUT)
        self.shell = connect(path + ".shell")
        self.shell.settimeout(TIMEOUT)
        if not incoming:
            self.receive()

    def wait_status(self, command, *wanted):
        """Waits until the status in the command's answer is wanted; returns the status."""
        for _ in range(int(TIMEOUT * 5)):
            answer = self.qmp.cmd(command)
            if answer.get("status") in wanted:
                return answer["status"]
            time.sleep(0.2)
        raise TimeoutError(f"{self.name}: {command}: {answer}")

    def state(self):
        """The state of QEMU and its guest, for a failure's message."""
        registers = {"command-line": "info registers -a"}
        return "\n".join((str(self.qmp.cmd("query-status")),
                          str(self.qmp.cmd("query-migrate")),
                          self.qmp.cmd("human-monitor-command", **registers)))

    def send(self, command):
        self.shell.sendall(f"{command}\necho \"@@\"$?\n".encode())

    def receive(self):
        """Returns the command's output."""
        text = ""
        while not re.search(r"@@\d+\r?\n$", text):
            try:
                data = self.shell.recv(65536)
            except TimeoutError:
                data = b""
            if not data:
                raise EOFError("\n".join((f"{self.name} does not answer", text,
                                          self.state(), self.log()[-3000:])))
            text += data.decode(errors="replace")
        return re.sub(r"@@\d+\r?\n$", "", text).replace("\r", "")

    def run(self, command):
        self.send(command)
        return self.receive()

    def handled(self):
        return int(self.run("cat /sys/kernel/debug/kvm_pmu/overflows"))

    def samples_go_on(self, load="sleep 1"):
        """Are there ten more samples within a minute?"""
        before = self.handled()
        for _ in range(60):
            if self.handled() >= before + 10:
                return True
            self.run(load)
        return False

    def log(self):
        with open(self.console, errors="replace") as f:
            return f.read()

    def bad_lines(self):
        """Lines that must not be in the guest's log, and leaked memory, as in run-job."""
        return self.run("dmesg | grep -E 'WARNING|BUG:|Call Trace|UBSAN:|"
                        "ODEBUG:|unknown reason' | grep -v 'WARNING: See';"
                        "k=/sys/kernel/debug/kmemleak; [ ! -e $k ] || {"
                        " echo scan >$k; sleep 6; echo scan >$k; cat $k; }")

    def save(self, path):
        self.qmp.cmd("stop")
        self.migrate(f"exec:cat >{path}")

    def migrate(self, uri):
        self.qmp.cmd("migrate-set-parameters", **{"downtime-limit": 1000})
        self.qmp.cmd("migrate", uri=uri)
        if self.wait_status("query-migrate", "completed", "failed") == "failed":
            raise RuntimeError(f"{self.name}: {self.qmp.cmd('query-migrate')}")

    def wait_running(self):
        self.wait_status("query-status", "running")

    def moved(self, uri, **kwargs):
        """Migrates the guest to a QEMU with these arguments; returns the new QEMU."""
        new = Qemu(incoming=uri, **kwargs)
        self.migrate(uri)
        new.wait_running()
        self.quit()
        return new

    def go_on(self):
        """Continues a saved guest when it is completely loaded."""
        self.wait_status("query-migrate", "completed")
        self.qmp.cmd("cont")

    def quit(self):
        for end in (lambda: self.qmp.cmd("quit")), self.qmp.close:
            try:
                end()
            except (EOFError, OSError, QMPError):   # QEMU has ended already
                pass
        self.process.wait(60)
