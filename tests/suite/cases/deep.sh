# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# An export deeper than one COMPOUND reaches, and what is on the way to it.
deep=$(printf '/d%d' {1..40})
mkdir -p "$SERVER_WORK$deep" && echo here >"$SERVER_WORK$deep/f" || fail "the directory on the server"
ln -s "d1/d2" "$SERVER_WORK/link"
base=${REMOTE%/}/$CASE
REMOTE=$base$deep
mount_up
equal "$(cat "$MNT/f")" here "a file in the 40th directory"
echo more >"$MNT/g" && equal "$(cat "$SERVER_WORK$deep/g")" more "the same from the other side"
mount_down
# Version 3 leaves the way to mountd, which follows links.
[[ $VERS == 3 ]] && exit 0
# refused PATH WORDS - it cannot be mounted, and the reason is said.
refused() {
	local said
	said=$("$BIN" -f "$base$1" "$MNT" -o "vers=$VERS,$MOUNT_OPTIONS" 2>&1) && fail "$1 was mounted"
	[[ $said == *"$2"* ]] || fail "mounting $1 says: $said"
}
refused "$deep/nothing" "has no export"
refused "$deep/f" "is not a directory"
refused /link/d3 "$CASE/link' on $NFSRDMA_SERVER is a symbolic link"
refused /link "$CASE/link' on $NFSRDMA_SERVER is a symbolic link"
