# SPDX-License-Identifier: GPL-2.0
"""The tables of pv-perf report, for a terminal."""
from pvperf.report.accounts import Row

WIDTH = 48                      # of a name, in a table


def percent(events, whole):
    return f"{100 * events / whole:.2f}%" if whole else "-"


def line(row, whole, words):
    return f"{row.mark + format(row.events, ','):>22} " \
        f"{percent(row.events, whole):>8} {row.samples or '-':>10}  " \
        f"{'  '.join(words)}".rstrip()


def columns(rows):
    """The words of each row, of equal widths but the last."""
    if not rows:
        return []
    cut = [[w if len(w) <= WIDTH else w[:WIDTH - 3] + "..."
            for w in r.words[:-1]] + [r.words[-1]] for r in rows]
    widths = [max(len(c[i]) if i < len(c) - 1 else 0 for c in cut)
              for i in range(max(map(len, cut)))]
    return [[w.ljust(n) for w, n in zip(c[:-1], widths)] + c[-1:]
            for c in cut]


def some(rows, top):
    """The first top of them; the others are one."""
    rows = list(rows)
    if not top or len(rows) <= top:
        return rows
    rest = rows[top:]
    return rows[:top] + [Row(
        (f"({len(rest)} others)",), sum(r.events for r in rest),
        sum(r.samples for r in rest), "~" * any(r.mark for r in rest))]


def table(title, event, rows, whole):
    """What is printed, with a line for all that adds up to it."""
    rows = list(rows)
    rows.append(Row(("all",), sum(r.events for r in rows),
                    sum(r.samples for r in rows), ""))
    return "\n".join([f"\n{event:>22} {'%':>8} {'samples':>10}  {title}",
                      *(line(r, whole, words)
                        for r, words in zip(rows, columns(rows)))])


def report(accounts, top):
    """All three."""
    whole, event = accounts.whole(), accounts.session.event
    unseen = list(accounts.unseen())
    return "\n".join([
        table("by domain", event, accounts.by_domain(), whole),
        table("by process", event,
              [*some(accounts.of(accounts.processes), top), *unseen], whole),
        table("by function", event,
              [*some(accounts.of(accounts.symbols), top), *unseen], whole)])
