# SPDX-License-Identifier: GPL-2.0
"""pv-perf service: records windows continuously, within a budget and under a policy."""
import ctypes
import datetime
import glob
import hashlib
import json
import os
import platform
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time

from pvperf.error import Error
from pvperf.record import command as record
from pvperf.record.session import say
from pvperf.service import config, push, store

HELP = """record windows of host and guests continuously, within a budget, and send the
profiles to a server (until it is ended; for systemd)"""

DESCRIPTION = """Records windows of host and guests (pv-perf record --all), under a policy
that selects the VMs, and within a budget of CPU time and disk space. Writes each window
as a profile for pprof, and can send the profiles to a server with Pyroscope's ingest
protocol. An audit log names each recording, its VMs, and where its profiles went."""

PR_SET_CHILD_SUBREAPER = 36


def add_command(commands):
    parser = commands.add_parser("service", help=HELP, description=DESCRIPTION)
    a = parser.add_argument
    a("--config", metavar="FILE", default=config.DEFAULT_PATH,
      help=f"the configuration (default: {config.DEFAULT_PATH})")
    a("--check", action="store_true", help="only check and print the configuration")
    a("--windows", metavar="N", type=int, help="end after N windows")
    parser.set_defaults(run=run)


def cpu_seconds():
    """The CPU time of this process, and of the children that it has waited for."""
    used = [resource.getrusage(who) for who in
            (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def adopt_orphans():
    """Makes orphans of a window, such as perf, children of this process, so that their CPU
    time is known."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise Error(f"prctl: {os.strerror(ctypes.get_errno())}")


def reap(seconds):
    """Waits for all children, at most this long."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if not os.waitpid(-1, os.WNOHANG)[0]:
                time.sleep(0.1)
        except ChildProcessError:
            return


def pause_of(settings, cost):
    """The time from the begin of a window to the begin of the next, so that the average
    cost of windows stays in the budget.  cost: CPU seconds of the last window."""
    return max(settings.record.every, cost * 100 / settings.budget.cpu)


class Service:
    def __init__(self, settings, digest):
        self.settings, self.digest = settings, digest
        self.audit = store.Audit(settings.files.audit)
        self.profiles = store.Profiles(settings.files.profiles,
                                       settings.budget.mb * (1 << 20) // 2)
        self.work = os.path.join(settings.files.profiles, ".window")
        self.ending = threading.Event()
        self.child = None
        self.state = {"version": 1, "windows": 0, "failed": 0, "sent": 0, "refused": 0,
                      "cpu_seconds": 0, "last": time.time(), "unsent": 0, "bytes": 0}

    def end(self, *_):
        self.ending.set()
        if self.child:
            # pv-perf record stops perf on all machines.  The window is lost.
            self.child.terminate()

    def domains(self):
        """(running domains to record, other running domains)"""
        settings = self.settings
        args = type("", (), {"all": True, "vm": [], "passive": [],
                             "connect": settings.record.connect,
                             "only": settings.vms.only,
                             "excepted": getattr(settings.vms, "except")})
        wanted, others = [], []
        for connection in record.find_libvirt(args):
            for domain in connection.running():
                (wanted if record.is_wanted(domain.name(), args) else others).append(
                    {"name": domain.name(), "uuid": domain.UUIDString(),
                     "connect": connection.uri})
            connection.connection.close()
        return wanted, others

    def pv_perf(self, *words):
        """Runs a command of pv-perf; returns its status and its last message."""
        if self.ending.is_set():
            return 1, "the service ends"
        with subprocess.Popen([sys.executable, sys.argv[0], *words],
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True, errors="replace") as child:
            self.child = child
            if self.ending.is_set():    # end() has not seen this child
                child.terminate()
            said = child.communicate()[1]
        self.child = None
        return child.returncode, said.rpartition("pv-perf: ")[2].replace("\n", " ").strip()

    def record(self, names):
        """Records a window of these VMs; returns the reason if this fails.  A VM that has
        started meanwhile is not in the audit log, and waits for the next window."""
        settings = self.settings.record
        # Half of the budget is for the window.  The host's part is there twice: as samples
        # and as text.
        limit = int(self.settings.budget.mb / 2 / (len(names) + 2))
        if limit < 1:
            return f"[budget] mb = {self.settings.budget.mb} is too small for " \
                f"{len(names)} VMs"
        words = ["record", "--all", "-e", settings.event, "-F", str(settings.hz),
                 "--seconds", str(settings.seconds), "--limit", str(limit), "-o", self.work]
        words += [f"--connect={uri}" for uri in settings.connect]
        words += [f"--only={glob.escape(name)}" for name in names]
        status, why = self.pv_perf(*words, *(["-g"] if settings.callgraph else []))
        return f"pv-perf record: {why}" if status else None

    def publish(self):
        """Makes a profile of the window; returns (name, metadata, recorded domains)."""
        with open(os.path.join(self.work, "session.json"), encoding="utf-8") as f:
            session = json.load(f)
        began = datetime.datetime.fromisoformat(session["began"]).timestamp()
        name = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(began)) + ".pb.gz"
        # In this folder, which is removed, also if the report is killed.
        path = os.path.join(self.work, name)
        status, why = self.pv_perf("report", "--pprof", path, self.work)
        if status:
            raise Error(f"pv-perf report: {why}")
        self.profiles.take(path, name)
        meta = {"began": began, "seconds": session["seconds"], "event": session["event"],
                "hz": session["frequency"]}
        recorded = [{key: d[key] for key in
                     ("name", "uuid", "connect", "kind", "status", "lost")}
                    for d in session["domains"]]
        return name, meta, recorded

    def window(self):
        """Makes one window, from the policy to the profile; returns the reason if it fails."""
        shutil.rmtree(self.work, ignore_errors=True)
        wanted, others = self.domains()
        settings = self.settings.record
        self.audit.add("record", domains=wanted, left_out=[d["name"] for d in others],
                       event=settings.event, hz=settings.hz, seconds=settings.seconds)
        if not wanted:
            return None
        why = self.record([d["name"] for d in wanted])
        if why:
            return why
        name, meta, recorded = self.publish()
        if self.settings.push.url:
            self.profiles.add(name, meta)
        self.audit.add("recorded", profile=name, domains=recorded,
                       bytes=os.path.getsize(self.profiles.path(name)))
        return None

    def send(self):
        """Sends the unsent profiles.  If the server refuses a profile, the rest waits."""
        options = self.settings.push
        for name, meta in self.profiles.to_send():
            if self.ending.is_set() or not options.url:
                return
            try:
                with open(self.profiles.path(name), "rb") as f:
                    profile = f.read()
            except FileNotFoundError:
                self.profiles.sent(name)        # somebody has removed it
                continue
            try:
                push.push(options, {"host": platform.node()}, meta, profile)
            except push.Refused as error:
                self.state["refused"] += 1
                self.audit.add("refused", profile=name, url=options.url, why=str(error))
                say(f"{options.url} has not taken {name}: {error}")
                return
            self.profiles.sent(name)
            self.state["sent"] += 1
            self.audit.add("sent", profile=name, url=options.url)

    def once(self):
        """Makes one window, and sends profiles; returns the cost in CPU seconds."""
        before = cpu_seconds()
        try:
            why = self.window()
        except Exception as error:      # libvirt may raise anything; go on with the next
            why = str(error) or type(error).__name__
        shutil.rmtree(self.work, ignore_errors=True)
        if why:
            self.state["failed"] += 1
            self.audit.add("failed", why=why)
            say(why)
        else:
            self.state["last"] = time.time()
        try:
            for name in self.profiles.make_room():
                self.audit.add("removed", profile=name, why="[budget] mb")
            self.send()
        except OSError as error:
            say(f"{self.settings.files.profiles}: {error.strerror}")
        reap(10)
        cost = cpu_seconds() - before
        self.write_state(cost)
        return cost

    def write_state(self, cost):
        """Without a state, doctor and metrics say for how long there was no window."""
        try:
            self.state.update(windows=self.state["windows"] + 1,
                              cpu_seconds=self.state["cpu_seconds"] + cost,
                              unsent=len(self.profiles.to_send()), bytes=self.profiles.size())
            store.write_json(self.settings.files.state, self.state)
        except OSError as error:
            say(f"{self.settings.files.state}: {error.strerror}")

    def run(self, windows):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self.end)
        adopt_orphans()
        self.audit.add("start", config=self.digest, only=self.settings.vms.only,
                       excepted=getattr(self.settings.vms, "except"),
                       url=self.settings.push.url)
        while not self.ending.is_set():
            began = time.monotonic()
            cost = self.once()
            windows = windows and windows - 1
            if windows == 0:
                break
            self.ending.wait(max(0, began + pause_of(self.settings, cost) -
                                 time.monotonic()))
        self.audit.add("end")


def run(args):
    settings = config.read(args.config)
    if args.check:
        for section, values in vars(settings).items():
            print(f"[{section}]")
            for key, value in vars(values).items():
                print(f"{key} = {' '.join(value) if isinstance(value, list) else value}")
        return 0
    with open(args.config, "rb") as f:
        digest = hashlib.sha256(f.read()).hexdigest()
    if os.geteuid():
        raise Error("only root may record a host and its guests", "run this as root")
    # The audit log has everything that is sent, but not the requests to debuginfod.
    os.environ.pop("DEBUGINFOD_URLS", None)
    Service(settings, digest).run(args.windows)
    return 0
