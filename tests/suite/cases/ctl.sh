# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# The command ctl: what it shows and changes, also of a mount whose server is silent, and to
# whom.
has_gateway
trap end_all EXIT
gateway_up 20190 "$NFSRDMA_SERVER"
mount_up port=20190,timeo=600
# status WANT WHAT COMMAND... - ends with that status.
status() {
	"${@:3}" >"$TMPDIR/said" 2>&1
	equal $? "$1" "$2: status ($(<"$TMPDIR/said"))"
}

# what it shows: with -f the mount is seen a moment before its control socket
ctl "$MNT" paths | grep -qE '^ *0 +[^ ]+ +any +connected ' || fail "paths: $(ctl "$MNT" paths)"
[[ $(ctl "$MNT" paths --json) == *'"state":"connected"'* ]] || fail "paths: $(ctl "$MNT" paths --json)"
head -c 3M /dev/zero >"$WORK/f" || fail "write"
sync "$WORK/f"
ctl "$MNT" stats >"$TMPDIR/all" || fail stats
for name in rpc.calls rpc.WRITE path.0.calls now.inodes; do
	grep -qE "^$name [1-9][0-9]*$" "$TMPDIR/all" || fail "stats: no $name: $(grep -F "$name" "$TMPDIR/all")"
done
equal "$(stat_now path.0.connections)" "$(awk '$1 == "path.0.connections" { print $2 }' "$TMPDIR/all")" "connections"
[[ $(ctl "$MNT" top --count 1 --interval 0.2) == *"calls/s by kind:"* ]] || fail "top"

# what it changes
for policy in round-robin min-latency min-inflight; do
	equal "$(ctl "$MNT" policy $policy)" $policy "policy that is set"
	equal "$(ctl "$MNT" policy)" $policy policy
done
status 1 "a policy that does not exist" ctl "$MNT" policy best
status 1 "the last path" ctl "$MNT" remove-path 0
status 1 "a path that does not exist" ctl "$MNT" remove-path 7
[[ $(ctl "$MNT" info) == "version $VERS by "*", rsize "*"inline 4096/4096 bytes"*memreg=* ]] || fail "info: $(ctl "$MNT" info)"
[[ $(ctl "$MNT" info --json) == *'"info":{"text":"version '*'"connections":2'* ]] || fail "info: $(ctl "$MNT" info --json)"
grep -q "is mounted on '$MNT': version $VERS by " "$LOG" || fail "the mount does not say what it has come to"
status 2 "no such command" ctl "$MNT" umount
ctl "$MNT" reconnect all >/dev/null || fail reconnect
echo again >"$WORK/g" || fail "write after reconnect"
equal "$(<"$SERVER_WORK/g")" again "a file written after reconnect"

# who may, and where
status 3 "no mount" ctl "$TMPDIR" paths
status 3 "nothing there" ctl "$TMPDIR/none/such" paths
if [[ $(id -u) == 0 ]]; then
	chmod 755 "$TMPDIR"
	cp "$BIN" "$TMPDIR/program" && chmod 755 "$TMPDIR/program"
	status 1 "another user" setpriv --reuid 12345 --clear-groups "$TMPDIR/program" ctl "$MNT" paths
else
	vm-root "$BIN" ctl "$MNT" paths >/dev/null || fail "root may not control a user's mount"
fi
# The mount point by another way. What it is like is for no one to say but the server.
ln -s "$MNT" "$TMPDIR/link"
ctl "$TMPDIR/link" policy >/dev/null || fail "a link to the mount point"
(cd "$MNT" && ctl . policy) >/dev/null || fail "the mount point as ."

# 200 at once
for (( i = 0; i < 200; i++ )); do ctl "$MNT" paths >"$TMPDIR/many.$i" 2>&1 & many+=($!); done
for (( i = 0; i < 200; i++ )); do
	wait "${many[i]}" || grep -q 'too many control connections' "$TMPDIR/many.$i" ||
		fail "one of 200: $(<"$TMPDIR/many.$i")"
done

# a silent server
vm-root kill -STOP "$GATEWAY"
echo late >"$WORK/h" & late=$!
sleep 0.5
in_time 20 "$BIN" ctl "$MNT" paths
in_time 20 "$BIN" ctl "$MNT" stats
vm-root kill -CONT "$GATEWAY"
wait $late || fail "the write that waited"

# the next mount of that device number, while the last daemon may still be there
for i in 1 2 3; do
	mount_down
	mount_up port=20190
	ctl "$MNT" policy >/dev/null || fail "after mount number $i"
done
# Those who listen, and do not read, do not keep other commands away; nor the mount.
said_before=$(grep -c 'listens to single requests' "$LOG")
all_listen() { (( $(grep -c 'listens to single requests' "$LOG") - said_before == 24 )); }
listeners=()
for (( i = 0; i < 32; i++ )); do
	(( i != 24 )) || until_true "24 who listen" all_listen
	"$BIN" ctl "$MNT" log >"$TMPDIR/listener.$i" 2>&1 & listeners+=($!)
done
for (( i = 24; i < 32; i++ )); do
	wait "${listeners[i]}"; equal $? 1 "the status of a listener too many"
	grep -q '24 others listen already' "$TMPDIR/listener.$i" || fail "a listener too many: $(<"$TMPDIR/listener.$i")"
done
kill -STOP "${listeners[@]:0:24}"
ctl "$MNT" policy >/dev/null || fail "a command beside those who listen"
ctl "$MNT" abort >"$TMPDIR/said" 2>&1 || fail "abort beside those who listen: $(<"$TMPDIR/said")"
is_mounted && fail "the mount is there after abort"
kill -KILL "${listeners[@]:0:24}"
gone "$DAEMON" || fail "the daemon is there after abort"
wait "$DAEMON"; DAEMON=
status 3 "no mount any more" ctl "$MNT" paths
gateway_down
