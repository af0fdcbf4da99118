# SPDX-License-Identifier: GPL-2.0
"""The VMM of a guest on this host: its process, and its vCPUs' threads."""
import os
import re


def read(path):
    try:
        with open(path, "rb") as f:
            return f.read()
    except OSError:                 # it has ended
        return b""


def pids():
    return sorted(int(n) for n in os.listdir("/proc") if n.isdigit())


def of_uuid(uuid):
    """The process of the QEMU that libvirt has started for a domain, or None."""
    for pid in pids():
        words = read(f"/proc/{pid}/cmdline").split(b"\0")
        # Not a program that has this in a text, nor one that says so.
        if b"-uuid" in words[:-1] and has_vm(pid) and \
                words[words.index(b"-uuid") + 1] == uuid.encode():
            return pid
    return None


def of_kvm():
    """All processes that have a VM."""
    return {pid for pid in pids() if has_vm(pid)}


def has_vm(pid):
    folder = f"/proc/{pid}/fd"
    try:
        fds = os.listdir(folder)
    except OSError:                 # it has ended
        return False
    return any(link(f"{folder}/{fd}") == "anon_inode:kvm-vm" for fd in fds)


def link(path):
    try:
        return os.readlink(path)
    except OSError:
        return ""


# Kernel threads that work for a process.
KTHREAD = re.compile(rb"(?:vhost-|kvm-pit/|kvm-nx-lpage-recovery-)(\d+)\n")


def kthreads(pid):
    """Those of Linux before 6.4, which are no threads of the VMM; of nobody who has
    named himself so."""
    for n in pids():
        match = KTHREAD.fullmatch(read(f"/proc/{n}/comm"))
        if match and int(match[1]) == pid and \
                read(f"/proc/{n}/stat").rpartition(b") ")[2].split()[1:2] == [b"2"]:
            yield n


def cgroup(pid):
    """The folder of the VM's control group, which systemd-machined or libvirt has made,
    or None: a VMM that somebody has started has none of its own."""
    match = re.search(rb"^0::(/machine[^/]*/[^\n]*?\.scope)(?:/[^\n]*)?$",
                      read(f"/proc/{pid}/cgroup"), re.M)
    return match and "/sys/fs/cgroup" + os.fsdecode(match[1])


def helpers(pid):
    """Processes that work for the VM beside its VMM: vhost, virtiofsd, swtpm and the
    like."""
    found = set(kthreads(pid))
    folder = cgroup(pid)
    for path, _, _ in os.walk(folder) if folder else ():
        found.update(int(n) for n in read(f"{path}/cgroup.procs").split())
    return found - {pid}


def vcpus(pid):
    """The threads, in the order of the vCPUs, by the names that QEMU (debug-threads,
    as libvirt has it), Firecracker and Cloud Hypervisor give them."""
    found = {}
    try:
        tids = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    for tid in tids:
        name = read(f"/proc/{pid}/task/{tid}/comm").decode(errors="replace")
        match = re.match(r"(?:CPU |fc_vcpu |vcpu|kvm-vcpu-)(\d+)", name)
        if match:
            found[int(match[1])] = int(tid)
    return [found[n] for n in sorted(found)]
