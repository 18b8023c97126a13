# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Delegations of files that are written: the server gives them to who opens a file to read and write; opens under
# them make no call; the kernel's own client sees how long a file is, while its data is still here; who opens it
# there has all of that; and no write of two mounts is lost.
# shellcheck source-path=SCRIPTDIR source=../delegations.sh
. "${BASH_SOURCE[0]%/*}/../delegations.sh"
kernels=$TMPDIR/kernels
mkdir "$kernels"
trap 'end_all; vm-root umount -l "$kernels" 2>/dev/null' EXIT

mount_up deleg,acregmin=600,acregmax=600,acdirmin=600,acdirmax=600
vm-root mount -t nfs -o "vers=$VERS,proto=rdma,port=20049,actimeo=0" "$REMOTE" "$kernels" || fail "the kernel's mount"

# ---- opens and writes ----

until_true "a delegation to write" gives_one_to_write
at_least "$(stat_now delegs.write)" 1 "delegations to write"
printf new >&3 || fail write
exec 3<&-
at_least "$(delegated w)" 1 "delegations after an own write"
# The OPEN behind the write brings its attributes; from then on there is nothing to ask.
opens_both() { exec 4<>"$WORK/file.$nr" && exec 4<&-; }
opens_both || fail open
nap 1
before=$(calls OPEN)
for (( i = 0; i < 10; i++ )); do opens_both || fail open; nap 0.2; done
at_most $(( $(calls OPEN) - before )) 3 "OPENs of a file that is opened to write ten times"
# (Who reads it there has it recalled.)
equal "$(in_time 60 cat "$SERVER_WORK/file.$nr"; cat "$TMPDIR/in_time")" new "what the server has"
# New files ask for none.
before=$(delegated w)
echo new >"$WORK/made" || fail create
equal "$(delegated w)" "$before" "delegations after a create"

# ---- its length, while the data is here ----

# It writes, and looks by the kernel's client and then at the server, in turns, and quickly: what is written stays
# here for a second. How often did the server have less than the other was told?
# lengths - adds to `longer` and `asked`, of a new file.
lengths() {
	local asked_before
	until_true "a delegation to write" gives_one_to_write
	asked_before=$(stat_now delegs.asked)
	more=$(perl -e '
		my ($there, $server, $longer) = (@ARGV, 0);
		open(my $here, ">&=", 3) or die "open: $!";
		for my $i (1 .. 30) {
			syswrite($here, "x" x 1000) == 1000 or die "write: $!";
			my ($seen, $has);
			# Linux waits for the answer for some 20 ms, and then takes the one before, or recalls the delegation:
			# from then on the length is seen when the data is sent.
			for (1 .. 100) {
				$seen = (stat $there)[7];
				$has = (stat $server)[7];
				last if $seen >= $i * 1000;
				select(undef, undef, undef, 0.05);
			}
			die "the length is $seen, not " . $i * 1000 if $seen != $i * 1000;
			$longer += $seen > $has;
		}
		print $longer' "$kernels/$CASE/file.$nr" "$SERVER_WORK/file.$nr") || fail "lengths"
	(( longer += more, asked += $(stat_now delegs.asked) - asked_before ))
}
# Who answers too late, as a guest among others may, has the delegation recalled: then another file, until there
# were enough.
longer=0 asked=0
for (( try = 0; try < 10; try++ )); do
	(( try == 0 )) || exec 3<&-
	lengths
	(( longer < 5 || asked < 5 )) || break
done
at_least "$longer" 5 "lengths that the server did not have itself"
at_least "$asked" 5 "questions that were answered"
echo "# $asked questions, $longer times longer than the server's file; $(delegated w) left, $(calls DELEGRETURN) returned"

# ---- somebody reads it, or writes ----

in_time 60 cp "$kernels/$CASE/file.$nr" "$TMPDIR/copy"
equal "$(stat -c %s "$TMPDIR/copy")" 30000 "bytes that the kernel's client has read"
exec 3<&-
for (( n = 0; n < 15; n++ )); do
	until_true "a delegation to write" gives_one_to_write
	printf "here %s" "$n" >&3 || fail write
	by=$kernels/$CASE/file.$nr
	(( n % 3 )) || by=$SERVER_WORK/file.$nr
	equal "$(timeout 60 cat "$by")" "here $n" "what is read by $by"
	in_time 60 bash -c 'printf there >"$1"' - "$by"
	# Who has it open reads what is there, and so does who opens it.
	equal "$(<"$WORK/file.$nr")" there "what others have written"
	printf HERE >&3 || fail write
	exec 3<&-
	equal "$(tr -d '\0' <"$by")" thereHERE "what two writers have made"
done

# ---- it is wanted back while the server has no connection to say so by ----

# Linux 6.12 and 7.3 do not send such a recall later, and do not revoke what they could not recall: who asked for
# it would wait for as long as the file is open here.
for (( n = 0; n < 5; n++ )); do
	until_true "a delegation to write" gives_one_to_write
	printf kept >&3 || fail write
	"$BIN" ctl "$MNT" reconnect all >/dev/null || fail "reconnect"
	nap 0.3
	in_time 30 rm "$SERVER_WORK/file.$nr"
	exec 3<&-
done

# ---- the server restarts, with data here ----

until_true "a delegation to write" gives_one_to_write
printf -v block %1000s ''
printf %s "$block" >&3 || fail write
in_time 120 vm-nfsd-restart 1
printf %s "$block" >&3 || fail write
exec 3<&- || fail close
equal "$(stat -c %s "$SERVER_WORK/file.$nr")" 2000 "bytes after a restart"
until_true "a delegation of the server that has restarted" gives_one_to_write
printf last >&3 || fail write
equal "$(timeout 60 cat "$kernels/$CASE/file.$nr")" last "what is read then"
exec 3<&-

# ---- what is written follows close() ----

mount_down
mount_up deleg,nodelegflush,acregmin=600,acregmax=600,acdirmin=600,acdirmax=600
late=0
for (( n = 0; n < 5; n++ )); do
	until_true "a delegation to write" gives_one_to_write
	before=$(( $(calls WRITE) + $(calls COMMIT) ))
	printf "late %s" "$n" >&3 || fail write
	exec 3<&-
	(( $(calls WRITE) + $(calls COMMIT) > before )) || (( late++ )) || true
	equal "$(<"$WORK/file.$nr")" "late $n" "what was written before close()"
	equal "$(timeout 60 cat "$kernels/$CASE/file.$nr")" "late $n" "what another client reads then"
done
at_least "$late" 1 "files that were closed before they were written"
# The server restarts just then: who opens the file there finds it all the same. It still waits for those who reclaim.
until_true "a delegation to write" gives_one_to_write
printf "before the restart" >&3 || fail write
exec 3<&-
in_time 120 vm-nfsd-restart 1
equal "$(timeout 60 cat "$kernels/$CASE/file.$nr")" "before the restart" "what another client reads after a restart"

# ---- the end ----

until_true "a delegation at the end" gives_one_to_write
exec 3<&-
vm-root umount "$kernels" || fail "unmount of the kernel's"
mount_down
equal "$(grep -l nfsrdma-fuse "$clients"/*/info 2>/dev/null | wc -l)" 0 "clients that the server still has"
