# SPDX-License-Identifier: GPL-2.0
"""Judges the figures of the checks."""
import json

from pvperf.qualify.helper import LOW_RATE, MOVES

WORKS, DIFFERS, ABSENT, UNTRIED = "works", "differs", "not there", "not tried"


class Check:
    """meaning: what a failure means for a user.  judge(native, guest, seen) returns (verdict,
    reason): native and guest are the program's figures, seen has the host's notes."""

    def __init__(self, name, title, meaning, judge, needs_native=True):
        self.name, self.title, self.meaning = name, title, meaning
        self.judge, self.needs_native = judge, needs_native


def by(good, text):
    return (WORKS if good else DIFFERS), text


def loop(result):
    """The figures of a counted loop, as text: of the passes, and of a loop with one pass."""
    return (f"{result['instructions'][0]} instructions and {result['branches'][0]} "
            f"branches in {result['passes']} passes, "
            f"{result['instructions'][1]} and {result['branches'][1]} in one")


def judge_counts(native, guest, _, per_pass=2):
    exact = [per_pass * guest["passes"], guest["passes"]]
    found = [guest["instructions"][0], guest["branches"][0]]
    # A real CPU may count more around the loop, but the same natively and in the guest.
    good = found == exact and native["instructions"] == guest["instructions"] and \
        native["branches"] == guest["branches"]
    if [native["instructions"][0], native["branches"][0]] != exact:
        return UNTRIED, f"natively, this CPU counts other numbers, too: {loop(native)}"
    return by(good, f"host: {loop(native)}; guest: {loop(guest)}")


def judge_emulated(native, guest, seen):
    return judge_counts(native, guest, seen, 4)


def judge_groups(native, guest, _):
    good = guest["members"] == 3 and guest["enabled"] == guest["running"] and \
        guest["instructions"] == 2 * guest["passes"] and \
        guest["branches"] == guest["passes"] and guest["cycles"] > 0
    return by(good, f"{guest['members']} events: {guest['instructions']} instructions, "
              f"{guest['branches']} branches, {guest['cycles']} cycles "
              f"(host: {native['cycles']}), enabled {guest['enabled']} ns, "
              f"running {guest['running']} ns")


def judge_tasks(native, guest, _):
    good = guest["wrong"] <= native["wrong"] and \
        set(guest["least"]) == set(native["least"])
    return by(good, f"{guest['wrong']} of {guest['turns']} counts wrong "
              f"(host: {native['wrong']}), the least {guest['least']}")


def expected_samples(result):
    return result["count"] // result["period"]


def is_whole(result):
    """Is the count complete?  It may contain the code around the loop, and one instruction
    for each interrupt, which a real CPU counts."""
    return 0 <= result["count"] - result["instructions"] <= 100 + 2 * result["samples"]


def judge_sampling(native, guest, _):
    # The event counts on after the last overflow.
    good = is_whole(guest) and abs(guest["samples"] - expected_samples(guest)) <= 1 and \
        guest["outside"] <= native["outside"] and not guest["lost"]
    if native["throttled"] or guest["throttled"]:
        return UNTRIED, "the kernel has throttled the samples"
    return by(good, f"{guest['count']} instructions of {guest['instructions']}, "
              f"{guest['samples']} samples of {expected_samples(guest)}, "
              f"{guest['outside']} of them outside of the loop "
              f"(host: {native['samples']}, {native['outside']}); skid in instructions, "
              f"least, median, 99 % and most: {guest['skid']} (host: {native['skid']})")


def judge_frequency(native, guest, _):
    def rate(result):
        return result["samples"] / result["seconds"]
    wanted = guest["frequency"]
    good = 0.7 * wanted <= rate(guest) <= 1.3 * wanted
    if not 0.7 * wanted <= rate(native) <= 1.3 * wanted:
        return UNTRIED, f"natively wrong, too: {rate(native):.0f} samples/s"
    return by(good, f"{rate(guest):.0f} samples/s of {wanted} (host: {rate(native):.0f})")


