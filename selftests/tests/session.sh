#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# pv-perf record: the begin and end of sessions, and the messages and files of sessions with
# guests that fail. The guests are this machine, behind a stand-in for ssh that behaves like a
# failing or hostile guest. They record cpu-clock.
# vm: none
# tier: all
# packages: linux-perf openssh-server python3-libvirt
# seconds: 200
self=$(realpath "$0")
tree=${self%/selftests/*}
. "$tree/selftests/tap.sh"
. "$tree/selftests/report/functions"
one_session "$@"

# Stands in for ssh. A guest's name says how it fails. Files in $FAKES have a guest fail later.
fake_ssh() {
	while [ "$1" != -- ]; do
		[ "$1" != exit ] || exit 0
		shift
	done
	guest=$2
	case $3 in
	*" pv-perf "*)	word=${3##*pv-perf }
			word=${word%% *} ;;
	*)		word=fetch ;;
	esac
	echo "$guest $word" >>"$FAKES/log"
	if [ -e "$FAKES/$guest.dies" ]; then
		echo "ssh: connect to host $guest port 22: No route to host" >&2
		exit 255
	fi
	if [ -e "$FAKES/$guest.hangs" ]; then
		exec sleep 1000
	fi
	case $guest:$word in
	refuses:*)
		printf 'root@refuses: Permission\033[2J denied\n' >&2
		exit 255 ;;
	hangs:*)	exec sleep 1000 ;;
	floods:start)	exec yes ;;
	binary:start)	exec head -c 5000 /dev/urandom ;;
	greedy:fetch)	exec cat /dev/zero ;;
	large:script)
		echo "size $((300 << 20))"
		exit ;;
	slow:script)	exec sleep 1000 ;;
	large:fetch)	exec head -c $((300 << 20)) /dev/zero ;;
	cut:fetch)	exec head -c 100 /dev/zero ;;
	lies:script)
		echo "lost 99999999999999999999"
		echo "size -5"
		echo "size 99999999999999999999999999"
		exit ;;
	outside:place)	echo "../../etc" ; exit ;;
	perfless:start)
		exec unshare -m sh -c 'mount --bind /dev/null /usr/bin/perf; eval "$1"' \
			sh "$3" ;;
	esac
	exec sh -c "$3"
}

# Prints the folders and processes that sessions have left on this machine.
left() {
	local file
	ls -d /var/tmp/pv-perf.* 2>/dev/null
	for file in /proc/[0-9]*/cwd; do
		readlink "$file" | grep -E '/pv-perf\.|/\.host'
	done
}

nothing_left() {
	[ -z "$(left)" ]
}

# record DIR ARGUMENT...: of cpu-clock, if no -e names another event
record() {
	local folder=$1 event=(-e cpu-clock)
	shift
	[[ " $* " != *" -e "* ]] || event=()
	rm -rf "$folder"
	"$pv_perf" record "${event[@]}" -F 200 -o "$folder" "$@" >"$folder.out" 2>&1
}

# field DIR PYTHON: print an expression of s, the session.json of DIR, and of d, the session's
# domains by name
field() {
	python3 -c "
import json, sys
s = json.load(open(sys.argv[1] + '/session.json'))
d = {x['name']: x for x in s['domains']}
print($2)" "$1"
}

samples() {
	zcat "$1/$2.samples.gz" | grep -vc '^	'
}

if [ "${1-}" = -- ] || [[ ${1-} = -* ]]; then
	fake_ssh "$@"
fi
work=$tree/build/tests/session
rm -rf "$work"
mkdir -p "$work/bin" "$work/fakes"
cd "$work" || exit 1
ln -s "$self" bin/ssh
mkdir tmp
export PATH=$work/bin:$PATH FAKES=$work/fakes TMPDIR=$work/tmp

# A session without faults.
before=$EPOCHREALTIME
record good --vm ssh:one --vm ssh:two -- \
	sh -c 'date +%s.%N >begin; sleep 3; date +%s.%N >end; exit 3'
status=$?
after=$EPOCHREALTIME
is "record of a host and two guests ends with the command's status" $status 3
for name in host one two; do
	more "$name: the session has samples" "$(samples good $name)" 500
	is "$name has lost no sample" "$(field good "d['$name']['lost']")" 0
