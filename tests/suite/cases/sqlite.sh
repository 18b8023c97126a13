# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# An SQLite database with four writers: with a journal that is deleted after each
# transaction, and with a write-ahead log, whose index is memory that they share by a mapping.
command -v sqlite3 >/dev/null || skip "no sqlite3"
mount_up
amount 40 10
each=$REPLY
for mode in delete wal; do
	db=$WORK/$mode.db
	equal "$(sqlite3 "$db" "pragma journal_mode=$mode; create table t(writer, n, data, sum, primary key(writer, n));" 2>&1)" \
		"$mode" "journal mode"
	pids=()
	for w in 1 2 3 4; do
		# Each row is there twice: later a row replaces what an earlier one has said.
		for (( n = 1; n <= each; n++ )); do
			echo "begin immediate; insert into t values($w, $n, randomblob($(( n * 997 % 9000 + 1 ))), '');
				update t set sum = hex(data) where writer = $w and n = $n; commit;"
			(( n % 5 )) || echo "delete from t where writer = $w and n = $(( n - 3 ));"
		done | sqlite3 -bail -cmd '.timeout 120000' "$db" >"$TMPDIR/said.$w" 2>&1 & pids+=($!)
	done
	for w in 1 2 3 4; do
		wait "${pids[w - 1]}" || fail "$mode, writer $w: $(<"$TMPDIR/said.$w")"
	done
	equal "$(sqlite3 "$db" 'pragma integrity_check; select count(*), sum(sum = hex(data)) from t;')" \
		$'ok\n'"$(( 4 * (each - each / 5) ))|$(( 4 * (each - each / 5) ))" "$mode: the database"
done
mount_down
# By what the server has, and nothing of the mount's.
mount_up lanes=1
for mode in delete wal; do
	equal "$(sqlite3 "$WORK/$mode.db" 'pragma integrity_check; select count(*) from t;')" \
		$'ok\n'"$(( 4 * (each - each / 5) ))" "$mode: the database in another mount"
done
mount_down
