# SPDX-License-Identifier: GPL-2.0
"""What `vm` is made of: the emulators, and what they share with it."""
import os

TREE = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.realpath(__file__))))
# Without symbolic links: init could not follow them from outside the root.
BUILD = os.path.realpath(os.path.join(TREE, "build"))

STATUS_TIMEOUT = 124            # as timeout(1)
STATUS_FAILED = 125             # the level failed, not the command


class Failure(Exception):
    def __init__(self, message, status=STATUS_FAILED):
        super().__init__(message)
        self.status = status


class Crashed(Failure):
    """The emulator has crashed before the command started."""