done
ok "the session is as long as its command, and no longer than pv-perf ran" \
	awk -v n="$(field good "s['seconds']")" -v begin="$(cat begin)" -v end="$(cat end)" \
	-v before="$before" -v after="$after" 'BEGIN {
		exit !(end - begin >= 3 && n >= end - begin && n <= after - before) }'
# On a busy machine perf may begin long before the command, and end long after it. perf's count
# may begin after the session, but not after its command.
ok "perf's count of the host agrees with the session's length" \
	awk -v n="$(field good "sum(s['host']['counted'].values())")" \
	-v least="$(field good "($(cat end) - $(cat begin)) * s['host']['cpus'] * 1e9")" \
	-v most="$(field good "($after - $before) * s['host']['cpus'] * 1e9")" 'BEGIN {
		print "# " n ", of " least " to " most
		exit !(n >= 0.9 * least && n <= 1.01 * most) }'
has "record prints the command's status" 'ended with status 3' good.out
has "record names guests without the pair" 'two: it does not have the pair' good.out
has "samples have all fields" \
	'^[0-9]+/[0-9]+ \[[0-9]+\] [KUHGg]+ [0-9]+\.[0-9]{9}: [0-9]+ cpu-clock: "[^"]+"$' \
	<(zcat good/one.samples.gz)
is "only root may read the session's folder" "$(stat -c %a good)" 700
is "the session's folder has exactly its files" "$(echo good/*)" \
	"good/host.maps.gz good/host.samples.gz good/one.maps.gz good/one.samples.gz \
good/session.json good/two.maps.gz good/two.samples.gz"
has "the session has the mappings of programs" \
	'^m [0-9]+( [0-9a-f]+){4} /' <(zcat good/one.maps.gz)
is "the session's folder has no hidden file" "$(find good -name '.*' | wc -l)" 0
until_true nothing_left
none "no file and no process of a session is left" "$(left)"
record chains -g --vm ssh:one --seconds 1
has "with -g samples have call chains" '^\s[0-9a-f]{6,} "[^ ]+' <(zcat chains/one.samples.gz)

# The status with which record ends.
record killed --vm ssh:one -- sh -c 'sleep 1; kill -KILL $$'
is "the status is 128 + 9 if signal 9 ends the command" $? 137
record strict --strict --seconds 1
is "with --strict the status is 0 if every guest was recorded" $? 0
record strict --strict --vm ssh:refuses -- touch began
is "with --strict the status is 125 if a guest cannot be recorded" $? 125
has "record says why a guest cannot be recorded" 'refuses: .*Permission' strict.out
none "with --strict the command does not begin, and no folder is left" \
	"$(ls -d began strict 2>/dev/null)"
record strict --strict --vm ssh:one -- sh -c 'sleep 1; exit 3'
is "with --strict the status is 125 if a guest fails in the end" $? 125
is "the samples of a guest that fails in the end are kept" \
	"$(field strict "d['one']['samples']")" one.samples.gz
printf '\177ELF nonsense' >script
chmod +x script
record nonsense -- ./script
is "the status is 126 if the command cannot be executed" $? 126

# perf 7 changes its folder for a moment if a process is in another mount namespace.
cat >bin/perf <<-'END'
	#!/bin/sh
	here=$PWD
	cd /
	sleep 0.3
	cd "$here"
	exec /usr/bin/perf "$@"
END
chmod +x bin/perf
record elsewhere --vm ssh:one --seconds 1
is "a session with a perf that changes its folder for a moment ends well" $? 0
is "a session with a perf that changes its folder for a moment has its samples" \
	"$(field elsewhere "d['host']['status'], d['one']['samples']")" \
	"ok one.samples.gz"
rm bin/perf

# A passive guest's symbols.  The test turns a sample of the host into a sample of the guest's
# kernel.  Sessions of passive guests need a hardware event.
fake_cycles
sleep 1000 &
passive=$!
cat >System.map <<-END
	ffffffff81000000 T startup_64
	ffffffff81000100 T old_work
	ffffffff81000200 T _etext
END
record symbols -e cycles --seconds 1 --passive pid:$passive --symbols "pid:$passive=System.map"
is "a session of a passive guest with symbols ends well" $? 0
is "the session names the symbols of a passive guest" \
	"$(field symbols "d['pid:$passive']['symbols']")" \
	pid_$passive.kallsyms
ok "the session has a copy of the given symbols" \
	cmp System.map symbols/pid_$passive.kallsyms
