# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh
#
# pv-perf record runs this script on each machine of a session, a host or a guest:
#
#	sh -c THIS pv-perf COMMAND PLACE [ARGUMENT...]
#
# The script needs perf, POSIX's utilities, timeout, gzip and awk. PLACE is a folder, or
# the name of a folder in /var/tmp or /tmp. The folder has all files of the session.
#
# Each perf is a part, with the files NAME.pid, NAME.log, and the fifos of --control. A
# process in the background measures the clock once a second. If nobody asks for "alive"
# for a while, because pv-perf was killed or cannot reach this machine, this process
# cleans up.

command=$1
place=$2
shift 2
umask 077
trap '' HUP
PATH=${PATH:-/bin}:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
# Without the administrator's configuration of perf, and without network.
export PATH LC_ALL=C PERF_CONFIG=/dev/null DEBUGINFOD_URLS=

die() {
	printf '%s\n' "$*" >&2
	exit 1
}

# install_perf: prints the command that installs perf on this distribution
install_perf() {
	# shellcheck source=/dev/null # this machine's
	(. /etc/os-release 2>/dev/null
	case " $ID $ID_LIKE " in
	*" ubuntu "*)	echo "apt install linux-tools-$(uname -r)" ;;
	*" debian "*)	echo "apt install linux-perf" ;;
	*" fedora "*|*" rhel "*|*" centos "*)	echo "dnf install perf" ;;
	*suse*)		echo "zypper install perf" ;;
	*" arch "*)	echo "pacman -S perf" ;;
	*" alpine "*)	echo "apk add perf" ;;
	*)		echo "install the package that has perf" ;;
	esac)
}

# The command perf may be a script that only says that this kernel's perf is missing.
check_perf() {
	version=$(perf version 2>/dev/null) ||
		die "no perf there that runs. Remedy: $(install_perf)"
	perf data convert -h 2>&1 </dev/null | grep -q -e --to-json ||
		die "$version there is too old: names of functions need perf 5.14 or later"
}

# check_chains EVENT HOW: can this machine record call chains by --call-graph HOW?
check_chains() {
	case $2 in
	dwarf*)	perf version --build-options 2>/dev/null |
			grep -Eq '(libunwind|dwarf-unwind[a-z-]*|libdw[a-z-]*): *\[ *on' ||
			fail "perf there cannot unwind stacks. Remedy: --call-graph fp" ;;
	lbr)	perf record -q --call-graph lbr -e "$1" -o /dev/null -- true \
			>/dev/null 2>lbr.log ||
			fail "no last branch records (LBR) with calls there: they need Intel's" \
				"CPUs from Haswell on, and no VM has them. Remedy: --call-graph" \
				"dwarf, or fp ($(log_of lbr))" ;;
	esac
}

find_place() {
	case $place in
	/*)	dir=$place ;;
	*)	dir=/var/tmp
		[ -d $dir ] || dir=/tmp
		dir=$dir/$place ;;
	esac
}

enter() {
	cd "$dir" 2>/dev/null || die "the session is gone there"
	dir=$(pwd -P)
}

# In a guest, perf's tools run at low priority: the guest has its own work to do.
nice=
be_nice() {
	[ -e role ] || ! command -v nice >/dev/null || nice="nice -n 19"
}

# log_of NAME: the last lines of a part's log, without perf's list of options
log_of() {
	grep -v -e '^$' -e '^Events ' -e "^Run 'perf list'" -e '^ *Usage: ' -e '^ *or: ' \
		-e '^ *-[a-zA-Z-]*, ' "$1.log" | tail -n 3 | tr '\n' ' '
}

# The number of measurements of the clock at the begin and at the end. Only there no other
# moment can replace a slow measurement.
ends=20

# start_of PID: the start time of a process, in ticks since boot; fails if the process has
# ended. The name of the process may have blanks and brackets.
start_of() {
	read -r stat 2>/dev/null <"/proc/$1/stat" || return 1
	# shellcheck disable=SC2086 # words
	set -- ${stat##*) }
	[ "$1" != Z ] && echo "${20}"
}

# running NAME: does the process of a part run? The start time shows whether another
# process has got its PID. The working directory does not: perf 7 changes it for a moment,
# to look at other mount namespaces.
running() {
	[ -e "$1.pid" ] && read -r pid start <"$1.pid" &&
		[ "$(start_of "$pid")" = "$start" ]
}

clean() {
	cd "$dir" 2>/dev/null || return 0
	dir=$(pwd -P)
	for file in *.pid; do
		running "${file%.pid}" && kill -KILL "$pid"
	done
	cd /
	rm -rf "$dir"
}

fail() {
	clean
	die "$@"
}

# measure TIMES: appends measurements of the driver of the pair to the file clock
measure() {
	for file in /sys/bus/event_source/devices/*/clock; do
		[ -r "$file" ] || continue
		for _ in $(seq "$1"); do
			while read -r line; do
				echo "$line"
			done <"$file"
		done
		return
	done >>clock
}

