#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# pv-perf diff shows the changes that the test has made to a session, by domain, process and
# function, per unit of work.
# vm: none
# tier: all
# seconds: 15
self=$(realpath "$0")
tree=${self%/selftests/*}
. "$tree/selftests/tap.sh"
. "$tree/selftests/report/functions"
begin report-diff

"$make_session" --graph before
# The guest's nginx does half as much in user mode, and has another function.
cp -r before after
zcat before/web.samples.gz | awk '/^\t/ { if (!skip) print; next } {
		user = / U .*"nginx"/
		skip = user && ++n % 2 == 0
		if (!skip)
			print
	}' | sed 's/"tcp_sendmsg"/"tcp_sendpage"/' | gzip -1 >after/web.samples.gz

# row REGEX: A, B, B - A, % and B / A of the matching rows in out
row() {
	sed -n "s/  $1\$//p" out | sed 's/,//g' | awk '{ $1 = $1; print }' | paste -sd';'
}
"$pv_perf" diff --work request=1000,500 before after >out
is "pv-perf diff compares two sessions" $? 0
has "the table is per unit of work" '^cycles per request, by domain$' out
is "the same cycles for half of the requests are twice as many per request" \
	"$(row 'guest db user')" "10000000 20000000 10000000 24.39% 2.000"
is "half of the cycles for half of the requests are as many per request" \
	"$(row 'guest web user')" \
	"5000000 5000000 0 0.00% 1.000"
is "the table by process has the program of half of the cycles" \
	"$(row 'guest web user  *nginx')" "5000000 5000000 0 0.00% 1.000"
is "the table by function has a function that is gone and a function that is new" \
	"$(row 'guest web kernel  *tcp_sendmsg  *.kernel.kallsyms.')|$(
		row 'guest web kernel  *tcp_sendpage  *.kernel.kallsyms.')" \
	"3000000 0 -3000000 -7.32% 0.000|0 6000000 6000000 14.63% new"
is "the largest difference comes first" \
	"$(awk '/by function/ { getline; getline; print $6, $7, $8, $9 }' out)" \
	"guest db user hash_search"
is "each table adds up to the CPUs' counts" "$(row all)" \
	"41000000 82000000 41000000 100.00% 2.000;41000000 82000000 41000000 100.00% 2.000;41000000 \
82000000 41000000 100.00% 2.000"
is "numbers in doubt are marked" "$(row 'lost: guest db' | cut -d';' -f1 | cut -d' ' -f1,2)" \
	"~1000000 ~2000000"
has "the output has the notes of both sessions" \
	'^- B: guest db: perf has lost 1,000 samples' out
"$pv_perf" diff --vm web --comm nginx before after >out
is "pv-perf diff compares a part of both sessions, per second" \
	"$(row 'guest web user' | cut -d' ' -f1-3)" \
	"500000000 250000000 -250000000"
"$pv_perf" diff --json before before >same.json
is "a session does not differ from itself" "$(/usr/bin/python3 -c 'import json
d = json.load(open("same.json"))
print(d["unit"], {k: sum(r["a"] != r["b"] for r in v) for k, v in d["tables"].items()})')" \
	"second {'domain': 0, 'process': 0, 'function': 0}"
edit after 's["event"] = "instructions"'
"$pv_perf" diff before after >out 2>&1
is "pv-perf diff refuses sessions of different events" $? 1
"$pv_perf" diff --work request=0,1 before before >out 2>&1
is "pv-perf diff refuses 0 units of work" $? 2
cp -r before evil
zcat before/web.samples.gz | sed 's/"nginx"/"\\u001b[2J"/' | gzip -1 >evil/web.samples.gz
"$pv_perf" diff before evil >out
has "the table has a name with a terminal escape" 'guest web .*\[2J' out
is "the table has no terminal escape" "$(grep -c $'\e' out)" 0
finish
