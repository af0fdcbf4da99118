#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# pv-perf record with guests of libvirt: one session records the host and guests of two URIs
# by QEMU's guest agent, on one clock. perf's counts and the programs' known instructions
# confirm pv-perf report. Some guests cannot be recorded.
# vm: host --host-cpus 2 --host-mem 3072 --kvm-opt enable_pmu=0 --timeout 3600
# tier: all
# machines: amd
# needs: agent-initrd
# programs: calltree
# packages: qemu-system-x86 libvirt-daemon libvirt-clients python3-libvirt openssh-server netcat-openbsd
# seconds: 500
. "$VM_TREE/selftests/tap.sh"
tree=$VM_TREE
. "$tree/selftests/report/functions"
. "$tree/selftests/report/guests"
work=/dev/shm/work
other="qemu+unix:///system?socket=$work/other/libvirt-sock"
remote="qemu+ssh://root@127.0.0.1:20022/system?socket=$work/other/libvirt-sock&keyfile=$work/ssh/key&no_verify=1&no_tty=1"
# calltree repeats itself every 2,000,000 cycles.  If the period were that number or half
# of it, all samples would be in the same functions.
period=381967
mkdir -p $work/other
cd $work || exit 1

# A second libvirt, which does not know the first one's domains.
start_other() {
	(cat libvirtd.conf; echo "unix_sock_dir = \"$work/other\"") >other.conf
	unshare -m sh -c "
		mount -t tmpfs none /run/libvirt
		mount -t tmpfs none /var/lib/libvirt
		exec libvirtd -d -p $work/other.pid -f $work/other.conf"
	until_true virsh -c "$other" list >/dev/null 2>&1
}

# An ssh server.  By it the URI $remote reaches the second libvirt as if on another host.
start_ssh() {
	mkdir -p ssh /run/sshd
	ssh-keygen -q -N '' -t ed25519 -f ssh/host_key
	ssh-keygen -q -N '' -t ed25519 -f ssh/key
	cat >ssh/config <<-END
		ListenAddress 127.0.0.1:20022
		HostKey $work/ssh/host_key
		AuthorizedKeysFile $work/ssh/key.pub
		StrictModes no
		UsePAM no
	END
	ip link set lo up
	/usr/sbin/sshd -f "$work/ssh/config"
}

# field DIR PYTHON: print an expression of s, the session.json of DIR, and of d, the
# session's domains by name
field() {
	python3 -c "
import json, sys
s = json.load(open(sys.argv[1] + '/session.json'))
d = {x['name']: x for x in s['domains']}
print($2)" "$1"
}

# lines DIR NAME REGEX
lines() {
	zcat "$1/$2.samples.gz" | grep -cE -- "$3"
}

# said DIR NAME TEXT: the status of domain NAME has TEXT
said() {
	field "$1" "d['$2']['status']" >status
	has "$2: $3" "$3" status
}

# Start perf, which counts the cycles of each thread of the three VMMs in guest mode.
count_guests() {
	local name pids
	mkfifo count.control count.ack
	for name in web db old; do
		pids=$pids,$(pid_of $name)
	done
	perf stat -x, --per-thread -o counts -e cycles:G -D -1 \
		--control fifo:count.control,count.ack -p "${pids#,}" 2>count.log &
	count=$!
	until_true grep -qs 'Events disabled' count.log
}

pid_of() {
	pgrep -f "^[^ ]*qemu[^ ]* -name guest=$1,"
}

# counted_of NAME
counted_of() {
	local tids
	tids=$(field all "'|'.join(map(str, d['$1']['vcpus']))")
	awk -F, -v r="-($tids)\$" '$1 ~ r { n += $2 } END { printf "%.0f", n }' counts
}

left_in_web() {
	in_guest $system web 'find /var/tmp /tmp -name "pv-perf*"; pidof perf; echo nothing else'
}

# Both sides record one hypercall: kprobes in the guest record entry and return of the
# driver's function that makes the hypercall, and the host records the hypercall.
record_both() {
	in_guest $system web 'cd /tmp
		for probe in p:clock r:clocked; do
			echo $probe kvm_pmu:kvm_pmu_clock_measure \
				>>/sys/kernel/tracing/kprobe_events
		done
		perf record -a -q -B -N -e kprobes:clock -e kprobes:clocked \
			-o clock.data \
			>/dev/null 2>&1 </dev/null & echo $! >clock.pid'
	perf record -a -q -B -N -e kvm:kvm_hypercall -o both.data \
		--filter 'nr == 256 && a0 == 5 && a1 == 0xfffffffe' &
	both=$!
}

stop_both() {
	kill -INT $both
	wait $both
	perf script --ns -F pid,time,trace -i both.data 2>/dev/null >both.host
	in_guest $system web 'cd /tmp
		kill -INT $(cat clock.pid)
		while kill -0 $(cat clock.pid); do sleep 0.1; done
		perf script --ns -F cpu,time,event -i clock.data' >both.guest
}

