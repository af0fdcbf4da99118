# SPDX-License-Identifier: GPL-2.0
"""The tables of pv-perf report, for a terminal."""
from pvperf.report.accounts import Row
from pvperf.report.profile import PARTS

WIDTH = 48                      # the largest width of a name in a table


def percent(events, whole):
    return f"{100 * events / whole:.2f}%" if whole else "-"


def line(row, whole, words, inclusive):
    within = "" if not inclusive else \
        f" {'-' if row.inclusive is None else percent(row.inclusive, whole):>8}"
    return f"{row.mark + format(row.events, ','):>22} " \
        f"{percent(row.events, whole):>8}{within} {row.samples or '-':>10}  " \
        f"{'  '.join(words)}".rstrip()


def columns(rows):
    """The words of each row, in columns of equal width.  The last word has no width."""
    if not rows:
        return []
    cut = [[w if len(w) <= WIDTH else w[:WIDTH - 3] + "..."
            for w in r.words[:-1]] + [r.words[-1]] for r in rows]
    widths = [max(len(c[i]) if i < len(c) - 1 else 0 for c in cut)
              for i in range(max(map(len, cut)))]
    return [[w.ljust(n) for w, n in zip(c[:-1], widths)] + c[-1:]
            for c in cut]


def some(rows, top):
    """The first top rows, and one row for all others."""
    rows = list(rows)
    if not top or len(rows) <= top:
        return rows
    rest = rows[top:]
    return rows[:top] + [Row(
        (f"({len(rest)} others)",), sum(r.events for r in rest),
        sum(r.samples for r in rest), "~" * any(r.mark for r in rest))]


def table(title, event, rows, whole):
    """The text of a table, with a line for the sum of all rows."""
    rows = list(rows)
    inclusive = any(r.inclusive is not None for r in rows)
    rows.append(Row(("all",), sum(r.events for r in rows),
                    sum(r.samples for r in rows), ""))
    within = f" {'+called':>8}" if inclusive else ""
    return "\n".join([f"\n{event:>22} {'%':>8}{within} {'samples':>10}  {title}",
                      *(line(r, whole, words, inclusive)
                        for r, words in zip(rows, columns(rows)))])


def costs(accounts):
    """The table of the cost of each VM on this host."""
    whole = accounts.whole()
    rows = accounts.by_vm()
    heads = [f"{part:>12}" for part in PARTS]
    return "\n".join([
        f"\n{accounts.session.event:>22} {'%':>8} {''.join(heads)}  what a VM costs",
        *(f"{mark + format(sum(parts), ','):>22} {percent(sum(parts), whole):>8} "
          f"{''.join(f'{percent(p, whole):>12}' for p in parts)}  {name}"
          for name, parts, mark in rows)]) if rows else None


def report(accounts, others, args):
    """All tables."""
    top = 20 if args.top is None else args.top
    parts = []
    if accounts.areas or not accounts.session.only_guests:
        parts = [three(accounts, args, top), costs(accounts)]
    if others.areas:
        whole, event = others.whole(), others.session.event
        parts += [table("guests of other hosts, or with an unknown VMM", event,
                        others.by_domain(), whole),
                  table("processes of these guests", event,
                        some(others.of(others.processes), top), whole),
                  table("functions of these guests", event,
                        some(others.functions(args.inclusive), top), whole)]
    return "\n".join(filter(None, parts))


def three(accounts, args, top):
    """The tables by domain, process and function."""
    whole, event = accounts.whole(), accounts.session.event
    unseen = list(accounts.unseen())
    return "\n".join([
        table("by domain", event, accounts.by_domain(), whole),
        table("by thread" if args.threads else "by process", event,
              [*some(accounts.of(accounts.processes), top), *unseen], whole),
        table("by function", event,
              [*some(accounts.functions(args.inclusive), top), *unseen],
              whole)])
