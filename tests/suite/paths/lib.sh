# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# shellcheck disable=SC2034 # for the parts
# lib.sh - what the parts of the case "paths" have: the bench's tool, a mount over both
# paths, its counters by path, and a line for each result.

read -ra ADDRS <<<"$NFSRDMA_PATHS"
case $NFSRDMA_KERNEL in
ganesha) TOOL=host-path KINDS=(drop mute stop kill listener) ;;
*)       TOOL=vm-path KINDS=(drop mute kill listener) ;;
esac
BUILD=${BIN%/src/*}
STALLS=$BUILD/tests/vm-clients/stalls
# Version 3 has no sessions: a server knows a call again by where it comes from, and each
# gateway by itself. Sent again over another path it may be executed twice.
ONCE=()
[[ $VERS != 3 ]] || ONCE=(-i)
TREE=$BUILD/tests/host/tree/tree
LOCKS=$BUILD/tests/vm-clients/locks
HEARTBEAT=1
BOTH=remoteports=${ADDRS[0]}~${ADDRS[1]},heartbeat=$HEARTBEAT

path() { "$TOOL" "$@" || fail "$TOOL $*"; }
ctl() { "$BIN" ctl "$MNT" "$@"; }

# silently KIND - not every connection is told of such a cut: heartbeats have to find it.
silently() { [[ $1 == drop || $1 == mute || $1 == stop || $1 == down ]]; }

# path_value N NAME - a counter of path N; 0 if there is no such path.
path_value() {
	local value
	value=$(ctl stats | awk -v path="path.$1." -v name="path.$1.$2" 'index($1, path) == 1 { there = 1 }
		$1 == name { print $2; found = 1 } END { if (!there) print 0; exit there && !found }') ||
		fail "no counter path.$1.$2"
	echo "$value"
}

connected() {
	local all
	all=$(ctl stats) || return 1
	awk -v n="path.$1." '$1 == n "connections" { have = $2 } $1 == n "wanted" { want = $2 }
		END { exit !(want > 0 && have == want) }' <<<"$all"
}

# both_up - all connections of both paths.
both_up() {
	local n
	for n in 0 1; do until_true "connections of path $n" connected $n; done
}

# soon SECONDS TEST... - false: not in that time.
soon() {
	local end=$(( ${EPOCHREALTIME/./} + $1 * 1000000 ))
	shift
	until "$@"; do
		(( ${EPOCHREALTIME/./} < end )) || return 1
		sleep 0.1
	done
}

whole() {
	local n
	for n in 0 1; do
		"$TOOL" heal $n
		"$TOOL" limit $n off
	done
}

median() { sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

# ---- Results ----

TABLE=$TMPDIR/table
failures=0

# tell TEXT - what was measured by the part that runs: its line in the table.
tell() { echo "$*" >>"$TMPDIR/told"; }

# part NAME FUNCTION ARG... - in a shell of its own, which ends without leaving anything
# behind, so that the others go on.
part() {
	local name=$1 status said=$TMPDIR/part verdict began=$SECONDS
	: >"$TMPDIR/told"
	: >"$LOG"
	mkdir -p "$SERVER_WORK" 2>/dev/null
	(
		trap 'end_all; end_part' EXIT
		"${@:2}"
	) >"$said" 2>&1
	status=$?
	case $status in
	0) verdict=ok ;;
	77) verdict=skip; tell "$(grep -o 'SKIP: .*' "$said" | tail -n 1)" ;;
	*) verdict='not ok'; (( failures++ )) ;;
	esac
	echo "$verdict $CASE: $name: $(tr '\n' ';' <"$TMPDIR/told" | sed 's/;$//; s/;/; /g')"
	printf '%-24s %-7s %4d s  %s\n' "$name" "$verdict" $(( SECONDS - began )) "$(tr '\n' ';' <"$TMPDIR/told" | sed 's/;$//; s/;/; /g')" >>"$TABLE"
	[[ $verdict != 'not ok' ]] || { cat "$said"; echo "-- the daemon said:"; tail -n 20 "$LOG"; }
}

# Of a part that failed: its mount and its programs must not meet the next one.
end_part() {
	local pid
	for pid in $(jobs -p); do vm-root kill -KILL "$pid" 2>/dev/null; done
	! grep -qF " $MNT " /proc/self/mountinfo || vm-root umount -l "$MNT"
	vm-root pkill -KILL -x fio 2>/dev/null
	whole
	# shellcheck disable=SC2016 # the server's
	vm-server bash -c 'cd "$NFSRDMA_EXPORT/$1" && rm -rf -- ./*' - "$CASE"
}