# A recording by hand: perf on the host and in two guests, without pv-perf.
record_by_hand() {
	local record="record -a -q -B -N -c $period"
	in_guest $system web "perf $record -e cycles -o /tmp/hand.data \
		>/dev/null 2>&1 </dev/null & echo \$! >/tmp/hand.pid"
	in_guest "$other" db "perf $record -e cycles -o /tmp/hand.data \
		>/dev/null 2>&1 </dev/null & echo \$! >/tmp/hand.pid"
	# shellcheck disable=SC2086 # several words
	perf $record -e cycles:H -o hand.data &
	hand=$!
	until_true in_guest $system web 'test -s /tmp/hand.data'
	until_true in_guest "$other" db 'test -s /tmp/hand.data'
	until_true test -s hand.data
}

stop_by_hand() {
	kill -INT $hand
	wait $hand
	in_guest $system web 'kill -INT $(cat /tmp/hand.pid)'
	in_guest "$other" db 'kill -INT $(cat /tmp/hand.pid)'
}

# cost_of NAME: the instructions of host and guests together
cost_of() {
	awk -F, '$3 ~ /^instructions/ { print $1 }' "cost.$1"
}

# compare_both DIR: prints the number of calls of the function whose hypercall the host has
# recorded, and on how many vCPUs; in ns, how far a hypercall is outside of its function at
# most, and the functions' median duration.
compare_both() {
	python3 - "$1/session.json" <<-'END'
		import json, re, sys
		web = next(d for d in json.load(open(sys.argv[1]))["domains"]
		           if d["name"] == "web")
		points = web["clock"]
		def convert(t):
		    n = next((i for i, p in enumerate(points) if p[0] > t), len(points))
		    n = min(max(n, 1), len(points) - 1)
		    (a, x, _), (b, y, _) = points[n - 1], points[n]
		    return x + (t - a) * (y - x) / (b - a)
		host = {}
		for line in open("both.host"):
		    m = re.match(r"\s*(\d+)\s+([\d.]+):.* a2 0x([0-9a-f]+)", line)
		    if m and int(m[1]) == web["pid"]:
		        host[int(m[3], 16)] = float(m[2])
		outside, lengths, cpus, entered = [], [], set(), {}
		for line in open("both.guest"):
		    m = re.match(r"\s*\[(\d+)\]\s+(\d+)\.(\d{9}):\s+kprobes:(\w+)", line)
		    time = int(m[2]) * 10**9 + int(m[3])
		    if m[4] == "clock":
		        entered[m[1]] = time
		        continue
		    start = entered.pop(m[1], None)
		    # The driver reads the time a moment after the function's entry.
		    low = min(host, key=lambda n: (n - (start or 0)) & 0xffffffff)
		    if start is None or (low - start) & 0xffffffff > time - start:
		        continue
		    at = host[low]
		    outside.append(max(convert(start / 1e9) - at,
		                       at - convert(time / 1e9)))
		    lengths.append(time - start)
		    cpus.add(m[1])
		lengths.sort()
		print(len(outside), len(cpus), round(max(outside) * 1e9),
		      lengths[len(lengths) // 2])
	END
}

start_libvirt
start_other
start_ssh
is "two libvirts answer, one of them also by ssh" "$(for uri in $system "$other" "$remote"; do
	virsh -c "$uri" uri
done | sed '/^$/d')" "$system
$other
$remote"
start_guest $system web 2 &
start_guest "$other" db 1 &
start_guest $system old 1 "agent.no=agent agent.work=longloop" &
wait_for_guests web db old
virsh -q suspend old

# The machines work only while the session lasts: other programs take CPU time from them.
cat >work.sh <<-END
	$(declare -f in_guest)
	VM_TREE=$VM_TREE
	echo enable 1<>count.control
	read -r _ <count.ack
	virsh -q resume old
	for n in 1 2 3 4; do $VM_TREE/build/tests/calltree; done &
	in_guest $system web 'for n in 1 2 3 4; do /calltree; done >/dev/null 2>&1 </dev/null &
		for n in 1 2 3 4; do /calltree; done; wait'
	in_guest '$other' db /longloop
	wait
	virsh -q suspend old
	echo disable 1<>count.control
	read -r _ <count.ack
END
# Host and guest have the same kernel, with its functions at the same addresses.
grep -v '\[' /proc/kallsyms >old.kallsyms
record_both
count_guests
"$pv_perf" record -c $period -o all --connect $system --connect "$remote" --vm web \
	--vm db --passive old --symbols old=old.kallsyms -- bash work.sh >all.out 2>&1
is "a session of a host, two guests of two URIs and a passive guest ends well" $? 0
sed 's/^/# /' all.out
stop_both
kill -INT $count
wait $count
# These guests boot during the checks below.
start_guest $system bare 1 agent.no=pair &
start_guest $system perfless 1 agent.no=perf &
start_guest $system dies 1 &
left_in_web >left
is "pv-perf leaves no file and no process in a guest" "$(cat left)" "nothing else"
is "pv-perf leaves only the session on the host" "$(ls -A all | tr '\n' ' '; pidof perf)" \
	"$(echo {db,host}.{maps,samples}.gz old.kallsyms session.json web.{maps,samples}.gz) "
is "all domains have the status ok" "$(field all "[x['status'] for x in s['domains']]")" \
	"['ok', 'ok', 'ok', 'ok']"
is "no sample is lost" "$(field all "sum(x['lost'] for x in s['domains'])")" 0
more "web has samples of the program's functions" \
	"$(lines all web '"(aa|bb|bbb|c|a|b)" "calltree"')" 100
more "db has samples" "$(lines all db '"_start" "longloop"')" 100
# perf 6.1 writes KGg for a guest's user mode.
more "the host has samples of old's user mode" "$(lines all host '\] KGg ')" 100
more "the host has samples of its own" "$(lines all host '\] [KU] ')" 10
is "db is recorded by ssh" "$(field all "d['db']['connect']")" "$remote"
is "the session has a thread for each vCPU" \
	"$(field all "[len(x['vcpus']) for x in s['domains']]")" \
	"[0, 2, 1, 1]"
for name in web db old; do
	is "the session has the process of $name" \
		"$(tr '\0' '\n' <"/proc/$(field all "d['$name']['pid']")/cmdline" |
			grep -c "^guest=$name,")" 1
