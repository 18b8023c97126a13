# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# A mount as a person makes it: daemonised, looked at, unmounted, again.
before=$(clients)
"$BIN" "$REMOTE" "$MNT" -o "vers=$VERS,$MOUNT_OPTIONS" || fail "mount: status $?"
mountpoint -q "$MNT" || fail "the command returned, but there is no mount"
grep -q " $MNT fuse.nfsrdma-fuse " /proc/mounts || fail "type in /proc/mounts: $(grep "$MNT" /proc/mounts)"
grep -q "^$REMOTE " /proc/mounts || fail "source in /proc/mounts"
# Called by its own name it is careful.
grep " $MNT fuse" /proc/mounts | grep nosuid | grep -q nodev || fail "suid or dev without being asked for"
echo hello >"$WORK/a" || fail "write"
equal "$(vm-root cat "$SERVER_WORK/a")" hello "the server's view"
equal "$(cat "$WORK/a")" hello "our view"
df "$MNT" >/dev/null || fail "df"
equal "$(df --output=size "$MNT" | tail -1)" "$(vm-root df --output=size "$EXPORT" | tail -1)" "df size"
pid=$(pgrep -f "^$BIN") || fail "no daemon"
# What it may do now, each of its threads: registering memory, and privileged ports.
field() { awk -v n="$2:" '$1 == n { print $2 }' "$1"; }
no_privileges() {
	local thread
	for thread in /proc/"$1"/task/*/status; do
		equal "$(field "$thread" NoNewPrivs) $(field "$thread" Seccomp)" "1 2" "no_new_privs and seccomp of $thread"
		(( (16#$(field "$thread" CapPrm) & ~16#4400) == 0 )) || fail "capabilities of $thread: $(field "$thread" CapPrm)"
	done
}
no_privileges "$pid"
unmount || fail "unmount"
gone "$pid" || fail "the daemon is still there a minute after the unmount"
[[ -z $(ls -A "$MNT") ]] || fail "the mountpoint is not empty after the unmount"
# Started without standard input, as some services are: what is opened in its place is
# not lost when the daemon detaches.
"$BIN" "$REMOTE" "$MNT" -o "vers=$VERS,$MOUNT_OPTIONS" <&- || fail "no mount without standard input"
DAEMON=$(pgrep -f "^$BIN $REMOTE $MNT") || fail "no daemon"
kill -TERM "$DAEMON"
gone "$DAEMON" || fail "the daemon still runs a minute after SIGTERM"
grep -q " $MNT " /proc/self/mounts && fail "a dead mount is left of a daemon that was started without standard input"
# On a busy machine a thread may begin when the others have made the mount. This
# depends on neither server nor fabric.
amount yes no
if [[ $REPLY == yes ]]; then
	gcc -shared -fPIC -o "$TMPDIR/late.so" "${BASH_SOURCE[0]%/*}/../late-thread.c" || fail "late-thread.c does not compile"
	LD_PRELOAD=$TMPDIR/late.so mount_up
	sleep 4
	no_privileges "$DAEMON"
	mount_down
fi
# It has a list of files, where the kernel has Landlock. The directory of stats= is on it, but
# not another one that is given its name later.
has_landlock() { perl -e 'exit(syscall(444, 0, 0, 1) < 1)'; }
if has_landlock; then
	mkdir "$TMPDIR/counters"
	STATS=$TMPDIR/counters/stats mount_up
	grep 'cannot limit this process to a list of files' "$LOG" && fail "the daemon is not bound to a list of files"
	STATS=$TMPDIR/counters/stats stat_now fuse.requests >/dev/null
	mv "$TMPDIR/counters" "$TMPDIR/moved" && mkdir "$TMPDIR/counters"
	kill -USR1 "$DAEMON"
	until_true "a refused file" grep -q "cannot write statistics to '$TMPDIR/counters/stats.*Permission denied" "$LOG"
	mount_down
fi
# One lane and many lanes.
mount_up lanes=1
equal "$(cat "$WORK/a")" hello "with one lane"
mount_down
mount_up lanes=5
equal "$(cat "$WORK/a")" hello "with five lanes"
mount_down
# Read-only. SIGTERM unmounts, too, when the mount is ready: it can be controlled then.
mount_up ro
expect_error "Read-only" touch "$WORK/b"
until_true "the control socket" "$BIN" ctl "$MNT" paths
kill -TERM "$DAEMON"
wait "$DAEMON" || fail "status $? after SIGTERM"
DAEMON=
mountpoint -q "$MNT" && fail "still mounted after SIGTERM"
# The kernel refuses librdmacm's files to other credentials than those that opened them.
if [[ $NFSRDMA_FABRIC == rxe ]] && vm-root dmesg | grep 'changed security contexts'; then
	fail "RDMA connections were ended by a thread that may not"
fi
equal "$(clients)" "$before" "clients that the server remembers after the unmount"
exit 0
