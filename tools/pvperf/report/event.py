# SPDX-License-Identifier: GPL-2.0
"""Names of events, as perf prints them."""
import re

# Terms that perf takes with any event, and the modifiers behind its name.
TERMS = re.compile(r"(name|period|freq|time|call-graph|stack-size|inherit|"
                   r"no-inherit|overwrite|no-overwrite|max-stack|nr|percore|"
                   r"aux-[a-z-]+)(=.*)?$")
MODIFIERS = re.compile(r"(?<=.):[ukhGHpPSDWIebR]+$|(?<=/)[ukhGHpPSDWIebR]+$")
SAME = {"cpu-cycles": "cycles", "branches": "branch-instructions"}


def plain(name):
    """The event without modifiers and terms, and without the PMU if the event has a name."""
    name = MODIFIERS.sub("", name)
    match = re.match(r"([^/]+)/(.*)/$", name)
    if match:
        terms = match[2].split(",")
        for term in terms:
            if term.startswith("name="):
                return term.removeprefix("name=")
        terms = [t for t in terms if not TERMS.match(t)]
        if not terms:
            name = match[1]
        elif len(terms) == 1 and "=" not in terms[0]:
            name = terms[0]
        else:
            name = f"{match[1]}/{','.join(terms)}/"
    return SAME.get(name, name)


def unit(name):
    """The unit of an event in pprof."""
    return "nanoseconds" if plain(name) in ("cpu-clock", "task-clock") \
        else "count"
