# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# The time of access of files with a delegation (RFC 9754): this mount says when it has read a file, without
# asking the server, which is told when the delegation goes back. Linux has that from 6.14 on.
clients=/proc/fs/nfsd/clients
[[ $VERS == 4.2 && $EUID == 0 && -d $clients ]] || skip "of version 4.2, and root's files in /proc"
[[ $(printf '6.14\n%s\n' "$(uname -r)" | sort -V | head -n 1) == 6.14 ]] || skip "Linux $(uname -r) does not have that"
calls() { timeout 60 "$BIN" ctl "$MNT" stats | awk -v name="rpc.$1" '$1 == name { n += $NF } END { print n + 0 }'; }
delegations() { cat "$clients"/*/states | grep -c 'type: deleg'; }

mount_up deleg,acregmin=0,acregmax=0
nr=0
# It was read long ago; and gets a delegation.
gives_one() {
	local before
	before=$(delegations)
	echo "$(( ++nr ))" >"$SERVER_WORK/file.$nr"
	touch -a -d 2001-01-01 "$SERVER_WORK/file.$nr"
	sync "$SERVER_WORK/file.$nr"            # it has its blocks
	exec 3<"$WORK/file.$nr" && (( $(delegations) > before ))
}
until_true "a delegation" gives_one
file=$WORK/file.$nr there=$SERVER_WORK/file.$nr
stat -c %X "$file" >/dev/null || fail stat
getattrs=$(calls GETATTR)
start=$(date +%s)
read -r line <&3 && [[ $line == "$nr" ]] || fail "read"
accessed=$(stat -c %X - <&3) || fail "stat"
at_least "$accessed" "$start" "the time of access after a read"
equal "$(stat -c %X - <&3)" "$accessed" "the time of access, asked for once more"
equal "$(calls GETATTR)" "$getattrs" "GETATTRs for the time of access"
exec 3<&-
# Another client reads what the server has been told.
in_time 30 sh -c "echo new >>'$there'" || fail "append"
returned() { (( $(delegations) == 0 )); }
until_true "the delegation's return" returned
at_least "$(stat -c %X "$there")" "$start" "the server's time of access"
mount_down
