#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""A guest's agent and perf answer at random: pv-perf then says that the guest has failed,
or accepts a well-formed answer. Runs N seeds, or the given seeds."""
import base64
import io
import json
import random
import sys
import types

from pvperf.record import domain
from pvperf.record.transport import libvirt
from pvperf.record.transport.common import LIMIT, Failed
from vmlib.tap import Tap

DEEP = "[" * 100000


class LibvirtError(Exception):
    def get_error_code(self):
        return 0


def anything(rng, depth=0):
    kind = rng.randrange(12 if depth < 3 else 9)
    if kind < 9:
        return [None, True, False, -1, 2**70, 1e308, "", "\x1b[2J" * 9,
                base64.b64encode(rng.randbytes(
                    rng.choice((0, 3, 70000, 1100000)))).decode()][kind]
    if kind == 9:
        return [anything(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {name: anything(rng, depth + 1) for name in
            rng.sample(["return", "pid", "exited", "exitcode", "out-data",
                        "err-data", "buf-b64", "eof", "x"], 4)}


def plausible(rng, text):
    """An agent's answer, which is sometimes wrong."""
    output = rng.choice((b"pair\nkernel \x1b[2J\ncpus 99999999\n", b"/etc\n",
                         b"lost -1\nsize 1e9\n", b"early \x9b\xff\x1b]0;x\x07\n",
                         b"size 100\nlost 18446744073709551616\n", b"\0" * 70000,
                         b"../../x\n", b""))
    name = json.loads(text)["execute"]
    answer = {
        "guest-exec": {"pid": 7},
        "guest-exec-status": {"exited": True, "exitcode": 0, "out-data":
                              base64.b64encode(output).decode()},
        "guest-file-open": 1000, "guest-file-close": {},
        "guest-file-read": {"buf-b64": "QUFB", "eof": rng.random() < 0.5},
    }[name]
    if isinstance(answer, dict) and answer and rng.random() < 0.2:
        answer[rng.choice(list(answer))] = anything(rng)
    return answer


class Hostile:
    """Stands in for libvirt's module."""

    def __init__(self, rng):
        self.rng = rng

    def qemuAgentCommand(self, _domain, text, _timeout, _flags):
        kind = self.rng.randrange(20)
        if kind == 0:
            return self.rng.choice(("", "{", "\0", DEEP, '{"return":', "NaN"))
        if kind == 1:
            raise LibvirtError("\x1b[2J" + "x" * 5000)
        if kind == 2:
            return json.dumps(anything(self.rng))
        return json.dumps({"return": plausible(self.rng, text)})


def attempt(seed):
    rng = random.Random(seed)
    connection = types.SimpleNamespace(
        libvirt=types.SimpleNamespace(
            libvirtError=LibvirtError, VIR_ERR_AGENT_UNRESPONSIVE=86,
            VIR_ERR_ARGUMENT_UNSUPPORTED=74), qemu=Hostile(rng))
    agent = libvirt.Agent(connection, None)
    guest = domain.Domain("evil", "guest", agent, place="x")
    guest.patience = 0.02
    file = io.BytesIO()
    for action in (lambda: guest.start(9, "cycles", "m", 100, []), guest.enable,
                   guest.stop, lambda: guest.script_samples(0.02),
                   lambda: agent.fetch("/x", file, 1000, 0.01)):
        try:
            result = agent.call(["true"], 0.01)
            assert isinstance(result, bytes) and len(result) <= LIMIT
            action()
        except Failed as error:
            guest.fail(str(error))
        assert file.tell() <= 1000
        assert guest.status.isprintable() and len(guest.status) < 600
        assert (guest.kernel or "x").isprintable()
    json.dumps(guest.describe())


libvirt.time = types.SimpleNamespace(
    monotonic=libvirt.time.monotonic, sleep=lambda s: None)
seeds = [int(s) for s in sys.argv[2:]] or range(int(sys.argv[1]))
bad = []
for seed in seeds:
    try:
        attempt(seed)
    except Exception as error:
        bad.append(f"seed {seed}: {type(error).__name__}: {error}")
tap = Tap()
tap.ok(not bad, f"{len(seeds)} guests that answer at random do no harm", *bad[:9])
sys.exit(tap.finish())
