# SPDX-License-Identifier: GPL-2.0
"""Relates the clock of a guest's perf to the clock of the host's perf.

On each vCPU, the guest's driver reads its clock before and after a hypercall that the host
traces (see guest/kvm_pmu_sysfs.c). This gives the difference of the clocks, with an error of
at most half of the hypercall's time. The measurements of one moment each give a range: the
difference is in their intersection.
"""
import collections
import gzip
import re
import zlib

# The limit of measurements of a guest: 14 hours of four vCPUs.
MOST = 200000
# The limit of points of all guests in session.json.
POINTS = 40000
# The measurements of one moment are within this time, in ns.
MOMENT = 400_000_000
# Of this many moments, only the most exact one is used: on a busy machine all measurements
# of a moment may be slow, and the clocks run evenly between the other moments.
PART = 4

Pair = collections.namedtuple("Pair", "cpu before after host")

# The host's event for the driver's hypercall, its filter, and its line in perf script.
EVENT = "kvm:kvm_pv_perf_op"
FILTER = "op == 5 && a1 == 0xfffffffe"
HYPERCALL = re.compile(
    rb"^\s*(\d+)/(\d+)\s+(\d+)\.(\d{9}): +kvm:kvm_pv_perf_op: "
    rb"vcpu (\d+) READ 0xfffffffe 0x([0-9a-f]{1,8}) ")
# The session's marks, for the begin and the end of the time when all domains recorded.
MARK = re.compile(rb"([be]) (\d{1,12}\.\d{9})\n")


def shortest(lines):
    """Yields (cpu, BEFORE, AFTER) of the shortest measurement of each moment on each CPU.
    lines: the output of the guest's driver; lines of another form are left out."""
    moment, best = None, {}
    for line in lines:
        match = re.fullmatch(rb"(\d{1,5}) (\d{1,19}) (\d{1,19})\n", line)
        if not match:
            continue
        cpu, before, after = (int(word) for word in match.groups())
        if moment is None or not 0 <= before - moment < MOMENT:
            yield from best.values()
            moment, best = before, {}
        if before < after and (cpu not in best or
                               after - before < best[cpu][2] - best[cpu][1]):
            best[cpu] = cpu, before, after
    yield from best.values()


def measured(path):
    """{low half of BEFORE: (cpu, BEFORE, AFTER)}"""
    found, twice = {}, set()
    with open(path, "rb") as f:
        for one in shortest(iter(lambda: f.readline(80), b"")):
            nonce = one[1] & 0xffffffff
            if nonce in found:
                twice.add(nonce)
            elif len(found) < MOST:
                found[nonce] = one
    for nonce in twice:
        del found[nonce]
    return found


def lines(path):
    """Yields the lines of perf script's output, as far as the file is complete."""
    with gzip.open(path, "rb") as f:
        try:
            while line := f.readline(4096):
                yield line
        except (OSError, EOFError, zlib.error):
            pass


def window(path):
    """[from, until] by the marks, in seconds: the time when all domains recorded; or None."""
    found = {}
    for line in lines(path):
        match = MARK.fullmatch(line)
        if match:
            found.setdefault(match[1], float(match[2]))
    return [found[b"b"], found[b"e"]] if len(found) == 2 else None


class Hypercalls:
    """The hypercalls of a VMM in the host's trace, of those that a guest has measured."""

    def __init__(self, pid):
        self.pid = pid
        # {nonce: ns}
        self.times = {}
        # {vcpu: tid}
        self.vcpus = {}
        # The reason for which hypercalls are missing.
        self.problem = None

    def add(self, line, wanted):
        match = HYPERCALL.match(line)
        if not match:
            return
        pid, tid, seconds, ns, vcpu = (int(w) for w in match.groups()[:5])
        nonce = int(match[6], 16)
        if pid != self.pid or not any(nonce in found for found in wanted):
            return
        self.vcpus[vcpu] = tid
        # If a nonce comes twice, ignore both hypercalls.
        self.times[nonce] = None if nonce in self.times else \
            seconds * 10**9 + ns

    def read(self, path, wanted):
        for line in lines(path):
            self.add(line, wanted)

    def is_of(self, found):
        """Is this the VMM of the guest with the measurements found?  More than half must be
        in the trace: a few may be there by chance, or because a guest copies another's."""
        return 2 * sum(nonce in self.times for nonce in found) > len(found)

    def pairs(self, found):
        """[Pair] of the hypercalls that the guest and the host have, by time."""
        return sorted((Pair(*found[nonce], self.times[nonce])
                       for nonce in found
                       if self.times.get(nonce) is not None),
                      key=lambda pair: pair.before)


def moments(pairs):
    """Yields lists of pairs, one list for each moment."""
    group = []
    for pair in pairs:
        if group and pair.before - group[0].before > MOMENT:
            yield group
            group = []
        group.append(pair)
    if group:
        yield group


def offset(group):
    """(difference to add to the guest's time, its error) in ns.  group: the pairs of one
    moment."""
    bounds = [(pair.host - pair.after, pair.host - pair.before)
              for pair in group]
    low = max(low for low, _ in bounds)
    high = min(high for _, high in bounds)
    middle = (low + high) / 2
    if low <= high:
        return middle, (high - low) / 2
    # The clocks of the vCPUs differ, or the guest lies: take the middle.
    return middle, max(max(middle - low, high - middle) for low, high in bounds)


def best(found, most):
    """The first and the last point of found, and the most exact point of each part between
    them.  most: the largest number of points."""
    between = found[1:-1]
    size = max(PART, -(-len(between) // max(most - 2, 1)))
    return [*found[:1],
            *(min(between[at:at + size], key=lambda p: p[2])
              for at in range(0, len(between), size)),
            *found[1:][-1:]]


def points(pairs, most=POINTS):
    """[[guest's seconds, host's seconds, error in seconds]].  most: the largest number."""
    result = []
    for group in moments(pairs):
        add, error = offset(group)
        time = group[len(group) // 2].before
        result.append([time / 1e9, (time + add) / 1e9, error / 1e9])
    return best(result, most)
