# SPDX-License-Identifier: GPL-2.0
"""Functions of programs by their build ID: from files of debug symbols on this machine, or
from debuginfod, where DEBUGINFOD_URLS is set."""
import array
import bisect
import os
import struct
import subprocess

from pvperf import text
from pvperf.error import Error
from pvperf.report.input.lines import open_file

FOLDER = "/usr/lib/debug"
SIZE = 1 << 30
# What a session may ask of debuginfod, how long an answer may take, in s, and how many
# may take too long: build IDs are guests'.
ASKED, PATIENCE, LATE = 200, 60, 2
# Of ELF: segments that are loaded and executed, symbols, and functions.
PT_LOAD, PF_X, SHT_SYMTAB, SHT_DYNSYM, STT_FUNC = 1, 1, 2, 11, 2
PAGE = 4095


class Symbols:
    """Of an ELF file of 64 bits, little endian."""

    def __init__(self, path):
        self.code = None            # address of the first page of code
        self.starts, self.ends = array.array("Q"), array.array("Q")
        self.names = []
        with open_file(path) as f:
            self.file, self.size = f, os.fstat(f.fileno()).st_size
            if self.size > SIZE:
                raise ValueError
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
        data = self.at(section[4], section[5])
        names = self.at(strings[4], strings[5])
        found = []
        for name, info, _, _, value, size in struct.iter_unpack("<IBBHQQ", data):
            if info & 15 == STT_FUNC and value and size:
                found.append((value, value + size, name))
        for start, end, name in sorted(found):
            self.starts.append(start)
            self.ends.append(end)
            self.names.append(names[name:names.index(b"\0", name)])

    def find(self, offset):
        """The name of the function so far behind the first page of code."""
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
        self.left = ASKED if os.environ.get("DEBUGINFOD_URLS") else 0
        self.late = 0

    def path(self, build_id):
        for folder in self.folders:
            path = os.path.join(folder, ".build-id", build_id[:2],
                                build_id[2:] + ".debug")
            if os.path.exists(path):
                return os.path.realpath(path)
        return self.ask(build_id)

    def ask(self, build_id):
        """debuginfod, which keeps what it has got."""
        if self.left <= 0 or self.late >= LATE:
            return None
        self.left -= 1
        try:
            out = subprocess.run(["debuginfod-find", "debuginfo", build_id],
                                 capture_output=True, timeout=PATIENCE, check=False)
        except FileNotFoundError:
            self.left = 0
            return None
        except subprocess.TimeoutExpired:
            self.late += 1
            return None
        return os.fsdecode(out.stdout.rstrip(b"\n")) if not out.returncode else None

    def symbols(self, build_id):
        if build_id not in self.found:
            path = self.path(build_id)
            try:
                self.found[build_id] = path and Symbols(path)
            except (Error, IndexError, OSError, ValueError, struct.error):
                self.found[build_id] = None
        return self.found[build_id]

    def find(self, place, address):
        """The name of the function at an address in a Map, or None."""
        symbols = self.symbols(place.build_id)
        return symbols.find(address - place.start) if symbols else None
