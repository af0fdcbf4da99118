# SPDX-License-Identifier: GPL-2.0
"""Machines that are reached by ssh, with a key and no questions."""
import shlex
import shutil
import tempfile

from pvperf import transport
from pvperf.error import Error


class Ssh:
    """root at a HOST as ssh knows it, by one connection for all commands."""

    def __init__(self, host):
        if not shutil.which("ssh"):
            raise Error("there is no ssh", "apt install openssh-client")
        # ssh would take it for an option, or a command.
        if host.startswith("-") or not host:
            raise Error(f"ssh:{host} names no host", "--vm ssh:root@HOST")
        self.folder = tempfile.TemporaryDirectory(prefix="pv-perf.")
        self.words = ["ssh", "-T", "-x", "-a"]
        for option in ("BatchMode=yes", "ConnectTimeout=10",
                       "ServerAliveInterval=5", "ServerAliveCountMax=3",
                       "ClearAllForwardings=yes", "PermitLocalCommand=no",
                       "ControlMaster=auto", "ControlPersist=60",
                       f"ControlPath={self.folder.name}/%C"):
            self.words += ["-o", option]
        self.host = host

    def command(self, words):
        return [*self.words, "--", self.host, shlex.join(words)]

    def call(self, words, timeout):
        return transport.call(self.command(words), timeout)

    def fetch(self, path, file, limit, timeout):
        status, errors = transport.run(
            self.command(["cat", path]), timeout,
            transport.Bounded(limit, file.write))
        if status:
            raise transport.Failed(transport.printable(errors))

    def close(self):
        try:
            transport.call([*self.words, "-O", "exit", "--", self.host], 5)
        except transport.Failed:
            pass                # there is no connection any more
        self.folder.cleanup()
