#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The layers of host/ and guest/: each file uses only files below it in the table "layers".
# vm: none
# tier: quick
# needs: host-objects guest-objects
# packages: @build @user
# seconds: 40
top=$(realpath "$(dirname "$0")/../..")
. "$top/selftests/tap.sh"
layers=$top/selftests/layers
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1

for side in host guest; do
	objects=("$top/$side"/*.c)
	objects=("${objects[@]##*/}")
	objects=("${objects[@]/#/$T/$side/}")
	"$layers" "$top/$side/layers" "${objects[@]/%.c/.o}" >out
	status=$?
	sed 's/^/# /' out
	is "each file of $side/ uses only files below it" $status 0
done

# Planted faults: top and bottom use each other, and middle uses bottom.
mkdir planted
cat >planted/top.h <<'END'
int top(int i);
END
cat >planted/top.c <<'END'
#include "top.h"
int bottom(int i);
int top(int i) { return i ? bottom(i - 1) : 0; }
END
cat >planted/middle.c <<'END'
int bottom(int i);
int middle(int i) { return bottom(i); }
END
cat >planted/bottom.c <<'END'
#include "top.h"
int bottom(int i) { return i ? top(i - 1) : 0; }
END
for file in planted/*.c; do
	gcc -c -o "${file%.c}.o" "$file" || exit 1
done

# planted NAME... -- OBJECT...: check the objects with a table of these names; sets status and
# writes the file out
planted() {
	local names=()
	while [ "$1" != -- ]; do
		names+=("$1")
		shift
	done
	shift
	printf '\t%s\n' "${names[@]}" >planted/layers
	"$layers" planted/layers "${@/#/planted/}" >out
	status=$?
}

planted top middle bottom -- top.o middle.o bottom.o
is "the check fails for a circle" $status 1
has "the check names the circle with its symbols" "in a circle, bottom uses top of top" out
has "the check names a use of a file above" "^bottom uses top of top, which is above" out
has "the check names an include of the header of a file above" \
	"^bottom.c includes the header of top" out
planted top top.h middle bottom -- top.o middle.o bottom.o
has "the check names an include of a header that has its own place above" \
	"^bottom.c includes the header of top" out
planted top middle bottom top.h -- top.o middle.o bottom.o
is "every file may include a header whose own place is below" "$(grep -c includes out)" 0
planted top bottom middle -- middle.o bottom.o
is "the check fails for a use of a file above without a circle" $status 1
has "the check names a file without an object" "has top, but there is no object of this name" out
planted middle bottom -- middle.o bottom.o
is "the check passes for the right order" $status 0
planted bottom -- middle.o bottom.o
is "the check fails for an object that is not in the table" $status 1
has "the check names the object that is not in the table" \
	"^middle is not in planted/layers" out
finish
