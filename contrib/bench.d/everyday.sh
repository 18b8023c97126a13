# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash disable=SC2154,SC2317 # by names that are put together
# everyday.sh - what people do with files. Of each piece of work NAME:
#
#   ready_NAME FOLDER HOW   before it, as the server sees it (not in all)
#   work_NAME FOLDER HOW    in the mount, by the clock
#   check_NAME FOLDER HOW   behind it, as the server sees it: was it done?
#
# $TMP has, besides, the file "random" and the archive "tree.tar" of 1,000 files.

readonly TREE_FILES=1000

# everyday_prepare FOLDER - what all clients use alike.
everyday_prepare() {
	head -c 64M /dev/urandom >"$TMP/random" && make_tree "$TMP/tree" &&
		tar -C "$TMP" -cf "$TMP/tree.tar" tree && cp -r "$TMP/tree" "$1/tree" ||
		{ fail "no room for the files of everyday work"; return; }
	make_source "$1/source" && make_repository "$1/repository"
}

# make_tree DIRECTORY - 20 folders of 50 files of up to 4 KiB.
make_tree() {
	local i text
	printf -v text '%4096s' ''
	mkdir "$1" || return
	for (( i = 0; i < TREE_FILES; i++ )); do
		(( i % 50 )) || mkdir "$1/$(( i / 50 ))" || return
		printf '%s' "$i${text:0:i * 61 % 4000}" >"$1/$(( i / 50 ))/file.$i" || return
	done
}

# make_repository DIRECTORY - its index is younger than its files, so that git status has
# to look at each one's attributes, and at no contents.
make_repository() {
	quietly git init -q "$1" && cp -r "$TMP/tree" "$1/tree" &&
		find "$1/tree" -type f -exec touch -d "1 minute ago" {} + &&
		quietly git -C "$1" symbolic-ref HEAD refs/heads/one &&
		quietly git -C "$1" add . && quietly git -C "$1" commit -q -m 'a thousand files' &&
		quietly git -C "$1" checkout -q -b other && add_line "$1/tree" &&
		quietly git -C "$1" commit -q -a -m 'a fifth of them changed' &&
		quietly git -C "$1" checkout -q one || fail "git: $REASON"
}

# add_line DIRECTORY - to each fifth of the files.
add_line() {
	local i
	for (( i = 0; i < TREE_FILES; i += 5 )); do
		echo "another line" >>"$1/$(( i / 50 ))/file.$i" || { fail "no room"; return; }
	done
}

# make_source DIRECTORY - a program of four files and a header.
make_source() {
	local i
	mkdir "$1" || return
	printf 'int part(int n);\n' >"$1/part.h"
	for i in 1 2 3; do
		printf '#include <stdio.h>\n#include <stdlib.h>\n#include "part.h"\nint part%d(int n) { return n > %d ? abs(n) : puts("small"); }\n' \
			$i $i >"$1/part$i.c"
	done
	printf '#include <stdio.h>\nint part1(int), part2(int), part3(int);\nint main(void) { printf("%%d\\n", part1(7) + part2(8) + part3(9)); }\n' >"$1/main.c"
	printf 'OBJECTS = main.o part1.o part2.o part3.o\nprogram: $(OBJECTS)\n\t$(CC) -o $@ $(OBJECTS)\n' >"$1/Makefile"
}

# git reads what another user has written, which a server that squashes root makes of us,
# and writes nothing while it looks.
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*' GIT_OPTIONAL_LOCKS=0
export GIT_AUTHOR_NAME=bench GIT_AUTHOR_EMAIL=bench@localhost GIT_COMMITTER_NAME=bench GIT_COMMITTER_EMAIL=bench@localhost

# size_is FILE MIB
size_is() {
	[[ $(stat -c %s "$1" 2>/dev/null) == $(( $2 * 1048576 )) ]] || fail "${1##*/} does not have $2 MiB"
}

# files_are DIRECTORY COUNT
files_are() {
	local n
	n=$(find "$1" -type f 2>/dev/null | wc -l)
	(( n == $2 )) || fail "${1##*/} has $n files, not $2"
}

ready_cp_in() { rm -f "$1/random"; }
work_cp_in() { limited cp "$TMP/random" "$1/random"; }
check_cp_in() { cmp -s "$TMP/random" "$1/random" || fail "the copy differs from the original"; }

ready_cp_out() { rm -f "$TMP/copy" && cp "$TMP/random" "$1/random" || fail "no room"; }
work_cp_out() { limited cp "$1/random" "$TMP/copy"; }
check_cp_out() {
	cmp -s "$TMP/random" "$TMP/copy" || fail "the copy differs from the original"
	rm -f "$TMP/copy"
}

