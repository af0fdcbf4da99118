#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The pair's health for Prometheus and Performance Co-Pilot, checked with their own tools. An
# alarm is raised if a kernel update takes the feature away.
# vm: none
# tier: all
# needs: build/pv-perf-doctor build/clients
# packages: libpcp-gui2 libpcp-pmda3 libreadline8 pcp-conf python3-pcp
# seconds: 30
tree=$(realpath "$(dirname "$0")/../..")
. "$tree/selftests/tap.sh"
. "$tree/selftests/report/functions"
begin metrics
# The programs are unpacked, not installed: Prometheus and PCP would start services.
clients=$tree/build/clients
PATH=$clients/usr/bin:$PATH
sed "s,=/,=$clients/," /etc/pcp.conf >pcp.conf
export PCP_CONF=$PWD/pcp.conf

# Has tools/pv-perf and the agent look for installed modules in this folder.
mkdir site
cat >site/sitecustomize.py <<-END
	import sys
	sys.dont_write_bytecode = True
	sys.path.insert(0, "$tree/tools")
	from pvperf.metrics import health
	health.STATE, health.MODULES = "$PWD/state", "$PWD/modules"
END
metrics() {
	PYTHONPATH=$PWD/site /usr/bin/python3 "$pv_perf" metrics --config "$PWD/service.conf" "$@"
}
# kernel RELEASE WHAT: the kernel is installed, and the record says that its KVM is WHAT
kernel() {
	mkdir -p state "modules/$1/kernel" "modules/$1/updates/dkms"
	: >"modules/$1/updates/dkms/kvm.ko.xz"
	echo "$2" >"state/$1"
}
taken_away() {
	metrics host | sed -n 's/^pv_perf_taken_away{when="\(.*\)"} /\1 /p' | paste -sd,
}
running=$(uname -r)
none "a machine without the host's package has no such metric" "$(taken_away)"
kernel "$running" "kernel 1-1 source 0"
is "a kernel with the pair: no alarm" "$(taken_away)" "now 0,next boot 0"
kernel 9999.1.0-10-amd64 "stock its source is not installed"
is "a newer kernel without the pair: alarm for the next boot" \
	"$(taken_away)" "now 0,next boot 1"
kernel 9999.1.0-9-amd64 "kernel 1-1 source 0"
is "the next boot is of the kernel that is the newest by number" \
	"$(taken_away)" "now 0,next boot 1"
kernel 9999.1.0-10-amd64 "kernel 1-1 source 0"
kernel "$running" "stock the kernel is 1-2, and the modules are built from: kernel 1-1 source 0"
is "an update with the running release: alarm for now" "$(taken_away)" "now 1,next boot 0"
kernel "$running" "kernel 1-1 source 0"
rm "modules/$running/updates/dkms/kvm.ko.xz"
is "removed modules of the running kernel: alarm for now" "$(taken_away)" "now 1,next boot 0"
mkdir modules/9999.2.0-1-amd64 modules/9999.2.0-1-amd64/kernel
is "a newer kernel without a record: alarm for the next boot" \
	"$(taken_away)" "now 1,next boot 1"

# The metrics of pv-perf service.
printf '[vms]\nonly = *\n[files]\nstate = %s/service.json\n' "$PWD" >service.conf
echo '{"windows": 3, "failed": 1, "sent": 2, "refused": 0, "unsent": 1, "bytes": 1000,
	"cpu_seconds": 1.5, "last": 1700000000.5}' >service.json
metrics host >text
has "the metrics have the service's CPU time" '^pv_perf_service_cpu_seconds_total 1\.5$' text
metrics --textfile pv-perf.prom host
ok "--textfile writes the same metrics" cmp text pv-perf.prom
is "all may read the file of --textfile, and no temporary file is left" \
	"$(stat -c %a pv-perf.prom; compgen -G '.pv-perf*')" 644
is "the metrics have each check of the doctor" "$(grep -c '^pv_perf_check' text)" \
	"$("$tree/build/pv-perf-doctor" --json host | grep -c '"role"')"
promtool check metrics <text >out 2>&1
is "promtool finds no fault in the metrics" "$? $(cat out)" "0 "

