# SPDX-License-Identifier: GPL-2.0
"""pv-perf record: runs perf on the host and in guests at the same time, to a folder."""
import argparse
import fnmatch
import os
import re
import shutil
import subprocess
import sys
import time
import types

from pvperf.error import Error
from pvperf.record import folder, vmm
from pvperf.record.domain import PATIENCE, Domain, each
from pvperf.record.events import Events
from pvperf.record.session import Session, say
from pvperf.record.transport.common import Local

HELP = """record host and guests at the same time (takes as long as COMMAND, and some
seconds)"""

DESCRIPTION = """Samples events on this host, as root, and in guests at the same
time, as perf record does, while COMMAND runs, for --seconds, or until Ctrl-C. pv-perf
report reads the result in DIR. Guests need perf and the driver of the pair. pv-perf
reaches them by QEMU's guest agent or by ssh. If pv-perf cannot record a guest, it says
why, and records the others."""


# Types of events (PERF_TYPE_*) for which the kernel ignores exclude_host and exclude_guest:
# the host's perf samples guests' time as the host's.
OF_THE_KERNEL = {1: "software", 2: "a tracepoint", 5: "a breakpoint"}


# The status of --strict if a machine was not recorded whole.  Commands seldom use it.
STRICT_STATUS = 125
# A rate that guests, too, can afford.
DEFAULT_HZ = 199


# The bytes of the stack that perf copies with --call-graph dwarf, and the largest number.
STACK, MOST_STACK = 8192, 65528


def call_graph(word):
    """perf's argument of --call-graph."""
    match = re.fullmatch(r"fp|lbr|dwarf(?:,(\d{1,5}))?", word)
    size = int(match[1] or STACK) if match else 0
    if not match or not 8 <= size <= MOST_STACK or size % 8:
        raise argparse.ArgumentTypeError(
            f"{word!r} is not fp, lbr, dwarf or dwarf,BYTES with BYTES a multiple of 8, at "
            f"most {MOST_STACK}")
    return f"dwarf,{size}" if word.startswith("dwarf") else word


def add_command(commands):
    parser = commands.add_parser(
        "record", help=HELP, description=DESCRIPTION,
        usage="pv-perf record [options] [-- COMMAND...]")
    a = parser.add_argument
    a("-e", metavar="EVENTS", action="append",
      help="the events to sample on all machines, as for perf record, also groups: "
      "'{cycles,instructions}:S'; repeat it for more (default: cycles); the hypervisor's "
      "events, such as kvm/exits/, are sampled only in guests")
    a("--guest-event", metavar="EVENTS", action="append", default=[],
      help="events to sample only in guests; repeat it for more")
    rate = parser.add_mutually_exclusive_group()
    rate.add_argument("-F", metavar="HZ", type=int,
                      help="samples per second and CPU "
                      f"(default: {DEFAULT_HZ})")
    rate.add_argument("-c", metavar="N", type=int,
                      help="take a sample after each N events")
    chains = parser.add_mutually_exclusive_group()
    chains.add_argument("-g", action="store_const", const="fp", dest="call_graph",
                        help="record call chains, by frame pointers")
    chains.add_argument(
        "--call-graph", metavar="HOW", type=call_graph,
        help="record call chains: fp, as -g; dwarf or dwarf,BYTES, for programs without "
        "frame pointers, by a copy of BYTES of the stack in each sample (default: "
        f"{STACK}); lbr, by the branches that Intel's CPUs record")
    a("--vm", metavar="NAME", action="append", default=[],
      help="a guest: a domain of libvirt, NAME@URI if several URIs have that name, "
      "or ssh:[USER@]HOST, where USER is root or may use sudo; repeat it for more")
    a("--passive", metavar="NAME", action="append", default=[],
      help="a guest without agent and driver, which the host samples: a domain "
      "of libvirt, or pid:PID, where PID is its VMM")
    a("--all", action="store_true",
      help="all running domains of libvirt: a domain with agent and driver as --vm, any "
      "other as --passive")
    a("--only", metavar="PATTERN", action="append", default=[],
      help="with --all: only domains whose name matches the shell pattern; repeat it for "
      "more")
    a("--except", metavar="PATTERN", action="append", default=[], dest="excepted",
      help="with --all: no domains whose name matches; repeat it for more")
    a("--symbols", metavar="NAME=FILE", action="append", default=[],
      help="the System.map or kallsyms of a passive guest")
    a("--connect", metavar="URI", action="append", default=[],
      help="URI of libvirt (default: qemu:///system); repeat it for more")
    a("--seconds", metavar="S", type=float, help="length of the session")
    a("--limit", metavar="MB", type=int, default=1024,
      help="how much perf may store on each machine, and how much each guest may send "
      "(default: 1024)")
    a("--patience", metavar="S", type=float, default=PATIENCE,
      help="how long a machine may take to start or stop; then the others go on "
      f"without it (default: {PATIENCE})")
    a("--strict", action="store_true",
      help="do not begin if a machine cannot be recorded, and end with status "
      f"{STRICT_STATUS} if a machine was not recorded whole")
    a("-o", metavar="DIR", help="the folder of the session (default: pv-perf-TIME)")
    a("command", nargs="*", metavar="COMMAND", help="runs while the session records")
    parser.set_defaults(run=run)


