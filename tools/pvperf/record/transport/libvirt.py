# SPDX-License-Identifier: GPL-2.0
"""Runs commands in guests of libvirt, by QEMU's guest agent."""
import base64
import json
import re
import threading
import time
import urllib.parse

from pvperf import text
from pvperf.error import Error
from pvperf.record.transport.common import LIMIT, Bounded, Failed

DEFAULT_URI = "qemu:///system"
# The bytes that guest-file-read returns at a time: a message of libvirt has at most 4 MB.
CHUNK = 1 << 20
# The time that the agent may take to answer.
ANSWER_S = 20
# virt-install names the guest's system in this element of the domain's XML.  INSTALL has the
# systems' commands that install a package.
OSINFO = "http://libosinfo.org/xmlns/libvirt/domain/1.0"
INSTALL = {"debian.org ubuntu.com": "apt install", "archlinux.org": "pacman -S",
           "suse.com opensuse.org": "zypper install", "alpinelinux.org": "apk add",
           "fedoraproject.org redhat.com centos.org rockylinux.org almalinux.org":
           "dnf install"}


def import_libvirt():
    try:
        import libvirt
        import libvirt_qemu
    except ImportError:
        raise Error("there is no libvirt for Python",
                    "apt install python3-libvirt") from None
    # By default, libvirt also prints each error on stderr.
    libvirt.registerErrorHandler(lambda *_: None, None)
    return libvirt, libvirt_qemu


class Connection:
    """A connection to one URI of libvirt."""

    def __init__(self, uri, timeout=30):
        self.libvirt, self.qemu = import_libvirt()
        self.uri = uri
        # In a thread, because open() never returns if the host does not answer.
        thread = threading.Thread(target=self.open, daemon=True)
        self.connection, self.error = None, f"no answer within {timeout} s"
        thread.start()
        thread.join(timeout)
        if not self.connection:
            raise Error(f"{uri}: {self.error}",
                        f"try it: virsh -c {uri} list")

    def open(self):
        try:
            self.connection = self.libvirt.open(self.uri)
        except self.libvirt.libvirtError as error:
            self.error = str(error)

    def another(self, domain):
        """A new (Connection, domain): libvirt serves only five requests of a connection at a
        time, so agents that hang would block the other domains."""
        connection = Connection(self.uri)
        return connection, connection.connection.lookupByUUID(domain.UUID())

    def is_local(self):
        return not urllib.parse.urlsplit(self.uri).hostname

    def find(self, name):
        """The domain of this name, or None."""
        try:
            return self.connection.lookupByName(name)
        except self.libvirt.libvirtError as error:
            if error.get_error_code() == self.libvirt.VIR_ERR_NO_DOMAIN:
                return None
            raise Error(f"{self.uri}: {error}") from None

    def running(self):
        """The running domains, sorted by name."""
        try:
            found = self.connection.listAllDomains(
                self.libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE)
        except self.libvirt.libvirtError as error:
            raise Error(f"{self.uri}: {error}") from None
        return sorted(found, key=lambda domain: domain.name())

    def is_active(self, domain):
        try:
            return domain.isActive()
        except self.libvirt.libvirtError:
            return False


def find(connections, name):
    """(connection, domain) of NAME, or of NAME@URI if several URIs have the name."""
    for connection in connections:
        if name.endswith("@" + connection.uri):
            connections = [connection]
            name = name.removesuffix("@" + connection.uri)
            break
    found = [(c, d) for c in connections if (d := c.find(name)) is not None]
    uris = " or ".join(c.uri for c in connections)
    if not found:
        raise Error(f"{uris} knows no domain {name}",
                    "virsh list --all; or --connect URI, if another URI has it")
    if len(found) > 1:
        raise Error(f"{' and '.join(c.uri for c, _ in found)} each have a "
                    f"domain {name}", f"say which: {name}@{found[0][0].uri}")
    return found[0]


