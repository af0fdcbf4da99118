#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# pv-perf qualify without a machine: it undoes its changes and ends its programs, whichever of
# its two processes gets a signal. pv-perf qualify reads reports that others have sent.
# vm: none
# tier: quick
# seconds: 20
tree=$(realpath "$(dirname "$0")/../..")
. "$tree/selftests/tap.sh"
dir=$(mktemp -d)
trap 'rm -r "$dir"' EXIT
cd "$dir" || exit 1

begun() {
	worker=$(head -n 1 noted 2>/dev/null)
	[ -n "$worker" ]
}

# No process is left in the group of the worker.
nobody_left() {
	! pgrep -g "$worker" >/dev/null
}

# interrupt NAME STATUS SIGNAL guard|worker [SIGNAL]: send the signal, and at once a second
# signal
interrupt() {
	rm -f noted
	"$tree/selftests/qualify/guard-test" noted 60 >out &
	guard=$!
	until_true begun
	if [ "$4" = guard ]; then
		kill -"$3" $guard
		[ -z "${5-}" ] || kill -"$5" $guard
	else
		kill -"$3" "$worker"
		[ -z "${5-}" ] || kill -"$5" "$worker"
	fi
	wait $guard 2>/dev/null
	is "$1: the status is $2" $? "$2"
	until_true grep -q undone noted
	is "$1: the changes are undone once" "$(grep -c undone noted)" 1
	until_true nobody_left
	ok "$1: no process is left" nobody_left
}

interrupt "Ctrl-C" 130 INT guard
interrupt "SIGTERM" 130 TERM guard
interrupt "SIGHUP" 130 HUP guard
for n in 1 2 3; do
	interrupt "two signals at once, $n" 130 TERM guard HUP
	interrupt "two signals at once to the worker, $n" 143 TERM worker TERM
done
interrupt "the guard is killed" 137 KILL guard
interrupt "SIGTERM to the worker" 143 TERM worker
interrupt "the worker is killed" 137 KILL worker
interrupt "the worker crashes" 139 SEGV worker

# kill_guard NAME: the guard is killed, and the worker undoes
kill_guard() {
	kill -KILL $guard
	wait $guard 2>/dev/null
	begun
	until_true nobody_left
	is "$1: the changes are undone once" "$(grep -c undone noted)" 1
	ok "$1: no process is left" nobody_left
}

rm -f noted
"$tree/selftests/qualify/guard-test" noted 60 0.5 >out &
guard=$!
until_true begun
kill -STOP $guard
until_true grep -q worked noted
kill_guard "the guard is killed when the work has ended"
rm -f noted
"$tree/selftests/qualify/guard-test" noted 60 0 2 >out &
guard=$!
until_true grep -q undoing noted
kill_guard "the guard is killed while it undoes the changes"
rm -f noted
"$tree/selftests/qualify/guard-test" noted 60 0 >out
is "a worker that ends: the status is the worker's" $? 0
begun
until_true nobody_left
is "a worker that ends: the changes are undone once" "$(grep -c undone noted)" 1
ok "a worker that ends: no process is left" nobody_left

rm -f noted
"$tree/selftests/qualify/guard-test" noted 2 >out
is "a worker that takes too long: the status is 124" $? 124
begun
until_true nobody_left
is "a worker that takes too long: the changes are undone once" "$(grep -c undone noted)" 1
ok "a worker that takes too long: no process is left" nobody_left

# Reports that others have sent.
deep=$(printf '%09999d' 0 | tr 0 '[')
huge=$(printf '%09999d' 0 | tr 0 1)
for text in '' '[]' '{}' '{"format": 2}' "$deep" $'{"format": "\\u001b[2J"}' \
		'{"format": 1, "cpu": {"name": "x"}, "kernel": {"release": "y"}, "sentence": "z",
		"checks": [], "costs": {"a": {"b": [1, '"$huge"']}}}' '{"format": 1, "cpu": {"name": 1}}' \
		'{"format": 1, "cpu": {"name": "x"}, "kernel": {"release": "y"}, "sentence": "z",
		"checks": [{"name": []}], "costs": {}}'; do
	echo "$text" >report.json
	"$tree/tools/pv-perf" qualify --table report.json >out 2>&1
	is "qualify refuses a file that is no report" $? 1
	has "qualify says why a file is no report" '^pv-perf: report.json: it' out
	is "the message about a file that is no report has no terminal escape" \
		"$(grep -c $'\e' out)" 0
