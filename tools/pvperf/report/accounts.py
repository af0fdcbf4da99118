# SPDX-License-Identifier: GPL-2.0
"""All of a session's events: those that samples stand for, and those that they do
not."""
import collections

from pvperf.report.profile import GUEST, PARTS, Tally

# Symbols kept of samples files once they are read, in all.
KEPT = 80000
# How far two counts may be apart that should be one.
SLACK = 0.02
MODES = ("kernel", "user", "idle", "guests", "unknown mode")

Row = collections.namedtuple("Row", "words events samples mark inclusive",
                             defaults=[None])
Row.__doc__ = """words: what it is of; mark: "~" where the numbers may be wrong;
inclusive: of a function, its events with those of all that it called, where stacks are
known."""


class Accounts:
    """By domain, process and symbol."""

    def __init__(self, session, shares, domains):
        """shares: how many samples files there are for the memory; domains: those whose
        events these are."""
        self.session, self.kept = session, max(KEPT // shares, 10)
        self.domains = domains
        self.areas = collections.defaultdict(Tally)
        self.processes = collections.defaultdict(Tally)
        self.symbols = collections.defaultdict(Tally)
        self.inclusive = collections.Counter()
        self.costs = collections.defaultdict(collections.Counter)
        self.owner = {}             # of an area: the domain's title
        self.marked = set()         # titles of domains with numbers in doubt
        self.missing = []           # (what, events, samples, estimated)
        self.doubts = []
        self.counted = None

    def add(self, profile):
        """What there is of a samples file."""
        said, can_be = profile.limit()
        if said > can_be * (1 + SLACK):
            self.doubts.append(
                f"{profile.domain.title()} says {said:,} of itself, and its VMM was in "
                f"guest mode for {can_be:,}: its numbers are scaled to that")
            self.marked.add(profile.domain.title())
        if profile.domain.doubtful:
            self.marked.add(profile.domain.title())
        for group, tally in zip(profile.groups, profile.totals):
            if tally.samples:
                self.areas[group.area].add(tally.events, tally.samples)
                words = filter(None, (group.area, group.process, group.thread))
                self.processes[tuple(words)].add(tally.events, tally.samples)
                if group.part:
                    self.costs[group.vm][group.part] += tally.events
                if group.area not in self.owner:
                    self.owner[group.area] = self.owner_of(profile, group)
        kept = sorted(profile.symbols.items(), key=lambda i: -i[1].events)
        inclusive = profile.inclusive()
        frames = profile.frames
        for place, ((area, frame), tally) in enumerate(kept):
            if place >= self.kept:
                frame = frames.other
            key = area, frames.names[frame], frames.objects[frame]
            self.symbols[key].add(tally.events, tally.samples)
            if frame != frames.other:
                self.inclusive[key] += inclusive.pop((area, frame), 0)
        # Functions that have no sample of their own.
        for (area, frame), events in sorted(
                inclusive.items(), key=lambda i: -i[1])[:max(self.kept - len(kept), 0)]:
            key = area, frames.names[frame], frames.objects[frame]
            self.symbols[key].add(0, 0)
            self.inclusive[key] += events

    @staticmethod
    def owner_of(profile, group):
        """Whose count has a group's samples in it."""
        for domain in profile.session.domains:
            if domain.name == group.vm and \
                    group.area.startswith(domain.title() + " "):
                return domain.title()
        return "other guests" if group.area.startswith("other guests") \
            else profile.domain.title()

    def sampled(self, title):
        """Of a domain."""
        result = Tally()
        for area, tally in self.areas.items():
            if self.owner[area] == title:
                result.add(tally.events, tally.samples)
        return result

    def close(self, counted, part):
        """All is read: what is missing of what the CPUs counted? Of a part of it nobody
        knows."""
        if part:
            return
        total = sum(max(self.balance(d), 0) for d in self.domains)
        total += self.sampled("other guests").events
        self.counted = counted
        if counted is None:
            self.doubts.append(
                "what the CPUs counted in all is not known: the whole is what "
                "the domains say")
        elif counted > total:
            self.missing.append(("not sampled, or of no domain in this session",
                                 counted - total, 0, ""))
        elif total > counted * (1 + SLACK):
            self.doubts.append(
                f"the domains say {total:,}, and the host's CPUs counted "
                f"{counted:,}: what guests say of themselves is in doubt")
            self.marked.update(d.title() for d in self.domains
                               if d.kind == "guest" and d.counted is None)

    def balance(self, domain):
        """What a domain has done in all, as far as one knows."""
        title, sampled = domain.title(), self.sampled(domain.title())
        if domain.lost and sampled.samples:
            # As many events each as those that are there.
            rest = domain.lost * sampled.events // sampled.samples
            self.missing.append((f"lost: {title}", rest, domain.lost, "~"))
            if domain.kind != "host":
                self.costs[domain.name][GUEST] += rest
            return sampled.events + rest
        return sampled.events

    def whole(self):
        """What percentages are of."""
        return self.counted or sum(t.events for t in self.areas.values()) + \
            sum(events for _, events, _, _ in self.missing)

    def mark(self, area):
        return "~" if self.owner[area] in self.marked else ""

    def by_domain(self):
        order = {d.title(): i for i, d in enumerate(self.domains)}

        def place(area):
            mode = next((i for i, m in enumerate(MODES)
                         if area.endswith(" " + m)), len(MODES))
            return order.get(self.owner[area], len(order)), mode, area

        for area in sorted(self.areas, key=place):
            tally = self.areas[area]
            yield Row((area,), tally.events, tally.samples, self.mark(area))
        yield from self.unseen()

    def by_vm(self):
        """(name, [events of each of PARTS], mark), the largest first."""
        titles = {d.name: d.title() for d in self.domains if d.kind != "host"}
        rows = [(name, [self.costs[name][part] for part in PARTS],
                 "~" if title in self.marked else "")
                for name, title in titles.items() if name in self.costs]
        return sorted(rows, key=lambda r: (-sum(r[1]), r[0]))

    def unseen(self):
        for what, events, _, mark in self.missing:
            yield Row((what,), events, 0, mark)

    def of(self, tallies):
        """Rows, the largest first."""
        for words, tally in sorted(tallies.items(),
                                   key=lambda i: (-i[1].events, i[0])):
            yield Row(words, tally.events, tally.samples, self.mark(words[0]))

    def functions(self, by_inclusive):
        """Rows, the largest first, by their own events or with what they called."""
        rows = self.of(self.symbols)
        if not self.session.callgraph:
            return rows
        rows = [r._replace(inclusive=self.inclusive[r.words]) for r in rows]
        return sorted(rows, key=lambda r: (-r.inclusive, -r.events) if by_inclusive
                      else (-r.events, -r.inclusive))
