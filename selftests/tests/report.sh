#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# pv-perf report: sessions with known shares have these shares in tables, in a flame graph that
# a browser shows, in a timeline that a viewer reads, and in a profile that pprof reads. The
# report reads the output of three lines of perf.
# vm: none
# tier: all
# needs: deb newer-perf
# packages: linux-perf chromium golang-go
# seconds: 100
self=$(realpath "$0")
tree=${self%/selftests/*}
. "$tree/selftests/tap.sh"
. "$tree/selftests/report/functions"
begin report

"$make_session" --graph session
"$pv_perf" report --flamegraph flame.html --timeline trace.json \
	--pprof profile.pb.gz session >out 2>err
is "report makes tables, a flame graph, a timeline and a profile of a session" $? 0
empty "report prints no error for a session without faults" err

# Each CPU has 10,000 samples.
while read -r what want; do
	is "by domain: $what" "$(shown 1 "${what//_/ }")" "$want"
done <<END
host_kernel 7000$M
host_user 800$M
host_idle 2000$M
VMM_of_web 2000$M
VMM_of_db 1000$M
guest_web_kernel 3000$M
guest_web_user 5000$M
guest_web_idle 2000$M
guest_db_user 10000$M
passive_old_kernel 4000$M
passive_old_user 2000$M
other_guests_user 200$M
lost:_guest_db ~1000$M
not_sampled,_or_of_no_domain_in_this_session 1000$M
END
is "by process: the host's kernel for a VM" \
	"$(shown 2 'host kernel CPU 0\/KVM (web)')" 6000$M
is "by process: a name with a newline" \
	"$(shown 2 'guest db user new?line')" 2500$M
is "by function: a function of a module" \
	"$(shown 3 'host kernel svm_vcpu_run \[kvm_amd\]')" 6000$M
is "by function: a passive guest's kernel, by its kallsyms" \
	"$(shown 3 'passive old kernel old_kernel_work \[guest.kernel\]')" 4000$M
is "by function: a passive guest's program stays an address" \
	"$(shown 3 'passive old user 0x401234')" 2000$M
is "by function: an inlined function" \
	"$(shown 3 'guest db user hash_search (inlined)')" 7500$M
is "by function: a name and a file with parentheses" \
	"$(shown 3 'host user operator()<int (\*)(int)> \/opt\/a (b)\/prog (deleted)')" 800$M
for n in 1 2 3; do
	is "table $n adds up to the CPUs' counts" "$(table $n out |
		awk '{ sub(/^~/, ""); if ($NF == "all") all = $1; else n += $1 }
			END { printf "%.0f %.0f", n, all }')" "41000$M 41000$M"
done
# cost TABLE FILE NAME: the cost of a VM, in all and by domain
cost() {
	table "$1" "$2" | sed -n "s/ $3\$//p"
}
is "the table of VMs has the cost of a VM" \
	"$(cost 4 out web)" "18000$M 24.39% 4.88% 14.63% 0.00%"
is "the table of VMs has the cost of a VM with lost samples" \
	"$(cost 4 out db)" "~12000$M 26.83% 2.44% 0.00% 0.00%"
cp -r session helped
edit helped 's["domains"][1]["helpers"] = [42]'
"$pv_perf" report helped >helped.out
is "a VM's cost includes the processes that help it" "$(cost 4 helped.out web)" \
	"18800$M 24.39% 4.88% 14.63% 1.95%"
cp -r session elsewhere
edit elsewhere 's["domains"][1]["pid"] = None'
"$pv_perf" report elsewhere >elsewhere.out
is "a guest of another host is not in this host's tables" \
	"$(for n in 1 2 3 4; do table $n elsewhere.out; done | grep -c 'guest web')" 0
is "a guest of another host has a table of its own" \
	"$(table 5 elsewhere.out | awk '{ print $1 }' | paste -sd' ')" \
	"3000$M 5000$M 2000$M 10000$M"
is "the percentages of a guest of another host refer to its own table" \
	"$(grep -E ' guest web user$' elsewhere.out | awk '{ print $2 }')" 50.00%
has "report leaves out samples from before all domains recorded" \
	'guest web: samples from outside the time when all domains recorded, left out: 50$' out
has "report leaves out the host's samples of guests that sampled themselves" \
	'sampled themselves, left out: 1,000$' out
"$pv_perf" report session | head -n 1 >/dev/null
is "report ends well if a reader closes its output early" "${PIPESTATUS[0]}" 0
"$pv_perf" report --top 3 session >top
is "with --top one line sums up the other functions" \
	"$(table 3 top | awk '/others/ { print $1 }')" 20500$M

# bars PAGE TOP: the bars of the page at this height, with their events
bars() {
	grep -o '<div title="[^>]*' "$1" |
		sed -n 's/.*title="\(.*\): .*data-events="\([0-9]*\)".*top: '"$2"'px.*/\1 \2/p' |
		sed 's/: ~*[0-9,]* cycles.* \([0-9]*\)$/ \1/' | sort
}
browse flame.html >flame.dom
is "the browser shows each domain of the tables" "$(bars flame.dom 17)" \
	"$(table 1 out | grep -v ' all$' |
		sed 's/^~*\([0-9]*\) [0-9-]* \(.*\)/\2 \1/' | sort)"
