# SPDX-License-Identifier: GPL-2.0
"""Runs work, and undoes it however it ends.

There are two processes.  The worker works.  The guard waits for the worker's end, and then
undoes the work.  If the guard is killed, the worker gets a signal, and undoes the work
itself."""
import ctypes
import os
import signal
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


def work_alone(work, undo, parent):
    """Runs in the worker, which leads its own process group."""
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
            # The guard was killed: end this group's programs, and undo the work here.
            ignore_stops()
            os.killpg(0, signal.SIGTERM)
            undo()
    return status


def wait(child, seconds, signals=()):
    """The child's exit status; None after this many seconds, or if there are signals."""
    end = time.monotonic() + seconds
    # Signals first: a signal that came before the child's end must not go unnoticed.
    while not signals:
        try:
            pid, status = os.waitpid(child, os.WNOHANG)
        except ChildProcessError:       # waitpid() has returned its status already
            return 0
        if pid:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            break
        time.sleep(0.1)
    return None


def stop(child):
    # A stopped process handles SIGTERM only after SIGCONT.
    signal_group(child, signal.SIGTERM)
    signal_group(child, signal.SIGCONT)
    if wait(child, PATIENCE) is None:
        signal_group(child, signal.SIGKILL)
        wait(child, PATIENCE)


def run(work, undo, seconds, say):
    """Runs work() for at most this many seconds, and then undo().  Returns work()'s status."""
    sys.stdout.flush()
    parent = os.getpid()
    # Block signals until both processes have their handlers.
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

    # Only note signals: an exception in a handler could interrupt undo().
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
    # The worker may have left QEMU or a compiler.
    signal_group(child, signal.SIGKILL)
    undo()
    return status if status >= 0 else 128 - status
