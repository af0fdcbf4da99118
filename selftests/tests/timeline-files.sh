#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# pv-perf timeline: for all forms of perf stat's output, a browser shows every counted interval
# and marks estimates. Several runs are drawn over each other, with their differences.
# vm: none
# tier: all
# packages: linux-perf python3-matplotlib chromium
# seconds: 40
self=$(realpath "$0")
tree=${self%/selftests/*}
. "$tree/selftests/tap.sh"
. "$tree/selftests/report/functions"
begin timeline-files

# coloured PNG RRGGBB: the number of pixels that are at least half of this colour, on white
coloured() {
	/usr/bin/python3 - "$@" <<-'END'
	import sys
	from matplotlib.image import imread
	want = [1 - int(sys.argv[2][i:i + 2], 16) / 255 for i in (0, 2, 4)]
	most = max(range(3), key=lambda i: want[i])
	def share(pixel):
	    share = (1 - pixel[most]) / want[most]
	    return share if all(abs(1 - p - w * share) < 0.03
	                        for p, w in zip(pixel, want)) else 0
	print(sum(share(p) > 0.45 for row in imread(sys.argv[1]) for p in row))
	END
}

# shoot PAGE: write a picture of the page to PAGE.png
shoot() {
	browser --window-size=1200,1400 --screenshot="$PWD/$1.png" "$1"
}

# counted PAGE EVENT: the event's row in the table of counts, "count estimated missing"
counted() {
	sed -n '/class="counts"/,/<.table>/p' "$1" | sed -n "s|.*<th>$2</th><td>\(.*\)</td></tr>|\1|p" |
		sed 's|</td><td>| |g'
}

# refused WHAT MESSAGE ARGUMENT...: timeline ends with the message, and writes no page
refused() {
	local what=$1 message=$2
	shift 2
	rm -f refused.html
	"$pv_perf" timeline -o refused.html "$@" >out 2>&1
	is "$what: timeline refuses it" $? 1
	has "$what: timeline says why" "$message" out
	none "$what: timeline writes no page" "$(ls refused.html 2>/dev/null)"
}
for n in 1 2 3; do
	echo "$n.0,1e200,,cycles,100,100.00,,"
done >huge.csv
refused "a count that perf cannot have" 'not a line of perf stat' huge.csv
for n in 1 2 3; do
	for event in $(seq 201); do
		echo "$n.0,5,,event$event,100,100.00,,"
	done
done >many.csv
refused "more events than fit on a page" 'there are 201 events' many.csv
for n in 1 2 3; do
	echo "$n.0,5,,$(printf 'caf\303\251'),100,100.00,,"
done >utf8.csv
refused "-I with a FILE" '-e and -I say how to count' -I 5 utf8.csv
refused "--seconds without --vm" 'are for --vm' --seconds 3 utf8.csv
refused "-a with a FILE" '-a is for COMMAND' -a utf8.csv
LC_ALL=POSIX PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 "$pv_perf" timeline -o utf8.html utf8.csv >out 2>&1
has "in any locale the page has a name in UTF-8" "$(printf 'caf\303\251')" utf8.html

# The same counts in both formats.
name=cpu/event=0xc0,umask=0x01/
cat >gaps.csv <<END
# started on Mon Nov 23 10:00:00 2026

     1.0,<not counted>,,$name,0,0.00,,
     2.0,500,,$name,100,60.00,,
     3.0,<not counted>,,$name,0,0.00,,
     4.0,700,,$name,100,100.00,0.1,GHz
     5.0,<not counted>,,$name,0,0.00,,
END
awk -F, '/,/ { printf "{\"interval\" : %s, \"counter-value\" : \"%s\", \"unit\" : \"\", \"event\" : \"cpu/event=0xc0,umask=0x01/\", \"event-runtime\" : 100, \"pcnt-running\" : %s}\n", $1, $2, $7
	print "{\"metric-value\" : 0.1, \"metric-unit\" : \"GHz\"}" }' gaps.csv >gaps.json
for form in csv json; do
	"$pv_perf" timeline -o gaps.$form.html gaps.$form >out 2>&1
	is "$form: timeline reads an event whose name has a comma" "$(cat out)" \
		"gaps.$form.html: 1 events, 5 intervals
$name: 1 intervals are perf's estimate, 3 were not counted"
	is "$form: the page has the event's count, estimates and gaps" \
		"$(counted gaps.$form.html "$name")" "1,200 1 3"
	shoot gaps.$form.html
	more "$form: intervals between two gaps are drawn in full length, in pixels" \
		"$(coloured gaps.$form.html.png 1f77b4)" 250
done
for label in CPU0 S0-D0-C0,2; do
	sed "/,/s/,/,$label,/" gaps.csv >labelled.csv
	"$pv_perf" timeline -o labelled.html labelled.csv >out
	is "timeline reads counts of ${label%,*}" \
		"$(counted labelled.html "$name")" "1,200 1 3"
done

# A task that sleeps has no counts.
for i in 1 2 3 4; do
	n=$((i % 2 * 100))
	[ $n != 0 ] || n='<not counted>'
	echo "$i.0,$n,,cycles,0,100.00,,"
	echo "$i.0,<not supported>,,faults,0,100.00,,"
done >sleeps.csv
"$pv_perf" timeline -o sleeps.html sleeps.csv >out
is "intervals in which a task sleeps count as 0 events" \
	"$(counted sleeps.html cycles)" "200 0 0"
is "all intervals of an event that is not supported are missing" \
	"$(counted sleeps.html faults)" "0 0 4"
is "an event that is not supported has no correlation with others" \
	"$(grep -c '<td style=[^>]*>1.00</td>' sleeps.html)" 1

# Two runs: in the first, a and b rise together; in the second, a rises as b falls.
for i in 1 2 3 4 5 6; do
	for run in native guest; do
		b=$((i % 3 * 10))
		[ $run = native ] || b=$((30 - b))
		echo "$i.0,$((i % 3 * 10 + 5)),,a,100,100.00,,"
		echo "$i.0,$b,,b,100,100.00,," 
	done >>both
done
awk 'NR % 4 == 1 || NR % 4 == 2' both >native
awk 'NR % 4 == 3 || NR % 4 == 0' both >guest.csv
"$pv_perf" timeline -o runs.html --png runs.png native "one guest=guest.csv" >out 2>&1
is "timeline makes one page of several runs" \
	"$(cat out)" "runs.html, runs.png: 2 events, 12 intervals"
# cells CLASS: the numbers in the tables of this class
cells() {
	awk -v c="class=\"$1\"" 'index($0, c) { on = 1 } /<\/table>/ { on = 0 } on' runs.html |
		grep -o '>[0-9.-]*</td>' | tr -d '</td>' | paste -sd' '
}
is "the page has the correlations of each run" \
	"$(cells correlation)" "1.00 1.00 1.00 1.00 1.00 -1.00 -1.00 1.00"
is "the page has the differences of the correlations" \
	"$(cells difference)" "0.00 -2.00 -2.00 0.00"
shoot runs.html
for colour in 1f77b4 ff7f0e; do
	more "the charts have a run in the colour #$colour" \
		"$(coloured runs.html.png $colour)" 500
done
browse runs.html >runs.dom
is "the charts label each run" \
	"$(grep -oE '<text[^>]*>(native|one guest)</text>' runs.dom | sed 's/<[^>]*>//g' |
		paste -sd' ')" "native one guest"
is "timeline refuses two files with the same name" \
	"$("$pv_perf" timeline native native 2>&1 | head -n 1)" \
	"pv-perf: there are two FILEs of the name native"

printf '%b' '{"interval": 1, "event": "x", "counter-value": "1", "pcnt-running": NaN}\n' >bad
printf '[%.0s' $(seq 100000) | sed 's/^/{"event": /' >deep
printf '%b' '{"interval": 1, "event": ["\\e[2J"], "counter-value": {}, "pcnt-running": 1}\n' >odd
for file in bad deep odd; do
	"$pv_perf" timeline -o bad.html $file >out 2>&1
	is "timeline refuses JSON that is not perf's: $file" $? 1
	has "timeline says why it refuses $file" 'not a line of perf stat' out
done

# perf itself: a program that sleeps most of the time.
if perf stat -x, -e task-clock true 2>/dev/null; then
	"$pv_perf" timeline -I 20 -e task-clock,page-faults -o run.html -- \
		sh -c 'sleep 0.3; true; sleep 0.3' >out 2>&1
	is "timeline draws a program that sleeps" $? 0
	is "each interval of a program that sleeps has a count" \
		"$(grep -c 'not counted' out)" 0
	for form in "-x," -j; do
		perf stat $form -I 20 -e task-clock -a -A -o file sleep 0.2
		"$pv_perf" timeline -o run.html file >out 2>&1
		has "timeline reads perf stat $form -A" 'run.html: [0-9]+ events' out
	done
else
	ok "perf's own # SKIP perf counts nothing on this machine" true
fi
finish