# 64 MiB in blocks of 1 MiB, 32 MiB of 64 KiB, 16 MiB of 4 KiB.
blocks() { case $1 in 1m) REPLY=64 ;; 64k) REPLY=512 ;; *) REPLY=4096 ;; esac; }
ready_dd_write() { rm -f "$1/dd"; }
work_dd_write() { blocks "$2"; limited dd if=/dev/zero of="$1/dd" bs="${2^^}" count="$REPLY"; }
check_dd_write() { case $2 in 1m) size_is "$1/dd" 64 ;; 64k) size_is "$1/dd" 32 ;; *) size_is "$1/dd" 16 ;; esac; }

# dd-write leaves the rest to close(), as most programs do.
ready_dd_fsync() { ready_dd_write "$@"; }
work_dd_fsync() { blocks "$2"; limited dd if=/dev/zero of="$1/dd" bs="${2^^}" count="$REPLY" conv=fsync; }
check_dd_fsync() { check_dd_write "$@"; }

ready_dd_read() { blocks "$2"; dd if=/dev/zero of="$1/dd" bs="${2^^}" count="$REPLY" status=none || fail "no room"; }
work_dd_read() { limited dd if="$1/dd" of="/dev/null" bs="${2^^}"; }
check_dd_read() {
	blocks "$2"
	grep -q "^$REPLY+0 records in" "$TMP/said" || fail "dd has not read all: $(<"$TMP/said")"
}

# 300 files of 1 KiB in one folder.
ready_create() { rm -rf "$1/created" && mkdir "$1/created"; }
# shellcheck disable=SC2016 # perl's
work_create() {
	limited perl -e 'my $x = "x" x 1024;
		for (1 .. 300) { open my $f, ">", "$ARGV[0]/$_" or die $!; syswrite $f, $x or die $!; close $f or die $! }' "$1/created"
}
check_create() { (( $(find "$1/created" -type f -size 1k | wc -l) == 300 )) || fail "not all of the 300 files have 1 KiB"; }

work_read_small() { limited find "$1/tree" -type f -exec cat {} +; }
# The order of files is the file system's.
check_read_small() {
	local bytes
	bytes=$(find "$1/tree" -type f -printf '%s\n' | awk '{ n += $1 } END { print n }')
	[[ $(wc -c <"$TMP/said") == "$bytes" ]] || fail "not all bytes were read"
}

ready_untar() { rm -rf "$1/untar" && mkdir "$1/untar"; }
work_untar() { limited tar -C "$1/untar" -xf "$TMP/tree.tar"; }
check_untar() { quietly tar -C "$1/untar" -df "$TMP/tree.tar" && files_are "$1/untar" $TREE_FILES; }

# The index is to know the files by what they look like now.
ready_git_status() { quietly git -C "$1/repository" checkout -q one && quietly git -C "$1/repository" update-index -q --refresh; }
work_git_status() { limited git -C "$1/repository" status --porcelain; }
check_git_status() { [[ ! -s $TMP/said ]] || fail "git status says: $(head -n 2 "$TMP/said")"; }

# 200 files are written, and the index.
ready_git_checkout() { ready_git_status "$@"; }
work_git_checkout() { limited git -C "$1/repository" checkout -q other; }
check_git_checkout() {
	quietly git -C "$1/repository" diff --quiet other && (( $(grep -rl 'another line' "$1/repository/tree" | wc -l) == 200 )) ||
		fail "git checkout has not changed a fifth of the files"
}

work_ls_lR() { limited ls -lR "$1/tree"; }
check_ls_lR() { (( $(grep -c ' file\.' "$TMP/said") == TREE_FILES )) || fail "ls has not listed $TREE_FILES files"; }

ready_rm_r() { rm -rf "$1/doomed" && cp -r "$TMP/tree" "$1/doomed" || fail "no room for $TREE_FILES files"; }
work_rm_r() { limited rm -r "$1/doomed"; }
check_rm_r() { [[ ! -e $1/doomed ]] || fail "rm has left something"; }

ready_compile() { rm -f "$1/source"/*.o "$1/source/program"; }
work_compile() { limited make -C "$1/source"; }
check_compile() { [[ $("$1/source/program" 2>&1) == 24 ]] || fail "the compiled program does not print 24"; }

# 20 transactions of 50 rows, and one that reads them all.
ready_sqlite3() {
	local i
	rm -f "$1"/db*
	{
		echo 'create table t (id integer primary key, what text);'
		for i in {1..20}; do
			echo "begin; with recursive n(i) as (select 1 union all select i + 1 from n where i < 50)
				insert into t (what) select hex(randomblob(50)) from n; commit;"
		done
		echo 'select count(*) from t;'
	} >"$TMP/sql"
}
work_sqlite3() { limited sqlite3 "$1/db" ".read $TMP/sql"; }
check_sqlite3() { [[ $(<"$TMP/said") == 1000 ]] || fail "sqlite3 counts: $(head -n 2 "$TMP/said")"; }