is "the browser shows the processes of a domain" "$(bars flame.dom 34 | grep -c '^nginx')" 2
browse 'flame.html#search=do_sys' >search.dom
is "the flame graph finds functions" "$(sed -n 's/.*id="matched">\([^<]*\).*/\1/p' search.dom)" \
	"found: 21.95% of all"
is "the flame graph marks the functions that it finds" \
	"$(grep -o 'class="found"' search.dom | wc -l)" 2
# called REGEX: the functions' inclusive percentage
called() {
	awk '/^$/ { n++ } n == 3' out | grep -E "$1" | awk '{ print $3 }'
}
is "the inclusive column of a function includes its callees" \
	"$(called 'guest db user +ExecScan') $(called 'host kernel +ioctl')" "18.29% 14.63%"
"$pv_perf" report --inclusive session >inclusive.out
is "report sorts by the inclusive column" \
	"$(table 3 inclusive.out | awk '{ print $NF == "all" ? $NF : $1 }' | sed -n '2p;$p' |
		paste -sd' ')" "0 all"
found() {
	browse "$1#search=$2" | sed -n 's/.*id="matched">\([^<]*\).*/\1/p'
}
is "the flame graph searches for a regular expression" "$(found flame.html '/^(do_sys|ngin)/')" \
	"found: 34.15% of all"
has "the flame graph refuses a malformed regular expression" \
	'regular expression' <(found flame.html '/(/')
is "the search does not find the bar of the whole session" \
	"$(found flame.html '/^all$/')" "found: 0.00% of all"
sed -n 's|.*<table id="vms">||; s|</table>.*||p' search.dom |
	sed 's|</tr>|\n|g; s/<[^>]*>/ /g' | awk 'NF { $1 = $1; print }' >vms
is "the search shows the share of each VM that it has found" "$(paste -sd';' vms)" \
	"VM cycles of all found of it;web 18,000,000,000 43.90% 9,000,000,000 50.00%;db \
~12,000,000,000 29.27% 0 0.00%;old 6,000,000,000 14.63% 0 0.00%"
text() {
	grep -o "<div title=\"$2:[^>]*>[^<]*" "$1" | sed 's/.*>//' | paste -sd' '
}
is "the flame graph does not label a narrow bar" \
	"$(text flame.dom 'guest db user')|$(text flame.dom 'other guests user')" "guest db user|"
"$pv_perf" report --threads --flamegraph threads.html session >threads.out
is "with --threads the table keeps threads apart" \
	"$(table 2 threads.out | sed -n 's/ [0-9-]* guest db user / /p' |
	paste -sd' ')" "7500$M postgres 20/20 2500$M new?line 21/21"
browse threads.html >threads.dom
is "with --threads the flame graph keeps threads apart" \
	"$(bars threads.dom 51 | grep 20/20)" "20/20 7500$M"
# A search also finds bars that are too narrow to be drawn.
"$make_session" --graph --flat --seconds 20 flat
"$pv_perf" report --flamegraph flat.html flat >flat.out
is "the search finds bars that are too narrow to be drawn" "$(found flat.html inner_30_)" \
	"found: 80.00% of all"
