# SPDX-License-Identifier: GPL-2.0
"""What perf script has printed, sample by sample; of perf 6.1 to 7.x, of

    perf script --ns -F comm,pid,tid,cpu,time,event,period,misc,ip,sym,dso

with callchains or without.  A sample is one line

    COMM PID/TID [CPU] MISC TIME: PERIOD EVENT: ADDRESS SYMBOL (OBJECT)

or this up to EVENT, a line for each address from the innermost on, which begins
with a tab, and an empty line.  COMM, SYMBOL and OBJECT are as their owners have
named them: with blanks, parentheses, colons; a newline in COMM makes two lines."""
import collections
import re

# As the kernel bounds callchains by default (kernel.perf_event_max_stack), and
# what may be inlined.
DEPTH = 256
# How much of a line a header is looked for in.
HEADER_LENGTH = 512
# Of the lines of addresses, so many that are no longer than that are remembered.
CACHED, SHORT = 30000, 512

# The first match is the right one: no COMM, of 15 bytes, has room for another.
HEADER = re.compile(rb"""
    (?:(\S.{0,62}?)\s++)??              # comm
    (-?\d{1,10}+)/(-?\d{1,10}+)\s++     # pid/tid
    \[(\d{1,6}+)\]\s+                   # cpu
    ([A-Za-z]{0,8}+)\s++                # misc
    (\d{1,12}+\.\d{1,9}+):\s++          # time
    (\d{1,20}+)\s++                     # period
    (\S{1,200}?):(?:\s|$)               # event
    """, re.VERBOSE)
FRAME = re.compile(rb"\s*+([0-9a-f]{1,16}+)(?:\s(.*)|\s*)$", re.DOTALL)
OFFSET = re.compile(rb"\+0x[0-9a-f]{1,16}$")

Sample = collections.namedtuple(
    "Sample", "comm pid tid cpu misc time period event frames")
Sample.__doc__ = """frames are what intern has made of them, the innermost first."""


def is_passive(misc):
    """In guest mode, seen from its host."""
    return b"G" in misc or b"g" in misc


def split_object(text):
    """(symbol, object): the last pair of parentheses that match."""
    if not text.endswith(b")"):
        return text, b""
    if text.count(b"(") == 1:
        at = text.index(b"(")
        return text[:at].rstrip(), text[at + 1:-1]
    depth = 0
    for at in range(len(text) - 1, -1, -1):
        char = text[at]
        if char == 41:
            depth += 1
        elif char == 40:
            depth -= 1
            if not depth:
                return text[:at].rstrip(), text[at + 1:-1]
    at = text.rfind(b" (")
    return (text[:at], text[at + 2:-1]) if at >= 0 else (text, b"")


def parse_frame(line):
    """(address, symbol, object) of what perf prints of an address, or None."""
    match = FRAME.match(line)
    if not match:
        return None
    symbol, where = split_object((match[2] or b"")[:4096].strip())
    return int(match[1], 16), OFFSET.sub(b"", symbol), where


class Parser:
    """Yields each Sample of the lines.

    intern(address, symbol, object, passive) makes of an address what Sample.frames
    has; passive says that it is of guest mode."""

    def __init__(self, lines, intern):
        self.lines = lines
        self.intern = intern
        self.caches = ({}, {})
        self.unread = 0             # lines that are nothing of the above
        self.cut = 0                # addresses beyond DEPTH

    def frame(self, line, passive):
        """From the cache, mostly; None where it is none."""
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

    def sample(self, match, before, rest):
        misc, frames = match[5], []
        if rest:
            frame = self.frame(rest, is_passive(misc))
            if frame is None:
                self.unread += 1
            else:
                frames.append(frame)
        return Sample(before + (match[1] or b""), int(match[2]), int(match[3]),
                      int(match[4]), misc, float(match[6]), int(match[7]),
                      match[8], frames)

    def __iter__(self):
        sample, frames, before, passive = None, None, b"", False
        header, frame = HEADER.match, self.frame
        for lines in self.lines:
            for line in lines:
                if sample is not None and line[:1] == b"\t":
                    found = frame(line, passive)
                    if found is not None:
                        frames.append(found)
                        if len(frames) > DEPTH:
                            frames.pop()
                            self.cut += 1
                        continue
                if sample is not None:
                    yield sample
                    sample = None
                if not line:
                    continue
                text = line.lstrip()
                match = header(text, 0, HEADER_LENGTH)
                if match:
                    sample = self.sample(match, before, text[match.end():])
                    frames, before = sample.frames, b""
                    passive = is_passive(sample.misc)
                else:
                    before = self.first_half(before + text)
        if sample is not None:
            yield sample
        self.unread += bool(before)

    def first_half(self, text):
        """Of a COMM with newlines; or what is nothing."""
        if len(text) < 16:
            return text + b"\n"
        self.unread += 1
        return b""
