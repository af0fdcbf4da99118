# SPDX-License-Identifier: GPL-2.0
"""Finds the file of an address, and the offset in the file, for functions of which the
recorded machine has no symbols.  record/machine.sh writes NAME.maps.gz, with the lines

    m PID START LENGTH OFFSET BUILDID PATH
    f PID PARENT

in the order of time.  START, LENGTH and OFFSET are hexadecimal."""
import bisect
import collections
import re

from pvperf.report.input.lines import Lines

LINE = re.compile(
    rb"m (\d{1,10}) ([0-9a-f]{1,16}) ([0-9a-f]{1,16}) ([0-9a-f]{1,16}) "
    rb"((?:[0-9a-f]{2}){4,32}) (.{1,4096})|f (\d{1,10}) (\d{1,10})")
# The limits of a domain's file: its unpacked size, and the number of its lines.
SIZE, MAPS = 64 << 20, 200000
MOST = (1 << 64) - 1
# The number of ancestors in which to look for a process's map.
DEPTH = 20

Map = collections.namedtuple("Map", "start end offset build_id")
Map.__doc__ = """A file mapped in a process: the byte at offset in the file is at start."""


class Maps:
    """The maps of a domain's processes."""

    def __init__(self, path):
        self.maps = collections.defaultdict(dict)   # {pid: {start: Map}}
        self.sorted, self.parents, self.files = {}, {}, None
        # By build ID: the path in one process, and where the code begins in the file.
        self.paths, self.code = {}, {}
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
            None if left else f"only its first {MAPS:,} lines are read")
        if forged:
            self.maps.clear()
            self.problem = "the name of a file has lines that look like perf's: the maps " \
                "are ignored"

    def add(self, match):
        if match[7]:
            self.parents[int(match[7])] = int(match[8])
            return
        self.paths.setdefault(match[5].decode(), match[6])
        start, length, offset = (int(match[i], 16) for i in (2, 3, 4))
        code = self.code.setdefault(match[5].decode(), offset)
        self.code[match[5].decode()] = min(code, offset)
        if start + length > MOST:
            return
        new = Map(start, start + length, offset, match[5].decode())
        maps = self.maps[int(match[1])]
        # If a process had two files at one address, nobody knows which one a sample is in.
        old = maps.get(start, new)
        maps[start] = new if old is not None and old.build_id == new.build_id else None

    def file(self, path):
        """The Map of a file at its own addresses, or None if several files had this path."""
        if self.files is None:
            self.files = {}
            for build_id, name in self.paths.items():
                code = self.code[build_id]
                self.files[name] = None if name in self.files else \
                    Map(code, MOST, code, build_id)
        return self.files.get(path)

    def find(self, pid, address):
        """The Map of an address of a process.  A forked process has its parent's maps."""
        for _ in range(DEPTH):
            # Keep nothing for processes without maps: their number has no bound.
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
