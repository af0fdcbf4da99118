# SPDX-License-Identifier: GPL-2.0
"""Reads lines of an untrusted gzip file in bounded memory."""
import os
import stat
import zlib

from pvperf.error import Error

BLOCK = 256 << 10               # unpacked at a time
READ = 16 << 10                 # read at a time
LINE = 64 << 10                 # perf writes no longer lines
TOO_LONG = 16 << 20             # skipped bytes of longer lines after which reading stops


def open_file(path):
    """Opens a regular file, but no pipe, which may never end, and no symbolic link."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise Error(f"{path}: {error.strerror}") from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise Error(f"{path} is not a regular file")
    return open(fd, "rb", buffering=0)


class Lines:
    """Yields lists of lines, without their newlines.

    An error ends the lines, and problem then says what is wrong."""

    def __init__(self, path, limit):
        self.limit = limit
        self.problem = None
        self.too_long = 0
        self.bytes = 0
        try:
            self.file = open_file(path)
            self.size = os.fstat(self.file.fileno()).st_size
        except Error as error:
            self.file, self.problem = None, str(error)

    def done(self):
        """The part of the file that is read, from 0 to 1."""
        return self.file.tell() / self.size if self.file and self.size else 1.0

    def blocks(self):
        """Yields the unpacked data.  The file may have several gzip members."""
        inflate = zlib.decompressobj(wbits=31)
        rest, began = b"", False
        while True:
            data = rest or self.file.read(READ)
            if not data:
                if not inflate.eof:
                    self.problem = "it is cut short" if began \
                        else "it is empty"
                return
            if inflate.eof:
                if not data.startswith(b"\x1f"):
                    self.problem = "it has other data behind the gzip data"
                    return
                inflate = zlib.decompressobj(wbits=31)
            block = inflate.decompress(data, BLOCK)
            rest = inflate.unused_data if inflate.eof \
                else inflate.unconsumed_tail
            began = True
            self.bytes += len(block)
            if self.bytes > self.limit:
                self.problem = f"only its first {self.limit >> 20:,} MB are " \
                    "read (--limit)"
                return
            yield block

    def split(self):
        tail, skip, skipped = b"", False, 0
        for block in self.blocks():
            if skip:
                rest, end, block = block.partition(b"\n")
                skipped += len(rest)
                if skipped > TOO_LONG:
                    self.problem = "the rest of it is not read, because lines " \
                        "are too long"
                    return
                skip = not end
                if skip:
                    continue
            lines = (tail + block).split(b"\n")
            tail = lines.pop()
            if len(tail) > LINE:
                self.too_long += 1
                tail, skip = b"", True
            yield lines
        if tail:
            yield [tail]

    def __iter__(self):
        if not self.file:
            return
        try:
            with self.file:
                yield from self.split()
        except zlib.error:
            self.problem = "it is not a gzip file, or it is broken"
        except OSError as error:
            self.problem = error.strerror
