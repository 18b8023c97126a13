# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# The server loses its memory under write-behind, again and again: every byte that fsync() or
# close() had promised is on its disk. The export is an ext4 on a disk image. First the link
# goes down, so that nothing is promised any more. Then ext4 is shut down without its journal
# (EXT4_IOC_SHUTDOWN): what was not on the disk is gone. NFSRDMA_CRASHES: how often.
promise=${BIN%/src/*}/tests/vm-clients/promise
[[ -x $promise ]] || skip "no $promise"
[[ $NFSRDMA_KERNEL != ganesha && $(id -u) == 0 && ! -e /run/vm/guest ]] || skip "the server's file system is not ours here"
modprobe ext4 && modprobe loop || skip "no ext4, or no loop device"

fs=$EXPORT/crash/fs image=$TMPDIR/image
mkdir "$fs" && truncate -s 64M "$image" && mkfs.ext4 -q -F "$image" || fail "no file system"
disk_up() {
	mount -o loop "$image" "$fs" && chmod 1777 "$fs" &&
		exportfs -o rw,no_root_squash,insecure,no_subtree_check,fsid=78 "*:$fs"
}
disk_down() { exportfs -u "*:$fs"; exportfs -f; umount "$fs"; }
cat >"$TMPDIR/kill" <<END
set -e
vm-link down
sleep 0.2
# EXT4_GOING_FLAGS_NOLOGFLUSH
perl -e 'open(my \$d, "<", \$ARGV[0]) or die; my \$how = pack("L", 2); ioctl(\$d, 0x8004587d, \$how) or die "\$!\n"' $fs
rpc.nfsd 0
exportfs -u '*:$fs'
exportfs -f
umount $fs
mount -o loop $image $fs
END
cat >"$TMPDIR/revive" <<END
set -e
exportfs -o rw,no_root_squash,insecure,no_subtree_check,fsid=78 '*:$fs'
vm-link up
vm-nfsd-restart
END
disk_up || fail "it is not exported"
trap 'end_all; vm-link up; disk_down' EXIT
REMOTE=${REMOTE%/}/crash/fs
mount_up
"$promise" "$MNT" "$fs" "${NFSRDMA_CRASHES:-4}" "$RANDOM" "sh $TMPDIR/kill" "sh $TMPDIR/revive" >"$TMPDIR/said" 2>&1 ||
	fail "$(<"$TMPDIR/said")"
cat "$TMPDIR/said"
mount_down
exit 0