def judge_nmis(native, guest, seen):
    told = [seen.get("nmis before"), seen.get("nmis after")]
    delivered = told[1][0] - told[0][0] if all(told) else None
    expected = expected_samples(guest)
    good = is_whole(guest) and abs(guest["samples"] - expected) <= 1 and not guest["lost"] and \
        delivered in (None, guest["overflows"]) and guest["nmis"] >= guest["samples"]
    return by(good, f"{guest['count']} instructions of {guest['instructions']}, "
              f"{expected} overflows: the host has told of {delivered}, the guest "
              f"has handled {guest['overflows']} by {guest['nmis']} NMIs, "
              f"{guest['samples']} samples (host: {native['nmis']} NMIs, "
              f"{native['samples']} samples)")


def judge_rdpmc(native, guest, _):
    if not guest["readings"]:
        return ABSENT, "the guest may read no counter by RDPMC"
    wrong = guest["too few"] + guest["too many"] + guest["backwards"]
    good = not wrong and guest["least"] == native["least"] and \
        guest["read() more by"] == native["read() more by"] and \
        guest["readings"] >= guest["of"] // 2
    return by(good, f"{guest['readings']} of {guest['of']} readings by RDPMC, {wrong} wrong, "
              f"the loop of {guest['loop']} with {guest['least']} to {guest['most']} "
              f"instructions (host: {native['least']} to {native['most']}); read() has "
              f"{guest['read() more by']} more (host: {native['read() more by']})")


def judge_residue(native, guest, _):
    if not guest["rounds"]:
        return ABSENT, "the guest may read no counter by RDPMC"
    good = not guest["held"] and not guest["moved"]
    return by(good, f"{guest['readable']} readings of others' counters in "
              f"{guest['rounds']} rounds: {guest['held']} held something, "
              f"{guest['moved']} moved (host: {native['held']}, {native['moved']})")


def judge_limits(native, guest, _):
    # The host keeps at least one counter for itself.
    good = guest["group"] == guest["counters"] and guest["group"] < native["group"] and \
        guest["precise"] != "ok"
    return by(good, f"a group has at most {guest['group']} events, and the guest has "
              f"{guest['counters']} counters (host: {native['group']}); precise_ip: "
              f"{guest['precise']}")


def judge_rate(_, guest, seen):
    before, after = seen.get("rate limit"), seen.get("rate free")
    if not before or not after:
        return UNTRIED, "there is no debugfs"
    # After a rest, twice the burst of 10 ms may come at once: host-admin.rst.
    most = LOW_RATE * guest["seconds"] * 1.1 + 0.02 * LOW_RATE + 5
    stopped = after[1] - before[1]
    good = guest["samples"] <= most and stopped > 0
    return by(good, f"{guest['samples']} samples in {guest['seconds']} s with a limit of "
              f"{LOW_RATE} per second, stopped {stopped} times")


def judge_hypervisor(_, guest, seen):
    exits = [seen.get("exits before"), seen.get("exits after")]
    host = exits[1] - exits[0] if None not in exits else None
    good = guest["cpuid"] == guest["of cpuid"] and guest["io"] == guest["of io"] and \
        guest["exits"] >= guest["of exits"] and \
        (host is None or abs(host - guest["exits"]) <= 0.02 * host + 300)
    return by(good, f"{guest['cpuid']} exits of {guest['of cpuid']} CPUID, {guest['io']} of "
              f"{guest['of io']} OUT, {guest['exits']} of at least {guest['of exits']} "
              f"(KVM's own count: {host})")


def runs(guest):
    return (f"{guest['wrong']} of {guest['runs']} counts wrong, {guest['least']} to "
            f"{guest['most']} of {guest['instructions']}")


def judge_move(_, guest, seen):
    moves = seen.get("moves", 0)
    return by(moves == MOVES and not guest["wrong"] and
              guest["least"] == guest["instructions"],
              f"{moves} moves of the vCPU's thread: {runs(guest)}")


def is_whole_wide(wide):
    """Is this count of all CPUs possible?  No CPU executes 20 instructions in a nanosecond."""
    most = wide["cpus"] * wide["seconds"] * 2e10
    return wide["loop"] <= wide["count"] <= most


