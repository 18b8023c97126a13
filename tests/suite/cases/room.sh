# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# The room of write-behind: it grows while programs write faster than the server takes it, what is
# written is right, and the memory is given back. Without memory for more, writers wait. (A machine
# or a control group that is short of memory: unit tests.)
writers=4
random "$TMPDIR/data" $(( 24 << 20 )) || fail "no data"

# grow [COUNTER] - writes until the buffers have grown, or that counter has. Who has a limit of locked
# memory may have no room to grow into.
grow() {
	local i k pids before counter=${1:-arena.grown}
	before=$(stat_now "$counter")
	for (( i = 0; i < 20; i++ )); do
		pids=()
		for (( k = 0; k < writers; k++ )); do
			dd if="$TMPDIR/data" of="$WORK/f$k" bs=$(( k % 2 ? 65536 : 1048576 )) conv=fsync status=none &
			pids+=($!)
		done
		for k in "${pids[@]}"; do wait "$k" || fail "write"; done
		(( $(stat_now "$counter") == before )) || return 0
	done
	fail "$counter is what it was: $(grep -E '^(arena|behind)' "$STATS")"
}
is_small() { (( $(stat_now arena.bytes) == small )); }

mount_up
small=$(stat_now arena.bytes)
room=$(stat_last behind.room_bytes)
(( room > 0 && room < small )) || fail "room: $room of $small bytes"
if (( $(stat_last arena.most_bytes) > small )); then
	for (( turn = 0; turn < 2; turn++ )); do
		grow
		# What is read ahead of an open file may lie in the new memory as well.
		exec 9<"$WORK/f0"
		head -c 8M <&9 >"$TMPDIR/some" || fail "read"
		for (( k = 0; k < writers; k++ )); do
			same "$TMPDIR/data" "$SERVER_WORK/f$k"
		done
		until_true "the memory is given back" is_small
		exec 9<&-
		equal "$(stat_last arena.given_back)" "$(stat_last arena.grown)" "extents given back"
		equal "$(stat_last behind.room_bytes)" "$room" "room, when nothing is written any more"
	done
	equal "$(stat_last arena.refused)" 0 "extents that could not be added"
fi
mount_down

mount_up writebehind=0
equal "$(stat_now arena.most_bytes)" "$(stat_last arena.bytes)" "writebehind=0: memory"
equal "$(stat_last behind.room_bytes)" 0 "writebehind=0: room"
mount_down

# A limit of locked memory that promises more than can be had later.
if [[ $NFSRDMA_FABRIC == rxe && $NFSRDMA_KERNEL != ganesha && $(id -u) != 0 ]]; then
	vm-root prlimit --pid $$ --memlock=$(( 256 << 20 )) || fail "prlimit"
	mount_up
	small=$(stat_now arena.bytes)
	at_least "$(stat_last arena.most_bytes)" $(( small + (16 << 20) )) "memory that the buffers may take"
	locked=$(awk '/^VmPin/ { print $2 * 1024 }' "/proc/$DAEMON/status")
	vm-root prlimit --pid "$DAEMON" --memlock=$(( locked + (1 << 20) )) || fail "prlimit of the daemon"
	grow arena.refused
	for (( k = 0; k < writers; k++ )); do
		same "$TMPDIR/data" "$SERVER_WORK/f$k"
	done
	equal "$(stat_now arena.bytes)" "$small" "memory, when no more is to be had"
	mount_down
fi
