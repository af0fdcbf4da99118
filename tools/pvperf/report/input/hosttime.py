# SPDX-License-Identifier: GPL-2.0
"""Converts a guest's time to the host's clock."""
import bisect


class Clock:
    """Interpolates between sorted pairs of (domain's seconds, host's seconds, error).  Before
    the first pair and after the last, the rate of the nearest two pairs applies."""

    def __init__(self, pairs):
        self.times = [p[0] for p in pairs]
        self.pairs = pairs
        self.beyond = 0             # times more than a second from all pairs

    def error(self):
        """The largest error of the pairs, in s."""
        return max(p[2] for p in self.pairs)

    def drift(self):
        """The largest difference of the two clocks' rates, as a ratio."""
        return max((abs((b[1] - a[1]) / (b[0] - a[0]) - 1)
                    for a, b in zip(self.pairs, self.pairs[1:])), default=0.0)

    def host(self, time):
        """The host's time of a domain's time."""
        pairs = self.pairs
        at = bisect.bisect_right(self.times, time)
        self.beyond += time < self.times[0] - 1 or time > self.times[-1] + 1
        if len(pairs) == 1:
            return pairs[0][1] + time - pairs[0][0]
        at = min(max(at, 1), len(pairs) - 1)
        a, b = pairs[at - 1], pairs[at]
        return a[1] + (time - a[0]) * (b[1] - a[1]) / (b[0] - a[0])


class HostClock:
    """The Clock of the host."""
    beyond = 0

    @staticmethod
    def host(time):
        return time
