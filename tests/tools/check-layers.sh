#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# check-layers.sh [SOURCE-DIRECTORY]
#
# The layers stand in one direction:
#
#     fuse -> ring -> vfs -> nfs -> rpc -> rpcrdma -> fabric -> base
#      lib -^         ctl -^      ^- gateway
#                  doctor -^
#
# A layer includes headers of its own and of layers to its right, and lib those of ring alone. Generated and
# hand-written XDR (xdr/) belongs to what speaks protocols: nfs, gateway, rpc, rpcrdma.
# Headers of src/ itself (the program: options, daemon) are for no layer. lib is for other programs,
# which go past FUSE: it has nothing in common with the daemon but ring's protocol.
#
# The second test: each source file says its licence in an SPDX line. The third one: nothing below
# src/fuse speaks of FUSE, but for the names of the counters (base/stats.h).
#
# The last ones plant violations in a copy and see that they are found.
set -u

# shellcheck source-path=SCRIPTDIR source=results.sh
. "$(dirname "$0")/results.sh"

layers="fuse ring vfs nfs rpc rpcrdma fabric base, lib ring, ctl nfs ..., doctor ctl nfs ..., gateway rpc ..."
top=${1:-${srcdir:-.}}

# Prints the lines of files below $1/src that break the rule.
violations() # TOP
{
	right=
	for layer in base fabric rpcrdma rpc gateway nfs ctl doctor vfs ring lib fuse; do
		allowed="$right $layer"
		[ "$layer" != lib ] || allowed="ring lib"
		[ "$layer" != doctor ] || allowed="$allowed ctl"
		case $layer in gateway|ctl|doctor|lib) ;; *) right=$allowed ;; esac
		[ -d "$1/src/$layer" ] || continue
		find "$1/src/$layer" -name '*.[ch]' | sort | while read -r file; do
			awk -v allowed="$allowed" -v layer="$layer" -v file="${file#"$1"/}" -v top="$1" '
				BEGIN { n = split(allowed, a, " "); for (i = 1; i <= n; i++) ok[a[i]] = 1 }
				/^[ \t]*#[ \t]*include[ \t]*<.*fuse/ && layer != "fuse" {
					split($0, part, /[<>]/)
					print file ":" FNR ": <" part[2] ">: fuse only"
				}
				/^[ \t]*#[ \t]*include[ \t]*"/ {
					split($0, part, "\""); inc = part[2]
					if (inc == "config.h") next
					why = ""
					if (inc ~ /\.\./) why = "leaves its directory"
					else if (inc ~ /\//) {
						dir = inc; sub(/\/.*/, "", dir)
						if (!(dir in ok)) why = layer " may not use " dir
					} else if ((getline line < (top "/src/" inc)) >= 0) {
						close(top "/src/" inc)
						why = layer " may not use headers of the program"
					} else if (layer !~ /^(nfs|gateway|rpc|rpcrdma)$/)
						why = layer " may not use xdr"
					if (why != "") print file ":" FNR ": \"" inc "\": " why
				}' "$file"
		done
	done
}

unlicensed() # TOP
{
	for dir in src xdr tests contrib .ci; do
		[ -d "$1/$dir" ] && find "$1/$dir" -type f \( -name '*.[chx]' -o -name '*.sh' -o -name '*.py' \
			-o -path '*/contrib/*' -o -path '*/.ci/*' -o -path '*/tests/tools/*' \)
	done | sort | while read -r file; do
		head -n 5 "$file" | grep -q 'SPDX-License-Identifier: GPL-2.0-or-later' ||
			echo "${file#"$1"/}: no SPDX line in its first five lines"
	done
	for file in configure.ac Makefile.am autogen.sh; do
		[ ! -f "$1/$file" ] || head -n 5 "$1/$file" | grep -q SPDX-License-Identifier ||
			echo "$file: no SPDX line in its first five lines"
	done
}

# Prints lines that speak of FUSE.
speaks_of_fuse() # TOP
{
	for dir in vfs nfs rpc rpcrdma fabric base; do
		[ -d "$1/src/$dir" ] && grep -rniE '(^|[^e])fuse|libfuse' --include='*.[ch]' "$1/src/$dir"
	done | grep -vE 'nfsrdma-fuse|STAT_FUSE|base/stats\.h|src/fuse' | sed "s|^$1/||"
}

