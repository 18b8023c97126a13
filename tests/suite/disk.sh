# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# disk.sh - for cases whose export is a disk of its own in the guest (vm-disk): programs that write to
# it by the mount, a server that loses what is not on that disk, and what is there then. Sourced by
# the case, behind lib.sh.
[[ $NFSRDMA_KERNEL != ganesha && $(id -u) == 0 && ! -e /run/vm/guest ]] || skip "the server's file system is not ours here"
disk=$EXPORT/disk REMOTE=${REMOTE%/}/disk WRITERS=()
device=$(vm-disk 10 704 | tail -1)
[[ -b $device ]] || fail "no disk"
trap 'end_all; vm-link up; (( ${#WRITERS[@]} == 0 )) || kill -KILL "${WRITERS[@]}" 2>/dev/null; vm-disk 0; rm -rf "$disk"/*' EXIT

# write_blocks FILE MIB HOW - blocks of 1 MiB, each with its number; says "written". HOW close: and
# ends. sync: fsync() before that, and says "synced". hold: waits to be killed.
write_blocks() {
	perl -MIO::Handle -e 'my ($file, $mib, $how) = @ARGV; $| = 1; open(my $f, ">>", $file) or die "$file: $!";
		for my $i (1 .. $mib) { my $b = pack("N", $i) x 262144; syswrite($f, $b) == length($b) or die "write: $!" }
		print "written\n"; sleep(1000) if $how eq "hold";
		if ($how eq "sync") { $f->sync or die "fsync: $!"; print "synced\n" }
		close($f) or die "close: $!"' \
		"$MNT/$1" "$2" "$3" >"$TMPDIR/$1.said" 2>&1 & WRITERS+=($!)
}
has_said() { grep -q "$2" "$TMPDIR/$1.said"; }
# whole FILE MIB WHEN
whole() {
	perl -e 'my ($file, $mib) = @ARGV; open(my $f, "<", $file) or die "$file: $!";
		for my $i (1 .. $mib) { read($f, my $b, 1048576); $b eq pack("N", $i) x 262144 or die "MiB $i of $file is not there\n" }
		die "$file is longer\n" if read($f, my $b, 1)' "$disk/$1" "$2" || fail "$3"
}
# lose_memory - the server's: what is not on the disk is gone (EXT4_IOC_SHUTDOWN). vm-nfsd-restart
# starts knfsd again.
lose_memory() {
	# EXT4_GOING_FLAGS_NOLOGFLUSH
	perl -e 'open(my $d, "<", $ARGV[0]) or die; my $how = pack("L", 2); ioctl($d, 0x8004587d, $how) or die "$!\n"' "$disk" &&
	vm-disk 10 >/dev/null && rpc.nfsd 0 && exportfs -u "*:$disk" && exportfs -f && umount "$disk" &&
	mount "$device" "$disk" && exportfs -o rw,no_root_squash,insecure,no_subtree_check,fsid=1 "*:$disk" ||
		fail "the server's disk"
}
