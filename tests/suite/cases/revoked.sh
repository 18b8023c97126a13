# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# The server takes a client's state away: its administrator wants the file system free (kernels from 6.9 on), or
# ends the client. Files that are open go on, the server is told that we know, and nothing is lost.
[[ $VERS != 3 && $EUID == 0 ]] || skip "no state in version 3, and root's files in /proc"
clients=/proc/fs/nfsd/clients
# The number that the server's file on our client has under this name; empty without such a line.
client_says() { sed -n "s/^$1: //p" "$clients"/*/info | head -1; }
mount_up deleg
exec 6>"$WORK/held" || fail "open"
exec 7<"$WORK/held" || fail "open again"
echo one >&6
exec 8>"$WORK/locked" && flock -n 8 || fail "lock"
# is_delegated - a new file of the server's, read.$nr, that this mount has a delegation of.
nr=0
is_delegated() {
	(( ++nr ))
	echo old >"$SERVER_WORK/read.$nr"
	cat "$WORK/read.$nr" >/dev/null && cat "$clients"/*/states | grep -q 'type: deleg, access: r'
}
until_true "a delegation" is_delegated
if [[ $(client_says "admin-revoked states") ]]; then
	equal "$(client_says "admin-revoked states")" 0 "revoked states before"
	echo "$SERVER_WORK" >/proc/fs/nfsd/unlock_filesystem || fail "unlock_filesystem"
	at_least "$(client_says "admin-revoked states")" 2 "revoked states"
	echo two >&6 || fail "write to a file whose state was revoked"
	read -r line <&7 && equal "$line" one "what the other open reads"
	ls "$WORK" >/dev/null
	# What the server's programs write to it now, nobody is told of.
	echo new >"$SERVER_WORK/read.$nr"
	equal "$(<"$WORK/read.$nr")" new "a file whose delegation was revoked"
	# The lock is lost, and that is said; another one may have it.
	# shellcheck disable=SC2016 # perl's
	equal "$(perl -MIO::Handle -e 'open(my $f, ">&=", 8) or die; syswrite($f, "x") and $f->sync and print "written"; print $!' 8>&8)" \
		"Input/output error" "a write without the lock"
	equal "$(grep -c 'lock of an open file.*was lost' "$LOG")" 1 "locks that were lost"
	exec 8>&-
	flock -n "$WORK/locked" true || fail "it cannot be locked again"
	equal "$(client_says "admin-revoked states")" 0 "revoked states that the server still keeps"
fi
ended=0
for ctl in "$clients"/*/ctl; do
	grep -q nfsrdma-fuse "${ctl%/ctl}/info" || continue
	echo expire >"$ctl" && (( ended += 1 ))
done
equal $ended 1 "clients that were ended"
echo three >&6 || fail "write after the client was ended"
exec 6>&- 7<&- || fail close
[[ $(tr '\n' ' ' <"$SERVER_WORK/held") == "one "*"three " ]] || fail "the file is: $(cat "$SERVER_WORK/held")"
rm "$WORK/held"
mount_down
