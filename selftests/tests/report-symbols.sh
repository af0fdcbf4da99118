#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# pv-perf report: a program without symbols is not lost: its file, build ID and addresses are
# there, in pprof's profile, too, and its functions have their names if debug symbols are
# found here or by debuginfod. Names of files forge none of that.
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

# session NAME FILE: of what perf has of this machine while FILE runs
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

# of_function FILE NAME: the samples of a function of the program
of_function() {
	awk -v n="$2" '/^$/ { t++ } t == 3 && $0 ~ n { print $4; exit }' "$1"
}

session stripped ./work
"$pv_perf" report --comm work --pprof p.pb.gz --flamegraph f.html stripped >out 2>&1
is "a session of a stripped program is read" $? 0
more "its samples are of its file" "$(of_function out "user +.unknown. +$PWD/work")" 200
has "it says which symbols are missing, and what to do" \
	"no symbols of $PWD/work \\(build ID $id\\)" out
go tool pprof -raw p.pb.gz >raw 2>&1
has "pprof has where it is, and its build ID" \
	"0x[0-9a-f]+/0x[0-9a-f]+/0x1000 $PWD/work $id" raw
mapping=$(sed -n '/^Mappings/,$p' raw | sed -n "s/^\([0-9]*\): .*$id.*/\1/p")
more "and addresses in it" "$(grep -cE "^ +[0-9]+: 0x[1-9a-f][0-9a-f]+ M=$mapping *$" raw)" 0
browse f.html >f.dom
has "the flame graph has it" "<div title=.\\[unknown\\] \\($PWD/work\\): " f.dom
is "as one bar of each that has called it" "$(sed -n 's|.*<script id="data" type="application/json">\(.*\)</script>|\1|p' f.html |
	/usr/bin/python3 -c 'import json, sys; d = json.load(sys.stdin)
n = [n for n in zip(d["parents"], d["nodes"]) if d["names"][n[1]].startswith("[unknown]")]
print(len(n) - len(set(n)))')" 0

mkdir -p debug/.build-id/"${id:0:2}"
cp work.debug "debug/.build-id/${id:0:2}/${id:2}.debug"
"$pv_perf" report --comm work --debug debug --pprof p.pb.gz stripped >found
more "with its debug symbols, it has its functions, also in a child" \
	"$(of_function found "user +hidden +$PWD/work")" 200
is "and none is missing" "$(grep -c "no symbols of $PWD/work" found)" 0
go tool pprof -top p.pb.gz 2>/dev/null >top
has "as pprof has it" ' hidden$' top
for how in 'head -c 3000' 'head -c 64' 'tr 0-9 a-j' 'tr \0 z' 'echo'; do
	rm -rf bad
	mkdir -p bad/.build-id/"${id:0:2}"
	$how <work.debug >"bad/.build-id/${id:0:2}/${id:2}.debug"
	"$pv_perf" report --comm work --debug bad stripped >bad.out 2>&1
	is "a file of symbols that is none does no harm: $how" "$?" 0
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
	more "debuginfod has them, too" "$(of_function asked "user +hidden +$PWD/work")" 200
	kill $server
	wait $server 2>/dev/null
else
	ok "debuginfod # SKIP there is no debuginfod" true
fi

# A file in whose name there is a line as of perf's: of another file, at all addresses.
evil=$'x\n1/1 1.000000000: PERF_RECORD_MMAP2 1/1: [0x1000(0x7fffffffffff) @ 0 <'"$id>]: r-xp "
mkdir -p "$evil"
cp work "$evil/y"
session forged "./$evil/y"
is "a forged line is found" "$(zcat forged/host.maps.gz | tail -n 1 | cut -d' ' -f1)" forged
"$pv_perf" report --debug debug forged >out 2>&1
has "and none is believed then" 'host.maps.gz: the name of a file has lines .*: the maps are ignored' out
none "so no name is wrong" "$(of_function out 'user +hidden')"
# And what a guest may send.
cp -r stripped hostile
/usr/bin/python3 - >maps <<'END'
for i in range(300000):
    print(f"m {i % 9} {i * 4096:x} 1000 0 {'ab' * 20} \x1b[2J</script>")
    print(f"f {i} {i + 1}")
print("m 1 0 0 0 zz y", "m " * 100000, "\udc80".encode("utf-8", "surrogateescape"))
END
gzip -1 <maps >hostile/host.maps.gz
small "many lines take little memory" 200 "$pv_perf" report hostile
has "what is not read is said" 'only its first 200,000 lines are read' out
printf 'm 1 %s 1 0 %s x\nm 2 1000 1000 0 %s y\n' ffffffffffffffff $id $id | gzip >one.maps.gz
is "nothing is beyond 64 bits, nor kept of processes that have no mapping" "$(/usr/bin/python3 -B -c "
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
has "symbols that have no room are left out, which is said" 'debug symbols of 1 files are not read' out
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
ok "all questions to debuginfod together have an end" \
	test "$(wc -l <slow/asked)" -ge 1 -a "$(wc -l <slow/asked)" -le 3
finish
