# SPDX-License-Identifier: GPL-2.0
"""Work that is undone, whatever ends it.

Two processes: one works, the other waits, and undoes the work when the first has ended in
whatever way.  If the second is killed, the first is told, and undoes it itself."""
import ctypes
import os
import signal
import subprocess
import sys
import time

PR_SET_PDEATHSIG = 1
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# How long the worker may take to stop.
PATIENCE = 20

libc = ctypes.CDLL(None, use_errno=True)


def start(words, **options):
    """A program that ends with this process."""
    return subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "--", *words], **options)


def signal_group(leader, number):
    try:
        os.killpg(leader, number)
    except ProcessLookupError:
        pass


class Stopped(Exception):
    """By a signal, to the process that waits."""


def work_alone(work, undo, parent):
    """In the process that works, which leads a group of its own."""
    os.setsid()
    for number in STOPS:
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
    status = 1
    try:
        if os.getppid() == parent:
            status = work()
    except SystemExit as end:
        status = end.code
    finally:
        if os.getppid() != parent:
            # Nobody waits.
            for number in STOPS:
                signal.signal(number, signal.SIG_IGN)
            os.killpg(0, signal.SIGTERM)
            undo()
    return status


def wait(child, seconds):
    """Its status, or None."""
    end = time.monotonic() + seconds
    while True:
        try:
            pid, status = os.waitpid(child, os.WNOHANG)
        except ChildProcessError:       # it was just waited for
            return 0
        if pid:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            return None
        time.sleep(0.1)


def stop(child):
    # It may be stopped, and take no signal but this.
    signal_group(child, signal.SIGTERM)
    signal_group(child, signal.SIGCONT)
    if wait(child, PATIENCE) is None:
        signal_group(child, signal.SIGKILL)
        wait(child, PATIENCE)


def run(work, undo, seconds, say):
    """The status of work(), at most so many seconds of it, and then undo()."""
    sys.stdout.flush()
    parent = os.getpid()
    # Until both are ready for one.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    child = os.fork()
    if not child:
        status = 1
        try:
            status = work_alone(work, undo, parent)
        except Exception as error:      # pylint: disable=broad-exception-caught
            print(f"pv-perf: {error}", file=sys.stderr)
        finally:
            sys.stdout.flush()
            # pylint: disable-next=protected-access
            os._exit(status if isinstance(status, int) else 1)

    def stopped(number, _):
        raise Stopped(signal.Signals(number).name)

    for number in STOPS:
        signal.signal(number, stopped)
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
        status = wait(child, seconds)
        if status is None:
            say(f"no end after {seconds} s: stopped")
            stop(child)
            status = 124
    except Stopped as by:
        for number in STOPS:
            signal.signal(number, signal.SIG_IGN)
        say(f"stopped by {by}")
        stop(child)
        status = 130
    for number in STOPS:
        signal.signal(number, signal.SIG_IGN)
    # What it has left: QEMU, a compiler.
    signal_group(child, signal.SIGKILL)
    undo()
    return status if status >= 0 else 128 - status
