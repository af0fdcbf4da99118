# SPDX-License-Identifier: GPL-2.0
"""Reads a samples file, once, into a Profile; notes which numbers may be wrong."""
import sys

from pvperf.report.input.lines import Lines
from pvperf.report.input.script import DEPTH, Parser
from pvperf.report.profile import Profile

# Samples between two updates of the progress.
STEP = 50000

# The notes of a Profile: may the tables' numbers be wrong, and the text.
COUNTED = {
    "other": (False, "samples of other events, left out: {}"),
    "impossible": (True, "samples with more events than the CPUs can count, left "
                   "out: {}"),
    "period": (True, "samples with another period than the session's: {}"),
    "outside": (False, "samples from outside the time when all domains recorded, left "
                "out: {}"),
    "twice": (True, "samples of one thread at one time, which perf record may have "
              "written twice: {}"),
    "back": (False, "samples that go back in time: {}"),
    "double": (False, "samples of guests that have sampled themselves, left "
               "out: {}"),
    "untimed": (False, "its clock is not known, so that --time leaves out its samples: {}"),
    "processes": (False, "there are too many processes: samples counted as "
                  "[others]: {}"),
}


class Progress:
    """Prints on a terminal how much of the file is read."""

    def __init__(self, lines, title):
        self.lines, self.title = lines, title
        self.shown = sys.stderr.isatty()

    def say(self):
        if self.shown:
            print(f"\rpv-perf: {self.title}: {100 * self.lines.done():.0f} % ",
                  end="", file=sys.stderr, flush=True)

    def end(self):
        if self.shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def read(session, domain, shares, options, streams):
    """The Profile of a domain's own samples.  options: as for Profile, and limit.  Gives
    each sample to each of streams."""
    profile = Profile(session, domain, shares, options)
    lines = Lines(session.path(domain), options.limit)
    parser = Parser(lines, profile.frames.intern)
    progress = Progress(lines, domain.title())
    until = 0
    for sample in parser:
        number = profile.add(sample)
        for stream in streams:
            stream.add(profile, sample, number)
        until -= 1
        if until < 0:
            until = STEP
            progress.say()
    progress.end()
    explain(profile, lines, parser, streams)
    return profile


def explain(profile, lines, parser, streams):
    """Adds to the domain's notes.  A note with a doubt marks the domain's numbers."""
    domain = profile.domain
    unread = parser.unread + lines.too_long
    for wrong, doubt, text in (
            (lines.problem, True, f"{domain.samples}: {lines.problem}"),
            (unread, True, f"lines that are not of pv-perf record: {unread:,}"),
            (parser.stopped, True, "the rest is not read, because of these lines"),
            (parser.cut, False,
             f"addresses left out, of stacks with more than {DEPTH} addresses: "
             f"{parser.cut:,}"),
            (profile.frames.dropped, False,
             f"there are more functions than there is memory for: [other symbols] "
             f"replaces functions {profile.frames.dropped:,} times"),
            (profile.tree and profile.tree.cut, False,
             f"there are more stacks than there is memory for: in "
             f"{profile.tree.cut if profile.tree else 0:,} samples, [more] is the "
             "rest of the stack")):
        if wrong:
            note(domain, doubt, text)
    explain_symbols(profile)
    for key, count in profile.notes.items():
        doubt, text = COUNTED[key]
        note(domain, doubt, text.format(f"{count:,}"))
    if domain.clock is None and profile.session.window:
        note(domain, True, "its clock is not known: its samples from outside the time "
             "when all domains recorded are not left out")
    for stream in streams:
        if stream.cut[domain.title()]:
            note(domain, False, f"{stream.WHAT}; --time writes another part; "
                 f"samples left out: {stream.cut[domain.title()]:,}")
    if streams and domain.kind == "guest":
        explain_clock(domain)


def explain_symbols(profile):
    """Notes which files had no symbols, and how to get the symbols."""
    domain, frames = profile.domain, profile.frames
    if domain.maps and profile.maps.problem:
        note(domain, False, f"{domain.maps}: {profile.maps.problem}")
    missing = {}
    for frame, (place, _) in frames.places.items():
        missing.setdefault(place.build_id, frames.objects[frame])
    if missing:
        note(domain, False, "no symbols of " + ", ".join(
            f"{where} (build ID {build_id})"
            for build_id, where in list(missing.items())[:5]) +
            (f" and {len(missing) - 5:,} more" if len(missing) > 5 else "") +
            ": give their debug symbols (--debug, DEBUGINFOD_URLS)")


def note(domain, doubt, text):
    domain.notes.append(text)
    domain.doubtful |= doubt


def explain_clock(domain):
    clock = domain.clock
    if clock is None:
        note(domain, False, "its clock is not known: it is not in the timeline")
        return
    note(domain, False, "its times are converted to the host's clock by "
         f"{len(clock.pairs)} pairs of times, each exact to {clock.error() * 1e6:,.1f} "
         "microseconds")
    if clock.drift() > 1e-3:
        note(domain, False, f"its clock and the host's differ by "
             f"{100 * clock.drift():,.2g} % in rate: its times may be wrong")
    if clock.beyond:
        note(domain, False, f"{clock.beyond:,} of its samples are more than a second "
             "away from all pairs of times")
