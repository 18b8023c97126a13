# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Write-behind when there is no room at the first, the hundredth and the last WRITE, when a
# quota is used up there (in a guest, as a user), when the writer is killed, and when there are
# hardly any buffers: who writes is told, and what fsync() had promised is there. (A file system without room: see "full".)
spent=${BIN%/src/*}/tests/vm-clients/spent
[[ -x $spent ]] || skip "no $spent"

# On knfsd, a file system of the case's own.
with_fs() {
	# shellcheck disable=SC2016 # the server's
	vm-server bash -c 'fs=$NFSRDMA_EXPORT/spent/fs
		mkdir "$fs" && mount -t tmpfs -o mode=1777,size=1m spent "$fs" &&
		exportfs -o rw,no_root_squash,insecure,no_subtree_check,fsid=79 "*:$fs"'
}
# The same with room, and a quota of 1 MiB for one user. Debian has no quota on a tmpfs.
with_quota() {
	# shellcheck disable=SC2016 # the server's
	vm-server bash -ec 'fs=$NFSRDMA_EXPORT/spent/fs
		modprobe -a ext4 loop quota_v2
		truncate -s 16M "$fs.image"
		mkfs.ext4 -q -F -O quota -E quotatype=usrquota "$fs.image"
		mount -o loop,usrquota "$fs.image" "$fs"
		chmod 1777 "$fs"
		perl -e '"'"'my ($of, $user) = @ARGV;
			my $limits = pack("Q8L2", 1024, 0, 0, 0, 0, 0, 0, 0, 1, 0);
			# quotactl(QCMD(Q_SETQUOTA, USRQUOTA), ...), QIF_BLIMITS: in KiB
			syscall(179, 0x800008 << 8, $of, $user + 0, $limits) == 0
				or die "quotactl: $!\n"'"'"' "$(findmnt -no SOURCE "$fs")" "$1"
		exportfs -o rw,no_root_squash,insecure,no_subtree_check,fsid=79 "*:$fs"' - "$(id -u)"
}
without_fs() {
	# shellcheck disable=SC2016
	vm-server bash -c 'fs=$NFSRDMA_EXPORT/spent/fs; exportfs -u "*:$fs"; exportfs -f; umount -l "$fs"'
}

# leave ROOM - so many pages.
leave() {
	dd if=/dev/zero of="$MNT/filler" bs=4k oflag=direct,append conv=notrunc status=none 2>/dev/null
	truncate -s $(( $(stat -c %s "$MNT/filler") - $1 * 4096 )) "$MNT/filler" || fail "truncate"
}

# told WHAT TEXT ROOM HOW - there is one block too much.
told() {
	local promised=$(( $3 < 50 ? 0 : 50 )) said
	leave "$3"
	said=$("$spent" "$MNT/file" $(( $3 + 1 )) $promised "$4" 2>&1) || fail "$1 for $3 blocks, $4: $said"
	at_least "$(grep -c ": $2" <<<"$said")" 1 "$1 for $3 blocks, $4: who was told '$2': $said"
	[[ $said == *"promised: there"*"others: sound" ]] || fail "$1 for $3 blocks, $4: $said"
	# Once for each open.
	[[ $said != *again* ]] || fail "$1 for $3 blocks: fsync() tells it twice: $said"
	rm "$MNT/file" || fail "rm"
}

# runs_out WHAT TEXT - WRITEs of a page, then those that are usual.
runs_out() {
	local options room how
	for options in wsize=4096 ''; do
		mount_up $options
		for room in 0 99 199; do
			# In a guest, one of the two with each.
			for how in fsync close; do
				amount "$how" "$([[ $options ]] && echo fsync || echo close)"
				[[ $how != "$REPLY" ]] || told "$1" "$2" $room $how
			done
		done
		rm "$MNT/filler" || fail "rm"
		mount_down
	done
}

# late - many times as much as there is room for: the writer hears of it before it has
# written another half of all buffers.
late() {
	local said taken
	mount_up
	said=$("$spent" "$MNT/file" 100000 100 fsync 2>&1) || fail "much too much: $said"
	taken=$(sed -n 's/^taken: //p' <<<"$said")
	[[ $said == *"promised: there"*"others: sound" ]] || fail "much too much: $said"
	# With consistency=solo write() ends in the kernel, and only fsync() and close() tell.
	[[ $MOUNT_OPTIONS == *consistency=solo* ]] || at_most "$taken" $(( 256 + $1 / 4096 )) "blocks written, of which there was room for 256"
	rm "$MNT/file" || fail "rm"
	mount_down
}

# rolled_back - a direct write that fails would have made the file longer: the kernel sets the size that it believes
# then. But the server's file has become longer.
rolled_back() {
	mount_up
	head -c 100000 /dev/zero >"$MNT/file" || fail write
	# shellcheck disable=SC2016 # perl's
	coproc perl -MFcntl=:DEFAULT,O_DIRECT -e '$| = 1;
		sysopen(my $f, $ARGV[0], O_RDWR | O_DIRECT) or die "$!";
		stat($f) or die "$!";
		print "open\n"; <STDIN>;
		sysseek($f, 614400, 0) or die "$!";
		print syswrite($f, "x" x 4096) ? "written\n" : "$!\n"' "$MNT/file"
	writer=$COPROC_PID
	read -r said <&"${COPROC[0]}" && equal "$said" open "a direct writer"
	leave 0
	# (truncate(1) does not wait for a delegation.)
	# shellcheck disable=SC2016 # the server's
	vm-server bash -c 'dd if=/dev/null of="$NFSRDMA_EXPORT/$1/file" bs=1 seek=400000 status=none' - "$1" || fail "the server's file"
	echo >&"${COPROC[1]}"
	read -r said <&"${COPROC[0]}" && equal "$said" "No space left on device" "a direct write without room"
	wait "$writer" || fail "the direct writer"
	# shellcheck disable=SC2016 # the server's
	equal "$(vm-server bash -c 'stat -c %s "$NFSRDMA_EXPORT/$1/file"' - "$1")" 400000 "bytes of the file, behind that"
	rm "$MNT/file" "$MNT/filler" || fail "rm"
	mount_down
}

all=$REMOTE
case $NFSRDMA_KERNEL in
ganesha) small=small ;;    # tests/host/run has made it
*) with_fs || fail "no small file system"
	trap 'end_all; without_fs' EXIT
	small=spent/fs ;;
esac
REMOTE=${REMOTE%/}/$small
runs_out "no room" "No space left on device"
late 33554432
# With consistency=solo nobody else may.
[[ $MOUNT_OPTIONS == *consistency=solo* ]] || rolled_back $small
if [[ $NFSRDMA_KERNEL != ganesha ]]; then
	without_fs
	# Not for root, who has no quota.
	if [[ $(id -u) != 0 ]]; then
		with_quota || fail "no file system with a quota"
		runs_out "no quota" "Disk quota exceeded"
		without_fs
	fi
	trap end_all EXIT
fi

# Writers are killed: with a server, and without one, when they wait for room.
REMOTE=$all
mount_up timeo=50
links=(up down)
# There close() waits in the kernel, until the server has the pages.
[[ $MOUNT_OPTIONS != *consistency=solo* ]] || links=(up)
for link in "${links[@]}"; do
	"$spent" "$WORK/killed" 100000 50 fsync >/dev/null 2>&1 & writer=$!
	bigger() { (( $(stat -c %s "$SERVER_WORK/killed" 2>/dev/null || echo 0) > 1000000 )); }
	until_true "the writer's first blocks" bigger
	[[ $link == up ]] || { vm-link down; sleep 1; }
	kill -KILL $writer
	gone $writer || fail "the writer is still there a minute after SIGKILL, link $link"
	wait $writer 2>/dev/null
	vm-link up
	said=$("$spent" "$WORK/killed" 100000 50 look) || fail "$said"
	[[ $said == *"promised: there"*"others: sound" ]] || fail "killed, link $link: $said"
	rm "$WORK/killed" || fail "rm"
done
mount_down

# Too little memory for buffers to spare. (With iWARP in user space there is no limit.)
if [[ $(id -u) != 0 && $MOUNT_OPTIONS == *verbs* ]]; then
	ulimit -S -l 4096
	mount_up lanes=1
	ulimit -S -l "$(ulimit -H -l)"
	equal "$("$spent" "$WORK/little" 2000 50 fsync 2>&1 | tr '\n' ,)" "taken: 2000,promised: there,others: sound," \
		"with 4 MiB of locked memory"
	mount_down
fi
exit 0
