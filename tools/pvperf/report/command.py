# SPDX-License-Identifier: GPL-2.0
"""pv-perf report: says where the time of a host and its guests went."""
import argparse
import contextlib
import fnmatch
import os
import re
import sys

from pvperf.error import Error
from pvperf.report import reader
from pvperf.report.accounts import Accounts
from pvperf.report.event import plain
from pvperf.report.input import debug
from pvperf.report.input.kallsyms import Kallsyms
from pvperf.report.input.recorded import Session
from pvperf.report.output import data, file, firefox, flamegraph, folded, \
    perfetto, pprof, table, trace
from pvperf.text import file_name, printable

HELP = """say where the time of a host and its guests went in a session of pv-perf
record (takes minutes for a session of an hour)"""

DESCRIPTION = """Says where the time of a host and its guests went: by domain (the
host's kernel, the VMMs, each guest's kernel and user mode), by process and by
function, in events and in percent of all that the CPUs counted. Time without samples
has its own lines. ~ marks numbers that may be wrong; the reason is below the tables.
DIR is a session of pv-perf record."""


def add_command(commands):
    parser = commands.add_parser("report", help=HELP, description=DESCRIPTION)
    a = parser.add_argument
    a("--top", metavar="N", type=count, help="show at most N processes and functions, "
      "0 for all (default: 20; with --json and --csv 0)")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the tables as one "
                      "object of JSON")
    form.add_argument("--csv", action="store_true", help="print the tables as CSV, all "
                      "with the same columns")
    a("--inclusive", action="store_true", help="if there are call chains, sort functions "
      "by their events together with those of all functions that they called")
    a("--threads", action="store_true", help="tell the threads of each process apart")
    a("--flamegraph", metavar="FILE.html", help="a page with a flame graph: "
      "domain, process, stack")
    a("--timeline", metavar="FILE.pftrace", help="host and guests over time, on "
      "the host's clock, for https://ui.perfetto.dev; if FILE ends with .json or "
      ".json.gz, for chrome://tracing as well, but much larger")
    a("--firefox", metavar="FILE.json", help="the samples over time, for "
      "https://profiler.firefox.com; with gzip if FILE ends with .gz")
    a("--folded", metavar="FILE", help="folded stacks, for flamegraph.pl and others")
    a("--event", metavar="EVENT", help="the event to report, if the session has several "
      "(default: the first)")
    a("--time", metavar="FROM-TO", type=part, help="only samples of this time, in "
      "seconds since the beginning of the session")
    a("--vm", metavar="NAME", action="append", default=[], help="only this VM: the "
      "guest, its VMM, and what the host did for it; repeat it for more")
    a("--comm", metavar="NAME", action="append", default=[], help="only processes of "
      "this name; * matches anything; repeat it for more")
    a("--pprof", metavar="FILE.pb.gz", help="a profile for pprof and other "
      "readers of profile.proto, with the labels domain, vm, vcpu and process")
    a("--kallsyms", metavar="NAME=FILE", action="append", default=[],
      help="the symbols of the kernel of a guest that has not sampled itself: "
      "its /proc/kallsyms, or System.map (default: DIR/NAME.kallsyms)")
    a("--debug", metavar="DIR", action="append", default=[],
      help=f"a folder with debug symbols by build ID, DIR/.build-id/... (also: "
      f"{debug.FOLDER}, and debuginfod if DEBUGINFOD_URLS is set)")
    a("--limit", metavar="MB", type=count, default=64 << 10, help="read at "
      "most MB of each domain's samples, unpacked (default: 65536)")
    a("dir", metavar="DIR", help="the session")
    parser.set_defaults(run=run)


def count(word):
    if not re.fullmatch(r"\d{1,9}", word):
        raise argparse.ArgumentTypeError(f"{word!r} is not a number of at least 0")
    return int(word)


def part(word):
    match = re.fullmatch(r"(\d+(?:\.\d+)?)?-(\d+(?:\.\d+)?)?", word)
    result = (float(match[1] or 0), float(match[2] or "inf")) if match else ()
    if not result or result[0] >= result[1]:
        raise argparse.ArgumentTypeError(f"{word!r} is not of the form 1.5-2")
    return result


