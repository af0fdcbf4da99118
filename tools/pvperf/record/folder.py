# SPDX-License-Identifier: GPL-2.0
"""The folder of a session, which pv-perf record writes and pv-perf report reads."""
import json
import os
import platform
import re
import shutil

from pvperf import text
from pvperf.error import Error

VERSION = 2


def create(path):
    """Creates the folder for root only, because it says what guests did."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        raise Error(f"{path} exists already",
                    f"-o another name, or rm -r {path}") from None
    except OSError as error:
        raise Error(f"{path}: {error.strerror}") from None
    return os.path.realpath(path)


def file_name(name, taken):
    """A file name for a domain, which differs from the names in taken."""
    base = text.file_name(name)
    result, n = base, 1
    while result in taken:
        n += 1
        result = f"{base}-{n}"
    taken.add(result)
    return result


def keep_samples(folder, name):
    """The name of the file with a domain's samples; None if no samples have come."""
    name += ".samples.gz"
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        return None
    if not os.path.getsize(path):
        os.unlink(path)
        return None
    return name


def keep_symbols(folder, name, path):
    """Copies the System.map or kallsyms of a passive guest; returns its name."""
    name += ".kallsyms"
    try:
        shutil.copyfile(path, os.path.join(folder, name))
    except (OSError, shutil.SpecialFileError) as error:
        raise Error(f"{path}: {error}",
                    "--symbols NAME=FILE, with /proc/kallsyms read by root in the "
                    "guest, or with its System.map") from None
    return name


def read_counted(path):
    """{CPU: count} of the output of perf stat -A -x, or None."""
    result = {}
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            for line in f:
                match = re.match(r"CPU(\d+),([\d.]+),(\w*),", line)
                if match:
                    # perf counts software clocks in ms, but their samples are in ns.
                    unit = 10**6 if match[3] == "msec" else 1
                    result[match[1]] = round(float(match[2]) * unit)
    except OSError:
        return None
    return result or None


def read_count(path):
    """The count in the output of perf stat -x, of one event, or None."""
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            match = re.search(r"^(\d+),", f.read(1 << 16), re.M)
    except OSError:
        return None
    return int(match[1]) if match else None


def host():
    return {"name": platform.node(), "kernel": platform.release(),
            "cpus": os.cpu_count()}


def write(folder, session):
    """Writes session.json in one step."""
    path = os.path.join(folder, "session.json")
    with open(path + ".new", "w", encoding="utf-8") as f:
        json.dump({"version": VERSION, **session}, f, indent=1)
        f.write("\n")
    os.rename(path + ".new", path)
