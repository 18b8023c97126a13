# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Longer than a lease: the daemon is stopped, and then the server is down. What is lost is said, and fails;
# nothing else is lost: opens, written data, files that others have changed meanwhile, under a delegation too; nor
# is what an owner has open whose mode forbids that to him.
# Then the server restarts while all of that goes on.
[[ $VERS != 3 && $EUID == 0 && -d /proc/fs/nfsd/clients ]] || skip "no lease in version 3; and only knfsd's is 10 s"
locks=${BIN%/src/*}/tests/vm-clients/locks
[[ -x $locks ]] || skip "no $locks"
other=$TMPDIR/other
mkdir "$other"
trap 'end_all; umount -l "$other" 2>/dev/null; [[ ! ${other_daemon:-} ]] || kill -KILL "$other_daemon" 2>/dev/null' EXIT
mount_up deleg
"$BIN" -f "$REMOTE" "$other" -o "vers=$VERS,$MOUNT_OPTIONS" >>"$LOG.other" 2>&1 & other_daemon=$!
until_true "the second mount" mountpoint -q "$other"
there=$other/$CASE

# A program of its own has the files: what this shell has open each of its children closes, and that waits
# for the daemon.
# shellcheck disable=SC2016 # perl's
coproc perl -MIO::Handle -MFcntl=:DEFAULT,:flock -e '
	my (%file, $ok); STDOUT->autoflush(1);
	while (<STDIN>) {
		chomp; my ($what, $name, $text) = split / /, $_, 3; my $f = $file{$name};
		$ok = $what eq "open" ? sysopen($file{$name}, $text, O_RDWR | O_CREAT) : $what eq "lock" ? flock($f, LOCK_EX) :
			$what eq "write" ? syswrite($f, "$text\n") : $what eq "sync" ? $f->sync : close($f);
		print $ok ? "done\n" : "$!\n";
	}'
# does WHAT NAME [TEXT] - "done", or why not.
does() { echo "$*" >&"${COPROC[1]}"; read -r REPLY <&"${COPROC[0]}"; }
# does_all WHAT NAME [TEXT]... - each of these lines.
does_all() { local line; for line; do does "$line"; equal "$REPLY" "done" "$line"; done; }
writes() { does "write $1 x"; [[ $REPLY != "done" ]] || does "sync $1"; }

# tries FILE - may another one lock it?
tries() { "$locks" try flock w 0 0 "$1"; }
is_free() { [[ $(tries "$1") == yes ]]; }
lost() { grep -c 'lock of an open file.*was lost' "$LOG"; }

# ---- the daemon is stopped ----
echo old >"$SERVER_WORK/read"
reads_delegated() { cat "$WORK/read" >/dev/null; (( $(stat_now delegs.read) > 0 )); }
until_true "a delegation to read" reads_delegated
does_all "open taken $WORK/taken" "open free $WORK/free" "lock taken" "lock free" "open plain $WORK/plain" "write plain one"
kill -STOP "$DAEMON"
# The server keeps what nobody else wants. This one does, and then all of that client goes.
until_true "the server takes the lock away" is_free "$there/taken"
echo others >"$there/taken"
echo new >"$SERVER_WORK/read"   # waits until the server has revoked the delegation
kill -CONT "$DAEMON"
equal "$(<"$WORK/read")" new "a file that was changed meanwhile"
for file in taken free; do
	writes $file
	equal "$REPLY" "Input/output error" "a write without the lock of '$file'"
done
equal "$(<"$WORK/taken")" others "what the other one has written under its lock"
equal "$(lost)" 2 "lines of the log about locks that are lost"
does_all "write plain two" "close plain"
does "close taken"; does "close free"
equal "$(<"$SERVER_WORK/plain")" $'one\ntwo' "what was written before and after"
is_free "$WORK/taken" || fail "it cannot be locked again"

# ---- the server is down ----
# One file has a delegation to write, and data that is not on the server.
echo old >"$SERVER_WORK/held"
opens_delegated() {
	does "open held $WORK/held"
	(( $(stat_now delegs.write) > 0 )) || { does "close held"; return 1; }
}
until_true "a delegation to write" opens_delegated
does_all "write held dirty"
does_all "open taken $WORK/taken" "lock taken" "open later $WORK/later" "write later three"
vm-nfsd-restart 15 || fail "restart of the server"
equal "$(tries "$there/taken")" no "the lock is reclaimed"
writes taken
equal "$REPLY" "done" "a write with the lock"
does_all "close taken" "close later" "close held"
equal "$(<"$SERVER_WORK/held")" dirty "what was written under a delegation"
equal "$(<"$SERVER_WORK/later")" three "what was written before"

# ---- it restarts, and would not let its owner open a file again ----
# Whose mode forbids that. Some of what is written is not on the server by then.
chmod 755 "$WORK" && install -d -m 1777 "$SERVER_WORK/own" && mkfifo "$TMPDIR/go" || fail "a folder for another user"
# shellcheck disable=SC2016 # perl's
setpriv --reuid 1001 --regid 1001 --clear-groups perl -MFcntl=:DEFAULT,:mode -MIO::Handle -e '
	my ($dir, %file) = @ARGV; STDOUT->autoflush(1); umask 0;
	my %how = (git => [O_RDWR, 0444], written => [O_WRONLY, 0444], unread => [O_RDWR, 0200], closed => [O_RDWR, 0]);
	for (keys %how) { sysopen $file{$_}, "$dir/$_", O_CREAT | $how{$_}[0], $how{$_}[1] or die "open $_: $!\n"; }
	for (keys %how) { syswrite($file{$_}, "before\n") == 7 or die "write $_: $!\n"; }
	print "open\n"; <STDIN>;
	for (keys %how) {
		syswrite($file{$_}, "after, too\n") == 11 && $file{$_}->sync or die "write $_ on: $!\n";
		truncate $file{$_}, 13 or die "truncate $_: $!\n";
		next if $how{$_}[0] != O_RDWR;
		my $text; sysseek $file{$_}, 0, 0; sysread $file{$_}, $text, 99;
		$text eq "before\nafter," or die "$_ has $text: $!\n";
	}
	for (keys %how) { close $file{$_} or die "close $_: $!\n"; }
' "$WORK/own" <"$TMPDIR/go" >"$TMPDIR/own" 2>"$TMPDIR/own.errors" & owner=$!
exec {go}>"$TMPDIR/go"
until_true "an owner has his files open" grep -q open "$TMPDIR/own" "$TMPDIR/own.errors"
vm-nfsd-restart 1 {go}>&- || fail "restart of the server"
echo go >&$go
exec {go}>&-
wait $owner || fail "an owner who goes on: $(<"$TMPDIR/own.errors")"
for file in git written unread closed; do equal "$(<"$SERVER_WORK/own/$file")" $'before\nafter,' "what is in '$file'"; done

# ---- it restarts while much goes on ----
amount 200 30
each=$REPLY
pids=()
for at in "$WORK" "$there"; do "$locks" count posix "$each" "$at/count" & pids+=($!); done
random "$TMPDIR/data" $(( 3 << 20 ))
mkdir "$WORK/many" "$TMPDIR/many"
for (( n = 0; n < 20; n++ )); do echo "file $n" >"$TMPDIR/many/$n"; cp "$TMPDIR/many/$n" "$SERVER_WORK/many/"; done
(
	for (( n = 0; n < 4; n++ )); do
		cp "$TMPDIR/data" "$WORK/data.$n" || exit 1
		diff -r "$TMPDIR/many" "$WORK/many" || exit 1
	done
) & pids+=($!)
for (( n = 0; n < 2; n++ )); do
	nap 1
	vm-nfsd-restart 1 || fail "restart of the server"
done
for pid in "${pids[@]}"; do wait "$pid" || fail "one of those who work while the server restarts"; done
equal "$(( 10#$(<"$SERVER_WORK/count") ))" $(( 2 * each )) "counted by both"
for (( n = 0; n < 4; n++ )); do same "$TMPDIR/data" "$SERVER_WORK/data.$n"; done
equal "$(lost)" 2 "lines of the log about locks that are lost, at the end"

umount "$other" || fail "unmount of the second mount"
gone $other_daemon || fail "the second daemon still runs"
other_daemon=''
mount_down
