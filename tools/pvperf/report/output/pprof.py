# SPDX-License-Identifier: GPL-2.0
"""A profile for pprof: profile.proto, with gzip.

The numbers below are those of the fields in
https://github.com/google/pprof/blob/main/proto/profile.proto. The messages are few and
flat, so the writer writes each samples file at once, and does not collect messages first."""
import datetime

from pvperf.report.event import unit
from pvperf.report.output.proto import message, number, varint

# The largest int64, and the largest address.
MOST, MOST_ADDRESS = (1 << 63) - 1, (1 << 64) - 1

# Fields of Profile.
SAMPLE_TYPE, SAMPLE, MAPPING, LOCATION, FUNCTION, STRING = 1, 2, 3, 4, 5, 6
TIME, DURATION, PERIOD_TYPE, PERIOD, COMMENT, DEFAULT_TYPE = 9, 10, 11, 12, 13, 14


class Writer:
    """Writes each Profile to the file at once."""

    def __init__(self, file, session):
        self.file = file
        self.strings, self.mappings, self.functions = {}, {}, {}
        self.first = {}             # {mapping: start in the first process that has it}
        self.string("")
        event = session.event or "events"
        event_type = (self.string(event), self.string(unit(event)))
        for name, of in ((self.string("samples"), self.string("count")),
                         event_type):
            self.write(SAMPLE_TYPE, number(1, name), number(2, of))
        self.file.write(number(DEFAULT_TYPE, event_type[0]))
        self.write(PERIOD_TYPE, *(number(i + 1, n)
                                  for i, n in enumerate(event_type)))
        # pprof takes the first mapping for the profiled program, and shows its name.
        self.mapping(f"host {session.host_name} and its guests")
        self.header(session)

    def header(self, session):
        try:
            began = datetime.datetime.fromisoformat(session.began)
            nanoseconds = int(began.timestamp() * 1e9)
        except (ValueError, OverflowError, OSError):
            nanoseconds = 0
        for field, n in ((TIME, max(nanoseconds, 0)),
                         (DURATION, min(int(session.seconds * 1e9), MOST)),
                         (PERIOD, session.period or 0)):
            self.file.write(number(field, n))
        text = f"pv-perf: host {session.host_name}, Linux {session.kernel}"
        self.file.write(number(COMMENT, self.string(text)))

    def write(self, field, *parts):
        self.file.write(message(field, *parts))

    def string(self, text):
        found = self.strings.get(text)
        if found is None:
            found = self.strings[text] = len(self.strings)
            self.write(STRING, text.encode("utf-8", "replace"))
        return found

    def mapping(self, name, place=None):
        """The number of an object's mapping; 0 for no object.  A mapping has addresses, and
        needs symbols, only if there is a Map (place)."""
        if not name and not place:
            return 0
        key = name if not place else (name, place.build_id, place.offset)
        found = self.mappings.get(key)
        if found is None:
            found = self.mappings[key] = len(self.mappings) + 1
            where = (number(2, place.start), number(3, place.end),
                     number(4, place.offset), number(5, self.string(name)),
                     number(6, self.string(place.build_id))) if place else \
                (number(5, self.string(name)), number(7, 1))
            self.write(MAPPING, number(1, found), *where)
            if place:
                self.first[found] = place.start
        return found

    def address(self, name, place, address):
        """The number of the location of an address whose function is not known.  The address
        is converted to that in the first process with the mapping."""
        mapping = self.mapping(name, place)
        # Maps are a guest's.  They may say that the address is before the mapping.
        address = min(max(address + self.first[mapping] - place.start, 0), MOST_ADDRESS)
        found = self.functions.get((mapping, address))
        if found is None:
            found = self.functions[mapping, address] = len(self.functions) + 1
            self.write(LOCATION, number(1, found), number(2, mapping),
                       number(3, address))
        return found

    def location(self, name, where):
        """The number of the location of a function; the function has the same number."""
        found = self.functions.get((name, where))
        if found is None:
            found = self.functions[name, where] = len(self.functions) + 1
            text, mapping = self.string(name), self.mapping(where)
            self.write(FUNCTION, number(1, found), number(2, text),
                       number(3, text), number(4, self.string(where)))
            self.write(LOCATION, number(1, found), number(2, mapping),
                       message(4, number(1, found)))
        return found

    def labels(self, group):
        words = {"domain": group.area, "vm": group.vm, "process": group.process,
                 "thread": group.thread,
                 "vcpu": None if group.vcpu is None else str(group.vcpu)}
        return b"".join(
            message(3, number(1, self.string(key)), number(2, self.string(word)))
            for key, word in words.items() if word is not None)

    def sample(self, locations, samples, events, labels):
        self.write(SAMPLE, message(1, *map(varint, locations)),
                   message(2, varint(samples), varint(min(events, MOST))),
                   labels)

    def add(self, profile):
        """Writes the samples of a samples file's Profile."""
        tree, frames = profile.tree, profile.frames
        labels = [self.labels(g) for g in profile.groups]
        locations = {}
        for node, samples in enumerate(tree.samples):
            if not samples:
                continue
            group, stack = tree.stack(node)
            for frame in stack:
                if frame not in locations:
                    locations[frame] = self.address(
                        frames.objects[frame], *frames.places[frame]) \
                        if frame in frames.places else self.location(
                            frames.names[frame], frames.objects[frame])
            self.sample([locations[f] for f in stack], samples,
                        tree.events[node], labels[group])

    def close(self, all_accounts, _):
        """Writes the events without samples."""
        for what, events, _, _ in sum((a.missing for a in all_accounts), []):
            label = message(3, number(1, self.string("domain")),
                            number(2, self.string(what)))
            self.sample([self.location(f"[{what}]", "")], 0, events, label)
