#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# pv-perf service: windows under a policy and within a budget, the audit log, profiles for
# pprof, and the profiles that a server with Pyroscope's ingest protocol receives. The domains
# are libvirt's test driver's. A process of this test is their VMM. Time that passes on the
# host stands in for cycles.
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
# Like tools/pv-perf, but with the process above as each domain's VMM, and less patience.
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
# audit PYTHON: print an expression of a, the audit log's lines as a list of objects, and of
# by(action), the lines with this action
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
is "the service ends well after two windows" $? 0
profiles=(profiles/*.pb.gz)
is "each window has a profile" "${#profiles[@]}" 2
go tool pprof -tags "${profiles[0]}" >tags 2>&1
has "pprof reads a profile" 'domain: ' tags
is "only root may read the profiles and the audit log" \
	"$(stat -c %a profiles log/audit.log)" "700
600"
is "the server has received both profiles" \
	"$(cat receiver/refused 2>/dev/null; ls receiver/*.pb.gz | wc -l)" 2
ok "the server has received the profile unchanged" cmp "${profiles[0]}" receiver/0.pb.gz
is "the profile is sent with name, label, tenant and token" "$(/usr/bin/python3 -c "
import json; m = json.load(open('receiver/0.json'))
print(m['name'], m['format'], m['sampleRate'], m['tenant'], m['authorization'])")" \
	"pv-perf.test{host=$(uname -n)} pprof 99 team-a Bearer token-of-the-test"
is "the audit log has each step" "$(audit "' '.join(x['action'] for x in a)")" \
	"start record recorded sent record recorded sent end"
is "the audit log has the VMs that the policy selects and leaves out, before the recording" \
	"$(audit "[d['name'] for d in by('record')[0]['domains']], by('record')[0]['left_out']")" \
	"['web1'] ['secret']"
is "the audit log has the recorded VMs, and how they were recorded" "$(audit \
	"[(d['name'], d['uuid'], d['kind']) for d in by('recorded')[0]['domains']][1:]")" \
	"[('web1', '11111111-6695-4bfa-a9d4-0d1f5e2c7b01', 'passive')]"
is "no file of a window is left" "$(find profiles ! -name '*.pb.gz')" "profiles
profiles/unsent"

# A server that does not accept profiles.
echo 503 >receiver/answer
service --windows 1
is "the service goes on if the server answers with an error" $? 0
is "a profile that the server refuses waits" \
	"$(ls profiles/unsent | wc -l) $(state unsent)" "1 1"
has "the service says that the server has not taken the profile" \
	'has not taken .*status 503' service.out
has "no message has the token, which the server has repeated" \
	'status 503: not from you, Bearer \*\*\*' service.out
none "nor has the audit log" "$(grep token-of-the-test log/audit.log)"
echo "302 $url/elsewhere" >receiver/answer
service --windows 1
none "the service does not follow a redirection to another URL" \
	"$(cat receiver/refused 2>/dev/null)"
for answer in nonsense drops; do
	echo $answer >receiver/answer
	service --windows 1
	is "the service goes on if the server's answer is '$answer'" \
		"$? $(state refused)" "0 1"
done
has "the service gives up on a server whose answer does not end" \
	'has not taken .*no end within 3 s' service.out
rm receiver/answer
printf 'sesame\nsecond\n' >token
service --windows 1
has "the service refuses a malformed token" 'token has no token' service.out
is "the messages about a malformed token do not contain the token" \
	"$(grep -c sesame service.out log/audit.log)" \
	"service.out:0
log/audit.log:0"
echo token-of-the-test >token
service --windows 1
is "when the server works again, it receives all waiting profiles" \
	"$(ls receiver/*.pb.gz | wc -l) $(state unsent)" "8 0"

# Parts of the service that no whole run reaches.
configure
# part PYTHON: run code with the service as s
part() {
	/usr/bin/python3 -B -c "
import resource, subprocess, sys
sys.path.insert(0, '$tree/tools')
from pvperf.service import command, config, store
s = command.Service(config.read('service.conf'), '')
$1" 2>&1
}
# VMs may start after the service has written the audit log: their names match the policy.
is "only VMs that are in the audit log are recorded" "$(part "
s.pv_perf = lambda *words: print(*[w for w in words if w.startswith(('--only', '--except'))]) or (0, '')
s.record(['web1', 'db[*]'])")" "--only=web1 --only=db[[][*]]"
is "a report that is killed leaves no file among the profiles" "$(
	mkdir -p profiles/.window
	echo '{"began": "2026-01-01T00:00:00+00:00"}' >profiles/.window/session.json
	part "
s.pv_perf = lambda *words: print(words[2]) or (1, '')
try:
    s.publish()
except command.Error:
    pass")" "$PWD/profiles/.window/20260101T000000Z.pb.gz"
rm -r profiles/.window
is "if a line of the audit log does not fit, the service fails and removes the partial line" \
	"$(part "
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
is "SIGTERM at the start of a window ends the window" "$(part "
class Popen(subprocess.Popen):
    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        s.end()
subprocess.Popen, sys.argv[0] = Popen, 'sleeps.py'
print(s.pv_perf()[0])")" -15

is "a full disk, or a damaged list of unsent profiles, does not end the service" "$(
	touch profiles/unsent/20200101T000000Z.pb.gz.json
	part "
def full(*args):
    raise OSError(28, 'No space left on device')
s.window, store.write_json = lambda: None, full
s.once()
print(s.profiles.to_send())")" "pv-perf: $PWD/state/service.json: No space left on device
[]"
mkdir -m 1777 shared
is "the service takes no folder of others" "$(part "
try:
    store.Profiles('$PWD/shared', 1)
except command.Error as error:
    print(str(error).splitlines()[0])") $(stat -c %a shared)" \
	"$PWD/shared is not a folder of root's alone 1777"
for address in http://:s3cret@srv/ ftp://u:s3cret@srv/ 'http://srv/?key=s3cret'; do
	configure 100 '*' "$address"
	service --check
	is "an address with a secret is refused, and no message has it" \
		"$? $(grep -c s3cret service.out) $(grep -c token_file service.out)" "1 0 1"
done

# The budget in MB: profiles may take half of it.
configure 10 '*' "$url"
truncate -s 4M profiles/20200101T000000Z.pb.gz
truncate -s 4M profiles/20200102T000000Z.pb.gz
service --windows 1
is "the service removes the oldest profile" \
	"$(ls profiles/2020*)" profiles/20200102T000000Z.pb.gz
is "the audit log has the removed profile" \
	"$(audit "by('removed')[0]['profile']")" 20200101T000000Z.pb.gz

# The budget of CPU time: the service measures a window's cost and delays the next window.
cost=$(state cpu_seconds)
more "the service knows a window's cost in ms" \
	"$(awk -v c="$cost" 'BEGIN { print int(1000 * c) }')" 50
cpu=10 configure
service --windows 2
cost=$(state cpu_seconds)
ok "with a budget of 10 % of a CPU, a window waits long enough for the one before" \
	awk -v c="$cost" -v gap="$(audit "(lambda t: (t[-1] - t[-2]).total_seconds())([
		__import__('datetime').datetime.fromisoformat(x['time']) for x in by('record')])")" \
	'BEGIN { print "# " c " s of CPU time, " gap " s apart"; exit !(gap > 0.35 * c * 10) }'

# A window that fails.
last=$(state last)
configure
sed -i 's,^connect.*,connect = test:///nonsense.xml,' service.conf
service --windows 1
is "the service goes on after a window fails" "$? $(state failed)" "0 1"
has "the service says why a window failed" 'nonsense' service.out
# After a failure, the time of the last good window is the service's begin, which the audit
# log has in ms.
is "a window that fails does not count as the last good window" \
	"$(audit "$last < $(state last) <
	__import__('datetime').datetime.fromisoformat(by('start')[-1]['time']).timestamp() + 0.001")" \
	True
is "the audit log has the reason of the failure" \
	"$(audit "'nonsense' in by('failed')[-1]['why']")" True

# The policy.
rm -rf log
configure 100 'db*'
service --windows 1
is "if no VM of the policy runs, the service records nothing" \
	"$(audit "[x['action'] for x in a]")" "['start', 'record', 'end']"
configure
sed -i 's/^only.*/only =/' service.conf
service --windows 1
is "the service refuses a policy without VMs" $? 1
has "the service says how to name VMs in the policy" 'only = PATTERN' service.out
configure
chmod 666 service.conf
service --windows 1
has "the service refuses a configuration that others may write" \
	'others than root may write it' service.out
configure
for line in 'hz = 999' 'hz = 5' 'everey = 3' 'seconds = x' 'seconds = 2' 'profiles ='; do
	sed "s/^${line%% *} =.*/$line/; t; s/^\[record.*/&\n$line/" service.conf >wrong.conf
	"$pv_perf" service --check --config wrong.conf >out 2>&1
	is "the service refuses the line '$line'" $? 1
done
rm -rf log profiles
ln -s nowhere log
service --windows 1
is "the service records nothing without an audit log" "$? $(ls profiles/*.gz 2>/dev/null)" "1 "
has "the service says that it records nothing without an audit log" \
	'nothing is recorded without an audit log' service.out
rm log

# systemd ends the service in the middle of a window.
configure
sed -i 's,^seconds.*,seconds = 60,; s,^every.*,every = 60,' service.conf
DEBUGINFOD_URLS=http://127.0.0.1:1 /usr/bin/python3 -B pv-perf service \
	--config service.conf >service.out 2>&1 &
service=$!
until_true test -e profiles/.window/.host/recording
cat "/proc/$(pgrep -P $service | head -n 1)/environ" >environment
kill $service
wait $service
is "the service ends well after SIGTERM" $? 0
is "the service does not ask debuginfod: the audit log has all that it sends" \
	"$(tr '\0' '\n' <environment | grep -o '^PATH=\|^DEBUGINFOD_URLS=')" PATH=
is "the audit log has the service's end" "$(audit "[x['action'] for x in a][-1]")" end
is "no process and no window of the service is left" \
	"$(pgrep -f "$PWD/profiles/[w]indow"; ls -A profiles)" unsent
finish
