#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# pv-perf service: windows under a policy and within a budget, the audit log, profiles for
# pprof, and what a server that speaks Pyroscope's ingest protocol gets. Domains are those
# of libvirt's own driver for tests, whose VMM is a process of this test; cycles are the
# time that passes on the host.
# vm: none
# tier: all
# packages: linux-perf python3-libvirt golang-go
# seconds: 90
self=$(realpath "$0")
tree=${self%/selftests/*}
. "$tree/selftests/tap.sh"
. "$tree/selftests/report/functions"
one_session "$@"
begin fleet
trap 'kill $receiver $vmm 2>/dev/null' EXIT

sleep 10000 &
vmm=$!
mkdir bin receiver
fake_cycles
export PATH=$PWD/bin:$PATH
# As tools/pv-perf, with that process for each domain's VMM, and less patience.
cat >pv-perf <<-END
	import sys
	sys.path.insert(0, "$tree/tools")
	from pvperf.record import vmm
	from pvperf.service import push
	vmm.of_uuid = lambda uuid: $vmm
	push.WHOLE_S = 3
	__file__ = "$tree/tools/pv-perf"
	exec(compile(open(__file__).read(), __file__, "exec"))
END
cat >node.xml <<-'END'
	<node>
	<domain type='test'><name>web1</name><uuid>11111111-6695-4bfa-a9d4-0d1f5e2c7b01</uuid>
	<memory>8192</memory><os><type>hvm</type></os></domain>
	<domain type='test'><name>secret</name><uuid>22222222-6695-4bfa-a9d4-0d1f5e2c7b02</uuid>
	<memory>8192</memory><os><type>hvm</type></os></domain>
	</node>
END
echo token-of-the-test >token

# configure [MB [ONLY [URL]]]
configure() {
	rm -f service.conf
	cat >service.conf <<-END
		[record]
		connect = test://$PWD/node.xml
		hz = 99
		seconds = 1
		every = ${every:-1}
		[budget]
		cpu = ${cpu:-100}
		mb = ${1:-100}
		[vms]
		only = ${2:-*}
		except = secret*
		[push]
		url = ${3:-}
		name = pv-perf.test
		tenant = team-a
		token_file = $PWD/token
		[files]
		profiles = $PWD/profiles
		audit = $PWD/log/audit.log
		state = $PWD/state/service.json
	END
}
service() {
	timeout 300 /usr/bin/python3 -B pv-perf service --config service.conf "$@" >service.out 2>&1
}
# audit PYTHON: of its lines, as a list of objects
audit() {
	/usr/bin/python3 -c "
import json
a = [json.loads(line) for line in open('log/audit.log')]
by = lambda action: [x for x in a if x['action'] == action]
print($1)"
}
state() {
	/usr/bin/python3 -c "import json; print(json.load(open('state/service.json'))['$1'])"
}

(cd receiver && exec /usr/bin/python3 -B "$tree/selftests/programs/pyroscope_receiver.py") &
receiver=$!
until_true test -e receiver/port
url=http://127.0.0.1:$(cat receiver/port)
configure 100 '*' "$url"
service --windows 2
is "two windows: status" $? 0
profiles=(profiles/*.pb.gz)
is "a profile of each" "${#profiles[@]}" 2
go tool pprof -tags "${profiles[0]}" >tags 2>&1
has "pprof reads it" 'domain: ' tags
is "they are root's alone" "$(stat -c %a profiles log/audit.log)" "700
600"
is "the server has taken them" "$(cat receiver/refused 2>/dev/null; ls receiver/*.pb.gz | wc -l)" 2
ok "as they are" cmp "${profiles[0]}" receiver/0.pb.gz
is "with name, label, tenant and token" "$(/usr/bin/python3 -c "
import json; m = json.load(open('receiver/0.json'))
print(m['name'], m['format'], m['sampleRate'], m['tenant'], m['authorization'])")" \
	"pv-perf.test{host=$(uname -n)} pprof 99 team-a Bearer token-of-the-test"
is "the audit log has each step" "$(audit "' '.join(x['action'] for x in a)")" \
	"start record recorded sent record recorded sent end"
is "whom the policy takes, before anything is recorded" \
	"$(audit "[d['name'] for d in by('record')[0]['domains']], by('record')[0]['left_out']")" \
	"['web1'] ['secret']"
is "and who was recorded, and how" "$(audit \
	"[(d['name'], d['uuid'], d['kind']) for d in by('recorded')[0]['domains']][1:]")" \
	"[('web1', '11111111-6695-4bfa-a9d4-0d1f5e2c7b01', 'passive')]"
is "nothing of a window is left" "$(find profiles ! -name '*.pb.gz')" "profiles
profiles/unsent"

# A server that does not take them.
echo 503 >receiver/answer
service --windows 1
is "a server that is ill: the service goes on" $? 0
is "the profile waits" "$(ls profiles/unsent | wc -l) $(state unsent)" "1 1"
has "and that is said" 'has not taken .*status 503' service.out
echo "302 $url/elsewhere" >receiver/answer
service --windows 1
none "no other server gets what a server sends on" "$(cat receiver/refused 2>/dev/null)"
for answer in nonsense drops; do
	echo $answer >receiver/answer
	service --windows 1
	is "a server that answers with $answer: the service goes on" "$? $(state refused)" "0 1"
done
has "a server that never ends is given up" 'has not taken .*no end within 3 s' service.out
rm receiver/answer
printf 'sesame\nsecond\n' >token
service --windows 1
has "a token that cannot be one is not sent" 'token has no token' service.out
is "and is not in what is said of it" "$(grep -c sesame service.out log/audit.log)" \
	"service.out:0
log/audit.log:0"
echo token-of-the-test >token
service --windows 1
is "a server that is well again has all" "$(ls receiver/*.pb.gz | wc -l) $(state unsent)" "8 0"

# Parts of the service that no whole run reaches.
configure
# part PYTHON: with the service s
part() {
	/usr/bin/python3 -B -c "
import resource, subprocess, sys
sys.path.insert(0, '$tree/tools')
from pvperf.service import command, config, store
s = command.Service(config.read('service.conf'), '')
$1" 2>&1
}
# Those that start after the audit log has been written: their names match the policy.
is "only VMs that are in the audit log are recorded" "$(part "
s.pv_perf = lambda *words: print(*[w for w in words if w.startswith(('--only', '--except'))]) or (0, '')
s.record(['web1', 'db[*]'])")" "--only=web1 --only=db[[][*]]"
is "a report that is killed leaves nothing among the profiles" "$(
	mkdir -p profiles/window
	echo '{"began": "2026-01-01T00:00:00+00:00"}' >profiles/window/session.json
	part "
s.pv_perf = lambda *words: print(words[2]) or (1, '')
try:
    s.publish()
except command.Error:
    pass")" "$PWD/profiles/window/20260101T000000Z.pb.gz"
rm -r profiles/window
is "a line of the audit log that has no room is an error, and no part of it stays" "$(part "
resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))
audit = store.Audit('$PWD/full/audit.log')
for action in 'start', 'x' * 200:
    try:
        audit.add(action)
    except command.Error as error:
        print('error')")$(wc -l <full/audit.log) $(tail -c 2 full/audit.log)" "error1 }"
cat >sleeps.py <<-END
	import time
	time.sleep(30)
END
is "SIGTERM while a window is started ends the window" "$(part "
class Popen(subprocess.Popen):
    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        s.end()
subprocess.Popen, sys.argv[0] = Popen, 'sleeps.py'
print(s.pv_perf()[0])")" -15

# The budget of MB: half of it is profiles'.
configure 10 '*' "$url"
truncate -s 4M profiles/20200101T000000Z.pb.gz
truncate -s 4M profiles/20200102T000000Z.pb.gz
service --windows 1
is "the oldest profile goes" "$(ls profiles/2020*)" profiles/20200102T000000Z.pb.gz
is "and the audit log has that" "$(audit "by('removed')[0]['profile']")" 20200101T000000Z.pb.gz

# The budget of CPU time: what a window costs is measured, and the next one waits.
cost=$(state cpu_seconds)
more "what it costs is known, in ms" "$(awk -v c="$cost" 'BEGIN { print int(1000 * c) }')" 50
cpu=10 configure
service --windows 2
cost=$(state cpu_seconds)
ok "two windows take the CPU for 10 % of the time between their begins" \
	awk -v c="$cost" -v gap="$(audit "(lambda t: (t[-1] - t[-2]).total_seconds())([
		__import__('datetime').datetime.fromisoformat(x['time']) for x in by('record')])")" \
	'BEGIN { print "# " c " s of CPU time, " gap " s apart"; exit !(gap > 0.35 * c * 10) }'

# A window that fails.
last=$(state last)
configure
sed -i 's,^connect.*,connect = test:///nonsense.xml,' service.conf
service --windows 1
is "a window that fails does not end the service" "$? $(state failed)" "0 1"
has "and it is said why" 'nonsense' service.out
# The time of the last one that went well is the service's begin then, in ms in the audit log.
is "it is none that went well" "$(audit "$last < $(state last) <
	__import__('datetime').datetime.fromisoformat(by('start')[-1]['time']).timestamp() + 0.001")" \
	True
is "the audit log has that" "$(audit "'nonsense' in by('failed')[-1]['why']")" True

# The policy.
rm -rf log
configure 100 'db*'
service --windows 1
is "no VM that the policy names runs: nothing is recorded" \
	"$(audit "[x['action'] for x in a]")" "['start', 'record', 'end']"
configure
sed -i 's/^only.*/only =/' service.conf
service --windows 1
is "a policy that names nobody is refused" $? 1
has "it says what to do" 'only = PATTERN' service.out
configure
chmod 666 service.conf
service --windows 1
has "a configuration that others may write is refused" 'others than root may write it' service.out
configure
for line in 'hz = 999' 'hz = 5' 'everey = 3' 'seconds = x' 'profiles ='; do
	sed "s/^${line%% *} =.*/$line/; t; s/^\[record.*/&\n$line/" service.conf >wrong.conf
	"$pv_perf" service --check --config wrong.conf >out 2>&1
	is "refused: $line" $? 1
done
rm -rf log profiles
ln -s nowhere log
service --windows 1
is "without an audit log nothing is recorded" "$? $(ls profiles/*.gz 2>/dev/null)" "1 "
has "and that is said" 'nothing is recorded without an audit log' service.out
rm log

# It ends when systemd says so, in the middle of a window.
configure
sed -i 's/^seconds.*/seconds = 60/' service.conf
DEBUGINFOD_URLS=http://127.0.0.1:1 /usr/bin/python3 -B pv-perf service \
	--config service.conf >service.out 2>&1 &
service=$!
until_true test -e profiles/window/.host/recording
cat "/proc/$(pgrep -P $service | head -n 1)/environ" >environment
kill $service
wait $service
is "SIGTERM: ends well" $? 0
is "and asks no debuginfod, as the audit log has all that is sent" \
	"$(tr '\0' '\n' <environment | grep -o '^PATH=\|^DEBUGINFOD_URLS=')" PATH=
is "the audit log has its end" "$(audit "[x['action'] for x in a][-1]")" end
is "nothing is left" "$(pgrep -f "$PWD/profiles/[w]indow"; ls -A profiles)" unsent
finish
