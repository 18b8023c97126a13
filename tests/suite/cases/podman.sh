# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# A container that podman makes for an ordinary user, with /dev/fuse and CAP_SYS_ADMIN of its own user namespace, and
# this machine's programs: it mounts, works and unmounts.
[[ $(id -u) != 0 ]] || skip "an ordinary user's"
command -v podman >/dev/null || skip "no podman"
export XDG_RUNTIME_DIR=$HOME/runtime
root=$TMPDIR/root
mkdir -p "$HOME/whole" "$XDG_RUNTIME_DIR" && chmod 700 "$XDG_RUNTIME_DIR" && mkdir -p "$root"/{usr,etc,proc,sys,dev,tmp,run,var,bin-here,at} || fail "folders"
for name in /bin /sbin /lib /lib64; do
	[[ ! -L $name ]] || ln -s "$(readlink "$name")" "$root$name"
done
# As in the case bwrap.
vm-root mount -t proc proc "$HOME/whole" || fail "a /proc"
trap 'end_all; vm-root umount "$HOME/whole"; podman unshare rm -rf "$HOME/.local" "$XDG_RUNTIME_DIR" 2>/dev/null' EXIT
cd / || fail cd
contained() {   # RUNTIME COMMAND...
	podman --cgroup-manager=cgroupfs --runtime "$1" run --rm --network host --device /dev/fuse --cap-add SYS_ADMIN \
		-v /usr:/usr:ro -v /etc:/etc:ro -v "${BIN%/*}:/bin-here:ro" --rootfs "$root" "${@:2}"
}
# crun takes no cgroups of both versions at once.
runtime=''
for name in crun runc; do
	contained $name true 2>>"$TMPDIR/runtimes" && { runtime=$name; break; }
done
[[ $runtime ]] || skip "podman runs nothing here: $(tail -n 1 "$TMPDIR/runtimes")"
# shellcheck disable=SC2016 # that shell's
contained "$runtime" bash -c '
	remote=$1 options=$2 case=$3
	fail() { echo "FAIL: $*" >&2; exit 1; }
	/bin-here/nfsrdma-fuse "$remote" /at -o "$options" || fail "a mount"
	[[ $(findmnt -no FSTYPE /at) == fuse.nfsrdma-fuse ]] || fail "what is mounted"
	cd "/at/$case" && echo data >file && mkdir d && mv file d/file && [[ $(<d/file) == data ]] || fail "a file"
	[[ $(stat -c %u:%g d/file) == 0:0 ]] || fail "its owner here: $(stat -c %u:%g d/file)"
	cp -p d/file kept && chmod 600 kept && flock kept true || fail "a copy"
	cmp /etc/services <(cp /etc/services copy && cat copy) && rm -r d copy || fail "a larger copy"
	/bin-here/nfsrdma-fuse ctl /at info | grep -q "^version" || fail "ctl info"
	cd / && umount /at || fail "umount"
' - "$REMOTE" "vers=$VERS,$MOUNT_OPTIONS" "$CASE" 2>"$TMPDIR/said" || fail "in a container by $runtime: $(<"$TMPDIR/said")"
equal "$(vm-root stat -c %u:%g:%a "$SERVER_WORK/kept")" "$(id -u):$(id -g):600" "the owner on the server"
echo "# podman: a container by $runtime"
