# SPDX-License-Identifier: GPL-2.0
"""Where the times of a guest's perf are on the clock of the host's.

The guest's driver reads its clock before and after a hypercall that the host
traces, on each vCPU (see guest/kvm_pmu_sysfs.c). The difference of the clocks is then
known to within half of what the hypercall took; of several of the same moment, to
within what all have in common.
"""
import collections
import gzip
import re
import zlib

# What a guest can have us remember: 14 hours of four vCPUs.
MOST = 200000
# Of these, what session.json has, of all guests.
POINTS = 40000
# Measurements that belong together are not further apart, in ns.
MOMENT = 400_000_000
# Of so many moments the most exact one is taken: on a busy machine there are some in
# which no measurement was quick, and the clocks run evenly between the others.
PART = 4

Pair = collections.namedtuple("Pair", "cpu before after host")

# The event that a guest's driver asks for, what the filter is, and what perf script
# prints of it.
EVENT = "kvm:kvm_pv_perf_op"
FILTER = "op == 5 && a1 == 0xfffffffe"
HYPERCALL = re.compile(
    rb"^\s*(\d+)/(\d+)\s+(\d+)\.(\d{9}): +kvm:kvm_pv_perf_op: "
    rb"vcpu (\d+) READ 0xfffffffe 0x([0-9a-f]{1,8}) ")
# The session's own marks, of when all recorded.
MARK = re.compile(rb"([be]) (\d{1,12}\.\d{9})\n")


def shortest(lines):
    """Of what a guest's driver has said, (cpu, BEFORE, AFTER) of the shortest of each
    moment on each CPU; what is not of its form is left out."""
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
    """Of what perf script has printed, as far as it has come."""
    with gzip.open(path, "rb") as f:
        try:
            while line := f.readline(4096):
                yield line
        except (OSError, EOFError, zlib.error):
            pass


def window(path):
    """[from, until] of the marks, in seconds, or None: when all recorded."""
    found = {}
    for line in lines(path):
        match = MARK.fullmatch(line)
        if match:
            found.setdefault(match[1], float(match[2]))
    return [found[b"b"], found[b"e"]] if len(found) == 2 else None


class Hypercalls:
    """What the host has traced of a VMM: those that a guest in wanted speaks of."""

    def __init__(self, pid):
        self.pid = pid
        # {nonce: ns}
        self.times = {}
        # {vcpu: tid}
        self.vcpus = {}
        # Why there are none, or not all.
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
        # Twice: neither is believed.
        self.times[nonce] = None if nonce in self.times else \
            seconds * 10**9 + ns

    def read(self, path, wanted):
        for line in lines(path):
            self.add(line, wanted)

    def is_of(self, found):
        """Is it the VMM of the guest that has said this?  By chance, or by what a
        guest says of another, a few may agree."""
        return 2 * sum(nonce in self.times for nonce in found) > len(found)

    def pairs(self, found):
        """[Pair] of the hypercalls that both sides have, by time."""
        return sorted((Pair(*found[nonce], self.times[nonce])
                       for nonce in found
                       if self.times.get(nonce) is not None),
                      key=lambda pair: pair.before)


def moments(pairs):
    """Lists of pairs that belong together."""
    group = []
    for pair in pairs:
        if group and pair.before - group[0].before > MOMENT:
            yield group
            group = []
        group.append(pair)
    if group:
        yield group


def offset(group):
    """(what to add to the guest's time, its error) in ns, of one pair for each vCPU."""
    bounds = [(pair.host - pair.after, pair.host - pair.before)
              for pair in group]
    low = max(low for low, _ in bounds)
    high = min(high for _, high in bounds)
    middle = (low + high) / 2
    if low <= high:
        return middle, (high - low) / 2
    # The clocks of its vCPUs differ, or it lies: what fits none badly.
    return middle, max(max(middle - low, high - middle) for low, high in bounds)


def best(found, most):
    """At most so many of the points: the first and the last, and the most exact ones of
    as many parts between them."""
    between = found[1:-1]
    size = max(PART, -(-len(between) // max(most - 2, 1)))
    return [*found[:1],
            *(min(between[at:at + size], key=lambda p: p[2])
              for at in range(0, len(between), size)),
            *found[1:][-1:]]


def points(pairs, most=POINTS):
    """[[guest's seconds, host's seconds, error in seconds]] of parts of the session."""
    result = []
    for group in moments(pairs):
        add, error = offset(group)
        time = group[len(group) // 2].before
        result.append([time / 1e9, (time + add) / 1e9, error / 1e9])
    return best(result, most)