def read_kallsyms(session, given):
    """{name: Kallsyms} of the guests that have not sampled themselves."""
    passive = [d for d in session.domains
               if d.kind != "host" and not d.samples]
    paths = {}
    for domain in passive:
        # Files that pv-perf record or the user has put there.
        base = file_name(domain.name)
        for name in (domain.symbols, f"{base}.kallsyms", f"{base}.System.map"):
            path = os.path.join(session.folder, name or "")
            if name and os.path.exists(path):
                paths.setdefault(domain.name, path)
    for word in given:
        name, _, path = word.rpartition("=")
        if name not in [d.name for d in passive]:
            raise Error(
                f"--kallsyms {word}: there is no guest {name!r} that has not "
                "sampled itself", "NAME=FILE; there are: " +
                (", ".join(d.name for d in passive) or "none"))
        paths[name] = path
    return {name: Kallsyms(path) for name, path in paths.items()}


class Only:
    """The part of a session that the user wants.  All outputs have only this part."""

    def __init__(self, args, session):
        self.time, self.vms, self.comms = args.time, args.vm, args.comm
        names = [d.name for d in session.domains if d.kind != "host"]
        for name in args.vm:
            if name not in names:
                raise Error(f"--vm {printable(name)}: there is no such guest in "
                            f"{session.folder}", ", ".join(names) or
                            "the session has only the host")

    def __bool__(self):
        return bool(self.time or self.vms or self.comms)

    def in_time(self, time):
        """Is a time wanted?  time: in seconds since the session's start."""
        return not self.time or self.time[0] <= time <= self.time[1]

    def wants(self, group):
        """Are the samples of a Group wanted?"""
        if self.vms and group.vm not in self.vms:
            return False
        names = [group.process, group.process.removesuffix(f" ({group.vm})")]
        return not self.comms or any(
            fnmatch.fnmatchcase(name, pattern)
            for name in names for pattern in self.comms)

    def note(self):
        """A note about the part, for the outputs."""
        words = [f"--time {self.time[0]:g}-{self.time[1]:g}"] if self.time else []
        words += [f"--vm {printable(v)}" for v in self.vms]
        words += [f"--comm {printable(c)}" for c in self.comms]
        return f"only a part of the session, which is 100 percent: {' '.join(words)}; " \
            "events that were lost, or not sampled, are not in it"


class Options:
    """The parts of samples files that the outputs need."""

    def __init__(self, args, session):
        self.only = Only(args, session)
        self.stacks = bool(args.flamegraph or args.pprof or args.folded or
                           session.callgraph)
        self.vcpus, self.threads = bool(args.pprof), args.threads
        self.limit = args.limit << 20
        self.kallsyms = read_kallsyms(session, args.kallsyms)
        self.finder = debug.Finder(args.debug)


class Files:
    """The files that the report writes, apart from the tables."""

    def __init__(self, args, session, shares, stack, only):
        def create(path, packed=False):
            return stack.enter_context(file.create(path, packed))

        paths = [p for p in (args.flamegraph, args.pprof, args.folded, args.timeline,
                             args.firefox) if p]
        if len({os.path.realpath(p) for p in paths}) < len(paths):
            raise Error("two outputs have the same name", "give each a file of its own")
        # A writer in profiles takes each Profile, a writer in streams takes each sample.
        self.profiles, self.streams = [], []
        if args.flamegraph:
            self.profiles.append(flamegraph.Writer(create(args.flamegraph),
                                                   session, shares))
        if args.pprof:
            self.profiles.append(pprof.Writer(create(args.pprof, True),
                                              session))
        if args.folded:
            self.profiles.append(folded.Writer(create(args.folded)))
        if args.timeline:
            sink = trace.Json if re.search(r"\.json(\.gz)?$", args.timeline) \
                else perfetto.Sink
            self.streams.append(trace.Writer(sink(
                create(args.timeline, args.timeline.endswith(".gz")), session),
                                             session, only))
        if args.firefox:
            self.streams.append(firefox.Writer(
                create(args.firefox, args.firefox.endswith(".gz")), session, shares))

    def add(self, profile):
        for writer in self.profiles:
            writer.add(profile)

    def close(self, accounts, others, notes):
        for stream in self.streams:
            stream.close(notes)
        for writer in self.profiles:
            writer.close([accounts, others], notes)


