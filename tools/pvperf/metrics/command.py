# SPDX-License-Identifier: GPL-2.0
"""pv-perf metrics: the health of the pair for Prometheus."""
import os
import tempfile

from pvperf.error import Error
from pvperf.metrics import health
from pvperf.service import config

HELP = """print the health of the pair, and of pv-perf service, as metrics for Prometheus
(at once)"""

DESCRIPTION = """Prints the health of the pair on this machine in Prometheus' text format:
each check of pv-perf-doctor, whether a kernel's update has taken the feature away, and
what pv-perf service has done. --textfile writes a file for the node exporter."""


def add_command(commands):
    parser = commands.add_parser("metrics", help=HELP, description=DESCRIPTION)
    a = parser.add_argument
    a("--textfile", metavar="FILE", help="write FILE, in one step, such as "
      "/var/lib/prometheus/node-exporter/pv-perf.prom")
    a("--config", metavar="FILE", default=config.DEFAULT_PATH,
      help=f"the configuration of the service (default: {config.DEFAULT_PATH})")
    a("role", nargs="?", choices=["host", "guest"],
      help="what this machine is (default: pv-perf-doctor finds out)")
    parser.set_defaults(run=run)


def escape(word):
    return word.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def lines(metrics):
    for metric in metrics:
        yield f"# HELP {metric.name} {metric.help}"
        yield f"# TYPE {metric.name} {metric.kind}"
        for labels, value in metric.samples:
            inside = ",".join(f'{k}="{escape(v)}"' for k, v in labels.items())
            number = repr(value) if isinstance(value, float) else str(int(value))
            yield metric.name + (f"{{{inside}}}" if inside else "") + f" {number}"


def write(path, text):
    try:
        fd, name = tempfile.mkstemp(prefix=".pv-perf.", dir=os.path.dirname(path) or ".")
        with open(fd, "w", encoding="utf-8") as f:
            f.write(text)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except OSError as error:
        raise Error(f"{path}: {error.strerror}") from None


def run(args):
    text = "\n".join(lines(health.collect(args.role, args.config))) + "\n"
    if args.textfile:
        write(args.textfile, text)
    else:
        print(text, end="")
    return 0
