# SPDX-License-Identifier: GPL-2.0
"""The counts of a session's host and guests over time, on the host's clock.

On each CPU, each event is in a group of its own with a timer (record/events.py). Each time the
timer expires, there is a sample of the timer, with the ns for which the group has counted since
the last sample, and a sample of the event, with its count since then, if that is not 0."""
import array

from pvperf import text
from pvperf.error import Error
from pvperf.record.events import timer_of
from pvperf.report.event import plain, unit
from pvperf.report.input.lines import Lines
from pvperf.report.input.recorded import FASTEST, Session
from pvperf.report.input.script import Parser
from pvperf.timeline.series import Interval, Run, Series

# The limits of the intervals of a page, of these times a machine's CPUs, and of the bytes of a
# machine's samples.
INTERVALS, WORK, BYTES = 200000, 50_000_000, 4 << 30
# The part of an interval for which all CPUs must have counted.
WHOLE = 0.99


class Grid:
    """The counts of an event on all CPUs of a machine, in intervals of equal length."""

    def __init__(self, begin, step, number):
        self.begin, self.step, self.number = begin, step, number
        # For each interval: the count, the CPUs' seconds, and the seconds of these in which
        # the event was on the PMU.
        self.counts, self.seconds, self.ran = (
            array.array("d", bytes(8 * number)) for _ in range(3))
        self.last = {}              # {CPU: the time of the last sample}
        self.most = min(WORK // max(number, 1), 8192)

    def add(self, cpu, time, ran, count):
        """A count of a CPU, from its last sample until time.  ran: see above."""
        # The first sample of a CPU covers the time since it began to count.
        start = self.last.get(cpu, time - min(ran, 10 * self.step))
        if cpu not in self.last and len(self.last) >= self.most or time <= start:
            return
        self.last[cpu] = time
        first = max(int((start - self.begin) // self.step), 0)
        end = min(int((time - self.begin) // self.step) + 1, self.number)
        for i in range(first, end):
            at = self.begin + i * self.step
            part = min(time, at + self.step) - max(start, at)
            self.counts[i] += count * part / (time - start)
            self.seconds[i] += part
            self.ran[i] += ran * part / (time - start)

    def intervals(self):
        if not self.last:
            return
        whole = WHOLE * self.step * len(self.last)
        complete = [i for i in range(self.number) if self.seconds[i] >= whole]
        # A timer that is read late looks as if the event were not on the PMU, but not for long.
        shared = sum(self.ran) < WHOLE * sum(self.seconds)
        for i in range(complete[0], complete[-1] + 1) if complete else ():
            count, percent = None, 0.0
            if self.seconds[i] >= whole and self.ran[i]:
                ratio = self.ran[i] / self.seconds[i]
                percent = 100 * ratio if shared and ratio < WHOLE else 100.0
                count = round(self.counts[i] * 100 / percent)
            yield Interval(i * self.step, (i + 1) * self.step, count, percent)


# By how much a guest's counts may exceed the host's, which have other times of begin and end.
SLACK = 1.05


def samples(session, domain):
    """(Lines, Parser) of a domain's samples.  The Parser yields them."""
    lines = Lines(session.path(domain), BYTES)
    return lines, Parser(lines, lambda *_: 0)


def doubts(domain, lines, parser, found):
    """Why a domain's numbers may be wrong.  found: its [Series]"""
    unread = parser.unread + lines.too_long
    for wrong, text in (
            (lines.problem, lines.problem),
            (unread, f"lines that are not of pv-perf record: {unread:,}"),
            (parser.stopped, "the rest is not read, because of these lines"),
            (domain.lost, f"perf has lost {domain.lost:,} samples")):
        if wrong:
            yield text
    if domain.kind != "guest":
        return
    for series, counted in zip(found, domain.counts):
        if counted is not None and series.total() > SLACK * counted:
            yield f"it says {series.total():,.0f} {series.name}, and the host counted {counted:,}"


def read_domain(session, domain, parser, step, number):
    """{plain name of an event: Grid}"""
    grids = {plain(e.name): Grid(session.start, step, number) for e in session.events}
    timers = {timer_of(e.name): plain(e.name) for e in session.events}
    before, ran, name = (-1, 0.0), 0, None
    for sample in parser:
        this, event = (sample.cpu, sample.time), plain(text.name(sample.event))
        if event in timers:
            if name:
                # perf leaves out a count of 0.
                grids[name].add(before[0], domain.clock.host(before[1]), ran, 0)
            before, ran, name = this, sample.period / 1e9, timers[event]
        elif event == name and before == this and \
                sample.period <= FASTEST * max(session.seconds, 1):
            grids[name].add(sample.cpu, domain.clock.host(sample.time), ran, sample.period)
            name = None
    return grids


def all_series(session, grids):
    """A Series for each of the session's events."""
    result = []
    for event in session.events:
        series = Series(event.name, "ns" if unit(event.name) == "nanoseconds" else "")
        series.intervals = list(grids[plain(event.name)].intervals())
        result.append(series)
    return result


def read(folder, step):
    """([Run], [notes]) of a session: a Run for each machine.  step: the length of an interval,
    in s."""
    session = Session(folder)
    if session.start is None:
        # This host has no tracepoints, by which the session knows when all machines counted.
        host = session.domains[0]
        for sample in samples(session, host)[1] if host.samples else ():
            session.start = sample.time - step
            break
        else:
            raise Error("the host has no samples, so nobody knows when the session began",
                        "record it again")
    number = int(session.seconds / step)
    if number > INTERVALS:
        raise Error(f"there are {number:,} intervals: a page has at most {INTERVALS:,}",
                    "-I with longer intervals")
    runs, notes = [], []
    for domain in session.domains:
        wrong = list(domain.notes)
        if domain.samples and domain.clock is None:
            wrong.append("it is left out, because its clock is not known")
        elif domain.samples:
            lines, parser = samples(session, domain)
            found = all_series(session, read_domain(session, domain, parser, step, number))
            wrong += doubts(domain, lines, parser, found)
            found = [s for s in found if s.intervals]
            if found:
                # The mark of numbers that may be wrong, as in pv-perf report.
                runs.append(Run("~" * bool(wrong) + domain.name, found))
        notes += [f"{domain.name}: {text}" for text in wrong]
    if max((len(s.intervals) for run in runs for s in run.series), default=0) < 3:
        raise Error("no machine has three intervals", "use shorter intervals (-I), or a longer "
                    "session")
    return runs, notes
