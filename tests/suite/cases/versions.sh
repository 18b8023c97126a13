# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Without vers= the newest that the server has; with it that one, or an error that names it.
[[ $NFSRDMA_KERNEL == ganesha ]] || skip "other servers are not told which versions they have"
trap 'end_all; vm-nfsd-restart' EXIT       # as others want it, however this ends
remote=$NFSRDMA_SERVER:/ options=${MOUNT_OPTIONS},lanes=1
daemon_ends() { ! pgrep -f "^$BIN .*$MNT" >/dev/null; }
# mounted_as OPTIONS - sets got to the version.
mounted_as() {
	"$BIN" -v "$remote" "$MNT" -o "$options${1:+,$1}" 2>"$TMPDIR/said" || fail "a mount with '$1': $(<"$TMPDIR/said")"
	got=$("$BIN" ctl "$MNT" info --json | grep -oE '"version":"[^"]*"' | cut -d'"' -f4)
	ls "$MNT" >/dev/null || fail "a mount with '$1'"
	unmount && until_true "the end" daemon_ends
}
restart() { vm-root host-ganesha stop; MINORS=$1 vm-root host-ganesha start || fail "no server with the minor versions $1"; }

mounted_as ''; equal "$got" 4.2 "the version without an option"
mounted_as vers=4; equal "$got" 4.2 "the version with vers=4"
mounted_as vers=4.1; equal "$got" 4.1 "the version with vers=4.1"
restart 1
mounted_as ''; equal "$got" 4.1 "the version of a server that has no 4.2"
grep -q 'does not speak NFSv4.2' "$TMPDIR/said" || fail "it does not say why: $(<"$TMPDIR/said")"
expect_error "does not speak NFSv4.2: try vers=4.1" "$BIN" "$remote" "$MNT" -o "$options,vers=4.2"
restart 2
mounted_as ''; equal "$got" 4.2 "the version of a server that has only 4.2"
expect_error "does not speak NFSv4.1: try vers=3" "$BIN" "$remote" "$MNT" -o "$options,vers=4.1"
