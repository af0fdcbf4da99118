# SPDX-License-Identifier: GPL-2.0
"""The events of a session: as the user names them, and as each machine's perf takes them."""
import collections
import os
import re

from pvperf.error import Error
from pvperf.report.event import plain

EVENT = r"[\w.=:-]+(?:/(?:[\w.=,:-]*/|\d))?[\w:]*"
MODIFIERS = "[ukhGHpPSDIWeb]"
ITEM = re.compile(rf"(?:\{{({EVENT}(?:,{EVENT})*)\}}(?::({MODIFIERS}+))?|({EVENT}))(?:,(?=.)|$)")
# The timer that leads the groups if events are only counted.
TIMER = "cpu-clock"
# The hypervisor's events in a guest with the pair.
PMU = "/sys/bus/event_source/devices/kvm"

Item = collections.namedtuple("Item", "events modifiers")
Item.__doc__ = """The events of a group, and the group's modifiers; modifiers is None for an
event that is in no group."""


def split(text):
    """The parts between commas that are not in a PMU's terms."""
    return re.findall(EVENT, text)


def parse(words):
    """[Item] of the arguments of -e, each of which has one or more events or groups."""
    result = []
    for word in words:
        at = 0
        while at < len(word) or not word:
            match = ITEM.match(word, at)
            if not match:
                raise Error(f"-e {word}: this is not a list of events",
                            "perf list has the names of events; a group is {EVENT,EVENT}")
            result.append(Item(split(match[1]), match[2] or "") if match[1]
                          else Item([match[3]], None))
            at = match.end()
    return result


def split_event(event):
    """(name, modifiers) of one event."""
    # The name of a tracepoint contains a colon.
    match = re.fullmatch(rf"(.*/|[^/]*?(?=:)):?({MODIFIERS}*)", event)
    return match.groups() if match else (event, "")


def modified(event, more):
    """The event with more modifiers."""
    name, modifiers = split_event(event)
    more = modifiers + more
    return f"{name}{':' if more and not name.endswith('/') else ''}{more}"


def without_chains(event):
    """The event without call chains, which KVM does not have for guests.  If perf record is
    asked for chains, and a sample has none, perf script prints no address."""
    name, modifiers = split_event(event)
    if "/" in name:
        name = name.removesuffix("/").removesuffix(",") + ",call-graph=no/"
    elif ":" not in name:
        name += "/call-graph=no/"
    return modified(name, modifiers)


def to_record(item, change):
    """The argument of perf record's -e for an Item, with change(event) for each event."""
    if item.modifiers is None:
        return change(item.events[0])
    return "{" + ",".join(map(change, item.events)) + "}" + \
        (f":{item.modifiers}" if item.modifiers else "")


def to_count(item):
    """The events of an Item, each for itself, for perf stat."""
    return [modified(event, (item.modifiers or "").replace("S", "")) for event in item.events]


def is_of_guests(item):
    """Are these the hypervisor's events of the pair, and is this host no guest with the pair?"""
    return item.events[0].startswith("kvm/") and not os.path.exists(PMU)


def rate(item, event, period, frequency):
    """(period, frequency) of an event's samples; (None, None) for the members of a group that
    is sampled as a whole."""
    match = re.search(r"[/,](period|freq)=(\d{1,15})[,/]", event)
    if match:
        return (int(match[2]), None) if match[1] == "period" else (None, int(match[2]))
    return (None, frequency) if "S" in (item.modifiers or "") else (period, frequency)


def timer_of(event):
    """The name of the timer of an event's group."""
    return "timer-" + re.sub(r"\W", "-", plain(event))


class Events:
    """The events of a session."""

    def __init__(self, everywhere, guests, timer=None):
        """everywhere, guests: the arguments of -e and --guest-event.  timer: only count the
        events, and take the counts each timer ns."""
        items = parse(everywhere)
        self.host = [i for i in items if not is_of_guests(i)]
        self.only_guests = [i for i in items if is_of_guests(i)] + parse(guests)
        self.timer = timer
        if not self.host:
            raise Error("the host has no such event: " + ", ".join(everywhere),
                        "-e an event that the host has, too, such as cycles")
        # plain() is the name by which the report finds an event's samples.
        names = [plain(e) for e in self.names(self.host) + self.names(self.only_guests)]
        for name in names:
            if names.count(name) > 1:
                raise Error(f"there are two events of the name {name}",
                            "give one a name of its own: cpu/cycles,name=NAME/u")

    @staticmethod
    def names(items):
        return [event for item in items for event in to_count(item)]

    def all(self):
        return self.host + self.only_guests

    def arguments(self, items, change=str):
        """perf record's arguments for the Items."""
        words = [to_record(item, change) for item in items]
        if self.timer:
            # A group for each event: perf rotates groups if there are too few counters, and
            # the group's timer says for how long the group has counted.
            words = [f"{{{TIMER}/name={timer_of(event)}/,{change(event)}}}:S"
                     for event in self.names(items)]
        return [argument for word in words for argument in ("-e", word)]

    def of_host(self, passive, chains):
        """perf record's arguments on the host."""
        result = self.arguments(self.host, lambda e: modified(e, "H"))
        if passive:
            result += self.arguments(self.host, lambda e: modified(
                without_chains(e) if chains else e, "G"))
        return result

    def of_guests(self):
        """perf record's arguments in a guest."""
        return self.arguments(self.all())

    def to_count(self, items, modifiers=""):
        """The argument of perf stat's -e."""
        return ",".join(modified(event, modifiers) for event in self.names(items))

    def describe(self, period, frequency):
        """[(event, period, frequency, is it of guests only?)]"""
        if self.timer:
            period = frequency = None
        return [(name, *rate(item, event, period, frequency), item in self.only_guests)
                for item in self.all() for event, name in zip(item.events, to_count(item))]