class Agent:
    """A domain whose guest runs QEMU's guest agent."""

    def __init__(self, connection, domain):
        self.libvirt, self.qemu = connection.libvirt, connection.qemu
        self.connection, self.domain = connection, domain

    def command(self, name, **arguments):
        """Runs a command of the agent; returns its result."""
        request = json.dumps({"execute": name, "arguments": arguments})
        try:
            answer = self.qemu.qemuAgentCommand(
                self.domain, request, ANSWER_S, 0)
            return json.loads(answer)["return"]
        except self.libvirt.libvirtError as error:
            raise Failed(self.explain(error)) from None
        except (ValueError, KeyError, TypeError, RecursionError):
            raise Failed("its agent answers nonsense") from None

    def explain(self, error):
        why = text.line(str(error).encode())
        code = error.get_error_code()
        if code == self.libvirt.VIR_ERR_AGENT_UNRESPONSIVE:
            return (f"{why}. Remedy: {self.install()} qemu-guest-agent in the guest, "
                    "or see whether the guest hangs")
        if code == self.libvirt.VIR_ERR_ARGUMENT_UNSUPPORTED or \
                "agent is not configured" in why:
            return (f"{why}. Remedy: a channel org.qemu.guest_agent.0 in its "
                    "XML")
        if "has been disabled" in why:
            return (f"{why}. Remedy: have the guest's qemu-ga allow guest-exec "
                    "and guest-file-*: " +
                    ("/etc/sysconfig/qemu-ga" if self.install() == "dnf install"
                     else "block-rpcs in /etc/qemu/qemu-ga.conf"))
        return why

    def install(self):
        """The command that installs a package in the guest."""
        try:
            system = self.domain.metadata(
                self.libvirt.VIR_DOMAIN_METADATA_ELEMENT, OSINFO)
        except self.libvirt.libvirtError:
            system = ""
        match = re.search(r"//([a-z.]+)/", system.replace(OSINFO, ""))
        return next((command for hosts, command in INSTALL.items()
                     if match and match[1] in hosts.split()), "install")

    def call(self, words, timeout):
        deadline = time.monotonic() + timeout
        pid = self.field(self.command(
            "guest-exec", path=words[0], arg=words[1:],
            **{"capture-output": True}), "pid", int)
        pause = 0.05
        while True:
            status = self.command("guest-exec-status", pid=pid)
            if self.field(status, "exited", bool):
                break
            if time.monotonic() > deadline:
                raise Failed(f"no end within {timeout:.0f} s")
            time.sleep(pause)
            pause = min(1, 2 * pause)
        if status.get("exitcode") != 0:
            raise Failed(text.line(self.decode(status, "err-data")) or
                         "a command was killed there")
        return self.decode(status, "out-data")

    @staticmethod
    def field(answer, name, kind):
        if not isinstance(answer, dict) or \
                not isinstance(answer.get(name), kind):
            raise Failed("its agent answers nonsense")
        return answer[name]

    def decode(self, answer, name, limit=LIMIT):
        if name not in answer:
            return b""
        try:
            data = base64.b64decode(self.field(answer, name, str))
        except ValueError:
            raise Failed("its agent answers nonsense") from None
        if len(data) > limit:
            raise Failed("it sends more than it may")
        return data

    def fetch(self, path, file, limit, timeout):
        deadline = time.monotonic() + timeout
        take = Bounded(limit, file.write)
        handle = self.command("guest-file-open", path=path, mode="r")
        try:
            while True:
                answer = self.command("guest-file-read", handle=handle,
                                      count=CHUNK)
                data = self.decode(answer, "buf-b64", CHUNK)
                take(data)
                if self.field(answer, "eof", bool):
                    return
                if not data or time.monotonic() > deadline:
                    raise Failed(f"the file has not come within {timeout:.0f} s")
        finally:
            try:
                self.command("guest-file-close", handle=handle)
            except Failed:
                pass            # the agent has ended

    def close(self):
        # In a thread, because close() waits for commands that hang.
        threading.Thread(target=self.connection.connection.close,
                         daemon=True).start()
