# SPDX-License-Identifier: GPL-2.0
"""Stacks that begin the same, kept once."""
import array


class Tree:
    """Nodes in the order in which they came: each behind its parent.

    The children of node 0 are groups; frames has the number of a group there, and
    of a frame elsewhere. More than limit are not kept: then the rest of a stack is
    one node, of the frame more."""

    def __init__(self, limit, more):
        self.limit, self.more = limit, more
        self.ids = {}
        self.parents = array.array("I", [0])
        self.frames = array.array("I", [0])
        self.events, self.samples = [0], array.array("L", [0])
        self.cut = 0                # samples without all of their stack

    def new(self, key, parent, frame):
        node = self.ids[key] = len(self.parents)
        self.parents.append(parent)
        self.frames.append(frame)
        self.events.append(0)
        self.samples.append(0)
        return node

    def group(self, number):
        """Its node."""
        return self.ids.get(number) or self.new(number, 0, number)

    def add(self, node, frames, events):
        """A sample of a group's node; frames are the innermost first."""
        find = self.ids.get
        for frame in reversed(frames):
            key = node << 32 | frame
            found = find(key)
            if found is None:
                if len(self.parents) >= self.limit:
                    self.cut += 1
                    key = node << 32 | self.more
                    node = find(key) or self.new(key, node, self.more)
                    break
                found = self.new(key, node, frame)
            node = found
        self.events[node] += events
        self.samples[node] += 1

    def totals(self):
        """Of each node, with all behind it."""
        result = list(self.events)
        for node in range(len(result) - 1, 0, -1):
            result[self.parents[node]] += result[node]
        return result

    def stack(self, node):
        """(group, frames, the innermost first)"""
        frames = []
        while self.parents[node]:
            frames.append(self.frames[node])
            node = self.parents[node]
        return self.frames[node], frames
