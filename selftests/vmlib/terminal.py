# SPDX-License-Identifier: GPL-2.0
"""A terminal for an emulator that cannot use vm's terminal itself."""
import os
import termios
import threading
import tty


class Terminal:
    """A new terminal, `name`, shown on vm's terminal; C-a x calls `end`."""

    def __init__(self, end):
        self.end = end
        self.master, slave = os.openpty()
        tty.setraw(slave)
        self.name = os.ttyname(slave)
        self.saved = None

    def start(self):
        if os.isatty(0):
            self.saved = termios.tcgetattr(0)
            tty.setraw(0)
        for function in self.send, self.show:
            threading.Thread(target=function, daemon=True).start()

    def send(self):
        escape = False
        while key := os.read(0, 1):
            if escape and key == b"x":
                self.end()
                return
            escape = key == b"\x01" and not escape
            if not escape:
                os.write(self.master, key)

    def show(self):
        while data := os.read(self.master, 65536):
            os.write(1, data)

    def stop(self):
        if self.saved:
            termios.tcsetattr(0, termios.TCSADRAIN, self.saved)
            self.saved = None
