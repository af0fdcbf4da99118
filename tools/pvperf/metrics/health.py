# SPDX-License-Identifier: GPL-2.0
"""The metrics of the pair on this machine, for a monitoring system."""
import collections
import glob
import json
import os
import platform
import re

from pvperf import doctor
from pvperf.error import Error
from pvperf.service import config

# The file RELEASE in this folder says which source the modules of KVM were built from.
STATE = "/var/lib/pv-perf-host"
MODULES = "/lib/modules"

# samples: [({label: value}, number)]
Metric = collections.namedtuple("Metric", "name kind help samples")


def order(release):
    """A sort key, with which 6.1.0-9 comes before 6.1.0-10."""
    return [int(w) if w.isdigit() else w for w in re.split(r"(\d+)", release)]


def kernels():
    """{release: does this kernel have the pair's KVM?} of the installed kernels; {} on a
    machine without a package of the host side."""
    if not os.path.isdir(STATE):
        return {}
    found = {}
    for path in glob.glob(f"{MODULES}/*/kernel"):
        release = path.split("/")[-2]
        try:
            with open(f"{STATE}/{release}", encoding="utf-8") as f:
                built = f.read().startswith("kernel ")
        except OSError:
            built = False
        found[release] = built and bool(glob.glob(
            f"{MODULES}/{release}/updates/*/kvm.ko*"))
    return found


def taken_away():
    """{"now": bool, "next boot": bool}: whether the running kernel, and the newest kernel,
    which boots next, have lost the feature."""
    found = kernels()
    if not found:
        return {}
    newest = max(found, key=order)
    return {"now": not found.get(platform.release(), False),
            "next boot": not found[newest]}


def of_doctor(checks):
    roles = {}
    for check in checks:
        roles[check["role"]] = roles.get(check["role"], True) and check["ok"]
    yield Metric("pv_perf_ok", "gauge", "Whether all checks of pv-perf-doctor pass.",
                 [({"role": role}, ok) for role, ok in roles.items()])
    yield Metric("pv_perf_check", "gauge", "Whether a check of pv-perf-doctor passes.",
                 [({"role": c["role"], "check": c["id"]}, c["ok"]) for c in checks])


def of_kernels():
    yield Metric("pv_perf_kernel_has_pair", "gauge",
                 "Whether the KVM of an installed kernel has the pair.",
                 [({"release": r}, has) for r, has in sorted(kernels().items())])
    yield Metric("pv_perf_taken_away", "gauge",
                 "Whether a kernel's update has taken the feature away.",
                 [({"when": when}, gone) for when, gone in taken_away().items()])


def of_service(path):
    try:
        with open(path, encoding="utf-8") as f:
            state = json.load(f)
        for key, name, kind, text in (
                ("windows", "windows_total", "counter", "Windows since the service began."),
                ("failed", "failed_total", "counter", "Windows that were not recorded."),
                ("sent", "sent_total", "counter", "Profiles that the server has taken."),
                ("refused", "refused_total", "counter",
                 "Attempts to send a profile that the server has refused."),
                ("unsent", "unsent", "gauge", "Profiles that wait to be sent."),
                ("bytes", "profile_bytes", "gauge", "Bytes of the profiles on the disk."),
                ("cpu_seconds", "cpu_seconds_total", "counter",
                 "CPU time that the service has used on this host."),
                ("last", "last_window_timestamp_seconds", "gauge",
                 "Time of the last window that did not fail, or of the service's start.")):
            yield Metric(f"pv_perf_service_{name}", kind, text, [({}, float(state[key]))])
    except (OSError, ValueError, KeyError, TypeError):
        return              # no service here


def state_file(path):
    """The state file of the service with this configuration.  If the configuration is
    missing or wrong, the default: a service may have written that file before."""
    try:
        return config.read(path).files.state
    except Error:
        return config.KEYS["files"]["state"][1]


def collect(role=None, path=config.DEFAULT_PATH):
    """[Metric], without those that have no samples.  path: the service's configuration."""
    found = [*of_doctor(doctor.checks(role)), *of_kernels(),
             *of_service(state_file(path))]
    return [m for m in found if m.samples]
