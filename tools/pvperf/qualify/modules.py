# SPDX-License-Identifier: GPL-2.0
"""Replaces KVM's modules, and restores them.

Nothing is installed: after a reboot, modprobe loads the same modules as always.  STATE
describes the old modules, from before the first change until they are restored."""
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

# The time that a VM may take to end after its VMM, in s.
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
    """The build ID of the loaded module, from the linker's note: Debian's modules have no
    srcversion."""
    try:
        with open(f"{SYS}/{module}/notes/.note.gnu.build-id", "rb") as f:
            return f.read()[16:]
    except OSError:
        return b""


def is_what_modprobe_loads(module):
    """Does the file that modprobe would load have the build ID of the loaded module?"""
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
    """The build ID and the parameters of a loaded module; None if it is not loaded."""
    if not os.path.isdir(f"{SYS}/{module}"):
        return None
    folder = f"{SYS}/{module}/parameters"
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    return {"build id": build_id(module).hex(),
            "parameters": {n: read(f"{folder}/{n}") for n in names}}


def loaded():
    return {m: describe(m) for m in ("kvm", vendor())}


def users():
    """The number of users of KVM, such as VMs."""
    return int(read(f"{SYS}/{vendor()}/refcnt") or 0)


def command(*words):
    result = subprocess.run(words, capture_output=True, text=True, errors="replace",
                            stdin=subprocess.DEVNULL)
    if result.returncode:
        raise Error(f"{' '.join(words)}: {(result.stderr + result.stdout).strip()}")
    return result.stdout


def unload():
    """Unloads KVM's modules.  Waits if the last VM is still ending."""
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
    """Allows one pv-perf qualify at a time.  The worker holds the lock, too."""

    def __init__(self):
        self.file = open(LOCK, "w")     # pylint: disable=consider-using-with
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Error("another pv-perf qualify runs", "wait for its end") from None


def note():
    """Writes STATE.  To be called before the first change."""
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
    """Sets the NMI watchdog.  It must be off for RDPMC, because guests may not see its
    counter."""
    if value is not None and read(WATCHDOG) != value:
        with open(WATCHDOG, "w") as f:
            f.write(value)


def differing(wanted):
    """{module: [NAME=VALUE]} of the wanted parameters that modprobe has not set."""
    found = loaded()
    return {m: [f"{n}={v}" for n, v in what["parameters"].items()
                if found[m] and found[m]["parameters"].get(n) != v]
            for m, what in wanted.items()}


def load_stock(wanted):
    command("modprobe", vendor())
    words = differing(wanted)
    if any(words.values()):
        # The old modules were loaded with parameters that modprobe.d does not have.
        unload()
        for module in wanted:
            command("modprobe", module, *words[module])


def back(say=print, step=lambda name: None):
    """Restores KVM as STATE describes it.  If a step was interrupted, does it again."""
    state = noted()
    if not state:
        return
    wanted = state["modules"]
    if loaded() != wanted:
        say("loading the kernel's own KVM again")
        try:
            unload()
        except Error as error:
            raise Error(f"the modules of pv-perf qualify are still loaded: {error}",
                        "end the VMs that have been started meanwhile, and run "
                        "pv-perf qualify --back; or reboot") from None
        step("back")
        load_stock(wanted)
    set_watchdog(state["watchdog"])
    if loaded() != wanted:
        raise Error(f"KVM is not as before: {loaded()}, not {wanted}",
                    "reboot")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(STATE)
    say("KVM is as before: " + ", ".join(
        f"{m}, build id {what['build id'][:12]}" for m, what in wanted.items()))


def load_ours(folder, options, step):
    """Loads the modules in folder in place of the kernel's own."""
    unload()
    # insmod does not load the modules that they depend on.
    command("modprobe", "irqbypass")
    if vendor() == "kvm_amd":
        command("modprobe", "ccp")
    command("insmod", f"{folder}/kvm/kvm.ko", *options)
    step("half loaded")
    command("insmod", f"{folder}/kvm/{vendor().replace('_', '-')}.ko")
