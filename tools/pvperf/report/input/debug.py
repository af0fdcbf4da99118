# SPDX-License-Identifier: GPL-2.0
"""Finds functions of programs by build ID: in files of debug symbols on this machine, or
through debuginfod if DEBUGINFOD_URLS is set."""
import array
import bisect
import os
import struct
import subprocess
import time

from pvperf import text
from pvperf.error import Error
from pvperf.report.input.lines import open_file

FOLDER = "/usr/lib/debug"
# Build IDs come from guests, so everything has a limit: the bytes of all symbol tables, the
# number of build IDs, the number of requests to debuginfod, and the time of one request and
# of all, in s.
SIZE, FILES, ASKED, PATIENCE, TIME = 64 << 20, 100000, 200, 60, 300
# ELF: loadable and executable segments, symbol tables, and functions.
PT_LOAD, PF_X, SHT_SYMTAB, SHT_DYNSYM, STT_FUNC = 1, 1, 2, 11, 2
PAGE = 4095


class TooLarge(Exception):
    """There is no room left for the symbols of a file."""


class Symbols:
    """The functions of an ELF file of 64 bits, little endian."""

    def __init__(self, path, room):
        """room: the number of bytes that the tables may have; left is the rest of it."""
        self.left = room
        self.code = None            # address of the first page of code
        self.starts, self.ends = array.array("Q"), array.array("Q")
        self.names = []
        with open_file(path) as f:
            self.file, self.size = f, os.fstat(f.fileno()).st_size
            self.read()

    def at(self, offset, size):
        if offset + size > self.size:
            raise ValueError
        self.file.seek(offset)
        return self.file.read(size)

    def read(self):
        head = self.at(0, 64)
        if head[:6] != b"\x7fELF\2\1":
            raise ValueError
        phoff, shoff = struct.unpack_from("<QQ", head, 32)
        phnum, = struct.unpack_from("<H", head, 56)
        shnum, = struct.unpack_from("<H", head, 60)
        for i in range(phnum):
            kind, flags, _, address = struct.unpack(
                "<IIQQ", self.at(phoff + 56 * i, 24))
            if kind == PT_LOAD and flags & PF_X and self.code is None:
                self.code = address & ~PAGE
        sections = [struct.unpack("<IIQQQQIIQQ", self.at(shoff + 64 * i, 64))
                    for i in range(shnum)]
        for wanted in (SHT_SYMTAB, SHT_DYNSYM):
            for s in sections:
                if s[1] == wanted and not self.names:
                    self.symbols(s, sections[s[6]])

    def symbols(self, section, strings):
        self.left -= section[5] + strings[5]
        if self.left < 0:
            raise TooLarge
        data = self.at(section[4], section[5])
        names = self.at(strings[4], strings[5])
        found = []
        for name, info, _, _, value, size in struct.iter_unpack("<IBBHQQ", data):
            if info & 15 == STT_FUNC and value and size:
                found.append((value, value + size, name))
        for start, end, name in sorted(found):
            self.starts.append(start)
            self.ends.append(end)
            self.names.append(names[name:name + text.LONGEST].partition(b"\0")[0])

    def find(self, offset):
        """The name of the function at this offset from the first page of code, or None."""
        if self.code is None:
            return None
        address = self.code + offset
        at = bisect.bisect_right(self.starts, address) - 1
        return text.name(self.names[at]) \
            if at >= 0 and address < self.ends[at] else None


class Finder:
    """Looks for each build ID once."""

    def __init__(self, folders):
        self.folders = [*folders, FOLDER]
        self.found = {}
        self.room = SIZE
        self.too_large = 0          # files for whose symbols there was no room
        self.left = ASKED if os.environ.get("DEBUGINFOD_URLS") else 0
        self.time = TIME

    def path(self, build_id):
        for folder in self.folders:
            path = os.path.join(folder, ".build-id", build_id[:2],
                                build_id[2:] + ".debug")
            if os.path.exists(path):
                return os.path.realpath(path)
        return self.ask(build_id)

    def ask(self, build_id):
        """Asks debuginfod, which caches its files."""
        if self.left <= 0 or self.time <= 0:
            return None
        self.left -= 1
        began = time.monotonic()
        try:
            out = subprocess.run(["debuginfod-find", "debuginfo", build_id],
                                 capture_output=True, timeout=min(PATIENCE, self.time),
                                 check=False)
        except FileNotFoundError:
            self.left = 0
            return None
        except subprocess.TimeoutExpired:
            return None
        finally:
            self.time -= time.monotonic() - began
        return os.fsdecode(out.stdout.rstrip(b"\n")) if not out.returncode else None

    def read(self, build_id):
        path = self.path(build_id)
        if not path:
            return None
        try:
            symbols = Symbols(path, self.room)
        except TooLarge:
            self.too_large += 1
            return None
        except (Error, IndexError, OSError, ValueError, struct.error):
            return None
        self.room = symbols.left
        return symbols

    def symbols(self, build_id):
        if build_id not in self.found:
            if len(self.found) >= FILES:
                return None
            self.found[build_id] = self.read(build_id)
        return self.found[build_id]

    def find(self, place, address):
        """The name of the function at an address in a Map, or None."""
        symbols = self.symbols(place.build_id)
        return symbols.find(address - place.start) if symbols else None
