# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# The server is gone: people can leave.
mount_up
echo x >"$WORK/f"
vm-link down
( cat "$WORK/f" >/dev/null 2>&1; echo more >"$WORK/g" ) 2>/dev/null &
reader=$!
sleep 3
# A process that waits for the server can be interrupted.
pkill -INT -P $reader 2>/dev/null
kill -INT $reader 2>/dev/null
start=$(date +%s%N)
unmount -l || fail "lazy unmount"
took=$(( ($(date +%s%N) - start) / 1000000 ))
at_most $took 10000 "ms for a lazy unmount while a process waits"
kill -KILL $DAEMON; wait $DAEMON 2>/dev/null
vm-link up
wait $reader 2>/dev/null
# And without anybody waiting the plain unmount works, and the daemon ends.
sleep 1
mount_up acdirmin=1,acdirmax=1
ls "$WORK" >/dev/null
vm-link down
df "$MNT" >/dev/null || fail "df of a server that is gone"
sleep 2         # what is known of the mount point is too old to be believed
stat "$MNT" >/dev/null || fail "stat of the mount point"
# By now it is known that the server is silent: nobody has to wait for it again.
least=$(perl -MTime::HiRes=time,sleep -e 'my $least = 99;
	for (1..5) {
		sleep 1.2; my $t = time; stat $ARGV[0] or die; $t = time - $t;
		$least = $t if $t < $least;
	}
	printf "%d\n", $least * 1000' "$MNT") || fail "stat of the mount point, again"
at_most "$least" 500 "ms for stat of the mount point of a silent server"
start=$(date +%s%N)
unmount || fail "unmount"
took=$(( ($(date +%s%N) - start) / 1000000 ))
at_most $took 10000 "ms for unmount"
gone $DAEMON; left=$?
vm-link up
(( left == 0 )) || fail "the daemon is still there a minute after the unmount"
DAEMON=
exit 0
