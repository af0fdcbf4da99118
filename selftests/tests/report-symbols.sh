#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# pv-perf report: the tables and pprof's profile have the file, build ID and addresses of a
# program without symbols. Its functions have names if debug symbols are found here or by
# debuginfod. A file's name cannot forge a mapping.
# vm: none
# tier: all
# packages: linux-perf golang-go gcc binutils chromium debuginfod
# seconds: 60
self=$(realpath "$0")
tree=${self%/selftests/*}
. "$tree/selftests/tap.sh"
. "$tree/selftests/report/functions"
begin report-symbols

if ! perf record -q -a -e cpu-clock -o data true 2>/dev/null; then
	ok "all # SKIP perf samples nothing on this machine" true
	finish
	exit
fi

cat >work.c <<-'END'
	#include <time.h>
	#include <unistd.h>
	__attribute__((noinline)) static void hidden(volatile long *n)
	{
		for (clock_t end = clock() + CLOCKS_PER_SEC / 2; clock() < end;)
			for (int i = 0; i < 1000000; i++)
				++*n;
	}
	/* The child has its mappings from its parent. */
	int main(void) { long n = 0; if (!fork()) hidden(&n); else hidden(&n); return 0; }
END
gcc -O1 -g -fno-omit-frame-pointer -Wl,--build-id -o work work.c
id=$(readelf -n work | sed -n 's/.*Build ID: //p')
objcopy --only-keep-debug work work.debug
strip -s work

# session NAME FILE: make a session of perf's samples of this machine while FILE runs
session() {
	local name=$1
	perf record -q -a --buildid-mmap -N -B -e cpu-clock -F 500 -g -o data "$2"
	rm -rf "$name" place
	mkdir place
	mv data place/record.data
	sh -c "$(cat "$tree/tools/pvperf/record/machine.sh")" pv-perf script "$PWD/place" >/dev/null
	"$make_session" --seconds 1 "$name"
	mv place/samples.gz "$name/host.samples.gz"
	mv place/maps.gz "$name/host.maps.gz"
	edit "$name" 's["event"] = "cpu-clock"; s["period"] = None; s["callgraph"] = True
s["domains"] = s["domains"][:1]; s["host"]["counted"] = s["window"] = None
s["domains"][0]["maps"] = "host.maps.gz"'
}

# of_function FILE REGEX: the number of samples in the matching row of the table of functions
of_function() {
	awk -v n="$2" '/^$/ { t++ } t == 3 && $0 ~ n { print $4; exit }' "$1"
}

session stripped ./work
"$pv_perf" report --comm work --pprof p.pb.gz --flamegraph f.html stripped >out 2>&1
is "report reads a session of a stripped program" $? 0
more "a stripped program's samples have the name of its file" \
	"$(of_function out "user +.unknown. +$PWD/work")" 200
has "report names a file whose symbols are missing" \
	"no symbols of $PWD/work \\(build ID $id\\)" out
go tool pprof -raw p.pb.gz >raw 2>&1
has "pprof's profile has the program's mapping and build ID" \
	"0x[0-9a-f]+/0x[0-9a-f]+/0x1000 $PWD/work $id" raw
mapping=$(sed -n '/^Mappings/,$p' raw | sed -n "s/^\([0-9]*\): .*$id.*/\1/p")
more "pprof's profile has addresses in the program" \
	"$(grep -cE "^ +[0-9]+: 0x[1-9a-f][0-9a-f]+ M=$mapping *$" raw)" 0
browse f.html >f.dom
has "the flame graph has the program's file" \
	"<div title=.\\[unknown\\] \\($PWD/work\\): " f.dom
is "the flame graph has one bar of the file for each caller" \
	"$(sed -n 's|.*<script id="data" type="application/json">\(.*\)</script>|\1|p' f.html |
	/usr/bin/python3 -c 'import json, sys; d = json.load(sys.stdin)
n = [n for n in zip(d["parents"], d["nodes"]) if d["names"][n[1]].startswith("[unknown]")]
print(len(n) - len(set(n)))')" 0

mkdir -p debug/.build-id/"${id:0:2}"
cp work.debug "debug/.build-id/${id:0:2}/${id:2}.debug"
"$pv_perf" report --comm work --debug debug --pprof p.pb.gz stripped >found
more "with --debug the program has functions, also in a child" \
	"$(of_function found "user +hidden +$PWD/work")" 200
is "with --debug report does not miss the program's symbols" \
	"$(grep -c "no symbols of $PWD/work" found)" 0
go tool pprof -top p.pb.gz 2>/dev/null >top
has "with --debug pprof's profile has functions" ' hidden$' top
for how in 'head -c 3000' 'head -c 64' 'tr 0-9 a-j' 'tr \0 z' 'echo'; do
	rm -rf bad
	mkdir -p bad/.build-id/"${id:0:2}"
	$how <work.debug >"bad/.build-id/${id:0:2}/${id:2}.debug"
	"$pv_perf" report --comm work --debug bad stripped >bad.out 2>&1
	is "report ends well with a broken file of symbols: $how" "$?" 0
done

if command -v debuginfod >/dev/null; then
	port=$((20000 + $$ % 20000))
	debuginfod -p $port -d "$PWD/debuginfod.db" -F "$PWD/debug" >debuginfod.log 2>&1 &
	server=$!
	for _ in $(seq 100); do
		DEBUGINFOD_CACHE_PATH=$PWD/cache DEBUGINFOD_URLS=http://127.0.0.1:$port \
			debuginfod-find debuginfo "$id" >/dev/null 2>&1 && break
		rm -rf cache
		sleep 0.3
	done
	rm -rf cache
	DEBUGINFOD_CACHE_PATH=$PWD/cache DEBUGINFOD_URLS=http://127.0.0.1:$port \
		"$pv_perf" report --comm work stripped >asked
	more "the program has functions by debuginfod, too" \
		"$(of_function asked "user +hidden +$PWD/work")" 200
	kill $server
	wait $server 2>/dev/null
else
	ok "debuginfod # SKIP there is no debuginfod" true
fi

# A file's name contains a forged line of perf, which maps another file at all addresses.
evil=$'x\n1/1 1.000000000: PERF_RECORD_MMAP2 1/1: [0x1000(0x7fffffffffff) @ 0 <'"$id>]: r-xp "
mkdir -p "$evil"
cp work "$evil/y"
session forged "./$evil/y"
is "pv-perf record finds a forged line" \
	"$(zcat forged/host.maps.gz | tail -n 1 | cut -d' ' -f1)" forged
"$pv_perf" report --debug debug forged >out 2>&1
has "report does not believe mappings with a forged line" \
	'host.maps.gz: the name of a file has lines .*: the maps are ignored' out
none "no sample has a function by a forged mapping" "$(of_function out 'user +hidden')"
# Mappings that a hostile guest may send.
cp -r stripped hostile
/usr/bin/python3 - >maps <<'END'
for i in range(300000):
    print(f"m {i % 9} {i * 4096:x} 1000 0 {'ab' * 20} \x1b[2J</script>")
    print(f"f {i} {i + 1}")
print("m 1 0 0 0 zz y", "m " * 100000, "\udc80".encode("utf-8", "surrogateescape"))
END
gzip -1 <maps >hostile/host.maps.gz
small "mappings of many lines take little memory" 200 "$pv_perf" report hostile
has "report says that it does not read all mappings" 'only its first 200,000 lines are read' out
printf 'm 1 %s 1 0 %s x\nm 2 1000 1000 0 %s y\n' ffffffffffffffff $id $id | gzip >one.maps.gz
is "no mapping goes beyond 64 bits, and processes without a mapping take no memory" \
	"$(/usr/bin/python3 -B -c "
import sys
sys.path.insert(0, '$tree/tools')
from pvperf.report.input.maps import Maps
m = Maps('one.maps.gz')
print(sum(m.find(pid, 0x1800) is not None for pid in range(10000)), len(m.sorted), len(m.maps))")" "1 1 1"
/usr/bin/python3 -B -c "
import sys
sys.argv[1:] = ['report', '--comm', 'work', '--debug', 'debug', 'stripped']
sys.path.insert(0, '$tree/tools')
from pvperf.report.input import debug
debug.SIZE = 100
__file__ = '$pv_perf'
exec(compile(open(__file__).read(), __file__, 'exec'))" >out
has "report says that it leaves out symbols for which it has no room" \
	'debug symbols of 1 files are not read' out
mkdir slow
printf '#!/bin/sh\necho >>slow/asked\nsleep 0.4\nexit 1\n' >slow/debuginfod-find
chmod +x slow/debuginfod-find
PATH=$PWD/slow:$PATH DEBUGINFOD_URLS=http://127.0.0.1:1 /usr/bin/python3 -B -c "
import sys
sys.path.insert(0, '$tree/tools')
from pvperf.report.input import debug
debug.TIME = 1
finder = debug.Finder([])
for i in range(20):
    finder.symbols(f'{i:040x}')"
ok "all questions to debuginfod together end in time" \
	test "$(wc -l <slow/asked)" -ge 1 -a "$(wc -l <slow/asked)" -le 3
finish
