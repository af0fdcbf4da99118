# SPDX-License-Identifier: GPL-2.0
"""All events of a session: the sampled events, and the events without samples."""
import collections

from pvperf.report.profile import GUEST, PARTS, Tally

# The number of symbols that stay in memory when a samples file is read, for all files.
KEPT = 80000
# The allowed difference of two counts that should be equal, as a ratio.
SLACK = 0.02
# A guest that reports less than this part of the host's count of its VMM in guest mode hides
# something, if that is more than this part of the host's whole count.  The count covers some
# time before and after the guest's samples.
REPORTED, HIDDEN = 0.75, 0.01
MODES = ("kernel", "user", "idle", "guests", "unknown mode")

Row = collections.namedtuple("Row", "words events samples mark inclusive",
                             defaults=[None])
Row.__doc__ = """words: the names in the row; mark: "~" if the numbers may be wrong;
inclusive: the events of a function and of all functions that it called, or None without
call chains."""


class Accounts:
    """The events by domain, process and symbol."""

    def __init__(self, session, shares, domains):
        """shares: the number of samples files that share the memory; domains: the domains
        of these events."""
        self.session, self.kept = session, max(KEPT // shares, 10)
        self.domains = domains
        self.areas = collections.defaultdict(Tally)
        self.processes = collections.defaultdict(Tally)
        self.symbols = collections.defaultdict(Tally)
        self.inclusive = collections.Counter()
        self.costs = collections.defaultdict(collections.Counter)
        self.owner = {}             # {area: the domain's title}
        self.marked = set()         # titles of domains whose numbers may be wrong
        self.estimated = set()      # titles of domains whose costs have an estimate
        self.missing = []           # (what, events, samples, estimated)
        self.doubts = []
        self.counted = None

    def add(self, profile):
        """Adds the Profile of a samples file."""
        said, can_be = profile.limit()
        if said > can_be * (1 + SLACK):
            self.doubts.append(
                f"{profile.domain.title()} says that it had {said:,} events, but its VMM had "
                f"only {can_be:,} in guest mode: the guest's numbers are scaled down")
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
        # Functions without samples of their own.
        for (area, frame), events in sorted(
                inclusive.items(), key=lambda i: -i[1])[:max(self.kept - len(kept), 0)]:
            key = area, frames.names[frame], frames.objects[frame]
            self.symbols[key].add(0, 0)
            self.inclusive[key] += events

    @staticmethod
    def owner_of(profile, group):
        """The title of the domain whose count contains a group's samples."""
        for domain in profile.session.domains:
            if domain.name == group.vm and \
                    group.area.startswith(domain.title() + " "):
                return domain.title()
        return "other guests" if group.area.startswith("other guests") \
            else profile.domain.title()

    def sampled(self, title):
        """The Tally of a domain."""
        result = Tally()
        for area, tally in self.areas.items():
            if self.owner[area] == title:
                result.add(tally.events, tally.samples)
        return result

    def close(self, counted, part):
        """After all Profiles: finds the events that the CPUs counted, but that no domain
        has.  In a part of the session nobody knows these events."""
        if part:
            return
        total = sum(max(self.balance(d, counted), 0) for d in self.domains)
        total += self.sampled("other guests").events
        self.counted = counted
        if self.session.only_guests:
            self.doubts.append("only the guests have this event: the host cannot check what "
                               "they say")
        elif counted is None:
            self.doubts.append(
                "the count of the host's CPUs is not known: the whole is the sum of "
                "what the domains say")
        elif counted > total:
            self.missing.append(("not sampled, or of no domain in this session",
                                 counted - total, 0, ""))
        elif total > counted * (1 + SLACK):
            self.doubts.append(
                f"the domains say {total:,}, and the host's CPUs counted "
                f"{counted:,}: what guests say of themselves is in doubt")
            self.marked.update(d.title() for d in self.domains
                               if d.kind == "guest" and d.counted is None)

    def balance(self, domain, counted):
        """The events of a domain, with an estimate of those whose samples perf lost, and of
        those that a guest has not reported.  counted: the host's whole count, or None"""
        had = self.had(domain)
        hidden = (domain.counted or 0) - had
        if domain.kind != "guest" or had >= REPORTED * (domain.counted or 0) or \
                hidden <= HIDDEN * (counted or 0):
            return had
        title = domain.title()
        self.missing.append((f"not reported: {title}", hidden, 0, "~"))
        self.costs[domain.name][GUEST] += hidden
        self.marked.add(title)
        self.doubts.append(f"{title} reports {had:,} events, and its VMM had "
                           f"{domain.counted:,} in guest mode: nobody knows where the rest was")
        return domain.counted

    def had(self, domain):
        """The events of a domain, with an estimate of those whose samples perf lost."""
        title, sampled = domain.title(), self.sampled(domain.title())
        lost = domain.lost_of(sampled.samples)
        if lost:
            # A lost sample has the mean number of events of the other samples.
            rest = lost * sampled.events // sampled.samples
            self.missing.append((f"lost: {title}", rest, lost, "~"))
            if domain.kind != "host":
                self.costs[domain.name][GUEST] += rest
                self.estimated.add(title)
            return sampled.events + rest
        return sampled.events

    def whole(self):
        """The number of events that is 100 percent."""
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
                 "~" if title in self.marked | self.estimated else "")
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
        """Rows, the largest first, by the functions' own events or by inclusive events."""
        rows = self.of(self.symbols)
        if not self.session.callgraph:
            return rows
        rows = [r._replace(inclusive=self.inclusive[r.words]) for r in rows]
        return sorted(rows, key=lambda r: (-r.inclusive, -r.events) if by_inclusive
                      else (-r.events, -r.inclusive))
