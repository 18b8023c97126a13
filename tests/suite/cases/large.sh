# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# READs and WRITEs of more than 1 MiB: they really go out, and nothing gets to another place.
if [[ $NFSRDMA_KERNEL != ganesha ]]; then
	trap 'end_all; vm-nfsd-restart' EXIT
	vm-nfsd-restart 0 4194304 || fail "restart of knfsd"
	[[ $(vm-server cat /proc/fs/nfsd/max_block_size) == 4194304 ]] || skip "this knfsd's largest block is 1 MiB"
fi
mount_up rsize=4194304,wsize=4194304,acregmin=600,acregmax=600
amount 48 16; mib=$REPLY
random "$TMPDIR/src" $(( mib << 20 ))
# Gathered from small writes, and from those that the kernel makes of large ones. A call has the
# data of four at most that are longer than 128 KiB.
for bs in 128k 300k 1M 4M; do
	before=$(stat_now write.requests)
	dd if="$TMPDIR/src" of="$WORK/up$bs" bs=$bs conv=fsync status=none || fail "write bs=$bs"
	same "$TMPDIR/src" "$SERVER_WORK/up$bs"
	[[ $bs == 300k ]] && most=$(( mib * 82 / 48 )) || most=$(( mib / 2 ))
	at_most $(( $(stat_now write.requests) - before )) "$most" \
		"WRITEs for $mib MiB, bs=$bs"
done
# The middle of one that is held, and pieces that end anywhere.
cp "$TMPDIR/src" "$TMPDIR/odd"
for to in "$TMPDIR/odd" "$WORK/odd"; do
	# shellcheck disable=SC2016 # perl's
	perl -e '
		srand 7;
		open my $f, "+>", $ARGV[0] or die "$ARGV[0]: $!";
		for (my $at = 0; $at < $ARGV[1] << 20; ) {
			my $n = 1 + int rand(rand() < .3 ? 1300000 : 200000);
			syswrite($f, chr(65 + $n % 26) x $n) == $n or die "write: $!";
			my $back = int rand($at < 900000 ? $at + 1 : 900000);
			sysseek $f, $at - $back, 0;
			syswrite($f, "change at $at") or die "write: $!";
			sysseek $f, $at += $n, 0;
		}
		close $f or die "close: $!"' "$to" $(( mib * 5 / 12 )) || fail "odd writes to $to"
done
same "$TMPDIR/odd" "$SERVER_WORK/odd"
# Read ahead, from the beginning and from an odd place. A READ asks for no more than what comes in
# a second (ahead_track.h). On a busy machine that is less than 4 MiB, and begins and ends within them.
vm-root cp "$TMPDIR/src" "$SERVER_WORK/down"
before=$(stat_now read.requests) began=$SECONDS
same "$TMPDIR/src" "$WORK/down"
at_most $(( $(stat_now read.requests) - before )) $(( mib / 2 + 4 * (SECONDS - began) )) \
	"READs for $mib MiB in $(( SECONDS - began )) s"
vm-root cp "$TMPDIR/src" "$SERVER_WORK/down2"
cmp <(tail -c +1234567 "$WORK/down2") <(tail -c +1234567 "$TMPDIR/src") || fail "read from 1234567 on"
dd if="$WORK/down" of="$TMPDIR/back" bs=3000001 iflag=direct status=none || fail "O_DIRECT read"
same "$TMPDIR/src" "$TMPDIR/back"
equal "$(stat_now read.copied_bytes)" 0 read.copied_bytes
equal "$(stat_last rpc.bad_replies)" 0 rpc.bad_replies
equal "$(stat_last rdma.errors)" 0 rdma.errors
equal "$(stat_last conn.downs)" 0 conn.downs
mount_down
