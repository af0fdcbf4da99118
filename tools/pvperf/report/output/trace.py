# SPDX-License-Identifier: GPL-2.0
"""Host and guests over time, as Perfetto (https://ui.perfetto.dev) and the trace
viewer of Chromium and Go read it: the trace event format, in JSON.

https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU: a
track for each CPU of a domain, with a slice (X) for as long as samples find the same
function in the same place, and marks (i) for events of other kinds."""
import collections
import json

from pvperf import text
from pvperf.report.frames import label
from pvperf.report.input.script import is_passive

# Beyond that a viewer takes minutes.
MANY = 1000000
TRACKS = 4096


class Track:
    """A CPU: what it does, from the outermost on."""

    def __init__(self, title, number, tid):
        self.title, self.number, self.tid = title, number, tid
        self.open = []              # [((name, its args or None), since)]
        self.end = -1.0             # of what is drawn


class Writer:
    """Of the samples from..to, in seconds since the session's start; no domain has more
    than BYTES of it."""
    BYTES = 24 << 20

    def __init__(self, file, session, part):
        self.file, self.part = file, part
        self.start = session.window and session.window[0]
        self.gap = 1 / session.frequency if session.frequency else 1e-3
        self.fixed = bool(session.frequency)
        self.processes, self.tracks = {}, {}
        self.slices, self.names = 0, {}
        self.began = False
        # By a domain's title: what it has had, and how many samples that had no room.
        self.used, self.cut = collections.Counter(), collections.Counter()
        file.write(b'{"displayTimeUnit": "ns", "otherData": %s, '
                   b'"traceEvents": [' % json.dumps({
                       "event": session.event, "began": session.began,
                       "by": "pv-perf report"}).encode())

    def write(self, **event):
        data = (",\n" if self.began else "\n").encode() + \
            json.dumps(event, separators=(",", ":")).encode()
        self.file.write(data)
        self.began = True
        return len(data)

    def put(self, title, **event):
        """Of a domain, where it has room."""
        if self.used[title] <= self.BYTES:
            self.used[title] += self.write(**event)
            self.slices += 1

    def track(self, title, kind, cpu):
        """Of a domain's CPU; None beyond what a viewer can show."""
        found = self.tracks.get((title, cpu))
        if found or len(self.tracks) >= TRACKS:
            return found
        if title not in self.processes:
            number = self.processes[title] = len(self.processes) + 1
            self.meta("process_name", number, 0, title)
        number = self.processes[title]
        self.meta("thread_name", number, cpu, f"{kind} {cpu}")
        found = self.tracks[title, cpu] = Track(title, number, cpu)
        return found

    def meta(self, name, pid, tid, value):
        self.write(ph="M", name=name, pid=pid, tid=tid, args={"name": value})

    def place(self, profile, sample, group):
        """The track of a sample."""
        title = profile.domain.title()
        if profile.domain.kind != "host":
            return self.track(title, "vCPU", sample.cpu)
        cpu = self.track(title, "CPU", sample.cpu)
        if group is None or not is_passive(sample.misc):
            return cpu
        return self.track(group.area.rpartition(" ")[0], "vCPU",
                          profile.threads.get(sample.tid, (None, 0))[1])

    def time(self, profile, sample):
        """In seconds since the start; None where it is not wanted."""
        if profile.domain.clock is None:
            return None
        host = profile.domain.clock.host(sample.time)
        if self.start is None:
            self.start = host
        time = host - self.start
        if time < 0:
            return None
        first, last = self.part
        return time if first <= time <= last else None

    def add(self, profile, sample, number):
        """Draws it, where there is room."""
        time = self.time(profile, sample)
        if time is None:
            return
        title = profile.domain.title()
        if self.used[title] > self.BYTES:
            self.cut[title] += 1
            return
        group = None if number is None else profile.groups[number]
        if group is None and not profile.wanted(sample.event):
            self.mark(profile, sample, time)
            return
        if is_passive(sample.misc):
            self.leave(self.place(profile, sample, None), time)
        track = self.place(profile, sample, group)
        if group is None or track is None or time < track.end:
            return
        names, objects = profile.frames.names, profile.frames.objects
        what = [(group.process, {"domain": group.area, "pid": sample.pid,
                                 "tid": sample.tid})]
        what += [(label(names[f], objects[f]), None)
                 for f in reversed(sample.frames)]
        self.draw(track, what, time)

    def leave(self, track, time):
        """A CPU has done something else."""
        if track and time >= track.end:
            self.shut(track, 0)
            track.end = time

    def draw(self, track, what, time):
        """What was done until this time: since the last sample, or as long as one
        stands for."""
        gap = time - track.end
        if not self.fixed and gap > 0:
            # Close to the median.
            self.gap *= 1.05 if gap > self.gap else 0.95
        begin, same = track.end, 0
        if gap > 1.5 * self.gap:
            begin = max(time - self.gap, track.end, 0)
        else:
            for (old, _), new in zip(track.open, what):
                if old != new:
                    break
                same += 1
        self.shut(track, same)
        track.open += [(w, begin) for w in what[same:]]
        track.end = time

    def shut(self, track, keep):
        """Writes what is over."""
        for (name, args), since in reversed(track.open[keep:]):
            self.put(track.title, ph="X", name=name, pid=track.number,
                     tid=track.tid, ts=round(since * 1e6, 3),
                     dur=round((track.end - since) * 1e6, 3),
                     **({"args": args} if args else {}))
        del track.open[keep:]

    def mark(self, profile, sample, time):
        track = self.place(profile, sample, None)
        if track:
            self.put(track.title, ph="i", name=text.name(sample.event), s="t",
                     pid=track.number, tid=track.tid, ts=round(time * 1e6, 3))

    def close(self, notes):
        for track in self.tracks.values():
            self.shut(track, 0)
        self.file.write(b"\n]}\n")
        if self.slices > MANY:
            notes.append(f"the timeline has {self.slices:,} slices, which "
                         "viewers are slow with: --time takes a part")