# The alarms.
cp "$tree/tools/fleet/pv-perf.rules.yml" .
promtool check rules pv-perf.rules.yml >out 2>&1
is "promtool accepts the rules" $? 0
cat >test.yml <<'END'
rule_files: [pv-perf.rules.yml]
evaluation_interval: 1m
tests:
- interval: 1m
  input_series:
  - series: 'pv_perf_taken_away{instance="a",when="next boot"}'
    values: '0x20 1x20'
  - series: 'pv_perf_taken_away{instance="b",when="now"}'
    values: '0x40'
  - series: 'pv_perf_service_last_window_timestamp_seconds{instance="a"}'
    values: '0x200'
  alert_rule_test:
  - eval_time: 25m
    alertname: PvPerfTakenAway
    exp_alerts: []
  - eval_time: 35m
    alertname: PvPerfTakenAway
    exp_alerts:
    - exp_labels: {instance: a, when: next boot, severity: warning}
      exp_annotations:
        summary: "a: a kernel's update has taken pv-perf away (next boot)"
        description: "That kernel has its own KVM, without the pair. pv-perf doctor says why, and what to do."
  - eval_time: 110m
    alertname: PvPerfServiceSilent
    exp_alerts: []
  - eval_time: 121m
    alertname: PvPerfServiceSilent
    exp_alerts:
    - exp_labels: {instance: a, severity: warning}
      exp_annotations:
        summary: "a: pv-perf service has recorded nothing for two hours"
        description: "systemctl status pv-perf. A low [budget] cpu makes windows rare."
END
promtool test rules test.yml >out 2>&1
status=$?
[ $status = 0 ] || sed 's/^/# /' out
is "Prometheus raises the alarms only for the kernel and the service that have failed" \
	$status 0

# The agent for PCP, run by dbpmda, PCP's tool that debugs agents.
kernel "$running" "kernel 1-1 source 0"
kernel 9999.2.0-1-amd64 "stock its source is not installed"
printf 'root {\n\tpvperf 467:*:*\n}\n' >pmns
agent=$tree/tools/fleet/pmda/pmdapvperf.python
cat >requests <<-END
	open pipe /usr/bin/python3 $agent
	children pvperf
	getdesc on
	fetch pvperf.taken_away
	fetch pvperf.check
	instance 467.3
END
PYTHONPATH=$PWD/site PVPERF=$tree/tools timeout 60 dbpmda -n pmns -e <requests >dbpmda.out 2>&1
has "the agent has pvperf.taken_away" '^ +leaf taken_away' dbpmda.out
is "the agent has the values of pv-perf metrics for now and next boot" \
	"$(sed -n '/^fetch pvperf.taken_away/,/^fetch pvperf.check/{
	s/.*inst .0 or .*value /now /p
	s/.*inst .1 or .*value /next boot /p}' dbpmda.out | paste -sd,)" "$(taken_away)"
is "the alarm is for the next boot" "$(taken_away)" "now 0,next boot 1"
has "the agent names the instance of the next boot" '"next boot"' dbpmda.out
# The agent lets the doctor find out whether this machine is a host or a guest.
is "the agent has each check of the doctor" \
	"$(sed -n '/^fetch pvperf.check/,/^instance/p' dbpmda.out | grep -c ' inst \[')" \
	"$(metrics | grep -c '^pv_perf_check')"

# A pmcd of this test's own, with shorter alarms that are printed.
printf 'pmcd\t2\tdso\tpmcd_init\t%s\npvperf\t467\tpipe\tbinary\t/usr/bin/python3 %s\n' \
	"$clients"/usr/lib/pcp/pmdas/pmcd/pmda_pmcd.so "$agent" >pmcd.conf
sed 's/^root {/&\n\tpvperf 467:*:*/' "$clients"/usr/lib/pcp/pmns/root_pmcd >pmns
PYTHONPATH=$PWD/site PVPERF=$tree/tools PMCD_ROOT_AGENT=0 "$clients"/usr/lib/pcp/bin/pmcd -f -A -U root \
	-i 127.0.0.1 -p 44399 -c pmcd.conf -l pmcd.log -n pmns -s "$PWD/pmcd.socket" &
pmcd=$!
trap 'kill $pmcd' EXIT
until_true pminfo -h 127.0.0.1:44399 pvperf >names 2>&1
has "pmcd accepts the agent" '^pvperf.taken_away$' names
sed 's/5 min/2 sec/; s/syslog 1 hour/print/' "$tree/tools/fleet/pv-perf.pmie" >alarms.pmie
timeout 60 pmie -h 127.0.0.1:44399 -T 10sec -c alarms.pmie >alarms 2>&1
has "pmie raises the alarm for the next boot" 'has taken pv-perf away \(next boot\)' alarms
is "pmie raises no alarm for now" "$(grep -c '(now)' alarms)" 0
finish
