# SPDX-License-Identifier: GPL-2.0
"""Makes untrusted text harmless to terminals and file systems."""
import re

# The rest of a longer name, in bytes, is dropped.
LONGEST = 800


def printable(text):
    """The first 200 characters, with ? in place of unprintable ones."""
    return "".join(c if c.isprintable() else "?" for c in text[:200])


def line(data):
    """The output of a machine in one printable line."""
    text = " ".join(data.decode(errors="replace").split())
    return "".join(c if c.isprintable() else "?" for c in text)[:300]


def name(data):
    """The printable name of a process, a function or a file."""
    result = data[:LONGEST].decode("utf-8", "replace")
    # The fast path for most names.
    return result[:200] if result.isprintable() else printable(result)


def file_name(text):
    """The name of a domain as part of a file's name."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", text)[:60]