done
head -c 5000000 /dev/zero >report.json
"$tree/tools/pv-perf" qualify --compare report.json report.json >out 2>&1
has "qualify refuses a report that is too large" 'more than 4 MB' out
python3 - >report.json <<-'END'
	import json
	print(json.dumps({"format": 1, "cpu": {"name": "A|B\x1b[2J"}, "kernel": {"release": "6.1"},
	    "sentence": "It works.", "costs": {"native": {"read": [1, 2.0, 3, 4], "rdpmc index": 1}},
	    "checks": [{"name": "counts", "title": "Counts", "verdict": "works", "why": ""}]}))
END
"$tree/tools/pv-perf" qualify --table report.json >out 2>&1
is "the table has no terminal escapes and no table marks of a report" "$(tail -n 1 out)" \
	'| A/B?[2J | 6.1 | 1 | 0 | It works. |'
"$tree/tools/pv-perf" qualify --compare report.json <(sed 's/2.0/3.0/; s/"works"/"differs"/' report.json) >out
has "a comparison of two reports shows a different verdict" '^Counts: works, differs' out
has "a comparison of two reports shows a different cost" 'native, read: 2 ns, 3 ns .\+50%' out
"$tree/tools/pv-perf" qualify --compare report.json \
	<(sed 's/"name": "counts"/"name": "\\u001b[2J"/' report.json) >out
has "a comparison of two reports shows a check that only one report has" \
	'^.\[2J: not there, works' out
is "a comparison of two reports has no terminal escape of a check's name" \
	"$(grep -c $'\e' out)" 0
"$tree/tools/pv-perf" qualify --checks counts,nonsense >out 2>&1
is "qualify refuses an unknown check" $? 1
has "qualify names the unknown check" 'no check .nonsense.' out

# The output of a guest may be endless, have terminal escapes, or lack figures.
qualify_module() {
	/usr/bin/python3 -B -c "import sys
sys.path.insert(0, '$tree/tools')
from pvperf.qualify import guest, output, verdicts
$1"
}
is "qualify ends a guest whose output does not end, and its console has no terminal escape" \
	"$(qualify_module '
g = guest.Guest("kernel", "initrd", [], "console")
g.words = ["yes", "\x1b[2J" + "x" * 10000]
with g:
    print(g.run(None)[1], sum(not line.isprintable() for line in g.console))')" \
	"it has said more than 16 MB 0"
is "malformed figures of a guest are judged as different, without an exception" \
	"$(qualify_module '
whole = {"passes": 1, "instructions": [2, 2], "branches": [1, 1]}
for wrong in ({"instructions": []}, {"branches": None}):
    print(*verdicts.judge_one(verdicts.CHECKS[0], {"counts": whole}, {"counts": whole | wrong},
                              {}, None)[:1])' | uniq -c | tr -s " ")" " 2 differs"
echo precious >precious
ln -s precious linked.json
qualify_module 'output.write("linked", {
    "cpu": {}, "cpus": 1, "kernel": {"release": "", "version": ""}, "qemu": "",
    "sentence": "", "checks": [], "costs": {}})'
is "a report replaces a symbolic link and does not write to the link's target" \
	"$(cat precious; grep -c sentence linked.json)" "precious
1"

is "one foreign address differs, and too few records are no evidence" \
	"$(qualify_module '
native = {"branches": 160, "samples": 10, "outside": 0}
whole = native | {"records": 20, "wanted": 20, "overflows": 2, "kernel": 5, "foreign": 0,
                  "foreign kernel": 0}
