# SPDX-License-Identifier: GPL-2.0
"""The samples of one file, counted by process and function."""
import collections

from pvperf import text
from pvperf.report.event import plain
from pvperf.report.frames import Frames
from pvperf.report.input.maps import Maps
from pvperf.report.input.script import is_passive
from pvperf.report.tree import Tree

# For all files: an hour of many domains takes less than 500 MB.
NODES, FRAMES, GROUPS = 600000, 160000, 80000
CACHED, CPUS = 20000, 8192

Group = collections.namedtuple("Group", "area vm vcpu process part thread",
                               defaults=[None])
Group.__doc__ = """Samples that are counted together.  area is the domain and mode, as the
tables show them.  vm and vcpu are None if the samples are not of one VM or vCPU.  part is the
part of vm's cost: one of PARTS, or None.  thread is "PID/TID" if threads are wanted."""
# The guest, its VMM in user mode, the host's kernel for the VMM, and other processes and
# kernel threads that work for the VM.
PARTS = GUEST, VMM, KERNEL, HELPERS = "guest", "VMM", "host kernel", "helpers"


def shares(values, numerator, denominator):
    """Yields each value times numerator / denominator.  The rounding keeps the sum exact."""
    done = before = 0
    for value in values:
        before += value
        now = before * numerator // denominator
        yield now - done
        done = now


class Tally:
    """The number of events, and of the samples that stand for them."""
    __slots__ = ("events", "samples")

    def __init__(self, events=0, samples=0):
        self.events, self.samples = events, samples

    def add(self, events, samples=1):
        self.events += events
        self.samples += samples


