#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Tests pv-perf's evaluation of clocks' measurements, with clocks whose time is known."""
import bisect
import gzip
import os
import random
import sys
import tempfile

from pvperf.record import clock
from vmlib.tap import Tap

tap = Tap()


def check(name, passed, note=""):
    tap.ok(passed, f"{name}: {note}" if note else name)


class Guest:
    """A guest with four vCPUs, whose clock started later than the host's and is slower."""

    def __init__(self, pid, offset=0, drift=20e-6, skew=0):
        self.pid, self.offset, self.drift, self.skew = pid, offset, drift, skew
        self.said, self.traced = [], []

    def time(self, host, cpu=0):
        return int((host - self.offset) * (1 - self.drift)) + cpu * self.skew

    def measure(self, host, times=(1500, 3000, 90000)):
        for _ in range(3):
            for cpu in range(4):
                took = random.choice(times)
                at = host + random.randrange(100, took - 100)
                before = self.time(host, cpu)
                after = self.time(host + took, cpu)
                self.said.append(f"{cpu} {before} {after}\n")
                self.traced.append(
                    f" {self.pid}/{self.pid + cpu}   {at // 10**9}."
                    f"{at % 10**9:09}: kvm:kvm_pv_perf_op: vcpu {cpu} READ "
                    f"0xfffffffe 0x{before & 0xffffffff:x} ret -2\n")
                host += took + 20000


def understand(guest, more="", traced=""):
    """Returns (points, the trace of hypercalls, the guest's measurements)."""
    with tempfile.TemporaryDirectory() as folder:
        said = os.path.join(folder, "said")
        with open(said, "w", encoding="latin-1") as f:
            f.writelines(guest.said)
            f.write(more)
        path = os.path.join(folder, "trace.gz")
        with gzip.open(path, "wt") as f:
            f.writelines(guest.traced)
            f.write(traced)
        found = clock.measured(said)
        trace = clock.Hypercalls(guest.pid)
        trace.read(path, [found])
        return clock.points(trace.pairs(found)), trace, found


def host_time(points, time):
    """Interpolates linearly, like pv-perf report."""
    n = min(max(bisect.bisect([p[0] for p in points], time), 1), len(points) - 1)
    (a, x, _), (b, y, _) = points[n - 1], points[n]
    return x + (time - a) * (y - x) / (b - a)


def worst(guest, points, seconds, cpu=0):
    """The largest error at any time, in us."""
    return max(abs(host_time(points, guest.time(t, cpu) / 1e9) - t / 1e9)
               for t in (random.randrange(START, START + seconds * 10**9)
                         for _ in range(2000))) * 1e6


START = 50000 * 10**9
random.seed(17)
a = Guest(1000, START - 7 * 10**9)
for second in range(3600):
    a.measure(START + second * 10**9)
a.measure(START + 3600 * 10**9)
found, trace, said = understand(a)
check("the clock has points at the begin, at the end, and every 4 s", len(found) == 902)
error = worst(a, found, 3600)
check("the clock is within 1 us of the truth", error < 1, f"{error:.2f} us")
check("the clock says how exact it is", error < max(p[2] for p in found) * 1e6 < 2,
      f"{max(p[2] for p in found) * 1e6:.2f} us")
check("the trace shows the vCPUs' threads", trace.vcpus ==
      {0: 1000, 1: 1001, 2: 1002, 3: 1003})
check("the VMM of the guest's hypercalls is the guest's VMM", trace.is_of(said))
check("a VMM with only some of the guest's hypercalls is not the guest's VMM", not trace.is_of(
    {**dict(list(said.items())[:10]), **{-n: None for n in range(11)}}))
check("no VMM is that of a guest without measurements", not trace.is_of({}))

b = Guest(2000, START - 9 * 10**9, skew=3000)
for second in range(11):
    b.measure(START + second * 10**9)
found, _, _ = understand(b)
error = max(worst(b, found, 10, cpu) for cpu in range(4))
says = max(p[2] for p in found) * 1e6
check("the clock of vCPUs that differ by 9 us is as exact as its bound", error <= says < 10,
      f"{error:.2f} us, bound {says:.2f}")

found, _, said = understand(a)
thin = clock.best(found, 100)
check("a clock with only the best points is as exact",
      len(thin) == 92 and worst(a, thin, 3600) < max(p[2] for p in thin) * 1e6 < 1,
      f"{worst(a, thin, 3600):.2f} us")
check("there is no best point among no points", clock.best([], 100) == [])
check("one or two points are their own best points",
      [clock.best(found[:n], 100) for n in (1, 2)] ==
      [found[:1], found[:2]])

busy = Guest(6000, START - 7 * 10**9)
for second in range(61):
    busy.measure(START + second * 10**9,
                 (1500, 3000) if second % 4 in (0, 3) else (90000,))
found, _, _ = understand(busy)
error = worst(busy, found, 60)
check("the clock is exact after seconds in which each measurement takes long",
      error < max(p[2] for p in found) * 1e6 < 2,
      f"{error:.2f} us")

evil = "".join(["\x1b[2J\n", "1 2\n", "-1 5 6\n", "0 9 8\n", "x" * 5000 + "\n",
                "0 " + "9" * 30 + " 1\n", f"0 {2**63} {2**63 + 5}\n",
                "0 1 2", "\0" * 100])
clean, _, _ = understand(b)
found, _, _ = understand(b, evil)
check("malformed measurements are left out", found == clean)

c = Guest(3000, START - 10**9)
c.measure(START)
c.measure(START + 10**9)
hypercall = c.traced[5].replace("3000/", "4000/")
found, _, _ = understand(c, "", hypercall)
check("another VM's hypercalls do not count", found == understand(c)[0])
found, _, _ = understand(c, "", "".join(c.traced[:12]))
check("a hypercall that is traced twice does not count", len(found) == 1)

d = Guest(5000, START - 10**9)
d.measure(START)
d.said = [" ".join((w[0], w[1], str(int(w[1]) + 1))) + "\n"
          for w in map(str.split, d.said)]
found, _, _ = understand(d)
check("a guest that contradicts itself is not exact", found[0][2] > 1e-7)


def window(text):
    with tempfile.NamedTemporaryFile() as f:
        f.write(gzip.compress(text.encode())[:-8])
        f.flush()
        return clock.window(f.name)


marks = "b 12.000000001\n", "e 13.000000002\n", "e 13.500000002\n"
check("the window is found in a file that is cut short",
      window("".join(marks)) == [12.000000001, 13.000000002])
check("a window without its end is not found", window(marks[0]) is None)
check("lines that are not marks are passed over",
      window("b 12.000000001 x\nb 12\n x\n" + marks[1]) is None)
sys.exit(tap.finish())
