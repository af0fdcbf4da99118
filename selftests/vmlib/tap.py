# SPDX-License-Identifier: GPL-2.0
"""TAP for the tests' Python programs.  Scripts use tap.sh."""


class Tap:
    """Prints results as they come."""

    def __init__(self):
        self.n = self.failed = 0

    def ok(self, good, name, *notes):
        """Prints a result, and the notes if it fails."""
        self.n += 1
        self.failed |= not good
        for note in notes if not good else ():
            self.note(note)
        print(f"{'' if good else 'not '}ok {self.n} {name}", flush=True)

    def note(self, text):
        print("# " + str(text).replace("\n", "\n# "), flush=True)

    def finish(self):
        """Prints the plan; returns the exit status."""
        print(f"1..{self.n}", flush=True)
        return int(self.failed)
