# SPDX-License-Identifier: GPL-2.0
"""A tree of stacks: common beginnings are kept once."""
import array


class Tree:
    """Nodes in the order of their creation: each node comes after its parent.

    The children of node 0 are groups: frames has the group's number for these nodes, and
    the frame for the other nodes.  If there are limit nodes, the rest of a new stack is one
    node of the frame more."""

    def __init__(self, limit, more):
        self.limit, self.more = limit, more
        self.ids = {}
        self.parents = array.array("I", [0])
        self.frames = array.array("I", [0])
        self.events, self.samples = [0], array.array("L", [0])
        self.cut = 0                # samples with a cut stack

    def new(self, key, parent, frame):
        node = self.ids[key] = len(self.parents)
        self.parents.append(parent)
        self.frames.append(frame)
        self.events.append(0)
        self.samples.append(0)
        return node

    def group(self, number):
        """The node of a group."""
        return self.ids.get(number) or self.new(number, 0, number)

    def add(self, node, frames, events):
        """Counts a sample below a group's node.  frames: the innermost first."""
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
        """The events of each node, with those of all nodes below it."""
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
