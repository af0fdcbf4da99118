#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The output of pv-perf-doctor for programs (--json), and the signatures of modules that it
# accepts. The kernel's keys and its lockdown depend on the firmware, so that this test
# replaces them by its own files.
# vm: none
# tier: all
# needs: build/pv-perf-doctor
# packages: openssl
# seconds: 10
self=$(realpath "$0")
tree=${self%/selftests/*}
. "$tree/selftests/tap.sh"
if [ "${1-}" != apart ]; then
	exec unshare -m "$self" apart
fi
doctor=$tree/build/pv-perf-doctor
work=$tree/build/tests/doctor.scratch
rm -rf "$work"
mkdir -p "$work"/{etc,etc.work,usr,usr.work}
cd "$work" || exit 1

# json ARGUMENT: the doctor's JSON as text, and its status in the file status.  Two checks
# with the same role and id are an error.
json() {
	"$doctor" --json "$1" >json
	echo "$?" >status
	/usr/bin/python3 - <<-'END'
		import json
		found = json.load(open("json"))
		seen = [(c["role"], c["id"]) for c in found["checks"]]
		assert len(seen) == len(set(seen)) and seen
		assert found["ok"] == all(c["ok"] for c in found["checks"])
		for c in found["checks"]:
		    print(("ok      " if c["ok"] else "not ok  ") + c["text"])
		    for line in c["remedy"]:
		        print("        " + line)
		print(found["version"], int(not found["ok"]), found["kernel"])
	END
}
for role in host guest; do
	"$doctor" $role >text
	status=$?
	is "--json $role has the same checks as the text" "$(json $role)" \
		"$(sed -n '/^\(not \)\?ok /,/^$/p' text | sed '/^$/d')
1 $status $(uname -r)"
	is "--json $role has the same exit status as the text" "$(cat status)" $status
done

# The signatures that a locked kernel accepts.
mount -t overlay overlay -o lowerdir=/etc,upperdir=etc,workdir=etc.work /etc
mount -t overlay overlay -o lowerdir=/usr/lib,upperdir=usr,workdir=usr.work /usr/lib
mkdir -p /etc/dkms
rm -rf /usr/lib/pv-perf
mount -t tmpfs none /sys/kernel/security
echo 'none [integrity] confidentiality' >/sys/kernel/security/lockdown

# certificate NAME [OPENSSL-ARGUMENT...]
certificate() {
	openssl req -new -x509 -nodes -newkey rsa:2048 -days 9 -subj "/CN=$1" -outform DER \
		-keyout "$1.key" -out "$1.der" "${@:2}" 2>/dev/null
}
certificate organisation
certificate stranger
printf '[req]\ndistinguished_name=dn\n[dn]\n' >plain.conf
certificate plain -config plain.conf
openssl x509 -inform DER -in organisation.der -out organisation.pem

# trust NAME OPENSSL-OPTION...: have /proc/keys show the key of a certificate as the kernel
# would
trust() {
	local id
	id=$(openssl x509 -inform DER -in "$1.der" -noout "${@:2}" | sed 's/.*=//' |
		grep -v Identifier | tr -d ' :\n' | tr A-F a-f)
	echo "1b2c3d4e I------     1 perm 1f010000     0     0 $(printf %.9s asymmetric) $1: $id: X509.rsa ${id: -8} []" >keys
	mount --bind keys /proc/keys
}
# signatures NAME STATUS: the doctor's check of signatures ends with STATUS
signatures() {
	"$doctor" --signatures >out
	is "$1" $? "$2"
}
trust organisation -ext subjectKeyIdentifier
signatures "an organisation's key is enrolled, and dkms signs with its own: not ok" 1
has "the doctor says how dkms can sign with the organisation's key" \
	'mok_certificate in /etc/dkms/framework.conf' out
for form in der pem; do
	echo "mok_certificate=$work/organisation.$form" >/etc/dkms/framework.conf
	signatures "dkms signs with the organisation's key, $form: ok" 0
done
echo "mok_certificate=$work/stranger.der" >/etc/dkms/framework.conf
signatures "dkms signs with a key that is not enrolled: not ok" 1
trust plain -serial
echo "mok_certificate=$work/plain.der" >/etc/dkms/framework.conf
signatures "dkms signs with an enrolled key whose certificate has no identifier: ok" 0

# For a package of built modules, dkms's key does not matter.
mkdir -p /usr/lib/pv-perf/kmod
touch /usr/lib/pv-perf/host-kmod
signatures "built modules are not signed: not ok" 1
has "the doctor says that the built modules are not signed" 'are not signed: .*' out
cp stranger.der /usr/lib/pv-perf/kmod/certificate
signatures "built modules are signed with a key that is not enrolled: not ok" 1
has "the doctor says which certificate to import" \
	'mokutil --import /usr/lib/pv-perf/kmod/certificate' out
trust organisation -ext subjectKeyIdentifier
cp organisation.der /usr/lib/pv-perf/kmod/certificate
signatures "built modules are signed with the organisation's key: ok" 0
finish
