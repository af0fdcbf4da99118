#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The guest's perf counts and samples events of the hypervisor: exits by reason, halts and
# steal time.
# vm: host --host-cpus 2 --timeout 2400
# tier: all
# machines: amd intel
# needs: build/pv-perf-doctor
# programs: exits loop longloop longerloop
# seconds: 400, on intel 1346
self=$(realpath "$0")
. "$VM_TREE/selftests/tap.sh"
cd "$VM_SCRATCH" || exit 1

# Programs are in memory: with 9p the guest would halt while it waits for a file.
[ "$VM_LEVEL" != guest ] || T=/dev/shm
data=/dev/shm/data
kinds="other io mmio msr cpuid hlt npf interrupt nmi hypercall"

# exits_of FILE COMMAND...: count the command's exits in user mode, by kind, into FILE
exits_of() {
	local out=$1 kind events=kvm/exits/u
	shift
	for kind in $kinds; do
		events=$events,kvm/exits_$kind/u
	done
	perf stat -x, -o "$out" -e $events "$@"
}

check_events() {
	local event
	for event in $kinds nested pv_perf; do
		echo "exits_$event"
	done >want
	printf '%s\n' exits injected_irqs preemptions steal_ns steal_ns.scale \
		steal_ns.unit halt_ns halt_ns.scale halt_ns.unit host_ns \
		host_ns.scale host_ns.unit >>want
	is "sysfs has all events of the hypervisor" \
		"$(ls /sys/bus/event_source/devices/kvm/events)" "$(LC_ALL=C sort want)"
	perf list kvm >list 2>&1
	has "perf list has events of the hypervisor" 'kvm/exits_mmio/' list
	perf stat -x, -o out -e msr/tsc/ true
	more "perf knows the PMU msr beside events of the hypervisor" "$(count msr/tsc/ out)" 0
	perf stat -x, -e kvm/config=0x1e/ true >out 2>&1
	has "perf refuses an event that does not exist" \
		'Invalid argument|not supported|syntax error' out
	# The attr has exclude_kernel, remove_on_exec and sigtrap.  95 is EOPNOTSUPP.
	is "an event of the hypervisor refuses sigtrap with EOPNOTSUPP" "$(perl -e '
		$attr = pack("LLQQQQQx80", shift, 128, 0x20, 1, 0, 0,
			     1 << 5 | 1 << 36 | 1 << 37);
		print syscall(298, $attr, 0, -1, -1, 0) == -1 ? $! + 0 : "opened"' \
			"$(cat /sys/bus/event_source/devices/kvm/type)")" 95
}

check_doctor() {
	has "the doctor on the host says that guests may count events of the hypervisor" \
		'^Guests may count all events of the hypervisor' host.doctor
	"$VM_TREE/build/pv-perf-doctor" guest >doctor
	is "the doctor in the guest finds no fault" $? 0
	has "the doctor in the guest counts its own exits" \
		'^ok .* counts events of the hypervisor \(kvm/exits/\)' doctor
	is "the doctor finds no event of the hypervisor that the host keeps from the guest" \
		"$(grep -c 'the VMM does not' doctor)" 0
}

# Both counts include the exits of the C library at the program's start.
check_counts() {
	local pair kind sum=0
	exits_of none "$T/exits" cpuid 0 io 0 mmio 0 hypercall 0
	exits_of some "$T/exits" cpuid 10000 io 10000 mmio 1000 hypercall 1000
	for pair in cpuid:10000 io:10000 mmio:1000 hypercall:1000; do
		kind=kvm/exits_${pair%:*}/u
		is "$kind: ${pair#*:}" \
			$(($(count "$kind" some) - $(count "$kind" none))) "${pair#*:}"
	done
	for kind in $kinds; do
		sum=$((sum + $(count "kvm/exits_$kind/u" some)))
	done
	is "kvm/exits/ is the sum of all kinds of exits" "$(count kvm/exits/u some)" $sum
	perf stat -x, -o out -e kvm/exits_cpuid/k,kvm/exits_cpuid/u,kvm/exits_cpuid/ \
		"$T/exits" cpuid 1000
	is ":u and :k add up" $(($(count kvm/exits_cpuid/u out) +
		$(count kvm/exits_cpuid/k out))) "$(count kvm/exits_cpuid/ out)"
}

# An idle CPU halts again after each wakeup by a timer or the program.
check_halts() {
	perf stat -x, -a -o out -e kvm/exits_hlt/,kvm/halt_ns/,kvm/host_ns/ \
		"$T/exits" halt 100
	more "100 sleeps have at least 100 halts" "$(count kvm/exits_hlt/ out)" 99
	ok "100 sleeps have fewer than 200 halts" test "$(count kvm/exits_hlt/ out)" -lt 200
	within "kvm/halt_ns/ is 100 sleeps of a millisecond" \
		"$(count kvm/halt_ns/ out)" 105000000 10
}

