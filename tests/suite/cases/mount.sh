# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# A mount as a person makes it: daemonised, looked at, unmounted, again.
before=$(clients)
"$BIN" "$REMOTE" "$MNT" -o "vers=$VERS,$MOUNT_OPTIONS" || fail "mount: status $?"
mountpoint -q "$MNT" || fail "the command returned, but there is no mount"
grep -q " $MNT fuse.nfsrdma-fuse " /proc/mounts || fail "type in /proc/mounts: $(grep "$MNT" /proc/mounts)"
grep -q "^$REMOTE " /proc/mounts || fail "source in /proc/mounts"
echo hello >"$WORK/a" || fail "write"
equal "$(vm-root cat "$SERVER_WORK/a")" hello "the server's view"
equal "$(cat "$WORK/a")" hello "our view"
df "$MNT" >/dev/null || fail "df"
equal "$(df --output=size "$MNT" | tail -1)" "$(vm-root df --output=size "$EXPORT" | tail -1)" "df size"
pid=$(pgrep -f "^$BIN") || fail "no daemon"
unmount || fail "unmount"
for (( i = 0; i < 60; i++ )); do kill -0 "$pid" 2>/dev/null || break; sleep 0.05; done
kill -0 "$pid" 2>/dev/null && fail "the daemon is still there 3 s after the unmount"
[[ -z $(ls -A "$MNT") ]] || fail "the mountpoint is not empty after the unmount"
# SIGTERM unmounts, too.
mount_up
kill -TERM $DAEMON
wait $DAEMON || fail "status $? after SIGTERM"
mountpoint -q "$MNT" && fail "still mounted after SIGTERM"
# One lane and many lanes.
mount_up lanes=1
equal "$(cat "$WORK/a")" hello "with one lane"
mount_down
mount_up lanes=5
equal "$(cat "$WORK/a")" hello "with five lanes"
mount_down
# Read-only.
mount_up ro
expect_error "Read-only" touch "$WORK/b"
mount_down
equal "$(clients)" "$before" "clients that the server remembers after the unmount"
exit 0
