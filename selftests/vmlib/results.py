# SPDX-License-Identifier: GPL-2.0
"""Writes files of results.  Documentation/results/README describes them."""
import json
import os
import re
import subprocess
import time

TREE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(TREE, "build")
# Runs write files of results here. `make results` copies them.
NEW = os.path.join(BUILD, "results")


def release(kernel):
    """The version of the packages of a kernel line."""
    try:
        with open(os.path.join(BUILD, f"linux-{kernel}", "version")) as f:
            return f"Linux {f.read().strip()}"
    except FileNotFoundError:
        return f"Linux {kernel}"


def emulator(cpu):
    """The name and version of the emulator that has this CPU."""
    if cpu in ("intel", "skylake", "hybrid"):
        return "Bochs 3.0"
    qemu = os.path.join(BUILD, "qemu", "qemu-system-x86_64")
    says = os.path.exists(qemu) and subprocess.run(
        [qemu, "--version"], capture_output=True, text=True).stdout
    version = re.search(r"version (\S+)", says or "")
    return f"QEMU {version[1]}" if version else "QEMU"


def text_of(result):
    """JSON with a line for each row."""
    text = json.dumps(result, indent=1, ensure_ascii=False)
    return re.sub(r"\[\n\s+([^\[\]{}]*?)\n\s+\]",
                  lambda m: "[" + re.sub(r"\n\s+", " ", m[1]) + "]", text) + "\n"


def save(name, suite, machine, title, command, versions, tables, notes=()):
    """Writes build/results/NAME.json. A table is a dict of title, columns and rows."""
    os.makedirs(NEW, exist_ok=True)
    result = {"suite": suite, "machine": machine, "title": title, "command": command,
              "date": time.strftime("%Y-%m-%d"), "versions": versions,
              "notes": list(notes), "tables": tables}
    path = os.path.join(NEW, name + ".json")
    with open(path + ".new", "w") as f:
        f.write(text_of(result))
    os.rename(path + ".new", path)
