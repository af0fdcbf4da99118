# SPDX-License-Identifier: GPL-2.0
"""The functions of a samples file, each once, in bounded memory."""
from pvperf import text

UNKNOWN = (b"", b"[unknown]")
# The idle functions that perf knows (symbol__is_idle() in tools/perf/util/symbol.c), and
# those of newer kernels.
IDLE = frozenset("""acpi_idle_do_entry acpi_processor_ffh_cstate_enter arch_cpu_idle
    cpu_idle cpu_startup_entry idle_cpu intel_idle intel_idle_ibrs
    intel_idle_irq default_idle native_safe_halt pv_native_safe_halt
    native_halt enter_idle exit_idle mwait_idle mwait_idle_with_hints
    mwait_idle_with_hints.constprop.0 poll_idle acpi_safe_halt
    default_idle_call do_idle cpuidle_enter cpuidle_enter_state
    haltpoll_enter_idle default_enter_idle""".split())


def label(name, where):
    """The name of a function; with the object if the name is not a function's."""
    return f"{name} ({where})" if where and name.startswith("[") else name


class Frames:
    """A frame is a number, the index in names and objects."""

    def __init__(self, limit):
        self.limit = limit
        self.names, self.objects, self.ids = [], [], {}
        self.dropped = 0            # frames for which there was no room
        self.none = self.add("[no address]")
        self.more = self.add("[more]")
        self.other = self.add("[other symbols]")
        self.left = limit // 2      # room for addresses
        # (address, object) of the addresses that are not resolved yet.  For addresses that
        # cannot be resolved: {frame: (Map, address)}, {frame: the object's frame [unknown]}.
        self.unresolved, self.places, self.bases = [], {}, {}

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
        """For script.Parser: the frame of an address.  If the address is not resolved yet,
        ~address for a passive guest, otherwise ~index in unresolved."""
        if symbol not in UNKNOWN:
            return self.add(text.name(symbol), text.name(where))
        if passive:
            return ~address
        if len(self.unresolved) < self.limit:
            self.unresolved.append((address, where[:text.LONGEST]))
            return ~(len(self.unresolved) - 1)
        return self.unknown(where)

    def unknown(self, where, place=None, address=0):
        """The frame of an unknown function.  Each file has one such frame for tables.  If
        place is known, each address in the file has its own frame."""
        where = "" if where in UNKNOWN else text.name(where)
        base = self.add("[unknown]", where)
        if place is None:
            return base
        # Processes map the file at different addresses.
        key = place.build_id, address - place.start + place.offset
        found = self.ids.get(key)
        if found is None:
            if self.left == 0 or len(self.names) >= self.limit:
                return base
            self.left -= 1
            found = self.ids[key] = len(self.names)
            self.names.append("[unknown]")
            self.objects.append(where)
            self.places[found], self.bases[found] = (place, address), base
        return found

    def resolve(self, number, maps, pid, finder):
        """The frame of an address that intern() has not resolved.  number: the index in
        unresolved."""
        address, where = self.unresolved[number]
        # If perf knows the file, the address is the one in the file.
        place = None if not maps else maps.find(pid, address) if where in UNKNOWN \
            else maps.file(where)
        if place and where in UNKNOWN:
            where = maps.paths[place.build_id]
        name = finder.find(place, address) if place else None
        return self.add(name, text.name(where)) if name \
            else self.unknown(where, place, address)

    def passive(self, address, kallsyms):
        """The frame of an address in a passive guest: the function by kallsyms, if there is
        any, otherwise the address."""
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