def judge_beside(native_counts, guest, seen):
    host = {json.loads(rest)["check"]: json.loads(rest)
            for word, rest in seen.get("beside", []) if word == "result"}
    good = not guest["wrong"] and guest["least"] == guest["instructions"] and \
        "counts" in host and host["counts"] == native_counts and \
        "sampling" in host and \
        abs(host["sampling"]["samples"] - expected_samples(host["sampling"])) <= 1 and \
        "wide" in host and is_whole_wide(host["wide"])
    text = "the host has counted nothing"
    if len(host) == 3 and "instructions" in host["counts"]:
        text = f"the host beside it: {loop(host['counts'])}, " \
            f"{host['sampling'].get('samples')} samples, and {host['wide'].get('count')} " \
            f"instructions of all CPUs with a loop of {host['wide'].get('loop')}"
    return by(good, f"{runs(guest)}; {text}")


def judge_two_guests(native_counts, guest, seen):
    other = seen.get("second guest", {})
    sampling = other.get("sampling", {})
    good = not guest["wrong"] and guest["least"] == guest["instructions"] and \
        other.get("counts") == native_counts and "samples" in sampling and \
        abs(sampling["samples"] - expected_samples(sampling)) <= 1
    text = f"the second has said {other}"
    if "instructions" in other.get("counts", {}) and "samples" in sampling:
        text = f"the second: {loop(other['counts'])}, {sampling['samples']} samples of " \
            f"{expected_samples(sampling)}"
    return by(good, f"{runs(guest)}; {text}")


def judge_lost(_, guest, seen):
    taken = seen.get("taken", 0)
    text = (f"the host has asked for {taken} counters: {guest['marked']} of {guest['runs']} "
            f"counts marked, {guest['unmarked']} wrong and not marked, "
            f"{guest['right afterwards']} of 10 right afterwards")
    if not guest["marked"] and not guest["unmarked"]:
        return UNTRIED, text
    return by(not guest["unmarked"] and guest["right afterwards"] == 10, text)


def judge_branches(native, guest, _):
    text = (f"{guest['records']} records of {guest['overflows']} overflows, {guest['kernel']} "
            f"of them with addresses of the guest's kernel; {guest['foreign']} with an address "
            f"that is not the guest's, {guest['foreign kernel']} of these in a kernel; "
            f"{guest['branches']} branches in {guest['samples']} samples of a loop (host: "
            f"{native['branches']} in {native['samples']}), {guest['outside']} of them outside "
            f"of the loop (host: {native['outside']})")
    expected = native["branches"] / native["samples"] * guest["samples"]
    if guest["foreign"] or guest["branches"] < 0.9 * expected or not guest["samples"] or \
            guest["outside"] > native["outside"]:
        return DIFFERS, text
    if guest["records"] < guest["wanted"] or not guest["kernel"]:
        return UNTRIED, f"fewer records than the {guest['wanted']} that are needed: {text}"
    return WORKS, text


CHECKS = [
    Check("counts", "Counts are exact",
          "Counts of user mode differ from the instructions of the program: do not rely on "
          "perf in a guest.", judge_counts),
    Check("groups", "Groups are exact",
          "Events of a group do not count at the same time: ratios of them, such as "
          "instructions per cycle, are wrong.", judge_groups),
    Check("tasks", "Each task has its own counts",
          "When tasks take turns, instructions of one task are counted for another.",
          judge_tasks),
    Check("emulated", "Instructions that KVM completes are counted",
          "The counts of a program that causes VM exits are too low or too high.",
          judge_emulated),
    Check("sampling", "Samples are complete, and at the right addresses",
          "perf record misses samples, or has them at addresses that were not executed.",
          judge_sampling),
    Check("frequency", "Frequencies are kept",
          "perf record -F takes too few samples, or too many.", judge_frequency),
    Check("nmis", "No overflow's NMI is lost",
          "An overflow does not reach the guest, or the guest gets an NMI without overflow.",
          judge_nmis),
    Check("rdpmc", "RDPMC reads right values",
          "Programs that read counters without a system call get wrong values: leave "
          "kvm.pv_perf_rdpmc off.", judge_rdpmc),
    Check("residue", "RDPMC does not show others' counts",
          "A program sees counts of other programs, or of the host: leave "
          "kvm.pv_perf_rdpmc off.", judge_residue),
    Check("limits", "Limits hold, and missing features are refused",
          "A guest gets more or fewer counters than the host has told it; or perf accepts "
          "an event that it cannot count.", judge_limits),
    Check("rate", "The rate of samples is limited",
          "A guest can load the host with overflows beyond kvm.pv_perf_max_rate.",
          judge_rate, needs_native=False),
    Check("hypervisor", "The hypervisor's events are exact",
          "kvm/exits/ and the other events differ from KVM's own counts.",
          judge_hypervisor, needs_native=False),
    Check("move", "A vCPU that moves between CPUs counts exactly",
          "When the host's scheduler moves a vCPU, counts are lost or counted twice.",
          judge_move, needs_native=False),
    Check("beside", "Host and guest count at the same time",
          "The host's perf disturbs the guest's, or the guest's the host's.",
          judge_beside),
    Check("two_guests", "Two guests count at the same time",
          "Guests disturb each other's counts.", judge_two_guests),
    Check("branches", "Branch records have no address of the host",
          "A guest learns addresses of the host, or its samples have wrong branches: leave "
          "kvm.pv_perf_branches off.", judge_branches),
    Check("lost", "Counters that the host takes are marked",
          "When the host needs all counters, a guest's counts are too low, and perf does "
          "not say so.", judge_lost, needs_native=False),
]