browse 'flat.html#search=inner_1_7' >flat.dom
more "the search marks the rest of a bar if it finds functions in the rest" \
	"$(grep -c 'class="rest found"' flat.dom)" 0
id=$(grep -o '<div title="guest web user: [^>]*' flame.dom |
	sed 's/.*data-id="\([0-9]*\)".*/\1/')
browse "flame.html#zoom=$id" >zoom.dom
is "the flame graph shows a domain alone" "$(grep -o '<div title="[^:]*' zoom.dom |
	sed 's/.*"//' | sort | paste -sd' ')" \
	"all guest web user main nginx ngx_http_parse"
is "the flame graph loads nothing from elsewhere" \
	"$(grep -Ec '(src|href)="?(https?:|//)' flame.html)" 0
is "the browser logs no error of the flame graph" "$(grep -c CONSOLE browser.log)" 0
echo '<script>console.error("on purpose")</script>' >error.html
browse error.html >/dev/null
has "the browser logs an error of a page" 'CONSOLE.*on purpose' browser.log

goroot=$(go env GOROOT)
"$pv_perf" report --timeline trace.json --time 0-1 session >out
cp "$goroot"/src/cmd/trace/static/{trace_viewer_full.html,webcomponents.min.js} \
	"$tree/selftests/report/trace-viewer.html" .
# On a busy machine the browser may print the page before the page's script has ended.
for _ in 1 2 3; do
	browse trace-viewer.html | sed -n '/>read/,/^end/p' >slices
	! grep -q '^end' slices || break
done
has "a viewer reads the timeline" '^end' slices
is "the viewer does not warn of the timeline" "$(grep -Ec '^(warning|error)' slices)" 0
# slices_of DOMAIN TRACK NAME: the duration of these slices in ms
slices_of() {
	awk -F'|' -v d="$1" -v t="$2" -v n="$3" '$1 == d && $2 == t && $3 == n {
		ms += $5 } END { printf "%.0f", ms }' slices
}
within "the timeline has nginx in a guest for the time that it ran" \
	"$(slices_of 'guest web' 'vCPU 0' nginx)" 800 1
within "the timeline has a function of a guest's kernel for the time that it ran" \
	"$(slices_of 'guest web' 'vCPU 0' tcp_sendmsg)" 300 1
within "the timeline has the idle time of the host" \
	"$(slices_of host 'CPU 0' native_safe_halt)" 100 5
is "the timeline has a simultaneous event at the same time on each clock" \
	"$(awk -F'|' '/hypercall/ { printf "%s %.3f;", $1, $4 }' slices)" \
	"host 500.000;guest web 500.000;guest db 500.000;"
has "report says how exact a guest's clock is" 'guest web: .* exact to 2.5 microseconds' out

go tool pprof -top profile.pb.gz >top 2>&1
is "pprof reads the profile" $? 0
is "pprof has the functions of the table" \
	"$(awk '$NF == "svm_vcpu_run" { print $1, $2 }' top)" "6000$M 14.63%"
has "pprof has all samples" 'Total samples = 41000000000' top
go tool pprof -tags profile.pb.gz >tags 2>&1
for label in '5000000000.*: guest web user$' '18000000000.*: web$' '7500000000.*: postgres$'; do
	has "pprof has the label ${label#*: }" "$label" tags
done
has "pprof has labels of vCPUs" 'vcpu: Total 34000000000' tags

# perf record may write a sample twice if the sample comes while perf reads new samples.
"$make_session" twice
zcat twice/web.samples.gz |
	awk '/^\t/ { print; if (n > 1000 && n <= 1007) print head "\n" $0; next }
		{ print; head = $0; n++ }' >twice.text
gzip -1 <twice.text >twice/web.samples.gz
"$pv_perf" report --flamegraph twice.html twice >out
browse twice.html >twice.dom
has "report says how many samples occur twice" \
	'guest web: samples of one thread at one time, .* twice: 7$' out
is "report marks the numbers of the guest with samples that occur twice, and no others" \
	"$(table 1 out |
	awk '{ print ($1 ~ /^~/), /guest web|lost/ }' | sort -u)" "$(printf '0 0\n1 1')"
is "the flame graph marks the bar of the guest with samples that occur twice" \
	"$(text twice.dom 'guest web user')" "~guest web user"
