#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The memory that pv-perf record and its perfs need does not grow with the length of a session.
# Four domains are recorded: this machine, and three guests behind a stand-in for ssh, which are
# this machine, too. LONG=1: as many samples as four domains have in an hour at 1,000 Hz on one
# CPU each, 14,400,000, in minutes.
# vm: none
# tier: all
# packages: linux-perf python3-libvirt
# seconds: 140
self=$(realpath "$0")
tree=${self%/selftests/*}
. "$tree/selftests/tap.sh"
. "$tree/selftests/report/functions"
one_session "$@"
begin record-hour

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

# hour NAME SECONDS PERIOD: record for so long, with a sample per PERIOD ns of each CPU. Sets
# samples to their number; mb to the most memory that the processes of one machine have had at a
# time, the host's with pv-perf; and all to the most of all machines. These are MB without pages
# of files, which the kernel can drop.
cat >hour.py <<'END'
import json, os, subprocess, sys, time
name, seconds, period, pv_perf = sys.argv[1:]
with open(name + ".out", "w") as out:
    session = subprocess.Popen(
        [pv_perf, "record", "-e", "cpu-clock", "-c", period, "-g", "--limit", "4096",
         "--patience", "600", "-o", name, "--seconds", seconds,
         "--vm", "ssh:one", "--vm", "ssh:two", "--vm", "ssh:three"], stdout=out, stderr=out)
def anonymous(pid):
    with open(f"/proc/{pid}/status") as f:
        return sum(int(line.split()[1]) for line in f
                   if line.startswith(("RssAnon", "RssShmem")))
def machine_of(pid):
    """The folder of a machine, in which its processes run."""
    if pid == str(session.pid):
        return "/.host"
    where = os.readlink(f"/proc/{pid}/cwd")
    return "/.host" if where.endswith("/.host") else where if "/pv-perf." in where else None
most = every = 0
while session.poll() is None:
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            machine = machine_of(pid)
            if machine:
                found[machine] = found.get(machine, 0) + anonymous(pid)
        except OSError:             # the process has ended
            pass
    most, every = max(most, 0, *found.values()), max(every, sum(found.values()))
    time.sleep(0.2)
if session.returncode:
    sys.exit(open(name + ".out").read())
samples = 0
for d in json.load(open(name + "/session.json"))["domains"]:
    zcat = subprocess.run(f"zcat {name}/{d['samples']} | grep -vc '^\t'", shell=True,
                          capture_output=True, text=True, check=True)
    samples += int(zcat.stdout) + d["lost"]
print(samples, most >> 10, every >> 10)
END
hour() {
	/usr/bin/python3 hour.py "$@" "$pv_perf" >"$1.said" 2>&1 || sed 's/^/# /' "$1.said"
	read -r samples mb all <"$1.said"
	echo "# $samples samples: at most $mb MB of one machine, and $all MB of all four"
}

# LONG: all CPUs of the four domains together have 10,000 samples per second and domain.
long && period=$(($(nproc) * 100000)) seconds=360 || period=1000000 seconds=50
hour short $((seconds / 10)) $period
less=$mb
some=$samples
hour whole $seconds $period
more "a session of ten times the length has many more samples" "$samples" $((some * 4))
ok "with these samples record takes at most half as much memory again" \
	test "$mb" -gt 0 -a "$mb" -lt $((less * 3 / 2))
ok "record takes less than 500 MB on each machine" test "$mb" -lt 500
small "report takes less than 500 MB for this session" 500 "$pv_perf" report whole
finish
