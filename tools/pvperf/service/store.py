# SPDX-License-Identifier: GPL-2.0
"""The files of the service: the audit log, its state, and profiles within their MB."""
import datetime
import errno
import json
import os
import stat

from pvperf.error import Error


def now():
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")


class Audit:
    """The audit log: a line of JSON for each action, which is on the disk before the next
    action. If the log cannot be written, the service ends."""

    def __init__(self, path):
        self.path = path

    def add(self, action, **what):
        line = (json.dumps({"time": now(), "action": action, **what}) + "\n").encode()
        try:
            # Open the log each time: logrotate may have renamed it.
            os.makedirs(os.path.dirname(self.path), 0o755, exist_ok=True)
            fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW,
                         0o600)
            try:
                written = os.write(fd, line)
                if written != len(line):
                    # Remove the incomplete line.
                    os.ftruncate(fd, os.fstat(fd).st_size - written)
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(fd)
            finally:
                os.close(fd)
        except OSError as error:
            raise Error(f"{self.path}: {error.strerror}; nothing is recorded without "
                        "an audit log", "make room there, or [files] audit elsewhere") from None


def write_json(path, value):
    """Writes a file in one step, also if the machine crashes."""
    os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
    with open(path + ".new", "w", encoding="utf-8") as f:
        json.dump(value, f, indent=1)
        f.write("\n")
        f.flush()
        os.fsync(f.fileno())
    os.replace(path + ".new", path)


class Profiles:
    """Profiles are DIR/TIME.pb.gz.  Each unsent profile has its metadata for the server in
    DIR/unsent/TIME.pb.gz.json."""

    def __init__(self, folder, most):
        self.folder, self.most = folder, most
        self.unsent = os.path.join(folder, "unsent")
        os.makedirs(os.path.dirname(folder.rstrip("/")), 0o755, exist_ok=True)
        for path in (folder, self.unsent):
            self.make_own(path)

    @staticmethod
    def make_own(path):
        """Makes a folder that nobody else may read.  Others' folders stay as they are."""
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            pass
        state = os.lstat(path)
        if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.geteuid() or \
                state.st_mode & 0o077:
            raise Error(f"{path} is not a folder of root's alone",
                        "[files] profiles = a new folder; or chown root and chmod 0700")

    def path(self, name):
        return os.path.join(self.folder, name)

    def names(self):
        return sorted(n for n in os.listdir(self.folder) if n.endswith(".pb.gz"))

    def size(self):
        return sum(os.path.getsize(self.path(n)) for n in self.names())

    def take(self, path, name):
        """Moves a file of the same file system to the profiles."""
        os.replace(path, self.path(name))

    def add(self, name, meta):
        """Marks an existing profile as unsent."""
        write_json(os.path.join(self.unsent, name + ".json"), meta)

    def to_send(self):
        """[(name, meta)] of unsent profiles, the oldest first."""
        found = []
        for name in sorted(os.listdir(self.unsent)):
            if not name.endswith(".json"):
                continue
            try:
                with open(os.path.join(self.unsent, name), encoding="utf-8") as f:
                    found.append((name[:-len(".json")], json.load(f)))
            except ValueError:      # damaged: the profile stays, and is not sent
                os.unlink(os.path.join(self.unsent, name))
        return found

    def sent(self, name):
        try:
            os.unlink(os.path.join(self.unsent, name + ".json"))
        except FileNotFoundError:
            pass

    def make_room(self):
        """Removes the oldest profiles until the rest fits; returns the removed names."""
        gone = []
        for name in self.names():
            if self.size() <= self.most:
                break
            os.unlink(self.path(name))
            self.sent(name)
            gone.append(name)
        return gone