has "the flame graph marks each number of the guest with samples that occur twice" \
	'title="ngx_http_parse: ~' twice.dom

# Real output of perf, with odd names.  Names of files and functions contain lines like perf
# script's and like a samples file's.
forged='f 1/1 [000] K 1.000000000: 999999999 cpu-clock: '
cat >odd.py <<-'END'
	import ctypes, time
	for name in (b"a b (c) d:", b"new\nline", b"[0] 1/2 3.4: x", b"a\xff\xfeb\\\""):
	    ctypes.CDLL(None).prctl(15, name, 0, 0, 0)
	    end = time.monotonic() + 0.3
	    while time.monotonic() < end:
	        sum(range(1000))
END
cat >odd.c <<-'END'
	#include <time.h>
	void NAME(void)
	{
		/* Most of the time in this function itself, not in clock(). */
		for (clock_t end = clock() + CLOCKS_PER_SEC / 2; clock() < end;)
			for (volatile int i = 0; i < 10000; i++) ;
	}
	int main(void) { NAME(); return 0; }
END
evil=$'x\n   '$forged$'\n1/1 [000] K 1.000000000: 999999999 cpu-clock: "f"\n\tx'
function=$'g\n   '"$forged 1234 h (i)"$'\n'
mkdir -p "${evil%/*}"
gcc -O0 -o odd odd.c -DNAME="$(printf "%${#function}s" | tr ' ' n)"
/usr/bin/python3 - "$function" "$evil" <<-'END'
	import os, sys
	name, path = (word.encode() for word in sys.argv[1:])
	with open("odd", "rb") as old, open(path, "wb") as new:
	    new.write(old.read().replace(b"n" * len(name), name))
	os.chmod(path, 0o755)
END
# samples_by PERF: have record's script convert the recording of PERF, in the folder place
samples_by() {
	rm -rf bin place
	mkdir bin place
	ln -s "$(realpath "$(command -v "$1")")" bin/perf
	cp data place/record.data
	PATH=$PWD/bin:$PATH sh -c "$(cat "$tree/tools/pvperf/record/machine.sh")" \
		pv-perf script "$PWD/place"
}
# real PERF OPTIONS: report reads a recording of PERF on this machine
real() {
	local name="${1##*/} $2"
	# shellcheck disable=SC2086
	$1 record -q -a -e cpu-clock -F 500 $2 -o data \
		sh -c '/usr/bin/python3 odd.py; "$1"' sh "./$evil"
	samples_by "$1" >said
	is "$name: record's script loses no sample" "$(grep -v '^size' said)" "lost 0"
	rm -rf real
	cp -r session real
	cp place/samples.gz real/host.samples.gz
	edit real 's["event"] = "cpu-clock"; s["period"] = None
s["domains"] = s["domains"][:1]; s["host"]["counted"] = s["window"] = None'
	"$pv_perf" report --top 0 real >out
	$1 script -i data -F period 2>/dev/null >periods
	is "$name: report reads every sample, and no forged sample" \
		"$(awk '/ all$/ { gsub(/,/, "", $1); print $1, $3; exit }' out)" \
		"$(awk '{ n += $1 } END { printf "%.0f %d", n, NR }' periods)"
	has "$name: a process whose name looks like perf's output" \
		'host user +a b \(c\) d:' out
	has "$name: a process whose name has two lines" 'host user +new\?line' out
	has "$name: a process whose name is not UTF-8" 'host user +a��b\\"' out
	is "$name: no sample is forged" "$(grep -cE 'user +f$|kernel +f$' out)" 0
	has "$name: a function whose name looks like perf's output" \
		'host user +g\?   f 1/1' out
	is "$name: report understands every line" "$(grep -c 'not of pv-perf record' out)" 0
}
if perf record -q -a -e cpu-clock -F 500 -o data true 2>/dev/null; then
	real perf ""
	real perf -g
	real "$tree/build/perf/perf-6.12" -g
	real "$tree/build/perf/perf-7" -g
else
	ok "perf's own # SKIP perf samples nothing on this machine" true
fi

dpkg-deb -x "$tree"/build/deb/pv-perf_*_all.deb installed
installed/usr/bin/pv-perf report --flamegraph packaged.html session >out
is "the packaged pv-perf makes a report" $? 0
finish
