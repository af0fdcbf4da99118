# SPDX-License-Identifier: GPL-2.0
"""Runs work, and undoes it however it ends.

There are two processes.  The worker works.  When the work has ended, the guard undoes it, and
then kills the worker.  If the guard is killed before that, the worker undoes the work itself."""
import contextlib
import ctypes
import os
import select
import signal
import socket
import subprocess
import sys
import time

PR_SET_PDEATHSIG = 1
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# The time that the worker may take to stop, in s.
PATIENCE = 20

libc = ctypes.CDLL(None, use_errno=True)


def start(words, **options):
    """Starts a program that ends with this process."""
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
    """Ends the worker.  Another signal must not interrupt undo()."""
    ignore_stops()
    sys.exit(128 + number)


def work_alone(work, undo, guard, parent):
    """Runs in the worker, which leads its own process group, until the guard kills it."""
    os.setsid()
    for number in STOPS:
        signal.signal(number, leave)
    # Without the guard, the work has to stop.
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
    status = 1
    try:
        if os.getppid() == parent:
            status = work()
    except SystemExit as end:
        status = end.code
    except Exception as error:      # pylint: disable=broad-exception-caught
        print(f"pv-perf: {error}", file=sys.stderr)
    ignore_stops()
    sys.stdout.flush()
    # The work may have left QEMU or a compiler.
    os.killpg(0, signal.SIGTERM)
    try:
        guard.sendall(bytes([status if isinstance(status, int) else 1]))
        guard.recv(1)
    except OSError:
        pass
    # The guard sends nothing: it was killed.
    undo()
    sys.stdout.flush()


def answer(worker, child, seconds, signals=()):
    """The status that the worker sends or dies with; None after this many seconds, or if there
    are signals."""
    end = time.monotonic() + seconds
    while not signals and time.monotonic() < end:
        # A signal may have come before the worker's end.
        if not select.select([worker], [], [], 0.1)[0] or signals:
            continue
        status = worker.recv(1)
        if status:
            return status[0]
        # The worker has died, and has left what it had started.
        _, code = os.waitpid(child, 0)
        signal_group(child, signal.SIGKILL)
        return 128 - os.waitstatus_to_exitcode(code)
    return None


def stop(worker, child):
    # A stopped process handles SIGTERM only after SIGCONT.
    signal_group(child, signal.SIGTERM)
    signal_group(child, signal.SIGCONT)
    if answer(worker, child, PATIENCE) is None:
        signal_group(child, signal.SIGKILL)


def run(work, undo, seconds, say):
    """Runs work() for at most this many seconds, and then undo().  Returns work()'s status."""
    sys.stdout.flush()
    parent = os.getpid()
    worker, guard = socket.socketpair()
    # Block signals until both processes have their handlers.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    child = os.fork()
    if not child:
        worker.close()
        try:
            work_alone(work, undo, guard, parent)
        finally:
            # pylint: disable-next=protected-access
            os._exit(1)

    guard.close()
    # Only note signals: an exception in a handler could interrupt undo().
    signals = []
    for number in STOPS:
        signal.signal(number, lambda number, _: signals.append(signal.Signals(number).name))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
    status = answer(worker, child, seconds, signals)
    ignore_stops()
    if status is None:
        say(f"stopped by {signals[0]}" if signals else f"no end after {seconds} s: stopped")
        stop(worker, child)
        status = 130 if signals else 124
    undo()
    signal_group(child, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(child, 0)
    return status
