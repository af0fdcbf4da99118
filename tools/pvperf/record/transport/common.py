# SPDX-License-Identifier: GPL-2.0
"""How commands get to a machine: what local, ssh and libvirt have in common.

A transport has call(words, timeout), which runs a command there and returns what it
has printed, fetch(path, file, limit, timeout), which copies a file from there, and
close(). They raise Failed. What comes from the other side is hostile: bounded here,
and to be looked at before it is printed or believed.
"""
import os
import selectors
import signal
import subprocess
import time

from pvperf import text

# What a command may print.
LIMIT = 1 << 16


class Failed(Exception):
    """A machine could not do what it was asked for: a sentence that says why."""


def kill(process):
    """With all that it has started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def communicate(process, sinks, timeout):
    """Passes what comes from each pipe to sinks[pipe](data), until all have ended."""
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
            # What it has left running may hold them open.
            if ended and not ready:
                break
            if time.monotonic() > deadline:
                raise Failed(f"no answer within {timeout:.0f} s")
    try:
        process.wait(max(1, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise Failed(f"no end within {timeout:.0f} s") from None


class Bounded:
    """A sink: keeps no more than it may."""

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
    """Runs a process here in a group of its own, which Ctrl-C does not reach;
    returns its status and what it has printed on stderr."""
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
    """What a process here prints."""
    output = Bounded(LIMIT)
    status, errors = run(words, timeout, output)
    if status:
        raise Failed(text.line(errors) or f"it ended with status {status}")
    return output.data


class Local:
    """This machine."""

    def call(self, words, timeout):
        return call(words, timeout)

    def fetch(self, path, file, limit, timeout):
        status, errors = run(["cat", path], timeout,
                             Bounded(limit, file.write))
        if status:
            raise Failed(text.line(errors))

    def close(self):
        pass
