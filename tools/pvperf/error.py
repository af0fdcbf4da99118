# SPDX-License-Identifier: GPL-2.0
"""What ends a command of pv-perf."""


class Error(Exception):
    """What is wrong, and what to do about it; with what status pv-perf ends."""

    def __init__(self, what, remedy=None, status=1):
        super().__init__(what + (f"\nRemedy: {remedy}" if remedy else ""))
        self.status = status
