# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# A disk that fills up, and a quota that is used up, with much held by write-behind: the program
# whose data has no place is told by write(), fsync() or close(), and no other one. The export is
# an ext4 on a disk image. What is held is written while the link is down.
[[ $NFSRDMA_KERNEL != ganesha && $(id -u) == 0 && ! -e /run/vm/guest ]] || skip "the server's file system is not ours here"
modprobe -a ext4 loop quota_v2 || skip "no ext4, no loop device, or no quota"
fs=$EXPORT/fills/fs image=$TMPDIR/image user=1001 much=112
mkdir "$fs" && truncate -s 96M "$image" && mkfs.ext4 -q -F -O quota -E quotatype=usrquota "$image" &&
	mount -o loop,usrquota "$image" "$fs" && chmod 1777 "$fs" &&
	exportfs -o rw,no_root_squash,insecure,no_subtree_check,fsid=79 "*:$fs" || fail "no file system"
trap 'end_all; vm-link up; exportfs -u "*:$fs"; exportfs -f; umount -l "$fs"' EXIT
REMOTE=${REMOTE%/}/fills/fs

# quota BYTES - how much that user may have; 0: all.
quota() {
	local call
	case $(uname -m) in x86_64) call=179 ;; *) call=60 ;; esac
	# Q_SETQUOTA of a user; QIF_BLIMITS, in KiB
	perl -e 'my ($call, $dev, $uid, $kib) = @ARGV;
		my $q = pack("Q8L2", $kib, $kib, 0, 0, 0, 0, 0, 0, 1, 0);
		syscall($call + 0, 0x800008 << 8, $dev, $uid + 0, $q) == 0 or die "quotactl: $!\n"' \
		"$call" "$(findmnt -no SOURCE "$fs")" $user $(( $1 >> 10 )) || fail "no quota can be set"
}

# start NAME UID MIB - a program opens the file NAME. At each line that it gets it goes on: writes so
# much, and then fsync() and close(). What it has seen is in NAME.said.
declare -A to=() pid=()
start() {
	local fd
	mkfifo "$TMPDIR/$1.go"
	perl -MIO::Handle -e 'my ($file, $uid, $mib) = @ARGV; $| = 1; $) = "$uid $uid"; $> = $uid;
		sub tell_of { printf "%s: %s\n", $_[0], $_[1] ? "Success" : "$!" }
		my $block = substr($file, rindex($file, "/") + 1, 1) x 1048576;
		open(my $f, -e $file ? "+<" : ">", $file) or die "$file: $!"; print "open\n"; <STDIN>;
		my $n = 0; $n++ while $n < $mib && syswrite($f, $block) == length($block);
		tell_of("write", $n == $mib); <STDIN>;
		tell_of("fsync", $f->sync); tell_of("close", close($f))' \
		"$MNT/$1" "$2" "$3" <"$TMPDIR/$1.go" >"$TMPDIR/$1.said" 2>&1 & pid[$1]=$!
	exec {fd}>"$TMPDIR/$1.go"
	to[$1]=$fd
	until_said "$1" open
}
until_said() { until_true "$1: $2" grep -q "^$2" "$TMPDIR/$1.said"; }
go_on() { echo >&"${to[$1]}"; }
# It has written, calls fsync() and close(), and ends.
finish() {
	local fd=${to[$1]}
	go_on "$1"
	wait "${pid[$1]}" || fail "$1: $(<"$TMPDIR/$1.said")"
	exec {fd}>&-
	rm "$TMPDIR/$1.go"
}
all_well() { equal "$(tr '\n' ' ' <"$TMPDIR/$1.said")" "open write: Success fsync: Success close: Success " "$1, whose data has its place"; }
is_told() {
	grep -q ": $2\$" "$TMPDIR/$1.said" && ! grep -qvE "^open\$|: (Success|$2)\$" "$TMPDIR/$1.said" ||
		fail "$1 was not told '$2': $(<"$TMPDIR/$1.said")"
}
whole() { equal "$(tr -d -c "${1:0:1}" <"$fs/$1" | wc -c)" $(( $2 << 20 )) "bytes of $1"; equal "$(stat -c %s "$fs/$1")" $(( $2 << 20 )) "size of $1"; }

# overrun TEXT - a program of that user writes more than there is place for, another one of him what
# was there before, and one of root as well.
overrun() {
	local name held
	for name in kept own; do
		start $name "$([[ $name == own ]] && echo $user || echo 0)" 4
		go_on $name; until_said $name write; finish $name; all_well $name
	done
	start kept 0 4; start own $user 4; start big $user $much
	vm-link down
	for name in kept own big; do go_on $name; done
	for name in kept own big; do until_said $name write; done
	held=$(stat_now now.held_bytes)
	vm-link up
	echo "# $(( held >> 20 )) MiB were held: $1"
	at_least "$held" $(( (much + 8) << 20 )) "bytes that are held"
	for name in kept own big; do finish $name; done
	is_told big "$1"
	for name in kept own; do all_well $name; whole $name 4; done
	# It is as full as before.
	start kept 0 4; go_on kept; until_said kept write; finish kept; all_well kept
	rm -f "$MNT/big" || fail "rm"
	until_true "there is room again" has_room
	rm -f "$MNT"/*
}
has_room() { rm -f "$MNT/new"; start new $user 16; go_on new; until_said new write; finish new; grep -q "close: Success" "$TMPDIR/new.said" && whole new 16; }

mount_up
overrun "No space left on device"
quota $(( 48 << 20 ))
overrun "Disk quota exceeded"
quota 0
equal "$(stat_now now.held_bytes)" 0 "bytes that are held in the end"
mount_down
