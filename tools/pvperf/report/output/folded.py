# SPDX-License-Identifier: GPL-2.0
"""Folded stacks, for flamegraph.pl, speedscope and others: each line has a stack, the
outermost function first, and its number of events."""
from pvperf.report.frames import label


def word(text):
    """A word of a stack, which cannot contain a ; because ; separates words."""
    return text.replace(";", ":")


class Writer:
    """Writes each Profile to the file at once."""

    def __init__(self, file):
        self.file = file

    def write(self, words, events):
        line = ";".join(map(word, words)) + f" {events}\n"
        self.file.write(line.encode("utf-8", "replace"))

    def add(self, profile):
        """Writes the stacks of a samples file's Profile."""
        tree, frames = profile.tree, profile.frames
        for node, samples in enumerate(tree.samples):
            if samples:
                number, stack = tree.stack(node)
                group = profile.groups[number]
                self.write([*filter(None, (group.area, group.process, group.thread)),
                            *(label(frames.names[f], frames.objects[f])
                              for f in reversed(stack))], tree.events[node])

    def close(self, all_accounts, _):
        """Writes the events without samples."""
        for what, events, _, _ in sum((a.missing for a in all_accounts), []):
            self.write([f"[{what}]"], events)
