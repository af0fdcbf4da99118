# SPDX-License-Identifier: GPL-2.0
"""Which file an address is of, and where in it, for functions that the machine itself had
no symbols of: NAME.maps.gz, as record/machine.sh writes it, has lines

    m PID START LENGTH OFFSET BUILDID PATH
    f PID PARENT

in the order of time; START, LENGTH and OFFSET are hexadecimal."""
import bisect
import collections
import re

from pvperf.report.input.lines import Lines

LINE = re.compile(
    rb"m (\d{1,10}) ([0-9a-f]{1,16}) ([0-9a-f]{1,16}) ([0-9a-f]{1,16}) "
    rb"((?:[0-9a-f]{2}){4,32}) (.{1,4096})|f (\d{1,10}) (\d{1,10})")
# What a domain may have of them, unpacked and in number.
SIZE, MAPS = 64 << 20, 200000
MOST = (1 << 64) - 1
# How often a process is looked for in its parent.
DEPTH = 20

Map = collections.namedtuple("Map", "start end offset build_id")
Map.__doc__ = """Where a file is in a process: file's offset is at start."""


class Maps:
    """Of a domain."""

    def __init__(self, path):
        self.maps = collections.defaultdict(dict)   # {pid: {start: Map}}
        self.sorted, self.parents = {}, {}
        self.paths = {}             # {build ID: what one has called it}
        left, forged = MAPS, False
        lines = Lines(path, SIZE)
        for block in lines:
            for line in block:
                match = LINE.fullmatch(line)
                if match and left:
                    left -= 1
                    self.add(match)
                forged |= line.startswith(b"forged ")
        self.problem = lines.problem or (
            None if left else f"only {MAPS:,} lines of it are read")
        if forged:
            self.maps.clear()
            self.problem = "a file has a name in which there are lines as of perf's: " \
                "it is not believed"

    def add(self, match):
        if match[7]:
            self.parents[int(match[7])] = int(match[8])
            return
        self.paths.setdefault(match[5].decode(), match[6])
        start, length, offset = (int(match[i], 16) for i in (2, 3, 4))
        if start + length > MOST:
            return
        new = Map(start, start + length, offset, match[5].decode())
        maps = self.maps[int(match[1])]
        # Of two programs that a process has had at one place nobody knows which it was.
        old = maps.get(start, new)
        maps[start] = new if old is not None and old.build_id == new.build_id else None

    def find(self, pid, address):
        """The Map of an address of a process; of one that was forked, its parent's."""
        for _ in range(DEPTH):
            # Of others, of which there may be any number, nothing is kept.
            if pid in self.maps and pid not in self.sorted:
                self.sorted[pid] = sorted(self.maps[pid])
            starts = self.sorted.get(pid, ())
            at = bisect.bisect_right(starts, address) - 1
            found = self.maps[pid][starts[at]] if at >= 0 else None
            if found and address < found.end:
                return found
            pid = self.parents.get(pid)
            if pid is None:
                break
        return None
