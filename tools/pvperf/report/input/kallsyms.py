# SPDX-License-Identifier: GPL-2.0
"""Finds functions of a guest's kernel by its /proc/kallsyms or System.map."""
import array
import bisect
import os

from pvperf import text
from pvperf.error import Error
from pvperf.report.input.lines import open_file

SIZE = 256 << 20
SYMBOLS = 400000
# The types of symbols in the text of the kernel and of modules.
TEXT = "tTwW"
REMEDY = "cat /proc/kallsyms in the guest, as root: it has the addresses of " \
    "this boot; System.map has them only with nokaslr"


class Kallsyms:
    """Functions in the order of their addresses; text has the names without separators."""

    def __init__(self, path):
        self.path = path
        self.starts = array.array("Q")
        self.outside = 0            # addresses that are not in a function
        found = self.read()
        if not found or found[-1][0] == 0:
            raise Error(f"{path} has no addresses of functions", REMEDY)
        found.sort()
        self.text, self.ends = bytearray(), array.array("I")
        for address, name in found:
            self.starts.append(address)
            self.text += name
            self.ends.append(len(self.text))

    def read(self):
        """[(address, name)]"""
        found = []
        with open_file(self.path) as f:
            if os.fstat(f.fileno()).st_size > SIZE:
                raise Error(f"{self.path} is too large")
            rest = b""
            while chunk := f.read(1 << 20):
                *lines, rest = (rest + chunk).split(b"\n")
                found.extend(filter(None, map(self.parse, lines)))
                if len(rest) > 4096 or len(found) > SYMBOLS:
                    raise Error(f"{self.path} is not a kallsyms file", REMEDY)
        return found

    @staticmethod
    def parse(line):
        words = line[:1024].split()
        try:
            address = int(words[0], 16)
            kind, name = words[1].decode("ascii"), words[2]
        except (IndexError, ValueError):
            return None
        if len(kind) != 1 or kind not in TEXT or not 0 < address < 1 << 64:
            return None
        module = b" " + words[3] if len(words) > 3 else b""
        return address, name[:200] + module[:64]

    def name(self, at):
        return bytes(self.text[self.ends[at - 1] if at else 0:self.ends[at]])

    def find(self, address):
        """(name, module) of the function, or None."""
        at = bisect.bisect_right(self.starts, address) - 1
        # Symbols have no size: a function ends at the next symbol, at _etext, or after 1 MB.
        if at < 0 or self.name(at) == b"_etext" or \
                address - self.starts[at] > 1 << 20:
            self.outside += 1
            return None
        name, _, module = self.name(at).partition(b" ")
        return text.name(name), text.name(module) or "[guest.kernel]"
