#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# pv-perf report: malformed and hostile data of a guest does no harm to a terminal, a browser,
# a viewer, other domains' numbers, or memory. The report says which numbers are in doubt.
# vm: none
# tier: all
# packages: linux-perf chromium golang-go python3-hypothesis
# seconds: 150
self=$(realpath "$0")
tree=${self%/selftests/*}
. "$tree/selftests/tap.sh"
. "$tree/selftests/report/functions"
begin report-hostile

# report marks numbers in doubt and says why.
"$make_session" --graph --seconds 2 short
copy odd 's["host"]["counted"] = {"0": 10**9}'
said "a guest that reports more cycles than the CPUs have counted" 'is in doubt' odd
is "the numbers of a guest that reports more than the CPUs have counted are marked" \
	"$(shown 1 'guest web user')" ~1000$M
# A guest cannot have executed more than its VMM has in guest mode.
copy lies 's["domains"][1]["counted"] = 10**9; s["domains"][2]["counted"] = 2200 * 10**6'
said "a guest that reports more cycles than its VMM had in guest mode" \
	'guest web says that it had 2,000,000,000 events, .* only 1,000,000,000 .* scaled' lies
is "the numbers of a guest that reports more than its VMM had are scaled and marked" \
	"$(for what in user kernel idle; do
	shown 1 "guest web $what"; done | paste -sd' ')" "~500$M ~300$M ~200$M"
is "the numbers of such a guest are scaled in each table" \
	"$(for n in 1 2 3; do table $n out | awk '/guest web/ {
	sub(/~/, ""); n += $1 } END { printf "%.0f ", n }'; done)" "1000$M 1000$M 1000$M "
is "the numbers of other domains are not scaled" \
	"$(shown 1 'guest db user') $(shown 1 'host user')" \
	"2000$M 160$M"
is "percentages are of the CPUs' counts" "$(awk '/ host user$/ { print $2; exit }' out)" 1.95%
"$pv_perf" report --flamegraph lies.html --pprof lies.pb.gz lies >out
go tool pprof -top -tagfocus vm=web lies.pb.gz >top 2>&1
has "a scaled guest is in a profile for pprof" 'ngx_http_parse' top
# A guest must not escape its cost by reporting less than its VMM had in guest mode.
copy hides 's["domains"][1]["counted"] = 4 * 10**9'
said "a guest that reports less than half of the cycles of its VMM in guest mode" \
	'guest web reports 2,000,000,000 events, and its VMM had 4,000,000,000 in guest mode' hides
is "the rest is in the first table, as an estimate" \
	"$(shown 1 'not reported: guest web')" ~2000$M
"$pv_perf" report --csv hides >hides.csv
has "the rest is in the cost of the VM, which is marked" \
	'^vms,,,,web,,,guest,4000000000,.*,True' hides.csv
# An address before the mapping that the guest says it is in.
cp -r short before
edit before 's["domains"][1]["maps"] = "web.maps.gz"'
echo 'm 10 0 10 1000 aabbccdd /bin/x' | gzip >before/web.maps.gz
at=$(zcat short/web.samples.gz | awk '$4 ~ /:$/ { sub(/:/, "", $4); print $4 }' | sed -n 1000p)
printf '10/10 [000] U %s: 1000000 cycles:H: "x"\n\t%s\n' "$at" 5 "$at" '10 "" "/bin/x"' |
	gzip >before/web.samples.gz
"$pv_perf" report --pprof before.pb.gz before >out 2>&1
is "report writes a profile with an address before its mapping" $? 0
go tool pprof -raw before.pb.gz >raw 2>&1
is "pprof reads that profile" $? 0
"$pv_perf" report --folded same --flamegraph ./same short >out 2>&1
has "report refuses two outputs of one name" 'two outputs have the same name' out
copy odd2 's["domains"][1]["clock"] = [[1, 1, 1], [0, 0, 0]]; s["domains"][1]["lost"] = "x"'
said "a clock that goes backwards" 'guest web: session.json: clock does not advance' odd2
copy odd3 's["event"] = "instructions"'
refused "a session of another event" 'no sample of instructions' odd3
copy odd4 's["domains"][1]["samples"] = "../session/web.samples.gz"'
refused "samples in another folder" 'samples is not the name of a file' odd4
copy odd5 's["domains"][1]["samples"] = "\x1b[2J"'
refused "samples whose file name has a terminal escape" 'samples is not the name of a file' odd5
is "the message about such a file name has no terminal escape" "$(grep -c $'\e' out)" 0
copy odd5 's["domains"] = [{"name": "x", "kind": "host", "status": "\x1b[2Jno perf"}]'
refused "a session without samples" '.\[2Jno perf' odd5
is "the message with a domain's status has no terminal escape" "$(grep -c $'\e' out)" 0
refused "no session" 'No such file' nowhere
cp -r short odd6
head -c 9999999 /dev/zero | tr '\0' '[' >odd6/session.json
refused "a session.json that is too large" 'more than 4 MB' odd6
head -c 99999 /dev/zero | tr '\0' '[' >odd6/session.json
refused "a session.json that is too deep" 'Remedy' odd6
echo '{"version": NaN}' >odd6/session.json
refused "a session.json with NaN" 'NaN where a number' odd6

# hostile: make a session whose samples of web come from stdin
hostile() {
	rm -rf hostile
	cp -r short hostile
	rm hostile/web.samples.gz
	cat >hostile/web.samples.gz
	edit hostile 's["window"] = None'
}
hostile </dev/null
said "an empty file" 'guest web: web.samples.gz: it is empty' hostile
head -c 5000 short/web.samples.gz | hostile
said "a file that is cut short" 'guest web: web.samples.gz: it is cut short' hostile
more "the samples before the cut are counted and marked" \
	"$(shown 1 'guest web user' | tr -d '~')" 100$M
{ head -c -8 short/web.samples.gz; echo 1234567; } | hostile
said "a file with another checksum" 'not a gzip file, or it is broken' hostile
echo hello | hostile
said "a file that is no gzip" 'not a gzip file, or it is broken' hostile
ln -sf /etc/passwd hostile/web.samples.gz
said "a symbolic link" 'web.samples.gz: ' hostile
rm hostile/web.samples.gz
mkfifo hostile/web.samples.gz
said "a pipe" 'is not a regular file' hostile
zcat short/web.samples.gz |
	sed 's/ 1000000 cycles/ 18446744073709551615 cycles/' | gzip -1 | hostile
said "samples with more events than their time allows" 'can count, left out: 2,050$' hostile
zcat short/web.samples.gz | tac | gzip -1 | hostile
said "lines in reverse order" 'guest web: lines that are not of pv-perf record' hostile

# Names that are code for a terminal, for a web page or for Python's format strings.
cat >evil.py <<-'END'
	import json, sys
	names = ["\x1b[2J\x07", "</script><script>alert(1)</script>", "{hash} %s",
	         "\u202egpj.exe", "a\rb", "x" * 100000, "\udc80\udcff"]
	for i, name in enumerate(names * 100):
	    def quote(name):
	        return json.dumps(name, ensure_ascii=False)
	    text = f"1/1 [0] U {i}.5: 1000000 cycles: {quote(name[:15])}\n" \
	        f"\t1234 {quote(name)} {quote(name)}\n"
	    sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
END
/usr/bin/python3 evil.py | gzip -1 | hostile
"$pv_perf" report --top 0 --flamegraph evil.html --timeline evil.json \
	--pprof evil.pb.gz hostile >out 2>&1
is "report reads names that are code" $? 0
has "the table has names that are code" \
	'guest web user +</script><script>alert\(1\)</script>' out
is "the table has no terminal escape" \
	"$(LC_ALL=C grep -c "[$(printf '\001-\010\013-\037')]" out)" 0
is "the flame graph has no script of a name" "$(grep -o '<script' evil.html | wc -l)" 2
is "the timeline has no terminal escape" "$(LC_ALL=C grep -c $'\e' evil.json)" 0
ok "the timeline with names that are code is JSON" \
	/usr/bin/python3 -c 'import json; json.load(open("evil.json"))'
browse evil.html >evil.dom
more "the browser shows names that are code as text" \
	"$(grep -c '&lt;script&gt;alert' evil.dom)" 0
go tool pprof -top evil.pb.gz >top 2>&1
is "pprof reads names that are code" $? 0

head -c 1000000000 /dev/zero | gzip -1 | hostile
said "a gigabyte of one line" 'guest web: lines that are not' hostile
small "a gigabyte of one line takes little memory" 60 "$pv_perf" report hostile

# A small file may unpack to a large one.  The exports of it stay small.
/usr/bin/python3 -c '
for i in range(40000):
    print(f"1/1 [{i % 4000}] U {5000 + i / 25000:.9f}: 1000000 cycles: \"x\"")
    for j in range(25):
        print(f"\t{i % 7 + j:x} \"{chr(48 + (i + j) % 70) * 200}\" \"y\"")' | gzip | hostile
edit hostile 's["window"] = None; s["domains"][1]["clock"] = [[5000, 5000, 1e-6], [5002, 5002, 1e-6]]'
"$pv_perf" report --timeline blown.json hostile >out
echo "# $(stat -c %s hostile/web.samples.gz) bytes become $(stat -c %s blown.json)"
ok "a guest takes no more than its share of a timeline" \
	test "$(stat -c %s blown.json)" -lt $((40 << 20))
has "a timeline that leaves something out says so" \
	'guest web: the timeline has only its first 24 MB' out
ok "a timeline that leaves something out is JSON" \
	/usr/bin/python3 -c 'import json; json.load(open("blown.json"))'
yes x | head -n 50000000 | gzip | hostile
said "a hundred million bytes of meaningless lines" 'the rest is not read' hostile
cpu_ms=$( { TIMEFORMAT='%U %S'; time "$pv_perf" report hostile >out; } 2>&1 |
	awk '{ printf "%.0f", ($1 + $2) * 1000 }')
echo "# $cpu_ms ms of CPU"
ok "meaningless lines take little time" test "$cpu_ms" -lt 3000

# A guest whose samples all have new processes, functions and stacks.
cat >new.py <<-'END'
	for i in range(10000):
	    print(f'{i}/{i} [{i % 1000:03}] U {i}.5: 1000000 cycles: "p{i}"')
	    for j in range(25):
	        print(f'\t1234 "f{i}_{j}_{"x" * 200}" "/usr/lib/{i}"')
END
/usr/bin/python3 new.py | gzip -1 | hostile
small "a guest with always new processes and functions takes little memory" 300 \
	"$pv_perf" report --flamegraph new.html --pprof new.pb.gz hostile
ok "the flame graph of such a guest is small enough for a browser" \
	test "$(stat -c %s new.html)" -lt $((32 << 20))
browse 'new.html#search=f1_' >new.dom
is "a search in the flame graph says how much was left out" \
	"$(sed -n 's/.*id="matched">\([^<]*\).*/\1/p' new.dom | sed 's/[0-9.]*%/N/g')" \
	"found: N of all, and at most N more in what was left out"
has "report says that it does not keep all stacks apart" \
	'guest web: there are more stacks than' out
is "stacks that report does not keep apart are in the sums" \
	"$(shown 1 'guest web user')" ~10000$M

# Stacks of few functions, each stack new.
/usr/bin/python3 -c '
for i in range(60000):
    print(f"1/1 [0] U {i}.5: 1000000 cycles: \"x\"")
    for j in range(40):
        print(f"\t1234 \"f{(i // (j + 1) + j) % 1000}\" \"y\"")
    print(f"\t1234 \"f{i % 1000}\"\n\t1234 \"f{i // 1000}\"")' | gzip -1 | hostile
edit hostile 's["domains"][1]["clock"] = [[0, 0, 1e-6], [60000, 60000, 1e-6]]'
small "a Firefox profile of always new stacks takes little memory" 400 \
	"$pv_perf" report --firefox new.json hostile
has "report says that the Firefox profile leaves out stacks" \
	'more stacks than the Firefox profile has room for' out

# A file is mapped at the end of the addresses in one process, and lower in another process, so
# that an address of the second would be beyond 64 bits in the first.
printf '%s U 0.5: 1000000 cycles: "x"\n\t%s "[unknown]" "[unknown]"\n' \
	'1/1 [0]' ffffffffffff0010 '2/2 [0]' 51000 | gzip -1 | hostile
printf 'm %s 0 01234567 x\n' '1 ffffffffffff0000 1000' '2 1000 100000' | gzip >hostile/web.maps.gz
edit hostile 's["domains"][1]["maps"] = "web.maps.gz"'
"$pv_perf" report --pprof end.pb.gz hostile >out 2>&1
go tool pprof -raw end.pb.gz >raw 2>&1
has "pprof's profile has an address at the end of the address space" \
	'^ +[0-9]+: 0xffffffffffff0010 M=' raw
has "pprof's profile has no address beyond 64 bits" '^ +[0-9]+: 0xffffffffffffffff M=' raw

# Memory does not grow with time: a hundredth and a tenth of the 14,400,000 samples of
# an hour of four domains.
for seconds in 36 360; do
	"$make_session" --seconds $seconds long
	peak "$pv_perf" report --pprof new.pb.gz long
	mb[seconds]=$mb_used
done
is "report reads 1,440,000 samples, and leaves out 36,000 that a guest sampled itself" \
	"$(awk '/ all$/ { print $3 }' out | head -n 1)" 1404000
within "a session ten times as long takes the same memory, in MB" "${mb[360]}" "${mb[36]}" 10
ok "the longer session takes less than 500 MB of memory" test "${mb[360]}" -lt 500
# A session with as many stacks as a large program has.
"$make_session" --graph --flat --seconds 20 flat
small "a session with many stacks takes little memory" 500 \
	"$pv_perf" report --flamegraph new.html --pprof new.pb.gz flat

"$pv_perf" report --limit 1 long >out
has "report does not read a guest's samples beyond --limit" \
	'only its first 1 MB are read \(--limit\)' out
is "the numbers of a guest whose samples are cut are marked" \
	"$(table 1 out | grep -c '^~.* guest web user')" 1

/usr/bin/python3 "$tree/selftests/report/fuzz" >fuzz.out 2>fuzz.err
tail -n 30 fuzz.err | sed 's/^/# /'
tap_file "hypothesis" fuzz.out
finish