# supervise LEASE: measures the clock until the folder is gone; cleans up after LEASE
# seconds without "alive"
supervise() {
	silent=0
	while [ -d "$dir" ]; do
		if [ -e enabled ] && [ ! -e stopped ]; then
			measure 3
		fi
		if rm alive 2>/dev/null; then
			silent=0
		else
			silent=$((silent + 1))
		fi
		[ $silent -lt "$1" ] || clean
		sleep 1
	done
}

# early: prints the parts that have ended early
early() {
	[ -e recording ] || return 0
	for file in *.pid; do
		name=${file%.pid}
		if [ -e "$file" ] && ! running "$name"; then
			echo "early $name $(log_of "$name")"
			# The session ends with the host's perf record.
			[ "$name" != record ] || [ ! -e role ] || mark e
		fi
	done
}

# room LIMIT: the MB that perf may store, at most LIMIT; in a guest, at most a tenth of the
# free space. ramfs tells neither its size nor its free space.
room() {
	[ ! -e role ] || { echo "$1"; return; }
	df -Pk . 2>/dev/null | awk -v limit="$1" '
		NR == 2 && $2 > 0 { room = int($4 / 10240); known = 1 }
		END { print known && room < limit ? room : limit }'
}

# part NAME PERF-ARGUMENT...: starts a part with disabled events; if it fails, $why is the
# reason
part() {
	name=$1
	shift
	mkfifo "$name.control" "$name.ack"
	$nice perf "$@" -D -1 --control "fifo:$name.control,$name.ack" \
		</dev/null >"$name.log" 2>&1 &
	echo $! "$(start_of $!)" >"$name.pid"
	tries=0
	until grep -q 'Events disabled' "$name.log"; do
		running "$name" || {
			why="perf: $(log_of "$name")"
			return 1
		}
		tries=$((tries + 1))
		[ $tries -lt 600 ] || {
			why="perf $1 does not start"
			return 1
		}
		sleep 0.1
	done
}

# tell NAME WORD: sends a control command to the perf of a part
tell() {
	running "$1" || die "perf has ended: $(log_of "$1")"
	printf '%s\n' "$2" 1<>"$1.control"
	timeout 10 head -n 1 "$1.ack" >/dev/null || die "perf does not answer"
}

# mark b|e: changes the name of this process, so that the part "clock" records the time.
# The file marks has the PID, because others may choose the same name.
mark() {
	echo "$1 $$" >>marks
	printf '%s' "$(cat mark)-$1" >/proc/$$/comm
}

