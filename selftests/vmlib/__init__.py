# SPDX-License-Identifier: GPL-2.0
"""The parts of `vm`: the emulators, and definitions that they share with vm."""
import os

TREE = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.realpath(__file__))))
# Without symbolic links: init could not follow them from outside the root.
BUILD = os.path.realpath(os.path.join(TREE, "build"))

STATUS_TIMEOUT = 124            # like timeout(1)
STATUS_FAILED = 125             # the level failed, not the command


class Failure(Exception):
    def __init__(self, message, status=STATUS_FAILED):
        super().__init__(message)
        self.status = status


class Crashed(Failure):
    """The emulator has crashed before the command started."""
