# SPDX-License-Identifier: GPL-2.0
"""Pictures of events over time."""
import html
import io
import textwrap

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from pvperf.error import Error
from pvperf.timeline.series import correlation

# A name is no formula; and text in a page can be searched for.
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
{chart}
<h2>Which rise and fall together</h2>
<p>Pearson's correlation of the rates: 1 together, 0 independently, -1 one as the
other falls. Of {intervals} intervals; a dash where an event does not change.</p>
{matrix}
<h2>Counts</h2>
{totals}
<details><summary>Each interval</summary>
{table}
</details>
</body>
</html>
"""


def figure(found):
    """A chart for each event, on a common time."""
    with plt.rc_context(STYLE):
        fig, axes = plt.subplots(len(found), 1, sharex=True, squeeze=False,
                                 figsize=(10, 0.6 + 1.3 * len(found)))
        for ax, s, i in zip(axes[:, 0], found, range(len(found))):
            rates = s.rates()
            points = [(t, r) for t, r in rates if r is not None]
            ax.plot([t for t, _ in rates],
                    [float("nan") if r is None else r for _, r in rates],
                    color=f"C{i % 10}", linewidth=1)
            # Perf's estimates are no measurements.
            guessed = [p for p, n in zip(rates, s.intervals)
                       if p[1] is not None and n.percent < 100]
            ax.plot([t for t, _ in guessed], [r for _, r in guessed], "o",
                    markersize=3, markerfacecolor="white", color=f"C{i % 10}")
            ax.set_ylim(bottom=0)
            if not points:
                ax.text(0.5, 0.5, "not counted", transform=ax.transAxes,
                        ha="center")
            note = " (hollow: estimated)" if guessed else ""
            ax.set_title(f"{s.name}, {s.unit + ' ' if s.unit else ''}"
                         f"per second{note}", loc="left", fontsize=9)
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


def write_picture(title, found, path):
    fig = figure(found)
    with plt.rc_context(STYLE):
        fig.suptitle(textwrap.shorten(title, 120), x=0.01, ha="left")
        fig.tight_layout()
    save(fig, path, "png")


def chart(found):
    out = io.StringIO()
    save(figure(found), out, "svg")
    text = out.getvalue()
    return text[text.index("<svg"):]


def number(n):
    return f"{n:,.0f}" if n == int(n) else f"{n:,.2f}"


def row(first, cells, tag="td"):
    """Of a table; a cell is its text, or (style, text)."""
    def one(cell):
        style, text = cell if isinstance(cell, tuple) else ("", cell)
        return f'<{tag} style="{style}">{text}</{tag}>' if style \
            else f"<{tag}>{text}</{tag}>"

    return f"<tr><th>{first}</th>{''.join(map(one, cells))}</tr>"


def coloured(value):
    """A correlation: red where two rise together, blue where one falls."""
    if value is None:
        return "&ndash;"
    weak = 255 - round(120 * abs(value))
    rgb = (255, weak, weak) if value > 0 else (weak, weak, 255)
    return "background:rgb({},{},{})".format(*rgb), f"{value:.2f}"


def matrix(found):
    names = [html.escape(s.name) for s in found]
    return "\n".join([
        '<table id="correlation">', row("", names, "th"),
        *(row(name, [coloured(correlation(a, b)) for b in found])
          for name, a in zip(names, found)), "</table>"])


def totals(found):
    return "\n".join([
        '<table id="counts">',
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


def write_page(title, found, path):
    page = PAGE.format(title=html.escape(title), chart=chart(found),
                       matrix=matrix(found), totals=totals(found),
                       table=table(found),
                       intervals=max(len(s.intervals) for s in found))
    try:
        with open(path, "w") as f:
            f.write(page)
    except OSError as error:
        raise Error(f"{path}: {error.strerror}") from None
