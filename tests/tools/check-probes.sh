#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# check-probes.sh - the probes of the program are those of doc/probes.md, with as many arguments, and the examples use
# no others. It reads the notes of the ELF file: whether bpftrace can attach is not seen here.
set -u

top=${srcdir:-.}
bin=${PROBES_OF:-src/nfsrdma-fuse}

# Lines "NAME ARGUMENTS" of table $1.
of_table() { sed -n 's/^| `\([a-z_]*\)` |/\1 |/p' "$1" | awk -F'|' '{ n = 0; for (i = 2; i < NF; i++) n += $i ~ /[^ ]/; print $1 n }' | sort; }
# The same of file $1. One probe may be in several places.
of_file() {
	readelf -n "$1" 2>/dev/null | awk '/Provider: / { ours = $2 == "nfsrdma" } /Name: / { name = $2 }
		/Arguments:/ && ours { print name, NF - 1 }' | sort -u
}
# The same of what example $1 uses: arguments up to the highest one.
of_example() {
	awk -F: '/^usdt:/ { name = $4 } name { while (match($0, /arg[0-9]/)) {
		n = substr($0, RSTART + 3, 1) + 1; if (n > most[name]) most[name] = n; $0 = substr($0, RSTART + 4) } }
		END { for (i in most) print i, most[i] }' "$1"
}
# fits EXAMPLE TABLE
fits() { of_example "$1" | awk 'NR == FNR { has[$1] = $2; next } !($1 in has) || $2 > has[$1] { exit 1 }' "$2" -; }

if ! grep -q '^#define HAVE_USDT 1' config.h 2>/dev/null; then
	echo "1..0 # SKIP built without probes"
	exit 0
fi
command -v readelf >/dev/null || { echo "1..0 # SKIP no readelf"; exit 0; }
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
of_table "$top/doc/probes.md" >"$tmp/table"
of_file "$bin" >"$tmp/file"
echo "1..5"
ok() { if [ "$1" = 0 ]; then echo "ok $2"; else echo "not ok $2"; fi; }
diff "$tmp/table" "$tmp/file" >"$tmp/diff" && [ -s "$tmp/table" ]
ok $? "1 - $(wc -l <"$tmp/table") probes of doc/probes.md, as the notes of the program have them"
sed 's/^/# /' "$tmp/diff"
n=2
for example in "$top"/contrib/examples/*.bt; do
	fits "$example" "$tmp/table"
	ok $? "$n - ${example##*/}"
	n=$((n + 1))
done
sed 's/ | XID | path |/ | path |/' "$top/doc/probes.md" >"$tmp/doc.md"
of_table "$tmp/doc.md" | cmp -s - "$tmp/file"
ok $(( $? != 1 )) "4 - planted: an argument less"
printf 'usdt:$1:nfsrdma:call_ends\n{ @ = arg0; }\n' >"$tmp/example.bt"
fits "$tmp/example.bt" "$tmp/table"
ok $(( $? != 1 )) "5 - planted: a probe that is not there"
