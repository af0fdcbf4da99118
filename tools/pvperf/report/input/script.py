# SPDX-License-Identifier: GPL-2.0
"""Parses the samples of a machine, as record/machine.sh writes them.  Each sample has a line

    PID/TID [CPU] MISC TIME: PERIOD EVENT: "COMM"

followed by a line for each address, from the innermost on, which begins with a tab:

    ADDRESS "SYMBOL" "OBJECT"

An unknown SYMBOL or OBJECT is missing.  Anybody can choose the names COMM, SYMBOL and
OBJECT.  They are JSON strings, with all control characters escaped, so that a name cannot
look like a sample.  The parser skips lines of any other form."""
import collections
import re

# The kernel's default limit of call chains (kernel.perf_event_max_stack), and room for
# inlined functions.
DEPTH = 256
# The cache holds this many lines of addresses, of at most this length.
CACHED, SHORT = 30000, 512
# After this many unknown lines, the parser stops.
MOST_UNREAD = 10000

STRING = rb'"([^"\\\x00-\x1f]*(?:\\[^\x00-\x1f][^"\\\x00-\x1f]*)*)"'
HEADER = re.compile(
    rb"(-?\d{1,10})/(-?\d{1,10}) "      # pid/tid
    rb"\[(\d{1,6})\] "                  # cpu
    rb"([A-Za-z]{1,8}|-) "              # misc
    rb"(\d{1,12}\.\d{1,9}): "           # time
    rb"(\d{1,20}) "                     # period
    rb"(\S{1,200}): "                   # event
    + STRING)
FRAME = re.compile(rb"\t([0-9a-f]{1,16})(?: " + STRING + rb")?(?: " + STRING +
                   rb")?")
# perf (data-convert-json.c) prints a non-ASCII byte as a negative char: \uffffffc3.
ESCAPE = re.compile(rb'\\(?:uffffff([89a-f][0-9a-f])|u00([01][0-9a-f])|(.))')
SHORT_ESCAPES = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t"}

Sample = collections.namedtuple(
    "Sample", "comm pid tid cpu misc time period event frames")
Sample.__doc__ = """frames: the results of intern() for the addresses, the innermost first."""


def is_passive(misc):
    """Is this a host's sample of guest mode?"""
    return b"G" in misc or b"g" in misc


def unescape(string):
    """The bytes of a string in perf's JSON."""
    if string is None or b"\\" not in string:
        return string or b""
    return ESCAPE.sub(
        lambda m: bytes([int(m[1] or m[2], 16)]) if m[1] or m[2]
        else SHORT_ESCAPES.get(m[3], m[3]), string)


def parse_frame(line):
    """(address, symbol, object) of the line of an address, or None."""
    match = FRAME.fullmatch(line)
    if not match:
        return None
    return int(match[1], 16), unescape(match[2]), unescape(match[3])


class Parser:
    """Yields each Sample of the lines.

    intern(address, symbol, object, passive) returns the frame of an address.  passive: the
    address is of guest mode, in a host's sample."""

    def __init__(self, lines, intern):
        self.lines = lines
        self.intern = intern
        self.caches = ({}, {})
        self.unread = 0             # unknown lines
        self.stopped = False        # too many unknown lines
        self.cut = 0                # addresses beyond DEPTH

    def frame(self, line, passive):
        """The frame of a line, mostly from the cache; None if the line is not an address."""
        cache = self.caches[passive]
        found = cache.get(line)
        if found is not None:
            return found
        parsed = parse_frame(line)
        if parsed is None:
            return None
        if len(cache) >= CACHED:
            cache.clear()
        found = self.intern(*parsed, passive)
        if len(line) <= SHORT:
            cache[line] = found
        return found

    @staticmethod
    def sample(match):
        return Sample(unescape(match[8]), int(match[1]), int(match[2]),
                      int(match[3]), match[4], float(match[5]), int(match[6]),
                      match[7], [])

    def __iter__(self):
        sample, frames, passive = None, None, False
        header, frame = HEADER.fullmatch, self.frame
        for lines in self.lines:
            if self.unread > MOST_UNREAD:
                self.stopped = True
                break
            for line in lines:
                if sample is not None and line[:1] == b"\t":
                    found = frame(line, passive)
                    if found is None:
                        self.unread += 1
                    elif len(frames) < DEPTH:
                        frames.append(found)
                    else:
                        self.cut += 1
                    continue
                if sample is not None:
                    yield sample
                    sample = None
                match = header(line)
                if not match:
                    self.unread += 1
                    continue
                sample = self.sample(match)
                frames, passive = sample.frames, is_passive(sample.misc)
        if sample is not None:
            yield sample