# start ROLE LEASE EVENT MARK LIMIT PERF-RECORD-ARGUMENT...
start() {
	role=$1 lease=$2 event=$3 mark=$4 limit=$5 before=
	shift 5
	check_perf
	mkdir "$dir" || exit 1
	enter
	# exec, because the shell keeps the files that a redirection of the group replaces.
	{
		exec </dev/null >/dev/null 2>&1
		supervise "$lease"
	} &
	# If an event is not supported, perf record would take another event.
	perf stat -a -x, -o counted -e "$event" -- true 2>stat.log ||
		fail "perf: $(log_of stat)"
	missing=$(sed -n 's/^<not supported>,[^,]*,\(.*\),0,[0-9.]*,.*/\1/p' counted | tr '\n' ' ')
	[ -z "$missing" ] || fail "perf has no ${missing}there: pv-perf-doctor says why"
	for word; do
		[ "$before" != --call-graph ] || {
			check_chains "$event" "$word"
			[ "$word" = fp ] || touch unwound
		}
		before=$word
	done
	if [ "$role" = host ]; then
		echo "$mark" >mark
		echo "$role" >role
	fi
	limit=$(room "$limit")
	[ "${limit:-0}" -gt 0 ] || fail "no room in $dir: perf needs 10 MB"
	be_nice
	if [ "$role" = host ]; then
		part clock record -a -N -B -o clock.data --max-size=1G \
			-e task:task_rename --filter "newcomm ~ \"$mark-*\"" ||
			fail "$why"
		tell clock enable
		part stat stat -a -A -x, -o stat.txt -e "$event" || fail "$why"
	fi
	# Build IDs of programs, to find symbols that this machine does not have.
	buildids=--buildid-mmap
	perf record -q $buildids -o /dev/null -e dummy -- true >/dev/null 2>&1 || buildids=
	# shellcheck disable=SC2086 # an option, or nothing
	part record record -a -N -B $buildids -o record.data "--max-size=${limit}M" "$@" || fail "$why"
	set -- /sys/bus/event_source/devices/*/clock
	[ ! -e "$1" ] || echo pair
	echo "kernel $(uname -r)"
	echo "cpus $(grep -c '^processor' /proc/cpuinfo)"
}

# trace NAME PID EVENT FILTER MB: traces a process, with its own buffers and its own file,
# which no other process can fill
trace() {
	part "$1" record -p "$2" --per-thread -m 16 -N -B -o "$1.trace" \
		--max-size="$5M" -e "$3" --filter "$4" || die "$why"
	tell "$1" enable
}

# count NAME PID EVENT: counts an event of a process, for the time of the session
count() {
	part "$1" stat -p "$2" -x, -o "$1.txt" -e "$3" || die "$why"
}

# enable: enables the parts. A guest measures its clock from now on, because the host
# traces its hypercalls by now.
enable() {
	if [ -e role ]; then
		# These parts first, so that they miss nothing. Their processes may have ended.
		for file in guest-*.pid; do
			[ ! -e "$file" ] || (tell "${file%.pid}" enable 2>/dev/null)
		done
		tell record enable
		tell stat enable
		mark b
	else
		measure "$ends"
		tell record enable
		touch enabled
	fi
	touch recording
}

# stop NAME...: stops these parts
stop() {
	rm -f recording
	[ "$1" != record ] || [ ! -e role ] || mark e
	for name; do
		if ! running "$name"; then
			echo "early $name $(log_of "$name")"
			continue
		fi
		kill -INT "$pid"
	done
	for name; do
		tries=0
		while running "$name"; do
			tries=$((tries + 1))
			[ $tries -lt 300 ] || kill -KILL "$pid"
			sleep 0.1
		done
		rm -f "$name.pid"
	done
	[ -e role ] || measure "$ends"
	touch stopped
}

# Joins the names from perf's JSON with the numbers from perf script. Each sample has a
# header line, and a line with a tab for each address, from the innermost on:
#
#	PID/TID [CPU] MISC TIME: PERIOD EVENT: "COMM"
#		ADDRESS "SYMBOL" "OBJECT"
#
# Strings are JSON strings. Unknown names are missing. perf's JSON has one key per line,
# and escapes all control characters. The JSON does not have the chains that perf unwinds:
# if there is a file chains, it has the addresses and names, from perf script. A name with
# newlines can only forge addresses further out in the same stack, which its program could
# do, too: the next stack begins at a header, whose time nobody can know beforehand.
join_names() {
	awk -v names=names -v chains="$1" '
	function quoted(word) {
		gsub(/["\\]/, "\\\\&", word)
		gsub(/[[:cntrl:]]/, "?", word)
		return " \"" word "\""
	}
	# An address, and "SYMBOL+0xOFFSET (OBJECT)" or "[unknown] (OBJECT)".
	function unwound(line,	address, symbol) {
		sub(/^[ \t]+/, "", line)
		address = line
		sub(/ .*/, "", address)
		if (address !~ /^[0-9a-f]+$/)
			return ""
		sub(/^[^ ]* /, "", line)
		sub(/\)$/, "", line)
		if (match(line, /\+0x[0-9a-f]+ \(/)) {
			symbol = substr(line, 1, RSTART - 1)
			line = substr(line, RSTART + RLENGTH)
			# The same name as in the JSON.
			sub(/^\/(.*\/)?/, "", line)
			return "\n\t" address quoted(symbol) quoted(line)
		}
		# The address is the one in OBJECT.
		if (sub(/^\[unknown\] \(\//, "/", line))
			return "\n\t" address quoted("") quoted(line)
		return "\n\t" address
	}
	# Reads the chain of the sample with the header PID/TID TIME:
	function next_chain(header,	word, result) {
		do {
			split(ahead, word)
			if (word[1] " " word[2] == header)
				break
		} while ((getline ahead <chains) > 0)
		# The address of a sample without a chain.
		sub(/^[^:]*:/, "", ahead)
		result = unwound(ahead)
		while ((getline ahead <chains) > 0 && ahead ~ /^\t/)
			result = result unwound(ahead)
		return result
	}
	function value(line) {
		sub(/^[^:]*: /, "", line)
		sub(/,$/, "", line)
		return line
	}
	# Reads the next sample of the JSON.
	function next_named(	line) {
		ns = tid = comm = frames = ""
		while ((getline line <names) > 0) {
			if (line ~ /^\t\t\t\t\t"ip": "0x[0-9a-f]+"/) {
				split(line, word, "\"")
				frames = frames "\n\t" substr(word[4], 3)
			} else if (line ~ /^\t\t\t\t\t"(symbol|dso)": "/)
				frames = frames " " value(line)
			else if (line ~ /^\t\t\t"timestamp": /)
				ns = value(line)
			else if (line ~ /^\t\t\t"tid": /)
				tid = value(line)
			else if (line ~ /^\t\t\t"comm": "/ && comm == "")
				comm = value(line)
			else if (line ~ /^\t\t}/ && ns != "")
				return
		}
	}
	function earlier(a, b) {
		return length(a) < length(b) || length(a) == length(b) && a "" < b ""
	}
	BEGIN { next_named() }
	/PERF_RECORD_LOST lost [0-9]+$/ { lost += $NF; next }
	/^\t/ { if (!named) print "\t" $1; next }
	NF < 5 { next }
	{
		misc = $3 ~ /:$/ ? "-" : $3
		at = misc == "-" ? 3 : 4
		time = $at
		gsub(/[.:]/, "", time)
		sub(/^0+/, "", time)
		split($1, id, "/")
		while (ns != "" && earlier(ns, time))
			next_named()
		named = ns == time && tid == id[2]
		if (chains != "")
			frames = next_chain($1 " " $at)
		print $1, $2, misc, $at, $(at + 1), $(at + 2), \
			(named ? comm : "\"\"") (named || chains != "" ? frames : "")
		if (named)
			next_named()
		else if (NF > at + 2)
			print "\t" $NF
	}
	END {
		while (ns != "")
			next_named()
		print "lost", lost + 0 >"/dev/stderr"
	}' 2>lost
}

# Writes where programs are mapped in processes:
#
#	m PID START LENGTH OFFSET BUILDID PATH
#	f PID PARENT
#
# Anybody can choose a PATH with newlines. If such lines look like lines of perf, there are
# more lines than events that perf has counted: then the last line is "forged".
maps() {
	$nice perf report --stats -i record.data </dev/null >stats 2>/dev/null
	$nice perf script -i record.data -F pid,tid,time --show-mmap-events --show-task-events \
		</dev/null 2>/dev/null | awk -v stats=stats '
		BEGIN {
			while ((getline line <stats) > 0) {
				split(line, word)
				# The counts of all events come first.
				if (word[2] == "events:" && !(word[1] in want))
					want[word[1]] = word[3]
			}
		}
		$1 !~ /^-?[0-9]+\/-?[0-9]+$/ || $2 !~ /^[0-9.]+:$/ { next }
		$3 == "PERF_RECORD_MMAP2" {
			seen["MMAP2"]++
			split($4, id, "/")
			split($5, at, /[[(]/)
			if ($8 ~ /^<[0-9a-f]+>\]:$/ && $9 ~ /x/ && id[1] >= 0) {
				sub(/^0x/, "", at[2]); sub(/^0x/, "", at[3]); sub(/\)$/, "", at[3])
				sub(/^0x/, "", $7)
				path = $0
				sub(/^[^>]*>\]: [^ ]* /, "", path)
				gsub(/[^0-9a-f]/, "", $8)
				print "m", id[1], at[2], at[3], $7, $8, path
			}
		}
		$3 ~ /^PERF_RECORD_FORK\([0-9]+:[0-9]+\):\([0-9]+:[0-9]+\)/ {
			seen["FORK"]++
			split($3, id, /[(:)]+/)
			if (id[2] != id[4])
				print "f", id[2], id[4]
		}
		END {
			if (seen["MMAP2"] != want["MMAP2"] + 0 || seen["FORK"] != want["FORK"] + 0)
				print "forged", seen["MMAP2"], want["MMAP2"], seen["FORK"], want["FORK"]
		}' | gzip -1 >maps.gz
}

# script PERF-SCRIPT-ARGUMENT...: converts the recorded samples to text.
# Anybody can choose a name with newlines, and perf script does not escape them. So perf
# script prints only numbers, and the names come from perf's JSON.
script() {
	be_nice
	mkfifo numbers names
	# Without names of inlined functions: perf would start addr2line for each.
	mkdir none
	ln -s /bin/false none/addr2line
	ip=,ip chains=''
	[ ! -e unwound ] || ip='' chains=chains
	$nice perf script "$@" -i record.data --ns --no-inline --show-lost-events \
		-F pid,tid,cpu,time,event,period,misc$ip \
		</dev/null >numbers 2>script.log &
	script=$!
	echo $script "$(start_of $script)" >script.pid
	if [ -e unwound ]; then
		mkfifo chains
		PATH=$dir/none:$PATH $nice perf script "$@" -i record.data --ns --no-inline \
			-F pid,tid,time,ip,sym,symoff,dso </dev/null >chains 2>chains.log &
		unwinder=$!
		echo $unwinder "$(start_of $unwinder)" >chains.pid
	fi
	PATH=$dir/none:$PATH $nice perf data convert -f --to-json /proc/self/fd/3 -i record.data \
		</dev/null >names.log 2>&1 3>names &
	names=$!
	echo $names "$(start_of $names)" >names.pid
	join_names "$chains" <numbers | gzip -1 >samples.gz
	wait $script || echo "early script $(log_of script)"
	wait $names || echo "early names $(log_of names)"
	[ ! -e unwound ] || wait $unwinder || echo "early chains $(log_of chains)"
	maps
	rm -f script.pid names.pid chains.pid record.data
	cat lost
	[ ! -e clock.data ] || timeout 60 perf script -i clock.data --ns -F pid,time \
		</dev/null 2>/dev/null | awk 'NR == FNR { mark[$2] = $1; next }
			$1 in mark { sub(/:/, "", $2); print mark[$1], $2 }' marks - |
		gzip -1 >clock.gz
	for name in *.trace; do
		[ ! -e "$name" ] || timeout 60 perf script -i "$name" --ns \
			-F pid,tid,time,event,trace </dev/null 2>/dev/null |
			gzip -1 >"${name%.*}.gz"
	done
	echo "size $(wc -c <samples.gz)"
}

find_place
case $command in
start)	start "$@" ;;
clean)	clean ;;
count|trace|enable|stop|script)
	enter
	touch alive
	$command "$@" ;;
alive)	enter
	touch alive
	early ;;
place)	enter
	printf '%s' "$dir" ;;
*)	die "no command $command" ;;
esac