zcat symbols/host.samples.gz | grep -v '^	' |
	sed -n "$(($(samples symbols host) / 2))p" |
	sed -nE "s/.*\] [A-Za-z-]+ ([0-9.]+: [0-9]+ cycles):.*/$passive\/$passive [000] G \1:G: \"CPU 0\"\n\tffffffff81000123/p" |
	gzip >>symbols/host.samples.gz
"$pv_perf" report --top 0 symbols >symbols.out
has "report has the name of a passive guest's function" \
	"passive pid:$passive kernel +old_work +\\[guest.kernel\\]" symbols.out
echo nothing >System.map
record nonsense -e cycles --seconds 1 --passive pid:$passive --symbols "pid:$passive=System.map"
"$pv_perf" report nonsense >symbols.out 2>&1
is "report refuses a session with malformed symbols" $? 1
has "report says how to get symbols if they are malformed" \
	'Remedy: cat /proc/kallsyms' symbols.out
kill $passive
rm bin/perf

# Guests that fail, beside a guest that does not fail. Most steps may take a quarter of the
# patience.
patience=$((15 * ${VM_PATIENCE:-1}))
record failed --patience $patience --seconds 2 --limit 50 --vm ssh:fine --vm ssh:refuses \
	--vm ssh:hangs --vm ssh:floods --vm ssh:binary --vm ssh:greedy --vm ssh:cut \
	--vm ssh:lies --vm ssh:outside --vm ssh:perfless
is "a session with guests that fail ends well" $? 0
more "beside guests that fail, a guest that does not fail has samples" \
	"$(samples failed fine)" 300
more "beside guests that fail, the host has samples" "$(samples failed host)" 300
is "record's output has no terminal escape of a guest" "$(grep -c $'\e' failed.out)" 0
said() {
	is "the status of the guest '$1' has: $2" \
		"$(field failed "'$2' in d['$1']['status']")" True
}
said refuses "Permission?[2J denied"
said hangs "no answer within"
said floods "sends more than it may"
said binary "gone"
said greedy "sends more than it may"
said cut "only 100 of"
said outside "where its files are"
said perfless "apt install linux-perf"
is "record does not believe a guest's impossible number of lost samples" \
	"$(field failed "d['lies']['lost']")" 0
more "a guest's samples are cut at the limit" \
	$((50 << 20 | 1)) "$(stat -c %s failed/greedy.samples.gz)"

# pv-perf writes a guest's data to the file, and does not keep the data in memory.
small "a guest that sends 300 MB takes little memory" 100 \
	"$pv_perf" record -e cpu-clock -F 200 -o large --seconds 1 --limit 300 \
	--vm ssh:large