done

# sum NAME REGEX: the periods of the samples of NAME that match
sum() {
	zcat all/"$1".samples.gz | awk -v r="$2" \
		'match($0, / \[[0-9]+\] [A-Za-z-]+ [0-9.]+: [0-9]+ /) &&
			$0 ~ r { n++ } END { printf "%.0f\n", n * '$period' }'
}
old=$(field all "'^' + str(d['old']['pid']) + '/.* cycles:G: '")
total=$(($(sum host ' cycles:H: ') + $(sum host "$old") + $(sum web .) + $(sum db .)))
within "the periods of all samples are what the CPUs have counted" $total \
	"$(field all "sum(s['host']['counted'].values())")" 2

# The report agrees with perf's counts of the VMMs' threads in guest mode, and with the
# programs' known numbers of instructions.
"$pv_perf" report --top 0 all >out
sed 's/^/# /' out
whole=$(field all "sum(s['host']['counted'].values())")

# near NAME EVENTS WANT WHOLE [POINTS]: EVENTS is WANT, to within 2 percent of WHOLE or POINTS
# percent
near() {
	local percent
	percent=$(awk -v g="$2" -v w="$3" -v all="$4" 'BEGIN {
		printf "%.2f %.2f", 100 * g / all, 100 * w / all }')
	echo "# $1: ${percent% *} % against ${percent#* } %"
	ok "$1" awk -v p="$percent" -v max="${5:-2}" 'BEGIN {
		split(p, n, " "); exit !(n[2] > 0 && (n[1] - n[2]) ^ 2 <= max ^ 2) }'
}

# sum_of N REGEX: the sum of the events in the matching rows of the Nth table
sum_of() {
	table "$1" out | sed 's/^~//' | awk -v r="$2" '{
			events = $1; $1 = $2 = ""; sub(/^ +/, "")
			if ($0 ~ r) n += events }
		END { printf "%.0f", n }'
}

guests=0
for name in web db old; do
	counted=$(counted_of $name)
	guests=$((guests + counted))
	near "by domain: the share of $name" \
		"$(sum_of 1 "^(guest|passive) $name ")" "$counted" \
		"$whole"
done
near "by domain: the share of the host and its VMMs" "$(sum_of 1 '^(host|VMM of) ')" \
	$((whole - guests)) "$whole"
near "by domain: these domains are the whole" \
	"$(sum_of 1 '^(guest|passive|host|VMM of) ')" "$whole" "$whole"
while read -r domain program millions; do
	domain=${domain/_/ }
	near "by process: the share of $program of $domain" \
		"$(sum_of 2 "^$domain user $program\$")" "${millions}000000" "$whole"
	# The program executes as many instructions as it has.
	within "by process: the report has all instructions of $program of $domain" \
		"$(sum_of 2 "^$domain user $program\$")" "${millions}000000" 5
done <<-END
	guest_web calltree 800
	guest_db longloop 500
	host calltree 400
