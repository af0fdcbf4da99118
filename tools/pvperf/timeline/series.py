# SPDX-License-Identifier: GPL-2.0
"""Events over time: the counts of intervals in the output of perf stat -I (-j or -x,), or
in a file of perf record with a group that is sampled (:S)."""
import collections
import json
import math
import re
import subprocess

from pvperf.error import Error
from pvperf.text import printable

# The first bytes of perf.data.
MAGIC = b"PERFILE2"
# The keys of perf stat -j for the CPUs, the thread or the cgroup of a count.
LABELS = ("cpu", "core", "cluster", "die", "cache", "socket", "node", "thread", "cgroup")

Interval = collections.namedtuple("Interval", "start end count percent")
Interval.__doc__ = """The count of an event from start to end, in seconds.

If the event was not counted, count is None.  percent is the part of the interval in which
the event was counted.  If percent is less than 100, count is perf's estimate for the whole
interval."""


class Series:
    """The intervals of one event, in the order of time."""

    def __init__(self, name, unit=""):
        self.name = printable(name)
        self.unit = printable(unit)
        self.intervals = []

    def rates(self):
        """[(middle of the interval, count per second or None)]"""
        return [((i.start + i.end) / 2,
                 None if i.count is None else i.count / (i.end - i.start))
                for i in self.intervals]

    def total(self):
        return sum(i.count or 0 for i in self.intervals)

    def scaled(self):
        """The number of intervals with perf's estimate."""
        return sum(i.count is not None and i.percent < 100
                   for i in self.intervals)

    def missing(self):
        """The number of intervals in which the event was not counted."""
        return sum(i.count is None for i in self.intervals)


Run = collections.namedtuple("Run", "name series")
Run.__doc__ = """The [Series] of one file or command."""

STAT = re.compile(
    r"([\d.]+),"                        # seconds
    # CPU or thread; for cores also the number of their CPUs
    r"(?:([^,<]*),(?:\d+,(?=[\d.]+,|<not ))?)??"
    r"([\d.]+|<not (?:counted|supported)>),"
    r"([^,]*),"                         # unit
    r"(.+?),"                           # event: cpu/event=0xc0,umask=0x01/ has commas
    r"\d+,"                             # ns
    r"([\d.]+)(?:,.*)?")                # percent


def parse_csv(line):
    """The fields of a line of perf stat -I -x,"""
    match = STAT.fullmatch(line)
    if not match:
        raise ValueError
    return match.groups(default="")


def parse_json(line):
    """The fields of a line of perf stat -I -j; None for a metric."""
    found = json.loads(line)
    if "event" not in found:
        return None
    label = ",".join(str(found[key]) for key in LABELS if key in found)
    return found["interval"], label, found["counter-value"], \
        str(found.get("unit", "")), str(found["event"]), found["pcnt-running"]


def parse_stat_line(line):
    """(end, label, count, unit, event, percent) of a line of perf stat -I, or None for
    a comment."""
    line = line.strip()
    if not line or line.startswith("#"):
        return None
    try:
        found = parse_json(line) if line.startswith("{") else parse_csv(line)
        if found is None:
            return None
        end, label, count, unit, event, percent = found
        end, percent = float(end), float(percent)
        if count == "<not counted>" and percent == 100:
            # The task has not run.
            count = 0.0
        else:
            count = None if str(count).startswith("<") else float(count)
        # perf's counts have 64 bits.
        if not all(map(math.isfinite, (end, count or 0, percent))) or (count or 0) >= 1 << 64:
            raise ValueError
        return end, label, count, unit, event, percent
    except (ArithmeticError, KeyError, RecursionError, TypeError, ValueError):
        raise Error("this is not a line of perf stat -I with -j or -x,: "
                    f"{printable(repr(line))}",
                    "perf stat -j -I 100 -o FILE -- COMMAND") from None


