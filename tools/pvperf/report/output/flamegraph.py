# SPDX-License-Identifier: GPL-2.0
"""A flame graph (domain, process, stack) in a page that loads no other file."""
import array
import base64
import hashlib
import html
import json
import os

from pvperf.report.frames import label

# The size of a page, counted as its nodes and names, and of a node in JSON, in bytes.
SIZE, NODE = 24 << 20, 24
REST = "[left out]"


def template(name):
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    with open(path, encoding="utf-8") as f:
        return f.read()


def script_data(value):
    """JSON for a script element, in which no tag can begin."""
    return json.dumps(value, separators=(",", ":"),
                      ensure_ascii=False).replace("<", "\\u003c")


def hashed(code):
    digest = hashlib.sha256(code.encode()).digest()
    return "sha256-" + base64.b64encode(digest).decode()


class Writer:
    """Keeps the largest nodes of each samples file.  The children of a node for which there
    is no room become one node."""

    def __init__(self, file, session, shares):
        self.file, self.session = file, session
        self.size = SIZE // shares
        self.names, self.ids = [], {}
        # For each node: the index of its parent and of its name, and its events.  Node 0 is
        # the root.
        self.parents, self.of = array.array("I", [0]), array.array("I", [0])
        self.events = [0]
        self.areas, self.processes = {}, {}
        self.vms = {}               # {node with events of one VM only: VM}
        self.rests = []             # nodes that stand for left out nodes
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
        """Adds events to the node of a domain.  Returns the node."""
        if name not in self.areas:
            self.areas[name] = self.node(0, name, 0)
        self.events[self.areas[name]] += events
        return self.areas[name]

    def process(self, group, events):
        """Adds events to the node of a process, or of its thread.  Returns the node.  Groups
        of several vCPUs have one node."""
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
        unknown = {}                # all unknown addresses of a file are one node
        # A parent comes before its children: it has at least as many events.
        for node in sorted(range(1, len(totals)), key=lambda n: -totals[n]):
            parent, events = tree.parents[node], totals[node]
            if not parent:
                places[node] = self.process(profile.groups[tree.frames[node]],
                                            events)
                continue
            if parent not in places:
                self.dropped += 1   # its parent is left out, too
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
            notes.append(f"the flame graph leaves out the {self.dropped:,} smallest "
                         f"boxes: {REST} stands for them in the function that called "
                         "them. A search says how many of its events may be in them")
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
