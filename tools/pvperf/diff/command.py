# SPDX-License-Identifier: GPL-2.0
"""pv-perf diff: what has changed from one session to another, per unit of work."""
import argparse
import json
import re

from pvperf.error import Error
from pvperf.report import command as report
from pvperf.report.event import plain
from pvperf.report.output.table import columns, percent
from pvperf.text import printable

HELP = """say what has changed from one session of pv-perf record to another, by domain,
process and function, per unit of work (takes as long as a report of each)"""

DESCRIPTION = """Says what has changed from session A to session B, by domain, process and
function: events per unit of work in A and in B, and the difference, the largest first.
--work gives the amount of work in each session, such as --work request=10000,12000.
Without --work, the unit is a second. Numbers that may be wrong have a ~."""


def add_command(commands):
    parser = commands.add_parser("diff", help=HELP, description=DESCRIPTION)
    a = parser.add_argument
    a("--work", metavar="UNIT=A,B", type=work, help="the amount of work in A and in B, "
      "such as request=1000,1200 (default: the seconds of each session)")
    a("--top", metavar="N", type=report.count, default=20, help="show at most N "
      "processes and functions, 0 for all (default: 20)")
    a("--json", action="store_true", help="print one object of JSON")
    a("--event", metavar="EVENT", help="the event to compare (default: the first of each session)")
    a("--vm", metavar="NAME", action="append", default=[], help="only this VM")
    a("--comm", metavar="NAME", action="append", default=[],
      help="only processes of this name; * matches anything")
    a("--threads", action="store_true", help="tell the threads of each process apart")
    a("a", metavar="A", help="a session")
    a("b", metavar="B", help="another session")
    parser.set_defaults(run=run)


def work(word):
    match = re.fullmatch(r"([^=]{1,40})=(\d{1,18}(?:\.\d{1,9})?),(\d{1,18}(?:\.\d{1,9})?)",
                         word)
    if not match or not float(match[2]) or not float(match[3]):
        raise argparse.ArgumentTypeError(f"{word!r} is not of the form request=1000,1200")
    return printable(match[1]), float(match[2]), float(match[3])


def read(folder, args):
    """(Session, {table: {words: Row}}, notes)"""
    defaults = argparse.Namespace(
        flamegraph=None, pprof=None, folded=None, timeline=None, firefox=None,
        inclusive=False, kallsyms=[], debug=[], limit=64 << 10, time=None,
        **{key: getattr(args, key) for key in ("event", "vm", "comm", "threads")})
    session, accounts, others, notes = report.read(folder, defaults)
    tables = {}
    for found, where in ((accounts, ""), (others, "elsewhere ")):
        for name, rows in (("domain", found.by_domain()),
                           ("process", [*found.of(found.processes), *found.unseen()]),
                           ("function", [*found.of(found.symbols), *found.unseen()])):
            # Guests of other hosts may have the same names.
            tables.setdefault(name, {}).update(
                ((where + r.words[0], *r.words[1:]), r) for r in rows if r.events)
    return session, tables, notes


def compare(a, b, units):
    """[(words, A's events per unit, B's, mark)], the largest difference first."""
    result = []
    for words in dict.fromkeys([*a, *b]):
        rows = a.get(words), b.get(words)
        result.append((words, *((row.events / unit if row else 0.0)
                                for row, unit in zip(rows, units)),
                       "~" * any(row.mark for row in rows if row)))
    return sorted(result, key=lambda r: (-abs(r[2] - r[1]), r[0]))


def number(n):
    """A number with four significant digits."""
    return f"{n:,.0f}" if abs(n) >= 1000 or n == int(n) else f"{n:.4g}"


def ratio(before, after):
    return f"{after / before:.3f}" if before else "new" if after else "-"


def table(name, event, unit, rows, top):
    """A table for a terminal: the first top rows; "all" is the sum of all rows."""
    whole = [sum(r[i] for r in rows) for i in (1, 2)]
    rest = rows[top:] if top else []
    rows = rows[:len(rows) - len(rest)]
    if rest:
        rows.append(((f"({len(rest)} others)",), sum(r[1] for r in rest),
                     sum(r[2] for r in rest), "~" * any(r[3] for r in rest)))
    rows.append((("all",), *whole, ""))

    class Words:                    # for columns()
        def __init__(self, words):
            self.words = words

    lines = [f"\n{event} per {unit}, by {name}",
             f"{'A':>18} {'B':>18} {'B - A':>18} {'%':>9} {'B / A':>8}"]
    for (_, before, after, mark), words in zip(
            rows, columns([Words(r[0]) for r in rows])):
        lines.append(
            f"{mark + number(before):>18} {mark + number(after):>18} "
            f"{number(after - before):>18} {percent(after - before, whole[0]):>9} "
            f"{ratio(before, after):>8}  {'  '.join(words)}".rstrip())
    return "\n".join(lines)


def run(args):
    (first, a, notes_a), (second, b, notes_b) = (read(f, args) for f in (args.a, args.b))
    if plain(first.event) != plain(second.event):
        raise Error(f"A has samples of {first.event}, and B of {second.event}",
                    "record both with the same -e")
    unit, *units = args.work or ("second", first.seconds, second.seconds)
    compared = {name: compare(a[name], b[name], units) for name in a}
    notes = [f"{which}: {n}" for which, found in (("A", notes_a), ("B", notes_b))
             for n in found]
    if args.json:
        report.show(json.dumps({
            "event": first.event, "unit": unit, "work": units, "notes": notes,
            "tables": {name: [
                {"words": words, "a": before, "b": after, "estimated": bool(mark)}
                for words, before, after, mark in rows]
                for name, rows in compared.items()}}, indent=1) + "\n")
        return 0
    heads = [f"{name}: {printable(path)}, {s.began}, {s.seconds:,.1f} s, "
             f"{number(n)} {unit}" for name, path, s, n in
             zip("AB", (args.a, args.b), (first, second), units)]
    tables = [table(name, first.event, unit, rows, 0 if name == "domain" else args.top)
              for name, rows in compared.items()]
    report.show("\n".join([*heads, *tables, *([""] if notes else []),
                           *(f"- {n}" for n in notes), ""]))
    return 0
