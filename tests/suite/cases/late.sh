# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# A COMMIT that takes long: who waits for it, and who does not; one that takes longer than timeo; and
# a server that loses its memory during COMMIT, with all of write-behind's room taken.
# NFSRDMA_LATE=SECONDS: each of these takes so much longer.
# shellcheck source-path=SCRIPTDIR source=../disk.sh
. "${BASH_SOURCE[0]%/*}/../disk.sh"
longer=${NFSRDMA_LATE:-0} never=3600000 begun=$SECONDS
# The guest's console shows how far it came, if it does not end.
at() { echo "late, $(( SECONDS - begun )) s: $*" >/dev/console; }
commits=0
commits_now() { commits=$(stat_now behind.commits); }
is_committing() { (( $(stat_now behind.commits) > commits )); }
is_all_there() { (( $(stat_now now.held_bytes) == 0 )); }
in_state() { [[ $(ps -o stat= -p "$1") == $2* ]]; }
killed() {
	kill -KILL "$1"
	gone "$1" || fail "$2 is killed, and still there a minute later: $(<"/proc/$1/stack")"
}

# COMMIT does not end. (The files are there before: knfsd makes none without a flush.)
mount_up
echo other >"$MNT/other" && : >"$MNT/late" && : >"$MNT/aside" && sync "$MNT"/{other,late,aside} || fail "files"
vm-disk $never >/dev/null
commits_now
write_blocks late 4 sync
until_true "COMMIT is sent" is_committing
at "COMMIT is sent"
kernel_forgets
equal "$(<"$MNT/other")" other "a file that is read during COMMIT"
equal "$(stat -c %s "$MNT/late")" $(( 4 << 20 )) "size during COMMIT"
write_blocks aside 4 hold
until_true "another file is written during COMMIT" has_said aside written
# A second program that calls fsync() waits for the kernel's lock of the inode, which the first one
# has: no signal ends that. It is gone when the first one is.
perl -MIO::Handle -e '$| = 1; open(my $f, "<", $ARGV[0]) or die; print "asks\n"; $f->sync; print "answered\n"' \
	"$MNT/late" >"$TMPDIR/asks.said" 2>&1 & WRITERS+=($!)
until_true "another program calls fsync()" has_said asks asks
until_true "it waits in the kernel" in_state "${WRITERS[2]}" D
sleep "$longer"
kill -KILL "${WRITERS[2]}"
killed "${WRITERS[0]}" "who waits for COMMIT"
gone "${WRITERS[2]}" || fail "who waited for that one is still there: $(<"/proc/${WRITERS[2]}/stack")"
at "who waited for COMMIT is killed"
! has_said asks answered && ! has_said late synced || fail "fsync() did not wait for COMMIT"
at_least "$(stat_now now.held_bytes)" $(( 4 << 20 )) "bytes whose COMMIT is under way"
vm-disk 10 >/dev/null
kill "${WRITERS[1]}"
until_true "all is on the disk" is_all_there
wait "${WRITERS[@]}" 2>/dev/null
WRITERS=()
mount_down
lose_memory
whole late 4 "fsync() was killed"
whole aside 4 "written during COMMIT"
vm-nfsd-restart

# COMMIT takes longer than timeo: each connection that is given up for it leaves it more time.
mount_up timeo=20
: >"$MNT/again" && sync "$MNT/again" || fail "a file"
vm-disk $(( 6000 + longer * 100 )) >/dev/null
write_blocks again 4 sync
until_true "fsync() that takes longer than timeo" has_said again synced
at "fsync() has returned"
vm-disk 10 >/dev/null
wait "${WRITERS[0]}" || fail "fsync() that takes longer than timeo: $(<"$TMPDIR/again.said")"
WRITERS=()
downs=$(stat_now conn.downs)
at_least "$downs" 1 "connections that were given up for it"
mount_down
lose_memory
whole again 4 "fsync() took longer than timeo"
vm-nfsd-restart

# All of the room is taken, by four files, and COMMIT is under way, when the server loses its memory.
mount_up writebehind=1
for k in 1 2 3 4; do : >"$MNT/full$k"; done
sync "$MNT"/full* || fail "sync"
vm-disk $never >/dev/null
commits_now
for k in 1 2; do write_blocks full$k 40 close; done
for k in 3 4; do write_blocks full$k 40 sync; done
held=0
is_full() {
	local before=$held
	held=$(stat_now now.held_bytes)
	(( held == before && held * 4 >= $(stat_last behind.room_bytes) * 3 ))
}
until_true "COMMIT is sent" is_committing
until_true "the room is full" is_full
room=$(stat_last behind.room_bytes)
for k in 1 2 3 4; do ! has_said full$k written || fail "full$k had room"; done
at "the room is full"
sleep "$longer"
vm-link down
lose_memory
vm-link up
vm-nfsd-restart
for k in 1 2 3 4; do
	wait "${WRITERS[k - 1]}" || fail "writer $k: $(<"$TMPDIR/full$k.said")"
done
WRITERS=()
at "all have ended"
equal "$(stat_now now.held_bytes)" 0 "bytes that are held in the end"
lose_memory
for k in 1 2 3 4; do whole full$k 40 "the server has lost its memory with all of the room taken"; done
vm-nfsd-restart
mount_down
echo "# $downs connections given up for a COMMIT; at the restart $(( held >> 20 )) MiB were held, of $(( room >> 20 )) MiB"
