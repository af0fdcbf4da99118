# SPDX-License-Identifier: GPL-2.0
"""Builds KVM's modules with the host side, the guest's driver, and the checks."""
import glob
import os
import shutil
import subprocess

from pvperf.error import Error

HERE = os.path.dirname(os.path.abspath(__file__))
# tools/ in the source tree, or /usr/share/pv-perf.
TOOLS = os.path.dirname(os.path.dirname(HERE))


def sources():
    """The folder with abi/, guest/ and host/."""
    for folder in (os.path.join(TOOLS, "source"), os.path.dirname(TOOLS)):
        if os.path.exists(os.path.join(folder, "host", "build")):
            return folder
    raise Error("there are no sources of the host side", "install pv-perf again")


def find_source(release):
    """The path of the kernel's source.  Raises Error with a reason and a remedy."""
    result = subprocess.run([os.path.join(sources(), "host", "find-source"), release],
                            capture_output=True, text=True)
    if result.returncode:
        raise Error(result.stderr.strip())
    return result.stdout.strip()


def headers(release):
    return f"/lib/modules/{release}/build"


def compiler():
    """Any C compiler, for the checks.  kbuild finds the kernel's compiler for the modules."""
    found = [shutil.which(n) for n in ("cc", "gcc")] + sorted(
        glob.glob("/usr/bin/gcc-[0-9]*"))
    return next((c for c in found if c), None)


def missing():
    """The missing packages of Debian that the build needs."""
    needs = {"make": shutil.which("make"), "patch": shutil.which("patch"),
             "xz-utils": shutil.which("xz"), "gcc": compiler(),
             "libc6-dev": glob.glob("/usr/lib/*/libc.a") + glob.glob("/usr/lib*/libc.a")}
    return [package for package, there in needs.items() if not there]


def run(words, log):
    with open(log, "a") as f:
        print("+", *words, file=f, flush=True)
        status = subprocess.run(words, stdout=f, stderr=f,
                                stdin=subprocess.DEVNULL).returncode
    if status:
        with open(log, errors="replace") as f:
            end = "".join(f.readlines()[-15:])
        raise Error(f"{words[0]} fails:\n{end}")


def copy_guest(to):
    """Copies the sources of the guest's driver, because kbuild writes objects beside them."""
    top = sources()
    for name in ("abi", "guest"):
        shutil.copytree(os.path.join(top, name), os.path.join(to, name),
                        dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.o", "*.ko"))


def build(release, to):
    """Builds kvm/kvm.ko, kvm/kvm-VENDOR.ko, guest/kvm_pmu.ko and checks in the folder to."""
    log = os.path.join(to, "log")
    jobs = f"-j{os.cpu_count()}"
    run([os.path.join(sources(), "host", "build"), headers(release),
         find_source(release), os.path.join(to, "kvm"), jobs], log)
    copy_guest(to)
    run(["make", "-C", headers(release), f"M={os.path.join(to, 'guest')}",
         "CONFIG_DEBUG_INFO_BTF_MODULES=", jobs, "modules"], log)
    build_checks(to, log)


def build_checks(to, log):
    run([compiler(), "-O2", "-static", "-D_GNU_SOURCE", "-o", os.path.join(to, "checks"),
         *sorted(glob.glob(os.path.join(HERE, "checks", "*.c")))], log)


def check_built(folder):
    for name in ("kvm/kvm.ko", "guest/kvm_pmu.ko", "checks"):
        if not os.path.exists(os.path.join(folder, name)):
            raise Error(f"--built {folder}: there is no {name}",
                        f"pv-perf qualify --build {folder}")
