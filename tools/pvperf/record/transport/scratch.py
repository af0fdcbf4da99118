# SPDX-License-Identifier: GPL-2.0
"""A folder for as long as this process runs; where it was killed, until the next."""
import fcntl
import glob
import os
import shutil
import tempfile
import weakref

PREFIX = "pv-perf-ssh."
# The path of a socket has at most 107 bytes, and ssh adds 17 to it while it makes one.
LONGEST = 107 - 17 - len(f"/{PREFIX}12345678/s")


def parent():
    """Where such folders are."""
    found = tempfile.gettempdir()
    return found if len(os.fsencode(found)) <= LONGEST else "/tmp"


def lock(path):
    """A descriptor that says that it is in use; None where it is, or is not ours."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Nobody else's; nor one that has been removed meanwhile.
        state = os.fstat(fd)
        if state.st_uid == os.geteuid() and state.st_nlink and \
                os.path.samestat(state, os.lstat(path)):
            return fd
    except OSError:
        pass
    os.close(fd)
    return None


def clean():
    """Removes what killed ones have left."""
    for path in glob.glob(os.path.join(glob.escape(parent()), PREFIX + "*")):
        fd = lock(path)
        if fd is not None:
            shutil.rmtree(path, ignore_errors=True)
            os.close(fd)


class Folder:
    def __init__(self):
        clean()
        self.fd = None
        # Another may clean up before this is locked.
        while self.fd is None:
            self.name = tempfile.mkdtemp(prefix=PREFIX, dir=parent())
            self.fd = lock(self.name)
        # Also where this process ends without remove().
        self.cleanup = weakref.finalize(self, shutil.rmtree, self.name,
                                        ignore_errors=True)

    def remove(self):
        self.cleanup()
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None