END
while read -r name part; do
	near "by function: the share of $name in web" \
		"$(sum_of 3 "^guest web user $name .*calltree\$")" $((part * 80000000)) \
		800000000
	# Each of 200 calls has one sample or none: the standard deviation is 0.7 points.
	near "by function: the share of $name on the host" \
		"$(sum_of 3 "^host user $name .*calltree\$")" $((part * 40000000)) \
		400000000 3
done <<-END
	aa 1
	a 2
	bbb 1
	bb 2
	b 1
	c 3
END
near "by function: the share of _start in db" \
	"$(sum_of 3 '^guest db user _start ')" 500000000 "$whole"
for n in 1 2 3; do
	within "table $n adds up to the CPUs' cycles" \
		"$(table $n out | awk '/ all$/ { print $1 }')" "$whole" 2
done
has "the passive guest's kernel has functions" \
	'passive old kernel +[a-z_][a-z_0-9.]+ +\[guest.kernel\]' out

for name in web db; do
	more "$name: moments at which its clock was measured" \
		"$(field all "len(d['$name']['clock'])")" 2
	ok "$name: the session's own bound of its clock's error is less than 10 us" \
		test "$(field all \
		"int(max(p[2] for p in d['$name']['clock']) * 1e6)")" -lt 10
done
read -r pairs cpus worst median <<<"$(compare_both all)"
more "hypercalls that are in both traces" "$pairs" 20
is "the hypercalls in both traces come from two vCPUs" "$cpus" 2
echo "# outside: at most $worst ns; the functions take $median ns"
ok "no hypercall is 10 us before or after its function" test "$worst" -lt 10000
ok "half of the functions take less than 20 us" test "$median" -lt 20000

# The work during which a session's cost is measured.
cat >cost.sh <<-END
	$(declare -f in_guest)
	VM_TREE=$VM_TREE
	for n in 1 2; do $VM_TREE/build/tests/calltree; done &
	in_guest $system web 'for n in 1 2; do /calltree; done >/dev/null 2>&1 </dev/null &
		for n in 1 2; do /calltree; done; wait'
	in_guest '$other' db /longloop
	wait
END
count_cost="perf stat -x, -a -e instructions:HG"
record_by_hand
$count_cost -o cost.hand -- bash cost.sh
stop_by_hand
"$pv_perf" record -c $period -o cost --connect $system --connect "$other" --vm web \
	--vm db -- $count_cost -o cost.session -- bash cost.sh >cost.out 2>&1
is "the session whose cost is measured ends well" $? 0
echo "# instructions: $(cost_of session), with perf by hand $(cost_of hand)"
ok "a session costs no more than perf on both sides" awk -v s="$(cost_of session)" \
	-v h="$(cost_of hand)" 'BEGIN { exit !(s > 0 && s + 0 <= h * 1.05) }'

# A session of guests that fail, and of web, which does not fail: old has no agent, and db
# floods the host with hypercalls for its clock.
wait_for_guests bare perfless dies
# old must not take CPU time from the other guests.
# shellcheck disable=SC2046 # words
renice -n 19 $(ls "/proc/$(pid_of old)/task") >/dev/null
virsh -q resume old
cat >fail.sh <<-END
	. $VM_TREE/selftests/tap.sh
	$(declare -f in_guest)
	virsh -q destroy dies
	virsh -q suspend old
	in_guest '$other' db 'cd "\$(dirname /sys/bus/event_source/devices/*/clock)"
		(while :; do while read -r _; do :; done <clock; done) >/dev/null 2>&1 </dev/null &
		echo \$! >/tmp/flood'
	until_true grep -qs 'size limit' some/.host/vmm-*.log
	in_guest '$other' db 'kill \$(cat /tmp/flood)'
END
"$pv_perf" record -e cycles -F 99 -o some --patience 20 --limit 1 --connect $system \
	--connect "$other" --vm web --vm bare --vm old --vm perfless --vm dies --vm db \
	-- bash fail.sh >some.out 2>&1
is "a session with guests that fail ends well" $? 0
sed 's/^/# /' some.out
is "web has the status ok beside guests that fail" "$(field some "d['web']['status']")" ok
said some bare 'pv-perf-doctor'
said some old 'install qemu-guest-agent'
said some perfless 'no perf there that runs'
said some dies 'no domain|not running|not connected|responding'
said some db 'flooded with its hypercalls'
is "db: its clock is not known" "$(field some "d['db']['clock']")" "[]"
more "db has samples beside guests that fail" "$(lines some db cycles)" 1
more "the clock of web is known for the whole session" "$(field some \
	"int(100 * (d['web']['clock'][-1][1] - d['web']['clock'][0][1]) / s['seconds'])")" 90
"$pv_perf" record -o none --vm nobody true >out 2>&1
has "a domain that does not exist is named" 'knows no domain nobody' out
is "pv-perf leaves no file and no process in web" "$(left_in_web)" "nothing else"
finish
