# SPDX-License-Identifier: GPL-2.0
"""The configuration of pv-perf service: sections, keys, and their allowed values."""
import configparser
import os
import types
import urllib.parse

from pvperf.error import Error

DEFAULT_PATH = "/etc/pv-perf/service.conf"


def number(least, most):
    def parse(word):
        value = float(word)
        if not least <= value <= most:
            raise ValueError(f"{word} is not from {least} to {most}")
        return int(value) if value == int(value) else value
    return parse


def words(text):
    return text.split()


def yes_or_no(word):
    if word not in ("yes", "no"):
        raise ValueError(f"{word} is neither yes nor no")
    return word == "yes"


def address(word):
    parts = urllib.parse.urlsplit(word)
    # A message with the word might show a secret.
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError("it may have only host, port and path; secrets go in token_file")
    if word and (parts.scheme not in ("http", "https") or not parts.hostname):
        raise ValueError("it is not an address of http or https")
    return word.rstrip("/")


def label(word):
    if not word or not all(c.isalnum() and c.isascii() or c in "._-" for c in word):
        raise ValueError(f"{word!r} may have only letters, digits, '.', '_' and '-'")
    return word


def place(word):
    if not os.path.isabs(word):
        raise ValueError(f"{word!r} is not an absolute path")
    return word


def place_or_none(word):
    return place(word) if word else word


# {section: {key: (parse, default)}}
KEYS = {
    "record": {"connect": (words, "qemu:///system"), "event": (str, "cycles"),
               "hz": (number(19, 99), "49"), "seconds": (number(1, 3600), "10"),
               "every": (number(1, 86400), "300"), "callgraph": (yes_or_no, "no")},
    "budget": {"cpu": (number(0.01, 100), "1"), "mb": (number(10, 1 << 20), "1024")},
    "vms": {"only": (words, ""), "except": (words, "")},
    "push": {"url": (address, ""), "name": (label, "pv-perf"), "tenant": (str, ""),
             "token_file": (place_or_none, "")},
    "files": {"profiles": (place, "/var/lib/pv-perf/profiles"),
              "audit": (place, "/var/log/pv-perf/audit.log"),
              "state": (place, "/var/lib/pv-perf/service.json")},
}


def read(path):
    """The configuration: a namespace with a namespace for each section."""
    parser = configparser.ConfigParser(interpolation=None)
    try:
        with open(path, encoding="utf-8") as f:
            state = os.fstat(f.fileno())
            if state.st_mode & 0o022 or state.st_uid not in (0, os.geteuid()):
                raise Error(f"{path}: others than root may write it",
                            f"chown root {path}; chmod go-w {path}")
            parser.read_file(f)
    except OSError as error:
        raise Error(f"{path}: {error.strerror}", "cp /usr/share/doc/pv-perf/examples/"
                    f"service.conf {path}, and edit it") from None
    except (configparser.Error, UnicodeDecodeError) as error:
        raise Error(f"{path}: {error}") from None
    found = types.SimpleNamespace()
    for section in parser.sections():
        unknown = set(parser[section]) - set(KEYS.get(section, ()))
        if section not in KEYS or unknown:
            raise Error(f"{path}: unknown: [{section}] {' '.join(sorted(unknown))}".rstrip(),
                        "use only: " + "; ".join(f"[{s}] {' '.join(k)}"
                                                 for s, k in KEYS.items()))
    for section, keys in KEYS.items():
        values = {}
        for key, (parse, default) in keys.items():
            word = parser.get(section, key, fallback=default)
            try:
                values[key] = parse(word)
            except ValueError as error:
                raise Error(f"{path}: [{section}] {key}: {error}") from None
        setattr(found, section, types.SimpleNamespace(**values))
    if not found.vms.only:
        raise Error(f"{path}: [vms] only names no VM",
                    "only = PATTERN..., for the VMs that may be recorded; * for all")
    if found.record.seconds > found.record.every:
        raise Error(f"{path}: [record] seconds is more than every",
                    "every = at least the length of a window")
    return found
