# SPDX-License-Identifier: GPL-2.0
"""Runs commands on machines by ssh, with a key and without questions."""
import shlex
import shutil

from pvperf import text
from pvperf.error import Error
from pvperf.record.transport import common, scratch

# Runs a command as root: by sudo if the user is not root.
AS_ROOT = 'test "$(id -u)" = 0 && exec "$@"; exec sudo -n -- "$@"'


class Ssh:
    """A host that ssh can reach.  All commands use one connection, as root or as a user who
    may become root by sudo."""

    def __init__(self, host):
        if not shutil.which("ssh"):
            raise Error("there is no ssh", "apt install openssh-client")
        # ssh would take such a host for an option, or a command.
        if host.startswith("-") or not host:
            raise Error(f"ssh:{host} does not name a host", "--vm ssh:root@HOST")
        self.folder = scratch.Folder()
        self.words = ["ssh", "-T", "-x", "-a"]
        for option in ("BatchMode=yes", "ConnectTimeout=10",
                       "ServerAliveInterval=5", "ServerAliveCountMax=3",
                       "ClearAllForwardings=yes", "PermitLocalCommand=no",
                       "RemoteCommand=none",
                       "ControlMaster=auto", "ControlPersist=60",
                       f"ControlPath={self.folder.name}/s"):
            self.words += ["-o", option]
        self.host = host

    def command(self, words):
        return [*self.words, "--", self.host,
                shlex.join(["sh", "-c", AS_ROOT, "sh", *words])]

    def call(self, words, timeout):
        try:
            return common.call(self.command(words), timeout)
        except common.Failed as error:
            if "sudo:" not in str(error):
                raise
            raise common.Failed(
                f"{error}. Remedy: --vm ssh:root@HOST, or let this user run sudo without "
                "a password: USER ALL=(root) NOPASSWD: ALL in its sudoers") from None

    def fetch(self, path, file, limit, timeout):
        status, errors = common.run(
            self.command(["cat", path]), timeout,
            common.Bounded(limit, file.write))
        if status:
            raise common.Failed(text.line(errors))

    def close(self):
        try:
            common.call([*self.words, "-O", "exit", "--", self.host], 5)
        except common.Failed:
            pass                # the connection has ended already
        self.folder.remove()
