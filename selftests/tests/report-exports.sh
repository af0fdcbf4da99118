#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# pv-perf report: what it exports for other programs has the numbers of the tables, all of
# them or a part of the session: folded stacks, Firefox Profiler, Perfetto, JSON and CSV.
# vm: none
# tier: all
# packages: linux-perf chromium golang-go protobuf-compiler
# seconds: 90
self=$(realpath "$0")
tree=${self%/selftests/*}
. "$tree/selftests/tap.sh"
. "$tree/selftests/report/functions"
begin report-exports

# ask FILE PYTHON: prints what the expression has; d is the JSON of FILE
ask() {
	/usr/bin/python3 - "$@" <<-'END'
	import collections, json, sys
	d = json.load(open(sys.argv[1]))
	print(eval(sys.argv[2]))
	END
}

# folded FILE REGEX: the events of the stacks that match
folded() {
	grep -E "$2" "$1" | awk '{ n += $NF } END { printf "%.0f", n }'
}

"$make_session" --graph session
"$pv_perf" report --timeline trace.pftrace --firefox firefox.json \
	--folded stacks session >out
is "a session is exported" $? 0
"$pv_perf" report --timeline trace.json session >/dev/null

is "folded stacks have all that the CPUs counted" "$(folded stacks .)" 41000$M
is "and who called whom" "$(grep '^host kernel;CPU' stacks)" \
	"host kernel;CPU 0/KVM (web);ioctl;do_syscall_64;svm_vcpu_run 6000$M"
is "and what is lost" "$(grep '^\[lost' stacks)" "[lost: guest db] 1000$M"

"$tree/selftests/report/read-perfetto" trace.pftrace >slices
is "protoc reads the trace for Perfetto, with all slices ended" $? 0
within "as long as nginx ran in a guest, in ms" "$(awk -F'|' '$1 == "guest web" &&
	$2 == "vCPU 0" && $3 == "nginx" { n += $5 } END { printf "%.0f", n }' slices)" 8000 1
is "what happened at one time is there on each clock" \
	"$(awk -F'|' '/hypercall/ { printf "%s %.3f;", $1, $4 }' slices)" \
	"host 500.000;guest web 500.000;guest db 500.000;"
echo "# $(stat -c %s trace.json) bytes of JSON, $(stat -c %s trace.pftrace) of Perfetto's"
ok "and has less than a tenth of the size of JSON" \
	test "$(stat -c %s trace.pftrace)" -lt $(($(stat -c %s trace.json) / 10))

names='{tuple(t[k] for k in ("processName", "name")): len(t["samples"]["data"]) for t in d["threads"]}'
is "the Firefox profile has each thread's samples" \
	"$(ask firefox.json "($names)['guest web user: nginx 10', 'nginx']")" 5000
is "in the order of time" "$(ask firefox.json 'all(a[1] <= b[1] for t in d["threads"]
	for s in [t["samples"]["data"]] for a, b in zip(s, s[1:]))')" True
is "with their stacks" "$(ask firefox.json '[[t["stringTable"][t["frameTable"]["data"][f][0]]
	for p, f in t["stackTable"]["data"]] for t in d["threads"] if t["name"] == "postgres"]')" \
	"[['ExecScan', 'hash_search (inlined)']]"
is "each a stack that is there, behind what called it" "$(ask firefox.json 'all(
	(s[0] is None or s[0] < len(t["stackTable"]["data"])) for t in d["threads"]
	for s in t["samples"]["data"]) and all(p is None or p < i for t in d["threads"]
	for i, (p, f) in enumerate(t["stackTable"]["data"]))')" True

"$pv_perf" report --json session >tables.json
"$pv_perf" report --csv session >tables.csv
is "JSON has the rows of each table" \
	"$(ask tables.json '{k: len(v) for k, v in sorted(d["tables"].items())}')" \
	"{'domains': 14, 'functions': 21, 'processes': 14, 'vms': 12}"
is "and their numbers" "$(ask tables.json '[(r["events"], r["inclusive_percent"], r["samples"])
	for r in d["tables"]["functions"] if r["function"] == "ExecScan"]')" "[(0, 18.2927, 0)]"
is "what may be wrong is marked" \
	"$(ask tables.json '[r["domain"] for r in d["tables"]["domains"] if r["estimated"]]')" \
	"['lost: guest db']"
is "and the reasons are there" "$(ask tables.json 'len(d["notes"])')" 8
is "CSV has the same" "$(/usr/bin/python3 -c '
import csv, collections
print(dict(collections.Counter(r["table"] for r in csv.DictReader(open("tables.csv")))))')" \
	"{'domains': 14, 'processes': 14, 'functions': 21, 'vms': 12}"
is "a name is no formula for a spreadsheet" "$(cp -r session formula &&
	zcat session/web.samples.gz | sed 's/"ngx_http_parse"/"=HYPERLINK(1)"/' |
		gzip -1 >formula/web.samples.gz && "$pv_perf" report --csv formula |
		grep -o ",[^,]*HYPERLINK[^,]*,")" ",'=HYPERLINK(1),"
is "nor in full width" "$(zcat session/web.samples.gz | sed 's/"ngx_http_parse"/"＝HYPERLINK(1)"/' |
	gzip -1 >formula/web.samples.gz && "$pv_perf" report --csv formula |
		grep -o ",[^,]*HYPERLINK[^,]*,")" ",'＝HYPERLINK(1),"

# A part of it, in all of these.
"$pv_perf" report --vm web --comm nginx --comm 'CPU*' --time 1-3 --folded part \
	--firefox part.json --timeline part.pftrace --pprof part.pb.gz \
	--flamegraph part.html session >part.out
for n in 1 2 3; do
	is "table $n adds up to that part of the session" \
		"$(table $n part.out | awk '$NF == "all" { print $1 }')" 3200$M
done
has "which is said" 'a part of the session.*--time 1-3 --vm web --comm nginx' part.out
is "percentages are of it" "$(awk '/guest web user$/ { print $2; exit }' part.out)" 31.25%
is "nothing else is in folded stacks" "$(folded part .) $(folded part web)" "3200$M 3200$M"
is "nor in the Firefox profile" "$(ask part.json '[(len(s), s[0][1] >= 1000, s[-1][1] <= 3000)
	for t in d["threads"] for s in [t["samples"]["data"]] if t["name"] == "nginx"]')" \
	"[(1000, True, True), (600, True, True)]"
"$tree/selftests/report/read-perfetto" part.pftrace >slices
is "nor in Perfetto's" "$(awk -F'|' '$5 != "" && ($4 < 998 || $4 + $5 > 3001 || / db/) { n++ }
	END { print n + 0 }' slices)" 0
go tool pprof -top part.pb.gz >top 2>&1
has "nor in pprof's" 'Total samples = 3200000000' top
browse part.html >part.dom
has "nor in the page" 'title="all: 3,200,000,000 cycles' part.dom
"$pv_perf" report --vm nobody session >out 2>&1
is "a VM that is not there is refused" "$? $(head -n 1 out)" \
	"1 pv-perf: --vm nobody: there is no such guest in session"
# A guest is not scaled by the part that is shown.
copy() {
	cp -r session "$1"
	edit "$1" "$2"
}
copy lies 's["domains"][1]["counted"] = 5 * 10**9'
"$pv_perf" report --vm web --comm nginx --time 0-1 lies >lies.out
is "what a guest says too much is scaled in a part of it, too" \
	"$(table 1 lies.out | sed -n 's/ [0-9-]* guest web user$//p')" "~250$M"
copy nowhere 's["domains"][1]["clock"] = []'
"$pv_perf" report --time 0-1 nowhere >out
has "a guest whose clock is not known is in no part" \
	'guest web: its clock is not known, so that --time leaves out its samples' out
finish