for wrong in ({}, {"foreign": 1}, {"foreign": 1, "foreign kernel": 1}, {"records": 19},
              {"kernel": 0}, {"branches": 100}, {"samples": 0}, {"outside": 1}):
    print(verdicts.judge_branches(native, whole | wrong, {})[0])' | uniq -c | tr -s " ")" " 1 works
 2 differs
 2 not tried
 3 differs"
is "the count of all CPUs has the host's loop, and is possible" \
	"$(qualify_module '
for count in (999, 1000, 5000, 40 * 10 ** 9, 1 << 46):
    print(int(verdicts.is_whole_wide({"loop": 1000, "cpus": 2, "seconds": 1, "count": count})),
          end="")')" 01110

# A report turns branch records on for its own CPU alone. Another person may have written the
# report, so none of its words becomes an option of a module.
is "a report turns branches on for its own CPU and microcode only" \
	"$(qualify_module '
from pvperf.qualify import evidence
cpu = {"name": "x", "vendor": "AuthenticAMD", "family": "25", "model": "17", "stepping": "1",
       "microcode": "0xa101148", "in a VM": False}

def text(here=None, **verdicts):
    checks = {"counts": ("Counts", "works", ""),
              **{n: (n, v.replace("_", " "), "") for n, v in verdicts.items()}}
    report = {"identity": output.identity(cpu), "sentence": "It works.", "checks": checks}
    try:
        return evidence.text_for(report, {**cpu, **(here or {})}).splitlines()[-1]
    except evidence.Error as error:
        return str(error).splitlines()[0]

for line in (text(branches="works"), text(branches="not_there"), text(branches="not_tried"),
             text(), text(branches="works", rate="differs"), text(counts="not_tried"),
             text({"microcode": "0xa101149"}, branches="works"),
             text({"model": "18"}, branches="works"), text({"in a VM": True}, branches="works"),
             text({"vendor": "GenuineIntel"}, branches="works")):
    print(line)')" "options kvm pv_perf_branches_cpu=0xa10f11 pv_perf_branches_microcode=0xa101148
# result: It works.
# result: It works.
# result: It works.
in the report, checks differ: rate
in the report, no check works
the report is of another CPU: microcode 0xa101148, here 0xa101149
the report is of another CPU: model 17, here 18
the report is of another CPU: in a VM False, here True
the report is of another CPU: vendor AuthenticAMD, here GenuineIntel"
is "the signature of a CPU is that of CPUID" \
	"$(qualify_module '
from pvperf.qualify import evidence
for family, model, stepping in ((25, 17, 1), (23, 49, 0), (6, 158, 9), (26, 2, 1)):
    print(hex(evidence.signature({"family": str(family), "model": str(model),
                                  "stepping": str(stepping)})))')" "0xa10f11
0x830f10
0x906e9
0xb00f21"
python3 - >report.json <<-'END'
	import json
	cpu = {"name": "x", "vendor": "y", "family": "1", "model": "1", "stepping": "1",
	    "microcode": "0x1", "in a VM": False}
	print(json.dumps({"format": 1, "cpu": cpu, "kernel": {"release": "6.1"}, "costs": {},
	    "sentence": "It works.\noptions kvm pv_perf_rdpmc=7",
	    "checks": [{"name": "counts", "title": "", "verdict": "works", "why": ""}]}))
END
is "no text of a report becomes a line of the file of options" \
	"$(qualify_module '
from pvperf.qualify import evidence
evidence.PATH = "options"
evidence.host.cpu = lambda: json.load(open("report.json"))["cpu"]
import json
evidence.install("report.json")
print(open("options").read().count("\noptions"))' | tail -n 1)" 0

is "the README has the table of reports" \
	"$(sed -n '/^<!-- reports/,/^<!-- end/p' "$tree/results/real/README.md" | sed '1d;$d')" \
	"$(shopt -s nullglob; "$tree/tools/pv-perf" qualify --table "$tree"/results/real/*.json)"
finish
