# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Locks of a file that this mount has a delegation to write of: they make no call, and exclude each other; who opens
# the file elsewhere finds them at the server; and none is lost when the server restarts.
# shellcheck source-path=SCRIPTDIR source=../delegations.sh
. "${BASH_SOURCE[0]%/*}/../delegations.sh"
kernels=$TMPDIR/kernels
mkdir "$kernels"
trap 'end_all; vm-root umount -l "$kernels" 2>/dev/null' EXIT
refused() { ! flock -n "$@" || fail "flock $*: somebody else has it"; }

mount_up deleg,acregmin=600,acregmax=600,acdirmin=600,acdirmax=600
vm-root mount -t nfs -o "vers=$VERS,proto=rdma,port=20049,actimeo=0" "$REMOTE" "$kernels" || fail "the kernel's mount"

# ---- no call ----

# locks_here - ten times, of a file that this mount has a delegation to write of, descriptor 3. False: some made a call.
locks_here() {
	local i sent granted held
	exec 3<&-
	until_true "a delegation to write" gives_one_to_write
	exec 4<>"$WORK/file.$nr"
	sent=$(calls LOCK LOCKT LOCKU) granted=$(stat_last locks.granted)
	for (( i = 0; i < 10; i++ )); do
		flock -x 3 || fail lock
		refused -x 4
		flock -u 3
		flock -s 4 || fail lock
		flock -s 3 || fail "two who only read"
		refused -x 3
		flock -u 3; flock -u 4
	done
	exec 4<&-
	sent=$(( $(calls LOCK LOCKT LOCKU) - sent )) granted=$(( $(stat_last locks.granted) - granted ))
	held=$(delegated w)             # with those of tries before
	said="$sent calls for locks, $granted granted here, $held delegations"
	(( sent == 0 && granted == 30 && held >= 1 ))
}
# The delegation goes back when the server was not heard of for half a lease, which is 5 s here; a guest among others
# may not run for so long.
for (( try = 1; try < 5; try++ )); do locks_here && break; echo "$said" >&2; done
(( try < 5 )) || fail "$said"

# ---- somebody opens it elsewhere ----

# Five times that the server gets the lock with the delegation; a round whose delegation had gone back before, as above,
# is right too, but does not count.
for (( n = 0; n < 20; n++ )); do
	(( n == 0 )) || until_true "a delegation to write" gives_one_to_write
	flock -x 3 || fail lock
	echo "here $n" >&3
	exec 5<>"$kernels/$CASE/file.$nr" || fail "open of the kernel's"
	refused -x 5
	refused -s 5
	flock -u 3 || fail unlock
	in_time 60 flock -x 5
	equal "$(timeout 60 cat "$kernels/$CASE/file.$nr")" "here $n" "what was written under the lock"
	refused -x 3
	flock -u 5
	flock -w 60 -x 3 || fail "a lock that is free"
	exec 5<&- 3<&-
	(( $(calls 'LOCK(delegation)') < 5 )) || break
done
at_least "$(calls 'LOCK(delegation)')" 5 "locks that the server got with the delegation"

# ---- the server restarts ----

until_true "a delegation to write" gives_one_to_write
flock -x 3 || fail lock
in_time 120 vm-nfsd-restart 1
exec 5<>"$kernels/$CASE/file.$nr" || fail "open of the kernel's"
refused -x 5
echo after >&3 || fail "a write under a lock that was reclaimed"
flock -u 3 || fail unlock
in_time 60 flock -x 5
exec 5<&- 3<&-

# ---- a database ----

if [[ $(type -P sqlite3) ]]; then
	before=$(calls LOCK LOCKT LOCKU)
	sqlite3 "$WORK/a.db" "PRAGMA journal_mode=DELETE; CREATE TABLE t (n INTEGER);" >/dev/null || fail sqlite
	nap 1
	for (( n = 0; n < 10; n++ )); do
		sqlite3 -cmd ".timeout 60000" "$WORK/a.db" "INSERT INTO t VALUES ($n);" || fail sqlite
	done
	equal "$(timeout 60 sqlite3 -cmd ".timeout 60000" "$kernels/$CASE/a.db" "SELECT count(*) FROM t; PRAGMA integrity_check;" | xargs)" "10 ok" \
		"rows that the kernel's client sees"
	echo "# $(( $(calls LOCK LOCKT LOCKU) - before )) calls for locks for ten transactions"
fi

vm-root umount "$kernels" || fail "unmount of the kernel's"
mount_down
equal "$(grep -l nfsrdma-fuse "$clients"/*/info 2>/dev/null | wc -l)" 0 "clients that the server still has"
