# SPDX-License-Identifier: GPL-2.0
"""Folded stacks, as flamegraph.pl, speedscope and many others read them: a line for each
stack, the outermost first, and how many events it stands for."""
from pvperf.report.frames import label


def word(text):
    """Of a stack, where ; ends a word and a newline all."""
    return text.replace(";", ":")


class Writer:
    """Writes what it is given to a file at once."""

    def __init__(self, file):
        self.file = file

    def write(self, words, events):
        line = ";".join(map(word, words)) + f" {events}\n"
        self.file.write(line.encode("utf-8", "replace"))

    def add(self, profile):
        """What there is of a samples file."""
        tree, frames = profile.tree, profile.frames
        for node, samples in enumerate(tree.samples):
            if samples:
                number, stack = tree.stack(node)
                group = profile.groups[number]
                self.write([*filter(None, (group.area, group.process, group.thread)),
                            *(label(frames.names[f], frames.objects[f])
                              for f in reversed(stack))], tree.events[node])

    def close(self, all_accounts, _):
        """With what no sample stands for."""
        for what, events, _, _ in sum((a.missing for a in all_accounts), []):
            self.write([f"[{what}]"], events)
