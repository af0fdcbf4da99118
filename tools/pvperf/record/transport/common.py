# SPDX-License-Identifier: GPL-2.0
"""Common code of the transports local, ssh and libvirt.

A transport runs commands on a machine: call(words, timeout) runs a command and returns its
output, fetch(path, file, limit, timeout) copies a file to here, and close() ends it. They
raise Failed. All data from the machine is hostile: this file bounds its size, and callers
must check it before they print or use it.
"""
import os
import selectors
import signal
import subprocess
import time

from pvperf import text

# The number of bytes that a command may print.
LIMIT = 1 << 16


class Failed(Exception):
    """A machine has failed to run a command; the text says why."""


def kill(process):
    """Kills the process and its process group."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def communicate(process, sinks, timeout):
    """Passes the data of each pipe to sinks[pipe](data), until all pipes have ended."""
    with selectors.DefaultSelector() as selector:
        for pipe in sinks:
            selector.register(pipe, selectors.EVENT_READ)
        deadline = time.monotonic() + timeout
        while selector.get_map():
            ended = process.poll() is not None
            ready = selector.select(min(1, max(0, deadline - time.monotonic())))
            for key, _ in ready:
                data = os.read(key.fd, 1 << 16)
                if data:
                    sinks[key.fileobj](data)
                else:
                    selector.unregister(key.fileobj)
            # The process may have left children that hold the pipes open.
            if ended and not ready:
                break
            if time.monotonic() > deadline:
                raise Failed(f"no answer within {timeout:.0f} s")
    try:
        process.wait(max(1, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise Failed(f"no end within {timeout:.0f} s") from None


class Bounded:
    """A sink that raises Failed if it gets more than limit bytes."""

    def __init__(self, limit, write=None):
        self.left, self.data, self.write = limit, b"", write

    def __call__(self, data):
        if self.write:
            self.write(data[:self.left])
        else:
            self.data += data[:self.left]
        self.left -= len(data)
        if self.left < 0:
            raise Failed("it sends more than it may")


def run(words, timeout, output):
    """Runs a process on this machine in its own session, which Ctrl-C does not reach.
    Returns its status and its output on stderr."""
    errors = Bounded(LIMIT)
    with subprocess.Popen(words, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          start_new_session=True) as process:
        try:
            communicate(process, {process.stdout: output,
                                  process.stderr: errors}, timeout)
        except BaseException:
            kill(process)
            raise
        return process.returncode, errors.data


def call(words, timeout):
    """The output of a process on this machine."""
    output = Bounded(LIMIT)
    status, errors = run(words, timeout, output)
    if status:
        raise Failed(text.line(errors) or f"it ended with status {status}")
    return output.data


class Local:
    """The transport for this machine."""

    def call(self, words, timeout):
        return call(words, timeout)

    def fetch(self, path, file, limit, timeout):
        status, errors = run(["cat", path], timeout,
                             Bounded(limit, file.write))
        if status:
            raise Failed(text.line(errors))

    def close(self):
        pass
