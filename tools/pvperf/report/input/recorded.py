# SPDX-License-Identifier: GPL-2.0
"""Reads session.json, which pv-perf record has written, and checks its values, because some
come from guests."""
import collections
import json
import math
import os

from pvperf.error import Error
from pvperf.report.event import plain
from pvperf.report.input.hosttime import Clock, HostClock
from pvperf.report.input.lines import open_file
from pvperf.text import printable

VERSION = 2
SIZE = 4 << 20                  # of session.json
DOMAINS = 1000
VCPUS = 4096
HELPERS = 100000
EVENTS = 100
PAIRS = 100000
COUNT = 1 << 63                 # more than any counter counts
FASTEST = 1e11                  # events per second of a CPU
REMEDY = "take the folder of pv-perf record"

NUMBER = (int, float)


class Wrong(Exception):
    """Something is wrong in session.json."""


def get(where, key, kind, default=None):
    """A value of this kind, or the default if the value is null or missing."""
    value = where.get(key)
    if value is None:
        return default
    if not isinstance(value, kind) or \
            isinstance(value, bool) and kind is not bool:
        raise Wrong(f"{key} is {printable(repr(value)[:50])}")
    if isinstance(value, NUMBER) and not 0 <= value < COUNT:
        raise Wrong(f"{key} is {value}")
    return value


def get_list(where, key, kind, at_most):
    """A list of values of this kind."""
    result = get(where, key, list, [])
    if len(result) > at_most:
        raise Wrong(f"{key} has {len(result)} entries")
    if not all(isinstance(v, kind) and not isinstance(v, bool)
               for v in result):
        raise Wrong(f"{key} has an entry of a wrong type")
    return result


def get_file(where, key):
    """The name of a file in the session's folder, or None."""
    name = get(where, key, str)
    if name and (os.path.basename(name) != name or not name.isprintable()):
        raise Wrong(f"{key} is not the name of a file in the folder")
    return name or None


def read_clock(where):
    """The Clock of a guest, or None."""
    pairs = get_list(where, "clock", list, PAIRS)
    for pair in pairs:
        if len(pair) != 3 or not all(
                isinstance(n, NUMBER) and not isinstance(n, bool)
                and abs(n) < 1e12 for n in pair):
            raise Wrong("clock has an entry that is not three numbers")
    if any(b[0] - a[0] < 1e-6 for a, b in zip(pairs, pairs[1:])):
        raise Wrong("clock does not advance")
    return Clock([tuple(map(float, p)) for p in pairs]) if pairs else None


def read_window(where):
    """(from, until), by the host's clock: the time when all domains recorded; or None."""
    window = get_list(where, "window", NUMBER, 2)
    if not window:
        return None
    if len(window) != 2 or not -1e12 < window[0] < window[1] < 1e12:
        raise Wrong("window is not two times")
    return window[0], window[1]


Event = collections.namedtuple("Event", "name period frequency counted guests")
Event.__doc__ = """An event of a session.  counted: the host's count, or None; guests: has only
guests sampled the event?"""


def read_counted(where):
    """The sum of the counts of all CPUs, or None."""
    counted = get(where, "counted", dict)
    return None if counted is None else round(sum(
        get(counted, key, NUMBER, 0) for key in counted))


def read_event(where):
    return Event(printable(get(where, "event", str, "?")), get(where, "period", int),
                 get(where, "frequency", NUMBER), read_counted(where),
                 get(where, "guests", bool, False))


class Domain:
    """The host or a guest."""

    def __init__(self, where):
        self.name = printable(get(where, "name", str, ""))[:64]
        self.kind = get(where, "kind", str)
        if not self.name or self.kind not in ("host", "guest", "passive"):
            raise Wrong("a domain has no name, or an unknown kind")
        self.pid = get(where, "pid", int)
        self.vcpus = get_list(where, "vcpus", int, VCPUS)
        # The host's counts of the VMM in guest mode, in the order of the session's events.
        more = get_list(where, "more", (int, type(None)), EVENTS)
        self.counts = [get({"counted": n}, "counted", int)
                       for n in (where.get("counted"), *more)]
        self.counted = self.counts[0]
        self.helpers = get_list(where, "helpers", int, HELPERS)
        self.samples = get_file(where, "samples")
        self.symbols = get_file(where, "symbols")
        self.maps = get_file(where, "maps")
        self.others = 0             # samples of the session's other events
        self.notes = []             # texts that say what is wrong with the domain
        self.doubtful = False       # may its numbers be wrong?
        self.claims(where)

    def claims(self, where):
        """Reads values that the domain itself may have given: an error is only a note."""
        status = self.claim(get, where, "status", str, "ok")
        self.status = printable(status or "its status is wrong")
        if self.status != "ok":
            self.notes.append(self.status)
            # The samples may cover only a part of the time.
            self.doubtful = self.samples is not None
        self.lost = self.claim(get, where, "lost", int, 0) or 0
        self.clock = HostClock() if self.kind == "host" else \
            self.claim(read_clock, where)

    def claim(self, read, *args):
        """The result of read(*args), or None with a note if the value is wrong."""
        try:
            return read(*args)
        except Wrong as error:
            self.notes.append(f"session.json: {printable(str(error))}")
            self.doubtful = True
            return None

    def lost_of(self, samples):
        """How many of the lost samples were of an event, if perf loses all events alike.
        samples: the number of the event's samples."""
        return self.lost * samples // (samples + self.others) if samples else 0

    def is_elsewhere(self):
        """Is the VMM of this guest unknown?  Then the guest may be on another host, and its
        time is not time of this host's CPUs."""
        return self.kind == "guest" and self.pid is None

    def title(self):
        return "host" if self.kind == "host" else f"{self.kind} {self.name}"


