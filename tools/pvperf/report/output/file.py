# SPDX-License-Identifier: GPL-2.0
"""A file that is there when it is complete, or as it was before."""
import contextlib
import gzip
import os
import tempfile

from pvperf.error import Error


@contextlib.contextmanager
def create(path, packed=False):
    """Opens it to write bytes, with gzip where packed."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise Error(f"{path} is no regular file")
    try:
        fd, name = tempfile.mkstemp(prefix=".pv-perf.",
                                    dir=os.path.dirname(path) or ".")
    except OSError as error:
        raise Error(f"{path}: {error.strerror}") from None
    try:
        with open(fd, "wb") as raw:
            if packed:
                # No name and no time in it.
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
