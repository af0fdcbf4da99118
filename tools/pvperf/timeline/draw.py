# SPDX-License-Identifier: GPL-2.0
"""Pictures of events over time."""
import html
import io
import textwrap

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from pvperf.error import Error
from pvperf.report.output import file
from pvperf.timeline.series import correlations, length, names

# Do not parse names as formulas, and keep text in a page searchable.
STYLE = {"text.parse_math": False, "svg.fonttype": "none", "font.size": 9,
         "axes.spines.top": False, "axes.spines.right": False}

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>
body {{ font-family: sans-serif; margin: 2em auto; max-width: 70em; }}
table {{ border-collapse: collapse; margin: 1em 0; }}
th, td {{ padding: .3em .6em; text-align: right; border: 1px solid #ccc; }}
th {{ font-weight: normal; text-align: left; }}
svg {{ max-width: 100%; height: auto; }}
</style>
</head>
<body>
<h1>{title}</h1>
{notes}
{chart}
<h2>Which events rise and fall together</h2>
<p>Pearson's correlation of the rates: 1 if two events rise and fall together, 0 if they
are independent, -1 if one event rises while the other falls. A dash means that an event
does not change.</p>
{runs}
</body>
</html>
"""

RUN = """{heading}
<p>{intervals} intervals.</p>
{matrix}
{totals}
<details><summary>Each interval</summary>
{table}
</details>
"""


def steps(series):
    """(times, rates) of a line that is level in each interval.  If an event was not counted
    in an interval, its rate is NaN, which makes a gap."""
    times, rates, end = [], [], None
    for i in series.intervals:
        if end is not None and i.start > end:
            times.append(end)
            rates.append(float("nan"))
        rate = float("nan") if i.count is None else i.count / (i.end - i.start)
        times += [i.start, i.end]
        rates += [rate, rate]
        end = i.end
    return times, rates


def draw_series(ax, series, colour, label):
    """Returns whether there are estimates."""
    ax.plot(*steps(series), color=colour, linewidth=1, label=label)
    # Hollow marks for perf's estimates.
    guessed = [p for p, n in zip(series.rates(), series.intervals)
               if p[1] is not None and n.percent < 100]
    ax.plot([t for t, _ in guessed], [r for _, r in guessed], "o",
            markersize=3, markerfacecolor="white", color=colour)
    return bool(guessed)


def figure(runs):
    """A chart for each event, on a common time axis, with a colour for each run."""
    events = names(runs)
    several = len(runs) > 1
    end = max(i.end for run in runs for s in run.series for i in s.intervals)
    with plt.rc_context(STYLE):
        fig, axes = plt.subplots(len(events), 1, sharex=True, squeeze=False,
                                 figsize=(10, 0.6 + 1.3 * len(events)))
        for i, (ax, name) in enumerate(zip(axes[:, 0], events)):
            guessed, counted, unit = False, False, ""
            for j, run in enumerate(runs):
                for s in run.series:
                    if s.name == name:
                        guessed |= draw_series(
                            ax, s, f"C{(j if several else i) % 10}", run.name)
                        counted |= s.missing() < len(s.intervals)
                        unit = unit or s.unit
            ax.set_ylim(bottom=0)
            ax.set_xlim(0, end)
            if not counted:
                ax.text(0.5, 0.5, "not counted", transform=ax.transAxes,
                        ha="center")
            note = " (hollow: estimated)" if guessed else ""
            ax.set_title(f"{name}, {unit + ' ' if unit else ''}"
                         f"per second{note}", loc="left", fontsize=9)
        if several:
            # Outside of the charts, where the legend hides no line.
            lines = [plt.Line2D([], [], color=f"C{j % 10}", label=run.name)
                     for j, run in enumerate(runs)]
            axes[0, 0].legend(handles=lines, loc="lower right", fontsize=8,
                              bbox_to_anchor=(1, 1), ncol=min(len(runs), 5))
        axes[-1, 0].set_xlabel("seconds")
        fig.tight_layout()
    return fig


def save(fig, target, form):
    try:
        with plt.rc_context(STYLE):
            fig.savefig(target, format=form, dpi=120)
    except OSError as error:
        raise Error(f"{target}: {error.strerror}") from None
    finally:
        plt.close(fig)


def write_picture(title, runs, path):
    fig = figure(runs)
    with plt.rc_context(STYLE):
        fig.suptitle(textwrap.shorten(title, 120), x=0.01, ha="left")
        fig.tight_layout()
    save(fig, path, "png")


def chart(runs):
    out = io.StringIO()
    save(figure(runs), out, "svg")
    text = out.getvalue()
    return text[text.index("<svg"):]


def number(n):
    return f"{n:,.0f}" if n == int(n) else f"{n:,.2f}"


def row(first, cells, tag="td"):
    """A row of a table.  A cell is its text, or (style, text)."""
    def one(cell):
        style, text = cell if isinstance(cell, tuple) else ("", cell)
        return f'<{tag} style="{style}">{text}</{tag}>' if style \
            else f"<{tag}>{text}</{tag}>"

    return f"<tr><th>{first}</th>{''.join(map(one, cells))}</tr>"


def coloured(value, most=1):
    """The cell of a correlation: red if positive, blue if negative."""
    if value is None:
        return "&ndash;"
    weak = 255 - round(120 * abs(value) / most)
    rgb = (255, weak, weak) if value > 0 else (weak, weak, 255)
    return "background:rgb({},{},{})".format(*rgb), f"{value:.2f}"


def matrix(found, events, ident, most=1):
    """found: {(event, event): value}"""
    shown = [html.escape(e) for e in events]
    return "\n".join([
        f'<table class="{ident}">', row("", shown, "th"),
        *(row(name, [coloured(found.get((a, b)), most) for b in events])
          for name, a in zip(shown, events)), "</table>"])


def differences(first, found):
    """The differences from the first run, if both runs have a correlation."""
    return {key: value - first[key] for key, value in found.items()
            if None not in (value, first.get(key))}


def part(run, first, several):
    """The part of the page about one run."""
    found = correlations(run)
    events = [s.name for s in run.series]
    text = matrix(found, events, "correlation")
    if run is not first:
        text += "\n<p>The differences of these correlations from those of " \
            f"{html.escape(first.name)}, from -2 to 2.</p>\n" + matrix(
                differences(correlations(first), found), events, "difference", 2)
    heading = f"<h3>{html.escape(run.name)}</h3>" if several else ""
    return RUN.format(heading=heading, intervals=length(run), matrix=text,
                      totals=totals(run.series), table=table(run.series))


def totals(found):
    return "\n".join([
        '<table class="counts">',
        row("", ["count", "estimated intervals", "not counted"], "th"),
        *(row(html.escape(s.name), [number(s.total()), str(s.scaled()),
                                    str(s.missing())]) for s in found),
        "</table>"])


def table(found):
    ends = sorted({i.end for s in found for i in s.intervals})
    at = [{i.end: i for i in s.intervals} for s in found]

    def text(interval):
        if interval is None or interval.count is None:
            return "&ndash;"
        return ("~" if interval.percent < 100 else "") + number(interval.count)

    return "\n".join([
        "<table>", row("until, s", [html.escape(s.name) for s in found], "th"),
        *(row(f"{end:.3f}", [text(a.get(end)) for a in at]) for end in ends),
        "</table>"])


def write_page(title, runs, path, notes=()):
    page = PAGE.format(
        title=html.escape(title), chart=chart(runs),
        notes="".join(f"<p>{html.escape(n)}</p>\n" for n in notes),
        runs="".join(part(run, runs[0], len(runs) > 1) for run in runs))
    with file.create(path) as f:
        f.write(page.encode("utf-8", "replace"))
