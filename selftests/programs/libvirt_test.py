#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""What pv-perf asks libvirt for, with libvirt's own driver for tests."""
from pvperf.record.transport import libvirt

results = []


def check(name, got, want):
    results.append(got == want)
    if got != want:
        print(f"# {name}: got {got!r}, want {want!r}")
    print(f"{'' if got == want else 'not '}ok {len(results)} {name}")


class Unresponsive(Exception):
    """As libvirt's error where an agent does not answer: its driver has no agent."""

    def get_error_code(self):
        return connection.libvirt.VIR_ERR_AGENT_UNRESPONSIVE


class Disabled(Exception):
    """As where the agent refuses a command."""

    def get_error_code(self):
        return 0


connection = libvirt.Connection("test:///default")
domain = connection.find("test")
agent = libvirt.Agent(*connection.another(domain))


def remedies(system):
    """What is said to install an agent in a guest of this system."""
    element = f'<libosinfo><os id="{system}"/></libosinfo>' if system else None
    domain.setMetadata(connection.libvirt.VIR_DOMAIN_METADATA_ELEMENT, element,
                       "libosinfo", libvirt.OSINFO, 0)
    return [agent.explain(error).partition("Remedy: ")[2] for error in
            (Unresponsive("x"), Disabled("guest-exec has been disabled"))]


for name, system, command in (
        ("Debian", "http://debian.org/debian/12", "apt install"),
        ("Ubuntu", "http://ubuntu.com/ubuntu/22.04", "apt install"),
        ("Fedora", "http://fedoraproject.org/fedora/40", "dnf install"),
        ("RHEL", "http://redhat.com/rhel/9.4", "dnf install"),
        ("openSUSE", "http://opensuse.org/opensuse/15.5", "zypper install"),
        ("Alpine", "http://alpinelinux.org/alpinelinux/3.19", "apk add"),
        ("a system that nobody knows", "http://example.com/x", "install"),
        ("no system", None, "install")):
    no_answer, disabled = remedies(system)
    check(f"{name}: an agent that does not answer", no_answer,
          f"{command} qemu-guest-agent in the guest, or see whether it hangs")
    check(f"{name}: one that refuses", disabled.endswith(
        "/etc/sysconfig/qemu-ga" if command == "dnf install"
        else "/etc/qemu/qemu-ga.conf"), True)
print(f"1..{len(results)}")
