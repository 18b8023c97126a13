# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# What version 4.2 adds for a file's data: holes (SEEK_DATA, SEEK_HOLE), fallocate, copies that the
# server makes; and the time when a file was made. What the server cannot do, programs do without.
mount_up
cd "$WORK" || fail cd

# extents FILE - its data, as "from-to" in blocks of 64 KiB, by lseek().
# shellcheck disable=SC2016 # perl's
extents() {
	perl -e 'use Fcntl; sysopen(my $f, $ARGV[0], O_RDONLY) or die "$ARGV[0]: $!\n"; my $at = 0; my @out;
		while (defined(my $d = sysseek($f, $at, 3))) {
			my $h = sysseek($f, $d + 0, 4); defined $h or die "SEEK_HOLE at $d: $!\n";
			push @out, sprintf("%g-%g", $d / 65536, $h / 65536); $at = $h + 0 }
		$!{ENXIO} or die "SEEK_DATA at $at: $!\n"; print "@out\n"' "$1"
}
# sent CALL - how many of these calls were made since sent_none.
declare -A CALLS
sent_none() { local c; stats_now; for c in READ WRITE COPY CLONE SEEK ALLOCATE DEALLOCATE; do stat_sum "rpc.$c"; CALLS[$c]=$REPLY; done; }
sent() { stats_now; stat_sum "rpc.$1"; echo $(( REPLY - CALLS[$1] )); }
# can COMMAND... - it works, as it has to with version 4.2; with others it cannot be done.
can() {
	if "$@" 2>"$TMPDIR/said"; then [[ $VERS == 4.2 ]] || fail "'$*' works, version $VERS"; return; fi
	[[ $VERS != 4.2 ]] && grep -qi 'supported' "$TMPDIR/said" || fail "$*: $(<"$TMPDIR/said")"
	return 1
}

# ---- holes ----
dd if=/dev/urandom of=holes bs=64K count=1 status=none && dd if=/dev/urandom of=holes bs=64K count=2 seek=16 conv=notrunc status=none &&
	truncate -s 2M holes || fail "a file with holes"
equal "$(stat -c %s "$SERVER_WORK/holes")" 2097152 "its size"
sent_none
there=$(extents "$SERVER_WORK/holes")
here=$(extents holes) || fail "lseek"
seeks=$(sent SEEK)
# Before 4.2 all is data.
[[ $VERS == 4.2 ]] || there=0-32
equal "$here" "$there" "holes"
[[ $VERS == 4.2 || $seeks == 0 ]] || fail "$seeks SEEKs, version $VERS"
echo "holes: $here (the server: $there), $seeks SEEKs"
# Behind the end.
perl -e 'use Fcntl; sysopen(my $f, "holes", O_RDONLY) or die; for my $how (3, 4) { defined(sysseek($f, 2097152, $how)) and die "found\n"; $!{ENXIO} or die "$!\n" }' ||
	fail "lseek behind the end"