def find_libvirt(args):
    """The connections to libvirt, if the arguments need them."""
    if not args.all and all(re.match(r"ssh:|pid:", n) for n in args.vm + args.passive):
        return []
    from pvperf.record.transport import libvirt
    return [libvirt.Connection(uri)
            for uri in args.connect or [libvirt.DEFAULT_URI]]


def find_domain(connections, name, kind):
    """The Domain of a libvirt domain with this name."""
    from pvperf.record.transport import libvirt
    return make_domain(*libvirt.find(connections, name), kind)


def make_domain(connection, found, kind):
    from pvperf.record.transport import libvirt
    domain = Domain(found.name(), kind,
                    libvirt.Agent(*connection.another(found))
                    if kind == "guest" else None, connection.uri)
    domain.uuid = found.UUIDString()
    if not connection.is_active(found):
        domain.fail("it does not run")
    elif connection.is_local():
        domain.pid = vmm.of_uuid(domain.uuid)
    if domain.pid:
        domain.vcpus = vmm.vcpus(domain.pid)
    elif kind == "passive":
        domain.fail("its VMM is not on this host")
    return domain


def is_wanted(name, args):
    """Does --all include this name, by --only and --except?"""
    def matches(patterns):
        return any(fnmatch.fnmatchcase(name, p) for p in patterns)

    return (not args.only or matches(args.only)) and not matches(args.excepted)


def find_all(connections, args, given):
    """(guests, passive guests, names that are left out) of the running domains.  given: the
    UUIDs of domains to skip."""
    found, left_out = [], []
    for connection in connections:
        for domain in connection.running():
            if domain.UUIDString() in given:
                continue
            if is_wanted(domain.name(), args):
                found.append((connection, domain))
            else:
                left_out.append(domain.name())
    probed = {make_domain(c, d, "guest"): (c, d) for c, d in found}
    for domain in probed:
        domain.patience = args.patience
    each([d for d in probed if d.ok()], Domain.probe, args.patience)
    guests, passive = [], []
    for domain, (connection, of_libvirt) in probed.items():
        if domain.ok():
            guests.append(domain)
            continue
        domain.transport.close()
        why = domain.status
        other = make_domain(connection, of_libvirt, "passive")
        if other.ok():
            passive.append(other)
            say(f"{other.name}: passive, because it cannot record itself: {why}")
        else:
            left_out.append(other.name)
            say(f"{other.name}: left out: {why}; {other.status}")
    return guests, passive, left_out


def find_guest(connections, name):
    if name.startswith("ssh:"):
        from pvperf.record.transport.ssh import Ssh
        # ssh also takes ssh://USER@HOST:PORT.
        host = name if name.startswith("ssh://") else name.removeprefix("ssh:")
        return Domain(host.rpartition("@")[2].removeprefix("ssh://"), "guest",
                      Ssh(host), name)
    return find_domain(connections, name, "guest")


def find_passive(connections, name):
    if not name.startswith("pid:"):
        return find_domain(connections, name, "passive")
    number = name.removeprefix("pid:")
    if not number.isdigit() or not os.path.exists(f"/proc/{number}"):
        raise Error(f"--passive {name}: there is no such process",
                    "give the PID of the VMM")
    domain = Domain(name, "passive")
    domain.pid = int(number)
    domain.vcpus = vmm.vcpus(domain.pid)
    return domain


def make_unique(domains):
    """Gives each domain a name of its own."""
    taken = {"host"}
    for d in domains:
        name, n = d.name, 1
        while d.name in taken:
            n += 1
            d.name = f"{name}@{d.connect}" if n == 2 else f"{name} {n}"
        taken.add(d.name)


def check(args):
    if os.geteuid():
        raise Error("only root may record the host and its guests",
                    "run this as root")
    if not shutil.which("perf"):
        raise Error("there is no perf", "apt install linux-perf")
    if (args.only or args.excepted) and not args.all:
        raise Error("--only and --except are for --all")
    for value, name in ((args.F, "-F"), (args.c, "-c"), (args.limit, "--limit"),
                        (args.seconds, "--seconds"),
                        (args.patience, "--patience")):
        if value is not None and not value > 0:
            raise Error(f"{name} {value}: the value must be more than 0")
    if args.command and args.seconds:
        raise Error("COMMAND and --seconds each give the length of the session",
                    "give one of them")
    if args.command and not shutil.which(args.command[0]):
        raise Error(f"there is no command {args.command[0]}")


