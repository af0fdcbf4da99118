#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# pv-perf record with several events, with groups, with events of guests only, and with call
# chains of programs that have no frame pointers. The guest is this machine, behind a stand-in
# for ssh.
# vm: none
# tier: all
# packages: linux-perf python3-libvirt gcc binutils
# seconds: 60
self=$(realpath "$0")
tree=${self%/selftests/*}
. "$tree/selftests/tap.sh"
. "$tree/selftests/report/functions"
one_session "$@"
begin record-events

if ! perf record -q -a -e cpu-clock -o data true 2>/dev/null; then
	ok "all # SKIP perf samples nothing on this machine" true
	finish
fi
mkdir bin
cat >bin/ssh <<-'END'
	#!/bin/bash
	while [ "$1" != -- ]; do
		[ "$1" != exit ] || exit 0
		shift
	done
	exec sh -c "$3"
END
chmod +x bin/ssh
export PATH=$PWD/bin:$PATH

# record DIR ARGUMENT...
record() {
	local folder=$1
	shift
	rm -rf "$folder"
	# On a busy machine perf may take minutes to start.
	"$pv_perf" record --patience 300 -o "$folder" "$@" >"$folder.out" 2>&1
}

# refused NAME REGEX ARGUMENT...: record refuses the arguments, and leaves no folder
refused() {
	local name=$1 what=$2
	shift 2
	record refused "$@"
	is "record refuses $name" $? 1
	has "record says why it refuses $name" "$what" refused.out
	ok "record leaves no folder of $name" test ! -e refused
}

# sampled DIR NAME EVENT: the number of samples of an event, and the sum of their periods
sampled() {
	zcat "$1/$2.samples.gz" | awk -v e=" $3:" '
		!/^\t/ && index($0, e) { n++; split($0, w, /: +/); split(w[2], p); sum += p[1] }
		END { printf "%d %.0f", n, sum }'
}

# reported DIR EVENT: the same by the report's tables of the host
reported() {
	"$pv_perf" report --event "$2" --json "$1" | /usr/bin/python3 -c '
import json, sys
rows = json.load(sys.stdin)["tables"]["domains"]
print(sum(r["samples"] for r in rows), sum(r["events"] for r in rows if r["samples"]))'
}

cat >work.c <<-'END'
	#include <stdlib.h>
	#include <string.h>
	#include <time.h>
	__attribute__((noinline)) long NAME(volatile char *page)
	{
		volatile long n = 0;
		for (int i = 0; i < 300000; i++)
			n += i;
		for (int i = 0; i < 64; i++)
			page[i * 4096] = n;
		return n;
	}
	__attribute__((noinline)) long middle(void)
	{
		/* New pages each time. */
		char *page = malloc(64 * 4096 + 1);
		long n = NAME(page);
		free(page);
		return n + 1;
	}
	__attribute__((noinline)) long outer(void) { return 3 * middle(); }
	int main(void)
	{
		/* The stack has a word that must not leave the machine. */
		volatile char word[] = "CANARY-OF-THE-STACK";
		long n = word[0];
		for (clock_t end = clock() + CLOCKS_PER_SEC; clock() < end;)
			n += outer();
		return n == 1;
	}
END
compile() {
	gcc -O2 -fomit-frame-pointer -fno-optimize-sibling-calls -fno-inline -Wl,--build-id \
		"-DNAME=$1" -o "$2" work.c
}
compile leaf work

# The session has a group and several other events. Only guests have one of these events. Each
# new process has page faults.
record several -F 500 -e cpu-clock -e '{task-clock,page-faults}:S' \
	--guest-event context-switches --vm ssh:one -- \
	sh -c './work & timeout 1 sh -c "while :; do /bin/true; done"; wait'
is "a session of four events ends well" $? 0
# uncounted DIR: remove what the host knows of a session, so that report has all samples
uncounted() {
	edit "$1" 's["window"] = s["host"]["counted"] = None
for e in s["more"]: e["counted"] = None'
}
cp -r several whole
uncounted several
for event in cpu-clock task-clock page-faults; do
	more "the host has samples of $event" "$(sampled several host $event | cut -d' ' -f1)" 100
	more "the guest has samples of $event" "$(sampled several one $event | cut -d' ' -f1)" 100
	is "report has all of the host's samples of $event" \
		"$(reported several $event)" "$(sampled several host $event)"