class Session:
    """A session, with one of its events.  seconds is more than 0."""

    def __init__(self, folder, event=None):
        """event: the name of the event, or None for the first one."""
        self.folder = folder
        self.only_guests = False    # have only guests the event?
        self.start = None           # the start of the timeline, by the host's clock
        where = read_json(os.path.join(folder, "session.json"))
        try:
            self.fill(where)
        except Wrong as error:
            raise Error(f"{folder}/session.json: {printable(str(error))}",
                        REMEDY) from None
        if event is not None:
            self.choose(event)
        # The plain names of the session's other events.
        self.others = {plain(e.name) for e in self.events} - {plain(self.event)}

    def choose(self, name):
        """Makes an event the session's event."""
        for number, event in enumerate(self.events):
            if plain(name) == plain(event.name):
                self.event, self.period, self.frequency, self.counted, self.only_guests = \
                    event
                for d in self.domains:
                    d.counted = d.counts[number] if number < len(d.counts) else None
                return
        raise Error(f"--event {printable(name)}: {self.folder} has no such event",
                    "--event " + ", ".join(e.name for e in self.events))

    def fill(self, where):
        if not isinstance(where, dict):
            raise Wrong("it is not an object")
        if get(where, "version", int) != VERSION:
            raise Wrong(f"its version is {get(where, 'version', int)}, but "
                        f"pv-perf reads version {VERSION}")
        self.event = printable(get(where, "event", str, "cycles"))
        self.period = get(where, "period", int)
        self.frequency = get(where, "frequency", NUMBER)
        self.callgraph = get(where, "callgraph", bool, False)
        self.began = printable(get(where, "began", str, ""))
        self.window = read_window(where)
        self.start = self.window and self.window[0]
        self.seconds = max(get(where, "seconds", NUMBER, 0), 1e-3)
        self.interrupted = get(where, "interrupted", bool, False)
        host = get(where, "host", dict, {})
        self.host_name = printable(get(host, "name", str, "?"))[:64]
        self.kernel = printable(get(host, "kernel", str, "?"))[:64]
        self.cpus = get(host, "cpus", int)
        self.counted = read_counted(host)
        self.events = [Event(self.event, self.period, self.frequency, self.counted, False)]
        self.events += map(read_event, get_list(where, "more", dict, EVENTS))
        domains = get_list(where, "domains", dict, DOMAINS)
        self.domains = sorted(map(Domain, domains),
                              key=lambda d: d.kind != "host")
        self.tell_apart()

    def tell_apart(self):
        """Makes titles unique: guests of two connections may have the same name."""
        seen = set()
        for domain in self.domains:
            name, number = domain.name, 1
            while domain.title() in seen:
                if domain.kind == "host":
                    raise Wrong("there are two hosts")
                number += 1
                domain.name = f"{name} #{number}"
            seen.add(domain.title())

    def most(self):
        """The largest number of events that a sample can stand for."""
        return min(self.counted or math.inf,
                   FASTEST * max(self.seconds, 1), COUNT - 1)

    def since_start(self, time):
        """A time of the host's clock, in seconds since the session's start."""
        if self.start is None:
            self.start = time
        return time - self.start

    def path(self, domain, name=None):
        return os.path.join(self.folder, name or domain.samples)


def nothing(text):
    raise Wrong(f"it has {text} where a number should be")


def read_json(path):
    if not os.path.lexists(path):
        raise Error(f"{path}: No such file or directory",
                    "name the folder that pv-perf record has written (-o)")
    with open_file(path) as f:
        text = f.read(SIZE + 1)
    try:
        if len(text) > SIZE:
            raise Wrong(f"it has more than {SIZE >> 20} MB")
        return json.loads(text, parse_constant=nothing)
    except (Wrong, ValueError, RecursionError) as error:
        raise Error(f"{path}: {printable(str(error))}", REMEDY) from None
