# SPDX-License-Identifier: GPL-2.0
"""A flame graph in a page that needs nothing but itself: domain, process, stack."""
import array
import base64
import hashlib
import html
import json
import os

from pvperf.report.frames import label

# Of a page, in bytes of all nodes and names; and of a node, as JSON has it.
SIZE, NODE = 24 << 20, 24
REST = "[left out]"


def template(name):
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    with open(path, encoding="utf-8") as f:
        return f.read()


def script_data(value):
    """JSON in a page, where no tag may begin in it."""
    return json.dumps(value, separators=(",", ":"),
                      ensure_ascii=False).replace("<", "\\u003c")


def hashed(code):
    digest = hashlib.sha256(code.encode()).digest()
    return "sha256-" + base64.b64encode(digest).decode()


class Writer:
    """Keeps of each samples file the largest nodes, all where there is room; what is left
    out is one node of its parent."""

    def __init__(self, file, session, shares):
        self.file, self.session = file, session
        self.size = SIZE // shares
        self.names, self.ids = [], {}
        # Of each node: its parent's place, its name's, and events; 0 is the whole.
        self.parents, self.of = array.array("I", [0]), array.array("I", [0])
        self.events = [0]
        self.areas, self.processes = {}, {}
        self.vms = {}               # {place of a node that is a VM's alone: VM}
        self.rests = []             # places of what is left out
        self.name("all")
        self.dropped = 0

    def name(self, text):
        found = self.ids.get(text)
        if found is None:
            found = self.ids[text] = len(self.names)
            self.names.append(text)
        return found

    def node(self, parent, name, events):
        self.parents.append(parent)
        self.of.append(self.name(name))
        self.events.append(events)
        return len(self.events) - 1

    def area(self, name, events):
        """The place of a domain's node, which is now so much larger."""
        if name not in self.areas:
            self.areas[name] = self.node(0, name, 0)
        self.events[self.areas[name]] += events
        return self.areas[name]

    def process(self, group, events):
        """The place of its node, or of its thread's; that of several vCPUs is one."""
        at, path = self.area(group.area, events), (group.area,)
        for word in filter(None, (group.process, group.thread)):
            path += (word,)
            if path not in self.processes:
                self.processes[path] = self.node(at, word, 0)
                if len(path) == 2 and group.vm:
                    self.vms[self.processes[path]] = group.vm
            at = self.processes[path]
            self.events[at] += events
        return at

    def add(self, profile):
        tree, frames = profile.tree, profile.frames
        totals = tree.totals()
        places, rests, room = {}, {}, self.size
        unknown = {}                # of one file, all addresses are one node
        # A parent is not smaller than what it calls, and before it.
        for node in sorted(range(1, len(totals)), key=lambda n: -totals[n]):
            parent, events = tree.parents[node], totals[node]
            if not parent:
                places[node] = self.process(profile.groups[tree.frames[node]],
                                            events)
                continue
            if parent not in places:
                self.dropped += 1   # of what is left out already
                continue
            frame = tree.frames[node]
            text = label(frames.names[frame], frames.objects[frame])
            key = places[parent], frames.bases.get(frame, frame)
            if key in unknown:
                places[node] = unknown[key]
                self.events[places[node]] += events
                continue
            room -= NODE + (0 if text in self.ids else 4 * len(text))
            if room > 0:
                places[node] = self.node(places[parent], text, events)
                if frames.names[frame] == "[unknown]":
                    unknown[key] = places[node]
            else:
                rests[places[parent]] = rests.get(places[parent], 0) + events
                self.dropped += 1
        for parent, events in rests.items():
            self.rests.append(self.node(parent, REST, events))

    def close(self, all_accounts, notes):
        s = self.session
        lost = {f"lost: {d.title()}": d.name for d in s.domains if d.kind != "host"}
        for what, events, _, _ in sum((a.missing for a in all_accounts), []):
            place = self.area(what, events)
            if what in lost:
                self.vms[place] = lost[what]
        if self.dropped:
            notes.append(f"the flame graph leaves out {self.dropped:,} of the "
                         f"smallest, which are {REST} of the function that called "
                         "them: a search says how much they may have of it")
        rows = [r for a in all_accounts for r in a.by_domain()]
        code = template("flamegraph.js")
        title = f"{s.event} of host {s.host_name} and its guests"
        page = template("flamegraph.html").format(
            hash=hashed(code), code=code, title=html.escape(title),
            when=html.escape(f"{s.began}, {s.seconds:,.1f} s"),
            notes="".join(f"<li>{html.escape(n)}</li>" for n in notes),
            data=script_data({
                "event": s.event, "names": self.names, "rests": self.rests,
                "parents": self.parents[1:].tolist(),
                "nodes": self.of[1:].tolist(), "events": self.events[1:],
                "vms": self.vms, "order": [r.words[0] for r in rows],
                "marked": [r.words[0] for r in rows if r.mark]}))
        self.file.write(page.encode("utf-8", "replace"))
