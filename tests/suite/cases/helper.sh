# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# By mount(8), which says nothing of its own defaults, "dev" and "suid" among them.
[[ $(id -u) == 0 ]] || skip "mount(8) takes root"
by_mount() {    # OPTIONS WANTED - WANTED: those of nosuid, nodev, noexec that are to be there
	local got
	mount -t nfsrdma -o "vers=$VERS,$MOUNT_OPTIONS${1:+,$1}" "$REMOTE" "$MNT" || fail "mount -o '$1': status $?"
	got=$(grep " $MNT fuse" /proc/mounts | grep -oE 'nosuid|nodev|noexec' | tr '\n' ' ')
	equal "${got% }" "$2" "mount -o '$1'"
	umount "$MNT" || fail "umount after mount -o '$1'"
}
# This /sbin is the case's own.
mkdir -p "$TMPDIR/sbin" "$TMPDIR/work"
ln -s "$BIN" "$TMPDIR/sbin/mount.nfsrdma"
# mount.fuse3 looks for it by its name, and not along this PATH.
ln -s "$BIN" "$TMPDIR/sbin/nfsrdma-fuse"
mount -t overlay -o "lowerdir=$(realpath /sbin),upperdir=$TMPDIR/sbin,workdir=$TMPDIR/work" overlay /sbin ||
	fail "no overlay on /sbin"
trap 'umount -l /sbin; [[ ${DAEMON:-} ]] && kill -KILL $DAEMON 2>/dev/null' EXIT
by_mount '' ''
by_mount dev,suid ''
by_mount nosuid nosuid
by_mount nodev nodev
by_mount user 'nosuid nodev noexec'
by_mount user,suid 'nodev noexec'
echo "$REMOTE $MNT nfsrdma noauto,vers=$VERS,$MOUNT_OPTIONS 0 0" >"$TMPDIR/fstab"
mount -T "$TMPDIR/fstab" "$MNT" || fail "mount by fstab"
grep " $MNT fuse" /proc/mounts | grep -E 'nosuid|nodev' && fail "options by fstab"
# By fstab, and by the mount table, whose type is that of FUSE.
mount -T "$TMPDIR/fstab" -o remount,ro,actimeo=7 "$MNT" || fail "remount by fstab"
grep -q " $MNT fuse[^ ]* ro," /proc/mounts || fail "not read-only after a remount by fstab"
"$BIN" ctl "$MNT" info >/dev/null || fail "no daemon after a remount"
mount -o remount,rw "$MNT" || fail "remount by the mount table"
grep -q " $MNT fuse[^ ]* rw," /proc/mounts || fail "read-only after a remount by the mount table"
umount "$MNT" || fail "umount after the mount by fstab"

# A daemon that was killed: "mount MOUNTPOINT" replaces its mount; "mount -a" does not look, because it is mounted.
echo "$REMOTE $MNT nfsrdma vers=$VERS,$MOUNT_OPTIONS 0 0" >"$TMPDIR/fstab"
mount -a -T "$TMPDIR/fstab" || fail "mount -a"
mount -a -T "$TMPDIR/fstab" || fail "mount -a, again"
equal "$(grep -c " $MNT fuse" /proc/mounts)" 1 "mounts after mount -a twice"
# The newest: the one before may still be ending.
pid=$(pgrep -n -f "$REMOTE $MNT ") || fail "no daemon after mount -a"
kill -KILL $pid && gone "$pid" || fail "the daemon does not end"
said=$(mount -a -T "$TMPDIR/fstab" 2>&1) || fail "mount -a, of a mount whose daemon was killed: $said"
expect_error "Transport endpoint is not connected" ls "$MNT"
mount -f -t nfsrdma -o "vers=$VERS,$MOUNT_OPTIONS" "$REMOTE" "$MNT" || fail "mount -f of a mount whose daemon was killed"
expect_error "Transport endpoint is not connected" ls "$MNT"
said=$(mount -T "$TMPDIR/fstab" "$MNT" 2>&1) || fail "mount of a mount whose daemon was killed: $said"
[[ $said == *"had no daemon any more"* ]] || fail "what is said of the mount whose daemon was killed: $said"
ls "$MNT" >/dev/null || fail "a mount that was replaced"
equal "$(grep -c " $MNT fuse" /proc/mounts)" 1 "mounts after a replacement"
umount "$MNT" || fail "umount of the mount that was replaced"

# The escapes of fstab(5), in the mount point and in the export.
odd=$'a b\tc\\d' escaped='a\040b\011c\134d'
mkdir "$TMPDIR/$odd"
echo "$REMOTE $TMPDIR/$escaped nfsrdma vers=$VERS,$MOUNT_OPTIONS 0 0" >"$TMPDIR/fstab"
mount -T "$TMPDIR/fstab" "$TMPDIR/$odd" || fail "mount on a directory with a blank, a tab and a backslash"
[[ -d $TMPDIR/$odd/helper ]] || fail "nothing is mounted there: $(ls "$TMPDIR/$odd")"
umount "$TMPDIR/$odd" || fail "umount of '$odd'"
echo "${REMOTE%/}/helper/$escaped $MNT nfsrdma vers=$VERS,$MOUNT_OPTIONS 0 0" >"$TMPDIR/fstab"
mkdir -p "$SERVER_WORK/$odd" && : >"$SERVER_WORK/$odd/here" || fail "a directory of the server's"
mount -T "$TMPDIR/fstab" "$MNT" || fail "mount of an export with a blank, a tab and a backslash"
[[ -e $MNT/here ]] || fail "another export is mounted: $(ls "$MNT")"
umount "$MNT" || fail "umount of that export"