check_groups() {
	perf stat -x, -o out -e '{instructions:u,kvm/exits_io/u,branches:u}' \
		"$T/exits" io 100
	is "a group with hardware events counts exits exactly" "$(count kvm/exits_io/u out)" 100
	more "the hardware events of the group count" "$(count branches:u out)" 100
	perf record -q -B -N -e '{instructions:u,kvm/exits_io/}:S' -c 20000 -o $data \
		"$T/exits" io 10000
	perf script -i $data -F event,period 2>/dev/null >script
	more "a :S group reads the exits at each sample" \
		"$(awk '/exits_io/ { n += $1 } END { print n + 0 }' script)" 5000
	# If the program ends while perf prints an interval, perf leaves out the last interval.
	perf stat -x, -I 20 -o series -e instructions:u,kvm/exits_io/ \
		sh -c "$T/exits io 10000; sleep 0.1"
	is "the intervals of perf stat -I add up" \
		"$(awk -F, '$4 == "kvm/exits_io/" { n += $2 } END { print n }' series)" 10000
	more "perf stat -I has intervals" "$(grep -c 'kvm/exits_io/' series)" 2
}

# samples LABEL: the number of samples in data at this label of the program exits
samples() {
	local address
	address=$(nm "$T/exits" | awk -v n="$1" '$3 == n { sub("^0*", "", $1); print $1 }')
	perf script -i $data -F comm,ip -G 2>/dev/null |
		awk -v a="$address" '$1 == "exits" && $2 == a { n++ } END { print n + 0 }'
}

check_samples() {
	perf record -q -B -N -g -c 1 -o $data -e kvm/exits_io/ "$T/exits" io 10000
	more "10,000 writes to a port have samples at the OUT itself" \
		"$(samples io_instruction)" 9899
	perf script -i $data -F ip,sym 2>/dev/null >chains
	head -n 4 chains | sed 's/^/# /'
	more "the samples' call chains have main" "$(grep -c ' main *$' chains)" 9899
	perf record -q -B -N -c 10 -o $data -e kvm/exits/u "$T/exits" cpuid 10000
	more "with a period of 10, every tenth of 10,000 CPUIDs is sampled" \
		"$(samples cpuid_instruction)" 989
	perf record -q -B -N -F 1000 -o $data -e kvm/exits/u "$T/exits" cpuid 20000
	more "CPUIDs are sampled with a frequency" "$(samples cpuid_instruction)" 20
	perf report -i $data --stdio --sort symbol 2>/dev/null >report
	within "the periods of samples with a frequency add up" \
		"$(sed -n 's/^# Event count (approx.): //p' report)" 20000 2

	# If the NMI of a sample made an interrupt wait, that interrupt would cause the next
	# sample, without end.
	perf record -q -B -N -a -c 1 -o $data -e kvm/exits_interrupt/ \
		perf stat -x, -a -o out -e kvm/injected_irqs/ "$T/exits" halt 100
	is "sampling each exit for an interrupt ends" $? 0
	more "interrupts are counted while exits for them are sampled" \
		"$(count kvm/injected_irqs/ out)" 99

	# A sample of a halt does not end the halt.
	perf record -q -B -N -a -c 1 -o $data -e kvm/exits_hlt/ \
		perf stat -x, -a -o halts -e kvm/halt_ns/ "$T/exits" halt 100
	more "halts are sampled" "$(perf script -i $data 2>/dev/null | wc -l)" 99
	within "sampled halts last as long as others" \
		"$(count kvm/halt_ns/ halts)" 105000000 10
	perf record -q -B -N -a -g -c 1 -o $data -e kvm/exits_hlt/ "$T/exits" halt 20
	perf script -i $data -F ip,sym 2>/dev/null >chains
	head -n 4 chains | sed 's/^/# /'
	# The innermost function shows it: not all kernels have a function for HLT alone.
	is "each sampled halt is in the idle loop, before the interrupt's handler" \
		"$(awk '!NF { inner = 1; next }
			inner && $2 ~ /^((pv_)?native_safe_halt|default_idle)$/ { n++ }
			{ inner = 0 } END { print n + 0 }' chains)" \
		"$(awk '$2 == "do_idle" { n++ } END { print n ? n : "some" }' chains)"
}

# The number of interrupts that this guest with one CPU has handled.
interrupts() {
	awk '$1 ~ /^([0-9]+|LOC|RES|CAL|TLB|IWI):$/ { n += $2 } END { print n }' \
		/proc/interrupts
}

halt_and_tell() {
	interrupts
	"$T/exits" halt "$1"
	interrupts
}

