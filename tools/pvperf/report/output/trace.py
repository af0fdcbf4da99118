# SPDX-License-Identifier: GPL-2.0
"""Host and guests over time: a track for each CPU of a domain.  A slice lasts as long as
samples have the same function at the same depth of the stack.  Marks are samples of other
events.

perfetto.Sink writes the trace for Perfetto (https://ui.perfetto.dev), and Json for the
trace viewers of Chromium and Go."""
import collections
import json

from pvperf import text
from pvperf.report.frames import label
from pvperf.report.input.script import is_passive

# With more slices, viewers take minutes.
MANY = 1000000
TRACKS = 4096


class Json:
    """The trace event format: slices (X), and marks (i).

    https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU"""

    def __init__(self, file, session):
        self.file, self.began = file, False
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

    def meta(self, name, pid, tid, value):
        self.write(ph="M", name=name, pid=pid, tid=tid, args={"name": value})

    def process(self, pid, name):
        self.meta("process_name", pid, 0, name)

    def thread(self, pid, tid, name):
        self.meta("thread_name", pid, tid, name)

    @staticmethod
    def begin(pid, tid, _, name, args):
        """Returns the size of the slice.  end() writes it."""
        return 60 + len(json.dumps([name, pid, tid, args]))

    def end(self, pid, tid, time, since, name, args):
        self.write(ph="X", name=name, pid=pid, tid=tid, ts=round(since * 1e6, 3),
                   dur=round((time - since) * 1e6, 3),
                   **({"args": args} if args else {}))

    def mark(self, pid, tid, time, name):
        return self.write(ph="i", name=name, s="t", pid=pid, tid=tid,
                          ts=round(time * 1e6, 3))

    def close(self):
        self.file.write(b"\n]}\n")


class Track:
    """A CPU with its open slices, from the outermost on."""

    def __init__(self, title, number, tid):
        self.title, self.number, self.tid = title, number, tid
        self.open = []              # [((name, args or None), since, written)]
        self.end = -1.0             # the time until which slices are drawn


class Writer:
    """Writes the wanted part of the session.  A domain may have about BYTES."""
    BYTES = 24 << 20
    WHAT = f"the timeline has only its first {BYTES >> 20} MB"

    def __init__(self, sink, session, only):
        self.sink, self.session, self.only = sink, session, only
        self.gap = 1 / session.frequency if session.frequency else 1e-3
        self.fixed = bool(session.frequency)
        self.processes, self.tracks = {}, {}
        self.slices = 0
        # By a domain's title: the bytes used, and the samples for which there was no room.
        self.used, self.cut = collections.Counter(), collections.Counter()
    def track(self, title, kind, cpu):
        """The Track of a domain's CPU; None if there are too many tracks for a viewer."""
        found = self.tracks.get((title, cpu))
        if found or len(self.tracks) >= TRACKS:
            return found
        if title not in self.processes:
            number = self.processes[title] = len(self.processes) + 1
            self.sink.process(number, title)
        number = self.processes[title]
        self.sink.thread(number, cpu, f"{kind} {cpu}")
        found = self.tracks[title, cpu] = Track(title, number, cpu)
        return found

    def place(self, profile, sample, group):
        """The Track of a sample."""
        title = profile.domain.title()
        if profile.domain.kind != "host":
            return self.track(title, "vCPU", sample.cpu)
        cpu = self.track(title, "CPU", sample.cpu)
        if group is None or not is_passive(sample.misc):
            return cpu
        return self.track(group.area.rpartition(" ")[0], "vCPU",
                          profile.threads.get(sample.tid, (None, 0))[1])

    def time(self, profile, sample):
        """A sample's time in seconds since the start; None if it is not wanted."""
        if profile.domain.clock is None:
            return None
        host = profile.domain.clock.host(sample.time)
        time = self.session.since_start(host)
        return time if time >= 0 and self.only.in_time(time) else None

    def add(self, profile, sample, number):
        """Draws a sample if there is room."""
        time = self.time(profile, sample)
        if time is None:
            return
        title = profile.domain.title()
        if self.used[title] > self.BYTES:
            self.cut[title] += 1
            return
        group = None if number is None else profile.groups[number]
        if group is None and not profile.wanted(sample.event):
            if profile.wanted(sample.event) is not None:
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
        """Ends a CPU's slices: the CPU has run a guest."""
        if track and time >= track.end:
            self.shut(track, 0)
            track.end = time

    def draw(self, track, what, time):
        """Draws the stack of a sample, from the last sample until this time.  If the last
        sample is long ago, draws only the mean time between two samples."""
        gap = time - track.end
        if not self.fixed and gap > 0:
            # An estimate of the median gap.
            self.gap *= 1.05 if gap > self.gap else 0.95
        begin, same = max(track.end, 0), 0
        if gap > 1.5 * self.gap:
            begin = max(time - self.gap, track.end, 0)
        else:
            for (old, _, _), new in zip(track.open, what):
                if old != new:
                    break
                same += 1
        self.shut(track, same)
        for word in what[same:]:
            self.begin(track, word, begin)
        track.end = time

    def begin(self, track, word, time):
        room = self.used[track.title] <= self.BYTES
        if room:
            self.used[track.title] += self.sink.begin(
                track.number, track.tid, time, *word)
        track.open.append((word, time, room))

    def shut(self, track, keep):
        """Ends all open slices but the outermost keep ones."""
        for (name, args), since, begun in reversed(track.open[keep:]):
            if begun:
                self.sink.end(track.number, track.tid, track.end, since, name, args)
                self.slices += 1
        del track.open[keep:]

    def mark(self, profile, sample, time):
        track = self.place(profile, sample, None)
        if track:
            self.used[track.title] += self.sink.mark(
                track.number, track.tid, time, text.name(sample.event))
            self.slices += 1

    def close(self, notes):
        for track in self.tracks.values():
            self.shut(track, 0)
        self.sink.close()
        if self.slices > MANY:
            notes.append(f"the timeline has {self.slices:,} slices, so that "
                         "viewers are slow: --time writes a part")