# Plants one line in a file of a tree that has nothing else, and expects a
# report that names it (or none, for what is allowed).
line() # FILE LINE EXPECTED
{
	tree=$(mktemp -d) || exit 99
	mkdir -p "$tree/$(dirname "$1")"
	: >"$tree/src/options.h"
	printf '%s\n' "$2" >"$tree/$1"
	found=$(violations "$tree")
	rm -rf "$tree"
	planted "$1: $2" "$found" "${3:+$1:1: $3}"
}

echo "1..38"
result "layers ($layers) include to the right only" "$(violations "$top")"
result "every source file has an SPDX line" "$(unlicensed "$top")"
result "below src/fuse nobody knows FUSE" "$(speaks_of_fuse "$top")"
tree=$(mktemp -d) || exit 99
mkdir -p "$tree/src/vfs"
echo '/* FUSE asks for it. */' >"$tree/src/vfs/a.c"
planted "src/vfs/a.c speaks of FUSE" "$(speaks_of_fuse "$tree")" 'src/vfs/a.c:1:/* FUSE asks for it. */'
rm -rf "$tree"
line src/base/a.c '#include "fabric/fabric.h"' '"fabric/fabric.h": base may not use fabric'
line src/rpcrdma/a.h '# include  "rpc/rpcmsg.h"' '"rpc/rpcmsg.h": rpcrdma may not use rpc'
line src/nfs/nfs4/a.c '#include "vfs/vfs.h"' '"vfs/vfs.h": nfs may not use vfs'
line src/vfs/a.c '#include "fuse/believed.h"' '"fuse/believed.h": vfs may not use fuse'
line src/vfs/a.c '#include <fuse_lowlevel.h>' '<fuse_lowlevel.h>: fuse only'
line src/nfs/a.c '#include <linux/fuse.h>' '<linux/fuse.h>: fuse only'
line src/fuse/a.c '#include <linux/fuse.h>' ''
line src/fuse/a.c '#include "nfs3.h"' '"nfs3.h": fuse may not use xdr'
line src/fuse/a.c '#include "options.h"' '"options.h": fuse may not use headers of the program'
line src/rpc/a.c '#include "../nfs/nfs.h"' '"../nfs/nfs.h": leaves its directory'
line src/gateway/a.c '#include "nfs/nfs.h"' '"nfs/nfs.h": gateway may not use nfs'
line src/nfs/a.c '#include "gateway/gateway.h"' '"gateway/gateway.h": nfs may not use gateway'
line src/lib/a.c '#include "fuse/fs.h"' '"fuse/fs.h": lib may not use fuse'
line src/fuse/a.c '#include "lib/nfsrdma.h"' '"lib/nfsrdma.h": fuse may not use lib'
line src/lib/a.c '#include "vfs/vfs.h"' '"vfs/vfs.h": lib may not use vfs'
line src/lib/a.c '#include "base/list.h"' '"base/list.h": lib may not use base'
line src/lib/a.c '#include "ring/ring.h"' ''
line src/fuse/a.c '#include "ring/ring.h"' ''
line src/ring/a.c '#include "vfs/vfs.h"' ''
line src/ring/a.c '#include "nfs/nfs.h"' ''
line src/ring/a.c '#include "fuse/fs.h"' '"fuse/fs.h": ring may not use fuse'
line src/ring/a.c '#include "lib/nfsrdma.h"' '"lib/nfsrdma.h": ring may not use lib'
line src/ring/a.c '#include <linux/fuse.h>' '<linux/fuse.h>: fuse only'
line src/vfs/a.c '#include "ring/ring.h"' '"ring/ring.h": vfs may not use ring'
line src/ctl/a.c '#include "ring/ring.h"' '"ring/ring.h": ctl may not use ring'
line src/ctl/a.c '#include "vfs/vfs.h"' '"vfs/vfs.h": ctl may not use vfs'
line src/fuse/a.c '#include "ctl/ctl.h"' '"ctl/ctl.h": fuse may not use ctl'
line src/ctl/a.c '#include "nfs/paths.h"' ''
line src/doctor/a.c '#include "ctl/client.h"' ''
line src/doctor/a.c '#include "vfs/vfs.h"' '"vfs/vfs.h": doctor may not use vfs'
line src/ctl/a.c '#include "doctor/doctor.h"' '"doctor/doctor.h": ctl may not use doctor'
line src/fuse/a.c '#include "base/list.h"' ''
line src/nfs/nfs3/a.c '#include "nfs3.h"' ''

tree=$(mktemp -d) || exit 99
mkdir -p "$tree/src"
echo 'int x;' >"$tree/src/a.c"
planted "a file without SPDX line" "$(unlicensed "$tree" | head -n 1)" \
	"src/a.c: no SPDX line in its first five lines"
rm -rf "$tree"
exit 0
