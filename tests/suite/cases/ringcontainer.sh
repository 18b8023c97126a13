# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# A program in a container of its own (mounts, processes, users; it is no administrator there, either), which has
# the mount: without the socket of the mount's rings it says what is missing, and with it its reads and
# writes go past the kernel.
rings=${BIN%/src/*}/tests/vm-clients/rings
[[ -x $rings ]] || skip "no $rings"
user=$(id -u)
(( user )) || user=1001
outside=()
if (( EUID == 0 )); then
	outside=(setpriv --reuid "$user" --regid "$user" --clear-groups)
	chmod 755 "$TMPDIR"
	cp "$rings" "$TMPDIR/rings" && chmod 755 "$TMPDIR/rings"
	rings=$TMPDIR/rings
fi
"${outside[@]}" unshare --user --map-root-user --mount --pid --fork true || skip "no namespaces for ordinary users"
mount_up
chmod 1777 "$WORK"

# contained PLACE COMMAND... - in a container whose folder of sockets is empty. PLACE: where this mount's socket is
# there, or empty.
contained() {
	# shellcheck disable=SC2016 # of that shell
	"${outside[@]}" unshare --user --map-root-user --mount --pid --fork --kill-child bash -c '
		socket=$1 place=$2 user=$3
		shift 3
		[[ ! $place ]] || mount --bind "$socket" "$place" || exit 99
		mount -t tmpfs none "${socket%/*}" || exit 99
		exec unshare --user --map-user="$user" --map-group="$user" "$@"' - "$socket" "$1" "$user" "${@:2}"
}

# ---- without the socket ----

socket=$(awk -v name="/$(mountpoint -d "$MNT").rings" 'index($NF, name) { print $NF }' /proc/net/unix)
[[ -S $socket ]] || fail "the mount's socket is not '$socket'"
# refused WHAT SAYS PLACE - a program that cannot have rings says so.
refused() {
	contained "$3" "$rings" model 0 1000 1 "$WORK/model" >"$TMPDIR/said" 2>&1 && fail "$1: it has rings"
	grep -qF "$2" "$TMPDIR/said" || fail "$1: $(<"$TMPDIR/said")"
}
mkdir -m 755 "$TMPDIR/container" && : >"$TMPDIR/container/socket" && chmod 666 "$TMPDIR/container/socket" || fail "a place"
place=$TMPDIR/container/socket
refused "nothing is bound" "cannot connect to $socket: No such file or directory (in a container: bind that socket" ''
refused "nobody says where it is bound" "and name it in NFSRDMA_RINGS" "$place"
export NFSRDMA_RINGS=$place
refused "no socket is there" "cannot connect to $place, which NFSRDMA_RINGS names: Connection refused (nobody listens" ''
equal "$(stat_now ring.reads)" 0 "reads by rings without the socket"

# ---- with it ----

# It is process 1 in its container. The daemon sees it by another number.
pid_outside() {
	local status
	for status in /proc/[0-9]*/status; do
		awk '$1 == "Name:" { name = $2 } $1 == "NSpid:" { last = $NF; n = NF }
			END { exit !(name == "rings" && n > 2 && last == 1) }' "$status" 2>/dev/null || continue
		pid=${status//[^0-9]/}
		return
	done
	return 1
}
shown() { in_time 60 "$BIN" ctl "$MNT" rings --json; grep -q "\"pid\":${pid}[,}]" "$TMPDIR/in_time"; }
contained "$place" "$rings" model 8 1000000 "$RANDOM" "$WORK/model" & container=$!
until_true "the program in the container" pid_outside
until_true "ctl shows it as process $pid" shown
wait $container || fail "model in a container"
at_least "$(stat_now ring.reads)" 100 "reads by rings in a container"
at_least "$(stat_now ring.writes)" 100 "writes by rings in a container"
cat "$WORK/model" >"$TMPDIR/model"
same "$TMPDIR/model" "$SERVER_WORK/model"

# A program that knows nothing of rings.
preload=${BIN%/src/*}/.libs/libnfsrdma-preload.so
if [[ -e $preload ]]; then
	cp "$preload" "$TMPDIR/preload.so" && chmod 755 "$TMPDIR/preload.so" || fail copy
	before=$(stat_now ring.written_bytes)
	random "$TMPDIR/data" $(( 8 << 20 )) && chmod 644 "$TMPDIR/data"
	contained "$place" env LD_PRELOAD="$TMPDIR/preload.so" dd if="$TMPDIR/data" of="$WORK/past" bs=1M oflag=dsync status=none || fail "dd"
	same "$TMPDIR/data" "$SERVER_WORK/past"
	at_least "$(stat_now ring.written_bytes)" $(( before + (8 << 20) )) "bytes that dd has written by a ring"
fi
mount_down
