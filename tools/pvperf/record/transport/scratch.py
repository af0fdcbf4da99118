# SPDX-License-Identifier: GPL-2.0
"""A temporary folder.  If this process is killed, the next process removes the folder."""
import fcntl
import glob
import os
import shutil
import tempfile
import weakref

PREFIX = "pv-perf-ssh."
# The path of a socket has at most 107 bytes, and ssh adds 17 bytes while it creates one.
LONGEST = 107 - 17 - len(f"/{PREFIX}12345678/s")


def parent():
    """The folder that has all such folders."""
    found = tempfile.gettempdir()
    return found if len(os.fsencode(found)) <= LONGEST else "/tmp"


def lock(path):
    """Locks a folder: returns a descriptor that holds the lock; None if another process
    uses the folder, or the folder is another user's."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The folder may be another user's, or may have been removed meanwhile.
        state = os.fstat(fd)
        if state.st_uid == os.geteuid() and state.st_nlink and \
                os.path.samestat(state, os.lstat(path)):
            return fd
    except OSError:
        pass
    os.close(fd)
    return None


def clean():
    """Removes the folders of killed processes."""
    for path in glob.glob(os.path.join(glob.escape(parent()), PREFIX + "*")):
        fd = lock(path)
        if fd is not None:
            shutil.rmtree(path, ignore_errors=True)
            os.close(fd)


class Folder:
    def __init__(self):
        clean()
        self.fd = None
        # Another process may remove the folder before it is locked.
        while self.fd is None:
            self.name = tempfile.mkdtemp(prefix=PREFIX, dir=parent())
            self.fd = lock(self.name)
        # For a process that ends without remove().
        self.cleanup = weakref.finalize(self, shutil.rmtree, self.name,
                                        ignore_errors=True)

    def remove(self):
        self.cleanup()
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None
