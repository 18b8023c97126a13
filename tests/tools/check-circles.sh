#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# check-circles.sh [SOURCE-DIRECTORY] - who calls whom, read from the objects in the build folder:
#
#  - Folders stand in check-layers.sh's order. None calls one to its left.
#  - Files of one folder (its folders included) that reach each other in a circle are $most at most.
#  - No file of src has more than $longest lines.
#
# A file uses another one if it needs a symbol, function or data, that the other one defines. So a
# file that names a table of operations uses the file of the table, and that one all that stand in
# it. A call through a pointer is no use: whoever calls knows the type only, and who has set the
# pointer counts. The gateway, a program of its own, counts for the order alone. Functions that the preload has
# in the C library's place are the C library's to everybody else.
#
# The last tests plant violations and see that they are found.
set -u

# shellcheck source-path=SCRIPTDIR source=results.sh
. "$(dirname "$0")/results.sh"

top=${1:-${srcdir:-.}}
most=6
longest=500

# Prints "FILE SYMBOL TYPE" of each symbol of the objects in the build folder that still have a source.
symbols()
{
	find src -name '*.o' | sort | while read -r object; do
		[ ! -f "$top/${object%.o}.c" ] || echo "$object"
	done | xargs "${NM:-nm}" -A -P | sed 's/\.o: /.c /' | without_preloaded
}

without_preloaded()
{
	awk '$1 !~ /^src\/lib\/preload/ || $3 == "U" || $2 ~ /^preload_/'
}

# Prints each use between folders that is against the order, of symbols on stdin.
against_order()
{
	awk '
		function folder(file, part) { split(file, part, "/"); return part[2] }
		BEGIN {
			n = split("base fabric rpcrdma rpc nfs vfs ring fuse", order, " ")
			for (i = 1; i <= n; i++)
				for (j = 1; j <= i; j++)
					ok[order[i], order[j]] = 1
			for (i = 1; i <= n; i++) {
				known[order[i]] = 1
				if (i <= 4) ok["gateway", order[i]] = 1
				if (i <= 5) ok["ctl", order[i]] = 1
			}
			m = split("gateway ctl lib", beside, " ")
			for (i = 1; i <= m; i++) {
				known[beside[i]] = 1
				ok[beside[i], beside[i]] = 1
			}
		}
		$3 == "U" { user[++uses] = $1; used[uses] = $2; next }
		$3 ~ /^[A-Z]$/ { at[$2] = $1 }
		END {
			for (i = 1; i <= uses; i++) {
				if (!(used[i] in at)) continue
				from = folder(user[i]); to = folder(at[used[i]])
				if (from in known && !((from, to) in ok))
					print user[i] ": " used[i] "() is in " at[used[i]]
			}
		}'
}

# Prints each circle of files of one folder: "FOLDER SIZE FILE ...", of symbols on stdin.
circles()
{
	awk '
		function folder(file, part) {
			return split(file, part, "/") == 2 ? "src" : part[2]
		}
		# Marks all that start reaches.
		function reach(start, todo, n, file, i) {
			todo[n = 1] = start
			while (n) {
				file = todo[n--]
				for (i = 1; i <= degree[file]; i++)
					if (!((start, edge[file, i]) in reached)) {
						reached[start, edge[file, i]] = 1
						todo[++n] = edge[file, i]
					}
			}
		}
		{ if (!($1 in seen)) { seen[$1] = 1; files[++nfiles] = $1 } }
		$3 == "U" { user[++uses] = $1; used[uses] = $2; next }
		$3 ~ /^[A-Z]$/ { at[$2] = $1 }
		END {
			for (i = 1; i <= uses; i++) {
				if (!(used[i] in at)) continue
				from = user[i]; to = at[used[i]]
				if (folder(from) == folder(to) && !((from, to) in known)) {
					known[from, to] = 1
					edge[from, ++degree[from]] = to
				}
			}
			for (i = 1; i <= nfiles; i++) reach(files[i])
			for (i = 1; i <= nfiles; i++) {
				if (files[i] in told) continue
				size = 1; text = files[i]
				for (j = i + 1; j <= nfiles; j++)
					if ((files[i], files[j]) in reached && (files[j], files[i]) in reached) {
						told[files[j]] = 1; size++; text = text " " files[j]
					}
				if (size > 1) print folder(files[i]), size, text
			}
		}'
}

# Prints the circles on stdin that are too large.
large()
{
	while read -r folder size files; do
		[ "$size" -le "$most" ] || echo "src/$folder: a circle of $size files: $files"
	done
}

sources() # TOP
{
	(cd "$1" && find src -name '*.[ch]' ! -path 'src/gateway/*' | sort)
}

# Prints the files of $1/src that are too long.
long() # TOP
{
	sources "$1" | while read -r file; do
		lines=$(wc -l <"$1/$file")
		[ "$lines" -le "$longest" ] || echo "$file: $((lines)) lines"
	done
}