class Profile:
    """The profile of one samples file, of the host or a guest."""

    def __init__(self, session, domain, shares, options):
        """shares: the number of Profiles that share the memory.  options: stacks: keep call
        chains; vcpus, threads: count each vCPU or thread apart; kallsyms: {name of a passive
        guest: Kallsyms}."""
        self.session, self.domain = session, domain
        self.vcpus, self.threaded = options.vcpus, options.threads
        self.kallsyms = options.kallsyms
        self.maps = domain.maps and Maps(session.path(domain, domain.maps))
        self.finder, self.resolved = options.finder, {}
        self.frames = Frames(max(FRAMES // shares, 20))
        self.most_groups = max(GROUPS // shares, 10)
        self.tree = Tree(NODES // shares, self.frames.more) \
            if options.stacks else None
        self.groups, self.totals = [], []
        self.numbers, self.cache = {}, {}
        self.symbols = collections.defaultdict(Tally)
        self.notes = collections.Counter()
        self.event = plain(session.event)
        self.events = {}            # {event: is it the session's event?}
        self.most = session.most()
        self.window = domain.clock and session.window
        self.only = options.only
        self.kept = []              # for each group: is it wanted?
        self.said, self.said_samples = 0, 0
        self.time = 0.0
        self.last = {}              # {CPU: (time, tid) of the last sample}
        self.owners, self.threads, self.helpers = {}, {}, {}
        for d in session.domains if domain.kind == "host" else ():
            if d.pid:
                self.owners[d.pid] = d
            for number, tid in enumerate(d.vcpus):
                self.threads[tid] = d, number
            for pid in d.helpers:
                self.helpers[pid] = d

    def wanted(self, event):
        """Is event the session's event?  None if it is another one of the session."""
        if event not in self.events:
            if len(self.events) >= 1000:
                return False
            name = plain(text.name(event))
            self.events[event] = None if name in self.session.others else name == self.event
        return self.events[event]

    def add(self, sample):
        """Counts a sample.  Returns the number of its Group, or None if it is left out."""
        wanted = self.wanted(sample.event)
        if not wanted:
            if wanted is None:
                self.domain.others += 1
            else:
                self.notes["other"] += 1
            return None
        if sample.period > self.most:
            self.notes["impossible"] += 1
            return None
        if self.session.period and sample.period != self.session.period:
            self.notes["period"] += 1
        if self.window and not self.in_window(sample.time):
            self.notes["outside"] += 1
            return None
        if sample.time < self.time:
            self.notes["back"] += 1
        self.time = sample.time
        self.note_twice(sample)
        key = sample[:5]
        number = self.cache.get(key, -1)
        if number == -1:
            number = self.find(sample)
            if len(self.cache) >= CACHED:
                self.cache.clear()
            self.cache[key] = number
        if number is None:
            self.notes["double"] += 1
            return None
        self.said += sample.period
        self.said_samples += 1
        if not self.kept[number] or not self.in_part(sample.time):
            return None
        frames = sample.frames or [self.frames.none]
        if min(frames) < 0:
            self.resolve(number, frames, sample)
        if sample.pid == 0 and self.frames.is_idle(frames[0]):
            number = self.idle(number)
        self.count(number, frames, sample.period)
        return number

    def note_twice(self, sample):
        """If a sample arrives while perf record reads the buffer, perf may write the sample
        twice (perf_mmap__push(), in Linux 7.3).  Both samples count, because a clock that
        stands still looks the same."""
        this = sample.time, sample.tid
        if self.last.get(sample.cpu) == this:
            self.notes["twice"] += 1
        elif len(self.last) >= CPUS:
            self.last.clear()
        self.last[sample.cpu] = this

    def in_part(self, time):
        """Is a time of the domain's clock in the wanted part of the session?"""
        if not self.only.time:
            return True
        if self.domain.clock is None:
            self.notes["untimed"] += 1
            return False
        return self.only.in_time(
            self.session.since_start(self.domain.clock.host(time)))

    def in_window(self, time):
        first, last = self.window
        return first <= self.domain.clock.host(time) <= last

    def count(self, number, frames, events):
        self.totals[number].add(events)
        group = self.groups[number]
        self.symbols[group.area, self.frames.bases.get(frames[0], frames[0])].add(events)
        if self.tree:
            self.tree.add(self.tree.group(number), frames, events)

    def resolve(self, number, frames, sample):
        if not is_passive(sample.misc):
            frames[:] = [f if f >= 0 else self.known(~f, sample.pid) for f in frames]
            return
        misc = sample.misc
        kallsyms = self.kallsyms.get(self.groups[number].vm) \
            if b"G" in misc else None
        frames[:] = [f if f >= 0 else self.frames.passive(~f, kallsyms)
                     for f in frames]

    def known(self, number, pid):
        key = number, pid
        found = self.resolved.get(key)
        if found is None:
            if len(self.resolved) >= CACHED:
                self.resolved.clear()
            found = self.resolved[key] = self.frames.resolve(
                number, self.maps, pid, self.finder)
        return found

    def number(self, group):
        """The number of a Group."""
        found = self.numbers.get(group)
        if found is not None:
            return found
        rest = group._replace(process="[others]", vcpu=None, thread=None)
        if len(self.groups) >= self.most_groups and group != rest:
            self.notes["processes"] += 1
            return self.number(rest)
        self.numbers[group] = len(self.groups)
        self.groups.append(group)
        self.totals.append(Tally())
        self.kept.append(self.only.wants(group))
        return len(self.groups) - 1

    def idle(self, number):
        group = self.groups[number]
        owner = self.domain.title()
        return self.number(group._replace(area=f"{owner} idle"))

    def find(self, sample):
        """The number of a sample's Group, or None if the guest's own file has the sample."""
        group = self.on_host(sample) if self.domain.kind == "host" \
            else self.in_guest(sample)
        if group is None:
            return None
        if not self.vcpus:
            group = group._replace(vcpu=None)
        if self.threaded:
            group = group._replace(thread=f"{sample.pid}/{sample.tid}")
        return self.number(group)

    def on_host(self, sample):
        owner, vcpu = self.threads.get(sample.tid, (None, None))
        owner = owner or self.owners.get(sample.pid)
        name = comm(sample)
        if is_passive(sample.misc):
            mode = "kernel" if b"G" in sample.misc else "user"
            if owner is None:
                return Group(f"other guests {mode}", None, None,
                             f"{name} {sample.pid}", None)
            if owner.samples:
                return None
            return Group(f"{owner.title()} {mode}", owner.name, vcpu, "[any]", GUEST)
        if owner:
            in_user = b"U" in sample.misc
            return Group("VMM of " + owner.name if in_user else "host kernel",
                         owner.name, vcpu, f"{name} ({owner.name})",
                         VMM if in_user else KERNEL)
        area = f"host {mode_of(sample.misc)}"
        owner = self.helpers.get(sample.pid)
        if owner:
            return Group(area, owner.name, None, f"{name} ({owner.name})", HELPERS)
        return Group(area, None, None, name, None)

    def in_guest(self, sample):
        """The Group of a sample that a guest has taken itself."""
        return Group(f"{self.domain.title()} {mode_of(sample.misc)}",
                     self.domain.name, sample.cpu, comm(sample), GUEST)

    def limit(self):
        """Scales a guest's events down to the host's count of the VMM in guest mode.  Returns
        the number that the guest has said, with its lost samples, and the number that is
        possible."""
        said, samples = self.said, self.said_samples
        whole = said + (self.domain.lost_of(samples) * said // samples if samples else 0)
        counted = self.domain.counted
        if self.domain.kind != "guest" or counted is None or whole <= counted:
            return whole, whole
        for tallies in (self.totals, list(self.symbols.values())):
            for tally, events in zip(tallies, shares(
                    [t.events for t in tallies], counted, whole)):
                tally.events = events
        if self.tree:
            self.tree.events = list(shares(self.tree.events, counted, whole))
        return whole, counted


    def inclusive(self):
        """{(area, frame): events of the function and of all functions that it called}.  The
        events of a recursive function count once."""
        result = collections.Counter()
        if not self.tree:
            return result
        tree, totals = self.tree, self.tree.totals()
        areas, bases = [None] * len(totals), self.frames.bases
        for node in range(1, len(totals)):
            parent, frame = tree.parents[node], tree.frames[node]
            if not parent:
                areas[node] = self.groups[frame].area
                continue
            areas[node] = areas[parent]
            frame = bases.get(frame, frame)
            while tree.parents[parent] and bases.get(
                    tree.frames[parent], tree.frames[parent]) != frame:
                parent = tree.parents[parent]
            if not tree.parents[parent]:
                result[areas[node], frame] += totals[node]
        return result


def mode_of(misc):
    """The mode of a sample.  A guest that runs guests itself has samples of guest mode."""
    if is_passive(misc):
        return "guests"
    return "kernel" if b"K" in misc else \
        "user" if b"U" in misc else "unknown mode"


def comm(sample):
    """The name of a sample's process.  If perf does not know the name, it prints :PID."""
    name = sample.comm
    if not name or name[:1] == b":" and name[1:].lstrip(b"-").isdigit():
        return "[no name]"
    return text.name(name)
