# SPDX-License-Identifier: GPL-2.0
"""What the figures of the checks mean."""
import json

from pvperf.qualify.helper import LOW_RATE, MOVES

WORKS, DIFFERS, ABSENT, UNTRIED = "works", "differs", "not there", "not tried"


class Check:
    """@meaning: of a failure.  @judge gets (native, guest, seen): what the program has
    said natively and in the guest, and what the host has noted; it returns a verdict and
    why."""

    def __init__(self, name, title, meaning, judge, needs_native=True):
        self.name, self.title, self.meaning = name, title, meaning
        self.judge, self.needs_native = judge, needs_native


def by(good, text):
    return (WORKS if good else DIFFERS), text


def loop(result):
    """Of a counted loop, as both sides have said it: what is exact, and what is so."""
    return (f"{result['instructions'][0]} instructions and {result['branches'][0]} "
            f"branches in {result['passes']} passes, "
            f"{result['instructions'][1]} and {result['branches'][1]} in one")


def judge_counts(native, guest, _, per_pass=2):
    exact = [per_pass * guest["passes"], guest["passes"]]
    found = [guest["instructions"][0], guest["branches"][0]]
    # What a real CPU counts around the loop is its own affair, and the same on both.
    good = found == exact and native["instructions"] == guest["instructions"] and \
        native["branches"] == guest["branches"]
    if [native["instructions"][0], native["branches"][0]] != exact:
        return UNTRIED, f"this CPU counts other numbers natively, too: {loop(native)}"
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
    """It has counted all the time, and nothing else but what is around, and interrupts, for
    which a real CPU counts an instruction."""
    return 0 <= result["count"] - result["instructions"] <= 100 + 2 * result["samples"]


def judge_sampling(native, guest, _):
    # The count goes on behind the last overflow.
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
        return UNTRIED, f"not natively, either: {rate(native):.0f} samples/s"
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
    # The host keeps at least one for itself.
    good = guest["group"] == guest["counters"] and guest["group"] < native["group"] and \
        guest["precise"] != "ok"
    return by(good, f"a group has at most {guest['group']} events, and the guest has "
              f"{guest['counters']} counters (host: {native['group']}); precise_ip: "
              f"{guest['precise']}")


def judge_rate(_, guest, seen):
    before, after = seen.get("rate limit"), seen.get("rate free")
    if not before or not after:
        return UNTRIED, "there is no debugfs"
    # Twice that once, after a rest: host-admin.rst.
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


def judge_beside(native_counts, guest, seen):
    host = {json.loads(rest)["check"]: json.loads(rest)
            for word, rest in seen.get("beside", []) if word == "result"}
    good = not guest["wrong"] and guest["least"] == guest["instructions"] and \
        "counts" in host and host["counts"] == native_counts and \
        "sampling" in host and \
        abs(host["sampling"]["samples"] - expected_samples(host["sampling"])) <= 1
    text = "the host has counted nothing"
    if len(host) == 2 and "instructions" in host["counts"]:
        text = f"the host beside it: {loop(host['counts'])}, and " \
            f"{host['sampling'].get('samples')} samples"
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


CHECKS = [
    Check("counts", "Counts are exact",
          "Counts of user mode are not what the program executes: nothing that perf says "
          "in a guest can be relied on.", judge_counts),
    Check("groups", "Groups are exact",
          "Events of a group do not count at the same time: ratios of them, such as "
          "instructions per cycle, are wrong.", judge_groups),
    Check("tasks", "Each task has its own counts",
          "What one task executes is counted for another when they take turns.",
          judge_tasks),
    Check("emulated", "Instructions that KVM completes are counted",
          "A program that makes exits counts too little, or too much.", judge_emulated),
    Check("sampling", "Samples are complete, and where they belong",
          "perf record misses samples, or has them at addresses that were not executed.",
          judge_sampling),
    Check("frequency", "Frequencies are kept",
          "perf record -F takes too few samples, or too many.", judge_frequency),
    Check("nmis", "No overflow's NMI is lost",
          "An overflow does not reach the guest, or the guest is interrupted without one.",
          judge_nmis),
    Check("rdpmc", "RDPMC reads right values",
          "Programs that read counters without a system call get wrong values: leave "
          "kvm.pv_perf_rdpmc off.", judge_rdpmc),
    Check("residue", "RDPMC shows nothing of others",
          "A program sees what other programs, or the host, have counted: leave "
          "kvm.pv_perf_rdpmc off.", judge_residue),
    Check("limits", "Limits hold, and what is not there is refused",
          "A guest gets more counters than it is told of, or fewer; or perf accepts what "
          "it then does not do.", judge_limits),
    Check("rate", "The rate of samples is limited",
          "A guest can load the host with overflows beyond kvm.pv_perf_max_rate.",
          judge_rate, needs_native=False),
    Check("hypervisor", "The hypervisor's events are exact",
          "kvm/exits/ and its kind do not count what KVM does.", judge_hypervisor,
          needs_native=False),
    Check("move", "A vCPU that moves between CPUs counts exactly",
          "What a counter holds is lost, or counted twice, when the host's scheduler "
          "moves a vCPU.", judge_move, needs_native=False),
    Check("beside", "Host and guest count at the same time",
          "The host's perf disturbs the guest's, or the guest's the host's.",
          judge_beside),
    Check("two_guests", "Two guests count at the same time",
          "Guests disturb each other's counts.", judge_two_guests),
    Check("lost", "Counters that the host takes are marked",
          "When the host needs all counters, a guest's counts are too low, and perf does "
          "not say so.", judge_lost, needs_native=False),
]

# Those whose figures are compared with natively made ones of another check.
REFERENCE = {"beside": "counts", "two_guests": "counts"}

# Of the list: nothing says that they work.
NOT_YET = {
    "filter": ("The event filter holds", "QEMU has no option that sets one"),
    "branches": ("Branch records have no address of the host", "there is no such check"),
    "nested": ("A nested guest counts exactly", "there is no such check"),
    "suspend": ("A guest that was suspended counts exactly", "there is no such check"),
}


def judge_one(check, native, found, seen, reason):
    guest = found.get(check.name)
    if guest is None:
        return UNTRIED, reason or "the guest has ended before"
    if "died" in guest:
        return DIFFERS, f"the check did not end: {guest['died']}"
    if "impossible" in guest:
        return ABSENT, guest["impossible"]
    reference = native.get(REFERENCE.get(check.name, check.name), {})
    if check.needs_native and (not reference or "impossible" in reference or
                               "died" in reference):
        return UNTRIED, "not natively, either: " + str(
            reference.get("impossible", reference.get("died", "no result")))
    try:
        return check.judge(reference, guest, seen)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        return DIFFERS, f"the guest's figures cannot be read: {error!r}"


def judge(native, found, seen, reasons):
    """[{name, title, verdict, why, meaning}]; @reasons says of a check why it was not
    tried."""
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
    """Of a kernel's log."""
    return {"name": name, "title": title, "verdict": DIFFERS if lines else WORKS,
            "why": " / ".join(lines[:5]) or "nothing",
            "meaning": "A kernel has warned, or has had an NMI that nobody knew."}


def sentence(rows, driver_error):
    """Whether this CPU is good to use."""
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
