# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# For scripts that plant faults. The patch of a fault has one line of context and may apply to
# any file of its folder, so that it still applies if a function moves to another file.

# fault_file PATCH TREE: print the only file of the patch's folder, in TREE, to which the patch
# applies
fault_file() {
	local file folder found=()
	folder=$(sed -n 's,^+++ b/\(.*\)/[^/]*$,\1,p' "$1")
	for file in "$2/$folder"/*.c; do
		! patch -s -f --dry-run -F0 "$file" "$1" >/dev/null 2>&1 ||
			found+=("${file#"$2"/}")
	done
	if [ ${#found[@]} != 1 ]; then
		echo "# $1 applies to ${#found[@]} files of $folder. Remedy: make the patch anew" >&2
		return 1
	fi
	echo "${found[0]}"
}