# What was written a moment ago is no hole, and what a mapping has dirtied is none either.
perl -e 'use Fcntl; sysopen(my $w, "fresh", O_WRONLY | O_CREAT) or die; truncate($w, 1 << 20) or die; sysseek($w, 524288, 0); syswrite($w, "x" x 65536) == 65536 or die;
	sysopen(my $r, "fresh", O_RDONLY) or die; my $d = sysseek($r, 0, 3); defined $d && $d <= 524288 or die "data at " . ($d // $!) . "\n"' || fail "data that was just written"
cp --sparse=auto holes dense && cmp holes dense && cmp "$SERVER_WORK/holes" "$SERVER_WORK/dense" || fail "cp of a file with holes"

# ---- fallocate ----
if can fallocate -l 1M space; then
	equal "$(stat -c %s space)" 1048576 "the size after fallocate"
	equal "$(stat -c %s "$SERVER_WORK/space")" 1048576 "the same on the server"
	(( $(stat -c %b "$SERVER_WORK/space") >= 2048 )) || fail "the server has set no space aside"
	equal "$(tr -d '\0' <space | wc -c)" 0 "bytes that are not zero"
	echo "fallocate: $(sent ALLOCATE) ALLOCATEs"
fi
head -c 1M /dev/urandom >punched && cp punched "$TMPDIR/model" || fail setup
if can fallocate -p -o 65536 -l 131072 punched; then
	fallocate -p -o 65536 -l 131072 "$TMPDIR/model" || dd if=/dev/zero of="$TMPDIR/model" bs=64K seek=1 count=2 conv=notrunc status=none
	cmp punched "$TMPDIR/model" && cmp "$SERVER_WORK/punched" "$TMPDIR/model" || fail "what is there after fallocate -p"
	equal "$(stat -c %s punched)" 1048576 "the size after fallocate -p"
	equal "$(extents punched)" "$(extents "$SERVER_WORK/punched")" "the hole"
	# In a file that is being written: what comes later fills it, what was there before does not.
	perl -e 'use Fcntl; sysopen(my $f, "mixed", O_RDWR | O_CREAT) or die; syswrite($f, "a" x 1048576) == 1048576 or die;
		system("fallocate", "-p", "-o", "0", "-l", "524288", "mixed") == 0 or die; sysseek($f, 65536, 0); syswrite($f, "b" x 65536) == 65536 or die' || fail "a hole while it is written"
	equal "$(head -c 65536 "$SERVER_WORK/mixed" | tr -d '\0' | wc -c)" 0 "the hole stays"
	equal "$(tail -c +65537 "$SERVER_WORK/mixed" | head -c 65536 | tr -d b | wc -c)" 0 "what was written into it"
	equal "$(tail -c 524288 "$SERVER_WORK/mixed" | tr -d a | wc -c)" 0 "what is behind it"
	echo "fallocate -p: $(sent DEALLOCATE) DEALLOCATEs"
fi
if can fallocate -z -o 1000 -l 2000000 punched; then
	equal "$(stat -c %s "$SERVER_WORK/punched")" 2001000 "the size after fallocate -z"
	equal "$(tail -c +1001 "$SERVER_WORK/punched" | tr -d '\0' | wc -c)" 0 "zeros"
	equal "$(head -c 1000 punched | cmp -n 1000 - "$TMPDIR/model" && echo same)" same "what is before them"
fi
expect_error supported fallocate -n -l 4M space
# posix_fallocate() writes if it has to.
fallocate -x -l 300000 posix && equal "$(stat -c %s "$SERVER_WORK/posix")" 300000 "posix_fallocate"

# ---- copies ----
amount 64 8; mib=$REPLY
head -c "${mib}M" /dev/urandom >big && sync big || fail setup
sent_none
cp big copy || fail cp
reads=$(sent READ) writes=$(sent WRITE) copies=$(sent COPY) clones=$(sent CLONE)
cmp "$SERVER_WORK/big" "$SERVER_WORK/copy" && cmp big copy || fail "the copy is another file"
if (( copies + clones > 0 && reads + writes == 0 )); then
	[[ $VERS == 4.2 ]] || fail "COPY, version $VERS"
	echo "cp of $mib MiB: $clones CLONEs, $copies COPYs, no READ, no WRITE"
else
	# The server refuses, and the kernel reads and writes.
	[[ $VERS != 4.2 || $NFSRDMA_KERNEL == ganesha ]] || fail "cp: $copies COPYs, $clones CLONEs, $reads READs, $writes WRITEs"
	(( writes )) || fail "cp without a WRITE"
	echo "cp: $copies COPYs, $clones CLONEs, $reads READs, $writes WRITEs"
fi
# Odd offsets, and both ends within one file; what was written a moment ago is in the copy.
# shellcheck disable=SC2016 # perl's
perl -e 'use Fcntl; my $nr = 326;     # copy_file_range, x86-64
	sysopen(my $f, "odd", O_RDWR | O_CREAT) or die; syswrite($f, join("", map { chr(65 + $_ % 26) } 0 .. 99999)) == 100000 or die;
	my ($from, $to) = (pack("q", 12345), pack("q", 234567)); my $left = 50000;
	while ($left) { my $n = syscall($nr, fileno($f), $from, fileno($f), $to, $left, 0); $n > 0 or die "copy_file_range: $!\n"; $left -= $n }
	my ($same, $there) = (pack("q", 0), pack("q", 10)); syscall($nr, fileno($f), $same, fileno($f), $there, 100, 0) < 0 && $!{EINVAL} or die "an overlap: $!\n"' || fail "copy_file_range"
equal "$(stat -c %s "$SERVER_WORK/odd")" 284567 "the size after copy_file_range"
equal "$(tail -c 50000 "$SERVER_WORK/odd" | cmp - <(tail -c +12346 "$SERVER_WORK/odd" | head -c 50000) && echo same)" same "copy_file_range"
equal "$(tail -c 50000 odd | cmp - <(tail -c 50000 "$SERVER_WORK/odd") && echo same)" same "the same here"
cp --reflink=auto big again && cmp "$SERVER_WORK/big" "$SERVER_WORK/again" || fail "cp --reflink=auto"
# The server forgets all state, and what it has copied and not on its disk, while it copies.
if [[ $VERS == 4.2 && $NFSRDMA_KERNEL != ganesha && ! -e /run/vm/guest ]]; then
	vm-nfsd-restart >/dev/null 2>&1 & restart=$! over=0
	for (( i = 0; i < 200; i++ )); do
		rm -f copy; cp big copy || fail "cp while the server restarts"
		cmp "$SERVER_WORK/big" "$SERVER_WORK/copy" || fail "the copy after a restart"
		[[ -d /proc/$restart ]] || (( ++over < 3 )) || break
	done
	wait $restart || fail "the server does not restart"
	(( $(stat_now state.recoveries) )) || fail "the client has not seen the restart"
	echo "$i copies while the server restarted"
fi
# The kernel's FUSE module has no FICLONE.
expect_error "not supported" cp --reflink=always big never

# ---- a file system whose files share blocks ----
shares=$EXPORT/shares
no_shares() { cd /; exportfs -u "*:$shares"; exportfs -f; umount -l "$shares"; losetup -d "$loop"; rm -f "$EXPORT/blocks"; rmdir "$shares"; }
if [[ $VERS == 4.2 && $NFSRDMA_KERNEL != ganesha && $(id -u) == 0 && ! -e /run/vm/guest ]] && modprobe -a loop btrfs && type mkfs.btrfs >/dev/null; then
	mkdir "$shares" && truncate -s 400M "$EXPORT/blocks" && loop=$(losetup --show -f "$EXPORT/blocks") && trap no_shares EXIT &&
		mkfs.btrfs -q "$loop" >/dev/null && mount "$loop" "$shares" && exportfs -o rw,no_root_squash,insecure,no_subtree_check,fsid=2 "*:$shares" || fail "btrfs"
	# The server has said that it has no CLONE, of the file system that was asked about.
	cd / && mount_down
	mount_up
	cd "$MNT/shares" && head -c 20000001 /dev/urandom >big && sync big || fail "a file there"
	sync -f "$shares" && before=$(df --output=used -k "$shares" | tail -1)
	sent_none
	cp big copy || fail "cp there"
	equal "$(sent CLONE) $(sent COPY) $(sent READ) $(sent WRITE)" "1 0 0 0" "CLONEs, COPYs, READs and WRITEs"
	cmp "$shares/big" "$shares/copy" && cmp big copy || fail "the clone is another file"
	sync -f "$shares"
	at_most $(( $(df --output=used -k "$shares" | tail -1) - before )) 4096 "KiB that the clone takes"
	# Each file has its own bytes from then on.
	printf changed | dd of=copy bs=1 seek=5000000 conv=notrunc status=none && cmp -s big copy && fail "one file, not two"
	equal "$(tail -c +5000001 "$shares/copy" | head -c 7)" changed "a write to the clone"
	cd "$WORK" || fail cd
	echo "btrfs: 1 CLONE"
fi

# ---- when a file was made ----
# The kernel asks for it from 6.6 on; nfs-ganesha may not have it, and version 3 has none.
born=$(stat -c %W holes) made=$(stat -c %W "$SERVER_WORK/holes")
[[ $born == 0 && ( $VERS == 3 || $NFSRDMA_KERNEL == ganesha || $NFSRDMA_KERNEL == 6.1 ) ]] || equal "$born" "$made" "when it was made"
echo "birth: $born ($made)"
cd / && mount_down
trap end_all EXIT; [[ -z ${loop:-} ]] || no_shares

# ---- replies that are lost: each call is executed once, or twice without harm ----
[[ $VERS == 4.2 && -x ${HOST_GATEWAY:-${BIN%/src/*}/src/gateway/nfsrdma-gateway} ]] || exit 0
has_gateway
gateway_up 20210 "$NFSRDMA_SERVER" --fault drop-after@40/17
mount_up port=20210
cd "$WORK" && head -c 3000001 /dev/urandom >"$TMPDIR/model" && cp "$TMPDIR/model" from || fail "a file"
for (( i = 1; i <= 12; i++ )); do
	cp from to || fail "cp, replies are lost"
	! can fallocate -p -o $(( i * 4096 )) -l 100000 to || dd if=/dev/zero of="$TMPDIR/model" bs=4096 seek=$i count=100000 iflag=count_bytes conv=notrunc status=none
	cmp to "$TMPDIR/model" && cmp "$SERVER_WORK/to" "$TMPDIR/model" || fail "a copy with a hole, replies are lost"
	cp to from || fail "cp back, replies are lost"
done
at_least "$(stat_now rpc.replays)" 5 "calls sent again"
cd / && mount_down
gateway_down
