# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# A daemon hears late that its mount is gone. Its numbers are another mount's by then, and that one stays. (Without root,
# Linux before 6.8 does not tell the two apart.)
[[ $(id -u) == 0 ]] || skip "only root's daemon can tell with each kernel"
LATER=$TMPDIR/later
trap 'end_all; ! mountpoint -q "$LATER" || umount -l "$LATER"' EXIT
numbers_of() { awk -v on="$1" '$5 == on { print $1, $3 }' /proc/self/mountinfo; }
# Sets again: the later mount had the same numbers.
later_mount() {
	local had
	mount_up
	had=$(numbers_of "$MNT")
	kill -STOP "$DAEMON"
	# umount(8) would ask the daemon first.
	in_time 20 python3 -c 'import ctypes, sys; sys.exit(ctypes.CDLL(None).umount2(sys.argv[1].encode(), 0))' "$MNT" ||
		fail "umount, of a daemon that is stopped"
	"$BIN" "$REMOTE" "$LATER" -o "vers=$VERS,$MOUNT_OPTIONS" || fail "the later mount"
	again=''
	[[ $(numbers_of "$LATER") != "$had" ]] || again=1
	kill -CONT "$DAEMON"
	gone "$DAEMON" || fail "the daemon whose mount is gone"
	DAEMON=''
	mountpoint -q "$LATER" || fail "the end of one mount has taken the later one away"
	umount "$LATER" || fail "umount of the later one"
}
mkdir "$LATER"
# The device number may have been given to another mount of this machine.
for _ in {1..5}; do
	later_mount
	[[ ! $again ]] || break
done
