# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# change.sh - paths that do not come about, that lead elsewhere, and that come and go.

# no_answer - an address that says nothing when it is mounted, and does later.
no_answer() {
	local began=$SECONDS
	path cut 1 drop
	mount_up "$BOTH"
	tell "mounted after $(( SECONDS - began )) s"
	at_most $(( SECONDS - began )) 20 "seconds until it is mounted"
	echo x >"$WORK/f" || fail "a write over the one path"
	equal "$(path_value 1 connections)" 0 "connections of a path that does not answer"
	path heal 1
	began=$SECONDS
	soon 60 connected 1 || fail "path 1 is not connected 60 s after it answers: $(ctl paths)"
	tell "connected $(( SECONDS - began )) s after it answers"
	mount_down
}

# silent - the first address has a connection at once, and a server that says nothing: the mount
# is made on the next one.
silent() {
	local began=$SECONDS
	[[ $NFSRDMA_KERNEL == ganesha ]] || skip "there is no gateway that could hold replies back"
	path slow 0 1000000
	mount_up "$BOTH"
	tell "mounted after $(( SECONDS - began )) s"
	at_most $(( SECONDS - began )) 90 "seconds until it is mounted"
	grep -q "trying the next address" "$LOG" || fail "the log does not say that another address was tried"
	echo x >"$WORK/f" || fail "a write over path 1"
	equal "$(path_value 0 connections)" 0 "connections of a path whose server is silent"
	path slow 0 off
	soon 60 connected 0 || fail "path 0 is not connected 60 s after it answers: $(ctl paths)"
	mount_down
}

# elsewhere - an address of another server: it says why, and no call is sent there.
elsewhere() {
	local other=10.77.0.9
	[[ $NFSRDMA_KERNEL == ganesha ]] || skip "there is one server only"
	[[ $VERS != 3 ]] || skip "the other server has version 4 only"
	has_gateway
	vm-root ip addr add $other/32 dev lo || fail "no address $other"
	trap 'end_all; end_part; vm-root ip addr del $other/32 dev lo; vm-root host-ganesha stop other' EXIT
	vm-root host-ganesha start other || fail "the other server does not start"
	gateway_up 20049 127.0.0.1:2050 -l $other:20049
	mount_up "remoteports=${ADDRS[0]}~$other,heartbeat=1"
	until_true "a verdict about path 1" bash -c '"$1" ctl "$2" paths | grep -q refused' - "$BIN" "$MNT"
	tell "$(ctl paths --json | grep -oP '"why":"\K[^"]+' | tail -n 1)"
	for i in {1..100}; do mkdir "$WORK/d$i" || fail mkdir; done
	equal "$(ls "$SERVER_WORK" | wc -l)" 100 "directories on the server"
	equal "$(path_value 1 connections)" 0 "connections to another server"
	ctl remove-path $other || fail "remove-path"
	expect_error "server" ctl add-path $other
	mount_down
	gateway_down
}

# last - the last path is not removed without force.
last() {
	mount_up "$BOTH"
	both_up
	ctl remove-path 0 || fail "remove-path 0"
	echo x >"$WORK/f" || fail "a write over path 1"
	expect_error "--force" ctl remove-path 1
	echo y >"$WORK/f" || fail "a write after what was refused"
	ctl add-path "${ADDRS[0]}" || fail "add-path"
	ctl remove-path "${ADDRS[1]}" || fail "remove-path, by address"
	echo z >"$WORK/f" || fail "a write over the path that was added"
	equal "$(<"$SERVER_WORK/f")" z "the file on the server"
	ctl remove-path "${ADDRS[0]}" --force || fail "remove-path --force"
	ctl add-path "${ADDRS[1]}" || fail "add-path where there is none"
	echo w >"$WORK/f" || fail "a write after there was no path"
	mount_down
}

files_open() { vm-root ls "/proc/$DAEMON/fd" | wc -l; }
# Those of programs, which is the daemon alone; the number is a thread's.
queue_pairs() { vm-root rdma res show qp 2>/dev/null | grep -c ' pid [0-9]'; }

# leak_free WHAT BEFORE NOW SLACK
leak_free() { at_most "$3" $(( $2 + $4 )) "$1 now, $2 before"; }

# again N - path 1 is removed and added N times, by "cycles", while the load goes on.
again() {
	equal "$("${BASH_SOURCE[0]%/*}/../cycles" "$MNT" 1 "${ADDRS[1]}" "$1" 2>&1)" 1 "what cycles says"
	kill -0 "$load" 2>/dev/null || fail "the load has ended: $(<"$TMPDIR/stalls")"
	both_up
	heap=$(stat_now now.heap_bytes) fds=$(files_open) qps=$(queue_pairs)
	[[ $NFSRDMA_FABRIC != rxe ]] || at_least "$qps" 4 "queue pairs of two lanes with two paths"
}

# cycles - a path is removed and added again, under load. What is used is compared after
# some of them, when every buffer that is kept has been there.
cycles() {
	local n first load heap fds qps before began
	amount 200 40
	n=${NFSRDMA_CYCLES:-$REPLY} first=$(( n / 10 ))
	mount_up "$BOTH,mp_policy=round-robin"
	both_up
	mkdir "$WORK/load" || fail mkdir
	amount 3 1
	"$STALLS" "${ONCE[@]}" -t "$REPLY" "$WORK/load" 100000 >"$TMPDIR/stalls" 2>&1 & load=$!
	again $first
	before=("$heap" "$fds" "$qps") began=${EPOCHREALTIME/./}
	again $(( n - first ))
	tell "$n cycles, $(( (${EPOCHREALTIME/./} - began) / (n - first) / 1000 )) ms each"
	tell "heap ${before[0]}, $heap; files ${before[1]}, $fds; queue pairs ${before[2]}, $qps"
	leak_free "bytes of heap" "${before[0]}" "$heap" 1000000
	leak_free "open files" "${before[1]}" "$fds" 0
	leak_free "queue pairs" "${before[2]}" "$qps" 0
	! grep -q '^wrong' "$TMPDIR/stalls" || fail "$(<"$TMPDIR/stalls")"
	kill $load; wait $load 2>/dev/null
	mount_down
}

change() {
	part "no answer" no_answer
	part "a silent server" silent
	part "another server" elsewhere
	part "the last path" last
	part "remove and add" cycles
}
