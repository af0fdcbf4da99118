# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh
#
# What pv-perf record runs on each machine of a session, a host or a guest, as
#
#	sh -c THIS pv-perf COMMAND PLACE [ARGUMENT...]
#
# It needs perf and POSIX's utilities (and mktemp's neighbours: timeout,
# readlink, gzip, awk). PLACE is a folder, or the name of one where files are
# temporary: all that there is lies in it, and what runs in it is found by it.
#
# Each perf is a part: NAME.pid, NAME.log, and the fifos of its --control. A
# process in the background measures the clock once a second and, when nobody has
# asked for "alive" for a while (pv-perf was killed, or cannot reach this machine
# any more), cleans up.

command=$1
place=$2
shift 2
umask 077
trap '' HUP
PATH=${PATH:-/bin}:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
# Nothing of what an administrator has set up for perf, and no network.
export PATH LC_ALL=C PERF_CONFIG=/dev/null DEBUGINFOD_URLS=

die() {
	printf '%s\n' "$*" >&2
	exit 1
}

# install_perf: the command, on this distribution
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

# A command perf may only say that the one for this kernel is missing.
check_perf() {
	version=$(perf version 2>/dev/null) ||
		die "no perf there that runs. Remedy: $(install_perf)"
	perf data convert -h 2>&1 </dev/null | grep -q -e --to-json ||
		die "$version there is too old: names of functions take perf 5.14 or later"
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

# A guest has its own work to do.
nice=
be_nice() {
	[ -e role ] || ! command -v nice >/dev/null || nice="nice -n 19"
}

# Its last words.
log_of() {
	grep -v -e '^$' -e '^Events ' "$1.log" | tail -n 3 | tr '\n' ' '
}

# How often the clock is measured at the begin and at the end, for which no other moment
# can be taken.
ends=20

# start_of PID: when it was started, in ticks since boot; fails where it has ended. Its
# command may have blanks and brackets.
start_of() {
	read -r stat 2>/dev/null <"/proc/$1/stat" || return 1
	# shellcheck disable=SC2086 # words
	set -- ${stat##*) }
	[ "$1" != Z ] && echo "${20}"
}

# The process of this part: not one that has got its number later. It is not known by
# its folder, as perf 7 goes elsewhere for a moment, to look at other mount namespaces.
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

# measure TIMES: what the driver of the pair says
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

# supervise LEASE: until the folder is gone
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

# early: those that should run, and do not
early() {
	[ -e recording ] || return 0
	for file in *.pid; do
		name=${file%.pid}
		if [ -e "$file" ] && ! running "$name"; then
			echo "early $name $(log_of "$name")"
			# What is recorded without it is of no use.
			[ "$name" != record ] || [ ! -e role ] || mark e
		fi
	done
}

# As many MB as perf may have of LIMIT: of a guest's free space a tenth at most. What is in
# memory alone (ramfs) says neither its size nor what is free.
room() {
	[ ! -e role ] || { echo "$1"; return; }
	df -Pk . 2>/dev/null | awk -v limit="$1" '
		NR == 2 && $2 > 0 { room = int($4 / 10240); known = 1 }
		END { print known && room < limit ? room : limit }'
}

# part NAME PERF-ARGUMENT...: starts one that does not count yet; or says why not
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

# tell NAME WORD: to a perf that runs
tell() {
	running "$1" || die "perf has ended: $(log_of "$1")"
	printf '%s\n' "$2" 1<>"$1.control"
	timeout 10 head -n 1 "$1.ack" >/dev/null || die "perf does not answer"
}

# The time of now, where the part "clock" records names of tasks: whose is told by its
# number, as others may take that name.
mark() {
	echo "$1 $$" >>marks
	printf '%s' "$(cat mark)-$1" >/proc/$$/comm
}

# start ROLE LEASE EVENT MARK LIMIT PERF-RECORD-ARGUMENT...
start() {
	role=$1 lease=$2 event=$3 mark=$4 limit=$5
	shift 5
	check_perf
	mkdir "$dir" || exit 1
	enter
	# Not with redirections of its own: the shell would keep what they replace.
	{
		exec </dev/null >/dev/null 2>&1
		supervise "$lease"
	} &
	# perf record would take another one.
	perf stat -a -x, -o counted -e "$event" -- true 2>stat.log ||
		fail "perf: $(log_of stat)"
	! grep -q '<not supported>' counted ||
		fail "perf has no $event there: pv-perf-doctor says why"
	if [ "$role" = host ]; then
		echo "$mark" >mark
		echo "$role" >role
	fi
	limit=$(room "$limit")
	[ "${limit:-0}" -gt 0 ] || fail "no room in $dir: it takes 10 MB"
	be_nice
	if [ "$role" = host ]; then
		part clock record -a -N -B -o clock.data --max-size=1G \
			-e task:task_rename --filter "newcomm ~ \"$mark-*\"" ||
			fail "$why"
		tell clock enable
		part stat stat -a -A -x, -o stat.txt -e "$event" || fail "$why"
	fi
	# Which program an address is of, for those that have no symbols here.
	buildids=--buildid-mmap
	perf record -q $buildids -o /dev/null -e dummy -- true >/dev/null 2>&1 || buildids=
	# shellcheck disable=SC2086 # or none
	part record record -a -N -B $buildids -o record.data "--max-size=${limit}M" "$@" || fail "$why"
	set -- /sys/bus/event_source/devices/*/clock
	[ ! -e "$1" ] || echo pair
	echo "kernel $(uname -r)"
	echo "cpus $(grep -c '^processor' /proc/cpuinfo)"
}

# trace NAME PID EVENT FILTER MB: of a process, with buffers and a file of its own,
# which no other fills
trace() {
	part "$1" record -p "$2" --per-thread -m 16 -N -B -o "$1.trace" \
		--max-size="$5M" -e "$3" --filter "$4" || die "$why"
	tell "$1" enable
}

# count NAME PID EVENT: what a process does, for the session's time
count() {
	part "$1" stat -p "$2" -x, -o "$1.txt" -e "$3" || die "$why"
}

# A guest's clock is measured from then on, as the host traces that by then.
enable() {
	if [ -e role ]; then
		# First, so that nothing is missing; their processes may have ended.
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

# stop NAME...: those parts
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

# Puts names behind the numbers of samples: a header line for each, and a line with a
# tab for each address, from the innermost on,
#
#	PID/TID [CPU] MISC TIME: PERIOD EVENT: "COMM"
#		ADDRESS "SYMBOL" "OBJECT"
#
# where strings are JSON's, and what has no name has none. perf's JSON has one key a
# line, and no control character that is not escaped.
join_names() {
	awk -v names=names '
	function value(line) {
		sub(/^[^:]*: /, "", line)
		sub(/,$/, "", line)
		return line
	}
	# The next sample that has names.
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
		print $1, $2, misc, $at, $(at + 1), $(at + 2),
			(named ? comm frames : "\"\"")
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

# Where programs are in processes:
#
#	m PID START LENGTH OFFSET BUILDID PATH
#	f PID PARENT
#
# Anybody can have chosen a PATH with newlines, but not without making lines more than perf
# has counted: "forged" is then the last line.
maps() {
	$nice perf report --stats -i record.data </dev/null >stats 2>/dev/null
	$nice perf script -i record.data -F pid,tid,time --show-mmap-events --show-task-events \
		</dev/null 2>/dev/null | awk -v stats=stats '
		BEGIN {
			while ((getline line <stats) > 0) {
				split(line, word)
				# Those of all events come first.
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

# script PERF-SCRIPT-ARGUMENT...: what was recorded, as text.
# Anybody can have a name with newlines, which perf script prints as they are. So it
# prints numbers alone, and the names are from perf's JSON.
script() {
	be_nice
	mkfifo numbers names
	# No names of inlined functions, each of which would start one.
	mkdir none
	ln -s /bin/false none/addr2line
	$nice perf script "$@" -i record.data --ns --no-inline --show-lost-events \
		-F pid,tid,cpu,time,event,period,misc,ip \
		</dev/null >numbers 2>script.log &
	script=$!
	echo $script "$(start_of $script)" >script.pid
	PATH=$dir/none:$PATH $nice perf data convert -f --to-json /proc/self/fd/3 -i record.data \
		</dev/null >names.log 2>&1 3>names &
	names=$!
	echo $names "$(start_of $names)" >names.pid
	join_names <numbers | gzip -1 >samples.gz
	wait $script || echo "early script $(log_of script)"
	wait $names || echo "early names $(log_of names)"
	maps
	rm -f script.pid names.pid record.data
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
	# Of a guest whose perf has nothing: gzip's of nothing.
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
