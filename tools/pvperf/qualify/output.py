# SPDX-License-Identifier: GPL-2.0
"""Writes the report, as a file to send (JSON) and a page (HTML), and compares reports."""
import html
import json

from pvperf.error import Error
from pvperf.report.output import file
from pvperf.text import printable

# The limit of a report, which somebody may have sent.
SIZE = 4 << 20

STYLE = """body { font: 16px/1.5 sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; }
table { border-collapse: collapse; width: 100%; }
td, th { text-align: left; vertical-align: top; padding: .3em .8em .3em 0;
  border-bottom: 1px solid #ccc; }
.works { color: #060; } .differs { color: #b00; font-weight: bold; }
.no { color: #666; } small { color: #444; } .sentence { font-size: 1.3em; }
"""

CLASSES = {"works": "works", "differs": "differs"}


def cell(value, name="td", attribute=""):
    return f"<{name}{attribute}>{html.escape(str(value))}</{name}>"


def row_of(check):
    kind = CLASSES.get(check["verdict"], "no")
    meaning = f"<br><small>If it differs: {html.escape(check['meaning'])}</small>" \
        if check["meaning"] else ""
    return ("<tr>" + cell(check["verdict"], attribute=f' class="{kind}"') +
            f"<td><b>{html.escape(check['title'])}</b><br>{html.escape(check['why'])}"
            f"{meaning}</td></tr>")


def costs_table(costs):
    """The table of costs, in nanoseconds and in ticks of the time stamp counter."""
    if not costs:
        return "<p>none</p>"
    names = [n for n in next(iter(costs.values())) if n != "rdpmc index"]
    rows = ["<tr><th></th>" + "".join(cell(c, "th") for c in costs) + "</tr>"]
    for name in names:
        cells = ""
        for column in costs.values():
            value = column.get(name)
            cells += cell(f"{value[1]:,.0f} ns ({value[0]:,.0f} to {value[2]:,.0f}), "
                          f"{value[3]:,.0f} ticks" if value else "")
        rows.append("<tr>" + cell(name) + cells + "</tr>")
    return "<table>" + "".join(rows) + "</table>"


def cpus_of(report):
    kinds = report.get("kinds of cores")
    if not kinds:
        return report["cpus"]
    return f"{report['cpus']}: " + ", ".join(f"{n} of {name}" for name, n in kinds.items())


def machine_of(report):
    cpu = report["cpu"]
    return [("CPU", f"{cpu.get('name')}, family {cpu.get('family')}, model "
             f"{cpu.get('model')}, stepping {cpu.get('stepping')}, microcode "
             f"{cpu.get('microcode')}"),
            ("its flags", " ".join(cpu.get("flags", []))),
            ("in a VM", "yes" if cpu.get("in a VM") else "no"),
            ("CPUs", cpus_of(report)),
            ("kernel", f"{report['kernel']['release']} {report['kernel']['version']}"),
            ("QEMU", report["qemu"])]


def page(report):
    machine = "".join("<tr>" + cell(n) + cell(v) + "</tr>" for n, v in machine_of(report))
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>pv-perf qualify</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>{STYLE}</style></head><body>
<h1>pv-perf qualify</h1>
<p class="sentence">{html.escape(report['sentence'])}</p>
<table>{machine}</table>
<h2>Checks</h2>
<table>{''.join(row_of(c) for c in report['checks'])}</table>
<h2>Costs</h2>
<p>The median of 21 batches, and its quartiles.</p>
{costs_table(report['costs'])}
</body></html>
"""


def write(name, report):
    for path, text in ((f"{name}.json", json.dumps(report, indent=1) + "\n"),
                       (f"{name}.html", page(report))):
        with file.create(path) as f:
            f.write(text.encode("utf-8", "replace"))


# The facts that identify a CPU model and its behaviour.
IDENTITY = ("vendor", "family", "model", "stepping", "microcode", "in a VM")


def identity(cpu):
    return {name: printable(str(cpu.get(name))) for name in IDENTITY}


def load(path):
    """Reads an untrusted report.  The returned values are there, and of the right type."""
    try:
        with open(path, "rb") as f:
            text = f.read(SIZE + 1)
        if len(text) > SIZE:
            raise Error(f"{path} has more than {SIZE >> 20} MB")
        report = json.loads(text)
        if report["format"] != 1:
            raise Error(f"{path}: its format is {printable(str(report['format']))}, not 1")
        return {
            "cpu": printable(report["cpu"]["name"]),
            "identity": identity(report["cpu"]),
            "kernel": printable(report["kernel"]["release"]),
            "sentence": printable(report["sentence"]),
            "checks": {printable(c["name"]):
                       tuple(printable(c[k]) for k in ("title", "verdict", "why"))
                       for c in report["checks"]},
            "costs": {(printable(column), printable(name)): float(value[1])
                      for column, of in report["costs"].items()
                      for name, value in of.items() if isinstance(value, list)}}
    except (ArithmeticError, AttributeError, LookupError, OSError, RecursionError, TypeError,
            ValueError) as error:
        raise Error(f"{path}: it is not a report of pv-perf qualify "
                    f"({printable(str(error))})") from None


def table(paths):
    """Prints a table of the CPUs of these reports, in Markdown."""
    if not paths:
        print("CPUs that have been reported: none yet.")
        return 0
    print("| CPU | kernel | works | differs | result |\n| --- | --- | --- | --- | --- |")
    for path in paths:
        report = load(path)
        verdicts = [verdict for _, verdict, _ in report["checks"].values()]
        words = (report["cpu"], report["kernel"], str(verdicts.count("works")),
                 str(verdicts.count("differs")), report["sentence"])
        print("| " + " | ".join(w.replace("|", "/") for w in words) + " |")
    return 0


def compare(first, second):
    """Prints the differences of two reports: verdicts, and costs by more than a fifth."""
    a, b = load(first), load(second)
    print(f"{first}: {a['cpu']}\n{second}: {b['cpu']}\n")
    same = 0
    for name in {**a["checks"], **b["checks"]}:
        x = a["checks"].get(name, (name, "not there", ""))
        y = b["checks"].get(name, (name, "not there", ""))
        if x[1] == y[1]:
            same += 1
            continue
        print(f"{x[0]}: {x[1]}, {y[1]}\n    {x[2]}\n    {y[2]}")
    print(f"{same} verdicts are the same.")
    for key in sorted(a["costs"].keys() & b["costs"].keys()):
        x, y = a["costs"][key], b["costs"][key]
        if min(x, y) > 0 and max(x, y) > 1.2 * min(x, y):
            print(f"{key[0]}, {key[1]}: {x:,.0f} ns, {y:,.0f} ns ({y / x - 1:+.0%})")
    return 0
