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
    """[{CPU: count} or None] of the output of perf stat -A -x, with an entry for each event."""
    result = [{}]
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            for line in f:
                match = re.match(r"CPU(\d+),(?:([\d.]+)|<not counted>),(\w*),", line)
                if not match:
                    continue
                # The lines of an event come together, in the order of the CPUs.
                if match[1] in result[-1]:
                    result.append({})
                # perf counts software clocks in ms, but their samples are in ns.
                unit = 10**6 if match[3] == "msec" else 1
                result[-1][match[1]] = match[2] and round(float(match[2]) * unit)
    except OSError:
        return []
    return [{cpu: n for cpu, n in one.items() if n is not None} or None for one in result]


def read_counts(path, events):
    """[count or None] of the output of perf stat -x, with an entry for each event; or []."""
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            found = re.findall(r"^(?:(\d+)|<not counted>),", f.read(1 << 16), re.M)
    except OSError:
        return []
    # On a hybrid host an event has a line for each kind of core.
    each, rest = divmod(len(found), events)
    if rest or not each:
        return []
    parts = [found[i * each:(i + 1) * each] for i in range(events)]
    return [sum(map(int, filter(None, part))) if any(part) else None for part in parts]


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
