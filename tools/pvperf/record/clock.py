# SPDX-License-Identifier: GPL-2.0
"""Where the times of a guest's perf are on the clock of the host's.

The guest's driver reads its clock before and after a hypercall that the host
traces, on each vCPU (see guest/kvm_pmu_clock.c). The difference of the clocks is then
known to within half of what the hypercall took; of several of the same moment, to
within what all have in common.
"""
import collections
import gzip
import re

# What a guest can have us remember: 14 hours of four vCPUs.
MOST = 200000
# Measurements that belong together are not further apart, in ns.
MOMENT = 400_000_000

Pair = collections.namedtuple("Pair", "cpu before after host")

# The event that a guest's driver asks for, in what perf script prints of
# kvm:kvm_pv_perf_op, and what the filter is.
FILTER = "op == 5 && a1 == 0xfffffffe"
HYPERCALL = re.compile(
    rb"^\s*(\d+)/(\d+)\s+(\d+)\.(\d{9}): +kvm:kvm_pv_perf_op: "
    rb"vcpu (\d+) READ 0xfffffffe 0x([0-9a-f]{1,8}) ")
# A mark of the session itself: a task that calls itself so.
MARK = re.compile(rb"^\s*\d+/\d+\s+(\d+)\.(\d{9}): +task:task_rename: "
                  rb".* newcomm=(\S+)-([be]) ")


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


class Trace:
    """What the host has traced: the hypercalls that a guest in wanted speaks of, and
    the marks."""

    def __init__(self, mark, wanted):
        self.mark, self.wanted = mark.encode(), wanted
        # {(pid, nonce): ns}
        self.hypercalls = {}
        # {pid: {vcpu: tid}}
        self.vcpus = collections.defaultdict(dict)
        # When all recorded, and until when, in ns.
        self.began = self.ended = None

    def add(self, line):
        match = HYPERCALL.match(line)
        if match:
            pid, tid, seconds, ns, vcpu = (int(w) for w in match.groups()[:5])
            key = pid, int(match[6], 16)
            if any(key[1] in found for found in self.wanted):
                self.vcpus[pid][vcpu] = tid
                # Twice: neither is believed.
                self.hypercalls[key] = None if key in self.hypercalls else \
                    seconds * 10**9 + ns
            return
        match = MARK.match(line)
        if match and match[3] == self.mark:
            time = int(match[1]) * 10**9 + int(match[2])
            if match[4] == b"b":
                self.began = time
            else:
                self.ended = time

    def pid_of(self, found):
        """The VMM of a guest that has said this, or None."""
        pids = collections.Counter(pid for pid, nonce in self.hypercalls
                                   if nonce in found)
        return pids.most_common(1)[0][0] if pids else None

    def pairs(self, pid, found):
        """[Pair] of the hypercalls that both sides have, by time."""
        return sorted((Pair(*found[nonce], self.hypercalls[pid, nonce])
                       for nonce in found
                       if self.hypercalls.get((pid, nonce)) is not None),
                      key=lambda pair: pair.before)


def read_trace(path, mark, wanted):
    trace = Trace(mark, wanted)
    with gzip.open(path, "rb") as f:
        while line := f.readline(4096):
            trace.add(line)
    return trace


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


def points(pairs):
    """[[guest's seconds, host's seconds, error in seconds]] of each moment."""
    result = []
    for group in moments(pairs):
        add, error = offset(group)
        time = group[len(group) // 2].before
        result.append([time / 1e9, (time + add) / 1e9, error / 1e9])
    return result
