# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# The end of a mount under a program that has written by way of a shared mapping, and has neither
# called msync() nor closed the file: the server gets what it has written until then. And a mapping
# beside an open that only writes: it has what was written.
mapped=${BIN%/src/*}/tests/vm-clients/mapped beside=${BIN%/src/*}/tests/vm-clients/beside
[[ -x $mapped && -x $beside ]] || skip "no $mapped or $beside"
HOLDER='' size=$(( 4 << 20 )) pages=6000
trap 'end_all; [[ ! $HOLDER ]] || kill -KILL $HOLDER' EXIT

# hold FILE [SIZE scatter] - a program that has written it and goes on.
hold() {
	: >"$TMPDIR/said"
	"$mapped" "$1" "${2-$size}" "${3-hold}" >"$TMPDIR/said" & HOLDER=$!
	until_true "a mapping is written" grep -q written "$TMPDIR/said"
}
let_go() { kill $HOLDER; gone $HOLDER || fail "the program does not end"; HOLDER=''; }
# is_whole FILE [BYTES]
is_whole() { equal "$(tr -d -c m <"$SERVER_WORK/$1" | wc -c)" "${2-$size}" "$1: bytes that the server has"; }
ended() { gone "$DAEMON" || fail "the daemon still runs a minute after $1"; DAEMON=''; }

# With noac nothing is held: the kernel's WRITEs are answered by the server.
for options in '' noac; do
	mount_up $options
	hold "$WORK/term$options"
	kill -TERM "$DAEMON"
	ended SIGTERM
	is_whole term$options
	let_go
done

# More WRITEs than the kernel has under way at once: each page by itself is one.
for options in '' noac; do
	mount_up $options
	hold "$WORK/scattered$options" $(( 2 * pages * $(getconf PAGESIZE) )) scatter
	kill -TERM "$DAEMON"
	ended "SIGTERM, with many pages"
	is_whole scattered$options $pages
	let_go
done

# Kernels that do not drop pages when a write that goes past them ends (src/fuse/open.c) show it.
mount_up
"$beside" "$WORK/beside" 100 || fail "a mapping is older than a write() that has returned"
mount_down

# Many files: the kernel leaves some out while it has many WRITEs under way.
HOLDERS=()
all_written() { (( $(cat "$TMPDIR"/said.* | grep -c written) == 20 )); }
mount_up noac
for (( i = 0; i < 20; i++ )); do
	"$mapped" "$WORK/many$i" $(( 256 * $(getconf PAGESIZE) )) scatter >"$TMPDIR/said.$i" & HOLDERS+=($!)
done
trap 'end_all; kill -KILL "${HOLDERS[@]}" $HOLDER 2>/dev/null' EXIT
until_true "many mappings are written" all_written
kill -TERM "$DAEMON"
ended "SIGTERM, with many files"
for (( i = 0; i < 20; i++ )); do is_whole many$i 128; done
kill "${HOLDERS[@]}"
for i in "${HOLDERS[@]}"; do gone "$i" || fail "a program does not end"; done
HOLDERS=()

# Root's mount has no name any more, because another one covers it, or somebody has unmounted it
# lazily.
if [[ $(id -u) == 0 ]]; then
	mount_up
	hold "$WORK/covered"
	mount -t tmpfs cover "$MNT" || fail "mount"
	kill -TERM "$DAEMON"
	ended "SIGTERM, under another mount"
	umount "$MNT" || fail "umount: the other mount"
	is_whole covered
	let_go
	umount "$MNT" || fail "umount: it was covered"

	mount_up
	hold "$WORK/nowhere"
	umount -l "$MNT" || fail "umount -l"
	kill -TERM "$DAEMON"
	ended "SIGTERM, behind umount -l"
	is_whole nowhere
	let_go
fi

# An ordinary user's mount has nothing but its name, and its root may be closed to him. Then the log
# says what may be lost.
# is_said FILE WHY
is_said() {
	grep -F "written through mappings may be lost" "$LOG" | tail -n 1 | grep -F "$2)" | grep -qF "1 open files may have such data; one is '$WORK/$1'" ||
		fail "nobody says that $1 may be lost: $(tail -n 2 "$LOG")"
}
if [[ $(id -u) != 0 ]]; then
	mount_up
	hold "$WORK/covered"
	vm-root mount -t tmpfs cover "$MNT" || fail "mount"
	kill -TERM "$DAEMON"
	ended "SIGTERM, under another mount"
	is_said covered "something else is mounted over it"
	equal "$(stat -f -c %T "$MNT")" tmpfs "the other mount, which is not ours to take away"
	let_go
	while mountpoint -q "$MNT"; do vm-root umount "$MNT" || fail "umount"; done

	mount_up
	hold "$WORK/nowhere"
	unmount -l || fail "umount -l"
	first=$DAEMON
	mount_up
	kill -TERM "$first"
	gone "$first" || fail "the first daemon still runs a minute after SIGTERM"
	is_said nowhere "it is no longer mounted"
	let_go
	[[ -e $WORK/nowhere ]] || fail "the first daemon has taken the second one's mount away"
	mount_down

	trap 'vm-root chmod 755 "$EXPORT"; end_all; [[ ! $HOLDER ]] || kill -KILL $HOLDER' EXIT
	vm-root chmod 711 "$EXPORT"
	mount_up default_permissions
	hold "$WORK/closed"
	kill -TERM "$DAEMON"
	ended "SIGTERM, and its root is closed"
	is_said closed "Permission denied"
	let_go
	vm-root chmod 755 "$EXPORT"
fi

mount_up
hold "$WORK/lazy"
unmount -l || fail "umount -l"
let_go
ended "umount -l, and the program's end"
is_whole lazy

mount_up
hold "$WORK/umount"
let_go
mount_down
is_whole umount