done
# at DIR NAME EVENT: the CPUs and times of an event's samples
at() {
	zcat "$1/$2.samples.gz" | awk -v e=" $3:" '!/^\t/ && index($0, e) { print $2, $4 }' | sort -u
}
none "each sample of a group's member is a sample of the group's leader" \
	"$(comm -23 <(at several host page-faults) <(at several host task-clock))"
within "the counts of a group's member in its samples are what the CPUs have counted" \
	"$(sampled several host page-faults | cut -d' ' -f2)" \
	"$(/usr/bin/python3 -c 'import json
s = json.load(open("whole/session.json"))
print(sum(next(e for e in s["more"] if e["event"] == "page-faults")["counted"].values()))')" 10
is "the host has no sample of an event of guests only" \
	"$(sampled several host context-switches)" "0 0"
more "the guest has samples of an event of guests only" \
	"$(sampled several one context-switches | cut -d' ' -f1)" 10
"$pv_perf" report several >out
has "report shows the first event by itself" ': cpu-clock, 500 Hz; host' out
has "report names the other events" \
	'more events, for --event: task-clock, page-faults, context-switches$' out
is "report does not call the other events unknown" "$(grep -c 'of other events' out)" 0
"$pv_perf" report --event context-switches several >out
has "report has an event of guests only" 'guest one kernel +.*schedule|guest one kernel$' out
has "report says that the host cannot check an event of guests only" \
	'only the guests have this event' out
"$pv_perf" report --event nonsense several >out 2>&1
is "report refuses an event that the session does not have" $? 1
has "report names the events that the session has" \
	'Remedy: --event cpu-clock, task-clock, page-faults, context-switches' out
cp -r several lost
edit lost 's["domains"][0]["lost"] = 1000'
is "the lost samples of a session are divided between its events" "$(
	for event in cpu-clock task-clock page-faults; do
		"$pv_perf" report --event $event --json lost | /usr/bin/python3 -c '
import json, sys
d = json.load(sys.stdin)["tables"]["domains"]
own = [r for r in d if r["domain"].startswith("host ")]
lost = sum(r["events"] for r in d if r["domain"].startswith("lost"))
print(lost * sum(r["samples"] for r in own) / sum(r["events"] for r in own))'
	done | awk '{ n += $1 } END { print (n > 990 && n <= 1000 ? 1000 : n) }')" 1000
"$pv_perf" diff --event page-faults several several >out
has "diff compares the event that is chosen" '^page-faults per second, by domain' out
record terms -F 500 -e cpu-clock/period=3000000/,page-faults/name=faults/ -- ./work
uncounted terms
is "an event with a period of its own has this period" \
	"$(zcat terms/host.samples.gz | grep -o ' [0-9]* cpu-clock/*[^ ]*:' | awk '{ print $1 }' |
		sort -u)" 3000000
is "an event that has a name of its own is reported by this name" \
	"$(reported terms faults)" "$(sampled terms host faults)"

refused "two events of one name" 'two events of the name cycles.*' -e cycles:u,cycles:k -- true
refused "no list of events" 'not a list of events' -e 'cycles,{instructions' -- true
refused "an event of the hypervisor without a guest" 'kvm/exits/.*' \
	-e cpu-clock,kvm/exits/ -- true
refused "only events of the hypervisor" 'the host has no such event' -e kvm/exits/ \
	--vm ssh:one -- true
record unknown -F 500 -e cpu-clock,kvm/exits/ --vm ssh:one -- ./work
has "record says which event a guest does not have" "one: .*kvm/exits/" unknown.out
more "beside a guest without the event, the host has samples" \
	"$(sampled unknown host cpu-clock | cut -d' ' -f1)" 100

# Call chains of a program without frame pointers.
# chain DIR NAME: the number of samples of leaf that have all of its callers
chain() {
	zcat "$1/$2.samples.gz" | awk '
		!/^\t/ { at = 1; next }
		{ want = at == 1 ? "leaf" : at == 2 ? "middle" : at == 3 ? "outer" : "main"
		  at = index($0, "\"" want "\" \"work\"") && at ? at + 1 : 0
		  if (at == 5) n++ }
		END { print n + 0 }'
}
record pointers -F 500 -e cpu-clock -g --vm ssh:one -- ./work
is "with -g, a program without frame pointers has no callers" \
	"$(chain pointers host) $(chain pointers one)" "0 0"