# Checks that are compared with the native figures of another check.
REFERENCE = {"beside": "counts", "two_guests": "counts"}

# Features that no check tries yet.
NOT_YET = {
    "filter": ("The event filter holds", "QEMU has no option that sets one"),
    "nested": ("A nested guest counts exactly", "there is no such check"),
    "suspend": ("A guest that was suspended counts exactly", "there is no such check"),
}


def judge_one(check, native, found, seen, reason):
    guest = found.get(check.name)
    if guest is None:
        return UNTRIED, reason or "the guest ended before this check"
    if "died" in guest:
        return DIFFERS, f"the check did not end: {guest['died']}"
    if "impossible" in guest:
        return ABSENT, guest["impossible"]
    reference = native.get(REFERENCE.get(check.name, check.name), {})
    if check.needs_native and (not reference or "impossible" in reference or
                               "died" in reference):
        return UNTRIED, "not possible natively, either: " + str(
            reference.get("impossible", reference.get("died", "no result")))
    try:
        return check.judge(reference, guest, seen)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        return DIFFERS, f"the guest's figures cannot be read: {error!r}"


def judge(native, found, seen, reasons):
    """[{name, title, verdict, why, meaning}].  reasons: {check: why it was not tried}."""
    rows = []
    for check in CHECKS:
        verdict, why = judge_one(check, native, found, seen, reasons.get(check.name))
        rows.append({"name": check.name, "title": check.title, "verdict": verdict,
                     "why": why, "meaning": check.meaning})
    for name, (title, why) in NOT_YET.items():
        rows.append({"name": name, "title": title, "verdict": UNTRIED, "why": why,
                     "meaning": ""})
    return rows


def log_row(name, title, lines):
    """The row of a kernel's log."""
    return {"name": name, "title": title, "verdict": DIFFERS if lines else WORKS,
            "why": " / ".join(lines[:5]) or "nothing",
            "meaning": "A kernel has warned, or has got an NMI of unknown reason."}


def sentence(rows, driver_error):
    """The sentence that says whether to use the pair on this CPU."""
    names = {c.name for c in CHECKS}
    bad = [r["title"] for r in rows if r["verdict"] == DIFFERS]
    tried = [r for r in rows if r["name"] in names]
    good = sum(r["verdict"] == WORKS for r in tried)
    if driver_error:
        return ("This CPU has not been tried: the driver does not load in a guest "
                f"({driver_error}).")
    if bad:
        return (f"Do not use the pair on this CPU yet: {len(bad)} "
                f"{'checks differ' if len(bad) > 1 else 'check differs'} "
                f"({'; '.join(bad)}).")
    if not good:
        return "This CPU has not been tried: no check could be made."
    rest = len(tried) - good
    return (f"The pair works on this CPU in all {good} checks that were made" +
            (f"; {rest} were not." if rest else "."))
