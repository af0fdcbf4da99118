# SPDX-License-Identifier: GPL-2.0
"""The functions of a samples file, each once, and no more than memory has room for."""
from pvperf import text

UNKNOWN = (b"", b"[unknown]")
# Where perf's own kernel idles: tools/perf/util/symbol.c, symbol__is_idle(), and
# what newer kernels have.
IDLE = frozenset("""acpi_idle_do_entry acpi_processor_ffh_cstate_enter arch_cpu_idle
    cpu_idle cpu_startup_entry idle_cpu intel_idle intel_idle_ibrs
    intel_idle_irq default_idle native_safe_halt pv_native_safe_halt
    native_halt enter_idle exit_idle mwait_idle mwait_idle_with_hints
    mwait_idle_with_hints.constprop.0 poll_idle acpi_safe_halt
    default_idle_call do_idle cpuidle_enter cpuidle_enter_state
    haltpoll_enter_idle default_enter_idle""".split())


def label(name, where):
    """Where it is not clear what it is, with the object."""
    return f"{name} ({where})" if where and name.startswith("[") else name


class Frames:
    """A frame's number is its place in names and objects."""

    def __init__(self, limit):
        self.limit = limit
        self.names, self.objects, self.ids = [], [], {}
        self.dropped = 0            # for want of room
        self.none = self.add("[no address]")
        self.more = self.add("[more]")
        self.other = self.add("[other symbols]")
        self.left = limit // 2      # addresses

    def add(self, name, where=""):
        key = (name, where)
        found = self.ids.get(key)
        if found is not None:
            return found
        if len(self.names) >= self.limit:
            self.dropped += 1
            return self.other
        self.ids[key] = len(self.names)
        self.names.append(name)
        self.objects.append(where)
        return len(self.names) - 1

    def intern(self, address, symbol, where, passive):
        """For script.Parser: its number; ~address where it is not resolved here."""
        if symbol not in UNKNOWN:
            return self.add(text.name(symbol), text.name(where))
        if passive:
            return ~address
        # Of an address, only where it is says something.
        return self.add("[unknown]", "" if where in UNKNOWN else text.name(where))

    def passive(self, address, kallsyms):
        """Of a kernel that somebody has given the symbols of, or an address."""
        found = kallsyms and kallsyms.find(address)
        if found:
            return self.add(*found)
        name = f"0x{address:x}"
        if (name, "") not in self.ids:
            if self.left == 0:
                self.dropped += 1
                return self.other
            self.left -= 1
        return self.add(name)

    def is_idle(self, frame):
        return self.names[frame] in IDLE
