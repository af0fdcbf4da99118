# SPDX-License-Identifier: GPL-2.0
"""The exception that ends a command of pv-perf."""


class Error(Exception):
    """what: what is wrong; remedy: what to do about it; status: pv-perf's exit status."""

    def __init__(self, what, remedy=None, status=1):
        super().__init__(what + (f"\nRemedy: {remedy}" if remedy else ""))
        self.status = status
