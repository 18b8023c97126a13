# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# A server that loses its memory while it copies, or just after: what cp has been told is on its disk
# then (EXT4_IOC_SHUTDOWN), and nobody has the data to send it again. A flush of the disk that does not
# end keeps what was copied in memory until that is lost.
[[ $VERS == 4.2 ]] || skip "the server copies with version 4.2 only"
# shellcheck source-path=SCRIPTDIR source=../disk.sh
. "${BASH_SOURCE[0]%/*}/../disk.sh"
# Short enough for COPYs that do not go on behind their replies: offload.sh has those.
readonly MIB=12 never=600000

copies() { stats_now; stat_sum rpc.COPY; echo "$REPLY"; }
copied() { (( $(copies) >= $1 )); }
writes() { stat_sum rpc.WRITE; echo "$REPLY"; }

# copy_into FROM TO - which is there, and is not truncated: that would wait for the disk.
# shellcheck disable=SC2016 # perl's
copy_into() {
	perl -e 'use Fcntl; my $nr = 326;       # copy_file_range, x86-64
		sysopen(my $from, $ARGV[0], O_RDONLY) && sysopen(my $to, $ARGV[1], O_RDWR) or die "$!\n"; my $left = -s $from;
		while ($left) { my $n = syscall($nr, fileno($from), 0, fileno($to), 0, $left, 0); $n > 0 or die "copy_file_range: $!\n"; $left -= $n }
		print "copied\n"' "$MNT/$1" "$MNT/$2" >"$TMPDIR/$2.said" 2>&1
}

mount_up
write_blocks big $MIB sync
wait "${WRITERS[@]}" || fail "a file: $(<"$TMPDIR/big.said")"
WRITERS=()
copied 0; before=$(writes)
cp "$MNT/big" "$MNT/calm" || fail cp
copied 1 || fail "no COPY"
equal "$(writes)" "$before" "WRITEs"
vm-link down
lose_memory
whole calm $MIB "cp had ended"
vm-link up
vm-nfsd-restart

for k in 1 2; do
	head -c ${MIB}M /dev/zero >"$MNT/lost$k" && sync "$MNT/lost$k" || fail "a file"
	had=$(copies)
	vm-disk $never >/dev/null
	copy_into big lost$k & WRITERS=($!)
	until_true "the server copies" copied $(( had + MIB / 4 ))
	! has_said lost$k copied || fail "the copy did not wait for COMMIT"
	vm-link down
	lose_memory
	vm-link up
	vm-nfsd-restart
	wait "${WRITERS[0]}" || fail "a copy while the server loses its memory: $(<"$TMPDIR/lost$k.said")"
	WRITERS=()
	vm-link down
	lose_memory
	whole lost$k $MIB "the server has lost its memory while it copied"
	vm-link up
	vm-nfsd-restart
	again=$(( $(copies) - had ))
	at_least "$again" $(( MIB / 4 + 1 )) "COPYs: what was lost is copied again"
done
mount_down
echo "# $again COPYs of $MIB MiB"
