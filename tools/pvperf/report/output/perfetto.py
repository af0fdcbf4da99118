# SPDX-License-Identifier: GPL-2.0
"""A trace in Perfetto's own format: a Trace of TracePackets.

The numbers below are those of the fields in
https://github.com/google/perfetto/blob/main/protos/perfetto/trace/trace_packet.proto
and track_event/ beside it. Like Perfetto, the sink compresses several packets together."""
import zlib

from pvperf.report.output.proto import message, number, string

# Bytes of packets that are compressed together. Perfetto allows 512 KB.
CHUNK = 448 << 10
# The number of interned names. Events with another name have the name itself.
NAMES = 100000
# Bytes of the end of a slice. The beginning of the slice reserves them.
END_SIZE = 24
# The largest time in ns.
MOST = (1 << 63) - 1
# Fields of TracePacket.
TIMESTAMP, SEQUENCE, EVENT, INTERNED, FLAGS, COMPRESSED, DESCRIPTOR = \
    8, 10, 11, 12, 13, 50, 60
# TracePacket.SequenceFlags, TrackEvent.Type.
CLEARED, NEEDED = 1, 2
BEGIN, END, INSTANT = 1, 2, 3


class Sink:
    """A sink of trace.Writer."""

    def __init__(self, file, _):
        self.file, self.chunk = file, bytearray()
        self.names, self.uuids = {}, {}
        self.put(number(FLAGS, CLEARED))

    def put(self, *fields):
        data = message(1, number(SEQUENCE, 1), *fields)
        self.chunk += data
        if len(self.chunk) >= CHUNK:
            self.flush()
        return len(data)

    def flush(self):
        self.file.write(message(1, message(COMPRESSED, zlib.compress(self.chunk, 9))))
        self.chunk.clear()

    def uuid(self, *key):
        return self.uuids.setdefault(key, len(self.uuids) + 1)

    def process(self, pid, name):
        self.put(message(DESCRIPTOR, number(1, self.uuid(pid)), message(
            3, number(1, pid), string(6, name))))

    def thread(self, pid, tid, name):
        # Each track has its own tid, because viewers merge threads with the same tid.
        uuid = self.uuid(pid, tid)
        self.put(message(DESCRIPTOR, number(1, uuid), message(
            4, number(1, pid), number(2, 1000000 + uuid), string(5, name))))

    def name(self, text):
        """(the event's field for a name, the packet's field that interns a new name)"""
        found = self.names.get(text)
        if found is not None:
            return number(10, found), b""
        if len(self.names) >= NAMES:
            return string(23, text), b""
        found = self.names[text] = len(self.names) + 1
        return number(10, found), message(
            INTERNED, message(2, number(1, found), string(2, text)))

    def event(self, kind, pid, tid, time, name=b"", interned=b"", args=b""):
        return self.put(
            number(TIMESTAMP, min(round(time * 1e9), MOST)), interned,
            b"" if kind == END else number(FLAGS, NEEDED),
            message(EVENT, number(9, kind), number(11, self.uuid(pid, tid)), name, args))

    def begin(self, pid, tid, time, name, args):
        field, interned = self.name(name)
        noted = b"".join(
            message(4, string(10, key),
                    number(4, value) if isinstance(value, int) and value >= 0
                    else string(6, str(value)))
            for key, value in (args or {}).items())
        return END_SIZE + self.event(BEGIN, pid, tid, time, field, interned, noted)

    def end(self, pid, tid, time, *_):
        self.event(END, pid, tid, time)

    def mark(self, pid, tid, time, name):
        return self.event(INSTANT, pid, tid, time, *self.name(name))

    def close(self):
        self.flush()
