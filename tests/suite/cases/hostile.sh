# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# shellcheck disable=SC2016,SC2034,SC2086,SC2317 # the server's; of lib.sh; numbers; called by name
# A server that RDMA-Writes random bytes over all that its handles reach, at any
# time, under load: the gateway's fault "scribble" on the server's RDMA device, where
# one handle reaches all of the data buffers of a lane. Calls may fail, connections
# end, and what is being transferred is not to be trusted. But the daemon lives, does
# what it is told once the server behaves, and nothing else on the server changes.
# Versions 4.1 and 3, one after the other. NFSRDMA_ASAN: the program, built with ASan.
[[ $NFSRDMA_FABRIC == rxe ]] || skip "no RDMA device on which one handle reaches so much"
has_gateway
BIN=${NFSRDMA_ASAN:-$BIN}
long=$(printf '%0200d' 0)

trap 'touch "$TMPDIR/enough"; end_all; grep -hv scribble "$GATEWAY_LOG" | tail -n 20' EXIT

# until_end COMMAND... - again and again, whatever becomes of it, until there is
# $TMPDIR/enough: when it has gone on for 10 s, and much has happened in them.
until_end() { while [[ ! -e $TMPDIR/enough ]]; do "$@"; done >/dev/null 2>&1; }
much() {
	kill -0 $DAEMON 2>/dev/null || return 0 # that is said below
	(( $(grep -c 'scribble over' "$GATEWAY_LOG") >= 300 && $(stat_now write.requests) >= 50 &&
	   $(stat_last read.requests) >= 50 ))
}

# The requests of each shape: WRITE and READ of all sizes, long arguments (SETATTR,
# names), replies by chunk (listings, long links), long calls, many forgets.
writes() { dd if="$TMPDIR/noise" of="$WORK/victim.$1" bs="$1" count="$2" oflag=direct conv=notrunc; }
reads() { dd if="$WORK/victim.$1" of=/dev/null bs="$1" iflag=direct; cat "$WORK"/still/*; }
lists() { find "$WORK" -size +1; kernel_forgets; }
names() {
	local i
	for i in {1..3}; do
		mkdir "$WORK/$long$1$i"
		chmod 751 "$WORK/$long$1$i"
		touch -d "@$i" "$WORK/$long$1$i"
		mv "$WORK/$long$1$i" "$WORK/$long$1-$i"
		rmdir "$WORK/$long$1-$i"
	done
}
links() {
	local len
	for len in 3000 4000; do        # inline, and as a Read chunk
		ln -sfn "$(printf "%0${len}d" 7)" "$WORK/link"
		readlink "$WORK/link"
		rm "$WORK/link"
	done
}

sums() { vm-server bash -c 'cd "$1" && find still -type f | sort | xargs sha256sum; stat -c "%n %s %a %u %Y" still still/*' - "$SERVER_WORK"; }

# storm VERS
storm() {
	local was refused jobs=() i
	VERS=$1
	[[ $VERS == 3 ]] && REMOTE=$NFSRDMA_SERVER:${NFSRDMA_V3_PATH:-$NFSRDMA_EXPORT} || REMOTE=$NFSRDMA_SERVER:/
	# Not while mounting: what fails then is the mount.
	gateway_up 20050 "$NFSRDMA_SERVER" -v --fault scribble@100/2=4-24
	mount_up port=20050,soft,timeo=30,retrans=2
	rm -f "$TMPDIR/enough"
	until_end writes 1000 20 & jobs+=($!)
	until_end writes 60000 8 & jobs+=($!)
	until_end writes 1M 2 & jobs+=($!)
	until_end reads 60000 & jobs+=($!)
	until_end reads 1M & jobs+=($!)
	until_end lists & jobs+=($!)
	until_end names a & jobs+=($!)
	until_end links & jobs+=($!)
	sleep 10
	until_true "300 random Writes over the client's memory, 50 WRITEs, and 50 READs" much
	touch "$TMPDIR/enough"
	wait "${jobs[@]}"
	kill -0 $DAEMON 2>/dev/null || { cat "$LOG" >&2; fail "the daemon has died"; }
	# What it was sent is what the client wrote there: nothing but data is fetched from
	# where it has scribbled.
	refused=$(grep 'the server refused the transport header' "$LOG")
	[[ ! $refused ]] || fail "messages that the server could not understand: $refused"
	gateway_down
	: >"$GATEWAY_LOG"
	# And now the same mount with a server that behaves.
	gateway_up 20050 "$NFSRDMA_SERVER"
	for (( i = 0; i < 100; i++ )); do
		stat "$WORK/still" >/dev/null 2>&1 && break
		sleep 0.2
	done
	cp "$TMPDIR/noise" "$WORK/after.$VERS" || fail "the mount is of no use afterwards"
	same "$TMPDIR/noise" "$SERVER_WORK/after.$VERS"
	dd if="$WORK/after.$VERS" of="$TMPDIR/back" bs=1M iflag=direct status=none || fail "read"
	same "$TMPDIR/noise" "$TMPDIR/back"
	was=$(sums) || fail "sums"
	[[ $was == "$before" ]] || fail "files that nobody wrote to have changed: $(diff <(echo "$before") <(echo "$was"))"
	mount_down
	gateway_down
}

random "$TMPDIR/noise" 1500000
vm-server bash -c 'cd "$1" && mkdir still && for i in {1..60}; do head -c $(( i * 997 )) /dev/urandom >still/$i-"$2"; done; chmod -R a+rwX .' - "$SERVER_WORK" "$long"
for bytes in 1000 60000 1M; do cp "$TMPDIR/noise" "$SERVER_WORK/victim.$bytes"; done
vm-root chmod -R a+rwX "$SERVER_WORK"
before=$(sums) || fail sums
storm 4.1
storm 3
exit 0
