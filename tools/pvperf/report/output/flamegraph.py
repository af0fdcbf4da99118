# SPDX-License-Identifier: GPL-2.0
"""A flame graph in a page that needs nothing but itself: domain, process, stack."""
import base64
import hashlib
import html
import json
import os

from pvperf.report.frames import label

# In a page, of all.
NODES = 40000


def template(name):
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    with open(path, encoding="utf-8") as f:
        return f.read()


def script_data(value):
    """JSON in a page, where no tag may begin in it."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


def hashed(code):
    digest = hashlib.sha256(code.encode()).digest()
    return "sha256-" + base64.b64encode(digest).decode()


class Writer:
    """Keeps of each samples file the largest nodes."""

    def __init__(self, file, session, shares):
        self.file, self.session = file, session
        self.room = NODES // shares
        self.names, self.ids = [], {}
        # Of each: its parent's place, its name's, and events; 0 is the whole.
        self.nodes = []
        self.areas = {}
        self.name("all")
        self.dropped = 0

    def name(self, text):
        found = self.ids.get(text)
        if found is None:
            found = self.ids[text] = len(self.names)
            self.names.append(text)
        return found

    def node(self, parent, name, events):
        self.nodes.append([parent, self.name(name), events])
        return len(self.nodes)

    def area(self, name, events):
        """The place of a domain's node, which is now so much larger."""
        if name not in self.areas:
            self.areas[name] = self.node(0, name, 0)
        self.nodes[self.areas[name] - 1][2] += events
        return self.areas[name]

    def add(self, profile):
        tree, frames = profile.tree, profile.frames
        totals = tree.totals()
        least = sorted(totals, reverse=True)[:self.room][-1]
        places, processes = {}, {}
        for node in range(1, len(totals)):
            parent, events = tree.parents[node], totals[node]
            if not parent:
                places[node] = self.process(
                    processes, profile.groups[tree.frames[node]], events)
            elif events >= least and parent in places and \
                    len(places) < 2 * self.room:
                frame = tree.frames[node]
                places[node] = self.node(places[parent], label(
                    frames.names[frame], frames.objects[frame]), events)
            else:
                self.dropped += 1

    def process(self, processes, group, events):
        """The place of its node; that of several vCPUs is one."""
        area = self.area(group.area, events)
        key = group.area, group.process
        if key not in processes:
            processes[key] = self.node(area, group.process, 0)
        self.nodes[processes[key] - 1][2] += events
        return processes[key]

    def close(self, all_accounts, notes):
        for what, events, _, _ in sum((a.missing for a in all_accounts), []):
            self.area(what, events)
        if self.dropped:
            notes.append(f"the flame graph leaves out {self.dropped:,} of the "
                         "smallest: they are blank above the function that "
                         "called them")
        s = self.session
        code = template("flamegraph.js")
        title = f"{s.event} of host {s.host_name} and its guests"
        page = template("flamegraph.html").format(
            hash=hashed(code), code=code, title=html.escape(title),
            when=html.escape(f"{s.began}, {s.seconds:,.1f} s"),
            notes="".join(f"<li>{html.escape(n)}</li>" for n in notes),
            data=script_data({
                "event": s.event, "names": self.names, "nodes": self.nodes,
                "order": [r.words[0] for a in all_accounts
                          for r in a.by_domain()]}))
        self.file.write(page.encode("utf-8", "replace"))
