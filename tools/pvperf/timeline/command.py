# SPDX-License-Identifier: GPL-2.0
"""pv-perf timeline: draws events over time, and shows which events rise together."""
import argparse
import os
import signal
import subprocess
import sys
import tempfile

from pvperf.error import Error
from pvperf.record import command as record
from pvperf.record.domain import PATIENCE
from pvperf.record.events import Events
from pvperf.text import printable
from pvperf.timeline import machines, series

EVENTS = "cycles,instructions,cache-misses,branch-misses"
# How many charts a page has.  A picture has at most 65,536 lines of pixels.
MOST = 200

HELP = """draw events over time, and show which events rise and fall together: runs COMMAND
under perf stat -I, counts this host and guests, or reads perf's output in each FILE (takes as
long as COMMAND, and some seconds)"""

DESCRIPTION = """Draws events over time, one below another, and shows how they
correlate: which events rise and fall together. Runs COMMAND under perf stat, or reads
FILE: the output of perf stat -I with -j or -x, or the file of perf record with a group
that is sampled (-e '{cycles,cache-misses}:S'). Draws several FILEs over each other, and
compares each FILE's correlations with the first FILE's. With --vm, as root, counts this
host and guests at the same time, and draws them over each other, on the host's clock. Writes
a web page that needs no other file, and with --png a picture."""


def add_command(commands):
    parser = commands.add_parser(
        "timeline", help=HELP, description=DESCRIPTION,
        usage="pv-perf timeline [options] -- COMMAND...\n"
              "       pv-perf timeline [options] --vm NAME [-- COMMAND...]\n"
              "       pv-perf timeline [options] [NAME=]FILE...")
    a = parser.add_argument
    a("-e", metavar="EVENTS",
      help=f"events to count, as for perf stat (default: {EVENTS})")
    a("-I", metavar="MS", type=int,
      help="length of an interval, in ms, at least 1 (default: 100)")
    a("-a", action="store_true", help="count all CPUs, not only COMMAND")
    a("--vm", metavar="NAME", action="append", default=[],
      help="count all CPUs of this host and of a guest, as pv-perf record reaches it: a domain "
      "of libvirt, or ssh:[USER@]HOST; repeat it for more; events of the hypervisor, such as "
      "kvm/exits/, are counted in guests")
    a("--connect", metavar="URI", action="append", default=[],
      help="with --vm: URI of libvirt (default: qemu:///system); repeat it for more")
    a("--seconds", metavar="S", type=float, help="with --vm and without COMMAND: the time")
    a("-o", metavar="FILE.html", default="timeline.html",
      help="the page (default: timeline.html)")
    a("--png", metavar="FILE.png", help="the picture")
    a("--title", help="the title of page and picture (default: COMMAND, or FILEs)")
    a("what", nargs="*", metavar="FILE | COMMAND",
      help="COMMAND after --, or one or more FILEs; with NAME=FILE, the page shows NAME")
    parser.set_defaults(run=run)


def count(args, file):
    """Runs a command under perf stat, which writes to file."""
    command = ["perf", "stat", "-j", "-I", str(args.I), "-e", args.e,
               *(["-a"] if args.a else []), "--log-fd", str(file.fileno()),
               "--", *args.what]
    print(f"pv-perf: {' '.join(args.what)} runs; Ctrl-C ends it, and pv-perf draws the "
          "counts until then", file=sys.stderr, flush=True)
    try:
        perf = subprocess.Popen(command, pass_fds=[file.fileno()])
    except FileNotFoundError:
        raise Error("there is no perf", "apt install linux-perf") from None
    try:
        status = perf.wait()
    except KeyboardInterrupt:
        # perf has got SIGINT, too, and writes the counts until now.
        status = perf.wait()
    except SystemExit:
        # perf ends when the command ends.
        with open(f"/proc/{perf.pid}/task/{perf.pid}/children") as f:
            for pid in f.read().split():
                os.kill(int(pid), signal.SIGTERM)
        raise
    if not os.fstat(file.fileno()).st_size:
        raise Error(f"perf stat ended with {status} and has counted nothing",
                    f"try it: {' '.join(command[:-len(args.what)])} true")


