# SPDX-License-Identifier: GPL-2.0
"""A session: runs perf on the host and in guests at the same time, and collects the files."""
import contextlib
import datetime
import os
import secrets
import signal
import subprocess
import sys
import threading
import time

from pvperf.record import clock, domain, folder, vmm
from pvperf.record.transport.common import Failed

HEARTBEAT = 10
# The time between two checks of a machine, in s: do all parts run?  Each check starts a
# process in the guest.
CHECK, CHECK_HOST = 10, 3
# The limit of the host's trace of a VMM's hypercalls, per vCPU: 14 hours.
TRACE_MB = 16
# The limits of files from the host, and of a guest's measurements of its clock, in bytes.
TRACED, SAID = 1 << 28, 1 << 25

# Without this option, perf script leaves out samples of guests without symbols.
WITH_GUESTS = ["--guestmodules=/dev/null"]


def say(text):
    print(f"pv-perf: {text}", file=sys.stderr, flush=True)


class Session:
    """A session.  options: events; described: see Events.describe(); host_arguments: the
    events for the host's perf record; rate: its other options; limit: MB that a machine may
    store; patience, seconds, command."""

    def __init__(self, options, path, host, guests, passive):
        self.options, self.path = options, path
        self.host, self.guests, self.passive = host, guests, passive
        self.mark = "pv-" + secrets.token_hex(4)
        self.patience = options.patience + 5
        # If this process does not call a machine for this time (s), the machine cleans up.
        self.lease = max(30, round(2 * options.patience))
        for d in [host, *guests]:
            d.patience = options.patience
        for guest in guests:
            guest.place = f"pv-perf.{secrets.token_hex(8)}"
        host.place = os.path.join(path, ".host")
        self.names, self.recording = set(), []
        self.began = self.ended = None
        # The exit status of COMMAND, as a shell sets it, if COMMAND has ended by itself.
        self.status = 0
        # {pid: Hypercalls} of the VMMs that may run a guest of the session.
        self.vmms, self.window = {}, None
        # {pid: (count in guest mode of each event of the host, helpers)} of VMMs.
        self.costs = {}
        # Set by the first Ctrl-C, and by the second.
        self.stopping, self.hurry = threading.Event(), threading.Event()
        # The host's own perf has ended.
        self.host_ended = threading.Event()
        self.done = threading.Event()

    def interrupt(self, *_):
        if self.stopping.is_set():
            self.hurry.set()
            say("does not wait for samples that guests have not sent yet")
        else:
            self.stopping.set()
            say("stops; Ctrl-C again does not wait for samples that guests have not sent "
                "yet")

    def run(self):
        """Returns whether something was recorded."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self.interrupt)
        for d in self.passive:
            if d.symbols:
                d.symbols = folder.keep_symbols(
                    self.path, folder.file_name(d.name, self.names), d.symbols)
        try:
            self.start()
            if not self.host.ok() or self.stopping.is_set() or self.must_not_begin():
                return False
            self.enable()
            if not self.host.ok() or self.must_not_begin():
                return False
            self.wait()
            self.stop()
            self.collect()
        finally:
            self.clean()
        self.put_on_clock()
        self.write()
        return True

    def each(self, domains, function, timeout, hurry=None):
        """Calls function(domain) for the domains whose status is ok.  Prints new failures."""
        domains = [d for d in domains if d.ok()]
        domain.each(domains, function, timeout, hurry)
        for d in domains:
            if not d.ok():
                say(f"{d.name}: {d.status}")

    def start(self):
        """Starts perf on all machines, with disabled events."""
        options, events = self.options, self.options.events

        def start(d):
            counted, recorded = (events.to_count(events.host, "HG"), options.host_arguments) \
                if d is self.host else (events.to_count(events.all()), events.of_guests())
            d.start(self.lease, counted, self.mark, options.limit, [*options.rate, *recorded])

        self.each([self.host], start, self.patience, self.stopping)
        if not self.host.ok():
            return
        self.each(self.guests, start, self.patience, self.stopping)
        for d in [self.host, *self.guests]:
            threading.Thread(target=self.keep_alive, args=(d,),
                             daemon=True).start()
        self.trace_hypercalls()
        self.count_guests()

    def ill(self):
        return [d for d in [self.host, *self.guests, *self.passive] if not d.ok()]

    def must_not_begin(self):
        """With --strict, the session must not begin if a machine cannot be recorded."""
        return self.options.strict and self.ill()

    def local_vmms(self):
        """The PIDs of the VMMs that run, or may run, a guest of the session."""
        found = {d.pid for d in self.guests + self.passive if d.ok() and d.pid}
        if any(d.ok() and d.pid is None for d in self.guests):
            found |= vmm.of_kvm()
        return found

    def count_guests(self):
        """Counts each VMM in guest mode.  A guest cannot forge this count."""
        for pid in self.local_vmms():
            self.costs[pid] = [], vmm.helpers(pid)
            if not self.options.hardware:
                continue
            try:
                events = self.options.events
                self.host.do("count", f"guest-{pid}", str(pid),
                             events.to_count(events.host, "G"), timeout=self.patience)
            except Failed as error:
                say(f"cannot count the events of the guest of process {pid}: {error}")

    @staticmethod
    def traceable():
        return any(os.path.exists(f"{place}/events/kvm/kvm_pv_perf_op")
                   for place in ("/sys/kernel/tracing",
                                 "/sys/kernel/debug/tracing"))

    def trace_hypercalls(self):
        """Starts a trace for each VMM, so that a guest can only fill its own trace.  All
        traces run before a guest makes such hypercalls."""
        if not self.traceable():
            return
        paired = [d for d in self.guests if d.ok() and d.paired]
        pids = {d.pid for d in paired if d.pid}
        if any(d.pid is None for d in paired):
            pids |= vmm.of_kvm() - {d.pid for d in self.guests + self.passive}
        self.vmms = {pid: clock.Hypercalls(pid) for pid in pids}
        threads = [threading.Thread(target=self.trace, args=(v,), daemon=True)
                   for v in self.vmms.values()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(self.patience)

    def trace(self, hypercalls):
        pid = hypercalls.pid
        size = min(TRACE_MB * max(len(vmm.vcpus(pid)), 1), self.options.limit)
        try:
            self.host.do("trace", f"vmm-{pid}", str(pid), clock.EVENT,
                         clock.FILTER, str(size), timeout=self.patience)
        except Failed as error:
            hypercalls.problem = f"cannot trace its hypercalls ({error})"

    def keep_alive(self, d):
        """Renews a machine's lease and checks its parts, until the session ends."""
        silent, known = False, set()
        while d.started and not self.done.wait(
                CHECK_HOST if d is self.host else CHECK):
            try:
                for part, why in d.alive().items():
                    self.ended_early(d, part, why, known)
                if silent:
                    say(f"{d.name}: answers again")
                silent = False
            except Failed as error:
                if not silent and d.ok() and not self.done.is_set():
                    say(f"{d.name}: {error}")
                silent = True

    def ended_early(self, d, part, why, known):
        """Says that a part has ended early.  The end of the host's perf record ends the
        session.  stop() sets the status of a guest."""
        if part in known or d is self.host and part not in ("record", "stat"):
            return
        known.add(part)
        if not self.ended:
            say(f"{d.name}: its perf has ended early: {why}")
        if d is self.host and part == "record":
            self.host_ended.set()

    def enable(self):
        """Enables the host last, so that all guests record while the host does."""
        self.each(self.guests, domain.Domain.enable, self.patience)
        self.each([self.host], domain.Domain.enable, self.patience)
        self.recording = [d for d in [self.host, *self.guests] if d.ok()]
        self.began = time.time()
        names = ", ".join(d.name for d in self.recording + self.passive
                          if d.ok())
        say(f"records {', '.join(e[0] for e in self.options.described)} of {names}; Ctrl-C "
            "ends it")

    def wait(self):
        """Waits until the command or the time ends, or somebody ends the session."""
        began = time.monotonic()
        last = began
        command = self.options.command and self.run_command()
        while not self.stopping.wait(0.1):
            now = time.monotonic()
            if command and command.poll() is not None:
                # A negative returncode is a signal: use a shell's status.
                self.status = command.returncode if command.returncode >= 0 \
                    else 128 - command.returncode
                break
            if self.host_ended.is_set():
                say("stops, because the host's perf has ended")
                break
            if self.options.seconds and now - began >= self.options.seconds:
                break
            if now - last >= HEARTBEAT:
                last = now
                say(f"{now - began:.0f} s, {self.size() / 1e6:.1f} MB on the "
                    "host")
        if command and self.end(command):
            say(f"the command has ended with status {command.returncode}")

    def run_command(self):
        try:
            return subprocess.Popen(self.options.command)
        except OSError as error:
            say(f"{self.options.command[0]}: {error.strerror}")
            self.status = 126
            self.stopping.set()
            return None

    @staticmethod
    def end(command):
        """Ends the command; returns its status."""
        if command.poll() is None:
            command.terminate()
        try:
            return command.wait(5)
        except subprocess.TimeoutExpired:
            command.kill()
            return command.wait()

    def size(self):
        try:
            return os.path.getsize(os.path.join(self.host.place, "record.data"))
        except OSError:
            return 0

    def stop(self):
        """Stops the host first, and its traces of hypercalls last."""
        def stop(d):
            parts = ["record", "stat"] if d is self.host else ["record"]
            for why in d.stop(*parts).values():
                d.fail(f"its perf ended early: {why}")

        self.each([self.host], stop, self.patience)
        self.ended = time.time()
        self.each([d for d in self.recording if d is not self.host], stop,
                  self.patience)
        domain.each([self.host], lambda d: self.stop_traces(), self.patience)

    def stop_traces(self):
        parts = {f"vmm-{pid}": found for pid, found in self.vmms.items()
                 if not found.problem}
        counts = [f"guest-{pid}" for pid in self.costs] \
            if self.options.hardware else []
        # Helpers may have started meanwhile.
        for pid, (count, helpers) in self.costs.items():
            self.costs[pid] = count, helpers | vmm.helpers(pid)
        for name, why in self.host.stop("clock", *parts, *counts).items():
            # A trace that ended with its VMM is complete; a trace that is full is not.
            if name in parts and "size limit" in why:
                parts[name].problem = "is flooded with its hypercalls"

    def collect(self):
        """Takes the samples of all recording domains, also of those that have failed."""
        say("takes the samples")
        patience = 120 + 2 * (self.ended - self.began)
        ill = {d: d.status for d in self.recording}
        for d in self.recording:
            d.status = "ok"
        # The second Ctrl-C does not end the waiting for the host itself.
        keep = [self.host]
        domain.each(self.recording, domain.Domain.alive, self.patience,
                    self.hurry, keep)
        well = [d for d in self.recording if d.ok()]
        names = {d: folder.file_name(d.name, self.names) for d in well}
        domain.each(well, lambda d: self.take(d, names[d], patience),
                    2 * patience + 60, self.hurry, keep)
        for d in self.recording:
            # The first failure stays.
            d.status = ill[d] if ill[d] != "ok" else d.status
            size = os.path.getsize(self.file_of(d)) if d.samples else 0
            say(f"{d.name}: {size / 1e6:.3f} MB of samples" +
                (f", {d.lost} lost" if d.lost else "") +
                ("" if d.ok() else f"; {d.status}"))

    def file_of(self, d):
        return os.path.join(self.path, d.samples)

    def take(self, d, name, patience):
        # A timer that counts expires while a guest runs, too.
        guests = self.options.events.timer or d is self.host and self.passive
        size = d.script_samples(patience, *(WITH_GUESTS if guests else []))
        limit = self.options.limit << 20
        if size > limit:
            d.fail(f"it has {size >> 20} MB of samples: see --limit")
        try:
            d.fetch("samples.gz", os.path.join(self.path, name + ".samples.gz"),
                    min(size, limit), 60 + min(size, limit) / 1e6)
        finally:
            d.samples = folder.keep_samples(self.path, name)
        if not d.samples:
            raise Failed("it has sent no samples")
        if d is not self.host:
            # A guest's other files have a quarter of its share each.
            self.take_maps(d, name, min(limit // 4, TRACED))
            self.take_file(d, "clock", min(limit // 4, SAID))
            return
        self.take_maps(d, name, TRACED)
        for traced in ("stat.txt", "clock.gz"):
            self.take_file(d, traced, TRACED)
        for hypercalls in self.vmms.values():
            self.take_trace(hypercalls)
        for pid in self.costs if self.options.hardware else ():
            self.take_count(pid)

    def take_file(self, d, name, size):
        """Copies a file other than the samples."""
        d.fetch(name, self.work_file(d, name), size, 120)

    def take_maps(self, d, name, size):
        """Copies the maps of the processes.  Without them, some functions have no name."""
        try:
            self.take_file(d, "maps.gz", size)
            path = os.path.join(self.path, f"{name}.maps.gz")
            os.rename(self.work_file(d, "maps.gz"), path)
            d.maps = os.path.basename(path)
        except (Failed, OSError) as error:
            say(f"{d.name}: has no maps of its processes: {error}")

    def names_of_host(self):
        events = self.options.events
        return events.names(events.host)

    def take_count(self, pid):
        name = f"guest-{pid}.txt"
        try:
            self.take_file(self.host, name, TRACED)
        except Failed:
            pass                    # count_guests() has said that the part did not start
        path = self.work_file(self.host, name)
        self.costs[pid] = folder.read_counts(path, len(self.names_of_host())), \
            self.costs[pid][1]
        if os.path.exists(path):
            os.unlink(path)

    def take_trace(self, hypercalls):
        if hypercalls.problem:
            return
        try:
            self.take_file(self.host, f"vmm-{hypercalls.pid}.gz", TRACED)
        except Failed as error:
            hypercalls.problem = f"has no trace of its hypercalls ({error})"

    def work_file(self, d, name):
        return f"{self.file_of(d)}.{name}"

    def clean(self):
        self.done.set()
        started = [d for d in [self.host, *self.guests] if d.started]
        state = {d: d.status for d in started}
        for d in started:
            d.status = "ok"
        domain.each(started, domain.Domain.clean, self.patience, self.hurry,
                    [self.host])
        for d in started:
            if not d.ok() and state[d] == "ok":
                say(f"{d.name}: cannot be cleaned up: {d.status}; it cleans up by "
                    f"itself within {self.lease} s")
            d.status = state[d]
        for d in [self.host, *self.guests]:
            if d.transport:
                d.transport.close()

    def put_on_clock(self):
        """Finds the guests' clocks, and the VMMs that only the traces show."""
        said = {}
        for d in self.guests:
            with self.taken(d, "clock") as path:
                if path:
                    said[d] = clock.measured(path)
        with self.taken(self.host, "clock.gz") as path:
            if path:
                self.window = clock.window(path)
        for pid, hypercalls in self.vmms.items():
            with self.taken(self.host, f"vmm-{pid}.gz") as path:
                if path:
                    hypercalls.read(path, [found for d, found in said.items()
                                           if d.pid in (pid, None)])
        for d, found in said.items():
            self.find_clock(d, found)
        for d in self.guests + self.passive:
            d.counts, d.helpers = self.costs.get(d.pid, ([], set()))
            if d.kind == "guest" and d.pid and not self.options.hardware and \
                    not self.options.events.timer:
                d.fail(f"its time is in the host's samples of {self.names_of_host()[0]}, too. "
                       "Remedy: -e cycles")

    @contextlib.contextmanager
    def taken(self, d, name):
        """Yields the path of a file, or None.  Then removes the file."""
        path = d.samples and self.work_file(d, name)
        if not path or not os.path.exists(path):
            yield None
            return
        yield path
        os.unlink(path)

    def find_clock(self, d, found):
        """Finds the clock of a guest, and its VMM if libvirt has not named the VMM."""
        traced = self.vmm_of(d, found)
        if traced and not traced.problem:
            d.clock = clock.points(traced.pairs(found),
                                   clock.POINTS // len(self.guests) or 1)
        if d.clock:
            d.pid = traced.pid
            d.vcpus = d.vcpus or [traced.vcpus[n]
                                  for n in sorted(traced.vcpus)]
            say(f"{d.name}: its clock is known to within "
                f"{max(p[2] for p in d.clock) * 1e6:.1f} us")
            return
        if not d.paired:
            d.fail("it does not have the pair (modprobe kvm_pmu), so its clock is not "
                   "known")
        elif traced and traced.problem:
            d.fail(f"this host {traced.problem}, so its clock is not known")
        else:
            d.fail("this host has not seen its hypercalls, so its clock is not "
                   "known: is it a guest of this host?")
        say(f"{d.name}: {d.status}")

    def vmm_of(self, d, found):
        """The Hypercalls of a guest with the measurements found, or None."""
        if d.pid:
            return self.vmms.get(d.pid)
        taken = {other.pid for other in self.guests}
        return next((v for v in self.vmms.values()
                     if v.pid not in taken and v.is_of(found)), None)

    def counts(self):
        """[{CPU: count} or None] of the events of the host, and then of the others."""
        found = []
        if self.host.samples:
            path = self.work_file(self.host, "stat.txt")
            found = folder.read_counted(path)
            if os.path.exists(path):
                os.unlink(path)
        # If a count is missing, nobody knows which one.
        if len(found) != len(self.names_of_host()):
            found = [None] * len(self.names_of_host())
        return found + [None] * (len(self.options.described) - len(found))

    def write(self):
        options, window = self.options, self.window
        counts = self.counts()
        (event, period, frequency, _), *more = options.described
        folder.write(self.path, {
            "event": event, "period": period, "frequency": frequency,
            "callgraph": bool(options.callgraph),
            "more": [{"event": event, "period": period, "frequency": frequency,
                      "guests": guests, "counted": counted}
                     for (event, period, frequency, guests), counted in zip(more, counts[1:])],
            "began": datetime.datetime.fromtimestamp(
                self.began, datetime.timezone.utc).isoformat(),
            # pylint: disable-next=unsubscriptable-object # it is None at first
            "seconds": window[1] - window[0] if window
            else self.ended - self.began,
            "window": window, "interrupted": self.stopping.is_set(),
            "host": {**folder.host(), "counted": counts[0]},
            "left_out": options.left_out,
            "domains": [d.describe() for d in
                        [self.host, *self.guests, *self.passive]]})
