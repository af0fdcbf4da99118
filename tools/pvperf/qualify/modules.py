# SPDX-License-Identifier: GPL-2.0
"""KVM's modules: which are loaded, and how others take their place and go again.

Nothing is installed: a reboot at any time loads what modprobe has always loaded.  What
was there is in STATE from before anything is changed until it is back."""
import contextlib
import fcntl
import gzip
import json
import lzma
import os
import subprocess
import time

from pvperf.error import Error

STATE = "/run/pv-perf-qualify.json"
LOCK = "/run/pv-perf-qualify.lock"
SYS = "/sys/module"
WATCHDOG = "/proc/sys/kernel/nmi_watchdog"

# What a VM takes to be gone when its VMM is.
PATIENCE = 60


def read(path):
    try:
        with open(path) as f:
            return f.read().strip()
    except OSError:
        return None


def vendor():
    """The module for this CPU, as lsmod and sysfs call it."""
    return "kvm_amd" if "AuthenticAMD" in read("/proc/cpuinfo") else "kvm_intel"


def build_id(module):
    """The note that the linker has put into the module that is loaded: Debian's modules
    have no srcversion."""
    try:
        with open(f"{SYS}/{module}/notes/.note.gnu.build-id", "rb") as f:
            return f.read()[16:]
    except OSError:
        return b""


def is_what_modprobe_loads(module):
    """The file that modprobe would take has the note of the module that is loaded."""
    path = command("modinfo", "-n", module).strip()
    with open(path, "rb") as f:
        data = f.read()
    if path.endswith(".xz"):
        data = lzma.decompress(data)
    elif path.endswith(".gz"):
        data = gzip.decompress(data)
    elif path.endswith(".zst"):
        data = subprocess.run(["zstd", "-dc", path], capture_output=True).stdout
    return bool(build_id(module)) and build_id(module) in data


def describe(module):
    """What tells one load of a module from another, or None if it is not loaded."""
    if not os.path.isdir(f"{SYS}/{module}"):
        return None
    folder = f"{SYS}/{module}/parameters"
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    return {"build id": build_id(module).hex(),
            "parameters": {n: read(f"{folder}/{n}") for n in names}}


def loaded():
    return {m: describe(m) for m in ("kvm", vendor())}


def users():
    """How many VMs and others use KVM."""
    return int(read(f"{SYS}/{vendor()}/refcnt") or 0)


def command(*words):
    result = subprocess.run(words, capture_output=True, text=True, errors="replace",
                            stdin=subprocess.DEVNULL)
    if result.returncode:
        raise Error(f"{' '.join(words)}: {(result.stderr + result.stdout).strip()}")
    return result.stdout


def unload():
    """Also where the last VM is not quite gone."""
    end = time.monotonic() + PATIENCE
    for module in (vendor(), "kvm"):
        while os.path.isdir(f"{SYS}/{module}"):
            try:
                command("rmmod", module)
            except Error:
                if time.monotonic() > end:
                    raise
                time.sleep(0.5)


class Lock:
    """One pv-perf qualify at a time; held also by a process that it has forked."""

    def __init__(self):
        self.file = open(LOCK, "w")     # pylint: disable=consider-using-with
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Error("another pv-perf qualify runs", "wait for its end") from None


def note():
    """Before anything is changed."""
    state = {"modules": loaded(), "watchdog": read(WATCHDOG)}
    with open(STATE + ".new", "w") as f:
        json.dump(state, f)
        f.flush()
        os.fsync(f.fileno())
    os.rename(STATE + ".new", STATE)


def noted():
    text = read(STATE)
    return json.loads(text) if text else None


def set_watchdog(value):
    """It has a counter that guests may not see, so it waits."""
    if value is not None and read(WATCHDOG) != value:
        with open(WATCHDOG, "w") as f:
            f.write(value)


def differing(wanted):
    """The parameters that modprobe alone has not set as they were: NAME=VALUE of each
    module."""
    found = loaded()
    return {m: [f"{n}={v}" for n, v in what["parameters"].items()
                if found[m] and found[m]["parameters"].get(n) != v]
            for m, what in wanted.items()}


def load_stock(wanted):
    command("modprobe", vendor())
    words = differing(wanted)
    if any(words.values()):
        # Somebody has loaded them with parameters of his own.
        unload()
        for module in wanted:
            command("modprobe", module, *words[module])


def back(say=print):
    """Has KVM be what it was, if it is not.  Whatever is half done is done again."""
    state = noted()
    if not state:
        return
    wanted = state["modules"]
    if loaded() != wanted:
        say("loading the kernel's own KVM again")
        try:
            unload()
        except Error as error:
            raise Error(f"KVM is still that of pv-perf qualify: {error}",
                        "end the VMs that have been started meanwhile, and run "
                        "pv-perf qualify --back; or reboot") from None
        load_stock(wanted)
    set_watchdog(state["watchdog"])
    if loaded() != wanted:
        raise Error(f"KVM is not as it was: {loaded()}, not {wanted}",
                    "a reboot loads what modprobe has always loaded")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(STATE)
    say("KVM is as it was: " + ", ".join(
        f"{m}, build id {what['build id'][:12]}" for m, what in wanted.items()))


def load_ours(folder, options):
    """In place of the kernel's own."""
    unload()
    # Their own needs are not known to insmod.
    command("modprobe", "irqbypass")
    if vendor() == "kvm_amd":
        command("modprobe", "ccp")
    command("insmod", f"{folder}/kvm/kvm.ko", *options)
    command("insmod", f"{folder}/kvm/{vendor().replace('_', '-')}.ko")
