# SPDX-License-Identifier: GPL-2.0
"""pv-perf qualify: tests whether the pair works on this CPU. For some minutes, KVM's modules
with the pair replace the kernel's own. Nothing stays installed."""
import argparse
import json
import os
import re
import shutil
import signal
import sys

from pvperf.error import Error
from pvperf.qualify import build, evidence, guard, guest, host, modules, output, verdicts
from pvperf.qualify.helper import Helper, run_checks

HELP = "test whether the pair works on this CPU (ten minutes, as root; no VM may run)"

DESCRIPTION = """Tests whether the pair works on this CPU, and writes a report.
Builds KVM's modules with the host side, loads them in place of the kernel's own, runs
checks natively and in a guest of its own, which has neither disk nor network, and loads
the kernel's own modules again. Installs nothing: a reboot at any time restores everything.
Says what it will do, and asks, before it begins."""

# The guests of qualify may use RDPMC and record branches, but only while these modules are
# loaded.
OPTIONS = ["pv_perf=1", "enable_pmu=0"]
RDPMC = ["pv_perf_rdpmc=3", "pv_perf_rdpmc_default=1"]
BRANCHES = ["pv_perf_branches=1"]

RECORDS = 10000000
RECORDS_IN_VM = 20000

# A folder on a disk, in which programs may be executed.
FOLDER = "/var/tmp/pv-perf-qualify"

# The time that all steps may take, in s.
DEADLINE = 3600


def add_command(commands):
    parser = commands.add_parser("qualify", help=HELP, description=DESCRIPTION)
    a = parser.add_argument
    a("--yes", action="store_true", help="do not ask")
    a("-o", metavar="NAME", default="pv-perf-qualify",
      help="write NAME.json and NAME.html (default: pv-perf-qualify)")
    a("--checks", metavar="NAME,NAME", help="make only these checks")
    a("--build", metavar="DIR", help="only build the modules and programs, in DIR")
    a("--release", metavar="RELEASE", default=os.uname().release,
      help="with --build: for this kernel (default: the running one)")
    a("--built", metavar="DIR", help="use the modules and programs that --build has built")
    a("--back", action="store_true",
      help="only restore KVM after a run that was killed")
    a("--install", metavar="FILE",
      help="only turn on what this report shows, on this CPU model alone")
    a("--compare", nargs=2, metavar="FILE",
      help="only print the differences of two reports")
    a("--table", nargs="*", metavar="FILE",
      help="only print a table of the CPUs of these reports")
    # For tests of qualify itself.
    for name in ("--stop-at", "--kvm-options", "--driver-options"):
        a(name, default="", help=argparse.SUPPRESS)
    a("--deadline", type=int, default=DEADLINE, help=argparse.SUPPRESS)
    parser.set_defaults(run=run)


def say(text):
    print(text, flush=True)


PLAN = """pv-perf qualify tests whether the pair works on this CPU:
  {cpu}

  1. {build}
  2. It runs checks natively{minutes[1]}.
  3. It unloads KVM's modules ({modules}), and loads its own.
     Meanwhile no VM can be started{watchdog}.
  4. It starts guests without disk and network, and runs the checks there{minutes[2]}.
  5. It unloads its modules, loads the kernel's own, and verifies that they are back,
     also after Ctrl-C, or if something hangs. It installs nothing, so a reboot restores
     everything, too.
  6. It writes {o}.json and {o}.html: results, CPU, kernel and QEMU, but no
     name, address or serial number of this machine.
"""


def plan(args, facts):
    state = modules.read(modules.WATCHDOG)
    say(PLAN.format(
        cpu=facts["cpu"]["name"], o=args.o,
        build=f"It uses the modules and programs in {args.built}." if args.built else
        "It builds KVM's modules for this kernel, in /var/tmp (2 minutes).",
        modules=f"{modules.vendor()}, kvm", minutes=["", " (10 seconds)", " (2 minutes)"],
        watchdog="; the NMI watchdog is off" if state == "1" else ""))


def ask(args):
    if args.yes:
        return
    if not sys.stdin.isatty():
        raise Error("there is no terminal to ask", "pv-perf qualify --yes")
    if input("Go on? [y/N] ").strip().lower() not in ("y", "yes"):
        raise Error("nothing was changed")


