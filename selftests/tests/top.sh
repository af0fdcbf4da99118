#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# perf top in a guest. With the real clock: it waits most of the time.
# vm: host --no-icount --timeout 900
. "$VM_TREE/selftests/tap.sh"
T=$VM_TREE/build/tests
cd "$VM_SCRATCH" || exit 1

if [ "$VM_LEVEL" = host ]; then
	exec "$VM_TREE/selftests/vm" guest --cpus 1 -- "$0"
fi

(while [ ! -e top.done ]; do "$T/calltree"; done) &
# A stdin that neither ends nor has a key for it.
sleep 60 | timeout -s INT 25 perf top --stdio -d 5 >top 2>top.err
touch top.done
sed 's/^/# /' top.err
for f in aa bb c; do
	has "perf top shows the function $f" "calltree +\\[\\.\\] $f\$" top
done
finish
