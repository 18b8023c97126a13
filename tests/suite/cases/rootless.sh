# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# In a user namespace, as a container without privileges has one: who is root there mounts, writes, controls
# and unmounts, with nothing of this machine's but /dev/fuse; also with a pid namespace of its own.
[[ $(id -u) != 0 ]] || skip "an ordinary user's"
unshare -Urm true 2>/dev/null || skip "no user namespaces here"
at=$TMPDIR/at
mkdir -p "$at"
for spaces in -Urm -Urmpf; do
	# shellcheck disable=SC2016 # of that shell
	unshare $spaces bash -c '
		bin=$1 remote=$2 at=$3 options=$4 case=$5
		fail() { echo "FAIL: $*" >&2; exit 1; }
		equal() { [[ $1 == "$2" ]] || fail "$3: $1, not $2"; }
		[[ $(id -u) == 0 ]] || fail "not root"
		"$bin" "$remote" "$at" -o "$options" || fail "a mount"
		equal "$(findmnt -no FSTYPE "$at")" fuse.nfsrdma-fuse "what is mounted"
		echo data >"$at/$case/file" && mkdir "$at/$case/d" || fail "a file"
		equal "$(<"$at/$case/file")" data "what is read"
		# Who is root here is who he is outside, on the server.
		equal "$(stat -c %u:%g "$at/$case/file")" 0:0 "the owner here"
		chmod 600 "$at/$case/file" || fail "chmod"
		"$bin" ctl "$at" info | grep -q "^version" || fail "ctl info"
		"$bin" ctl "$at" paths | grep -q connected || fail "ctl paths"
		cp -p "$at/$case/file" "$at/$case/kept" && chmod 600 "$at/$case/kept" || fail "a copy"
		umount "$at" || fail "umount"
		"$bin" "$remote" "$at" -o "$options" || fail "a mount again"
		rm -r "${at:?}/$case/"{file,d} || fail "removal"
		"$bin" ctl "$at" abort || fail "ctl abort"
		mountpoint -q "$at" && fail "a mount after abort"
		exit 0
	' - "$BIN" "$REMOTE" "$at" "vers=$VERS,$MOUNT_OPTIONS" "$CASE" 2>"$TMPDIR/said" || fail "with unshare $spaces: $(<"$TMPDIR/said")"
	equal "$(vm-root stat -c %u:%g:%a "$SERVER_WORK/kept")" "$(id -u):$(id -g):600" "the owner on the server"
	grep -q 'cannot be controlled\|has no rings' "$TMPDIR/said" && fail "with unshare $spaces: $(<"$TMPDIR/said")"
done
exit 0
