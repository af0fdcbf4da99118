#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# pv-perf diff: what has changed from one session to another comes out as it was made, by
# domain, process and function, per unit of work.
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

# row WHAT: what out has of it in A, B, B - A, %, and B / A
row() {
	sed -n "s/  $1\$//p" out | sed 's/,//g' | awk '{ $1 = $1; print }' | paste -sd';'
}
"$pv_perf" diff --work request=1000,500 before after >out
is "two sessions are compared" $? 0
has "per unit of work" '^cycles per request, by domain$' out
is "what takes as long for half of the requests is twice as much for each" \
	"$(row 'guest db user')" "10000000 20000000 10000000 24.39% 2.000"
is "what does half of it is as much" "$(row 'guest web user')" \
	"5000000 5000000 0 0.00% 1.000"
is "by process" "$(row 'guest web user  *nginx')" "5000000 5000000 0 0.00% 1.000"
is "by function: what is gone and what is new" \
	"$(row 'guest web kernel  *tcp_sendmsg  *.kernel.kallsyms.')|$(
		row 'guest web kernel  *tcp_sendpage  *.kernel.kallsyms.')" \
	"3000000 0 -3000000 -7.32% 0.000|0 6000000 6000000 14.63% new"
is "the largest difference comes first" \
	"$(awk '/by function/ { getline; getline; print $6, $7, $8, $9 }' out)" \
	"guest db user hash_search"
is "each table adds up to what the CPUs counted" "$(row all)" \
	"41000000 82000000 41000000 100.00% 2.000;41000000 82000000 41000000 100.00% 2.000;41000000 \
82000000 41000000 100.00% 2.000"
is "what may be wrong is marked" "$(row 'lost: guest db' | cut -d';' -f1 | cut -d' ' -f1,2)" \
	"~1000000 ~2000000"
has "and both sessions' notes are there" '^- B: guest db: perf has lost 1,000 samples' out
"$pv_perf" diff --vm web --comm nginx before after >out
is "a part of both is compared, per second" "$(row 'guest web user' | cut -d' ' -f1-3)" \
	"500000000 250000000 -250000000"
"$pv_perf" diff --json before before >same.json
is "a session differs in nothing from itself" "$(/usr/bin/python3 -c 'import json
d = json.load(open("same.json"))
print(d["unit"], {k: sum(r["a"] != r["b"] for r in v) for k, v in d["tables"].items()})')" \
	"second {'domain': 0, 'process': 0, 'function': 0}"
edit after 's["event"] = "instructions"'
"$pv_perf" diff before after >out 2>&1
is "sessions of different events are refused" $? 1
"$pv_perf" diff --work request=0,1 before before >out 2>&1
is "and no work" $? 2
cp -r before evil
zcat before/web.samples.gz | sed 's/"nginx"/"\\u001b[2J"/' | gzip -1 >evil/web.samples.gz
"$pv_perf" diff before evil >out
has "a name that is code for a terminal is in the table" 'guest web .*\[2J' out
is "and is no code there" "$(grep -c $'\e' out)" 0
finish
