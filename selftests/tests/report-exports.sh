#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# pv-perf report's exports for other programs have the numbers of the tables, for a session and
# for a part of it: folded stacks, Firefox Profiler, Perfetto, JSON and CSV.
# vm: none
# tier: all
# packages: linux-perf chromium golang-go protobuf-compiler
# seconds: 90
self=$(realpath "$0")
tree=${self%/selftests/*}
. "$tree/selftests/tap.sh"
. "$tree/selftests/report/functions"
begin report-exports

# ask FILE PYTHON: print an expression of d, the JSON of FILE
ask() {
	/usr/bin/python3 - "$@" <<-'END'
	import collections, json, sys
	d = json.load(open(sys.argv[1]))
	print(eval(sys.argv[2]))
	END
}

# folded FILE REGEX: the number of events in the matching stacks
folded() {
	grep -E "$2" "$1" | awk '{ n += $NF } END { printf "%.0f", n }'
}

"$make_session" --graph session
"$pv_perf" report --timeline trace.pftrace --firefox firefox.json \
	--folded stacks session >out
is "pv-perf report exports a session" $? 0
"$pv_perf" report --timeline trace.json session >/dev/null

is "folded stacks add up to the CPUs' counts" "$(folded stacks .)" 41000$M
is "folded stacks have the callers of a function" "$(grep '^host kernel;CPU' stacks)" \
	"host kernel;CPU 0/KVM (web);ioctl;do_syscall_64;svm_vcpu_run 6000$M"
is "folded stacks have lost samples" "$(grep '^\[lost' stacks)" "[lost: guest db] 1000$M"

"$tree/selftests/report/read-perfetto" trace.pftrace >slices
is "protoc reads the trace for Perfetto, and all slices end" $? 0
within "the trace has nginx of a guest for the time that it ran, in ms" \
	"$(awk -F'|' '$1 == "guest web" &&
	$2 == "vCPU 0" && $3 == "nginx" { n += $5 } END { printf "%.0f", n }' slices)" 8000 1
is "the trace has a simultaneous event at the same time on each clock" \
	"$(awk -F'|' '/hypercall/ { printf "%s %.3f;", $1, $4 }' slices)" \
	"host 500.000;guest web 500.000;guest db 500.000;"
echo "# $(stat -c %s trace.json) bytes of JSON, $(stat -c %s trace.pftrace) of Perfetto's"
ok "the trace for Perfetto is less than a tenth of the JSON's size" \
	test "$(stat -c %s trace.pftrace)" -lt $(($(stat -c %s trace.json) / 10))

names='{tuple(t[k] for k in ("processName", "name")): len(t["samples"]["data"]) for t in d["threads"]}'
is "the Firefox profile has each thread's samples" \
	"$(ask firefox.json "($names)['guest web user: nginx 10', 'nginx']")" 5000
is "the Firefox profile is in the order of time" \
	"$(ask firefox.json 'all(a[1] <= b[1] for t in d["threads"]
	for s in [t["samples"]["data"]] for a, b in zip(s, s[1:]))')" True
is "the Firefox profile has stacks" \
	"$(ask firefox.json '[[t["stringTable"][t["frameTable"]["data"][f][0]]
	for p, f in t["stackTable"]["data"]] for t in d["threads"] if t["name"] == "postgres"]')" \
	"[['ExecScan', 'hash_search (inlined)']]"
is "each sample of the Firefox profile has a stack, and each stack comes after its caller" \
	"$(ask firefox.json 'all(
	(s[0] is None or s[0] < len(t["stackTable"]["data"])) for t in d["threads"]
	for s in t["samples"]["data"]) and all(p is None or p < i for t in d["threads"]
	for i, (p, f) in enumerate(t["stackTable"]["data"]))')" True

"$pv_perf" report --json session >tables.json
"$pv_perf" report --csv session >tables.csv
is "JSON has the rows of each table" \
	"$(ask tables.json '{k: len(v) for k, v in sorted(d["tables"].items())}')" \
	"{'domains': 14, 'functions': 21, 'processes': 14, 'vms': 12}"
is "JSON has the numbers of a row" \
	"$(ask tables.json '[(r["events"], r["inclusive_percent"], r["samples"])
	for r in d["tables"]["functions"] if r["function"] == "ExecScan"]')" "[(0, 18.2927, 0)]"
is "JSON marks numbers in doubt" \
	"$(ask tables.json '[r["domain"] for r in d["tables"]["domains"] if r["estimated"]]')" \
	"['lost: guest db']"
is "JSON has the notes with the reasons" "$(ask tables.json 'len(d["notes"])')" 8
is "CSV has the rows of each table" "$(/usr/bin/python3 -c '
import csv, collections
print(dict(collections.Counter(r["table"] for r in csv.DictReader(open("tables.csv")))))')" \
	"{'domains': 14, 'processes': 14, 'functions': 21, 'vms': 12}"
is "CSV quotes a name that a spreadsheet would take for a formula" "$(cp -r session formula &&
	zcat session/web.samples.gz | sed 's/"ngx_http_parse"/"=HYPERLINK(1)"/' |
		gzip -1 >formula/web.samples.gz && "$pv_perf" report --csv formula |
		grep -o ",[^,]*HYPERLINK[^,]*,")" ",'=HYPERLINK(1),"
is "CSV quotes a formula that begins with a full-width character" \
	"$(zcat session/web.samples.gz | sed 's/"ngx_http_parse"/"＝HYPERLINK(1)"/' |
	gzip -1 >formula/web.samples.gz && "$pv_perf" report --csv formula |
		grep -o ",[^,]*HYPERLINK[^,]*,")" ",'＝HYPERLINK(1),"

# All exports of a part of the session.
"$pv_perf" report --vm web --comm nginx --comm 'CPU*' --time 1-3 --folded part \
	--firefox part.json --timeline part.pftrace --pprof part.pb.gz \
	--flamegraph part.html session >part.out
for n in 1 2 3; do
	is "a part of a session: table $n adds up to the part" \
		"$(table $n part.out | awk '$NF == "all" { print $1 }')" 3200$M
done
has "a part of a session: the table names the part" \
	'a part of the session.*--time 1-3 --vm web --comm nginx' part.out
is "a part of a session: percentages are of the part" \
	"$(awk '/guest web user$/ { print $2; exit }' part.out)" 31.25%
is "a part of a session: folded stacks have only the part" \
	"$(folded part .) $(folded part web)" "3200$M 3200$M"
is "a part of a session: the Firefox profile has only the part" \
	"$(ask part.json '[(len(s), s[0][1] >= 1000, s[-1][1] <= 3000)
	for t in d["threads"] for s in [t["samples"]["data"]] if t["name"] == "nginx"]')" \
	"[(1000, True, True), (600, True, True)]"
"$tree/selftests/report/read-perfetto" part.pftrace >slices
is "a part of a session: Perfetto's trace has only the part" \
	"$(awk -F'|' '$5 != "" && ($4 < 998 || $4 + $5 > 3001 || / db/) { n++ }
	END { print n + 0 }' slices)" 0
go tool pprof -top part.pb.gz >top 2>&1
has "a part of a session: pprof's profile has only the part" 'Total samples = 3200000000' top
browse part.html >part.dom
has "a part of a session: the flame graph has only the part" \
	'title="all: 3,200,000,000 cycles' part.dom
"$pv_perf" report --vm nobody session >out 2>&1
is "report refuses a VM that the session does not have" "$? $(head -n 1 out)" \
	"1 pv-perf: --vm nobody: there is no such guest in session"
# A guest's numbers are scaled by the whole session, also if a part is shown.
copy() {
	cp -r session "$1"
	edit "$1" "$2"
}
copy lies 's["domains"][1]["counted"] = 5 * 10**9'
"$pv_perf" report --vm web --comm nginx --time 0-1 lies >lies.out
is "a guest whose numbers exceed its VMM's count is scaled in a part of the session, too" \
	"$(table 1 lies.out | sed -n 's/ [0-9-]* guest web user$//p')" "~250$M"
copy nowhere 's["domains"][1]["clock"] = []'
"$pv_perf" report --time 0-1 nowhere >out
has "a guest whose clock is not known is not in a part of the session" \
	'guest web: its clock is not known, so that --time leaves out its samples' out
finish
