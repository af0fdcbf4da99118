# SPDX-License-Identifier: GPL-2.0
"""Turns a feature on for the CPU on which a report shows that it works.

kvm.pv_perf_branches is off by default, because the manuals do not say whether a CPU keeps the
host's addresses out of its branch records.  A report of pv-perf qualify says so for one CPU
model and one microcode.  The kernel compares both each time that KVM is loaded, so a disk that
comes to another host turns nothing on there."""
from pvperf.error import Error
from pvperf.qualify import host, output
from pvperf.report.output import file

# pv-perf-doctor reads the comments in this file.
PATH = "/etc/modprobe.d/pv-perf-qualified.conf"

TEXT = """# Written by pv-perf qualify --install. Remove this file to undo that.
# signature: {signature:#x}
# microcode: {microcode:#x}
# result: {result}
"""

BRANCHES = "options kvm pv_perf_branches_cpu={:#x} pv_perf_branches_microcode={:#x}\n"


def signature(cpu):
    """CPUID leaf 1, EAX, of a CPU in a report."""
    family, model, stepping = (int(cpu[n]) for n in ("family", "model", "stepping"))
    return (max(family - 15, 0) << 20 | model >> 4 << 16 | min(family, 15) << 8 |
            (model & 15) << 4 | stepping)


def differences(report, cpu):
    """The facts in which the report's CPU is not this CPU, as text."""
    return [f"{name} {report['identity'][name]}, here {here}"
            for name, here in output.identity(cpu).items()
            if report["identity"][name] != here]


def text_for(report, cpu):
    """The text of the file for this CPU.  Raises Error if the report does not allow one."""
    other = differences(report, cpu)
    if other:
        raise Error("the report is of another CPU: " + "; ".join(other),
                    "pv-perf qualify on this host")
    checks = report["checks"].values()
    differing = [title for title, verdict, _ in checks if verdict == "differs"]
    if differing:
        raise Error("in the report, checks differ: " + "; ".join(differing))
    if not any(verdict == "works" for _, verdict, _ in checks):
        raise Error("in the report, no check works")
    numbers = signature(cpu), int(cpu["microcode"], 16)
    text = TEXT.format(signature=numbers[0], microcode=numbers[1], result=report["sentence"])
    if report["checks"].get("branches", ("", "", ""))[1] == "works":
        text += BRANCHES.format(*numbers)
    return text


def install(path):
    """Writes the file for the report, and says what the file does."""
    text = text_for(output.load(path), host.cpu())
    with file.create(PATH) as f:
        f.write(text.encode())
    print(f"{PATH}:\n\n{text}")
    if "options" in text:
        print("From the next load of KVM on, guests' samples have branches on this CPU model with\n"
              "this microcode, and nowhere else. With no VM running:\n"
              f"    modprobe -r {host.modules.vendor()} kvm && modprobe {host.modules.vendor()}")
    else:
        print("The report shows nothing that would be off otherwise. pv-perf-doctor tells of it.")
    return 0
