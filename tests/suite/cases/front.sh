# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# The model of close-to-open (tests/cto) through two mounts, through two front ends without FUSE
# (tests/cto/front.h), and through one of each, which ends with restarts of the server.
# NFSRDMA_CTO_SECONDS: of each.
cto=${BIN%/src/*}/tests/cto/cto
[[ -x $cto ]] || skip "no $cto"
: "${NFSRDMA_CTO_SECONDS:=40}"
other=$TMPDIR/other
mkdir "$other"
trap 'end_all; vm-root umount -l "$other" 2>/dev/null; [[ ! ${other_daemon:-} ]] || kill -KILL "$other_daemon" 2>/dev/null' EXIT
mount_up
"$BIN" -f "$REMOTE" "$other" -o "vers=$VERS,$MOUNT_OPTIONS" >>"$LOG" 2>&1 & other_daemon=$!
until_true "the second mount" mountpoint -q "$other"

# differs SECONDS ARGUMENT... - a difference fails the case.
differs() {
	"$cto" --seconds "$1" --source "$REMOTE" --options "vers=$VERS,$MOUNT_OPTIONS" "${server[@]}" "${@:2}" \
		>"$TMPDIR/cto.out" 2>"$TMPDIR/cto.err" || fail "$(cat "$TMPDIR/cto.out" "$TMPDIR/cto.err")"
	cat "$TMPDIR/cto.out"
}
server=(--server "$SERVER_WORK")
[[ $VERS != 3 ]] || server+=(--old-reads)
differs "$NFSRDMA_CTO_SECONDS" "$WORK" "$other/$CASE"
differs "$NFSRDMA_CTO_SECONDS" "@/$CASE" "@/$CASE"
differs $(( NFSRDMA_CTO_SECONDS * 3 / 4 )) "$WORK" "@/$CASE"
differs $(( NFSRDMA_CTO_SECONDS / 4 )) --event "vm-nfsd-restart 1" --every 8 "@/$CASE" "$WORK"

if [[ $(id -u) == 0 ]]; then umount "$other"; else fusermount3 -u "$other"; fi || fail "unmount of the second mount"
gone $other_daemon || fail "the second daemon still runs"
wait $other_daemon || fail "the second daemon's status is $?"
other_daemon=''
mount_down
exit 0