def parse_stat(lines):
    """[Series] of the output of perf stat -I."""
    parsed = [p for p in map(parse_stat_line, lines) if p]
    several = len({label for _, label, *_ in parsed}) > 1
    result, last = {}, {}
    for end, label, count, unit, event, percent in parsed:
        name = f"{event} {label}" if several else event
        series = result.setdefault(name, Series(name, unit))
        start = last.get(name, 0.0)
        if end <= start:
            raise Error(f"an interval of {printable(name)} ends at {end} s, and the "
                        f"previous interval at {start} s",
                        "take the output of one perf stat")
        series.intervals.append(Interval(start, end, count, percent))
        last[name] = end
    return list(result.values())


def parse_script(lines):
    """[Series] of the output of perf script -F time,period,event.

    Each sample of a group's leader has the count of each member since the last sample.  The
    first sample is left out, because perf does not say when its interval began."""
    found = collections.defaultdict(dict)
    for line in lines:
        match = re.match(
            r"\s*(\d{1,12}\.\d{1,9}):\s+(\d{1,20})\s+(\S+):\s*$", line)
        if match:
            times = found[match[3]]
            time = float(match[1])
            times[time] = times.get(time, 0) + int(match[2])
    begin = min((t for times in found.values() for t in times), default=0)
    result = []
    for name, times in found.items():
        series = Series(name.removesuffix(":S"))
        start = None
        for time in sorted(times):
            if start is not None:
                series.intervals.append(Interval(start - begin, time - begin,
                                                 times[time], 100.0))
            start = time
        result.append(series)
    return result


def read_record(path):
    command = ["perf", "script", "-i", path, "-F", "time,period,event"]
    try:
        out = subprocess.run(command, capture_output=True, text=True,
                             errors="replace", check=False)
    except FileNotFoundError:
        raise Error("there is no perf", "apt install linux-perf") from None
    if out.returncode:
        raise Error(f"perf script cannot read {path}: "
                    f"{printable(out.stderr.strip()[-200:])}",
                    "perf record -e '{cycles,cache-misses}:S' -- COMMAND")
    return parse_script(out.stdout.splitlines())


def read(path):
    """[Series] of a file.  At least one has three intervals."""
    try:
        with open(path, "rb") as f:
            record = f.read(len(MAGIC)) == MAGIC
        if record:
            result = read_record(path)
        else:
            with open(path, encoding="utf-8", errors="replace") as f:
                result = parse_stat(f)
    except IsADirectoryError:
        raise Error(f"{path} is a folder", "the output of perf stat -I, or, for the session of "
                    "pv-perf record: pv-perf report --timeline FILE.pftrace") from None
    except OSError as error:
        raise Error(f"{path}: {error.strerror}") from None
    if max((len(s.intervals) for s in result), default=0) < 3:
        raise Error(f"{path} has less than three intervals",
                    "use shorter intervals (-I), or a program that runs longer")
    return result


def length(run):
    """The number of intervals of a run."""
    return max(len(s.intervals) for s in run.series)


def names(runs):
    """The names of all runs' events, in their order."""
    return list(dict.fromkeys(s.name for run in runs for s in run.series))


def correlation(a, b):
    """Pearson's correlation of the rates of two series, over the intervals in which both
    were counted; None if one rate does not change, or there are less than three intervals."""
    rates = dict((t, r) for t, r in a.rates() if r is not None)
    pairs = [(rates[t], r) for t, r in b.rates()
             if r is not None and t in rates]
    n = len(pairs)
    if n < 3:
        return None
    mean = [sum(p[i] for p in pairs) / n for i in (0, 1)]
    spread = [math.sqrt(sum((p[i] - mean[i]) ** 2 for p in pairs))
              for i in (0, 1)]
    if not all(spread):
        return None
    return sum((p[0] - mean[0]) * (p[1] - mean[1])
               for p in pairs) / spread[0] / spread[1]


def correlations(run):
    """{(event, event): correlation or None}"""
    return {(a.name, b.name): correlation(a, b)
            for a in run.series for b in run.series}