def type_of(event):
    """The event's perf_event_attr.type, as perf shows it; 0 for a wrong event."""
    result = subprocess.run(
        ["perf", "stat", "-vv", "-e", event, "--", "true"], capture_output=True,
        text=True, errors="replace", stdin=subprocess.DEVNULL,
        env={**os.environ, "LC_ALL": "C", "PERF_CONFIG": "/dev/null"})
    # perf 6.1 leaves out fields that are 0.
    match = re.search(r"^ +type +(\d+)", result.stderr, re.M)
    return int(match[1]) if match else 0


def check_event(event, passive, local):
    """Can the kernel tell a guest's code from the host's by this event?  Raises Error if the
    session needs this."""
    kind = OF_THE_KERNEL.get(type_of(event))
    if kind and local:
        raise Error(f"-e {event}: it is {kind}, with which the host counts guests' time "
                    f"as its own: the time of {', '.join(local)} would count twice",
                    f"-e cycles, or another hardware event; --guest-event {event}; or no --vm")
    if kind and passive:
        raise Error(f"-e {event}: it is {kind}, which does not tell a guest's code "
                    "from the host's, as --passive needs",
                    "-e cycles, or another hardware event")
    return not kind


def check_events(events, passive, local):
    """Checks all of the host's events, and raises Error for the first that cannot be used."""
    can_tell = [check_event(event, passive, local) for event in events.names(events.host)]
    return all(can_tell)


def options_of(args, events, hardware, passive, left_out):
    frequency = None if args.c else args.F or DEFAULT_HZ
    chains = args.call_graph
    return types.SimpleNamespace(
        described=events.describe(args.c, frequency), events=events,
        host_arguments=events.of_host(passive, chains), hardware=hardware,
        callgraph=chains, rate=(["-c", str(args.c)] if args.c else ["-F", str(frequency)]) +
        (["--call-graph", chains] if chains else []), limit=args.limit,
        patience=args.patience, seconds=args.seconds, command=args.command,
        strict=args.strict, left_out=left_out)


def warn_of_stacks(chains, frequency, limit):
    """Says how soon copies of stacks may fill the room for them."""
    if chains and chains.startswith("dwarf") and frequency:
        rate = int(chains.partition(",")[2]) * frequency / 1e6
        say(f"copies of stacks take up to {rate:.1f} MB per second and CPU, and perf ends at "
            f"--limit {limit} MB")


def find_symbols(args, passive):
    """Sets the symbols of passive guests to the files of --symbols."""
    by_word = {**{d.name: d for d in passive},
               **dict(zip(args.passive, passive))}
    for word in args.symbols:
        name, _, path = word.rpartition("=")
        if name not in by_word:
            raise Error(f"--symbols {word}: there is no --passive {name or 'NAME'}",
                        "--passive NAME --symbols NAME=FILE")
        if not os.path.isfile(path):
            raise Error(f"--symbols {word}: there is no such file")
        by_word[name].symbols = path


def run(args):
    check(args)
    session = record(args, Events(args.e or ["cycles"], args.guest_event))
    print(f"{session.path}: {session.ended - session.began:.1f} s of "
          f"{len(session.recording)} machines", file=sys.stderr)
    return STRICT_STATUS if args.strict and session.ill() else session.status


def record(args, events):
    """Records a session; returns the Session."""
    if args.passive or args.all:
        check_events(events, True, [])
    connections = find_libvirt(args)
    guests = [find_guest(connections, n) for n in args.vm]
    passive = [find_passive(connections, n) for n in args.passive]
    find_symbols(args, passive)
    left_out = []
    if args.all:
        more = find_all(connections, args, {d.uuid for d in guests + passive})
        guests, passive, left_out = guests + more[0], passive + more[1], more[2]
        if not guests + passive:
            raise Error("--all: no running domain can be recorded",
                        "see virsh list, and --only and --except")
    make_unique(guests + passive)
    if events.only_guests and not guests:
        raise Error("no guest of the session records itself, and these events are of guests: "
                    + ", ".join(events.names(events.only_guests)), "--vm NAME")
    # Counts, unlike samples, need not tell guests' time from the host's.
    hardware = check_events(events, passive, [] if events.timer
                            else [d.name for d in guests if d.pid])
    options = options_of(args, events, hardware, passive, left_out)
    warn_of_stacks(args.call_graph, options.described[0][2], args.limit)
    path = folder.create(args.o or time.strftime("pv-perf-%Y%m%d-%H%M%S"))
    host = Domain("host", "host", Local())
    try:
        session = Session(options, path, host, guests, passive)
        if not session.run():
            raise Error("nothing was recorded" +
                        ("" if host.ok() else f": {host.status}"),
                        status=STRICT_STATUS if session.must_not_begin() else 1)
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        raise
    return session
