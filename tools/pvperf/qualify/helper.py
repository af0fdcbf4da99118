# SPDX-License-Identifier: GPL-2.0
"""The host's part of checks, while a guest makes them."""
import contextlib
import glob
import os
import re
import subprocess
import threading
import time

from pvperf.qualify import guard
from pvperf.qualify.modules import read
from pvperf.record import vmm

RATE = "/sys/module/kvm/parameters/pv_perf_max_rate"
# The limit of samples per second while check_rate() runs.
LOW_RATE = 1000
MOVES = 1000


def counters_of(pid):
    """The folder of a VM's counters in KVM's debugfs."""
    folders = glob.glob(f"/sys/kernel/debug/kvm/{pid}-*")
    return folders[0] if folders else "/nonexistent"


def exits(pid):
    text = read(f"{counters_of(pid)}/exits")
    return int(text) if text else None


def overflows(pid):
    """[overflows that the host has delivered, how often it has stopped an event], or None."""
    match = re.search(r"^overflows (\d+) .* limited (\d+)",
                      read(f"{counters_of(pid)}/pv_perf") or "", re.M)
    return [int(n) for n in match.groups()] if match else None


def set_rate(value):
    with contextlib.suppress(OSError), open(RATE, "w") as f:
        f.write(str(value))


class Helper:
    """Does what the guest asks for, and notes the results in seen, by the guest's words."""

    def __init__(self, built, another=None):
        """another(names): makes a second Guest with these checks."""
        self.built, self.another = built, another
        self.seen, self.thread, self.spinners = {}, None, []
        self.rate = read(RATE)

    def do(self, what, guest):
        if what.startswith("exits"):
            self.seen[what] = exits(guest.pid)
        elif what.startswith("nmis"):
            self.seen[what] = overflows(guest.pid)
        elif what == "rate limit":
            self.seen[what] = overflows(guest.pid)
            set_rate(LOW_RATE)
        elif what == "rate free":
            self.seen[what] = overflows(guest.pid)
            set_rate(self.rate)
        elif what == "spin":
            self.spinners = [guard.start([os.path.join(self.built, "checks"), "spin"])
                             for _ in os.sched_getaffinity(0)]
        elif what == "spin no more":
            self.spin_no_more()

    def spin_no_more(self):
        """Also called when the guest has ended."""
        for process in self.spinners:
            process.kill()
            process.wait()
        self.spinners = []

    def begin(self, what, guest):
        """Answers, works while the guest runs, and answers again at the end."""
        guest.answer()
        self.thread = threading.Thread(target=self.go_on, args=(what, guest), daemon=True)
        self.thread.start()

    def go_on(self, what, guest):
        with contextlib.suppress(OSError):
            if what == "move":
                self.seen["moves"] = move(guest.pid)
            elif what == "beside":
                self.seen["beside"] = run_checks(self.built, ["counts", "sampling", "wide"])
            elif what == "two guests":
                with self.another(["counts", "sampling"]) as guest2:
                    self.seen["second guest"] = guest2.run(Helper(self.built))[0]
            elif what == "lost":
                self.seen["taken"] = take_counters(self.built, 2)
            guest.answer()


def take_counters(built, seconds):
    """Takes all counters of all CPUs for a while; returns their number."""
    with subprocess.Popen([os.path.join(built, "checks"), "hog"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as hog:
        taken = hog.stdout.readline().split()[-1]
        time.sleep(seconds)
        hog.stdin.close()
    return int(taken)


def move(pid):
    """Moves the thread of the first vCPU from CPU to CPU; returns the number of moves."""
    cpus = sorted(os.sched_getaffinity(0))
    threads = vmm.vcpus(pid)
    if not threads:
        return 0
    for n in range(MOVES):
        os.sched_setaffinity(threads[0], {cpus[n % len(cpus)]})
    os.sched_setaffinity(threads[0], cpus)
    return MOVES


def on_performance_cores():
    """Words before a command.  On a hybrid host, perf's events of a task count there alone."""
    cpus = read("/sys/bus/event_source/devices/cpu_core/cpus")
    return ["taskset", "-c", cpus] if cpus else []


def run_checks(built, names):
    """Runs checks natively.  Returns [(WORD, REST)] of the lines that begin with @."""
    result = subprocess.run([*on_performance_cores(), os.path.join(built, "checks"),
                             ",".join(names)],
                            capture_output=True, text=True, errors="replace",
                            stdin=subprocess.DEVNULL, timeout=300)
    found = []
    for line in result.stdout.splitlines():
        if line.startswith("@"):
            word, _, rest = line[1:].partition(" ")
            found.append((word, rest))
    return found
