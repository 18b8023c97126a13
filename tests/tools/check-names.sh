#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# check-names.sh [SOURCE-DIRECTORY]
#
# Each `function()` that doc/design.md names is defined in src or xdr, or declared by
# libfuse; each `src/...`, `vfs/...` file that it names is there.
#
# The last test plants a name that does not exist in a copy and sees that it is found.
set -u

top=${1:-${srcdir:-.}}

# Prints the names in text $1 that the tree $2 does not have.
missing() # TEXT TOP
{
	grep -o '`[a-z_0-9]*()`' "$1" | tr -d '`()' | sort -u | while read -r name; do
		case $name in readv | recvmsg | sendmsg) continue ;; esac       # system calls
		grep -rqE "^[a-z].*[ *]$name\\(" --include='*.[ch]' "$2/src" "$2/xdr" ||
			grep -qE "[ *]$name\\(" /usr/include/fuse3/fuse_lowlevel.h ||
			echo "$1: no function $name()"
	done
	grep -oE '`(src|ctl|vfs|fuse|nfs|rpc|rpcrdma|fabric|base|gateway|tests|iwarp)/[a-z0-9_/.-]*\.(c|h|sh)`' "$1" |
		tr -d '`' | sort -u | while read -r file; do
		[ -e "$2/$file" ] || [ -e "$2/src/$file" ] || [ -e "$2/src/fabric/$file" ] ||
			echo "$1: no file $file"
	done
}

echo 1..2
out=$(missing "$top/doc/design.md" "$top")
if [ -z "$out" ]; then
	echo "ok 1 - what the design names is there"
else
	echo "$out" | sed 's/^/# /'
	echo "not ok 1 - what the design names is there"
fi
copy=$(mktemp) || exit 1
trap 'rm -f "$copy"' EXIT
{ cat "$top/doc/design.md"; echo 'It calls `rr_frobnicate()` in `vfs/frob.c`.'; } >"$copy"
if [ "$(missing "$copy" "$top" | grep -c 'rr_frobnicate\|vfs/frob.c')" -eq 2 ]; then
	echo "ok 2 - what is not there is found"
else
	echo "not ok 2 - what is not there is found"
fi