is "record receives all 300 MB" "$(stat -c %s large/large.samples.gz)" $((300 << 20))
rm -r large
rm -f fakes/*
record fall --patience $patience --vm ssh:one --vm ssh:dead --vm ssh:hung -- \
	sh -c "sleep 2; touch $work/fakes/dead.dies $work/fakes/hung.hangs"
is "a session with guests that die and hang ends well" $? 0
more "beside guests that die and hang, another guest has samples" "$(samples fall one)" 300
is "the session says that a guest is dead" \
	"$(field fall "'No route' in d['dead']['status']")" True
is "the session says that a guest hangs" \
	"$(field fall "'no answer' in d['hung']['status']")" True
is "the session has no samples of guests that die or hang" \
	"$(field fall "d['dead']['samples'], d['hung']['samples']")" "None None"
rm -f fakes/*

# Ctrl-C in a terminal: all processes of the group get the signal.
record_and() {
	local when=$1 signal=$2
	rm -rf cut cut.out
	setsid "$pv_perf" record -e cpu-clock -F 200 -o cut --vm ssh:one --patience 15 \
		-- sleep 100 >cut.out 2>&1 &
	until_true grep -q "$when" cut.out
	sleep 2
	kill "-$signal" -- -$!
	wait $!
}
record_and 'records cpu-clock' INT
is "Ctrl-C: record ends well" $? 0
is "Ctrl-C: the session says that it was interrupted" "$(field cut "s['interrupted']")" True
more "Ctrl-C: the session has samples of the guest" "$(samples cut one)" 200
more "Ctrl-C: the session has samples of the host" "$(samples cut host)" 200
until_true nothing_left
none "Ctrl-C: no file and no process is left" "$(left)"
record_and 'records cpu-clock' TERM
is "SIGTERM: record ends well" $? 0
more "SIGTERM: the session has samples" "$(samples cut one)" 200
none "SIGTERM: no file is left in /tmp" "$(ls tmp)"
touch fakes/one.hangs
rm -rf cut fakes/log
"$pv_perf" record -e cpu-clock -o cut --vm ssh:one >cut.out 2>&1 &
until_true grep -q '^one start' fakes/log
kill -INT $!
wait $!
is "Ctrl-C before the recording begins: record fails" $? 1
has "Ctrl-C before the recording begins: record says that nothing was recorded" \
	'nothing was recorded' cut.out
ok "Ctrl-C before the recording begins: no folder is left" test ! -e cut
rm fakes/one.hangs

# Ctrl-C twice: the second ends the wait for guests, and the host's samples are kept.
rm -rf twice
"$pv_perf" record -e cpu-clock -F 200 -o twice --vm ssh:slow --patience 15 >twice.out 2>&1 &
until_true grep -q 'records cpu-clock' twice.out
sleep 2
kill -INT $!
until_true grep -q 'takes the samples' twice.out
sleep 1
kill -INT $!
wait $!
is "Ctrl-C twice, with a guest that hangs: record ends well" $? 0
more "Ctrl-C twice: the session has samples of the host" "$(samples twice host)" 200
is "Ctrl-C twice: the guest that hangs has no samples and the status interrupted" \
	"$(field twice "d['slow']['samples'], d['slow']['status']")" "None interrupted"
cat >bin/perf <<-END
	#!/bin/sh
	touch $work/started
	exec sleep 5
END
chmod +x bin/perf
# A shell's background process ignores SIGINT.  Python restores the default for pv-perf.
/usr/bin/python3 -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
os.execv(sys.argv[1], sys.argv[1:])' "$pv_perf" record --passive pid:$$ -o cut >cut.out 2>&1 &
until_true test -e started
kill -INT $!
wait $!
is "Ctrl-C before record starts anything: the status is 130" $? 130
is "Ctrl-C before record starts anything: record only says that it was interrupted" \
	"$(cat cut.out)" "pv-perf: interrupted"
rm bin/perf

# perf ends early if a disk is small.  The guest's disk seems to have 20 MB, and perf may use a
# tenth of them.
cat >bin/df <<-'END'
	#!/bin/sh
	echo "Filesystem 1024-blocks Used Available Capacity Mounted on"
	echo "none 100000 80000 20480 80% /"
END
chmod +x bin/df
record early --vm ssh:small -F 5000 -g -- sh -c "for n in \$(seq 40); do
	! grep -q 'small: its perf has ended early' early.out || exit 0; sleep 1; done; exit 9"
is "a session with a guest whose disk is small ends well" $? 0
is "pv-perf says that a guest's perf has ended while others continue" \
	"$(grep -c 'ended with status' early.out)" 0
is "the session says that a guest's perf has ended" \
	"$(field early "'size limit' in d['small']['status']")" True
"$pv_perf" report early >out
has "report marks the numbers of a guest whose perf has ended early" \
	'^ +~[0-9,]+ .* guest small' out
is "report does not mark the host's numbers if a guest's perf has ended early" \
	"$(grep -cE '^ +~.* host (user|kernel)' out)" 0
rm bin/df
record hostearly --vm ssh:one -- sh -c '
	sleep 2; kill -INT $(cut -d" " -f1 hostearly/.host/record.pid); exec sleep 60'
is "a session ends well if the host's perf ends early" $? 0
has "the end of the host's perf ends the session" 'host: its perf has ended early' hostearly.out
ok "the end of the host's perf ends the session at once" \
	test "$(field hostearly "int(s['seconds'])")" -lt 8
is "the session says that the host's perf has ended early" \
	"$(field hostearly "'ended early' in d['host']['status']")" True

# The CPU time that recording takes from guests.
record nice --vm ssh:one -- sh -c 'ps -eo ni,args | grep "[p]erf record -a" >nices'
is "perf has the lowest priority in guests, and the default priority on the host" \
	"$(awk '{ print $1 }' nices | sort -nu | paste -sd' ')" "0 19"

# A killed pv-perf cannot clean up.  Guests clean up after twice its patience.
record_and 'records cpu-clock' KILL
more "SIGKILL: perf continues at first" "$(left | wc -l)" 1
for _ in $(seq 20); do
	nothing_left && break
	sleep 5
done
none "SIGKILL: guests end perf and remove its files in time" "$(left)"
more "SIGKILL: files for ssh stay in /tmp" "$(find tmp -name 'pv-perf*' | wc -l)" 0
record_and 'records cpu-clock' INT
none "SIGKILL: the next session removes the files in /tmp" "$(ls tmp)"

# The real ssh.
mkdir -p ssh /run/sshd ~/.ssh
ssh-keygen -q -N '' -t ed25519 -f ssh/host_key
ssh-keygen -q -N '' -t ed25519 -f ssh/id_ed25519
cat >ssh/sshd_config <<-END
	ListenAddress 127.0.0.1:20022
	HostKey $work/ssh/host_key
	AuthorizedKeysFile $work/ssh/id_ed25519.pub
	PidFile $work/ssh/pid
	StrictModes no
	UsePAM no
END
echo "[127.0.0.1]:20022 $(cat ssh/host_key.pub)" >ssh/known_hosts
/usr/sbin/sshd -f "$work/ssh/sshd_config"
rm bin/ssh
unshare -m sh -c "mount --bind ssh ~/.ssh
	$pv_perf record -e cpu-clock -F 200 -o real --seconds 3 \
		--vm ssh://root@127.0.0.1:20022 --vm ssh://root@127.0.0.1:1" \
	>real.out 2>&1
is "a session by the real ssh ends well" $? 0
more "a session by the real ssh has samples" "$(samples real 127_0_0_1_20022)" 500
has "pv-perf says that there is no ssh server" '127.0.0.1:1: .*Connection refused' real.out
kill "$(cat ssh/pid)"
sleep 1
none "no connection of ssh is left" "$(pgrep -f "ControlPath=$TMPDIR/pv-per[f]")"
none "no file of ssh is left in /tmp" "$(ls tmp)"

# Arguments and users that pv-perf refuses.
refused() {
	local name=$1 what=$2
	shift 2
	"$@" >out 2>&1
	is "record refuses $name" $? 1
	has "record says why it refuses $name" "$what" out
}
refused "a user who is not root" "run this as root" setpriv --reuid=65534 --clear-groups \
	"$pv_perf" record -o user -- true
refused "a folder that exists" "another name" "$pv_perf" record -o good -- true
refused "a name of an event with a blank" "list of events" "$pv_perf" record -e "a b" -- true
refused "an unknown event" "perf" \
	"$pv_perf" record -e nonsense -o nonsense -- true
if perf stat -x, -e cycles -- true 2>&1 | grep -q '<not supported>'; then
	# perf record would replace cycles by cpu-clock.
	rm -r nonsense
	refused "cycles on a host without cycles" "no cycles:HG .*pv-perf-doctor" \
		"$pv_perf" record -e cycles -o nonsense -- true
else
	ok "record refuses cycles on a host without cycles # SKIP this host has cycles" true
fi
refused "a command that does not exist" "no command" "$pv_perf" record -- /nonsense
refused "a process that does not exist" "no such process" \
	"$pv_perf" record --passive pid:999999999 -- true
for event in cpu-clock page-faults sched:sched_switch mem:0x1000:w; do
	refused "a passive guest, by $event" "Remedy: -e cycles" \
		"$pv_perf" record -e $event --passive pid:$$ -- true
	ok "record writes no folder for a passive guest by $event" sh -c '! ls -d pv-perf-*'
done
refused "symbols without their guest" "no --passive old" \
	"$pv_perf" record --symbols old=/dev/null -- true
refused "a file of symbols that is no regular file" "no such file" \
	"$pv_perf" record --passive pid:$$ --symbols "pid:$$=/dev/null" -- true
refused "a guest's name that is an option of ssh" \
	"does not name a host" "$pv_perf" record --vm ssh:-oX -- true
refused "a URI without a libvirt" "virsh -c" \
	"$pv_perf" record --vm a --connect qemu+unix:///system?socket=/nonsense -- true

# Clocks.
export PYTHONPATH=$tree/tools:$tree/selftests
ends_well clock python3 -B "$tree/selftests/programs/clock_test.py"
ends_well agent python3 -B "$tree/selftests/programs/agent_test.py" 300
until_true nothing_left
none "no file and no process is left at the end" "$(left)"
finish