def stop_at(args, name):
    """Stops this process if --stop-at names this step, to test what ends it here."""
    if args.stop_at == name:
        os.kill(os.getpid(), signal.SIGSTOP)


class Work:
    """The steps of the worker process, and its results for the report."""

    def __init__(self, args, folder, facts):
        self.args, self.folder, self.facts = args, folder, facts
        self.built = args.built or folder
        self.results = os.path.join(folder, "results.json")
        self.names = [c.name for c in verdicts.CHECKS]
        self.costs = not args.checks or "costs" in args.checks.split(",")
        self.reasons = {}
        if len(os.sched_getaffinity(0)) < 2:
            self.leave_out("move", "this machine has one CPU")
        if args.checks:
            wanted = args.checks.split(",")
            for name in [n for n in self.names if n not in wanted]:
                self.leave_out(name, "--checks does not name this check")
        self.data = {"native": {}, "guest": {}, "seen": {}, "costs": {}, "ended": {},
                     "log": [], "reasons": self.reasons}

    def leave_out(self, name, why):
        self.names.remove(name)
        self.reasons[name] = why

    def step(self, name):
        """Begins a step."""
        self.save()
        say(f"  {name}")
        stop_at(self.args, name)

    def save(self):
        with open(self.results + ".new", "w") as f:
            json.dump(self.data, f)
        os.rename(self.results + ".new", self.results)

    def run(self):
        self.step("build")
        if not self.args.built:
            build.build(os.uname().release, self.folder)
        self.initrd = os.path.join(self.folder, "initrd")
        guest.write_initrd(self.initrd, self.built)
        self.log = host.Log()

        self.step("native")
        self.run_native()
        if self.costs:
            self.step("stock guest")
            self.run_guest("KVM's virtual PMU", ["costs"], Helper(self.built),
                           cpu="host,pmu=on", append="qualify.driver=0", result="stock")
        modules.note()
        self.step("unload")
        modules.unload()
        self.step("unloaded")
        self.load(RDPMC + BRANCHES)
        self.step("loaded")
        helper = Helper(self.built, lambda names: self.guest(names, ""))
        self.run_guest("pair, RDPMC", self.names + self.costs * ["costs"], helper,
                       append=f"qualify.options={self.args.driver_options} "
                       f"qualify.records={self.records()}", result="guest")
        helper.spin_no_more()
        self.data["seen"] = helper.seen
        if self.costs:
            self.step("second load")
            self.load([])
            self.run_guest("pair", ["costs"], Helper(self.built), result="second")
        self.step("end")
        self.data["log"] = self.log.lines()
        self.save()
        return 0

    def records(self):
        """The number of branch records to look at.  An emulated CPU takes long for them."""
        return RECORDS_IN_VM if self.facts["cpu"]["in a VM"] else RECORDS

    def load(self, options):
        modules.set_watchdog("0")
        modules.load_ours(self.built, OPTIONS + options + self.args.kvm_options.split(),
                          lambda name: stop_at(self.args, name))

    def run_native(self):
        # "counts" also runs if --checks leaves it out: other checks compare with it.
        for word, rest in run_checks(self.built, [*self.names, "counts"] + self.costs * ["costs"]):
            if word == "result":
                result = json.loads(rest)
                self.data["native"][result["check"]] = result
            elif word == "costs":
                self.data["costs"]["native"] = guest.parse(rest) or {}
        self.save()

    def guest(self, names, append, cpu=None):
        return guest.Guest(
            f"/boot/vmlinuz-{os.uname().release}", self.initrd, names,
            os.path.join(self.folder, "console"), append,
            cpu or "host,migratable=no,pmu=off" + self.facts["cpu options"])

    def run_guest(self, title, names, helper, result, cpu=None, append=""):
        vm = self.guest(names, append, cpu)
        with vm:
            found, died, other = vm.run(
                helper, lambda name: self.step(f"{result}: {name}"))
        if result == "guest":
            self.data["guest"] = found
            self.data["driver"] = (other.get("driver") or {}).get("error")
        if other.get("costs"):
            self.data["costs"][title] = other["costs"]
        if died:
            self.data["ended"][result] = died
        self.data.setdefault("console", []).extend(host.bad_lines(vm.console))
        self.save()


