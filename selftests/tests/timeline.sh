#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# pv-perf timeline: perf's counts in a guest over time become a page that a browser shows. The
# page has every count of perf and marks estimates.
# vm: none
# tier: all
# machines: amd
# needs: machine deb
# programs: loop longloop
# packages: python3-matplotlib chromium
# seconds: 150
self=$(realpath "$0")
tree=${self%/selftests/*}
. "$tree/selftests/tap.sh"
pv_perf=$tree/tools/pv-perf

# Work and sleep take turns.
work() {
	for _ in 1 2 3; do
		"$T/longloop"
		sleep 0.2
	done
}

# A program that computes and a program that reads files through the hypervisor take turns.
compute_and_read() {
	local folder
	for folder in abi guest host debian; do
		"$T/loop"
		"$T/loop"
		tar -cf /dev/null "$tree/$folder" 2>/dev/null
	done
}

in_guest() {
	cd "$VM_SCRATCH" || exit 1
	# perf reads all modules, which takes long through 9p.
	mount -t tmpfs none /lib/modules
	perf stat -x, -I 50 -e instructions:u,branches:u,dTLB-load-misses:u \
		-o stat "$self" work
	perf stat -j -I 50 -o many -e cycles:u,instructions:u,branches:u \
		-e branch-misses:u,r76:u,rc0:u,rc2:u,rc3:u "$T/longloop"
	perf stat -x, -I 10 -o exits -a -e instructions:u,dTLB-load-misses \
		-e kvm/exits/,kvm/halt_ns/ "$self" compute_and_read
	perf record -q -B -N -e '{instructions:u,branches:u}:S' -c 10000000 \
		-o data "$T/longloop"
}

if [ $# -gt 0 ]; then
	"$@"
	exit
fi

# refused NAME REGEX TEXT: timeline refuses a file with this text; the message matches REGEX
refused() {
	printf '%b' "$3" >bad
	"$pv_perf" timeline -o bad.html bad >out 2>&1
	is "timeline refuses $1" $? 1
	has "timeline says why it refuses $1" "$2" out
}

# Chromium runs as root, perhaps in a container, and leaves no files outside this folder.
browser() {
	timeout 300 chromium --headless --no-sandbox --disable-gpu \
		--disable-dev-shm-usage --user-data-dir="$PWD/chromium" "$@" \
		2>/dev/null
}

# browse PAGE: write the page, after the browser has run its script, to PAGE.dom
browse() {
	browser --dump-dom "file://$PWD/$1" >"$1.dom"
}

# shown EVENT PAGE: the event's count in the page
shown() {
	sed -n "s,.*<th>$1</th><td>\([^<]*\)</td>.*,\1,p" "$2.dom" | head -n 1 |
		tr -d ,
}

dir=$T/timeline.scratch
rm -rf "$dir"
mkdir -p "$dir"
"$tree/selftests/vm" guest --scratch "$dir" -- "$self" in_guest
is "the guest ends well" $? 0
cd "$dir" || exit 1

"$pv_perf" timeline -o stat.html --png stat.png stat >out
is "the output of perf stat -I becomes a page" $? 0
browse stat.html
for event in instructions:u branches:u dTLB-load-misses; do
	is "the browser shows all of perf's count of $event" \
		"$(shown "$event" stat.html)" \
		"$(awk -F, -v e="$event" '$4 == e && $2 ~ /^[0-9]/ { n += $2 }
			END { printf "%d", n }' stat)"
done
more "the page has the count of three loops" "$(shown instructions:u stat.html)" 1500000000
has "instructions and branches rise together" \
	'<th>instructions:u</th><td[^>]*>1.00</td><td[^>]*>1.00</td>' stat.html.dom
is "the page has a chart for each event" "$(grep -c 'per second</text>' stat.html.dom)" 3
is "the page loads nothing from elsewhere" \
	"$(grep -Ec '(src|href)="?(https?:|//)' stat.html)" 0
browser --window-size=1000,800 --screenshot=shot.png "file://$PWD/stat.html"
for picture in stat.png shot.png; do
	is "$picture is a picture" "$(head -c 4 $picture | tail -c 3)" PNG
	more "$picture is not empty" "$(stat -c %s $picture)" 10000
done

"$pv_perf" timeline -o many.html many >out
has "timeline says which intervals perf has estimated" 'intervals are perf.s estimate' out
browse many.html
has "the page marks intervals that perf has estimated" 'hollow: estimated' many.html.dom

"$pv_perf" timeline -o exits.html --png exits.png exits >out
browse exits.html
is "the page has the whole count of an event of the hypervisor" \
	"$(shown kvm/exits/ exits.html)" \
	"$(awk -F, '$4 == "kvm/exits/" { n += $2 } END { print n }' exits)"
# The first columns of the matrix are the two events before kvm/exits/.
cell='<td style=[^>]*>\([0-9.-]*\)</td>'
together=$(sed -n "s,.*<th>kvm/exits/</th>$cell$cell.*,\2,p" exits.html.dom)
ok "exits and TLB misses rise together: $together" \
	awk -v c="$together" 'BEGIN { exit !(c > 0.5) }'

"$pv_perf" timeline -o data.html data >out
is "a group that was sampled becomes a page" $? 0
browse data.html
# The interval before the first of 50 samples has no known begin.
is "the page has the counts of a sampled group's leader" \
	"$(shown instructions:u data.html)" 490000000
within "the page has the counts of a sampled group's member" \
	"$(shown branches:u data.html)" 245000000 0.001

# On this machine.
if perf stat -x, -e task-clock true 2>/dev/null; then
	"$pv_perf" timeline -I 20 -e task-clock,page-faults -o run.html -- \
		timeout 1 sh -c 'while :; do :; done' >out 2>&1
	is "timeline runs a program" $? 0
	browse run.html
	more "the page shows the CPU time of the program, in ms" \
		"$(shown task-clock run.html | sed 's/\..*//')" 50
else
	ok "timeline runs a program # SKIP perf counts nothing on this machine" true
fi

dpkg-deb -x "$tree"/build/deb/pv-perf_*_all.deb installed
installed/usr/bin/pv-perf timeline -o packaged.html data >out
is "the packaged pv-perf makes a timeline" $? 0
ok "the package has a manual page" test -s installed/usr/share/man/man1/pv-perf.1.gz
is "the doctor is a command of pv-perf" \
	"$("$pv_perf" doctor --help | sed -n '1s/ .*//p')" pv-perf-doctor

refused "a file that perf has not written" 'not a line of perf stat' 'hello\n'
refused "a time that is not a number" 'not a line of perf stat' \
	'nan,5,,cycles,100,100.00,,\n'
refused "an event whose name has a terminal escape" 'interval of .\[2Jcycles' \
	'1,5,,\033[2Jcycles,100,100.00,,\n1,5,,\033[2Jcycles,100,100.00,,\n'
is "the message about such a name has no terminal escape" "$(grep -c $'\e' out)" 0
refused "a file with too few intervals" 'less than three intervals' \
	'0.1,5,,cycles,1,100.00,,\n0.2,5,,cycles,1,100.00,,\n'
refused "intervals that go back in time" 'the previous interval' \
	'0.2,5,,cycles,1,100.00,,\n0.1,5,,cycles,1,100.00,,\n'
printf '%b' '0.1,5,,<script>\e[2J,1,100,,\n0.2,6,,<script>\e[2J,1,100,,\n0.3,5,,<script>\e[2J,1,100,,\n' >evil
"$pv_perf" timeline -o evil.html evil >out
is "timeline makes a page of an event whose name is code" $? 0
is "the page has no script of an event's name" "$(grep -c '<script' evil.html)" 0
is "neither the page nor the message has a terminal escape" \
	"$(grep -c $'\e' out evil.html | paste -sd' ')" \
	"out:0 evil.html:0"
finish
