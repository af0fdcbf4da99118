#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# pv-perf record with the real ssh, in settings of users: a user with sudo, a RemoteCommand, a
# long TMPDIR. If perf is missing, the message names the package of the guest's distribution.
# vm: none
# tier: all
# packages: linux-perf openssh-server sudo
# seconds: 60
self=$(realpath "$0")
tree=${self%/selftests/*}
. "$tree/selftests/tap.sh"
. "$tree/selftests/report/functions"
one_session "$@"

# A mount namespace: changes of this machine affect only this process and its children.
if [ "${1-}" != apart ]; then
	exec unshare -m "$self" apart
fi
work=$tree/build/tests/ssh
rm -rf "$work"
mkdir -p "$work/tmp" "$work/home" /run/sshd
cd "$work" || exit 1
trap 'kill $(cat "$work/pid"); rm -f /run/pv-perf-test.pub' EXIT

# Two users who may log in: pvperf-sudo may use sudo, pvperf-plain may not.
{
	cat /etc/passwd
	for user in pvperf-sudo pvperf-plain; do
		echo "$user:*:6412${#user}:6412${#user}::/:/bin/sh"
	done
} >passwd
echo 'pvperf-sudo ALL=(root) NOPASSWD: ALL' >sudoers
chmod 440 sudoers
for file in passwd sudoers; do
	mount --bind $file /etc/$file
done

# The configurations of the ssh server and of the client.
ssh-keygen -q -N '' -t ed25519 -f host_key
ssh-keygen -q -N '' -t ed25519 -f home/id_ed25519
cp home/id_ed25519.pub /run/pv-perf-test.pub
cat >sshd_config <<-END
	ListenAddress 127.0.0.1:20023
	HostKey $work/host_key
	AuthorizedKeysFile /run/pv-perf-test.pub
	PidFile $work/pid
	StrictModes no
	UsePAM no
END
echo "[127.0.0.1]:20023 $(cat host_key.pub)" >home/known_hosts
cat >home/config <<-END
	Host guest
		HostName 127.0.0.1
		Port 20023
		RemoteCommand uptime
		RequestTTY force
END
mkdir -p ~/.ssh
mount --bind home ~/.ssh
/usr/sbin/sshd -f "$work/sshd_config"
until_true test -e pid

# record DIR ARGUMENT...
record() {
	local folder=$1
	shift
	timeout 120 "$pv_perf" record -e cpu-clock -F 200 -o "$folder" --seconds 2 "$@" \
		>"$folder.out" 2>&1
}

samples() {
	zcat "$1/$2.samples.gz" | grep -vc '^	'
}

record root --vm ssh://root@127.0.0.1:20023
more "root by ssh: the session has samples" "$(samples root 127_0_0_1_20023)" 100
record sudo --vm ssh://pvperf-sudo@127.0.0.1:20023
more "a user with sudo: the session has samples" "$(samples sudo 127_0_0_1_20023)" 100
record plain --vm ssh://pvperf-plain@127.0.0.1:20023
has "a user without sudo: record says what to do" \
	'sudo: .*Remedy: --vm ssh:root@HOST' plain.out
record command --vm ssh:root@guest
more "a host with RemoteCommand: the session has samples" "$(samples command guest)" 100

# The path of ssh's socket may have at most 108 bytes.
TMPDIR=$work/tmp/$(printf '%.0s-' $(seq 90))
mkdir "$TMPDIR"
export TMPDIR
record long --vm ssh://root@127.0.0.1:20023
more "a long TMPDIR: the session has samples" "$(samples long 127_0_0_1_20023)" 100
none "no file of ssh is left" "$(ls "$TMPDIR"; ls -d /tmp/pv-perf-ssh.* 2>/dev/null)"
unset TMPDIR

# If perf is missing or too old, machine.sh prints a remedy for the distribution.
machine=$tree/tools/pvperf/record/machine.sh
# start_on LINES PERF: run machine.sh with LINES in os-release and the script PERF as perf
start_on() {
	printf '%s\n' "$1" >os-release
	printf '%s\n' '#!/bin/sh' "$2" >bin/perf
	unshare -m sh -c "mount --bind os-release /etc/os-release
		mount --bind bin/perf /usr/bin/perf
		sh '$machine' start '$work/place' guest 30 cycles x 10" 2>&1
}
mkdir bin
touch bin/perf
chmod +x bin/perf
missing='echo perf not found for this kernel >&2; exit 2'
while read -r name lines remedy; do
	is "machine.sh names the package of perf on $name" \
		"$(start_on "$(echo "$lines" | tr ';' '\n')" "$missing")" \
		"no perf there that runs. Remedy: $remedy"
done <<-END
	Debian ID=debian apt install linux-perf
	Ubuntu ID=ubuntu;ID_LIKE=debian apt install linux-tools-$(uname -r)
	Mint ID=linuxmint;ID_LIKE="ubuntu" apt install linux-tools-$(uname -r)
	Fedora ID=fedora dnf install perf
	Rocky ID="rocky";ID_LIKE="centos" dnf install perf
	openSUSE ID="opensuse-leap";ID_LIKE="suse" zypper install perf
	Arch ID=arch pacman -S perf
	Alpine ID=alpine apk add perf
	another ID=plan9 install the package that has perf
END
is "machine.sh says that the perf of Debian 11 is too old" \
	"$(start_on ID=debian 'echo perf version 5.10.244')" \
	"perf version 5.10.244 there is too old: names of functions need perf 5.14 or later"
finish