def report(args, facts, path, back):
    """Writes the report of the worker's results; returns the exit status."""
    stop_at(args, "report")
    with open(path) as f:
        data = json.load(f)
    ended = data["ended"].get("guest")
    rows = verdicts.judge(data["native"], data["guest"], data["seen"], data["reasons"])
    rows.append(verdicts.log_row("guest's log", "The guest's kernel has no warnings",
                                 data.get("console", []) + ([ended] if ended else [])))
    rows.append(verdicts.log_row("host's log", "The host's kernel has no warnings", data["log"]))
    rows.append({"name": "back", "title": "The kernel's own KVM is back",
                 "verdict": verdicts.WORKS if back else verdicts.DIFFERS,
                 "why": "build IDs and parameters are the same as before" if back else "see above",
                 "meaning": "Reboot this machine."})
    text = verdicts.sentence(rows, data.get("driver"))
    output.write(args.o, {"format": 1, "sentence": text, **facts, "checks": rows,
                          "costs": data["costs"],
                          "figures": {n: data[n] for n in ("native", "guest", "seen")}})
    say("")
    for row in rows:
        say(f"{row['verdict']:<10} {row['title']}")
        if row["verdict"] == verdicts.DIFFERS:
            say(f"           {row['why']}\n           {row['meaning']}")
    say(f"\n{text}\nThe report: {args.o}.json, {args.o}.html")
    return 0 if all(r["verdict"] != verdicts.DIFFERS for r in rows) else 1


def make_folder():
    """Makes the folder, for root only.  A killed run may have left its folder."""
    try:
        if os.lstat(FOLDER).st_uid:
            raise Error(f"{FOLDER} does not belong to root", f"rm -r {FOLDER}")
        shutil.rmtree(FOLDER)
    except FileNotFoundError:
        pass
    os.mkdir(FOLDER, 0o700)
    return FOLDER


def check_names(args):
    known = [c.name for c in verdicts.CHECKS] + ["costs"]
    for name in args.checks.split(",") if args.checks else ():
        if name not in known:
            raise Error(f"--checks: there is no check {name!r}", "there are: " + ", ".join(known))


def qualify(args):
    """Runs qualify on this machine."""
    lock = modules.Lock()
    if modules.noted():
        say("An earlier run was killed.")
        modules.back(say)
    facts = host.facts()
    plan(args, facts)
    problems = host.problems(args)
    if problems:
        raise Error("qualify cannot run here:\n" + "\n".join(problems))
    ask(args)
    folder = make_folder()
    done = []

    def undo():
        modules.back(say, lambda name: stop_at(args, name))
        done.append(True)

    try:
        work = Work(args, folder, facts)
        status = guard.run(work.run, undo, args.deadline, say)
        if not os.path.exists(work.results):
            return status or 1
        if status:
            say("there is no report")
            return status
        return report(args, facts, work.results, bool(done))
    finally:
        if args.stop_at or os.environ.get("PV_PERF_KEEP"):
            for name in ("console", "log", "results.json"):
                if os.path.exists(os.path.join(folder, name)):
                    shutil.copy(os.path.join(folder, name), f"{args.o}.{name}")
        shutil.rmtree(folder, ignore_errors=True)
        lock.file.close()


def run(args):
    if args.compare:
        return output.compare(*args.compare)
    if args.table is not None:
        return output.table(args.table)
    if args.build:
        os.makedirs(args.build, exist_ok=True)
        build.build(args.release, args.build)
        return 0
    check_names(args)
    if os.geteuid():
        raise Error("only root may replace KVM's modules and write their options",
                    "run this as root")
    if args.install:
        return evidence.install(args.install)
    if args.back:
        lock = modules.Lock()
        modules.back(say)
        lock.file.close()
        return 0
    if not re.fullmatch(r"[\w./ -]+", args.o):
        raise Error(f"-o {args.o}: use letters, digits, blanks and these: . / - _")
    return qualify(args)
