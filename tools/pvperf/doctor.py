# SPDX-License-Identifier: GPL-2.0
"""The program pv-perf-doctor: the one built in the source tree, or the installed one."""
import json
import os
import subprocess

from pvperf.error import Error

MISSING = Error("there is no pv-perf-doctor",
                "in the source tree: make doctor; or make deb, and "
                "apt install ./build/deb/pv-perf-doctor_*.deb")


def program():
    tree = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    built = os.path.join(tree, "build", "pv-perf-doctor")
    return built if os.path.exists(built) else "pv-perf-doctor"


def checks(role):
    """[{role, id, ok, text, remedy}] of --json; role: host, guest, or None if the doctor
    shall find out the role."""
    try:
        result = subprocess.run([program(), "--json", *([role] if role else [])],
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=60)
        return json.loads(result.stdout)["checks"]
    except FileNotFoundError:
        raise MISSING from None
    except (subprocess.TimeoutExpired, ValueError, KeyError) as error:
        raise Error(f"pv-perf-doctor --json: {type(error).__name__}") from None
