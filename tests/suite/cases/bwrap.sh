# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Sandboxes as bubblewrap makes them for an ordinary user: all in one; the daemon in one and programs in another; and
# programs alone, with a mount from outside.
[[ $(id -u) != 0 ]] || skip "an ordinary user's"
command -v bwrap >/dev/null || skip "no bwrap (Debian: bubblewrap)"
bwrap --ro-bind / / --unshare-user true 2>/dev/null || skip "no user namespaces here"
# Who is root in a user namespace may mount a /proc only where a whole one is seen: the bench's has a read-only /proc/sys.
mkdir -p "$HOME/whole" && vm-root mount -t proc proc "$HOME/whole" || fail "a /proc"
trap 'end_all; vm-root umount "$HOME/whole"' EXIT

# (A sandbox within it begins in /tmp.)
system=(--dir /tmp --ro-bind /usr /usr --ro-bind /etc /etc --proc /proc --dev /dev)
for name in /bin /sbin /lib /lib64; do
	if [[ -L $name ]]; then
		system+=(--symlink "$(readlink "$name")" "$name")
	elif [[ -d $name ]]; then
		system+=(--ro-bind "$name" "$name")
	fi
done
# What is run, and a place of ours. Of this machine's mounts and processes there is nothing.
system+=(--ro-bind "${BIN%/*}" "${BIN%/*}" --bind "$TMPDIR" "$TMPDIR" --unshare-pid --unshare-ipc --unshare-uts --die-with-parent)
fuse=(--dev-bind /dev/fuse /dev/fuse)
# Root there: who may mount, and who is an ordinary user here.
root=(--unshare-user --uid 0 --gid 0 --cap-add ALL)
at=$TMPDIR/at
mkdir "$at"

# shellcheck disable=SC2016 # those shells'
programs='
	fail() { echo "FAIL: $*" >&2; exit 1; }
	cd "$1" || fail "cd"
	echo data >file && mkdir d && mv file d/file && [[ $(<d/file) == data ]] || fail "a file"
	[[ $(stat -c %u:%g d/file) == "$(id -u):$(id -g)" ]] || fail "its owner here: $(stat -c %u:%g d/file)"
	cp -p d/file kept && chmod 600 kept || fail "a copy"
	flock kept true || fail "a lock"
	cmp /etc/services <(cp /etc/services copy && cat copy) || fail "a larger copy"
	cp /bin/true run && ./run || fail "a program of the mount"
	rm -r d copy run || fail "removal"'
seen_by_server() {
	equal "$(vm-root stat -c %u:%g:%a "$SERVER_WORK/kept")" "$(id -u):$(id -g):600" "the owner on the server, $1"
	vm-root rm "$SERVER_WORK/kept"
	! grep 'cannot be controlled\|has no rings\|refused' "$TMPDIR/said" >&2 || fail "what it says, $1"
}

# ---- all in one ----

# shellcheck disable=SC2016 # that shell's
bwrap "${system[@]}" "${fuse[@]}" "${root[@]}" bash -c '
	bin=$1 remote=$2 at=$3 options=$4 case=$5 programs=$6
	fail() { echo "FAIL: $*" >&2; exit 1; }
	"$bin" "$remote" "$at" -o "$options" || fail "a mount"
	[[ $(findmnt -no FSTYPE "$at") == fuse.nfsrdma-fuse ]] || fail "what is mounted"
	bash -c "$programs" - "$at/$case" || exit 1
	"$bin" ctl "$at" info | grep -q "^version" || fail "ctl info"
	umount "$at" || fail "umount"
' - "$BIN" "$REMOTE" "$at" "vers=$VERS,$MOUNT_OPTIONS" "$CASE" "$programs" 2>"$TMPDIR/said" ||
	fail "all in one sandbox: $(<"$TMPDIR/said")"
seen_by_server "all in one sandbox"

# Who may not mount there is told so.
expect_error "with CAP_SYS_ADMIN (bwrap --uid 0" bwrap "${system[@]}" "${fuse[@]}" --unshare-user \
	"$BIN" "$REMOTE" "$at" -o "vers=$VERS,$MOUNT_OPTIONS"

# ---- the daemon in one, programs in another ----

bwrap "${system[@]}" "${fuse[@]}" "${root[@]}" --info-fd 3 \
	"$BIN" -f "$REMOTE" "$at" -o "vers=$VERS,$MOUNT_OPTIONS" 3>"$TMPDIR/info" >"$TMPDIR/said" 2>&1 & DAEMON=$!
first() { pid=$(grep -oE '"child-pid": *[0-9]+' "$TMPDIR/info" | grep -oE '[0-9]+'); }
until_true "the sandbox" first
there() { grep -q " $at .* fuse" "/proc/$pid/mountinfo"; }
until_true "the mount in the sandbox" there
# Of the other it has the mounts, and its processes are below that one's.
nsenter -t "$pid" --preserve-credentials --user --mount --pid -- \
	bwrap "${system[@]}" --bind "$at" /data bash -c "$programs" - "/data/$CASE" 2>>"$TMPDIR/said" ||
	fail "the daemon in another sandbox: $(<"$TMPDIR/said")"
seen_by_server "the daemon in another sandbox"
nsenter -t "$pid" --preserve-credentials --user --mount -- umount "$at" || fail "umount in the sandbox"
gone $DAEMON || fail "the daemon still runs"
wait $DAEMON || fail "the daemon's status is $?: $(<"$TMPDIR/said")"
DAEMON=

# ---- programs alone, the mount from outside ----

mount_up
bwrap "${system[@]}" --bind "$MNT" /data bash -c "$programs" - "/data/$CASE" 2>"$TMPDIR/said" ||
	fail "programs in a sandbox: $(<"$TMPDIR/said")"
bwrap "${system[@]}" --ro-bind "$MNT" /data touch "/data/$CASE/new" 2>/dev/null && fail "a file in a sandbox that may only read"
seen_by_server "programs in a sandbox"
mount_down
