# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# What programs write together on two mounts, and in guests on the kernel's client as a third: a log
# whose lines are appended under locks, and SQLite. NFSRDMA_WRITERS: so many seconds for each.
locks=${BIN%/src/*}/tests/vm-clients/locks
[[ -x $locks ]] || skip "no $locks"
other=$TMPDIR/other kernels=$TMPDIR/kernels
mkdir "$other" "$kernels"
trap 'end_all; vm-root umount -l "$other" "$kernels" 2>/dev/null; [[ ! ${other_daemon:-} ]] || kill -KILL "$other_daemon" 2>/dev/null' EXIT
amount 4 10
seconds=${NFSRDMA_WRITERS:-$REPLY}
mount_up
"$BIN" -f "$REMOTE" "$other" -o "vers=$VERS,$MOUNT_OPTIONS,deleg" >>"$LOG" 2>&1 & other_daemon=$!
until_true "the second mount" mountpoint -q "$other"
mounts=("$WORK" "$other/$CASE")
if [[ $NFSRDMA_KERNEL != ganesha && $EUID == 0 && $VERS != 3 ]]; then
	vm-root mount -t nfs -o "vers=$VERS,proto=rdma,port=20049" "$REMOTE" "$kernels" || fail "the kernel's mount"
	mounts+=("$kernels/$CASE")
fi

# ---- a log: every line is there, once and whole ----

# The kernel's client may wait for half a minute, each time.
for kind in posix ofd flock; do
	pids=()
	among=("${mounts[@]}")
	[[ $kind == posix || ${NFSRDMA_WRITERS:-} ]] || among=("${mounts[@]:0:2}")
	for (( w = 0; w < 2 * ${#among[@]}; w++ )); do
		"$locks" append $kind "$seconds" "w$w" "${among[w % ${#among[@]}]}/log.$kind" >"$TMPDIR/said.$w" & pids+=($!)
	done
	for pid in "${pids[@]}"; do wait "$pid" || fail "$kind: one that appends"; done
	said=$(for (( w = 0; w < ${#pids[@]}; w++ )); do echo "w$w $(<"$TMPDIR/said.$w")"; done)
	# shellcheck disable=SC2016 # awk's
	equal "$(awk 'length($3) != $2 * 7 % 200 || seen[$1, $2]++ { print NR ": " $0 }
			{ n[$1]++ }
			END { for (w in n) print w, n[w] }' "$SERVER_WORK/log.$kind" | sort)" "$said" "$kind: the log"
	echo "# $kind: $(wc -l <"$SERVER_WORK/log.$kind") lines by ${#pids[@]} writers"
done

# ---- SQLite ----

if ! command -v sqlite3 >/dev/null; then
	mount_down
	skip "no sqlite3"
fi

# inserts MODE WRITER DIR - until the time is over. Comments fill the pipe, which sqlite3 reads late.
inserts() {
	local n=0 end=$(( SECONDS + seconds )) fill
	printf -v fill '%8000s' ''
	while (( SECONDS < end )); do
		(( n++ ))
		echo "begin immediate; insert into t values($2, $n, randomblob($(( n * 997 % 9000 ))), ''); commit;"
		echo "update t set sum = hex(data) where writer = $2 and n = $n; select $n; --$fill"
	done | sqlite3 -bail -cmd '.timeout 120000' "$3/$1.db" >"$TMPDIR/said.$2" 2>&1
}
# writes MODE DIR... - a writer in each, and one more in the first.
writes() {
	local mode=$1 w pids=() said at=("${@:2}" "$2")
	equal "$(sqlite3 "$2/$mode.db" "pragma journal_mode=$mode; create table t(writer, n, data, sum, primary key(writer, n));" 2>&1)" \
		"$mode" "journal mode"
	rm -f "$TMPDIR"/said.*          # of another mode: what is waited for below is this one's
	for w in "${!at[@]}"; do inserts "$mode" "$w" "${at[w]}" & pids+=($!); done
	[[ $mode != wal ]] || is_alone "$mode" "${pids[@]}"
	for w in "${!at[@]}"; do
		wait "${pids[w]}" || fail "$mode, writer $w: status $?: $(tail -n 3 "$TMPDIR/said.$w"); $(known_of "$mode")"
	done
	said=$(for w in "${!at[@]}"; do echo "$w|$(tail -n 1 "$TMPDIR/said.$w")|0"; done)
	for at in "${mounts[@]}"; do
		equal "$(exclusively "$at/$mode.db" 'pragma integrity_check;
			select writer, count(*), sum(sum <> hex(data)) from t group by writer order by writer;')" \
			$'exclusive\nok\n'"$said" "$mode: the database in $at"
	done
	echo "# sqlite, $mode: $(awk -F '|' '{ n += $2 } END { print n }' <<<"$said") rows by ${#pids[@]} writers"
}
# known_of MODE - what may have ended a writer by a signal: a size that the kernel believes, without asking;
# locks that are lost, whose reads fail, of a mapping as well (SIGBUS); or the daemon is gone.
known_of() {
	kill -0 "$DAEMON" 2>/dev/null || { echo "the daemon has ended"; return; }
	echo "sizes: $(cd "$WORK" && stat --cached=always -c '%n %s' "$1".db* 2>&1 | tr '\n' ' '); at the server:" \
		"$(cd "$SERVER_WORK" && stat -c '%n %s' "$1".db* 2>&1 | tr '\n' ' '); recoveries:" \
		"$(stat_now state.recoveries 2>&1); locks lost: $(grep -c 'lock of an open file.*was lost' "$LOG")"
}
exclusively() { sqlite3 "$1" "pragma locking_mode=exclusive; $2" 2>&1; }
# The index of the log is memory that processes share, and so one client's (sqlite.org/wal.html). Another
# client has the database for itself, without that memory, or it is refused: by a lock.
is_alone() {
	local said pid
	until_true "a row" test -s "$TMPDIR/said.0"
	said=$(exclusively "${mounts[1]}/$1.db" 'select count(*) from t;')
	! grep -q "database is locked" <<<"$said" || return 0
	# Who has died has no locks.
	for pid in "${@:2}"; do kill -0 "$pid" 2>/dev/null || echo "a writer, $pid, has ended already" >&2; done
	fail "$1: a second client has the database, too: $said; $(known_of "$1")"
}
writes delete "${mounts[@]}"
writes wal "$WORK" "$WORK"

[[ ! -d $kernels/$CASE ]] || vm-root umount "$kernels" || fail "unmount of the kernel's"
if [[ $(id -u) == 0 ]]; then umount "$other"; else fusermount3 -u "$other"; fi || fail "unmount of the second mount"
gone $other_daemon || fail "the second daemon still runs"
wait $other_daemon || fail "the second daemon's status is $?"
other_daemon=''
mount_down
exit 0
