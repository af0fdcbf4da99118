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


def ignore_stops(*_):
    for number in STOPS:
        signal.signal(number, signal.SIG_IGN)


def leave(number, _):
    """Once: another signal must not end what is being undone."""
    ignore_stops()
    sys.exit(128 + number)


def work_alone(work, undo, parent):
    """In the process that works, which leads a group of its own."""
    os.setsid()
    for number in STOPS:
        signal.signal(number, leave)
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
            ignore_stops()
            os.killpg(0, signal.SIGTERM)
            undo()
    return status


def wait(child, seconds, signals=()):
    """Its status, or None: after so many seconds, or when there are signals."""
    end = time.monotonic() + seconds
    while True:
        try:
            pid, status = os.waitpid(child, os.WNOHANG)
        except ChildProcessError:       # it was just waited for
            return 0
        if pid:
            return os.waitstatus_to_exitcode(status)
        if signals or time.monotonic() > end:
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

    # An exception could come at any place; a second one, before it is undone.
    signals = []
    for number in STOPS:
        signal.signal(number, lambda number, _: signals.append(signal.Signals(number).name))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
    status = wait(child, seconds, signals)
    ignore_stops()
    if status is None:
        say(f"stopped by {signals[0]}" if signals else f"no end after {seconds} s: stopped")
        stop(child)
        status = 130 if signals else 124
    # What it has left: QEMU, a compiler.
    signal_group(child, signal.SIGKILL)
    undo()
    return status if status >= 0 else 128 - status
