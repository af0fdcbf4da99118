# SPDX-License-Identifier: GPL-2.0
"""The tables of pv-perf report for programs, as JSON or CSV."""
import csv
import io
import json

from pvperf.report.profile import PARTS

# The fields of a row, in the order of the CSV columns.
FIELDS = ["table", "domain", "process", "thread", "vm", "function", "object", "part",
          "events", "percent", "inclusive", "inclusive_percent", "samples", "estimated"]
# A spreadsheet takes a cell that begins with one of these characters, also in full width,
# for a formula.  Anybody can choose names.
FORMULA = tuple("=+-@\t\r\uff1d\uff0b\uff0d\uff20")


def percent(events, whole):
    return round(100 * events / whole, 4) if whole else None


def one(table, words, row, whole):
    """A row as a dict.  words: the keys of row.words."""
    return {"table": table, **dict(zip(words, row.words)), "events": row.events,
            "percent": percent(row.events, whole), "samples": row.samples,
            "estimated": bool(row.mark)}


def function(table, row, whole):
    found = one(table, ("domain", "function", "object"), row, whole)
    if row.inclusive is not None:
        found["inclusive"] = row.inclusive
        found["inclusive_percent"] = percent(row.inclusive, whole)
    return found


def costs(accounts):
    whole = accounts.whole()
    for name, parts, mark in accounts.by_vm():
        for part, events in zip(PARTS, parts):
            yield {"table": "vms", "vm": name, "part": part, "events": events,
                   "percent": percent(events, whole), "estimated": bool(mark)}


def rows_of(accounts, prefix, args):
    """The rows of the tables of one Accounts."""
    def some(rows):
        # By default all rows, unlike on a terminal.
        return list(rows)[:args.top or None]

    whole = accounts.whole()
    for row in accounts.by_domain():
        yield one(prefix + "domains", ("domain",), row, whole)
    for row in some(accounts.of(accounts.processes)):
        yield one(prefix + "processes", ("domain", "process", "thread"), row, whole)
    for row in some(accounts.functions(args.inclusive)):
        yield function(prefix + "functions", row, whole)


def all_rows(accounts, others, args):
    yield from rows_of(accounts, "", args)
    yield from costs(accounts)
    if others.areas:
        yield from rows_of(others, "elsewhere_", args)


def as_json(session, accounts, others, notes, args):
    """One object with the session's settings, the tables, and the notes."""
    tables = {}
    for row in all_rows(accounts, others, args):
        tables.setdefault(row.pop("table"), []).append(row)
    return json.dumps({
        "event": session.event, "period": session.period,
        "frequency": session.frequency, "began": session.began,
        "seconds": session.seconds, "host": session.host_name,
        "counted": accounts.whole(), "tables": tables, "notes": notes}, indent=1)


def cell(value):
    if isinstance(value, str) and value.startswith(FORMULA):
        return "'" + value
    return value


def as_csv(accounts, others, args):
    """All tables, one after the other, with the same columns."""
    out = io.StringIO()
    writer = csv.DictWriter(out, FIELDS, lineterminator="\n")
    writer.writeheader()
    for row in all_rows(accounts, others, args):
        writer.writerow({key: cell(value) for key, value in row.items()})
    return out.getvalue().removesuffix("\n")
