# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Locks on the server: two mounts exclude each other, by fcntl(), by open file descriptions, by flock(),
# and what one of them writes under a lock the other one reads. In guests the kernel's client is a third.
# A server that restarts gives the locks back; one that ends its clients does not. With version 3 the
# kernel's client is not there, which wants an rpc.statd; nor is what concerns sessions and calls back.
locks=${BIN%/src/*}/tests/vm-clients/locks
[[ -x $locks ]] || skip "no $locks"
other=$TMPDIR/other kernels=$TMPDIR/kernels
mkdir "$other" "$kernels"
trap 'end_all; vm-root umount -l "$other" "$kernels" 2>/dev/null; [[ ! ${other_daemon:-} ]] || kill -KILL "$other_daemon" 2>/dev/null' EXIT
mount_up
"$BIN" -f "$REMOTE" "$other" -o "vers=$VERS,$MOUNT_OPTIONS" >>"$LOG" 2>&1 & other_daemon=$!
until_true "the second mount" mountpoint -q "$other"
there=$other/$CASE
mounts=("$WORK" "$there")
if [[ $NFSRDMA_KERNEL != ganesha && $EUID == 0 && $VERS != 3 ]]; then
	vm-root mount -t nfs -o "vers=$VERS,proto=rdma,port=20049" "$REMOTE" "$kernels" || fail "the kernel's mount"
	mounts+=("$kernels/$CASE")
fi

# holder KIND TYPE START LENGTH FILE - has the lock until let_go.
mkfifo "$TMPDIR/keep" || fail "mkfifo"
is_held() { [[ $(<"$TMPDIR/holder") == *held* ]]; }
holder() {
	: >"$TMPDIR/holder"             # the last one's is not this one's
	"$locks" hold "$@" <"$TMPDIR/keep" >"$TMPDIR/holder" 2>&1 & HOLDER=$!
	exec 9>"$TMPDIR/keep"
	until_true "the lock is held: $*" is_held
}
let_go() { exec 9>&-; wait "$HOLDER" || fail "the holder: $(<"$TMPDIR/holder")"; }
# may WANT KIND TYPE START LENGTH FILE
may() { equal "$("$locks" try "${@:2}" 2>&1)" "$1" "locks try ${*:2}"; }

for kind in posix ofd flock; do
	for at in "${mounts[@]}"; do
		holder $kind w 10 10 "$WORK/file"
		may no $kind r 15 1 "$at/file"
		[[ $kind == flock ]] || may yes $kind w 20 0 "$at/file"
		let_go
		# At once, although the kernel tells of the last close later: on this mount. Another one
		# may ask before.
		[[ $at == "$WORK" ]] || until_true "$kind: it is free" \
			eval "[[ \$('$locks' try $kind w 10 10 '$at/file') == yes ]]"
		may yes $kind w 10 10 "$at/file"
		holder $kind r 0 0 "$at/file"
		may yes $kind r 0 0 "$WORK/file"
		may no $kind w 3 1 "$WORK/file"
		let_go
	done
	# The second mount and the kernel's client.
	if (( ${#mounts[@]} > 2 )); then
		holder $kind w 10 10 "$there/file"
		may no $kind r 15 1 "${mounts[2]}/file"
		let_go
		holder $kind w 10 10 "${mounts[2]}/file"
		may no $kind r 15 1 "$there/file"
		let_go
	fi
done

# nfs-ganesha 4.3 does not merge a lock to the end of the file with what its owner has: where the lock
# ends it adds one to UINT64_MAX, and finds no neighbour.
end=all
[[ $NFSRDMA_KERNEL != ganesha ]] || end=byte
"$locks" split $end "$WORK/split" || fail "split and merge"
"$locks" closes "$WORK/closes" || fail "what close() releases"

# A signal ends the wait; another one that waits gets the lock.
holder posix w 0 0 "$there/wait"
equal "$("$locks" signal posix "$WORK/wait" 2>&1)" EINTR "a signal while it waits"
"$locks" count posix 1 "$WORK/wait" 9>&- & waiter=$!
nap 0.5
let_go
wait $waiter || fail "the one that waits"
equal "$(<"$SERVER_WORK/wait")" 0000000001 "what it has written"
# The server says that it is free (CB_NOTIFY_LOCK). Linux 6.7 to 6.12 do so only for the few file systems
# that have an own lock operation.
freed=$(stat_now locks.freed)
echo "$freed calls of the server about a lock"
case $NFSRDMA_KERNEL:$VERS in
*:3) ;;
7.*) at_least "$freed" 1 "calls of the server about a lock" ;;
ganesha:*) equal "$freed" 0 "calls of nfs-ganesha about a lock" ;;
esac

# What was written under the lock is there for the next one, wherever that is. The kernel's client, which
# may wait for half a minute, takes part once.
amount 60 10
each=$REPLY
for kind in posix ofd flock; do
	pids=()
	among=("$WORK" "$there")
	[[ $kind != posix ]] || among=("${mounts[@]}")
	for at in "${among[@]}" "${among[@]}"; do
		"$locks" count $kind "$each" "$at/count.$kind" & pids+=($!)
	done
	for pid in "${pids[@]}"; do wait "$pid" || fail "$kind: a counter"; done
	equal "$(( 10#$(<"$SERVER_WORK/count.$kind") ))" $(( ${#pids[@]} * each )) "$kind: counted by all"
done

# Some open the file while others read it under the lock.
amount 40 4
for (( n = 0; n < REPLY; n++ )); do
	pids=()
	for at in "$WORK" "$there" "$WORK" "$there"; do "$locks" count posix 4 "$at/new.$n" & pids+=($!); done
	for pid in "${pids[@]}"; do wait "$pid" || fail "a counter of a new file"; done
	equal "$(( 10#$(<"$SERVER_WORK/new.$n") ))" $(( ${#pids[@]} * 4 )) "counted by all in a new file"
done

# Several lock it at the same time, and there are many old pages: who has asked for the attributes first
# drops them, and the others must not read what is not dropped yet.
amount 20 6
"$locks" readers 4 16 "$REPLY" "$WORK/pages" "$there/pages" || fail "a reader under a lock, beside others"

if command -v sqlite3 >/dev/null; then
	equal "$(sqlite3 "$WORK/db" "pragma journal_mode=delete; create table t(writer, n, primary key(writer, n));" 2>&1)" \
		delete "journal mode"
	amount 25 5
	each=$REPLY
	pids=()
	for w in 0 1 2 3; do
		for (( n = 1; n <= each; n++ )); do echo "begin immediate; insert into t values($w, $n); commit;"; done |
			sqlite3 -bail -cmd '.timeout 120000' "${mounts[w % 2]}/db" >"$TMPDIR/said.$w" 2>&1 & pids+=($!)
	done
	for w in 0 1 2 3; do wait "${pids[w]}" || fail "sqlite, writer $w: $(<"$TMPDIR/said.$w")"; done
	for at in "${mounts[@]}"; do
		equal "$(sqlite3 "$at/db" 'pragma integrity_check; select count(*) from t;')" \
			$'ok\n'"$(( 4 * each ))" "the database in $at"
	done
fi

# Without locks there is no call of them.
echo text >"$WORK/plain"
before=$(stat_now rpc.LOCK):$(stat_now rpc.LOCKU)
echo text >"$WORK/plain"; cat "$WORK/plain" >/dev/null
equal "$(stat_now rpc.LOCK):$(stat_now rpc.LOCKU)" "$before" "calls of locks without locks"

[[ ! -d $kernels/$CASE ]] || vm-root umount "$kernels" || fail "unmount of the kernel's"

# The server restarts: locks that are held are reclaimed before anybody else gets them, and who waits for
# one gets it afterwards.
holder posix w 0 10 "$WORK/kept"
before=$(( 10#$(<"$SERVER_WORK/count.posix") ))
amount 40 10
each=$REPLY
pids=()
for at in "$WORK" "$there"; do
	"$locks" count posix "$each" "$at/count.posix" 9>&- & pids+=($!)
done
until_true "they count" eval '(( 10#$(<"$SERVER_WORK/count.posix") > before + 2 ))'
vm-nfsd-restart 9>&- || fail "restart of the server"
may no posix r 5 1 "$there/kept"
may yes posix w 10 1 "$there/kept"
for pid in "${pids[@]}"; do wait "$pid" || fail "a counter while the server restarts"; done
equal "$(( 10#$(<"$SERVER_WORK/count.posix") ))" $(( before + 2 * each )) "counted by both while the server restarts"
let_go
may yes posix w 0 0 "$there/kept"
[[ $VERS == 3 ]] || at_least "$(stat_now state.recoveries)" 1 "recoveries of state"
! grep 'lock of an open file.*was lost' "$LOG" || fail "a lock was lost"

# The server ends its clients: nobody has the lock any more, and who had it is told.
if [[ $EUID == 0 && -d /proc/fs/nfsd/clients && $VERS != 3 ]]; then
	exec 8<>"$WORK/lost" || fail "open"
	flock -x 8 || fail "flock"
	may no flock w 0 0 "$there/lost"
	for ctl in /proc/fs/nfsd/clients/*/ctl; do echo expire >"$ctl"; done
	may yes flock w 0 0 "$there/lost"
	# shellcheck disable=SC2016 # perl's
	equal "$(perl -MIO::Handle -e 'open(my $f, ">&=", 8) or die; syswrite($f, "x") and $f->sync and print "written"; print $!' 8>&8)" \
		"Input/output error" "a write without the lock"
	grep -q 'lock of an open file.*was lost' "$LOG" || fail "the log does not say that the lock is lost"
	exec 8>&-
	may yes flock w 0 0 "$WORK/lost"
fi

# With version 3 only the client gives them back: here its end does, with a file open.
if [[ $VERS == 3 ]]; then
	holder posix w 0 10 "$there/ends"
	may no posix r 5 1 "$WORK/ends"
	kill -TERM "$other_daemon"
	gone "$other_daemon" || fail "the second daemon still runs"
	may yes posix w 0 0 "$WORK/ends"
	! grep 'locks may stay' "$LOG" || fail "locks may stay"
	exec 9>&-
	wait "$HOLDER"
	is_free() { ! mountpoint -q "$other"; }
	until_true "the second mount is gone" is_free
	"$BIN" -f "$REMOTE" "$other" -o "vers=$VERS,$MOUNT_OPTIONS,soft" >>"$LOG" 2>&1 & other_daemon=$!
	until_true "the second mount, soft" mountpoint -q "$other"
fi

# A program that is killed has no locks any more, and one that is killed while it waits does not get any.
for at in "$WORK" "$there"; do
	holder posix w 0 0 "$at/killed"
	may no posix r 0 1 "$WORK/killed"
	"$locks" count posix 1 "$there/killed" 9>&- & waiter=$!
	nap 0.5
	kill -KILL "$waiter"
	gone "$waiter" || fail "the one that waits was killed, and is still there"
	kill -KILL "$HOLDER"
	exec 9>&-
	wait "$HOLDER"
	until_true "what a killed program had is free" \
		eval "[[ \$('$locks' try posix w 0 0 '$WORK/killed') == yes ]]"
	may yes posix w 0 0 "$there/killed"
	[[ ! -s $SERVER_WORK/killed ]] || fail "the one that was killed has written"
done

umount "$other" || fail "unmount of the second mount"
gone $other_daemon || fail "the second daemon still runs"
other_daemon=''
mount_down
# local_ones OPTION KIND... - by it these are local: the other mount does not see them.
local_ones() {
	local kind seen
	mount_up "$1"
	for kind in posix ofd flock; do
		seen=no
		[[ " ${*:2} " != *" $kind "* ]] || seen=yes
		holder $kind w 0 0 "$WORK/file"
		may no $kind w 0 0 "$WORK/file"
		may $seen $kind w 0 0 "$there/file"
		let_go
	done
	mount_down
}
"$BIN" -f "$REMOTE" "$other" -o "vers=$VERS,$MOUNT_OPTIONS" >>"$LOG" 2>&1 & other_daemon=$!
until_true "the second mount" mountpoint -q "$other"
local_ones nolock posix ofd flock
if [[ $NFSRDMA_KERNEL == ganesha ]]; then
	local_ones local_lock=flock flock
	local_ones local_lock=posix posix ofd
	local_ones local_lock=all posix ofd flock
fi
umount "$other" || fail "unmount of the second mount"
gone $other_daemon || fail "the second daemon still runs"
other_daemon=''