# irqs_of HALTS: interrupts that the guest has handled, and interrupts that are counted and
# sampled
irqs_of() {
	perf record -q -B -N -a -c 1 -o $data -e kvm/injected_irqs/ \
		perf stat -x, -a -o irqs -e kvm/injected_irqs/ \
		"$self" halt_and_tell "$1" >seen
	awk 'NR == 1 { n = $1 } END { print $1 - n }' seen
	count kvm/injected_irqs/ irqs
}

# perf and the shell cause some interrupts at their start. The first run only reads their
# files.
check_interrupts() {
	local few many
	irqs_of 0 >/dev/null
	mapfile -t few < <(irqs_of 0)
	mapfile -t many < <(irqs_of 400)
	within "each interrupt counts once, even if it is sampled" \
		$((many[1] - few[1])) $((many[0] - few[0])) 15
	more "each interrupt has a sample" "$(perf script -i $data 2>/dev/null | wc -l)" 399
}

# All slots are taken, and become free while another event waits for a slot.
check_slots() {
	local all
	all=$(printf ',kvm/exits_nested/%.0s' $(seq 16))
	perf record -q -B -N -a -c 1000000 -o /dev/shm/all -e "${all#,}" \
		sh -c 'while [ ! -e slots.go ]; do sleep 0.05; done' 2>/dev/null &
	perf record -q -B -N -a -c 1 -o $data -e kvm/exits_io/u sh -c "
		sleep 0.5; touch slots.go; sleep 0.5; $T/exits io 100"
	wait
	is "an event that has waited for a slot takes samples" "$(samples io_instruction)" 100
}

# has_events PID N: the process has N open perf_events
has_events() {
	[ "$(find "/proc/$1/fd" -lname 'anon_inode:\[perf_event\]' | wc -l)" = "$2" ]
}

# Events of another task and events of a CPU.
check_targets() {
	mkfifo /dev/shm/go
	sh -c "read go </dev/shm/go; exec $T/exits cpuid 1000" &
	perf stat -x, -p $! -o task -e kvm/exits_cpuid/u,kvm/exits_io/u &
	until_true has_events $! 2
	sleep 1
	echo >/dev/shm/go
	wait
	perf stat -x, -C 0 -A -o cpu -e kvm/exits_cpuid/u "$T/exits" cpuid 1000
	# The C library causes exits, too, when a program starts.
	within "perf stat -p counts the exits of a task" "$(count kvm/exits_cpuid/u task)" 1025 2.5
	is "perf stat -p counts no exits of other reasons" "$(count kvm/exits_io/u task)" 0
	within "perf stat -C 0 counts the exits of a CPU" \
		"$(awk -F, '/exits_cpuid/ { print $2 }' cpu)" 1025 2.5
}

# The machine's clock counts instructions, so that elapsed time is cost.  The guest has a CPU
# of its own.
microseconds_of_longloop() {
	local before=${EPOCHREALTIME/./}
	"$T/longloop"
	echo $((${EPOCHREALTIME/./} - before))
}

# with_intervals N: the time of longloop with a sample of all counts every N instructions
with_intervals() {
	perf record -q -a -B -N -o $data -c "$1" \
		-e '{instructions,kvm/exits/,kvm/halt_ns/}:S' \
		"$self" microseconds_of_longloop
}

check_interval_cost() {
	local without with
	with_intervals 1000000000000 >/dev/null
	without=$(with_intervals 1000000000000)
	with=$(with_intervals 50000000)
	more "there are samples every 50,000,000 instructions" \
		"$(perf script -i $data -F event 2>/dev/null | grep -c instructions)" 8
	within "a sample every 50,000,000 instructions costs at most 1.3 %" "$with" "$without" 1.3
}

# The steal time of all CPUs, in hundredths of a second.
proc_steal() {
	awk '$1 == "cpu" { print $9 }' /proc/stat
}

control() {
	echo "$1" >/dev/shm/ctl
	read -r _ </dev/shm/ack
}

# A hypercall that the host's trace shows.  The shell makes it, because starting a program
# would read files.
mark() {
	local line
	read -r line <"$(echo /sys/bus/event_source/devices/*/clock)"
}

# The host takes CPU time only between the two marks.
while_host_steals() {
	proc_steal
	control enable
	mark
	touch steal.go
	while [ ! -e steal.done ]; do "$T/loop"; done
	mark
	control disable
	proc_steal
}

