#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# pv-perf timeline --vm: counts of host and guests, each CPU at its own times, become intervals
# on the host's clock, which a browser shows. The test guests.sh counts real guests.
# vm: none
# tier: all
# packages: linux-perf python3-matplotlib chromium
# seconds: 50
self=$(realpath "$0")
tree=${self%/selftests/*}
. "$tree/selftests/tap.sh"
. "$tree/selftests/report/functions"
one_session "$@"
begin timeline-vms

# A session of 3 s with the timer at 100 ms. The host has two CPUs with 1,000 instructions per
# ms each, in the last second 3,000. The guest's clock is 4,000.25 s behind the host's. Its two
# vCPUs have 500 instructions per ms, and count them for half of the time. Its exits are 20 in
# every second interval.
mkdir session
cat >make.py <<'END'
import gzip, json, sys
START, AHEAD = 5000.0, -4000.25
def timer(pid, cpu, time, ns, event):
    return f"{pid}/{pid} [{cpu:03}] K {time:.9f}: {ns} timer-{event}: \"x\"\n"
def machine(name, cpus, ahead, events):
    samples = []
    for cpu in range(cpus):
        for n, (event, rate, ran) in enumerate(events):
            # Each CPU and event has times of its own.
            time = START - 0.5 + cpu * 0.03 + n * 0.01
            while time < START + 3.2:
                time += 0.1
                count = rate(time)
                samples.append((time, timer(1, cpu, time + ahead, round(1e8 * ran), event.strip("/").replace("/", "-").rpartition("-")[2]) +
                    (f"1/1 [{cpu:03}] K {time + ahead:.9f}: {count} {event}: \"x\"\n" if count else "")))
    with gzip.open(f"session/{name}.samples.gz", "wt") as f:
        f.writelines(text for _, text in sorted(samples))
machine("host", 2, 0, [("instructions:H", lambda t: 300000 if t > START + 2.1 else 100000, 1)])
machine("web", 2, AHEAD, [("instructions", lambda t: 25000, 0.5),
                          ("kvm/exits/", lambda t: 20 if round(t * 10) % 2 else 0, 1)])
def domain(name, kind, **more):
    return {"name": name, "kind": kind, "status": "ok", "samples": f"{name}.samples.gz",
            "vcpus": [], **more}
json.dump({"version": 2, "event": "instructions", "seconds": 3, "window": [START, START + 3],
           "more": [{"event": "kvm/exits/", "guests": True}], "host": {"cpus": 2},
           "domains": [domain("host", "host"), domain("web", "guest", pid=7, clock=[
               [START + AHEAD, START, 1e-6], [START + 3 + AHEAD, START + 3, 1e-6]])]},
          open("session/session.json", "w"))
END
/usr/bin/python3 make.py

# draw STEP: make the page of the session, as pv-perf timeline does
draw() {
	PYTHONPATH=$tree/tools /usr/bin/python3 -B -c '
import sys
from pvperf.timeline import draw, machines
runs, notes = machines.read("session", float(sys.argv[1]))
draw.write_page("session", runs, "page.html", notes)
for note in notes:
    print(note, file=sys.stderr)
for run in runs:
    for s in run.series:
        print(run.name, s.name, s.total(), s.scaled(), s.missing(), len(s.intervals),
              s.intervals[0].count, s.intervals[-1].count)' "$1"
}
draw 0.1 >out
# of RUN EVENT FIELD
of() {
	awk -v r="$1" -v e="$2" -v f="$3" '$1 == r && $2 == e { printf "%.0f", $f }' out
}
is "the page has every interval of the session" \
	"$(of host instructions 6) $(of web instructions 6) $(of web kvm/exits/ 6)" "30 30 30"
is "an interval has the counts of all of the host's CPUs" \
	"$(of host instructions 7) $(of host instructions 8)" "200000 600000"
within "all intervals together have the host's counts" "$(of host instructions 3)" 10000000 2
is "a count in half of the time is doubled" "$(of web instructions 7)" 100000
is "intervals of an event that shares its counter are estimates" \
	"$(of web instructions 4) $(of host instructions 4)" "30 0"
within "a count of 0, which perf leaves out, is an interval of its own" \
	"$(of web kvm/exits/ 3)" 600 7
none "the host has no line of an event of guests only" "$(grep '^host kvm' out)"
is "no interval is missing" "$(awk '{ n += $5 } END { print n }' out)" 0

# A gap: one CPU of the host has no samples for a second.
cp session/host.samples.gz all.gz
zcat all.gz | awk '$2 == "[001]" && $4 > 5000.9 && $4 < 5002 { next } { print }' |
	sed '/\[001\] K 5002.0/d' | gzip >session/host.samples.gz
draw 0.1 >out
is "a long interval of one CPU is divided between the intervals of the page" \
	"$(of host instructions 5)" 0
zcat all.gz | awk '!($2 == "[001]" && $4 > 5001.5)' | gzip >session/host.samples.gz
draw 0.1 >out
within "the page ends when a CPU has ended" "$(of host instructions 6)" 14 8
cp all.gz session/host.samples.gz

draw 0.1 >out
browse page.html >page.dom
is "the browser shows a chart for each event" \
	"$(grep -o '<text[^>]*>[^<]*per second[^<]*' page.dom | sed 's/.*>//' | paste -sd';')" \
	"instructions, per second (hollow: estimated);kvm/exits/, per second"
is "the browser shows host and guest in one chart" \
	"$(grep -oE '<text[^>]*>(host|web)</text>' page.dom | sed 's/<[^>]*>//g' | paste -sd' ')" \
	"host web"
has "the browser shows the counts of each machine" \
	'<th>kvm/exits/</th><td>6[0-9][0-9]|<th>kvm/exits/</th><td>5[0-9][0-9]' page.dom
is "the page loads nothing from elsewhere" "$(grep -Ec '(src|href)="?(https?:|//)' page.html)" 0
is "the browser logs no error of the page" "$(grep -c CONSOLE browser.log)" 0

# A hostile guest: times and numbers that nobody has counted.
zcat session/web.samples.gz >web
{
	cat web
	for n in $(seq 0 3000); do
		printf '1/1 [%d] K 1001.0: 99999999999999999999 timer-exits: "x"\n' "$n"
		printf '1/1 [%d] K 1001.0: 99999999999999999999 kvm/exits/: "x"\n' "$n"
		printf '1/1 [0] K %d.0: 5 timer-exits: "x"\n' $((999999999999 - n))
	done
	echo "no line of pv-perf record"
} | gzip >session/web.samples.gz
draw 0.1 >hostile 2>err
is "the host's counts are the same beside a hostile guest" \
	"$(grep '^host' hostile)" "$(grep '^host' out)"
is "the counts of a hostile guest are marked" "$(grep -c '^~web' hostile)" 2
has "the page says what is wrong with a guest" \
	'web: lines that are not of pv-perf record: [0-9,]+' page.html
printf '%s\n' 's["domains"][1]["lost"] = 7' 's["domains"][1]["counted"] = 5' \
	's["domains"][1]["clock"] = []' >faults
while read -r fault; do
	cp session/session.json kept.json
	edit session "$fault"
	draw 0.1 >out 2>>err
	cp kept.json session/session.json
done <faults
has "timeline says that perf has lost samples" '^web: perf has lost 7 samples' err
has "timeline says that a guest claims more than the host has counted" \
	'^web: it says [0-9,]* instructions, and the host counted 5$' err
has "timeline says that it leaves a guest out" \
	'^web: it is left out, because its clock is not known' err
draw 0.1 >out
PYTHONPATH=$tree/tools /usr/bin/python3 -B -c '
from pvperf.timeline import machines
machines.read("session", 1e-6)' >err 2>&1
has "a page has a limit of intervals" 'a page has at most 200,000' err

# This host, and a guest that cannot be counted.
if ! perf record -q -a -e '{cpu-clock,page-faults}:S' -c 100000000 -o data true 2>/dev/null; then
	ok "this machine # SKIP perf samples nothing on this machine" true
	finish
fi
mkdir bin
printf '#!/bin/sh\nexit 255\n' >bin/ssh
chmod +x bin/ssh
export PATH=$PWD/bin:$PATH
faults() {
	/usr/bin/python3 -c '
import mmap, time
for i in range(20):
    with mmap.mmap(-1, 20480 * 4096) as m:
        for page in range(20480):
            m[page * 4096] = 1
    time.sleep(0.05)'
}
export -f faults
"$pv_perf" timeline --vm ssh:nobody -I 50 -e page-faults,cpu-clock -o this.html --png this.png \
	-- bash -c 'sleep 0.3; perf stat -a -x, -o stat -e page-faults -- bash -c faults; sleep 0.3' \
	>out 2>err
is "timeline counts this host beside a guest that does not answer" $? 0
has "timeline says that the guest does not answer" 'nobody: ' err
browse this.html >this.dom
# whole EVENT: the sum of all intervals
whole() {
	sed -n '/class="counts"/,$p' this.dom |
		sed -n "s,.*<th>$1</th><td>\([0-9\,]*\)</td>.*,\1,p" | head -n 1 | tr -d ,
}
more "the page has the faults that perf has counted at the same time" \
	"$(whole page-faults)" "$(count page-faults stat)"
within "the page has the time of all CPUs" "$(whole cpu-clock)" \
	"$(awk -v n="$(sed -n 's/.* \([0-9]*\) intervals/\1/p' out)" -v cpus="$(nproc)" \
		'BEGIN { printf "%.0f", n * 50000000 * cpus }')" 5
none "timeline leaves no session" "$(ls -d /tmp/pv-perf-timeline.* 2>/dev/null)"
"$pv_perf" timeline --vm ssh:nobody file >out 2>&1
has "timeline with --vm takes no file" 'reads no FILE' out
"$pv_perf" timeline >out 2>&1
has "timeline says what it can draw" 'Remedy: -- COMMAND, --vm NAME, or FILE' out
finish
