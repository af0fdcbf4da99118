# SPDX-License-Identifier: GPL-2.0
"""A guest with the running kernel and one program: the checks."""
import json
import os
import selectors
import shutil
import subprocess
import time

from pvperf.error import Error
from pvperf.qualify import guard
from pvperf.text import printable

# The time that a guest may be silent, in s.
SILENCE = 120
# The limit of a guest's output, in bytes.
MOST = 16 << 20


def entry(name, mode, data=b"", number=0):
    """An entry of a cpio archive: linux/Documentation/driver-api/early-userspace."""
    name = name.encode() + b"\0"
    head = "070701" + "".join(f"{n:08x}" for n in (
        number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name), 0))
    head = head.encode() + name
    head += b"\0" * (-len(head) % 4)
    return head + data + b"\0" * (-len(data) % 4)


def write_initrd(path, built):
    folders = ["dev", "proc", "sys"]
    files = [("init", os.path.join(built, "checks"), 0o100755),
             ("kvm_pmu.ko", os.path.join(built, "guest", "kvm_pmu.ko"), 0o100644)]
    with open(path, "wb") as out:
        for n, name in enumerate(folders):
            out.write(entry(name, 0o040755, number=n + 1))
        for n, (name, file, mode) in enumerate(files):
            with open(file, "rb") as f:
                out.write(entry(name, mode, f.read(), n + 10))
        out.write(entry("TRAILER!!!", 0))


def parse(text):
    """The JSON of a line; None if the line is cut."""
    try:
        return json.loads(text)
    except ValueError:
        return None


class Died(Exception):
    """The guest has ended early, or hangs."""


class Guest:
    """A guest of the distribution's QEMU, without disk and network."""

    def __init__(self, kernel, initrd, names, log, append="", cpu="host,migratable=no,pmu=off"):
        # No HPET, like guests of virt-manager.  Fewer devices make the boot faster.
        self.words = [
            shutil.which("qemu-system-x86_64"), "-nodefaults", "-no-user-config",
            "-display", "none", "-no-reboot", "-name", "pv-perf-qualify,debug-threads=on",
            "-machine", "q35,usb=off,smbus=off,sata=off,vmport=off,hpet=off",
            "-accel", "kvm", "-cpu", cpu, "-smp", "1", "-m", "512",
            "-serial", "stdio", "-kernel", kernel, "-initrd", initrd,
            "-append", "console=ttyS0 panic=-1 loglevel=4 pci=lastbus=0 "
            f"cryptomgr.notests=1 qualify.checks={','.join(names)} {append}"]
        self.log = open(log, "ab")      # pylint: disable=consider-using-with
        self.pending, self.left = b"", MOST
        self.console = []

    def __enter__(self):
        self.process = guard.start(self.words, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=self.log)
        os.set_blocking(self.process.stdout.fileno(), False)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.process.stdout, selectors.EVENT_READ)
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.selector.close()
        self.log.close()

    @property
    def pid(self):
        return self.process.pid

    def lines(self):
        """Yields the lines of the guest's console, until the guest ends."""
        while True:
            while b"\n" in self.pending:
                line, self.pending = self.pending.split(b"\n", 1)
                yield line.decode(errors="replace").strip()
            if not self.selector.select(SILENCE):
                raise Died(f"it has said nothing for {SILENCE} s")
            data = self.process.stdout.read(65536)
            if not data:
                return
            self.left -= len(data)
            if self.left < 0:
                raise Died(f"it has said more than {MOST >> 20} MB")
            self.log.write(data)
            self.log.flush()
            self.pending += data

    def answer(self):
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def results(self, helper):
        """Yields (WORD, REST) of each line that begins with @.  The Helper does what the guest
        asks for.  Raises Died."""
        ended = False
        for line in self.lines():
            if not line.startswith("@"):
                self.console.append(printable(line))
                continue
            word, _, rest = line[1:].partition(" ")
            if word == "wait":
                helper.do(rest, self)
                self.answer()
            elif word == "begin":
                # The helper answers twice: the guest goes on after the first answer.
                helper.begin(rest, self)
            else:
                ended |= word == "end"
                yield word, rest
        if not ended:
            raise Died("it has ended: " + " / ".join(self.console[-5:]))

    def run(self, helper, step=lambda name: None):
        """Returns ({check: its figures}, reason of an early end or None, {WORD: JSON of other
        lines})."""
        found, other, current = {}, {}, None
        try:
            for word, rest in self.results(helper):
                if word == "check":
                    current = rest
                    step(rest)
                elif word == "result":
                    result = json.loads(rest)
                    found[result["check"]] = result
                else:
                    other[word] = parse(rest)
            died = None
        except (Died, json.JSONDecodeError, OSError) as error:
            died = f"{error}"
            if current and current not in found:
                found[current] = {"check": current, "died": died}
        return found, died, other


def version():
    program = shutil.which("qemu-system-x86_64")
    if not program:
        raise Error("there is no QEMU", "apt install qemu-system-x86")
    text = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
    return text.splitlines()[0] if text else "unknown"


def wait_until(true, seconds):
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.1)
    return true()
