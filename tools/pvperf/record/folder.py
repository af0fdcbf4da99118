# SPDX-License-Identifier: GPL-2.0
"""The folder of a session: what pv-perf record leaves, and pv-perf report reads."""
import json
import os
import platform
import re
import shutil

from pvperf import text
from pvperf.error import Error

VERSION = 2


def create(path):
    """For root alone: it has what guests did."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        raise Error(f"{path} is there already",
                    f"-o another name, or rm -r {path}") from None
    except OSError as error:
        raise Error(f"{path}: {error.strerror}") from None
    return os.path.realpath(path)


def file_name(name, taken):
    """A file's name for that of a domain, which no other has."""
    base = text.file_name(name)
    result, n = base, 1
    while result in taken:
        n += 1
        result = f"{base}-{n}"
    taken.add(result)
    return result


def keep_samples(folder, name):
    """The name of a domain's samples, if any have come."""
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
                    "--symbols NAME=FILE, /proc/kallsyms as root has it in the "
                    "guest, or its System.map") from None
    return name


def read_counted(path):
    """{CPU: count} of what perf stat -A -x, has counted, or None."""
    result = {}
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            for line in f:
                match = re.match(r"CPU(\d+),([\d.]+),(\w*),", line)
                if match:
                    # Of software's clocks: samples are in ns.
                    unit = 10**6 if match[3] == "msec" else 1
                    result[match[1]] = round(float(match[2]) * unit)
    except OSError:
        return None
    return result or None


def read_count(path):
    """Of perf stat -x, of one event, or None."""
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
    """Whole, or not at all."""
    path = os.path.join(folder, "session.json")
    with open(path + ".new", "w", encoding="utf-8") as f:
        json.dump({"version": VERSION, **session}, f, indent=1)
        f.write("\n")
    os.rename(path + ".new", path)