record dwarf -F 500 -e cpu-clock --call-graph dwarf,16384 --vm ssh:one -- ./work
is "a session with --call-graph dwarf ends well" $? 0
for name in host one; do
	more "$name: with --call-graph dwarf, the program has its callers" "$(chain dwarf $name)" 100
	more "$name: with --call-graph dwarf, the kernel has its callers" \
		"$(zcat dwarf/$name.samples.gz | grep -c '^	ffffffff.*"\[kernel.kallsyms\]"')" 100
done
has "record says how much room stacks may take" 'stacks take up to 8.2 MB per second' dwarf.out
"$pv_perf" report --inclusive --comm work dwarf >out
has "report has the callers" 'host user +outer +work' out
none "no session has a word of a stack" \
	"$(for file in dwarf/*; do zcat -f "$file" | grep -al CANARY-OF-THE-STACK; done)"
none "no copy of a stack is left in the guest" "$(ls -d /var/tmp/pv-perf.* 2>/dev/null)"
more "the word is in perf's own file" "$(perf record -q --call-graph dwarf -F 500 -e cpu-clock \
	-o data ./work; grep -ac CANARY-OF-THE-STACK data)" 0

# The address of a function without a name is its address in the file.
cp work named
objcopy --only-keep-debug named work.debug
strip -s work
id=$(readelf -n named | sed -n 's/.*Build ID: //p')
mkdir -p "debug/.build-id/${id:0:2}"
cp work.debug "debug/.build-id/${id:0:2}/${id:2}.debug"
record stripped -F 500 -e cpu-clock --call-graph dwarf --vm ssh:one -- ./work
"$pv_perf" report --comm work --inclusive stripped >out
has "a program without names has its file in the tables" "user +\\[unknown\\] +$PWD/work" out
"$pv_perf" report --comm work --inclusive --debug debug stripped >out
for function in leaf outer; do
	has "with --debug, the program has the function $function" "user +$function +$PWD/work" out
done

# The name of a function has lines like perf's.
name=$'g+0x1 (x)\n\tffff f+0x1 (x)\n1/1   1.000000000: \n\tffff f+0x1 (x)\n'
compile "$(printf "%${#name}s" | tr ' ' n)" evil
/usr/bin/python3 - "$name" <<-'END'
	import sys
	name = sys.argv[1].encode()
	with open("evil", "rb") as f:
	    data = f.read()
	with open("evil", "wb") as f:
	    f.write(data.replace(b"n" * len(name), name))
END
record hostile -F 500 -e cpu-clock --call-graph dwarf -- ./evil
zcat hostile/host.samples.gz | grep -v '^	' >headers
more "a program whose function has newlines has samples" "$(grep -c '"evil"$' headers)" 100
is "no sample is forged" "$(grep -c '^1/1 \[[0-9]*\] [A-Z]* 1\.000000000' headers)" 0
has "the function has the first line of its name" '^	[0-9a-f]+ "g" ' \
	<(zcat hostile/host.samples.gz)
"$pv_perf" report hostile >out
is "report understands every line" "$(grep -c 'not of pv-perf record' out)" 0
is "report reads every sample" "$(awk '/ all$/ { print $3; exit }' out)" "$(wc -l <headers)"

# Stacks fill the room that perf has.
record full -F 2000 -e cpu-clock --call-graph dwarf,65528 --limit 20 --vm ssh:one -- sleep 60
is "a session whose stacks fill their room ends well" $? 0
has "record says that there is no more room for stacks" 'perf has ended early: .*size limit' \
	full.out
ok "the session ends when there is no more room" test "$(/usr/bin/python3 -c 'import json
print(int(json.load(open("full/session.json"))["seconds"]))')" -lt 50

if grep -qw arch_lbr /proc/cpuinfo ||
		perf record -q --call-graph lbr -e cycles -o data true >/dev/null 2>&1; then
	ok "lbr # SKIP this CPU has last branch records" true
else
	refused "--call-graph lbr on a CPU without last branch records" \
		'host: no last branch records.*Remedy: --call-graph dwarf' \
		-e cpu-clock --call-graph lbr -- true
fi
for how in dwarf,7 dwarf,65536 dwarf,12 frames; do
	"$pv_perf" record --call-graph $how -o refused -- true >out 2>&1
	is "record refuses --call-graph $how" $? 2
done
finish
