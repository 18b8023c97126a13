# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Two mounts of one directory, two processes in each, against a model of close-to-open
# (tests/cto), while connections are lost and the server restarts. Then four processes in
# one mount and a single file. NFSRDMA_CTO_SECONDS: for longer than a look.
cto=${BIN%/src/*}/tests/cto/cto
[[ -x $cto ]] || skip "no $cto"
other=$TMPDIR/other
mkdir "$other"
trap 'end_all; vm-root umount -l "$other" 2>/dev/null; [[ ! ${other_daemon:-} ]] || kill -KILL "$other_daemon" 2>/dev/null' EXIT
: "${NFSRDMA_CTO_SECONDS:=24}"

# The second mount's connections go through a gateway that cuts them now and then. In a
# guest the restarts do that, to both.
port=''
if [[ $NFSRDMA_KERNEL == ganesha ]]; then
	has_gateway
	gateway_up 20060 "$NFSRDMA_SERVER" --fault drop-after@500/1997,drop-before@700/2999
	port=,port=20060
fi
# One mount has small requests, and so many of them; the other one has what is usual.
mount_up rsize=65536,wsize=65536
"$BIN" -f "$REMOTE" "$other" -o "vers=$VERS,stats=$TMPDIR/stats2,$MOUNT_OPTIONS$port" >>"$LOG" 2>&1 & other_daemon=$!
until_true "the second mount" mountpoint -q "$other"

# found COMMAND... - its difference fails the case.
found() { "$@" >"$TMPDIR/cto.out" || fail "$(<"$TMPDIR/cto.out")"; cat "$TMPDIR/cto.out"; }
server=()
# Version 3 does not look at the name before an open that only reads.
[[ $VERS != 3 ]] || server=(--old-reads)
[[ ! -r $SERVER_WORK || $NFSRDMA_EXPORT == /run/vm/view ]] || server+=(--server "$SERVER_WORK")
found "$cto" --seconds $(( NFSRDMA_CTO_SECONDS * 3 / 4 )) "${server[@]}" --event "vm-nfsd-restart 1" \
	--every $(( NFSRDMA_CTO_SECONDS < 100 ? 8 : 40 )) "$WORK" "$other/$CASE"
# With a fsync() that does nothing, what was promised is not there: that has to be found, which takes some hundreds
# of operations to some thousands, or a
# fsync() of ours that ends too early would not be.
if [[ " ${server[*]}" == *" --server "* ]]; then
	"$cto" --seconds 400 --tries 0 --lies "${server[@]}" "$WORK" "$other/$CASE" >"$TMPDIR/lies.out"
	grep -q "a promise was not kept" "$TMPDIR/lies.out" ||
		fail "a fsync() that does nothing was not found: $(grep -v '^    #' "$TMPDIR/lies.out")"
fi
found "$cto" --seconds $(( NFSRDMA_CTO_SECONDS / 4 )) --files 1 --size 400000 "${server[@]}" "$WORK"

if [[ $port ]]; then
	rm -f "$TMPDIR/stats2"
	kill -USR1 $other_daemon
	until_true "statistics" test -s "$TMPDIR/stats2"
	at_least "$(awk '$1 == "conn.downs" { print $2 }' "$TMPDIR/stats2")" 2 "connections lost"
fi
if [[ $(id -u) == 0 ]]; then umount "$other"; else fusermount3 -u "$other"; fi || fail "unmount of the second mount"
gone $other_daemon || fail "the second daemon still runs"
wait $other_daemon || fail "the second daemon's status is $?"
other_daemon=''
mount_down
[[ ! $GATEWAY ]] || gateway_down
exit 0
