# SPDX-License-Identifier: GPL-2.0
"""Creates a file in one step: until it is complete, an old file stays as it is."""
import contextlib
import gzip
import os
import tempfile

from pvperf.error import Error


@contextlib.contextmanager
def create(path, packed=False):
    """Opens a new file to write bytes, which gzip compresses if packed."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise Error(f"{path} is not a regular file")
    try:
        fd, name = tempfile.mkstemp(prefix=".pv-perf.",
                                    dir=os.path.dirname(path) or ".")
    except OSError as error:
        raise Error(f"{path}: {error.strerror}") from None
    try:
        with open(fd, "wb") as raw:
            if packed:
                # Without a name and a time in the header.
                with gzip.GzipFile("", "wb", 6, raw, 0) as f:
                    yield f
            else:
                yield raw
        mask = os.umask(0o077)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)
        os.replace(name, path)
    except OSError as error:
        os.unlink(name)
        raise Error(f"{path}: {error.strerror}") from None
    except BaseException:
        os.unlink(name)
        raise
