# SPDX-License-Identifier: GPL-2.0
"""A profile for https://profiler.firefox.com, in Gecko's profile format, version 24, which
perf script report gecko writes, too.  Each thread of a process is a thread.

https://github.com/firefox-devtools/profiler/blob/main/docs-developer/gecko-profile-format.md"""
import array
import collections
import datetime
import json

from pvperf.report.frames import label

VERSION = 24
# Limits for a browser, for all domains: samples, nodes of the stack tables, and threads.
SAMPLES = 2000000
NODES = 600000
THREADS = 4096
# A category for each kind of area.  A frame has the index of its category.
CATEGORIES = [("host", "blue"), ("guest", "green"), ("other", "grey")]
SCHEMAS = {
    "frameTable": ["location", "relevantForJS", "innerWindowID", "implementation",
                   "optimizations", "line", "column", "category", "subcategory"],
    "stackTable": ["prefix", "frame"],
    "samples": ["stack", "time", "responsiveness"],
    "markers": ["name", "startTime", "endTime", "phase", "category", "data"]}


def schema(name):
    return {word: place for place, word in enumerate(SCHEMAS[name])}


class Thread:
    """A thread: its stacks, each once, and for each sample its stack and time in ms."""

    def __init__(self, process, name, pid, tid, category):
        self.process, self.name, self.pid, self.tid = process, name, pid, tid
        self.category = category
        self.strings, self.stacks = {}, {}
        self.frames, self.prefixes = array.array("I"), array.array("l")
        self.stack, self.times = array.array("l"), array.array("d")

    def add(self, names, time, room):
        """Adds a sample.  names: its stack, the outermost first; room: the number of new
        nodes that the stack may have.  Returns the room that is left, or -1 if functions are
        left out."""
        at = -1
        for name in names:
            found = self.stacks.get((at, self.strings.get(name)))
            if found is None:
                room -= 1
                if room < 0:
                    break
                frame = self.strings.setdefault(name, len(self.strings))
                found = self.stacks[at, frame] = len(self.frames)
                self.prefixes.append(at)
                self.frames.append(frame)
            at = found
        self.stack.append(at)
        self.times.append(time)
        return room

    def describe(self):
        """The thread in Gecko's format, with the samples in the order of time."""
        order = sorted(range(len(self.times)), key=self.times.__getitem__)
        frames = [[n, False, 0, None, None, None, None, self.category, 0]
                  for n in range(len(self.strings))]
        return {
            "name": self.name, "processName": self.process, "processType": "default",
            "pid": self.pid, "tid": self.tid, "registerTime": 0,
            "unregisterTime": None, "stringTable": list(self.strings),
            "markers": {"schema": schema("markers"), "data": []},
            "frameTable": {"schema": schema("frameTable"), "data": frames},
            "stackTable": {"schema": schema("stackTable"), "data": [
                [None if p < 0 else p, f]
                for p, f in zip(self.prefixes, self.frames)]},
            "samples": {"schema": schema("samples"), "data": [
                [None if self.stack[i] < 0 else self.stack[i],
                 round(self.times[i], 6), 0] for i in order]}}


class Writer:
    """Collects the samples.  A domain may have its share of each limit."""
    WHAT = f"the Firefox profile has only its share of {SAMPLES:,} samples"

    def __init__(self, file, session, shares):
        self.file, self.session = file, session
        self.most, self.most_threads = SAMPLES // shares, THREADS // shares or 1
        self.threads, self.pids = {}, {}
        self.used, self.count = collections.Counter(), collections.Counter()
        self.cut = collections.Counter()
        # {a domain's title: the room for nodes of its stacks}
        self.room = collections.defaultdict(lambda: NODES // shares)
        self.short = 0

    def add(self, profile, sample, number):
        """Adds a sample that the Profile has counted."""
        if number is None or profile.domain.clock is None:
            return
        title = profile.domain.title()
        if self.used[title] >= self.most:
            self.cut[title] += 1
            return
        self.used[title] += 1
        time = self.session.since_start(profile.domain.clock.host(sample.time))
        names, objects = profile.frames.names, profile.frames.objects
        thread = self.thread(title, profile.groups[number], sample)
        room = thread.add([label(names[f], objects[f]) for f in reversed(sample.frames)],
                          max(time, 0) * 1e3, self.room[title])
        self.short += room < 0
        self.room[title] = max(room, 0)

    def thread(self, title, group, sample):
        owner = group.area if not group.vm else group.area.partition(" idle")[0]
        key = owner, group.process, sample.pid, sample.tid
        found = self.threads.get(key)
        if found is None and self.count[title] >= self.most_threads:
            key = owner, "[others]", 0, 0
            found = self.threads.get(key)
        if found is None:
            self.count[title] += 1
            kind = owner.partition(" ")[0]
            category = 0 if kind in ("host", "VMM") else \
                1 if kind in ("guest", "passive") else 2
            # Processes of two domains may have the same PID: each gets its own number here.
            pid = self.pids.setdefault((owner, key[2]), len(self.pids) + 1)
            found = self.threads[key] = Thread(
                f"{owner}: {key[1]} {key[2]}", key[1], str(pid),
                len(self.threads) + 1, category)
        return found

    def close(self, notes):
        if self.short:
            notes.append(f"there are more stacks than the Firefox profile has room for: "
                         f"{self.short:,} samples have only the outermost functions")
        s = self.session
        try:
            began = datetime.datetime.fromisoformat(s.began).timestamp() * 1e3
        except (ValueError, OverflowError, OSError):
            began = 0
        head = {
            "meta": {
                "version": VERSION, "interval": 1e3 / (s.frequency or 1000),
                "processType": 0, "product": f"pv-perf, host {s.host_name}",
                "stackwalk": 1, "debug": 0, "gcpoison": 0, "asyncstack": 1,
                "startTime": began, "shutdownTime": None, "presymbolicated": True,
                "categories": [{"name": n, "color": c, "subcategories": ["Other"]}
                               for n, c in CATEGORIES],
                "markerSchema": []},
            "libs": [], "processes": [], "pausedRanges": []}
        self.file.write(json.dumps(head)[:-1].encode() + b', "threads": [')
        for place, thread in enumerate(self.threads.values()):
            self.file.write((b",\n" if place else b"\n") + json.dumps(
                thread.describe(), separators=(",", ":")).encode())
        self.file.write(b"\n]}\n")
