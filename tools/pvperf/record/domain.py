# SPDX-License-Identifier: GPL-2.0
"""One machine of a session, and the commands that pv-perf runs on it."""
import os
import re
import threading
import time

from pvperf import text
from pvperf.record.transport.common import Failed

SCRIPT_FILE = os.path.join(os.path.dirname(os.path.realpath(__file__)),
                           "machine.sh")
# The time that a machine may take to start, in s.  Quick commands have a part of this time.
PATIENCE = 60
# Does a guest have perf, and the driver of the pair?
PROBE = """PATH=${PATH:-/bin}:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
perf version >/dev/null 2>&1 || { echo no perf there that runs >&2; exit 1; }
cat /sys/bus/event_source/devices/*/clock >/dev/null 2>&1 ||
{ echo it does not have the pair >&2; exit 1; }"""


def load_script():
    with open(SCRIPT_FILE, encoding="ascii") as f:
        return f.read()


class Domain:
    """The host, a guest, or a passive guest, on which nothing runs for the session."""

    script = load_script()

    def __init__(self, name, kind, transport=None, connect=None, place=None):
        self.name, self.kind, self.connect = name, kind, connect
        self.transport, self.place = transport, place
        self.patience = PATIENCE
        self.status = "ok"
        self.pid, self.vcpus = None, []
        # The domain's UUID in libvirt.
        self.uuid = None
        # The host's counts of the VMM in guest mode, one for each of the host's events, and
        # the PIDs of the VM's helpers.
        self.counts, self.helpers = [], set()
        self.samples = self.lost = self.kernel = self.cpus = None
        # The file with the kernel's symbols of a passive guest.
        self.symbols = None
        # The file with the maps of the processes.
        self.maps = None
        self.clock = []
        self.paired = False
        # Has the session started on this machine, and is there something to clean up?
        self.started = False

    def ok(self):
        return self.status == "ok"

    def fail(self, why):
        """Sets the status.  The first failure stays: it is the reason for the others."""
        if self.ok():
            self.status = why

    def do(self, command, *arguments, timeout=None):
        """Runs a command of machine.sh on this machine; returns its lines."""
        timeout = timeout or self.patience / 4
        words = ["sh", "-c", self.script, "pv-perf", command, self.place,
                 *arguments]
        return self.transport.call(words, timeout).splitlines()

    def start(self, lease, event, mark, limit, options):
        self.started = True
        for line in self.do("start", self.kind, str(lease), event, mark,
                            str(limit), *options, timeout=self.patience):
            key, _, value = line.partition(b" ")
            if key == b"pair":
                self.paired = True
            elif key == b"kernel":
                self.kernel = text.line(value)
            elif key == b"cpus" and re.fullmatch(rb"\d{1,5}", value):
                self.cpus = int(value)

    def probe(self):
        """Raises Failed if the guest cannot record itself."""
        self.transport.call(["sh", "-c", PROBE], self.patience / 2)

    def enable(self):
        self.do("enable")

    def alive(self):
        """Renews the lease.  Returns the same as stop()."""
        return self.early(self.do("alive"))

    def stop(self, *parts):
        """Stops parts.  Returns {part: last lines of its log} of parts that ended early."""
        return self.early(self.do("stop", *parts, timeout=self.patience))

    @staticmethod
    def early(lines):
        early = {}
        for line in lines:
            word, _, rest = line.partition(b" ")
            part, _, why = rest.partition(b" ")
            if word == b"early":
                early[text.line(part)] = text.line(why)
        return early

    def script_samples(self, timeout, *options):
        """Converts the samples to text; returns the number of bytes."""
        size, early = 0, []
        for line in self.do("script", *options, timeout=timeout):
            key, _, value = line.partition(b" ")
            if key == b"early":
                part, _, why = value.partition(b" ")
                command = "data convert" if part == b"names" else "script"
                early.append(f"perf {command} failed: {text.line(why)}")
            elif re.fullmatch(rb"\d{1,15}", value):
                if key == b"lost":
                    self.lost = int(value)
                elif key == b"size":
                    size = int(value)
        for why in early:
            self.fail(why)
        return size

    def fetch(self, name, path, size, timeout):
        """Copies at most size bytes of a file.  After a failure, path has a part of them."""
        place = self.do("place")
        folder = place[0].decode(errors="replace") if place else ""
        if not folder.startswith("/"):
            raise Failed("it does not say where its files are")
        with open(path, "wb") as file:
            self.transport.fetch(f"{folder}/{name}", file, size, timeout)
            if name == "samples.gz" and file.tell() < size:
                raise Failed(f"only {file.tell()} of {size} bytes have come")

    def clean(self):
        self.do("clean")
        self.started = False

    def describe(self):
        """The entry of session.json."""
        return {"name": self.name, "kind": self.kind, "connect": self.connect,
                "uuid": self.uuid, "status": self.status, "pid": self.pid, "vcpus": self.vcpus,
                "counted": self.counts[0] if self.counts else None,
                "more": self.counts[1:], "helpers": sorted(self.helpers),
                "samples": self.samples, "symbols": self.symbols, "maps": self.maps,
                "lost": self.lost or 0, "clock": self.clock}


def each(domains, function, timeout, hurry=None, keep=()):
    """Calls function(domain) for all domains at the same time.  If a domain fails, or does
    not answer within timeout, its status says so.  The Event hurry ends the waiting, except
    for the domains in keep."""
    ended = {}

    def run(domain):
        try:
            function(domain)
            ended[domain] = None
        except Failed as error:
            ended[domain] = str(error)
        except Exception as error:  # a transport's library may raise anything
            ended[domain] = f"{type(error).__name__}: {error}"

    threads = {d: threading.Thread(target=run, args=(d,), daemon=True)
               for d in domains}
    for thread in threads.values():
        thread.start()
    deadline = time.monotonic() + timeout
    while any(t.is_alive() for d, t in threads.items()
              if d in keep or not (hurry and hurry.is_set())):
        time.sleep(0.02)
        if time.monotonic() > deadline:
            break
    for domain in domains:
        why = ended.get(domain, f"no answer within {timeout:.0f} s"
                        if not (hurry and hurry.is_set()) else "interrupted")
        if why:
            domain.fail(text.line(why.encode()))
