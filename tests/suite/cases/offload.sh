# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Long copies, which the server goes on with behind COPY's reply (RFC 7862, section 4): one call, and one
# callback at the end; a program that is killed meanwhile; a server that forgets the copy.
[[ $VERS == 4.2 ]] || skip "the server copies with version 4.2 only"
# shellcheck source-path=SCRIPTDIR source=../disk.sh
. "${BASH_SOURCE[0]%/*}/../disk.sh"
readonly MIB=256 never=600000
readonly CALLS="COPY READ WRITE COMMIT OFFLOAD_STATUS OFFLOAD_CANCEL"

declare -A HAD
count() { awk -v name="$1" '$1 == name { n = $2 } END { print n + 0 }' "$STATS"; }
sent_none() { local c; stat_now rpc.calls >/dev/null; for c in $CALLS; do HAD[rpc.$c]=$(count "rpc.$c"); done; HAD[copies.ended]=$(count copies.ended); }
# sent NAME - how much a counter has grown since sent_none.
sent() { stat_now rpc.calls >/dev/null; echo $(( $(count "$1") - ${HAD[$1]} )); }
has_sent() { (( $(sent "$1") >= $2 )); }
all_sent() { local c; for c in $CALLS; do printf '%s %s, ' "$(sent "rpc.$c")" "$c"; done; echo "$(sent copies.ended) callbacks"; }

# The server's own write: nothing of the file is known here.
perl -e 'open(my $f, ">", $ARGV[0]) or die; for my $i (1 .. $ARGV[1]) { print $f pack("N", $i) x 262144 or die } close($f) or die' "$disk/big" $MIB && sync "$disk/big" || fail "a file"
mount_up

# ---- one call, one callback ----
sent_none
cp "$MNT/big" "$MNT/copy" || fail cp
said=$(all_sent)
equal "$(sent rpc.READ) $(sent rpc.WRITE) $(sent rpc.COPY)" "0 0 1" "READs, WRITEs, COPYs ($said)"
equal "$(sent copies.ended)" 1 "callbacks ($said)"
whole copy $MIB "cp had ended"
echo "# cp of $MIB MiB: $said"

# ---- killed: the server is told to stop, and the file is free then ----
sent_none
vm-disk $never >/dev/null
cp "$MNT/big" "$MNT/killed" & WRITERS=($!)
until_true "the server copies" has_sent rpc.COPY 1
nap 3
kill -KILL "${WRITERS[0]}"
nap 3
vm-disk 10 >/dev/null
gone "${WRITERS[0]}" || fail "cp is still there"
WRITERS=()
in_time 60 truncate -s 0 "$MNT/killed" || fail "the file is not free"
echo new >"$MNT/killed" || fail "the file cannot be written"
nap 2
equal "$(<"$disk/killed")" new "what was written behind the copy"
echo "# killed: $(all_sent)"

# ---- the server restarts, and does not know the copy any more ----
head -c ${MIB}M /dev/zero >"$disk/lost" && sync "$disk/lost" || fail "a file"
sent_none
vm-disk $never >/dev/null
dd if=/dev/null of="$MNT/lost" conv=notrunc status=none
# shellcheck disable=SC2016 # perl's
perl -e 'use Fcntl; sysopen(my $from, $ARGV[0], O_RDONLY) && sysopen(my $to, $ARGV[1], O_RDWR) or die "$!\n"; my $left = -s $from;
	while ($left) { my $n = syscall(326, fileno($from), 0, fileno($to), 0, $left, 0); $n > 0 or die "copy_file_range: $!\n"; $left -= $n }' "$MNT/big" "$MNT/lost" & WRITERS=($!)
until_true "the server copies" has_sent rpc.COPY 1
nap 1
kill -0 "${WRITERS[0]}" || fail "the copy did not wait for the disk"
vm-link down
lose_memory
vm-link up
vm-nfsd-restart
wait "${WRITERS[0]}" || fail "a copy while the server loses its memory"
WRITERS=()
said=$(all_sent)
vm-link down
lose_memory
whole lost $MIB "the server has lost its memory while it copied"
vm-link up
vm-nfsd-restart
echo "# lost: $said"
mount_down
