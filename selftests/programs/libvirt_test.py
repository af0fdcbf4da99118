#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Tests pv-perf's calls of libvirt, with libvirt's own driver for tests."""
import sys
import types

from pvperf.record import command, vmm
from pvperf.record.transport import common, libvirt
from vmlib.tap import Tap

tap = Tap()


def check(name, got, want):
    tap.ok(got == want, name, f"{name}: got {got!r}, want {want!r}")


class Unresponsive(Exception):
    """libvirt's error if an agent does not answer.  libvirt's test driver has no agent."""

    def get_error_code(self):
        return connection.libvirt.VIR_ERR_AGENT_UNRESPONSIVE


class Disabled(Exception):
    """libvirt's error if the agent refuses a command."""

    def get_error_code(self):
        return 0


connection = libvirt.Connection("test:///default")
domain = connection.find("test")
agent = libvirt.Agent(*connection.another(domain))


def remedies(system):
    """The remedies for an agent that fails in a guest of this system."""
    element = f'<libosinfo><os id="{system}"/></libosinfo>' if system else None
    domain.setMetadata(connection.libvirt.VIR_DOMAIN_METADATA_ELEMENT, element,
                       "libosinfo", libvirt.OSINFO, 0)
    return [agent.explain(error).partition("Remedy: ")[2] for error in
            (Unresponsive("x"), Disabled("guest-exec has been disabled"))]


for name, system, how in (
        ("Debian", "http://debian.org/debian/12", "apt install"),
        ("Ubuntu", "http://ubuntu.com/ubuntu/22.04", "apt install"),
        ("Fedora", "http://fedoraproject.org/fedora/40", "dnf install"),
        ("RHEL", "http://redhat.com/rhel/9.4", "dnf install"),
        ("openSUSE", "http://opensuse.org/opensuse/15.5", "zypper install"),
        ("Alpine", "http://alpinelinux.org/alpinelinux/3.19", "apk add"),
        ("a system that nobody knows", "http://example.com/x", "install"),
        ("no system", None, "install")):
    no_answer, disabled = remedies(system)
    check(f"{name}: the remedy for an agent that does not answer", no_answer,
          f"{how} qemu-guest-agent in the guest, or see whether the guest hangs")
    check(f"{name}: the remedy for an agent that refuses a command", disabled.endswith(
        "/etc/sysconfig/qemu-ga" if how == "dnf install"
        else "/etc/qemu/qemu-ga.conf"), True)

# --all: libvirt's driver has the domains.  This program has their agents and VMMs.
for name in ("web1", "web2", "web3", "secret", "off"):
    connection.connection.createXML(
        f"<domain type='test'><name>{name}</name><memory>8192</memory>"
        "<os><type>hvm</type></os></domain>")
# A domain that is not defined would vanish with its end.  "off" is defined, but does not run.
connection.connection.defineXML(connection.find("off").XMLDesc())
connection.find("off").destroy()
answers = {"web1": None, "web2": "no perf there that runs", "web3": "no agent",
           "test": "it does not have the pair", "secret": None}


def answer(agent, _words, _timeout):
    why = answers[agent.domain.name()]
    if why:
        raise common.Failed(why)
    return b""


libvirt.Agent.call = answer
vmm.of_uuid = {connection.find(n).UUIDString(): pid for n, pid in
               (("web1", 11), ("web2", 12), ("secret", 13), ("test", 14))}.get


def record_all(only=(), excepted=(), given=()):
    """The names of the domains that --all records as (active, passive, left out)."""
    args = types.SimpleNamespace(only=only, excepted=excepted, patience=5)
    found = command.find_all([connection], args,
                             {connection.find(n).UUIDString() for n in given})
    return [sorted(getattr(d, "name", d) for d in part) for part in found]


check("--all: active with agent and driver, otherwise passive with a VMM on this host",
      record_all(), [["secret", "web1"], ["test", "web2"], ["web3"]])
check("--only selects domains by pattern", record_all(["web[12]"]),
      [["web1"], ["web2"], ["secret", "test", "web3"]])
check("--except leaves out domains by pattern", record_all((), ["web*", "x"]),
      [["secret"], ["test"], ["web1", "web2", "web3"]])
check("--except is stronger than --only", record_all(["*"], ["s*"])[2], ["secret", "web3"])
check("--all does not repeat domains that are given by name",
      record_all(given=["web1", "web2"]), [["secret"], ["test"], ["web3"]])
check("a passive domain has its VMM", [d.pid for d in command.find_all(
    [connection], types.SimpleNamespace(only=["web2"], excepted=[], patience=5), set())[1]],
      [12])
sys.exit(tap.finish())