def read_all(session, options, files):
    """(Accounts of this host, Accounts of other hosts)"""
    domains = [d for d in session.domains if d.samples]
    if not domains:
        raise Error(f"{session.folder} has no samples: " + "; ".join(
            f"{d.title()}: {d.status}" for d in session.domains[:10]),
            "pv-perf record says what to do while it runs")
    accounts = Accounts(session, len(domains),
                        [d for d in session.domains if not d.is_elsewhere()])
    others = Accounts(session, len(domains),
                      [d for d in session.domains if d.is_elsewhere()])
    for domain in domains:
        profile = reader.read(session, domain, len(domains), options,
                              files.streams)
        (others if domain.is_elsewhere() else accounts).add(profile)
        files.add(profile)
        # Free the memory before the next Profile.
        del profile
    accounts.close(session.counted, options.only)
    others.close(None, options.only)
    if not accounts.areas and not others.areas:
        raise Error(f"{session.folder} has no sample of {session.event}: " +
                    "; ".join(notes_of(session, accounts)[:10]))
    return accounts, others


def notes_of(session, accounts):
    notes = ["the session was interrupted"] if session.interrupted else []
    others = [e.name for e in session.events if plain(e.name) in session.others]
    if others:
        notes.append(f"the session has more events, for --event: {', '.join(others)}")
    for domain in session.domains:
        notes += [f"{domain.title()}: {n}" for n in domain.notes]
        if domain.lost:
            notes.append(f"{domain.title()}: perf has lost {domain.lost:,} "
                         "samples")
    return notes + accounts.doubts


def headline(session):
    how = f"every {session.period:,}" if session.period else \
        f"{session.frequency:,g} Hz" if session.frequency else "counted with its group"
    return f"{session.began}, {session.seconds:,.1f} s: {session.event}, " \
        f"{how}; host {session.host_name}, {session.cpus or '?'} CPUs, " \
        f"Linux {session.kernel}"


def show(text):
    """Prints.  Names may not fit the locale, and the reader may close the pipe early."""
    sys.stdout.reconfigure(errors="replace")
    try:
        print(text, end="", flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run(args):
    try:
        lines = [*report(args), ""]
    except KeyboardInterrupt:
        raise Error("interrupted: nothing is written") from None
    show("\n".join(lines))
    return 0


def read(folder, args):
    """(Session, Accounts of this host, Accounts of other hosts, notes); writes no file."""
    session = Session(folder, args.event)
    options = Options(args, session)
    accounts, others = read_all(session, options, Files(args, session, 1, None, None))
    return session, accounts, others, \
        [options.only.note()] * bool(options.only) + notes_of(session, accounts)


def report(args):
    """Writes the files; returns the parts of the text to print."""
    session = Session(args.dir, args.event)
    options = Options(args, session)
    shares = sum(bool(d.samples) for d in session.domains) or 1
    with contextlib.ExitStack() as stack:
        files = Files(args, session, shares, stack, options.only)
        accounts, others = read_all(session, options, files)
        notes = [options.only.note()] * bool(options.only)
        notes += notes_of(session, accounts)
        if options.finder.too_large:
            notes.append(f"debug symbols of {options.finder.too_large:,} files are not read: "
                         f"the symbols of all files may have {debug.SIZE >> 20} MB")
        notes += [f"{printable(k.path)}: {k.outside:,} of the kernel's "
                  "addresses are in none of its functions"
                  for k in options.kallsyms.values() if k.outside]
        files.close(accounts, others, notes)
    if args.json:
        return [data.as_json(session, accounts, others, notes, args)]
    if args.csv:
        return [data.as_csv(accounts, others, args)]
    return [headline(session), table.report(accounts, others, args),
            *([""] if notes else []), *(f"- {n}" for n in notes)]
