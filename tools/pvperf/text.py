# SPDX-License-Identifier: GPL-2.0
"""Text from anybody, without what a terminal, or a file system, would obey."""
import re

# Bytes of a name that are looked at.
LONGEST = 800


def printable(text):
    """It, and not too long."""
    return "".join(c if c.isprintable() else "?" for c in text[:200])


def line(data):
    """One line of what a machine has said."""
    text = " ".join(data.decode(errors="replace").split())
    return "".join(c if c.isprintable() else "?" for c in text)[:300]


def name(data):
    """Of a process, a function or a file."""
    result = data[:LONGEST].decode("utf-8", "replace")
    # As most is, and quicker.
    return result[:200] if result.isprintable() else printable(result)


def file_name(text):
    """What a file can be called for a domain of this name."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", text)[:60]
