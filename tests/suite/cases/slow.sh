# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# A disk whose flush takes its time: what a mount holds at its end gets there. "There" means: on the
# disk of a server that has lost its memory since (EXT4_IOC_SHUTDOWN).
[[ $NFSRDMA_KERNEL != ganesha && $(id -u) == 0 && ! -e /run/vm/guest ]] || skip "the server's file system is not ours here"
disk=$EXPORT/disk REMOTE=${REMOTE%/}/disk WRITERS=()
device=$(vm-disk 10 704 | tail -1)
[[ -b $device ]] || fail "no disk"
trap 'end_all; vm-link up; (( ${#WRITERS[@]} == 0 )) || kill -KILL "${WRITERS[@]}" 2>/dev/null; vm-disk 0; rm -rf "$disk"/*' EXIT

# write_blocks FILE MIB HOW - blocks of 1 MiB, each with its number; says "written". HOW hold: waits to
# be killed.
write_blocks() {
	perl -e 'my ($file, $mib, $how) = @ARGV; $| = 1; open(my $f, ">>", $file) or die "$file: $!";
		for my $i (1 .. $mib) { my $b = pack("N", $i) x 262144; syswrite($f, $b) == length($b) or die "write: $!" }
		print "written\n"; sleep(1000) if $how eq "hold";
		close($f) or die "close: $!"' \
		"$MNT/$1" "$2" "$3" >"$TMPDIR/$1.said" 2>&1 & WRITERS+=($!)
}
has_said() { grep -q "$2" "$TMPDIR/$1.said"; }
# whole FILE MIB
whole() {
	perl -e 'my ($file, $mib) = @ARGV; open(my $f, "<", $file) or die "$file: $!";
		for my $i (1 .. $mib) { read($f, my $b, 1048576); $b eq pack("N", $i) x 262144 or die "MiB $i of $file is not there\n" }
		die "$file is longer\n" if read($f, my $b, 1)' "$disk/$1" "$2" || fail "$3"
}
lose_memory() {
	# EXT4_GOING_FLAGS_NOLOGFLUSH
	perl -e 'open(my $d, "<", $ARGV[0]) or die; my $how = pack("L", 2); ioctl($d, 0x8004587d, $how) or die "$!\n"' "$disk" &&
	vm-disk 10 >/dev/null && rpc.nfsd 0 && exportfs -u "*:$disk" && exportfs -f && umount "$disk" &&
	mount "$device" "$disk" && exportfs -o rw,no_root_squash,insecure,no_subtree_check,fsid=1 "*:$disk" ||
		fail "the server's disk"
}
let_go() { kill "${WRITERS[@]}" 2>/dev/null; wait "${WRITERS[@]}" 2>/dev/null; WRITERS=(); }
ended() { gone "$DAEMON" || fail "the daemon still runs a minute after $1"; DAEMON=''; }

# A signal ends the mount.
vm-disk 40 >/dev/null
mount_up
write_blocks term 200 hold
until_true "200 MiB are written" has_said term written
held=$(stat_now now.held_bytes)
at_least "$held" 1 "bytes that are held"
kill -TERM "$DAEMON"
ended SIGTERM
lose_memory
whole term 200 "SIGTERM with $held bytes held"
vm-nfsd-restart
let_go

# umount -l, and the program ends.
vm-disk 40 >/dev/null
mount_up
write_blocks lazy 32 hold
until_true "32 MiB are written" has_said lazy written
lazy=$(stat_now now.held_bytes)
unmount -l || fail "umount -l"
let_go
ended "umount -l, and the program's end"
lose_memory
whole lazy 32 "umount -l with $lazy bytes held"
vm-nfsd-restart
echo "# held at SIGTERM $(( held >> 20 )) MiB, at umount -l $(( lazy >> 20 )) MiB"
