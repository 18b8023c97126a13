# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# A server that comes late: the command waits (retry=), or goes to the background (bg); and what will never be is
# said at once.
has_gateway
options="vers=$VERS,$MOUNT_OPTIONS,port=20141"
now() { REPLY=$(( ${EPOCHREALTIME/./} / 1000 )); }
daemon_of() { pgrep -f "^$BIN .*port=20141" | head -n 1; }
no_daemon() { [[ ! $(daemon_of) ]]; }
trap 'end_all; pkill -KILL -f "^$BIN .*port=20141"' EXIT

# Without: at once. With retry=: when the server is there.
expect_error "" "$BIN" "$REMOTE" "$MNT" -o "$options"
"$BIN" "$REMOTE" "$MNT" -o "$options,retry=2" 2>"$TMPDIR/said" & command=$!
until_true "the first attempt" grep -q 'trying for 2 minutes' "$TMPDIR/said"
gateway_up 20141 "$NFSRDMA_SERVER"
wait $command || fail "a mount with retry=: $(<"$TMPDIR/said")"
is_mounted || fail "no mount with retry="
unmount && until_true "the end" no_daemon
gateway_down

# bg: the command ends, and the mount comes with the server.
now; from=$REPLY
"$BIN" "$REMOTE" "$MNT" -o "$options,bg" 2>"$TMPDIR/said" || fail "a mount with bg: $(<"$TMPDIR/said")"
now; at_most $(( REPLY - from )) 30000 "ms until the command with bg has ended"
grep -q 'trying for 10000 minutes' "$TMPDIR/said" || fail "it does not say that it tries again: $(<"$TMPDIR/said")"
is_mounted && fail "a mount without a server"
[[ $(daemon_of) ]] || fail "nobody is in the background"
gateway_up 20141 "$NFSRDMA_SERVER"
until_true "the mount in the background" is_mounted
ls "$MNT" >/dev/null || fail "the mount in the background"
unmount && until_true "the end" no_daemon
# It is there already: no difference.
"$BIN" "$REMOTE" "$MNT" -o "$options,bg" || fail "bg, with a server"
is_mounted || fail "no mount with bg when the command had ended"
unmount && until_true "the end" no_daemon
# What will never be.
expect_error "/no/such/export" "$BIN" "${REMOTE%%:*}:/no/such/export" "$MNT" -o "$options,bg"
expect_error "/no/such/place" "$BIN" "$REMOTE" /no/such/place -o "$options,bg"
gateway_down

# In the background it ends by a signal.
"$BIN" "$REMOTE" "$MNT" -o "$options,bg" 2>/dev/null || fail "a mount with bg"
kill -TERM "$(daemon_of)"
until_true "the end in the background" no_daemon