# Prints the number of functions, and how many lines they have on average, from name to brace.
mean() # TOP
{
	sources "$1" | (cd "$1" && xargs awk '
		/^[a-z].*\(/ { name = FNR }
		/^{/ { from = name }
		/^}/ && from { lines += FNR - from + 1; n++; from = 0 }
		END { printf "%d functions, %.1f lines each\n", n, n ? lines / n : 0 }')
}

if [ ! -f src/nfs/engine.o ]; then
	echo '1..0 # SKIP the program is not built'
	exit 0
fi
tree=$(mktemp -d) || exit 99
trap 'rm -rf "$tree"' EXIT
symbols >"$tree/symbols"

echo "1..18"
result "no folder uses one to its left" "$(against_order <"$tree/symbols")"
circles <"$tree/symbols" | grep -v '^gateway ' >"$tree/circles"
result "no circle of more than $most files in a folder" "$(large <"$tree/circles")"
result "no file of more than $longest lines" "$(long "$top")"
sort -k1,1 -k2,2nr "$tree/circles" | sed 's|^\([^ ]* [^ ]*\) |# circle in \1: |'
echo "# $(mean "$top")"

# In the program as it is: that reads the objects, and one line more.
cp "$tree/symbols" "$tree/more"
echo 'src/base/log.c nfs_call_any U  ' >>"$tree/more"
planted "base calls nfs" "$(against_order <"$tree/more" | grep nfs_call_any)" \
	"src/base/log.c: nfs_call_any() is in $(awk '$2 == "nfs_call_any" && $3 == "T" { print $1 }' "$tree/symbols")"

uses() # FILE OF-FILE: prints both symbols, of a function for each pair
{
	f=$(echo "$2" | tr / _)
	printf 'src/%s %s U\nsrc/%s %s T\n' "$1" "$f" "$2" "$f"
}

planted "nfs uses vfs" "$(uses nfs/a.c vfs/b.c | against_order)" \
	"src/nfs/a.c: vfs_b.c() is in src/vfs/b.c"
planted "a layer uses data of the program" \
	"$(printf 'src/fuse/a.c opts U\nsrc/main.c opts D\n' | against_order)" \
	"src/fuse/a.c: opts() is in src/main.c"
planted "lib uses fuse" "$(uses lib/a.c fuse/b.c | against_order)" \
	"src/lib/a.c: fuse_b.c() is in src/fuse/b.c"
planted "lib uses vfs" "$(uses lib/a.c vfs/b.c | against_order)" \
	"src/lib/a.c: vfs_b.c() is in src/vfs/b.c"
planted "base closes a file, which the preload does, too" \
	"$(printf 'src/base/a.c close U\nsrc/lib/preload_a.c close T\n' | without_preloaded | against_order)" ""
planted "base uses the preload" \
	"$(printf 'src/base/a.c preload_b U\nsrc/lib/preload_a.c preload_b T\n' | without_preloaded | against_order)" \
	"src/base/a.c: preload_b() is in src/lib/preload_a.c"
planted "ring uses fuse" "$(uses ring/a.c fuse/b.c | against_order)" \
	"src/ring/a.c: fuse_b.c() is in src/fuse/b.c"
planted "fuse uses ring, and that vfs" "$({ uses fuse/a.c ring/b.c; uses ring/b.c vfs/c.c; } | against_order)" ""
planted "nfs uses rpc" "$(uses nfs/a.c rpc/b.c | against_order)" ""
planted "a static function is nobody else's" \
	"$(printf 'src/nfs/a.c open U\nsrc/vfs/b.c open t\n' | against_order)" ""
planted "a circle through a table" \
	"$({ uses nfs/a.c nfs/nfs4/t.c; uses nfs/nfs4/t.c nfs/nfs4/b.c; uses nfs/nfs4/b.c nfs/a.c
		uses nfs/nfs4/b.c nfs/c.c; } | circles)" \
	"nfs 3 src/nfs/a.c src/nfs/nfs4/t.c src/nfs/nfs4/b.c"
most=2
planted "it is too large" \
	"$({ uses vfs/a.c vfs/b.c; uses vfs/b.c vfs/c.c; uses vfs/c.c vfs/a.c; } | circles | large)" \
	"src/vfs: a circle of 3 files: src/vfs/a.c src/vfs/b.c src/vfs/c.c"
planted "two folders are not one circle" \
	"$({ uses nfs/a.c vfs/b.c; uses vfs/b.c nfs/a.c; } | circles)" ""
mkdir -p "$tree/src/nfs"
longest=1
printf '\n\n' >"$tree/src/nfs/a.c"
printf '\n' >"$tree/src/nfs/b.c"
planted "a long file" "$(long "$tree")" "src/nfs/a.c: 2 lines"
exit 0
