# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# nfsrdma-gateway listening on the server's RDMA device (fabric verbs, passive
# side), between the client and knfsd's TCP port: data, long replies, a gateway
# that is restarted, and one that has no server.
[[ $NFSRDMA_FABRIC == rxe || $NFSRDMA_FABRIC == siw ]] || skip "no RDMA device here"
has_gateway
trap 'end_all; grep -h . "$GATEWAY_LOG"' EXIT

gateway_up 20050 "$NFSRDMA_SERVER" --fabric auto
grep -q 'listening on .* port 20050, fabric verbs' "$GATEWAY_LOG" || fail "it did not take the device"
mount_up port=20050,deleg
mkdir "$TMPDIR/src"
for s in 0 1 4097 65457 1048577 3000001; do random "$TMPDIR/src/$s" $s; done
cp -r "$TMPDIR/src" "$WORK/up" || fail "cp up"
vm-root cp -r "$TMPDIR/src" "$SERVER_WORK/down" && vm-root chmod -R a+rwX "$SERVER_WORK/down"
for dir in "$SERVER_WORK/up" "$WORK/down"; do
	diff -r "$TMPDIR/src" "$dir" || fail "the files in $dir"
done
dd if="$TMPDIR/src/3000001" of="$WORK/direct" bs=1000003 oflag=direct status=none || fail "O_DIRECT write"
same "$TMPDIR/src/3000001" "$SERVER_WORK/direct"
dd if="$WORK/up/3000001" of="$TMPDIR/back" bs=777777 iflag=direct status=none || fail "O_DIRECT read"
same "$TMPDIR/src/3000001" "$TMPDIR/back"
# Replies that need a Reply chunk, and one that is placed.
vm-root bash -c "mkdir '$SERVER_WORK/d' && touch '$SERVER_WORK/d'/{001..150}-with-a-name-that-is-long"
equal "$(find "$WORK/d" -type f | wc -l)" 150 "files of a folder"
ln -s "$(printf '%0900d' 7)" "$WORK/link" || fail "ln -s"
equal "$(readlink "$WORK/link")" "$(printf '%0900d' 7)" "a long link"
equal "$(stat_now rdma.errors)" 0 rdma.errors
equal "$(stat_last rpc.bad_replies)" 0 rpc.bad_replies
equal "$(stat_last conn.downs)" 0 conn.downs

# The gateway goes in the middle of a write, and comes back.
dd if="$TMPDIR/src/3000001" of="$WORK/restart" bs=16k oflag=direct status=none & writer=$!
until_true "the first bytes" test -s "$SERVER_WORK/restart"
gateway_down
gateway_up 20050 "$NFSRDMA_SERVER" --fabric auto
wait $writer || fail "a write while the gateway was restarted"
same "$TMPDIR/src/3000001" "$SERVER_WORK/restart"
at_least "$(stat_now conn.downs)" 1 "connections lost when the gateway ended"

# The server's calls come through it: a delegation is recalled.
if [[ $VERS != 3 ]]; then
	nr=0
	# Files of above may have delegations, too.
	is_delegated() {
		local before
		before=$(stat_now delegs.read)
		(( ++nr ))
		echo old >"$SERVER_WORK/recalled.$nr"
		cat "$WORK/recalled.$nr" >/dev/null && (( $(stat_now delegs.read) > before ))
	}
	until_true "a delegation" is_delegated
	in_time 30 bash -c 'echo new >"$1"' - "$SERVER_WORK/recalled.$nr"
	equal "$(<"$WORK/recalled.$nr")" new "a file that was recalled"
	at_least "$(stat_now rpc.DELEGRETURN)" 1 "DELEGRETURNs"
fi
mount_down
until_true "the client has gone" grep -q 'connection [0-9]* ends: ' "$GATEWAY_LOG"
grep -q 'connection [0-9]* ends: the connection was closed by the other side' "$GATEWAY_LOG" ||
	fail "the gateway did not notice that the client has gone"
gateway_down

# There is no server behind it: the client is told at once.
gateway_up 20051 "$NFSRDMA_SERVER:9" --fabric auto
rejected="turned the connection down"
[[ $MOUNT_OPTIONS == *fabric=iwarp* ]] && rejected="the peer rejected the connection"
expect_error "$rejected" "$BIN" "$REMOTE" "$MNT" -o "vers=$VERS,$MOUNT_OPTIONS,port=20051"
gateway_down

# A device leads to the server, which has only iWARP: the mount without fabric= finds it.
if [[ $MOUNT_OPTIONS == *fabric=verbs* ]]; then
	gateway_up 20052 "$NFSRDMA_SERVER" --fabric iwarp
	MOUNT_OPTIONS=${MOUNT_OPTIONS//fabric=verbs/fabric=auto}
	mount_up port=20052
	same "$TMPDIR/src/3000001" "$WORK/restart"
	grep -q 'by iwarp the server answers' "$LOG" || fail "nobody says by what the server is reached: $(tail -n 3 "$LOG")"
	"$BIN" doctor "$REMOTE" -o "vers=$VERS,$MOUNT_OPTIONS,port=20052" >"$TMPDIR/doctor"
	grep -q 'costs something: fabric:.*iWARP in user space does' "$TMPDIR/doctor" || fail "doctor: $(<"$TMPDIR/doctor")"
	mount_down
	gateway_down
fi
exit 0