def is_command():
    return "--" in sys.argv[1:]


def split(word):
    """(NAME, FILE) of [NAME=]FILE."""
    name, equals, path = word.partition("=")
    if equals and name and not os.path.exists(word):
        return printable(name), path
    return printable(word), word


def count_machines(args):
    """Counts host and guests; returns ([Run], notes)."""
    command = args.what if is_command() else []
    if args.what and not command:
        raise Error("--vm counts now, and reads no FILE", "--vm NAME -- COMMAND")
    with tempfile.TemporaryDirectory(prefix="pv-perf-timeline.") as place:
        found = argparse.Namespace(
            vm=args.vm, connect=args.connect, seconds=args.seconds, command=command,
            c=args.I * 10**6, F=None, call_graph=None, passive=[], all=False, only=[],
            excepted=[], symbols=[], limit=1024, patience=PATIENCE, strict=False,
            o=os.path.join(place, "session"))
        record.check(found)
        session = record.record(found, Events([args.e], [], found.c))
        return machines.read(session.path, args.I / 1000)


def check(args):
    """Refuses options that would have no effect."""
    if not args.vm and (args.connect or args.seconds is not None):
        raise Error("--connect and --seconds are for --vm")
    if args.a and (args.vm or not is_command()):
        raise Error("-a is for COMMAND without --vm")
    if not args.vm and not is_command() and (args.e is not None or args.I is not None):
        raise Error("-e and -I say how to count, and a FILE is counted already")
    args.e = EVENTS if args.e is None else args.e
    args.I = 100 if args.I is None else args.I
    if args.I < 1:
        raise Error(f"-I {args.I}: an interval has at least 1 ms")


def take(args):
    """(title, [Run], notes)"""
    if not args.what and not args.vm:
        raise Error("there is nothing to draw", "-- COMMAND, --vm NAME, or FILE")
    check(args)
    if args.vm:
        runs, notes = count_machines(args)
        for note in notes:
            print(f"pv-perf: {note}", file=sys.stderr)
        return printable(args.title or " ".join(args.what) or
                         ", ".join(run.name for run in runs)), runs, notes
    if not is_command():
        files = [split(word) for word in args.what]
        names = [name for name, _ in files]
        for name in names:
            if names.count(name) > 1:
                raise Error(f"there are two FILEs of the name {name}",
                            "give each FILE its own name: NAME=FILE")
        return (printable(args.title or ", ".join(names)),
                [series.Run(name, series.read(path)) for name, path in files], [])

    # A file without a name, so that nobody has to remove it.
    with tempfile.TemporaryFile() as f:
        count(args, f)
        title = printable(args.title or " ".join(args.what))
        return title, [series.Run(title, series.read(f"/proc/self/fd/{f.fileno()}"))], []


def run(args):
    try:
        # Only here: this import is slow.
        from pvperf.timeline import draw
    except ModuleNotFoundError as error:
        raise Error(f"there is no {error.name}",
                    "apt install python3-matplotlib") from None
    title, runs, notes = take(args)
    if len(series.names(runs)) > MOST:
        raise Error(f"there are {len(series.names(runs)):,} events, and a page shows {MOST}",
                    "count fewer events, or without perf stat's -A")
    draw.write_page(title, runs, args.o, notes)
    written = [args.o]
    if args.png:
        draw.write_picture(title, runs, args.png)
        written.append(args.png)
    print(f"{', '.join(written)}: {len(series.names(runs))} events, "
          f"{sum(series.length(r) for r in runs)} intervals")
    for one in runs:
        for s in one.series:
            if s.scaled() or s.missing():
                print(f"{f'{one.name}: ' if len(runs) > 1 else ''}{s.name}: "
                      f"{s.scaled()} intervals are perf's estimate, "
                      f"{s.missing()} were not counted")
    return 0