# A program of the host wants the guest's CPU.
check_steal() {
	mkfifo /dev/shm/ctl /dev/shm/ack
	touch steal.ready
	wait_for steal.start
	perf stat -x, -a -o steal -e kvm/steal_ns/,kvm/preemptions/ \
		-D -1 --control fifo:/dev/shm/ctl,/dev/shm/ack \
		"$self" while_host_steals >stat 2>/dev/shm/events
	touch steal.ended
	wait_for host.steal
	is "the host's trace has both marks" "$(awk '{ print $3 }' host.steal)" 2
	within "kvm/steal_ns/ agrees with the host's scheduler" \
		"$(count kvm/steal_ns/ steal)" "$(awk '{ print $1 }' host.steal)" 1
	within "kvm/steal_ns/ agrees with /proc/stat" "$(count kvm/steal_ns/ steal)" \
		"$(awk 'NR == 1 { n = $1 } END { printf "%.0f", ($1 - n) * 10000000 }' stat)" 1
	within "kvm/preemptions/ agrees with the host's trace of the scheduler" \
		"$(count kvm/preemptions/ steal)" "$(awk '{ print $2 }' host.steal)" 1
}

while_host_counts() {
	touch host.ready
	wait_for host.go
	"$T/exits" cpuid 60000
	touch host.done
	wait_for host.exits
}

# The host counts the guest's exits at the same time.
check_host() {
	perf stat -x, -a -o guest.exits -e kvm/exits/,kvm/exits_pv_perf/ \
		-e kvm/exits_cpuid/ "$self" while_host_counts
	within "the host's trace has as many CPUIDs" "$(count kvm/exits_cpuid/ guest.exits)" \
		"$(count kvm:kvm_exit host.trace)" 2
	within "kvm_stat has as many exits" \
		$(($(count kvm/exits/ guest.exits) + $(count kvm/exits_pv_perf/ guest.exits))) \
		"$(cat host.exits)" 5
}

in_guest() {
	mount -t tmpfs none /lib/modules
	cp "$VM_TREE"/build/tests/{exits,loop,longloop} $T
	check_events
	check_doctor
	check_interval_cost
	check_counts
	check_halts
	check_groups
	check_targets
	check_samples
	check_interrupts
	check_slots
	check_host
	check_steal
	perf stat -x, -o out -e instructions:u "$T/loop"
	is "hardware events count exactly after events of the hypervisor" \
		"$(count instructions:u out)" 10000004
	sleep 1
	dmesg >dmesg
	no_warning "the guest's log has no warning" dmesg
	finish
}

if [ $# -gt 0 ]; then
	"$@"
	exit
fi

exits() {
	cat /sys/kernel/debug/kvm/exits
}

# SVM_EXIT_CPUID, EXIT_REASON_CPUID
case $kvm_vendor in
kvm-amd)	cpuid=0x72 ;;
kvm-intel)	cpuid=10 ;;
esac

"$VM_TREE/build/pv-perf-doctor" host >host.doctor
# CPU 1 is the guest's: the programs of this script run on CPU 0.
taskset -pc 0 $$ >/dev/null
"$VM_TREE/selftests/vm" guest -- "$self" in_guest &
guest=$!
until_true pgrep -f 'accel kvm' >/dev/null
vmm=$(pgrep -f 'accel kvm')
taskset -pac 1 "$vmm" >/dev/null
wait_for host.ready
before=$(exits)
perf stat -x, -a -o host.trace -e kvm:kvm_exit --filter "exit_reason == $cpuid" \
	sh -c 'touch host.go; while [ ! -e host.done ]; do sleep 0.05; done'
echo $(($(exits) - before)) >host.exits.new
mv host.exits.new host.exits
wait_for steal.ready
vcpu=$(cat /sys/kernel/debug/kvm/*/vcpu0/pid)
# The second word is the time that the vCPU's thread has waited for a CPU, in ns.
schedstat=/proc/$vmm/task/$vcpu/schedstat
# A preempted task has the state 0 or a state of 256 or more.  A mark is a READ of
# KVM_PMU_NO_EVENT.
perf record -q -a -B -N -o $data -e sched:sched_switch \
	--filter "prev_pid == $vcpu && (prev_state == 0 || prev_state >= 256)" \
	-e kvm:kvm_pv_perf_op --filter 'op == 5 && a1 == 0xfffffffe' sh -c "
		touch steal.start
		while [ ! -e steal.go ]; do sleep 0.05; done
		cat $schedstat >/dev/shm/delay
		for _ in 1 2 3 4; do taskset -c 1 $T/longerloop; done
		cat $schedstat >>/dev/shm/delay
		touch steal.done
		while [ ! -e steal.ended ]; do sleep 0.05; done"
delay=$(awk 'NR == 1 { n = $2 } END { printf "%.0f", $2 - n }' /dev/shm/delay)
perf script -i $data -F event >switches 2>/dev/null
echo "$delay $(awk '/kvm_pv_perf_op/ { marks++ }
	/sched_switch/ && marks == 1 { n++ }
	END { print n + 0, marks + 0 }' switches)" >host.steal.new
mv host.steal.new host.steal
wait $guest
