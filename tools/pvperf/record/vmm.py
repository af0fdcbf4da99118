# SPDX-License-Identifier: GPL-2.0
"""Finds the VMM of a guest on this host: its process, its vCPUs' threads, its helpers."""
import os
import re


def read(path):
    try:
        with open(path, "rb") as f:
            return f.read()
    except OSError:                 # the process has ended
        return b""


def pids():
    return sorted(int(n) for n in os.listdir("/proc") if n.isdigit())


def of_uuid(uuid):
    """The PID of the QEMU that libvirt has started for a domain, or None."""
    for pid in pids():
        words = read(f"/proc/{pid}/cmdline").split(b"\0")
        # The words must be arguments of their own, of a process with a VM.
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
    except OSError:                 # the process has ended
        return False
    return any(link(f"{folder}/{fd}") == "anon_inode:kvm-vm" for fd in fds)


def link(path):
    try:
        return os.readlink(path)
    except OSError:
        return ""


# The names of kernel threads that work for a process.
KTHREAD = re.compile(rb"(?:vhost-|kvm-pit/|kvm-nx-lpage-recovery-)(\d+)\n")


def kthreads(pid):
    """Yields kernel threads for a VMM that are not threads of its process, as vhost's before
    Linux 6.4.  Anybody can use such a name, but only a kernel thread has the parent 2."""
    for n in pids():
        match = KTHREAD.fullmatch(read(f"/proc/{n}/comm"))
        if match and int(match[1]) == pid and \
                read(f"/proc/{n}/stat").rpartition(b") ")[2].split()[1:2] == [b"2"]:
            yield n


def cgroup(pid):
    """The folder of the VM's control group from systemd-machined or libvirt; None if the VMM
    was started in another way, and has no control group of its own."""
    match = re.search(rb"^0::(/machine[^/]*/[^\n]*?\.scope)(?:/[^\n]*)?$",
                      read(f"/proc/{pid}/cgroup"), re.M)
    return match and "/sys/fs/cgroup" + os.fsdecode(match[1])


def helpers(pid):
    """The PIDs of other processes that work for the VM, such as vhost, virtiofsd, swtpm."""
    found = set(kthreads(pid))
    folder = cgroup(pid)
    for path, _, _ in os.walk(folder) if folder else ():
        found.update(int(n) for n in read(f"{path}/cgroup.procs").split())
    return found - {pid}


def vcpus(pid):
    """The TIDs of the vCPUs' threads, in the order of the vCPUs.  QEMU (with debug-threads,
    which libvirt uses), Firecracker and Cloud Hypervisor name these threads."""
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
